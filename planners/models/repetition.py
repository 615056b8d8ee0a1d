# SPDX-License-Identifier: Apache-2.0
"""Notice that a model's answer goes round in circles, while it is written."""

import re

from function_tokens.parsing.asides import CONTROL
from skill_kernel.config.sections import shown

MAX_CONTROLS = 16
"""Control tokens of chat templates in one stretch of an answer; a sound one has none."""
MAX_REPEATS, MAX_LONG_REPEATS, MAX_CALL_REPEATS = 24, 8, 64
"""Times that a text, one of LONG_TEXT characters or more, or one with a call in it may follow itself without a pause."""
LONG_TEXT, LEAST_TEXT = 80, 500
"""Characters of a text that is long, and of repeats that are looked at: short words said often are no fault."""
STRETCH = 6000
"""Characters from the end of the answer that are looked at."""
EVERY = 120
"""New characters after which it is looked again."""

_call = re.compile(r"<[A-Za-z_][^<>]*>").search


class RepetitionWatch:
    """Follow one answer."""

    def __init__(self) -> None:
        self._end, self._new = "", 0

    def feed(self, text: str) -> str:
        """Return why the answer is to be cut after this piece, "" to let it go on."""
        self._end, self._new = (self._end + text)[-STRETCH:], self._new + len(text)
        if self._new < EVERY:
            return ""
        self._new = 0
        if len(CONTROL.findall(self._end)) >= MAX_CONTROLS:
            return "the model writes control tokens over and over; check its chat template, or use another model"
        unit, times = _repeated(self._end)
        if not unit:
            return ""
        return (
            f"the model repeats itself: '{shown(unit.strip())}' {times} times; ask again in other words, or use another model"
        )


def _repeated(text: str) -> tuple[str, int]:
    """Return the unit that the text ends in again and again, and how often; "" where that is within the bounds."""
    back = text[::-1]
    border = [0] * len(back)
    k = 0
    for i in range(1, len(back)):
        while k and back[i] != back[k]:
            k = border[k - 1]
        k += back[i] == back[k]
        border[i] = k
        period = i + 1 - k
        times = (i + 1) // period
        if i >= LEAST_TEXT and times >= (MAX_LONG_REPEATS if period >= LONG_TEXT else MAX_REPEATS):
            unit = text[-period:]
            if times >= MAX_CALL_REPEATS or not _call(unit + unit):
                return unit, times
    return "", 0
