# SPDX-License-Identifier: Apache-2.0
"""How the skill kernel of a recorded run answered each call, so that a replay can answer the same."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from ghostshell_ros.recording.call_book import Key, RecordedCall
from ghostshell_ros.recording.timeline import Timeline
from skill_kernel.codes import CallCode

DONE, FAILED, INTERRUPTED, REFUSED, DROPPED = 1, 2, 3, 4, 5
"""Outcomes as SkillEvent numbers them; a test holds them against the interface."""

EARLY_S = 0.1
"""A call that was kept back may begin so much earlier than it did."""

IN_FLIGHT_S = 0.5
"""A goal that is overtaken by an interrupt is answered within this time; one that waits longer was never sent."""


class Do(Enum):
    """What to do with a goal."""

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
    outcome: int = 0
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
        """A call was handed over; `paused`: processes that the kernel's state shows as paused."""
        call = self._run.book.calls.get(key) if key is not None else None
        if call is None:
            return Answer(Do.END, FAILED, int(CallCode.SKILL_FAILED), "the recording holds no such call")
        if call.key in self._given:
            return self.result(call)
        start_s = call.started_s if call.started_s is not None else call.ended_s
        early = start_s is None or now_s < start_s - EARLY_S
        again_s = start_s if start_s is not None else now_s
        if early and call.process_id in paused:
            return Answer(Do.HOLD, REFUSED, int(CallCode.PROCESS_PAUSED), "the process is paused, as recorded", again_s=again_s)
        if early and self._run.kept_back(call, now_s):
            return Answer(
                Do.HOLD, REFUSED, int(CallCode.SUBSYSTEM_HELD), "another call has what it needs, as recorded", again_s=again_s
            )
        if call.started_s is not None or call.ended_s is None:
            return Answer(Do.RUN)
        if call.outcome == DROPPED and call.ended_s - now_s > IN_FLIGHT_S:
            return Answer(Do.RUN)  # it should not have been sent, which shows in that it begins
        return Answer(Do.WAIT)

    def result(self, call: RecordedCall) -> Answer:
        """Its result, as recorded; the scheduler makes DROPPED of a call that an interrupt overtook."""
        self._given.add(call.key)
        never = call.started_s is None
        if call.outcome == DROPPED:
            return Answer(Do.END, INTERRUPTED, call.code or int(CallCode.STALE_EPOCH), call.error, call.message)
        start_s = -1.0 if never or call.started_s is None else call.started_s
        end_s = -1.0 if call.ended_s is None else call.ended_s
        return Answer(Do.END, call.outcome, call.code, call.error, call.message, start_s, end_s)

    def reset(self, key: Key) -> Answer | None:
        """It was reset; ends now where the recording knows of no reset."""
        call = self._run.book.calls.get(key)
        return None if call is not None and call.resetting_s is not None else Answer(Do.END, DONE)

    def stop(self, key: Key, cause: str) -> Answer | None:
        """It was interrupted; ends now where the recording knows of no interrupt."""
        call = self._run.book.calls.get(key)
        if call is not None and call.outcome in (INTERRUPTED, DROPPED):
            return None
        return Answer(Do.END, INTERRUPTED, int(CallCode.INTERRUPTED_BY), cause)
