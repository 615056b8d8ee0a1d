# SPDX-License-Identifier: Apache-2.0
"""Compile a rule to its two functions, `condition` and `action`, or an expression to a function that gives its value.

The types of expressions and statements are checked, and they become closures over a frame.
Python's own eval, exec and compile are never used. Every loop has a known greatest number of rounds.
"""

import ast
import operator
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from skill_kernel.config.sections import nearest, shown
from skill_kernel.guard.code import (
    BOOL,
    FLOAT,
    FUNCTIONS,
    OF_PYTHON,
    OWN_ACTIONS,
    STR,
    UNKNOWN,
    Block,
    Caller,
    Code,
    Evaluate,
    Frame,
    Perform,
    Signal,
    SkillRequest,
    Steps,
    Type,
    Value,
    Vocabulary,
)
from skill_kernel.guard.reading import LARGEST_LITERAL, LIMITS, GuardCode, GuardError, RuleFault, at, read, read_expression
from skill_kernel.observation.accessors import Accessor
from skill_kernel.observation.model import ArgumentError as AccessorArgumentError
from skill_kernel.observation.model import ObservationError
from skill_kernel.skills.arguments import ArgumentError, bind_typed, converters
from skill_kernel.skills.skill import Skill

_meant = partial(nearest, else_known=True)
CONDITION, ACTION = "condition", "action"
RETURNED = "return"
"""Name under which a condition keeps what it returns; no variable can have it."""
FORM = "write two functions without parameters, 'def condition(): return …' and 'def action(): …', and nothing else"

ARITHMETIC: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}


_APPLIED: dict[str, tuple[str, Callable[[Type], bool], Type, Callable[..., Any]]] = {
    "any": ("a list of truth values", lambda t: t.is_list and t.kind is bool, BOOL, any),
    "all": ("a list of truth values", lambda t: t.is_list and t.kind is bool, BOOL, all),
    "sum": ("a list of numbers", lambda t: t.is_list and t.kind is not str, FLOAT, sum),
    "min": ("a list of numbers", lambda t: t.is_list and t.kind is float, FLOAT, min),
    "max": ("a list of numbers", lambda t: t.is_list and t.kind is float, FLOAT, max),
    "abs": ("a number", FLOAT.__eq__, FLOAT, abs),
    "round": ("a number", FLOAT.__eq__, FLOAT, lambda value: round(value, 0)),  # so it takes inf: nothing in sight
    "len": ("a list or a text", lambda t: t.is_list or t == STR, FLOAT, len),
    "lower": ("a text", STR.__eq__, STR, str.lower),
}
"""Functions of one value: what they take, whether a type fits, the type they give, and the function. min and max also take
several numbers."""
_EACH = ("any", "all", "sum", "min", "max")
"""Functions that look at each item, and also take a generator."""


