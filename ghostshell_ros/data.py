# SPDX-License-Identifier: Apache-2.0
"""Where the project keeps what a robot learned and recorded."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder(configured: str = "") -> Path:
    """The configured folder, $GHOSTSHELL_DATA, or the XDG data folder."""
    if configured or os.environ.get("GHOSTSHELL_DATA"):
        return Path(configured or os.environ["GHOSTSHELL_DATA"]).expanduser()
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "ghostshell"
