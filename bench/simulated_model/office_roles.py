# SPDX-License-Identifier: Apache-2.0
"""Answer as the five agents of strategy `team`, or as one agent alone, in the office of InteractGen: from the prompt's text,
and with one and the same understanding, plans and mistakes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.simulated_model.office_belief import Act, Belief, Office, is_person, is_robot
from bench.simulated_model.office_planner import Planned, Planner, StuckError
from bench.simulated_model.prompt import Question
from planners.prompts.blocks import Layer

MISTAKES = 0.08
"""Share of the planned calls that are mistaken: the rate of the kitchen's planner (docs/clea.md)."""
MISSED, ALARMED = 0.1, 0.05
"""Share of the unfit plans that the validator lets pass, and of the fit ones that it stops: those of the kitchen's critic."""
WORDS = {
    "wait": "Please be ready to receive or hand over {thing} ({item}).",
    "sign": "Please sign {thing} ({item}).",
    "bring": "Please bring {thing} ({item}) to {to}.",
    "lend": "Please lend us {thing} ({item}).",
}
_OTHER = "Please {skill} {thing} ({item}) at {facility}."
_MARK = "a team of robots and people"
"""Words in the front of each of these agents."""


def is_office(question: Question) -> bool:
    """Return whether a prompt is one of these agents'."""
    return question.layer in LAYERS and _MARK in question.system


def stage(question: Question) -> str:
    """Return where in a task an agent is asked: what is drawn for it hangs on nothing else."""
    office = Office(question)
    counts = [sum(step["state"] == state for step in office.steps) for state in ("done", "failed")]
    faults = len(question.blocks.get("FAULTS", [])) + len(question.blocks.get("FEEDBACK", []))
    return f"{question.layer} {question.instruction} {counts} {faults} {len(question.items('ASSIGNED'))}"


def answer(question: Question, chance: random.Random) -> str:
    """Return an agent's answer. What goes wrong is drawn from `chance`."""
    office = Office(question)
    return json.dumps(_ROLES[question.layer](office, chance))


# -- manager and perceiver ----------------------------------------------------------------------------------------------------


def _manage(office: Office, chance: random.Random) -> Mapping[str, Any]:
    if "CLARIFY" in office.question.blocks:
        meaning = office.meaning
        clear = not meaning.question
        return {"clear": clear, "question": meaning.question, "choices": list(meaning.choices[:12])}
    left = _left(office)
    failed = [str(step.get("told", "")) for step in office.steps if step["state"] == "failed"]
    done = [str(step["skill"]) for step in office.steps if step["state"] == "done"]
    summary = f"done: {'; '.join(done[-6:]) or 'nothing yet'}"
    if not left:
        return {"flag": "Y", "thought": "all that was asked for is done", "summary": summary}
    why = f"; {failed[-1]}" if failed else ""
    return {"flag": "N", "thought": f"this is missing: {', '.join(left)}{why}", "summary": summary}


def _left(office: Office) -> list[str]:
    planner = _planner(office, office.belief)
    wants = [want for chain in office.meaning.chains for want in planner.missing(chain)]
    return [f"{want.kind} {want.item} {want.action or want.place or ' or '.join(want.people)}" for want in wants]


def _perceive(office: Office, chance: random.Random) -> Mapping[str, Any]:
    lines = []
    for told in office.question.items("OBSERVATION"):
        if not office.steps and isinstance(told.get("place"), str):
            lines.append(f"at first {told['robot']} is in {told['place']}")
        if isinstance(locker := told.get("locker"), dict):
            lines.append(f"the locker of {told['robot']} opens with {locker.get('code')}")
    kept = [str(line) for line in office.question.blocks.get("PERCEPTION", []) if str(line).startswith("at first")]
    belief = office.belief
    blocked = [f"{name} is not available: {told[-1]}"[:200] for name, told in belief.blocked.items()]
    world = [[name, "available", "no"] for name in belief.blocked if is_person(name)]
    return {"perception": [*kept, *lines, *blocked][:12], "world": world}


