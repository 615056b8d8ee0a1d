# SPDX-License-Identifier: Apache-2.0
"""The simulated agents of a house with a kitchen read what they answer from the prompt alone: other facts, other answers."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from bench.demo.teams import HOME_TASK
from bench.simulated_model.household import Errand, answer, errands_of, is_household
from bench.simulated_model.prompt import Question
from ghostshell_ros.sim.world import SimWorld
from planners.prompts.blocks import block
from planners.prompts.prompt import GrammarOptions, functions, task
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

FACTS = "Spatial: the tea is in fridge; the fridge is shut; the drawer_middle is shut; the vitamins is in drawer_middle"
PEOPLE = [
    {"person": "Li", "about": "is ill and rests", "place": "lounge"},
    {"person": "Bo", "place": "office"},
    {"person": "Wang", "place": "lobby"},
]


class Even(random.Random):
    """Draw nothing that goes wrong."""

    def random(self) -> float:
        return 0.99


def functions_of(robot: str) -> str:
    config = RobotConfig.load(robot)
    registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    options = GrammarOptions(config.builtin_names, config.limits)
    return functions(registry, options, heading=f"# Functions of {robot}")


SYSTEM = "You work for a team of robots and people.\n" + "".join(map(functions_of, ("atlas", "hebe", "kalos")))


def asked(layer: str, instruction: str = HOME_TASK, people: Any = PEOPLE, facts: str = FACTS, **blocks: Any) -> Any:
    lost = blocks.pop("lost", ())
    robots = [{"robot": n, "state": "out of reach" if n in lost else "free"} for n in ("atlas", "hebe", "kalos")]
    shown = {"ROBOTS": robots, "PEOPLE": people, "PERCEPTION": [facts], **blocks}
    text = task(instruction, "") + "".join(block(title, items) for title, items in shown.items())
    question = Question(f"LAYER {layer}\n{SYSTEM}", (text,), "simulated")
    assert is_household(question)
    return json.loads(answer(question, Even()))


def planned(**given: Any) -> dict[str, list[str]]:
    """Return the planned calls, each with those that it needs."""
    steps = {step["step"]: step for step in asked("planner", NUMBER=[1], **given)["steps"]}
    return {step["skill"]: [steps[number]["skill"] for number in step["dep"]] for step in steps.values()}


def test_an_instruction_says_what_is_carried_to_whom_and_who_is_told_what() -> None:
    assert errands_of(HOME_TASK) == [Errand("Li", ("tea", "vitamins")), Errand("Li", words="tea and vitamins are coming")]
    assert errands_of("Put the cup on the table. Bring it to Bo!") == [Errand("Bo", ("cup",))]
    assert errands_of("Put the cup in the sink.") == []


def test_things_come_on_the_table_before_a_person_carries_them_while_kalos_walks() -> None:
    steps = planned()
    bring = steps['bring(things="tea, vitamins", person="Li")']
    assert sorted(bring) == ['release_to(robot="atlas", space="table")', 'release_to(robot="hebe", space="table")']
    assert steps['goto_waypoint(robot="kalos", waypoint="lounge")'] == []
    assert steps['speak(robot="kalos", text="Li, tea and vitamins are coming.")'] == [
        'goto_waypoint(robot="kalos", waypoint="lounge")'
    ]


def test_other_facts_make_other_plans() -> None:
    assert 'open(robot="hebe", what="fridge")' in planned()
    assert 'open(robot="hebe", what="fridge")' not in planned(facts=FACTS.replace("fridge is shut", "fridge is open"))
    assert 'pick_from(robot="atlas", object="vitamins", space="table")' not in planned(
        facts=FACTS.replace("vitamins is in drawer_middle", "vitamins is in table")
    )
    moved = [{**person, "place": "office"} if person["person"] == "Li" else person for person in PEOPLE]
    assert 'goto_waypoint(robot="kalos", waypoint="office")' in planned(people=moved)
    assert (
        planned(instruction="Put the tea from the fridge on the table.")
        .keys()
        .isdisjoint({'goto_waypoint(robot="kalos", waypoint="lounge")', 'bring(things="tea, vitamins", person="Li")'})
    )


def test_without_who_walks_it_is_given_up_with_the_reason() -> None:
    given_up = asked("planner", NUMBER=[1], lost=("kalos",))
    assert given_up["give_up"] and given_up["thought"].endswith("nobody who walks is in reach, to tell Li")


@pytest.mark.parametrize(
    ("told", "agent"), [([], "Bo"), (["Bo answered: no"], "Wang"), (["Bo answered: no", "Wang answered: no"], "Li")]
)
def test_who_has_declined_is_not_asked_again(told: list[str], agent: str) -> None:
    plan = [
        {"step": i, "skill": "bring()", "agent": one.split()[0], "state": "failed", "told": one}
        for i, one in enumerate(told, 1)
    ]
    steps = [{"step": 9, "skill": 'bring(things="tea", person="Li")', "dep": []}]
    (given,) = asked("assigner", STEPS=steps, PLAN=plan)["assignments"]
    assert given["agent"] == agent and given["why"] == "Li is ill and rests"


def test_the_validator_stops_what_cannot_succeed() -> None:
    pick = {"step": 1, "agent": "hebe", "call": 'pick_from(robot="hebe", object="tea", space="fridge")', "dep": [], "why": ""}
    assert asked("validator", ASSIGNED=[pick])["thought"] == "step 1: fridge is shut; it must be opened first"
    assert asked("validator", ASSIGNED=[pick], facts=FACTS.replace("fridge is shut", "fridge is open"))["verdict"] == "pass"


def test_the_house_holds_three_robots_apart_and_each_counts_from_its_own_start() -> None:
    robots = {name: f"robots/{name}/{name}.xml" for name in ("atlas", "hebe", "kalos")}
    world = SimWorld(robots, world="home")
    x, y, _ = world.model.body("kalos/base_link").pos
    assert (x, y) == (0.0, -1.9) and abs(world.robots["kalos"].base().pose.y) < 0.1
    assert abs(world.robots["hebe"].base().pose.x - 1.9) < 0.1
    touching = {tuple(sorted(world.model.body(world.model.geom_bodyid[g]).name for g in c.geom)) for c in world.data.contact}
    assert not any(a.split("/")[0] != b.split("/")[0] for a, b in touching if "/" in a and "/" in b)


def test_an_office_in_which_people_alone_act_is_no_house() -> None:
    done = {"step": 1, "skill": 'bring(item="li_keys", to="Lin")', "agent": "Li", "state": "done", "dep": []}
    known = block("MEMORY", ["printer_1 is in print_room: print (only people)"]) + block("PLAN", [done])
    for memory, house in ((known, False), (block("PLAN", [done]), True)):
        text = task("Bring Li's keys to Lin.", "Lin") + memory + block("REVIEW", ["is the task done?"])
        assert is_household(Question("LAYER manager\na team of robots and people", (text,), "simulated")) is house
