# SPDX-License-Identifier: Apache-2.0
"""Checks and compiles the statements of a condition or an action; every loop has a known greatest number of rounds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from skill_kernel.guard.code import BOOL, Block, Code, Frame, Perform, Scope, Signal, Steps
from skill_kernel.guard.errors import GuardCode, Limits, at
from skill_kernel.guard.expressions import Expressions
from skill_kernel.guard.skills import SkillCalls
from skill_kernel.guard.vocabulary import Vocabulary


class Statements:
    """Compiles one function. A condition returns a truth value and calls no skill; an action returns nothing."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits, *, is_condition: bool) -> None:
        self.scope = Scope(vocabulary)
        self.expressions = Expressions(vocabulary, self.scope, limits)
        self.skills = SkillCalls(self.expressions, vocabulary)
        self._is_condition = is_condition
        self._in_loop = 0
        self._by_type: dict[type[ast.stmt], Callable[[Any], Block]] = {
            ast.Return: self._return,
            ast.Expr: self._call,
            ast.Assign: self._assign,
            ast.AugAssign: self._change,
            ast.If: self._if,
            ast.For: self._for,
            ast.Break: self._leave,
            ast.Continue: self._leave,
            ast.Pass: self._pass,
        }

    def block(self, statements: Sequence[ast.stmt]) -> Block:
        """Raises GuardError for what is not allowed or does not fit."""
        blocks = [self._statement(statement) for statement in statements]
        performs = [block.perform for block in blocks]
        steps, calls = sum(b.steps for b in blocks), sum(b.calls for b in blocks)
        if len(performs) == 1:
            return blocks[0]

        def perform(frame: Frame) -> Steps:
            for each in performs:
                signal = yield from each(frame)
                if signal is not Signal.NEXT:
                    return signal
            return Signal.NEXT

        return Block(perform, steps, calls, any(b.ends for b in blocks))

    def _statement(self, node: ast.stmt) -> Block:
        compiler = self._by_type.get(type(node))
        if compiler is None:
            raise at(node, GuardCode.CONSTRUCT, "a function inside a function is not allowed")
        return compiler(node)

    def _return(self, node: ast.Return) -> Block:
        if not self._is_condition:
            if node.value is not None:
                raise at(node, GuardCode.TYPE, "an action returns nothing; write 'return' alone")
            return Block(_signalling(Signal.RETURN), 1, 0, ends=True)
        if node.value is None:
            raise at(node, GuardCode.TYPE, "a condition returns True or False, not nothing")
        code = self.expressions.wanted(node.value, BOOL, "what a condition returns")
        run = code.run

        def perform(frame: Frame) -> Steps:
            frame.values[0] = run(frame)
            return Signal.RETURN
            yield

        return Block(perform, code.steps + 1, 0, ends=True)

    def _call(self, node: ast.Expr) -> Block:
        if self._is_condition or not self.skills.is_one(node.value):
            if isinstance(node.value, ast.Call):
                self.expressions.compile(node.value)
            raise at(node, GuardCode.FORM, "this value goes nowhere; a condition returns it, an action calls skills")
        return self.skills.compile(node.value, None)

    def _assign(self, node: ast.Assign) -> Block:
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            raise at(node, GuardCode.CONSTRUCT, "an assignment has one plain variable on its left")
        target = node.targets[0]
        if not self._is_condition and self.skills.is_one(node.value):
            return self.skills.compile(node.value, self.scope.assign(target, target.id, BOOL))
        return self._setting(target, self.expressions.compile(node.value))

    def _change(self, node: ast.AugAssign) -> Block:
        if not isinstance(node.target, ast.Name):
            raise at(node, GuardCode.CONSTRUCT, "an assignment has one plain variable on its left")
        name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        code = self.expressions.compile(ast.copy_location(ast.BinOp(name, node.op, node.value), node))
        return self._setting(node.target, code)

    def _setting(self, target: ast.Name, code: Code) -> Block:
        number = self.scope.assign(target, target.id, code.type)
        fitted = code.fitted(self.scope.kind(target.id))
        run = fitted.run

        def perform(frame: Frame) -> Steps:
            frame.values[number] = run(frame)
            return Signal.NEXT
            yield

        return Block(perform, fitted.steps + 1, 0)

    def _if(self, node: ast.If) -> Block:
        test = self.expressions.wanted(node.test, BOOL, "what stands behind 'if'")
        before = set(self.scope.known)
        yes = self.block(node.body)
        after_yes, self.scope.known = self.scope.known, set(before)
        no = self.block(node.orelse) if node.orelse else Block(_signalling(Signal.NEXT), 0, 0)
        after_no = self.scope.known
        self.scope.known = after_no if yes.ends else after_yes if no.ends else after_yes & after_no
        run, yes_perform, no_perform = test.run, yes.perform, no.perform

        def perform(frame: Frame) -> Steps:
            return (yield from (yes_perform if run(frame) else no_perform)(frame))

        steps = test.steps + max(yes.steps, no.steps) + 1
        return Block(perform, steps, max(yes.calls, no.calls), yes.ends and no.ends)

    def _for(self, node: ast.For) -> Block:
        if not isinstance(node.target, ast.Name) or node.orelse:
            raise at(node, GuardCode.CONSTRUCT, "a loop runs over one plain variable and has no 'else'")
        source = self.expressions.iterable(node.iter)
        before = set(self.scope.known)
        number = self.scope.assign(node.target, node.target.id, source.type.item)
        source = source.fitted(self.scope.kind(node.target.id))
        self._in_loop += 1
        body = self.block(node.body)
        self._in_loop -= 1
        self.scope.known = before
        run, body_perform, rounds = source.run, body.perform, source.type.length or 0

        def perform(frame: Frame) -> Steps:
            for value in run(frame):
                frame.values[number] = value
                signal = yield from body_perform(frame)
                if signal is Signal.RETURN:
                    return signal
                if signal is Signal.BREAK:
                    break
            return Signal.NEXT

        return Block(perform, source.steps + 1 + rounds * (body.steps + 1), rounds * body.calls)

    def _leave(self, node: ast.Break | ast.Continue) -> Block:
        word = "break" if isinstance(node, ast.Break) else "continue"
        if not self._in_loop:
            raise at(node, GuardCode.FORM, f"'{word}' stands outside a loop")
        return Block(_signalling(Signal.BREAK if word == "break" else Signal.CONTINUE), 1, 0, ends=True)

    def _pass(self, _: ast.Pass) -> Block:
        return Block(_signalling(Signal.NEXT), 1, 0)


def _signalling(signal: Signal) -> Perform:
    def perform(_: Frame) -> Steps:
        return signal
        yield

    return perform
