# SPDX-License-Identifier: Apache-2.0
"""Bind the twelve families of workflows to what is in an office: schema, steps, and the words of the instruction with what may
be left out of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.office.tasks import Step
from bench.office.vocabulary import FACILITIES, PLACES
from bench.office.world import Layout
from bench.things import PAPERS

DONE = {
    "print": "printed",
    "copy": "copied",
    "scan": "scanned",
    "laminate": "laminated",
    "bind": "bound",
    "shred": "shredded",
    "label": "labelled",
    "brew": "filled with fresh coffee",
    "fill": "filled with water",
    "heat": "heated",
    "charge": "charged",
}
KEPT = {"store": "in the fridge", "deposit": "in the smart locker"}
"""Sentences about facilities that keep an item."""


class UnfitError(ValueError):
    """Say that an office has nothing for a family, or not this time."""


@dataclass(frozen=True)
class Mask:
    """Tell how a field of the schema may be left out: its slot in the sentence, vague words for it, the gold question and its
    answer."""

    slot: str
    vague: str
    question: str
    answer: str


@dataclass
class Draft:
    """Hold a task that is being made."""

    sentences: tuple[str, ...]
    slots: dict[str, str]
    steps: list[Step]
    schema: dict[str, Any] = field(default_factory=dict)
    masks: dict[str, Mask] = field(default_factory=dict)

    def said(self, sentence: str, masked: str = "") -> str:
        """Return an instruction, with a field of the schema left out."""
        slots = dict(self.slots)
        if masked:
            slots[self.masks[masked].slot] = self.masks[masked].vague
        text = sentence.format(**slots)
        return text[0].upper() + text[1:]


class Binder:
    """Draw what a family needs from an office."""

    def __init__(self, layout: Layout, sender: str, chance: random.Random) -> None:
        self.layout, self.sender, self.chance = layout, sender, chance
        self._fits: dict[str, Callable[[str, str], bool]] = {}
        """What was asked of each item that was drawn: others that fit as well may be meant where it is not named."""

    def item(self, fits: Callable[[str, str], bool], *others: str) -> str:
        """Return an item, by what `fits` says of its name and kind. Raises UnfitError."""
        names = [n for n, item in self.layout.items.items() if n not in others and fits(n, item.kind)]
        item = self._one(names, "item")
        self._fits[item] = fits
        return item

    def person(self, *others: str) -> str:
        """Return somebody else than these and the sender. Raises UnfitError."""
        return self._one([name for name in self.layout.people if name not in (*others, self.sender)], "person")

    def lead(self, *others: str) -> str:
        """Return a lead other than these. Raises UnfitError."""
        return self._one([n for n, person in self.layout.people.items() if person.lead and n not in others], "lead")

    def one(self, *choices: str) -> str:
        return self.chance.choice(choices)

    def _one(self, names: list[str], what: str) -> str:
        if not names:
            raise UnfitError(f"there is no such {what}")
        return self.chance.choice(names)

    def state(self, item: str) -> str:
        return self.layout.at_first[item].state

    def owner(self, item: str) -> str:
        return self.layout.items[item].owner

    def kind(self, item: str) -> str:
        return self.layout.items[item].kind

    def words(self, item: str) -> str:
        """Return an item in words, as `Wang's laptop`."""
        return f"{self.owner(item)}'s {self.kind(item).replace('_', ' ')}"

    def about(self, draft: Draft, number: int, item: str) -> Draft:
        """Note an item in schema and masks: its owner where another's would do as well, and what it is where the owner has
        something else that would."""
        key, plain = f"personal_item_{number}", self.kind(item).replace("_", " ")
        draft.schema[key], draft.schema[f"{key}_owner"] = [item], [self.owner(item)]
        draft.schema[f"{key}_actions"] = [
            [f"{step.kind}{' ' + step.action if step.action else ''}", *step.people[:1], *(str(d + 1) for d in step.deps[-1:])]
            for step in draft.steps
            if step.item == item
        ]
        slot = f"item{number}"
        draft.slots[slot] = self.words(item)
        others = [self.layout.items[n] for n in self.layout.items if n != item and self._fits[item](n, self.kind(n))]
        if any(other.kind == self.kind(item) for other in others):
            whole = f"{self.owner(item)}'s {plain}"
            draft.masks[f"{key}_owner"] = Mask(slot, f"the {plain}", f"Whose {plain} do you mean?", f"I mean {whole}.")
        if any(other.owner == self.owner(item) for other in others):
            thing, whole = f"{self.owner(item)}'s thing", self.words(item)
            draft.masks[key] = Mask(slot, thing, f"Which thing of {self.owner(item)}'s do you mean?", f"I mean {whole}.")
        return draft

    def to(self, draft: Draft, person: str, question: str = "Who should get it?") -> Draft:
        """Note who gets it in the end."""
        draft.schema["destination"] = [person]
        draft.slots["to"] = person
        draft.masks["destination"] = Mask("to", "the right person", question, f"{person} should get it.")
        return draft

    def signed_by(self, draft: Draft, people: tuple[str, ...]) -> Draft:
        """Note who signs: somebody named, or any lead."""
        draft.schema["intermediate_person_1"] = list(people)
        draft.slots["signer"] = people[0] if len(people) == 1 else "one of the leads"
        if len(people) == 1:
            draft.masks["intermediate_person_1"] = Mask(
                "signer", "somebody", "Who should sign it?", f"{people[0]} should sign it."
            )
        return draft

    def used(self, draft: Draft, facility: str, action: str) -> Draft:
        """Note which facility is used, and how."""
        draft.schema["facility"], draft.schema["facility_usage_action"] = [facility], [action]
        draft.slots["done"] = DONE.get(action) or KEPT[action]
        return draft

    def vague_use(self, draft: Draft, item: str, action: str) -> Draft:
        """Let the use be left out where the item's kind has several."""
        uses = [a for own in FACILITIES.values() for a, use in own.items() if self.kind(item) in use.items and a in DONE]
        if len(uses) > 1:
            question = "What should be done with it: which machine should be used?"
            draft.masks["facility_usage_action"] = Mask("done", "processed", question, f"It should be {DONE[action]}.")
        return draft

    def signers(self, *others: str) -> tuple[str, ...]:
        """Return who may sign: one lead, or each of them."""
        if self.chance.random() < 0.5:
            return tuple(n for n, person in self.layout.people.items() if person.lead)
        return (self.lead(*others),)


