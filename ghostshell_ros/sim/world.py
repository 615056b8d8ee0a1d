# SPDX-License-Identifier: Apache-2.0
"""Simulate robots in their surroundings in MuJoCo, without ROS: step, read and render them. Deterministic."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ghostshell_ros.sim.robot import START, SimRobot
from ghostshell_ros.sim.robot import SimWorldError as SimWorldError

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

FIRST_BIT = 4
"""Of several robots each touches the others by a bit of its own from this on; the models use those below."""
HANDLE = "_handle"
"""End of the name of a site that is a door's handle, after the name of the door and its joint."""

Image = npt.NDArray[np.uint8]
State = npt.NDArray[np.float64]
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


class SimWorld:
    """Step, read and render one robot or several in one of `WORLDS`.

    One thread at a time may use it and its robots. Rendering must stay on the thread that rendered first, because a GL
    context belongs to a thread.
    """

    def __init__(self, models: str | Path | Mapping[str, str | Path], *, world: str = "desk") -> None:
        """Load a robot's model, or those of several by their names, and put them into `world`: one of `WORLDS`, or an MJCF's
        absolute path ("" for nothing).

        Models are absolute, or relative to `ROOT`. All that belongs to one of several robots is named `<robot>/<name>`; they
        touch each other, and the model with the least timestep says how physics is computed. Each stands where its model does,
        measured from the world's site `<robot>_start` if there is one. Raises SimWorldError if there is no such file or world,
        if it does not compile, or if a robot has no base (see SimRobot).
        """
        named = models if isinstance(models, Mapping) else {"": models}
        paths = {name: Path(model) if Path(model).is_absolute() else ROOT / model for name, model in named.items()}
        for path in paths.values():
            if not path.is_file():
                raise SimWorldError(f"there is no model '{path}'; name it absolutely or below {ROOT}")
        surroundings = Path(world) if Path(world).is_absolute() else WORLDS / f"{world}.xml"
        if world and not surroundings.is_file():
            known = ", ".join(sorted(p.stem for p in WORLDS.glob("*.xml")))
            raise SimWorldError(f"there is no world '{world}'; the worlds are {known}")
        shown = ", ".join(f"'{path}'" for path in paths.values())
        try:
            self.model = _compiled(paths, surroundings if world else None)
        except ValueError as error:
            raise SimWorldError(f"model {shown} does not compile: {error}") from error
        self.data = mujoco.MjData(self.model)
        try:
            self.robots = {name: SimRobot(self.model, self.data, name) for name in paths}
        except SimWorldError as error:
            raise SimWorldError(f"model {shown} cannot be used: {error}") from error
        self.robot = next(iter(self.robots.values()))
        """The first robot, which is the only one of most worlds."""
        self._still_s = 0.0
        self._asleep: State | None = None
        """The inputs and positions with which everything had come to rest; None while something moves."""
        self._attached: list[tuple[Callable[[float], None], Callable[[], None]]] = []
        self._control_steps = max(1, round(CONTROL_S / self.timestep))
        self._renderers: dict[tuple[int, int], mujoco.Renderer] = {}
        self._outdated: dict[tuple[int, int], set[int]] = {}
        """Textures of faces that the renderer of a size has not loaded anew."""
        self.reset()

    @property
    def time(self) -> float:
        """Return the seconds of simulated time since the last reset."""
        return float(self.data.time)

    @property
    def timestep(self) -> float:
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
        for robot in self.robots.values():
            robot.reset()
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

    def wake(self) -> None:
        """Compute forces anew, because something else than inputs and positions was changed."""
        self._asleep, self._still_s = None, 0.0

    def _given(self) -> State:
        """Return all inputs and positions."""
        data = self.data
        return np.concatenate((data.ctrl, data.xfrc_applied.ravel(), self.appearance()))

    def advance(self, dt: float) -> None:
        """Advance by `dt` seconds, rounded to whole steps."""
        self.step(max(0, round(dt / self.timestep)))

    def set_face(self, image: Image, robot: str = "") -> None:
        """Show an image (height x width x 3, any size) on a robot's display. A robot without a display shows none."""
        texture = self.robots[robot].face_texture
        if texture is None:
            return
        width, height = int(self.model.tex_width[texture]), int(self.model.tex_height[texture])
        rows = np.arange(height) * image.shape[0] // height
        columns = np.arange(width) * image.shape[1] // width
        pixels = image[rows][:, columns]
        start = int(self.model.tex_adr[texture])
        self.model.tex_data[start : start + pixels.size] = pixels.reshape(-1)
        for size in self._renderers:
            self._outdated.setdefault(size, set()).add(texture)

    def objects(self) -> dict[str, tuple[list[float], list[float]]]:
        """Return position in m and orientation (w, x, y, z) of every named body that stands in the world by itself, and of the
        handle of every door (a site `<door>_handle`)."""
        model, data = self.model, self.data
        found = {}
        for body in range(1, model.nbody):
            name = model.body(body).name
            if name and model.body_parentid[body] == 0:
                found[name] = (data.xpos[body].tolist(), data.xquat[body].tolist())
        turned = np.empty(4)
        for site in range(model.nsite):
            if (name := model.site(site).name).endswith(HANDLE):
                mujoco.mju_mat2Quat(turned, data.site_xmat[site])
                found[name] = (data.site_xpos[site].tolist(), turned.tolist())
        return found

    def cameras(self) -> tuple[str, ...]:
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
        for texture in self._outdated.pop(size, ()):
            if renderer._gl_context is not None:
                renderer._gl_context.make_current()
            mujoco.mjr_uploadTexture(self.model, renderer._mjr_context, texture)
        renderer.update_scene(self.data, camera)
        return np.array(renderer.render(), dtype=np.uint8)

    def close(self) -> None:
        """Free the renderers."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()


def _compiled(paths: Mapping[str, Path], surroundings: Path | None) -> mujoco.MjModel:
    """Return the model of one nameless robot, or of several by name, in its surroundings. Raises ValueError."""
    if "" in paths:
        files = [paths[""], *([surroundings] if surroundings else [])]
        return mujoco.MjModel.from_xml_string("<mujoco>" + "".join(f'<include file="{f}"/>' for f in files) + "</mujoco>")
    whole = mujoco.MjSpec.from_file(str(surroundings)) if surroundings else mujoco.MjSpec()
    parts = {name: mujoco.MjSpec.from_file(str(path)) for name, path in paths.items()}
    finest = min(parts.values(), key=lambda part: part.option.timestep)
    for setting in ("timestep", "integrator", "cone", "impratio", "noslip_iterations"):
        for spec in (whole, *parts.values()):
            setattr(spec.option, setting, getattr(finest.option, setting))
    every = sum(FIRST_BIT << i for i in range(len(parts)))
    for i, (name, part) in enumerate(parts.items()):
        for geom in part.geoms:
            if geom.contype:
                geom.contype |= FIRST_BIT << i
                geom.conaffinity |= every & ~(FIRST_BIT << i)
        start = whole.site(f"{name}{START}")
        whole.attach(
            part, prefix=f"{name}/", frame=whole.worldbody.add_frame(pos=start.pos if start is not None else (0, 0, 0))
        )
    return whole.compile()
