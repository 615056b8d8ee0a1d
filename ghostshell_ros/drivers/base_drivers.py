# SPDX-License-Identifier: Apache-2.0
"""The drivers of a mobile base in one process: relative moves, navigation and, for one with legs, postures."""

from __future__ import annotations

import sys

from ghostshell_ros.drivers.drive_driver import DriveDriver
from ghostshell_ros.drivers.navigate_driver import NavigateDriver
from ghostshell_ros.drivers.posture_driver import PostureDriver
from ghostshell_ros.runtime.node_runtime import run


def main() -> int:
    return run(DriveDriver, NavigateDriver, PostureDriver)


if __name__ == "__main__":
    sys.exit(main())
