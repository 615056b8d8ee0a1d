# SPDX-License-Identifier: Apache-2.0
"""From the source of a rule to its two functions, `condition` and `action`, or of a single expression to its value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

from skill_kernel.guard.code import BOOL, Caller, Evaluate, Frame, Scope, SkillRequest, Type, Value
from skill_kernel.guard.compiler import Compiler
from skill_kernel.guard.errors import LIMITS, GuardCode, GuardError, Limits, at
from skill_kernel.guard.reading import read
from skill_kernel.guard.vocabulary import STOP, Vocabulary
from skill_kernel.observation.accessors import Accessor

CONDITION, ACTION = "condition", "action"
FORM = "write two functions without parameters, 'def condition(): return …' and 'def action(): …', and nothing else"


@dataclass(frozen=True)
class Guarded:
    """A rule that passed. `condition` raises what its accessors raise, and ArithmeticError or ValueError for numbers it
    cannot work with. `action` gives one SkillRequest after the other and is sent whether each succeeded.

    `subsystems` are all that the action may need; `stops`: it stands still meanwhile. `notes`: what the robot's limits
    clamp. Steps bound what one evaluation costs.
    """

    source: str
    condition: Callable[[Caller], bool]
    action: Callable[[Caller], Generator[SkillRequest, bool, None]]
    accessors: tuple[str, ...]
    skills: tuple[str, ...]
    subsystems: tuple[str, ...]
    stops: bool
    notes: tuple[str, ...]
    condition_steps: int
    action_steps: int


@dataclass(frozen=True)
class GuardedExpression:
    """An expression that passed: its type, the accessors it reads, its value."""

    source: str
    type: Type
    evaluate: Callable[[Caller], Value]
    accessors: tuple[str, ...]


def compile_guarded(source: str, vocabulary: Vocabulary, *, limits: Limits = LIMITS) -> Guarded:
    """Check and compile a rule. Raises GuardError with what is wrong, where, and what to write instead."""
    try:
        return _compiled(source, vocabulary, limits)
    except RecursionError as error:
        raise GuardError(GuardCode.TOO_DEEP, "this is nested too deeply; write it simpler") from error


def _compiled(source: str, vocabulary: Vocabulary, limits: Limits) -> Guarded:
    tree = read(source, limits)
    assert isinstance(tree, ast.Module)
    functions = _functions(tree)
    condition = Compiler(vocabulary, limits)
    evaluate, condition_steps = _condition(condition, functions[CONDITION])
    if not condition.accessors:
        raise at(functions[CONDITION], GuardCode.FORM, "the condition looks at nothing; call an accessor in it")
    _bounded(functions[CONDITION], condition_steps, limits.condition_steps)
    action = Compiler(vocabulary, limits, is_condition=False)
    block = action.block(_body(functions[ACTION]))
    if not action.skills:
        raise at(functions[ACTION], GuardCode.FORM, "the action does nothing; call a skill in it")
    _bounded(functions[ACTION], block.steps, limits.action_steps)
    if block.calls > limits.skill_calls:
        why = f"the action may call skills {block.calls} times; {limits.skill_calls} are allowed"
        raise at(functions[ACTION], GuardCode.TOO_MANY_STEPS, why)

    def act(call: Caller) -> Generator[SkillRequest, bool, None]:
        yield from block.perform(Frame(call, action.scope.size))

    return Guarded(
        source,
        evaluate,
        act,
        accessors=tuple({**condition.accessors, **action.accessors}),
        skills=tuple(action.skills),
        subsystems=tuple(action.subsystems),
        stops=STOP in action.skills,
        notes=tuple(action.notes),
        condition_steps=condition_steps,
        action_steps=block.steps,
    )


def compile_expression(
    source: str, accessors: Mapping[str, Accessor], *, wanted: Type = BOOL, limits: Limits = LIMITS
) -> GuardedExpression:
    """Check and compile one expression over accessors, such as the condition of a branch. Raises GuardError."""
    tree = read(source, limits, expression=True)
    assert isinstance(tree, ast.Expression)
    compiler = Compiler(Vocabulary(accessors), limits)
    code = compiler.wanted(tree.body, wanted, "the condition")
    _bounded(tree.body, code.steps, limits.condition_steps)
    return GuardedExpression(source, code.type, _evaluating(code.run, compiler.scope), tuple(compiler.accessors))


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
    """The statements without the docstring."""
    first = function.body[0]
    is_doc = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    body = function.body[is_doc:]
    if not body:
        raise at(function, GuardCode.FORM, f"{function.name} has no body; {FORM}")
    return body


def _condition(compiler: Compiler, function: ast.FunctionDef) -> tuple[Callable[[Caller], bool], int]:
    body = _body(function)
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        code = compiler.wanted(body[0].value, BOOL, "what a condition returns")
        return _evaluating(code.run, compiler.scope), code.steps
    compiler.scope.reserve()
    block = compiler.block(body)
    if not block.ends:
        raise at(function, GuardCode.FORM, "the condition must return True or False on every way through it")
    perform, scope = block.perform, compiler.scope

    def evaluate(call: Caller) -> bool:
        frame = Frame(call, scope.size)
        for _ in perform(frame):
            raise AssertionError("a condition asked for a skill")
        return bool(frame.values[0])

    return evaluate, block.steps


def _evaluating(run: Evaluate, scope: Scope) -> Callable[[Caller], Value]:
    def evaluate(call: Caller) -> Value:
        return run(Frame(call, scope.size))

    return evaluate


def _bounded(node: ast.AST, steps: int, allowed: int) -> None:
    if steps > allowed:
        why = f"this may take {steps} steps; {allowed} are allowed: shorten lists and loops"
        raise at(node, GuardCode.TOO_MANY_STEPS, why)
