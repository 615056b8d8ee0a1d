# SPDX-License-Identifier: Apache-2.0
"""Node `process_scheduler` (S3): makes each instruction a process and follows it to its end; stops without any model."""

from __future__ import annotations

import secrets
import sys

from ghostshell.action import RunTask
from ghostshell.msg import KernelState, ProcessArray, ProcessHeartbeat, ProcessState, SkillEvent
from ghostshell.srv import ControlProcess, ProcessLease
from std_msgs.msg import Bool, String

from ghostshell_ros.data import data_folder
from ghostshell_ros.nodes.diagnostics import Health, Level
from ghostshell_ros.nodes.event_writer import CLEAR_HINT, EventWriter
from ghostshell_ros.nodes.goal_server import Goal, GoalServer
from ghostshell_ros.nodes.interrupter import Interrupter
from ghostshell_ros.nodes.lease_client import LeaseClient
from ghostshell_ros.nodes.node_runtime import (
    EVENTS,
    INSTRUCTION,
    LATCHED,
    SENSORS,
    NodeStartError,
    RuntimeNode,
    run,
)
from ghostshell_ros.nodes.process_messages import call_record, process_state, task_result
from reflexes.stop_words import is_stop
from skill_kernel.codes import TaskCode
from skill_kernel.process import Process, ProcessSource
from skill_kernel.process_commands import (
    Changed,
    Command,
    EndProcess,
    Held,
    InterruptPlan,
    PauseProcess,
    ProcessError,
    ReleaseProcess,
    ResumeProcess,
    SchedulerSettings,
)
from skill_kernel.process_scheduler import ProcessScheduler
from skill_kernel.process_store import ProcessStore, StoreError
from skill_kernel.robot import RobotConfig, RobotConfigError

REQUIRED = {"action_planner": "llm_chunks", "token_parser": "function_tokens", "channel_scheduler": "call_control"}
"""Nodes a running process depends on, each with a topic it publishes."""

NAME_CHARS = 100
"""Of a task's sender and door so much is kept."""

NODES_WAIT_S = 5.0
"""How old a process is before it is ended because a node it depends on is not there."""

SILENT_CHECKS = 5
"""After so many looks, 0.2 s apart, without its heartbeat the channel scheduler is gone."""

TICK_S = 0.25
"""How often idle behaviour and what waits is looked at."""


