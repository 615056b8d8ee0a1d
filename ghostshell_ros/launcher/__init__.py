# SPDX-License-Identifier: Apache-2.0
"""The launch runner: starts the project's XML launch files where launch_ros is missing, and imports no ROS."""

from ghostshell_ros.launcher.launch_file import PACKAGE, declared_arguments, describe
from ghostshell_ros.launcher.runner import Event, LaunchRun
from ghostshell_ros.launcher.specs import InlineParameters, LaunchError, ProcessSpec

__all__ = ["PACKAGE", "Event", "InlineParameters", "LaunchError", "LaunchRun", "ProcessSpec", "declared_arguments", "describe"]
