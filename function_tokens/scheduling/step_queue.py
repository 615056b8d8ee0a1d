# SPDX-License-Identifier: Apache-2.0
"""The published queue of steps of a process: which one runs, which wait, and how each is written (TypeGo 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, to_source
from function_tokens.scheduling.calls import Call, CallState


@dataclass(frozen=True)
class ShownStep:
    """Show one step: its call, its stream, its source text (elements still open are closed in it)."""

    call_id: str
    stream_id: str
    source: str


@dataclass(frozen=True)
class StepQueue:
    """Show all living steps. `queued` ones have not begun, oldest first; `done` counts those that have begun and ended;
    `reading` is true until the end tag of the last one has been read."""

    running: ShownStep | None = None
    queued: tuple[ShownStep, ...] = ()
    done: int = 0
    reading: bool = False


@dataclass
class _Line:
    call: Call
    tokens: list[FunctionToken] = field(default_factory=list)
    reading: bool = True
    whole: ShownStep | None = None
    """The step as it is shown once it has been read to its end."""

    def shown(self) -> ShownStep:
        if self.whole is not None:
            return self.whole
        step = ShownStep(self.call.call_id, self.call.stream_id, source_of(self.tokens))
        if not self.reading:
            self.whole = step
        return step


class StepLine:
    """Keep the living steps of a process; `report` publishes all changes of one instant at once."""

    def __init__(self, on_change: Callable[[StepQueue], None]) -> None:
        self._on_change = on_change
        self._lines: dict[str, _Line] = {}
        self._done = 0
        self._told = StepQueue()
        self._changed = False

    def opened(self, step: Call, token: FunctionToken) -> None:
        """Add a step whose start tag, or empty tag, has been read."""
        self._lines[step.call_id] = _Line(step, [token], reading=token.kind is TokenKind.AF)
        self._changed = True

    def wrote(self, step: Call, token: FunctionToken) -> None:
        """Add a token inside a step, or its end tag."""
        line = self._lines.get(step.call_id)
        if line is not None:
            line.tokens.append(token)

    def read(self, step: Call) -> None:
        """Note that nothing more of the step will be read."""
        line = self._lines.get(step.call_id)
        if line is not None:
            line.reading = False
            self._changed = True

    def began(self, call: Call) -> None:
        """Note that a call has begun."""
        self._changed = self._changed or call.call_id in self._lines

    def ended(self, call: Call) -> None:
        """Note that a call has its outcome."""
        if self._lines.pop(call.call_id, None) is not None:
            self._done += call.start_s is not None
            self._changed = True

    def report(self) -> None:
        """Publish the queue if it has changed since the last time."""
        if not self._changed:
            return
        self._changed = False
        if (now := self.state()) != self._told:
            self._told = now
            self._on_change(now)

    def state(self) -> StepQueue:
        """Return the queue as it stands."""
        lines = sorted(self._lines.values(), key=lambda line: line.call.seq)
        running = [line.shown() for line in lines if line.call.state is not CallState.QUEUED]
        queued = tuple(line.shown() for line in lines if line.call.state is CallState.QUEUED)
        reading = any(line.reading for line in lines)
        return StepQueue(running[0] if running else None, queued, self._done, reading)


def source_of(tokens: list[FunctionToken]) -> str:
    """Return the canonical text of tokens that may not be complete yet."""
    opened: list[str] = []
    for token in tokens:
        if token.kind is TokenKind.AF:
            opened.append(token.name)
        elif token.kind is TokenKind.RF and opened:
            opened.pop()
    closing = [FunctionToken(TokenKind.RF, name) for name in reversed(opened)]
    try:
        return to_source([*tokens, *closing])
    except RoutineError as error:
        return f"<!-- a step that cannot be shown: {error} -->"
