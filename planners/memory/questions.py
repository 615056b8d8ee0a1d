# SPDX-License-Identifier: Apache-2.0
"""Read the usual questions to a memory, in English, without a model: which form, about what, in which time."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import lru_cache

from planners.language.lexicon import NUMBERS, UNITS, with_pieces

MAX_QUESTION = 1000
"""Longest question, in characters."""
DAY_S = 86_400.0


@dataclass(frozen=True)
class Question:
    """A question as it was read. `form` is a name of `_FORMS`; “other” is answered by the passages that fit best. `subject` is
    the thing, place, person or deed; `room` limits it to one. `rooms`: rooms are meant rather than places; `first`: the
    first time is asked for, not the last. Times in seconds."""

    form: str
    text: str
    subject: str = ""
    room: str = ""
    rooms: bool = False
    first: bool = False
    since_s: float | None = None
    until_s: float | None = None


_FORMS = r"""
count_places: how many (?:different |new |other )?PLACES EXPLORE
which_places: (?:which|what) (?:different )?PLACES EXPLORE
which_places: where (?:DID (?:already )?(?:been|go)|were YOU)(?: so far| already)?
how_often_been: OFTEN DID GO SUBJECT
how_often_been: OFTEN were YOU (?:in|at) SUBJECT
when_been: when DID TIMEGO SUBJECT
when_been: when were YOU TIME(?:in|at) SUBJECT
whether_been: DID (?:ever |already )?GO SUBJECT
whether_been: were YOU (?:ever |already )?(?:in|at) SUBJECT
who_seen: (?:who|whom|which people|how many people) DID (?:last )?SEEINSIDE
who_asked: who (?:has |have )?ASKED\b(?: YOU| to YOU| with YOU)?(?: to| for| that| about)?(?: SUBJECT)?
who_asked: who DID (?:talk|talked|speak|spoken)(?: to| with)?
what_said: what (?:did|has|have) (?P<subject>[\w .'-]+?) (?:last )?SAY\b.*
how_often_seen: OFTEN DID SEE SUBJECTINSIDE
how_often_seen: how many DEED DID SEEINSIDE
when_seen: when DID TIMESEE SUBJECTINSIDE
when_seen: when was SUBJECT TIMESEE
last_seen: where DID TIMESEE SUBJECT
last_seen: where (?:was|were) SUBJECT(?P<time> first| last)?(?: SEE)?
last_seen: where (?:is|are|can i find|do i find|could) SUBJECT(?: now| be| again)?
what_seen: what (?:things |objects |else )?DID SEEINSIDE
what_seen: what (?:is|was|are|were) in THE(?P<room>[\w ]+)
whether_seen: DID (?:ever |already )?SEE SUBJECTINSIDE
what_done: what (?:DID (?:do|done|been doing)|were YOU doing|(?:has )?happened)(?: so far| before| last)?
how_often_done: OFTEN DID DEED
when_done: when DID TIMEDEED
when_done: when (?:was|were) DEED
"""
_ROWS = [tuple(row.split(": ", 1)) for row in _FORMS.strip().splitlines()]
FORMS = frozenset(form for form, _ in _ROWS)
_PIECES = {
    "OFTEN": r"how (?:often|many times)",
    "PLACES": r"(?P<places>places|rooms|waypoints|locations)\b.*",
    " EXPLORE": r"\b(?:explor\w*|visit\w*|been|go|gone|went|reach\w*|see|seen|know)\b.*",
    "ASKED": r"(?:asked|told|instructed|ordered|wanted|said|sent|spoke|talked)",
    "SAY": r"(?:say|said|ask|asked|tell|told|want|wanted)",
    "SEE": r"(?:see|saw|seen|notice|noticed|spot|spotted|find|found|observe|observed|detect|detected|meet|met)",
    "GO": r"(?:visit|visited|explore|explored|reach|reached|enter|entered|go to|gone to|been to|been in|been at|went to)",
    "TIME": r"(?P<time>first |last )?",
    "INSIDE": r"(?: in THE(?P<room>[\w ]+))?",
    "SUBJECT": r"THE(?P<subject>.+?)",
    "DEED": r"(?P<subject>.+?)",
    "THE": r"(?:the |a |an |any |my |some |his |her |our |your )?",
    "DID": r"(?:did YOU|have YOU|has YOU)",
    "YOU": r"(?:you|we|the robots?|anyone|anybody|ROBOTS)",
}
_SPANS_S = {word: UNITS[word][1] for word in ("second", "minute")} | {
    "hour": 3600.0,
    "day": DAY_S,
    "week": 7 * DAY_S,
    "month": 30 * DAY_S,
}
_COUNTS = NUMBERS | {"few": 3.0, "a": 1.0, "an": 1.0}
_COUNT, _UNIT = rf"(\d{{1,6}}|{'|'.join(_COUNTS)})", rf"({'|'.join(_SPANS_S)})s?"
_SPAN = re.compile(rf"\b(?:(?:in|within|during|over|for) )?(?:the )?(?:last|past) (?:{_COUNT} )?{_UNIT}\b")
_AGO = re.compile(rf"\b(?:about )?{_COUNT} {_UNIT} ago\b")
_DAYS = re.compile(
    r"\b(?:(?P<half>this|yesterday|today in the|in the) (?P<part>morning|afternoon|evening)|(?P<day>today|yesterday|tonight))\b"
)
_PARTS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24)}
_ADDRESS = re.compile(
    r"^ *(?:(?:please|and|so|hey|hi|ok|okay|well|can you|could you|do you know|do you remember|tell me|remember) )+"
)


@lru_cache(maxsize=8)
def _forms(robots: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the forms where `robots` is the pattern of the names that mean a robot."""
    pieces = {**_PIECES, "ROBOTS": robots or "you"}
    return tuple((form, re.compile(with_pieces(pattern, pieces))) for form, pattern in _ROWS)


def read(question: str, now_s: float, robots: tuple[str, ...] = ()) -> Question:
    """Return the question as it reads at the asker's time `now_s`; `robots` are names that mean a robot. Raises ValueError when
    it is empty or too long."""
    text = " ".join(question.split())
    if not text or len(text) > MAX_QUESTION:
        raise ValueError(f"a question has 1 to {MAX_QUESTION} characters, not {len(text)}")
    plain = re.sub(r"[?!.,;:\"“”]+", " ", text.lower().replace("’", "'"))
    names = "|".join(re.escape(r.lower()) for r in robots if r)
    if names:
        plain = re.sub(rf"^ *(?:(?:hey|hi|ok|okay) )?(?:{names}) ", "", plain)
    plain, since_s, until_s = _time(" ".join(_ADDRESS.sub("", plain).split()), now_s)
    for form, pattern in _forms(names):
        if (found := pattern.fullmatch(plain)) is not None:
            said = {name: value.strip() for name, value in found.groupdict(default="").items()}
            subject, room = said.get("subject", ""), said.get("room", "")
            rooms, first = said.get("places") == "rooms", said.get("time") == "first"
            return Question(form, text, subject, room, rooms, first, since_s, until_s)
    return Question("other", text, since_s=since_s, until_s=until_s)


def _time(plain: str, now_s: float) -> tuple[str, float | None, float | None]:
    """Return the question without its words of time, and the times they mean."""
    if found := _SPAN.search(plain):
        return _without(plain, found), now_s - _number(found[1] or "1") * _SPANS_S[found[2]], None
    if found := _AGO.search(plain):
        unit_s = _SPANS_S[found[2]]
        at_s = now_s - _number(found[1]) * unit_s
        return _without(plain, found), at_s - unit_s / 2, at_s + unit_s / 2
    if found := _DAYS.search(plain):
        day = time.localtime(now_s)
        midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
        midnight -= DAY_S if "yesterday" in found.group() else 0.0
        since_h, until_h = (18, 24) if found["day"] == "tonight" else _PARTS.get(found["part"], (0, 24))
        return _without(plain, found), midnight + since_h * 3600.0, midnight + until_h * 3600.0
    return plain, None, None


def _number(word: str) -> float:
    return float(word) if word.isdigit() else _COUNTS[word]


def _without(plain: str, found: re.Match[str]) -> str:
    return " ".join(f"{plain[: found.start()]} {plain[found.end() :]}".split())
