# SPDX-License-Identifier: Apache-2.0
"""The part of the process scheduler's node that is spoken to: instructions, tasks, and commands for processes."""

from __future__ import annotations

from collections.abc import Callable

from ghostshell.action import RunTask
from ghostshell.msg import ProcessState
from ghostshell.srv import ControlProcess
from std_msgs.msg import String

from ghostshell_ros.nodes.process_scheduler.robot_link import RobotLink
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.node_runtime import INSTRUCTION, RuntimeNode
from ghostshell_ros.wire.events import CLEAR_HINT, EventWriter
from ghostshell_ros.wire.process_messages import process_state, task_result
from planners.language.stop_words import is_stop
from skill_kernel.codes import TaskCode
from skill_kernel.events import Notice
from skill_kernel.processes.process import Process, ProcessError, ProcessSource
from skill_kernel.processes.scheduler import ProcessScheduler

NAME_CHARS = 100
"""Characters that are kept of a task's sender and door."""
INSTRUCTION_CHARS = 80
"""Characters of an instruction that the log shows."""
SAY_S = 0.1
"""A flood of refused instructions is logged no more often."""

_COMMANDS = {
    ControlProcess.Request.STOP: "stop",
    ControlProcess.Request.PAUSE: "pause",
    ControlProcess.Request.RESUME: "resume",
}


class InstructionServer:
    """Subscribe `instruction` and, with `global_instruction`, `/instruction`; serve `run_task` and `control_process`.

    A stop word halts the robot here, before anything is made of it. Declares `reactive_doors`, `max_instruction_chars` and
    `global_instruction`."""

    def __init__(
        self,
        node: RuntimeNode,
        core: ProcessScheduler,
        events: EventWriter,
        link: RobotLink,
        *,
        gate_halted: Callable[[], bool],
    ) -> None:
        self._core, self._events, self._link, self._gate_halted = core, events, link, gate_halted
        self._robot = node.get_namespace().strip("/")
        self._log = node.get_logger()
        self._halting = 0
        self._goals: dict[str, Goal] = {}
        self._reactive_doors = node.declare(
            "reactive_doors", [""], "doors of run_task whose tasks are reactive; through every other a user speaks"
        )
        self._max_chars = node.declare(
            "max_instruction_chars", 8000, "longer instructions are refused [characters]", minimum=1, maximum=1_000_000
        )
        node.create_subscription(String, "instruction", self._heard, INSTRUCTION)
        if node.declare("global_instruction", False, "also hear /instruction (the default robot of a fleet)"):
            node.create_subscription(String, "/instruction", self._heard, INSTRUCTION)
        node.create_service(ControlProcess, "control_process", self._control)
        self._server = GoalServer(node, RunTask, "run_task", on_goal=self._goal, on_cancel=self._cancel_goal)

    def changed(self, process: Process) -> None:
        """Tell the client of its task."""
        goal = self._goals.get(process.process_id)
        if goal is None:
            return
        goal.feedback(RunTask.Feedback(state=process_state(process), note=process.message))
        if process.status.ended:
            del self._goals[process.process_id]
            if process.status == ProcessState.SUCCESS:
                goal.succeed(task_result(process))
            elif process.code == TaskCode.CANCELLED:
                goal.canceled(task_result(process))
            else:
                goal.abort(task_result(process))

    # -- instructions -------------------------------------------------------------------------------------------------

    def stops(self, text: str) -> bool:
        """Return whether it is nothing but a stop word, which has then been obeyed."""
        if not is_stop(text, self._robot):
            return False
        self._stop_everything(text)
        return True

    def begin(
        self, text: str, *, door: str, sender: str = "", source: ProcessSource = ProcessSource.USER, strategy: str = ""
    ) -> Process:
        """Return the process of an instruction. Raises ProcessError, also when it was a stop word (code NONE)."""
        try:
            return self._begin(text, door[:NAME_CHARS], sender[:NAME_CHARS], source, strategy)
        except ProcessError as error:
            what = "refused" if error.code else "obeyed"
            self._log.info(f"instruction {text[:INSTRUCTION_CHARS]!r} {what}: {error}", throttle_duration_sec=SAY_S)
            raise

    def _begin(self, text: str, door: str, sender: str, source: ProcessSource, strategy: str) -> Process:
        if self.stops(text):
            raise ProcessError("stopped and halted; " + CLEAR_HINT, TaskCode.NONE)
        if not text.strip():
            raise ProcessError("the instruction is empty; say what the robot should do", TaskCode.EMPTY_INSTRUCTION)
        if len(text) > self._max_chars:
            why = f"the instruction has {len(text)} characters, more than {self._max_chars}; say it shorter"
            raise ProcessError(why, TaskCode.EMPTY_INSTRUCTION)
        if self.halted:
            raise ProcessError(f"the robot is halted; {CLEAR_HINT}", TaskCode.ROBOT_HALTED)
        return self._core.instruct(text, door=door, sender=sender, source=source, strategy=strategy)

    def _heard(self, message: String) -> None:
        try:
            self.begin(message.data, door="topic")
        except ProcessError as error:
            if error.code is not TaskCode.NONE:
                self._events.write(Notice(error_code=error.code, error_msg=str(error), text=message.data[:200]))

    @property
    def halted(self) -> bool:
        """Return whether the robot is halted, or is being halted."""
        return self._gate_halted() or bool(self._halting)

    def _stop_everything(self, text: str) -> None:
        self._halting += 1
        self._link.halt(then=self._answered)
        if self._core.living:
            self._core.end_all(f"stopped: {text.strip()[:100]}")
        else:
            self._halting += 1
            self._link.interrupt("", "stop word", then=self._answered)

    def _answered(self, epoch: int = 0) -> None:
        self._halting -= 1
        self._core.learn_epoch(epoch)

    # -- the RunTask action and the ControlProcess service ------------------------------------------------------------

    def _goal(self, goal: Goal) -> None:
        request = goal.request
        door = request.door or "action"
        source = ProcessSource.REACTIVE if door in self._reactive_doors else ProcessSource.USER
        try:
            made = self.begin(
                request.instruction, door=door, sender=request.sender, source=source, strategy=request.strategy.strip()
            )
        except ProcessError as error:
            stopped = error.code is TaskCode.NONE
            status = ProcessState.STOPPED if stopped else ProcessState.FAILED
            result = RunTask.Result(status=status, error_code=int(error.code), error_msg=str(error), cost_usd=-1.0)
            (goal.succeed if stopped else goal.abort)(result)
            return
        self._goals[made.process_id] = goal
        goal.feedback(RunTask.Feedback(state=process_state(made), note="started"))

    def _cancel_goal(self, goal: Goal) -> None:
        for process_id, other in list(self._goals.items()):
            if other is goal:
                self._core.stop(process_id, "cancelled by its client")

    def _control(self, request: ControlProcess.Request, response: ControlProcess.Response) -> ControlProcess.Response:
        name = _COMMANDS.get(request.command, "")
        try:
            process_id = response.process_id = self._core.chosen(request.process_id, name).process_id
            if name == "stop":
                self._core.stop(process_id, request.cause or "stopped by control_process")
            elif name == "pause":
                self._core.pause(process_id)
            elif name == "resume" and self.halted:
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
