# SPDX-License-Identifier: Apache-2.0
"""Node `process_scheduler` (S3): makes each instruction a process and follows it to its end; stops without any model."""

from __future__ import annotations

import secrets
import sys
from typing import Any

from builtin_interfaces.msg import Time
from ghostshell.action import RunTask
from ghostshell.msg import ProcessArray, ProcessState, SkillEvent
from ghostshell.srv import ControlProcess
from std_msgs.msg import Bool, String

from ghostshell_ros.nodes.event_writer import CLEAR_HINT, EventWriter
from ghostshell_ros.nodes.goal_server import Goal, GoalServer
from ghostshell_ros.nodes.interrupter import Interrupter
from ghostshell_ros.nodes.node_runtime import EVENTS, INSTRUCTION, LATCHED, RuntimeNode, run
from reflexes.stop_words import is_stop
from skill_kernel.codes import CallCode, TaskCode
from skill_kernel.process import Process, ProcessStatus, ProcessTable

REQUIRED = {"action_planner": "llm_chunks", "token_parser": "function_tokens", "channel_scheduler": "call_control"}
"""Nodes a running process depends on, each with a topic it publishes."""



class ProcessScheduler(RuntimeNode):
    """Owns the processes of one robot, one at a time: a new instruction interrupts the running one.

    An instruction that is nothing but a stop word halts the robot at once, without a model, until the halt is cleared.
    Topics: `instruction`, with `global_instruction` also `/instruction`, `events`, `halted` (in); `processes`, `events`
    (out). Action: `run_task`. Service: `control_process`. Parameters: `strategy`, `global_instruction`,
    `interrupt_deadline_s`, `max_instruction_chars`.
    """

    def __init__(self) -> None:
        super().__init__("process_scheduler")
        self._strategy = self.declare("strategy", "stream", "how instructions become actions", choices=("stream",))
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
        self._epoch = 0
        self._goals: dict[str, Goal] = {}
        self._events = EventWriter(self)
        self._publisher = self.create_publisher(ProcessArray, "processes", LATCHED)
        self._table = ProcessTable(lambda: secrets.token_hex(8), self._now, self._changed)
        self._interrupter = Interrupter(self, deadline_s=deadline_s, on_problem=self._problem)
        self.create_subscription(String, "instruction", lambda m: self._heard(m.data, "topic"), INSTRUCTION)
        if self.declare("global_instruction", False, "also hear /instruction (the default robot of a fleet)"):
            self.create_subscription(String, "/instruction", lambda m: self._heard(m.data, "topic"), INSTRUCTION)
        self.create_subscription(SkillEvent, "events", self._event, EVENTS)
        self.create_subscription(Bool, "halted", self._gate, LATCHED)
        self.create_service(ControlProcess, "control_process", self._control)
        self._server = GoalServer(self, RunTask, "run_task", on_goal=self._goal, on_cancel=self._cancel_goal)
        self.steady_timer(1.0, self._check_nodes)
        self._interrupter.meet(self._learn)
        self._publish()

    # -- instructions -------------------------------------------------------------------------------------------------

    def _heard(self, text: str, door: str) -> None:
        refusal = self._refusal(text)
        if refusal is None:
            self._begin(text, door, "")
        elif refusal[0]:
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

    def _begin(self, text: str, door: str, sender: str) -> Process:
        running = self._table.running
        if running is not None:
            self._end(running.process_id, ProcessStatus.STOPPED, TaskCode.REPLACED, "a newer instruction took over")
        process = self._table.create(text, door=door, sender=sender, strategy=self._strategy, epoch=self._epoch)
        self._events.write(SkillEvent.PROCESS_STARTED, process_id=process.process_id, text=text[:1000])
        return process

    def _stop_everything(self, text: str) -> None:
        self._halting += 1
        self._interrupter.halt(then=lambda _: self._halt_answered())
        running = self._table.running
        if running is not None:
            self._end(running.process_id, ProcessStatus.STOPPED, TaskCode.ROBOT_HALTED, f"stopped: {text.strip()[:100]}")
        else:
            self._halting += 1
            self._interrupter.interrupt("", "stop word", then=self._all_interrupted)

    def _halt_answered(self) -> None:
        self._halting -= 1

    def _all_interrupted(self, epoch: int) -> None:
        self._halting -= 1
        self._learn(epoch)

    def _learn(self, epoch: int) -> None:
        """An interrupt of every process voids older goals of processes to come, too: they begin with the newest epoch."""
        self._epoch = max(self._epoch, epoch)

    def _end(self, process_id: str, status: ProcessStatus, code: TaskCode, why: str) -> None:
        """End a process now and stop whatever it does."""
        self._interrupter.interrupt(process_id, why, then=self._learn)
        self._table.end(process_id, status, int(code), why)

    # -- the RunTask action -------------------------------------------------------------------------------------------

    def _goal(self, goal: Goal) -> None:
        refusal = self._refusal(goal.request.instruction)
        if refusal is not None:
            status = ProcessState.STOPPED if refusal[0] is TaskCode.NONE else ProcessState.FAILED
            result = RunTask.Result(status=status, error_code=int(refusal[0]), error_msg=refusal[1], cost_usd=-1.0)
            (goal.succeed if refusal[0] is TaskCode.NONE else goal.abort)(result)
            return
        process = self._begin(goal.request.instruction, goal.request.door or "action", goal.request.sender)
        self._goals[process.process_id] = goal
        goal.feedback(RunTask.Feedback(state=_message(process), note="started"))

    def _cancel_goal(self, goal: Goal) -> None:
        for process_id, other in list(self._goals.items()):
            if other is goal:
                self._end(process_id, ProcessStatus.STOPPED, TaskCode.CANCELLED, "cancelled by its client")

    def _finish_goal(self, process: Process) -> None:
        goal = self._goals.pop(process.process_id, None)
        if goal is None:
            return
        result = RunTask.Result(
            status=int(process.status), error_code=process.code, error_msg=process.message, process_id=process.process_id,
            summary=f"{process.calls_done} calls done, {process.calls_failed} failed or refused",
            calls_done=process.calls_done, calls_failed=process.calls_failed, prompt_tokens=process.prompt_tokens,
            completion_tokens=process.completion_tokens, cost_usd=process.cost_usd,
        )  # fmt: skip
        if process.status is ProcessStatus.SUCCESS:
            goal.succeed(result)
        elif process.code == TaskCode.CANCELLED:
            goal.canceled(result)
        else:
            goal.abort(result)

    # -- what the other nodes report ----------------------------------------------------------------------------------

    def _event(self, event: SkillEvent) -> None:
        process = self._table.get(event.process_id)
        if process is None or process.status.ended:
            return
        changes: dict[str, Any] = {}
        if event.type == SkillEvent.STREAM_STARTED:
            changes["drained"] = False
        elif event.type == SkillEvent.DRAINED:
            changes["drained"] = True
        elif event.type == SkillEvent.PLAN_ENDED:
            changes.update(plan_ended=True, code=event.error_code, message=event.error_msg)
            if event.error_code in (TaskCode.CANCELLED, CallCode.STALE_EPOCH):
                self._interrupter.learn_epoch(self._learn)
        elif event.type == SkillEvent.CALL_ENDED and event.outcome == SkillEvent.DONE:
            changes["calls_done"] = process.calls_done + 1
        elif event.type == SkillEvent.CALL_ENDED and event.error_code == CallCode.KERNEL_UNAVAILABLE:
            # Nobody knows what still moves: interrupting halts the gate where the kernel does not answer.
            self._table.change(process.process_id, calls_failed=process.calls_failed + 1)
            self._end(process.process_id, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, event.error_msg)
        elif event.type == SkillEvent.CALL_ENDED and event.error_code == CallCode.STALE_EPOCH:
            why = f"somebody else interrupted it at the skill kernel: {event.error_msg}"
            self._end(process.process_id, ProcessStatus.STOPPED, TaskCode.CANCELLED, why)
        elif event.type == SkillEvent.CALL_ENDED and event.outcome in (SkillEvent.FAILED, SkillEvent.REFUSED):
            changes["calls_failed"] = process.calls_failed + 1
        elif event.type == SkillEvent.STREAM_ENDED and event.node == "action_planner":
            changes.update(_usage(process, event))
        if changes:
            self._table.change(process.process_id, **changes)

    def _gate(self, message: Bool) -> None:
        was, self._halted = self._halted, message.data
        running = self._table.running
        if self._halted and not was and running is not None:
            self._end(running.process_id, ProcessStatus.STOPPED, TaskCode.ROBOT_HALTED, "the robot was halted")
        elif was and not self._halted:
            self._events.write(SkillEvent.HALT_CLEARED, text="the robot takes instructions again")

    def _check_nodes(self) -> None:
        running = self._table.running
        if running is None or self._now() - running.created_s < 5.0:
            return
        gone = [name for name, topic in REQUIRED.items() if self.count_publishers(topic) == 0]
        if gone:
            why = f"node {' and '.join(gone)} is gone; start it again and repeat the instruction"
            self._end(running.process_id, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, why)

    def _problem(self, why: str) -> None:
        self.get_logger().error(why)
        self._events.write(SkillEvent.NOTICE, error_code=int(TaskCode.NODE_UNAVAILABLE), error_msg=why)

    def _control(self, request: ControlProcess.Request, response: ControlProcess.Response) -> ControlProcess.Response:
        running = self._table.running
        process = self._table.get(request.process_id) if request.process_id else running
        if process is None:
            response.error_code = ControlProcess.Request.NO_SUCH_PROCESS
            response.error_msg = f"there is no process '{request.process_id}'" if request.process_id else "nothing runs"
        elif process.status.ended or request.command != ControlProcess.Request.STOP:
            response.error_code = ControlProcess.Request.NOT_ALLOWED
            response.error_msg = f"process {process.process_id} is {process.status.name}; only a running one can be stopped"
        else:
            cause = request.cause or "stopped by control_process"
            self._end(process.process_id, ProcessStatus.STOPPED, TaskCode.CANCELLED, cause)
            response.success = True
        return response

    # -- what is published --------------------------------------------------------------------------------------------

    def _changed(self, process: Process) -> None:
        self._publish()
        goal = self._goals.get(process.process_id)
        if goal is not None:
            goal.feedback(RunTask.Feedback(state=_message(process), note=process.message))
        if process.status.ended:
            self._events.write(
                SkillEvent.PROCESS_ENDED, process_id=process.process_id, error_code=process.code, error_msg=process.message,
                text=process.status.name,
            )  # fmt: skip
            self._finish_goal(process)

    def _publish(self) -> None:
        stamp = self.get_clock().now().to_msg()
        self._publisher.publish(ProcessArray(stamp=stamp, processes=[_message(p) for p in self._table.processes]))

    def _now(self) -> float:
        return float(self.get_clock().now().nanoseconds) * 1e-9


