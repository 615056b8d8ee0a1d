# SPDX-License-Identifier: Apache-2.0
"""Decide what a replay gives when, and what the skill kernel of the recorded run answered. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from bench.replay.calls import Key, Output, RecordedCall
from bench.replay.timeline import Input, Timeline
from skill_kernel.codes import CallCode, Outcome

LATE_S = 0.1
"""Time by which a replay may run ahead of an output that the recording had by then."""

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
        """Outputs that were waited for in vain."""
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


EARLY_S = 0.1
"""A call that was kept back may begin so much earlier than it did."""

IN_FLIGHT_S = 0.5
"""A goal that is overtaken by an interrupt is answered within this time; one that waits longer was never sent."""


class Do(Enum):
    """Reply to a goal."""

    RUN = "run"
    """It begins; its result follows."""
    WAIT = "wait"
    """It never began; its result follows."""
    HOLD = "hold"
    """It is kept back: refused now, and sent again when the kernel's state changes."""
    END = "end"
    """It ends now."""


@dataclass(frozen=True)
class Answer:
    """`outcome` … are those of a goal that ends now."""

    do: Do
    outcome: Outcome | None = None
    code: int = 0
    error: str = ""
    message: str = ""
    start_s: float = -1.0
    end_s: float = -1.0
    again_s: float = 0.0
    """HOLD: when it began in the recording."""


class ReplayedKernel:
    """Answers as it is recorded; what the recording does not hold fails. Pure."""

    def __init__(self, run: Timeline) -> None:
        self._run = run
        self._given: set[Key] = set()

    def goal(self, key: Key | None, now_s: float, paused: Collection[str]) -> Answer:
        """Answer a call that was handed over; `paused`: processes that the kernel's state shows as paused."""
        call = self._run.book.calls.get(key) if key is not None else None
        if call is None:
            return Answer(Do.END, Outcome.FAILED, int(CallCode.SKILL_FAILED), "the recording holds no such call")
        if call.key in self._given:
            return self.result(call)
        start_s = call.started_s if call.started_s is not None else call.ended_s
        early = start_s is None or now_s < start_s - EARLY_S
        again_s = start_s if start_s is not None else now_s
        if early and call.process_id in paused:
            return Answer(
                Do.HOLD, Outcome.REFUSED, int(CallCode.PROCESS_PAUSED), "the process is paused, as recorded", again_s=again_s
            )
        if early and self._run.kept_back(call, now_s):
            return Answer(
                Do.HOLD,
                Outcome.REFUSED,
                int(CallCode.SUBSYSTEM_HELD),
                "another call has what it needs, as recorded",
                again_s=again_s,
            )
        if call.started_s is not None or call.ended_s is None:
            return Answer(Do.RUN)
        if call.outcome is Outcome.DROPPED and call.ended_s - now_s > IN_FLIGHT_S:
            return Answer(Do.RUN)  # it should not have been sent, which shows in that it begins
        return Answer(Do.WAIT)

    def result(self, call: RecordedCall) -> Answer:
        """Its result, as recorded; the scheduler makes DROPPED of a call that an interrupt overtook."""
        self._given.add(call.key)
        never = call.started_s is None
        if call.outcome is Outcome.DROPPED:
            return Answer(Do.END, Outcome.INTERRUPTED, call.code or int(CallCode.STALE_EPOCH), call.error, call.message)
        start_s = -1.0 if never or call.started_s is None else call.started_s
        end_s = -1.0 if call.ended_s is None else call.ended_s
        return Answer(Do.END, call.outcome, call.code, call.error, call.message, start_s, end_s)

    def reset(self, key: Key) -> Answer | None:
        """Answer a reset; the call ends now where the recording knows of no reset."""
        call = self._run.book.calls.get(key)
        return None if call is not None and call.resetting_s is not None else Answer(Do.END, Outcome.DONE)

    def stop(self, key: Key, cause: str) -> Answer | None:
        """Answer an interrupt; the call ends now where the recording knows of no interrupt."""
        call = self._run.book.calls.get(key)
        if call is not None and call.outcome in (Outcome.INTERRUPTED, Outcome.DROPPED):
            return None
        return Answer(Do.END, Outcome.INTERRUPTED, int(CallCode.INTERRUPTED_BY), cause)
