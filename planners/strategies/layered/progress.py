# SPDX-License-Identifier: Apache-2.0
"""Notices a plan that gets nowhere: the same again and again, or ever new ones, with nothing but failures between."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """`repeats`: failures under one and the same plan, `failures`: under whatever plans, before a task is given up, each
    counted since the last subtask was done. Failures within `together_s` count as one."""

    repeats: int = 3
    failures: int = 8
    together_s: float = 1.0


class Progress:
    """Counts failures since something was achieved."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failures = 0
        self._under: dict[tuple[str, ...], int] = {}
        self._last_s = float("-inf")
        self._last = ""

    def achieved(self) -> None:
        """A subtask is done."""
        self._failures, self._under, self._last_s = 0, {}, float("-inf")

    def failed(self, signature: tuple[str, ...], why: str, now: float) -> None:
        """A call failed while this was the plan."""
        self._last = why
        if now - self._last_s >= self._patience.together_s:
            self._failures += 1
            self._under[signature] = self._under.get(signature, 0) + 1
            self._last_s = now

    def hopeless(self) -> str:
        """Why the task is to be given up whatever the next answer says; empty while it is not."""
        if self._failures < self._patience.failures:
            return ""
        return f"{self._failures} failures in a row without any progress; the last one: {self._last}"

    def repeated(self, signature: tuple[str, ...]) -> str:
        """Why to give up when this is to be the plan once more; empty while it may."""
        times = self._under.get(signature, 0)
        if times < self._patience.repeats:
            return ""
        return f"the same plan has failed {times} times; the last failure: {self._last}"
