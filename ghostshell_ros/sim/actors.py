# SPDX-License-Identifier: Apache-2.0
"""Move what moves by itself in a simulated building: the person who walks into view, the door that slides shut."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from ghostshell_ros.sim.world import SimWorld

PERSON_PATH = ((7.9, -2.7), (7.0, -2.1), (7.0, -0.1))
"""From the lobby, where nobody in the hallway sees them, into the way of who walks there; m in the world of building.xml."""
PERSON_SPEED = 1.4
DOOR_PATH = ((6.50, 1.14), (5.25, 1.14))
DOOR_SPEED = 0.6
DOORWAY_M = 0.95
"""The door does not close on a robot this near to its middle."""


@dataclass
class _Mover:
    """A mocap body on a path; `at` and `goal` are lengths along it in m."""

    number: int
    path: Sequence[tuple[float, float]]
    speed: float
    turns: bool
    at: float = 0.0
    goal: float = 0.0

    @property
    def length(self) -> float:
        return sum(math.dist(a, b) for a, b in zip(self.path, self.path[1:], strict=False))

    def point(self) -> tuple[float, float, float]:
        """Return where it is, and the direction of the path there in rad."""
        left = self.at
        for a, b in zip(self.path, self.path[1:], strict=False):
            part = math.dist(a, b)
            if left <= part or b == self.path[-1]:
                share = min(1.0, left / part)
                return a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, math.atan2(b[1] - a[1], b[0] - a[0])
            left -= part
        raise AssertionError("a path has two points or more")


class Actors:
    """The movers that a world has; attached to it for good. What it does not have cannot be moved."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._movers: dict[str, _Mover] = {}
        for name, path, speed, turns in (
            ("person", PERSON_PATH, PERSON_SPEED, True),
            ("office_door", DOOR_PATH, DOOR_SPEED, False),
        ):
            body = mujoco.mj_name2id(world.model, mujoco.mjtObj.mjOBJ_BODY, name)
            if body >= 0 and world.model.body_mocapid[body] >= 0:
                self._movers[name] = _Mover(int(world.model.body_mocapid[body]), path, speed, turns)
        if self._movers:
            world.attach(self._update, self._reset)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of what can be moved: "person", "office_door"."""
        return tuple(self._movers)

    def move(self, name: str, forth: bool) -> None:
        """Send the person into the hallway or back, the door before its opening or aside. They take their time."""
        mover = self._movers[name]
        mover.goal = mover.length if forth else 0.0

    @property
    def doors(self) -> tuple[str, ...]:
        """Return the actors that slide along their path and stand nowhere else."""
        return tuple(name for name, mover in self._movers.items() if not mover.turns)

    def put(self, name: str, x: float, y: float, yaw: float) -> None:
        """Have the person stand somewhere at once; sent again, they set out from the beginning of their path."""
        mover = self._movers[name]
        mover.at = mover.goal = 0.0
        self._place(mover, x, y, yaw)

    def put_door(self, name: str, *, shut: bool) -> None:
        """Have the door shut or open at once."""
        mover = self._movers[name]
        mover.at = mover.goal = mover.length if shut else 0.0
        self._show(mover)

    def arrived(self, name: str) -> bool:
        """Return whether it is where it was sent."""
        return self._movers[name].at == self._movers[name].goal

    def _reset(self) -> None:
        for mover in self._movers.values():
            mover.at = mover.goal = 0.0
            self._show(mover)

    def _update(self, dt: float) -> None:
        for name, mover in self._movers.items():
            if mover.at != mover.goal and not (name == "office_door" and self._robot_in_doorway()):
                step = mover.speed * dt
                mover.at += max(-step, min(step, mover.goal - mover.at))
                self._show(mover)

    def _show(self, mover: _Mover) -> None:
        x, y, direction = mover.point()
        self._place(mover, x, y, direction if mover.goal >= mover.at else direction + math.pi)

    def _place(self, mover: _Mover, x: float, y: float, yaw: float) -> None:
        data = self._world.data
        data.mocap_pos[mover.number][:2] = x, y
        if mover.turns:
            data.mocap_quat[mover.number] = np.array([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)])

    def _robot_in_doorway(self) -> bool:
        pose = self._world.base().pose
        x, y = DOOR_PATH[-1]
        return math.hypot(pose.x - x, pose.y - y) < DOORWAY_M
