# SPDX-License-Identifier: Apache-2.0
"""Take the next statement from what a model writes at the prompt: it writes on, and invents what the console would answer.
Notice when it goes in circles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from planners.models.model_call import without_thoughts
from planners.strategies.console.transcript import MORE, PROMPT

FENCE = "```"
INDENT = "    "
TIMES, TIMES_SPOKEN = 3, 2
"""Rounds of the same statements that are a circle; fewer where somebody is spoken to in it."""
_SPEAKS = re.compile(r"\b(?:say|ask)\(")
_CLAUSE = re.compile(r"(?:else|elif\b.+|except\b.*|finally)\s*:")
"""Matches the head of a further part of a statement with blocks."""


def statement(reply: str) -> str:
    """Return the first statement of a reply; empty where there is none. What follows it is invented output.

    It is the first line, and those that begin with `...`, that follow a line ending with `:` or a backslash, or that go on
    indented by four spaces, with the `else` and `except` of such blocks.
    """
    lines = _begun(without_thoughts(reply)).split("\n")
    taken = [lines[0]]
    demanded = lines[0].endswith((":", "\\"))
    bare = False
    for line, after in pairwise([*lines[1:], ""]):
        within = line.startswith(INDENT) or (not line.strip() and after.startswith(INDENT)) or bool(_CLAUSE.match(line))
        bare = (bare or demanded) and within
        if line.startswith((PROMPT, FENCE)) or not (demanded or bare or line.startswith(MORE)):
            break
        code = line.removeprefix(MORE).removeprefix(" ") if line.startswith(MORE) else line
        taken.append(code)
        demanded = code.endswith((":", "\\"))
    return "\n".join(taken).rstrip()


def complete(reply: str) -> bool:
    """Return whether a reply goes on behind its first statement: no more of it is needed."""
    begun = _begun(without_thoughts(reply))
    return any(f"\n{end}" in begun for end in (PROMPT, FENCE)) and bool(statement(reply))


def is_comment(code: str) -> bool:
    """Return whether a statement is one line that does nothing."""
    return "\n" not in code and code.startswith("#")


def is_circle(statements: Sequence[str]) -> bool:
    """Return whether the last of these statements, which has not been executed, closes a circle of any length."""
    for length in range(1, len(statements) // TIMES_SPOKEN + 1):
        circle = statements[-length:]
        times = TIMES_SPOKEN if any(map(_SPEAKS.search, circle)) else TIMES
        if length * times <= len(statements) and list(statements[-length * times :]) == list(circle) * times:
            return True
    return False


def unfenced(answer: str) -> str:
    """Return the code of an answer without the fence around it and what stands outside of it."""
    text = without_thoughts(answer).strip()
    if FENCE in text:
        text = text.partition(FENCE)[2].partition("\n")[2].partition(FENCE)[0]
    return text.strip()


def _begun(reply: str) -> str:
    """Return a reply without what models put before their statement: blanks, a fence, the prompt itself."""
    text = reply.lstrip()
    if text.startswith(FENCE):
        text = text.partition("\n")[2].lstrip()
    return text.removeprefix(PROMPT).lstrip().rstrip("\n")
