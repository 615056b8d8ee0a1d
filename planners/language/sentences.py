# SPDX-License-Identifier: Apache-2.0
"""Cut an instruction into sentences, steps and clauses: `then` and commas order them, `and` and `while` join them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planners.language.clauses import ClauseReader, Unclear, is_say
from planners.language.compose import NOTHING, Item, in_a_row, speech, together
from planners.language.lexicon import ALWAYS_QUESTION, CONDITIONS, FILLERS, NEGATIONS, POLITE, concept
from planners.language.words import Word
from skill_kernel.skills.skill import MAIN

_ON_MAIN = frozenset({MAIN})
_JOINTS = ("then", "and", "while", "meanwhile")


class SentenceReader:
    """Reads the sentences of one instruction, clause by clause."""

    def __init__(self, clauses: ClauseReader) -> None:
        self._clauses = clauses

    def read(self, words: list[Word], asks: bool, steps: list[Item]) -> None:
        """Read a sentence and add its steps. Raises Unclear, with what was read before it already added."""
        whole = self._clauses.quote(words)
        words = self._without_address(words)
        if not words:
            return
        if asks or words[0].text in ALWAYS_QUESTION and words[0].kind == "word":
            raise Unclear(f"“{whole}” is a question; I only follow direct commands.")
        spoken = next((i for i, w in enumerate(words) if is_say(w)), len(words))
        rest = words[spoken + 1 :]
        unquoted = bool(rest) and all(w.kind == "word" and w.text not in _JOINTS for w in rest)
        for word in words[:spoken] if unquoted else words:
            if word.kind == "word" and word.text in NEGATIONS:
                raise Unclear(f"I did nothing about “{whole}”, because it says what not to do.")
            if word.kind == "word" and word.text in CONDITIONS:
                raise Unclear(
                    f"I did nothing about “{whole}”, because I do not understand conditions and choices (“{word.text}”)."
                )
        self._clauses.previous = []
        for part in self._steps(words):
            try:
                steps.append(self._step(part))
            except Unclear as trouble:
                steps.append(trouble.before)
                raise

    def _without_address(self, words: list[Word]) -> list[Word]:
        """Return the sentence without the robot's name, politeness and commas in front."""
        aside = self._clauses.names | {"then", "first", "please"}
        while words and (words[0].kind == "mark" or (words[0].kind == "word" and words[0].text in aside)):
            words = words[1:]
        if words and (found := POLITE.match(self._clauses.text[words[0].start :])):
            begin = words[0].start + found.end()
            rest = [w for w in words if w.start >= begin]
            return self._without_address(rest) if rest and len(rest) < len(words) else words
        return words

    def _steps(self, words: list[Word]) -> list[list[Word]]:
        """Cut at commas and 'then'.

        An unquoted text to say runs on over commas unless a command follows; a `while` in front joins what is behind its
        comma; `together` at the end joins the list before it.
        """
        parts: list[list[Word]] = [[]]
        for at, word in enumerate(words):
            if word.text == "then" and word.kind == "word":
                parts.append([])
            elif word.kind == "mark" and word.text in ",:":
                says = _speaks(parts[-1]) and not self._reads(words[at + 1 :])
                leads = bool(parts[-1]) and parts[-1][0].text == "while"
                if says or leads or (parts[-1] and is_say(parts[-1][-1])):
                    parts[-1].append(word)
                else:
                    parts.append([])
            elif word.text in ("meanwhile", "@side") and not parts[-1] and len(parts) > 1:
                parts.pop()
                parts[-1].append(word)
            elif word.text == "@together" and len(parts) > 1 and parts[-2] and at == len(words) - 1:
                last = parts.pop()
                parts[-1] += [Word("meanwhile", word.start, word.start), *last, word]
            else:
                parts[-1].append(word)
        aside = FILLERS | self._clauses.names
        return [part for part in map(_without_and, parts) if any(w.text not in aside for w in part)]

    def _reads(self, words: Sequence[Word]) -> bool:
        """Return whether the words up to the next cut are a command of their own."""
        clause: list[Word] = []
        for word in words:
            if word.kind != "mark" and word.text not in _JOINTS:
                clause.append(word)
            elif clause:
                break
        try:
            self._clauses.read(clause)
        except Unclear:
            return False
        return bool(clause)

    def _step(self, words: list[Word]) -> Item:
        at_once = any(w.text == "@together" for w in words)
        sides = [i for i, w in enumerate(words) if w.text == "@side"]  # “一边 … 一边 …”: the second joins
        words = [
            replace(w, text="while") if i in sides[1:] else w
            for i, w in enumerate(words)
            if w.text != "@together" and i not in sides[:1]
        ]
        if words and words[0].text == "while":
            comma = next((i for i, w in enumerate(words) if w.kind == "mark"), None)
            if comma is None:
                raise self._clauses.not_understood(words)
            return self._at_once(words[comma + 1 :], words[1:comma], "while")
        for at, word in enumerate(words):
            if word.kind == "word" and word.text in ("while", "meanwhile") and at:
                return self._at_once(words[:at], words[at + 1 :], word.text)
        return self._row(words, at_once=at_once)

    def _at_once(self, first: list[Word], second: list[Word], how: str) -> Item:
        """Join two rows that belong together: both are done or neither is."""
        try:
            items = [self._row(first), self._row(second)]
        except Unclear as trouble:
            trouble.before = NOTHING
            raise
        return together(*items) if how == "while" else in_a_row(sorted(items, key=_is_on_main))

    def _row(self, words: list[Word], *, at_once: bool = False) -> Item:
        """Join clauses by 'and'. Where they are said to be at once, those of one channel still come one after the other, and
        it says so."""
        clauses: list[list[Word]] = [[]]
        for at, word in enumerate(words):
            if word.kind == "word" and word.text == "and" and (not _speaks(clauses[-1]) or self._reads(words[at + 1 :])):
                clauses.append([])
            else:
                clauses[-1].append(word)
        items: list[Item] = []
        try:
            for clause in filter(None, clauses):
                items += [self._clauses.read(side) for side in _sides_apart(clause)]
        except Unclear as trouble:
            trouble.before = NOTHING if at_once else in_a_row(items)
            raise
        if at_once:
            taken: set[str] = set()
            for item in items:
                if shared := (taken & item.channels) - _ON_MAIN:
                    note = speech(f"These both need my {', '.join(sorted(shared))}, so I do them one after the other.")
                    return in_a_row([note, *items])
                taken |= item.channels
            items.sort(key=_is_on_main)
        return in_a_row(items)


