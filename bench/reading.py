# SPDX-License-Identifier: Apache-2.0
"""Read prompts back: whose they are, and the items of their blocks."""

from __future__ import annotations

import json
import re
from typing import Any

from planners.prompts.blocks import Layer

_TITLE = re.compile(r"^([A-Z][A-Z ]*[A-Z])(?: \([^\n]*\))?:$")
_LAYER = re.compile(r"^LAYER (\S+)$", re.MULTILINE)


def layer_of(system: str) -> Layer | None:
    """Return the layer whose system prompt this is."""
    found = _LAYER.search(system)
    return Layer(found.group(1)) if found and found.group(1) in {x.value for x in Layer} else None


def read_blocks(prompt: str) -> dict[str, list[Any]]:
    """Return the items by title, as `block` wrote them. Of two blocks with one title the later counts."""
    blocks: dict[str, list[Any]] = {}
    items: list[Any] | None = None
    for line in prompt.split("\n"):
        if found := _TITLE.match(line):
            items = blocks[found.group(1)] = []
        elif items is not None and line.startswith("- "):
            try:
                items.append(line[2:] if line[2] in "<(" else json.loads(line[2:]))
            except (IndexError, ValueError, RecursionError):
                items = None
        elif line:
            items = None
    return blocks
