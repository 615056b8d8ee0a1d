# SPDX-License-Identifier: Apache-2.0
"""How long the action of a reflex may take: its waits and the nominal times of its skills."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from reflexes.rule import LONGEST_ACTION_S, ReflexError
from skill_kernel.guard import Vocabulary
from skill_kernel.guard.code import LONGEST_WAIT_S, WAIT
from skill_kernel.guard.errors import LIMITS
from skill_kernel.skills.arguments import ArgumentError, bind_typed
from skill_kernel.skills.skill import SkillDefinitionError

MIN_LIMIT_S = 30.0
FACTOR = 2.0
"""How many times its nominal time a skill may take before something is wrong."""
EXTRA_S = 10.0
UNKNOWN_S = 30.0
"""Time granted to a skill whose arguments are known only when it is called."""


def limit_of(source: str, vocabulary: Vocabulary) -> float:
    """Return the `limit_s` that fits guarded code. Raises ReflexError when its action surely takes longer than any may."""
    action = _action(source)
    least = _Durations(vocabulary, longest=False).of(action)
    if least > LONGEST_ACTION_S:
        raise ReflexError(
            f"its action takes about {least:.0f} s; a reflex acts for at most {LONGEST_ACTION_S:g} s, make it shorter"
        )
    limit = FACTOR * _Durations(vocabulary, longest=True).of(action) + EXTRA_S
    return min(max(MIN_LIMIT_S, limit), LONGEST_ACTION_S)


def nominal_of(source: str, vocabulary: Vocabulary) -> float:
    """Return how long the skills of guarded code nominally take at most, without its waits."""
    return _Durations(vocabulary, longest=True, waits=False).of(_action(source))


def _action(source: str) -> list[ast.stmt]:
    return next(f for f in ast.parse(source).body if isinstance(f, ast.FunctionDef) and f.name == "action").body


class _Durations:
    """Adds up seconds along the longest way, every loop at its longest, or along the shortest, whatever the sensors say."""

    def __init__(self, vocabulary: Vocabulary, *, longest: bool, waits: bool = True) -> None:
        self._vocabulary, self._longest, self._waits = vocabulary, longest, waits

    def of(self, body: Iterable[ast.stmt]) -> float:
        total = 0.0
        for statement in body:
            leaves = any(isinstance(part, (ast.Return, ast.Break, ast.Continue)) for part in ast.walk(statement))
            if leaves and not self._longest:
                break
            if isinstance(statement, ast.If):
                total += (max if self._longest else min)(self.of(statement.body), self.of(statement.orelse))
            elif isinstance(statement, ast.For):
                total += self._rounds(statement.iter) * self.of(statement.body)
            else:
                calls = (c for c in ast.walk(statement) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name))
                total += sum(self._call(call) for call in calls)
        return total

    def _call(self, call: ast.Call) -> float:
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
            if not self._longest:
                return 0.0
            return LONGEST_WAIT_S if call.func.id == WAIT else UNKNOWN_S if skill is not None else 0.0

    def _rounds(self, over: ast.expr) -> int:
        """Return how often a loop runs: the guard has bounded a range and a list that stand there."""
        if isinstance(over, ast.Call):
            try:
                return len(range(*[int(ast.literal_eval(bound)) for bound in over.args]))
            except ValueError:
                return LIMITS.rounds
        if not self._longest:
            return 0
        return len(over.elts) if isinstance(over, ast.List) else LIMITS.items
