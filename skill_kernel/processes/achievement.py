# SPDX-License-Identifier: Apache-2.0
"""Tell from the calls of a process what was achieved of its task: all of it, a part, only words, or nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from skill_kernel.codes import Achievement, CallCode, Outcome

_UNWANTED = frozenset({CallCode.NONE, CallCode.INTERRUPTED_BY, CallCode.STALE_EPOCH, CallCode.PROCESS_PAUSED})
"""Codes of dropped calls that nobody waits for any more: another branch was taken, or their plan was stopped or made anew."""


class CallPurpose(Enum):
    """Tell what a function is there for."""

    ACT = "act"
    SPEAK = "speak"
    PAUSE = "pause"
    """A wait: it is a deed only where nothing was said, because people pause between sentences."""
    ORDER = "order"
    """It orders other calls and does nothing by itself."""


@dataclass(frozen=True)
class Tally:
    """Sum up the calls of a process that have ended.

    `failed` and `dropped` hold the functions whose last call, or one after the last that was done, did not come to its end.
    """

    acted: bool = False
    spoke: bool = False
    waited: bool = False
    failed: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()

    def plus(self, function: str, outcome: str, code: int = 0, purpose: CallPurpose = CallPurpose.ACT) -> Tally:
        """Return the sums with one more call. One that was interrupted has begun to act."""
        if outcome in (Outcome.FAILED, Outcome.REFUSED):
            return replace(self, failed=self.failed | {function})
        if outcome == Outcome.DROPPED:
            unwanted = code in _UNWANTED or purpose is not CallPurpose.ACT
            return self if unwanted else replace(self, dropped=self.dropped | {function})
        done = {function} if outcome == Outcome.DONE else set()
        return Tally(
            acted=self.acted or purpose is CallPurpose.ACT,
            spoke=self.spoke or purpose is CallPurpose.SPEAK,
            waited=self.waited or purpose is CallPurpose.PAUSE,
            failed=self.failed - done,
            dropped=self.dropped - done,
        )

    def achievement(self, *, success: bool) -> Achievement:
        """Return what was achieved when the process has ended with that status."""
        acted = self.acted or (self.waited and not self.spoke)
        if acted:
            return Achievement.DONE if success and not (self.failed or self.dropped) else Achievement.PARTLY_DONE
        if success and self.spoke and not (self.failed or self.dropped):
            return Achievement.ANSWERED
        return Achievement.NOT_DONE
