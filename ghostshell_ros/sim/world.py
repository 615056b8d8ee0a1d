# SPDX-License-Identifier: Apache-2.0
"""Simulate a robot in its surroundings in MuJoCo, without ROS: step, read and render it. Deterministic."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ghostshell_ros.sim.gait import euler
from skill_kernel.skills.drivers import Pose2D

if "MUJOCO_GL" not in os.environ and not os.environ.get("DISPLAY"):
    os.environ["MUJOCO_GL"] = "egl"  # MuJoCo reads it once, while it is imported

import mujoco

ROOT = Path(__file__).resolve().parents[1]
"""Folder below which a robot's YAML names its model (`robots/coco/coco.xml`)."""

WORLDS = Path(__file__).with_name("worlds")
"""Folder of the surroundings a robot can be put into, by the name of their file."""

DECORATIONS = 100
"""Shapes in a picture beside the model's own."""
CONTROL_S = 0.005
"""Time between two calls of an attached controller; one step of the model where that is longer."""
ASLEEP_SPEED, ASLEEP_S = 0.01, 1.0
"""Forces are in balance once nothing was faster than this [m/s, rad/s] for this long."""

Image = npt.NDArray[np.uint8]
State = npt.NDArray[np.float64]
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


class SimWorldError(ValueError):
    """Say that the world cannot do what was asked; the message names the fault and what there is instead."""


@dataclass(frozen=True)
class BaseState:
    """Hold the state of the robot's base.

    It is the planar pose, height in m, roll and pitch in rad (REP 103: a positive pitch is nose down), the orientation in the
    world as (w, x, y, z), and the velocity in the base's own frame in m/s and rad/s.
    """

    pose: Pose2D
    height: float
    roll: float
    pitch: float
    orientation: tuple[float, ...]
    linear_velocity: tuple[float, ...]
    angular_velocity: tuple[float, ...]


