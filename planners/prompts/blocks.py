# SPDX-License-Identifier: Apache-2.0
"""Write the blocks of which prompts are made: a title, and below it one quoted JSON value a line, so that a prompt can be
read back without guessing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

MAX_QUOTED = 2000
"""Longest text quoted whole, in characters; more is cut and the cut is named."""

_HARMFUL = re.compile(
    "[<>&`\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e01ef]"
)


def quoted(value: Any, limit: int = MAX_QUOTED) -> str:
    """Return a value as JSON on one line without angle brackets, control or invisible characters; JSON reads the same value
    back.

    Texts longer than `limit` characters are cut; what is no JSON value is quoted as its text.
    """
    text = json.dumps(_shortened(value, limit), ensure_ascii=False, default=str)
    return _HARMFUL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1] if ord(match.group()) > 0x7F else f"\\u{ord(match.group()):04x}"


def _shortened(value: Any, limit: int) -> Any:
    if isinstance(value, str) and len(value) > limit:
        return f"{value[:limit]}… [{len(value) - limit} more characters cut]"
    if isinstance(value, dict):
        return {str(k): _shortened(v, limit) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shortened(v, limit) for v in value]
    return value


class Layer(str, Enum):
    """Name who asks a model. The value stands in the first line of its prompt, in events and in usage."""

    S1P = "s1p"
    S1 = "s1"
    S2 = "s2"
    S3 = "s3"
    JUDGE = "judge"
    STREAM = "stream"
    REACT = "react"
    PLAN_AND_EXECUTE = "plan_and_execute"

    def __str__(self) -> str:
        return self.value


def front(layer: Layer) -> str:
    """Return the first line of a system prompt."""
    return f"LAYER {layer.value}\n"


def block(title: str, items: Iterable[Any], note: str = "") -> str:
    """Return a title in capitals with a note on what it holds, and one item a line; empty text without items."""
    lines = [f"- {quoted(item)}\n" for item in items]
    return f"{title}{f' ({note})' if note else ''}:\n{''.join(lines)}" if lines else ""
