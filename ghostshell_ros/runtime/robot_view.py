# SPDX-License-Identifier: Apache-2.0
"""Show strategies the robot of a planning node: the `RobotView` of the seam."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from function_tokens.mapper import Refusal, Wrapper
from ghostshell_ros.runtime.node_runtime import RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from ghostshell_ros.runtime.scene import Scene
from planners.models.base import Image
from planners.prompts.robot_facts import RobotFacts, SystemPrompts
from skill_kernel.observation.model import Observation


class SceneView:
    """View a robot by what its node hears."""

    def __init__(self, node: RuntimeNode, robot: RobotSetup, scene: Scene) -> None:
        self._node, self._robot, self._scene = node, robot, scene
        self.about, self.routines = robot.facts(), robot.routines
        self._prompts = SystemPrompts(self.about, lambda: robot.registry.version)

    def observation(self) -> Observation | None:
        """Return the newest observation, however old."""
        return self._scene.seen()

    def observed(self) -> Mapping[str, Any] | None:
        """Return the observation as prompts show it."""
        return self._scene.observation()

    def state(self) -> Mapping[str, Any]:
        """Return the pose and the busy subsystems."""
        return self._scene.state()

    def images(self) -> Sequence[Image]:
        """Return the camera's last image."""
        return self._scene.images()

    def steady_now(self) -> float:
        """Return the time that observations are stamped with [s]."""
        return self._node.steady_now()

    def now_s(self) -> float:
        """Return ROS time [s]."""
        return self._scene.now_s()

    def check(self, name: str, attributes: Mapping[str, str]) -> str:
        """Return what is wrong with a call."""
        mapped = self._robot.mapper.map(name, attributes)
        if isinstance(mapped, Wrapper):
            return f"there is no function '{name}'"
        return mapped.message if isinstance(mapped, Refusal) else ""

    def system_prompt(self, make: Callable[[RobotFacts], str]) -> str:
        """Return what `make` makes of the robot."""
        return self._prompts.of(make)
