# SPDX-License-Identifier: Apache-2.0
"""Quotes data in a prompt so that it can neither leave its line nor pass for an instruction or a tag (semantics,
section 7)."""

from __future__ import annotations

import json
import re
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
