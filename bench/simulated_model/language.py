# SPDX-License-Identifier: Apache-2.0
"""Reads an instruction in plain English: what is to be done, in which order, and on which condition."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from bench.simulated_model.clauses import Clauses
from bench.simulated_model.goals import Find, Goal, If, Meaning, Report, Unknown, Watch
from bench.simulated_model.vocabulary import Vocabulary
from planners.memory.questions import is_question

_NP = r"(?:one|it|them|any|(?:an?|the|some|any)\s+(?P<np>[\w ]+?))"
_SEEN = r"(?:find|found|see|saw|spot|notice|detect|discover|have found|have seen|come across)"
_THEN = r"\s*(?:,|\bthen\b)\s*(?P<rest>.+)$"
_IF_FOUND = re.compile(rf"^(?:if|when|once|as soon as|after)\s+(?:you)?\s*(?:'ve|have)?\s*{_SEEN}\s+{_NP}{_THEN}", re.DOTALL)
_IF_IS_FOUND = re.compile(
    r"^(?:if|when|once)\s+(?P<no>no\s+)?(?:an?|the)?\s*(?P<np>[\w ]+?)\s+(?:was|is|has been|were)\s+(?P<not>not\s+)?"
    rf"(?:found|seen|there|in sight){_THEN}",
    re.DOTALL,
)
_NONE = (
    r"(?:there(?:'s|\s+is|\s+are|\s+was|\s+were)\s+(?:none|no\b[\w ]*|nothing)"
    r"|(?:you\s+)?(?:found|find|saw|see)\s+(?:none|nothing|no\b[\w ]*))"
)
_ELSE = re.compile(
    r"^(?:if\s+(?:not|" + _NONE + r"|you\s+(?:do not|don't|did not|didn't|cannot|can't|could not|couldn't)\s+[\w ]+?"
    r"|(?:you(?:'ve|\s+have)?|everything|everywhere|the whole area|all)\b[^,]*\band\s+" + _NONE + r")\s*(?:,|\bthen\b)"
    r"|(?:otherwise|or else|else)\b)\s*,?\s*(?:then\s+)?(?P<rest>.+)$",
    re.DOTALL,
)
_WHEN = r"(?:when(?:ever)?|every time|each time|as soon as|if(?= you ever))\s+(?:you\s+)?(?:ever\s+)?(?:see|spot|notice|meet)"
_WATCH_FRONT = re.compile(rf"^{_WHEN}\s+{_NP}{_THEN}", re.DOTALL)
_WATCH_BACK = re.compile(rf"^(?P<rest>.+?)\s+{_WHEN}\s+{_NP}$", re.DOTALL)
_UNTIL = re.compile(rf"^(?P<rest>.+?),?\s+until\s+(?:you\s+)?{_SEEN}\s+{_NP}$", re.DOTALL)
_RESUME = re.compile(
    r"[,;.]?\s*(?:and\s+)?(?:then\s+)?"
    r"(?:resume|continue|carry on|go on|return to (?:what|your)|go back to (?:what|your))\b[^.]*[.!]?$",
    re.IGNORECASE,
)
_STOP = re.compile(
    r"^(?:stop|wait|hold on|pause|halt)(?:\s+(?:for a moment|that|there))?\s*(?:[,.;!:]|\band\b)\s*", re.IGNORECASE
)
_POLITE = re.compile(
    r"^(?:please|now|then|first|finally|afterwards|after that|next|ok(?:ay)?|hey|well"
    r"|could you|can you|would you|will you|i want you to|you should|go and)[,\s]+",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"(?<=[.!?;])\s+|\s*,\s*(?:and\s+|but\s+)?(?=(?:if|otherwise|or else|whenever|when|every time)\b)"
    r"|\s+(?:and|but)\s+(?=(?:if|otherwise|whenever|when)\b)|\s+(?=otherwise\b)",
    re.IGNORECASE,
)
_IF_THERE = re.compile(
    rf"^if\s+(?:there(?:'s|\s+is|\s+are)|you\s+(?:can\s+)?(?:see|find|spot))\s+{_NP}"
    rf"(?P<where>\s+(?:there|here|(?:in|at) the [\w ]+?))?{_THEN}",
    re.DOTALL,
)
_ONE = re.compile(r"^(if (?:there is|there's|you (?:find|see)) (?:one|any))\s+(?=\w)", re.IGNORECASE)
_IS_THERE = re.compile(r"^(?:is|are) there (?:an?|any|some) (?P<what>[\w ]+)\?*$", re.IGNORECASE)
_SIDE_ASKED = re.compile(r"^what(?:'s| is) (?P<rest>(?:on your|to your|behind|in front).*)$", re.IGNORECASE)
_CUT = re.compile(r"\s*,\s*and then\s+|\s*,\s*then\s+|\s*,\s*and\s+|\s*[,;]\s*|\s+and then\s+|\s+then\s+|\s+and\s+")
_QUOTED = re.compile(r"[\"“][^\"”]*[\"”]")


@functools.lru_cache(maxsize=1024)
def understand(instruction: str, vocabulary: Vocabulary) -> Meaning:
    """What the instruction asks for. Whatever is not understood is a goal of its own that says so."""
    text = " ".join(instruction.replace("’", "'").split())
    resumes = bool(_RESUME.search(text))
    text = _without(_RESUME, text) if resumes else text
    text = _without(_STOP, text)
    plain = _without(_POLITE, text)
    if found := _IS_THERE.match(plain):
        plain = text = f"look for a {found['what']} and report"
    elif found := _SIDE_ASKED.match(plain.rstrip("?")):
        plain = text = f"check what is {found['rest']}"
    elif re.match(r"what (?:do|can) you see", plain, re.IGNORECASE):
        plain = text = "report what you see"
    if is_question(plain) and "query_memory" in vocabulary.skills and len(_SENTENCE.split(text)) == 1:
        return Meaning((vocabulary.ask(plain),), resumes=resumes)
    reader = _Reader(vocabulary)
    for sentence in _SENTENCE.split(text):
        reader.sentence(sentence.strip())
    return Meaning(tuple(reader.goals), tuple(reader.watches), resumes)


def _without(pattern: re.Pattern[str], text: str) -> str:
    shorter = pattern.sub("", text, count=1)
    return shorter if shorter.strip(" .,!") else text


class _Reader:
    """Keeps what the words it, one and otherwise refer to."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._words = vocabulary
        self.goals: list[Goal] = []
        self.watches: list[Watch] = []
        self._label = ""

    def sentence(self, text: str) -> None:
        """Add what one sentence says."""
        text = text.strip(" ,")
        while (shorter := _POLITE.sub("", text)) != text:
            text = shorter
        plain = _ONE.sub(r"\1, ", text).rstrip(".!? ")
        low = plain.lower()
        if not plain:
            return
        if self._conditional(plain, low) or self._watched(plain, low):
            return
        self.goals += self._row(plain)

    def _conditional(self, plain: str, low: str) -> bool:
        wanted: bool | None = None
        past = False
        if found := _ELSE.match(low):
            wanted = False
            self._looked_for()
        elif (found := _IF_THERE.match(low)) and (found["where"] or found["np"] is None):
            return self._there(plain, found)
        elif found := _IF_IS_FOUND.match(low):
            wanted, past = not (found["no"] or found["not"]), True
        elif low.startswith(("if", "once", "after")) or self._label:
            found = _IF_FOUND.match(low)
            wanted = True if found else None
        if found is None or wanted is None:
            return False
        before = self._label
        noun = found.groupdict().get("np")
        label = (self._words.label_in(noun) if noun else "") or self._label or self._words.label_in(low)
        if not label:
            return False
        self._label = label
        inner = self._row(plain[found.start("rest") :])
        if wanted and not past and not before and not any(isinstance(g, Find) and g.label == label for g in self.goals):
            self.watches.append(Watch(label, tuple(inner)))
        else:
            self.goals.append(If(label, wanted, tuple(inner)))
        return True

    def _looked_for(self) -> None:
        """ "Otherwise" after "if you see a person": that was a choice, and no event."""
        if self.watches and self.watches[-1].label == self._label and not self.watches[-1].ends:
            watch = self.watches.pop()
            self.goals += [Find(watch.label, here=True), If(watch.label, True, watch.goals)]

    def _there(self, plain: str, found: re.Match[str]) -> bool:
        """If there is a thing in some place: look for it there."""
        label = self._words.label_in(found["np"] or "") or (self._label if found["np"] is None else "")
        if not label:
            return False
        self._label = label
        if not any(isinstance(g, Find) and g.label == label for g in self.goals):
            name, points = self._words.groups(found["where"] or "")
            self.goals.append(Find(label, points, name, here=not points))
        self.goals.append(If(label, True, tuple(self._row(plain[found.start("rest") :]))))
        return True

    def _watched(self, plain: str, low: str) -> bool:
        for pattern, ends in ((_UNTIL, True), (_WATCH_FRONT, False), (_WATCH_BACK, False)):
            found = pattern.match(low)
            if found is None:
                continue
            label = self._words.label_in(found["np"]) if found["np"] else self._label
            if not label:
                continue
            inner = tuple(self._row(plain[found.start("rest") : found.end("rest")]))
            if pattern is _WATCH_BACK:
                self.goals += inner[:-1]
                inner = inner[-1:]
            if ends:
                self.goals += inner
                self.watches.append(Watch(label, (), ends=True))
            else:
                self.watches.append(Watch(label, inner))
            self._label = label
            return True
        return False

    def _row(self, text: str) -> list[Goal]:
        """Clauses joined by then, and, or commas."""
        quotes = [m.span() for m in _QUOTED.finditer(text)]
        cuts = [m.span() for m in _CUT.finditer(text) if not any(a <= m.start() < b for a, b in quotes)]
        starts = [0, *(end for _, end in cuts)]
        ends = [*(begin for begin, _ in cuts), len(text)]
        goals: list[Goal] = []
        at = 0
        while at < len(starts):
            taken, more = self._longest(text, starts, ends, at, goals)
            goals += taken
            at = more
        return goals

    def _longest(
        self, text: str, starts: Sequence[int], ends: Sequence[int], at: int, before: list[Goal]
    ) -> tuple[list[Goal], int]:
        """The goals of the shortest run of parts from `at` that means something; else the first part alone, unknown."""
        clauses = Clauses(self._words, self._label, before)
        unknown: list[Goal] = []
        for until in range(at, min(at + 3, len(starts))):
            said = text[starts[at] : ends[until]].strip(" ,.")
            while (shorter := _POLITE.sub("", said)) != said:
                said = shorter
            read = clauses.read(said) if said else []
            if not any(isinstance(g, Unknown) for g in read):
                self._label = clauses.label or self._label
                if clauses.replaces_last and before:
                    before[-1:] = read
                    return [], until + 1
                return read, until + 1
            unknown = unknown or read
        return unknown, at + 1


def tolerant(goals: Sequence[Goal], index: int) -> bool:
    """Whether what follows a search says what happens when nothing is found."""
    goal = goals[index]
    return isinstance(goal, Find) and any(
        (isinstance(g, If) and g.label == goal.label) or (isinstance(g, Report) and g.label in ("", goal.label))
        for g in goals[index + 1 :]
    )
