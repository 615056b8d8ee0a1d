# SPDX-License-Identifier: Apache-2.0
"""A process: a task and its runtime context, in one control block (TypeGo 5.2); what was achieved of it; how a new one stands
to those that run: the preemption table, and within it what somebody read of an instruction's meaning (semantics section 5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Any

from skill_kernel.codes import Achievement, CallCode, Outcome, TaskCode
from skill_kernel.events import CallEvent, ModelEvent


@dataclass(frozen=True)
class LayerUsage:
    """Sum up a layer's calls (fields of LayerUsage.msg). `cost_usd` is -1 while no price is known."""

    layer: str
    model: str = ""
    calls: int = 0
    failures: int = 0
    skipped: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = -1.0
    latency_s: float = 0.0
    latency_max_s: float = 0.0


def added(usage: tuple[LayerUsage, ...], answer: ModelEvent) -> tuple[LayerUsage, ...]:
    """Return the sums with one more call."""
    old = usage_of(usage, answer.layer)
    new = replace(
        old,
        model=answer.model or old.model,
        calls=old.calls + 1,
        failures=old.failures + answer.failed,
        prompt_tokens=old.prompt_tokens + answer.prompt_tokens,
        cached_tokens=old.cached_tokens + answer.cached_tokens,
        completion_tokens=old.completion_tokens + answer.completion_tokens,
        cost_usd=max(old.cost_usd, 0.0) + answer.cost_usd if answer.cost_usd >= 0 else old.cost_usd,
        latency_s=old.latency_s + answer.took_s,
        latency_max_s=max(old.latency_max_s, answer.took_s),
    )
    return _with(usage, new)


def skipped(usage: tuple[LayerUsage, ...], layer: str) -> tuple[LayerUsage, ...]:
    """Return the sums when a layer saw no need to ask, or was not allowed to."""
    old = usage_of(usage, layer)
    return _with(usage, replace(old, skipped=old.skipped + 1))


def usage_of(usage: tuple[LayerUsage, ...], layer: str) -> LayerUsage:
    return next((u for u in usage if u.layer == layer), LayerUsage(layer))


def _with(usage: tuple[LayerUsage, ...], new: LayerUsage) -> tuple[LayerUsage, ...]:
    return tuple({**{u.layer: u for u in usage}, new.layer: new}.values())


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


CAUSE_USER = "user"
CAUSE_S3 = "s3"
OWN_CAUSES = frozenset({CAUSE_USER, CAUSE_S3})
"""Pause causes that the process scheduler gives and takes; all others (s0, teleop) are the skill kernel's to tell."""

HISTORY = 200
"""Ended calls kept of one process."""

EVENT_CHARS = 300
"""Characters kept of a global event that came true."""

FIRED = 50
"""Global events kept of one process."""

NOTHING_MORE: dict[str, Any] = {
    "waits_for": "",
    "displaced_by": "",
    "pause_causes": frozenset(),
    "subsystems": (),
    "running": (),
}
"""Fields that a process loses with its end."""


class ProcessError(ValueError):
    """Report a command that cannot be obeyed; the message says why and what to do. `code` is for a task that does not begin."""

    def __init__(self, message: str, code: TaskCode = TaskCode.TOO_MANY_PROCESSES) -> None:
        super().__init__(message)
        self.code = code


class Obeyed(ProcessError):
    """Report an instruction that was done at once and needs no process: a stop word, or a word about those that run."""

    def __init__(self, message: str) -> None:
        super().__init__(message, TaskCode.NONE)


@dataclass(frozen=True)
class SchedulerSettings:
    """Set how processes begin and how many there are.

    `strategy` is how an instruction becomes actions, `strategies` are the names a task may ask for. `idle` is the
    instruction of the idle process, empty for none, begun after `idle_after_s` without another one. `max_processes` may
    live at a time; the newest `keep` are remembered. `purposes` names the functions that do not act. `unproven` returns the
    deeds that a process has claimed in words and that none of its calls bears out. Of a `team`, a call that one robot's kernel
    lost or interrupted ends no process: the plan hears of it, and the others go on.
    """

    strategy: str = ""
    strategies: Collection[str] = ()
    idle: str = ""
    idle_after_s: float = 5.0
    max_processes: int = 8
    keep: int = 50
    purposes: Mapping[str, CallPurpose] = field(default_factory=dict)
    unproven: Callable[[Process], Sequence[str]] = lambda _: ()
    team: bool = False


class ProcessStatus(IntEnum):
    """Tell the status of a process (constants of ProcessState.msg)."""

    WAITING = 0
    IN_PROGRESS = 1
    PAUSED = 2
    SUCCESS = 3
    FAILED = 4
    STOPPED = 5

    @property
    def ended(self) -> bool:
        """Return whether nothing of it can run any more."""
        return self >= ProcessStatus.SUCCESS


