# SPDX-License-Identifier: Apache-2.0
"""Plan what an arm does with things, doors and drawers: as moves of the arm and of its fingers, all of them checked before the
first one begins. Needs requirements/arms.txt."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ghostshell_ros.arms.arm import Arm, ArmError
from ghostshell_ros.arms.scenery import HANDLE, OPENED
from ghostshell_ros.arms.surroundings import HandPose, Surroundings

Vector = npt.NDArray[np.float64]

OPEN_M = 0.042
"""Way of each finger from shut for an open hand."""
NEAR_M, LIFT_M = 0.11, 0.15
"""The hand comes from so far, and goes away so far."""
SLOW = 0.4
"""Share of the joints' speed beside things."""
MOST_TRIED, MOST_STARTS, MOST_SPOTS = 30, 2, 12
"""Plans that are tried, positions of the arm for one pose of the hand among them, and spots for a thing."""
YAWS = (0.0, 0.8, -0.8, 1.6, -1.6, math.pi)
"""Ways to turn the hand about the vertical when it puts something down [rad]."""
FOLLOWED = (1.0, 0.6, 0.3)
"""Shares of a door's turn that the hand makes with its handle."""
T = TypeVar("T")


@dataclass(frozen=True)
class Move:
    """Move the arm along joints, at a share of its speed."""

    path: Sequence[Vector]
    speed: float = 1.0


@dataclass(frozen=True)
class Grip:
    """Move each finger so far from shut [m]. `around`: what must be between them then; `holds`: what the hand holds then, None
    for as before."""

    width: float
    around: str = ""
    holds: str | None = None


@dataclass(frozen=True)
class Look:
    """Look whether a thing or handle is still where the phases after this one take it to be [m]; else plan anew."""

    name: str
    position: Vector


Phase: TypeAlias = Move | Grip | Look