class Compiler(ast.NodeVisitor):
    """Compile one function or expression. A condition returns a truth value and calls no skill; an action returns nothing.

    Each method gives the Code of an expression or the Block of a statement, and raises GuardError for what is not allowed or
    does not fit. The tables keep, in order, the names of accessors and skills that were met, the subsystems these need, and
    what the robot's limits clamp. Each variable has one of `types`, and is `known` only where it has surely been assigned.
    """

    def __init__(self, vocabulary: Vocabulary, *, is_condition: bool = True) -> None:
        self._vocabulary, self._is_condition = vocabulary, is_condition
        self.types: dict[str, Type] = {}
        self.known: set[str] = set()
        self.accessors: dict[str, None] = {}
        self.skills: dict[str, None] = {}
        self.subsystems: dict[str, None] = {}
        self.notes: list[str] = []
        self._loops = 0

    # -- expressions ---------------------------------------------------------------------------------------------

    def compile(self, node: ast.expr) -> Code:
        return cast(Code, self.visit(node))

    def wanted(self, node: ast.expr, type_: Type, what: str) -> Code:
        """Return the code of an expression that must fit a type."""
        code = self.compile(node)
        if not type_.takes(code.type):
            raise at(node, GuardCode.TYPE, f"{what} must be {type_}, but this is {code.type}")
        return code

    def visit_Constant(self, node: ast.Constant) -> Code:
        value, most = node.value, LIMITS.text_characters
        type_ = OF_PYTHON.get(type(value))
        if type_ is None:
            raise at(node, GuardCode.CONSTRUCT, f"{shown(repr(value))} is no number, text, True or False")
        if isinstance(value, str) and len(value) > most:
            raise at(node, GuardCode.TOO_LONG, f"a text of {len(value)} characters; {most} are allowed")
        if isinstance(value, (int, float)) and not -LARGEST_LITERAL <= value <= LARGEST_LITERAL:
            raise at(node, GuardCode.NUMBER, f"the number is too large; at most {LARGEST_LITERAL:g}")
        return Code(type_, lambda _: value, 1, value)

    def visit_Name(self, node: ast.Name) -> Code:
        if (name := node.id) in self.known:
            return Code(self.types[name], lambda frame: frame.values[name], 1)
        if meaning := self._vocabulary.taken(node.id):
            raise at(node, GuardCode.CALL, f"'{node.id}' is {meaning}; call it: {node.id}(…)")
        known = [*self.known, *self._vocabulary.accessors, *FUNCTIONS]
        raise at(node, GuardCode.NAME, f"there is no '{shown(node.id)}' here{_meant(node.id, known)}")

    def visit_BoolOp(self, node: ast.BoolOp) -> Code:
        is_and = isinstance(node.op, ast.And)
        parts = [self.wanted(value, BOOL, f"each side of '{'and' if is_and else 'or'}'") for value in node.values]
        combine, runs = all if is_and else any, [part.run for part in parts]
        return Code(BOOL, lambda frame: combine(run(frame) for run in runs), 1 + _steps(parts))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Code:
        if isinstance(node.op, ast.Not):
            truth = self.wanted(node.operand, BOOL, "what follows 'not'")
            return Code(BOOL, lambda frame: not truth.run(frame), truth.steps + 1)
        inner = self.wanted(node.operand, FLOAT, "what a sign stands before")
        if isinstance(node.op, ast.UAdd):
            return inner
        run, constant = inner.run, -inner.constant if inner.constant is not UNKNOWN else UNKNOWN
        return Code(FLOAT, lambda frame: -run(frame), inner.steps + 1, constant)

    def visit_BinOp(self, node: ast.BinOp) -> Code:
        word, apply = ARITHMETIC[type(node.op)]
        left, right = (self.wanted(side, FLOAT, f"each side of '{word}'") for side in (node.left, node.right))
        if word in ("/", "//", "%") and right.constant is not UNKNOWN and right.constant == 0:
            raise at(node, GuardCode.NUMBER, "this divides by zero")
        left_run, right_run = left.run, right.run
        return Code(FLOAT, lambda frame: apply(left_run(frame), right_run(frame)), left.steps + right.steps + 1)

    def visit_Compare(self, node: ast.Compare) -> Code:
        codes = [self.compile(side) for side in (node.left, *node.comparators)]
        applied = []
        for op, left, right, place in zip(node.ops, codes[:-1], codes[1:], node.comparators, strict=True):
            word, apply = COMPARISONS[type(op)]
            if problem := _incomparable(word, left.type, right.type):
                raise at(place, GuardCode.TYPE, problem)
            applied.append(apply)
        return Code(BOOL, _chain([code.run for code in codes], applied), 1 + _steps(codes))

    def visit_IfExp(self, node: ast.IfExp) -> Code:
        test = self.wanted(node.test, BOOL, "what stands behind 'if'")
        yes, no = self.compile(node.body), self.compile(node.orelse)
        type_ = yes.type.joined(no.type)
        if type_ is None:
            raise at(node, GuardCode.TYPE, f"both values must be of one type, but they are {yes.type} and {no.type}")
        test_run, yes_run, no_run = test.run, yes.run, no.run
        steps = test.steps + max(yes.steps, no.steps) + 1
        return Code(type_, lambda frame: yes_run(frame) if test_run(frame) else no_run(frame), steps)

    def visit_List(self, node: ast.List | ast.Tuple) -> Code:
        return self._list(node, node.elts)

    visit_Tuple = visit_List

    def _list(self, node: ast.expr, elements: Sequence[ast.expr]) -> Code:
        if not 1 <= len(elements) <= LIMITS.items:
            raise at(node, GuardCode.TYPE, f"a list needs 1 to {LIMITS.items} items, this has {len(elements)}")
        items = [self.compile(item) for item in elements]
        type_ = items[0].type
        for item, place in zip(items, elements, strict=True):
            if item.type.is_list or item.type != type_:
                raise at(place, GuardCode.TYPE, f"all items must be of one type, but one is {type_}, one {item.type}")
        runs, constants = [item.run for item in items], [item.constant for item in items]
        known = UNKNOWN if any(constant is UNKNOWN for constant in constants) else constants
        return Code(Type(type_.kind, len(items)), lambda frame: [run(frame) for run in runs], 1 + _steps(items), known)

    def visit_ListComp(self, node: ast.ListComp) -> Code:
        each = self._generator(node)
        return Code(each.type, lambda frame: list(each.run(frame)), each.steps)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Code:
        raise at(node, GuardCode.CONSTRUCT, "a generator stands only inside any, all, sum, min or max")

    def _generator(self, node: ast.ListComp | ast.GeneratorExp) -> Code:
        """Return the code that gives the items one by one; its type is that of the list of them."""
        if len(node.generators) != 1:
            raise at(node, GuardCode.CONSTRUCT, "a comprehension may have one 'for' only")
        part = node.generators[0]
        if not isinstance(part.target, ast.Name) or part.is_async:
            raise at(part.target, GuardCode.CONSTRUCT, "a comprehension runs over one plain variable")
        name = part.target.id
        source = self._iterable(part.iter)
        if name in self.known:
            raise at(part.target, GuardCode.NAME, f"'{name}' is a variable already; take another name in the comprehension")
        self._variable(part.target, name, source.type.item)
        tests = [self.wanted(test, BOOL, "what stands behind 'if'") for test in part.ifs]
        item = self.compile(node.elt)
        self.known.discard(name)
        if item.type.is_list:
            raise at(node.elt, GuardCode.TYPE, "a list of lists is not allowed")
        length = source.type.length or 0
        source_run, item_run, test_runs = source.run, item.run, [test.run for test in tests]

        def each(frame: Frame) -> Iterator[Value]:
            for value in source_run(frame):
                frame.values[name] = value
                if all(run(frame) for run in test_runs):
                    yield item_run(frame)

        return Code(Type(item.type.kind, length), each, source.steps + 1 + length * (1 + item.steps + _steps(tests)))

    def _iterable(self, node: ast.expr) -> Code:
        """Return what a loop runs over: a list of known greatest length, or range with constant bounds."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            return self._range(node)
        code = self.compile(node)
        if not code.type.is_list:
            raise at(node, GuardCode.TYPE, f"a loop runs over a list or range(number), but this is {code.type}")
        return code

    # -- calls in expressions ------------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> Code:
        if not isinstance(node.func, ast.Name):
            raise at(node, GuardCode.CALL, "only a plain name can be called")
        name, accessors = node.func.id, self._vocabulary.accessors
        if name in accessors:
            return self._accessor(node, accessors[name])
        if name in FUNCTIONS:
            return self._function(node, name)
        if name in self._vocabulary.skills or name in OWN_ACTIONS:
            what = "an action" if name in OWN_ACTIONS else "a skill"
            raise at(node, GuardCode.CALL, f"{name} is {what}; only an action may call it, as a statement of its own")
        raise at(node, GuardCode.NAME, f"there is no function '{shown(name)}'{_meant(name, [*accessors, *FUNCTIONS])}")

    def _places(self, node: ast.Call, name: str, parameters: Sequence[str]) -> dict[str, ast.expr]:
        """Return the arguments of a call by the names of its parameters."""
        if len(node.args) > len(parameters):
            signature = f"{name}({', '.join(parameters)})"
            raise at(node, GuardCode.ARITY, f"{signature} takes {len(parameters)} arguments, not {len(node.args)}")
        places = dict(zip(parameters, node.args, strict=False))
        for keyword in node.keywords:
            word = keyword.arg or "**"
            if word not in parameters or word in places:
                raise at(keyword, GuardCode.ARITY, f"{name} takes no further '{shown(word)}'{_meant(word, parameters)}")
            places[word] = keyword.value
        return places

    def _accessor(self, node: ast.Call, accessor: Accessor) -> Code:
        name, names = accessor.name, [p.name for p in accessor.parameters]
        places = self._places(node, name, names)
        if len(places) != len(names):
            raise at(node, GuardCode.ARITY, f"{name}({', '.join(names)}) takes {len(names)} arguments, not {len(places)}")
        codes = [self.wanted(places[n], STR, f"{n} of {name}") for n in names]
        constants = tuple(code.constant for code in codes)
        known = UNKNOWN not in constants
        try:
            if known:
                accessor.check(constants)
        except AccessorArgumentError as error:
            raise at(node, GuardCode.ARGUMENT, str(error)) from error
        self.accessors[name], returns = None, OF_PYTHON[accessor.returns]
        if known:
            return Code(returns, lambda frame: frame.call(name, *constants), 1 + _steps(codes))
        runs = [code.run for code in codes]
        return Code(returns, lambda frame: frame.call(name, *[run(frame) for run in runs]), 1 + _steps(codes))

    def _function(self, node: ast.Call, name: str) -> Code:
        if node.keywords:
            raise at(node, GuardCode.ARITY, f"{name} takes no named arguments here")
        if name == "range":
            raise at(node, GuardCode.CONSTRUCT, "range stands only behind 'in' of a loop")
        several = name in ("min", "max") and len(node.args) > 1
        if len(node.args) != 1 and not several:
            raise at(node, GuardCode.ARITY, f"{name} takes 1 argument, not {len(node.args)}")
        place = node.args[0]
        if isinstance(place, ast.GeneratorExp) and name in _EACH and not several:
            inner = self._generator(place)
        else:
            inner = self._list(node, node.args) if several else self.compile(place)
        what, fits, gives, apply = _APPLIED[name]
        if not fits(inner.type):
            raise at(place, GuardCode.TYPE, f"{name} takes {what}, not {inner.type}")
        run, rounds = inner.run, (inner.type.length or 0) if name in _EACH else 0
        return Code(gives, lambda frame: apply(run(frame)), inner.steps + rounds + 1)

    def _range(self, node: ast.Call) -> Code:
        """Return a range with constant bounds, of at most so many rounds as the limits say."""
        if node.keywords or not 1 <= len(node.args) <= 3:
            raise at(node, GuardCode.ARITY, "range takes 1 to 3 numbers")
        bounds = [self.wanted(place, FLOAT, "what range takes").constant for place in node.args]
        if not all(isinstance(bound, int) for bound in bounds):
            raise at(node, GuardCode.NUMBER, "the bounds of range must be constant whole numbers")
        if len(bounds) == 3 and bounds[2] == 0:
            raise at(node, GuardCode.NUMBER, "the step of range must not be 0")
        values = [float(value) for value in range(*bounds)[: LIMITS.rounds + 1]]
        if len(values) > LIMITS.rounds:
            raise at(node, GuardCode.TOO_MANY_STEPS, f"range of too many rounds; {LIMITS.rounds} are allowed")
        return Code(Type(float, len(values)), lambda _: values, 1)

    # -- statements ----------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> Block:
        """Return the code of statements, one after the other."""
        blocks: list[Block] = [self.visit(statement) for statement in statements]
        if len(blocks) == 1:
            return blocks[0]
        performs = [block.perform for block in blocks]

        def perform(frame: Frame) -> Steps:
            for each in performs:
                signal = yield from each(frame)
                if signal is not Signal.NEXT:
                    return signal
            return Signal.NEXT

        return Block(perform, _steps(blocks), sum(b.calls for b in blocks), any(b.ends for b in blocks))

    def visit_Return(self, node: ast.Return) -> Block:
        if not self._is_condition:
            if node.value is not None:
                raise at(node, GuardCode.TYPE, "an action returns nothing; write 'return' alone")
            return Block(_signalling(Signal.RETURN), 1, 0, ends=True)
        if node.value is None:
            raise at(node, GuardCode.TYPE, "a condition returns True or False, not nothing")
        code = self.wanted(node.value, BOOL, "what a condition returns")
        return Block(_signalling(Signal.RETURN, RETURNED, code.run), code.steps + 1, 0, ends=True)

    def visit_Expr(self, node: ast.Expr) -> Block:
        if self._is_condition or not self._is_skill(node.value):
            if isinstance(node.value, ast.Call):
                self.compile(node.value)
            raise at(node, GuardCode.FORM, "this value goes nowhere; a condition returns it, an action calls skills")
        return self._skill(node.value)

    def visit_Assign(self, node: ast.Assign) -> Block:
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            raise at(node, GuardCode.CONSTRUCT, "an assignment has one plain variable on its left")
        target = node.targets[0]
        if not self._is_condition and self._is_skill(node.value):
            self._variable(target, target.id, BOOL)
            return self._skill(node.value, target.id)
        return self._setting(target, self.compile(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> Block:
        if not isinstance(node.target, ast.Name):
            raise at(node, GuardCode.CONSTRUCT, "an assignment has one plain variable on its left")
        name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        return self._setting(node.target, self.compile(ast.copy_location(ast.BinOp(name, node.op, node.value), node)))

    def _variable(self, node: ast.AST, name: str, type_: Type) -> None:
        """Note a variable that gets a value of this type. Raises GuardError for a wrong one."""
        if meaning := self._vocabulary.taken(name):
            raise at(node, GuardCode.NAME, f"'{shown(name)}' is {meaning}; give the variable another name")
        before = self.types.setdefault(name, type_)
        if not before.takes(type_) or (before.length or 0) < (type_.length or 0):
            raise at(node, GuardCode.TYPE, f"variable '{name}' is {before} already, it cannot become {type_}")
        self.known.add(name)

    def _setting(self, target: ast.Name, code: Code) -> Block:
        self._variable(target, target.id, code.type)
        return Block(_signalling(Signal.NEXT, target.id, code.run), code.steps + 1, 0)

    def visit_If(self, node: ast.If) -> Block:
        test = self.wanted(node.test, BOOL, "what stands behind 'if'")
        before = set(self.known)
        yes = self.block(node.body)
        after_yes, self.known = self.known, set(before)
        no = self.block(node.orelse) if node.orelse else Block(_signalling(Signal.NEXT), 0, 0)
        after_no = self.known
        self.known = after_no if yes.ends else after_yes if no.ends else after_yes & after_no
        run, yes_perform, no_perform = test.run, yes.perform, no.perform

        def perform(frame: Frame) -> Steps:
            return (yield from (yes_perform if run(frame) else no_perform)(frame))

        steps = test.steps + max(yes.steps, no.steps) + 1
        return Block(perform, steps, max(yes.calls, no.calls), yes.ends and no.ends)

    def visit_For(self, node: ast.For) -> Block:
        if not isinstance(node.target, ast.Name) or node.orelse:
            raise at(node, GuardCode.CONSTRUCT, "a loop runs over one plain variable and has no 'else'")
        source = self._iterable(node.iter)
        before = set(self.known)
        name = node.target.id
        self._variable(node.target, name, source.type.item)
        self._loops += 1
        body = self.block(node.body)
        self._loops -= 1
        self.known = before
        run, body_perform, rounds = source.run, body.perform, source.type.length or 0

        def perform(frame: Frame) -> Steps:
            for value in run(frame):
                frame.values[name] = value
                signal = yield from body_perform(frame)
                if signal is Signal.RETURN:
                    return signal
                if signal is Signal.BREAK:
                    break
            return Signal.NEXT

        return Block(perform, source.steps + 1 + rounds * (body.steps + 1), rounds * body.calls)

    def visit_Break(self, node: ast.Break | ast.Continue) -> Block:
        word = type(node).__name__.lower()
        if not self._loops:
            raise at(node, GuardCode.FORM, f"'{word}' stands outside a loop")
        return Block(_signalling(Signal(word)), 1, 0, ends=True)

    visit_Continue = visit_Break

    def visit_Pass(self, node: ast.Pass) -> Block:
        return Block(_signalling(Signal.NEXT), 1, 0)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Block:
        raise at(node, GuardCode.CONSTRUCT, "a function inside a function is not allowed")

    # -- calls of skills, with the same checks of arguments as the kernel's own -----------------------------------

    def _is_skill(self, node: ast.expr) -> bool:
        """Return whether an expression is meant as a call of a skill or of an action of S0's own."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return False
        name, known = node.func.id, [*self._vocabulary.skills.names, *OWN_ACTIONS]
        if name not in known and not self._vocabulary.taken(name):
            raise at(node, GuardCode.NAME, f"there is no skill '{shown(name)}'{_meant(name, known)}")
        return name in known

    def _skill(self, node: ast.expr, variable: str = "") -> Block:
        """Return the code of a call; `variable` is told whether it succeeded."""
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        name, limits = node.func.id, self._vocabulary.limits
        skill = self._vocabulary.skills.get(name) or OWN_ACTIONS[name]
        self.skills[name] = None
        codes = self._skill_arguments(node, skill)

        def perform(frame: Frame) -> Steps:
            given = {p: code.run(frame) if code.constant is UNKNOWN else code.constant for p, code in codes.items()}
            values = bind_typed(skill, given, limits).values
            done = yield SkillRequest(name, values, bool(variable))
            if variable:
                frame.values[variable] = done
            return Signal.NEXT

        return Block(perform, 2 + _steps(codes.values()), 1)

    def _skill_arguments(self, node: ast.Call, skill: Skill) -> dict[str, Code]:
        """Return the codes of the arguments. What is constant is checked now, the rest when the skill is called."""
        places = self._places(node, skill.name, list(skill.signature.parameters))
        codes = {name: self._argument(place, skill, name) for name, place in places.items()}
        if skill.content is not None and skill.content not in codes:
            raise at(node, GuardCode.ARITY, f"{skill.name} needs {skill.content}")
        constants = {name: code.constant for name, code in codes.items() if code.constant is not UNKNOWN}
        kept = [p for p in skill.signature.parameters.values() if p.name in constants or p.name not in codes]
        closed = replace(skill, signature=skill.signature.replace(parameters=kept))
        try:
            bound = bind_typed(closed, constants, self._vocabulary.limits)
            self.subsystems.update(dict.fromkeys(self._vocabulary.needed(skill, bound.values)))
        except ArgumentError as error:
            raise at(node, GuardCode.ARGUMENT, error.message) from error
        except KeyError as error:
            why = f"{error.args[0]} of {skill.name} must be a constant: the subsystem follows from it"
            raise at(node, GuardCode.ARGUMENT, why) from error
        self.notes.extend(bound.clamped)
        return codes

    def _argument(self, place: ast.expr, skill: Skill, name: str) -> Code:
        code = self.compile(place)
        wanted = OF_PYTHON.get(converters(skill)[name].base)
        if code.constant is UNKNOWN:
            if code.type.is_list or (wanted is None and code.type.kind is not str):
                raise at(place, GuardCode.TYPE, f"{name} of {skill.name} must be a constant here")
            if wanted is not None and not wanted.takes(code.type):
                raise at(place, GuardCode.TYPE, f"{name} of {skill.name} must be {wanted}, but this is {code.type}")
        return code


