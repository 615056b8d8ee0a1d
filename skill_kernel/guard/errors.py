# SPDX-License-Identifier: Apache-2.0
"""Define the bounds of guarded code, the errors for code that is refused, and what running code may raise."""

import ast
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Limits:
    """Bound one rule. Steps are the evaluated parts of expressions and statements, with loops counted at their longest:
    accepted code cannot take more of them, whatever the sensors say."""

    characters: int = 4000
    tokens: int = 1000
    line_tokens: int = 200
    name_characters: int = 48
    number_characters: int = 20
    text_characters: int = 300
    brackets: int = 12
    nodes: int = 800
    depth: int = 30
    items: int = 32
    rounds: int = 100
    condition_steps: int = 500
    action_steps: int = 5000
    skill_calls: int = 40


LIMITS = Limits()
LARGEST_LITERAL = 1_000_000_000


class GuardCode(str, Enum):
    """Name the reasons for which code is refused."""

    TOO_LONG = "TOO_LONG"
    TOO_DEEP = "TOO_DEEP"
    TOO_MANY_STEPS = "TOO_MANY_STEPS"
    CHARACTER = "CHARACTER"
    SYNTAX = "SYNTAX"
    FORM = "FORM"
    CONSTRUCT = "CONSTRUCT"
    NAME = "NAME"
    CALL = "CALL"
    TYPE = "TYPE"
    ARITY = "ARITY"
    ARGUMENT = "ARGUMENT"
    NUMBER = "NUMBER"


class GuardError(ValueError):
    """Report that code is refused; nothing of it was run. `line` and `column` count from 1, and are 0 for all of the code."""

    def __init__(self, code: GuardCode, message: str, *, line: int = 0, column: int = 0) -> None:
        where = f"line {line}, column {column}: " if line else ""
        super().__init__(f"{where}{message}")
        self.code = code
        self.message = message
        self.line = line
        self.column = column


class RuleFault(ArithmeticError):
    """Report that accepted code failed while it was evaluated, on numbers it cannot go on with or otherwise."""


def at(node: ast.AST, code: GuardCode, message: str) -> GuardError:
    """Return the error for a node, with its place."""
    line = int(getattr(node, "lineno", 0))
    return GuardError(code, message, line=line, column=int(getattr(node, "col_offset", -1)) + 1 if line else 0)
