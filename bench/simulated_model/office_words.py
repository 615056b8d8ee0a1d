# SPDX-License-Identifier: Apache-2.0
"""Read what a task in an office asks for, and what of it is left open, from the words of the prompt alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["use", "sign", "deliver", "place"]
ACTIONS = {
    "print": r"\bprint(?:ed|out)?\b",
    "copy": r"\bcopied\b|\bcopy\b",
    "scan": r"\bscan(?:ned)?\b",
    "laminate": r"\blaminated?\b",
    "bind": r"\bbound\b|\bbind\b",
    "shred": r"\bshred(?:ded)?\b",
    "label": r"\blabel(?:led)?\b",
    "brew": r"\bcoffee\b",
    "fill": r"\bfilled with water\b",
    "heat": r"\bheat(?:ed)?\b|\bwarm",
    "charge": r"\bcharged?\b(?! er)",
    "store": r"\bin the fridge\b",
    "deposit": r"\bin the smart locker\b",
}
VAGUE = r"somebody|someone|the right person|the person in charge"
_NAME = r"([A-Z][a-z]+|the right person|somebody|Somebody|The right person)"
_LAST = (
    rf"\bon to {_NAME}",
    rf"after that {_NAME} gets",
    rf"returned to {_NAME}",
    rf"(?:back|it|them|on) to {_NAME}",
    rf"\bto {_NAME}\b",
    rf"\bfor {_NAME}\b",
    rf"^{_NAME} needs",
    rf"^{_NAME} would like",
)
_FIRST = (rf"\bto {_NAME}, then on", rf"^{_NAME} wants to see")
_SIGNER = (rf"signed by {_NAME}", rf"signature of {_NAME}")
LEADS = r"one of the leads|a lead\b"


@dataclass(frozen=True)
class Thing:
    """Hold what MEMORY tells of an item."""

    name: str
    owner: str
    kind: str
    seen: str


@dataclass(frozen=True)
class Machine:
    """Hold what MEMORY tells of a facility: its place, and its uses with who may."""

    name: str
    place: str
    uses: Mapping[str, str]


@dataclass(frozen=True)
class Want:
    """One thing that is wanted, of one item. `people`: who may sign it, or gets it."""

    kind: Kind
    item: str
    people: tuple[str, ...] = ()
    action: str = ""
    place: str = ""


@dataclass
class Meaning:
    """Hold what is wanted, in order for each item, and what is open: a question with what may be meant."""

    chains: list[list[Want]] = field(default_factory=list)
    question: str = ""
    choices: tuple[str, ...] = ()
    code: str = ""


def things_in(memory: Sequence[Any]) -> dict[str, Thing]:
    """Return the items that lines of MEMORY tell of."""
    found = {}
    for line in memory:
        if match := re.match(r"(\w+), (\w+)'s ([\w ]+), was last seen (.*)$", str(line)):
            found[match[1]] = Thing(match[1], match[2], match[3], match[4])
    return found


def machines_in(memory: Sequence[Any]) -> dict[str, Machine]:
    """Return the facilities that lines of MEMORY tell of."""
    found = {}
    for line in memory:
        if match := re.match(r"(\w+) is in (\w+): (.*)$", str(line)):
            uses = re.findall(r"(\w+)(?: \(only (\w+)\))?(?:, |$)", match[3])
            found[match[1]] = Machine(match[1], match[2], {action: by or "robots" for action, by in uses})
    return found


def understand(
    instruction: str,
    clarified: Sequence[Mapping[str, Any]],
    things: Mapping[str, Thing],
    machines: Mapping[str, Machine],
    people: Mapping[str, str],
    places: Sequence[str],
) -> Meaning:
    """Return what is wanted. `people`: what is known about each, by name."""
    said = " ".join(str(one.get("answer", "")) for one in clarified)
    meaning = Meaning(code=next(iter(re.findall(r"code (?:is )?(\d+)", instruction)), ""))
    reader = _Reader(instruction, said, things, machines, people, places, meaning)
    items = list(reader.items())
    if meaning.question:
        return meaning
    for item in items:
        meaning.chains.append(list(reader.wants(item)))
    return meaning


class _Reader:
    def __init__(
        self,
        text: str,
        said: str,
        things: Mapping[str, Thing],
        machines: Mapping[str, Machine],
        people: Mapping[str, str],
        places: Sequence[str],
        meaning: Meaning,
    ) -> None:
        self.text, self.said, self.things, self.machines = text, said, things, machines
        self.people, self.places, self.meaning = people, places, meaning

    def items(self) -> Iterator[str]:
        """Yield the items that are named, in order; ask for one that could be several."""
        found: list[tuple[int, str]] = []
        for name, thing in self.things.items():
            for text in (self.text, self.said):
                if match := re.search(rf"\b{thing.owner}'s {thing.kind}\b", text, re.IGNORECASE):
                    found.append((match.start() if text is self.text else self._vague_at(), name))
        named = {self.things[name].kind for _, name in found}
        for kind in {thing.kind for thing in self.things.values()} - named:
            if re.search(rf"\bthe {kind}\b", self.text, re.IGNORECASE):
                self._open_item([n for n, thing in self.things.items() if thing.kind == kind], f"Whose {kind} do you mean?")
        if match := re.search(r"\b(\w+)'s thing\b", self.text):
            owned = [n for n, thing in self.things.items() if thing.owner.lower() == match[1].lower()]
            if not any(name in owned for _, name in found if self.things[name].kind not in self.text.lower()):
                self._open_item(owned, f"Which thing of {match[1]}'s do you mean?")
        seen: list[str] = []
        for _, name in sorted(found):
            if name not in seen:
                seen.append(name)
                yield name

    def _vague_at(self) -> int:
        match = re.search(r"'s thing\b|\bthe \w+", self.text)
        return match.start() if match else 0

    def _open_item(self, names: Sequence[str], question: str) -> None:
        self._ask(question, tuple(f"{self.things[n].owner}'s {self.things[n].kind}" for n in names))

    def _ask(self, question: str, choices: Sequence[str]) -> None:
        if not self.meaning.question:
            self.meaning.question, self.meaning.choices = question, tuple(choices)

    def wants(self, item: str) -> Iterator[Want]:
        """Yield what is wanted of an item, in order."""
        lowered, said = self.text.lower(), self.said.lower()
        thing = self.things[item]
        bare = re.sub(rf"{thing.owner}'s {thing.kind}".lower(), " ", lowered)
        bare = re.sub(r"out of the smart locker|from the smart locker|\bprint room\b", " ", bare)
        actions = [a for a, words in ACTIONS.items() if re.search(words, bare)]
        if re.search(r"\bprocessed\b|where it belongs", bare):
            actions = [a for a, words in ACTIONS.items() if re.search(words, said) or re.search(rf"\b{a}\b", said)]
            if not actions:
                keep = "belongs" in bare
                choices = ("in the fridge", "in the smart locker") if keep else self._uses()
                self._ask("Where should it be put?" if keep else "What should be done with it, at which machine?", choices)
        for action in actions[:1]:
            yield Want("use", item, action=action)
        if re.search(LEADS, lowered) and "sign" in lowered:
            yield Want("sign", item, tuple(n for n, about in self.people.items() if "lead" in about))
        elif "sign" in lowered and (signer := self._person(_SIGNER, r"(\w+) should sign", "Who should sign it?")):
            yield Want("sign", item, (signer,))
        first = next((True for pattern in _FIRST if re.search(pattern, self.text)), False)
        if first and (person := self._person(_FIRST, r"(\w+) should have it first", "Who should have it first?")):
            yield Want("deliver", item, (person,))
        if "right room" in lowered:
            if place := self._place(said) or next((p for p in self.places if re.search(rf"\b{p}\b", said)), ""):
                yield Want("place", item, place=place)
            else:
                self._ask("Into which room should it be put?", self.places)
        elif (place := self._place(lowered)) and not actions:
            yield Want("place", item, place=place)
        elif actions[:1] not in (["store"], ["deposit"], ["shred"]) and (
            person := self._person(_LAST, r"(\w+) should get (?:it|them)", "Who should get it?")
        ):
            yield Want("deliver", item, (person,))

    def _uses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(use for machine in self.machines.values() for use in machine.uses))

    def _place(self, text: str) -> str:
        """Return the place that is named; where the prompt tells of no places, whatever stands behind `in the`."""
        if not self.places:
            found = re.search(r"\b(?:put|lie)\b.* in the ([a-z]+(?: [a-z]+)?)(?=[.;,]|$)", text)
            return found[1].replace(" ", "_") if found else ""
        return next((p for p in self.places if re.search(rf"\bin (?:the )?{p.replace('_', ' ')}\b", text)), "")

    def _person(self, patterns: Sequence[str], answer: str, question: str) -> str:
        for pattern in patterns:
            for match in re.finditer(pattern, self.text):
                if match[1] in self.people or (not self.people and match[1].lower() not in VAGUE.split("|")):
                    return match[1]
                if re.fullmatch(VAGUE, match[1].lower()):
                    told = re.search(answer, self.said)
                    if told and (told[1] in self.people or not self.people):
                        return told[1]
                    self._ask(question, ())
                    return ""
        return ""
