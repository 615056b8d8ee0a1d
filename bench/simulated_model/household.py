# SPDX-License-Identifier: Apache-2.0
"""Answer as the five agents of strategy `team` in a house with a kitchen: two arms put things somewhere, who walks tells people
what they are to know, and people are asked to carry what no robot can. From the prompt's text alone."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench.simulated_model.office_belief import is_robot
from bench.simulated_model.office_roles import ALARMED, MISSED
from bench.simulated_model.office_roles import stage as stage
from bench.simulated_model.prompt import Question
from bench.simulated_model.team_belief import Act, Believed
from bench.simulated_model.team_goals import Goal, goals_of
from bench.simulated_model.team_planner import Abilities, Planner, StuckError, abilities_in, mistaken
from bench.simulated_model.team_roles import THINGS
from planners.prompts.blocks import Layer

BRING = "bring"
"""Skill of a person who carries things to another."""
GO, SPEAK = "goto_waypoint", "speak"
_CARRIES = re.compile(r"\b(?i:bring|carry|take|hand)\b(?P<what>.*?)\bto (?P<whom>[A-Z]\w*)")
_TELLS = re.compile(r"\b(?i:tell) (?P<whom>[A-Z]\w*) (?:that )?(?P<what>[^.;!]+)")
_CALL = re.compile(r"(\w+)\((.*)\)$", re.DOTALL)
_ARGUMENT = re.compile(r"(\w+)=\"([^\"]*)\"")


@dataclass(frozen=True)
class Errand:
    """Hold what is to be carried to a person, or what a person is to be told."""

    whom: str
    things: tuple[str, ...] = ()
    words: str = ""


def errands_of(instruction: str) -> list[Errand]:
    """Return what people are to be brought or told, in order. "them", "it" and "both" are what was put somewhere before."""
    found, before = list[Errand](), tuple[str, ...]()
    for sentence in re.split(r"(?<=[.!;])\s|,(?= and )", instruction):
        named = tuple(thing for thing in THINGS if re.search(rf"\b{thing.replace('_', ' ')}\b", sentence, re.IGNORECASE))
        if carried := _CARRIES.search(sentence):
            found.append(Errand(carried["whom"], named or before))
        if told := _TELLS.search(sentence):
            found.append(Errand(told["whom"], words=told["what"].strip()))
        before = named or before
    return found


def is_household(question: Question) -> bool:
    """Return whether a prompt of these agents is about a house with a kitchen and not about an office."""
    names = [str(item.get("robot", "")) for item in question.items("ROBOTS")]
    names += [str(step.get("agent", "")) for title in ("PLAN", "ASSIGNED") for step in question.items(title)]
    names += [
        word for title in ("MEMORY", "PERCEPTION") for line in question.blocks.get(title, []) for word in str(line).split()
    ]
    return not any(map(is_robot, names)) and bool(goals_of(question.instruction, THINGS) or errands_of(question.instruction))


def answer(question: Question, chance: random.Random) -> str:
    """Return an agent's answer. What goes wrong is drawn from `chance`."""
    return json.dumps(_ROLES[question.layer](Household(question), chance))


class Household:
    """Read a prompt about the house."""

    def __init__(self, question: Question) -> None:
        self.question = question

    @cached_property
    def goals(self) -> list[Goal]:
        return goals_of(_arms_part(self.question.instruction), THINGS)

    @cached_property
    def errands(self) -> list[Errand]:
        return errands_of(self.question.instruction)

    @cached_property
    def robots(self) -> dict[str, Abilities]:
        """Return the robots with hands, by what their functions say."""
        return {name: able for name, able in abilities_in(self.question.system).items() if able.spaces}

    @cached_property
    def walkers(self) -> list[str]:
        """Return the robots that go to named places and speak."""
        parts = re.split(r"^# Functions of (\w+)$", self.question.system, flags=re.MULTILINE)
        shown = zip(parts[1::2], parts[2::2], strict=True)
        return [name for name, text in shown if f"{GO}(" in text and name not in self.absent]

    @cached_property
    def absent(self) -> set[str]:
        return {str(r["robot"]) for r in self.question.items("ROBOTS") if r.get("state") == "out of reach"}

    @cached_property
    def people(self) -> dict[str, Mapping[str, Any]]:
        return {str(person["person"]): person for person in self.question.items("PEOPLE")}

    @cached_property
    def declined(self) -> set[str]:
        """Return who is out of the question, by how their steps ended."""
        failed = [step for step in self.question.items("PLAN") if step.get("state") == "failed"]
        names = {str(step["agent"]) for step in failed} - self.robots.keys() - set(self.walkers)
        return names | {str(step.get("told", " ")).split(" ", 1)[0] for step in failed} & self.people.keys()

    def steps(self, *states: str) -> list[Mapping[str, Any]]:
        return [step for step in self.question.items("PLAN") if step.get("state") in states]

    def believed(self, *states: str) -> Believed:
        """Return what is believed once the steps in these states have ended well."""
        shown = " ".join(line for line in self.question.blocks.get("PERCEPTION", []) if isinstance(line, str))
        believed = Believed.read(shown)
        for step in self.steps(*states):
            _, act = _read(step)
            if act is not None:
                believed.suppose(act)
        return believed

    def open_goals(self) -> list[Goal]:
        """Return the goals but for those of things that somebody has carried on."""
        gone = {thing for errand in self.errands if self.fulfilled(errand, "done") for thing in errand.things}
        return [goal for goal in self.goals if goal.thing not in gone]

    def fulfilled(self, errand: Errand, *states: str) -> bool:
        """Return whether a step in one of these states does an errand."""
        for step in self.steps(*states):
            call = _CALL.match(str(step.get("skill", "")))
            given = dict(_ARGUMENT.findall(call[2])) if call else {}
            if call and errand.words and call[1] == SPEAK and errand.words in given.get("text", ""):
                return True
            if call and errand.things and call[1] == BRING and given.get("person") == errand.whom:
                return True
        return False


