# SPDX-License-Identifier: Apache-2.0
"""Leave out of parsed text what no ear should hear: control tokens of chat templates, and marks of the prompt that a model
copies."""

import re
from collections.abc import Iterable

from function_tokens.parsing.tokens import FunctionToken, Repair, TokenKind
from skill_kernel.codes import ParseCode

MAX_NOTES = 3
"""Things left out that are reported one by one; the others are summed up at the end of the stream."""
MAX_WAITING = 200
"""Characters of text that wait at most, because they may be the beginning of something to leave out."""
NO_ANSWER = "(no answer)"
"""Placeholder of an answer that nobody gave; models copy it."""

_ROLES = "system|developer|user|human|assistant|model|tool"
_ELEMENT = r"s|[be]os|unk|SYS|(?:start|begin|end)_?of_?\w{1,30}"
_HEADER = r"<(?:[|\uff5c][^<>\s]{0,30}start[^<>\s]{0,30}[|\uff5c]|start_of_turn)>"
CONTROL = re.compile(
    rf"{_HEADER}\s*(?:(?:{_ROLES})\b:?)?"
    rf"|<[|\uff5c][^<>\s]{{1,60}}[|\uff5c]>|<</?SYS>>|</?(?:{_ELEMENT})>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_(?:CALLS|RESULTS|CONTENT)|[BE]OS|CLS|SEP|PAD|UNK)\]"
)
"""Control tokens: a name in `<|…|>`, the elements and brackets that stand for the limits of texts and turns, and the role
behind one that begins a turn."""
_control_element = re.compile(rf"{_ELEMENT}|\uff5c.{{1,60}}\uff5c").fullmatch
_control_begun = re.compile(rf"(?:{_HEADER}\s*\w{{0,9}}|<?[<\[][^<>\[\]\s]{{0,62}}|<</?SYS>)\Z").search


class AsideFilter:
    """Take the asides out of the tokens of one stream.

    `mark` is a pattern of what is left out at the beginning of a line, `mark_begun` of what may become that. Text that may be
    the beginning of an aside waits for the next token. `count` is the number of asides.
    """

    def __init__(self, mark: str, mark_begun: str) -> None:
        self._mark = re.compile(rf"(?<=\n)(?:{mark})")
        self._mark_begun = re.compile(rf"(?<=\n)(?:{mark_begun})\Z").search
        self._waiting: FunctionToken | None = None
        self._line_begins = self._utterance_begins = True
        self._repairs: list[Repair] = []
        self.count = 0

    def feed(self, tokens: Iterable[FunctionToken]) -> list[FunctionToken]:
        """Return what of the tokens can be given out now."""
        out: list[FunctionToken] = []
        for token in tokens:
            if token.name and _control_element(token.name):
                if token.inserted:
                    continue
                written = f"<{'/' * (token.kind is TokenKind.RF)}{token.name}>"
                token = token._replace(kind=TokenKind.CHAR, name="", text=written)
            if token.kind in (TokenKind.CHAR, TokenKind.REF):
                out += self._text(token)
            else:
                out += [*self._text(), token]
                self._line_begins = self._utterance_begins = True
        return out

    def close(self) -> list[FunctionToken]:
        """Return the text that waits at the end of the stream."""
        rest = self._text()
        if self.count > MAX_NOTES:
            self._note(f"left out {self.count} control tokens and marks of the prompt in all", 0, self.count - MAX_NOTES)
        return rest

    def take_repairs(self) -> list[Repair]:
        """Return what was left out since the last call."""
        repairs, self._repairs = self._repairs, []
        return repairs

    def _text(self, more: FunctionToken | None = None) -> list[FunctionToken]:
        """Return the text that can be given out, with `more` of it; without more, all that waits."""
        token, self._waiting = self._waiting, None
        if token is None or more is None:
            token = token or more
        else:
            token = more._replace(kind=TokenKind.CHAR, text=token.text + more.text, start=token.start)
        if token is None:
            return []
        may_go_on = more is not None and len(token.text) <= MAX_WAITING
        begun = _control_begun(token.text) if may_go_on else None
        ready = token.text[: begun.start()] if begun else token.text
        rest = token.text[len(ready) :]
        for aside in CONTROL.findall(ready):
            self._leave_out(aside.strip(), token)
        line = ("\n" if self._line_begins else " ") + CONTROL.sub("", ready)
        if may_go_on and (begun := self._mark_begun(line)):
            line, rest = line[: begun.start()], line[begun.start() :] + rest
        clean = self._mark.sub("", line)[1:]
        words = clean.strip().lower()
        silent = self._utterance_begins and words and NO_ANSWER.startswith(words)
        if silent and may_go_on:
            self._waiting = token._replace(kind=TokenKind.CHAR, text=line[1:] + rest)
            return []
        for aside in self._mark.findall(line):
            self._leave_out(aside.strip(), token)
        if silent and words == NO_ANSWER:
            self._leave_out(NO_ANSWER, token)
            clean = clean[: -len(clean.lstrip())]
        if rest:
            self._waiting = token._replace(kind=TokenKind.CHAR, text=rest)
        if clean:
            self._line_begins, self._utterance_begins = clean.endswith("\n"), self._utterance_begins and not words
        if clean == token.text:
            return [token]
        return [token._replace(kind=TokenKind.CHAR, text=clean)] if clean else []

    def _leave_out(self, aside: str, token: FunctionToken) -> None:
        self.count += 1
        if self.count <= MAX_NOTES:
            self._note(f"left out {aside!r}, which is not for ears; write nothing but what is to be said and done", token.start)

    def _note(self, message: str, offset: int, count: int = 1) -> None:
        self._repairs.append(Repair(ParseCode.FORBIDDEN_MARKUP, message, offset, 0, 0, "", 0, count))
