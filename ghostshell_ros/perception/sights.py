# SPDX-License-Identifier: Apache-2.0
"""Remember for a few seconds where things and door handles were seen last."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

SEEN_S = 3.0
"""Time for which a sighting stays valid."""
Pose: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""Position in m, and orientation as a quaternion in MuJoCo's order (w, x, y, z), in the map frame."""


class Sights:
    """Hold the newest sighting of each name, and drop those older than `SEEN_S`.

    Times are seconds of one steady clock.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, Pose]] = {}

    def take(self, seen: Iterable[tuple[str, Pose]], at: float) -> None:
        """Take in the sightings of one image."""
        self._seen.update((name, (at, pose)) for name, pose in seen)

    def seen(self, now: float) -> dict[str, Pose]:
        """Return the valid sightings, by name."""
        self._seen = {name: sight for name, sight in self._seen.items() if now - sight[0] <= SEEN_S}
        return {name: pose for name, (_, pose) in self._seen.items()}
