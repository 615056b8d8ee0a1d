# SPDX-License-Identifier: Apache-2.0
"""The error of a sentence that the grammar does not read."""

from __future__ import annotations

from reflexes.rule import ReflexError

FORMS = """\
when anything is closer than 0.2 m in front, step back 0.5 m
if a person comes within 1 m, stop and say hello
when the way on the left is not free for 50 cm, step right 20 cm
when you see a ball and the battery is above 20 %, bark twice
if you hear "kalos", turn around and say "yes?"
when there are more than 2 people, say "hello everybody"
when the battery drops below 20 % unless it is charging, go to the lobby
if you are in the kitchen or a chair is nearer than 60 cm, stop, wait 2 seconds, then turn left 90 degrees"""
"""One sentence of each form, for help texts and error messages."""


class GrammarError(ReflexError):
    """A sentence, or a piece of it, was not understood; with `forms` the message ends in examples."""

    def __init__(self, message: str, forms: str = "") -> None:
        super().__init__(f"{message}. Forms that are understood without a model:\n{forms}" if forms else message)
