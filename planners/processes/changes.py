# SPDX-License-Identifier: Apache-2.0
"""What of an observation has changed enough that a standing guideline may apply now: in words, for the prompt that asks."""

from __future__ import annotations

import math

from skill_kernel.observation.model import Kind, Observation, SeenObject

FORGOTTEN_S = 3.0
"""A thing that was out of sight so long is new when it comes again; a shorter gap is the detector's."""
GONE_S = 1.0
"""A person who was not seen for so long has left."""
BATTERY_STEP = 10.0
"""Percent."""
PERSON, BATTERY = "person", "battery"
OWN_DOING = frozenset({"moving", "posture", "subsystems"})
"""Fields that follow from what the robot itself does."""
MOST = 12


class Changes:
    """Hears every observation; `take` gives what has changed since it was last asked.

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
        """Something else that a guideline may be about."""
        if what in self._told:
            self._told.remove(what)
        self._told = [*self._told, what][-MOST:]

    def take(self) -> list[str]:
        """All of it, and begin anew."""
        told, self._told = self._told, []
        return told

    def observe(self, observation: Observation, now: float) -> None:
        """Compare with what was before; `now` on the steady clock of the observation."""
        if observation.stale(now):
            return
        things: list[str] | None = None
        for field in observation.fields.values():
            value = field.value
            if field.stale(now) or value is None or field.name in OWN_DOING:
                continue
            if field.kind is Kind.OBJECTS and isinstance(value, tuple):
                seen = [o.label for o in value if isinstance(o, SeenObject) and o.seen_s < GONE_S]
                things = [*(things or []), *seen]
            elif field.name == BATTERY and isinstance(value, float) and math.isfinite(value):
                self._battery(value)
            elif field.kind in (Kind.TEXT, Kind.BOOLEAN) and isinstance(value, (str, bool)):
                before = self._values.get(field.name)
                self._values[field.name] = value
                if before is not None and before != value:
                    self.note(f"{field.name} is {_shown(value)} now, it was {_shown(before)}")
                elif before is None and field.name == "last_heard" and value:
                    self.note(f"{field.name} is {_shown(value)} now")
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
    return f"“{value[:80]}”" if isinstance(value, str) else str(value).lower()
