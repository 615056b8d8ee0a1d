# SPDX-License-Identifier: Apache-2.0
"""Give the skills at the table their body: an arm that knows where blocks and bowls are and puts one on another."""

import math
from functools import partial

import numpy as np

from ghostshell_ros.arms.body import ArmBody
from ghostshell_ros.arms.surroundings import ABOVE_M, Vector
from ghostshell_ros.robots.tabletop.area import Area, Point
from skill_kernel import SkillReturn
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import Action, Senses, StopEvent

TABLE = "table"
"""The space of the scenery in which everything stands."""
BELOW_M = 0.04
"""What is so near to a place, or nearer than its own half width, is below what is put there."""
MISSED_M = 0.03
"""Distance at which a block has not come to lie where it was put."""


class TabletopBody(ArmBody):
    """Put blocks where they are told to be. Places are those of the robot: x to the right and y away from it [m]."""

    def __init__(
        self,
        *,
        robot: RobotConfig,
        move_joints: Action,
        senses: Senses,
        speak: Action | None = None,
        ask_human: Action | None = None,
        moveit: bool = False,
    ) -> None:
        """Take the body's parts. Raises RobotConfigError when its arm cannot be used."""
        super().__init__(robot=robot, move_joints=move_joints, senses=senses, speak=speak, ask_human=ask_human, moveit=moveit)
        space = self.scenery.space(TABLE)
        (x, y, z), (depth, width, half) = space.position.tolist(), space.half.tolist()
        self._height = z - half
        self.area = Area(-y - width, -y + width, x - depth, x + depth)

    def names(self) -> list[str]:
        """Return the names of all things that are seen, in the order of the scenery."""
        seen = self._senses.things()
        return [_name(thing) for thing in self.scenery.things if thing in seen]

    def position(self, name: str) -> SkillReturn:
        """Return where a thing is [m]."""
        if name not in self.names():
            return self._missing(name)
        x, y, _ = self._senses.things()[_thing(name)][0]
        return SkillReturn.success(value=[round(-y, 4), round(x, 4)])

    def put_on(self, first: str, second: str | list[float], stop: StopEvent) -> SkillReturn:
        """Take a thing and put it on another one, or at a place [m]."""
        with self._busy:
            names = self.names()
            if (missing := next((n for n in (first, second) if isinstance(n, str) and n not in names), None)) is not None:
                held = self.held()
                if missing != _name(held) or missing == second:
                    return self._missing(missing)
            if first == second:
                return SkillReturn.failure(f"the {first} cannot be put on itself; name another thing or a position")
            if not isinstance(second, str) and (fault := self.area.fault(second)):
                return SkillReturn.failure(fault)
            taken = self._taken(first, stop)
            if not taken.ok:
                return taken
            return self._put_at(first, second, stop)

    def _taken(self, first: str, stop: StopEvent) -> SkillReturn:
        """Have a thing in the hand."""
        held, thing = self.held(), _thing(first)
        if held == thing:
            return SkillReturn.success()
        if held:
            return SkillReturn.failure(f"the hand still holds the {_name(held)}; put the {_name(held)} somewhere first")
        if above := self._above(thing):
            return SkillReturn.failure(f"the {_name(above)} is on the {first}; put the {_name(above)} away first")
        return self._with_empty_hand(lambda side, q: side.manipulator.pick(thing, q), stop, f"holds the {first}", thing)

    def _put_at(self, first: str, second: str | list[float], stop: StopEvent) -> SkillReturn:
        full = self._full()
        if full is None:
            return SkillReturn.failure(f"the {first} slipped out of the hand; try again")
        thing, where = full.manipulator.held, f"on the {second}" if isinstance(second, str) else "there"
        x, y = self._place(second)

        def spot() -> Vector:
            return np.array([x, y, self._top((x, y), thing) + float(self.around.half_size(thing)[2]) + ABOVE_M])

        def missed(*, seen: bool = False) -> str:
            if not (seen or thing in self._senses.things()):
                return f"the {first} was let go, but nobody sees it; look where it lies"
            at = self.around.position(thing)
            away = math.dist(at[:2], (x, y))
            return "" if away < MISSED_M else f"the {first} was let go, but lies {away:.2f} m away from where it was to be"

        done = self._perform(
            [full], lambda side, q: side.manipulator.put_at([spot()], where, q), stop, f"put the {first} there", missed
        )
        return self._out_of_the_way(done, stop, partial(missed, seen=True))

    def _place(self, second: str | list[float]) -> Point:
        """Return where something is to be put, in the world [m]."""
        if isinstance(second, str):
            x, y, _ = self._senses.things()[_thing(second)][0]
            return float(x), float(y)
        right, away = second
        return away, -right

    def _top(self, at: Point, without: str) -> float:
        """Return the height of what is highest at a place [m]."""
        tops = [self._height]
        for thing in self.scenery.things:
            position, half = self.around.position(thing), self.around.half_size(thing)
            if thing != without and math.dist(position[:2], at) < max(BELOW_M, float(half[0])):
                tops.append(float(position[2] + half[2]))
        return max(tops)

    def _above(self, thing: str) -> str:
        """Return what stands on a thing, "" for nothing."""
        seen = self._senses.things()
        (x, y, z), _ = seen[thing]
        for other in self.scenery.things:
            if other != thing and other in seen:
                (a, b, c), _ = seen[other]
                if c > z + BELOW_M / 2 and math.dist((a, b), (x, y)) < BELOW_M:
                    return other
        return ""

    def _missing(self, name: str) -> SkillReturn:
        return SkillReturn.failure(f"there is no '{name}' on the table; use a name that get_obj_names() returns")


def _name(thing: str) -> str:
    """Return how people call a thing of the scenery."""
    return thing.replace("_", " ")


def _thing(name: str) -> str:
    return name.replace(" ", "_")
