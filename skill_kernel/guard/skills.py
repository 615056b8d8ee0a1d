# SPDX-License-Identifier: Apache-2.0
"""Checks and compiles the skill calls of an action, with the same checks of arguments as the kernel's own."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skill_kernel.guard.code import (
    BOOL,
    FLOAT,
    INT,
    STR,
    UNKNOWN,
    Block,
    Code,
    Evaluate,
    Frame,
    Kind,
    Signal,
    SkillRequest,
    Steps,
    Type,
)
from skill_kernel.guard.errors import GuardCode, at, nearest, shown
from skill_kernel.guard.vocabulary import LONGEST_WAIT_S, OWN_ACTIONS, STOP, WAIT, Vocabulary
from skill_kernel.skills.arguments import ArgumentError, bind_typed
from skill_kernel.skills.conversion import converter_for
from skill_kernel.skills.skill import Skill, content_marker

if TYPE_CHECKING:
    from skill_kernel.guard.expressions import Expressions

_PLAIN: dict[object, Type] = {bool: BOOL, int: INT, float: FLOAT, str: STR}


class SkillCalls:
    """Compiles the skill calls of one action, and keeps what they are: names, subsystems, what the robot's limits clamp."""

    def __init__(self, expressions: Expressions, vocabulary: Vocabulary) -> None:
        self._expressions, self._vocabulary = expressions, vocabulary
        self.names: dict[str, None] = {}
        self.subsystems: dict[str, None] = {}
        self.notes: list[str] = []

    def is_one(self, node: ast.expr) -> bool:
        """Whether an expression is meant as a call of a skill or of an action of S0's own; raises GuardError for a call of
        a name that is nothing."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return False
        name = node.func.id
        if name in self._vocabulary.skills or name in OWN_ACTIONS:
            return True
        if not self._vocabulary.taken(name):
            known = [*self._vocabulary.skills.names, *OWN_ACTIONS]
            raise at(node, GuardCode.NAME, f"there is no skill '{shown(name)}'{nearest(name, known)}")
        return False

    def compile(self, node: ast.expr, number: int | None) -> Block:
        """The call as a statement; `number` is the variable that is told whether it succeeded."""
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        name = node.func.id
        skill = self._vocabulary.skills.get(name)
        self.names[name] = None
        if skill is None:
            codes = self._own(node, name)
        else:
            codes = self._arguments(node, skill)
            self._check(node, skill, codes)
        runs = {parameter: code.run for parameter, code in codes.items()}
        return Block(self._performing(name, skill, runs, number), 2 + sum(c.steps for c in codes.values()), 1)

    def _performing(self, name: str, skill: Skill | None, runs: Mapping[str, Evaluate], number: int | None) -> Any:
        limits = self._vocabulary.limits

        def perform(frame: Frame) -> Steps:
            values = {parameter: run(frame) for parameter, run in runs.items()}
            values = _waiting(values) if skill is None else bind_typed(skill, values, limits).values
            done = yield SkillRequest(name, values, number is not None)
            if number is not None:
                frame.values[number] = done
            return Signal.NEXT

        return perform

    def _own(self, node: ast.Call, name: str) -> dict[str, Code]:
        if name == STOP:
            if node.args or node.keywords:
                raise at(node, GuardCode.ARITY, "stop takes no arguments")
            self._take(self._vocabulary.base_subsystems)
            return {}
        given = [*node.args, *(k.value for k in node.keywords if k.arg == "seconds")]
        if len(given) != 1 or len(node.args) + len(node.keywords) != 1:
            raise at(node, GuardCode.ARITY, f"{WAIT} takes one argument, seconds")
        code = self._expressions.wanted(given[0], FLOAT, "seconds of wait")
        if code.constant is not UNKNOWN and not 0 < code.constant <= LONGEST_WAIT_S:
            why = f"wait takes more than 0 and at most {LONGEST_WAIT_S:g} seconds, not {code.constant:g}"
            raise at(given[0], GuardCode.ARGUMENT, why)
        return {"seconds": code}

    def _arguments(self, node: ast.Call, skill: Skill) -> dict[str, Code]:
        parameters = list(skill.signature.parameters)
        if len(node.args) > len(parameters):
            wanted = f"({', '.join(parameters)})"
            raise at(node, GuardCode.ARITY, f"{skill.name}{wanted} takes {len(parameters)} arguments, not {len(node.args)}")
        places = dict(zip(parameters, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg not in parameters or keyword.arg in places:
                hint = nearest(keyword.arg or "", parameters)
                raise at(keyword, GuardCode.ARITY, f"{skill.name} takes no further '{shown(keyword.arg or '**')}'{hint}")
            places[keyword.arg] = keyword.value
        return {name: self._argument(place, skill, name) for name, place in places.items()}

    def _argument(self, place: ast.expr, skill: Skill, name: str) -> Code:
        code = self._expressions.compile(place)
        annotation = skill.signature.parameters[name].annotation
        base = str if content_marker(annotation) else converter_for(annotation).base
        wanted = _PLAIN.get(base)
        if code.constant is UNKNOWN:
            if code.type.is_list or (wanted is None and code.type.kind is not Kind.STR):
                raise at(place, GuardCode.TYPE, f"{name} of {skill.name} must be a constant here")
            whole = wanted is not None and wanted.kind is Kind.INT and code.type.is_number
            if wanted is not None and not wanted.takes(code.type) and not whole:
                raise at(place, GuardCode.TYPE, f"{name} of {skill.name} must be {wanted}, but this is {code.type}")
        return code

    def _check(self, node: ast.Call, skill: Skill, codes: Mapping[str, Code]) -> None:
        """The kernel's own check of what is constant; the rest it checks when it is called."""
        if skill.content is not None and skill.content not in codes:
            raise at(node, GuardCode.ARITY, f"{skill.name} needs {skill.content}")
        open_names = {name for name, code in codes.items() if code.constant is UNKNOWN}
        kept = [p for p in skill.signature.parameters.values() if p.name not in open_names]
        closed = replace(skill, signature=skill.signature.replace(parameters=kept))
        constants = {name: code.constant for name, code in codes.items() if name not in open_names}
        try:
            bound = bind_typed(closed, constants, self._vocabulary.limits)
        except ArgumentError as error:
            raise at(node, GuardCode.ARGUMENT, error.message) from error
        self.notes.extend(bound.clamped)
        try:
            self._take(skill.subsystems_for(bound.values))
        except KeyError as error:
            why = f"{error.args[0]} of {skill.name} must be a constant: the subsystem follows from it"
            raise at(node, GuardCode.ARGUMENT, why) from error

    def _take(self, names: tuple[str, ...]) -> None:
        self.subsystems.update(dict.fromkeys(names))


def _waiting(values: dict[str, Any]) -> dict[str, Any]:
    if values and not 0 < values["seconds"] <= LONGEST_WAIT_S:
        raise ValueError(f"wait was given {values['seconds']} seconds; it takes more than 0 and at most {LONGEST_WAIT_S:g}")
    return values
