# SPDX-License-Identifier: Apache-2.0
"""Simulate the parts of a mobile robot: battery, lidar, and what moves its base, on four legs or on wheels."""

import math

import mujoco
import numpy as np
import numpy.typing as npt

from ghostshell_ros.sim.gait import COMMAND_TIMEOUT, JOINTS, POSTURES, Gait
from ghostshell_ros.sim.robot import SimRobot, SimWorldError
from ghostshell_ros.sim.world import SimWorld

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
        return EMPTY_V + (FULL_V - EMPTY_V) * self.charge


RAYS, NOISE_M = 360, 0.004
"""Number of distances in a revolution, and their standard deviation."""
OTHERS = np.array([1, 0, 0, 0, 0, 0], dtype=np.uint8)
"""What the rays meet: the geoms of group 0."""
LOWEST_M = 0.05
"""Least height of the rays: the lidar of a robot that lies would measure from below the floor."""


class Lidar:
    """Measure `RAYS` distances from the robot's site `laser`, counter-clockwise from behind (-pi).

    The rays keep the robot's heading but not its roll and pitch, as a scan that gravity levels. They pass through the robot
    itself.
    """

    max_range = 12.0
    """Range [m]."""

    def __init__(self, world: SimWorld, robot: SimRobot) -> None:
        """Find the site. Raises SimWorldError for a robot without it."""
        site = robot.site("laser")
        if site is None:
            raise SimWorldError("the robot's model has no site 'laser'; add one where its lidar is")
        self._world, self._robot, self._site = world, robot, site
        self._random = np.random.default_rng(1)
        self.angles = -math.pi + 2 * math.pi / RAYS * np.arange(RAYS)
        self._own = np.isin(world.model.geom_bodyid, list(robot.bodies)).astype(np.int32)
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
        angles = self.angles + self._robot.base().pose.yaw
        vectors = np.stack([np.cos(angles), np.sin(angles), np.zeros(count)], axis=1).reshape(-1)
        origin = data.site_xpos[self._site].copy()
        origin[2] = max(LOWEST_M, origin[2])
        hit, distance = np.zeros(count, dtype=np.int32), np.zeros(count)
        groups = model.geom_group.copy()
        model.geom_group[:] = self._own  # A ray leaves out whole groups only.
        mujoco.mj_multiRay(model, data, origin, vectors, OTHERS, True, -1, hit, distance, None, count, most)
        model.geom_group[:] = groups
        return np.where((hit < 0) | (distance > most), np.inf, distance)


class Legged:
    """Walk a robot of a world; `gait` takes the wishes. Attached to the world for good."""

    def __init__(self, world: SimWorld, robot: SimRobot) -> None:
        """Prepare the gait. Raises SimWorldError when the robot has other joints than the gait controls."""
        missing = sorted(set(JOINTS) - set(robot.joint_names))
        if missing:
            known = ", ".join(robot.joint_names)
            raise SimWorldError(f"the gait needs the joint '{missing[0]}', which the model lacks; it has {known}")
        self.gait = Gait()
        self._robot = robot
        world.attach(self._update, self._reset)

    def _reset(self) -> None:
        self.gait.reset()
        joints = dict(zip(JOINTS, self.gait.standing().tolist(), strict=True))
        self._robot.place(joints, POSTURES["stand"].height + 0.005)

    def _update(self, dt: float) -> None:
        robot = self._robot
        measured = map(np.array, (robot.sensor("orientation"), robot.sensor("gyro"), robot.base().linear_velocity))
        robot.set_joint_targets(dict(zip(JOINTS, self.gait.update(dt, *measured).tolist(), strict=True)))


WHEELS_MOST = np.array([0.6, 0.4, 1.5])
"""Fastest that wheels roll: forwards, sideways [m/s], turning [rad/s]."""
WHEELS_ACCELERATION = np.array([1.5, 1.5, 4.0])
LEASH = np.array([0.05, 0.05, 0.1])
"""Distance [m, rad] that the wheels' target keeps to a base that something holds back, so that they push no harder."""


class Wheeled:
    """Roll a robot of a world in any direction, as its wheels let it. Attached to the world for good.

    A velocity that is not renewed within the gait's `COMMAND_TIMEOUT` is zero.
    """

    def __init__(self, world: SimWorld, robot: SimRobot) -> None:
        """Prepare the wheels. Raises SimWorldError for a robot whose base does not roll."""
        if not robot.rolls:
            raise SimWorldError("the robot's base has no wheels: two slides and a hinge at its base_link")
        self._robot = robot
        self._reset()
        world.attach(self._update, self._reset)

    def command(self, forward: float, left: float, turn: float) -> None:
        """Wish a velocity in m/s and rad/s. It is clamped to the limits; one that is not finite is zero."""
        wish = np.array([forward, left, turn])
        self._wish = np.clip(wish, -WHEELS_MOST, WHEELS_MOST) if np.isfinite(wish).all() else np.zeros(3)
        self._since_s = 0.0

    @property
    def velocity(self) -> tuple[float, float, float]:
        """Return the velocity being rolled, after limits and ramps, in m/s and rad/s."""
        return float(self._velocity[0]), float(self._velocity[1]), float(self._velocity[2])

    def _reset(self) -> None:
        self._wish, self._velocity, self._since_s = np.zeros(3), np.zeros(3), math.inf

    def _update(self, dt: float) -> None:
        self._since_s += dt
        wish = self._wish if self._since_s <= COMMAND_TIMEOUT else np.zeros(3)
        most = WHEELS_ACCELERATION * dt
        self._velocity += np.clip(wish - self._velocity, -most, most)
        if not self._velocity.any():
            return
        robot, (forward, left, turn) = self._robot, self._velocity
        target, here = robot.base_target, robot.base_position
        cos, sin = math.cos(here[2]), math.sin(here[2])
        target += dt * np.array([cos * forward - sin * left, sin * forward + cos * left, turn])
        robot.base_target = np.clip(target, here - LEASH, here + LEASH)