def _get(item: str, binder: Binder) -> Step:
    owner = (binder.owner(item),) if binder.state(item) == "had" else ()
    return Step("get", item, owner)


def _fetch(b: Binder) -> Draft:
    item = b.item(lambda n, _: b.state(n) == "lies")
    to = b.one(b.sender, b.person())
    steps = [_get(item, b), Step("deliver", item, (to,), deps=(0,))]
    draft = Draft(("bring {item1} to {to}.", "{to} needs {item1}; please take it there.", "fetch {item1} for {to}."), {}, steps)
    return b.about(b.to(draft, to), 1, item)


def _borrow(b: Binder) -> Draft:
    item = b.item(lambda n, k: b.state(n) == "had" and k not in PAPERS and b.owner(n) != b.sender)
    to = b.one(b.sender, b.person(b.owner(item)))
    steps = [_get(item, b), Step("deliver", item, (to,), deps=(0,))]
    sentences = ("borrow {item1} and bring it to {to}.", "{to} would like to borrow {item1}.", "get {item1} for {to}, please.")
    return b.about(b.to(Draft(sentences, {}, steps), to), 1, item)


def _print(b: Binder) -> Draft:
    item = b.item(lambda n, _: b.state(n) == "file")
    to = b.one(b.sender, b.person())
    steps = [Step("use", item, facility="printer", action="print"), Step("deliver", item, (to,), deps=(0,))]
    draft = Draft(("print {item1} and bring it to {to}.", "{to} needs a printout of {item1}."), {}, steps)
    return b.about(b.to(b.used(draft, "printer", "print"), to), 1, item)


