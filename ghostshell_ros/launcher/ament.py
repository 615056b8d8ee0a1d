# SPDX-License-Identifier: Apache-2.0
"""Finds packages and their executables through AMENT_PREFIX_PATH, as ament's index lays them out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ghostshell_ros.launcher.specs import LaunchError

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
    raise LaunchError(f"package '{package}' is not in AMENT_PREFIX_PATH ({searched}); build it, or correct its name")


def package_share(package: str, environment: Mapping[str, str]) -> Path:
    """Return the share folder of `package`; raises LaunchError when the package is not found."""
    return package_prefix(package, environment) / "share" / package


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
