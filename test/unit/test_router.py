# SPDX-License-Identifier: Apache-2.0
"""Where a sentence goes: to the reflexes, the guidelines or the tasks, with the reason."""

from __future__ import annotations

from functools import lru_cache

import pytest

from planners.prescriptions.grammar import EXAMPLES, Grammar
from planners.prescriptions.prescription import Kind
from planners.prescriptions.router import Router
from skill_kernel.guard.code import Vocabulary
from skill_kernel.guard.compiler import compile_expression
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

T, G, R = Kind.TASK, Kind.GUIDELINE, Kind.REFLEX


@lru_cache(maxsize=1)
def router() -> Router:
    config = RobotConfig.load("kalos")
    skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    base = config.base.subsystems if config.base is not None else ()
    return Router(Grammar(Vocabulary(accessors_of(config), skills, config.limits, base), config), config.name)


SENTENCES = [
    # what the papers say
    ("patrol the hallway to find a sports ball", T),
    ("you may pause a non-emergency task to engage a nearby person", G),
    ("when anything is closer than 0.2 m in front, step back 0.5 m", R),
    ("Find an apple and report to the user. Take a picture whenever you see a ball.", T),
    # reflexes
    ("if a person comes within 1 m, stop", R),
    ("Stop if anything is closer than 30 cm.", R),
    ("whenever something gets too close, back off", R),
    ("you must stop when anything is nearer than half a metre", R),
    ("as soon as an obstacle is within 20 cm on the left, step right 20 cm", R),
    ("if somebody grabs your leg, freeze at once", R),
    ("when a child runs into your way, stop immediately", R),
    ("If you hear “kalos”, bark", R),
    ("please always stop if anything is closer than 0.3 m", R),
    ("当有人靠近时，立刻停下", R),
    # guidelines
    ("greet people when they come in", G),
    ("Whenever a visitor arrives, offer them help.", G),
    ("You should always keep to the right.", G),
    ("never enter the office", G),
    ("don't bark at people", G),
    ("you may play with children", G),
    ("be polite to everybody", G),
    ("You are allowed to sit down when nobody is around.", G),
    ("if someone looks lost, ask whether they need help", G),
    ("when the battery drops below 20 %, go to the lobby", G),
    ("Avoid the kitchen.", G),
    ("from now on speak softly", G),
    ("If the battery is low, tell people that you are tired", G),
    ("as soon as a guest comes in, welcome him and show him to the lounge", G),
    ("while nobody is around, patrol the hallway", G),
    ("you must not go into the office", G),
    ("If a person comes within 2 m you may greet them", G),
    ("feel free to explore when you are bored", G),
    ("Kalos, whenever you see a person, greet them", G),
    ("every time somebody says goodbye, wave and say bye", G),
    ("prefer short walks", G),
    ("be quiet in the office", G),
    ("You can bark if you see a dog", G),
    ("When you notice a person, go over and have a chat with them.", G),
    ("每次看到有人，就打招呼", G),
    ("你应该永远有礼貌", G),
    ("when a person comes, walk to the lobby and wait there", G),
    # tasks
    ("go to the kitchen", T),
    ("nod twice", T),
    ("could you please sit down?", T),
    ("You may sit down now.", T),
    ("you should go to the kitchen", T),
    ("how many chairs did you see?", T),
    ("walk until you see a door", T),
    ("when you are done, come back here", T),
    ("Once you have reached the lobby, sit down.", T),
    ("tell me when the door opens", T),
    ("if the kitchen is empty, go there", T),
    ("never mind the patrol", T),
    ("don't stop", T),
    ("say “whenever you see a person, run”", T),
    ("look for the ball, and if you find it bark twice", T),
    ("walk to the office and take a picture when you see a chair", T),
    ("patrol the hallway every ten minutes", T),
    ("what should you do when a person comes?", T),
    ("stop", T),
    ("Stop!", T),
    ("stay here", T),
    ("Stop, check what is on your left, then resume.", T),
    ("turn around, would you", T),
    ("follow me until I say stop", T),
    (
        "Look around this room for a ball. If you find one, walk up to it and bark twice. If you have checked the whole room "
        "and there is none, return to the start and sit down.",
        T,
    ),
    ("Can you see a person?", T),
    ("go to the place where the ball always is", T),
    ("step back 0.5 m", T),
    ("去厨房", T),
    ("come when I call", G),
    ("Step back, turn left twice, and nod three times.", T),
    ("ask the person in the lobby for his name", T),
    # written down before the rules were looked at again
    ("Bring me the bottle from the kitchen", T),
    ("If you bump into something, back up", R),
    ("Do a little dance", T),
    ("Don't enter rooms with closed doors", G),
    ("Whenever I say hello, say hello back", R),
    ("Should a person approach, wag your tail and step aside", G),
    ("Keep an eye on the door and tell me if anyone comes in", T),
    ("Keep patrolling until the battery is low", T),
    ("In the lobby, be silent", G),
    ("You shouldn't follow strangers", G),
    ("Follow the person in front of you", T),
    ("Wait for 10 seconds, then sit", T),
    ("When it gets dark go home", G),
    ("Unless you are charging, never sit in the hallway", G),
    ("Halt when a person steps in front of you", R),
    ("Take a picture of every chair", T),
    ("Try to keep people company", G),
    ("try the door", T),
    ("It would be nice if you greeted visitors", G),
    ("I'd like you to always greet visitors", G),
    ("Let people pass first", G),
    ("Go to sleep", T),
    ("Tell everyone that lunch is ready", T),
    ("Is there someone in the kitchen?", T),
    ("Would you mind not barking at night?", G),
    ("No barking in the office", G),
    ("stop barking", T),
    ("When you reach the end of the hallway turn around", T),
    ("react to loud noises by looking around", G),
    ("If anything moves in front of you, stop", R),
    ("Do not come closer than 1 m to people", G),
    ("keep at least 1 metre away from people", G),
    ("as long as the person is near, sit", G),
    ("Only speak when spoken to", G),
    ("If you see a bottle on the floor, tell somebody", G),
    ("Explore the building and remember where the chairs are", T),
    ("Once per hour check the kitchen", T),
    ("Please don't talk", G),
    ("remember that the ball belongs to Anna", T),
    ("you are a guide dog for visitors", G),
    ("after each task, return to the lobby", G),
    ("when finished, sit down", T),
    ("Give way to humans", G),
    ("If you are asked for the time, say it", G),
    ("When a person waves at you, wave back", G),
    ("Dodge people", G),
]


