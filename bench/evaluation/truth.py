# SPDX-License-Identifier: Apache-2.0
"""Questions to the true poses of a trial: how far it turned, nodded, what it faced, where it has been."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from bench.evaluation.trace import PoseAt, Trace
from skill_kernel.robot import RobotConfig

NOD_DOWN, NOD_UP = 0.12, 0.06
"""A nod is 0.22 rad deep; between them the head comes up again [rad]."""
VIEW_RAD = math.radians(37.0)
"""Half of the front camera's horizontal view."""
STAY_S = 1.0
"""Shortest stay in a room that counts; a shorter one only passed its door [s]."""
NEAR_WAYPOINT_M = 0.4
MOVES_MPS = 0.06
WALKED_M = 0.3
"""The second activity comes when it has walked so far on the ball's account."""
STRIDE_M = 0.05
"""It walks if it came so much further within half a second."""

_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty"
).split()
_NUMBERS = {word: n for n, word in enumerate(_WORDS)} | {
    word: 10 * n for n, word in enumerate("thirty forty fifty sixty seventy eighty ninety".split(), start=3)
}
_WORD = "|".join(sorted(_NUMBERS, key=len, reverse=True))
_SAID = tuple(
    re.compile(pattern, re.IGNORECASE)
    for thing in ("places?", "rooms?", "")
    for number in (r"\d+", _WORD)
    for pattern in [rf"\b({number})\s+(?:[a-z]+\s+){{0,2}}{thing}\b" if thing else rf"\b({number})\b"]
)
"""The number of places counts before that of rooms, and that before any other."""
_VAGUE = ((re.compile(r"\b(only|once)\b", re.IGNORECASE), 1), (re.compile(r"\b(no|none)\b", re.IGNORECASE), 0))


def turned(poses: Iterable[PoseAt]) -> list[float]:
    """Yaw turned since the first pose, at each pose, in rad and without jumps."""
    sums: list[float] = []
    last = None
    for pose in poses:
        sums.append(0.0 if last is None else sums[-1] + math.remainder(pose.yaw - last, math.tau))
        last = pose.yaw
    return sums


def bearing(pose: PoseAt, x: float, y: float) -> float:
    """Direction of a place from where it looks, left positive, in rad."""
    return math.remainder(math.atan2(y - pose.y, x - pose.x) - pose.yaw, math.tau)


def distance(pose: PoseAt, x: float, y: float) -> float:
    return math.hypot(x - pose.x, y - pose.y)


def nods(poses: Iterable[PoseAt]) -> list[float]:
    """Return the times of the nods."""
    times, down = [], False
    for pose in poses:
        if not down and pose.pitch > NOD_DOWN:
            down = True
            times.append(pose.at)
        elif down and pose.pitch < NOD_UP:
            down = False
    return times


def faced_all_around(poses: Sequence[PoseAt]) -> float:
    """Return the largest angle in rad that was never within the camera's view."""
    seen = sorted(math.remainder(p.yaw, math.tau) for p in poses)
    if not seen:
        return math.tau
    gaps = [b - a for a, b in zip(seen, seen[1:], strict=False)] + [seen[0] + math.tau - seen[-1]]
    return max(0.0, max(gaps) - 2 * VIEW_RAD)


def rests(poses: Sequence[PoseAt], since: float, within_s: float) -> bool:
    """Return whether it stopped walking at some moment in the time after `since`; it may turn then."""
    near = [p for p in poses if since <= p.at <= since + within_s]
    for first, last in zip(near, near[3:], strict=False):
        if math.hypot(last.x - first.x, last.y - first.y) < MOVES_MPS * max(last.at - first.at, 1e-6):
            return True
    return False


def walks(poses: Sequence[PoseAt], start: tuple[float, float, float]) -> bool:
    """Return whether it walks, and has come some way from its start."""
    if not poses:
        return False
    now = poses[-1]
    before = next((p for p in reversed(poses) if p.at <= now.at - 0.5), poses[0])
    return distance(now, *start[:2]) > WALKED_M and distance(now, before.x, before.y) > STRIDE_M


def number_said(text: str) -> int | None:
    """Return the number of places that a text tells, as digits or a word; "only" and "no" count when there is no number."""
    for pattern in _SAID:
        if found := pattern.search(text):
            word = found.group(1).lower()
            return _NUMBERS[word] if word in _NUMBERS else int(word)
    return next((number for pattern, number in _VAGUE if pattern.search(text)), None)


class Places:
    """Places in which the robot has truly been since its memory began."""

    def __init__(self, robot: RobotConfig) -> None:
        self._robot = robot
        self.rooms: set[str] = set()
        self.waypoints: dict[str, str] = {}
        """Names of the places it came to, with their rooms."""
        self._since: tuple[str, float] = ("", math.inf)

    def add(self, pose: PoseAt) -> None:
        """Return whether it is there now."""
        room = self._room(pose.x, pose.y)
        if room != self._since[0]:
            self._since = room, pose.at
        if room and pose.at - self._since[1] >= STAY_S:
            self.rooms.add(room)
        for name, spot in self._robot.waypoints.items():
            if math.hypot(spot.x - pose.x, spot.y - pose.y) <= NEAR_WAYPOINT_M:
                self.waypoints[name] = self._room(spot.x, spot.y)

    def counts(self) -> set[int]:
        """Return how many places it may say it has been in: rooms; or named places and the rooms in which it came to none."""
        told_apart = set(self.waypoints.values())
        return {len(self.rooms), len(self.waypoints) + len(self.rooms - told_apart)}

    def _room(self, x: float, y: float) -> str:
        return next((name for name, room in self._robot.rooms.items() if room.holds(x, y)), "")


def room_of(robot: RobotConfig, pose: PoseAt) -> str:
    """Return the room it is in, "" in a doorway or outside."""
    return next((name for name, room in robot.rooms.items() if room.holds(pose.x, pose.y)), "")


def paused(trace: Trace, process_id: str, cause: str) -> bool:
    """Return whether a process was ever paused for a cause."""
    return any(s.process_id == process_id and s.status == "PAUSED" and cause in s.causes for s in trace.states)
