# SPDX-License-Identifier: Apache-2.0
"""Notice that a model goes in circles."""

from __future__ import annotations

import re
from collections.abc import Sequence

TIMES, TIMES_SPOKEN = 3, 2
"""Rounds of the same statements that are a circle; fewer where somebody is spoken to in it."""
_SPEAKS = re.compile(r"\b(?:say|ask)\(")


def is_circle(statements: Sequence[str]) -> bool:
    """Return whether the last of these statements, which has not been executed, closes a circle of any length."""
    for length in range(1, len(statements) // TIMES_SPOKEN + 1):
        circle = statements[-length:]
        times = TIMES_SPOKEN if any(map(_SPEAKS.search, circle)) else TIMES
        if length * times <= len(statements) and list(statements[-length * times :]) == list(circle) * times:
            return True
    return False