# -- planner, assigner, and one agent alone -----------------------------------------------------------------------------------


def _planner(office: Office, belief: Belief) -> Planner:
    planner = Planner(belief, office.robots, office.people, office.desks, office.things, office.machines)
    for step in office.steps:
        if step["state"] in ("running", "waiting"):
            act = Act.read(str(step["agent"]), str(step["skill"]))
            names = (act.agent, act.given.get("item", ""), act.given.get("person", ""))
            planner.last |= {name: -int(step["step"]) for name in names if name}
    return planner


def _steps(office: Office) -> list[Planned]:
    """Return what is missing, without mistakes. Raises StuckError."""
    meaning = office.meaning
    if meaning.question:
        raise StuckError(f"it is not clear: {meaning.question}")
    return _planner(office, office.belief).plan(meaning)


def _number(office: Office) -> int:
    return next((n for n in office.question.blocks.get("NUMBER", []) if isinstance(n, int)), 1)


def _deps(planned: Planned, first: int) -> list[int]:
    return sorted({first + need if need >= 0 else -need for need in planned.needs})


def _plan(office: Office, chance: random.Random) -> Mapping[str, Any]:
    first = _number(office)
    try:
        planned = _steps(office)
    except StuckError as error:
        return {"thought": f"it cannot be done: {error}", "steps": [], "give_up": True}
    steps = [
        {"step": first + i, "skill": mistaken(office, one.act, chance).call, "dep": _deps(one, first)}
        for i, one in enumerate(planned)
    ]
    return {"thought": "what is missing, in order", "steps": steps}


def _assign(office: Office, chance: random.Random) -> Mapping[str, Any]:
    wanted = office.question.items("STEPS")
    try:
        planned = _steps(office)
    except StuckError as error:
        return {"assignments": [], "give_up": True, "thought": f"it cannot be done: {error}"}
    if not wanted:
        first = _number(office)
        acts = [(first + i, mistaken(office, one.act, chance), _deps(one, first)) for i, one in enumerate(planned)]
    else:
        acts = [(int(step["step"]), act, []) for step, act in zip(wanted, _matched(wanted, planned), strict=True)]
    return {
        "assignments": [
            {"step": number, "agent": act.agent, "call": _words(office, act), "why": _why(office, act), "dep": dep}
            for number, act, dep in acts
        ]
    }


def _matched(wanted: Sequence[Mapping[str, Any]], planned: Sequence[Planned]) -> list[Act]:
    """Return who does each of the steps as the planner wrote them: as planned, or of one that was written otherwise who would
    have done the one in its place."""
    found = []
    for i, step in enumerate(wanted):
        agent = planned[min(i, len(planned) - 1)].act.agent if planned else ""
        found.append(Act.read(agent, str(step["skill"])))
    return found


def _words(office: Office, act: Act) -> str:
    """Return a call, or to a person the request in words."""
    if not is_person(act.agent):
        return act.call
    item = act.given.get("item", "")
    thing = office.things.get(item)
    spoken = f"{thing.owner}'s {thing.kind}" if thing is not None else item
    return WORDS.get(act.skill, _OTHER).format(skill=act.skill, thing=spoken, **{"facility": "", "to": "", **act.given})


def _why(office: Office, act: Act) -> str:
    return f"{office.question.text('TASK', 'from') or 'somebody'} asked for this: {office.question.instruction}"[:300]


def mistaken(office: Office, act: Act, chance: random.Random) -> Act:
    """Return an act as it was meant, or now and then with another place, person or thing in it."""
    if chance.random() >= MISTAKES:
        return act
    given = dict(act.given)
    others = {"place": office.places, "person": tuple(office.people), "item": tuple(office.things)}
    fields = [name for name in given if len(others.get(name, ())) > 1]
    if fields:
        name = chance.choice(fields)
        given[name] = chance.choice([other for other in others[name] if other != given[name]])
    return Act(act.agent, act.skill, given)


