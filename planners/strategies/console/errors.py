# SPDX-License-Identifier: Apache-2.0
"""Tell a model what is wrong with its statement and what would help, as often as that may help (section 3.3)."""

from __future__ import annotations

import re

from planners.strategies.console.sandbox import NP_PRELUDE, Raised

HINT = "SemanticHint"
"""Class of the error by which a function of the robot says why it could not do what was asked: its sentence is the hint."""
NO_IMPORT = (
    "Nothing of that can be imported. Use the functions defined above; if they do not suffice, say that it cannot be done."
)
NP_IS_THERE = "np is there without an import."
_NP_HAS = ", ".join(sorted(re.findall(r"^    (?:def )?(\w+)(?=\(| =)", NP_PRELUDE.partition("class np:")[2], re.MULTILINE)))
NP_HINT = f"np has {_NP_HAS}; write the rest with plain Python."
_HINTS = {
    "NameError": "Solve the task with the functions defined above only.",
    "IndexError": "Look at the value before you take a part of it.",
    "KeyError": "Look at the value before you take a part of it.",
    "AttributeError": "Use the functions defined above and the methods of plain values.",
    "SyntaxError": "Write one statement of plain Python.",
    "NotImplementedError": "Write it with functions, loops, lists and dicts.",
    "RecursionError": "Write it with a loop.",
    "TimeoutError": "The statement was undone. Write one that ends.",
    "MemoryError": "The statement was undone. Keep less at a time.",
}
_OF_NP = ("type object 'np' has no attribute", "type object '_Linalg' has no attribute", "'array' object has no attribute")
_GROUPS = {"TypeError": "NameError", "ModuleNotFoundError": "ImportError", "KeyError": "IndexError"}
"""Classes that are counted as another one."""
_MOST = {HINT: 4}
MOST = 3
"""Errors of a class in a row, no statement that ended well between them, that a model is told of."""


class ErrorBook:
    """Count the errors since the last statement that ended well."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def reset(self) -> None:
        """Forget them: a statement ended well."""
        self._counts.clear()

    def told(self, raised: Raised, *, hint: bool = False) -> str | None:
        """Return what the console shows of an error, None where it has been told often enough. `hint`: its sentence is one of a
        function of the robot."""
        group = HINT if hint else _GROUPS.get(raised.kind, raised.kind)
        self._counts[group] = self._counts.get(group, 0) + 1
        if self._counts[group] > _MOST.get(group, MOST):
            return None
        return " ".join(raised.message.split()) if hint else text_of(raised)


def text_of(raised: Raised) -> str:
    """Return what the console shows of an error."""
    if _GROUPS.get(raised.kind, raised.kind) == "ImportError":
        return f"ImportError: {NP_IS_THERE if 'numpy' in raised.message else NO_IMPORT}"
    message = " ".join(raised.message.split()).rstrip(".")
    hint = NP_HINT if message.startswith(_OF_NP) else _HINTS.get(raised.kind, "")
    return " ".join(filter(None, [f"{raised.kind}: {message}.", hint]))
