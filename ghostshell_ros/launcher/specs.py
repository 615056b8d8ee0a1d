# SPDX-License-Identifier: Apache-2.0
"""Describe the processes of a launch file, ready to start, and find their packages as ament's index lays them out."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class LaunchError(Exception):
    """A launch file or its arguments cannot be started as they are; the message names place, cause and remedy."""

    def __init__(self, message: str, place: str | None = None) -> None:
        """`place` is the launch file and its line."""
        super().__init__(f"{place}: {message}" if place else message)


@dataclass(frozen=True)
class InlineParameters:
    """Parameters written into the launch file; a process gets them as a YAML file of its own."""

    node: str
    """Full name of the node, or `/**` when its name or namespace is not given."""
    values: Mapping[str, Any]

    def to_yaml(self) -> str:
        """Return the text of a parameter file as rcl reads it."""
        text: str = yaml.safe_dump({self.node: {"ros__parameters": dict(self.values)}}, default_flow_style=False)
        return text


@dataclass(frozen=True)
class ProcessSpec:
    """One process to start."""

    name: str
    """Label in the output: the executable's name and a running number, from 1."""
    command: tuple[str | InlineParameters, ...]
    environment: Mapping[str, str]
    respawn: bool = False
    respawn_delay_s: float = 0.0
    respawn_max_retries: int = -1
    """Number of times that it is started again; negative: without limit."""
    shutdown_on_exit: bool = False
    """True for a process with whose end everything ends."""
    sigterm_timeout_s: float = 5.0
    """From SIGINT to SIGTERM."""
    sigkill_timeout_s: float = 5.0
    """From SIGTERM to SIGKILL."""

    def argv(self, folder: Path) -> list[str]:
        """Return the command line, with inline parameters written to files in `folder`."""
        words: list[str] = []
        for position, word in enumerate(self.command):
            if isinstance(word, InlineParameters):
                file = folder / f"{self.name}-{position}.yaml"
                file.write_text(word.to_yaml(), encoding="utf-8")
                words.append(str(file))
            else:
                words.append(word)
        return words


_MARKERS = Path("share", "ament_index", "resource_index", "packages")


def package_prefix(package: str, environment: Mapping[str, str]) -> Path:
    """Return the first prefix on AMENT_PREFIX_PATH that holds `package`; raises LaunchError when none does."""
    prefixes = [Path(part) for part in environment.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if part]
    if not prefixes:
        raise LaunchError(
            f"package '{package}' cannot be looked up: AMENT_PREFIX_PATH is empty; "
            "source install/setup.bash, or start through ./ghostshell"
        )
    for prefix in prefixes:
        if package and (prefix / _MARKERS / package).is_file():
            return prefix
    searched = os.pathsep.join(str(prefix) for prefix in prefixes)
    debian = f"ros-jazzy-{package.replace('_', '-')}"
    raise LaunchError(
        f"package '{package}' is not in AMENT_PREFIX_PATH ({searched}); build it, install it where it is one of ROS's own "
        f"(sudo apt install {debian}), or correct its name"
    )


def package_executable(package: str, executable: str, environment: Mapping[str, str]) -> Path:
    """Return the executable in the package's lib folder; raises LaunchError when there is none."""
    folder = package_prefix(package, environment) / "lib" / package
    found = shutil.which(executable, path=str(folder))
    if found is None:
        there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        raise LaunchError(
            f"executable '{executable}' is not in '{folder}'; "
            f"there: {', '.join(there) or 'nothing'}; build the package again if it is new"
        )
    return Path(found)
