# SPDX-License-Identifier: Apache-2.0
"""Write the functions that a statement uses and nobody has defined, and those that they use (section 3.3, after Code as
Policies)."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from planners.strategies.console.sandbox import parsed

MAX_FUNCTIONS, MAX_DEPTH = 8, 3
"""Functions that are written for one statement, and how deep one may use another that is not there yet."""


def undefined_calls(code: str, known: Collection[str]) -> dict[str, str]:
    """Return the functions that code calls by a name that is neither known nor bound in it, each with the call, or with the
    assignment that the call is the value of; none for what is no Python."""
    tree = parsed(code)
    if tree is None:
        return {}
    own = {*bound_names(code), *known, *dir(builtins)}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        call = node.value if isinstance(node, ast.Assign) else node
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id not in {*own, *found}:
            found[call.func.id] = ast.unparse(node)
    return found


def bound_names(code: str) -> frozenset[str]:
    """Return the names that code binds: variables, functions, classes, parameters; none for what is no Python."""
    tree = parsed(code)
    names: set[str] = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return frozenset(names)


def definition(answer: str, name: str) -> str:
    """Return the function of this name that an answer defines, alone; empty where it defines none."""
    tree = parsed(answer)
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.unparse(node)
    return ""


@dataclass(eq=False)
class _Job:
    name: str
    call: str
    depth: int
    children: bool = False
    """True while it is written again, knowing the functions that it uses."""


class FunctionWriter:
    """Have the functions of one statement written, one after the other. `ask` puts a question, made of a call and of the
    functions written so far, to the model, and hands on the answer, "" for none; those that were `learned`, by name, are not
    asked for. `done` hears the definitions, those that others use before these."""

    def __init__(
        self,
        code: str,
        known: Collection[str],
        ask: Callable[[str, Mapping[str, str], Callable[[str], None]], None],
        done: Callable[[list[str]], None],
        learned: Mapping[str, str],
    ) -> None:
        self._known, self._ask, self._done, self._learned = frozenset(known), ask, done, learned
        self._written: dict[str, str] = {}
        self._tried: set[str] = set()
        self._jobs: list[_Job] = []
        self._push(code, 0)
        self._go_on()

    def _push(self, code: str, depth: int) -> bool:
        missing = undefined_calls(code, {*self._known, *self._tried})
        room = MAX_FUNCTIONS - len(self._tried)
        chosen = list(missing.items())[:room] if depth < MAX_DEPTH else []
        self._tried.update(name for name, _ in chosen)
        self._jobs += [_Job(name, call, depth) for name, call in reversed(chosen)]
        return bool(chosen)

    def _go_on(self) -> None:
        if not self._jobs:
            self._done(list(self._written.values()))
            return
        job = self._jobs[-1]
        if job.name in self._learned:
            self._answered(job, self._learned[job.name])
            return
        self._ask(job.call, self._written, lambda answer: self._answered(job, answer))

    def _answered(self, job: _Job, answer: str) -> None:
        source = definition(answer, job.name)
        if source and not job.children and self._push(source, job.depth + 1):
            job.children = True  # it is written again when they are there
        else:
            self._jobs.remove(job)
            if source:
                self._written[job.name] = source
        self._go_on()