def _steps(parts: Any) -> int:
    return sum(part.steps for part in parts)


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
    """Return why two types cannot be compared so; "" when they can."""
    if word in ("in", "not in"):
        if (right.is_list and left == right.item) or left == right == STR:
            return ""
        return f"'{word}' looks for {left} in {right}; use a text in a text, or an item in a list"
    if left == right and (left == FLOAT or (word in ("==", "!=") and not left.is_list)):
        return ""
    return f"'{word}' cannot compare {left} with {right}"


def _signalling(signal: Signal, name: str = "", run: Evaluate | None = None) -> Perform:
    """Return a statement that calls no skill: it gives a variable its value, where there is one, and says how to go on."""

    def perform(frame: Frame) -> Steps:
        if run is not None:
            frame.values[name] = run(frame)
        return signal
        yield

    return perform


@dataclass(frozen=True)
class Guarded:
    """Hold a rule that passed. `condition` raises ObservationError, as its accessors do, and RuleFault for all else that fails.
    `action` gives one SkillRequest after the other and is sent whether each succeeded.

    `subsystems` are all that the action may need. `notes`: what the robot's limits clamp.
    """

    source: str
    condition: Callable[[Caller], bool]
    action: Callable[[Caller], Generator[SkillRequest, bool, None]]
    accessors: tuple[str, ...]
    skills: tuple[str, ...]
    subsystems: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class GuardedExpression:
    """Hold an expression that passed: its type, the accessors it reads, and its value, which raises as a rule's condition."""

    source: str
    type: Type
    evaluate: Callable[[Caller], Value]
    accessors: tuple[str, ...]


