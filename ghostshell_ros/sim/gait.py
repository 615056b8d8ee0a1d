# SPDX-License-Identifier: Apache-2.0
"""Control a four-legged robot below cmd_vel: trot, stances and attitudes by inverse kinematics, kept level by the IMU.

Measurements in, joint targets out; it knows neither ROS nor a simulated world.
"""

import math
from dataclasses import astuple, dataclass

import mujoco
import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

LEGS = ("fl", "fr", "rl", "rr")
JOINTS = tuple(f"{leg}_{joint}" for leg in LEGS for joint in ("hip", "thigh", "calf"))
"""Order of all joint vectors: front left, front right, rear left, rear right; hip, thigh, calf each."""

_FRONT = np.array([1.0, 1.0, -1.0, -1.0])
_LEFT = np.array([1.0, -1.0, 1.0, -1.0])
_PHASES = np.array([0.0, 0.5, 0.5, 0.0])
"""Trot: diagonal legs together."""


@dataclass(frozen=True)
class Posture:
    """Define a stance by the trunk over feet that stay: height and shift forwards in m, pitch in rad (positive is nose down).

    `rear_feet` is how far the rear feet stand forwards of their place in m.
    """

    height: float
    pitch: float = 0.0
    forward: float = 0.0
    rear_feet: float = 0.0


# Kalos's body and gait: dimensions in m, times in s, speeds in m/s and rad/s.
HIP_X, HIP_Y, ABDUCTION = 0.1934, 0.0465, 0.0955
THIGH, CALF, FOOT_RADIUS = 0.213, 0.213, 0.023
STANCE_Y = 0.17
"""Lateral distance of the feet from the middle, a little wider than the hips."""
PERIOD, DUTY, LIFT = 0.32, 0.58, 0.055
"""A step's time, the part of it that a foot is on the ground, and the height of a lifted foot."""
PLACING = 0.15
"""Distance that a foot lands further out for each m/s that the trunk is too fast, in s."""
LEARNING = 1.0
"""Rate at which the walked velocity is corrected by the measured one, in 1/s."""
FILTER_TIME = 0.03
"""Time over which the measured velocity is smoothed, as the trunk sways with each step."""
SLIP = 1.22
"""Factor by which the feet must be faster than the trunk."""
TRIM = (0.11, 0.0)
"""Speed the feet must walk for the trunk to stay in place; learned further while walking."""
MAX_VELOCITY = np.array([0.6, 0.3, 1.5])
FOOT_SPEED = 0.75
"""Speed of a foot that walking and turning together may ask for; more is scaled down."""
ACCELERATION = np.array([1.5, 1.5, 6.0])
COMMAND_TIMEOUT, POSTURE_TIME = 0.25, 1.2
MAX_ATTITUDE, ATTITUDE_RATE = np.array([0.35, 0.40, 0.40]), 1.6
LOWER, UPPER = (-1.05, -1.57, -2.72), (1.05, 3.4, -0.84)
POSTURES = {"stand": Posture(0.30), "sit": Posture(0.215, -0.58, -0.05, 0.06), "lie": Posture(0.105)}


