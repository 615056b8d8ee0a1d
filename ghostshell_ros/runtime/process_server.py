# SPDX-License-Identifier: Apache-2.0
"""Serve what people and programs use to have tasks done: instructions, the action `run_task`, control of processes, their
state, their questions and their history on disk."""

import secrets
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial

from ghostshell.action import RunTask
from ghostshell.msg import ProcessArray, ProcessHeartbeat, ProcessState
from ghostshell.srv import ControlProcess
from std_msgs.msg import String

from function_tokens.scheduling.calls import TEXT
from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.node import Health, Level, RuntimeNode
from ghostshell_ros.runtime.question_server import QuestionServer
from ghostshell_ros.runtime.signing import Doorkeeper
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.process_messages import process_state, task_result
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED, SENSORS
from planners.language.client import MEMORY_SKILL
from planners.language.controls import Command, read_control
from planners.language.skills import Matcher
from planners.language.stop_words import is_stop
from planners.people import People
from skill_kernel.codes import Achievement, TaskCode
from skill_kernel.config.sections import CAUSE_CHARS, shown
from skill_kernel.events import Notice, NoticeKind, ProcessEvent, ProcessKind
from skill_kernel.processes.process import (
    CallPurpose,
    Obeyed,
    Process,
    ProcessError,
    ProcessSource,
    ProcessStatus,
    SchedulerSettings,
)
from skill_kernel.processes.scheduler import SENDER, ProcessScheduler, RobotCommands
from skill_kernel.processes.store import ProcessStore, StoreError
from skill_kernel.roles import Act, Role
from skill_kernel.skills.skill import Skill

TICK_S = 0.25
"""Interval at which waiting processes and idle behaviour are looked at [s]."""
NAME_CHARS = 100
"""Characters that are kept of a task's sender and door."""

_COMMANDS: dict[int, Command] = {
    ControlProcess.Request.STOP: "stop",
    ControlProcess.Request.PAUSE: "pause",
    ControlProcess.Request.RESUME: "resume",
}
SAY_S = 0.1
"""Shortest interval of log lines about refused instructions [s]."""
_ENDED = 2
"""The last stage of a process in the log; received is 0, started 1."""
_PURPOSES = {
    **dict.fromkeys(("wait", "observe", "run", "plan_done"), CallPurpose.ORDER),
    **dict.fromkeys((TEXT, MEMORY_SKILL), CallPurpose.SPEAK),
    "sleep": CallPurpose.PAUSE,
}
"""Functions of every robot that do not act."""


