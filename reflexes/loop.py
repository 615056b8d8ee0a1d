# SPDX-License-Identifier: Apache-2.0
"""Evaluate all conditions at each tick and each observation, and let the rule that may fire: System 0 (TypeGo 6)."""

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from reflexes.rule import LoadedRule
from skill_kernel.config.sections import shown
from skill_kernel.guard.code import Caller, SkillRequest
from skill_kernel.guard.condition_text import Trigger
from skill_kernel.observation.accessors import Accessor, View
from skill_kernel.observation.model import Observation, StaleFieldError

REARM_S = 0.5
"""Time for which a condition must have been false before its rule fires again."""
STRIKES = 3
"""Overruns in a row that disable a rule: one alone may be the machine's."""
OVERRUN_S = 0.25
"""Processor time that disables a rule at once."""


class Ended(Enum):
    """Tell how a firing ended."""

    DONE = "done"
    FAILED = "failed"
    NOT_NOW = "not now"
    """It was interrupted or could not begin (halt, an operator, a higher reflex): it may fire again after its cooldown."""


@dataclass(eq=False)
class Firing:
    """Hold a rule that has fired, until its action has ended."""

    loaded: LoadedRule
    since_s: float
    steps: Generator[SkillRequest, bool, None]
    begun: bool = False
    cancelled: str = ""
    """Cause of its cancelling; "" while nobody has cancelled it."""

    @property
    def name(self) -> str:
        return self.loaded.rule.name


class Performer(Protocol):
    """Carry actions out. It answers each `start` with one `ReflexLoop.ended`, also after a `cancel`."""

    def start(self, firing: Firing) -> None:
        """Stop what moves, take the subsystems, and perform what `ReflexLoop.advance` gives, one call after the other."""

    def cancel(self, firing: Firing, cause: str) -> None:
        """End it as soon as possible."""


@dataclass
class Watch:
    """Hold what is known of one rule while the loop runs. Times are seconds; `holds` is None when it cannot be told."""

    loaded: LoadedRule
    holds: bool | None = None
    stale_field: str = ""
    disabled: str = ""
    trigger: Trigger = field(default_factory=lambda: Trigger(REARM_S))
    resting_until_s: float = float("-inf")
    firing: Firing | None = None
    evaluations: int = 0
    stale: int = 0
    fired: int = 0
    fired_at_s: float = float("-inf")
    overruns: int = 0
    strikes: int = 0
    cost_s: float = 0.0
    longest_s: float = 0.0
    last: str = ""
    """End of its last firing, in words."""
    renewed: LoadedRule | None = None
    """The same rule compiled anew while it acts: it counts from the end of the action on."""

    @property
    def taken(self) -> frozenset[str]:
        """Return what its action takes."""
        return frozenset(self.loaded.guarded.subsystems)

    def renew(self) -> None:
        """Let the code that was compiled anew count from now on."""
        self.loaded, self.renewed = self.renewed or self.loaded, None

    def due(self, now: float) -> bool:
        """Return whether it has cause to fire and may."""
        may = self.trigger.armed and self.firing is None and not self.disabled and now >= self.resting_until_s
        return bool(self.holds) and may


def asking_once(view: View) -> Caller:
    """Return a caller that asks a view each question once: fifty rules mostly ask the same few."""
    known: dict[tuple[Any, ...], Any] = {}

    def ask(*question: Any) -> Any:
        if question not in known:
            try:
                known[question] = view.call(*question)
            except StaleFieldError as error:
                known[question] = error
        answer = known[question]
        if answer.__class__ is StaleFieldError:
            raise answer.with_traceback(None)
        return answer

    return ask


