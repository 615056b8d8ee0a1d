# SPDX-License-Identifier: Apache-2.0
"""A robot's configuration: its skills, body, subsystems, limits and joints, read from `config/robots/<name>.yaml`."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from skill_kernel.config.observation import FieldConfig, FieldName, RoomConfig, checked_fields, default_fields
from skill_kernel.config.sections import Positive, Section, nearest, shaped, shown
from skill_kernel.config.yaml_text import Record, RecordError, checked, is_file, read_mapping

PACKAGE = "ghostshell"
"""Name of the ROS package, below whose share folder the installed configuration lies."""

_SOURCE = Path(__file__).resolve().parents[1]
_NAME = r"[A-Za-z_]\w*"
_ROS_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_MODULE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
_POSE_FIELD = re.compile(r"\{(x_m|y_m|yaw_deg)(:\d?(\.\d)?[fg]?)?\}")


class RobotConfigError(ValueError):
    """A robot's or team's configuration is missing or wrong; the message names file, key and the nearest valid key."""


def _ordered_range(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError(f"the first number {value[0]} must not exceed the second {value[1]}")
    return value


_Module = Annotated[str, shaped(_MODULE, "not a module's dotted name")]
_ClassPath = Annotated[str, shaped(rf"({_MODULE}:{_NAME})?", "not a class written as 'module:Class'")]
_NodeName = Annotated[str, shaped(_ROS_NAME, "not a node's name of plain letters, digits and underscores")]
_ActionName = Annotated[str, shaped(_ROS_NAME, "not an action's name of plain letters, digits and underscores")]
_ActionType = Annotated[str, shaped(r"[a-z]\w*/action/[A-Z]\w*", "not an interface written as 'package/action/Name'")]
AnswerKind: TypeAlias = Literal["stream", "first", "plan", "steps", "console"]
_Range = Annotated[tuple[float, float], AfterValidator(_ordered_range)]


def _empty(value: Any) -> Any:
    return {} if value is None else value


class SubsystemConfig(Section):
    """Describe a physical resource (TypeGo 5.1): whether several processes may use it, and several calls at a time."""

    exclusive_per_process: bool
    parallel: bool


class BaseConfig(Section):
    """Limits of a mobile base at the gate: speeds in m/s and rad/s, accelerations in m/s² and rad/s², lengths in m.

    `radius` is that of the circle around the base; obstacles nearer than `stop_distance` to its edge stop motion towards
    them, within `slow_distance` they slow it. `cruise_…` are the speeds drivers use unless told otherwise. A free straight
    way of at most `straight` is gone without turning first, sideways or backwards, by a base with `max_lateral` that sees all
    around. `laser` is the pose of the scan's frame in base_link: x, y [m] and yaw [rad].
    """

    max_forward: Positive
    max_backward: Positive
    max_lateral: Annotated[float, Field(ge=0)] = 0.0
    max_turn: Positive
    max_acceleration: Positive
    max_turn_acceleration: Positive
    cruise_linear: Positive
    cruise_turn: Positive
    radius: Positive
    straight: Annotated[float, Field(ge=0)] = 0.0
    subsystems: tuple[str, ...] = ("movement",)
    """Those that skills which move the base hold; an operator who takes the base takes them."""
    scan: bool = False
    """True for a base with a lidar, without which it must not move."""
    stop_distance: Positive = 0.15
    slow_distance: Positive = 0.6
    laser: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @model_validator(mode="after")
    def _distances(self) -> BaseConfig:
        if not self.stop_distance < self.slow_distance:
            raise ValueError(f"stop_distance {self.stop_distance} must be less than slow_distance {self.slow_distance}")
        if self.straight and not self.max_lateral:
            raise ValueError(f"straight {self.straight} needs a base that moves sideways; give max_lateral, or leave it out")
        return self


class DriverConfig(Section):
    """A node that serves actions for the robot's body.

    `node` is its class, which the drivers' process starts under the entry's name; empty for a node that the robot starts
    itself. `actions` gives the interface of each action by its name, `parameters` what to set of the node's parameters.
    """

    node: _ClassPath = ""
    actions: Annotated[dict[_ActionName, _ActionType], Field(min_length=1)]
    parameters: Annotated[dict[str, Any], BeforeValidator(_empty)] = Field(default_factory=dict)


class WaypointConfig(Section):
    """A named place in the map frame: metres and radians."""

    x: float
    y: float
    yaw: float = 0.0
    description: str = ""


class ArmConfig(Section):
    """An arm: its joints in order, the site of the model that lies between its finger tips, the joints of its fingers (0 is
    shut, in m), and the MJCF of what stands around it."""

    joints: Annotated[list[str], Field(min_length=1)]
    hand: str
    fingers: Annotated[list[str], Field(min_length=1)]
    surroundings: str = ""


class JointConfig(Section):
    """Range and rest position of a joint in rad, largest speed in rad/s."""

    lower: float
    upper: float
    max_velocity: Annotated[float, Field(gt=0)]
    rest: float = 0.0

    @model_validator(mode="after")
    def _ordered(self) -> JointConfig:
        if not self.lower < self.upper:
            raise ValueError(f"lower {self.lower} must be less than upper {self.upper}")
        if not self.lower <= self.rest <= self.upper:
            raise ValueError(f"rest {self.rest} must lie between lower {self.lower} and upper {self.upper}")
        return self


def _way_back(value: str) -> str:
    if set("{}") & set(_POSE_FIELD.sub("", value)):
        raise ValueError(f"'{shown(value)}' may hold {{x_m}}, {{y_m}} and {{yaw_deg}} in braces and no other")
    return value


WRAPPERS = ("response", "answer", "output", "result", "root", "xml", "actions", "sequence", "steps", "plan")
"""Tags with which models wrap an answer; what is inside counts as if they were not there, unless a skill has the name."""


class RobotConfig(Section):
    """One robot. `limits` bounds what `Limited` parameters may become; `joints` bounds every joint set-point."""

    name: Annotated[str, shaped(_NAME, "not a name of letters, digits and underscores")]
    description: str = ""
    skills: Annotated[list[_Module], Field(min_length=1)]
    body: _ClassPath = ""
    text_skill: str = ""
    builtin_names: Annotated[dict[str, str], BeforeValidator(_empty)] = Field(default_factory=dict)
    wrappers: tuple[str, ...] = WRAPPERS
    subsystems: Annotated[dict[str, SubsystemConfig], Field(min_length=1)]
    drivers: Annotated[dict[_NodeName, DriverConfig], BeforeValidator(_empty)] = Field(default_factory=dict)
    """The nodes that serve the body's actions, by name."""
    limits: Annotated[dict[str, _Range], BeforeValidator(_empty)] = Field(default_factory=dict)
    joints: Annotated[dict[str, JointConfig], BeforeValidator(_empty)] = Field(default_factory=dict)
    model: str = ""
    base: BaseConfig | None = None
    arms: Annotated[dict[str, ArmConfig], BeforeValidator(_empty)] = Field(default_factory=dict)
    waypoints: Annotated[dict[str, WaypointConfig], BeforeValidator(_empty)] = Field(default_factory=dict)
    rooms: Annotated[dict[str, RoomConfig], BeforeValidator(_empty)] = Field(default_factory=dict)
    """Named areas of the map; the first one that holds the robot is the room it is in."""
    observation: Annotated[dict[FieldName, FieldConfig], BeforeValidator(_empty), AfterValidator(checked_fields)] = Field(
        default_factory=default_fields
    )
    idle: str = ""
    """Instruction of the idle process, which runs whenever nothing else does; empty for none."""
    first_actions: tuple[str, ...] = ()
    """Skills with which a process may begin before it is planned: safe, reversible, and promising nothing; empty for none."""
    examples: Annotated[dict[AnswerKind, dict[str, str]], BeforeValidator(_empty)] = Field(default_factory=dict)
    """Answers that prompts show, by what they answer: whole streams, first actions, plans of System 2, steps of System 1, and
    whole interactions at a console by a name of their own."""
    resume_motion: Annotated[str, AfterValidator(_way_back)] = ""
    """Call that brings the robot to where it stood, with {x_m}, {y_m} and {yaw_deg} of its pose; empty for none."""
    _folder: Path = PrivateAttr(default_factory=Path)
    """Where its file lies."""

    @field_validator("drivers")
    @classmethod
    def _one_driver_an_action(cls, drivers: dict[str, DriverConfig]) -> dict[str, DriverConfig]:
        served: dict[str, str] = {}
        for name, driver in drivers.items():
            for action in driver.actions:
                if action in served:
                    raise ValueError(f"'{served[action]}' and '{name}' both serve the action '{action}'; leave it to one")
                served[action] = name
        return drivers

    @property
    def actions(self) -> dict[str, str]:
        """Return the interface of each action that a driver serves, by the action's name."""
        return {name: kind for driver in self.drivers.values() for name, kind in driver.actions.items()}

    @field_validator("base")
    @classmethod
    def _base_is_held(cls, base: BaseConfig | None, others: ValidationInfo) -> BaseConfig | None:
        known = others.data.get("subsystems", {})
        wrong = [name for name in base.subsystems if name not in known] if base is not None and known else []
        if wrong:
            raise ValueError(
                f"its subsystems name '{wrong[0]}', which is not among the robot's ({', '.join(known)}); name those that "
                "skills which drive hold, or no operator could take the base from them"
            )
        return base

    @classmethod
    def load(cls, name_or_path: str | Path) -> RobotConfig:
        """Read a robot by its name (from the source tree or the installed share) or by the path of a YAML file.

        The folder of a file given by its path joins the import path, at its end, so that the modules in `skills` and
        `body` may lie beside the file and yet hide no other module. Raises RobotConfigError, in one sentence that
        names the file, the key and the nearest valid key.
        """
        robot, path = load_file(cls, name_or_path, "robot")
        robot._folder = path.resolve().parent
        if _is_path(name_or_path) and str(robot._folder) not in sys.path:
            sys.path.append(str(robot._folder))
        return robot

    def load_body(self) -> Any:
        """Import the class named by `body`. Raises RobotConfigError when the module or the class is not there."""
        if not self.body:
            raise RobotConfigError(f"robot '{self.name}' names no body; set body: 'module:Class' in its file")
        return self._imported(self.body, "body")

    def load_drivers(self) -> dict[str, Any]:
        """Import the class of each driver that has one, by the driver's name. Raises RobotConfigError."""
        return {name: self._imported(d.node, f"driver {name}") for name, d in self.drivers.items() if d.node}

    def _imported(self, path: str, what: str) -> Any:
        module, _, name = path.partition(":")
        try:
            found = import_module(module)
        except (Exception, SystemExit) as error:
            why = error if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
            raise RobotConfigError(f"{what} '{path}' of robot '{self.name}' cannot be imported ({why})") from error
        try:
            return getattr(found, name)
        except AttributeError as error:
            near = nearest(name, (one for one, kind in vars(found).items() if isinstance(kind, type)))
            raise RobotConfigError(f"module '{module}' has no class '{name}' ({what} of robot '{self.name}'){near}") from error

    def model_path(self) -> Path:
        """Return where the MuJoCo model lies. Raises RobotConfigError when the robot names none or it is not there."""
        if not self.model:
            raise RobotConfigError(f"robot '{self.name}' names no model; set model: in its file")
        return self.file(self.model, "model")

    def file(self, name: str, what: str) -> Path:
        """Return where a file that the robot names lies: beside its own file, or of those that are shipped.

        Raises RobotConfigError when it is not there.
        """
        tried = [Path(name)] if Path(name).is_absolute() else []
        if not tried:
            tried = [self._folder / name, _SOURCE / "ghostshell_ros" / name, *(share / name for share in _shares())]
        for path in tried:
            if is_file(path):
                return path
        raise RobotConfigError(f"{what} of robot '{self.name}' not found; looked for {', '.join(map(str, tried))}")


