# SPDX-License-Identifier: Apache-2.0
"""Send an instruction to a robot once it has come up, and follow what happens until its task has ended."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from ghostshell.action import RunTask
from ghostshell.msg import KernelState, ProcessHeartbeat

from ghostshell_ros.cli.run_view import RunListener, RunScreen, RunView
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.lifecycle import TOPIC as DRIVER_STATES
from ghostshell_ros.runtime.lifecycle import DriverState
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.qos import LATCHED, SENSORS
from ghostshell_ros.wire.values import seconds
from skill_kernel.codes import TaskCode
from skill_kernel.processes.process import ProcessStatus
from skill_kernel.roles import Act, key_role

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
HERE_S = 0.5
"""The robot is told at this interval that somebody follows the task; without it for 5 s the robot ends it."""
NODES = ("process_scheduler", "skill_kernel", "channel_scheduler")
"""Nodes that a task needs."""


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
    return RunTask.Result(status=ProcessStatus.FAILED.value, error_code=code, error_msg=why)


def told(end: RunTask.Result) -> str:
    """Return how a task ended in one line."""
    why = f" ({end.error_msg})" if end.error_msg else ""
    return f"{ProcessStatus(end.status).name}{why}{f': {end.summary}' if end.summary else ''}"


class RobotClient(RunListener):
    """Send a task to one robot's `run_task`; `view` shows it, and its end goes into `inbox` under the kind end."""

    def __init__(self, robot: str) -> None:
        super().__init__(robot, "ghostshell_cli")
        self._task = GoalClient(self, RunTask, "run_task")
        self._prober = self.steady_timer(PROBE_S, self._probe)
        self._goal: SentGoal | None = None
        self.process_id = ""
        self._here = self.create_publisher(ProcessHeartbeat, "sender_heartbeat", SENSORS)
        self.following = self.steady_timer(HERE_S, self._tell)
        self.view = RunView(shows=lambda process_id: process_id in ("", self.process_id))
        self._seen: set[str] = set()
        self.heard_s = time.monotonic()
        self.create_subscription(KernelState, "kernel_state", self._kernel, LATCHED)
        self.create_subscription(ProcessHeartbeat, "scheduler_heartbeat", self._beat, SENSORS)
        self._halted = False
        self._start_up = StartUp(self.now_s())
        self.create_subscription(DiagnosticArray, DRIVER_STATES, self._on_drivers, LATCHED)

    def lacking(self) -> list[str]:
        """Return the nodes that a task still needs, or else its drivers. Those of a halted robot do not come up."""
        silent = [node for node in NODES if node not in self._seen]
        return silent or ([] if self._halted else self._start_up.coming(self.now_s()))

    def send(self, instruction: str) -> None:
        """Send the task; its end arrives in the inbox. On the executor's thread."""
        goal = RunTask.Goal(instruction=instruction, sender="command line", door="chat")
        goal = signed(self, "run_task", goal, key_role(Act.INSTRUCT))
        self._goal = self._task.send(goal, on_end=self._ended, on_feedback=self._feedback)

    def cancel(self) -> None:
        """Cancel the task; its end still arrives."""
        if self._goal is not None:
            self._goal.cancel()

    def _tell(self) -> None:
        if self.process_id:
            self._here.publish(ProcessHeartbeat(process_ids=[self.process_id]))

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

    def _feedback(self, feedback: RunTask.Feedback) -> None:
        self.process_id = feedback.state.process_id

    def _ended(self, end: GoalEnd, result: RunTask.Result | None) -> None:
        if result is None or end in (GoalEnd.REJECTED, GoalEnd.UNKNOWN):
            result = failure(f"the process scheduler did not take the task (goal {end.value})", TaskCode.NODE_UNAVAILABLE)
        self.inbox.put(("end", result))


def wait_ready(client: RobotClient, timeout_s: float, alive: Callable[[], bool] = lambda: True) -> None:
    """Wait until the robot can take a task. Raises NotThereError at the deadline or when `alive` says no."""
    deadline = time.monotonic() + timeout_s
    while lacking := client.lacking():
        robot = client.get_namespace().strip("/")
        if not alive():
            raise NotThereError("a process of the robot ended while it was starting; its log says why")
        if time.monotonic() > deadline:
            if lacking == [*NODES]:
                where = f"on ROS domain {client.context.get_domain_id()}"
                raise NotThereError(f"no robot '{robot}' answers {where}; start one with: ghostshell launch {robot}")
            raise NotThereError(
                f"robot '{robot}' is there, but not its {', '.join(lacking)}; the output of its launch says why"
            )
        time.sleep(PROBE_S)


@contextmanager
def signals() -> Iterator[list[int]]:
    """Collect the signals that ask a command to end, but for those that are ignored, as under nohup."""
    heard: list[int] = []
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda n, _: heard.append(n)) for number in numbers}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_task(client: RobotClient, instruction: str, *, timeout_s: float, detach: bool = False) -> RunTask.Result:
    """Send an instruction and show what happens until the task has ended, or only until it has begun.

    A signal, a screen that has gone and the deadline cancel it; its end is then waited for at most CONFIRM_S, or until the
    next signal.
    """
    if detach:
        client.following.cancel()
    client.call_soon(client.send, instruction)
    deadline = time.monotonic() + timeout_s
    end, settle_s, cancelled = None, 0.0, ""
    held: list[tuple[str, Any]] = []
    with signals() as asked_to_end, RunScreen(client.view, client) as screen:
        while end is None or time.monotonic() < settle_s:
            why = f"asked to end by {signal.Signals(asked_to_end[0]).name}" if asked_to_end else ""
            try:
                kind, message = client.inbox.get(timeout=0.1)
                if kind == "end":
                    end, settle_s = message, time.monotonic() + 0.3
                else:
                    held.append((kind, message))
            except queue.Empty:
                pass
            try:
                # The goal's feedback tells which process is ours, a moment later than its first events.
                while held and (client.process_id or end is not None):
                    screen.hear(*held.pop(0))
                screen.refresh()
            except (OSError, SystemExit):  # the terminal has gone, or the reader of the pipe, for which rich exits
                why = "nobody reads any more"
            if end is None and time.monotonic() - client.heard_s > SILENT_S:
                client.cancel()
                silent = f"the robot's channel_scheduler is silent for {SILENT_S:g} s: the robot has ended, or this node died"
                return failure(silent, TaskCode.NODE_UNAVAILABLE)
            if end is None and detach and client.process_id:
                how = f"it goes on; ghostshell stop {client.process_id} ends it"
                return RunTask.Result(status=ProcessStatus.IN_PROGRESS.value, error_msg=how)
            late = time.monotonic() > deadline
            if end is None and cancelled and (late or len(asked_to_end) > 1):
                unknown = f"{cancelled}; no answer says that it has ended: look with ghostshell ps, or ghostshell halt"
                return failure(unknown, TaskCode.NODE_UNAVAILABLE)
            if late and not cancelled:
                why = f"not done within {timeout_s:g} s"
            if end is None and why and not cancelled:
                client.cancel()
                cancelled, deadline = why, time.monotonic() + CONFIRM_S
    if cancelled and end.error_code == TaskCode.CANCELLED:
        end.error_msg = f"{cancelled}, so it was ended"
    return end
