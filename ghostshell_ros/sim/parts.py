# SPDX-License-Identifier: Apache-2.0
"""Simulate the parts of a four-legged robot: battery, lidar, and the gait controller between its sensors and servos."""

import math

import mujoco
import numpy as np
import numpy.typing as npt

from ghostshell_ros.sim.gait import JOINTS, POSTURES, Gait
from ghostshell_ros.sim.world import SimWorld, SimWorldError

IDLE_HOURS, WALK_HOURS, WALK_MPS = 4.0, 1.5, 0.4
"""Hours from full to empty at rest, and walking at this speed without a pause, as such robots have them."""
FULL_V, EMPTY_V = 29.4, 24.5
"""Voltage of seven lithium cells."""


class Battery:
    """Drain a battery; `charge` is from 0 to 1."""

    def __init__(self, charge: float = 1.0) -> None:
        self.charge = min(max(charge, 0.0), 1.0)

    def drain(self, seconds: float, speed_mps: float) -> None:
        """Let it feed the robot for some time at a speed."""
        share = min(speed_mps / WALK_MPS, 2.0)
        per_hour = 1.0 / IDLE_HOURS + share * (1.0 / WALK_HOURS - 1.0 / IDLE_HOURS)
        self.charge = max(0.0, self.charge - seconds / 3600.0 * per_hour)

    @property
    def voltage(self) -> float:
        """Return the voltage at the present charge."""
        return EMPTY_V + (FULL_V - EMPTY_V) * self.charge


RAYS, NOISE_M = 360, 0.004
"""Number of distances in a revolution, and their standard deviation."""
LOWEST_M = 0.05
"""Least height of the rays: the lidar of a robot that lies would measure from below the floor."""


class Lidar:
    """Measure `RAYS` distances from the robot's site `laser`, counter-clockwise from behind (-pi).

    The rays keep the robot's heading but not its roll and pitch, as a scan that gravity levels. The robot's own geoms, those
    of the groups 1 and 3, are left out.
    """

    max_range = 12.0
    """Range [m]."""

    def __init__(self, world: SimWorld) -> None:
        """Find the site. Raises SimWorldError for a robot without it."""
        self._world = world
        self._site = mujoco.mj_name2id(world.model, mujoco.mjtObj.mjOBJ_SITE, "laser")
        if self._site < 0:
            raise SimWorldError("the robot's model has no site 'laser'; add one where its lidar is")
        self._random = np.random.default_rng(1)
        self.angles = -math.pi + 2 * math.pi / RAYS * np.arange(RAYS)
        self._groups = np.array([1, 0, 1, 0, 0, 0], dtype=np.uint8)
        self._around = np.empty(0)
        """Appearance of the world for which `_distance` was measured."""
        self._distance = np.empty(0)

    def scan(self) -> npt.NDArray[np.float32]:
        """Return the distances of one revolution in m, infinite where nothing is within `max_range`."""
        around = self._world.appearance()
        if not np.array_equal(around, self._around):
            self._around, self._distance = around, self._measured()
        return (self._distance + self._random.normal(0.0, NOISE_M, len(self.angles))).astype(np.float32)

    def _measured(self) -> npt.NDArray[np.float64]:
        count, most = len(self.angles), self.max_range
        model, data = self._world.model, self._world.data
        angles = self.angles + self._world.base().pose.yaw
        vectors = np.stack([np.cos(angles), np.sin(angles), np.zeros(count)], axis=1).reshape(-1)
        origin = data.site_xpos[self._site].copy()
        origin[2] = max(LOWEST_M, origin[2])
        hit, distance = np.zeros(count, dtype=np.int32), np.zeros(count)
        mujoco.mj_multiRay(model, data, origin, vectors, self._groups, True, -1, hit, distance, None, count, most)
        return np.where((hit < 0) | (distance > most), np.inf, distance)


class Legged:
    """Walk the robot of a world; `gait` takes the wishes. Attached to the world for good."""

    def __init__(self, world: SimWorld) -> None:
        """Prepare the gait. Raises SimWorldError when the robot has other joints than the gait controls."""
        missing = sorted(set(JOINTS) - set(world.joint_names))
        if missing:
            known = ", ".join(world.joint_names)
            raise SimWorldError(f"the gait needs the joint '{missing[0]}', which the model lacks; it has {known}")
        self.gait = Gait()
        self._world = world
        world.attach(self._update, self._reset)

    def _reset(self) -> None:
        self.gait.reset()
        joints = dict(zip(JOINTS, self.gait.standing().tolist(), strict=True))
        self._world.place(joints, POSTURES["stand"].height + 0.005)

    def _update(self, dt: float) -> None:
        world = self._world
        measured = map(np.array, (world.sensor("orientation"), world.sensor("gyro"), world.base().linear_velocity))
        world.set_joint_targets(dict(zip(JOINTS, self.gait.update(dt, *measured).tolist(), strict=True)))
