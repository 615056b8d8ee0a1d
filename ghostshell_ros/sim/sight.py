# SPDX-License-Identifier: Apache-2.0
"""Tell what a simulated robot's cameras see of the things and doors around it, without drawing a picture."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from ghostshell_ros.sim.robot import SimRobot
from ghostshell_ros.sim.world import HANDLE, SimWorld

Vector = npt.NDArray[np.float64]

DRAWN = np.array([1, 1, 1, 0, 0, 0], dtype=np.uint8)
"""Groups of geoms that pictures show, and that hide what is behind them."""
NEAREST_M = 0.05
LEAST_PX = 2.0
"""What is smaller in the picture, from its middle to its edge, is not made out."""
SPREAD = 0.6
"""Part of its size from the middle of a thing, or of a part of a door, to the four points beside it that are looked at."""
LEAST_POINTS = 2
"""What is seen is so at as many of its points."""
HANDLE_SIZE = np.array([0.10, 0.03, 0.03])
"""Size of a handle [m], along its bar first."""


@dataclass(frozen=True)
class Seen:
    """A thing, or the handle of a door: position in m, orientation (w, x, y, z), and whole size along its own axes in m."""

    position: tuple[float, ...]
    orientation: tuple[float, ...]
    size: tuple[float, ...]


class Sight:
    """Look through all of a robot's cameras but its `film` ones. Things are bodies with a free joint that are no robots.

    Who sees a door, open or shut, knows where its handle is, which may be on the other side.
    """

    def __init__(self, world: SimWorld, robot: SimRobot, width: int, height: int) -> None:
        """Find what can be seen; pictures are `width` times `height` px large."""
        model = self._model = world.model
        self._data = world.data
        self._cameras = [model.camera(robot.prefix + name).id for name in robot.cameras() if not name.startswith("film")]
        self._height, self._aspect = height, width / height
        bases = {other.base_id for other in world.robots.values()}
        loose = (b for b in range(1, model.nbody) if model.body_parentid[b] == 0 and model.body_dofnum[b] == 6)
        self._things = {model.body(body).name: body for body in loose if body not in bases}
        named = ((model.site(site).name, site) for site in range(model.nsite))
        self._handles = {name: site for name, site in named if name.endswith(HANDLE)}

    def seen(self) -> dict[str, Seen]:
        """Return what is seen now, by name; a handle is named `<door>_handle`."""
        data, found = self._data, {}
        for name, body in self._things.items():
            half = self._model.geom_aabb[int(self._model.body_geomadr[body]), 3:]
            if any(self._sees_thing(camera, body, float(half.mean())) for camera in self._cameras):
                found[name] = _seen(data.xpos[body], data.xquat[body], 2 * half)
        for name, site in self._handles.items():
            if any(self._sees_door(camera, int(self._model.site_bodyid[site])) for camera in self._cameras):
                turned = np.empty(4)
                mujoco.mju_mat2Quat(turned, data.site_xmat[site])
                found[name] = _seen(data.site_xpos[site], turned, HANDLE_SIZE)
        return found

    def _sees_thing(self, camera: int, body: int, half: float) -> bool:
        middle = self._data.xpos[body]
        if not self._large_enough(camera, middle, half):
            return False
        right, up = self._data.cam_xmat[camera].reshape(3, 3).T[:2] * SPREAD * half
        return self._hits(camera, _about(middle, right, up)).count(body) >= LEAST_POINTS

    def _sees_door(self, camera: int, body: int) -> bool:
        """Look at the middle of each part of a door, and at four points between it and the edge."""
        first, points = int(self._model.body_geomadr[body]), []
        for geom in range(first, first + int(self._model.body_geomnum[body])):
            middle, axes = self._data.geom_xpos[geom], self._data.geom_xmat[geom].reshape(3, 3).T
            half = self._model.geom_aabb[geom, 3:]
            if self._large_enough(camera, middle, float(half.max())):
                points += _about(middle, *(axes[axis] * half[axis] * SPREAD for axis in np.argsort(half)[1:]))
        return self._hits(camera, points).count(body) >= LEAST_POINTS

    def _large_enough(self, camera: int, point: Vector, half: float) -> bool:
        focal = self._height / 2 / self._tangent(camera)
        return focal * half / max(NEAREST_M, float(np.linalg.norm(point - self._data.cam_xpos[camera]))) >= LEAST_PX

    def _tangent(self, camera: int) -> float:
        return math.tan(math.radians(float(self._model.cam_fovy[camera])) / 2)

    def _hits(self, camera: int, points: Iterable[Vector]) -> list[int]:
        """Return the bodies that the rays to those of the points meet first that lie in the picture."""
        eye, tangent = self._data.cam_xpos[camera], self._tangent(camera)
        geom, found = np.zeros(1, dtype=np.int32), []
        for point in points:
            right, up, back = self._data.cam_xmat[camera].reshape(3, 3).T @ (point - eye)
            if -back < NEAREST_M or abs(up) > -back * tangent or abs(right) > -back * tangent * self._aspect:
                continue
            mujoco.mj_ray(self._model, self._data, eye, point - eye, DRAWN, 1, -1, geom)
            if geom[0] >= 0:
                found.append(int(self._model.geom_bodyid[geom[0]]))
        return found


def _about(middle: Vector, one: Vector, other: Vector) -> list[Vector]:
    return [middle, middle + one, middle - one, middle + other, middle - other]


def _seen(position: Vector, orientation: Vector, size: Vector) -> Seen:
    return Seen(tuple(position.tolist()), tuple(orientation.tolist()), tuple(size.tolist()))