def _arms_part(instruction: str) -> str:
    """Return the instruction without the sentences on what people are to be brought or told."""
    sentences = re.split(r"(?<=[.!;])\s|,(?= and )", instruction)
    return " ".join(one for one in sentences if not _CARRIES.search(one) and not _TELLS.search(one))


def _read(step: Mapping[str, Any]) -> tuple[str, Act | None]:
    """Return the name of a step's skill, and the act if one with hands does it."""
    act = Act.read(str(step.get("skill", step.get("call", ""))))
    known = act.arguments.keys() & {"point", "what", "space"}
    return act.skill, act if known else None


# -- manager and perceiver ----------------------------------------------------------------------------------------------------


def _manage(house: Household, chance: random.Random) -> Mapping[str, Any]:
    if "CLARIFY" in house.question.blocks:
        clear = bool(house.goals or house.errands)
        return {"clear": clear, "question": "" if clear else "What shall be put where, or brought or told to whom?"}
    left = [str(goal) for goal in house.open_goals() if not goal.reached(house.believed("done"))]
    left += [f"{_named(e)} for {e.whom}" for e in house.errands if not house.fulfilled(e, "done")]
    done = "; ".join(str(step["skill"]) for step in house.steps("done")[-6:]) or "nothing yet"
    if not left:
        return {"flag": "Y", "thought": "all that was asked for is done", "summary": f"done: {done}"}
    failed = [str(step.get("told", "")) for step in house.steps("failed")]
    why = f"; {failed[-1]}" if failed else ""
    return {"flag": "N", "thought": f"this is missing: {', '.join(left)}{why}", "summary": f"done: {done}"}


def _perceive(house: Household, chance: random.Random) -> Mapping[str, Any]:
    believed = Believed()
    for step in (*house.steps("done"), *house.steps("failed")):
        _, act = _read(step)
        if act is not None and step["state"] == "done":
            believed.suppose(act)
        elif act is not None:
            believed.fail(act, str(step.get("told", "")))
    sensed = house.question.items("OBSERVATION")
    believed.sense(sensed)
    for told in sensed:
        if isinstance(things := told.get("things"), dict):
            believed.things.update({thing: space for thing, space in things.items() if space})
    lines = [f"{name} is not available: {told}" for name, told in _refusals(house)]
    return {"perception": [f"Spatial: {believed.text()}", *lines][:8], "world": []}


def _refusals(house: Household) -> Iterator[tuple[str, str]]:
    for step in house.steps("failed"):
        if (name := str(step.get("told", " ")).split(" ", 1)[0]) in house.people:
            yield name, str(step["told"])[:200]


# -- planner and assigner -----------------------------------------------------------------------------------------------------


def _plan(house: Household, chance: random.Random) -> Mapping[str, Any]:
    first = next((n for n in house.question.blocks.get("NUMBER", []) if isinstance(n, int)), 1)
    going = ("running", "waiting")
    last, hands = dict[str, int](), dict[str, str]()
    for step in house.steps(*going):
        last |= dict.fromkeys(_touched(str(step["skill"]), hands), int(step["step"]))
    robots = {name: able for name, able in house.robots.items() if name not in house.absent}
    try:
        acts = Planner(house.believed(*going), robots, whole=True).plan(house.open_goals())
        errands = [
            call
            for errand in house.errands
            if not house.fulfilled(errand, "done", *going)
            for call in _errand_steps(house, errand)
        ]
    except StuckError as error:
        return {"thought": f"it cannot be done: {error}", "steps": [], "give_up": True}
    written = [call for act in acts for call in mistaken([act], robots, chance)[0]]
    written += errands
    steps = list[dict[str, Any]]()
    for call in written:
        names, number = _touched(call, hands), first + len(steps)
        steps.append({"step": number, "skill": call, "dep": sorted({last[name] for name in names if name in last})})
        last |= dict.fromkeys(names, number)
    return {"thought": "what is missing, in order", "steps": steps}


