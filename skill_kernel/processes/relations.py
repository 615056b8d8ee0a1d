# SPDX-License-Identifier: Apache-2.0
"""How a new process stands to those that run: the preemption table (TypeGo 5.2), and within it what somebody read
of an instruction's meaning (semantics section 5)."""

from __future__ import annotations

from enum import Enum

from skill_kernel.processes.process import ProcessSource

_USER, _REACTIVE, _IDLE = ProcessSource.USER, ProcessSource.REACTIVE, ProcessSource.IDLE


class Verdict(Enum):
    """Tell what becomes of a new process and one that runs."""

    REPLACE = "replace"
    """The running one ends and does not come back."""
    PAUSE = "pause"
    """The running one pauses and goes on when the new one has ended."""
    WAIT = "wait"
    """The new one waits until the running one has ended."""
    ONE_ONLY = "one only"
    """There is no second one: the new one does not begin."""


TABLE: dict[tuple[ProcessSource, ProcessSource], Verdict] = {
    (_USER, _USER): Verdict.REPLACE,
    (_USER, _REACTIVE): Verdict.REPLACE,
    (_USER, _IDLE): Verdict.PAUSE,
    (_REACTIVE, _USER): Verdict.PAUSE,
    (_REACTIVE, _REACTIVE): Verdict.WAIT,
    (_REACTIVE, _IDLE): Verdict.PAUSE,
    (_IDLE, _USER): Verdict.WAIT,
    (_IDLE, _REACTIVE): Verdict.WAIT,
    (_IDLE, _IDLE): Verdict.ONE_ONLY,
}
"""(new, running) → verdict."""


def verdict(new: ProcessSource, running: ProcessSource, *, returns: bool = False) -> Verdict:
    """Return what the table says; with `returns` the new task asks that what it displaces goes on after it."""
    found = TABLE[new, running]
    return Verdict.PAUSE if returns and found is Verdict.REPLACE else found


class Relation(str, Enum):
    """Tell what a new instruction says of one that runs."""

    REPLACE = "replace"
    """It is no longer wanted."""
    JOIN = "join"
    """Both are wanted."""
    RETURN = "return"
    """It goes on after the new one, should the new one displace it."""
