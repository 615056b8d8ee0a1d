# SPDX-License-Identifier: Apache-2.0
"""Comments, processing instructions, DOCTYPE and reasoning blocks: they give no tokens and are skipped unstored."""

from __future__ import annotations

import re
from typing import Protocol

from function_tokens.parsing.reporter import Reporter
from function_tokens.parsing.xml_chars import spaces
from skill_kernel.codes import ParseCode


class Construct(Protocol):
    """A construct whose text comes in pieces."""

    unfinished: str
    """What an error calls it when the stream ends inside."""

    def scan(self, text: str, at: int) -> tuple[int, bool]:
        """Reads on from `at`; the index behind what was read, and whether the construct has ended there."""


class Until:
    """Finds a literal that may be cut into pieces."""

    def __init__(self, literal: str) -> None:
        self._literal = literal
        self._tail = ""

    def find(self, text: str, at: int) -> int:
        """The index behind the literal, or -1 when the text ends before it."""
        literal, keep = self._literal, len(self._literal) - 1
        seam = self._tail + text[at : at + keep]
        found = seam.find(literal)
        if found >= 0:
            end = at + found + len(literal) - len(self._tail)
        else:
            found = text.find(literal, at)
            end = found + len(literal) if found >= 0 else -1
        if end < 0 and keep:
            self._tail = seam[-keep:] if len(text) - at <= keep else text[-keep:]
        else:
            self._tail = ""
        return end


class Comment:
    """`<!-- … -->`; XML forbids `--` inside, which a lenient stream may have."""

    unfinished = "a comment"

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._dashes = Until("--")
        self._two = False

    def scan(self, text: str, at: int) -> tuple[int, bool]:
        while at < len(text):
            if self._two:
                if text[at] == ">":
                    return at + 1, True
                self._reporter.violation(ParseCode.SYNTAX, "'--' inside a comment; end it with '-->'", at)
                self._two = text[at] == "-"
                at += 1
                continue
            end = self._dashes.find(text, at)
            if end < 0:
                return len(text), False
            at, self._two = end, True
        return at, False


class Instruction:
    """`<? … ?>`, refused; in a lenient stream it is skipped."""

    unfinished = "a processing instruction"

    def __init__(self) -> None:
        self._end = Until("?>")

    def scan(self, text: str, at: int) -> tuple[int, bool]:
        end = self._end.find(text, at)
        return (end, True) if end >= 0 else (len(text), False)


_outside = re.compile(r"[\"'\[>]").search
_subset = re.compile(r"[\]<]").search
_declaration = re.compile(r"[\"'>]").search


class Declaration:
    """`<!DOCTYPE … [ … ]>` or another markup declaration, refused; in a lenient stream it is skipped as a whole."""

    unfinished = "a markup declaration"

    def __init__(self) -> None:
        self._depth = 0  # 0 outside the subset, 1 in it, 2 in a declaration of it
        self._until: Until | None = None
        self._opening = ""

    def scan(self, text: str, at: int) -> tuple[int, bool]:
        while at < len(text):
            if self._until:
                end = self._until.find(text, at)
                if end < 0:
                    break
                at, self._until = end, None
            elif self._opening:
                at = self._opened(text, at)
            elif self._depth == 1:
                if not (found := _subset(text, at)):
                    break
                at = found.end()
                if found[0] == "<":
                    self._opening = "<"
                else:
                    self._depth = 0
            else:
                if not (found := (_declaration if self._depth else _outside)(text, at)):
                    break
                at = found.end()
                if found[0] == "[":
                    self._depth = 1
                elif found[0] != ">":
                    self._until = Until(found[0])
                elif self._depth == 0:
                    return at, True
                else:
                    self._depth = 1
        return len(text), False

    def _opened(self, text: str, at: int) -> int:
        opening = self._opening + text[at]
        if opening == "<?":
            self._until = Until("?>")
        elif opening == "<!--":
            self._until = Until("-->")
        elif opening in ("<!", "<!-"):
            self._opening = opening
            return at + 1
        else:
            self._depth, self._opening = 2, ""
            return at
        self._opening = ""
        return at + 1


class Reasoning:
    """A reasoning block: anything up to its literal end tag (semantics 1.6)."""

    def __init__(self, name: str, reporter: Reporter) -> None:
        self.unfinished = f"the reasoning block <{name}>"
        self._reporter = reporter
        self._end = Until("</" + name)
        self._named = False
        self._room = reporter.limits.reasoning_length

    def scan(self, text: str, at: int) -> tuple[int, bool]:
        start = at
        end = self._scan(text, at)
        read = (end if end >= 0 else len(text)) - start
        if read > self._room:
            raise self._reporter.exceeded("reasoning_length", start + self._room)
        self._room -= read
        return (end, True) if end >= 0 else (len(text), False)

    def _scan(self, text: str, at: int) -> int:
        while at < len(text):
            if self._named:
                at = spaces(text, at)
                if at < len(text):
                    self._named = False
                    if text[at] == ">":
                        return at + 1
            else:
                at = self._end.find(text, at)
                if at < 0:
                    return -1
                self._named = True
        return -1
