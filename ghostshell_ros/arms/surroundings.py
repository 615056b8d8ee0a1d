# SPDX-License-Identifier: Apache-2.0
"""Hold where everything is around a robot in a MuJoCo model: for collisions, grasps, spots and the ways of handles."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from ghostshell_ros.arms.scenery import HANDLE, SPACE, Scenery
from skill_kernel.skills.drivers import Pose2D

Vector = npt.NDArray[np.float64]
Quaternion = tuple[float, float, float, float]
Pose = tuple[Sequence[float], Sequence[float]]
"""Position in m and orientation (w, x, y, z) in the world."""

FINGER_M = 0.018
"""The finger tips stay so far above a surface."""
SPOT_M, SPREAD_M = 0.02, 0.06
"""Distance between two spots where something may be put down, and between two of those that are tried first."""
EASY_M = 0.8
"""Distance from an arm's shoulder within which no spot is better than another."""
APART_M = 0.012
"""Room between two things."""
ABOVE_M = 0.004
"""A thing is let go so far above its surface."""
YAWS, TILTS = 8, (math.radians(50.0), math.radians(25.0))
"""Ways to turn the hand for a round thing in half a turn; a tilted and a steep hand are so far from pointing down [rad]."""
UP = np.array([0.0, 0.0, 1.0])
TALL, TALL_M = 1.2, 0.05
"""A thing that is so much higher than wide, and at least so high, may be taken from the side."""


class SurroundingsError(Exception):
    """Say that the models cannot be used."""


@dataclass(frozen=True)
class HandPose:
    """Pose of a hand in the world: position in m, orientation as (w, x, y, z); z points out of the hand, and the fingers move
    along y."""

    position: tuple[float, float, float]
    orientation: Quaternion

    @classmethod
    def of(cls, position: Sequence[float] | Vector, y: Sequence[float] | Vector, z: Sequence[float] | Vector) -> "HandPose":
        """Return the pose of a hand that points along z, with its fingers along y, which is turned to be square to it."""
        out = np.asarray(z, dtype=float) / np.linalg.norm(z)
        along = np.asarray(y, dtype=float) - np.dot(y, out) * out
        along /= np.linalg.norm(along)
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, np.column_stack([np.cross(along, out), along, out]).ravel())
        return cls.at(position, quaternion)

    @classmethod
    def at(cls, position: Sequence[float] | Vector, orientation: Sequence[float] | Vector) -> "HandPose":
        """Return the pose of these numbers."""
        w, x, y, z = (float(value) for value in orientation)
        return cls(_three(position), (w, x, y, z))

    def moved(self, way: Sequence[float] | Vector) -> "HandPose":
        """Return the same pose elsewhere [m]."""
        return HandPose(_three(np.asarray(self.position) + np.asarray(way)), self.orientation)

    def axes(self) -> Vector:
        """Return the matrix that turns the hand's own axes into the world's."""
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, np.array(self.orientation))
        return matrix.reshape(3, 3)

    def back(self, distance: float) -> "HandPose":
        """Return the pose so far back along where the hand points [m]."""
        axis = np.empty(3)
        mujoco.mju_rotVecQuat(axis, np.array([0.0, 0.0, -distance]), np.array(self.orientation))
        return self.moved(axis)

    def turned(self, yaw: float, position: Sequence[float] | Vector) -> "HandPose":
        """Return the pose turned about the vertical, at a position."""
        quaternion, turn = np.empty(4), np.array([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])
        mujoco.mju_mulQuat(quaternion, turn, np.array(self.orientation))
        return HandPose.at(position, quaternion)


