# SPDX-License-Identifier: Apache-2.0
"""Render what both robots see of the kitchen, and tell which things and doors are in the picture."""

from __future__ import annotations

import io
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TypeAlias

import mujoco
import numpy as np
from PIL import Image as Picture

from bench.clea.kitchen import ATLAS, HEBE, ROBOTS, START, SURFACES, Kitchen, scenery
from bench.evaluation.propositions import Moment
from ghostshell_ros.sim.world import SimWorld
from skill_kernel.robot import RobotConfig

WIDTH, HEIGHT = 320, 240
SEEN_PX, DOOR_PX = 12, 150
"""A thing, or a door, of which so many pixels are in the picture is seen."""
KEPT = 4000
"""Views that are kept."""
CAMERAS = {HEBE: f"{HEBE}/head_camera", ATLAS: f"{ATLAS}/table_camera"}
SPACING_M, EDGE_M = 0.07, 0.03
"""Distance of two slots of a space, and of the outer ones from its edge."""
IN_HAND = {HEBE: (-0.25, -0.4, 0.9), ATLAS: (0.0, 0.0, 0.02)}
"""Place of a thing in the hand [m]: hebe's from her middle, beside what her head's camera sees, atlas's from his hand."""
Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True)
class View:
    """A picture as PNG, and the things and doors that are truly in it."""

    png: bytes
    things: frozenset[str]
    doors: frozenset[str]


class Cameras:
    """See the kitchen as it is at any moment. What has been seen once is not rendered again. One thread may use it."""

    def __init__(self) -> None:
        robots = {name: RobotConfig.load(name) for name in ROBOTS}
        world = SimWorld({name: str(robot.model) for name, robot in robots.items()}, world="kitchen")
        self._model, self._data = model, _ = world.model, world.data
        for name, robot in robots.items():
            for joint, config in robot.joints.items():
                self._data.qpos[self._adr(f"{name}/{joint}")] = config.rest
        self._renderer = mujoco.Renderer(model, height=HEIGHT, width=WIDTH)
        self._masks = mujoco.Renderer(model, height=HEIGHT, width=WIDTH)
        self._masks.enable_segmentation_rendering()
        self._owners = [self._named(int(body)) for body in model.geom_bodyid]
        self._views: OrderedDict[Key, View] = OrderedDict()

    def view(self, kitchen: Kitchen, robot: str) -> View:
        """Return what a robot's camera sees now."""
        key = _key(kitchen, robot)
        if (known := self._views.get(key)) is None:
            known = self._views[key] = self._seen(kitchen, robot)
            if len(self._views) > KEPT:
                self._views.popitem(last=False)
        return known

    def moment(self, kitchen: Kitchen, at: float) -> Moment:
        """Return all that is true at a time [s], and what is seen."""
        seen = {("seen", thing, robot) for robot in ROBOTS for thing in self.view(kitchen, robot).things}
        return Moment(at, frozenset(seen | set(kitchen.facts())))

    def places(self, kitchen: Kitchen) -> dict[str, tuple[float, float, float]]:
        """Return where the middle of each thing is [m]."""
        self._arrange(kitchen)
        x, y, z = zip(*(self._data.body(thing).xpos.tolist() for thing in kitchen.things), strict=True)
        return dict(zip(kitchen.things, zip(x, y, z, strict=True), strict=True))

    def _seen(self, kitchen: Kitchen, robot: str) -> View:
        self._arrange(kitchen)
        self._renderer.update_scene(self._data, CAMERAS[robot])
        written = io.BytesIO()
        Picture.fromarray(self._renderer.render()).save(written, "PNG", compress_level=1)
        self._masks.update_scene(self._data, CAMERAS[robot])
        shown = self._masks.render()
        geoms = shown[..., 0][(shown[..., 1] == int(mujoco.mjtObj.mjOBJ_GEOM)) & (shown[..., 0] >= 0)]
        pixels = Counter[str]()
        for geom, count in enumerate(np.bincount(geoms).tolist()):
            pixels[self._owners[geom]] += count
        things = frozenset(thing for thing in kitchen.things if pixels[thing] >= SEEN_PX)
        return View(written.getvalue(), things, frozenset(d for d in kitchen.doors if pixels[d] >= DOOR_PX))

    def _arrange(self, kitchen: Kitchen) -> None:
        model, data = self._model, self._data
        for door, is_open in kitchen.doors.items():
            data.qpos[self._adr(door)] = 0.95 * scenery().doors[door].most if is_open else 0.0
        point = scenery().points[kitchen.point]
        for name, value in (("x", point.x), ("y", point.y), ("yaw", point.yaw)):
            data.qpos[self._adr(f"{HEBE}/base_{name}")] = value
        mujoco.mj_kinematics(model, data)
        for thing in scenery().things:
            data.qpos[self._place_of(thing) + 2] = -1.0  # one that this kitchen lacks is below the floor
        for thing, where in kitchen.things.items():
            adr = self._place_of(thing)
            if where in ROBOTS:
                hand = data.site(f"{ATLAS}/grip") if where == ATLAS else data.body(f"{HEBE}/base_link")
                at = hand.xpos + np.reshape(hand.xmat, (3, 3)) @ np.array(IN_HAND[where])
            else:
                site = data.site(f"{where}_space")
                half = scenery().spaces[where].half
                x, y = _slot(where, kitchen.slots[thing])
                at = site.xpos + np.reshape(site.xmat, (3, 3)) @ np.array([x, y, self._half_height(thing) - half[2]])
            data.qpos[adr : adr + 7] = [*at, 1.0, 0.0, 0.0, 0.0]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_camlight(model, data)

    def _adr(self, joint: str) -> int:
        return int(self._model.joint(joint).qposadr[0])

    def _place_of(self, thing: str) -> int:
        return int(self._model.jnt_qposadr[self._model.body_jntadr[self._model.body(thing).id]])

    def _half_height(self, thing: str) -> float:
        geom = self._model.body_geomadr[self._model.body(thing).id]
        kind, size = self._model.geom_type[geom], self._model.geom_size[geom]
        return float(size[{mujoco.mjtGeom.mjGEOM_SPHERE: 0, mujoco.mjtGeom.mjGEOM_CYLINDER: 1}.get(kind, 2)])

    def _named(self, body: int) -> str:
        """Return the thing that a body is, or the door that it belongs to."""
        joints = range(self._model.body_jntadr[body], self._model.body_jntadr[body] + self._model.body_jntnum[body])
        named = [self._model.joint(joint).name for joint in joints]
        return next((name for name in named if name), str(self._model.body(body).name))


