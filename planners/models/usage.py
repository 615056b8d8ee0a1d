# SPDX-License-Identifier: Apache-2.0
"""What an answer of a model has used where its provider did not count it to the end."""

from __future__ import annotations

import math
from dataclasses import replace

from planners.models.base import ModelRequest, Usage

CHARACTERS_A_TOKEN = 4
"""A rough mean over English text and code."""

_NARROW = 0x250
"""Characters from here on, Greek, Cyrillic and Chinese among them, count as a token each: rather too many than too few."""

IMAGE_TOKENS = 1000
"""About what a picture of the robot's camera counts for."""


def tokens_in(text: str) -> int:
    """About how many tokens a text has."""
    narrow = sum(ord(char) < _NARROW for char in text)
    return math.ceil(narrow / CHARACTERS_A_TOKEN) + len(text) - narrow


def prompt_tokens(request: ModelRequest) -> int:
    """About how many tokens a request has."""
    images = sum(len(message.images) for message in request.messages)
    return tokens_in(request.system) + sum(tokens_in(m.text) for m in request.messages) + images * IMAGE_TOKENS


def used(reported: Usage | None, request: ModelRequest, written: str, *, whole: bool) -> Usage:
    """What an answer used that came so far as `written`; `whole` when it came to its end.

    One that was cancelled or cut off was not counted to its end, or not at all, and has been paid for all the same: what is
    missing is estimated.
    """
    if reported is None or not reported.prompt_tokens:
        return Usage(prompt_tokens(request), tokens_in(written))
    if whole and reported.completion_tokens:
        return reported
    return replace(reported, completion_tokens=max(reported.completion_tokens, tokens_in(written)))