def _print_sign(b: Binder) -> Draft:
    item = b.item(lambda n, _: b.state(n) == "file")
    people = b.signers()
    to = b.person(*people)
    steps = [
        Step("use", item, facility="printer", action="print"),
        Step("sign", item, people, deps=(0,)),
        Step("deliver", item, (to,), deps=(1,)),
    ]
    sentences = (
        "print {item1}, have it signed by {signer}, then bring it to {to}.",
        "{to} needs {item1}, printed and signed by {signer}.",
    )
    return b.about(b.to(b.signed_by(b.used(Draft(sentences, {}, steps), "printer", "print"), people), to), 1, item)


def _sign_return(b: Binder) -> Draft:
    item = b.item(lambda n, k: b.state(n) == "had" and k in PAPERS)
    owner = b.owner(item)
    people = b.signers(owner)
    if owner in people:
        raise UnfitError("who has it would sign it without anybody's help")
    steps = [_get(item, b), Step("sign", item, people, deps=(0,)), Step("deliver", item, (owner,), deps=(1,))]
    sentences = (
        "have {item1} signed by {signer} and returned to {back}.",
        "get a signature of {signer} on {item1}, then bring it back to {back}.",
    )
    draft = Draft(sentences, {"back": owner}, steps, {"destination": [owner]})
    return b.about(b.signed_by(draft, people), 1, item)


def _process(b: Binder) -> Draft:
    item = b.item(lambda n, k: b.state(n) == "had" and any(use.by == "person" and k in use.items for use in _uses()))
    kind = b.kind(item)
    pairs = [(f, a) for f, own in FACILITIES.items() for a, use in own.items() if use.by == "person" and kind in use.items]
    facility, action = b.chance.choice([pair for pair in pairs if pair[1] != "print"])
    steps = [_get(item, b), Step("use", item, facility=facility, action=action, deps=(0,))]
    if action == "shred":
        draft = Draft(("have {item1} {done} by a lead.", "{item1} must be {done}; only leads may do that."), {}, steps)
        return b.about(b.used(draft, facility, action), 1, item)
    to = b.one(b.sender, b.person())
    steps.append(Step("deliver", item, (to,), deps=(1,)))
    sentences = ("have {item1} {done} and bring it to {to}.", "get {item1} {done}, then take it to {to}.")
    draft = b.to(b.used(Draft(sentences, {}, steps), facility, action), to)
    return b.about(b.vague_use(draft, item, action), 1, item)


def _uses() -> list[Any]:
    return [use for own in FACILITIES.values() for use in own.values()]


def _service(b: Binder) -> Draft:
    keep = ("store", "deposit")
    pairs = [(f, a, use) for f, own in FACILITIES.items() for a, use in own.items() if use.by == "arm" and a not in keep]
    facility, action, use = b.chance.choice(pairs)
    item = b.item(lambda n, k: k in use.items)
    to = b.one(b.sender, b.owner(item), b.person())
    steps = [
        _get(item, b),
        Step("use", item, facility=facility, action=action, deps=(0,)),
        Step("deliver", item, (to,), deps=(1,)),
    ]
    sentences = ("have {item1} {done} and bring it to {to}.", "get {item1} {done}, then take it to {to}.")
    draft = b.to(b.used(Draft(sentences, {}, steps), facility, action), to)
    return b.about(b.vague_use(draft, item, action), 1, item)


