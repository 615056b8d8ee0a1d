# SPDX-License-Identifier: Apache-2.0
"""Where a thing in the image is: its direction from the camera, its distance from the lidar or from where it stands."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ghostshell_ros.perception.colour import Blob
from skill_kernel.drivers import Scan

GROUND_REACH_M = 8.0
"""Farther away a pixel of the lower edge is worth too many metres."""
BEAMS = 2
"""Beams to each side of the direction that are looked at as well."""


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
    """The lidar's place in the base frame: x, y, height above the ground in m, and yaw in rad."""

    x: float
    y: float
    yaw: float
    above_ground: float


def place(blob: Blob, camera: Camera, laser: Laser, scan: Scan | None) -> tuple[float, float]:
    """Bearing in rad and distance in m, both in the base frame; distance nan when nothing tells.

    The lidar counts when at its range the thing reaches up into its plane; else what stands on the ground is where
    its lower edge is seen, unless the lidar shows something nearer in that direction.
    """
    column = (blob.left + blob.right + 1) / 2
    direction = math.atan2(camera.width / 2 - column, camera.focal)
    ground = _on_ground(blob, camera)
    guess = ground if ground is not None else 2.0
    bearing = math.atan2(guess * math.tan(direction), camera.forward + guess)
    ranged = _range(scan, laser, bearing) if scan is not None else math.inf
    if math.isfinite(ranged):
        ahead = max(0.05, ranged * math.cos(bearing) - camera.forward)
        row = camera.height / 2 + camera.focal * (camera.above_ground - laser.above_ground) / ahead
        if blob.top - 1 <= row <= blob.bottom + 1:
            return math.atan2(ahead * math.tan(direction), camera.forward + ahead), ranged
    if ground is None or ground > GROUND_REACH_M:
        return bearing, math.nan
    distance = math.hypot(camera.forward + ground, ground * math.tan(direction))
    return bearing, distance if distance <= ranged + 0.3 else math.nan


def _on_ground(blob: Blob, camera: Camera) -> float | None:
    """Way along the camera's axis to where the blob's lower edge meets the ground; None when that is cut off."""
    below = blob.bottom + 1 - camera.height / 2
    if below <= 0 or blob.bottom >= camera.height - 1:
        return None
    return camera.focal * camera.above_ground / below


def _range(scan: Scan, laser: Laser, bearing: float) -> float:
    """Nearest return around a direction of the base frame, as a distance from the base's middle."""
    if not scan.ranges or scan.angle_step == 0:
        return math.inf
    middle = round(math.remainder(bearing - laser.yaw - scan.angle_min, math.tau) / scan.angle_step)
    nearest = math.inf
    for i in range(middle - BEAMS, middle + BEAMS + 1):
        turn = round(math.tau / abs(scan.angle_step))
        index = i % turn
        if index < len(scan.ranges) and math.isfinite(scan.ranges[index]):
            angle = laser.yaw + scan.angle_min + index * scan.angle_step
            x, y = laser.x + scan.ranges[index] * math.cos(angle), laser.y + scan.ranges[index] * math.sin(angle)
            nearest = min(nearest, math.hypot(x, y))
    return nearest
