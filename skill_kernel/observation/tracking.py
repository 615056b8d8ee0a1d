# SPDX-License-Identifier: Apache-2.0
"""Let things keep their identity from one detection to the next, by the nearest neighbour in the map.

Clear sightings are matched first, doubtful ones only with what is in sight (ByteTrack, https://arxiv.org/abs/2110.06864).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from skill_kernel.config.observation import Track as TrackConfig
from skill_kernel.observation.model import Pose, SeenObject
from skill_kernel.skills.drivers import Detection

MOST = 100
"""More than these at a time, surest first, are no things but a fault."""
GROWTH_MOST = 2.0
"""Largest growth of the gates with the seconds that a thing is unseen: it may have moved."""
LABEL_CHARS = 64


@dataclass
class _Track:
    track_id: int
    sighting: Detection
    seen_at: float
    pose: Pose | None
    """Pose of the robot then."""
    x: float = math.nan
    y: float = math.nan

    @property
    def placed(self) -> bool:
        return not math.isnan(self.x)

    def direction(self) -> float:
        """Return its direction in the map, or from the robot where it does not know how it stands."""
        return self.sighting.bearing + (self.pose.yaw if self.pose is not None else 0.0)


class Tracker:
    """Track what one camera sees. Times are seconds of one clock; they only grow, an older image is left out."""

    def __init__(self, config: TrackConfig) -> None:
        self._config = config
        self._labels = frozenset(config.labels)
        self._tracks: list[_Track] = []
        self._newest = -math.inf
        self._last_id = 0

    def update(self, sightings: Iterable[Detection], at: float, pose: Pose | None) -> bool:
        """Take in all that an image shows, seen from `pose` (None = unknown). Return whether it was newer than the last one."""
        if at <= self._newest:
            return False
        self._newest = at
        self._tracks = [t for t in self._tracks if at - t.seen_at <= self._config.forget_s]
        new = [_located(sighting, at, pose) for sighting in self._counted(sightings)]
        pairs = sorted(
            (not self._sure(seen), cost, i, j)
            for i, old in enumerate(self._tracks)
            for j, seen in enumerate(new)
            if old.sighting.label == seen.sighting.label
            and (self._sure(seen) or at - old.seen_at <= self._config.hold_s)
            and (cost := self._cost(old, seen)) <= 1.0
        )
        matched: set[int] = set()
        for _, _, i, j in pairs:
            if i not in matched and not new[j].track_id:
                matched.add(i)
                new[j].track_id = self._tracks[i].track_id
        new = [seen for seen in new if seen.track_id or self._sure(seen)]
        for seen in new:
            if not seen.track_id:
                self._last_id += 1
                seen.track_id = self._last_id
        unseen = [t for i, t in enumerate(self._tracks) if i not in matched]
        self._tracks = (new + unseen)[:MOST]
        return True

    def in_sight(self, now: float, pose: Pose | None) -> tuple[SeenObject, ...]:
        """Return what the last image showed, and what was seen at most `hold_s` before it, as it lies from `pose` now; nearest
        first."""
        seen = [_seen(t, now, pose) for t in self._tracks if self._newest - t.seen_at <= self._config.hold_s]
        return tuple(sorted(seen, key=lambda o: (math.isnan(o.distance), o.distance, o.track_id)))

    def _sure(self, seen: _Track) -> bool:
        return seen.sighting.confidence >= self._config.min_confidence

    def _counted(self, sightings: Iterable[Detection]) -> list[Detection]:
        kept = self._config.keep_confidence
        least = self._config.min_confidence if kept is None else kept
        usable = [
            s
            for s in sightings
            if math.isfinite(s.bearing)
            and s.confidence >= least
            and (s.label in self._labels if self._labels else 0 < len(s.label) <= LABEL_CHARS)
        ]
        return sorted(usable, key=lambda s: -s.confidence)[:MOST]

    def _cost(self, old: _Track, new: _Track) -> float:
        """Return how far apart they are, 1 at the gate."""
        growth = min(1.0 + new.seen_at - old.seen_at, GROWTH_MOST)
        if old.placed and new.placed:
            return math.hypot(new.x - old.x, new.y - old.y) / (self._config.same_m * growth)
        if (old.pose is None) is not (new.pose is None):
            apart = new.sighting.bearing - old.sighting.bearing
        elif old.placed and new.pose is not None:
            apart = new.direction() - math.atan2(old.y - new.pose.y, old.x - new.pose.x)
        else:
            apart = new.direction() - old.direction()
        return abs(math.remainder(apart, math.tau)) / (math.radians(self._config.same_deg) * growth)


def _located(sighting: Detection, at: float, pose: Pose | None) -> _Track:
    """Return a sighting with its place in the map, as a track without a number."""
    if not (math.isfinite(sighting.distance) and sighting.distance >= 0.0):
        return _Track(0, Detection(sighting.label, sighting.confidence, sighting.bearing, math.nan), at, pose)
    if pose is None:
        return _Track(0, sighting, at, pose)
    angle = pose.yaw + sighting.bearing
    x, y = pose.x + sighting.distance * math.cos(angle), pose.y + sighting.distance * math.sin(angle)
    return _Track(0, sighting, at, pose, x, y)


def _seen(track: _Track, now: float, pose: Pose | None) -> SeenObject:
    """Return the track as it lies from where the robot is now."""
    sighting = track.sighting
    bearing, distance = sighting.bearing, sighting.distance
    if pose is not None and track.placed:
        distance = math.hypot(track.x - pose.x, track.y - pose.y)
        if distance > 0.0:
            bearing = math.atan2(track.y - pose.y, track.x - pose.x) - pose.yaw
    elif pose is not None and track.pose is not None:
        bearing += track.pose.yaw - pose.yaw
    return SeenObject(
        track.track_id,
        sighting.label,
        sighting.confidence,
        math.remainder(bearing, math.tau),
        distance,
        track.x,
        track.y,
        max(0.0, now - track.seen_at),
    )