def _usage(process: Process, event: SkillEvent) -> dict[str, Any]:
    cost = max(process.cost_usd, 0.0) + event.cost_usd if event.cost_usd >= 0 else process.cost_usd
    return {
        "prompt_tokens": process.prompt_tokens + event.prompt_tokens,
        "completion_tokens": process.completion_tokens + event.completion_tokens,
        "cost_usd": cost,
        "turn": process.turn + 1,
    }


def _message(process: Process) -> ProcessState:
    return ProcessState(
        process_id=process.process_id, instruction=process.instruction, source=ProcessState.USER, door=process.door,
        sender=process.sender, status=int(process.status), strategy=process.strategy, epoch=process.epoch,
        turn=process.turn, created=_time(process.created_s), ended=_time(process.ended_s), error_code=process.code,
        message=process.message, calls_done=process.calls_done, calls_failed=process.calls_failed,
        prompt_tokens=process.prompt_tokens, completion_tokens=process.completion_tokens, cost_usd=process.cost_usd,
    )  # fmt: skip


def _time(seconds: float) -> Time:
    whole = int(seconds)
    return Time(sec=whole, nanosec=int((seconds - whole) * 1e9))


def main() -> int:
    """Entry point of the executable `process_scheduler`."""
    return run(ProcessScheduler)


if __name__ == "__main__":
    sys.exit(main())
