# SPDX-License-Identifier: Apache-2.0
"""Send an instruction to a robot once it has come up, and follow what happens until its task has ended."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from diagnostic_msgs.msg import DiagnosticArray
from ghostshell.action import RunTask
from ghostshell.msg import FunctionToken, KernelState, ProcessHeartbeat
from rich.console import Console
from rich.live import Live

from ghostshell_ros.cli.task_view import TaskView
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.lifecycle import TOPIC as DRIVER_STATES
from ghostshell_ros.runtime.lifecycle import DriverState
from ghostshell_ros.runtime.node_runtime import LATCHED, SENSORS, STREAM, RuntimeNode
from ghostshell_ros.wire.events import read_events
from skill_kernel.codes import TaskCode
from skill_kernel.processes.process import ProcessStatus

QUIET_S = 1.0
"""The processes of the drivers start one after the other; so long after the last change no other is expected."""
UNMANAGED_S = 3.0
"""A robot whose drivers have no lifecycle_manager never tells their states; after so long it is taken for one."""
_COMING = ("", "unconfigured", "configuring", "activating")


class StartUp:
    """Hears `driver_states`. Times in s of one clock; `changed_s` is the stamp of the states on it."""

    def __init__(self, now_s: float) -> None:
        self._since_s = self._heard_s = self._changed_s = now_s
        self._drivers: Sequence[DriverState] = ()

    def hear(self, now_s: float, changed_s: float, drivers: Sequence[DriverState]) -> None:
        """Return what the lifecycle_manager told."""
        self._heard_s, self._changed_s, self._drivers = now_s, changed_s, drivers

    def coming(self, now_s: float) -> list[str]:
        """Return what to wait for: the drivers that are coming up, or "drivers" while others may still show up. Those that
        are lost, or that somebody deactivated, are not waited for: not every task needs them."""
        if not self._drivers:
            return [] if now_s - self._since_s >= UNMANAGED_S else ["drivers"]
        coming = [d.name.rsplit("/", 1)[-1] for d in self._drivers if d.coming_up or d.state in _COMING]
        # The stamp of another machine may be wrong; nobody waits longer than from hearing it.
        quiet = now_s - min(self._changed_s, self._heard_s) >= QUIET_S
        return coming or ([] if quiet else ["drivers"])


SILENT_S = 4.0
"""Without the scheduler's heartbeat for so long a robot has ended or has lost its task."""


NODES = ("process_scheduler", "skill_kernel", "channel_scheduler")
"""Those that a task needs."""


class NotThereError(RuntimeError):
    """The robot does not answer; the message says what to start."""


def failure(why: str, code: int) -> RunTask.Result:
    """Return the end of a task that nobody reported."""
    return RunTask.Result(status=ProcessStatus.FAILED.value, error_code=code, error_msg=why)


def told(end: RunTask.Result) -> str:
    """Return how a task ended in one line."""
    why = f" ({end.error_msg})" if end.error_msg else ""
    return f"{ProcessStatus(end.status).name}{why}{f': {end.summary}' if end.summary else ''}"


