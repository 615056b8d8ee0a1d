# SPDX-License-Identifier: Apache-2.0
"""CoCo in simulation for unit tests: runs a skill in virtual time and measures what it did."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lockstep import SimDrivers, SimStop
from sim_probe import joint_targets, tilt

from ghostshell_ros.robots.coco.body import CocoBody
from ghostshell_ros.sim.world import SimWorld
from skill_kernel import SkillReturn
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

NEVER = float("inf")


@lru_cache(maxsize=1)
def config() -> RobotConfig:
    return RobotConfig.load("coco")


@lru_cache(maxsize=1)
def registry() -> SkillRegistry:
    return SkillRegistry.from_modules(config().skills, text_skill=config().text_skill)


@lru_cache(maxsize=1)
def _world() -> SimWorld:
    return SimWorld(config().model)


@dataclass(frozen=True)
class Measured:
    """Hold the measures of one run. Lengths in cm, angles in degrees, times in s; `yaw` is not wrapped."""

    result: SkillReturn
    seconds: float
    nominal_s: float
    stop_bound_s: float
    forward: float
    sideways: float
    yaw: float
    height: float
    roll: float
    pitch: float
    peak_tilt: float
    peak_roll: float
    least_roll: float
    peak_pitch: float
    least_pitch: float
    end_tilt: float
    beyond_limits: float
    peak_speed: float


class CocoSim:
    """CoCo at rest on the desk. The world is shared and reset, because loading it is what takes time."""

    def __init__(self, *, with_odometry: bool = True) -> None:
        self.world = _world()
        self.world.reset()
        self.drivers = SimDrivers(
            self.world, config().joints, with_odometry=with_odometry, observe=lambda world: self._observe()
        )
        self.body = CocoBody(**{name: self._part(name, part) for name, part in self.drivers.parts().items()})
        self._clear()

    def run(self, skill_name: str, /, *, stop_after: float = NEVER, until_reset: bool = False, **arguments: Any) -> Measured:
        """Run a skill, with its defaults where `arguments` says nothing, and stop it `stop_after` seconds in."""
        skill = registry().get(skill_name)
        assert skill is not None, skill_name
        given = {n: p.default for n, p in skill.signature.parameters.items() if p.default is not p.empty}
        given.update(arguments)
        injected = {"body": self.body, "stop_evt": SimStop(self.world, self.world.time + stop_after)}
        if "until_reset" in skill.injected:
            injected["until_reset"] = until_reset
        self._clear()
        started, before = self.world.time, self.world.robot.base().pose
        result = skill.function(**given, **injected)
        after, seconds = self.world.robot.base(), self.world.time - started
        self._observe()
        dx, dy = after.pose.x - before.x, after.pose.y - before.y
        forward = dx * math.cos(before.yaw) + dy * math.sin(before.yaw)
        sideways = dy * math.cos(before.yaw) - dx * math.sin(before.yaw)
        deg = math.degrees
        return Measured(
            result,
            seconds,
            skill.nominal_for(given),
            skill.stop_bound_s(given),
            forward * 100,
            sideways * 100,
            deg(self._yaw),
            after.height * 100,
            deg(after.roll),
            deg(after.pitch),
            deg(self._tilt),
            deg(max(self._rolls)),
            deg(min(self._rolls)),
            deg(max(self._pitches)),
            deg(min(self._pitches)),
            deg(tilt(self.world)),
            self._beyond,
            self._speed,
        )

    def _part(self, name: str, part: Any) -> Any:
        """Return an action through its name, so that a test may put something else in its place."""
        return part if name in ("senses", "memory") else lambda **goal: getattr(self.drivers, name)(**goal)

    def settle(self, seconds: float = 0.5) -> None:
        """Let the world go on with the set-points as they are."""
        self.world.advance(seconds)

    def _clear(self) -> None:
        base = self.world.robot.base()
        self._yaw, self._last_yaw = 0.0, base.pose.yaw
        self._tilt, self._beyond, self._speed = tilt(self.world), 0.0, 0.0
        self._rolls, self._pitches = [base.roll], [base.pitch]
        self._targets = joint_targets(self.world)

    def _observe(self) -> None:
        base, limits = self.world.robot.base(), config().joints
        turned = base.pose.yaw - self._last_yaw
        self._yaw += math.atan2(math.sin(turned), math.cos(turned))
        self._last_yaw = base.pose.yaw
        self._tilt = max(self._tilt, tilt(self.world))
        self._rolls.append(base.roll)
        self._pitches.append(base.pitch)
        for joint, position in self.world.robot.joint_positions().items():
            over = max(position - limits[joint].upper, limits[joint].lower - position)
            self._beyond = max(self._beyond, over)
        targets = joint_targets(self.world)
        change = max(abs(targets[j] - self._targets[j]) for j in targets)
        self._speed = max(self._speed, change / 0.02)
        self._targets = targets
