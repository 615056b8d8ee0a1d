# SPDX-License-Identifier: Apache-2.0
"""Checks and compiles calls inside expressions: accessors of the observation and the pure functions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skill_kernel.guard.code import UNKNOWN, Code, Evaluate, Frame
from skill_kernel.guard.errors import GuardCode, at, nearest, shown
from skill_kernel.guard.limits import Limits
from skill_kernel.guard.types import BOOL, FLOAT, INT, OF_PYTHON, STR, Kind, Type, joined
from skill_kernel.guard.vocabulary import FUNCTIONS, OWN_ACTIONS, Vocabulary
from skill_kernel.observation.accessors import Accessor
from skill_kernel.observation.errors import ArgumentError

if TYPE_CHECKING:
    from skill_kernel.guard.expressions import Expressions

MOST_DIGITS = 6
_OVER: dict[str, Callable[..., Any]] = {"any": any, "all": all, "sum": sum, "min": min, "max": max}


class Calls:
    """Compiles the calls of one function's expressions."""

    def __init__(self, expressions: Expressions, vocabulary: Vocabulary, limits: Limits) -> None:
        self._expressions, self._vocabulary, self._limits = expressions, vocabulary, limits
        self.accessors: dict[str, None] = {}
        """Names of the accessors that were called, in order."""

    def compile(self, node: ast.Call) -> Code:
        """Raises GuardError for a name, number or type of arguments that does not fit."""
        if not isinstance(node.func, ast.Name):
            raise at(node, GuardCode.CALL, "only a plain name can be called")
        name = node.func.id
        if name in self._vocabulary.accessors:
            return self._accessor(node, self._vocabulary.accessors[name])
        if name in FUNCTIONS:
            return self._function(node, name)
        if name in self._vocabulary.skills or name in OWN_ACTIONS:
            raise self._expressions.skill_here(node, name)
        known = [*self._vocabulary.accessors, *FUNCTIONS]
        raise at(node, GuardCode.NAME, f"there is no function '{shown(name)}'{nearest(name, known)}")

    def _accessor(self, node: ast.Call, accessor: Accessor) -> Code:
        codes = self._arguments(node, accessor)
        constants = tuple(code.constant for code in codes)
        known = UNKNOWN not in constants
        if accessor.by_argument is not None and not known:
            raise at(node, GuardCode.TYPE, f"the arguments of {accessor.name} must be constants: its type follows from them")
        try:
            returns = OF_PYTHON[accessor.result_type(constants) if known else accessor.returns]
        except ArgumentError as error:
            raise at(node, GuardCode.ARGUMENT, str(error)) from error
        self.accessors[accessor.name] = None
        name, runs, steps = accessor.name, [code.run for code in codes], 1 + sum(code.steps for code in codes)
        if known:
            return Code(returns, lambda frame: frame.call(name, *constants), steps)
        return Code(returns, lambda frame: frame.call(name, *[run(frame) for run in runs]), steps)

    def _arguments(self, node: ast.Call, accessor: Accessor) -> list[Code]:
        names = [p.name for p in accessor.parameters]
        places = dict(zip(names, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg not in names or keyword.arg in places:
                word = keyword.arg or "**"
                raise at(keyword, GuardCode.ARITY, f"{accessor.name} takes no further '{shown(word)}'{nearest(word, names)}")
            places[keyword.arg] = keyword.value
        given = len(node.args) + len(node.keywords)
        if given != len(names):
            why = f"{accessor.name}({', '.join(names)}) takes {len(names)} arguments, not {given}"
            raise at(node, GuardCode.ARITY, why)
        return [self._expressions.wanted(places[name], STR, f"{name} of {accessor.name}") for name in names]

    def _function(self, node: ast.Call, name: str) -> Code:
        if node.keywords:
            raise at(node, GuardCode.ARITY, f"{name} takes no named arguments here")
        if name == "range":
            raise at(node, GuardCode.CONSTRUCT, "range stands only behind 'in' of a loop")
        return {"abs": self._abs, "round": self._round, "len": self._len, "lower": self._lower}.get(name, self._over)(node)

    def _only(self, node: ast.Call) -> ast.expr:
        if len(node.args) != 1:
            raise at(node, GuardCode.ARITY, f"{ast.unparse(node.func)} takes 1 argument, not {len(node.args)}")
        return node.args[0]

    def _abs(self, node: ast.Call) -> Code:
        inner = self._number(self._only(node), "abs")
        run = inner.run
        return Code(inner.type, lambda frame: abs(run(frame)), inner.steps + 1)

    def _round(self, node: ast.Call) -> Code:
        from skill_kernel.guard.expressions import rounded

        if not 1 <= len(node.args) <= 2:
            raise at(node, GuardCode.ARITY, f"round takes 1 or 2 arguments, not {len(node.args)}")
        inner = self._number(node.args[0], "round")
        digits: int | None = None
        if len(node.args) == 2:
            constant = self._expressions.wanted(node.args[1], INT, "the digits of round").constant
            if constant is UNKNOWN or not 0 <= constant <= MOST_DIGITS:
                raise at(node.args[1], GuardCode.NUMBER, f"the digits of round must be a constant of 0 to {MOST_DIGITS}")
            digits = int(constant)
        run = inner.run
        # Not a whole number in every case: what is out of sight is infinitely far, rounded or not.
        return Code(FLOAT, lambda frame: rounded(run(frame), digits), inner.steps + 2)

    def _len(self, node: ast.Call) -> Code:
        inner = self._expressions.compile(self._only(node))
        if not inner.type.is_list and inner.type != STR:
            raise at(node, GuardCode.TYPE, f"len takes a list or a text, not {inner.type}")
        run = inner.run
        return Code(INT, lambda frame: len(run(frame)), inner.steps + 1)

    def _lower(self, node: ast.Call) -> Code:
        inner = self._expressions.wanted(self._only(node), STR, "what lower takes")
        run = inner.run
        return Code(STR, lambda frame: run(frame).lower(), inner.steps + 1)

    def _number(self, node: ast.expr, what: str) -> Code:
        code = self._expressions.compile(node)
        if not code.type.is_number:
            raise at(node, GuardCode.TYPE, f"{what} takes a number, not {code.type}")
        return code

    def _over(self, node: ast.Call) -> Code:
        """any, all, sum, min and max: over a list or generator; min and max also over several numbers."""
        name = ast.unparse(node.func)
        if name in ("min", "max") and len(node.args) > 1:
            return self._of_several(node, max if name == "max" else min)
        place = self._only(node)
        type_, steps, run = self._items(place)
        wanted = {"any": (Kind.BOOL,), "all": (Kind.BOOL,), "sum": (Kind.BOOL, Kind.INT, Kind.FLOAT)}
        if not type_.is_list or type_.kind not in wanted.get(name, (Kind.INT, Kind.FLOAT)):
            what = "truth values" if name in ("any", "all") else "numbers"
            raise at(place, GuardCode.TYPE, f"{name} takes a list of {what}, not {type_}")
        apply = _OVER[name]
        returns = BOOL if name in ("any", "all") else Type(Kind.FLOAT if type_.kind is Kind.FLOAT else Kind.INT)
        return Code(returns, lambda frame: apply(run(frame)), steps + (type_.length or 0) + 1)

    def _items(self, place: ast.expr) -> tuple[Type, int, Evaluate]:
        if isinstance(place, ast.GeneratorExp):
            return self._expressions.generator(place)
        code = self._expressions.compile(place)
        return code.type, code.steps, code.run

    def _of_several(self, node: ast.Call, apply: Callable[..., Any]) -> Code:
        codes = [self._number(argument, ast.unparse(node.func)) for argument in node.args]
        type_: Type = codes[0].type
        for code in codes:
            type_ = joined(type_, code.type) or FLOAT
        runs = [code.fitted(type_.kind).run for code in codes]
        return Code(type_, lambda frame: apply([run(frame) for run in runs]), 1 + sum(code.steps for code in codes))

    def range(self, node: ast.Call) -> Code:
        """range with constant bounds, of at most so many rounds as the limits say."""
        if node.keywords or not 1 <= len(node.args) <= 3:
            raise at(node, GuardCode.ARITY, "range takes 1 to 3 numbers")
        bounds = []
        for place in node.args:
            constant = self._expressions.wanted(place, INT, "what range takes").constant
            if constant is UNKNOWN:
                raise at(place, GuardCode.NUMBER, "the bounds of range must be constants")
            bounds.append(int(constant))
        if len(bounds) == 3 and bounds[2] == 0:
            raise at(node, GuardCode.NUMBER, "the step of range must not be 0")
        values = range(*bounds)
        if len(values) > self._limits.rounds:
            raise at(node, GuardCode.TOO_MANY_STEPS, f"range of {len(values)} rounds; {self._limits.rounds} are allowed")

        def run(_: Frame) -> range:
            return values

        return Code(Type(Kind.INT, len(values)), run, 1)
