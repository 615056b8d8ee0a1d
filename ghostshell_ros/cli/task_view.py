# SPDX-License-Identifier: Apache-2.0
"""A task as a person sees it in the terminal: the stream as it is written, and what each channel does."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from function_tokens.run_model import CallRun, RunModel, call_label
from skill_kernel.events import CallKind, NoticeKind, ProcessKind, RunEvent, StreamKind

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
