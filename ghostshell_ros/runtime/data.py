# SPDX-License-Identifier: Apache-2.0
"""Find the folders of the project's data and of its configuration, and a model in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planners.models.config import ModelConfig


def data_folder(configured: str = "") -> Path:
    """Return the configured folder, $GHOSTSHELL_DATA, or the XDG data folder."""
    if configured or os.environ.get("GHOSTSHELL_DATA"):
        return Path(configured or os.environ["GHOSTSHELL_DATA"]).expanduser()
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "ghostshell"


def keys_folder() -> Path:
    """Return $GHOSTSHELL_KEYS, or `keys` in the data folder."""
    return Path(os.environ.get("GHOSTSHELL_KEYS") or data_folder() / "keys").expanduser()


def config_folder() -> Path:
    """Return the project's `config` folder, beside the sources or in the installed share."""
    beside = Path(__file__).resolve().parents[2] / "config"
    if (beside / "models.yaml").is_file():
        return beside
    from ament_index_python.packages import get_package_share_directory

    return Path(get_package_share_directory("ghostshell")) / "config"


def model_config(spec: str, models: str) -> ModelConfig:
    """Return the model of a name in the file `models`, or else in the project's. Raises ConfigError."""
    from planners.models.config import load_models, parse_spec

    return parse_spec(spec, load_models(Path(models).expanduser() if models else config_folder() / "models.yaml"))
