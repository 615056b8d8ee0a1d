# SPDX-License-Identifier: Apache-2.0
"""Name a place in a launch file, and the one error that the launch runner raises about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A line of a launch file, as errors name it."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class LaunchError(Exception):
    """A launch file or its arguments cannot be started as they are; the message names place, cause and remedy."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


def nearest(word: str, known: Iterable[str]) -> str:
    """Return words that name the known word nearest to `word`, or all of them when none is near."""
    names = sorted(known)
    if not names:
        return "there are none"
    close = difflib.get_close_matches(word, names, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(names)}"
