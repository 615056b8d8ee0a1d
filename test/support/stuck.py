# SPDX-License-Identifier: Apache-2.0
"""Notices a robot that is stuck: work to do, nothing moving and nobody thinking; or motion that belongs to nobody."""

from __future__ import annotations

from collections.abc import Collection


class StuckDetector:
    """Is told what is heard of a robot, with steady times; `complaints` holds a sentence for each thing that must not be.

    A robot with a process in progress must command its base, begin or end a call, or wait for a model's answer at least
    every `idle_s`; one question counts for `think_s` at most. A base that is commanded for longer than `coast_s` must belong
    to a process that lives and is not paused.
    """

    def __init__(self, *, idle_s: float = 20.0, think_s: float = 25.0, coast_s: float = 3.0) -> None:
        self._idle_s, self._think_s, self._coast_s = idle_s, think_s, coast_s
        self._working: dict[str, float] = {}
        self._asked: dict[tuple[str, str], float] = {}
        self._sign_s = self._owned_s = self._moved_s = 0.0
        self._told = False
        self.complaints: list[str] = []
        self.longest_s = 0.0
        """The longest time without a sign of life in a process in progress."""

    def processes(self, at_s: float, working: Collection[str]) -> None:
        """Return which processes are in progress or wait for others, as published."""
        self._working = {name: self._working.get(name, at_s) for name in working}
        self._asked = {key: since for key, since in self._asked.items() if key[0] in self._working}

    def commanded(self, at_s: float, speed: float) -> None:
        """Return what the base is told."""
        if speed > 0.0:
            self._moved_s = at_s
            self.sign(at_s)

    def sign(self, at_s: float) -> None:
        """Something was begun or ended."""
        self._sign_s, self._told = at_s, False

    def asked(self, at_s: float, process_id: str, layer: str) -> None:
        """Note that a model is asked."""
        self._asked[process_id, layer] = at_s

    def answered(self, at_s: float, process_id: str, layer: str) -> None:
        """Note that it has answered, or that its answer is no longer waited for."""
        if self._asked.pop((process_id, layer), None) is not None:
            self.sign(at_s)

    def forget_questions(self) -> None:
        """Whoever asked is dead."""
        self._asked.clear()

    def look(self, now_s: float) -> None:
        """Compare what is with what must be; several times a second."""
        if self._working:
            self._owned_s = now_s
            if any(now_s - since < self._think_s for since in self._asked.values()):
                self.sign(now_s)
            idle_s = now_s - max(self._sign_s, min(self._working.values()))
            self.longest_s = max(self.longest_s, idle_s)
            if idle_s > self._idle_s and not self._told:
                self._told = True
                names = ", ".join(self._working)
                self.complaints.append(f"{names}: in progress for {idle_s:.0f} s without motion, call or question")
        elif self._moved_s - self._owned_s > self._coast_s:
            self.complaints.append(f"the base is commanded {self._moved_s - self._owned_s:.1f} s after the last process")
            self._owned_s = now_s
