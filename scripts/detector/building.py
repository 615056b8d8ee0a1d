# SPDX-License-Identifier: Apache-2.0
"""Kalos's building as a test world for the detector: seen from Kalos's camera anywhere in it. Never trained on."""

from __future__ import annotations

import math

import numpy as np

from ghostshell_ros.sim.parts import Legged
from ghostshell_ros.sim.stage import Stage
from ghostshell_ros.sim.world import SimWorld
from scripts.detector.shapes import LABELS, Random

import mujoco  # isort: skip  (after the module that chooses how it renders)

AREAS = {"person": 0.5, "chair": 0.2, "ball": 0.038, "apple": 0.0055, "bottle": 0.016, "door": 1.7}
"""About what each covers seen from the front, m²."""
FREE = ((-1.0, -0.6, 10.8, 0.6), (-1.0, 1.6, 2.4, 3.0), (3.7, 1.6, 7.0, 3.4), (8.2, 1.6, 10.6, 3.3), (6.0, -3.0, 8.0, -1.2))
"""Areas in which Kalos can stand: hallway, kitchen, office, lounge, lobby; x and y from and to, m."""
LOOSE = ("ball", "apple", "bottle_green", "bottle_blue")
LOOK_TRIES = 30


class Building:
    """The world as the simulator has it; half of the frames have the loose things and the chairs elsewhere."""

    def __init__(self, random: Random) -> None:
        self.random = random
        world = SimWorld("robots/kalos/kalos.xml", world="building")
        Legged(world, world.robot)  # stands
        Stage(world)
        world.step(400)
        self.model, self.data = world.model, world.data
        self.camera_id = self.model.camera("front_camera").id
        self.names = [name for name in world.objects() if self._label(name) in LABELS]
        self.instance = np.full(self.model.ngeom + 1, -1)
        for number, name in enumerate(self.names):
            self.instance[:-1][self.model.geom_bodyid == self.model.body(name).id] = number
        self.telling = np.full(self.model.ngeom + 1, -1)
        door = self.model.body("office_door").id
        handles = (self.model.geom_bodyid == door) & (self.model.geom_type == int(mujoco.mjtGeom.mjGEOM_CAPSULE))
        self.telling[:-1][handles] = self.names.index("office_door")
        self.camera = (0.0, 0.0, 0.0)
        self._start = self.data.qpos.copy()
        self._person = self.model.body("person").mocapid[0]
        self._door = self.model.body("office_door").mocapid[0]
        self._chairs = {name: self.model.body(name).pos.copy() for name in self.names if name.startswith("chair")}

    @staticmethod
    def _label(name: str) -> str:
        return "door" if name == "office_door" else name.split("_")[0]

    def describe(self, number: int) -> tuple[int, float, tuple[float, float, float]]:
        """Label's number, area in m² and place of an instance."""
        label = self._label(self.names[number])
        x, y, z = self.data.xpos[self.model.body(self.names[number]).id]
        return LABELS.index(label), AREAS[label], (x, y, z + {"person": 0.9, "chair": 0.45}.get(label, 0.0))

    def arrange(self) -> None:
        """Another place of Kalos, so that mostly something is to be seen; person and door anywhere on their ways."""
        r = self.random
        self.data.qpos[:] = self._start
        moved = r.random() < 0.5
        for name in LOOSE:
            if moved:
                at = self.model.jnt_qposadr[self.model.body(name).jntadr[0]]
                x, y = self._somewhere()
                self.data.qpos[at : at + 2] = x, y
                self.data.qpos[at + 2] = 0.042 if name == "apple" else 0.1 if "bottle" in name else 0.11
        for name, place in self._chairs.items():
            self.model.body(name).pos[:2] = self._somewhere() if moved else place[:2]
        self.data.mocap_pos[self._person][:2] = self._somewhere()
        turn = r.uniform(-math.pi, math.pi)
        self.data.mocap_quat[self._person] = math.cos(turn / 2), 0, 0, math.sin(turn / 2)
        self.data.mocap_pos[self._door][0] = r.uniform(5.25, 6.5)
        mujoco.mj_kinematics(self.model, self.data)
        for _ in range(LOOK_TRIES):
            x, y = self._somewhere()
            yaw = r.uniform(-math.pi, math.pi)
            if self._worth(x, y, yaw):
                break
        self.data.qpos[0:2] = x, y
        # It rolls and pitches a little as it walks.
        roll, pitch = r.normal(0, 0.02, 2)
        cr, sr, cp, sp, cy, sy = (f(a / 2) for a in (roll, pitch, yaw) for f in (math.cos, math.sin))
        self.data.qpos[3:7] = (
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        )
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)
        ex, ey, ez = self.data.cam_xpos[self.camera_id]
        self.camera = (ex, ey, ez)

    def _somewhere(self) -> tuple[float, float]:
        sizes = np.array([(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in FREE])
        x0, y0, x1, y1 = FREE[self.random.choice(len(FREE), p=sizes / sizes.sum())]
        return float(self.random.uniform(x0, x1)), float(self.random.uniform(y0, y1))

    def _worth(self, x: float, y: float, yaw: float) -> bool:
        """Return whether something lies ahead within 4 m and nothing nearer than 0.6 m to the robot's middle."""
        ahead = False
        for name in self.names:
            px, py, _ = self.data.xpos[self.model.body(name).id]
            distance = math.hypot(px - x, py - y)
            if distance < 0.6:
                return False
            bearing = math.remainder(math.atan2(py - y, px - x) - yaw, math.tau)
            ahead |= distance < 4.0 and abs(bearing) < 0.55
        return ahead
