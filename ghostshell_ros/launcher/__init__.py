# SPDX-License-Identifier: Apache-2.0
"""The launch runner: starts the project's XML launch files where launch_ros is missing, and imports no ROS."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ghostshell_ros.launcher import ament, launch_file
from ghostshell_ros.launcher.launch_file import DeclaredArgument
from ghostshell_ros.launcher.runner import Event, Exited, LaunchRun, Output, Report, Started
from ghostshell_ros.launcher.specs import InlineParameters, LaunchError, ProcessSpec

__all__ = [
    "PACKAGE",
    "DeclaredArgument",
    "Event",
    "Exited",
    "InlineParameters",
    "LaunchError",
    "LaunchRun",
    "Output",
    "ProcessSpec",
    "Report",
    "Started",
    "declared_arguments",
    "describe",
    "find_launch_file",
]

PACKAGE = "ghostshell"


def describe(
    path: str | os.PathLike[str], arguments: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> list[ProcessSpec]:
    """Return the processes that the launch file starts with these arguments, in its order.

    `path` is a file, or the name of one in the package's launch folder; `environment` defaults to the process's
    own. Raises LaunchError, whose message names file, line, cause and remedy.
    """
    surroundings = os.environ if environment is None else environment
    return launch_file.describe(find_launch_file(path, surroundings), arguments, surroundings)


def declared_arguments(path: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> list[DeclaredArgument]:
    """Return the arguments that the launch file declares; `path` and `environment` as in `describe`."""
    return launch_file.declared_arguments(find_launch_file(path, os.environ if environment is None else environment))


def find_launch_file(name: str | os.PathLike[str], environment: Mapping[str, str]) -> Path:
    """Return the file called `name`, or the package's launch file of that name with or without `.launch.xml`.

    Raises LaunchError, which lists the existing files, when there is neither.
    """
    path = Path(name)
    if path.is_file():
        return path
    if path.name != str(path):
        raise LaunchError(f"there is no launch file '{path}'")
    folder = ament.package_share(PACKAGE, environment) / "launch"
    for candidate in (folder / path.name, folder / f"{path.name}.launch.xml"):
        if candidate.is_file():
            return candidate
    there = ", ".join(sorted(file.name for file in folder.glob("*.launch.xml"))) or "none"
    raise LaunchError(f"there is no launch file '{path}' here nor in '{folder}'; there: {there}")
