# SPDX-License-Identifier: Apache-2.0
"""What rcl takes from a file of parameters without a word: of a parameter given twice, the last."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import yaml

from skill_kernel.config.yaml_text import first_duplicate, what_is_wrong


def doubled_key(args: Sequence[str]) -> str:
    """The first key given twice within a section of the files that a command line names, as a sentence; empty when there is
    none. What else is wrong with a file rcl says."""
    for option, name in pairwise(args):
        if option != "--params-file":
            continue
        try:
            root = yaml.compose(Path(name).read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
            continue
        sections = root.value if isinstance(root, yaml.MappingNode) else []
        for _, section in sections:
            if twice := first_duplicate(section):
                return f"{name}, {what_is_wrong(twice)}"
    return ""