class ProcessServer(RuntimeNode):
    """Serve the doors to the processes of a robot or a team, which a subclass owns.

    Subscribes `instruction`, serves `run_task`, `control_process` and what people are asked by (`QuestionServer`), publishes
    `processes` and events. An instruction that is
    nothing but a stop word is obeyed at once, without a model. One that only says what becomes of running tasks ("stop going to
    the kitchen", "wait", "go on") controls those and begins nothing. Every process and its history is kept in
    `<data>/processes/<robot>.sqlite3`; living ones of an earlier run come back paused by the user.
    """

    _core: ProcessScheduler
    _events: EventWriter

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._robot = self.get_namespace().strip("/")
        self._told: dict[str, int] = {}
        self._publish_due, self._published = False, ProcessArray()
        self._store: ProcessStore | None = None
        self._publisher = self.create_publisher(ProcessArray, "processes", LATCHED)
        self._goals: dict[str, Goal] = {}
        self._people = People()

    def _scheduler(self, link: RobotCommands, settings: SchedulerSettings) -> ProcessScheduler:
        return ProcessScheduler(link, new_id=lambda: secrets.token_hex(8), now=self.now_s, settings=settings)

    def _max_processes(self) -> int:
        return self.declare("max_processes", 8, "processes that may live at a time, more are refused", 1, 16)

    def _open_doors(self) -> None:
        """Hear instructions, tasks and commands."""
        self._reactive_doors = self.declare(
            "reactive_doors", [""], "doors of run_task whose tasks are reactive; through every other a user speaks"
        )
        self._max_chars = self.declare(
            "max_instruction_chars", 8000, "longer instructions are refused [characters]", 1, 1_000_000
        )
        self.create_subscription(String, "instruction", self._heard, INSTRUCTION)
        if self.declare("global_instruction", False, "also hear /instruction (the default robot of a fleet)"):
            self.create_subscription(String, "/instruction", self._heard, INSTRUCTION)
        self.create_service(ControlProcess, "control_process", self._control)
        self._door = Doorkeeper(self, "run_task")
        GoalServer(self, RunTask, "run_task", on_goal=self._goal, on_cancel=self._cancel_goal)
        self._questions = QuestionServer(
            self,
            process=self._core.get,
            stops=self.stops,
            halt_refusal=self.halt_refusal,
            report=self._events.write,
            people=self._people,
        )
        self.steady_timer(TICK_S, self._questions.tick)
        self.create_subscription(ProcessHeartbeat, "sender_heartbeat", partial(self._alive, SENDER), SENSORS)

    # -- what a subclass does -----------------------------------------------------------------------------------------

    @abstractmethod
    def halt_refusal(self) -> str:
        """Return why no instruction is taken, because everything is halted or about to be; "" while it is not."""

    @abstractmethod
    def _stop_everything(self, text: str, then: Callable[[bool, str], object]) -> None:
        """Halt, because somebody said `text`, and end every process. `then` hears whether each gate has confirmed the halt, and
        a sentence on it, once all have answered or cannot."""

    @abstractmethod
    def _matcher(self) -> Matcher:
        """Return what finds the skill that words name."""

    def _answer_for_new(self) -> None:
        """Answer for a new process before anybody acts on it."""

    def _follow(self, process: Process, *, fresh: bool) -> None:
        """Take a process as it stands now; it is `fresh` when it is new."""

    # -- processes ----------------------------------------------------------------------------------------------------

    def _open_store(self) -> None:
        """Take up the processes of an earlier run."""
        path = (
            data_folder(self.get_parameter("data_dir").value)
            / "processes"
            / f"{self._robot.replace('/', '.') or 'robot'}.sqlite3"
        )
        try:
            self._store = ProcessStore(path, on_problem=lambda why: self.call_soon(self._store_failed, why))
        except StoreError as error:
            self.call_soon(self._store_failed, f"{error}; until then processes are not kept")
            return
        self._told.update((p.process_id, _ENDED if p.status.ended else 1) for p in self._store.found)
        self._core.restore(self._store.found)

    def _store_failed(self, why: str) -> None:
        self._store = None
        self._problem(why)

    def _keep(self, process: Process) -> None:
        """Write a process down, and publish it soon."""
        if self._store is not None:
            self._store.save(process)
        if not self._publish_due:
            self._publish_due = True
            self.call_soon(self._publish_if_due)

    def _changed(self, process: Process) -> None:
        """Tell everybody of a process."""
        self._keep(process)
        fresh = process.process_id not in self._told
        if fresh:
            self._answer_for_new()
        if fresh or process.status.ended:
            self._publish()
        self._say(process)
        if fresh:
            self._events.write(
                ProcessEvent(kind=ProcessKind.STARTED, process_id=process.process_id, instruction=process.instruction[:1000])
            )
        if process.status.ended:
            for claim in process.unproven:
                text = f"said “{shown(claim)}”, and nothing that was done bears it out"
                self._events.write(Notice(kind=NoticeKind.UNPROVEN, process_id=process.process_id, text=text))
            self._events.write(
                ProcessEvent(
                    kind=ProcessKind.ENDED,
                    process_id=process.process_id,
                    error_code=process.code,
                    error_msg=process.message,
                    status=process.status.name,
                )
            )
            self._questions.process_ended(process)
        self._tell_client(process)
        self._follow(process, fresh=fresh)

    def _say(self, process: Process) -> None:
        """Tell whoever watches the launch, in a line each, that it was received, has started, and how it ended."""
        told = self._told.get(process.process_id, -1)
        stage = _ENDED if process.status.ended else int(process.status is not ProcessStatus.WAITING)
        self._told[process.process_id] = max(told, stage)
        if process.source is ProcessSource.IDLE or stage <= told:
            return
        say, text = self.get_logger().info, f"instruction {shown(process.instruction)!r}"
        if told < 0:
            say(f"{text} received by {process.door}: process {process.process_id}")
        if stage:
            ended = "done" if process.status is ProcessStatus.SUCCESS else process.status.name.lower()
            what = ended if stage == _ENDED else "started"
            say(f"{text} {what}" + (f": {process.message}" if process.message else ""))

    def _publish_if_due(self) -> None:
        if self._publish_due:
            self._publish()

    def _publish(self) -> None:
        self._publish_due = False
        states = [process_state(p) for p in self._core.processes]
        self._published = ProcessArray(stamp=self.get_clock().now().to_msg(), processes=states)
        self._publisher.publish(self._published)

    def _problem(self, why: str) -> None:
        self.get_logger().error(why)
        self._events.write(Notice(error_code=TaskCode.NODE_UNAVAILABLE, error_msg=why))

    def _tell_client(self, process: Process) -> None:
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

    def stops(self, text: str, then: Callable[[bool, str], object] = lambda *_: None) -> bool:
        """Return whether it is nothing but a stop word, which is then obeyed; `then` hears what came of it."""
        if not is_stop(text[: self._max_chars + 1], self._robot):
            return False

        def answered(obey: bool, told: str) -> None:
            self.get_logger().info(f"instruction {shown(text)!r}: {told}", throttle_duration_sec=SAY_S)
            then(obey, told)

        self._stop_everything(text, answered)
        return True

    def begin(
        self, text: str, *, door: str, sender: str = "", source: ProcessSource = ProcessSource.USER, strategy: str = ""
    ) -> Process:
        """Return the process of an instruction. Raises ProcessError, also an Obeyed one for a word that needs no process."""
        try:
            return self._begin(text, door[:NAME_CHARS], sender[:NAME_CHARS], source, strategy)
        except ProcessError as error:
            what = "obeyed" if isinstance(error, Obeyed) else "refused"
            told = f"instruction {shown(text)!r} {what}: {error}"
            self.get_logger().info(told, throttle_duration_sec=SAY_S)
            raise

    def _begin(self, text: str, door: str, sender: str, source: ProcessSource, strategy: str) -> Process:
        if self.stops(text):
            raise Obeyed("everything is stopped, and told to halt")
        if not text.strip():
            raise ProcessError("the instruction is empty; say what the robot should do", TaskCode.EMPTY_INSTRUCTION)
        if len(text) > self._max_chars:
            why = f"the instruction has {len(text)} characters, more than {self._max_chars}; say it shorter"
            raise ProcessError(why, TaskCode.EMPTY_INSTRUCTION)
        if why := self.halt_refusal():
            raise ProcessError(why, TaskCode.ROBOT_HALTED)
        if source is ProcessSource.USER:
            self._control_running(text)
        return self._core.instruct(text, door=door, sender=sender, source=source, strategy=strategy)

    def _control_running(self, text: str) -> None:
        """Stop, pause or resume what a sentence about running tasks means, and raise Obeyed; do nothing for other sentences."""
        control = read_control(text, self._robot)
        meant = control.meant(self._core.living, self._matcher) if control is not None else []
        if control is None or not meant:
            return
        notes = [self._command(control.command, p.process_id, f"told “{shown(text)}”") for p in meant]
        raise Obeyed("; ".join(filter(None, (control.told(text, meant), *notes))))

    def _command(self, command: Command, process_id: str, cause: str) -> str:
        """Stop, pause or resume a process. Return what the resumed one still waits for. Raises ProcessError."""
        if command == "resume":
            return self._core.resume(process_id)
        if command == "pause":
            self._core.pause(process_id)
        elif self._core.lives(process_id) is not None:
            self._core.stop(process_id, cause)
        return ""

    def _heard(self, message: String) -> None:
        try:
            self.begin(message.data, door="topic")
        except ProcessError as error:
            if not isinstance(error, Obeyed):
                self._events.write(Notice(error_code=error.code, error_msg=str(error), text=shown(message.data, 200)))

    # -- the RunTask action and the ControlProcess service ------------------------------------------------------------

    def _goal(self, goal: Goal) -> None:
        request, caller = goal.request, self._door.caller(goal.request)
        door = request.door if request.door and caller.role is not Role.ANONYMOUS else "action"
        source = ProcessSource.REACTIVE if door in self._reactive_doors else ProcessSource.USER
        sender, strategy = caller.named(request.sender), request.strategy.strip()
        if self.stops(request.instruction, partial(self._stopped, goal)):
            return
        try:
            if refusal := caller.refusal(Act.INSTRUCT):
                raise ProcessError(refusal, TaskCode.NOT_PERMITTED)
            made = self.begin(request.instruction, door=door, sender=sender, source=source, strategy=strategy)
        except ProcessError as error:
            obeyed = isinstance(error, Obeyed)
            status = ProcessStatus.SUCCESS if obeyed else ProcessStatus.FAILED
            achieved = Achievement.DONE if obeyed else Achievement.NOT_DONE
            told = {"error_code": int(error.code), "error_msg": str(error), "cost_usd": -1.0}
            result = RunTask.Result(status=int(status), achievement=int(achieved), **told)
            (goal.succeed if obeyed else goal.abort)(result)
            return
        self._goals[made.process_id] = goal
        goal.feedback(RunTask.Feedback(state=process_state(made), note="started"))

    def _stopped(self, goal: Goal, obey: bool, told: str) -> None:
        """End the goal that was a stop word, once it is known who has halted."""
        code, achieved = (0, Achievement.DONE) if obey else (TaskCode.NODE_UNAVAILABLE, Achievement.NOT_DONE)
        told_of = {"error_code": int(code), "error_msg": told, "cost_usd": -1.0}
        result = RunTask.Result(status=int(ProcessStatus.STOPPED), achievement=int(achieved), **told_of)
        (goal.succeed if obey else goal.abort)(result)

    def _cancel_goal(self, goal: Goal) -> None:
        for process_id, other in list(self._goals.items()):
            if other is goal:
                self._core.stop(process_id, "ended by its sender")

    def _control(self, request: ControlProcess.Request, response: ControlProcess.Response) -> ControlProcess.Response:
        name = _COMMANDS.get(request.command)
        try:
            process_id = response.process_id = self._core.chosen(request.process_id, name or "").process_id
            if not name:
                raise ProcessError(f"command {request.command} is unknown; use STOP, PAUSE or RESUME")
            if name == "resume" and (why := self.halt_refusal()):
                raise ProcessError(why)
            cause = shown(request.cause, CAUSE_CHARS) or "stopped by control_process"
            response.error_msg = self._command(name, process_id, cause)
            response.success = True
        except KeyError as error:
            response.error_code, response.error_msg = ControlProcess.Request.NO_SUCH_PROCESS, str(error.args[0])
        except ProcessError as error:
            response.error_code, response.error_msg = ControlProcess.Request.NOT_ALLOWED, str(error)
        return response

    def _alive(self, node: str, message: ProcessHeartbeat) -> None:
        self._core.alive(node, message.process_ids)

    # -- the node -----------------------------------------------------------------------------------------------------

    def health(self) -> Health:
        """Return how many processes live, and whether they are kept on disk."""
        living = self._core.living
        values = {"living": len(living), "paused": sum(bool(p.pause_causes) for p in living)}
        if self._store is None:
            return Health("processes are not kept on disk", Level.WARN, values)
        return Health(f"{len(living)} processes", Level.OK, values)

    def close(self) -> None:
        """Keep what lives as stopped: a robot that is switched on again does not take up yesterday's walk."""
        if self._store is not None:
            for process in self._core.living:
                self._store.save(process.shut_down(self.now_s(), "the robot was shut down while it ran"))
            self._store.close()


def call_purposes(registry: Iterable[Skill], text_skill: Skill | None) -> dict[str, CallPurpose]:
    """Return the functions of a robot with these skills that do not act."""
    speaks = [skill.name for skill in registry if skill.speaks_text or skill.decides or skill is text_skill]
    return {**_PURPOSES, **dict.fromkeys(speaks, CallPurpose.SPEAK)}