def sentences_of(words: Sequence[Word]) -> Iterator[tuple[list[Word], bool]]:
    """Yield sentences, each with whether it is a question."""
    sentence: list[Word] = []
    for word in [*words, Word(".", 0, 0, "mark")]:
        if word.kind != "mark" or word.text not in ".!?;":
            sentence.append(word)
        elif sentence:
            asks = word.text == "?" and not _is_request(sentence)
            yield sentence, asks or any(w.text == "@ask" for w in sentence)
            sentence = []


def _is_request(words: Sequence[Word]) -> bool:
    """Return whether a sentence with a question mark asks for something to be done: could you …, would you …, … please?"""
    texts = [w.text for w in words if w.kind == "word"]
    return texts[:2] in (["could", "you"], ["would", "you"]) or "please" in texts


def _is_on_main(item: Item) -> bool:
    return item.channels == _ON_MAIN


def _speaks(words: Sequence[Word]) -> bool:
    """Return whether words say something that is not quoted, so that what follows may still belong to it."""
    return any(is_say(w) for w in words) and not any(w.kind == "quote" for w in words)


def _without_and(words: list[Word]) -> list[Word]:
    while words and words[0].kind == "word" and words[0].text in ("and", "first"):
        words = words[1:]
    return words


def _sides_apart(words: list[Word]) -> list[list[Word]]:
    """Return two commands for `look left and right`, one for `shake your head left and right`."""
    at = next((i for i, w in enumerate(words) if w.text == "@sideways"), None)
    if at is None or any(concept(w.text) in ("shake", "wave") for w in words):
        return [words]
    return [[*words[:at], replace(words[at], text=side), *words[at + 1 :]] for side in ("left", "right")]
