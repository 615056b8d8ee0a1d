# SPDX-License-Identifier: Apache-2.0
"""Watch the standing guidelines of System 3: when one fires, a reactive process begins (TypeGo 5.2 and 6)."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from planners.language.stop_words import is_stop
from planners.models.model_call import CallEnd, ModelCall
from planners.prescriptions.prescription import Kept, Prescription, Route
from planners.processes.advisor import AdvisorContext, S3Answer, degraded, notice, skipped
from planners.strategy import Report
from skill_kernel.clock import Clock
from skill_kernel.config.sections import shown
from skill_kernel.events import ProcessEvent, ProcessKind
from skill_kernel.guard.compiler import GuardedExpression, compile_expression
from skill_kernel.guard.condition_text import Trigger, holds
from skill_kernel.guard.reading import GuardError
from skill_kernel.observation.accessors import Accessor, View
from skill_kernel.observation.model import Kind, Observation, SeenObject
from skill_kernel.processes.process import Process, ProcessError, ProcessSource
from skill_kernel.processes.scheduler import ProcessScheduler

DOOR = "guideline"
REARM_S = 1.0
"""A condition has to be false for so long before it can fire again."""
PERIOD_S = 2.0
BACK_OFF_S, LONGEST_BACK_OFF_S = 5.0, 60.0
BY_RULE = "guidelines whose sentence is a plain rule go on without it, the others wait"

FORGOTTEN_S = 3.0
"""A thing that was out of sight for so long is new when it comes again. A shorter gap is the detector's."""
GONE_S = 1.0
"""A person who was not seen for so long has left."""
BATTERY_STEP = 10.0
"""Percent."""
PERSON, BATTERY = "person", "battery"
OWN_DOING = frozenset({"moving", "posture", "subsystems"})
"""Fields that follow from what the robot itself does."""
MOST = 12


@dataclass
class _Watch:
    """Hold one guideline at work. With a stated condition `when` and a task it is `fixed` and needs no model; `rule` is the
    condition as read from the sentence, for the time no model answers. `rests_until_s` is on the clock; `holds` is the
    condition's last value."""

    guideline: Prescription
    route: Route
    when: GuardedExpression | None
    rule: GuardedExpression | None
    trigger: Trigger = field(default_factory=lambda: Trigger(REARM_S))
    holds: bool = False
    rests_until_s: float = 0.0

    @property
    def fixed(self) -> bool:
        """Return whether condition and task are both stated."""
        return self.when is not None and bool(self.guideline.task)


class Changes:
    """Collect what changes from one observation to the next, until `take` is asked for it.

    Told are: a label that comes into sight, a person who comes or leaves, another value of a field of kind text or boolean,
    a step of the battery. Stale fields say nothing, and that one is stale is no change.
    """

    def __init__(self) -> None:
        self._told: list[str] = []
        self._seen: dict[str, float] = {}
        self._people: list[tuple[float, int]] = []
        self._people_known = 0
        self._values: dict[str, str | bool] = {}
        self._step: float | None = None

    def __bool__(self) -> bool:
        return bool(self._told)

    def note(self, what: str) -> None:
        """Add something else that a guideline may be about."""
        if what in self._told:
            self._told.remove(what)
        self._told = [*self._told, what][-MOST:]

    def take(self) -> list[str]:
        """Return all changes, and begin again."""
        told, self._told = self._told, []
        return told

    def observe(self, observation: Observation, now: float) -> None:
        """Compare with what was before; `now` on the steady clock of the observation."""
        if observation.stale(now):
            return
        things: list[str] | None = None
        for seen in observation.fields.values():
            value = seen.value
            if seen.stale(now) or value is None or seen.name in OWN_DOING:
                continue
            if seen.kind is Kind.OBJECTS and isinstance(value, tuple):
                labels = [o.label for o in value if isinstance(o, SeenObject) and o.seen_s < GONE_S]
                things = [*(things or []), *labels]
            elif seen.name == BATTERY and isinstance(value, float) and math.isfinite(value):
                self._battery(value)
            elif seen.kind in (Kind.TEXT, Kind.BOOLEAN) and isinstance(value, (str, bool)):
                before = self._values.get(seen.name)
                self._values[seen.name] = value
                if before is not None and before != value:
                    self.note(f"{seen.name} is {_shown(value)} now, it was {_shown(before)}")
                elif before is None and seen.name == "last_heard" and value:
                    self.note(f"{seen.name} is {_shown(value)} now")
        if things is not None:
            self._labels(things, now)

    def _battery(self, percent: float) -> None:
        before = percent if self._step is None else self._step
        if abs(percent - before) >= BATTERY_STEP:
            self.note(f"the battery is at {percent:.0f} %, it was at {before:.0f} %")
            before = percent
        self._step = before

    def _labels(self, things: list[str], now: float) -> None:
        for label in dict.fromkeys(things):
            if label != PERSON and now - self._seen.get(label, -math.inf) > FORGOTTEN_S:
                self.note(f"{label} has come into sight")
            self._seen[label] = now
        people, known = things.count(PERSON), self._people_known
        self._people = [(at, n) for at, n in self._people if now - at <= GONE_S] + [(now, people)]
        most = max(count for _, count in self._people)
        if people > known:
            self.note(f"a person has come: {people} in sight, {known} before")
            self._people_known = people
        elif most < known:
            self.note(f"a person has left: {most} in sight, {known} before")
            self._people_known = most


