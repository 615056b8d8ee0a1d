# SPDX-License-Identifier: Apache-2.0
"""Reads the usual forms of a reflex without any language model: a sentence becomes a condition and an action."""

from planners.prescriptions.grammar.problem import FORMS, GrammarError
from planners.prescriptions.grammar.reader import Grammar, Reading

__all__ = ["FORMS", "Grammar", "GrammarError", "Reading"]
