# SPDX-License-Identifier: Apache-2.0
"""Read from an MJCF what stands around a robot: the names of things, doors, spaces and points, and where they are. Needs
neither MuJoCo nor a planner."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from lxml import etree

from skill_kernel.skills.drivers import Pose2D

Vector = npt.NDArray[np.float64]

OPENED, SHUT = 0.8, 0.05
"""A door counts as open from this share of its way on, and as shut up to that one."""
SLACK_M = 0.02
"""A thing is in a space while its middle is no further outside."""
HANDLE, SPACE, POINT = "_handle", "_space", "in_front_of_"
"""How the names of sites end, or begin, that mark handles, spaces and points."""


class SceneryError(ValueError):
    """Say what is wrong with the file, or which name it lacks; the message names what there is."""


@dataclass(frozen=True)
class Door:
    """Describe a door or drawer, which is shut at 0 and open at `most` [m or rad].

    `anchor` is where its joint is and `handle` where its handle is while it is shut, in the world [m].
    """

    name: str
    slides: bool
    most: float
    anchor: Vector
    axis: Vector
    handle: Vector

    def share_open(self, handle: Sequence[float] | Vector) -> float:
        """Return how far it is open, 0 to 1, when its handle is seen at a position in the world [m]."""
        seen = np.asarray(handle, dtype=float)
        if self.slides:
            way = float(np.dot(seen - self.handle, self.axis))
        else:
            shut, now = (self._across(point - self.anchor) for point in (self.handle, seen))
            way = math.atan2(float(np.dot(np.cross(shut, now), self.axis)), float(np.dot(shut, now)))
        return min(max(way / self.most, 0.0), 1.0)

    def _across(self, arm: Vector) -> Vector:
        return arm - float(np.dot(arm, self.axis)) * self.axis


@dataclass(frozen=True)
class Space:
    """Describe a place for things: a box of half sizes `half` [m] at `position`, turned by the matrix `turn`.

    A `bin` is thrown into. `door` must be open to reach into it, "" for none; with `moves` the space goes along with it, as
    that of a drawer does.
    """

    name: str
    position: Vector
    turn: Vector
    half: Vector
    bin: bool
    door: str
    moves: bool

    def holds(self, offset: Vector) -> bool:
        """Return whether something lies in it whose middle is so far from the space's, in the space's own axes [m]."""
        return bool((np.abs(offset) <= self.half + SLACK_M).all())


@dataclass(frozen=True)
class Scenery:
    """Hold what stands around a robot; every mapping in the order of the file. An empty one has nothing in it."""

    file: str = ""
    things: tuple[str, ...] = ()
    doors: Mapping[str, Door] = field(default_factory=dict)
    spaces: Mapping[str, Space] = field(default_factory=dict)
    points: Mapping[str, Pose2D] = field(default_factory=dict)
    """Where a robot stands to work at something, in the world."""

    @classmethod
    def read(cls, file: str | Path) -> "Scenery":
        """Read an MJCF. Raises SceneryError where it cannot be read, or lacks a size or range."""
        try:
            root = etree.parse(str(file)).getroot()
        except (OSError, etree.XMLSyntaxError) as error:
            raise SceneryError(f"the surroundings {file} cannot be read: {error}") from error
        try:
            return cls(str(file), *_read(root))
        except (KeyError, ValueError) as error:
            raise SceneryError(f"the surroundings {file} cannot be used: {error}") from error

    def door(self, name: str) -> Door:
        """Return a door or drawer. Raises SceneryError for one that is not known."""
        if name not in self.doors:
            raise SceneryError(f"'{name}' cannot be opened; what can be is {', '.join(self.doors) or 'nothing'}")
        return self.doors[name]

    def space(self, name: str) -> Space:
        """Return a space. Raises SceneryError for one that is not known."""
        if name not in self.spaces:
            raise SceneryError(f"there is no space '{name}'; the spaces are {', '.join(self.spaces) or 'none'}")
        return self.spaces[name]

    def shares_open(self, seen: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """Return how far the doors are open, 0 to 1, whose handles are among what is seen (position in the world by name)."""
        return {name: door.share_open(seen[name + HANDLE]) for name, door in self.doors.items() if name + HANDLE in seen}

    def doors_seen(self, seen: Mapping[str, Sequence[float]]) -> dict[str, str]:
        """Return for each door whose handle is among what is seen whether it is `open`, `shut` or `ajar`."""
        shares = self.shares_open(seen)
        return {name: "open" if share >= OPENED else "shut" if share <= SHUT else "ajar" for name, share in shares.items()}

    def things_seen(self, seen: Mapping[str, Sequence[float]]) -> dict[str, str]:
        """Return for each thing among what is seen the space it lies in, "" for none."""
        shares = self.shares_open(seen)
        return {name: self.space_of(seen[name], shares) for name in self.things if name in seen}

    def space_of(self, position: Sequence[float] | Vector, shares: Mapping[str, float]) -> str:
        """Return the space that holds a position in the world [m], with doors so far open; "" for none."""
        for space in self.spaces.values():
            at = space.position
            if space.moves:
                door = self.doors[space.door]
                at = at + door.axis * door.most * shares.get(space.door, 0.0)
            if space.holds(space.turn.T @ (np.asarray(position, dtype=float) - at)):
                return space.name
        return ""


# -- the file ---------------------------------------------------------------------------------------------------------------

Frame = tuple[Vector, Vector]
"""Position and turning matrix in the world."""


def _read(root: etree._Element) -> tuple[tuple[str, ...], dict[str, Door], dict[str, Space], dict[str, Pose2D]]:
    compiler = root.find("compiler")
    degrees = compiler is None or compiler.get("angle", "degree") != "radian"
    things: list[str] = []
    joints: list[tuple[etree._Element, etree._Element, Frame]] = []
    sites: dict[str, tuple[etree._Element, etree._Element, Frame]] = {}
    for body, frame in _bodies(root):
        joint = body.find("joint")
        if body.find("freejoint") is not None or (joint is not None and joint.get("type") == "free"):
            things.append(body.attrib["name"])
        elif joint is not None and joint.get("name"):
            joints.append((joint, body, frame))
        for site in body.findall("site"):
            if site.get("name"):
                sites[site.get("name")] = (site, body, _placed(site, frame))
    doors, moving = {}, {}
    for joint, body, (position, turn) in joints:
        name = joint.attrib["name"]
        if name + HANDLE in sites:
            slides = joint.get("type") == "slide"
            most = float(_given(joint, "range", 2)[1]) * (math.pi / 180.0 if degrees and not slides else 1.0)
            if most <= 0.0:
                raise ValueError(f"door '{name}' opens to {most:g}; its range ends above 0, so turn its axis round")
            axis = turn @ _numbers(joint.get("axis", "0 0 1"))
            anchor = position + turn @ _numbers(joint.get("pos", "0 0 0"))
            doors[name] = Door(name, slides, most, anchor, axis / np.linalg.norm(axis), sites[name + HANDLE][2][0])
            moving[name] = body
    spaces, points = {}, {}
    for name, (site, body, (position, turn)) in sites.items():
        if name.endswith(SPACE):
            space, bin_ = name.removesuffix(SPACE), site.get("type") == "cylinder"
            half = _given(site, "size", 2)[[0, 0, 1]] if bin_ else _given(site, "size", 3)
            door = space if space in doors else ""
            spaces[space] = Space(space, position, turn, half, bin_, door, bool(door) and moving[door] is body)
        elif name.startswith(POINT):
            points[name] = Pose2D(float(position[0]), float(position[1]), math.atan2(turn[1, 0], turn[0, 0]))
    return tuple(things), doors, spaces, points


def _bodies(root: etree._Element) -> Iterator[tuple[etree._Element, Frame]]:
    """Yield every body with its frame where all joints are at 0, in the order of the file."""
    waiting = [(body, (np.zeros(3), np.eye(3))) for body in root.findall("worldbody")]
    while waiting:
        body, frame = waiting.pop(0)
        yield body, frame
        waiting[:0] = [(child, _placed(child, frame)) for child in body.findall("body")]


def _placed(element: etree._Element, parent: Frame) -> Frame:
    position, turn = parent
    other = next((name for name in ("euler", "axisangle", "zaxis") if element.get(name)), "")
    if other:
        raise ValueError(f"'{element.get('name')}' is turned by {other}; write quat or xyaxes")
    own = np.eye(3)
    if element.get("quat"):
        w, x, y, z = (n := _numbers(element.get("quat"))) / np.linalg.norm(n)
        own = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
    elif element.get("xyaxes"):
        axes = _numbers(element.get("xyaxes"))
        x_axis = axes[:3] / np.linalg.norm(axes[:3])
        y_axis = axes[3:] - np.dot(axes[3:], x_axis) * x_axis
        y_axis /= np.linalg.norm(y_axis)
        own = np.column_stack([x_axis, y_axis, np.cross(x_axis, y_axis)])
    return position + turn @ _numbers(element.get("pos", "0 0 0")), turn @ own


def _given(element: etree._Element, attribute: str, count: int) -> Vector:
    """Return the first numbers of an attribute. Raises ValueError, which names the element, where there are fewer."""
    name = element.get("name")
    if element.get(attribute) is None:
        raise ValueError(f"'{name}' has no {attribute}")
    numbers = _numbers(element.get(attribute))
    if len(numbers) < count:
        raise ValueError(f"'{name}' has a {attribute} of {len(numbers)} numbers; give {count}")
    return numbers[:count]


def _numbers(text: str) -> Vector:
    return np.array([float(word) for word in text.split()])
