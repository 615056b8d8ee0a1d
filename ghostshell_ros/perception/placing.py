# SPDX-License-Identifier: Apache-2.0
"""Place a thing of the image: its direction by the camera, its distance by its size or by the lidar."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ghostshell_ros.perception.detector import Box
from skill_kernel.skills.drivers import Scan

EDGE_PX = 1.5
"""A thing this near to the image's edge goes on beyond it."""
RAYS = 1.5
"""Of a thing that is far away and narrow, so many steps of the scan to each side are looked at: one of them meets it."""
GROUND_REACH_M = 6.0
"""Farther away a pixel of the lower edge is worth too many metres."""


@dataclass(frozen=True)
class Camera:
    """A level camera: focal length and size of its image in px, its place in the base frame in m."""

    focal: float
    width: int
    height: int
    forward: float
    above_ground: float


@dataclass(frozen=True)
class Laser:
    """The lidar's place in the base frame: x and y in m, yaw in rad."""

    x: float
    y: float
    yaw: float


def place(box: Box, camera: Camera, laser: Laser, scan: Scan | None, width_m: float = 0.0) -> tuple[float, float]:
    """Bearing in rad and distance in m to the surface, both in the base frame; distance nan when nothing tells.

    A thing whose width is known (`width_m` > 0) is as far as it is small. Any other stands on the ground: it is where
    the lidar meets something in its direction, else where its lower edge meets the ground.
    """
    direction = math.atan2(camera.width / 2 - (box.left + box.right) / 2, camera.focal)
    ahead = math.nan
    if width_m > 0:
        if box.left > EDGE_PX and box.right < camera.width - EDGE_PX:
            ahead = camera.focal * width_m / (box.right - box.left)
    else:
        half = camera.focal / math.cos(direction)
        ranged = _range(scan, laser, camera, direction, (box.right - box.left) / 4 / half) if scan is not None else math.inf
        ahead = ranged if math.isfinite(ranged) else _on_ground(box, camera)
    if math.isnan(ahead):
        # The camera sits so near the middle that over a room the two directions are much the same.
        return direction, math.nan
    x, y = camera.forward + ahead, ahead * math.tan(direction)
    return math.atan2(y, x), math.hypot(x, y)


def _on_ground(box: Box, camera: Camera) -> float:
    """Way along the camera's axis to where the box's lower edge meets the ground; nan when that is not to be seen."""
    below = box.bottom - camera.height / 2
    if below <= 0 or box.bottom >= camera.height - EDGE_PX:
        return math.nan
    ahead = camera.focal * camera.above_ground / below
    return ahead if ahead <= GROUND_REACH_M else math.nan


def _range(scan: Scan, laser: Laser, camera: Camera, direction: float, half_width: float) -> float:
    """Nearest return, as a way along the camera's axis, that the camera sees within `half_width` rad of `direction`."""
    nearest = math.inf
    margin = max(half_width, RAYS * abs(scan.angle_step))
    for i, length in enumerate(scan.ranges):
        if math.isfinite(length):
            angle = laser.yaw + scan.angle_min + i * scan.angle_step
            ahead = laser.x + length * math.cos(angle) - camera.forward
            if ahead > 0.0 and abs(math.atan2(laser.y + length * math.sin(angle), ahead) - direction) <= margin:
                nearest = min(nearest, ahead)
    return nearest
