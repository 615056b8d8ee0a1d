# SPDX-License-Identifier: Apache-2.0
"""Keep for a few seconds what was seen of things and handles."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

SEEN_S = 3.0
"""Time for which a thing that was seen counts as seen."""
Pose: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""Position in m and orientation (w, x, y, z) in the map frame."""


class Sights:
    """Hold the newest sighting of each name. What was not seen for `SEEN_S` is not in it.

    Times are seconds of one steady clock.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, Pose]] = {}

    def take(self, seen: Iterable[tuple[str, Pose]], at: float) -> None:
        """Take in what one look has shown."""
        self._seen.update((name, (at, pose)) for name, pose in seen)

    def seen(self, now: float) -> dict[str, Pose]:
        """Return what counts as seen, by name."""
        self._seen = {name: sight for name, sight in self._seen.items() if now - sight[0] <= SEEN_S}
        return {name: pose for name, (_, pose) in self._seen.items()}
