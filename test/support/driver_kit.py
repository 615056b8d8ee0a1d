# SPDX-License-Identifier: Apache-2.0
"""All actions, senses and the memory of a robot, as the kernel gives them to a body, with the arguments tests give in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ghostshell_ros.drivers.clients import BodyParts, MemoryCaller, RosSenses
from ghostshell_ros.runtime.node import RuntimeNode
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import DriverResult, Pose2D, joint_trajectory, map_pose


class DriverKit:
    """Made on the executor's thread or before spinning; its methods are for other threads."""

    def __init__(self, node: RuntimeNode, robot: RobotConfig, *, on_lost: Callable[[str], None] = lambda why: None) -> None:
        self.parts = BodyParts(node, robot, on_lost=on_lost)
        self._actions = {name: self.parts.action(name) for name in robot.actions}
        self._senses = RosSenses(node, robot)
        self.query_memory = MemoryCaller(node)
        self.ready = self.parts.ready
        self.parts._probe_drivers()

    def __getattr__(self, name: str) -> Any:
        return self._actions[name] if name in self._actions else getattr(self._senses, name)

    def move_joints(
        self,
        joints: Sequence[str],
        times_s: Sequence[float],
        positions: Sequence[Sequence[float]],
        *,
        stop: Any,
        tolerance_rad: float = 0.0,
    ) -> DriverResult:
        trajectory = joint_trajectory(joints, times_s, positions)
        return self._actions["move_joints"](trajectory=trajectory, goal_tolerance=tolerance_rad, stop=stop)

    def speak(self, text: str, **goal: Any) -> DriverResult:
        return self._actions["speak"](text=text, **goal)

    def play_sound(self, name: str, **goal: Any) -> DriverResult:
        return self._actions["play_sound"](name=name, **goal)

    def show_face(self, face: str, **goal: Any) -> DriverResult:
        return self._actions["show_face"](face=face, **goal)

    def set_posture(self, posture: str, **goal: Any) -> DriverResult:
        return self._actions["set_posture"](posture=posture, **goal)

    def navigate(self, *, waypoint: str = "", pose: Pose2D | None = None, **goal: Any) -> DriverResult:
        place = {"pose": map_pose(pose)} if pose is not None else {}
        return self._actions["navigate_to"](waypoint=waypoint, **place, **goal)
