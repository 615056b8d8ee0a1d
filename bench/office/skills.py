# SPDX-License-Identifier: Apache-2.0
"""Define what the robots of the office can do. A robot has those skills that its profile allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bench.office.vocabulary import PLACES, Profile
from skill_kernel import SkillReturn, robot_skill
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.skill import Skill

TURN_S = 10.0
PICK_S, HAND_S, WORK_S, SAY_S = 15.0, 10.0, 60.0, 3.0
"""Nominal times: of a way beside its length, and of what is done at its end."""


class Body(Protocol):
    """Define a body in the office: it does what a skill says, or tells why not."""

    def attempt(self, skill: str, given: Mapping[str, str]) -> SkillReturn: ...


@robot_skill(subsystem="base", nominal_s=40.0)
def navigate_to(place: str, *, body: Body) -> SkillReturn:
    """Go to a place, such as lab."""
    return body.attempt("navigate_to", {"place": place})


@robot_skill(subsystem="arm", nominal_s=PICK_S)
def pick_up(item: str, *, body: Body) -> SkillReturn:
    """Pick up an item that lies where the robot is, such as li_keys. The hand must be free."""
    return body.attempt("pick_up", {"item": item})


@robot_skill(subsystem="arm", nominal_s=PICK_S)
def put_down(place: str, *, body: Body) -> SkillReturn:
    """Put down what the hand holds, at the place where the robot is."""
    return body.attempt("put_down", {"place": place})


@robot_skill(subsystem="arm", nominal_s=HAND_S)
def give(item: str, person: str, *, body: Body) -> SkillReturn:
    """Give an item to a person who is where the robot is. To a robot it is offered, and that robot must then take it."""
    return body.attempt("give", {"item": item, "person": person})


@robot_skill(subsystem="arm", nominal_s=HAND_S)
def take(item: str, person: str, *, body: Body) -> SkillReturn:
    """Take an item from a person who has it and is where the robot is, or from a robot that has offered it."""
    return body.attempt("take", {"item": item, "person": person})


@robot_skill(subsystem="arm", nominal_s=WORK_S)
def use_facility(facility: str, action: str, *, body: Body) -> SkillReturn:
    """Use a facility where the robot is for what its hand holds, such as coffee_machine_1 to brew."""
    return body.attempt("use_facility", {"facility": facility, "action": action})


@robot_skill(subsystem="arm", nominal_s=HAND_S)
def open_locker(locker: str, code: str, *, body: Body) -> SkillReturn:
    """Open a locker with its code: the robot's own, by its name, or smart_locker where the robot is."""
    return body.attempt("open_locker", {"locker": locker, "code": code})


@robot_skill(subsystem="voice", nominal_s=SAY_S)
def say(person: str, text: str, *, body: Body) -> SkillReturn:
    """Tell a person something."""
    return body.attempt("say", {"person": person, "text": text})


def _skill(function: object) -> Skill:
    skill: Skill = function.__robot_skill__  # type: ignore[attr-defined]
    return skill


SKILLS: Mapping[str, Skill] = {
    skill.name: skill for skill in map(_skill, (navigate_to, pick_up, put_down, give, take, use_facility, open_locker, say))
}


def skills_of(profile: Profile) -> SkillRegistry:
    """Return the skills of a robot of a profile."""
    left_out = {name for name in ("pick_up", "put_down") if not profile.arm}
    left_out |= {name for name in ("use_facility",) if not profile.works}
    left_out |= {name for name in ("open_locker",) if not (profile.works or profile.locker)}
    return SkillRegistry(skill for name, skill in SKILLS.items() if name not in left_out)


def takes_s(profile: Profile, skill: str, given: Mapping[str, str], at: str) -> float:
    """Return how long a skill takes from a place [s]."""
    if skill != "navigate_to" or given["place"] not in PLACES:
        return SKILLS[skill].nominal_for(given)
    here, there = PLACES[at], PLACES[given["place"]]
    return TURN_S + (abs(here.x - there.x) + abs(here.y - there.y)) / profile.speed_m_s
