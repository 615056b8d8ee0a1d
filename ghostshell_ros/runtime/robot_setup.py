# SPDX-License-Identifier: Apache-2.0
"""Load a robot for a planning node: its configuration, its skills, its routines on disk."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from function_tokens.mapper import Mapper
from function_tokens.routines import RoutineStore
from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from planners.prompts.prompt import GrammarOptions, RobotFacts
from skill_kernel.abilities import abilities_of
from skill_kernel.guard.code import Vocabulary
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.skills.registry import RegistryError, SkillRegistry
from skill_kernel.skills.skill import SkillDefinitionError


@dataclass
class RobotSetup:
    """Hold a loaded robot. Nodes of one robot that share a data folder share its routines."""

    config: RobotConfig
    registry: SkillRegistry
    mapper: Mapper
    routines: RoutineStore
    _refused_version: str = ""

    def facts(self) -> RobotFacts:
        config = self.config
        return RobotFacts(
            config.name,
            config.description,
            self.registry,
            GrammarOptions(config.builtin_names, config.limits),
            accessors_of(config),
            {name: field.role for name, field in config.observation.items() if field.serialise.prompt},
            config.waypoints,
            config.first_actions,
            config.resume_motion,
            config.examples,
            abilities_of(config),
        )

    def named(self, name: str) -> RobotSetup:
        """Return it under another name, as one of several robots of one file."""
        return replace(self, config=self.config.model_copy(update={"name": name}))

    def vocabulary(self) -> Vocabulary:
        """Return what code of reflexes and conditions may name: the robot's accessors and present skills."""
        base = self.config.base.subsystems if self.config.base is not None else ()
        return Vocabulary(accessors_of(self.config), self.registry, self.config.limits, base)

    def follow(self, skills_version: str) -> str:
        """Read the skills again when the kernel has another set of them. Return why that failed, or "".

        Calls that this node makes by an old set are safe, because the kernel checks every call itself.
        """
        if skills_version in ("", self.registry.version, self._refused_version):
            return ""

        def check(new: SkillRegistry) -> None:
            if new.version != skills_version:
                raise RegistryError(f"the modules on disk give set {new.version}, the kernel has {skills_version}")
            try:
                replace(self.mapper, registry=new)
            except SkillDefinitionError as error:
                raise RegistryError(str(error)) from error

        try:
            self.registry.replace_from_modules(self.config.skills, text_skill=self.config.text_skill, check=check)
        except RegistryError as error:
            self._refused_version = skills_version
            return f"the kernel's new skills are not known here, restart this node: {error}"
        self._refused_version = ""
        return ""


def declare_robot(node: RuntimeNode) -> RobotSetup:
    """Declare the parameters `robot` and `data_dir`, and return the robot that they name. Raises NodeStartError."""
    robot = node.declare("robot", "coco", "robot, a name in config/robots or the path of a YAML file")
    return load_robot(node, robot, declare_data_dir(node))


def declare_data_dir(node: RuntimeNode) -> Path:
    """Declare the parameter `data_dir` and return the folder."""
    about = "folder for routines; empty: $GHOSTSHELL_DATA or the user's data folder"
    return data_folder(node.declare("data_dir", "", about))


def load_robot(node: RuntimeNode, robot: str, folder: Path) -> RobotSetup:
    """Return a robot by its name or the path of its file, with its routines in the data folder. Raises NodeStartError."""
    try:
        config = RobotConfig.load(robot)
        registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
        mapper = Mapper(config, registry)
    except (RobotConfigError, RegistryError, SkillDefinitionError) as error:
        raise NodeStartError(f"robot '{robot}': {error}") from error
    store = RoutineStore(folder / config.name / "routines.json", clock=time.time)
    if store.load_error is not None:
        node.get_logger().error(str(store.load_error))
    return RobotSetup(config, registry, mapper, store)