def compile_guarded(source: str, vocabulary: Vocabulary) -> Guarded:
    """Check and compile a rule. Raises GuardError with what is wrong, where, and what to write instead."""
    functions = _functions(read(source))
    condition = Compiler(vocabulary)
    evaluate, condition_steps = _condition(condition, functions[CONDITION])
    if not condition.accessors:
        raise at(functions[CONDITION], GuardCode.FORM, "the condition looks at nothing; call an accessor in it")
    _bounded(functions[CONDITION], condition_steps, LIMITS.condition_steps)
    action = Compiler(vocabulary, is_condition=False)
    block = action.block(_body(functions[ACTION]))
    if not action.skills:
        raise at(functions[ACTION], GuardCode.FORM, "the action does nothing; call a skill in it")
    _bounded(functions[ACTION], block.steps, LIMITS.action_steps)
    if block.calls > LIMITS.skill_calls:
        why = f"the action may call skills {block.calls} times; {LIMITS.skill_calls} are allowed"
        raise at(functions[ACTION], GuardCode.TOO_MANY_STEPS, why)

    def act(call: Caller) -> Generator[SkillRequest, bool, None]:
        yield from block.perform(Frame(call))

    return Guarded(
        source,
        _faulting(evaluate),
        act,
        accessors=tuple({**condition.accessors, **action.accessors}),
        skills=tuple(action.skills),
        subsystems=tuple(action.subsystems),
        notes=tuple(action.notes),
    )


