# SPDX-License-Identifier: Apache-2.0
"""A team's configuration: the robots that one planner plans for, read from `config/teams/<name>.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from skill_kernel.config.sections import Section, shaped
from skill_kernel.robot import load_file

_NAME = r"[A-Za-z_]\w*"
_Namespace = Annotated[str, shaped(rf"{_NAME}(/{_NAME})*", "not a robot's namespace, such as 'hebe'")]


class TeamConfig(Section):
    """Robots that are planned for together. `robots` gives by the namespace of each its name in config/robots, or the path of
    its YAML file; `strategy` is the default one; `people` those who may be asked, a name in config/people or a path."""

    name: Annotated[str, shaped(_NAME, "not a name of letters, digits and underscores")]
    robots: Annotated[dict[_Namespace, str], Field(min_length=1)]
    strategy: str = ""
    people: str = ""

    @classmethod
    def load(cls, name_or_path: str | Path) -> TeamConfig:
        """Read a team by its name or by the path of a YAML file. Raises RobotConfigError as `load_file` does."""
        return load_file(cls, name_or_path, "team")[0]
