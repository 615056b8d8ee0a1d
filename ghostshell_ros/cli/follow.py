# SPDX-License-Identifier: Apache-2.0
"""Send instructions to a robot once it has come up, and follow what happens until their tasks have ended."""

import json
import math
import queue
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from ghostshell.action import RunTask
from ghostshell.msg import KernelState, ProcessHeartbeat

from function_tokens.run_model import runs
from ghostshell_ros.cli.robot_client import WAIT_S, absent
from ghostshell_ros.cli.run_view import RunListener, RunScreen, RunView, counted
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.lifecycle import TOPIC as DRIVER_STATES
from ghostshell_ros.runtime.lifecycle import DriverState
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.qos import LATCHED, SENSORS
from ghostshell_ros.wire.values import seconds
from skill_kernel.codes import Achievement, TaskCode
from skill_kernel.events import EventBase
from skill_kernel.processes.process import ProcessStatus
from skill_kernel.roles import Act, Role, key_role

QUIET_S = 1.0
"""Drivers start one after the other; this long after the last change no other one is expected."""
UNMANAGED_S = 3.0
"""Drivers without a lifecycle_manager tell no states; after this long a robot is taken for one with such drivers."""
COMING = ("", "unconfigured", "configuring", "activating")
"""Lifecycle states of a driver that is not up yet."""
SILENT_S = 4.0
"""Without the scheduler's heartbeat for this long, a robot has ended or has lost its task."""
PROBE_S = 0.05
"""Time between two looks for the process scheduler."""
CONFIRM_S = 5.0
"""A task that is to end is waited for at most this long."""
SETTLE_S, QUIET_END_S = 0.3, 0.05
"""After the end of a task its last events are waited for, until none came for QUIET_END_S."""
HERE_S = 0.5
"""The robot is told at this interval that somebody follows the task; without it for 5 s the robot ends it."""
NODES = ("process_scheduler", "skill_kernel", "channel_scheduler")
"""Nodes that a task needs."""


EXITS = {Achievement.DONE: 0, Achievement.NOT_DONE: 1, Achievement.PARTLY_DONE: 3, Achievement.ANSWERED: 4}
"""Exit statuses of a command that follows a task; 2 is for one without a robot."""
INSTRUCTS = key_role(Act.INSTRUCT)
OVERDUE_S = 2.0
"""A task that has not begun after this time is asked for."""


class StartUp:
    """Tell from the topic `driver_states` which drivers are still coming up. Times are seconds of one clock."""

    def __init__(self, now_s: float) -> None:
        self._since_s = self._heard_s = self._changed_s = now_s
        self._drivers: Sequence[DriverState] = ()

    def hear(self, now_s: float, changed_s: float, drivers: Sequence[DriverState]) -> None:
        """Take the states that the lifecycle_manager published at `changed_s`."""
        self._heard_s, self._changed_s, self._drivers = now_s, changed_s, drivers

    def coming(self, now_s: float) -> list[str]:
        """Return the names of the drivers that are coming up, or "drivers" while others may still appear.

        Drivers that are lost, or that a person deactivated, are not among them: not every task needs them.
        """
        if not self._drivers:
            return [] if now_s - self._since_s >= UNMANAGED_S else ["drivers"]
        coming = [d.name.rsplit("/", 1)[-1] for d in self._drivers if d.coming_up or d.state in COMING]
        # The stamp of another machine may be wrong, so the time of hearing counts where it is earlier.
        quiet = now_s - min(self._changed_s, self._heard_s) >= QUIET_S
        return coming or ([] if quiet else ["drivers"])


class NotThereError(RuntimeError):
    """Raised when the robot does not answer; the message says what to start."""


def failure(why: str, code: int) -> RunTask.Result:
    """Return the end of a task that the robot did not report."""
    status, achievement = ProcessStatus.FAILED.value, Achievement.NOT_DONE.value
    return RunTask.Result(status=status, achievement=achievement, error_code=code, error_msg=why)


def exit_status(end: RunTask.Result) -> int:
    """Return the exit status of the command that followed a task; one that was ended before its end counts as not done."""
    stopped = end.status == ProcessStatus.STOPPED and end.error_code
    return 1 if stopped else EXITS.get(Achievement(end.achievement), 0)


