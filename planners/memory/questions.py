# SPDX-License-Identifier: Apache-2.0
"""Reads the usual questions to a memory, in English, without a model: which form, about what, in which time."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from enum import Enum

MAX_QUESTION = 1000
"""Longest question, in characters."""
DAY_S = 86_400.0


class Form(Enum):
    """What is asked. `OTHER` is answered by the passages that fit best."""

    COUNT_PLACES = "count_places"
    WHICH_PLACES = "which_places"
    LAST_SEEN = "last_seen"
    WHETHER_SEEN = "whether_seen"
    WHEN_SEEN = "when_seen"
    HOW_OFTEN_SEEN = "how_often_seen"
    WHAT_SEEN = "what_seen"
    WHO_SEEN = "who_seen"
    WHETHER_BEEN = "whether_been"
    WHEN_BEEN = "when_been"
    HOW_OFTEN_BEEN = "how_often_been"
    WHO_ASKED = "who_asked"
    WHAT_SAID = "what_said"
    WHAT_DONE = "what_done"
    WHEN_DONE = "when_done"
    HOW_OFTEN_DONE = "how_often_done"
    OTHER = "other"


@dataclass(frozen=True)
class Question:
    """A question as it was read: `subject` is the thing, place, person or deed, `room` where it is limited to one, `rooms`
    whether rooms are meant rather than places; `first` when the first time is asked for, not the last. Times in seconds."""

    form: Form
    text: str
    subject: str = ""
    room: str = ""
    rooms: bool = False
    first: bool = False
    since_s: float | None = None
    until_s: float | None = None


_YOU = r"(?:you|we|the robots?|anyone|anybody|{robots})"
_DID = rf"(?:did {_YOU}|have {_YOU}|has {_YOU})"
_A = r"(?:the |a |an |any |my |some |his |her |our |your )?"
_IN = rf"(?: in {_A}(?P<r>[\w ]+))?"
_WHICH = r"(?P<f>first |last )?"
_SEE = r"(?:see|saw|seen|notice|noticed|spot|spotted|find|found|observe|observed|detect|detected|meet|met)"
_GO = r"(?:visit|visited|explore|explored|reach|reached|enter|entered|go to|gone to|been to|been in|been at|went to)"
_TRAVEL = r"\b(?:explor\w*|visit\w*|been|go|gone|went|reach\w*|see|seen|know)\b.*"
_PLACES = r"(?P<what>places|rooms|waypoints|locations)\b.*"
_SAY = r"(?:say|said|ask|asked|tell|told|want|wanted)"
_PATTERNS: tuple[tuple[Form, str], ...] = (
    (Form.COUNT_PLACES, rf"how many (?:different |new |other )?{_PLACES}{_TRAVEL}"),
    (Form.WHICH_PLACES, rf"(?:which|what) (?:different )?{_PLACES}{_TRAVEL}"),
    (Form.WHICH_PLACES, rf"where (?:{_DID} (?:already )?(?:been|go)|were {_YOU})(?: so far| already)?"),
    (Form.HOW_OFTEN_BEEN, rf"how (?:often|many times) {_DID} {_GO} {_A}(?P<s>.+)"),
    (Form.HOW_OFTEN_BEEN, rf"how (?:often|many times) were {_YOU} (?:in|at) {_A}(?P<s>.+)"),
    (Form.WHEN_BEEN, rf"when {_DID} {_WHICH}{_GO} {_A}(?P<s>.+)"),
    (Form.WHEN_BEEN, rf"when were {_YOU} {_WHICH}(?:in|at) {_A}(?P<s>.+)"),
    (Form.WHETHER_BEEN, rf"{_DID} (?:ever |already )?{_GO} {_A}(?P<s>.+)"),
    (Form.WHETHER_BEEN, rf"were {_YOU} (?:ever |already )?(?:in|at) {_A}(?P<s>.+)"),
    (Form.WHO_SEEN, rf"(?:who|whom|which people|how many people) {_DID} (?:last )?{_SEE}{_IN}"),
    (
        Form.WHO_ASKED,
        rf"who (?:has |have )?(?:asked|told|instructed|ordered|wanted|said|sent|spoke|talked)\b"
        rf"(?: {_YOU}| to {_YOU}| with {_YOU})?(?: to| for| that| about)?(?: {_A}(?P<s>.+))?",
    ),
    (Form.WHO_ASKED, rf"who {_DID} (?:talk|talked|speak|spoken)(?: to| with)?"),
    (Form.WHAT_SAID, rf"what (?:did|has|have) (?P<s>[\w .'-]+?) (?:last )?{_SAY}\b.*"),
    (Form.HOW_OFTEN_SEEN, rf"how (?:often|many times) {_DID} {_SEE} {_A}(?P<s>.+?){_IN}"),
    (Form.HOW_OFTEN_SEEN, rf"how many (?P<s>.+?) {_DID} {_SEE}{_IN}"),
    (Form.WHEN_SEEN, rf"when {_DID} {_WHICH}{_SEE} {_A}(?P<s>.+?){_IN}"),
    (Form.WHEN_SEEN, rf"when was {_A}(?P<s>.+?) {_WHICH}{_SEE}"),
    (Form.LAST_SEEN, rf"where {_DID} {_WHICH}{_SEE} {_A}(?P<s>.+)"),
    (Form.LAST_SEEN, rf"where (?:was|were) {_A}(?P<s>.+?)(?P<f> first| last)?(?: {_SEE})?"),
    (Form.LAST_SEEN, rf"where (?:is|are|can i find|do i find|could) {_A}(?P<s>.+?)(?: now| be| again)?"),
    (Form.WHAT_SEEN, rf"what (?:things |objects |else )?{_DID} {_SEE}{_IN}"),
    (Form.WHAT_SEEN, rf"what (?:is|was|are|were) in {_A}(?P<r>[\w ]+)"),
    (Form.WHETHER_SEEN, rf"{_DID} (?:ever |already )?{_SEE} {_A}(?P<s>.+?){_IN}"),
    (Form.WHAT_DONE, rf"what (?:{_DID} (?:do|done|been doing)|were {_YOU} doing|(?:has )?happened)(?: so far| before| last)?"),
    (Form.HOW_OFTEN_DONE, rf"how (?:often|many times) {_DID} (?P<s>.+)"),
    (Form.WHEN_DONE, rf"when {_DID} {_WHICH}(?P<s>.+)"),
    (Form.WHEN_DONE, r"when (?:was|were) (?P<s>.+)"),
)
_UNITS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": DAY_S, "week": 7 * DAY_S, "month": 30 * DAY_S}
_COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: n for n, word in enumerate(_COUNTS)} | {"few": 3, "a": 1, "an": 1}
_COUNT, _UNIT = rf"(\d{{1,6}}|{'|'.join(_NUMBERS)})", rf"({'|'.join(_UNITS)})s?"
_SPAN = re.compile(rf"\b(?:(?:in|within|during|over|for) )?(?:the )?(?:last|past) (?:{_COUNT} )?{_UNIT}\b")
_AGO = re.compile(rf"\b(?:about )?{_COUNT} {_UNIT} ago\b")
_DAYS = re.compile(
    r"\b(?:(?P<half>this|yesterday|today in the|in the) (?P<part>morning|afternoon|evening)|(?P<day>today|yesterday|tonight))\b"
)
_PARTS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24)}
_ASKS = re.compile(
    r"^(?:(?:who|whom|where|when|what|which(?: \w+)?) "
    r"(?:did|do|does|has|have|had|is|are|was|were|can|places|rooms|people|things)|"
    r"who (?:asked|told|said|wanted|spoke|talked)|what happened|how (?:many|often)|have you|did you|"
    r"do you (?:know|remember)|were you)\b"
)
_ADDRESS = re.compile(
    r"^ *(?:(?:please|and|so|hey|hi|ok|okay|well|can you|could you|do you know|do you remember|tell me|remember) )+"
)


def read(question: str, now_s: float, robots: tuple[str, ...] = ()) -> Question:
    """The question, `now_s` being the asker's time and `robots` the names that mean a robot. Raises ValueError when it is
    empty or too long."""
    text = " ".join(question.split())
    if not text or len(text) > MAX_QUESTION:
        raise ValueError(f"a question has 1 to {MAX_QUESTION} characters, not {len(text)}")
    plain = re.sub(r"[?!.,;:\"“”]+", " ", text.lower().replace("’", "'"))
    names = "|".join(re.escape(r.lower()) for r in robots if r)
    if names:
        plain = re.sub(rf"^ *(?:(?:hey|hi|ok|okay) )?(?:{names}) ", "", plain)
    plain = _ADDRESS.sub("", plain)
    plain = " ".join(plain.split())
    plain, since_s, until_s = _time(plain, now_s)
    for form, pattern in _PATTERNS:
        found = re.fullmatch(pattern.replace("{robots}", names or "you"), plain)
        if found is not None:
            groups = found.groupdict()
            return Question(
                form,
                text,
                (groups.get("s") or "").strip(),
                (groups.get("r") or "").strip(),
                groups.get("what") == "rooms",
                "first" in (groups.get("f") or ""),
                since_s,
                until_s,
            )
    return Question(Form.OTHER, text, since_s=since_s, until_s=until_s)


def is_question(text: str) -> bool:
    """Whether a sentence asks for something that a memory may hold."""
    return bool(_ASKS.match(" ".join(text.lower().split())))


def _time(plain: str, now_s: float) -> tuple[str, float | None, float | None]:
    """The question without its words of time, and what they mean."""
    if found := _SPAN.search(plain):
        count, unit = found.group(1) or "1", _UNITS[found.group(2)]
        return _without(plain, found), now_s - _number(count) * unit, None
    if found := _AGO.search(plain):
        at, unit = now_s - _number(found.group(1)) * _UNITS[found.group(2)], _UNITS[found.group(2)]
        return _without(plain, found), at - unit / 2, at + unit / 2
    if found := _DAYS.search(plain):
        day = time.localtime(now_s)
        midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
        back = DAY_S if "yesterday" in found.group() else 0.0
        since, until = (0, 24) if found["day"] != "tonight" else (18, 24)
        if found["part"]:
            since, until = _PARTS[found["part"]]
        return _without(plain, found), midnight - back + since * 3600.0, midnight - back + until * 3600.0
    return plain, None, None


def _number(word: str) -> float:
    return float(word) if word.isdigit() else float(_NUMBERS[word])


def _without(plain: str, found: re.Match[str]) -> str:
    return " ".join(f"{plain[: found.start()]} {plain[found.end() :]}".split())
