# SPDX-License-Identifier: Apache-2.0
"""Splits a sentence into its condition and its action, and puts what each is read as into the form the guard takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from planners.prescriptions.grammar.actions import Actions
from planners.prescriptions.grammar.conditions import Conditions
from planners.prescriptions.grammar.problem import FORMS, GrammarError
from planners.prescriptions.grammar.quantities import number_of, written
from skill_kernel.guard import Vocabulary
from skill_kernel.robot import RobotConfig

_MARKS = str.maketrans({"“": '"', "”": '"', "„": '"', "’": "'", "‘": "'", "«": '"', "»": '"', "–": "-", "\u00a0": " "})
_FIRST = re.compile(
    r"(?:please[ ,]+)?(?:when(?:ever)?|if|as soon as|once|every time|each time)\s+(?P<condition>.+?)"
    r"(?:\s*,(?!\d)\s*(?:then\s+)?|\s+then\s+|\s*:\s*)(?P<action>.+)",
    re.IGNORECASE,
)
_LAST = re.compile(
    r"(?P<action>.+?)\s*,?\s+(?:when(?:ever)?|if|as soon as|once|every time|each time)\s+(?P<condition>.+)", re.IGNORECASE
)
_UNLESS = re.compile(r"\s*,?\s+(?:unless|except (?:when|if))\s+", re.IGNORECASE)
_HALVES = re.compile(r"\b(\w+) and a half\b", re.IGNORECASE)
STAY_S = 25
"""How long a reflex that only stops stands still at most; less than an action may take."""
_STAY = ("stop()", f"for second in range({STAY_S}):", "    if not ({condition}):", "        return", "    wait(1)")
_QUOTED = re.compile(r'"[^"]*"|(?<!\w)\'[^\']*\'(?!\w)')


@dataclass(frozen=True)
class Reading:
    """What a sentence was read as. `notes` tell what was supposed where the sentence did not say."""

    source: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A condition over the accessors, and a task in plain words."""

    condition: str
    task: str


class Grammar:
    """Reads sentences for one robot. The action is read by the same command parser as instructions without a model."""

    def __init__(self, vocabulary: Vocabulary, robot: RobotConfig) -> None:
        self._conditions = Conditions(vocabulary, robot)
        self._actions = Actions(vocabulary, robot)

    def read(self, sentence: str) -> Reading:
        """The source of a rule. Raises GrammarError with the piece that was not understood and the forms there are."""
        source, notes, action, texts = self._halves(sentence)
        lines = self._actions.read(action, texts)
        if lines == ["stop()"]:
            lines = [line.format(condition=source) for line in _STAY]
            notes = (*notes, f"it stands still as long as that is so, at most {STAY_S} s")
        body = "\n".join(f"    {line}" for line in lines)
        return Reading(f"def condition():\n    return {source}\n\n\ndef action():\n{body}\n", notes)

    def rule(self, sentence: str) -> Rule:
        """The condition as an expression, and what is to be done as it was said. Raises GrammarError."""
        source, _, action, texts = self._halves(sentence)
        return Rule(source, re.sub(r"«(\d+)»", lambda m: f'"{texts[int(m.group(1))]}"', action.strip()))

    def _halves(self, sentence: str) -> tuple[str, tuple[str, ...], str, list[str]]:
        """The condition's source with its notes, and the action with the quoted texts that it stands for."""
        text = " ".join(sentence.translate(_MARKS).split()).strip().rstrip(".!")
        texts: list[str] = []

        def keep(match: re.Match[str]) -> str:
            texts.append(match.group()[1:-1])
            return f"«{len(texts) - 1}»"

        condition, action, unless = _parts(_HALVES.sub(_and_a_half, _QUOTED.sub(keep, text)))
        read = self._conditions.read(condition, texts)
        if not unless:
            return read.source, read.notes, action, texts
        other = self._conditions.read(unless, texts)
        return f"({read.source}) and not ({other.source})", (*read.notes, *other.notes), action, texts


def _and_a_half(match: re.Match[str]) -> str:
    """In figures, for an 'and' separates clauses."""
    try:
        return written(number_of(match.group(1)) + 0.5)
    except ValueError:
        return match.group()


def _parts(text: str) -> tuple[str, str, str]:
    """Condition, action, and what stands behind `unless`."""
    unless = ""
    pieces = _UNLESS.split(text, maxsplit=1)
    if len(pieces) == 2:
        text, unless = pieces
        behind = re.fullmatch(r"(?P<unless>.+?)\s*,\s*(?:then\s+)?(?P<action>.+)", unless)
        if behind and re.match(r"(?:when(?:ever)?|if|as soon as|once)\s", text, re.IGNORECASE) and "," not in text:
            text, unless = f"{text}, {behind['action']}", behind["unless"]
    match = _FIRST.fullmatch(text)
    if match is None and re.match(r"(?:when(?:ever)?|if|as soon as|once)\s", text, re.IGNORECASE):
        raise GrammarError(f"no action stands behind “{text}”; put a comma between what is to happen and what to do", FORMS)
    match = match or _LAST.fullmatch(text)
    if match is not None:
        return match["condition"], match["action"], unless
    if unless:
        # "stop unless …" has no cause of its own.
        raise GrammarError(f"nothing says when: “{text}”; begin with 'when' or 'if'", FORMS)
    raise GrammarError(f"“{text[:80]}” says no condition; begin with 'when' or 'if'", FORMS)
