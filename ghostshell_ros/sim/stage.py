# SPDX-License-Identifier: Apache-2.0
"""Move the things of a simulated world: a person, a door, and all that a test puts elsewhere."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import mujoco
import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter

from ghostshell_ros.sim.gait import turned
from ghostshell_ros.sim.world import SimWorld, SimWorldError
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


ROBOT = "robot"
MOST_M = 100.0
_Place = Annotated[list[Annotated[float, Field(ge=-MOST_M, le=MOST_M)]], Field(min_length=2, max_length=3)]
_ARRANGEMENT = TypeAdapter(dict[str, Literal["open", "shut"] | _Place], config=ConfigDict(strict=True))


def read_arrangement(text: str) -> dict[str, Pose2D | bool]:
    """Return the wishes that `text` names, a JSON object: [x, y] or [x, y, yaw], for a door "open" or "shut" (True).

    Empty text wishes for nothing. Raises SimWorldError for any other text.
    """
    try:
        given = _ARRANGEMENT.validate_json(text.strip() or "{}")
    except ValueError as error:
        raise SimWorldError(
            'an arrangement is a JSON object of names such as {"robot": [1, 2, 0.5], "office_door": "shut"}: [x, y] or '
            f'[x, y, yaw] at most {MOST_M:g} m from the middle, "open" or "shut" for a door; not {shown(text)!r}'
        ) from error
    return {name: wish == "shut" if isinstance(wish, str) else Pose2D(*(*wish, 0.0)[:3]) for name, wish in given.items()}


class Stage:
    """Move the person and the door of a world, which may lack either, and put its things elsewhere at once.

    It is attached to the world for good; only one thread may use the world meanwhile.
    """

    def __init__(self, world: SimWorld, start: str = "") -> None:
        """`start` is the keyframe that the robot begins in."""
        self._world, self._start = world, start
        self._movers: dict[str, _Mover] = {}
        for name, path, speed, turns in (
            ("person", PERSON_PATH, PERSON_SPEED, True),
            ("office_door", DOOR_PATH, DOOR_SPEED, False),
        ):
            body = mujoco.mj_name2id(world.model, mujoco.mjtObj.mjOBJ_BODY, name)
            if body >= 0 and world.model.body_mocapid[body] >= 0:
                self._movers[name] = _Mover(int(world.model.body_mocapid[body]), path, speed, turns)
        self.movers = tuple(self._movers)
        """Names of what can be moved along its path: "person", "office_door"."""
        self.doors = tuple(name for name, mover in self._movers.items() if not mover.turns)
        """Those that stand nowhere else."""
        if self._movers:
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
        for name in self._movers:
            self._at_end(name, forth=False)

    def _update(self, dt: float) -> None:
        for name, mover in self._movers.items():
            if mover.at != mover.goal and not (name == "office_door" and self._robot_in_doorway()):
                step = mover.speed * dt
                mover.at += max(-step, min(step, mover.goal - mover.at))
                self._show(mover)

    def _show(self, mover: _Mover) -> None:
        x, y, direction = mover.point()
        data = self._world.data
        data.mocap_pos[mover.number][:2] = x, y
        if mover.turns:
            data.mocap_quat[mover.number] = turned(direction if mover.goal >= mover.at else direction + math.pi)

    def _robot_in_doorway(self) -> bool:
        pose = self._world.base().pose
        return math.dist((pose.x, pose.y), DOOR_PATH[-1]) < DOORWAY_M

    def arrange(self, wishes: Mapping[str, Pose2D | bool], *, from_start: bool) -> None:
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
                self._at_end(name, forth=wish is True)
            if not isinstance(wish, bool):
                self._put(name, wish)
        mujoco.mj_forward(self._world.model, self._world.data)

    def _check(self, name: str, wish: Pose2D | bool) -> None:
        door = name in self.doors
        if door and not isinstance(wish, bool):
            raise SimWorldError(f'the door \'{name}\' slides: say "open" or "shut"')
        if isinstance(wish, bool) and not door:
            raise SimWorldError(f"'{name}' is no door; the doors are: {', '.join(self.doors) or 'none'}")
        if name != ROBOT and not door and name not in self.movable():
            known = ", ".join((ROBOT, *self.movable(), *self.doors))
            raise SimWorldError(f"there is no '{name}' that can be moved; there is: {known}")

    def movable(self) -> tuple[str, ...]:
        """Return the names of what can be put anywhere, besides the robot."""
        model = self._world.model
        return tuple(
            name
            for name in self._world.objects()
            if name not in self.doors
            and (number := model.body(name).id) != self._world.base_id
            and (model.body_mocapid[number] >= 0 or model.body_dofnum[number] == 6)
        )

    def _put(self, name: str, spot: Pose2D) -> None:
        model, data = self._world.model, self._world.data
        body = self._world.base_id if name == ROBOT else model.body(name).id
        if (mocap := int(model.body_mocapid[body])) >= 0:
            data.mocap_pos[mocap][:2], data.mocap_quat[mocap] = (spot.x, spot.y), turned(spot.yaw)
            return
        joint = model.body_jntadr[body]
        at, speed = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        data.qpos[at : at + 2], data.qpos[at + 3 : at + 7] = (spot.x, spot.y), turned(spot.yaw)
        if name != ROBOT:
            data.qpos[at + 2] = model.body_pos[body][2]
        data.qvel[speed : speed + 6] = 0.0