def _alone(office: Office, chance: random.Random) -> Mapping[str, Any]:
    """Return the one next action of an agent that does everything."""
    meaning = office.meaning
    sender = office.question.text("TASK", "from")
    asked = len(office.question.items("CLARIFIED"))
    if meaning.question and asked < 2:
        return {"thought": "it is not clear", "agent": sender, "call": meaning.question, "why": "", "ask": True}
    try:
        planned = _steps(office)
    except StuckError as error:
        return {"thought": f"it cannot be done: {error}", "agent": "", "call": "", "why": "", "end": "impossible"}
    if not planned:
        return {"thought": "all that was asked for is done", "agent": "", "call": "", "why": "", "end": "done"}
    act = mistaken(office, planned[0].act, chance)
    return {"thought": "next", "agent": act.agent, "call": _words(office, act), "skill": act.call, "why": _why(office, act)}


# -- validator ----------------------------------------------------------------------------------------------------------------


def _validate(office: Office, chance: random.Random) -> Mapping[str, Any]:
    why = _against(office)
    drawn = chance.random()
    if why and drawn < MISSED:
        why = ""
    elif not why and drawn < ALARMED:
        why = "it does not serve the task"
    return {"verdict": "fail" if why else "pass", "thought": why or "nothing speaks against it"}


def _against(office: Office) -> str:
    """Return what speaks against the assigned steps, in the order in which they need one another."""
    belief = office.belief
    for step in sorted(office.question.items("ASSIGNED"), key=lambda s: int(s["step"])):
        act = Act.read(str(step["agent"]), str(step["call"]))
        if why := _unfit(office, belief, act):
            return f"step {step['step']}: {why}"
        belief.suppose(act)
    return ""


def _unfit(office: Office, belief: Belief, act: Act) -> str:
    """Return why an act cannot succeed, as far as is known."""
    given, item = act.given, act.given.get("item", "")
    if is_person(act.agent):
        told = belief.blocked.get(act.agent, [])
        said_no = any("DECLINED" in one and "busy" in one for one in told)
        return f"{act.agent} has declined" if said_no else "" if item in office.things else "nobody knows that thing"
    robot = office.robots.get(act.agent)
    if robot is None:
        return f"there is no {act.agent}"
    place = belief.robot_at.get(robot.name, "")
    if act.skill == "navigate_to":
        return "" if given.get("place") in robot.places else f"{robot.name} does not come to {given.get('place')}"
    where = belief.at.get(item, "")
    if act.skill == "pick_up":
        lies = where.split(" ")[1] if where.startswith("lies ") else ""
        return "" if not lies or not place or lies == place else f"the {item} is not in {place}"
    if act.skill in ("take", "give"):
        person = given.get("person", "")
        holder = person if act.skill == "take" else robot.name
        if where != f"with {holder}":
            return f"{holder} does not have the {item}"
        desk = office.desks.get(person, place)
        if place and desk != place:
            return f"{person} is in {desk}, and {robot.name} in {place}"
        if act.skill == "give" and is_robot(person) and person not in office.robots:
            return f"there is no {person}"
    if act.skill in ("use_facility", "put_down") and not belief.had(robot.name):
        return f"{robot.name} has nothing in its hand"
    if act.skill == "put_down" and place and given.get("place") != place:
        return f"{robot.name} is in {place}"
    return ""


_ROLES: Mapping[Layer, Callable[[Office, random.Random], Mapping[str, Any]]] = {
    Layer.MANAGER: _manage,
    Layer.PERCEIVER: _perceive,
    Layer.PLANNER: _plan,
    Layer.ASSIGNER: _assign,
    Layer.VALIDATOR: _validate,
    Layer.REACT: _alone,
}
LAYERS = frozenset(_ROLES)
