# SPDX-License-Identifier: Apache-2.0
"""Read grammars in GBNF for tests: draw strings from one, or turn a rule into a regular expression."""

from __future__ import annotations

import random
import re
from typing import TypeAlias

Node: TypeAlias = tuple[str, object]

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\[[^\]]*\]|[a-z][a-z0-9-]*|\{\d+,\d+\}|[|()?*+])')
_TIMES = {"?": (0, 1), "*": (0, 4), "+": (1, 5)}
"""Repetitions that are drawn; those without a bound are cut."""


class Gbnf:
    """Hold the rules of a grammar. Raises ValueError for what is no GBNF."""

    def __init__(self, text: str) -> None:
        self._rules = {}
        for line in text.splitlines():
            name, _, rule = line.partition(" ::= ")
            self._rules[name] = read(rule)

    def draw(self, chance: random.Random, node: Node = ("rule", "root")) -> str:
        """Return a string of the language."""
        kind, what = node
        if kind == "rule":
            return self.draw(chance, self._rules[str(what)])
        if kind == "literal":
            return str(what)
        if kind == "class":
            first, last = chance.choice(_ranges(str(what)))
            return chr(chance.randint(first, last))
        if kind == "repeat":
            inner, (least, most), _ = what  # type: ignore[misc]
            return "".join(self.draw(chance, inner) for _ in range(chance.randint(least, most)))
        if kind == "either":
            return self.draw(chance, chance.choice(what))  # type: ignore[call-overload]
        return "".join(self.draw(chance, one) for one in what)  # type: ignore[attr-defined]


def read(rule: str) -> Node:
    """Return the right-hand side of a rule as a tree."""
    tokens, at = [], 0
    while rule[at:].strip():
        if not (found := _TOKEN.match(rule, at)):
            raise ValueError(f"no GBNF: {rule[at : at + 40]}")
        tokens.append(found[1])
        at = found.end()
    node, rest = _either(tokens)
    if rest:
        raise ValueError(f"no GBNF: {' '.join(rest[:5])}")
    return node


def regex(node: Node) -> str:
    """Return a rule that names no other as a regular expression."""
    kind, what = node
    if kind == "literal":
        return re.escape(str(what))
    if kind == "class":
        return f"[{what}]"
    if kind == "repeat":
        inner, _, written = what  # type: ignore[misc]
        return f"(?:{regex(inner)}){written}"
    parts = [regex(one) for one in what]  # type: ignore[attr-defined]
    return f"(?:{'|'.join(parts)})" if kind == "either" else "".join(parts)


def _either(tokens: list[str]) -> tuple[Node, list[str]]:
    ways, sequence = [], list[Node]()
    while tokens and tokens[0] != ")":
        token, tokens = tokens[0], tokens[1:]
        if token == "|":
            ways.append(("sequence", sequence))
            sequence = []
        elif token in _TIMES or token.startswith("{"):
            times = _TIMES.get(token) or tuple(map(int, token[1:-1].split(",")))
            sequence[-1] = ("repeat", (sequence[-1], times, token))
        elif token == "(":
            inner, tokens = _either(tokens)
            if tokens[:1] != [")"]:
                raise ValueError("a bracket is not closed")
            tokens = tokens[1:]
            sequence.append(inner)
        elif token.startswith('"'):
            sequence.append(("literal", re.sub(r"\\(.)", r"\1", token[1:-1])))
        else:
            sequence.append(("class", token[1:-1]) if token.startswith("[") else ("rule", token))
    ways.append(("sequence", sequence))
    return ("either", ways), tokens


def _ranges(characters: str) -> list[tuple[int, int]]:
    return [(ord(a), ord(b or a)) for a, b in re.findall(r"(.)(?:-(.))?", characters)]
