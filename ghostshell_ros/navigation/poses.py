# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of planar poses."""

from __future__ import annotations

import math

from skill_kernel.skills.drivers import Pose2D


def wrapped(angle: float) -> float:
    """Return the same angle in [-pi, pi] rad."""
    return math.remainder(angle, 2.0 * math.pi)


def composed(first: Pose2D, second: Pose2D) -> Pose2D:
    """`second`, given in the frame of `first`, in the frame that `first` is given in."""
    cos, sin = math.cos(first.yaw), math.sin(first.yaw)
    return Pose2D(
        first.x + cos * second.x - sin * second.y, first.y + sin * second.x + cos * second.y, wrapped(first.yaw + second.yaw)
    )


def seen_from(frame: Pose2D, pose: Pose2D) -> Pose2D:
    """`pose` in the frame of `frame`; both are given in one frame."""
    cos, sin = math.cos(frame.yaw), math.sin(frame.yaw)
    x, y = pose.x - frame.x, pose.y - frame.y
    return Pose2D(cos * x + sin * y, cos * y - sin * x, wrapped(pose.yaw - frame.yaw))