def told(end: RunTask.Result, view: RunView | None = None) -> str:
    """Return how a task ended in one line, without the reason where the lines of `view` say it."""
    status = ProcessStatus(end.status)
    name = (
        Achievement(end.achievement).name.replace("_", " ")
        if status in (ProcessStatus.SUCCESS, ProcessStatus.FAILED)
        else status.name
    )
    calls = f"{counted(end.calls_done, 'call')} done" if end.calls_done or end.calls_failed else ""
    failed = f", {end.calls_failed} failed or refused" if end.calls_failed else ""
    why = end.error_msg if view is None or not view.has_told(end.process_id, end.error_msg) else ""
    return f"{name}{f' ({why})' if why else ''}{f': {calls}{failed}' if calls else ''}"


@dataclass(eq=False)
class Sent:
    """A task that was sent. `end` is None until it has ended; `why` says why it is to end before it is done."""

    instruction: str
    timeout_s: float = math.inf
    begun_s: float = field(default_factory=time.monotonic)
    goal: SentGoal | None = None
    process_id: str = ""
    why: str = ""
    end: RunTask.Result | None = None
    confirm_s: float = math.inf
    told: bool = False

    def cancel(self, why: str) -> None:
        """Ask the robot to end it; its end is waited for at most CONFIRM_S."""
        if self.end is None and not self.why:
            self.why, self.confirm_s = why, time.monotonic() + CONFIRM_S
            if self.goal is not None:
                self.goal.cancel()

    def look(self, now_s: float, silent_s: float) -> None:
        """End it where the robot is silent or does not confirm its end, and ask for its end at its deadline."""
        if self.end is None and silent_s > SILENT_S:
            self.cancel("the robot is silent")
            silent = (
                f"the robot is silent for {SILENT_S:g} s: it has ended, or its channel_scheduler died; its launch says which"
            )
            self.end = failure(silent, TaskCode.NODE_UNAVAILABLE)
        elif now_s > self.begun_s + self.timeout_s:
            self.cancel(f"not done within {self.timeout_s:g} s")
        if self.goal is not None and not self.process_id and now_s > self.begun_s + OVERDUE_S:
            self.goal.ask()  # a goal may be lost while its server starts again
        if now_s > self.confirm_s:
            self.unconfirmed()

    def unconfirmed(self) -> None:
        """End it without the robot's answer."""
        unknown = f"{self.why}; no answer says that it has ended: look with ghostshell ps, or ghostshell halt"
        self.end = self.end or failure(unknown, TaskCode.NODE_UNAVAILABLE)


