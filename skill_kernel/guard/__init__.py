# SPDX-License-Identifier: Apache-2.0
"""Runs code that a model or a person wrote as a rule, and nothing else: parsed, checked against an allow-list and against
types, then compiled to closures (semantics, section 6)."""

from skill_kernel.guard.code import Caller, SkillRequest, Vocabulary
from skill_kernel.guard.compiler import Guarded, GuardedExpression, compile_expression, compile_guarded
from skill_kernel.guard.errors import LIMITS, GuardCode, GuardError, RuleFault

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
