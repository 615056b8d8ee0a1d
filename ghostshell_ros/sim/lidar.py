# SPDX-License-Identifier: Apache-2.0
"""A 2D lidar in a simulated world: level rays all around, which leave the robot itself out."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import numpy.typing as npt

from ghostshell_ros.sim.world import SimWorld, SimWorldError

LOWEST_M = 0.05
"""The rays never start lower: a robot that lies would else measure from below the floor."""


class Lidar:
    """`rays` distances, counter-clockwise from behind (-pi), seen from the site `laser` of the robot, whose heading they
    keep and whose roll and pitch they do not, as a scan that is levelled by gravity.

    The robot's geoms are told from the world's by their groups: 1 and 3 are left out.
    """

    def __init__(self, world: SimWorld, *, rays: int = 360, max_range: float = 12.0, noise: float = 0.004) -> None:
        """`max_range` and `noise` (standard deviation) in m. Raises SimWorldError for a robot without the site."""
        self._world = world
        self._site = mujoco.mj_name2id(world.model, mujoco.mjtObj.mjOBJ_SITE, "laser")
        if self._site < 0:
            raise SimWorldError("the robot's model has no site 'laser'; add one where its lidar is")
        self.max_range = max_range
        self._noise = noise
        self._random = np.random.default_rng(1)
        self.angles = -math.pi + 2 * math.pi / rays * np.arange(rays)
        self._groups = np.array([1, 0, 1, 0, 0, 0], dtype=np.uint8)

    def height(self) -> float:
        """Height of the rays over the floor in m."""
        return max(LOWEST_M, float(self._world.data.site_xpos[self._site][2]))

    def scan(self) -> npt.NDArray[np.float32]:
        """Return the distances of one revolution in m, infinite where nothing is within `max_range`."""
        count, most = len(self.angles), self.max_range
        model, data = self._world.model, self._world.data
        angles = self.angles + self._world.base().pose.yaw
        vectors = np.stack([np.cos(angles), np.sin(angles), np.zeros(count)], axis=1).reshape(-1)
        origin = data.site_xpos[self._site].copy()
        origin[2] = self.height()
        hit, distance = np.zeros(count, dtype=np.int32), np.zeros(count)
        mujoco.mj_multiRay(model, data, origin, vectors, self._groups, True, -1, hit, distance, None, count, most)
        distance = np.where((hit < 0) | (distance > most), np.inf, distance)
        return (distance + self._random.normal(0.0, self._noise, count)).astype(np.float32)
