# SPDX-License-Identifier: Apache-2.0
"""The part of the action planner's node for strategy `layered`: System 1 of each process, with several streams a process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ghostshell.msg import ProcessState, SkillEvent

from ghostshell_ros.nodes.call_messages import call_event, call_report
from ghostshell_ros.nodes.chunk_streams import ChunkStream, ChunkStreams
from ghostshell_ros.nodes.event_writer import EventWriter
from ghostshell_ros.nodes.layer_model import LayerModel
from ghostshell_ros.nodes.node_runtime import RuntimeNode
from ghostshell_ros.nodes.robot_setup import RobotSetup
from ghostshell_ros.nodes.ros_clock import SteadyClock
from ghostshell_ros.nodes.scene import Scene
from ghostshell_ros.shell.mapper import Refusal
from planners.blocks import Layer
from planners.layered.direct_commands import DirectCommands
from planners.layered.global_events import Judge
from planners.layered.judging import SentenceJudge
from planners.layered.plan import GlobalEvent, Plan, Subtask
from planners.layered.reliance import MOVED_M, Reliance, reliance
from planners.layered.step_link import ProcessTask, StepSettings
from planners.layered.step_planner import State, StepPlanner
from planners.layered.step_prompt import (
    RobotFacts,
    Situation,
    first_action_message,
    first_action_system,
    step_message,
    step_system,
)
from planners.llm.base import Message, ModelRequest
from planners.prompt import CallReport
from skill_kernel.codes import ModelCode, TaskCode
from skill_kernel.observation.accessors import Accessor
from skill_kernel.observation.model import Observation

FIRST_TOKENS = 120
"""Length of a first action at most [tokens]."""
TOLD = ("DONE", "FAILED", "INTERRUPTED")
"""Outcomes in a process's history that a plan made anew is told of."""

KEPT_PLANS = 50


@dataclass(frozen=True)
class LayeredParts:
    """What all processes of the node share."""

    node: RuntimeNode
    robot: RobotSetup
    facts: RobotFacts
    model: LayerModel
    streams: ChunkStreams
    events: EventWriter
    scene: Scene
    judge: SentenceJudge | None
    commands: DirectCommands
    accessors: Mapping[str, Accessor]
    settings: StepSettings
    max_output_tokens: int


