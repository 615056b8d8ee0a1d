# SPDX-License-Identifier: Apache-2.0
"""An observation seen through a robot's accessors at one moment: a value, or an error that names the stale field."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from skill_kernel.observation.accessors import Accessor, Result
from skill_kernel.observation.errors import StaleFieldError, UnknownAccessorError
from skill_kernel.observation.model import Kind, Observation, Value


class View:
    """Made for each evaluation; `now` is on the steady clock that the observation's times are on. `observation` is None
    before the first one: every field is missing then."""

    def __init__(self, observation: Observation | None, table: Mapping[str, Accessor], now: float) -> None:
        self._observation = observation
        self._table = table
        self._now = now

    def call(self, name: str, *arguments: str) -> Result:
        """What an accessor says. Raises StaleFieldError, UnknownAccessorError or ArgumentError."""
        accessor = self._table.get(name)
        if accessor is None:
            near = difflib.get_close_matches(name[:80], self._table, n=1, cutoff=0.5)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise UnknownAccessorError(f"there is no accessor '{name[:80]}'{hint} (known: {', '.join(sorted(self._table))})")
        accessor.check(arguments)
        return accessor.read(self, arguments)

    def fresh(self, field: str, kind: Kind | None = None) -> Value:
        """A field's value. Raises StaleFieldError when it is missing, too old, or of another kind than is wanted."""
        whole = self._observation
        if whole is None:
            raise StaleFieldError(
                field, float("inf"), f"field '{field}' is not known yet: no observation has come; is the observer running?"
            )
        one = whole.fields.get(field)
        if one is None:
            raise StaleFieldError(
                field,
                float("inf"),
                f"field '{field}' is not in the observation; was the robot's file changed? Restart the observer",
            )
        age = one.age(self._now)
        if one.value is None:
            raise StaleFieldError(field, age, f"field '{field}' is missing: {one.missing or 'no reason is given'}")
        if whole.stale(self._now):
            gone = self._now - whole.stamp
            raise StaleFieldError(
                field, age, f"field '{field}' is stale: the observer has said nothing for {gone:.1f} s; is it running?"
            )
        if one.stale(self._now):
            raise StaleFieldError(
                field,
                age,
                f"field '{field}' is stale: {age:.1f} s old, at most {one.max_age_s:g} s allowed; does its source still send?",
            )
        if kind is not None and one.kind is not kind:
            raise self.untold(field, f"it is a {one.kind.value}, no {kind.value}; restart the observer with this robot's file")
        return one.value

    def age(self, field: str) -> float:
        """Seconds since the field was measured, inf when it never was."""
        one = self._observation.fields.get(field) if self._observation is not None else None
        return one.age(self._now) if one is not None else float("inf")

    def untold(self, field: str, why: str) -> StaleFieldError:
        """The error for a field that is fresh and yet does not tell what was asked."""
        return StaleFieldError(field, self.age(field), f"field '{field}' does not tell: {why}")