def compile_expression(source: str, accessors: Mapping[str, Accessor], *, wanted: Type = BOOL) -> GuardedExpression:
    """Check and compile one expression over accessors, such as the condition of a branch. Raises GuardError."""
    tree = read_expression(source)
    compiler = Compiler(Vocabulary(accessors))
    code = compiler.wanted(tree, wanted, "the condition")
    _bounded(tree, code.steps, LIMITS.condition_steps)
    return GuardedExpression(source, code.type, _faulting(lambda call: code.run(Frame(call))), tuple(compiler.accessors))


def _faulting(evaluate: Callable[[Caller], Value]) -> Callable[[Caller], Value]:
    """Return a function that raises RuleFault, and ObservationError, whatever Python raises in the one given."""

    def run(call: Caller) -> Value:
        try:
            return evaluate(call)
        except (ObservationError, RuleFault):
            raise
        except Exception as error:
            raise RuleFault(f"{type(error).__name__}: {error}") from error

    return run


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    found: dict[str, ast.FunctionDef] = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            raise at(node, GuardCode.FORM, FORM)
        if node.name not in (CONDITION, ACTION) or node.name in found:
            raise at(node, GuardCode.FORM, f"there is a function '{node.name}' too many; {FORM}")
        if node.decorator_list:
            raise at(node.decorator_list[0], GuardCode.CONSTRUCT, "a decorator is not allowed in a reflex")
        if node.returns is not None and ast.unparse(node.returns) not in ("bool", "None"):
            raise at(node.returns, GuardCode.CONSTRUCT, "the condition gives bool, the action None")
        found[node.name] = node
    for name in (CONDITION, ACTION):
        if name not in found:
            raise GuardError(GuardCode.FORM, f"the function '{name}' is missing; {FORM}")
    return found


def _body(function: ast.FunctionDef) -> list[ast.stmt]:
    """Return the statements without the docstring."""
    body = function.body[ast.get_docstring(function, clean=False) is not None :]
    if not body:
        raise at(function, GuardCode.FORM, f"{function.name} has no body; {FORM}")
    return body


def _condition(compiler: Compiler, function: ast.FunctionDef) -> tuple[Callable[[Caller], bool], int]:
    body = _body(function)
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        code = compiler.wanted(body[0].value, BOOL, "what a condition returns")
        return (lambda call: code.run(Frame(call))), code.steps
    block = compiler.block(body)
    if not block.ends:
        raise at(function, GuardCode.FORM, "the condition must return True or False on every way through it")
    perform = block.perform

    def evaluate(call: Caller) -> bool:
        frame = Frame(call)
        for _ in perform(frame):
            raise AssertionError("a condition asked for a skill")
        return bool(frame.values[RETURNED])

    return evaluate, block.steps


def _bounded(node: ast.AST, steps: int, allowed: int) -> None:
    if steps > allowed:
        why = f"this may take {steps} steps; {allowed} are allowed: shorten lists and loops"
        raise at(node, GuardCode.TOO_MANY_STEPS, why)