class Manipulator:
    """Plan for one arm. `held` is the thing in its hand, "" for none; who performs the phases keeps it true."""

    def __init__(self, arm: Arm, around: Surroundings) -> None:
        self.arm, self._around = arm, around
        self.held = ""

    def take(self, thing: str) -> None:
        """Take note that a thing is in the hand where it is now, or with "" that none is."""
        self.arm.hold(thing)
        self.held = thing

    def pick(self, thing: str, q: Vector) -> list[Phase]:
        """Return how to take a thing, with the joints at `q`. Raises ArmError."""
        tries = ((grasp, start) for grasp in self._around.grasps(thing) for start in self._starts(grasp.back(NEAR_M), q))
        return _first(tries, lambda one: self._taking(thing, *one, q), f"take {thing}")

    def put(self, space: str, q: Vector) -> list[Phase]:
        """Return how to put what the hand holds into a space. Raises ArmError."""
        self.arm.be_at(q)
        here = self.arm.hand(q)
        offset = self._around.position(self.held) - np.array(here.position)
        goals = (
            here.turned(yaw, spot - _about_z(yaw) @ offset)
            for spot in self._around.spots(space, self.held)[:MOST_SPOTS]
            for yaw in YAWS
        )
        tries = ((pose, start) for pose in goals for start in self._starts(pose.moved((0.0, 0.0, NEAR_M)), q))
        return _first(tries, lambda one: self._putting(*one, q), f"put {self.held} into {space}")

    def swing(self, door: str, to: float, q: Vector) -> list[Phase]:
        """Return how to bring a door or drawer to a share of its way, 0 for shut and 1 for open. Raises ArmError."""
        arm, known = self.arm, self._around.scenery.door(door)
        lying = self._around.inside(door) if door in self._around.scenery.spaces else ()
        touch = [self._around.door_body(door), *lying]
        look = Look(door + HANDLE, self._around.position(door + HANDLE))

        def plan(one: tuple[list[HandPose], Vector | ArmError]) -> list[Phase]:
            way, start = one
            if isinstance(start, ArmError):
                raise start
            grasp = arm.line(start, [way[0]], touch)
            moved = arm.line(grasp[-1], way[1:], touch)
            away = arm.line(moved[-1], [way[-1].back(NEAR_M)], touch)
            begin = arm.way(q, start)
            held = Grip(0.0, around=f"the handle of {door}")
            moves = Move(grasp, SLOW), held, Move(moved, SLOW), Grip(OPEN_M), Move(away, SLOW)
            return [Grip(OPEN_M), Move(begin), look, *moves]

        ways = [self._around.handle_way(door, to, follow) for follow in ((1.0,) if known.slides else FOLLOWED)]
        tries = ((way, start) for way in ways for start in self._starts(way[0].back(NEAR_M), q))
        return _first(tries, plan, f"{'open' if to >= OPENED else 'close'} {door}")

    def free(self, q: Vector) -> list[Phase]:
        """Return how the hand leaves what it touches, nothing where it touches nothing. Raises ArmError."""
        touched = self.arm.touches(q)
        if not touched:
            return []
        pose = self.arm.hand(q)
        for goal in (pose.back(NEAR_M), pose.moved((0.0, 0.0, NEAR_M))):
            try:
                away = Move(self.arm.line(q, [goal], touched), SLOW)
            except ArmError:
                continue
            return [away] if self.held else [Grip(OPEN_M), away]
        raise ArmError(f"the arm touches {touched[0]} and finds no way off it; move it back by hand")

    # -- one try ------------------------------------------------------------------------------------------------------

    def _starts(self, pose: HandPose, q: Vector) -> Iterator[Vector | ArmError]:
        """Yield a few ways for the arm to bring its hand to a pose, or why there is none."""
        try:
            yield from islice(self.arm.solutions(pose, q), MOST_STARTS)
        except ArmError as error:
            yield error

    def _taking(self, thing: str, grasp: HandPose, start: Vector | ArmError, q: Vector) -> list[Phase]:
        if isinstance(start, ArmError):
            raise start
        arm, look = self.arm, Look(thing, self._around.position(thing))
        taken = arm.line(start, [grasp], [thing])
        begin = arm.way(q, start)
        with self._holding(thing, taken[-1]):
            away = self._leaving(taken[-1], grasp, arm.touches(taken[-1]))
        grip = Grip(0.0, around=thing, holds=thing)
        return [Grip(OPEN_M), Move(begin), look, Move(taken, SLOW), grip, Move(away, SLOW)]

    def _putting(self, pose: HandPose, start: Vector | ArmError, q: Vector) -> list[Phase]:
        if isinstance(start, ArmError):
            raise start
        arm, held = self.arm, self.held
        down = arm.line(start, [pose])
        begin = arm.way(q, start)
        with self._holding("", down[-1]):
            away = self._leaving(down[-1], pose, [held, *arm.touches(down[-1])])
        return [Grip(0.0, around=held), Move(begin), Move(down, SLOW), Grip(OPEN_M, holds=""), Move(away, SLOW)]

    def _leaving(self, q: Vector, pose: HandPose, touch: Iterable[str]) -> list[Vector]:
        """Return the way off a thing: up, or back where that is not free."""
        allowed = list(touch)
        try:
            return self.arm.line(q, [pose.moved((0.0, 0.0, LIFT_M))], allowed)
        except ArmError:
            up = pose.moved((0.0, 0.0, 0.01))
            return self.arm.line(q, [up, up.back(LIFT_M)], allowed)

    @contextmanager
    def _holding(self, thing: str, q: Vector) -> Iterator[None]:
        """Plan as if a thing were in the hand, or with "" none."""
        before = self.held
        self.arm.be_at(q)
        self.arm.hold(thing)
        try:
            yield
        finally:
            self.arm.be_at(q)
            self.arm.hold(before)


def _first(tries: Iterable[T], plan: Callable[[T], list[Phase]], what: str) -> list[Phase]:
    """Return the first plan that comes off. Raises ArmError with the first reason why one does not."""
    why = ""
    for one in islice(tries, MOST_TRIED):
        try:
            return plan(one)
        except ArmError as error:
            why = why or str(error)
    raise ArmError(f"cannot {what}: {why or 'there is no free spot'}")


def _about_z(yaw: float) -> Vector:
    return np.array([[math.cos(yaw), -math.sin(yaw), 0.0], [math.sin(yaw), math.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
