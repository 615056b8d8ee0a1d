# SPDX-License-Identifier: Apache-2.0
"""One robot of a simulated world, without ROS: its joints, base, sensors and display, each by the name in its own model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from ghostshell_ros.sim.gait import euler, turned
from skill_kernel.skills.drivers import Pose2D

Vector = npt.NDArray[np.float64]
_OBJECT = mujoco.mjtObj

START = "_start"
"""End of the name of a world's site where the model of a robot stands, after the robot's name."""


class SimWorldError(ValueError):
    """Say that the world cannot do what was asked; the message names the fault and what there is instead."""


@dataclass(frozen=True)
class BaseState:
    """Hold the state of the robot's base.

    It is the planar pose, height in m, roll and pitch in rad (REP 103: a positive pitch is nose down), the orientation in the
    world as (w, x, y, z), and the velocity in the base's own frame in m/s and rad/s.
    """

    pose: Pose2D
    height: float
    roll: float
    pitch: float
    orientation: tuple[float, ...]
    linear_velocity: tuple[float, ...]
    angular_velocity: tuple[float, ...]


class SimRobot:
    """Command and measure one robot. Whoever uses the world may use it; it changes nothing but its own robot.

    Its body `base_link` stands fast, has a free joint, or rolls: two slides along the world's x and y and a hinge about z,
    whose positions are its pose in the world (their `ref` says where it starts) and each of which has an actuator of its
    position.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, name: str = "") -> None:
        """Find the robot whose names begin with `name/` ("" for a world's only one). Raises SimWorldError without a base."""
        self._model, self._data, self.name = model, data, name
        self.prefix = f"{name}/" if name else ""
        """What the world puts before each name of the robot's model."""
        self.base_id = mujoco.mj_name2id(model, _OBJECT.mjOBJ_BODY, f"{self.prefix}base_link")
        freedom = int(model.body_dofnum[self.base_id]) if self.base_id >= 0 else -1
        driven = model.jnt_bodyid[model.actuator_trnid[:, 0]]
        self._wheels = np.flatnonzero(driven == self.base_id)
        self.fixed, self.rolls = freedom == 0, freedom == 3
        if freedom not in (0, 3, 6) or len(self._wheels) != (freedom if self.rolls else 0):
            raise SimWorldError(
                "it has no body 'base_link' that stands fast, has a free joint, or rolls on three driven joints"
            )
        self.bodies = _below(model, self.base_id)
        """Numbers of the robot's bodies."""
        base = int(model.body_jntadr[self.base_id])
        self._base_qpos = -1 if self.fixed else int(model.jnt_qposadr[base])
        self._base_dof = -1 if self.fixed else int(model.jnt_dofadr[base])
        start = mujoco.mj_name2id(model, _OBJECT.mjOBJ_SITE, f"{name}{START}")
        self._origin: Vector = model.site_pos[start][:2].copy() if start >= 0 else np.zeros(2)
        """Origin of the robot's odom frame in the world [m]."""
        own = np.isin(driven, list(self.bodies)) & (driven != self.base_id)
        self._servos = np.flatnonzero(own)
        joints = model.actuator_trnid[self._servos, 0]
        self.joint_names = tuple(model.joint(joint).name.removeprefix(self.prefix) for joint in joints)
        """Names of the position-controlled joints in the order of the model's actuators."""
        self._qpos, self._dofs = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
        self.home: Mapping[str, float] = {}
        """Joints [rad, m] that the robot has after each reset of its world; the others are as the model has them."""
        textures = (i for i in range(model.ntex) if model.texture(i).name.startswith(self.prefix))
        self.face_texture = next((i for i in textures if model.texture(i).name.endswith("_face")), None)
        """Number of the model's texture for the robot's display (the first named `*_face`), or None without one."""

    def reset(self) -> None:
        """Go home."""
        self.place(self.home)

    def place(self, joints: Mapping[str, float], height: float | None = None) -> None:
        """Put the robot upright over where it stands, at a height in m, with joints (rad) that are also their targets.

        Only a base with a free joint has a height.
        """
        self.set_joint_targets(joints)
        for name, position in joints.items():
            self._data.qpos[self._qpos[self.joint_names.index(name)]] = position
        if height is not None and not (self.fixed or self.rolls):
            self._data.qpos[self._base_qpos + 2] = height
        if self.rolls:
            self.base_target = self.base_position
        mujoco.mj_forward(self._model, self._data)

    def put(self, spot: Pose2D) -> None:
        """Put the robot upright at a spot of the world at once, at rest. Raises SimWorldError for one that stands fast."""
        if self.fixed:
            raise SimWorldError(f"robot '{self.name or 'robot'}' stands fast; it cannot be put elsewhere")
        q, v = self._base_qpos, self._base_dof
        origin_x, origin_y = self._origin if self.rolls else (0.0, 0.0)
        self._data.qpos[q : q + 2] = spot.x - origin_x, spot.y - origin_y
        if self.rolls:
            self._data.qpos[q + 2] = spot.yaw
            self.base_target = self.base_position
        else:
            self._data.qpos[q + 3 : q + 7] = turned(spot.yaw)
        self._data.qvel[v : v + self._model.body_dofnum[self.base_id]] = 0.0

    @property
    def base_position(self) -> Vector:
        """The pose x, y [m] and yaw [rad], not wrapped, of a base that rolls."""
        return self._data.qpos[self._base_qpos : self._base_qpos + 3].copy()

    @property
    def base_target(self) -> Vector:
        """The pose x, y [m] and yaw [rad], not wrapped, that the wheels of a base that rolls hold."""
        return self._data.ctrl[self._wheels].copy()

    @base_target.setter
    def base_target(self, pose: Vector) -> None:
        self._data.ctrl[self._wheels] = pose

    def set_joint_targets(self, targets: Mapping[str, float]) -> None:
        """Set position targets in rad by joint; the others keep theirs.

        Raises SimWorldError for an unknown joint or a target that is no finite number; nothing is set then.
        """
        for name, target in targets.items():
            if name not in self.joint_names:
                raise SimWorldError(f"there is no joint '{name}'; the joints are {', '.join(self.joint_names)}")
            if not math.isfinite(target):
                raise SimWorldError(f"target {target} of joint '{name}' is not a finite number")
        for name, target in targets.items():
            self._data.ctrl[self._servos[self.joint_names.index(name)]] = target

    def joint_positions(self) -> dict[str, float]:
        """Return the positions in rad by joint."""
        return self._by_joint(self._data.qpos[self._qpos])

    def joint_velocities(self) -> dict[str, float]:
        """Return the velocities in rad/s by joint."""
        return self._by_joint(self._data.qvel[self._dofs])

    def joint_efforts(self) -> dict[str, float]:
        """Return the torques of the servos in N m by joint."""
        return self._by_joint(self._data.actuator_force[self._servos])

    def _by_joint(self, values: Vector) -> dict[str, float]:
        return dict(zip(self.joint_names, values.tolist(), strict=True))

    def speed(self) -> float:
        """Return the largest speed of a controlled joint or of the base, along or about an axis [rad/s, m/s]."""
        begin = self._base_dof
        base = () if self.fixed else self._data.qvel[begin : begin + self._model.body_dofnum[self.base_id]]
        return float(np.abs((*base, *self._data.qvel[self._dofs])).max())

    def base(self) -> BaseState:
        """Return the state of the robot's base in the odom frame, which begins at its start, or else where the world does."""
        data, q, v = self._data, self._base_qpos, self._base_dof
        if self.fixed or self.rolls:
            height = float(data.xpos[self.base_id][2])
        if self.fixed:
            x, y = (data.xpos[self.base_id][:2] - self._origin).tolist()
            orientation = data.xquat[self.base_id]
            roll, pitch, yaw = euler(orientation)
            return BaseState(Pose2D(x, y, yaw), height, roll, pitch, tuple(orientation.tolist()), (0.0,) * 3, (0.0,) * 3)
        if self.rolls:
            x, y, yaw = data.qpos[q : q + 3].tolist()
            vx, vy, turn = data.qvel[v : v + 3].tolist()
            cos, sin = math.cos(yaw), math.sin(yaw)
            along = (cos * vx + sin * vy, cos * vy - sin * vx, 0.0)
            heading = Pose2D(x, y, math.remainder(yaw, math.tau))
            return BaseState(heading, height, 0.0, 0.0, tuple(turned(yaw).tolist()), along, (0.0, 0.0, turn))
        x, y = (data.qpos[q : q + 2] - self._origin).tolist()
        height = float(data.qpos[q + 2])
        orientation = data.qpos[q + 3 : q + 7]
        roll, pitch, yaw = euler(orientation)
        rotation = data.xmat[self.base_id].reshape(3, 3)
        parts = orientation, rotation.T @ data.qvel[v : v + 3], data.qvel[v + 3 : v + 6]
        return BaseState(Pose2D(x, y, yaw), height, roll, pitch, *(tuple(part.tolist()) for part in parts))

    def sensor(self, name: str) -> tuple[float, ...]:
        """Return the reading of one of the model's sensors, in MuJoCo's unit and the sensor's frame."""
        return tuple(self._data.sensor(self.prefix + name).data.tolist())

    def has_sensor(self, name: str) -> bool:
        return mujoco.mj_name2id(self._model, _OBJECT.mjOBJ_SENSOR, self.prefix + name) >= 0

    def site(self, name: str) -> int | None:
        """Return the number of one of the robot's sites, or None without it."""
        number = mujoco.mj_name2id(self._model, _OBJECT.mjOBJ_SITE, self.prefix + name)
        return number if number >= 0 else None

    def cameras(self) -> tuple[str, ...]:
        model = self._model
        own = (i for i in range(model.ncam) if int(model.cam_bodyid[i]) in self.bodies)
        return tuple(model.camera(i).name.removeprefix(self.prefix) for i in own)


def _below(model: mujoco.MjModel, root: int) -> frozenset[int]:
    """Return the numbers of a body and of all that hang on it."""
    found = {root}
    for body in range(root + 1, model.nbody):
        if int(model.body_parentid[body]) in found:
            found.add(body)
    return frozenset(found)
