# SPDX-License-Identifier: Apache-2.0
"""Whether two conditions over the accessors are about the same and may hold at one time, told from their source alone."""

from __future__ import annotations

import ast
from functools import lru_cache
from itertools import product

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


@lru_cache(maxsize=4096)
def may_meet(one: str, other: str) -> bool:
    """Whether they are the same or share a reading of an accessor, and nothing in them excludes the other."""
    first, second = _parsed(one), _parsed(other)
    if first is None or second is None:
        return one == other
    if ast.dump(first) == ast.dump(second):
        return True
    if not _calls(first) & _calls(second):
        return False
    return not any(_exclude(a, b) for a, b in product(_parts(first), _parts(second)))


def _parsed(source: str) -> ast.expr | None:
    try:
        return ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _calls(tree: ast.expr) -> set[str]:
    return {ast.dump(node) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def _parts(tree: ast.expr) -> list[ast.expr]:
    """What all has to hold."""
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        return [part for value in tree.values for part in _parts(value)]
    return [tree]


def _exclude(one: ast.expr, other: ast.expr) -> bool:
    for yes, no in ((one, other), (other, one)):
        if isinstance(no, ast.UnaryOp) and isinstance(no.op, ast.Not) and ast.dump(no.operand) == ast.dump(yes):
            return True
    a, b = _comparison(one), _comparison(other)
    if a is None or b is None or a[0] != b[0]:
        return False
    return _apart(a[1], a[2], b[1], b[2]) or _apart(b[1], b[2], a[1], a[2])


def _comparison(part: ast.expr) -> tuple[str, type[ast.cmpop], object] | None:
    """What is compared, how, and with which constant."""
    if not (isinstance(part, ast.Compare) and len(part.ops) == 1):
        return None
    left, how, right = part.left, type(part.ops[0]), part.comparators[0]
    if isinstance(left, ast.Constant):
        left, how, right = right, _TURNED.get(how, how), left
    return (ast.dump(left), how, right.value) if isinstance(right, ast.Constant) else None


def _apart(how: type[ast.cmpop], value: object, other_how: type[ast.cmpop], other: object) -> bool:
    if how is ast.Eq and other_how in (ast.Eq, ast.NotEq):
        return (value == other) is (other_how is ast.NotEq)
    if not (isinstance(value, (int, float)) and isinstance(other, (int, float))):
        return False
    if how in (ast.Lt, ast.LtE, ast.Eq) and other_how in (ast.Gt, ast.GtE):
        return value < other or (value == other and not (how in (ast.LtE, ast.Eq) and other_how is ast.GtE))
    return how is ast.Eq and other_how in (ast.Lt, ast.LtE) and (value > other or (value == other and other_how is ast.Lt))
