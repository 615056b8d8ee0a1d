# SPDX-License-Identifier: Apache-2.0
"""Random rooms to train the detector on: MJCF of one room with furniture, and what changes in it from frame to frame."""

from __future__ import annotations

import io
import math
import os
from dataclasses import dataclass

import numpy as np
from PIL import Image

from scripts.detector.furniture import LARGE, clutter
from scripts.detector.shapes import ANY, LABELS, MAKERS, MUTED, Palette, Random, Shape

if "MUJOCO_GL" not in os.environ and not os.environ.get("DISPLAY"):
    os.environ["MUJOCO_GL"] = "egl"  # MuJoCo reads it once, while it is imported

import mujoco

COUNTS = {"person": 2, "chair": 3, "ball": 3, "apple": 4, "bottle": 4, "door": 1}
"""Bodies of each label in a room; each frame shows some of them."""
PRESENT = 0.5
NEAR_FAR = {
    "person": (0.9, 8.0),
    "chair": (0.7, 7.0),
    "ball": (0.4, 6.5),
    "apple": (0.3, 3.2),
    "bottle": (0.35, 4.0),
    "door": (1.3, 8.0),
}
"""Distances from the camera [m] at which they are put, evenly by logarithm."""
SMALL = ("ball", "apple", "bottle")
HIDDEN = (0.0, 0.0, -30.0)
CAMERA_HEIGHT = (0.30, 0.38)
CAMERA_FOV = 60.0
"""Kalos's, sitting to standing; half the frames have them."""


@dataclass
class Body:
    """A body of the room; `mocap` is its number there."""

    name: str
    shape: Shape
    mocap: int = -1


