# SPDX-License-Identifier: Apache-2.0
"""Move a base without ROS: planar poses, one relative move closed over odometry, and a watch on its progress."""

import math
from dataclasses import dataclass

from skill_kernel.robot import BaseConfig
from skill_kernel.safety.base_gate import STILL, Velocity
from skill_kernel.safety.obstacles import Obstacle, Points, first_obstacle
from skill_kernel.skills.drivers import DriverRefusal, Pose2D


def wrapped(angle: float) -> float:
    """Return the same angle in [-pi, pi] rad."""
    return math.remainder(angle, 2.0 * math.pi)


def composed(first: Pose2D, second: Pose2D) -> Pose2D:
    """Return `second`, which is given in the frame of `first`, in the frame that `first` is given in."""
    cos, sin = math.cos(first.yaw), math.sin(first.yaw)
    return Pose2D(
        first.x + cos * second.x - sin * second.y, first.y + sin * second.x + cos * second.y, wrapped(first.yaw + second.yaw)
    )


def seen_from(frame: Pose2D, pose: Pose2D) -> Pose2D:
    """Return `pose` in the frame of `frame`; both are given in one frame."""
    cos, sin = math.cos(frame.yaw), math.sin(frame.yaw)
    x, y = pose.x - frame.x, pose.y - frame.y
    return Pose2D(cos * x + sin * y, cos * y - sin * x, wrapped(pose.yaw - frame.yaw))


IN_THE_WAY_M = 0.1
"""Distance beyond the gate's stop_distance within which an obstacle may still be what stopped the base."""


@dataclass
class StallWatch:
    """Watch that the rest of a task shrinks by `step` within each `patience_s`. Times are seconds of one steady clock."""

    patience_s: float
    step: float
    _best: float = math.inf
    _since: float = math.inf

    def stalled(self, now: float, left: float) -> bool:
        """Note how much is left, and return whether it has not shrunk for too long."""
        if left <= self._best - self.step or self._since == math.inf:
            self._best, self._since = left, now
        return now - self._since > self.patience_s

    def restart(self, now: float) -> None:
        """Begin again, because the rest may have grown."""
        self._best, self._since = math.inf, now


REST_S, REST_M, REST_RAD = 0.2, 0.01, 0.02
"""A base is at rest that has kept its place for so long, but for so much."""


@dataclass
class RestWatch:
    """Watch whether a base that was told to stand does. Times are seconds of one steady clock."""

    _place: Pose2D | None = None
    _since: float = math.inf

    def at_rest(self, now: float, pose: Pose2D) -> bool:
        """Note a newly measured pose, and return whether the base keeps its place."""
        off = seen_from(self._place or pose, pose)
        if self._place is None or math.hypot(off.x, off.y) > REST_M or abs(off.yaw) > REST_RAD:
            self._place, self._since = pose, now
        return now - self._since >= REST_S


def in_the_way(base: BaseConfig, points: Points | None, wish: Velocity) -> Obstacle | None:
    """Return what keeps the gate from letting a wish through, or None."""
    if points is None or wish.speed == 0.0:
        return None
    obstacle = first_obstacle(points, base.radius, math.atan2(wish.lateral, wish.forward))
    return obstacle if obstacle is not None and obstacle.free < base.stop_distance + IN_THE_WAY_M else None


BRAKE_SHARE = 0.6
"""Share of the gate's acceleration used when braking by distance; the rest is for the delay of the base."""
NEAR_M, NEAR_RAD = 0.03, 0.03
"""Distance from its end within which a move is done."""
CREEP_MPS, CREEP_RADPS = 0.08, 0.15
"""Least speeds near the end, which a gait must still be able to walk."""
TURN_GAIN = 3.0
"""rad/s for each rad of heading still to turn."""


BAD_GOAL = 442
"""Drive.action: a move that cannot be made."""


