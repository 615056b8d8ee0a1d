# SPDX-License-Identifier: Apache-2.0
"""Tell what a robot's body can do, as its YAML file and its URDF say: how it moves, how far it reaches, what it lifts and
where it knows its way."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from skill_kernel.robot import ArmConfig, RobotConfig, RobotConfigError

GRAVITY = 9.81


@dataclass(frozen=True)
class Abilities:
    """Hold what a body can do; 0 and nothing where nobody says.

    `speed_m_s` is how fast it goes, 0 for one that is fixed; `radius_m` that of the circle around its base. `reach_m` is how
    far its longest arm reaches from the shoulder, `payload_kg` what the strongest holds with the arm stretched out level.
    `places` are those of the map that it knows.
    """

    speed_m_s: float = 0.0
    radius_m: float = 0.0
    arms: int = 0
    reach_m: float = 0.0
    payload_kg: float = 0.0
    places: tuple[str, ...] = ()

    def shown(self) -> dict[str, Any]:
        """Return what is known as prompts show it."""
        known = {name: value for name, value in vars(self).items() if value or name in ("speed_m_s", "arms")}
        return {name: list(value) if name == "places" else value for name, value in known.items()}


def abilities_of(robot: RobotConfig) -> Abilities:
    """Return the abilities of a robot. Its URDF lies beside its model; a file that is not there or no XML tells nothing."""
    base, arms = robot.base, [_arm(_urdf(robot), arm) for arm in robot.arms.values()]
    return Abilities(
        speed_m_s=base.max_forward if base is not None else 0.0,
        radius_m=base.radius if base is not None else 0.0,
        arms=len(arms),
        reach_m=round(max((reach for reach, _ in arms), default=0.0), 2),
        payload_kg=round(max((payload for _, payload in arms), default=0.0), 1),
        places=tuple(dict.fromkeys((*robot.waypoints, *robot.rooms))),
    )


@dataclass(frozen=True)
class _Joint:
    """Hold what a joint's limits allow: N·m, m, and kg of the link that it moves."""

    effort: float
    bends: bool
    """False where it turns the arm about its own length."""
    length_m: float
    """Length of what lies between it and the next."""
    mass_kg: float


def _urdf(robot: RobotConfig) -> ElementTree.Element | None:
    try:
        path: Path = robot.model_path().with_suffix(".urdf")
        return ElementTree.parse(path).getroot()
    except (RobotConfigError, OSError, ElementTree.ParseError):
        return None


def _arm(urdf: ElementTree.Element | None, arm: ArmConfig) -> tuple[float, float]:
    """Return reach [m] and payload [kg] of an arm."""
    if urdf is None:
        return 0.0, 0.0
    named = {str(joint.get("name")): joint for joint in urdf.findall("joint")}
    masses = {str(link.get("name")): _numbers(link, "inertial/mass", "value", "0")[0] for link in urdf.findall("link")}
    chain = [named[name] for name in (*arm.joints, arm.fingers[0]) if name in named]
    joints = [_joint(one, next_, masses) for one, next_ in zip(chain, chain[1:], strict=False)]
    payload = math.inf
    for i, joint in enumerate(joints):
        far, weight = 0.0, 0.0
        for link in joints[i:]:
            weight += link.mass_kg * (far + link.length_m / 2)
            far += link.length_m
        if joint.bends and joint.effort and far:
            payload = min(payload, joint.effort / (GRAVITY * far) - weight / far)
    return sum(joint.length_m for joint in joints), max(0.0, payload) if math.isfinite(payload) else 0.0


def _joint(joint: ElementTree.Element, further: ElementTree.Element, masses: Mapping[str, float]) -> _Joint:
    along, axis = _numbers(further, "origin", "xyz", "0 0 0"), _numbers(joint, "axis", "xyz", "1 0 0")
    length = math.hypot(*along)
    turns = length > 0 and abs(sum(a * b for a, b in zip(along, axis, strict=False))) > 0.9 * length * math.hypot(*axis)
    child = joint.find("child")
    return _Joint(
        effort=_numbers(joint, "limit", "effort", "0")[0],
        bends=not turns,
        length_m=length,
        mass_kg=masses.get(str(child.get("link")) if child is not None else "", 0.0),
    )


def _numbers(element: ElementTree.Element, path: str, key: str, default: str) -> list[float]:
    found = element.find(path)
    try:
        return [float(number) for number in (found.get(key, default) if found is not None else default).split()]
    except ValueError:
        return [float(number) for number in default.split()]
