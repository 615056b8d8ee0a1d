# SPDX-License-Identifier: Apache-2.0
"""A team's configuration: the robots that one planner plans for, read from `config/teams/<name>.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from skill_kernel.config.sections import Section, shaped
from skill_kernel.config.yaml_text import RecordError, checked, read_mapping
from skill_kernel.robot import RobotConfigError, find_file

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
        """Read a team by its name (from the source tree or the installed share) or by the path of a YAML file.

        Raises RobotConfigError, in one sentence that names the file, the key and the nearest valid key.
        """
        path = find_file(name_or_path, "team")
        try:
            return checked(cls, read_mapping(path, strict=False), path)
        except RecordError as error:
            raise RobotConfigError(f"team file {error}") from error
