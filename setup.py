# SPDX-License-Identifier: Apache-2.0
"""Install the Python packages with pip, for programs without ROS; the ROS build goes through CMakeLists.txt."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Distribution, find_packages, setup

PACKAGES = ("skill_kernel", "function_tokens", "reflexes", "planners", "ghostshell_ros")


class CoresOnly(Distribution):
    """Leave out the commands of the nodes, which setup.cfg names too: without ROS only the command line can run."""

    def parse_config_files(self, *args: object, **kwargs: object) -> None:
        super().parse_config_files(*args, **kwargs)
        scripts = self.entry_points["console_scripts"]
        self.entry_points["console_scripts"] = [s for s in scripts if s.split("=")[0].strip() == "ghostshell"]


run = (Path(__file__).parent / "requirements" / "run.txt").read_text(encoding="utf-8").splitlines()
setup(
    name="ghostshell",
    version="0.1.0",
    description="Language models drive robots by streams of function tokens; without ROS: the cores, tokens and dry-run",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=[pattern for core in PACKAGES for pattern in (core, f"{core}.*")]),
    package_data={"": ["*.txt", "*.sql", "*.yaml", "*.html", "*.js", "*.css", "*.svg"]},
    install_requires=[line for line in run if line and not line.startswith("#")],
    distclass=CoresOnly,
)
print("ghostshell: installed without ROS; for the nodes, run 'make setup' or colcon build", file=sys.stderr)
