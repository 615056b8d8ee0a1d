# SPDX-License-Identifier: Apache-2.0
"""Watch the standing guidelines of System 3: when one fires, a reactive process begins (TypeGo 5.2 and 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from planners.language.stop_words import is_stop
from planners.models.model_call import CallEnd, ModelCall
from planners.processes.changes import Changes
from planners.processes.process_advisor import Voice
from planners.processes.process_prompt import AdvisorContext, S3Answer
from skill_kernel.clock import Clock
from skill_kernel.guard import GuardedExpression
from skill_kernel.guard.trigger import Trigger
from skill_kernel.observation.accessors import Accessor, View
from skill_kernel.observation.model import Observation, ObservationError
from skill_kernel.processes.process import Process, ProcessError, ProcessSource
from skill_kernel.processes.scheduler import ProcessScheduler

DOOR = "guideline"
REARM_S = 1.0
"""How long a condition has to be false before it can fire again."""
PERIOD_S = 2.0
BACK_OFF_S, LONGEST_BACK_OFF_S = 5.0, 60.0
BY_RULE = "guidelines whose sentence is a plain rule go on without it, the others wait"


@dataclass(frozen=True)
class Guideline:
    """A standing wish. With `when` and `task` it needs no model; `rule` holds both as read from the sentence, for the time no
    model answers. It rests for `cooldown_s` after its process has ended."""

    name: str
    sentence: str
    when: GuardedExpression | None = None
    task: str = ""
    cooldown_s: float = 30.0
    rule: tuple[GuardedExpression, str] | None = None

    @property
    def fixed(self) -> bool:
        """Return whether condition and task are both stated."""
        return self.when is not None and bool(self.task)


@dataclass
class _Watch:
    """One guideline at work. `rests_until_s` is on the clock; `holds` is its condition's last value."""

    guideline: Guideline
    trigger: Trigger = field(default_factory=lambda: Trigger(REARM_S))
    holds: bool = False
    rests_until_s: float = 0.0


