# SPDX-License-Identifier: Apache-2.0
"""How long the action of a reflex may honestly take: its waits and the nominal times of its skills."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from reflexes.rule import LONGEST_ACTION_S, ReflexError
from skill_kernel.guard import Vocabulary
from skill_kernel.guard.errors import LIMITS
from skill_kernel.guard.vocabulary import LONGEST_WAIT_S, WAIT
from skill_kernel.skills.arguments import ArgumentError, bind_typed
from skill_kernel.skills.skill import SkillDefinitionError

LEAST_LIMIT_S = 30.0
FACTOR = 2.0
"""A skill may take so much longer than it nominally does before something is wrong."""
EXTRA_S = 10.0
UNKNOWN_S = 30.0
"""What a skill is given whose arguments are known only when it is called."""


def limit_of(source: str, vocabulary: Vocabulary) -> float:
    """The `limit_s` that fits guarded code. Raises ReflexError when its action surely takes longer than any may."""
    action = next(f for f in ast.parse(source).body if isinstance(f, ast.FunctionDef) and f.name == "action")
    durations = _Durations(vocabulary)
    least = durations.least(action.body)
    if least > LONGEST_ACTION_S:
        raise ReflexError(
            f"its action takes about {least:.0f} s; a reflex acts for at most {LONGEST_ACTION_S:g} s, make it shorter"
        )
    limit = FACTOR * durations.most(action.body) + EXTRA_S
    return min(max(LEAST_LIMIT_S, limit), LONGEST_ACTION_S)


def nominal_of(source: str, vocabulary: Vocabulary) -> float:
    """How long the skills of guarded code nominally take at most, without its waits."""
    action = next(f for f in ast.parse(source).body if isinstance(f, ast.FunctionDef) and f.name == "action")
    return _Durations(vocabulary, waits=False).most(action.body)


class _Durations:
    def __init__(self, vocabulary: Vocabulary, *, waits: bool = True) -> None:
        self._vocabulary, self._waits = vocabulary, waits

    def most(self, body: Iterable[ast.stmt]) -> float:
        """Seconds along the longest way, every loop at its longest."""
        total = 0.0
        for statement in body:
            if isinstance(statement, ast.If):
                total += max(self.most(statement.body), self.most(statement.orelse))
            elif isinstance(statement, ast.For):
                total += _rounds(statement) * self.most(statement.body)
            else:
                total += self._calls(statement, UNKNOWN_S, LONGEST_WAIT_S)
        return total

    def least(self, body: Iterable[ast.stmt]) -> float:
        """Seconds it takes whatever the sensors say, as far as the code tells."""
        total = 0.0
        for statement in body:
            leaves = any(isinstance(part, (ast.Return, ast.Break, ast.Continue)) for part in ast.walk(statement))
            if leaves:
                break
            if isinstance(statement, ast.If):
                total += min(self.least(statement.body), self.least(statement.orelse))
            elif isinstance(statement, ast.For):
                total += (_rounds(statement) if isinstance(statement.iter, ast.Call) else 0) * self.least(statement.body)
            else:
                total += self._calls(statement, 0.0, 0.0)
        return total

    def _calls(self, statement: ast.stmt, unknown_s: float, unknown_wait_s: float) -> float:
        calls = (part for part in ast.walk(statement) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name))
        return sum(self._one(call, unknown_s, unknown_wait_s) for call in calls)

    def _one(self, call: ast.Call, unknown_s: float, unknown_wait_s: float) -> float:
        assert isinstance(call.func, ast.Name)
        skill = self._vocabulary.skills.get(call.func.id)
        try:
            given = [ast.literal_eval(place) for place in call.args]
            named = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
            if call.func.id == WAIT:
                return float([*given, *named.values()][0]) if self._waits else 0.0
            if skill is None:
                return 0.0
            values = dict(zip(skill.signature.parameters, given, strict=False)) | named
            return skill.nominal_for(bind_typed(skill, values, self._vocabulary.limits).values)
        except (ValueError, ArgumentError, SkillDefinitionError):
            return unknown_wait_s if call.func.id == WAIT else unknown_s if skill is not None else 0.0


def _rounds(loop: ast.For) -> int:
    """How often a loop runs at most: of a range and of a list that stand there, the guard has bounded both."""
    if isinstance(loop.iter, ast.List):
        return len(loop.iter.elts)
    if isinstance(loop.iter, ast.Call):
        try:
            return len(range(*[int(ast.literal_eval(bound)) for bound in loop.iter.args]))
        except ValueError:
            return LIMITS.rounds
    return LIMITS.items
