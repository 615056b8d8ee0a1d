# SPDX-License-Identifier: Apache-2.0
"""Send an instruction to a robot once it has come up, and follow what happens until its task has ended."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from diagnostic_msgs.msg import DiagnosticArray
from ghostshell.action import RunTask
from ghostshell.msg import FunctionToken, KernelState, ProcessHeartbeat
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from function_tokens.run_model import CallRun, RunModel, call_label
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.lifecycle import TOPIC as DRIVER_STATES
from ghostshell_ros.runtime.lifecycle import DriverState
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import LATCHED, SENSORS, STREAM
from skill_kernel.codes import TaskCode
from skill_kernel.events import CallKind, NoticeKind, ProcessKind, RunEvent, StreamKind
from skill_kernel.processes.process import ProcessStatus

STYLES = {"DONE": "green", "FAILED": "bold red", "INTERRUPTED": "yellow", "REFUSED": "magenta", "DROPPED": "dim"}
SHOWN_NOTICES = 4
STREAM_TAIL = 1500
TOLD = (NoticeKind.MESSAGE, NoticeKind.HALTED, StreamKind.REPAIR, StreamKind.ENDED, ProcessKind.PLAN_ENDED, CallKind.CONTENTION)
"""Kinds of events whose error a person reads."""


@dataclass
class TaskView:
    """A view of `model` for one task; times are seconds since its first event. Prints a line for each event when the console
    is no terminal, otherwise `render` is shown live."""

    console: Console
    title: str
    live: bool
    model: RunModel = field(default_factory=RunModel)
    origin_s: float | None = None
    stream: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    _now_s: float = 0.0
    _written_s: list[float] = field(default_factory=list)

    @property
    def writing(self) -> tuple[float, float] | None:
        """When the first and the last token came, in seconds on the records' clock."""
        return (self._written_s[0], self._written_s[-1]) if self._written_s else None

    @property
    def ended(self) -> list[CallRun]:
        """The calls that have ended, in the order of their ends."""
        ended = (call for call in self.model.calls.values() if call.phase is CallKind.ENDED)
        return sorted(ended, key=lambda call: call.end_s or 0.0)

    def token(self, time_s: float, text: str) -> None:
        """Take a piece of the stream as the model wrote it."""
        self.stream.append(text)
        self._written_s.append(self.tick(time_s))

    def tick(self, time_s: float) -> float:
        """Let time go on, so that running calls show how long they have run. Return the seconds since the first event."""
        if self.origin_s is None:
            self.origin_s = time_s
        self._now_s = max(self._now_s, time_s - self.origin_s)
        return time_s - self.origin_s

    def event(self, event: RunEvent) -> None:
        """Take an event of the task."""
        known = self.model.calls.get(event.call_id) if event.kind is CallKind.STARTED else None
        if not self.model.take(event) and event.kind is not CallKind.CONTENTION:
            return
        now = event.stamp_s
        if event.kind is CallKind.QUEUED:
            self.tick(now)
        elif event.kind is CallKind.STARTED:
            if known is not None:
                self._line(self.tick(now), "start", _shown(known), known.channels, "cyan")
        elif event.kind is CallKind.ENDED:
            call = self.model.calls[event.call_id]
            outcome, text = event.outcome_name or "?", _shown(call) + (f": {event.error_msg}" if event.error_msg else "")
            self._line(self.tick(now), outcome.lower(), text, event.channels, STYLES.get(outcome, ""))
        elif event.kind is NoticeKind.ROUTINE_SAVED:
            self._notice(now, f"routine '{event.routine}' saved", "green")
        elif event.kind in (ProcessKind.PAUSED, ProcessKind.RESUMED):
            how = "paused" if event.kind is ProcessKind.PAUSED else "goes on"
            self._notice(now, f"{how} ({event.cause})" if event.cause else how)
        elif event.error_msg and event.kind in TOLD and event.error_msg not in self.notices[-3:]:
            self._notice(now, event.error_msg)

    def render(self) -> RenderableType:
        """Return the present state as a picture for the terminal."""
        written = "".join(self.stream)
        text = Text(("…" if len(written) > STREAM_TAIL else "") + written[-STREAM_TAIL:])
        text.highlight_regex(r"</?[^>]+>", "cyan")
        table = Table(expand=True, show_edge=False, pad_edge=False)
        table.add_column("channel", width=10, no_wrap=True)
        table.add_column("now", ratio=3, no_wrap=True)
        table.add_column("waiting", ratio=2, no_wrap=True)
        table.add_column("last", ratio=2, no_wrap=True)
        for channel in self._channels():
            table.add_row(channel, *self._cells(channel))
        parts: list[RenderableType] = [Panel(text, title="stream", title_align="left", border_style="dim"), table]
        if self.notices:
            parts.append(Text("\n".join(self.notices[-SHOWN_NOTICES:]), style="yellow"))
        return Panel(Group(*parts), title=f"{self.title}  {self._now_s:5.1f} s", title_align="left")

    def _channels(self) -> list[str]:
        """Return the channels in the order in which calls have ended on them, then those of calls that live."""
        ended = (c for call in self.ended for c in call.channels)
        return list(dict.fromkeys(["main", *ended, *(c for call in self._living() for c in call.channels)]))

    def _living(self) -> list[CallRun]:
        return [call for call in self.model.calls.values() if call.phase is not CallKind.ENDED]

    def _cells(self, channel: str) -> tuple[Text, Text, Text]:
        mine = [c for c in self._living() if channel in c.channels]
        now_s = self._now_s + (self.origin_s or 0.0)
        now = Text(", ".join(f"{_shown(c)} {now_s - c.start_s:.1f} s" for c in mine if c.start_s is not None))
        now.stylize("bold")
        last = next((c for c in reversed(self.ended) if channel in c.channels), None)
        ended = Text(f"{last.function} {last.outcome_name}", style=STYLES.get(last.outcome_name, "")) if last else Text("")
        waiting = [c.function for c in mine if c.start_s is None]
        return now, Text(" ".join(waiting[:4]), style="dim"), ended

    def _notice(self, time_s: float, text: str, style: str = "yellow") -> None:
        self.notices.append(text)
        self._line(self.tick(time_s), "note", text, (), style)

    def _line(self, time_s: float, what: str, text: str, channels: tuple[str, ...], style: str) -> None:
        if not self.live:
            place = f" [{'+'.join(channels)}]" if channels else ""
            line = Text(f"{max(time_s, 0.0):7.2f} s  {what:<11} {text}{place}", style=style)
            self.console.print(line, soft_wrap=True)


def _shown(call: CallRun) -> str:
    return call_label(call.function, call.arguments, named=True)


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
