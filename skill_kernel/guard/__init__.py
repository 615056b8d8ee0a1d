# SPDX-License-Identifier: Apache-2.0
"""Run code that a model or a person wrote as a rule, and nothing else (semantics, section 6).

It is parsed, checked against an allow-list and against types, and compiled to closures.
"""

from skill_kernel.guard.code import Caller, SkillRequest, Vocabulary
from skill_kernel.guard.compiler import Guarded, GuardedExpression, compile_expression, compile_guarded
from skill_kernel.guard.reading import LIMITS, GuardCode, GuardError, RuleFault

__all__ = [
    "LIMITS",
    "Caller",
    "GuardCode",
    "GuardError",
    "Guarded",
    "GuardedExpression",
    "RuleFault",
    "SkillRequest",
    "Vocabulary",
    "compile_expression",
    "compile_guarded",
]
