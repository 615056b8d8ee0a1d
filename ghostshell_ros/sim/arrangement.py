# SPDX-License-Identifier: Apache-2.0
"""Puts a simulated world back to its start, or what is in it where a test wants it, while it goes on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np

from ghostshell_ros.sim.actors import Actors
from ghostshell_ros.sim.world import SimWorld, SimWorldError

ROBOT = "robot"
DOORS = {"open": False, "shut": True}
MOST_M = 100.0


@dataclass(frozen=True)
class Spot:
    """Name the place where something is to stand, in m and rad in the map frame."""

    x: float
    y: float
    yaw: float = 0.0


def read_arrangement(text: str) -> dict[str, Spot | bool]:
    """Return what `text` asks for, a JSON object of names: [x, y] or [x, y, yaw], for a door "open" or "shut" (True). Empty
    text asks for nothing. Raises SimWorldError for any other text."""
    try:
        given = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        raise SimWorldError(f'an arrangement is a JSON object such as {{"robot": [1, 2, 0.5]}}: {error}') from error
    if not isinstance(given, dict):
        raise SimWorldError(f"an arrangement is a JSON object of names, not {text[:80]!r}")
    return {name: _wish(name, value) for name, value in given.items()}


def _wish(name: str, value: object) -> Spot | bool:
    if isinstance(value, str) and value in DOORS:
        return DOORS[value]
    numbers = [float(v) for v in value if isinstance(v, (int, float))] if isinstance(value, list) else []
    if not isinstance(value, list) or len(numbers) != len(value) or len(numbers) not in (2, 3):
        raise SimWorldError(f'\'{name}\' is put at [x, y] or [x, y, yaw], or is "open" or "shut", not {value!r}')
    if not all(math.isfinite(n) and abs(n) <= MOST_M for n in numbers):
        raise SimWorldError(f"'{name}' cannot be put at {value}: at most {MOST_M:g} m from the middle")
    return Spot(*numbers)


class Stage:
    """Moves at once whatever a world has; nobody else may use the world meanwhile."""

    def __init__(self, world: SimWorld, actors: Actors, start: str = "") -> None:
        """`start` is the keyframe that the robot begins in."""
        self._world, self._actors, self._start = world, actors, start

    def arrange(self, wishes: Mapping[str, Spot | bool], *, anew: bool) -> None:
        """Put everything back to its start if `anew`, then what is named where it is wished. Simulated time goes on.

        Raises SimWorldError for what the world does not have or cannot move, before anything is moved.
        """
        for name, wish in wishes.items():
            self._check(name, wish)
        if anew:
            time = self._world.data.time
            self._world.reset(self._start, settle_s=0.0)
            self._world.data.time = time
        for name, wish in wishes.items():
            if isinstance(wish, bool):
                self._actors.put_door(name, shut=wish)
            elif name in self._actors.names:
                self._actors.put(name, wish.x, wish.y, wish.yaw)
            else:
                self._put(name, wish)
        mujoco.mj_forward(self._world.model, self._world.data)

    def _check(self, name: str, wish: Spot | bool) -> None:
        door = name in self._actors.doors
        if door and not isinstance(wish, bool):
            raise SimWorldError(f'the door \'{name}\' slides: say "open" or "shut"')
        if isinstance(wish, bool) and not door:
            raise SimWorldError(f"'{name}' is no door; the doors are: {', '.join(self._actors.doors) or 'none'}")
        if name != ROBOT and not door and name not in self.movable():
            known = ", ".join((ROBOT, *self.movable(), *self._actors.doors))
            raise SimWorldError(f"there is no '{name}' that can be moved; there is: {known}")

    def movable(self) -> tuple[str, ...]:
        """Names of what can be put anywhere, besides the robot."""
        model, doors = self._world.model, self._actors.doors
        return tuple(
            name
            for name in self._world.objects()
            if name not in doors
            and (number := model.body(name).id) != self._world.base_id
            and (model.body_mocapid[number] >= 0 or model.body_dofnum[number] == 6)
        )

    def _put(self, name: str, spot: Spot) -> None:
        model, data = self._world.model, self._world.data
        body = self._world.base_id if name == ROBOT else model.body(name).id
        turned = np.array([math.cos(spot.yaw / 2), 0.0, 0.0, math.sin(spot.yaw / 2)])
        if (mocap := int(model.body_mocapid[body])) >= 0:
            data.mocap_pos[mocap][:2], data.mocap_quat[mocap] = (spot.x, spot.y), turned
            return
        joint = model.body_jntadr[body]
        at, speed = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        data.qpos[at : at + 2], data.qpos[at + 3 : at + 7] = (spot.x, spot.y), turned
        if name != ROBOT:
            data.qpos[at + 2] = model.body_pos[body][2]
        data.qvel[speed : speed + 6] = 0.0
