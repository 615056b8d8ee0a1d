# SPDX-License-Identifier: Apache-2.0
"""The published queue of steps of a process: which one runs, which wait, and how each is written (TypeGo 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


class StepLine:
    """Keep the living steps of a process; `report` publishes all changes of one instant at once."""

    def __init__(self, on_change: Callable[[StepQueue], None]) -> None:
        self._on_change = on_change
        self._steps: dict[Call, list[FunctionToken]] = {}
        self._whole: dict[Call, ShownStep] = {}
        """Steps as they are shown once they have been read to their end."""
        self._done = 0
        self._told = StepQueue()
        self._changed = False

    def opened(self, step: Call, token: FunctionToken) -> None:
        """Add a step whose start tag, or empty tag, has been read."""
        self._steps[step] = [token]
        self._changed = True

    def wrote(self, step: Call, token: FunctionToken) -> None:
        """Add a token inside a step, or its end tag."""
        if step in self._steps:
            self._steps[step].append(token)

    def changed(self, call: Call) -> None:
        """Note that a call has begun, has ended, or has been read to its end."""
        self._changed = self._changed or call in self._steps

    def report(self) -> None:
        """Publish the queue if it has changed since the last time."""
        if not self._changed:
            return
        self._changed = False
        for step in [step for step in self._steps if not step.live]:
            self._done += step.start_s is not None
            del self._steps[step]
            self._whole.pop(step, None)
        steps = sorted(self._steps, key=lambda step: step.seq)
        running = [self._shown(step) for step in steps if step.state is not CallState.QUEUED]
        queued = tuple(self._shown(step) for step in steps if step.state is CallState.QUEUED)
        now = StepQueue(running[0] if running else None, queued, self._done, any(not step.closed for step in steps))
        if now != self._told:
            self._told = now
            self._on_change(now)

    def _shown(self, step: Call) -> ShownStep:
        if step in self._whole:
            return self._whole[step]
        shown = ShownStep(step.call_id, step.stream_id, source_of(self._steps[step]))
        if step.closed:
            self._whole[step] = shown
        return shown


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
