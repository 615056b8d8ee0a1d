# SPDX-License-Identifier: Apache-2.0
"""Try a reflex on recorded observations: when it would have fired, on what, and what it would have done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reflexes.loop import Ended, Firing, ReflexLoop
from reflexes.rule import LoadedRule
from skill_kernel.guard.code import OWN_ACTIONS, SkillRequest, Vocabulary
from skill_kernel.observation.accessors import View
from skill_kernel.observation.model import Observation, ObservationError
from skill_kernel.skills.skill import SkillDefinitionError

TICK_S = 0.1
"""Time between two evaluations where observations have a gap, in which fields grow stale."""
LONGEST_GAP_S = 5.0
MOST_TOLD = 20
MOST_TICKS = 100_000
"""Largest number of ticks that are tried: about 3 hours of observations without a gap."""


@dataclass(frozen=True)
class WouldFire:
    """Hold one firing: when (seconds after the first observation), what the accessors without arguments said, and the calls
    of its action if each succeeds."""

    at_s: float
    seen: Mapping[str, Any]
    calls: tuple[str, ...]


def dry_run(loaded: LoadedRule, observations: Iterable[Observation], vocabulary: Vocabulary) -> DryRun:
    """Evaluate a rule on observations, in the order of their stamps. Actions succeed and last as long as their skills say."""
    run, ticks = DryRun(loaded, vocabulary), 0
    for observation in observations:
        before = run.seen
        if before is not None:
            if observation.stamp <= before.stamp:
                continue
            if ticks >= MOST_TICKS:
                run.cut = True
                break
            ticks += 1 + run.tick_until(before.stamp, observation.stamp)
        run.observe(observation)
    return run


class DryRun:
    """Perform actions by noting what they ask for, each of which ends when its skills would have, and hold what came of it.

    `held_s`: how long the condition was true, `unknown_s`: how long a field it needs was stale, `cut`: there were too many
    observations, and the later ones were left out.
    """

    def __init__(self, loaded: LoadedRule, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.observations = 0
        self.span_s = self.held_s = self.unknown_s = 0.0
        self.fired: list[WouldFire] = []
        self.cut = False
        self._loop = ReflexLoop(vocabulary.accessors, self, lambda loaded, why: None)
        self._loop.set_rules([loaded])
        (self._watch,) = self._loop.watches
        self.seen: Observation | None = None
        self._begin_s = 0.0
        self._due: list[tuple[float, Firing]] = []

    @property
    def disabled(self) -> str:
        """Return why the rule would have been disabled, "" if it would not."""
        return self._watch.disabled

    def text(self) -> str:
        """Return the report in sentences, for the person who approves."""
        if not self.observations:
            return "There are no recorded observations to try it on; let the observer run for a while."
        watch, times = self._watch, "once" if len(self.fired) == 1 else f"{len(self.fired)} times"
        times = times if self.fired else "never"
        unknown = f" and could not be told for {self.unknown_s:.1f} s (stale fields)" if self.unknown_s else ""
        mean_us, longest_us = watch.cost_s / watch.evaluations * 1e6, watch.longest_s * 1e6
        lines = [
            f"In {self.observations} observations of {self.span_s:.0f} s it would have fired {times}. Its condition held for "
            f"{self.held_s:.1f} s{unknown}. An evaluation took {mean_us:.0f} µs, {longest_us:.0f} µs at most."
        ]
        for firing in self.fired[:MOST_TOLD]:
            seen = ", ".join(f"{name} {_shown(value)}" for name, value in firing.seen.items())
            lines.append(f"  at {firing.at_s:.1f} s{f' ({seen})' if seen else ''}: {'; '.join(firing.calls) or 'nothing'}")
        if len(self.fired) > MOST_TOLD:
            lines.append(f"  … and {len(self.fired) - MOST_TOLD} more")
        if self.cut:
            lines.append("The later observations were left out: they are too many for one try.")
        if self.disabled:
            lines.append(f"It would have been disabled: {self.disabled}.")
        return "\n".join(lines)

    def observe(self, observation: Observation) -> None:
        if self.seen is None:
            self._begin_s = observation.stamp
        self.seen = observation
        self._loop.observe(observation, observation.stamp)
        self.observations += 1
        self.span_s = observation.stamp - self._begin_s

    def tick_until(self, begin_s: float, end_s: float) -> int:
        """Tick until the next observation, or only through the beginning of a long gap, in which everything grows stale.

        Return how many ticks the gap has. Times may be so great that a tick later is the same number.
        """
        now, ticks = begin_s, int(min(end_s - begin_s, LONGEST_GAP_S) / TICK_S + 1e-6)
        for number in range(1, ticks + 1):
            later = begin_s + number * TICK_S
            if not now < later < end_s:
                break
            self._pass(now, later)
            self._loop.tick(later)
            now = later
        self._pass(now, end_s)
        return ticks

    def _pass(self, now: float, later: float) -> None:
        """Count how long the condition held or was unknown, and end what is over by then."""
        self.held_s += later - now if self._watch.holds else 0.0
        self.unknown_s += later - now if self._watch.holds is None and not self.disabled else 0.0
        for due in [entry for entry in self._due if entry[0] <= later]:
            self._due.remove(due)
            self._loop.ended(due[1], Ended.DONE, due[0])

    def start(self, firing: Firing) -> None:
        assert self.seen is not None
        now, took_s, calls = firing.since_s, 0.0, []
        while (request := self._loop.advance(firing, True, now)) is not None:
            calls.append(call_text(request))
            took_s += self._lasts(request)
        accessors, view = self._vocabulary.accessors, View(self.seen, self._vocabulary.accessors, now)
        seen = {name: _asked(view, name) for name in firing.loaded.guarded.accessors if not accessors[name].parameters}
        self.fired.append(WouldFire(now - self._begin_s, seen, tuple(calls)))
        self._due.append((now + took_s, firing))

    def cancel(self, firing: Firing, cause: str) -> None:
        """End what is cancelled at once."""
        self._due = [entry for entry in self._due if entry[1] is not firing]
        self._loop.ended(firing, Ended.NOT_NOW, self.seen.stamp if self.seen is not None else 0.0, cause)

    def _lasts(self, request: SkillRequest) -> float:
        skill = self._vocabulary.skills.get(request.name) or OWN_ACTIONS[request.name]
        try:
            return skill.nominal_for(request.arguments)
        except SkillDefinitionError:
            return 1.0


def call_text(request: SkillRequest) -> str:
    """Return a call as it could stand in an action."""
    return f"{request.name}({', '.join(f'{name}={value!r}' for name, value in request.arguments.items())})"


def _asked(view: View, name: str) -> Any:
    try:
        return view.call(name)
    except ObservationError:
        return None


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}" if math.isfinite(value) else str(value)
    return "unknown" if value is None else str(value)
