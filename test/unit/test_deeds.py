# SPDX-License-Identifier: Apache-2.0
"""Which texts ask for a deed of the body, and which claim one: two lists, each written before anything read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from planners.language.deeds import Asked, DeedReader, declined, unproven
from planners.language.parser import CommandParser
from planners.prompts.prompt import CallReport, GrammarOptions
from skill_kernel.processes.process import CallRecord, Process
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

TEXTS = Path(__file__).parent / "texts"


@cache
def reader(robot: str) -> DeedReader:
    config = RobotConfig.load(robot)
    skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    return DeedReader(CommandParser(skills, (), GrammarOptions(config.builtin_names, config.limits), robot))


def lines(name: str) -> Iterator[tuple[str, bool, str]]:
    """Yield robot, what is expected, and the text."""
    for line in (TEXTS / name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            robot, expected, text = line.split(" ", 2)
            yield robot, expected == "yes", text


def done(function: str, outcome: str = "DONE", **arguments: object) -> CallReport:
    return CallReport(function, arguments, outcome)


def test_what_asks_for_a_deed_is_told_from_talk() -> None:
    read = list(lines("asked_deeds.txt"))
    assert len(read) == 137
    asked = [(expected, reader(robot).asks(text), text) for robot, expected, text in read]
    assert [text for expected, got, text in asked if (got is not Asked.NO) is not expected] == []
    assert sum(got is Asked.SURELY for _, got, _ in asked) == 42


def test_an_idiom_with_the_verb_of_a_deed_is_never_taken_for_one_surely() -> None:
    read = [(reader(robot).asks(text), text) for robot, _, text in lines("idioms.txt")]
    assert len(read) == 29 and [text for got, text in read if got is Asked.SURELY] == []


def test_claims_are_found_and_promises_denials_and_descriptions_are_not() -> None:
    read = list(lines("spoken_claims.txt"))
    assert len(read) == 161
    wrong = []
    for robot, claims, text in read:
        said = text.rpartition("] ")[2]
        if bool(reader(robot).unproven(said, [])) is not claims:
            wrong.append(said)
    assert wrong == ["我已经抬起头了。", "I ran out of ideas."], "one claim is missed, and one idiom taken for a claim"


def test_a_claim_that_a_done_call_bears_out_is_none_to_mark() -> None:
    for robot, claims, text in lines("spoken_claims.txt"):
        calls, _, said = text[1:].rpartition("] ")
        if claims:
            proof = [done(name, times=3) for name in calls.split()]
            assert reader(robot).unproven(said, proof) == [], text
            broken = [done(call.function, "INTERRUPTED", times=3) for call in proof]
            assert reader(robot).unproven(said, broken) == reader(robot).unproven(said, []), "what was cut off is no proof"


@pytest.mark.parametrize(
    ("said", "calls", "left"),
    [
        ("I have barked twice.", [done("bark", times=1)], ["I have barked twice"]),
        ("I have barked twice.", [done("bark"), done("bark")], []),
        ("I have barked twice.", [done("bark", times=2)], []),
        ("I have barked twice and nodded.", [done("nod", times=1)], ["I have barked twice"]),
        ("我叫了三声。", [done("bark", times=2)], ["我叫了三声"]),
        ("I walked to the office.", [done("rotate", angle_deg=90)], ["I walked to the office"]),
        ("I walked to the office.", [done("patrol", rounds=1)], []),
        ("I climbed the stairs.", [done("nod", times=1)], ["I climbed the stairs"]),
        ('I was told to say "I barked".', [], []),
        ("I barked" * 1000, [done("bark", times="x")], []),
    ],
)
def test_how_often_and_which_deed_count(said: str, calls: list[CallReport], left: list[str]) -> None:
    assert reader("kalos").unproven(said, calls) == left


def test_a_process_is_held_to_its_words_but_not_where_it_is_asked_for_the_past() -> None:
    config = RobotConfig.load("kalos")
    skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    said = CallRecord("1", "text", '{"text": "I have barked twice. I nodded."}', "DONE")
    nodded = CallRecord("2", "nod", '{"times": 1}', "DONE")
    task = Process("p", "bark twice, then nod", "chat", "", "stream", 0.0, history=(nodded, said))
    assert unproven(task, skills, config.limits) == ["I have barked twice"]
    assert unproven(replace(task, instruction="What did you do?"), skills, config.limits) == []
    assert unproven(replace(task, history=(replace(said, outcome="DROPPED"),)), skills, config.limits) == [], "nobody heard it"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("I'm sorry. I cannot climb stairs, my legs are too short.", "I cannot climb stairs, my legs are too short"),
        ("I can't do that.", "I can't do that"),
        ("对不起，我不能爬楼梯。", "对不起，我不能爬楼梯"),
        ("I can do that. You cannot see me.", ""),
        ('It says "I cannot".', ""),
    ],
)
def test_a_refusal_in_words_is_found(said: str, why: str) -> None:
    assert declined(said) == why