class ProcessSchedulerNode(RuntimeNode):
    """Owns the processes of one robot. A new instruction joins the running ones; where two need the same exclusive
    subsystem, the preemption table decides (semantics section 5).

    An instruction that is nothing but a stop word halts the robot at once, without a model, until the halt is cleared.
    One that begins with a stop word ("stop, nod, then resume") pauses or ends what runs at once and is not latched.
    Every process and its history is kept in `<data>/processes/<robot>.sqlite3`; living ones of an earlier run come back
    paused by the user.

    Topics: `instruction`, with `global_instruction` also `/instruction`, `events`, `kernel_state`, `halted`,
    `scheduler_heartbeat` (in); `processes` (latched), `process_heartbeat` (10 Hz), `events` (out). Action: `run_task`.
    Service: `control_process`; client of `skill_kernel/process_lease`, `halt` and the `interrupt` services. Parameters:
    `robot`, `data_dir`, `strategy`, `global_instruction`, `interrupt_deadline_s`, `max_instruction_chars`,
    `max_processes`, `idle_after_s`.
    """

    def __init__(self) -> None:
        super().__init__("process_scheduler")
        settings = self._settings()
        self._reactive_doors = self.declare(
            "reactive_doors", [""], "doors of run_task whose tasks are reactive; through every other a user speaks"
        )
        self._max_chars = self.declare(
            "max_instruction_chars", 8000, "longer instructions are refused [characters]", minimum=1, maximum=1_000_000
        )
        deadline_s = self.declare(
            "interrupt_deadline_s", 0.5, "a node that does not answer an interrupt in this time is skipped [s]",
            minimum=0.05, maximum=10.0,
        )  # fmt: skip
        self._robot = self.get_namespace().strip("/")
        self._halted = False
        self._halting = 0
        self._goals: dict[str, Goal] = {}
        self._told: set[str] = set()
        self._publish_due = False
        self._store: ProcessStore | None = None
        self._events = EventWriter(self)
        self._publisher = self.create_publisher(ProcessArray, "processes", LATCHED)
        self._heartbeat = self.create_publisher(ProcessHeartbeat, "process_heartbeat", SENSORS)
        self._interrupter = Interrupter(self, deadline_s=deadline_s, on_problem=self._problem)
        self._leases = LeaseClient(self, self._interrupter, self._problem)
        self._core = ProcessScheduler(
            self._command, new_id=lambda: secrets.token_hex(8), now=self._now, settings=settings
        )
        self._open_store(self.declare("data_dir", "", "folder of the processes; empty: $GHOSTSHELL_DATA or the user's"))
        self.create_subscription(String, "instruction", lambda m: self._heard(m.data, "topic"), INSTRUCTION)
        if self.declare("global_instruction", False, "also hear /instruction (the default robot of a fleet)"):
            self.create_subscription(String, "/instruction", lambda m: self._heard(m.data, "topic"), INSTRUCTION)
        self.create_subscription(SkillEvent, "events", self._event, EVENTS)
        self.create_subscription(KernelState, "kernel_state", self._kernel_state, LATCHED)
        self.create_subscription(Bool, "halted", self._gate, LATCHED)
        self.create_service(ControlProcess, "control_process", self._control)
        self._server = GoalServer(self, RunTask, "run_task", on_goal=self._goal, on_cancel=self._cancel_goal)
        self.steady_timer(1.0, self._check_nodes)
        self.steady_timer(TICK_S, self._core.tick)
        self.steady_timer(0.1, self._beat)
        self._unheard: int | None = None
        self.create_subscription(ProcessHeartbeat, "scheduler_heartbeat", self._scheduler_beat, SENSORS)
        self.steady_timer(0.2, self._watch_scheduler)
        self._interrupter.meet(self._met)
        self._publish()

    def _settings(self) -> SchedulerSettings:
        robot = self.declare("robot", "coco", "robot, a name in config/robots or the path of a YAML file")
        try:
            idle = RobotConfig.load(robot).idle
        except RobotConfigError as error:
            raise NodeStartError(f"robot '{robot}': {error}") from error
        return SchedulerSettings(
            strategy=self.declare("strategy", "stream", "how instructions become actions", choices=("stream",)),
            idle=idle,
            idle_after_s=self.declare(
                "idle_after_s", 5.0, "idle behaviour begins when nothing else has run for so long [s]",
                minimum=0.0, maximum=3600.0,
            ),
            max_processes=self.declare(
                "max_processes", 8, "processes that may live at a time, more are refused", minimum=1, maximum=16
            ),
        )

    def _open_store(self, data_dir: str) -> None:
        path = data_folder(data_dir) / "processes" / f"{self._robot.replace('/', '.') or 'robot'}.sqlite3"
        try:
            self._store = ProcessStore(path, on_problem=lambda why: self.call_soon(self._store_failed, why))
        except StoreError as error:
            self.call_soon(self._store_failed, f"{error}; until then processes are not kept")
            return
        self._told.update(p.process_id for p in self._store.found)
        self._core.restore(self._store.found)

    def _store_failed(self, why: str) -> None:
        self._store = None
        self._problem(why)

    def _met(self, epoch: int) -> None:
        self._core.learn_epoch(epoch)
        self._leases.meet(self._core.reach)

    # -- instructions -------------------------------------------------------------------------------------------------

    def _heard(self, text: str, door: str) -> None:
        refusal = self._refusal(text)
        if refusal is None:
            try:
                self._core.instruct(text, door=door)
                return
            except ProcessError as error:
                refusal = TaskCode.TOO_MANY_PROCESSES, str(error)
        if refusal[0]:
            self._events.write(SkillEvent.NOTICE, error_code=int(refusal[0]), error_msg=refusal[1], text=text[:200])

    def _refusal(self, text: str) -> tuple[TaskCode, str] | None:
        """Why an instruction starts no process: NONE when it was a stop word, which has then been obeyed."""
        if is_stop(text, self._robot):
            self._stop_everything(text)
            return TaskCode.NONE, "stopped and halted; " + CLEAR_HINT
        if not text.strip():
            return TaskCode.EMPTY_INSTRUCTION, "the instruction is empty; say what the robot should do"
        if len(text) > self._max_chars:
            why = f"the instruction has {len(text)} characters, more than {self._max_chars}; say it shorter"
            return TaskCode.EMPTY_INSTRUCTION, why
        if self._halted or self._halting:
            return TaskCode.ROBOT_HALTED, f"the robot is halted; {CLEAR_HINT}"
        return None

    def _stop_everything(self, text: str) -> None:
        self._halting += 1
        self._interrupter.halt(then=lambda _: self._halt_answered())
        if self._core.living:
            self._core.end_all(f"stopped: {text.strip()[:100]}")
        else:
            self._halting += 1
            self._interrupter.interrupt("", "stop word", then=self._all_interrupted)

    def _halt_answered(self) -> None:
        self._halting -= 1

    def _all_interrupted(self, epoch: int) -> None:
        self._halting -= 1
        self._core.learn_epoch(epoch)

    # -- what the core asks for ---------------------------------------------------------------------------------------

    def _command(self, command: Command) -> None:
        if isinstance(command, Changed):
            self._changed(command.process)
        elif isinstance(command, PauseProcess):
            pause = command
            self._leases.pause(pause.process_id, pause.cause, lambda answer: self._paused(pause, answer))
        elif isinstance(command, ResumeProcess):
            resume = command
            self._leases.resume(resume.process_id, resume.cause, lambda answer: self._resumed(resume, answer))
        elif isinstance(command, EndProcess):
            self._leases.end(command.process_id, command.cause, self._core.learn_epoch)
        elif isinstance(command, ReleaseProcess):
            self._leases.release(command.process_id, "it has ended")
        elif isinstance(command, InterruptPlan):
            process_id = command.process_id
            self._interrupter.interrupt(
                process_id, command.cause, then=lambda epoch: self._core.interrupted(process_id, epoch)
            )

    def _paused(self, command: PauseProcess, answer: ProcessLease.Response | None) -> None:
        if answer is None:
            # Nobody knows whether it still moves: the interrupt that follows halts the gate if the kernel is silent.
            self._core.paused(command.process_id, ["unknown"])
        else:
            self._core.paused(command.process_id, list(answer.stopped))

    def _resumed(self, command: ResumeProcess, answer: ProcessLease.Response | None) -> None:
        ok = answer is not None and answer.success
        holders = ["nobody known"] if answer is None else list(answer.holders)
        self._core.resumed(command.process_id, command.cause, ok, holders)

    def _changed(self, process: Process) -> None:
        if self._store is not None:
            self._store.save(process)
        fresh = process.process_id not in self._told
        if fresh or process.status.ended:
            self._publish()
        elif not self._publish_due:
            self._publish_due = True
            self.call_soon(self._publish)
        if fresh:
            self._told.add(process.process_id)
            self._events.write(SkillEvent.PROCESS_STARTED, process_id=process.process_id, text=process.instruction[:1000])
        goal = self._goals.get(process.process_id)
        if goal is not None:
            goal.feedback(RunTask.Feedback(state=process_state(process), note=process.message))
        if process.status.ended:
            self._events.write(
                SkillEvent.PROCESS_ENDED, process_id=process.process_id, error_code=process.code, error_msg=process.message,
                text=process.status.name,
            )  # fmt: skip
            self._finish_goal(process)

    def _publish(self) -> None:
        self._publish_due = False
        states = [process_state(p) for p in self._core.processes] if hasattr(self, "_core") else []
        self._publisher.publish(ProcessArray(stamp=self.get_clock().now().to_msg(), processes=states))

    def _beat(self) -> None:
        """The skill kernel frees what a process holds that nobody answers for any more."""
        self._heartbeat.publish(ProcessHeartbeat(process_ids=[p.process_id for p in self._core.living]))

    # -- the RunTask action and the ControlProcess service ------------------------------------------------------------

    def _goal(self, goal: Goal) -> None:
        request = goal.request
        refusal = self._refusal(request.instruction)
        if refusal is None:
            try:
                door = request.door or "action"
                source = ProcessSource.REACTIVE if door in self._reactive_doors else ProcessSource.USER
                process = self._core.instruct(
                    request.instruction, door=door[:NAME_CHARS], sender=request.sender[:NAME_CHARS], source=source
                )
                self._goals[process.process_id] = goal
                goal.feedback(RunTask.Feedback(state=process_state(process), note="started"))
                return
            except ProcessError as error:
                refusal = TaskCode.TOO_MANY_PROCESSES, str(error)
        status = ProcessState.STOPPED if refusal[0] is TaskCode.NONE else ProcessState.FAILED
        result = RunTask.Result(status=status, error_code=int(refusal[0]), error_msg=refusal[1], cost_usd=-1.0)
        (goal.succeed if refusal[0] is TaskCode.NONE else goal.abort)(result)

    def _cancel_goal(self, goal: Goal) -> None:
        for process_id, other in list(self._goals.items()):
            if other is goal:
                self._core.stop(process_id, "cancelled by its client")

    def _finish_goal(self, process: Process) -> None:
        goal = self._goals.pop(process.process_id, None)
        if goal is None:
            return
        if process.status == ProcessState.SUCCESS:
            goal.succeed(task_result(process))
        elif process.code == TaskCode.CANCELLED:
            goal.canceled(task_result(process))
        else:
            goal.abort(task_result(process))

    def _control(self, request: ControlProcess.Request, response: ControlProcess.Response) -> ControlProcess.Response:
        names = {
            ControlProcess.Request.STOP: "stop", ControlProcess.Request.PAUSE: "pause", ControlProcess.Request.RESUME: "resume",
        }  # fmt: skip
        name = names.get(request.command, "")
        try:
            process_id = response.process_id = self._core.chosen(request.process_id, name).process_id
            if name == "stop":
                self._core.stop(process_id, request.cause or "stopped by control_process")
            elif name == "pause":
                self._core.pause(process_id)
            elif name == "resume" and (self._halted or self._halting):
                raise ProcessError(f"the robot is halted; {CLEAR_HINT}")
            elif name == "resume":
                response.error_msg = self._core.resume(process_id)
            else:
                raise ProcessError(f"command {request.command} is unknown; use STOP, PAUSE or RESUME")
            response.success = True
        except KeyError as error:
            response.error_code, response.error_msg = ControlProcess.Request.NO_SUCH_PROCESS, str(error.args[0])
        except ProcessError as error:
            response.error_code, response.error_msg = ControlProcess.Request.NOT_ALLOWED, str(error)
        return response

    # -- what the other nodes report ----------------------------------------------------------------------------------

    def _event(self, event: SkillEvent) -> None:
        process_id = event.process_id
        if event.type == SkillEvent.STREAM_STARTED:
            self._core.stream_started(process_id, event.stream_id)
        elif event.type == SkillEvent.DRAINED:
            self._core.drained(process_id)
        elif event.type == SkillEvent.CONTENTION:
            self._core.contention(process_id, event.text)
        elif event.type == SkillEvent.PLAN_ENDED:
            if event.error_code == TaskCode.CANCELLED:
                self._interrupter.learn_epoch(self._core.learn_epoch)
            self._core.plan_ended(process_id, event.epoch, event.error_code, event.error_msg)
        elif event.type == SkillEvent.CALL_STARTED:
            self._core.call_started(process_id, call_record(event))
        elif event.type == SkillEvent.CALL_ENDED:
            self._core.call_ended(process_id, event.stream_id, call_record(event))
        elif event.type == SkillEvent.STREAM_ENDED and event.node == "action_planner":
            self._core.usage(process_id, event.prompt_tokens, event.completion_tokens, event.cost_usd)

    def _kernel_state(self, state: KernelState) -> None:
        self._core.kernel_state(
            {p.process_id: Held(tuple(p.subsystems), frozenset(p.pause_causes)) for p in state.processes}
        )

    def _gate(self, message: Bool) -> None:
        was, self._halted = self._halted, message.data
        self._core.halted(message.data)
        if was and not self._halted:
            self._events.write(SkillEvent.HALT_CLEARED, text="the robot takes instructions again")

    def _check_nodes(self) -> None:
        old = [p for p in self._core.living if not p.pause_causes and self._now() - p.created_s >= NODES_WAIT_S]
        gone = [name for name, topic in REQUIRED.items() if self.count_publishers(topic) == 0] if old else []
        for process in old if gone else ():
            why = f"node {' and '.join(gone)} is gone; start it again and repeat the instruction"
            self._core.fail(process.process_id, TaskCode.NODE_UNAVAILABLE, why)

    def _scheduler_beat(self, _: ProcessHeartbeat) -> None:
        self._unheard = 0

    def _watch_scheduler(self) -> None:
        """Checks are counted, not seconds: a node that was stalled itself finds old beats before it has missed enough."""
        if self._unheard is None:
            return
        self._unheard += 1
        if self._unheard > SILENT_CHECKS:
            self._unheard = None
            if self._core.living:
                why = "node channel_scheduler is silent, and with it the calls that waited; repeat the instruction"
                self._core.calls_lost(why)

    def _problem(self, why: str) -> None:
        self.get_logger().error(why)
        self._events.write(SkillEvent.NOTICE, error_code=int(TaskCode.NODE_UNAVAILABLE), error_msg=why)

    def _now(self) -> float:
        return float(self.get_clock().now().nanoseconds) * 1e-9

    def health(self) -> Health:
        """How many processes live, and whether they are kept on disk."""
        living = self._core.living
        values = {"living": len(living), "paused": sum(bool(p.pause_causes) for p in living)}
        if self._store is None:
            return Health("processes are not kept on disk", Level.WARN, values)
        return Health(f"{len(living)} processes", Level.OK, values)

    def close(self) -> None:
        """Write what is left of the processes."""
        if self._store is not None:
            self._store.close()


def main() -> int:
    """Entry point of the executable `process_scheduler`."""
    return run(ProcessSchedulerNode)


if __name__ == "__main__":
    sys.exit(main())
