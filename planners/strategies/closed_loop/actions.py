# SPDX-License-Identifier: Apache-2.0
"""Read actions as the planner writes them, without evaluating anything: registered names and literal values only."""

import ast
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from function_tokens.markup import value_text
from planners.models.model_call import AnswerError
from planners.prompts.prompt import declared
from planners.strategy import RobotView
from skill_kernel.config.sections import nearest, shown

ROBOT = "robot"
"""Argument that names the robot."""
MAX_CHARS = 500
_HALF = re.compile("[\ud800-\udfff]")
"""Half a character, which no message can hold."""
HOW = "write a call of a function with all its arguments by name, texts in quotes"


@dataclass(frozen=True)
class Action:
    """Hold a call of one robot's skill."""

    robot: str
    skill: str
    arguments: Mapping[str, Any]

    def __hash__(self) -> int:
        """Hash it as it compares: in whatever order its arguments were written."""
        return hash((self.robot, self.skill, frozenset(self.arguments.items())))

    def __str__(self) -> str:
        """Return it as the planner writes it."""
        given = {ROBOT: self.robot, **self.arguments}
        return f"{self.skill}({', '.join(f'{name}={_written(value)}' for name, value in given.items())})"

    @property
    def names(self) -> frozenset[str]:
        """Return the things and places that it touches."""
        return frozenset(value for value in self.arguments.values() if isinstance(value, str))

    def meets(self, other: "Action") -> bool:
        """Return whether the two may not run at the same time: one robot does both, or they share a thing or a place."""
        return self.robot == other.robot or bool(self.names & other.names)

    def fault(self, robots: Mapping[str, RobotView]) -> str:
        """Return why the robot can never do this; empty when it can (the static verdict)."""
        robot = robots[self.robot]
        skills = [skill.name for skill in robot.about.skills]
        if self.skill not in skills:
            return f"{self.robot} has no function '{shown(self.skill)}'{nearest(self.skill, skills, else_known=True)}"
        return robot.check(self.skill, {name: value_text(value) for name, value in self.arguments.items()})


def _written(value: object) -> str:
    plain = isinstance(value, str) and value.isprintable() and not {'"', "\\"} & {*value}
    return f'"{value}"' if plain else repr(value)


def read_action(text: str, robots: Mapping[str, RobotView]) -> Action:
    """Return the action that a text spells, by keywords or in the order of the function's parameters. Raises AnswerError for
    what is no call with literal values, and where it does not say which robot."""
    try:
        call = ast.parse(text.strip(), mode="eval").body if len(text) <= MAX_CHARS else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise AnswerError(f"'{shown(text)}' is no action; {HOW}")
    named = {str(keyword.arg): _literal(keyword.value, text) for keyword in call.keywords if keyword.arg}
    if len(named) != len(call.keywords):
        raise AnswerError(f"'{shown(text)}' has an argument twice, or one without a name; {HOW}")
    ordered = [_literal(value, text) for value in call.args]
    if ROBOT not in named and ordered and ordered[0] in list(robots):
        named[ROBOT] = ordered.pop(0)
    robot = named.pop(ROBOT, next(iter(robots)) if len(robots) == 1 else None)
    if robot not in list(robots):
        raise AnswerError(f"'{shown(text)}' names no robot that there is; robot is one of {', '.join(robots)}")
    skill = next((s for s in robots[robot].about.skills if s.name == call.func.id), None)
    parameters = [p.name for p in declared(skill)] if skill is not None else []
    given = dict(zip(parameters, ordered, strict=False))
    if len(given) < len(ordered) or given.keys() & named.keys():
        raise AnswerError(f"'{shown(text)}' has too many arguments; {HOW}")
    return Action(robot, call.func.id, given | named)


def _literal(node: ast.expr, text: str) -> Any:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    value = getattr(node.operand if isinstance(node, ast.UnaryOp) and sign < 0 else node, "value", None)
    if isinstance(value, (str, bool)) and sign > 0 and isinstance(node, ast.Constant) and not _HALF.search(str(value)):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max:
        return sign * value
    raise AnswerError(f"'{shown(text)}' holds what is neither a text in quotes nor a number; {HOW}")
