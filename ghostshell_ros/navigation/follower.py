# SPDX-License-Identifier: Apache-2.0
"""Follows a path of straight pieces: turns towards it, then drives along it, slower in bends and near its end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ghostshell_ros.navigation.planner import Place
from ghostshell_ros.navigation.poses import wrapped
from skill_kernel.robot import BaseConfig
from skill_kernel.safety.base_gate import Velocity
from skill_kernel.skills.drivers import Pose2D

LOOKAHEAD_M = 0.35
TIGHT_LOOKAHEAD_M = 0.12
"""Where the straight line to the point ahead would cut a corner that the path goes around."""
TURN_FIRST_RAD = 0.7
"""Further than this off its heading the base turns on the spot."""
TURN_GAIN = 2.5
CREEP_MPS = 0.1


class PathFollower:
    """Forward along a path, as a quadruped and a differential base both can."""

    def __init__(self, base: BaseConfig, places: Sequence[Place]) -> None:
        self._base = base
        self._places = list(places)
        self._piece = 0
        self._turning = False
        self._ends = [0.0]
        for a, b in zip(places, places[1:], strict=False):
            self._ends.append(self._ends[-1] + math.dist(a, b))

    @property
    def goal(self) -> Place:
        return self._places[-1]

    def left(self, pose: Pose2D) -> float:
        """m along the path from where the robot is beside it, and the way back to it."""
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
        for piece in range(len(self._places) - 1):
            if along < self._ends[piece + 1]:
                share = (along - self._ends[piece]) / (self._ends[piece + 1] - self._ends[piece])
                (ax, ay), (bx, by) = self._places[piece], self._places[piece + 1]
                return ax + share * (bx - ax), ay + share * (by - ay)
        return self.goal
