# SPDX-License-Identifier: Apache-2.0
"""The part of the action planner's node for strategy `layered`: System 1 of each process, with several streams a process."""

from __future__ import annotations

from dataclasses import dataclass

from ghostshell.msg import ProcessState, SkillEvent

from ghostshell_ros.nodes.action_planner.chunk_streams import ChunkStream
from ghostshell_ros.nodes.action_planner.process_link import LayeredParts, ProcessLink
from ghostshell_ros.wire.call_messages import call_event, call_report
from planners.strategies.layered.plan import Plan
from planners.strategies.layered.step_link import ProcessTask
from planners.strategies.layered.step_planner import State, StepPlanner
from skill_kernel.codes import TaskCode

TOLD = ("DONE", "FAILED", "INTERRUPTED")
"""Outcomes in a process's history that a plan made anew is told of."""

KEPT_PLANS = 50

CLOSE_S = 0.5
"""How often a process that cannot be planned any further is looked at, whether what runs of it has ended."""


@dataclass(eq=False)
class _Process:
    planner: StepPlanner
    link: ProcessLink
    running: set[str]


class LayeredSteps:
    """System 1 of every process that is planned in layers. `plans`: whether System 2 has a model as well."""

    def __init__(self, parts: LayeredParts, *, plans: bool) -> None:
        self._parts, self._plans = parts, plans
        self._processes: dict[str, _Process] = {}
        self._known_plans: dict[str, Plan] = {}
        """The newest of each process, also of those that are not known here yet."""

    def __len__(self) -> int:
        return len(self._processes)

    def __contains__(self, process_id: str) -> bool:
        return process_id in self._processes

    def ids(self) -> list[str]:
        """The processes that are planned here."""
        return list(self._processes)

    def busy(self, process_id: str) -> bool:
        """Whether calls of a process run."""
        return process_id in self._processes and bool(self._processes[process_id].running)

    def begin(self, process: ProcessState) -> None:
        """Plan a process, or plan it anew: its plan and what was done of it are kept."""
        known = self._processes.get(process.process_id)
        if known is not None and known.planner.state is not State.ENDED:
            known.link.abandon()
            known.link.epoch = process.epoch
            known.running.clear()
            known.planner.anew()
            return
        task = ProcessTask(process.process_id, process.instruction, process.sender)
        link = ProcessLink(self._parts, task, process.epoch)
        done = [call_report(c) for c in process.history if c.outcome in TOLD]
        planner = StepPlanner(task, link, self._parts.settings, done=done, plans=self._plans)
        self._processes[process.process_id] = _Process(planner, link, set())
        planner.begin()
        if (plan := self._known_plans.get(process.process_id)) is not None:
            planner.plan(plan)

    def update(self, process: ProcessState) -> None:
        """A process that is planned here is as it stands now."""
        known = self._processes.get(process.process_id)
        if known is None or process.epoch != known.link.epoch:
            return
        if process.status == ProcessState.PAUSED:
            known.planner.paused()
        elif process.status in (ProcessState.IN_PROGRESS, ProcessState.WAITING):
            known.planner.resumed()

    def cancel(self, process_id: str) -> bool:
        """A process has ended; whether it was planned here."""
        self._known_plans.pop(process_id, None)
        known = self._processes.pop(process_id, None)
        if known is None:
            return False
        known.planner.end()
        known.link.abandon()
        return True

    def interrupt(self, process_id: str, cause: str) -> None:
        """Everything written for a process is void; its plan is kept for the case that it goes on."""
        known = self._processes.get(process_id)
        if known is not None and known.planner.state is not State.ENDED:
            known.link.abandon()
            known.planner.interrupted(cause)
            known.link.plan_ended(int(TaskCode.CANCELLED), f"interrupted: {cause}")

    def lost(self, stream: ChunkStream, why: str) -> None:
        """The other nodes have lost a stream."""
        known = self._processes.get(stream.process_id)
        if known is not None:
            self._end(known, TaskCode.NODE_UNAVAILABLE, why)

    def unmatched(self, why: str) -> None:
        """There is nobody to take streams."""
        for process in list(self._processes.values()):
            if process.link.last_stream:
                self._end(process, TaskCode.NODE_UNAVAILABLE, why)

    def _end(self, process: _Process, code: TaskCode, why: str) -> None:
        """It cannot be planned any further."""
        if process.planner.state is not State.ENDED:
            process.planner.end()
            process.link.abandon()
            process.link.plan_ended(int(code), why)
            self._close_streams(process, why)

    def _close_streams(self, process: _Process, why: str) -> None:
        """A stream whose end is lost stays open at the channel scheduler, and its process with it. What runs is done before."""
        if process not in self._processes.values():
            return
        if process.running:
            self._parts.node.call_later(CLOSE_S, lambda: self._close_streams(process, why))
        else:
            process.link.stop(why, lambda: None)

    def plan(self, process_id: str, plan: Plan) -> None:
        """System 2 has published a plan."""
        self._known_plans[process_id] = plan
        while len(self._known_plans) > KEPT_PLANS:
            del self._known_plans[next(iter(self._known_plans))]
        known = self._processes.get(process_id)
        if known is not None:
            known.planner.plan(plan)

    def observed(self) -> None:
        """There is a new observation."""
        for process in self._processes.values():
            process.planner.observed()

    def event(self, event: SkillEvent) -> None:
        """Something has happened to a process."""
        known = self._processes.get(event.process_id)
        if known is None:
            return
        planner = known.planner
        if event.type == SkillEvent.CALL_STARTED:
            known.running.add(event.call_id)
            planner.started(call_event(event))
        elif event.type == SkillEvent.CALL_ENDED:
            known.running.discard(event.call_id)
            planner.ended(call_event(event))
        elif event.type == SkillEvent.STOP_GENERATION:
            planner.stop_generation(event.stream_id, event.error_msg)
        elif event.type == SkillEvent.TURN_ENDED and event.error_code == TaskCode.TOO_MANY_PROCESSES:
            self._end(known, TaskCode.TOO_MANY_PROCESSES, event.error_msg)
        elif event.type == SkillEvent.TURN_ENDED:
            planner.stream_over(event.stream_id, event.text)
        elif event.type == SkillEvent.REPAIR:
            self._parts.node.get_logger().warning(f"the parser mended what was written in full: {event.error_msg}")

    def close(self) -> None:
        """End what is being written."""
        for process_id, process in list(self._processes.items()):
            process.planner.end()
            process.link.close_all("the action planner ends")
            self.cancel(process_id)
