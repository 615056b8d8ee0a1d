# SPDX-License-Identifier: Apache-2.0
"""Read a condition as a plan writes it: guarded code over accessors, or a short sentence that a model judges (TypeGo 6).

A trigger tells when a condition that is looked at again and again comes true.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from skill_kernel.guard.code import Caller
from skill_kernel.guard.compiler import GuardedExpression, compile_expression
from skill_kernel.guard.reading import GuardCode, GuardError, RuleFault, unwarned
from skill_kernel.observation.accessors import Accessor
from skill_kernel.observation.model import ObservationError


@dataclass
class Trigger:
    """Tell when a condition comes true. It is armed again after `rearm_s` without the condition: what is sensed flickers."""

    rearm_s: float
    armed: bool = True
    false_since_s: float | None = None

    def see(self, holds: bool | None, now_s: float) -> bool:
        """Take the condition's value; return whether it holds and the trigger is armed. Unknown (None) changes nothing."""
        if holds is None:
            return False
        if holds:
            self.false_since_s = None
            return self.armed
        if self.false_since_s is None:
            self.false_since_s = now_s
        self.armed = self.armed or now_s - self.false_since_s >= self.rearm_s
        return False

    def spend(self) -> None:
        """Let the condition not fire again while it stays true."""
        self.armed = False


MAX_SENTENCE = 300
"""Characters of a sentence; longer ones are no condition."""

_QUOTED_OR_FOREIGN = re.compile(r"""("[^"]*"|'[^']*')|(&&)|(\|\|)|(!(?!=))|\b(true)\b|\b(false)\b""", re.IGNORECASE)
_PYTHON = {2: " and ", 3: " or ", 4: " not ", 5: "True", 6: "False"}


@dataclass(frozen=True)
class Condition:
    """Hold a condition that can be asked. `expression` is None where it is a sentence."""

    text: str
    expression: GuardedExpression | None


def read_condition(text: str, accessors: Mapping[str, Accessor]) -> Condition:
    """Tell code from a sentence. `&&`, `||`, `!`, `true` and `false` are read as Python writes them.

    Raises GuardError, with what to write instead, for what is meant as code and cannot be run, and for what is too long.
    """
    plain = " ".join(text.split())
    if plain.startswith("`") and plain.endswith("`"):
        plain = plain.strip("`").strip()
    if not plain:
        raise GuardError(GuardCode.FORM, "the condition is empty")
    code = _QUOTED_OR_FOREIGN.sub(lambda m: m[0] if m.lastindex == 1 else _PYTHON[m.lastindex or 0], plain).strip()
    try:
        return Condition(plain, compile_expression(code, accessors))
    except GuardError:
        if _is_code(code, accessors):
            raise
    if len(plain) > MAX_SENTENCE:
        message = f"the condition has {len(plain)} characters; write an expression, or a sentence of at most {MAX_SENTENCE}"
        raise GuardError(GuardCode.TOO_LONG, message)
    return Condition(plain, None)


def holds(expression: GuardedExpression, ask: Caller) -> tuple[bool | None, str]:
    """Return whether an expression holds, None and why when that cannot be told: a field is stale, it divides by zero."""
    try:
        return bool(expression.evaluate(ask)), ""
    except (ObservationError, RuleFault) as error:
        return None, str(error)


def _is_code(text: str, accessors: Mapping[str, Accessor]) -> bool:
    """Return whether it is meant as code: it names an accessor as code does, calls something, or compares with a number."""
    for name in re.findall(r"\b([A-Za-z_]\w*)\s*\(", text):
        if name in accessors:
            return True
    if len(text) > MAX_SENTENCE:
        return False
    try:
        with unwarned():
            tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id in accessors):
            return True
        if isinstance(node, ast.Compare) and any(_is_number(x) for x in (node.left, *node.comparators)):
            return True
    return False


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
