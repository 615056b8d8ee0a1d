# SPDX-License-Identifier: Apache-2.0
"""Where the committed table lies: beside the sources, else in the installed share."""

from __future__ import annotations

import os
from pathlib import Path

TABLE = Path("bench") / "typego_models.yaml"


def default_table() -> Path:
    """The first that exists; else where it would be in a source tree, for the error that follows."""
    beside = Path(__file__).resolve().parents[2] / TABLE
    shares = [Path(p) / "share" / "ghostshell" / TABLE for p in os.environ.get("AMENT_PREFIX_PATH", "").split(":") if p]
    return next((path for path in (beside, *shares) if path.is_file()), beside)