class GuidelineLoop:
    """Looks at every observation, whose times are on the `clock`. A condition fires when it becomes true; for
    guidelines without one the model is asked, when something has changed that one may be about, at most every PERIOD_S.

    Nothing fires while the robot is halted, and what became true meanwhile is past. A guideline never has two processes.
    `fired` hears of each that began. With `blind` the model is asked every PERIOD_S, whatever has changed; `wait_s` is how
    long the budget still wants it to wait. `halting` tells of a halt that is on its way. Without `context` there is no model.
    """

    def __init__(
        self,
        scheduler: ProcessScheduler,
        clock: Clock,
        accessors: Mapping[str, Accessor],
        voice: Voice,
        *,
        fired: Callable[[Guideline, Process], None],
        context: AdvisorContext | None = None,
        blind: Callable[[], bool] = lambda: False,
        wait_s: Callable[[], float] = lambda: 0.0,
        halting: Callable[[], bool] = lambda: False,
        robot: str = "",
    ) -> None:
        self._scheduler, self._clock, self._accessors, self._voice = scheduler, clock, accessors, voice
        self._fired, self._context, self._robot = fired, context, robot
        self._blind = blind
        self._wait_s, self._halting = wait_s, halting
        self._watches: dict[str, _Watch] = {}
        self._changes = Changes()
        self._observed: Observation | None = None
        self._halted = False
        self._call: ModelCall[S3Answer] | None = None
        self._not_before_s = 0.0
        self._failures = 0

    def set(self, guidelines: Iterable[Guideline]) -> None:
        """Watch these, which are enabled now; one that is as it was keeps its state."""
        old, self._watches = self._watches, {}
        for guideline in guidelines:
            watch = old.get(guideline.name)
            if watch is None or watch.guideline != guideline:
                watch = _Watch(guideline)
                self._changes.note(f"guideline '{guideline.name}' is new")
            self._watches[guideline.name] = watch

    def halted(self, halted: bool) -> None:
        """Take note that the robot is halted, or no longer is."""
        if halted:
            self.close()
        self._halted = halted
        self._changes.take()

    def process_ended(self, process: Process) -> None:
        """Let a guideline rest whose process has ended."""
        if process.door == DOOR:
            if (watch := self._watches.get(process.sender)) is not None:
                self._rest(watch)
        elif process.source is ProcessSource.USER:
            self._changes.note(f"the task “{process.instruction[:80]}” has ended: {process.status.name}")

    def observe(self, observation: Observation) -> None:
        """Look at an observation on the steady clock."""
        now = self._clock.now()
        self._observed = observation
        if not self._watches:
            return
        self._changes.observe(observation, now)
        halted = self._halted or self._halting()
        for watch in list(self._watches.values()):
            holds = self._evaluate(watch, observation, now)
            rose = watch.trigger.see(holds, now)
            watch.holds = bool(holds)
            if halted and watch.holds:
                watch.trigger.spend()
            elif rose and self._may_fire(watch):
                self._rose(watch)
        if halted:
            self._changes.take()
        else:
            self._ask()

    def close(self) -> None:
        """Cancel the question to the model."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _by_model(self, watch: _Watch) -> bool:
        """Return whether the model judges it; while the model fails, a plain rule goes on without."""
        return self._context is not None and not watch.guideline.fixed and not (self._failures and watch.guideline.rule)

    def _evaluate(self, watch: _Watch, observation: Observation, now: float) -> bool | None:
        """Return whether its condition holds; None where that is unknown, or where it has no condition."""
        condition = watch.guideline.when
        if condition is None and watch.guideline.rule is not None and not self._by_model(watch):
            condition = watch.guideline.rule[0]
        try:
            return None if condition is None else bool(condition.evaluate(View(observation, self._accessors, now).call))
        except (ObservationError, ArithmeticError, ValueError):
            return None

    def _may_fire(self, watch: _Watch) -> bool:
        name = watch.guideline.name
        lives = any(p.door == DOOR and p.sender == name for p in self._scheduler.living)
        return not self._halted and not self._halting() and not lives and self._clock.now() >= watch.rests_until_s

    def _rose(self, watch: _Watch) -> None:
        guideline = watch.guideline
        if self._by_model(watch):
            self._changes.note(f"the condition of guideline '{guideline.name}' has come true")
            watch.trigger.spend()
        elif guideline.fixed or guideline.rule is not None:
            self._begin(watch, guideline.task if guideline.rule is None else guideline.rule[1])

    def _begin(self, watch: _Watch, task: str) -> None:
        name = watch.guideline.name
        watch.trigger.spend()
        if is_stop(task, self._robot):
            self._voice.notice("", f"guideline '{name}': “{task}” is no task; only a person stops")
            return
        try:
            process = self._scheduler.instruct(task, door=DOOR, sender=name, source=ProcessSource.REACTIVE)
        except ProcessError as error:
            self._rest(watch)
            self._voice.notice("", f"guideline '{name}' could not begin: {error}")
            return
        self._fired(watch.guideline, process)

    def _rest(self, watch: _Watch) -> None:
        watch.rests_until_s = self._clock.now() + watch.guideline.cooldown_s

    def _ask(self) -> None:
        if self._context is None or self._call is not None or self._clock.now() < self._not_before_s:
            return
        candidates = [
            watch.guideline
            for watch in self._watches.values()
            if not watch.guideline.fixed and (watch.guideline.when is None or watch.holds) and self._may_fire(watch)
        ]
        if not candidates or not (self._changes or self._blind()) or self._wait_s() > 0.0:
            return
        why = self._changes.take() or [f"{PERIOD_S:g} s have passed"]
        shown = [{"name": guideline.name, "sentence": guideline.sentence} for guideline in candidates]
        self._not_before_s = self._clock.now() + PERIOD_S
        self._call = self._context.ask(why, self._answered, processes=self._scheduler.living, guidelines=shown)

    def _answered(self, end: CallEnd[S3Answer]) -> None:
        self._call = None
        if end.value is None:
            self._failures += 1
            wait_s = min(BACK_OFF_S * 2 ** (self._failures - 1), LONGEST_BACK_OFF_S)
            self._not_before_s = self._clock.now() + wait_s
            self._changes.note("an earlier question stayed without an answer")
            if self._failures == 1:
                self._voice.degraded("", BY_RULE, end.why)
            return
        self._failures = 0
        for name, task in end.value.reactions.items():
            watch = self._watches.get(name)
            if watch is None or not self._may_fire(watch):
                self._voice.skipped("", f"guideline '{name}' may not fire any more")
            elif watch.guideline.when is not None and not self._holds_now(watch):
                self._voice.skipped("", f"the condition of guideline '{name}' is no longer true")
            else:
                self._begin(watch, task)

    def _holds_now(self, watch: _Watch) -> bool:
        return self._observed is not None and bool(self._evaluate(watch, self._observed, self._clock.now()))
