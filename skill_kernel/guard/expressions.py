# SPDX-License-Identifier: Apache-2.0
"""Check the type of every expression and compile it to closures; Python's own eval, exec and compile are never used."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

from skill_kernel.guard.code import (
    BOOL,
    FLOAT,
    INT,
    OF_PYTHON,
    STR,
    UNKNOWN,
    Code,
    Evaluate,
    Frame,
    Kind,
    Scope,
    Type,
    Value,
    joined,
)
from skill_kernel.guard.errors import LARGEST_LITERAL, GuardCode, GuardError, Limits, at, nearest, shown
from skill_kernel.guard.vocabulary import FUNCTIONS, OWN_ACTIONS, Vocabulary
from skill_kernel.observation.accessors import Accessor
from skill_kernel.observation.model import ArgumentError

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


ARITHMETIC: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
_COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}


class Expressions:
    """Compiles the expressions of one function, whose variables are in `scope`."""

    def __init__(self, vocabulary: Vocabulary, scope: Scope, limits: Limits) -> None:
        self._vocabulary, self.scope, self._limits = vocabulary, scope, limits
        self.calls = Calls(self, vocabulary, limits)
        self._by_type: dict[type[ast.AST], Callable[[Any], Code]] = {
            ast.Constant: self._constant,
            ast.Name: self._name,
            ast.Call: self.calls.compile,
            ast.BoolOp: self._logic,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._arithmetic,
            ast.Compare: self._compare,
            ast.IfExp: self._choice,
            ast.List: self._list,
            ast.Tuple: self._list,
            ast.ListComp: self._comprehension,
        }

    def compile(self, node: ast.expr) -> Code:
        """Raises GuardError for what is not allowed or does not fit."""
        compiler = self._by_type.get(type(node))
        if compiler is None:
            raise at(node, GuardCode.CONSTRUCT, "a generator stands only inside any, all, sum, min or max")
        return compiler(node)

    def wanted(self, node: ast.expr, type_: Type, what: str) -> Code:
        """The compiled expression, which must fit a type."""
        code = self.compile(node)
        if not type_.takes(code.type):
            raise at(node, GuardCode.TYPE, f"{what} must be {type_}, but this is {code.type}")
        return code

    def _constant(self, node: ast.Constant) -> Code:
        value = node.value
        if isinstance(value, bool):
            type_ = BOOL
        elif isinstance(value, int):
            type_ = INT
        elif isinstance(value, float):
            type_ = FLOAT
        elif isinstance(value, str):
            type_ = STR
            if len(value) > self._limits.text_characters:
                why = f"a text of {len(value)} characters; {self._limits.text_characters} are allowed"
                raise at(node, GuardCode.TOO_LONG, why)
        else:
            raise at(node, GuardCode.CONSTRUCT, f"{shown(repr(value))} is no number, text, True or False")
        if isinstance(value, (int, float)) and not -LARGEST_LITERAL <= value <= LARGEST_LITERAL:
            raise at(node, GuardCode.NUMBER, f"the number is too large; at most {LARGEST_LITERAL:g}")
        return Code(type_, lambda _: value, 1, value)

    def _name(self, node: ast.Name) -> Code:
        found = self.scope.find(node.id)
        if found is None:
            raise self._unknown(node)
        number, type_ = found
        return Code(type_, lambda frame: frame.values[number], 1)

    def _unknown(self, node: ast.Name) -> GuardError:
        if meaning := self._vocabulary.taken(node.id):
            return at(node, GuardCode.CALL, f"'{node.id}' is {meaning}; call it: {node.id}(…)")
        known = [*self.scope.known, *self._vocabulary.accessors, *FUNCTIONS]
        return at(node, GuardCode.NAME, f"there is no '{shown(node.id)}' here{nearest(node.id, known)}")

    def _logic(self, node: ast.BoolOp) -> Code:
        word = "and" if isinstance(node.op, ast.And) else "or"
        parts = [self.wanted(value, BOOL, f"each side of '{word}'") for value in node.values]
        runs = [part.run for part in parts]
        steps = 1 + sum(part.steps for part in parts)
        if len(runs) == 2:
            left, right = runs
            if word == "and":
                return Code(BOOL, lambda frame: left(frame) and right(frame), steps)
            return Code(BOOL, lambda frame: left(frame) or right(frame), steps)
        if word == "and":
            return Code(BOOL, lambda frame: all(run(frame) for run in runs), steps)
        return Code(BOOL, lambda frame: any(run(frame) for run in runs), steps)

    def _unary(self, node: ast.UnaryOp) -> Code:
        if isinstance(node.op, ast.Not):
            inner = self.wanted(node.operand, BOOL, "what follows 'not'")
            run = inner.run
            return Code(BOOL, lambda frame: not run(frame), inner.steps + 1)
        inner = self._number(node.operand, "what a sign stands before")
        run = inner.run
        if isinstance(node.op, ast.UAdd):
            return inner
        constant = -inner.constant if inner.constant is not UNKNOWN else UNKNOWN
        return Code(inner.type, lambda frame: -run(frame), inner.steps + 1, constant)

    def _number(self, node: ast.expr, what: str) -> Code:
        code = self.compile(node)
        if not code.type.is_number:
            raise at(node, GuardCode.TYPE, f"{what} must be a number, but this is {code.type}")
        return code

    def _arithmetic(self, node: ast.BinOp) -> Code:
        word, apply = ARITHMETIC[type(node.op)]
        left, right = (self._number(side, f"each side of '{word}'") for side in (node.left, node.right))
        divides = isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod))
        if divides and right.constant is not UNKNOWN and right.constant == 0:
            raise at(node, GuardCode.NUMBER, "this divides by zero")
        type_ = FLOAT if word == "/" else joined(left.type, right.type) or FLOAT
        left_run, right_run = left.fitted(type_.kind).run, right.fitted(type_.kind).run
        return Code(type_, lambda frame: apply(left_run(frame), right_run(frame)), left.steps + right.steps + 1)

    def _compare(self, node: ast.Compare) -> Code:
        codes = [self.compile(side) for side in (node.left, *node.comparators)]
        applied = []
        for op, left, right, place in zip(node.ops, codes[:-1], codes[1:], node.comparators, strict=True):
            word, apply = _COMPARE[type(op)]
            if problem := _incomparable(word, left.type, right.type):
                raise at(place, GuardCode.TYPE, problem)
            applied.append(apply)
        steps = 1 + sum(code.steps for code in codes)
        if len(applied) > 1:
            return Code(BOOL, _chain([code.run for code in codes], applied), steps)
        apply, left_run, right_run, value = applied[0], codes[0].run, codes[1].run, codes[1].constant
        if value is not UNKNOWN:
            return Code(BOOL, lambda frame: apply(left_run(frame), value), steps)
        return Code(BOOL, lambda frame: apply(left_run(frame), right_run(frame)), steps)

    def _choice(self, node: ast.IfExp) -> Code:
        test = self.wanted(node.test, BOOL, "what stands behind 'if'")
        yes, no = self.compile(node.body), self.compile(node.orelse)
        type_ = joined(yes.type, no.type)
        if type_ is None:
            raise at(node, GuardCode.TYPE, f"both values must be of one type, but they are {yes.type} and {no.type}")
        yes, no = yes.fitted(type_.kind), no.fitted(type_.kind)
        test_run, yes_run, no_run = test.run, yes.run, no.run
        steps = test.steps + max(yes.steps, no.steps) + 1
        return Code(type_, lambda frame: yes_run(frame) if test_run(frame) else no_run(frame), steps)

    def _list(self, node: ast.List | ast.Tuple) -> Code:
        if not 1 <= len(node.elts) <= self._limits.items:
            raise at(node, GuardCode.TYPE, f"a list needs 1 to {self._limits.items} items, this has {len(node.elts)}")
        items = [self.compile(item) for item in node.elts]
        kind: Type | None = items[0].type
        for item, place in zip(items, node.elts, strict=True):
            kind = joined(kind, item.type) if kind is not None and not item.type.is_list else None
            if kind is None:
                raise at(place, GuardCode.TYPE, f"all items must be of one type, but one is {items[0].type}, one {item.type}")
        items = [item.fitted((kind or STR).kind) for item in items]
        runs = [item.run for item in items]
        known = all(item.constant is not UNKNOWN for item in items)
        constant = [item.constant for item in items] if known else UNKNOWN
        type_ = Type((kind or STR).kind, len(items))
        return Code(type_, lambda frame: [run(frame) for run in runs], 1 + sum(i.steps for i in items), constant)

    def _comprehension(self, node: ast.ListComp) -> Code:
        type_, steps, each = self.generator(node)
        return Code(type_, lambda frame: list(each(frame)), steps)

    def generator(self, node: ast.ListComp | ast.GeneratorExp) -> tuple[Type, int, Callable[[Frame], Iterator[Value]]]:
        """The type of its list, its greatest cost, and its items one by one."""
        if len(node.generators) != 1:
            raise at(node, GuardCode.CONSTRUCT, "a comprehension may have one 'for' only")
        part = node.generators[0]
        if not isinstance(part.target, ast.Name) or part.is_async:
            raise at(part.target, GuardCode.CONSTRUCT, "a comprehension runs over one plain variable")
        source = self.iterable(part.iter)
        name = part.target.id
        if self.scope.find(name) is not None:
            raise at(part.target, GuardCode.NAME, f"'{name}' is a variable already; take another name in the comprehension")
        number = self.scope.assign(part.target, name, source.type.item)
        source = source.fitted(self.scope.kind(name))
        tests = [self.wanted(test, BOOL, "what stands behind 'if'") for test in part.ifs]
        item = self.compile(node.elt)
        self.scope.known.discard(name)
        if item.type.is_list:
            raise at(node.elt, GuardCode.TYPE, "a list of lists is not allowed")
        length = source.type.length or 0
        steps = source.steps + 1 + length * (1 + item.steps + sum(test.steps for test in tests))
        source_run, item_run, test_runs = source.run, item.run, [test.run for test in tests]

        def each(frame: Frame) -> Iterator[Value]:
            for value in source_run(frame):
                frame.values[number] = value
                if all(run(frame) for run in test_runs):
                    yield item_run(frame)

        return Type(item.type.kind, length), steps, each

    def iterable(self, node: ast.expr) -> Code:
        """What a loop runs over: a list of known greatest length, or range with constant bounds."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            return self.calls.range(node)
        code = self.compile(node)
        if not code.type.is_list:
            raise at(node, GuardCode.TYPE, f"a loop runs over a list or range(number), but this is {code.type}")
        return code

    def skill_here(self, node: ast.Call, name: str) -> GuardError:
        """The error for a skill that is called where a value is wanted."""
        what = "an action" if name in OWN_ACTIONS else "a skill"
        return at(node, GuardCode.CALL, f"{name} is {what}; only an action may call it, as a statement of its own")


def rounded(value: float, digits: int | None = None) -> float:
    """Python's round, but an infinite number (nothing in sight) and NaN stay what they are."""
    if not math.isfinite(value):
        return value
    return float(round(value, digits))


def _chain(runs: list[Evaluate], applied: list[Callable[[Any, Any], bool]]) -> Evaluate:
    def run(frame: Frame) -> bool:
        left = runs[0](frame)
        for apply, right_run in zip(applied, runs[1:], strict=True):
            right = right_run(frame)
            if not apply(left, right):
                return False
            left = right
        return True

    return run


def _incomparable(word: str, left: Type, right: Type) -> str:
    """Why two types cannot be compared so; "" when they can."""
    if word in ("in", "not in"):
        if right.is_list and not left.is_list and joined(left, right.item) is not None:
            return ""
        fits = left == right == STR
        return "" if fits else f"'{word}' looks for {left} in {right}; use a text in a text, or an item in a list"
    if left.is_number and right.is_number:
        return ""
    if word in ("==", "!=") and left == right and not left.is_list:
        return ""
    return f"'{word}' cannot compare {left} with {right}"
