# SPDX-License-Identifier: Apache-2.0
"""Plan what an arm does with things, doors and drawers: as moves of the arm and of its fingers, all of them checked before the
first one begins. Needs requirements/arms.txt."""

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, product
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ghostshell_ros.arms.arm import Arm, ArmError, NoWay
from ghostshell_ros.arms.motion import Pace
from ghostshell_ros.arms.scenery import HANDLE, OPENED, SHUT
from ghostshell_ros.arms.surroundings import HandPose, Surroundings

Vector = npt.NDArray[np.float64]

NEAR_M, LIFT_M = 0.11, 0.15
"""The hand comes from so far, and goes away so far."""
OUT_M, OVER_M = 0.22, 0.03
"""In a shelf a hand comes in and goes out so far, with what it holds so far above the surface."""
FREE, CARRYING, SLOW, PULLING = Pace(1.0, 1.2), Pace(0.8, 0.8), Pace(0.4, 0.4), Pace(0.6, 0.25)
"""Paces on a free way with an empty hand and with a thing in it, beside things, and with a handle."""
PRESSED = 0.03
"""A door that is shut is pressed on by this share of its way."""
MOST_TRIED, MOST_STARTS, MOST_SPOTS = 80, 2, 16
"""Plans that are tried, positions of the arm for one pose of the hand among them, and spots for a thing."""
COMPARED = 12
"""Plans of which the one is tried first that begins nearest to where the arm is."""
YAWS = (0.0, 0.8, -0.8, 1.6, -1.6, math.pi)
LEVEL, LEVEL_YAWS = 0.6, (0.0, 0.4, -0.4, 0.8, -0.8, 1.2)
"""Ways to turn the hand about the vertical when it puts something down [rad]: from how it is, or where it points so much to the
side (1 for level), from pointing away from the robot."""
TILTED = 0.3
"""A hand that points so much to the side is turned like a level one; it may yet be too steep to come in like that."""
MOST_S = 8.0
"""Processor time that all plans for one deed may take."""
LEANT = 0.5
"""A thing is let go leant by this part of the angle at which it would tip over, where the hand cannot come upright."""
FOLLOWED = (1.0, 0.6, 0.3)
"""Shares of a door's turn that the hand makes with its handle."""
T = TypeVar("T")


@dataclass(frozen=True)
class Move:
    """Move the arm along joints, no faster than a pace; `pressing` against something, it need not come quite to the end.

    A path of one point is the end of a way that MoveIt finds.
    """

    path: Sequence[Vector]
    pace: Pace = FREE
    pressing: bool = False