class ProcessLink:
    """The `StepLink` and the `Outlet` of one process."""

    def __init__(self, parts: LayeredParts, task: ProcessTask, epoch: int) -> None:
        self._parts, self._task = parts, task
        self._open: dict[str, ChunkStream] = {}
        self.epoch = epoch
        self.last_stream = ""
        self.model, self.clock, self.outlet = parts.model, SteadyClock(parts.node), self
        self.accessors = parts.accessors
        self.first_actions: Sequence[str] = parts.facts.first_actions
        self.judge: Judge | None = self._judge if parts.judge is not None else None

    def _judge(self, sentence: str, answer: object) -> None:
        assert self._parts.judge is not None and callable(answer)
        self._parts.judge.ask(self._task.process_id, sentence, lambda judged: answer(judged.holds))

    # -- to the robot -------------------------------------------------------------------------------------------------

    def open(self, turn: int) -> str:
        stream = self._parts.streams.open(self._task.process_id, self.epoch, turn)
        self._open[stream.stream_id] = stream
        self.last_stream = stream.stream_id
        return stream.stream_id

    def text(self, stream_id: str, text: str) -> None:
        self._parts.streams.text(self._open[stream_id], text)

    def close(self, stream_id: str, code: int = 0, why: str = "") -> None:
        stream = self._open.pop(stream_id, None)
        if stream is not None and self._parts.streams.end(stream, code, why):
            self._write(SkillEvent.STREAM_ENDED, stream_id=stream_id, error_code=code, error_msg=why)

    def abandon(self) -> None:
        """What is being written is void."""
        for stream in self._open.values():
            self._parts.streams.abandon(stream)
        self._open.clear()
        self._parts.streams.forget(self._task.process_id)

    def check(self, name: str, attrs: Mapping[str, str]) -> str:
        mapped = self._parts.robot.mapper.map(name, attrs)
        return mapped.message if isinstance(mapped, Refusal) else ""

    def commands(self, text: str, done: Sequence[CallReport]) -> str:
        return self._parts.commands.read(text, done)

    def way_back(self, before: Reliance) -> str:
        motion, pose = self._parts.robot.config.resume_motion, before.pose
        if not motion or pose is None or self.relies_on().moved_m(before) <= MOVED_M:
            return ""
        return motion.format(x_m=pose.x, y_m=pose.y, yaw_deg=math.degrees(pose.yaw))

    # -- what it observes ---------------------------------------------------------------------------------------------

    def observation(self) -> Observation | None:
        return self._parts.scene.seen()

    def steady_now(self) -> float:
        return self._parts.node.steady_now()

    def relies_on(self) -> Reliance:
        return reliance(self.observation(), self.steady_now())

    # -- prompts ------------------------------------------------------------------------------------------------------

    def step_request(self, situation: Situation) -> ModelRequest:
        parts = self._parts
        message = Message("user", step_message(situation, parts.scene.observation()), tuple(parts.scene.images()))
        return ModelRequest(
            step_system(parts.facts), (message,), max_output_tokens=parts.max_output_tokens,
            deadline_s=parts.settings.deadline_s, instruction=self._task.instruction,
        )  # fmt: skip

    def first_request(self) -> ModelRequest | None:
        parts, task = self._parts, self._task
        known = {skill.name for skill in parts.robot.registry}
        if not known & set(self.first_actions) or not parts.model.thinks(Layer.S1P):
            return None
        message = Message("user", first_action_message(task.instruction, task.sender, parts.scene.observation()))
        return ModelRequest(
            first_action_system(parts.facts), (message,), max_output_tokens=FIRST_TOKENS,
            deadline_s=parts.settings.first_deadline_s, instruction=task.instruction,
        )  # fmt: skip

    def allowance(self) -> tuple[bool, float, str]:
        return self._parts.model.allowance(self._task.process_id, Layer.S1)

    # -- what it tells ------------------------------------------------------------------------------------------------

    def plan_ended(self, code: int, why: str) -> None:
        self._write(
            SkillEvent.PLAN_ENDED, stream_id=self.last_stream, error_code=code, error_msg=why, epoch=self.epoch
        )  # fmt: skip

    def subtask_done(self, subtask: Subtask) -> None:
        self._write(SkillEvent.SUBTASK_DONE, call_id=subtask.id, text=subtask.description)

    def fired(self, event: GlobalEvent) -> None:
        self._write(SkillEvent.GLOBAL_EVENT, call_id=event.id, text=event.response)

    def notice(self, why: str) -> None:
        self._write(SkillEvent.NOTICE, error_msg=why)

    def skipped(self, why: str) -> None:
        self._parts.model.skipped(Layer.S1, self._task.process_id, why)

    def degraded(self, layer: Layer, how: str, why: str) -> None:
        self._parts.model.degraded(layer, self._task.process_id, how, why)

    def _write(self, kind: int, **fields: object) -> None:
        self._parts.events.write(kind, process_id=self._task.process_id, **fields)


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
        if known is not None and known.planner.state is not State.ENDED:
            known.planner.end()
            known.link.abandon()
            known.link.plan_ended(int(TaskCode.NODE_UNAVAILABLE), why)

    def unmatched(self, why: str) -> None:
        """There is nobody to take streams."""
        for process in list(self._processes.values()):
            if process.link.last_stream and process.planner.state is not State.ENDED:
                process.planner.end()
                process.link.abandon()
                process.link.plan_ended(int(TaskCode.NODE_UNAVAILABLE), why)

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
        elif event.type == SkillEvent.TURN_ENDED:
            planner.stream_over(event.stream_id, event.text)
        elif event.type == SkillEvent.REPAIR:
            self._parts.node.get_logger().warning(f"the parser mended what was written in full: {event.error_msg}")

    def close(self) -> None:
        """End what is being written."""
        for process_id, process in list(self._processes.items()):
            process.planner.end()
            for stream in list(process.link._open):
                process.link.close(stream, int(ModelCode.MODEL_CANCELLED), "the action planner ends")
            self.cancel(process_id)
