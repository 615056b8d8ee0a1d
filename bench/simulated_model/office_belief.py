# SPDX-License-Identifier: Apache-2.0
"""Keep what a simulated model believes of an office: the prompt's memory and observation, and what the steps so far have come
to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bench.simulated_model.office_words import Machine, Meaning, Thing, machines_in, things_in, understand
from bench.simulated_model.prompt import Question
from bench.things import ITEMS, PAPERS

_ARGUMENT = re.compile(r"(\w+)=[\"']([^\"']*)[\"']")


def is_person(name: str) -> bool:
    """Return whether a name is a person's, by how it is written."""
    return name[:1].isupper()


def is_robot(name: str) -> bool:
    """Return whether a name is a robot's, by how it is written."""
    return bool(re.fullmatch(r"[a-z]+_\d+", name))


@dataclass(frozen=True)
class Act:
    """Hold a call of a robot, or what a person is asked to do: `skill` is then a use, sign, bring, lend or wait."""

    agent: str
    skill: str
    given: Mapping[str, str]

    @classmethod
    def read(cls, agent: str, text: str) -> Act:
        """Return the act that a call in text spells, or that a request in words asks for."""
        if text.startswith("Please "):
            return _requested(agent, text)
        return cls(agent, text.partition("(")[0].strip(), dict(_ARGUMENT.findall(text)))

    @property
    def call(self) -> str:
        """Return it as a call in text."""
        given = ", ".join(f'{name}="{value}"' for name, value in self.given.items())
        return f"{self.skill}({given})"


def _requested(agent: str, words: str) -> Act:
    item = re.search(r"\((\w+)\)", words)
    given = {"item": item[1] if item else ""}
    found = re.match(r"Please (\w+)(?:.* (?:at|to) (\w+)\.$)?", words)
    verb = found[1] if found else ""
    skill = {"be": "wait"}.get(verb, verb)
    if found and found[2]:
        given["to" if skill == "bring" else "facility"] = found[2]
    return Act(agent, skill, given)


@dataclass(frozen=True)
class Robot:
    """Hold what a prompt tells of a robot."""

    name: str
    places: tuple[str, ...]
    payload_kg: float
    about: str
    reachable: bool = True

    @property
    def arm(self) -> bool:
        return "with an arm" in self.about

    @property
    def works(self) -> bool:
        return "works machines" in self.about

    @property
    def locker(self) -> bool:
        return "Its locker must be opened" in self.about

    @property
    def heights(self) -> tuple[str, ...]:
        said = self.about.partition("from the floor or a desk")
        return ("floor", "desk") if said[1] else ("desk", "shelf") if "from a desk or a shelf" in self.about else ()

    def grips(self, kind: str) -> bool:
        """Return whether its hand takes up things of a kind, by what everybody knows of them."""
        return self.arm and kind not in PAPERS and min(ITEMS[kind].size_cm) <= 10.0

    def carries(self, kind: str) -> bool:
        """Return whether it takes things of a kind from a hand."""
        size, mass = sorted(ITEMS[kind].size_cm), ITEMS[kind].mass_g / 1000.0
        room = (10, 25, 35) if self.arm else (30, 40, 45) if self.locker else (45, 60, 65)
        return mass <= self.payload_kg and all(side <= most for side, most in zip(size, room, strict=True))


@dataclass
class Belief:
    """`at`: the place, holder or facility of each item, as `lies lab shelf`, `with Li`, `inside fridge`, `file`. `done`: deeds
    with their items, and who signed. `blocked`: who or what has turned out not to be available, and how often."""

    at: dict[str, str] = field(default_factory=dict)
    robot_at: dict[str, str] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    done: list[tuple[str, str, str]] = field(default_factory=list)
    blocked: dict[str, list[str]] = field(default_factory=dict)
    offers: dict[str, str] = field(default_factory=dict)
    """What a robot offers to another."""
    busy: dict[str, int] = field(default_factory=dict)
    """How often a robot did something else when it was to begin something."""

    def holder(self, item: str) -> str:
        """Return who has an item, "" for nobody."""
        return self.at.get(item, "").partition("with ")[2]

    def had(self, agent: str) -> list[str]:
        return [item for item, where in self.at.items() if where == f"with {agent}"]

    def suppose(self, act: Act) -> None:
        """Take it that an act has ended well."""
        given, agent = act.given, act.agent
        item = given.get("item", "")
        if act.skill == "navigate_to":
            self.robot_at[agent] = given.get("place", "")
            self.offers = {one: to for one, to in self.offers.items() if agent not in (to, self.holder(one))}
            self.open.discard(agent)
        elif act.skill == "pick_up":
            self.at[item] = f"with {agent}"
        elif act.skill == "put_down":
            for held in self.had(agent):
                self.at[held] = f"lies {given.get('place', '')} desk"
        elif act.skill == "give":
            if is_robot(str(given.get("person", ""))):
                self.offers[item] = str(given["person"])
            else:
                self.at[item] = f"with {given.get('person', '')}"
                self.done.append(("deliver", item, given.get("person", "")))
        elif act.skill == "take":
            self.offers.pop(item, None)
            self.at[item] = f"with {agent}"
        elif act.skill == "open_locker":
            self.open.add(given.get("locker", ""))
        elif act.skill == "use_facility":
            for held in self.had(agent):
                self._used(given.get("action", ""), held, given.get("facility", ""))
        elif act.skill in ("bring", "lend", "sign"):
            to = given.get("to", agent) if act.skill == "bring" else agent
            self.at[item] = f"with {to}" if is_person(to) or is_robot(to) else f"lies {to} desk"
            self.done.append(("deliver" if act.skill == "bring" else act.skill, item, to))
        elif item and act.skill not in ("say", "wait"):
            self.at[item] = f"with {agent}"
            self._used(act.skill, item, given.get("facility", ""))

    def _used(self, action: str, item: str, facility: str) -> None:
        self.done.append(("use", item, action))
        if action in ("store", "deposit", "shred"):
            self.at[item] = f"inside {facility}"
        elif self.holder(item) and action == "print":
            self.done.append(("deliver", item, self.holder(item)))

    def fail(self, act: Act, told: str) -> None:
        """Take in why an act was not done."""
        person = act.given.get("person", "")
        if found := re.search(r"(\w+) is busy with", told):
            self.busy[found[1]] = self.busy.get(found[1], 0) + 1
        elif "PERSON_" in told:
            self._block(person, told)
        elif "ROBOT_DOWN" in told or "out of reach" in told:
            found = re.search(r"(\w+) (?:does not answer|is out of reach)", told)
            self._block(found[1] if found else act.agent, told)
        elif found := re.search(r"(\w+) is out of order", told):
            self._block(found[1], told)
        elif "WRONG_CODE" in told:
            self.codes.pop(act.given.get("locker", ""), None)
        elif is_person(act.agent) and not re.search(r"I cannot:|I do not understand", told):
            if "Later" in told:
                self.blocked.setdefault(act.agent, []).append("later")
            elif act.skill != "wait" or re.search(r"busy|ask \w+ instead|no answer|nobody answered", told):
                self._block(act.agent, f"DECLINED {told}")

    def _block(self, name: str, told: str) -> None:
        if name:
            self.blocked.setdefault(name, []).append(told)

    def free(self, person: str) -> None:
        """Take it that a person has said to be there."""
        self.blocked.pop(person, None)