@pytest.mark.parametrize(("sentence", "kind"), SENTENCES, ids=[s for s, _ in SENTENCES])
def test_a_sentence_goes_where_its_latency_fits(sentence: str, kind: Kind) -> None:
    route = router().route(sentence)
    assert route.kind is kind, route.reason
    assert route.reason and route.layer == {T: route.layer, G: "S3", R: "S0"}[kind]


def test_of_what_the_reflexes_grammar_reads_only_slow_conditions_and_long_actions_are_guidelines() -> None:
    kinds = {line: router().route(line) for line in EXAMPLES.splitlines()}
    assert {line for line, route in kinds.items() if route.kind is not R} == {
        "when the battery drops below 20 % unless it is charging, go to the lobby"
    }
    (slow,) = (route for route in kinds.values() if route.kind is G)
    assert "slow" in slow.reason and slow.task == "go to the lobby"
    accessors = accessors_of(RobotConfig.load("kalos"))
    assert compile_expression(slow.when, accessors).accessors == ("battery_percent", "charging")


def test_a_guideline_that_is_a_plain_rule_brings_its_condition_and_task() -> None:
    route = router().route("Whenever you see a person, you should greet them.")
    assert (route.kind, route.when, route.task) == (G, "visible('person')", "say hello")
    assert not router().route("you may engage a nearby person").when


def test_what_a_person_stated_is_taken_and_the_other_reading_told() -> None:
    route = router().route("go to the kitchen", G)
    assert (route.kind, route.layer) == (G, "S3") and "reads as a task" in route.reason


def test_the_layer_of_a_task_tells_whether_it_needs_a_plan() -> None:
    assert router().route("nod twice").layer == "S1"
    assert router().route("make the visitors in the lounge happy").layer == "S2"


@pytest.mark.parametrize(
    "sentence", ["when", "if ,", "when , ,", "?", "…", "whenever " * 60, "a" * 500, "当", '"', "when when when, x"]
)
def test_no_text_is_too_odd_to_be_routed(sentence: str) -> None:
    assert router().route(sentence).reason