FileKind: TypeAlias = Literal["robot", "team", "people"]
"""Kinds of YAML files; those that are shipped lie in a folder for each."""


def load_file(model: type[Record], name_or_path: str | Path, kind: FileKind) -> tuple[Record, Path]:
    """Read a YAML file by its name (from the source tree or the installed share) or by its path; return what it holds, and
    where it lies. Raises RobotConfigError, in one sentence that names the file, the key and the nearest valid key."""
    path = find_file(name_or_path, kind)
    try:
        return checked(model, read_mapping(path, strict=False), path), path
    except RecordError as error:
        raise RobotConfigError(f"{kind} file {error}") from error


def find_file(name_or_path: str | Path, kind: FileKind = "robot") -> Path:
    """Return a YAML file by its name or path. Raises RobotConfigError with the nearest known name."""
    text = str(name_or_path)
    if _is_path(text):
        path = Path(os.path.expanduser(text))
        if is_file(path):
            return path
        why = "is a folder; name the YAML file in it" if os.path.isdir(path) else "does not exist"
        raise RobotConfigError(f"{kind} file {shown(path, 300)} {why}")
    files = _shipped(kind if kind == "people" else f"{kind}s")
    if text in files:
        return files[text]
    known = sorted(files)
    raise RobotConfigError(f"there is no {kind} '{shown(text)}'{nearest(text, known)} (known: {', '.join(known) or 'none'})")


def shipped_robots() -> dict[str, Path]:
    """Return the YAML files of the robots that are known by their names."""
    return _shipped("robots")


def _shipped(kind: str) -> dict[str, Path]:
    folders = [_SOURCE / "config" / kind, *(share / "config" / kind for share in _shares())]
    return {path.stem: path for folder in reversed(folders) for path in folder.glob("*.yaml")}


def _is_path(name_or_path: str | Path) -> bool:
    text = str(name_or_path)
    return text.endswith((".yaml", ".yml")) or os.sep in text


def _shares() -> list[Path]:
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    return [Path(prefix) / "share" / PACKAGE for prefix in prefixes if prefix]
