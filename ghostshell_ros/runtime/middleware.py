# SPDX-License-Identifier: Apache-2.0
"""What a robot needs of Fast DDS and ROS has no words for: `config/fastdds.xml`."""

from __future__ import annotations

import os

from ghostshell_ros.runtime.data import config_folder

PROFILES = "FASTRTPS_DEFAULT_PROFILES_FILE"
"""Environment variable that names a file of profiles. https://fast-dds.docs.eprosima.com, "Environment variables"."""


def prefer_profiles() -> None:
    """Have Fast DDS read the project's profiles unless the environment names others; before `rclpy.init`."""
    folder = None if os.environ.get(PROFILES) else config_folder()
    if folder is not None and (folder / "fastdds.xml").is_file():
        os.environ[PROFILES] = str(folder / "fastdds.xml")