class DriveMotion:
    """Move from where the base stands at the first step to (distance, lateral) m in its frame there, and by `turn` rad.

    A base that can move sideways goes straight to the place while it turns. One that cannot goes `distance` along its
    line first and then turns; a lateral way is refused. Turns may be more than a full one.
    """

    def __init__(
        self,
        base: BaseConfig,
        *,
        distance: float = 0.0,
        lateral: float = 0.0,
        turn: float = 0.0,
        max_linear: float = 0.0,
        max_angular: float = 0.0,
    ) -> None:
        """Plan the move. Speeds are in m/s and rad/s, 0 = the robot's cruise speeds. Raises DriverRefusal."""
        numbers = (distance, lateral, turn, max_linear, max_angular)
        if not all(map(math.isfinite, numbers)):
            raise DriverRefusal(BAD_GOAL, f"distance, lateral, turn and speeds must be finite numbers, not {numbers}")
        if max_linear < 0 or max_angular < 0:
            raise DriverRefusal(
                BAD_GOAL, f"speeds {max_linear}, {max_angular} must be 0 or more; the sign of the way is its direction"
            )
        self._sideways = base.max_lateral > 0
        if lateral and not self._sideways:
            raise DriverRefusal(BAD_GOAL, "this base cannot move sideways: turn, drive and turn back")
        self._base = base
        self._start: Pose2D | None = None
        self._goal = (distance, lateral)
        self._way = math.hypot(distance, lateral)
        self._turn = turn
        self._fastest = max_linear or base.cruise_linear
        self._fastest_turn = min(max_angular or base.cruise_turn, base.max_turn)
        self._there = self._way <= 1e-6
        self._turned_there = abs(turn) <= 1e-6
        self._heading = 0.0
        self.moved = Pose2D(0.0, 0.0, 0.0)
        """Pose now in the frame of the start; the yaw is the whole turn, full turns included."""

    @property
    def left(self) -> float:
        """Return the rest of the move as m; a rad counts as 0.3 m."""
        way = 0.0 if self._there else math.hypot(self._goal[0] - self.moved.x, self._goal[1] - self.moved.y)
        return way + (0.0 if self._turned_there else 0.3 * abs(self._turn - self._heading))

    @property
    def off(self) -> tuple[float, float]:
        """Return how far the base is from the end of the move, in m and rad; 0 for what the move does not ask for."""
        way = math.hypot(self._goal[0] - self.moved.x, self._goal[1] - self.moved.y) if self._way > 1e-6 else 0.0
        return way, abs(self._turn - self._heading) if abs(self._turn) > 1e-6 else 0.0

    def step(self, pose: Pose2D) -> Velocity | None:
        """Return the velocity to wish for at `pose`, or None when the move is done."""
        self._start = self._start or pose
        here = seen_from(self._start, pose)
        self._heading += wrapped(here.yaw - self._heading)
        self.moved = Pose2D(here.x, here.y, self._heading)
        self._look_whether_there(here)
        if self._there and self._turned_there:
            return None
        if self._there:
            return Velocity(turn=self._turning(self._turn - self._heading, CREEP_RADPS))
        return self._on_the_way(here)

    def _look_whether_there(self, here: Pose2D) -> None:
        if not self._there:
            x, y = self._goal[0] - here.x, self._goal[1] - here.y
            passed = x * self._goal[0] + y * self._goal[1] <= 0.0
            self._there = passed or math.hypot(x, y) <= NEAR_M
        if self._there and not self._turned_there:
            left = self._turn - self._heading
            self._turned_there = abs(left) <= NEAR_RAD or left * self._turn < 0

    def _on_the_way(self, here: Pose2D) -> Velocity:
        x, y = self._goal[0] - here.x, self._goal[1] - here.y
        left = math.hypot(x, y)
        if self._sideways:
            aim = self._turn * max(1.0 - left / self._way, 0.0)
            direction = math.atan2(y, x) - self._heading
        else:
            # The base steers back to its line by its heading, seen in the direction it drives.
            sign = math.copysign(1.0, self._goal[0])
            aim = -sign * math.atan(2.0 * here.y)
            direction = 0.0 if sign > 0 else math.pi
        speed = min(self._speed_limit(direction), math.sqrt(2.0 * BRAKE_SHARE * self._base.max_acceleration * left))
        if self._sideways and self._turn:
            speed = min(speed, self._way * self._fastest_turn / abs(self._turn))
        speed = max(speed, CREEP_MPS)
        turn = self._turning(aim - self._heading, 0.0)
        return Velocity(speed * math.cos(direction), speed * math.sin(direction) if self._sideways else 0.0, turn)

    def _speed_limit(self, direction: float) -> float:
        """Return the asked speed, or less where the base is slower in that direction."""
        forward, lateral = math.cos(direction), math.sin(direction)
        most = self._base.max_forward if forward > 0 else self._base.max_backward
        limit = self._fastest
        if abs(forward) > 1e-6:
            limit = min(limit, most / abs(forward))
        if self._sideways and abs(lateral) > 1e-6:
            limit = min(limit, self._base.max_lateral / abs(lateral))
        return limit

    def _turning(self, left: float, creep: float) -> float:
        if left == 0.0:
            return STILL.turn
        braking = math.sqrt(2.0 * BRAKE_SHARE * self._base.max_turn_acceleration * abs(left))
        return math.copysign(max(min(self._fastest_turn, TURN_GAIN * abs(left), braking), creep), left)