class RobotClient(RuntimeNode):
    """A client of one robot's `run_task`; what it hears goes into `inbox`."""

    def __init__(self, robot: str) -> None:
        super().__init__("ghostshell_cli", namespace=robot, use_global_arguments=False)
        self.inbox: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._task = GoalClient(self, RunTask, "run_task")
        self._goal: SentGoal | None = None
        self.process_id = ""
        self._seen: set[str] = set()
        self.heard_s = time.monotonic()
        read_events(self, lambda event: self.inbox.put(("event", event)))
        self.create_subscription(FunctionToken, "function_tokens", lambda m: self.inbox.put(("token", m)), STREAM)
        self.create_subscription(KernelState, "kernel_state", self._kernel, LATCHED)
        self.create_subscription(ProcessHeartbeat, "scheduler_heartbeat", self._beat, SENSORS)
        self._halted = False
        self._start_up = StartUp(self._now_s())
        self.create_subscription(DiagnosticArray, DRIVER_STATES, self._on_drivers, LATCHED)

    def silent(self) -> list[str]:
        """Return the nodes that a task needs and that have not been heard yet. Asking again and again proves the way there
        and back."""
        heard = self._seen | ({"process_scheduler"} if self._task.server_is_ready() else set())
        return [node for node in NODES if node not in heard]

    def lacking(self) -> list[str]:
        """Return what a task needs and what is not there yet: nodes, else drivers, unless the robot is halted: then none
        comes up."""
        return self.silent() or ([] if self._halted else self._start_up.coming(self._now_s()))

    def send(self, instruction: str) -> None:
        """Send the task; feedback, and at last its end, arrive in the inbox."""
        goal = RunTask.Goal(instruction=instruction, sender="command line", door="chat")
        self._goal = self._task.send(goal, on_end=self._ended, on_feedback=self._feedback)

    def cancel(self) -> None:
        """Cancel the task; its end still arrives."""
        if self._goal is not None:
            self._goal.cancel()

    def _kernel(self, message: KernelState) -> None:
        self._seen.add("skill_kernel")
        self._halted = message.halted

    def _on_drivers(self, message: DiagnosticArray) -> None:
        stamp = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
        self._start_up.hear(self._now_s(), stamp, [DriverState.of(status) for status in message.status])

    def _now_s(self) -> float:
        return float(self.get_clock().now().nanoseconds * 1e-9)

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
        time.sleep(0.05)


def run_task(client: RobotClient, view: TaskView, instruction: str, *, timeout_s: float) -> RunTask.Result:
    """Send an instruction and show what happens until the task has ended. Ctrl-C cancels it and waits for its end."""
    client.send(instruction)
    deadline = time.monotonic() + timeout_s
    live: Any = Live(view.render(), console=view.console, refresh_per_second=8) if view.live else nullcontext()
    with live:
        end, settle_s = None, 0.0
        early: list[tuple[str, Any]] = []
        while end is None or time.monotonic() < settle_s:
            try:
                kind, item = client.inbox.get(timeout=0.1)
                if kind == "end":
                    end, settle_s = item, time.monotonic() + 0.3
                else:
                    early.append((kind, item))
                    # Which process is ours is told by another topic, and a moment later.
                    while early and (client.process_id or not early[0][1].process_id):
                        _hear(view, client, *early.pop(0))
            except queue.Empty:
                pass
            except KeyboardInterrupt:
                client.cancel()
                deadline = min(deadline, time.monotonic() + 3.0)
            if view.origin_s is not None:
                view.tick(client.get_clock().now().nanoseconds * 1e-9)
            if view.live:
                live.update(view.render())
            if end is None and time.monotonic() - client.heard_s > SILENT_S:
                why = f"the robot's channel_scheduler is silent for {SILENT_S:g} s: the robot has ended, or this node died"
                return failure(why, TaskCode.NODE_UNAVAILABLE)
            if end is None and time.monotonic() > deadline:
                client.cancel()
                why = f"the task did not end within {timeout_s:g} s and was cancelled"
                return failure(why, TaskCode.NODE_UNAVAILABLE)
    return end


def make_view(title: str) -> TaskView:
    """Return a view on standard output, live when that is a terminal."""
    console = Console()
    return TaskView(console, title, live=console.is_terminal)


def _hear(view: TaskView, client: RobotClient, kind: str, item: Any) -> None:
    if item.process_id and item.process_id != client.process_id:
        return
    if kind == "token":
        view.token(item.stamp.sec + item.stamp.nanosec * 1e-9, _source(item))
    else:
        view.event(item)


def _source(token: FunctionToken) -> str:
    """Return the token as a model may have written it."""
    if token.kind in (FunctionToken.CHAR, FunctionToken.REF):
        return escape(token.text)
    if token.kind == FunctionToken.RESET:
        return f"</{token.name}>"
    if token.kind in (FunctionToken.ACTIVATE, FunctionToken.SELF_CONTAINED):
        attrs = "".join(f" {k}={quoteattr(v)}" for k, v in zip(token.attr_names, token.attr_values, strict=False))
        return f"<{token.name}{attrs}{'/' if token.kind == FunctionToken.SELF_CONTAINED else ''}>"
    return ""
