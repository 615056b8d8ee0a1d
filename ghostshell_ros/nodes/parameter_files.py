# SPDX-License-Identifier: Apache-2.0
"""What rcl takes from a file of parameters without a word: of a key given twice, the last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import yaml

from skill_kernel.yaml_text import DuplicateKeyError, read_yaml, what_is_wrong


def doubled_key(args: Sequence[str]) -> str:
    """The first key given twice in the files that a command line names, as a sentence; empty when there is none."""
    for option, name in pairwise(args):
        if option != "--params-file":
            continue
        try:
            read_yaml(Path(name).read_text(encoding="utf-8"))
        except DuplicateKeyError as error:
            return f"{name}, {what_is_wrong(error)}"
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue  # rcl says what it finds wrong with it
    return ""
