# SPDX-License-Identifier: Apache-2.0
"""Evaluates the plain comparisons a launch file may put into `$(eval …)`, without running code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos}


def evaluate(expression: str) -> str:
    """`str()` of what the Python expression gives: literals, lists of them, comparisons, in, and, or, not.

    Raises ValueError, in one sentence, for anything else.
    """
    try:
        return str(_value(ast.parse(expression.strip(), mode="eval").body))
    except SyntaxError as error:
        raise ValueError(f"'{expression}' is not an expression: {error.msg}") from error
    except TypeError as error:
        raise ValueError(f"'{expression}' cannot be compared: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise ValueError("the expression is nested too deep") from error


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, bool, type(None))):
        return node.value
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_value(node.operand))
    if isinstance(node, ast.BoolOp):
        wanted = isinstance(node.op, ast.Or)
        result: Any = None
        for operand in node.values:
            result = _value(operand)
            if bool(result) is wanted:
                break
        return result
    if isinstance(node, ast.Compare):
        left = _value(node.left)
        for sign, right_node in zip(node.ops, node.comparators, strict=True):
            right = _value(right_node)
            if type(sign) not in _COMPARISONS:
                raise ValueError("only ==, !=, <, <=, >, >=, in and not in compare here")
            if not _COMPARISONS[type(sign)](left, right):
                return False
            left = right
        return True
    raise ValueError(_refusal(node))


def _refusal(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return f"'{node.id}' is a name, only literals are allowed: put quotes around a text, as in '$(var x)' == '{node.id}'"
    return (
        f"{type(node).__name__} is not among the plain comparisons allowed here: "
        "literals, ==, !=, <, <=, >, >=, in, not in, and, or, not"
    )
