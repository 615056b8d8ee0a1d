# SPDX-License-Identifier: Apache-2.0
"""The judge, who goes by what is observed, and System 3: how an instruction stands to what runs, which guideline fires, and
which ones contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from bench.simulated_model.phrases import asks_memory, understand
from bench.simulated_model.prompt import Facts, Question, metres
from bench.simulated_model.robot import Robot, plain_words

_LESS = r"below|under|less than|lower than|closer than|nearer than|within"
_MORE = r"above|over|more than|higher than|at least|farther than"
_COMPARED = re.compile(rf"\b(?:(?P<less>{_LESS})|{_MORE})\D*(?P<number>\d+(?:\.\d+)?)")
_SEEN = re.compile(
    r"(?:see|there (?:is|are)) (?:an?|any|some) (\w+)|(?:an?|any|some) (\w+) (?:is|are) (?:in sight|visible|there|near)"
)
_NOT = re.compile(r"\b(?:no|not|nobody|nothing|none|without|\w+n't)\b")
_BRIEF = re.compile(r"\b(?:for a (?:second|moment|minute)|quickly|briefly|shortly)\b")
_BESIDE = re.compile(
    r"^(?:also|meanwhile)\b|^(?:please )?(?:say|tell|speak|answer|bark|take (?:a|another) (?:picture|photo))\b"
    r"(?!.*\b(?:then|go|walk|turn)\b)|\bas well\b|\bat the same time\b"
)
_WHEN = r"(?:when(?:ever)?|if|as soon as|every time)"
_RULE = re.compile(rf"^(?:{_WHEN} (?P<front>[^,]+), *(?P<then>.+)|(?P<do>.+?) {_WHEN} (?P<back>.+))$", re.IGNORECASE)
_MAY = re.compile(r"^(?:you (?:may|can|should|must|are allowed to)|please) (?:pause [\w\- ]+? (?:task )?to )?", re.IGNORECASE)
_GREET = re.compile(r"^(?:engage|greet|meet|welcome)\b[\w ]*")
_FORBIDS = re.compile(r"\b(?:never|do not|don't|must not|avoid|not allowed)\b", re.IGNORECASE)


def judge(question: Question) -> str:
    """Return yes, no or unknown, and why."""
    holds, why = judged(question.text("CONDITION", "condition", "sentence"), question.facts, question.robot)
    return f"{'unknown' if holds is None else 'yes' if holds else 'no'}: {why}"


def judged(sentence: str, facts: Facts, robot: Robot) -> tuple[bool | None, str]:
    """Return whether a sentence is true of an observation, None where it does not tell, and why."""
    low = re.sub(r"\b(?:nobody|no one)\b", "no person", sentence.lower())
    holds, why = _judged(low, facts, robot)
    return (not holds if holds is not None and _NOT.search(low) else holds), why


def _judged(low: str, facts: Facts, robot: Robot) -> tuple[bool | None, str]:
    if "battery" in low and isinstance(level := facts.fresh("battery"), (int, float)):
        return _compared(low, level, level < 20), f"the battery is at {level:g} percent"
    labels = {*robot.things, "person", "ball", "chair", "bottle", *(str(thing["label"]) for thing in facts.things or [])}
    noun = _SEEN.search(low)
    named = next((w for word in plain_words(low) for w in (word, word.removesuffix("s")) if w in labels), "")
    if label := named or (noun[1] or noun[2] if noun else ""):
        if facts.things is None:
            return None, "what is in sight is not known"
        if facts.seen(label) is None:
            return False, f"no {label} is in sight"
        far = metres(facts.seen(label))
        return (True, facts.told()) if far is None else (_compared(low, far, True), f"the {label} is {far:g} m away")
    rooms = {*(place.split("_")[0] for place in robot.places), *re.findall(r"\bin the (\w+)", low), facts.room} - {""}
    if room := next((room for room in sorted(rooms) if re.search(rf"\b{re.escape(room)}\b", low)), ""):
        return (facts.room == room, f"it is in the {facts.room}") if facts.room else (None, "the room is not known")
    sectors = facts.fresh("obstacles")
    if isinstance(sectors, Mapping) and re.search(r"\b(?:obstacle|something|anything|way|front|left|right|behind)\b", low):
        sides = {s for s in ("front", "left", "right", "back") if s in low or (s == "back" and "behind" in low)} or set(sectors)
        near = min((v for s, v in sectors.items() if s in sides and isinstance(v, (int, float))), default=float("inf"))
        holds = _compared(low, near, near < 0.5)
        return holds != bool(re.search(r"\b(?:free|clear)\b", low)), f"the nearest obstacle is {near:g} m away"
    posture = facts.fresh("posture")
    if isinstance(posture, str) and (asked := re.search(r"\b(sit|stand|lie|ly)", low)):
        return posture == asked[1].replace("ly", "lie"), f"its posture is {posture}"
    return None, "the observation does not tell"


def _compared(low: str, value: float, otherwise: bool) -> bool:
    found = _COMPARED.search(low)
    if found is None:
        return otherwise
    return value < float(found["number"]) if found["less"] else value > float(found["number"])


def advise(question: Question) -> str:
    """Return the elements of System 3's answer."""
    return "\n".join([*_relations(question), *_reactions(question)]) or "<nothing/>"


def _relations(question: Question) -> Iterator[str]:
    said = question.text("INSTRUCTION", "instruction")
    text = said.lower().strip()
    if understand(said, question.robot).resumes or _BRIEF.search(text):
        kind = "return"
    else:
        kind = "join" if _BESIDE.search(text) or asks_memory(said) else "replace"
    for process in question.items("PROCESSES") if question.blocks.get("INSTRUCTION") else ():
        name = str(process.get("process") or process.get("id") or "")
        if name and name != question.text("INSTRUCTION", "process") and process.get("source") != "idle":
            yield f'<relation process={quoteattr(name)} is="{kind}"/>'


def _reactions(question: Question) -> Iterator[str]:
    """Yield the first guideline whose condition holds, where nothing else is asked."""
    for guideline in question.items("GUIDELINES"):
        sentence = str(guideline.get("sentence") or "").strip(" .")
        if question.blocks.get("INSTRUCTION") or _FORBIDS.search(sentence):
            continue
        rule = _RULE.match(sentence)
        condition, task = (rule["front"] or rule["back"], rule["then"] or rule["do"]) if rule else (sentence, sentence)
        task = _GREET.sub("go to the person and say hello", _MAY.sub("", task).strip())
        task = re.sub(r"\b(?:them|him|her)\b", "the person", task)
        if task and judged(condition, question.facts, question.robot)[0]:
            name = quoteattr(str(guideline.get("name", "")))
            yield f"<react guideline={name}>{escape(task[:1].upper() + task[1:])}</react>"
            return
