# SPDX-License-Identifier: Apache-2.0
"""Make one trip to a goal: when to plan, how to follow the path, when it has arrived, and when and why it gives up."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise

import numpy as np

from ghostshell_ros.navigation.motion import DriveMotion, StallWatch, in_the_way, seen_from, wrapped
from ghostshell_ros.navigation.planner import OccupancyGrid, Place, Plan
from skill_kernel.robot import BaseConfig
from skill_kernel.safety.base_gate import STILL, Velocity
from skill_kernel.safety.obstacles import Points
from skill_kernel.skills.drivers import DriverRefusal, Pose2D

LOOKAHEAD_M = 0.35
TIGHT_LOOKAHEAD_M = 0.12
"""Lookahead where a straight line would cut a corner that the path goes around."""
TURN_FIRST_RAD = 0.7
"""Angle off its heading from which on the base turns on the spot."""
TURN_GAIN = 2.5
CREEP_MPS = 0.1


class PathFollower:
    """Walk forward along a path, as a quadruped and a differential base both can."""

    def __init__(self, base: BaseConfig, places: Sequence[Place]) -> None:
        self._base = base
        self._places = list(places)
        self._piece = 0
        self._turning = False
        self._ends = list(accumulate((math.dist(a, b) for a, b in pairwise(places)), initial=0.0))

    @property
    def goal(self) -> Place:
        """Return the end of the path."""
        return self._places[-1]

    @property
    def straight_m(self) -> float:
        """Return the length of a path without a bend [m], infinite for one with a bend."""
        return self._ends[-1] if len(self._places) == 2 else math.inf

    def left(self, pose: Pose2D) -> float:
        """Return the m along the path from where the robot is beside it, and the way back to it."""
        along, aside = self._nearest(pose)
        return self._ends[-1] - along + aside

    def ahead(self, pose: Pose2D, reach: float) -> list[Place]:
        """Return the path from the robot on, for `reach` m."""
        along, _ = self._nearest(pose)
        inner = [p for p, end in zip(self._places, self._ends, strict=True) if along < end < along + reach]
        return [(pose.x, pose.y), *inner, self._at(along + reach)]

    def step(self, pose: Pose2D, *, tight: bool = False) -> Velocity:
        """Return the velocity to wish for; `tight` keeps closer to the path."""
        along, _ = self._nearest(pose)
        x, y = self._at(along + (TIGHT_LOOKAHEAD_M if tight else LOOKAHEAD_M))
        off = wrapped(math.atan2(y - pose.y, x - pose.x) - pose.yaw)
        turn = max(-self._base.cruise_turn, min(TURN_GAIN * off, self._base.cruise_turn))
        # Once it turns on the spot, it turns nearly all the way: else it would dither about the bound.
        self._turning = abs(off) > (0.25 if self._turning else TURN_FIRST_RAD)
        if self._turning:
            return Velocity(turn=turn)
        left = self._ends[-1] - along
        braking = math.sqrt(self._base.max_acceleration * max(left, 0.0))
        speed = min(self._base.cruise_linear, self._base.max_forward, braking) * max(math.cos(off), 0.2)
        return Velocity(max(speed, CREEP_MPS), 0.0, turn)

    def _nearest(self, pose: Pose2D) -> tuple[float, float]:
        """Return how far along the path the nearest place of this and the next pieces is, and how far away."""
        best = (0.0, math.inf)
        for piece in range(self._piece, min(self._piece + 4, len(self._places) - 1)):
            (ax, ay), (bx, by) = self._places[piece], self._places[piece + 1]
            length = math.hypot(bx - ax, by - ay)
            share = ((pose.x - ax) * (bx - ax) + (pose.y - ay) * (by - ay)) / (length * length) if length else 0.0
            share = min(max(share, 0.0), 1.0)
            away = math.hypot(ax + share * (bx - ax) - pose.x, ay + share * (by - ay) - pose.y)
            if away < best[1] - 1e-9:
                best = (self._ends[piece] + share * length, away)
                nearest = piece
        if best[1] < math.inf:
            self._piece = nearest
        return best if best[1] < math.inf else (0.0, math.hypot(self.goal[0] - pose.x, self.goal[1] - pose.y))

    def _at(self, along: float) -> Place:
        """Return the place so many m from the path's start, its end at most."""
        x, y = (float(np.interp(along, self._ends, values)) for values in zip(*self._places, strict=True))
        return x, y