class RobotClient(RunListener):
    """Send tasks to one robot's `run_task`; `view` shows them, or `everything`. Their ends come into `inbox` as `end`."""

    def __init__(self, robot: str, *, everything: bool = False) -> None:
        super().__init__(robot, "ghostshell_cli")
        self.robot = robot
        self._task = GoalClient(self, RunTask, "run_task")
        self._prober = self.steady_timer(PROBE_S, self._probe)
        self.sent: list[Sent] = []
        self._here = self.create_publisher(ProcessHeartbeat, "sender_heartbeat", SENSORS)
        self.following = self.steady_timer(HERE_S, self._tell)
        self.view = RunView(self.now_s() if everything else 0.0, shows=lambda i: everything or self._own(i), own=self._own)
        self._seen: set[str] = set()
        self.heard_s = time.monotonic()
        self.create_subscription(KernelState, "kernel_state", self._kernel, LATCHED)
        self.create_subscription(ProcessHeartbeat, "scheduler_heartbeat", self._beat, SENSORS)
        self._halted = False
        self._start_up = StartUp(self.now_s())
        self.create_subscription(DiagnosticArray, DRIVER_STATES, self._on_drivers, LATCHED)

    @property
    def running(self) -> list[Sent]:
        """Return the tasks that have not ended."""
        return [sent for sent in self.sent if sent.end is None]

    def lacking(self) -> list[str]:
        """Return the nodes that a task still needs, or else its drivers. Those of a halted robot do not come up."""
        silent = [node for node in NODES if node not in self._seen]
        return silent or ([] if self._halted else self._start_up.coming(self.now_s()))

    def send(self, instruction: str, timeout_s: float = math.inf, *, role: Role = INSTRUCTS, **about: str) -> Sent:
        """Send a task that is to end after `timeout_s`, signed by a role. `about`: more fields of its goal. From any thread."""
        sent = Sent(instruction, timeout_s)
        self.sent = [*(one for one in self.sent if not one.told), sent]
        about = {"sender": "command line", "door": "chat", **about}
        self.call_soon(self._send, sent, RunTask.Goal(instruction=instruction, **about), role)
        return sent

    def _send(self, sent: Sent, goal: RunTask.Goal, role: Role) -> None:
        sent.goal = self._task.send(
            signed(self, "run_task", goal, role),
            on_end=lambda end, result: self._ended(sent, end, result),
            on_feedback=lambda feedback: self._began(sent, feedback.state.process_id),
        )
        if sent.why:
            sent.goal.cancel()

    def _began(self, sent: Sent, process_id: str) -> None:
        """Note the process of a task, and say at once that it is followed: from then on the robot misses who goes."""
        fresh, sent.process_id = not sent.process_id, process_id
        if fresh and not self.following.is_canceled():
            self._tell()

    def _own(self, process_id: str) -> bool:
        return not process_id or any(process_id == sent.process_id for sent in self.sent)

    def _tell(self) -> None:
        if living := [sent.process_id for sent in self.running if sent.process_id]:
            self._here.publish(ProcessHeartbeat(process_ids=living))

    def _probe(self) -> None:
        if self._task.server_is_ready():
            self._seen.add("process_scheduler")
            self._prober.cancel()

    def _kernel(self, message: KernelState) -> None:
        self._seen.add("skill_kernel")
        self._halted = message.halted

    def _on_drivers(self, message: DiagnosticArray) -> None:
        stamp_s = seconds(message.header.stamp)
        self._start_up.hear(self.now_s(), stamp_s, [DriverState.of(status) for status in message.status])

    def _beat(self, _: ProcessHeartbeat) -> None:
        self.heard_s = time.monotonic()
        self._seen.add("channel_scheduler")

    def _ended(self, sent: Sent, end: GoalEnd, result: RunTask.Result | None) -> None:
        if result is None or end in (GoalEnd.REJECTED, GoalEnd.UNKNOWN):
            result = failure(f"the process scheduler did not take the task (goal {end.value})", TaskCode.NODE_UNAVAILABLE)
        if sent.why and result.error_code == TaskCode.CANCELLED:
            result.error_msg = f"{sent.why}, so it was ended"
        sent.process_id = sent.process_id or result.process_id
        sent.end = sent.end or result
        self.heard("end", result)


def wait_ready(client: RobotClient, timeout_s: float = WAIT_S, tell: Callable[[str], object] = lambda _: None) -> None:
    """Wait until the robot can take a task, and `tell` what for. Raises NotThereError at the deadline, or when the robot is
    not there."""
    begun_s = time.monotonic()
    while lacking := client.lacking():
        waited_s = time.monotonic() - begun_s
        if lacking == [*NODES] and (why := absent(client, client.robot, waited_s, timeout_s)):
            raise NotThereError(why)
        if waited_s > timeout_s:
            needs = ", ".join(lacking)
            raise NotThereError(f"robot '{client.robot}' is there, but not its {needs}; the output of its launch says why")
        tell(f"waits for robot {client.robot}: {', '.join(lacking)}")
        time.sleep(PROBE_S)


@contextmanager
def on_signals(act: Callable[[int], object], *numbers: signal.Signals) -> Iterator[None]:
    """Act on signals that ask a command to end, but for those that are ignored, as under nohup."""
    heeded = [n for n in numbers if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda n, _: act(n)) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_HEAD = ("stamp_s", "robot", "node", "session", "seq")


class JsonScreen:
    """Print the events of the tasks that were sent as JSON, an object a line."""

    def __init__(self, client: RobotClient) -> None:
        self._client, self._begun_s = client, client.now_s()
        self._asked: set[str] = set()

    def _own(self, process_id: str) -> bool:
        return any(process_id == sent.process_id for sent in self._client.sent)

    def hear(self, kind: str, message: Any) -> None:
        """Print an event, whose keys are the fields of its message in `msg/` but for empty ones, or a question."""
        time_s = round(self._client.now_s() - self._begun_s, 3)
        if kind == "event" and self._own(message.process_id):
            self.show(**event_keys(message), time_s=time_s)
        elif kind == "questions":
            asked, self._asked = self._asked, {question.id for question in message.questions}
            for q in message.questions:
                if q.id not in asked and self._own(q.process_id):
                    keys = {"id": q.id, "process_id": q.process_id, "person": q.person, "text": q.text, "why": q.why}
                    keys["choices"] = list(q.choices)
                    self.show(type="question", **keys, time_s=time_s)

    def show(self, **keys: Any) -> None:
        print(json.dumps(keys, ensure_ascii=False), flush=True)

    def refresh(self, waiting: str = "") -> None:
        """Print nothing between events."""


