# SPDX-License-Identifier: Apache-2.0
"""A task as a person sees it in the terminal: the stream as it is written, and what each channel does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from function_tokens.scheduling.timeline import CallRecord

STYLES = {"DONE": "green", "FAILED": "bold red", "INTERRUPTED": "yellow", "REFUSED": "magenta", "DROPPED": "dim"}
SHOWN_NOTICES = 4
STREAM_TAIL = 1500


@dataclass
class _Call:
    function: str
    args: dict[str, Any]
    channels: tuple[str, ...]
    parent: str
    start_s: float | None = None


@dataclass
class TaskView:
    """Collects tokens and events of one task; times are seconds since the first one. Prints a line for each event when
    the console is no terminal, otherwise `render` is shown live."""

    console: Console
    title: str
    live: bool
    origin_s: float | None = None
    stream: list[str] = field(default_factory=list)
    records: list[CallRecord] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    _calls: dict[str, _Call] = field(default_factory=dict)
    _last: dict[str, CallRecord] = field(default_factory=dict)
    _now_s: float = 0.0
    _written_s: list[float] = field(default_factory=list)

    @property
    def writing(self) -> tuple[float, float] | None:
        """When the first and the last token came, in seconds on the records' clock."""
        return (self._written_s[0], self._written_s[-1]) if self._written_s else None

    def token(self, time_s: float, text: str) -> None:
        """A piece of the stream as the model wrote it."""
        self.stream.append(text)
        self._written_s.append(self._tick(time_s))

    def since(self, time_s: float) -> float:
        """Seconds since the task's first event."""
        if self.origin_s is None:
            self.origin_s = time_s
        return time_s - self.origin_s

    def queued(self, time_s: float, call_id: str, function: str, args_json: str, channels: list[str], parent: str) -> None:
        """A call waits for its channels."""
        self._calls[call_id] = _Call(function, _arguments(args_json), tuple(channels), parent)
        self._tick(time_s)

    def started(self, time_s: float, call_id: str, args_json: str) -> None:
        """A call moves the robot."""
        call = self._calls.get(call_id)
        if call is None:
            return
        call.start_s = self._tick(time_s)
        call.args = _arguments(args_json)
        self._line(call.start_s, "start", _shown(call.function, call.args), call.channels, "cyan")

    def ended(
        self,
        time_s: float,
        call_id: str,
        function: str,
        args_json: str,
        channels: list[str],
        parent: str,
        start_s: float,
        outcome: str,
        code: int,
        error: str,
    ) -> None:
        """A call has its outcome; `start_s` is below 0 when it never started."""
        end = self._tick(time_s)
        call = self._calls.pop(call_id, None)
        start = call.start_s if call is not None and call.start_s is not None else None
        if start is None and start_s >= 0:
            start = max(0.0, self.since(start_s))
        record = CallRecord(
            call_id,
            function,
            _arguments(args_json),
            channels[0] if channels else "",
            tuple(channels),
            start,
            end,
            outcome,
            error,
            parent,
            code,
        )
        self.records.append(record)
        for channel in channels:
            self._last[channel] = record
        text = _shown(function, record.args) + (f": {error}" if error else "")
        self._line(end, outcome.lower(), text, record.channels, STYLES.get(outcome, ""))

    def notice(self, time_s: float, text: str, style: str = "yellow") -> None:
        """Something a person should read."""
        self.notices.append(text)
        self._line(self._tick(time_s), "note", text, (), style)

    def tick(self, time_s: float) -> None:
        """Time goes on, so that running calls show how long they have run."""
        self._tick(time_s)

    def render(self) -> RenderableType:
        """The present state as a picture for the terminal."""
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
        met = dict.fromkeys(["main"])
        met.update(dict.fromkeys(c for r in self.records for c in r.channels))
        met.update(dict.fromkeys(c for call in self._calls.values() for c in call.channels))
        return list(met)

    def _cells(self, channel: str) -> tuple[Text, Text, Text]:
        mine = [c for c in self._calls.values() if channel in c.channels]
        running = [c for c in mine if c.start_s is not None]
        waiting = [c for c in mine if c.start_s is None]
        now = Text(", ".join(f"{_shown(c.function, c.args)} {self._now_s - (c.start_s or 0.0):.1f} s" for c in running))
        now.stylize("bold")
        last = self._last.get(channel)
        ended = Text(f"{last.function} {last.outcome}", style=STYLES.get(last.outcome, "")) if last else Text("")
        return now, Text(" ".join(c.function for c in waiting[:4]), style="dim"), ended

    def _tick(self, time_s: float) -> float:
        self._now_s = max(self._now_s, self.since(time_s))
        return self.since(time_s)

    def _line(self, time_s: float, what: str, text: str, channels: tuple[str, ...], style: str) -> None:
        if not self.live:
            place = f" [{'+'.join(channels)}]" if channels else ""
            line = Text(f"{max(time_s, 0.0):7.2f} s  {what:<11} {text}{place}", style=style)
            self.console.print(line, soft_wrap=True)


def _arguments(args_json: str) -> dict[str, Any]:
    try:
        value = json.loads(args_json or "{}")
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _shown(function: str, args: Any) -> str:
    if function == "text":
        return f"“{args.get('text', '')}”"
    return f"{function}({', '.join(f'{k}={_short(v)}' for k, v in args.items())})"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