class ProcessSource(IntEnum):
    """Tell who wants a process (constants of ProcessState.msg): the preemption table goes by it."""

    USER = 0
    REACTIVE = 1
    IDLE = 2


@dataclass(frozen=True)
class CallRecord:
    """Record a call of a process's history: arguments as JSON, outcome by name ("RUNNING" while it runs), times in seconds."""

    call_id: str
    function: str
    args_json: str = ""
    outcome: str = "RUNNING"
    code: int = 0
    message: str = ""
    start_s: float = -1.0
    end_s: float = -1.0

    @classmethod
    def of(cls, event: CallEvent) -> CallRecord:
        """Return the record of a call that has started or ended."""
        outcome, times = event.outcome_name or "RUNNING", (event.start_s, event.end_s)
        return cls(event.call_id, event.function, event.args_json, outcome, event.error_code, event.told, *times)


@dataclass(frozen=True)
class Process:
    """Hold a process control block. Times are seconds on the clock given to the table, `ended_s` 0 while it lives.

    `plan_ended` tells that the planner has no further turn, `drained` that every call has ended; when both hold, the
    process ends with `code` and `message`. `plan` counts how often it was planned again, each time with a higher `epoch`.
    `returns`: what it displaces goes on after it. It goes on itself once `displaced_by` has ended. `waits_for` holds what it
    needs. `calls` counts ended calls, the newest of which are in `history`; `tally` sums them up, and from it comes
    `achievement` at the end. `degraded` names the layers that go on without their model, and how; `fired_events` are events of
    its plan that came true. `unproven` are deeds that it claimed in words, and no DONE call bears out.
    """

    process_id: str
    instruction: str
    door: str
    sender: str
    strategy: str
    created_s: float
    source: ProcessSource = ProcessSource.USER
    status: ProcessStatus = ProcessStatus.IN_PROGRESS
    epoch: int = 0
    plan: int = 0
    turn: int = 0
    ended_s: float = 0.0
    code: int = 0
    message: str = ""
    returns: bool = False
    displaced_by: str = ""
    waits_for: str = ""
    pause_causes: frozenset[str] = frozenset()
    subsystems: tuple[str, ...] = ()
    calls: int = 0
    calls_done: int = 0
    calls_failed: int = 0
    tally: Tally = field(default_factory=Tally)
    achievement: Achievement = Achievement.OPEN
    plan_ended: bool = False
    drained: bool = True
    running: tuple[CallRecord, ...] = ()
    history: tuple[CallRecord, ...] = ()
    usage: tuple[LayerUsage, ...] = ()
    degraded: tuple[tuple[str, str], ...] = ()
    fired_events: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()

    @property
    def prompt_tokens(self) -> int:
        """Return the tokens of all layers' prompts."""
        return sum(u.prompt_tokens for u in self.usage)

    @property
    def completion_tokens(self) -> int:
        """Return the tokens of all layers' answers."""
        return sum(u.completion_tokens for u in self.usage)

    @property
    def cost_usd(self) -> float:
        """Return what all layers have cost, -1 while no price is known."""
        known = [u.cost_usd for u in self.usage if u.cost_usd >= 0]
        return sum(known) if known else -1.0

    def settled(self, now_s: float) -> Process:
        """Return the block with the status that its other fields give."""
        if self.status.ended:
            return self
        if self.plan_ended and self.drained:
            status = ProcessStatus.FAILED if self.code else ProcessStatus.SUCCESS
            achieved = self.tally.achievement(success=not self.code)
            return replace(self, status=status, achievement=achieved, ended_s=now_s, **NOTHING_MORE)
        if self.pause_causes:
            return replace(self, status=ProcessStatus.PAUSED)
        return replace(self, status=ProcessStatus.WAITING if self.waits_for else ProcessStatus.IN_PROGRESS)

    def restored(self, why: str) -> Process:
        """Return the block as it is taken up from an earlier run: a living process is paused by the user, its plan void."""
        paused = {"status": ProcessStatus.PAUSED, "pause_causes": frozenset({CAUSE_USER})}
        return self._cut_off(why, **paused, drained=True, code=0, epoch=0, degraded=())

    def shut_down(self, now_s: float, why: str) -> Process:
        """Return the block as it is kept when the robot is switched off on purpose: nothing of it goes on another day."""
        ended = {"status": ProcessStatus.STOPPED, "code": int(TaskCode.CANCELLED), "ended_s": now_s}
        return self._cut_off(why, **ended, achievement=self.tally.achievement(success=False))

    def _cut_off(self, why: str, **changes: Any) -> Process:
        if self.status.ended:
            return self
        lost = tuple(replace(call, outcome="INTERRUPTED", message=why) for call in self.running)
        kept = {"history": (*self.history, *lost)[-HISTORY:], "calls": self.calls + len(lost)}
        return replace(self, **{**NOTHING_MORE, **kept, "message": why, "plan_ended": False, **changes})


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
