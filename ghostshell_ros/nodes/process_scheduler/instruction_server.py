# SPDX-License-Identifier: Apache-2.0
"""The part of the process scheduler's node that is spoken to: instructions, tasks, and commands for processes."""

from __future__ import annotations

from collections.abc import Callable

from ghostshell.action import RunTask
from ghostshell.msg import ProcessState
from ghostshell.srv import ControlProcess
from std_msgs.msg import String

from ghostshell_ros.nodes.process_scheduler.interrupter import Interrupter
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.node_runtime import INSTRUCTION, RuntimeNode
from ghostshell_ros.wire.events import CLEAR_HINT, EventWriter
from ghostshell_ros.wire.process_messages import process_state, task_result
from planners.language.stop_words import is_stop
from skill_kernel.codes import TaskCode
from skill_kernel.events import Notice
from skill_kernel.processes.commands import ProcessError
from skill_kernel.processes.process import Process, ProcessSource
from skill_kernel.processes.scheduler import ProcessScheduler

NAME_CHARS = 100
"""Characters that are kept of a task's sender and door."""

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
        interrupter: Interrupter,
        *,
        gate_halted: Callable[[], bool],
    ) -> None:
        self._core, self._events, self._interrupter, self._gate_halted = core, events, interrupter, gate_halted
        self._robot = node.get_namespace().strip("/")
        self._halting = 0
        self._goals: dict[str, Goal] = {}
        self._reactive_doors = node.declare(
            "reactive_doors", [""], "doors of run_task whose tasks are reactive; through every other a user speaks"
        )
        self._max_chars = node.declare(
            "max_instruction_chars", 8000, "longer instructions are refused [characters]", minimum=1, maximum=1_000_000
        )
        node.create_subscription(String, "instruction", lambda m: self._heard(m.data, "topic"), INSTRUCTION)
        if node.declare("global_instruction", False, "also hear /instruction (the default robot of a fleet)"):
            node.create_subscription(String, "/instruction", lambda m: self._heard(m.data, "topic"), INSTRUCTION)
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

    def begin(self, text: str, *, door: str, sender: str = "") -> Process | str:
        """Return the process of an instruction, or why there is none."""
        made = self._instruct(text, door=door, sender=sender)
        return made if isinstance(made, Process) else made[1]

    def _heard(self, text: str, door: str) -> None:
        made = self._instruct(text, door=door)
        if not isinstance(made, Process) and made[0]:
            self._events.write(Notice(error_code=made[0], error_msg=made[1], text=text[:200]))

    def _instruct(
        self, text: str, *, door: str, sender: str = "", source: ProcessSource = ProcessSource.USER, strategy: str = ""
    ) -> Process | tuple[TaskCode, str]:
        refusal = self._refusal(text)
        if refusal is not None:
            return refusal
        try:
            return self._core.instruct(
                text, door=door[:NAME_CHARS], sender=sender[:NAME_CHARS], source=source, strategy=strategy
            )
        except ProcessError as error:
            return error.code, str(error)

    def _refusal(self, text: str) -> tuple[TaskCode, str] | None:
        """Return why an instruction starts no process: NONE when it was a stop word, which has then been obeyed."""
        if self.stops(text):
            return TaskCode.NONE, "stopped and halted; " + CLEAR_HINT
        if not text.strip():
            return TaskCode.EMPTY_INSTRUCTION, "the instruction is empty; say what the robot should do"
        if len(text) > self._max_chars:
            why = f"the instruction has {len(text)} characters, more than {self._max_chars}; say it shorter"
            return TaskCode.EMPTY_INSTRUCTION, why
        if self.halted:
            return TaskCode.ROBOT_HALTED, f"the robot is halted; {CLEAR_HINT}"
        return None

    @property
    def halted(self) -> bool:
        """Return whether the robot is halted, or is being halted."""
        return self._gate_halted() or bool(self._halting)

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
        self._core.plans.learn_epoch(epoch)

    # -- the RunTask action and the ControlProcess service ------------------------------------------------------------

    def _goal(self, goal: Goal) -> None:
        request = goal.request
        door = request.door or "action"
        source = ProcessSource.REACTIVE if door in self._reactive_doors else ProcessSource.USER
        made = self._instruct(
            request.instruction, door=door, sender=request.sender, source=source, strategy=request.strategy.strip()
        )
        if isinstance(made, Process):
            self._goals[made.process_id] = goal
            goal.feedback(RunTask.Feedback(state=process_state(made), note="started"))
            return
        code, why = made
        status = ProcessState.STOPPED if code is TaskCode.NONE else ProcessState.FAILED
        result = RunTask.Result(status=status, error_code=int(code), error_msg=why, cost_usd=-1.0)
        (goal.succeed if code is TaskCode.NONE else goal.abort)(result)

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
