# SPDX-License-Identifier: Apache-2.0
"""Let the people of the office answer: what a request in plain words asks for, yes or no to it, and what a task meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.office.tasks import Task
from bench.office.vocabulary import PLACES
from bench.office.world import Deed, Layout, Office

ANSWER_S = 12.0
"""Time that a person takes to answer."""
DEED_S = {"use": 150.0, "sign": 40.0, "bring": 180.0, "lend": 20.0, "wait": 0.0}
"""Time that a deed takes a person, ways included."""
BUSY, LATER = "No, sorry, I am busy.", "Later, please."
ACCEPTED, DONE = "Yes.", "Done."
UNCLEAR = "I do not understand what I should do. Please name the thing, and what to do with it."
NO_MORE = "I cannot tell you more than I have said."
STEMS = {
    "print": r"\bprint(?!er)\w*",
    "copy": r"\bcop(?:y|ies|ied)\b",
    "scan": r"\bscan(?!ner)\w*",
    "laminate": r"\blaminat(?!or)\w*",
    "bind": r"\b(?:bind(?!ing)|bound)\b",
    "shred": r"\bshred(?!der)\w*",
    "label": r"\blabel(?!_)\w*",
    "brew": r"\bbrew|\bcoffee\b(?!_)",
    "fill": r"\bfill",
    "heat": r"\bheat|\bwarm",
    "charge": r"\bcharg(?!ing_|er\b)\w*",
    "store": r"\bstore\b|\bstoring\b|\bin(?:to|side)? the fridge\b",
    "deposit": r"\bdeposit|\bin(?:to|side)? the smart locker\b",
}
_BRING = r"\b(?:bring|carry|deliver|take|fetch|move|put|get)\b"
_WAIT = r"\b(?:receive|be ready|be there|have time)\b"
_LEND = r"\b(?:lend|pick up|hold|hand|keep ready|have ready)\b"
ABOUT = {
    "destination": r"\bwho(?:m)?\b|recipient|where|which (?:person|room|place)|destination",
    "personal_item": r"which (?:thing|item)|what (?:thing|item)|\bwhat\b|\bwhich\b",
    "owner": r"\bwhose\b|\bwhich\b|\bwho owns\b|owner",
    "intermediate_person_1": r"\bwho(?:m)?\b|which (?:person|lead)|sign",
    "facility": r"\bwhat\b|\bwhich\b|\bwhere\b|\bhow\b|machine|facility",
}
"""Words by which a question is about a field of the schema."""


def deed_in(text: str, layout: Layout, person: str) -> Deed | None:
    """Return what a request asks a person to do; None where nobody can tell."""
    words = text.replace("’", "'")
    item = next(iter(_named(words, layout.items, _spoken(layout))), "")
    if not item:
        return None
    facility = next(iter(_named(words, layout.facilities, {})), "")
    lowered = re.sub(_names(layout.items), " ", words).lower()
    for action, stem in STEMS.items():
        if re.search(stem, lowered) and (found := _machine(layout, facility, action)):
            return Deed("use", item, found, action)
    if re.search(r"\bsign(?!ed)\w*", lowered):
        return Deed("sign", item)
    if re.search(_BRING, lowered) and (to := _goal(words, layout, person)):
        return Deed("bring", item, to=to)
    if re.search(_WAIT, lowered):
        return Deed("wait", item)
    return Deed("lend", item) if re.search(f"{_LEND}|{_BRING}", lowered) else None


def _machine(layout: Layout, named: str, action: str) -> str:
    """Return the facility that is named, or the first that does this."""
    if named:
        return named if action in layout.facilities[named].uses else ""
    return next((name for name, facility in layout.facilities.items() if action in facility.uses), "")


def _goal(text: str, layout: Layout, person: str) -> str:
    """Return where something is to be brought: the last person, robot or place named behind a word such as to, for or in."""
    names = {**dict.fromkeys((*layout.people, *layout.robots, *PLACES)), **{p.replace("_", " "): None for p in PLACES}}
    found = [
        (match.start(), name)
        for name in names
        for match in re.finditer(rf"\b(?:to|for|into|in|at|on|give|hand|bring)\s+(?:the\s+)?{re.escape(name)}\b(?!')", text)
    ]
    to = max(found, default=(0, ""))[1].replace(" ", "_")
    return person if not to and re.search(r"\bto (?:you|your)\b", text) else to


def _spoken(layout: Layout) -> dict[str, str]:
    return {name: f"{item.owner}'s {item.kind.replace('_', ' ')}" for name, item in layout.items.items()}


def _named(text: str, names: Iterable[str], spoken: dict[str, str]) -> Iterator[str]:
    """Yield what is named, by its name or as it is spoken of, first named first."""
    found = []
    for name in names:
        for words in (name, spoken.get(name)):
            if words and (match := re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE)):
                found.append((match.start(), name))
    yield from (name for _, name in sorted(found))


def _names(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, names))


@dataclass(frozen=True)
class Word:
    """Hold what a person says to a request; `text` is "" for silence. `deed` is what was accepted."""

    text: str
    deed: Deed | None = None


def reply(world: Office, person: str, text: str) -> Word:
    """Return what a person says to a request. Who accepts something can do it now."""
    absence = world.absent(person)
    if absence is not None:
        said = {"busy": BUSY, "later": LATER, "away": "", "instead": f"Please ask {absence.instead} instead."}
        return Word(said[absence.kind])
    deed = deed_in(text, world.layout, person)
    if deed is None:
        return Word(UNCLEAR)
    failure = world.deed_fault(person, deed)
    return Word(f"I cannot: {failure.why}." if failure is not None else ACCEPTED, None if failure is not None else deed)


def meant(task: Task, question: str, choices: Iterable[str] = ()) -> str:
    """Return what who wants the task answers to a question about it: the field that was left out, if it is asked for."""
    offered = list(choices)
    if not task.masked:
        return NO_MORE
    if offered:
        action = next((step.action for step in task.steps if step.action in offered), "")
        if action and task.masked.startswith("facility"):
            return action
        answer = task.answer.casefold().replace("_", " ")
        fitting = [c for c in offered if c.casefold().replace("_", " ") in answer or _same_item(c, task)]
        return max(fitting, key=len, default=task.answer)
    key = "owner" if task.masked.endswith("_owner") else task.masked.removesuffix("_usage_action")
    key = "personal_item" if key.startswith("personal_item") else key
    return task.answer if re.search(ABOUT[key], question, re.IGNORECASE) else NO_MORE


def _same_item(choice: str, task: Task) -> bool:
    return choice in {step.item for step in task.steps} and task.masked.startswith("personal_item")
