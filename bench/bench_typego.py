# SPDX-License-Identifier: Apache-2.0
"""TypeGo's eight tasks in Kalos's simulated building (docs/typego.md): the command `ghostshell bench typego`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ghostshell_ros.cli.main import app

if __name__ == "__main__":
    app(["bench", "typego", *sys.argv[1:]])