def event_keys(event: EventBase) -> dict[str, Any]:
    """Return the fields of an event that say something; `type` is its class, `kind` and `outcome` are names."""
    given = {f.name: getattr(event, f.name) for f in fields(event) if f.name not in _HEAD}
    named = {name: value.name if isinstance(value, Enum) else value for name, value in given.items()}
    return {"type": type(event).__name__, **{name: v for name, v in named.items() if v not in ("", 0, -1, None, ())}}


def end_keys(end: RunTask.Result, instruction: str) -> dict[str, Any]:
    """Return the end of a task for `say --json`."""
    same = ("process_id", "error_code", "error_msg", "calls_done", "calls_failed", "prompt_tokens", "completion_tokens")
    return {
        "type": "end",
        "instruction": instruction,
        "status": ProcessStatus(end.status).name,
        "achievement": Achievement(end.achievement).name,
        "exit_status": exit_status(end),
        **{name: getattr(end, name) for name in same},
        "cost_usd": end.cost_usd if end.cost_usd >= 0 else None,
    }


class Follower:
    """Show what happens to the tasks that a client has sent. `step` is called again and again, on one thread."""

    def __init__(self, client: RobotClient, screen: RunScreen | JsonScreen) -> None:
        self.client, self.screen = client, screen
        self._held: list[tuple[str, Any]] = []
        self._heard_s = time.monotonic()

    def step(self, wait_s: float = 0.1) -> list[Sent]:
        """Show a message, or the state after `wait_s` without one. Return the tasks whose ends are complete by now.

        Raises OSError or SystemExit when the terminal or the reader of the pipe has gone.
        """
        client = self.client
        try:
            kind, message = client.inbox.get(timeout=wait_s)
            self._heard_s = time.monotonic()
            if kind != "end":
                self._held.append((kind, message))
        except queue.Empty:
            pass
        now_s = time.monotonic()
        for sent in client.running:
            sent.look(now_s, now_s - client.heard_s)
        # The goal's feedback tells which process is ours, a moment later than its first events.
        while self._held and all(sent.process_id for sent in client.running):
            self.screen.hear(*self._held.pop(0))
        self.screen.refresh("waits for an answer of the robot" if client.running else "")
        over = [sent for sent in client.sent if sent.end and not sent.told and self._settled(sent, now_s)]
        for sent in over:
            sent.told = True
        return over

    @property
    def idle(self) -> bool:
        """Return whether each task has ended and its end is told."""
        return all(sent.told for sent in self.client.sent)

    def _settled(self, sent: Sent, now_s: float) -> bool:
        process = self.client.view.model.processes.get(sent.process_id)
        ended = process is not None and process.ended and not any(map(runs, process.calls.values()))
        return now_s - self._heard_s > (QUIET_END_S if ended or not sent.process_id else SETTLE_S)


def run_task(
    client: RobotClient, instruction: str, screen: RunScreen | JsonScreen, *, timeout_s: float, detach: bool = False
) -> RunTask.Result:
    """Send an instruction and show what happens until the task has ended, or only until it has begun.

    A signal, a screen that has gone and the deadline cancel it; its end is then waited for at most CONFIRM_S, or until the
    next signal.
    """
    if detach:
        client.following.cancel()
    sent, follower = client.send(instruction, timeout_s), Follower(client, screen)
    asked_to_end: list[int] = []
    with on_signals(asked_to_end.append, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        while True:
            if asked_to_end:
                sent.cancel(f"asked to end by {signal.Signals(asked_to_end[0]).name}")
            if len(asked_to_end) > 1:
                sent.unconfirmed()
            try:
                if follower.step():
                    break
            except (OSError, SystemExit):  # the terminal has gone, or the reader of the pipe, for which rich exits
                sent.cancel("nobody reads any more")
                if sent.end is not None:
                    break
            if detach and sent.process_id and sent.end is None:
                how = f"it goes on; ghostshell stop {sent.process_id} ends it"
                return RunTask.Result(status=ProcessStatus.IN_PROGRESS.value, error_msg=how, process_id=sent.process_id)
    assert sent.end is not None
    return sent.end