class Office:
    """Read a prompt about the office."""

    def __init__(self, question: Question) -> None:
        self.question = question

    @cached_property
    def memory(self) -> Sequence[Any]:
        return self.question.blocks.get("MEMORY", [])

    @cached_property
    def things(self) -> dict[str, Thing]:
        return things_in(self.memory)

    @cached_property
    def machines(self) -> dict[str, Machine]:
        return machines_in(self.memory)

    @cached_property
    def people(self) -> dict[str, str]:
        """Return the place and what else is known of each person, by name."""
        return {str(p["person"]): str(p.get("about", "")) for p in self.question.items("PEOPLE")}

    @cached_property
    def desks(self) -> dict[str, str]:
        """Return the places of people."""
        return {str(p["person"]): str(p.get("place", "")) for p in self.question.items("PEOPLE")}

    @cached_property
    def robots(self) -> dict[str, Robot]:
        """Return the robots with what the front says of each, or the like of it."""
        found = {}
        for told in self.question.items("ROBOTS"):
            name = str(told["robot"])
            kind = name.rpartition("_")[0]
            about = re.search(rf"^A {kind} is (.*)$", self.question.system, re.MULTILINE)
            found[name] = Robot(
                name,
                tuple(told.get("places", ())),
                float(told.get("payload_kg", 0.0)),
                about[1] if about else "",
                told.get("state") != "out of reach",
            )
        return found

    @cached_property
    def places(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place for robot in self.robots.values() for place in robot.places))

    @cached_property
    def meaning(self) -> Meaning:
        clarified = self.question.items("CLARIFIED")
        return understand(self.question.instruction, clarified, self.things, self.machines, self.people, self.places)

    @cached_property
    def steps(self) -> Sequence[Mapping[str, Any]]:
        """Return the steps so far: those of a team's PLAN, or what one agent has DONE."""
        return [*self.question.items("PLAN"), *self.question.items("DONE")]

    @cached_property
    def belief(self) -> Belief:
        """Return what is believed: MEMORY, what is observed or was perceived, and the steps so far."""
        belief = Belief()
        for name, thing in self.things.items():
            belief.at[name] = _where(thing.seen)
        for line in self.memory:
            belief.codes.update(re.findall(r"^the (\w+) opens with (\d+)", str(line)))
        if self.meaning.code:
            belief.codes["smart_locker"] = self.meaning.code
        self._observed(belief)
        for robot in self.robots.values():
            if not robot.reachable:
                belief.blocked[robot.name] = ["out of reach"]
        for step in self.steps:
            act, state, told = Act.read(str(step["agent"]), str(step["skill"])), step["state"], str(step.get("told", ""))
            if state == "failed":
                belief.fail(act, told)
            elif state != "void":
                belief.suppose(act)
                if act.skill == "wait" and state == "done":
                    belief.free(act.agent)
        return belief

    def _observed(self, belief: Belief) -> None:
        """Take in what robots see now, unless steps have been done since: those tell as much."""
        for told in self.question.items("OBSERVATION"):
            name = str(told.get("robot", ""))
            if isinstance(told.get("place"), str):
                belief.robot_at[name] = told["place"]
            if isinstance(locker := told.get("locker"), dict):
                belief.codes[name] = str(locker.get("code", ""))
        for line in self.question.blocks.get("PERCEPTION", []):
            for robot, code in re.findall(r"the locker of (\w+) opens with (\d+)", str(line)):
                belief.codes[robot] = code
            if found := re.match(r"at first (\w+) is in (\w+)", str(line)):
                belief.robot_at[found[1]] = found[2]
        for name in self.robots:
            belief.robot_at.setdefault(name, "")


def _where(seen: str) -> str:
    if match := re.match(r"on the (\w+) in (\w+)", seen):
        return f"lies {match[2]} {match[1]}"
    if seen.startswith("a file"):
        return "file"
    return seen