SEEN_AHEAD_M = 2.0
"""Length of the path ahead that is looked at in the newest map; the rest waits for the next planning."""


class TripCode(IntEnum):
    """Number the constants of NavigateTo.action that end a trip short of its goal."""

    NO_PATH = 451
    BLOCKED = 452


REPLAN_S, RETRY_S = 2.0, 0.5
"""Time between two plannings on the way, and without a way."""
SLOWNESS, SPARE_S = 4.0, 20.0
"""Multiple of the longest planned duration that a whole trip may take, and time that it may take besides."""
DETOUR_M, DETOURS = 0.3, 8
"""Growth from which on a way counts as a new one, whose progress begins again, and how often it may."""


@dataclass(frozen=True)
class Destination:
    """Say where to go in the map frame [m, rad], and how near is there; `yaw` None leaves the heading open."""

    x: float
    y: float
    yaw: float | None
    tolerance: float


class Trip:
    """Lead a base to a goal: `wants_plan` and `planned` connect it to a planner elsewhere, `step` gives the velocity.

    Times are seconds of one steady clock.
    """

    def __init__(
        self, base: BaseConfig, to: Destination, now: float, *, no_path_s: float = 3.0, blocked_s: float = 6.0
    ) -> None:
        """Set out. It looks for a path for `no_path_s` seconds at most, and goes without progress for `blocked_s`."""
        self._base, self._yaw, self.tolerance = base, to.yaw, to.tolerance
        self.goal = (to.x, to.y)
        self._no_path_s, self._blocked_s = no_path_s, blocked_s
        self._path: PathFollower | None = None
        self._ever = False
        self._pathless_since = now
        self._planned_at = -math.inf
        self._deadline = -math.inf
        self._stall = StallWatch(blocked_s, 0.1)
        self._began = now
        self._detours = 0
        self._left = math.inf
        self._last_turn: DriveMotion | None = None
        self._straight: DriveMotion | None = None
        """The way to the goal without turning first, while it is free."""

    def left(self, pose: Pose2D) -> float:
        """Return the m along the path, or as the crow flies while there is none."""
        straight = math.dist(self.goal, (pose.x, pose.y))
        return straight if self._path is None or straight <= self.tolerance else self._path.left(pose)

    def wants_plan(self, now: float) -> bool:
        """Return whether a planning should begin now. Call `planned` with what came of it."""
        if self._last_turn is not None or now - self._planned_at < (RETRY_S if self._path is None else REPLAN_S):
            return False
        self._planned_at = now
        return True

    def planned(self, now: float, plan: Plan | None) -> None:
        """Take over a plan, or note that there is none."""
        if plan is None:
            if self._path is not None:
                self._pathless_since = now
            self._path = None
            return
        if self._path is None or (plan.length > self._left + DETOUR_M and self._detours < DETOURS):
            self._detours += self._path is not None
            self._stall.restart(now)
        self._path = PathFollower(self._base, plan.places)
        slowest = SLOWNESS * plan.length / self._base.cruise_linear + SPARE_S
        self._deadline = max(self._deadline, self._began + slowest)
        self._ever = True

    def step(self, now: float, pose: Pose2D, grid: OccupancyGrid, points: Points | None) -> Velocity | None:
        """Return the velocity to wish for now, None at the goal. Raises DriverRefusal, with a TripCode, where it gives up."""
        if self._last_turn is not None:
            return self._turn_at_goal(now, pose)
        # A goal moved out of an obstacle's reach is reached where it was moved to.
        goals = [self.goal, self._path.goal] if self._path is not None else [self.goal]
        if any(math.dist(goal, (pose.x, pose.y)) <= self.tolerance for goal in goals):
            return self._arrive(now, pose)
        if self._path is not None and self._blocked_in(grid, pose):
            self._path, self._pathless_since, self._planned_at = None, now, -math.inf
        if self._path is None:
            if now - self._pathless_since > self._no_path_s:
                raise self._pathless(grid)
            return STILL
        if (wish := self._straight_on(pose)) is None or in_the_way(self._base, points, wish) is not None:
            self._straight, wish = None, self._path.step(pose)
        obstacle = in_the_way(self._base, points, wish)
        if obstacle is not None:
            wish = self._path.step(pose, tight=True)
            obstacle = in_the_way(self._base, points, wish)
        self._left = self._path.left(pose)
        if now > self._deadline or self._stall.stalled(now, self._left + self._turn_left(pose)):
            what = f"something {obstacle.described()} is in the way" if obstacle else "the base does not get on"
            text = f"{what} and no other way was found in time; {self.left(pose):.1f} m are left"
            raise DriverRefusal(TripCode.BLOCKED, text)
        return wish

    def _straight_on(self, pose: Pose2D) -> Velocity | None:
        """Return the velocity straight to the goal for a base that need not turn first; None where it follows its path."""
        assert self._path is not None
        if not self._base.max_lateral or self._path.straight_m > self._base.straight:
            self._straight = None
            return None
        if self._straight is None:
            to = Pose2D(*self._path.goal, pose.yaw if self._yaw is None else self._yaw)
            way = seen_from(pose, to)
            self._straight = DriveMotion(self._base, distance=way.x, lateral=way.y, turn=way.yaw)
        return self._straight.step(pose)

    def _turn_left(self, pose: Pose2D) -> float:
        """Return the turn towards the path as m, because it is progress, too: a rad counts as 0.3 m."""
        assert self._path is not None
        x, y = self._path.ahead(pose, 0.35)[-1]
        return 0.3 * abs(math.remainder(math.atan2(y - pose.y, x - pose.x) - pose.yaw, 2 * math.pi))

    def _blocked_in(self, grid: OccupancyGrid, pose: Pose2D) -> bool:
        """Return whether an obstacle has appeared on the path ahead itself; nearness is the next planning's matter."""
        assert self._path is not None
        pieces = pairwise(self._path.ahead(pose, SEEN_AHEAD_M))
        return any(bool((grid.evidence.flat[grid.line(start, end)] > 0).any()) for start, end in pieces)

    def _arrive(self, now: float, pose: Pose2D) -> Velocity | None:
        if self._yaw is None:
            return None
        turn = math.remainder(self._yaw - pose.yaw, 2 * math.pi)
        self._last_turn = DriveMotion(self._base, turn=turn)
        self._stall = StallWatch(self._blocked_s, 0.02)
        return self._turn_at_goal(now, pose)

    def _turn_at_goal(self, now: float, pose: Pose2D) -> Velocity | None:
        assert self._last_turn is not None
        wish = self._last_turn.step(pose)
        if wish is not None and self._stall.stalled(now, self._last_turn.left):
            raise DriverRefusal(TripCode.BLOCKED, "at the goal, but the base does not turn as it is told")
        return wish

    def _pathless(self, grid: OccupancyGrid) -> DriverRefusal:
        goal = f"({self.goal[0]:.2f}, {self.goal[1]:.2f})"
        if self._ever:
            return DriverRefusal(TripCode.BLOCKED, f"the way to {goal} was blocked and no other was found in time")
        text = f"no way to {goal} in what is known of the map: is the goal free and a door open?"
        if not grid.inside(*grid.cell(*self.goal)):
            half = grid.size * grid.resolution / 4
            text = f"{goal} lies beyond the map, which reaches {half:.0f} m at least: go there in steps"
        return DriverRefusal(TripCode.NO_PATH, text)