def _shown(value: str | bool) -> str:
    return f"“{shown(value)}”" if isinstance(value, str) else str(value).lower()


class GuidelineLoop:
    """Look at every observation, whose times are on the `clock`. A condition fires when it becomes true; for
    guidelines without one the model is asked, when something has changed that one may be about, at most every PERIOD_S.

    Nothing fires while the robot is halted, and what became true meanwhile is past. A guideline never has two processes.
    With `blind` the model is asked every PERIOD_S, whatever changed; `wait_s` is how long the budget still wants it to wait.
    `halting` tells whether the robot is halted, or a halt is on its way. Without `context` there is no model.
    """

    def __init__(
        self,
        scheduler: ProcessScheduler,
        clock: Clock,
        accessors: Mapping[str, Accessor],
        report: Callable[[Report], None],
        *,
        context: AdvisorContext | None = None,
        blind: Callable[[], bool] = lambda: False,
        wait_s: Callable[[], float] = lambda: 0.0,
        halting: Callable[[], bool] = lambda: False,
        robot: str = "",
    ) -> None:
        self._scheduler, self._clock, self._accessors, self._report = scheduler, clock, accessors, report
        self._context, self._robot, self._blind, self._wait_s, self._halting = context, robot, blind, wait_s, halting
        self._watches: dict[str, _Watch] = {}
        self._changes = Changes()
        self._observed: Observation | None = None
        self._call: ModelCall[S3Answer] | None = None
        self._not_before_s = 0.0
        self._failures = 0

    def set(self, guidelines: Iterable[Kept]) -> None:
        """Watch these, which are enabled now; one that is as it was keeps its state."""
        old, self._watches = self._watches, {}
        for kept in guidelines:
            one, route = kept.prescription, kept.route
            watch = old.get(kept.name)
            if watch is None or (watch.guideline, watch.route) != (one, route):
                when = self._compiled(one.when)
                rule = self._compiled(route.when) if when is None and route.task else None
                watch = _Watch(one, route, when, rule)
                self._changes.note(f"guideline '{kept.name}' is new")
            self._watches[kept.name] = watch

    def _compiled(self, source: str) -> GuardedExpression | None:
        try:
            return compile_expression(source, self._accessors) if source else None
        except GuardError:
            return None  # what the grammar read does not fit this robot; a written condition was checked when it was loaded

    def process_ended(self, process: Process) -> None:
        """Let a guideline rest whose process has ended."""
        if process.door == DOOR:
            if (watch := self._watches.get(process.sender)) is not None:
                self._rest(watch)
        elif process.source is ProcessSource.USER:
            self._changes.note(f"the task “{shown(process.instruction)}” has ended: {process.status.name}")

    def observe(self, observation: Observation) -> None:
        """Look at an observation on the steady clock."""
        now = self._clock.now()
        self._observed = observation
        if not self._watches:
            return
        self._changes.observe(observation, now)
        halted = self._halting()
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
        return self._context is not None and not watch.fixed and not (self._failures and watch.rule)

    def _evaluate(self, watch: _Watch, observation: Observation, now: float) -> bool | None:
        """Return whether its condition holds; None where that is unknown, or where it has no condition."""
        condition = watch.rule if watch.when is None and not self._by_model(watch) else watch.when
        return None if condition is None else holds(condition, View(observation, self._accessors, now).call)[0]

    def _may_fire(self, watch: _Watch) -> bool:
        name = watch.guideline.name
        lives = any(p.door == DOOR and p.sender == name for p in self._scheduler.living)
        return not self._halting() and not lives and self._clock.now() >= watch.rests_until_s

    def _rose(self, watch: _Watch) -> None:
        if self._by_model(watch):
            self._changes.note(f"the condition of guideline '{watch.guideline.name}' has come true")
            watch.trigger.spend()
        elif watch.fixed or watch.rule is not None:
            self._begin(watch, watch.guideline.task if watch.fixed else watch.route.task)

    def _begin(self, watch: _Watch, task: str) -> None:
        name = watch.guideline.name
        watch.trigger.spend()
        if is_stop(task, self._robot):
            self._report(notice("", f"guideline '{name}': “{task}” is no task; only a person stops"))
            return
        try:
            process = self._scheduler.instruct(task, door=DOOR, sender=name, source=ProcessSource.REACTIVE)
        except ProcessError as error:
            self._rest(watch)
            self._report(notice("", f"guideline '{name}' could not begin: {error}"))
            return
        self._report(ProcessEvent(kind=ProcessKind.GUIDELINE_FIRED, process_id=process.process_id, guideline=name))

    def _rest(self, watch: _Watch) -> None:
        watch.rests_until_s = self._clock.now() + watch.guideline.cooldown_s

    def _ask(self) -> None:
        if self._context is None or self._call is not None or self._clock.now() < self._not_before_s:
            return
        candidates = [
            watch.guideline
            for watch in self._watches.values()
            if not watch.fixed and (watch.when is None or watch.holds) and self._may_fire(watch)
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
                self._report(degraded("", BY_RULE, end.why))
            return
        self._failures, seen = 0, self._observed
        for name, task in end.value.reactions.items():
            watch = self._watches.get(name)
            if watch is None or not self._may_fire(watch):
                self._report(skipped("", f"guideline '{name}' may not fire any more"))
            elif watch.when is not None and not (seen and self._evaluate(watch, seen, self._clock.now())):
                self._report(skipped("", f"the condition of guideline '{name}' is no longer true"))
            else:
                self._begin(watch, task)