class SimWorld:
    """Step, read and render a robot's model in one of `WORLDS`.

    One thread at a time may use it. Rendering must stay on the thread that rendered first, because a GL context belongs to
    a thread.
    """

    def __init__(self, model: str | Path, *, world: str = "desk") -> None:
        """Load `model` (absolute, or relative to `ROOT`) and put it into `world` ("" for nothing).

        Raises SimWorldError if there is no such file or world, if it does not compile, or if it has no body `base_link`
        that stands fast or has a free joint.
        """
        path = Path(model) if Path(model).is_absolute() else ROOT / model
        if not path.is_file():
            raise SimWorldError(f"there is no model '{path}'; name it absolutely or below {ROOT}")
        surroundings = WORLDS / f"{world}.xml"
        if world and not surroundings.is_file():
            known = ", ".join(sorted(p.stem for p in WORLDS.glob("*.xml")))
            raise SimWorldError(f"there is no world '{world}'; the worlds are {known}")
        includes = [path, surroundings] if world else [path]
        xml = "<mujoco>" + "".join(f'<include file="{p}"/>' for p in includes) + "</mujoco>"
        try:
            self.model = mujoco.MjModel.from_xml_string(xml)
        except ValueError as error:
            raise SimWorldError(f"model '{path}' does not compile: {error}") from error
        self.data = mujoco.MjData(self.model)
        self.base_id = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, "base_link")
        if self.base_id < 0 or self.model.body_dofnum[self.base_id] not in (0, 6):
            raise SimWorldError(f"model '{path}' has no body 'base_link' that stands fast or has a free joint")
        self._fixed = not self.model.body_dofnum[self.base_id]
        base_joint = self.model.body_jntadr[self.base_id]
        self._base_qpos, self._base_dof = -1, -1
        if not self._fixed:
            self._base_qpos, self._base_dof = int(self.model.jnt_qposadr[base_joint]), int(self.model.jnt_dofadr[base_joint])
        joints = self.model.actuator_trnid[:, 0]
        self.joint_names = tuple(self.model.joint(joint).name for joint in joints)
        """Names of the position-controlled joints in the order of the model's actuators."""
        self._qpos, self._dofs = self.model.jnt_qposadr[joints], self.model.jnt_dofadr[joints]
        self._still_s = 0.0
        self._asleep: State | None = None
        """The inputs and positions with which everything had come to rest; None while something moves."""
        self._attached: list[tuple[Callable[[float], None], Callable[[], None]]] = []
        self._control_steps = max(1, round(CONTROL_S / self.timestep))
        self._renderers: dict[tuple[int, int], mujoco.Renderer] = {}
        named = (i for i in range(self.model.ntex) if self.model.texture(i).name.endswith("_face"))
        self.face_texture = next(named, None)
        """Number of the model's texture for the robot's display (the first named `*_face`), or None without one."""
        self._outdated: set[tuple[int, int]] = set()
        """Sizes whose renderer has not loaded the newest face."""
        self.reset()

    @property
    def time(self) -> float:
        """Return the seconds of simulated time since the last reset."""
        return float(self.data.time)

    @property
    def timestep(self) -> float:
        """Return the seconds of one step."""
        return float(self.model.opt.timestep)

    def attach(self, update: Callable[[float], None], reset: Callable[[], None]) -> None:
        """Call `update(dt)` before each `CONTROL_S` of physics from now on, and `reset` with each reset; then reset.

        A controller attaches itself so, or something that moves by itself. At a reset it is called before the world settles.
        """
        self._attached.append((update, reset))
        self.reset()

    def reset(self, keyframe: str = "", *, settle_s: float = 0.5) -> None:
        """Put everything back to the start, settled for `settle_s`, with time 0.

        `keyframe` names a posture of the model to start from. Raises SimWorldError when the model has none of that name.
        """
        mujoco.mj_resetData(self.model, self.data)
        if keyframe:
            number = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_KEY, keyframe)
            if number < 0:
                known = [self.model.key(i).name for i in range(self.model.nkey)]
                raise SimWorldError(f"the model has no keyframe '{keyframe}' (there are: {', '.join(known) or 'none'})")
            mujoco.mj_resetDataKeyframe(self.model, self.data, number)
        for _, reset in self._attached:
            reset()
        self.step(round(settle_s / self.timestep))
        self.data.time = 0.0

    def state(self) -> State:
        """Return the whole state, with which another world of the same model goes on and looks the same after `set_state`."""
        state = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, self.data, state, _STATE)
        return state

    def appearance(self) -> State:
        """Return the positions and angles [m, rad] that decide how a picture looks, apart from the face."""
        data = self.data
        return np.concatenate((data.qpos, data.mocap_pos.ravel(), data.mocap_quat.ravel()))

    def set_state(self, state: State) -> None:
        """Take over the state of another world of the same model."""
        mujoco.mj_setState(self.model, self.data, state, _STATE)
        mujoco.mj_forward(self.model, self.data)

    def step(self, n: int = 1) -> None:
        """Advance by `n` steps. Once nothing has moved for `ASLEEP_S`, nothing is computed until something is changed."""
        while n > 0:
            part = min(n, self._control_steps)
            for update, _ in self._attached:
                update(part * self.timestep)
            if self._asleep is not None and np.array_equal(self._asleep, self._given()):
                self.data.time += n * self.timestep
                return
            mujoco.mj_step(self.model, self.data, part)
            n -= part
            moves = np.abs(self.data.qvel).max(initial=0.0) > ASLEEP_SPEED
            self._still_s = 0.0 if moves else self._still_s + part * self.timestep
            self._asleep = self._given() if self._still_s > ASLEEP_S else None

    def _given(self) -> State:
        """Return all inputs and positions."""
        data = self.data
        return np.concatenate((data.ctrl, data.xfrc_applied.ravel(), self.appearance()))

    def advance(self, dt: float) -> None:
        """Advance by `dt` seconds, rounded to whole steps."""
        self.step(max(0, round(dt / self.timestep)))

    def place(self, joints: Mapping[str, float], height: float) -> None:
        """Put the robot upright over its start at once, at a height in m, with joints (rad) that are also their targets. A base
        that stands fast stays where it is."""
        self.set_joint_targets(joints)
        for name, position in joints.items():
            self.data.qpos[self._qpos[self.joint_names.index(name)]] = position
        if not self._fixed:
            self.data.qpos[self._base_qpos + 2] = height
        mujoco.mj_forward(self.model, self.data)

    def set_joint_targets(self, targets: Mapping[str, float]) -> None:
        """Set position targets in rad by joint; the others keep theirs.

        Raises SimWorldError for an unknown joint or a target that is no finite number; nothing is set then.
        """
        for name, target in targets.items():
            if name not in self.joint_names:
                raise SimWorldError(f"there is no joint '{name}'; the joints are {', '.join(self.joint_names)}")
            if not math.isfinite(target):
                raise SimWorldError(f"target {target} of joint '{name}' is not a finite number")
        for name, target in targets.items():
            self.data.ctrl[self.joint_names.index(name)] = target

    def joint_positions(self) -> dict[str, float]:
        """Return the positions in rad by joint."""
        return self._by_joint(self.data.qpos[self._qpos])

    def joint_velocities(self) -> dict[str, float]:
        """Return the velocities in rad/s by joint."""
        return self._by_joint(self.data.qvel[self._dofs])

    def speed(self) -> float:
        """Return the largest speed of a controlled joint or of the base, along or about an axis [rad/s, m/s]."""
        base = () if self._fixed else self.data.qvel[self._base_dof : self._base_dof + 6]
        return float(np.abs((*base, *self.data.qvel[self._dofs])).max())

    def joint_efforts(self) -> dict[str, float]:
        """Return the torques of the servos in N m by joint."""
        return self._by_joint(self.data.actuator_force)

    def _by_joint(self, values: State) -> dict[str, float]:
        return dict(zip(self.joint_names, values.tolist(), strict=True))

    def base(self) -> BaseState:
        """Return the state of the robot's base in the odom frame, which is the world's."""
        if self._fixed:
            x, y, height = self.data.xpos[self.base_id].tolist()
            turned = self.data.xquat[self.base_id]
            roll, pitch, yaw = euler(turned)
            return BaseState(Pose2D(x, y, yaw), height, roll, pitch, tuple(turned.tolist()), (0.0,) * 3, (0.0,) * 3)
        q, v = self._base_qpos, self._base_dof
        x, y, height = self.data.qpos[q : q + 3].tolist()
        orientation = self.data.qpos[q + 3 : q + 7]
        roll, pitch, yaw = euler(orientation)
        rotation = self.data.xmat[self.base_id].reshape(3, 3)
        parts = orientation, rotation.T @ self.data.qvel[v : v + 3], self.data.qvel[v + 3 : v + 6]
        return BaseState(Pose2D(x, y, yaw), height, roll, pitch, *(tuple(part.tolist()) for part in parts))

    def sensor(self, name: str) -> tuple[float, ...]:
        """Return the reading of one of the model's sensors, in MuJoCo's unit and the sensor's frame."""
        return tuple(self.data.sensor(name).data.tolist())

    def set_face(self, image: Image) -> None:
        """Show an image (height x width x 3, any size) on the robot's display. A robot without a display shows none."""
        texture = self.face_texture
        if texture is None:
            return
        width, height = int(self.model.tex_width[texture]), int(self.model.tex_height[texture])
        rows = np.arange(height) * image.shape[0] // height
        columns = np.arange(width) * image.shape[1] // width
        pixels = image[rows][:, columns]
        start = int(self.model.tex_adr[texture])
        self.model.tex_data[start : start + pixels.size] = pixels.reshape(-1)
        self._outdated = set(self._renderers)

    def objects(self) -> dict[str, tuple[list[float], list[float]]]:
        """Return position in m and orientation (w, x, y, z) of every named body that stands in the world by itself."""
        found = {}
        for body in range(1, self.model.nbody):
            name = self.model.body(body).name
            if name and self.model.body_parentid[body] == 0:
                found[name] = (self.data.xpos[body].tolist(), self.data.xquat[body].tolist())
        return found

    def cameras(self) -> tuple[str, ...]:
        """Return the names of the model's cameras."""
        return tuple(self.model.camera(i).name for i in range(self.model.ncam))

    def render(self, camera: str = "film", width: int = 640, height: int = 480) -> Image:
        """Return a camera's picture as height x width x 3, RGB.

        Raises SimWorldError for an unknown camera, or when MuJoCo finds no way to render.
        """
        if camera not in self.cameras():
            raise SimWorldError(f"there is no camera '{camera}'; the cameras are {', '.join(self.cameras())}")
        size = (width, height)
        if size not in self._renderers:
            # A buffer as large as the model allows would take 12 MB more, and a scene of the default size 10 MB.
            self.model.vis.global_.offwidth, self.model.vis.global_.offheight = size
            shown = self.model.ngeom + self.model.nsite + self.model.nwrap + DECORATIONS
            try:
                self._renderers[size] = mujoco.Renderer(self.model, height=height, width=width, max_geom=shown)
            except Exception as error:
                raise SimWorldError(
                    f"MuJoCo cannot render with MUJOCO_GL={os.environ.get('MUJOCO_GL', '')!r} ({error}); "
                    "install libegl1 and libgl1-mesa-dri, or libosmesa6 and set MUJOCO_GL=osmesa"
                ) from error
        renderer = self._renderers[size]
        if size in self._outdated:
            self._outdated.remove(size)
            if renderer._gl_context is not None:
                renderer._gl_context.make_current()
            mujoco.mjr_uploadTexture(self.model, renderer._mjr_context, self.face_texture)
        renderer.update_scene(self.data, camera)
        return np.array(renderer.render(), dtype=np.uint8)

    def close(self) -> None:
        """Free the renderers."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()
