# SPDX-License-Identifier: Apache-2.0
"""Tell by their words which texts ask for a deed of the body, which refuse one, and which claim one that was done. English and
Chinese; the words stand in `deeds.yaml`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Any

from function_tokens.scheduling.calls import TEXT
from planners.language.client import MEMORY_SKILL
from planners.language.conditional import QUOTED, REQUEST, plain, sentences, split
from planners.language.lexicon import FILLERS, NEGATIONS, POLITE, concept, is_chinese, word_set
from planners.language.parser import CommandParser
from planners.language.questions import is_question
from planners.language.skills import DIRECTIONS, Attempt, CannotDo, Entry, NotUnderstood
from planners.language.words import Word, clean, words_of
from planners.prompts.blocks import text_beside
from planners.prompts.prompt import CallReport, GrammarOptions
from skill_kernel.codes import Outcome
from skill_kernel.config.yaml_text import read_yaml
from skill_kernel.events import read_arguments
from skill_kernel.processes.process import Process
from skill_kernel.skills.arguments import Limits
from skill_kernel.skills.skill import Skill

MAX_CHARS = 2000
"""Characters of a text that are read."""
_WORDS: dict[str, Any] = read_yaml(text_beside(__file__, "deeds.yaml"), strict=True)
_DEEDS, _VAGUE, _LIGHT = (word_set(_WORDS[kind]) for kind in ("deeds", "vague", "light"))
_PATTERNS = ("states", "cut", "declined", "supposed", "claim_cn", "other_cn", "done_cn", "no_claim", "no_claim_cn")
_STATES, _CUT, _DECLINED, _SUPPOSED, _CLAIM_CN, _OTHER_CN, _DONE_CN, _NO_CLAIM, _NO_CLAIM_CN = (
    re.compile(_WORDS[name], re.IGNORECASE) for name in _PATTERNS
)
_CLAIM = re.compile(_WORDS["claim"].replace("ADVERBS", _WORDS["adverbs"]), re.IGNORECASE)
_TAG = re.compile(r"<([^\s/>]+)")
_SENTENCE = re.compile(r"(?:[^.!?。！？\n]|\.(?=\d))+[.!?。！？]*")
_ASIDE = FILLERS | word_set("please first then")
_ANY = "dance"
"""The deed that any movements make."""


def declined(text: str) -> str:
    """Return the sentence in which a text says that something cannot or will not be done; "" where none does."""
    said = sentences(text[:MAX_CHARS])
    return next((sentence for sentence in said if _DECLINED.search(clean(QUOTED.sub("…", sentence)))), "")


def unproven(process: Process, skills: Iterable[Skill], limits: Limits) -> list[str]:
    """Return the deeds that a task claimed in words and that no call of it bears out; none where the past is asked for."""
    calls = [CallReport(call.function, read_arguments(call.args_json), call.outcome) for call in process.history]
    said = [str(call.arguments.get("text", "")) for call in calls if call.function == TEXT and call.outcome == Outcome.DONE]
    if not said or is_question(process.instruction):
        return []
    reader = DeedReader(CommandParser(skills, (), GrammarOptions(limits=limits)))
    return [claim for text in said for claim in reader.unproven(text, calls)]


class Asked(Enum):
    """Tell whether a text asks for a deed: PERHAPS where only a verb says so (“turn this into French”)."""

    NO = 0
    PERHAPS = 1
    SURELY = 2


@dataclass(frozen=True)
class Claim:
    """A deed that a text says was done: by which skills that may be (None: by any that acts), and how often."""

    text: str
    skills: frozenset[str] | None
    count: int = 1


class DeedReader:
    """Read texts for the skills of one robot."""

    def __init__(self, parser: CommandParser) -> None:
        self._parser, self._matcher = parser, parser.matcher
        self._entries = {entry.skill.name: entry for entry in self._matcher.entries if entry.skill.name != MEMORY_SKILL}
        names = [({k.concept for k in e.name}, concept(e.verb)) for e in self._entries.values()]
        self._verbs = _DEEDS.union(verb for named, verb in names if verb in named) - _VAGUE
        self._objects = _DEEDS.union(DIRECTIONS, ("around",), *(named for named, _ in names)) - _VAGUE

    # -- asking -------------------------------------------------------------------------------------------------------

    def asks(self, text: str) -> Asked:
        """Return whether a text asks, wholly or partly, for a deed of the body; not where that depends on something."""
        text = clean(text)[:MAX_CHARS]
        if source := self._parser.read(text).source:
            tags = _TAG.findall(source)
            acts = tags[:1] != [self._parser.options.tag("save")] and any(tag in self._entries for tag in tags)
            return Asked.SURELY if acts else Asked.NO
        clauses = [c for sentence in sentences(plain(text, self._parser.robot_name)) for c in _wishes(sentence)]
        if any(map(self._understood, clauses)):
            return Asked.SURELY
        return Asked.PERHAPS if any(self._deed(_content(clause)) for clause in clauses) else Asked.NO

    def _deed(self, words: Sequence[Word]) -> str:
        """Return the deed that the first of these words names, where that says nothing alone the first of the others."""
        if not words or any(w.among(NEGATIONS) for w in words):
            return ""
        if words[0].meaning in _VAGUE or words[0].among(_LIGHT):
            return next((w.meaning for w in words[1:] if w.meaning in self._objects), "")
        return words[0].meaning if words[0].meaning in self._verbs else ""

    def _understood(self, clause: str) -> bool:
        """Return whether a clause is a command that the robot can carry out."""
        try:
            return not self._matcher.item([w for w in words_of(clean(clause)) if w.kind != "mark"]).verbless
        except (NotUnderstood, CannotDo):
            return False

    # -- claiming -----------------------------------------------------------------------------------------------------

    def unproven(self, text: str, calls: Sequence[CallReport]) -> list[str]:
        """Return what a text claims to have been done that none of these calls bears out."""
        done = [call for call in calls if call.outcome == Outcome.DONE and call.function in self._entries]
        return [claim.text for claim in self.claims(text) if not self._borne_out(claim, done)]

    def _borne_out(self, claim: Claim, done: Sequence[CallReport]) -> bool:
        bearing = [call for call in done if claim.skills is None or call.function in claim.skills]
        return bool(bearing) and claim.count <= sum(self._times(call, claim.count) for call in bearing)

    def _times(self, call: CallReport, claimed: int) -> int:
        """Return how often a call did its deed; what was claimed, where it does not tell."""
        counts = [p.name for p in self._entries[call.function].parameters if p.dimension == "count"]
        times = call.arguments.get(counts[0], 1) if counts else claimed
        return int(times) if isinstance(times, (int, float)) else 1

    def claims(self, text: str) -> list[Claim]:
        """Return the deeds that a text says its speaker has done."""
        text = QUOTED.sub("…", clean(text)[:MAX_CHARS])
        return [claim for part in _SENTENCE.findall(text) for claim in self._claims(part.strip())]

    def _claims(self, sentence: str) -> Iterator[Claim]:
        if sentence.endswith(("?", "？")) or _SUPPOSED.match(sentence):
            return
        speaks = not (chinese := is_chinese(sentence))
        for clause in filter(None, map(str.strip, _CUT.split(sentence.rstrip(" .!…。！")))):
            said, speaks = (_claimed_cn if chinese else _claimed)(clause, speaks)
            words = _content(said)
            while chinese and len(words) > 1 and not self._deed(words):
                words = words[1:]
            deed = self._deed(words)
            if deed and words[0].meaning != "look":  # who looks need not move
                skills = frozenset(name for name, entry in self._entries.items() if _may_be(entry, deed, words))
                count = next((int(w.value) for w in words if w.is_count()), 1)
                yield Claim(clause, None if deed == _ANY else skills, count)


def _wishes(sentence: str) -> list[str]:
    """Return the clauses of a sentence that may ask for something."""
    condition = split(sentence)
    if is_question(sentence) or (condition and (condition.first or condition.word not in ("while", "once"))):
        return []
    for pattern in (POLITE, REQUEST):
        found = pattern.match(sentence)
        sentence = sentence[found.end() :] if found else sentence
    return list(takewhile(lambda clause: not _STATES.match(clause), _CUT.split(sentence)))


def _content(clause: str) -> list[Word]:
    """Return the words of a clause that mean something."""
    return [w for w in words_of(clean(clause)) if w.kind != "mark" and not w.among(_ASIDE)]


def _claimed(clause: str, speaks: bool) -> tuple[str, bool]:
    """Return what an English clause claims, with its verb as in a command, "" where it claims nothing; and whether the speaker
    may be the one of whom the next clause tells. `speaks`: he may be the one of this."""
    found = _CLAIM.match(clause)
    if _NO_CLAIM.search(clause):
        return "", False
    if found is None or not (speaks or found["speaker"]):
        return "", bool(found and found["speaker"])
    past = found["past"].lower()
    verb = _WORDS["pasts"].get(past, past if past.endswith("ed") else "")
    return (f"{verb}{clause[found.end() :]}" if verb else ""), bool(verb or found["speaker"])


def _claimed_cn(clause: str, speaks: bool) -> tuple[str, bool]:
    """Return the same of a Chinese clause."""
    speaker = _CLAIM_CN.match(clause)
    told = bool(speaker) or (speaks and not _OTHER_CN.match(clause))
    claimed = told and _DONE_CN.search(clause) and not _NO_CLAIM_CN.search(clause)
    return (_CLAIM_CN.sub("", clause).replace("了", "") if claimed else ""), told


def _may_be(entry: Entry, deed: str, words: Sequence[Word]) -> bool:
    """Return whether a skill may be the deed that these words name."""
    ways = deed in ("walk", "approach", "search", "follow") and entry.moves and not entry.means("head", "look", "turn")
    return ways or entry.means(deed) or concept(entry.verb) == deed or Attempt(entry, words).leads
