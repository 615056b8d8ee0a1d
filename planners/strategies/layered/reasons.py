# SPDX-License-Identifier: Apache-2.0
"""Why System 2 is to look again, and by when: what happened since it was asked last."""

from __future__ import annotations

from collections.abc import Iterable

NEWEST = 12
"""So many reasons are named."""


class Reasons:
    """Collects them until they are taken; `due_s` is by when the first is to be answered for."""

    def __init__(self) -> None:
        self._why: dict[str, bool] = {}
        self.due_s = float("inf")

    def __bool__(self) -> bool:
        return bool(self._why)

    def add(self, why: str, due_s: float) -> None:
        """Something has happened."""
        self.due_s = min(self.due_s, due_s)
        self._why[why] = False
        while len(self._why) > NEWEST:
            del self._why[next(iter(self._why))]

    def see(self, changes: Iterable[str], due_s: float) -> bool:
        """So much has changed in what is observed, and nothing else; whether that is news."""
        happened = [why for why, seen in self._why.items() if not seen]
        now = {**dict.fromkeys(changes, True), **dict.fromkeys(happened, False)}
        if now == self._why:
            return False
        self._why = now
        self.due_s = min(self.due_s, due_s) if now else float("inf")
        return True

    def take(self) -> tuple[str, ...]:
        """All of them; none is left."""
        why = tuple(self._why)
        self._why, self.due_s = {}, float("inf")
        return why

    def give_back(self, why: Iterable[str], due_s: float) -> None:
        """They were taken in vain."""
        self._why = {**dict.fromkeys(why, False), **self._why}
        self.due_s = min(self.due_s, due_s)