class ReflexLoop:
    """Evaluate and fire rules, on one thread.

    `now` is on the steady clock of the observations' times. `spent` tells the processor time of this thread, so that what
    other programs take is not counted against a rule. `on_disabled` is told of a rule that overran or raised, with the
    reason; the others go on.
    """

    def __init__(
        self,
        table: Mapping[str, Accessor],
        performer: Performer,
        on_disabled: Callable[[LoadedRule, str], None],
        *,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._table, self._performer, self._on_disabled, self._spent = table, performer, on_disabled, spent
        self._watches: list[Watch] = []
        self._observation: Observation | None = None
        self._now = float("-inf")
        self.suspended = ""
        """Cause for which nothing fires (the robot is halted), set by `suspend`; conditions are evaluated all the same."""

    @property
    def watches(self) -> tuple[Watch, ...]:
        """Return the watches of all rules, the highest priority first."""
        return tuple(self._watches)

    @property
    def active(self) -> tuple[Firing, ...]:
        """Return what is being performed."""
        return tuple(w.firing for w in self._watches if w.firing is not None)

    def set_rules(self, rules: Iterable[LoadedRule]) -> None:
        """Exchange the rules. An unchanged one keeps its state, but takes its new code. One that is gone is cancelled where it
        fires."""
        before = {w.loaded.rule.name: w for w in self._watches}
        watches = []
        for loaded in rules:
            old = before.get(loaded.rule.name)
            if old is None or old.loaded.rule.hash != loaded.rule.hash or old.disabled:
                watches.append(Watch(loaded))
                continue
            watches.append(before.pop(loaded.rule.name))
            old.renewed = loaded
            if old.firing is None:
                old.renew()
        for gone in before.values():
            if gone.firing is not None:
                self.interrupt(gone.firing, "the reflex was removed or changed")
        self._watches = sorted(watches, key=lambda w: (-w.loaded.rule.priority, w.loaded.rule.name))

    def suspend(self, cause: str) -> None:
        """Let nothing fire and cancel what does; "" lets reflexes fire again."""
        self.suspended = cause
        for firing in self.active if cause else ():
            self.interrupt(firing, cause)

    def interrupt(self, firing: Firing, cause: str) -> None:
        """Cancel a firing; its rule may fire again."""
        if not firing.cancelled:
            firing.cancelled = cause
            self._performer.cancel(firing, cause)

    def observe(self, observation: Observation, now: float) -> None:
        """Evaluate at once, because a new observation has come."""
        self._observation = observation
        self.tick(now)

    def tick(self, now: float) -> None:
        """Evaluate every condition once, the highest priority first, and fire what is due."""
        answers = asking_once(View(self._observation, self._table, now))
        begin = self._spent()
        for watch in self._watches:
            if watch.disabled:
                continue
            self._evaluate(watch, answers, now)
            end = self._spent()
            self._charge(watch, end - begin)
            begin = end
            if watch.due(now) and not self.suspended:
                self._fire(watch, now)
                begin = self._spent()
        for watch in self._watches:
            firing = watch.firing
            if firing is not None and not firing.cancelled and now - firing.since_s > watch.loaded.rule.limit_s:
                self._disable(watch, f"its action took longer than {watch.loaded.rule.limit_s:g} s")

    def advance(self, firing: Firing, succeeded: bool, now: float) -> SkillRequest | None:
        """Return the next call of a firing, given whether the one before succeeded; None when it is over, or was cut short
        because of what it raised."""
        if firing.cancelled:
            return None
        self._now = now
        watch = self._watch_of(firing)
        begin = self._spent()
        try:
            request = firing.steps.send(succeeded) if firing.begun else next(firing.steps)
            firing.begun = True
        except StopIteration:
            return None
        except StaleFieldError as error:
            firing.cancelled = str(error)
            return None
        except Exception as error:  # noqa: BLE001 - a rule's fault must not reach the others
            firing.cancelled = _words(error)
            if watch is not None:
                self._disable(watch, f"its action raised {_words(error)}")
            return None
        if watch is not None:
            self._charge(watch, self._spent() - begin)
        return None if firing.cancelled else request

    def ended(self, firing: Firing, how: Ended, now: float, message: str = "") -> None:
        """End a firing, whose action is over and whose subsystems are given back."""
        watch = self._watch_of(firing)
        firing.steps.close()
        if watch is None:
            return
        watch.firing = None
        watch.renew()
        watch.resting_until_s = now + watch.loaded.rule.cooldown_s
        watch.last = f"{how.value}{': ' if message else ''}{message}"
        if how is Ended.NOT_NOW or watch.loaded.rule.repeats:
            watch.trigger.armed = True

    def _watch_of(self, firing: Firing) -> Watch | None:
        return next((w for w in self._watches if w.firing is firing), None)

    def _evaluate(self, watch: Watch, answers: Caller, now: float) -> None:
        watch.evaluations += 1
        try:
            holds: bool | None = watch.loaded.guarded.condition(answers)
        except StaleFieldError as error:
            watch.stale += 1
            watch.stale_field, watch.holds, watch.trigger.false_since_s = error.field, None, None
            return
        except Exception as error:  # noqa: BLE001 - a rule's fault must not reach the others
            self._disable(watch, f"its condition raised {_words(error.__cause__ or error)}")
            return
        watch.holds, watch.stale_field = holds, ""
        watch.trigger.see(holds, now)
        if watch.firing is not None:
            watch.trigger.spend()

    def _charge(self, watch: Watch, cost_s: float) -> None:
        watch.cost_s += cost_s
        watch.longest_s = max(watch.longest_s, cost_s)
        if cost_s <= watch.loaded.rule.budget_ms / 1000.0:
            watch.strikes = 0
            return
        watch.overruns += 1
        watch.strikes += 1
        if watch.strikes >= STRIKES or cost_s >= OVERRUN_S:
            self._disable(watch, f"it took {cost_s * 1000:.1f} ms, its budget is {watch.loaded.rule.budget_ms:g} ms")

    def _fire(self, watch: Watch, now: float) -> None:
        rivals = [w for w in self._watches if w.firing is not None and w.taken & watch.taken]
        priority = watch.loaded.rule.priority
        if any(w.loaded.rule.priority >= priority for w in rivals):
            return
        for rival in rivals:
            if rival.firing is not None:
                self.interrupt(rival.firing, f"reflex '{watch.loaded.rule.name}' has a higher priority")
        firing = Firing(watch.loaded, now, watch.loaded.guarded.action(self._answer))
        watch.firing, watch.fired, watch.fired_at_s = firing, watch.fired + 1, now
        watch.trigger.spend()
        self._now = now
        self._performer.start(firing)

    def _answer(self, *question: Any) -> Any:
        """Return what an action asks while it runs: the newest observation, as old as it is by then."""
        return View(self._observation, self._table, self._now).call(*question)

    def _disable(self, watch: Watch, why: str) -> None:
        if watch.disabled:
            return
        watch.disabled, watch.holds = why, None
        if watch.firing is not None:
            self.interrupt(watch.firing, why)
        self._on_disabled(watch.loaded, why)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {shown(error, 200)}"