class Gait:
    """Turn wishes (velocity, posture, attitude) into joint targets. Call `update` in even steps of some ms.

    A velocity that is not renewed within `command_timeout` is zero. Zero velocity makes the robot place its feet and stand.
    A change of posture that is not renewed in that time, or held, stays where it is until a posture is wished again.
    Velocities count only in the posture stand; attitudes only at rest.
    """

    def __init__(self) -> None:
        self._hips = np.stack([_FRONT * HIP_X, _LEFT * HIP_Y, np.zeros(4)], axis=1)
        self._places = np.stack([_FRONT * HIP_X, _LEFT * STANCE_Y, np.zeros(4)], axis=1)
        self.reset()

    def reset(self) -> None:
        """Forget all wishes and stand."""
        self._time = 0.0
        self._wish = np.zeros(3)
        self._wished_at = -math.inf
        self._velocity = np.zeros(3)
        self._attitude_wish = np.zeros(3)
        self._attitude = np.zeros(3)
        self._posture = "stand"
        self._former = POSTURES["stand"]
        self._blend = 1.0
        self._posture_at = -math.inf
        self._phase = 0.0
        self._stepping = False
        self._calm_steps = 0
        self._feet = self._places.copy()
        self._lifted_from = self._places.copy()
        self._swinging = np.zeros(4, dtype=bool)
        self._heading = 0.0
        self._measured_velocity = np.zeros(2)
        self._correction = np.array(TRIM)

    def command(self, forward: float, left: float, turn: float) -> None:
        """Wish a velocity in m/s and rad/s. It is clamped to the limits; one that is not finite is zero."""
        wish = np.array([forward, left, turn])
        wish = np.clip(wish, -MAX_VELOCITY, MAX_VELOCITY) if np.isfinite(wish).all() else np.zeros(3)
        feet = math.hypot(wish[0], wish[1]) + abs(wish[2]) * math.hypot(HIP_X, STANCE_Y)
        self._wish = wish * min(1.0, FOOT_SPEED / max(feet, 1e-9))
        self._wished_at = self._time

    def set_posture(self, posture: str) -> None:
        """Go into one of `POSTURES`, from wherever it is. Raises ValueError for another name."""
        if posture not in POSTURES:
            raise ValueError(f"there is no posture '{posture}'; use one of {', '.join(POSTURES)}")
        self._posture_at = self._time
        if posture != self._posture:
            self._former, self._posture, self._blend = self._stance(), posture, 0.0

    def hold(self) -> None:
        """Stay as it is: half way to a posture or an attitude, too."""
        self._posture_at = -math.inf
        self._attitude_wish = self._attitude.copy()

    def set_attitude(self, roll: float, pitch: float, yaw: float) -> None:
        """Wish an attitude of the trunk in rad (REP 103: positive pitch is nose down), clamped; it is held."""
        wish = np.array([roll, pitch, yaw])
        self._attitude_wish = np.clip(wish, -MAX_ATTITUDE, MAX_ATTITUDE) if np.isfinite(wish).all() else np.zeros(3)

    def standing(self) -> Vector:
        """Return the joint positions of the stance in rad."""
        feet = self._places.copy()
        feet[:, 2] = FOOT_RADIUS - POSTURES["stand"].height
        return self.inverse(feet).reshape(12)

    @property
    def state(self) -> str:
        """Return the posture reached, or "moving" while stepping or between postures."""
        return "moving" if self._stepping or self._blend < 1.0 else self._posture

    @property
    def velocity(self) -> tuple[float, float, float]:
        """Return the velocity being walked, after limits and ramps, in m/s and rad/s."""
        return float(self._velocity[0]), float(self._velocity[1]), float(self._velocity[2])

    def update(self, dt: float, orientation: Vector, angular_velocity: Vector, linear_velocity: Vector) -> Vector:
        """Return the targets of `JOINTS` in rad for the next `dt` seconds, by what is measured in the body's frame.

        Orientation as (w, x, y, z) and angular velocity in rad/s come from the IMU, linear velocity in m/s from the odometry.
        """
        self._time += dt
        roll, pitch, yaw = euler(orientation)
        self._ramp(dt)
        moving = bool(np.abs(self._velocity).max() > 1e-3)
        if moving and not self._stepping and self._blend >= 1.0:
            self._stepping, self._phase, self._heading = True, 0.0, yaw
            self._swinging[:] = False
        if self._stepping:
            self._step(dt, linear_velocity, yaw, moving)
        else:
            self._settle(dt)
        return self._targets(angular_velocity, roll, pitch)

    def _ramp(self, dt: float) -> None:
        fresh = self._time - self._wished_at <= COMMAND_TIMEOUT
        may_walk = self._posture == "stand" and self._blend >= 1.0
        wish = self._wish if fresh and may_walk else np.zeros(3)
        most = ACCELERATION * dt
        self._velocity += np.clip(wish - self._velocity, -most, most)
        renewed = self._time - self._posture_at <= COMMAND_TIMEOUT
        if not self._stepping and self._blend < 1.0 and renewed:
            self._blend = min(1.0, self._blend + dt / POSTURE_TIME)
        attitude = np.zeros(3) if self._stepping else self._attitude_wish
        rate = ATTITUDE_RATE * dt
        self._attitude += np.clip(attitude - self._attitude, -rate, rate)

    def _step(self, dt: float, velocity: Vector, yaw: float, moving: bool) -> None:
        """Move the feet of the trot: those on the ground backwards under the trunk, the others to where they will land."""
        self._phase = (self._phase + dt / PERIOD) % 1.0
        phases = (self._phase + _PHASES) % 1.0
        swinging = phases >= DUTY
        landed = self._swinging & ~swinging
        lifting = swinging & ~self._swinging
        self._lifted_from[lifting] = self._feet[lifting]
        self._swinging = swinging

        self._measured_velocity += (velocity[:2] - self._measured_velocity) * min(1.0, dt / FILTER_TIME)
        vx, vy, turn = self._velocity
        self._heading += turn * dt
        off = math.atan2(math.sin(self._heading - yaw), math.cos(self._heading - yaw))
        off = max(-0.2, min(0.2, off))
        self._heading = yaw + off
        turn = turn + 2.5 * off
        error = np.array([vx, vy]) - self._measured_velocity
        self._correction = np.clip(self._correction + LEARNING * error * dt, -0.25, 0.25)
        vx, vy = SLIP * np.array([vx, vy]) + self._correction

        ground = ~swinging
        drift = np.stack([vx - turn * self._feet[:, 1], vy + turn * self._feet[:, 0], np.zeros(4)], axis=1)
        self._feet[ground] -= drift[ground] * dt
        self._feet[ground, 2] = 0.0
        if swinging.any():
            half = DUTY * PERIOD / 2.0
            landing = self._places.copy()
            caught = np.clip(PLACING * error, -0.06, 0.06)
            landing[:, 0] += (vx - turn * self._places[:, 1]) * half - caught[0]
            landing[:, 1] += (vy + turn * self._places[:, 0]) * half - caught[1]
            s = np.clip((phases - DUTY) / (1.0 - DUTY), 0.0, 1.0)[:, None]
            smooth = s * s * (3.0 - 2.0 * s)
            path = self._lifted_from + (landing - self._lifted_from) * smooth
            path[:, 2] = LIFT * np.sin(math.pi * s[:, 0])
            self._feet[swinging] = path[swinging]
        if moving:
            self._calm_steps = 0
        elif landed.any():
            self._calm_steps += 1
            if self._calm_steps >= 3:
                self._stepping = False

    def _settle(self, dt: float) -> None:
        self._measured_velocity[:] = 0.0
        self._feet += (self._places - self._feet) * min(1.0, dt / 0.15)

    def _stance(self) -> Posture:
        """Return the stance between the posture it left and the one it goes to."""
        a, b = self._former, POSTURES[self._posture]
        if self._blend >= 1.0:
            return b
        s = self._blend * self._blend * (3.0 - 2.0 * self._blend)
        return Posture(*(x + (y - x) * s for x, y in zip(astuple(a), astuple(b), strict=True)))

    def _targets(self, rates: Vector, roll: float, pitch: float) -> Vector:
        stance = self._stance()
        wished = self._attitude + np.array([0.0, stance.pitch, 0.0])
        if self._stepping:
            wished = wished + np.array(
                [
                    np.clip(0.5 * (wished[0] - roll) - 0.03 * rates[0], -0.15, 0.15),
                    np.clip(0.5 * (wished[1] - pitch) - 0.03 * rates[1], -0.15, 0.15),
                    0.0,
                ]
            )
        feet = self._feet.copy()
        feet[:, 0] -= stance.forward
        feet[2:, 0] += stance.rear_feet
        feet[:, 2] += FOOT_RADIUS - stance.height
        return self.inverse(feet @ rotation(*wished)).reshape(12)

    def inverse(self, feet: Vector) -> Vector:
        """Return joint angles (4, 3) that put the feet's centres at points of the body's frame, or as near as they reach."""
        p = feet - self._hips
        x, y, z = p[:, 0], p[:, 1], p[:, 2]
        offset = _LEFT * ABDUCTION
        down = np.sqrt(np.maximum(y * y + z * z - ABDUCTION**2, 1e-6))
        hip = np.arctan2(z, y) - np.arctan2(-down, offset)
        hip = np.arctan2(np.sin(hip), np.cos(hip))
        cosine = (x * x + down * down - THIGH**2 - CALF**2) / (2.0 * THIGH * CALF)
        knee = -np.arccos(np.clip(cosine, -1.0, 1.0))
        thigh = np.arctan2(-x, down) - np.arctan2(CALF * np.sin(knee), THIGH + CALF * np.cos(knee))
        return np.clip(np.stack([hip, thigh, knee], axis=1), LOWER, UPPER)


def euler(quaternion: Vector) -> tuple[float, float, float]:
    """Return roll, pitch and yaw in rad of a quaternion (w, x, y, z)."""
    w, x, y, z = (float(part) for part in quaternion)
    roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x))))
    return roll, pitch, math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def rotation(roll: float, pitch: float, yaw: float) -> Vector:
    """Return the matrix that turns vectors of a body with this attitude in rad into the level frame."""
    quaternion, matrix = np.empty(4), np.empty(9)
    mujoco.mju_euler2Quat(quaternion, np.array([roll, pitch, yaw]), "XYZ")
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


def turned(yaw: float) -> Vector:
    """Return the quaternion (w, x, y, z) of a heading in rad."""
    return np.array([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])


def times(left: npt.ArrayLike, right: npt.ArrayLike) -> Vector:
    """Return the product of two quaternions (w, x, y, z)."""
    product = np.empty(4)
    mujoco.mju_mulQuat(product, np.asarray(left), np.asarray(right))
    return product