def _errand_steps(house: Household, errand: Errand) -> list[str]:
    if errand.things:
        return [f'{BRING}(things="{", ".join(errand.things)}", person="{errand.whom}")']
    place = str(house.people.get(errand.whom, {}).get("place", ""))
    if not house.walkers:
        raise StuckError(f"nobody who walks is in reach, to tell {errand.whom}")
    who = next(iter(sorted(house.walkers, key=lambda name: name not in house.question.instruction.lower())), "")
    words = f'{SPEAK}(robot="{who}", text="{errand.whom}, {errand.words}.")'
    return [f'{GO}(robot="{who}", waypoint="{place}")', words] if place else [words]


def _touched(call: str, hands: dict[str, str]) -> list[str]:
    """Return the robot and the things of a call, which other steps of theirs wait for. `hands`: what each robot has picked."""
    given = dict(_ARGUMENT.findall(call))
    robot, thing = given.get("robot", ""), given.get("object", "")
    if thing:
        hands[robot] = thing
    elif "space" in given:
        thing = hands.pop(robot, "")
    return [name for name in (robot, thing, *given.get("things", "").split(", ")) if name]


def _assign(house: Household, chance: random.Random) -> Mapping[str, Any]:
    found = []
    for step in house.question.items("STEPS"):
        call = str(step["skill"])
        given = dict(_ARGUMENT.findall(call))
        if robot := given.get("robot"):
            found.append({"step": step["step"], "agent": robot, "call": call, "why": ""})
            continue
        whom = given.get("person", "")
        free = [name for name in house.people if name != whom and name not in house.declined]
        if not free:
            found.append(
                {"step": step["step"], "agent": whom, "call": _asks(house, given, fetch=True), "why": _why(house, whom)}
            )
            continue
        found.append({"step": step["step"], "agent": free[0], "call": _asks(house, given), "why": _why(house, whom)})
    return {"assignments": found}


def _asks(house: Household, given: Mapping[str, str], *, fetch: bool = False) -> str:
    things = " and ".join(f"the {thing.replace('_', ' ')}" for thing in given.get("things", "").split(", "))
    if fetch:
        return f"Could you please fetch {things} from the table yourself?"
    place = str(house.people.get(given.get("person", ""), {}).get("place", "")).replace("_", " ")
    return (
        f"Could you please bring {things} from the kitchen table to {given.get('person')}{f' in the {place}' if place else ''}?"
    )


def _why(house: Household, whom: str) -> str:
    about = str(house.people.get(whom, {}).get("about", ""))
    return f"{whom} {about}" if about else f"somebody asked for this: {house.question.instruction}"[:300]


def _named(errand: Errand) -> str:
    return f"the news that {errand.words}" if errand.words else " and ".join(errand.things)


# -- validator ----------------------------------------------------------------------------------------------------------------


def _validate(house: Household, chance: random.Random) -> Mapping[str, Any]:
    why, drawn = _against(house), chance.random()
    if why and drawn < MISSED:
        why = ""
    elif not why and drawn < ALARMED:
        why = "it does not serve the task"
    return {"verdict": "fail" if why else "pass", "thought": why or "nothing speaks against it"}


def _against(house: Household) -> str:
    """Return what speaks against the assigned steps, in the order in which they need one another."""
    believed = house.believed("running", "waiting")
    for step in sorted(house.question.items("ASSIGNED"), key=lambda s: int(s["step"])):
        name = str(step["agent"])
        if name in house.people:
            if name in house.declined:
                return f"step {step['step']}: {name} has declined"
            continue
        act = Act.read(str(step["call"]))
        if why := _unfit(house, believed, act):
            return f"step {step['step']}: {why}"
        if act.arguments.keys() & {"point", "what", "space"}:
            believed.suppose(act)
    return ""


def _unfit(house: Household, believed: Believed, act: Act) -> str:
    """Return why an act cannot succeed, as far as is known."""
    given, held = act.arguments, believed.held(act.robot)
    if act.robot in house.absent:
        return f"{act.robot} is out of reach"
    if act.skill in (GO, SPEAK):
        return ""
    space, what = given.get("space", ""), given.get("what", "")
    if act.skill == "go_to":
        return f"{act.robot} is there already" if believed.points.get(act.robot) == given.get("point") else ""
    if act.skill in ("open", "close"):
        state = "open" if act.skill == "open" else "shut"
        return f"the {what} is {state} already" if believed.doors.get(what) == state else ""
    if believed.doors.get(space) == "shut":
        return f"{space} is shut; it must be opened first"
    if act.skill == "release_to":
        return "" if held else f"the hand of {act.robot} is empty"
    if act.skill != "pick_from":
        return f"there is nothing like {act.skill}"
    if held:
        return f"the hand of {act.robot} holds {held}; put it down first"
    where = believed.things.get(given.get("object", ""), space)
    return "" if where == space else f"{given['object']} is in {where}, not in {space}"


_ROLES: Mapping[Layer, Callable[[Household, random.Random], Mapping[str, Any]]] = {
    Layer.MANAGER: _manage,
    Layer.PERCEIVER: _perceive,
    Layer.PLANNER: _plan,
    Layer.ASSIGNER: _assign,
    Layer.VALIDATOR: _validate,
}
