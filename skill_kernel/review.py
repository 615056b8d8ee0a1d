# SPDX-License-Identifier: Apache-2.0
"""Review a robot's skills against its file and its body: mistakes that Python and the file's grammar let through."""

import dis
import inspect
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from skill_kernel.config.sections import nearest
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.skills.arguments import choices, opened, unknown_limits
from skill_kernel.skills.registry import RegistryError, SkillRegistry
from skill_kernel.skills.skill import MAIN, Skill, SkillDefinitionError, plain_value

UNNAMED = "default"
"""Subsystem of a skill that names none; no file has to declare it."""

FARTHEST_RAD = 4 * math.pi
"""A joint that turns farther than this was probably given in degrees."""


@dataclass(frozen=True)
class Review:
    """Hold faults, with which the robot must not be started, and remarks. Each is one sentence with its remedy."""

    faults: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def review(name_or_path: str) -> Review:
    """Return what is wrong with a robot's file, its skills and its body."""
    try:
        robot = RobotConfig.load(name_or_path)
        registry = SkillRegistry.from_modules(robot.skills, text_skill=robot.text_skill)
        body = robot.load_body() if robot.body else None
    except RobotConfigError as error:
        return Review((str(error),))
    except (RegistryError, SkillDefinitionError) as error:
        return Review((f"robot '{name_or_path}': {error}",))
    faults = [fault for skill in registry for fault in (*_undeclared(skill, robot), *_unlimited(skill, robot))]
    names = [skill.name for skill in registry]
    faults += [
        f"robot '{robot.name}': first_actions names '{name}', which is no skill{nearest(name, names, else_known=True)}"
        for name in robot.first_actions
        if name not in names
    ]
    faults += _unknown_types(robot)
    remarks = [remark for skill in registry for remark in remarks_on(skill, body)]
    return Review(tuple(faults), (*_far(robot), *_unspoken(registry), *remarks))


def _types(package: str) -> dict[str, Any]:
    """Return the action types of a package by their names; none where it is not installed."""
    try:
        return {name: kind for name, kind in vars(import_module(f"{package}.action")).items() if hasattr(kind, "Goal")}
    except ImportError:
        return {}


def _unknown_types(robot: RobotConfig) -> Iterator[str]:
    """Yield a fault for each action whose type is not installed; none where GhostShell's own are not, as without ROS."""
    for action, kind in robot.actions.items() if _types("ghostshell") else ():
        package, _, name = kind.split("/")
        if name not in (known := _types(package)):
            hint = nearest(name, known, else_known=True) if known else ": source its package, or correct the name"
            yield f"robot '{robot.name}': the action '{action}' has the type {kind}, which is not installed{hint}"


def _unlimited(skill: Skill, robot: RobotConfig) -> Iterator[str]:
    """Yield a fault for each limit that the file does not give: nothing would bound the parameter."""
    for limit in unknown_limits(skill, robot.limits):
        yield (
            f"robot '{robot.name}': skill '{skill.name}' refers to the limit '{limit}', which the robot's file does not "
            f"give{nearest(limit, robot.limits, else_known=True)}; add it under limits:, or correct the skill"
        )


def _far(robot: RobotConfig) -> Iterator[str]:
    """Yield a remark for each joint whose range looks like degrees."""
    for name, joint in robot.joints.items():
        if max(-joint.lower, joint.upper) > FARTHEST_RAD:
            yield (
                f"joint '{name}' of robot '{robot.name}' reaches from {joint.lower:g} to {joint.upper:g} rad; if these are "
                "degrees, write radians, for the safety gate enforces them as they are"
            )


def _unspoken(registry: SkillRegistry) -> Iterator[str]:
    """Yield a remark where the skill that plain text goes to refuses it: text comes as its content and alone."""
    skill = registry.text_skill
    if skill is None:
        return
    needed = [p.name for p in skill.signature.parameters.values() if p.default is p.empty and p.name != skill.content]
    if skill.content is None:
        yield f"skill '{skill.name}' is to speak plain text and takes none; annotate a parameter with Content or ContentStream"
    elif needed:
        yield f"skill '{skill.name}' refuses plain text, which comes without '{needed[0]}'; give that parameter a default"


def _undeclared(skill: Skill, robot: RobotConfig) -> Iterator[str]:
    """Yield a fault for each subsystem that the file does not declare: two skills for one part would not exclude each other."""
    known = {MAIN, UNNAMED, *robot.subsystems}
    for pattern in skill.subsystems:
        parameters = {
            name: choices(opened(skill.signature.parameters[name].annotation)[0]) for name in re.findall(r"\{(\w+)\}", pattern)
        }
        if not all(parameters.values()):  # any text may be given
            continue
        for values in itertools.product(*parameters.values()):
            name = pattern.format(**dict(zip(parameters, map(plain_value, values), strict=True)))
            if name not in known:
                yield (
                    f"robot '{robot.name}': skill '{skill.name}' uses the subsystem '{name}', which the robot's file does not "
                    f"declare{nearest(name, robot.subsystems, else_known=True)}; add it under subsystems:, or correct the skill"
                )


def remarks_on(skill: Skill, body: Any = None) -> Iterator[str]:
    """Yield what a model or a call will miss in a skill; `body` is the class of the body that it gets."""
    if not skill.description:
        yield f"skill '{skill.name}' has no docstring: say in one sentence what it does, for the model knows nothing else of it"
    written: Mapping[str, inspect.Parameter] = inspect.signature(skill.function).parameters
    for name in skill.signature.parameters:
        if written[name].annotation is inspect.Parameter.empty:
            yield f"parameter '{name}' of skill '{skill.name}' has no type and is taken as text; write '{name}: float', say"
    if isinstance(body, type) and (kept := _attributes(body)):
        for name in _used(skill.function, "body"):
            if name not in kept:
                hint = nearest(name, (one for one in kept if not one.startswith("_")))
                yield f"skill '{skill.name}' uses body.{name}, which {body.__name__} lacks{hint or '; add it to the body'}"


def _attributes(body: type) -> set[str]:
    """Return the names that an object of a class has; none where they cannot be known."""
    names = set(dir(body)).union(*(vars(base).get("__annotations__", ()) for base in body.__mro__))
    for function in (f for base in body.__mro__ for f in vars(base).values() if inspect.isfunction(f)):
        names.update(i.argval for i in dis.get_instructions(function) if i.opname == "STORE_ATTR")
        if {"setattr", "__dict__"} & set(function.__code__.co_names):
            return set()
    return set() if "__getattr__" in names else names


def _used(function: Any, parameter: str) -> dict[str, None]:
    """Return the attributes that a function takes of a parameter, as far as they stand directly behind it."""
    code = inspect.unwrap(function)
    steps = list(dis.get_instructions(code)) if inspect.isfunction(code) else []
    behind = [b for a, b in itertools.pairwise(steps) if a.opname.startswith("LOAD_FAST") and a.argval == parameter]
    return dict.fromkeys(b.argval for b in behind if b.opname in ("LOAD_ATTR", "LOAD_METHOD"))