@dataclass(frozen=True)
class Grip:
    """Open the fingers as they are at rest, or shut them.

    `around`: what must be between them then; `holds`: what the hand holds then, None for as before.
    """

    opens: bool
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

    def __init__(self, arm: Arm, around: Surroundings, wide: float) -> None:
        """Plan for an arm whose open fingers take things of that width [m]."""
        self.arm, self._around, self._wide = arm, around, wide
        self.held = ""
        self._taken = HandPose((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))
        self._below = np.zeros(3)
        """Pose of the hand when it took what it holds, and where that then was from it [m]: so it stood upright."""

    def take(self, thing: str) -> None:
        """Take note that a thing is in the hand where it is now, or with "" that none is."""
        self.arm.hold(thing)
        self.held = thing
        if thing:
            self._taken = self.arm.here()
            self._below = self._around.position(thing) - np.array(self._taken.position)

    def pick(self, thing: str, q: Vector) -> list[Phase]:
        """Return how to take a thing, with the joints at `q`. Raises ArmError."""
        grasps = self._around.grasps(thing, self._wide)
        if not grasps:
            raise ArmError(f"{thing} is too wide for the fingers, which take {self._wide:.3f} m")
        tries = (
            (grasp, start)
            for grasp in grasps
            for begin in ([self._out(grasp), grasp.back(NEAR_M)] if _level(grasp) else [grasp.back(NEAR_M)])
            for start in self._starts(begin, q)
        )
        return self._first(_nearest(tries, q), lambda one: self._taking(thing, *one, q), f"take {thing}")

    def put(self, space: str, q: Vector) -> list[Phase]:
        """Return how to put what the hand holds into a space. Raises ArmError."""
        return self.put_at(self._around.spots(space, self.held, self.arm.shoulder)[:MOST_SPOTS], f"into {space}", q)

    def put_at(self, spots: Sequence[Vector], where: str, q: Vector) -> list[Phase]:
        """Return how to put what the hand holds so that its middle is at the first of these spots that can be done; `where`
        names them. Raises ArmError."""
        poses = [self._standing(spot) for spot in spots]
        ranked = sorted((i + 2 * k, i, k) for i, at in enumerate(poses) for k in range(len(at)))
        goals = [poses[i][k] for _, i, k in ranked]
        tries = ((way, start) for pose in goals for begin, *way in self._ways_to(pose) for start in self._starts(begin, q))
        return self._first(_nearest(tries, q), lambda one: self._putting(*one, q), f"put {self.held} {where}")

    def _standing(self, spot: Vector) -> list[HandPose]:
        """Return poses of the hand with which what it holds is on a spot: upright or, in a steep hand, leant; a ball as a hand
        could take it there."""
        if not self._around.rolls(self.held):
            upright = [self._upright(spot, k) for k in range(len(YAWS))]
            if _level(self._taken):
                return upright
            return [pose for one in upright for pose in (one, self._leant(one, spot))]
        offset = self._taken.axes().T @ self._below
        return [pose.moved(-pose.axes() @ offset) for pose in self._around.grasps(self.held, self._wide, spot)]

    def _upright(self, spot: Vector, k: int) -> HandPose:
        """Return the k-th pose of the hand with which what it holds stands on a spot as it stood when it was taken."""
        yaw, out = YAWS[k], _pointing(self._taken)
        if math.hypot(*out[:2]) > TILTED:  # the hand comes from the robot's side
            away = spot - self._around.position("base_link")
            yaw = math.atan2(away[1], away[0]) - math.atan2(out[1], out[0]) + LEVEL_YAWS[k]
        return self._taken.turned(yaw, spot - _about_z(yaw) @ self._below)

    def _leant(self, pose: HandPose, spot: Vector) -> HandPose:
        """Return a steep pose on a spot pitched about the way of its fingers, so that the wrist is nearer to the robot."""
        away, half = spot - self._around.position("base_link"), self._around.half_size(self.held)
        angle = LEANT * self._around.tips_at(self.held)
        axes = pose.axes()
        back = axes[:, 0] if np.dot(axes[:, 0], away) < 0.0 else -axes[:, 0]
        down, offset = axes[:, 2], axes.T @ (spot - np.array(pose.position))
        leant = HandPose.of(pose.position, axes[:, 1], down * math.cos(angle) - back * math.sin(angle))
        higher = half[2] * (math.cos(angle) - 1.0) + float(np.linalg.norm(half[:2])) * math.sin(angle)
        return leant.moved(spot + (0.0, 0.0, higher) - leant.axes() @ offset - np.array(pose.position))

    def draw_in(self, rest: Vector, q: Vector) -> list[Phase]:
        """Return how to bring the arm to rest; what the hand holds stays upright where it can. Raises ArmError."""
        if not self.held or self._around.rolls(self.held):
            return [Move(self.arm.way(q, rest), CARRYING if self.held else FREE)]
        home = np.array(self.arm.hand(rest).position)
        goals = [self._upright(home + (0.0, 0.0, up), k) for up in (0.0, 0.1, -0.1) for k in range(len(YAWS))]
        tries = ((pose, start) for pose in goals for start in self._starts(pose, q))

        def plan(one: tuple[HandPose, Vector | ArmError]) -> list[Phase]:
            start = one[1]
            if isinstance(start, ArmError):
                raise start
            return [Move(self.arm.way(q, start), CARRYING)]

        try:
            return self._first(_nearest(tries, q), plan, f"draw the arm in with {self.held}")
        except ArmError:
            return [Move(self.arm.way(q, rest), CARRYING)]

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
            held = Grip(False, around=f"the handle of {door}")
            moves = Move(grasp, SLOW), held, Move(moved, PULLING, pressing=True), Grip(True), Move(away, SLOW)
            return [Grip(True), Move(begin), look, *moves]

        end = to if to > SHUT else to - PRESSED
        turns = product((1.0,) if known.slides else FOLLOWED, (1.0, -1.0))
        ways = [self._around.handle_way(door, end, follow, side) for follow, side in turns]
        tries = ((way, start) for way in ways for start in self._starts(way[0].back(NEAR_M), q, None))
        return self._first(_nearest(tries, q), plan, f"{'open' if to >= OPENED else 'close'} {door}")

    def free(self, q: Vector) -> list[Phase]:
        """Return how the hand leaves what it touches, nothing where it touches nothing. Raises ArmError."""
        touched = self.arm.touches(q)
        if not touched:
            return []
        pose = self.arm.hand(q)
        x, y, _ = self._around.position("base_link") - np.array(pose.position)
        aside = [NEAR_M / max(math.hypot(x, y), 1e-6) * np.array(way) for way in ((x, y, 0.0), (-y, x, 0.0), (y, -x, 0.0))]
        for goal in (pose.back(NEAR_M), pose.moved((0.0, 0.0, NEAR_M)), *map(pose.moved, aside)):
            try:
                path = self.arm.line(q, [goal], touched)
            except ArmError:
                continue
            if not self.arm.touched(path[-1]):
                away = Move(path, SLOW)
                return [away] if self.held else [Grip(True), away]
        raise ArmError(f"the arm touches {touched[0]} and finds no way off it; move it back by hand")

    def _first(self, tries: Iterable[T], plan: Callable[[T], list[Phase]], what: str) -> list[Phase]:
        """Return the first plan that comes off; those whose way is hard to find come last. Raises ArmError with the first
        reason why one does not."""
        why, until, hard = "", time.thread_time() + MOST_S, list[T]()
        try:
            for hasty, some in ((True, islice(tries, MOST_TRIED)), (False, hard)):
                self.arm.hasty = hasty
                for one in some:
                    if time.thread_time() > until:
                        break
                    try:
                        return plan(one)
                    except ArmError as error:
                        why = why or str(error)
                        if hasty and isinstance(error, NoWay):
                            hard.append(one)
        finally:
            self.arm.hasty = False
        raise ArmError(f"cannot {what}: {why or 'there is no free spot'}")

    # -- one try ------------------------------------------------------------------------------------------------------

    def _starts(self, pose: HandPose, q: Vector, most: int | None = MOST_STARTS) -> Iterator[Vector | ArmError]:
        """Yield a few ways for the arm to bring its hand to a pose, or why there is none."""
        try:
            yield from islice(self.arm.solutions(pose, q), most)
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
        grip = Grip(False, around=thing, holds=thing)
        return [Grip(True), Move(begin), look, Move(taken, SLOW), grip, Move(away, SLOW)]

    def _putting(self, way: Sequence[HandPose], start: Vector | ArmError, q: Vector) -> list[Phase]:
        if isinstance(start, ArmError):
            raise start
        arm, held = self.arm, self.held
        down = arm.line(start, way)
        begin = arm.way(q, start)
        over = OVER_M if _level(way[-1]) else OVER_M + float(self._around.half_size(held)[2])
        with self._holding("", down[-1]):
            away = self._leaving(down[-1], way[-1], [held, *arm.touches(down[-1])], over, [held])
        return [Grip(False, around=held), Move(begin, CARRYING), Move(down, SLOW), Grip(True, holds=""), Move(away, SLOW)]

    def _ways_to(self, pose: HandPose) -> list[list[HandPose]]:
        """Return straight ways to where something is put, from the front or from above; as a hand is held first."""
        above, over = pose.moved((0.0, 0.0, NEAR_M)), pose.moved((0.0, 0.0, OVER_M))
        ways = [[self._out(over), over, pose], [above, pose]]
        return ways if _level(pose) else ways[::-1]

    def _leaving(
        self, q: Vector, pose: HandPose, touch: Iterable[str], over_m: float = OVER_M, beside: Collection[str] = ()
    ) -> list[Vector]:
        """Return the way off a thing: up, or for a level hand back, and the other way where that is not free.

        Sideways it goes so far above where it is [m], and then it touches nothing any more but what was `beside` the fingers.
        """
        allowed, over = list(touch), pose.moved((0.0, 0.0, over_m))
        up, back, out = [pose.moved((0.0, 0.0, LIFT_M))], [over, over.back(LIFT_M)], [over, self._out(over)]
        ways = [out, back, up] if _level(pose) else [up, back, out]

        def along(way: Sequence[HandPose]) -> list[Vector]:
            off = self.arm.line(q, way[:1], allowed)
            path = off + self.arm.line(off[-1], way[1:], beside)[1:]
            if hit := self.arm.touched(path[-1]):
                raise ArmError(f"the arm does not come off {hit}")
            return path

        for way in ways[:-1]:
            try:
                return along(way)
            except ArmError:
                continue
        return along(ways[-1])

    def _out(self, pose: HandPose) -> HandPose:
        """Return the pose so far back, a steep one towards the robot, that the hand is out of a shelf."""
        away = np.array(pose.position) - self._around.position("base_link")
        x, y, _ = _pointing(pose) if _level(pose) else away
        return pose.moved((-OUT_M * x / math.hypot(x, y), -OUT_M * y / math.hypot(x, y), 0.0))

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


def _nearest(tries: Iterable[tuple[T, Vector | ArmError]], q: Vector) -> Iterator[tuple[T, Vector | ArmError]]:
    """Yield tries, of each `COMPARED` first those that begin nearest to the joints `q`."""

    def far(one: tuple[T, Vector | ArmError]) -> float:
        return math.inf if isinstance(one[1], ArmError) else float(np.abs(one[1] - q).max())

    waiting = iter(tries)
    while compared := sorted(islice(waiting, COMPARED), key=far):
        yield from compared


def _pointing(pose: HandPose) -> Vector:
    """Return the direction in which a hand points."""
    return np.array(pose.back(-1.0).position) - np.array(pose.position)


def _level(pose: HandPose) -> bool:
    """Return whether a hand points to the side rather than up or down."""
    return math.hypot(*_pointing(pose)[:2]) > LEVEL


def _about_z(yaw: float) -> Vector:
    return np.array([[math.cos(yaw), -math.sin(yaw), 0.0], [math.sin(yaw), math.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
