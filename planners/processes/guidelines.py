# SPDX-License-Identifier: Apache-2.0
"""Standing guidelines of System 3: when one fires, a reactive process begins (TypeGo 5.2 and 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from planners.models.model_call import CallEnd, Model, ModelCall
from planners.processes.process_advisor import Surroundings, Voice
from planners.processes.process_prompt import S3Answer, S3Reader, guideline_request
from planners.prompts.blocks import Layer
from planners.strategies.layered.changes import Changes
from reflexes.stop_words import is_stop
from skill_kernel.clock import Clock
from skill_kernel.guard import GuardedExpression
from skill_kernel.observation.accessors import Accessor, View
from skill_kernel.observation.model import Observation, ObservationError
from skill_kernel.processes.commands import ProcessError
from skill_kernel.processes.process import Process, ProcessSource
from skill_kernel.processes.scheduler import ProcessScheduler

DOOR = "guideline"
REARM_S = 1.0
"""A condition has to be false for so long before it can fire again: detections flicker."""
PERIOD_S = 2.0
BACK_OFF_S, LONGEST_BACK_OFF_S = 5.0, 60.0
BY_RULE = "guidelines whose sentence is a plain rule go on without it, the others wait"


@dataclass(frozen=True)
class Guideline:
    """A standing wish. With `when` and `task` it needs no model. `rule`: condition and task as far as the sentence itself
    gives them, for the time no model answers. It rests for `cooldown_s` after its process has ended."""

    name: str
    sentence: str
    when: GuardedExpression | None = None
    task: str = ""
    cooldown_s: float = 30.0
    rule: tuple[GuardedExpression, str] | None = None

    @property
    def fixed(self) -> bool:
        """Whether condition and task are both said."""
        return self.when is not None and bool(self.task)


class _State(Enum):
    """Of a condition: it may fire, it has fired for this time, or it was false and is not armed again yet."""

    ARMED = 0
    SPENT = 1


@dataclass
class _Watch:
    """One guideline at work. `rests_until` on the clock, `false_since` as well."""

    guideline: Guideline
    state: _State = _State.ARMED
    false_since: float | None = None
    holds: bool = False
    rests_until: float = 0.0


class GuidelineLoop:
    """Looks at every observation, whose times are on the clock `steady`. A condition fires when it becomes true; for
    guidelines without one the model is asked, when something has changed that one may be about, at most every `period_s`.

    Nothing fires while the robot is halted, and what became true meanwhile is past. A guideline never has two processes.
    `fired` hears of each that began. With `blind` the model is asked every `period_s`, whatever has changed; `wait_s` is how
    long the budget still wants it to wait. `halting` tells of a halt that is on its way.
    """

    def __init__(
        self,
        scheduler: ProcessScheduler,
        clock: Clock,
        accessors: Mapping[str, Accessor],
        voice: Voice,
        *,
        fired: Callable[[Guideline, Process], None],
        model: Model | None = None,
        around: Surroundings | None = None,
        deadline_s: float = 3.0,
        period_s: float = PERIOD_S,
        blind: Callable[[], bool] = lambda: False,
        wait_s: Callable[[], float] = lambda: 0.0,
        halting: Callable[[], bool] = lambda: False,
        robot: str = "",
        steady: Callable[[], float] | None = None,
    ) -> None:
        self._scheduler, self._clock, self._accessors, self._voice = scheduler, clock, accessors, voice
        self._fired, self._model, self._around, self._robot = fired, model, around, robot
        self._deadline_s, self._period_s, self._blind = deadline_s, period_s, blind
        self._wait_s, self._halting, self._steady = wait_s, halting, steady or clock.now
        self._watches: dict[str, _Watch] = {}
        self._changes = Changes()
        self._observed: Observation | None = None
        self._halted = False
        self._call: ModelCall[S3Answer] | None = None
        self._not_before_s = 0.0
        self._failures = 0

    # -- what happens -------------------------------------------------------------------------------------------------

    def set(self, guidelines: Iterable[Guideline]) -> None:
        """These are enabled now; one that is as it was keeps its state."""
        old, self._watches = self._watches, {}
        for guideline in guidelines:
            watch = old.get(guideline.name)
            if watch is None or watch.guideline != guideline:
                watch = _Watch(guideline)
                self._changes.note(f"guideline '{guideline.name}' is new")
            self._watches[guideline.name] = watch

    def halted(self, halted: bool) -> None:
        """The robot is halted, or no longer is."""
        if halted and self._call is not None:
            self._call.cancel()
            self._call = None
        self._halted = halted
        self._changes.take()

    def process_ended(self, process: Process) -> None:
        """A process has ended; one of a guideline lets it rest."""
        if process.door == DOOR:
            watch = self._watches.get(process.sender)
            if watch is not None:
                watch.rests_until = self._clock.now() + watch.guideline.cooldown_s
        elif process.source is ProcessSource.USER:
            self._changes.note(f"the task “{process.instruction[:80]}” has ended: {process.status.name}")

    def observe(self, observation: Observation) -> None:
        """What is observed now, on the steady clock."""
        now = self._steady()
        self._observed = observation
        if not self._watches:
            return
        self._changes.observe(observation, now)
        halted = self._halted or self._halting()
        for watch in list(self._watches.values()):
            rose = self._evaluate(watch, observation, now)
            if halted:
                watch.state = _State.SPENT if watch.holds else watch.state
            elif rose and self._may(watch):
                self._rose(watch)
        if halted:
            self._changes.take()
        else:
            self._ask()

    def close(self) -> None:
        """Nobody waits for an answer any more."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _by_model(self, watch: _Watch) -> bool:
        """Whether the model judges it; while that fails, a plain rule goes on without."""
        return self._model is not None and not watch.guideline.fixed and not (self._failures and watch.guideline.rule)

    def _condition(self, watch: _Watch) -> GuardedExpression | None:
        guideline = watch.guideline
        if guideline.when is not None or self._by_model(watch):
            return guideline.when
        return guideline.rule[0] if guideline.rule is not None else None

    def _evaluate(self, watch: _Watch, observation: Observation, now: float) -> bool:
        """Whether its condition holds and has not fired yet for this time. Unknown is neither true nor false."""
        condition = self._condition(watch)
        if condition is None:
            return False
        try:
            watch.holds = bool(condition.evaluate(View(observation, self._accessors, now).call))
        except (ObservationError, ArithmeticError, ValueError):
            watch.holds = False
            return False
        if watch.holds:
            watch.false_since = None
            return watch.state is _State.ARMED
        watch.false_since = now if watch.false_since is None else watch.false_since
        if now - watch.false_since >= REARM_S:
            watch.state = _State.ARMED
        return False

    def _may(self, watch: _Watch) -> bool:
        name = watch.guideline.name
        lives = any(p.door == DOOR and p.sender == name for p in self._scheduler.living)
        return not self._halted and not self._halting() and not lives and self._clock.now() >= watch.rests_until

    def _rose(self, watch: _Watch) -> None:
        guideline = watch.guideline
        if self._by_model(watch):
            self._changes.note(f"the condition of guideline '{guideline.name}' has come true")
            watch.state = _State.SPENT
        elif guideline.fixed:
            self._begin(watch, guideline.task)
        elif guideline.rule is not None:
            self._begin(watch, guideline.rule[1])

    def _begin(self, watch: _Watch, task: str) -> None:
        watch.state = _State.SPENT
        if is_stop(task, self._robot):
            self._voice.notice("", f"guideline '{watch.guideline.name}': “{task}” is no task; only a person stops")
            return
        try:
            process = self._scheduler.instruct(task, door=DOOR, sender=watch.guideline.name, source=ProcessSource.REACTIVE)
        except ProcessError as error:
            watch.rests_until = self._clock.now() + watch.guideline.cooldown_s
            self._voice.notice("", f"guideline '{watch.guideline.name}' could not begin: {error}")
            return
        self._fired(watch.guideline, process)

    # -- the model ----------------------------------------------------------------------------------------------------

    def _candidates(self) -> list[_Watch]:
        return [
            w
            for w in self._watches.values()
            if self._may(w) and not w.guideline.fixed and (w.guideline.when is None or w.holds)
        ]

    def _ask(self) -> None:
        if self._model is None or self._around is None or self._call is not None or self._clock.now() < self._not_before_s:
            return
        candidates = self._candidates()
        if not candidates or not (self._changes or self._blind()) or self._wait_s() > 0.0:
            return
        why = self._changes.take() or [f"{self._period_s:g} s have passed"]
        names = [w.guideline.name for w in candidates]
        shown = [{"name": w.guideline.name, "sentence": w.guideline.sentence} for w in candidates]
        request = guideline_request(
            self._around.system,
            why,
            shown,
            self._scheduler.living,
            observation=self._around.observation(),
            deadline_s=self._deadline_s,
        )
        self._not_before_s = self._clock.now() + self._period_s
        self._call = ModelCall(
            self._model,
            self._clock,
            Layer.S3,
            "",
            request,
            lambda: S3Reader(guidelines=names),
            self._answered,
            deadline_s=self._deadline_s,
        )

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
        for reaction in end.value.reactions:
            watch = self._watches.get(reaction.guideline)
            if watch is None or not self._may(watch):
                self._voice.skipped("", f"guideline '{reaction.guideline}' may not fire any more")
            elif watch.guideline.when is not None and not self._still(watch):
                self._voice.skipped("", f"the condition of guideline '{reaction.guideline}' is no longer true")
            else:
                self._begin(watch, reaction.task)

    def _still(self, watch: _Watch) -> bool:
        if self._observed is None:
            return False
        probe = replace(watch)
        self._evaluate(probe, self._observed, self._steady())
        return probe.holds
