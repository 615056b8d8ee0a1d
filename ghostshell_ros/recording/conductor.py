# SPDX-License-Identifier: Apache-2.0
"""Gives the inputs of a recorded run again, in time and never before what had happened by then has happened again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ghostshell_ros.recording.call_book import Output
from ghostshell_ros.recording.timeline import Input

LATE_S = 0.1
"""How far time may run ahead of an output that the recording had by then."""

PATIENCE_S = 3.0
"""An output that is missing for so long on the wall clock will not come …"""

IMPATIENCE_S = 0.2
"""… and after a few of those, the others are waited for no longer than that."""

FEW = 3


class Conductor:
    """Time is the recording's: it runs `speed` times as fast as the wall clock and stands still while an output is
    missing, so that a slow machine changes no order. Pure; `tick` is called often."""

    def __init__(
        self, inputs: Sequence[Input], outputs: Sequence[tuple[float, Output]], give: Callable[[Input], None], *, speed: float
    ) -> None:
        self._inputs, self._outputs, self._give, self._speed = inputs, outputs, give, speed
        self._next = 0
        self._first_missing = 0
        self._seen: set[Output] = set()
        self._wall_s: float | None = None
        self._stuck_s = 0.0
        self.missing: list[tuple[float, Output]] = []
        """What was waited for in vain."""
        begin_s = min([i.at_s for i in inputs[:1]] + [t for t, _ in outputs[:1]], default=0.0)
        self.now_s = begin_s - 0.5

    @property
    def over(self) -> bool:
        """Return whether all was given and all outputs came or are given up."""
        return self._next >= len(self._inputs) and self._first_missing >= len(self._outputs)

    def saw(self, output: Output) -> None:
        """Note that the replay has published this, too."""
        self._seen.add(output)

    def tick(self, wall_s: float) -> float:
        """Go on to this wall time; gives the recording's time."""
        passed_s = 0.0 if self._wall_s is None else wall_s - self._wall_s
        self._wall_s = wall_s
        before = (self._first_missing, self._next)
        self._advance()
        self._move(self.now_s + passed_s * self._speed)
        if before != (self._first_missing, self._next) or not self._waits():
            self._stuck_s = 0.0
        else:
            self._stuck_s += passed_s
            if self._stuck_s > (PATIENCE_S if len(self.missing) < FEW else IMPATIENCE_S):
                self.missing.append(self._outputs[self._first_missing])
                self._seen.add(self._outputs[self._first_missing][1])
                self._stuck_s = 0.0
                self._advance()
        return self.now_s

    def _advance(self) -> None:
        while self._first_missing < len(self._outputs) and self._outputs[self._first_missing][1] in self._seen:
            self._first_missing += 1

    def _limit_s(self) -> float:
        if self._first_missing < len(self._outputs):
            return self._outputs[self._first_missing][0] + LATE_S
        return float("inf")

    def _waits(self) -> bool:
        """Return whether an output is missing that should have come."""
        if self._first_missing >= len(self._outputs):
            return False
        gated = self._next < len(self._inputs) and self._inputs[self._next].after > self._first_missing
        due = gated and self._inputs[self._next].at_s <= self.now_s
        return due or self.now_s >= self._limit_s() or self._next >= len(self._inputs)

    def _move(self, until_s: float) -> None:
        until_s = max(self.now_s, min(until_s, self._limit_s()))
        while self._next < len(self._inputs):
            given = self._inputs[self._next]
            if given.at_s > until_s:
                break
            if given.after > self._first_missing:
                until_s = max(self.now_s, given.at_s)
                break
            self.now_s = max(self.now_s, given.at_s)
            self._next += 1
            self._give(given)
        self.now_s = max(self.now_s, until_s)