def _key(kitchen: Kitchen, robot: str) -> Key:
    """Return all that a picture depends on."""
    spaces = _in_sight(kitchen, robot)
    things = (t for t in sorted(kitchen.things) if kitchen.things[t] in spaces)
    doors = tuple(kitchen.doors.items())
    return robot, kitchen.point, doors, tuple((t, kitchen.things[t], kitchen.slots[t]) for t in things)


def _in_sight(kitchen: Kitchen, robot: str) -> set[str]:
    """Return spaces of which anything may be in a robot's picture."""
    open_or_free = {space for space in scenery().spaces if not kitchen.shut(space)}
    counter = {"sink", "oven", "fridge"}
    wide = open_or_free - counter if robot == ATLAS or kitchen.point == START else open_or_free & counter
    return wide | set(ROBOTS)


def _slot(space: str, number: int) -> tuple[float, float]:
    """Return where a thing stands in a space, in its own axes [m]; what finds no slot of its own lies close beside another."""
    xs, ys = (_spread(half - EDGE_M) for half in scenery().spaces[space].half[:2])
    # The arm hides what lies near it on the table.
    spots = [(x, y) for x in xs for y in ys] if space in SURFACES else [(x, y) for y in ys for x in xs]
    x, y = spots[number % len(spots)]
    return x + EDGE_M * (number // len(spots)), y


def _spread(room: float) -> list[float]:
    count = int(2 * max(0.0, room) / SPACING_M) + 1
    step = 2 * room / (count - 1) if count > 1 else 0.0
    spots = [(k - (count - 1) / 2) * float(step) for k in range(count)]
    return sorted(spots, key=lambda spot: (abs(spot), -spot))
