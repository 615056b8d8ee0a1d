# SPDX-License-Identifier: Apache-2.0
"""Run code that a model or a person wrote as a rule, and nothing else (semantics, section 6).

It is parsed, checked against an allow-list and against types, and compiled to closures.
"""
