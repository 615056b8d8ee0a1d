# SPDX-License-Identifier: Apache-2.0
"""Move the things of a simulated world: a person, doors, and all that a test puts elsewhere or lets slip."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Annotated, Literal

import mujoco
import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter

from ghostshell_ros.sim.gait import turned
from ghostshell_ros.sim.world import HANDLE, SimWorld, SimWorldError
from skill_kernel.config.sections import shown
from skill_kernel.skills.drivers import Pose2D

PERSON_PATH = ((7.9, -2.7), (7.0, -2.1), (7.0, -0.1))
"""Way [m in the world of building.xml] from the lobby, out of sight, to the middle of the hallway."""
PERSON_SPEED = 1.4
DOOR_PATH = ((6.50, 1.14), (5.25, 1.14))
DOOR_SPEED = 0.6
DOORWAY_M = 0.95
"""Distance from its middle within which the door does not close on a robot."""


@dataclass
class _Mover:
    """Move a mocap body along a path; `at` and `goal` are lengths along it in m."""

    number: int
    path: Sequence[tuple[float, float]]
    speed: float
    turns: bool
    at: float = 0.0
    goal: float = 0.0

    def __post_init__(self) -> None:
        self._corners = np.cumsum([0.0, *(math.dist(a, b) for a, b in pairwise(self.path))])

    @property
    def length(self) -> float:
        """Return the length of the path in m."""
        return float(self._corners[-1])

    def point(self) -> tuple[float, float, float]:
        """Return where it is in m, and the direction of the path there in rad."""
        x, y = (float(np.interp(self.at, self._corners, along)) for along in zip(*self.path, strict=True))
        piece = min(int(np.searchsorted(self._corners[1:], self.at)), len(self.path) - 2)
        (ax, ay), (bx, by) = self.path[piece : piece + 2]
        return x, y, math.atan2(by - ay, bx - ax)


SLIP_S, SLIPPERY = 1.0, 0.001
"""Time for which a thing slips, and its friction meanwhile."""
IN_M = 0.02
"""A thing is in a space up to so far beside it."""
ROBOT = "robot"
"""Name of a world's only robot in an arrangement; several go by their own."""
MOST_M = 100.0
_Place = Annotated[list[Annotated[float, Field(ge=-MOST_M, le=MOST_M)]], Field(min_length=2, max_length=4)]
_ARRANGEMENT = TypeAdapter(dict[str, Literal["open", "shut", "slip"] | _Place], config=ConfigDict(strict=True))


@dataclass(frozen=True)
class Spot:
    """Say where a thing or a robot shall be; `height` is that of the thing's middle in m, None for the one it starts at."""

    pose: Pose2D
    height: float | None = None


class Wish(Enum):
    """Say what shall happen with a door, or with a thing that a hand holds."""

    OPEN = "open"
    SHUT = "shut"
    SLIP = "slip"


def read_arrangement(text: str) -> dict[str, Spot | Wish]:
    """Return the wishes that `text` names, a JSON object: [x, y], [x, y, yaw] or, for a thing, [x, y, yaw, z]; for a door
    "open" or "shut", for a thing "slip".

    Empty text wishes for nothing. Raises SimWorldError for any other text.
    """
    try:
        given = _ARRANGEMENT.validate_json(text.strip() or "{}")
    except ValueError as error:
        raise SimWorldError(
            'an arrangement is a JSON object of names such as {"robot": [1, 2, 0.5], "office_door": "shut"}: [x, y], '
            f'[x, y, yaw] or [x, y, yaw, z] at most {MOST_M:g} m from the middle, "open" or "shut" for a door, "slip" for '
            f"what a hand holds; not {shown(text)!r}"
        ) from error
    return {name: Wish(wish) if isinstance(wish, str) else _spot(*wish) for name, wish in given.items()}


def _spot(x: float, y: float, yaw: float = 0.0, height: float | None = None) -> Spot:
    return Spot(Pose2D(x, y, yaw), height)