class Room:
    """One compiled room; `arrange` draws the next frame's arrangement."""

    def __init__(self, random: Random) -> None:
        self.random = random
        r = random
        hall = r.random() < 0.25
        self.half = (r.uniform(3.0, 6.5), r.uniform(0.85, 1.3)) if hall else (r.uniform(1.8, 5.5), r.uniform(1.8, 5.5))
        self.bodies = [Body(f"{label}_{k}", make(r)) for label, make in MAKERS.items() for k in range(COUNTS[label])]
        count = int(r.integers(1, 4)) if hall else int(r.integers(2, 8))
        self.furniture = [Body(f"furniture_{k}", LARGE[r.integers(len(LARGE))](r)) for k in range(count)]
        self.furniture += [Body(f"clutter_{k}", clutter(r)) for k in range(int(r.integers(1, 6)))]
        self._materials: dict[str, Palette] = {}
        self.model = mujoco.MjModel.from_xml_string(self._xml(), self._assets())
        self.data = mujoco.MjData(self.model)
        for body in [*self.bodies, *self.furniture]:
            body.mocap = int(self.model.body_mocapid[self.model.body(body.name).id])
        self._eye = int(self.model.body_mocapid[self.model.body("eye").id])
        self.instance = np.full(self.model.ngeom + 1, -1)
        for number, body in enumerate(self.bodies):
            self.instance[:-1][self.model.geom_bodyid == self.model.body(body.name).id] = number
        self.telling = np.full(self.model.ngeom + 1, -1)
        for geom in range(self.model.ngeom):
            material = int(self.model.geom_matid[geom])
            if material >= 0 and self.model.material(material).name.endswith("_handle"):
                self.telling[geom] = self.instance[geom]
        self.camera = (0.0, 0.0, 0.0)
        self.camera_id = 0

    def describe(self, number: int) -> tuple[int, float, tuple[float, float, float]]:
        """Label's number, area in m² and place of an instance."""
        shape = self.bodies[number].shape
        x, y, z = self.data.mocap_pos[self.bodies[number].mocap]
        middle = {"person": 0.9, "chair": 0.45, "door": 0.7}.get(shape.label, 0.0)
        return LABELS.index(shape.label), shape.area, (x, y, z + middle)

    def arrange(self) -> None:
        """Put camera and things anew and give them other colours; furniture moves only sometimes."""
        r = self.random
        if r.random() < 0.15 or not np.any(self.data.mocap_pos[[b.mocap for b in self.furniture]]):
            for body in self.furniture:
                self._put(body, *self._anywhere(0.8), 0.0)
        kalos = r.random() < 0.5
        x, y = self._clear(0.35)
        z = r.uniform(*CAMERA_HEIGHT) if kalos else r.uniform(0.12, 1.3)
        yaw = r.uniform(-math.pi, math.pi)
        if abs(self.half[0]) > 2.5 * self.half[1] and r.random() < 0.7:
            yaw = (0.0 if x < 0 else math.pi) + r.normal(0, 0.35)
        self.camera = (x, y, z)
        self._look(x, y, z, yaw, r.normal(0, 0.05 if kalos else 0.2), r.normal(0, 0.03))
        self.model.cam_fovy[0] = CAMERA_FOV if kalos else r.uniform(48, 75)
        for body in self.bodies:
            if r.random() < PRESENT:
                self._place(body, yaw)
            else:
                self.data.mocap_pos[body.mocap] = HIDDEN
        self._recolour(0.5)
        self._relight()
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def _place(self, body: Body, yaw: float) -> None:
        r, label = self.random, body.shape.label
        tops = [b for b in self.furniture if b.shape.top]
        if label in SMALL and tops and r.random() < 0.4:
            nearest = sorted(tops, key=lambda b: math.dist(self.data.mocap_pos[b.mocap][:2], self.camera[:2]))
            on = nearest[min(len(nearest) - 1, int(r.integers(0, 2)))]
            reach = 0.5 * on.shape.radius
            x, y = self.data.mocap_pos[on.mocap][:2] + r.uniform(-reach, reach, 2)
            self._put(body, x, y, on.shape.top + 0.002)
            return
        z = 0.0 if label not in ("door", "ball") or r.random() < 0.8 else r.uniform(0.0, 0.1)
        for _ in range(8):
            near, far = NEAR_FAR[label]
            distance = math.exp(r.uniform(math.log(near), math.log(far)))
            angle = yaw + r.uniform(-0.65, 0.65)
            x, y = self.camera[0] + distance * math.cos(angle), self.camera[1] + distance * math.sin(angle)
            if abs(x) < self.half[0] and abs(y) < self.half[1]:
                self._put(body, x, y, z)
                return
        self._put(body, *self._anywhere(0.95), z)

    def _put(self, body: Body, x: float, y: float, z: float) -> None:
        square = body.shape.label == "door" or body.name.startswith("furniture")
        yaw = self.random.integers(4) * math.pi / 2 + self.random.normal(0, 0.1) if square else self.random.uniform(-3.2, 3.2)
        self.data.mocap_pos[body.mocap] = x, y, z
        self.data.mocap_quat[body.mocap] = math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)
        if body.shape.label in ("apple", "bottle") and self.random.random() < 0.1:  # lies on its side
            turn = np.zeros(4)
            mujoco.mju_mulQuat(turn, self.data.mocap_quat[body.mocap], np.array([math.sqrt(0.5), math.sqrt(0.5), 0, 0]))
            self.data.mocap_quat[body.mocap] = turn
            self.data.mocap_pos[body.mocap][2] += body.shape.radius

    def _anywhere(self, share: float) -> tuple[float, float]:
        x, y = self.random.uniform(-share, share, 2)
        return x * self.half[0], y * self.half[1]

    def _clear(self, margin: float) -> tuple[float, float]:
        """Return a place inside the room, outside furniture if some tries find one."""
        for _ in range(20):
            x, y = self._anywhere(1 - margin / min(self.half))
            at = [(self.data.mocap_pos[b.mocap], b.shape.radius) for b in self.furniture]
            if all(math.dist(p[:2], (x, y)) > radius + 0.1 for p, radius in at):
                break
        return x, y

    def _look(self, x: float, y: float, z: float, yaw: float, pitch: float, roll: float) -> None:
        forward = np.array([math.cos(yaw) * math.cos(pitch), math.sin(yaw) * math.cos(pitch), -math.sin(pitch)])
        right = np.array([math.sin(yaw), -math.cos(yaw), 0.0])
        up = np.cross(right, forward)
        right, up = right * math.cos(roll) + up * math.sin(roll), up * math.cos(roll) - right * math.sin(roll)
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, np.stack([right, up, -forward], axis=1).reshape(-1))
        self.data.mocap_pos[self._eye], self.data.mocap_quat[self._eye] = (x, y, z), quat

    def _recolour(self, share: float) -> None:
        r = self.random
        for name, palette in self._materials.items():
            if r.random() < share:
                colour = np.array(palette[r.integers(len(palette))]) + r.normal(0, 0.06, 3)
                if palette is ANY and r.random() < 0.4:
                    colour = r.uniform(0.03, 0.97, 3)
                self.model.material(name).rgba[:3] = np.clip(colour, 0.0, 1.0)

    def _relight(self) -> None:
        r, head = self.random, self.model.vis.headlight
        head.ambient[:] = r.uniform(0.2, 0.55) + r.normal(0, 0.02, 3)
        head.diffuse[:] = r.uniform(0.1, 0.5) + r.normal(0, 0.02, 3)
        for i in range(self.model.nlight):
            self.model.light_active[i] = r.random() < 0.75
            self.model.light_diffuse[i] = r.uniform(0.1, 0.6) + r.normal(0, 0.03, 3)
            self.model.light_dir[i] = (*r.uniform(-0.8, 0.8, 2), -0.9)

    def _assets(self) -> dict[str, bytes]:
        """Clouds of noise as textures of floor and walls."""
        files = {}
        for name in ("clouds_a.png", "clouds_b.png"):
            noise = np.zeros((64, 64, 3))
            for size in (4, 16, 64):
                grid = self.random.uniform(0, 255, (size, size, 3)).astype(np.uint8)
                noise += np.asarray(Image.fromarray(grid).resize((64, 64), Image.Resampling.BILINEAR)) / 3
            grey = noise.mean(axis=2, keepdims=True)
            mixed = 200 + 0.5 * (grey - 128) + 0.12 * (noise - grey)
            file = io.BytesIO()
            Image.fromarray(np.clip(mixed, 0, 255).astype(np.uint8)).save(file, "PNG")
            files[name] = file.getvalue()
        return files

    def _xml(self) -> str:
        r = self.random

        def colour() -> str:
            style = r.random()
            base = np.full(3, r.uniform(0.55, 0.95)) if style < 0.5 else np.array(MUTED[r.integers(len(MUTED))])
            if style > 0.8:
                base = r.uniform(0.3, 0.95, 3)
            return " ".join(f"{c:.3f}" for c in np.clip(base + r.normal(0, 0.04, 3), 0, 1))

        def texture(name: str) -> str:
            style = r.random()
            if style < 0.35:
                return f'<texture name="{name}" type="2d" file="clouds_{r.choice(["a", "b"])}.png"/>'
            kind = r.choice(["checker", "checker", "gradient", "flat"])
            mark = r.choice(["none", "none", "random", "edge"])
            return (
                f'<texture name="{name}" type="2d" builtin="{kind}" rgb1="{colour()}" rgb2="{colour()}" mark="{mark}" '
                f'markrgb="{colour()}" random="0.02" width="64" height="64"/>'
            )

        assets, bodies = [], []
        for name in ("floor", "wall"):
            assets.append(texture(name))
            repeat = r.uniform(0.3, 4.0)
            tint = r.uniform(0.7, 1.0)
            assets.append(
                f'<material name="{name}" texture="{name}" texrepeat="{repeat:.2f} {repeat:.2f}" texuniform="true" '
                f'rgba="{tint:.2f} {tint:.2f} {tint:.2f} 1" specular="{r.uniform(0, 0.3):.2f}"/>'
            )
        for body in [*self.bodies, *self.furniture]:
            for part, (palette, gloss) in body.shape.materials.items():
                name = f"{body.name}_{part}"
                self._materials[name] = palette
                rgb = palette[r.integers(len(palette))]
                shown = " ".join(f"{c:.3f}" for c in rgb)
                assets.append(f'<material name="{name}" rgba="{shown} 1" specular="{gloss}" shininess="0.6"/>')
            geoms = "".join(geom.format(name=body.name) for geom in body.shape.geoms)
            bodies.append(f'<body name="{body.name}" mocap="true" pos="0 0 0">{geoms}</body>')
        a, b = self.half
        high = r.uniform(0.6, 1.4)
        walls = [(a, 0.05, 0, b + 0.05), (a, 0.05, 0, -b - 0.05), (0.05, b, a + 0.05, 0), (0.05, b, -a - 0.05, 0)]
        if min(a, b) > 1.5 and r.random() < 0.5:  # a wall inside with a doorway
            gap, at = r.uniform(0.3, 0.7) * 2 * b - b, r.uniform(-0.5, 0.5) * a
            walls.append((0.05, (gap - 0.5 + b) / 2, at, (gap - 0.5 - b) / 2))
            walls.append((0.05, (b - gap - 0.5) / 2, at, (b + gap + 0.5) / 2))
        room = [
            f'<geom type="box" size="{w:.3f} {d:.3f} {high:.3f}" pos="{x:.3f} {y:.3f} {high:.3f}" material="wall"/>'
            for w, d, x, y in walls
            if w > 0 and d > 0
        ]
        shadows = "true" if r.random() < 0.1 else "false"
        lights = f'<light pos="0 0 4" type="directional" castshadow="{shadows}"/>'
        lights += '<light pos="1 1 5" type="directional" castshadow="false"/>'
        sky = f'<texture type="skybox" builtin="gradient" rgb1="{colour()}" rgb2="{colour()}" width="32" height="192"/>'
        return (
            '<mujoco><compiler angle="radian"/><visual><map znear="0.005" zfar="20"/><quality shadowsize="1024" '
            f'offsamples="{int(r.choice([0, 0, 2]))}"/></visual><statistic center="0 0 0.5" extent="4"/>'
            f"<asset>{sky}{''.join(assets)}</asset>"
            f'<default><geom contype="0" conaffinity="0"/></default><worldbody>{lights}'
            '<geom type="plane" size="0 0 0.05" material="floor"/>'
            f'<body name="eye" mocap="true"><camera name="eye"/></body>{"".join(room)}{"".join(bodies)}</worldbody></mujoco>'
        )