def _store(b: Binder) -> Draft:
    facility, action = b.chance.choice([("fridge", "store"), ("smart_locker", "deposit")])
    use = FACILITIES[facility][action]
    item = b.item(lambda n, k: k in use.items and b.state(n) != "inside")
    steps = [_get(item, b), Step("use", item, facility=facility, action=action, deps=(0,))]
    draft = Draft(("put {item1} {done}.", "see that {item1} gets {done}."), {}, steps)
    draft = b.about(b.used(draft, facility, action), 1, item)
    question, answer = f"Where should it be put: {' or '.join(KEPT.values())}?", f"It should be put {KEPT[action]}."
    draft.masks["facility"] = Mask("done", "where it belongs", question, answer)
    return draft


def _place(b: Binder) -> Draft:
    item = b.item(lambda n, k: k not in PAPERS)
    where = b.layout.at_first[item]
    place = b.one(*(p for p, about in PLACES.items() if not about.uneven and p != where.name and p != "lobby"))
    steps = [_get(item, b), Step("place", item, place=place, deps=(0,))]
    named = f"in the {place.replace('_', ' ')}"
    draft = Draft(("put {item1} {where}.", "{item1} should lie {where}; please see to it."), {"where": named}, steps)
    draft.schema["destination"] = [place]
    draft.masks["destination"] = Mask("where", "in the right room", "Into which room should it be put?", f"Put it {named}.")
    return b.about(draft, 1, item)


def _locker_fetch(b: Binder) -> Draft:
    item = b.item(lambda n, _: b.layout.at_first[n].name == "smart_locker")
    to = b.one(b.sender, b.person())
    steps = [_get(item, b), Step("deliver", item, (to,), deps=(0,))]
    code = b.layout.codes["smart_locker"]
    sentences = (
        "take {item1} out of the smart locker (the code is {code}) and bring it to {to}.",
        "{to} needs {item1} from the smart locker, code {code}.",
    )
    draft = Draft(sentences, {"code": code}, steps, {"facility": ["smart_locker"]})
    return b.about(b.to(draft, to), 1, item)


def _gather(b: Binder) -> Draft:
    first = b.item(lambda n, k: k not in PAPERS)
    second = b.item(lambda n, k: k not in PAPERS, first)
    to = b.one(b.sender, b.person(b.owner(first), b.owner(second)))
    if to in (b.owner(first), b.owner(second)):
        raise UnfitError("who gets both has one of them")
    steps = [
        _get(first, b),
        Step("deliver", first, (to,), deps=(0,)),
        _get(second, b),
        Step("deliver", second, (to,), deps=(2,)),
    ]
    sentences = ("bring {item1} and {item2} to {to}.", "{to} needs both {item1} and {item2}.")
    draft = b.to(Draft(sentences, {}, steps), to, "Who should get them?")
    return b.about(b.about(draft, 1, first), 2, second)


def _relay(b: Binder) -> Draft:
    item = b.item(lambda n, _: b.state(n) == "had")
    first = b.person(b.owner(item))
    to = b.person(b.owner(item), first)
    steps = [_get(item, b), Step("deliver", item, (first,), deps=(0,)), Step("deliver", item, (to,), deps=(1,))]
    sentences = ("bring {item1} to {first}, then on to {to}.", "{first} wants to see {item1}; after that {to} gets it.")
    draft = Draft(sentences, {"first": first}, steps, {"intermediate_person_1": [first]})
    draft.masks["intermediate_person_1"] = Mask(
        "first", "somebody", "Who should have it first?", f"{first} should have it first."
    )
    return b.about(b.to(draft, to, "Who should get it in the end?"), 1, item)


FAMILIES: Mapping[str, Callable[[Binder], Draft]] = {
    "fetch": _fetch,
    "borrow": _borrow,
    "print": _print,
    "print_sign": _print_sign,
    "sign_return": _sign_return,
    "process": _process,
    "service": _service,
    "store": _store,
    "place": _place,
    "locker_fetch": _locker_fetch,
    "gather": _gather,
    "relay": _relay,
}