class Stage:
    """Move the person and the doors of a world, which may lack either, and put its things elsewhere at once.

    A door is a body that slides along a path, or a joint with a handle, which hinges or slides. It is attached to the world
    for good; only one thread may use the world meanwhile.
    """

    def __init__(self, world: SimWorld, start: str = "") -> None:
        """`start` is the keyframe that the robot begins in."""
        self._world, self._start = world, start
        model = world.model
        self._movers: dict[str, _Mover] = {}
        for name, path, speed, turns in (
            ("person", PERSON_PATH, PERSON_SPEED, True),
            ("office_door", DOOR_PATH, DOOR_SPEED, False),
        ):
            body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
            if body >= 0 and model.body_mocapid[body] >= 0:
                self._movers[name] = _Mover(int(model.body_mocapid[body]), path, speed, turns)
        self.movers = tuple(self._movers)
        """Names of what can be moved along its path: "person", "office_door"."""
        handles = {name.removesuffix(HANDLE) for name in world.objects() if name.endswith(HANDLE)}
        self._hinged = tuple(model.joint(i).name for i in range(model.njnt) if model.joint(i).name in handles)
        self.doors = (*(name for name, mover in self._movers.items() if not mover.turns), *self._hinged)
        """Those that stand nowhere else."""
        self._robots = {name or ROBOT: robot for name, robot in world.robots.items()}
        self._slipping: dict[str, float] = {}
        """Seconds for which a thing is still slippery."""
        self._friction, self._priority = model.geom_friction.copy(), model.geom_priority.copy()
        if self._movers or self._hinged:
            world.attach(self._update, self._reset)

    def move(self, name: str, forth: bool) -> None:
        """Send the person into the hallway or back, the door before its opening or aside. They take their time."""
        mover = self._movers[name]
        mover.goal = mover.length if forth else 0.0

    def _at_end(self, name: str, *, forth: bool) -> None:
        """Have the person or the door at either end of their path at once."""
        mover = self._movers[name]
        mover.at = mover.goal = mover.length if forth else 0.0
        self._show(mover)

    def _reset(self) -> None:
        for name in tuple(self._slipping):
            self._hold_again(name)
        for name in self._movers:
            self._at_end(name, forth=False)

    def _update(self, dt: float) -> None:
        for name, mover in self._movers.items():
            if mover.at != mover.goal and not (name == "office_door" and self._robot_in_doorway()):
                step = mover.speed * dt
                mover.at += max(-step, min(step, mover.goal - mover.at))
                self._show(mover)
        for name, left_s in tuple(self._slipping.items()):
            self._slipping[name] = left_s - dt
            if left_s <= dt:
                self._hold_again(name)

    def _slip(self, name: str) -> None:
        """Make a thing so slippery for a while that no hand holds it."""
        model = self._world.model
        own = model.geom_bodyid == model.body(name).id
        model.geom_priority[own], model.geom_friction[own] = 2, SLIPPERY
        self._slipping[name] = SLIP_S
        self._world.wake()

    def _hold_again(self, name: str) -> None:
        model = self._world.model
        own = model.geom_bodyid == model.body(name).id
        model.geom_priority[own], model.geom_friction[own] = self._priority[own], self._friction[own]
        del self._slipping[name]

    def _show(self, mover: _Mover) -> None:
        x, y, direction = mover.point()
        data = self._world.data
        data.mocap_pos[mover.number][:2] = x, y
        if mover.turns:
            data.mocap_quat[mover.number] = turned(direction if mover.goal >= mover.at else direction + math.pi)

    def _robot_in_doorway(self) -> bool:
        poses = (robot.base().pose for robot in self._robots.values())
        return any(math.dist((pose.x, pose.y), DOOR_PATH[-1]) < DOORWAY_M for pose in poses)

    def arrange(self, wishes: Mapping[str, Spot | Wish], *, from_start: bool) -> None:
        """Put the named things where they are wished; with `from_start`, put everything else back to its start first.

        Simulated time goes on. Raises SimWorldError for what the world does not have or cannot move, before anything is moved.
        """
        for name, wish in wishes.items():
            self._check(name, wish)
        if from_start:
            time = self._world.data.time
            self._world.reset(self._start, settle_s=0.0)
            self._world.data.time = time
        for name, wish in wishes.items():
            if name in self._movers:
                # A person that is sent again sets out from the beginning of their path.
                self._at_end(name, forth=wish is Wish.SHUT)
            if isinstance(wish, Spot):
                self._put(name, wish)
            elif name in self._hinged:
                self._swing(name, wish is Wish.OPEN)
            elif wish is Wish.SLIP:
                self._slip(name)
        mujoco.mj_forward(self._world.model, self._world.data)

    def _check(self, name: str, wish: Spot | Wish) -> None:
        door = name in self.doors
        if door and wish not in (Wish.OPEN, Wish.SHUT):
            raise SimWorldError(f'the door \'{name}\' does not stand anywhere: say "open" or "shut"')
        if wish in (Wish.OPEN, Wish.SHUT) and not door:
            raise SimWorldError(f"'{name}' is no door; the doors are: {', '.join(self.doors) or 'none'}")
        if not door and name not in self._robots and name not in self.movable():
            known = ", ".join((*self._robots, *self.movable(), *self.doors))
            raise SimWorldError(f"there is no '{name}' that can be moved; there is: {known}")
        if wish is Wish.SLIP and not self._loose(name):
            raise SimWorldError(f"no hand holds '{name}'; what may slip is a thing that lies loose")
        if isinstance(wish, Spot) and name in self._robots and self._robots[name].fixed:
            raise SimWorldError(f"'{name}' stands fast; it cannot be put elsewhere")
        if isinstance(wish, Spot) and wish.height is not None and not self._loose(name):
            raise SimWorldError(f"'{name}' stands on the floor: say x, y and yaw, and no height")

    def movable(self) -> tuple[str, ...]:
        """Return the names of what can be put anywhere, besides the robots."""
        model, bases = self._world.model, {robot.base_id for robot in self._robots.values()}
        bodies = {name: mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name) for name in self._world.objects()}
        return tuple(
            name
            for name, number in bodies.items()
            if name not in self.doors
            and number >= 0
            and number not in bases
            and (model.body_mocapid[number] >= 0 or model.body_dofnum[number] == 6)
        )

    def _loose(self, name: str) -> bool:
        return name in self.movable() and int(self._world.model.body(name).dofnum[0]) == 6

    def _put(self, name: str, spot: Spot) -> None:
        if name in self._robots:
            self._robots[name].put(spot.pose)
            return
        model, data, pose = self._world.model, self._world.data, spot.pose
        body = model.body(name).id
        if (mocap := int(model.body_mocapid[body])) >= 0:
            data.mocap_pos[mocap][:2], data.mocap_quat[mocap] = (pose.x, pose.y), turned(pose.yaw)
            return
        joint = model.body_jntadr[body]
        at, speed = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        height = model.body_pos[body][2] if spot.height is None else spot.height
        data.qpos[at : at + 3], data.qpos[at + 3 : at + 7] = (pose.x, pose.y, height), turned(pose.yaw)
        data.qvel[speed : speed + 6] = 0.0

    def _swing(self, name: str, opened: bool) -> None:
        """Have a door open or shut at once; what lies in a drawer goes with it."""
        model, data = self._world.model, self._world.data
        joint = model.joint(name)
        way = np.array(data.joint(name).xaxis) * (joint.range[int(opened)] - data.joint(name).qpos[0])
        drawer = joint.type[0] == mujoco.mjtJoint.mjJNT_SLIDE
        for thing in self._lying_in(f"{name}_space") if drawer else ():
            at = int(model.jnt_qposadr[model.body(thing).jntadr[0]])
            data.qpos[at : at + 3] += way
        data.joint(name).qpos[0], data.joint(name).qvel[0] = joint.range[int(opened)], 0.0

    def _lying_in(self, space: str) -> list[str]:
        """Return the loose things whose middle is in the box of a site."""
        data, site = self._world.data, self._world.data.site(space)
        size, turn = self._world.model.site(space).size, site.xmat.reshape(3, 3)
        loose = [name for name in self.movable() if self._loose(name)]
        return [name for name in loose if (np.abs(turn.T @ (data.body(name).xpos - site.xpos)) <= size + IN_M).all()]
