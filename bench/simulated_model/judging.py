# SPDX-License-Identifier: Apache-2.0
"""Judges a short sentence by what is observed."""

from __future__ import annotations

import re

from bench.simulated_model.question import Question
from bench.simulated_model.seeing import Facts, fresh, in_sight, room, things, told
from bench.simulated_model.vocabulary import ALSO, Vocabulary

_COMPARED = re.compile(
    r"(?P<less>below|under|less than|lower than|closer than|nearer than|within)"
    r"|(?P<more>above|over|more than|higher than|at least|farther than)"
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SEEN = re.compile(
    r"(?:see|sees|seen|spot|find|there (?:is|are))\s+(?:an?|any|the|some)\s+(\w+)"
    r"|(?:an?|any|the|some)\s+(\w+)\s+(?:is|are)\s+(?:in sight|in view|visible|there|near|seen|close)"
)
_NOT = re.compile(r"\b(?:no|not|nobody|nothing|none|isn't|aren't|without|n't)\b")


def judge(question: Question) -> str:
    """yes, no or unknown, and why."""
    items = question.blocks.get("CONDITION", [])
    first = items[0] if items else ""
    sentence = str(first.get("condition") or first.get("sentence") or "") if isinstance(first, dict) else str(first)
    holds, why = judged(sentence, question.facts, question.words)
    return f"{ {True: 'yes', False: 'no', None: 'unknown'}[holds] }: {why}".replace(" :", ":")


def judged(sentence: str, facts: Facts, words: Vocabulary) -> tuple[bool | None, str]:
    """Whether a sentence is true of an observation, None where it does not tell, and why."""
    low = re.sub(r"\b(?:nobody|no one)\b", "no person", sentence.lower())
    denied = bool(_NOT.search(low))
    holds, why = _plain(low, facts, words)
    return (holds if holds is None or not denied else not holds), why


def _plain(low: str, facts: Facts, words: Vocabulary) -> tuple[bool | None, str]:
    if "battery" in low and isinstance(level := fresh(facts, "battery"), (int, float)):
        found = _compare(low, float(level))
        return (float(level) < 20.0 if found is None else found), f"the battery is at {level:g} percent"
    if label := _label(low, facts, words):
        if things(facts) is None:
            return None, "what is in sight is not known"
        thing = in_sight(facts, label)
        if thing is None:
            return False, f"no {label} is in sight"
        far = thing.get("distance_m")
        if isinstance(far, (int, float)) and (near := _compare(low, float(far))) is not None:
            return near, f"the {label} is {far:g} m away"
        return True, told(facts)
    inside = room(facts)
    asked = re.findall(r"\bin the (\w+)", low)
    for name in {w.split("_")[0] for w in words.places} | ({inside, *asked} if inside else set(asked)):
        if name and re.search(rf"\b{re.escape(name)}\b", low):
            return (None, "the room is not known") if not inside else (inside == name, f"it is in the {inside}")
    sectors = fresh(facts, "obstacles")
    if isinstance(sectors, dict) and re.search(r"\b(?:obstacle|something|anything|way|front|left|right|behind)\b", low):
        return _way(low, sectors)
    posture = fresh(facts, "posture")
    for word, value in (("sit", "sit"), ("stand", "stand"), ("lying", "lie")):
        if word in low and isinstance(posture, str):
            return posture == value, f"its posture is {posture}"
    return None, "the observation does not tell"


def _label(low: str, facts: Facts, words: Vocabulary) -> str:
    if found := words.label_in(low):
        return found
    known = {str(t["label"]) for t in things(facts) or []}
    for word in re.findall(r"[a-z]+", low):
        if label := next((n for n, others in ALSO.items() if word in others), word if word in known else ""):
            return label
    noun = _SEEN.search(low)
    return (noun[1] or noun[2]) if noun is not None else ""


def _way(low: str, sectors: dict[str, object]) -> tuple[bool | None, str]:
    side = next((s for s in ("front", "left", "right", "back") if s in low or (s == "back" and "behind" in low)), "")
    chosen = {side: sectors.get(side)} if side else sectors
    metres = [float(v) for v in chosen.values() if isinstance(v, (int, float))]
    nearest = min(metres, default=float("inf"))
    free = bool(re.search(r"\bfree\b|\bclear\b", low))
    holds = _compare(low, nearest)
    holds = nearest < 0.5 if holds is None else holds
    return (not holds if free else holds), f"the nearest obstacle is {nearest:g} m away"


def _compare(low: str, value: float) -> bool | None:
    word, number = _COMPARED.search(low), _NUMBER.search(low)
    if word is None or number is None:
        return None
    limit = float(number.group())
    return value < limit if word["less"] else value > limit
