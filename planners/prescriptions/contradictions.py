# SPDX-License-Identifier: Apache-2.0
"""Finds, without a model, standing sentences that cannot be followed together: always and never, quiet and speak, the same
condition with tasks that exclude one another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from planners.prescriptions import wording
from planners.prescriptions.conditions import may_meet
from planners.prescriptions.kinds import Conflict, Kind, Standing

_NOT = re.compile(
    r"\b(?:not|never|don't|doesn't|mustn't|shouldn't|cannot|can't|aren't|no longer|avoid|refrain|without|stop \w+ing|ignore|no|"
    r"nobody may|keep (?:\w+ )?(?:away|off|out|clear)|stay (?:away|out|off|clear)|leave \w+ alone)\b"
    r"|不要|不许|不准|从不|别|禁止",
    re.IGNORECASE,
)
_AWAY = re.compile(r"\b(?:avoid|ignore|keep (?:\w+ )?(?:away|off|out|clear)|stay (?:away|out|off|clear)|leave \w+ alone)\b")
"""Forbids something, and is itself something to do."""
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[\u4e00-\u9fff]")
_LEFT_OUT = frozenset(
    "a an and are as at be been but by can could do does for from had has have he her him his i in into is it its may "
    "might must near no not of off on one or ought out please robot shall should so some that the their them then "
    "there these they this to up us very was we when whenever with would you your always never every each time times "
    "ever if once will only also just below above under over less more than drops falls rises gets don't doesn't "
    "mustn't shouldn't cannot can't aren't avoid refrain without any all about away".split()
)
_SAME = {
    word: group[0]
    for group in (
        "person people persons human humans visitor visitors guest guests someone somebody anyone anybody everyone everybody "
        "man woman stranger strangers child children kid kids customer customers nobody".split(),
        "speak talk say tell announce shout sing bark greet welcome chat call comment".split(),
        "quiet silent silence mute".split(),
        "go walk drive move enter visit approach near come join".split(),
        "see notice spot detect".split(),
        "follow accompany chase".split(),
        "stop halt freeze".split(),
        "engage play entertain interact".split(),
        "back retreat".split(),
        "stay wait remain".split(),
    )
    for word in group
}
_EXCLUSIVE = (
    (
        r"\b(?:be|stay|keep|remain) (?:quiet|silent|still and quiet)\b|\bsilence\b|\bdo not speak\b",
        r"\b(?:speak|talk|say|tell|greet|welcome|bark|sing|announce|shout|chat|call|ask|comment|"
        r"introduce)\b",
        "quiet",
        "to be heard",
    ),
    (
        r"\b(?:approach|go (?:up )?to|come (?:near|close)|walk (?:up )?to|move towards?|go over to|join)\b",
        r"\b(?:keep|stay|move|back|step) (?:\w+ ){0,4}?(?:away|back|off|distance|clear|aside)\b|\b(?:avoid|retreat|leave)\b",
        "going near",
        "keeping away",
    ),
    (
        r"\b(?:stay|wait|remain|stand still|stop|sit|lie|freeze|halt|do not move)\b",
        r"\b(?:go|walk|follow|run|patrol|move|approach|drive|explore|come|dance)\b",
        "staying",
        "going",
    ),
    (r"\b(?:follow|accompany|engage|play|interact)\b", r"\b(?:ignore|leave alone|leave \w+ alone)\b", "engaging", "ignoring"),
    (r"\bleft\b", r"\bright\b", "left", "right"),
    (r"\b(?:slow|slowly)\b", r"\b(?:fast|quick|quickly|run)\b", "slow", "fast"),
    (r"\b(?:sit|lie)\b", r"\b(?:stand|get up)\b", "down", "up"),
)
_EXCLUDED = tuple((re.compile(a), re.compile(b), x, y) for a, b, x, y in _EXCLUSIVE)
_TO_PLACE = re.compile(r"\b(?:go|walk|drive|return|come|run|move) (?:back )?(?:to|into) (?:the )?(?P<place>\w+)")
_NUMBERS = re.compile(
    r"\b(?P<how>below|under|less than|above|over|more than|closer than|farther than|within)\s+"
    r"(?P<number>\d+(?:\.\d+)?)"
)
_UPWARDS = frozenset({"above", "over", "more than", "farther than"})


@dataclass(frozen=True)
class _Meaning:
    """A sentence taken apart. `condition` and `action` are words of meaning, `said` the action as it was written; of one
    that forbids, `forbidden` is what, and `allowed` what stands before that."""

    condition: frozenset[str]
    action: frozenset[str]
    said: str
    forbids: bool
    source: str
    conditional: bool
    bounds: tuple[tuple[bool, float], ...]
    forbidden: str
    allowed: str


def contradictions(new: Standing, others: Iterable[Standing]) -> list[Conflict]:
    """The others that cannot be followed together with the new one, and why, in their order."""
    return [found for other in others if other.name != new.name and (found := _conflict(new, other)) is not None]


@lru_cache(maxsize=8192)
def _conflict(new: Standing, other: Standing) -> Conflict | None:
    """Kept, so that whenever one changes only that one is weighed anew."""
    why = _why(_meant(new), _meant(other))
    if not why:
        return None
    more = "; the reflex goes first" if Kind.REFLEX in (new.kind, other.kind) and new.kind is not other.kind else ""
    return Conflict(other.name, f"“{new.sentence}” and “{other.sentence}”: {why}{more}")


@lru_cache(maxsize=1024)
def _meant(standing: Standing) -> _Meaning:
    plain = wording.plain(standing.sentence).lower().rstrip(" .!")
    clause = wording.split(plain)
    condition, said = (clause.condition, clause.action) if clause is not None else ("", plain)
    if clause is not None and not said:
        said = condition
    forbids = bool(_NOT.search(said))
    if standing.task:
        said, forbids = standing.task.lower(), False
    action = _words(said)
    bounds = tuple((m["how"] in _UPWARDS, float(m["number"])) for m in _NUMBERS.finditer(condition))
    source = standing.when.strip()
    parts = _NOT.split(said, maxsplit=1)
    return _Meaning(
        _words(condition),
        action,
        said,
        forbids,
        source,
        clause is not None or bool(source),
        bounds,
        forbidden=parts[1] if len(parts) > 1 else "",
        allowed=parts[0],
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(_stem(w) for w in _WORD.findall(text) if w not in _LEFT_OUT)


def _stem(word: str) -> str:
    if word in _SAME:
        return _SAME[word]
    for end, put in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(end) and len(word) - len(end) >= 3:
            stem = word[: -len(end)] + put
            doubled = stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] else stem
            for form in (stem, f"{stem}e", doubled):
                if form in _SAME:
                    return _SAME[form]
            return doubled.rstrip("e")
    return word.rstrip("e") if len(word) > 3 else word


def _why(one: _Meaning, other: _Meaning) -> str:
    if not _together(one, other):
        return ""
    at = " when the same is so" if one.conditional and other.conditional else ""
    if one.forbids != other.forbids:
        wants, forbids = (other, one) if one.forbids else (one, other)
        banned = _words(forbids.forbidden) or forbids.action
        if (shared := banned & wants.action) and _about(banned, wants.action):
            return f"one forbids what the other asks for{at} ({', '.join(sorted(shared))})"
        away = _AWAY.search(forbids.said)
        opposed = _opposed(wants.said, forbids.said if away else forbids.allowed)
        if opposed is not None and (not away or banned & (wants.action | wants.condition)):
            return f"{opposed[0]} and {opposed[1]} exclude one another{at}"
    elif not one.forbids:
        if (pair := _opposed(one.said, other.said)) is not None:
            return f"{pair[0]} and {pair[1]} exclude one another{at}"
        places = [m["place"] for m in (_TO_PLACE.search(x.said) for x in (one, other)) if m is not None]
        if len(places) == 2 and places[0] != places[1] and one.conditional and other.conditional:
            return f"it cannot go to {places[0]} and to {places[1]}{at}"
    return ""


def _together(one: _Meaning, other: _Meaning) -> bool:
    """Whether there are moments at which both apply."""
    if one.source and other.source:
        return may_meet(one.source, other.source)
    for up, number in one.bounds:
        for other_up, other_number in other.bounds:
            if up != other_up and (number >= other_number if up else number <= other_number):
                return False
    if not one.condition or not other.condition:
        return True
    return one.condition <= other.condition or other.condition <= one.condition


def _about(banned: frozenset[str], wanted: frozenset[str]) -> bool:
    """Whether a ban is wide enough to hit what is wanted: all that it names is named there, or the other way round."""
    return banned <= wanted or wanted <= banned or len(banned & wanted) >= 2


def _opposed(one: str, other: str) -> tuple[str, str] | None:
    for first, second, x, y in _EXCLUDED:
        if first.search(one) and second.search(other) and not (first.search(other) and second.search(one)):
            return x, y
        if first.search(other) and second.search(one) and not (first.search(one) and second.search(other)):
            return y, x
    return None