class Surroundings:
    """What is where around a robot. `model` is that of the robot and its scenery; `data` holds where everything is now.

    One thread at a time may use it.
    """

    def __init__(self, robot: str | Path, scenery: Scenery) -> None:
        """Load the robot's model and put it into the scenery. Raises SurroundingsError where a file is wrong."""
        self.scenery = scenery
        includes = "".join(f'<include file="{file}"/>' for file in (robot, scenery.file) if file)
        try:
            self.model = mujoco.MjModel.from_xml_string(f"<mujoco>{includes}</mujoco>")
        except ValueError as error:
            raise SurroundingsError(f"the robot's model and its surroundings do not fit together: {error}") from error
        model = self.model
        self.data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, self.data)
        if mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, "base_link") < 0:
            raise SurroundingsError(f"the robot's model {robot} has no body 'base_link'")
        base = model.body("base_link").id
        dofs = int(model.body_dofnum[base])
        if dofs not in (0, 3, 6):
            raise SurroundingsError(f"base_link of {robot} stands fast, has a free joint, or slides along x and y and turns")
        begin = int(model.jnt_qposadr[model.body_jntadr[base]]) if dofs else 0
        self.base = slice(begin, begin + {0: 0, 3: 3, 6: 7}[dofs])
        """Where the pose of a base that drives is in `data.qpos`; empty for one that stands fast."""
        self.held = dict[int, frozenset[int]]()
        """The bodies of the hand that holds it, by the body of a thing."""
        self._bodies = {name: int(model.body(name).id) for name in scenery.things}
        self.unseen = set(self._bodies.values())
        """The bodies of things that nobody has seen yet: where the file has them they are in nobody's way."""
        self._poses = {name: int(model.jnt_qposadr[model.body_jntadr[body]]) for name, body in self._bodies.items()}
        self._doors = {name: int(model.joint(name).qposadr[0]) for name in scenery.doors}

    # -- where everything is ------------------------------------------------------------------------------------------

    def place(self, things: Mapping[str, Pose]) -> None:
        """Put things where they are. Unknown ones are left out."""
        for name, (position, orientation) in things.items():
            if name in self._poses:
                adr = self._poses[name]
                self.data.qpos[adr : adr + 7] = [*position, *orientation]
                self.unseen.discard(self._bodies[name])
        mujoco.mj_kinematics(self.model, self.data)

    def set_base(self, pose: Pose2D) -> None:
        """Put a robot that drives where it stands in the world; one that stands fast stays."""
        qpos = self.data.qpos[self.base]
        if len(qpos) == 3:
            qpos[:] = pose.x, pose.y, pose.yaw
        elif len(qpos):
            height = self.model.qpos0[self.base.start + 2]
            qpos[:] = pose.x, pose.y, height, math.cos(pose.yaw / 2), 0.0, 0.0, math.sin(pose.yaw / 2)
        mujoco.mj_kinematics(self.model, self.data)

    def set_joints(self, positions: Mapping[str, float]) -> None:
        """Put the robot's joints where they are [m, rad]. Unknown ones are left out."""
        for name, position in positions.items():
            joint = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_JOINT, name)
            if joint >= 0:
                self.data.qpos[self.model.jnt_qposadr[joint]] = position
        mujoco.mj_kinematics(self.model, self.data)

    def set_doors(self, shares: Mapping[str, float]) -> None:
        """Put doors and drawers so far open, 0 to 1; what lies in a drawer goes with it."""
        spaces = self.scenery.spaces
        moving = [name for name in shares if name in spaces and spaces[name].moves]
        lying = [(space, thing, self._within(space, thing)) for space in moving for thing in self.inside(space)]
        for name, share in shares.items():
            self.data.qpos[self._doors[name]] = share * self.scenery.doors[name].most
        mujoco.mj_kinematics(self.model, self.data)
        for space, thing, offset in lying:
            adr, site = self._poses[thing], self.data.site(space + SPACE)
            self.data.qpos[adr : adr + 3] = site.xpos + site.xmat.reshape(3, 3) @ offset
        if lying:
            mujoco.mj_kinematics(self.model, self.data)

    def _within(self, space: str, thing: str) -> Vector:
        """Return how far a thing is from the middle of a space, in the space's own axes [m]."""
        site = self.data.site(space + SPACE)
        return site.xmat.reshape(3, 3).T @ (self.data.xpos[self._bodies[thing]] - site.xpos)

    def position(self, name: str) -> Vector:
        """Return where a thing, the robot's `base_link`, or a site of the model such as a handle is [m].

        Raises KeyError for a name that is not known.
        """
        body = name in self._bodies or name == "base_link"
        return (self.data.body(name) if body else self.data.site(name)).xpos.copy()

    def share_open(self, door: str) -> float:
        """Return how far a door is open, 0 to 1."""
        return float(self.data.qpos[self._doors[door]]) / self.scenery.doors[door].most

    def inside(self, space: str) -> list[str]:
        """Return the things in a space."""
        known = self.scenery.space(space)
        return [thing for thing in self._bodies if known.holds(self._within(space, thing))]

    def space_of(self, thing: str) -> str:
        """Return the space that a thing is in, "" for none."""
        return next((space for space in self.scenery.spaces if thing in self.inside(space)), "")

    # -- how to take and to put ---------------------------------------------------------------------------------------

    def half_size(self, thing: str) -> Vector:
        """Return half the size of a thing along its own axes [m]."""
        geom = int(self.model.body_geomadr[self._bodies[thing]])
        size, kind = self.model.geom_size[geom], self.model.geom_type[geom]
        if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
            return np.full(3, size[0])
        if kind == mujoco.mjtGeom.mjGEOM_BOX:
            return size.copy()
        return np.array([size[0], size[0], size[1]])

    def tips_at(self, thing: str) -> float:
        """Return how far a thing may lean and still fall back onto its base [rad]."""
        return math.atan2(float(self.half_size(thing)[:2].min()), float(self.half_size(thing)[2]))

    def rolls(self, thing: str) -> bool:
        """Return whether a thing is a ball, of which no side is up."""
        geom = int(self.model.body_geomadr[self._bodies[thing]])
        return bool(self.model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE)

    def grasps(self, thing: str, wide: float, at: Vector | None = None) -> list[HandPose]:
        """Return poses in which a hand whose fingers take so much [m] may take a thing: from above, tilted, and from the side
        where it is tall. `at` is where its middle is taken to be [m], None for where it is.

        A robot that drives serves shelves and basins: it takes things tilted first, for which both have room, or from the side,
        best where it looks.
        """
        body = self._bodies[thing]
        at, half = self.position(thing) if at is None else at, self.half_size(thing)
        turn = self.data.xmat[body].reshape(3, 3)
        up = int(np.abs(turn[2]).argmax())
        height = float(half[up])
        beside = [k for k in range(3) if k != up]
        box = self.model.geom_type[int(self.model.body_geomadr[body])] == mujoco.mjtGeom.mjGEOM_BOX
        if not box and math.isclose(half[beside[0]], half[beside[1]], rel_tol=1e-3):
            around = np.arange(2 * YAWS) * math.pi / YAWS if 2 * half[beside[0]] <= wide else ()
            across = [np.array([math.cos(a), math.sin(a), 0.0]) for a in around]
        else:
            narrow = sorted(beside, key=lambda k: float(half[k]))
            across = [sign * turn[:, k] for k in narrow if 2 * half[k] <= wide for sign in (1.0, -1.0)]
        away = at - self.position("base_link")
        across.sort(key=lambda y: -float(np.dot(np.cross(y, UP), away)))
        low = at + UP * max(0.0, FINGER_M - height)
        above = [HandPose.of(low, y, -UP) for y in across]
        sides = [y for y in across if np.dot(np.cross(y, UP), away) > 0.0]
        tilted, steep = (
            [HandPose.of(low, y, np.cross(y, UP) * math.sin(tilt) - UP * math.cos(tilt)) for y in sides] for tilt in TILTS
        )
        tall = height > TALL * float(half[beside].min()) and 2 * height > TALL_M
        level = [HandPose.of(at, y, np.cross(y, UP)) for y in sides] if tall else []
        if self.base.stop == self.base.start:
            return [*above, *tilted, *level]
        lateral = [pose for poses in zip_longest(tilted, level) for pose in poses if pose is not None]
        return [*lateral, *steep, *above]

    def spots(self, space: str, thing: str, shoulder: Vector) -> list[Vector]:
        """Return where the middle of a thing may stand in a space [m]: the freest within easy reach of an arm's shoulder first,
        and what is near to these last; over a bin, where it is dropped."""
        known, half, site = self.scenery.space(space), self.half_size(thing), self.data.site(space + SPACE)
        if known.bin:
            return [site.xpos + np.array([0.0, 0.0, known.half[2] + float(half.max())])]
        reach = self._radius(thing)
        turn = site.xmat.reshape(3, 3)
        top = site.xpos[2] - known.half[2] + 2 * half[2] + APART_M
        seen = [n for n, body in self._bodies.items() if n != thing and body not in self.unseen]
        beside = [n for n in seen if self.position(n)[2] - float(self.half_size(n).max()) < top]
        others = [(self.position(name), self._radius(name)) for name in beside]
        along, across = (np.arange(-(room := max(0.0, s - reach)), room + 1e-9, SPOT_M) for s in known.half[:2])
        found = []
        for x in along:
            for y in across:
                spot = site.xpos + turn @ np.array([x, y, half[2] + ABOVE_M - known.half[2]])
                room = min((float(np.linalg.norm(spot[:2] - at[:2])) - radius for at, radius in others), default=math.inf)
                far = max(0.0, float(np.linalg.norm(spot - shoulder)) - EASY_M)
                if room > reach + APART_M:
                    found.append((far - min(room, 0.12), math.hypot(x, y), spot))
        first, near = list[Vector](), list[Vector]()
        for _, _, spot in sorted(found, key=lambda f: f[:2]):
            spread = all(np.linalg.norm(spot - other) > SPREAD_M for other in first)
            (first if spread else near).append(spot)
        return first + near

    def _radius(self, thing: str) -> float:
        """Return the radius of the upright cylinder around a thing as it stands [m]."""
        geom = int(self.model.body_geomadr[self._bodies[thing]])
        half = self.half_size(thing)
        return float(half[0] if self.model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_BOX else np.linalg.norm(half[:2]))

    def door_body(self, door: str) -> str:
        """Return the body that a door turns."""
        return str(self.model.body(self.model.jnt_bodyid[self.model.joint(door).id]).name)

    def handle_way(self, door: str, to: float, follow: float = 1.0, side: float = 1.0, step: float = 0.02) -> list[HandPose]:
        """Return the poses of a hand that holds a door's handle, from where the door is now to a share of its way.

        `follow` is the share of the door's turn that the hand makes; for the rest the bar turns between its fingers. `side`, 1
        or -1, is which finger is on top.
        """
        known, adr = self.scenery.door(door), self._doors[door]
        now, end = float(self.data.qpos[adr]), to * known.most
        steps = max(1, math.ceil(abs(end - now) / (step if known.slides else 3 * step)))
        poses = []
        for k in range(steps + 1):
            self.data.qpos[adr] = now + (end - now) * k / steps
            mujoco.mj_kinematics(self.model, self.data)
            site = self.data.site(door + HANDLE)
            axes = site.xmat.reshape(3, 3)
            out, across = axes[:, 2], axes[:, 1]
            if not known.slides and follow < 1.0:
                out = _rotated(out, known.axis, (1.0 - follow) * (now - float(self.data.qpos[adr])))
                across = np.cross(out, axes[:, 0])
            poses.append(HandPose.of(site.xpos, side * across, -out))
        self.data.qpos[adr] = now
        mujoco.mj_kinematics(self.model, self.data)
        return poses


def _rotated(vector: Vector, axis: Vector, angle: float) -> Vector:
    quaternion, turned = np.empty(4), np.empty(3)
    mujoco.mju_axisAngle2Quat(quaternion, axis, angle)
    mujoco.mju_rotVecQuat(turned, vector, quaternion)
    return turned


def _three(position: Sequence[float] | Vector) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in position)
    return x, y, z
