# SPDX-License-Identifier: Apache-2.0
"""The prompts of the planning layers: short, true to the robot, and with examples that its own mapper takes."""

from __future__ import annotations

import re

import pytest
from kalos_fake import config, registry

from bench.simulated_model.robot import skills_in
from function_tokens.builtins import STEP_NAMES
from function_tokens.mapper import Mapped, Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import TokenKind
from planners.models.base import tokens_in
from planners.prompts.prompt import RARE, GrammarOptions, RobotFacts, line
from planners.strategies.layered.prompts import first_action_system, step_system, system_prompt
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

MOST = {"kalos": {"s1": 1900, "s2": 1950, "s1p": 500}, "coco": {"s1": 2400, "s2": 2450, "s1p": 700}}
"""Tokens of a front, about."""


class Shown:
    """A robot, its mapper and its fronts."""

    def __init__(self, name: str) -> None:
        robot = RobotConfig.load(name)
        self.registry = SkillRegistry.from_modules(robot.skills, text_skill=robot.text_skill)
        self.mapper = Mapper(robot, self.registry)
        fields = {key: field.role for key, field in robot.observation.items() if field.serialise.prompt}
        options = GrammarOptions(robot.builtin_names, robot.limits)
        facts = RobotFacts(
            robot.name,
            robot.description,
            list(self.registry),
            options,
            accessors_of(robot),
            fields,
            robot.waypoints,
            robot.first_actions,
        )
        self.accessors, self.limits = facts.accessors, robot.limits
        self.fronts = {"s1": step_system(facts), "s2": system_prompt(facts, subtasks=12), "s1p": first_action_system(facts)}


@pytest.fixture(scope="module", params=["kalos", "coco"])
def shown(request: pytest.FixtureRequest) -> Shown:
    return Shown(str(request.param))


def test_each_front_is_short(shown: Shown, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["shown"]
    assert {layer: tokens_in(text) <= MOST[name][layer] for layer, text in shown.fronts.items()} == dict.fromkeys(
        MOST[name], True
    )


def test_the_layers_share_their_beginning_so_that_it_is_cached_once(shown: Shown) -> None:
    common = shown.fronts["s1"].split("LAYER s1")[0]
    assert shown.fronts["s2"].startswith(common) and len(common) > len(shown.fronts["s1"]) / 2


def test_every_skill_is_on_a_line_of_its_own_that_reads_back(shown: Shown) -> None:
    expected = {skill.name: line(skill, shown.limits) for skill in shown.registry}
    for text in expected.values():
        assert "\n" not in text and f"{text}\n" in shown.fronts["s1"]
    read = {skill.name: line(skill) for skill in skills_in(shown.fronts["s1"])}
    assert {n: t.split("  # ")[0] for n, t in read.items()} == {n: t.split("  # ")[0] for n, t in expected.items()}


def test_the_example_of_an_answer_is_one_that_the_robot_takes(shown: Shown) -> None:
    (example,) = re.findall(r"^Example of an answer: (.*)$", shown.fronts["s1"], re.MULTILINE)
    parser = StreamingParser("strict")
    tokens = [t for t in (*parser.feed(example), *parser.close()) if t.kind in (TokenKind.SCF, TokenKind.AF)]
    mapped = [shown.mapper.map(token.name, token.attrs, strict=True) for token in tokens]
    assert all(isinstance(one, Mapped) for one in mapped)
    assert len({m.channels for m in mapped if isinstance(m, Mapped) and m.function not in STEP_NAMES}) == 2


def test_conditions_name_what_plans_need_and_no_lure(shown: Shown) -> None:
    text = shown.fronts["s1"]
    for name in shown.accessors:
        assert (f"- {name}(" in text) is (name not in RARE)
    assert "- times_done(function) -> int" in text


def test_the_dull_part_of_a_docstring_is_left_out_and_the_rest_stays() -> None:
    skills = {skill.name: line(skill, config().limits) for skill in registry()}
    assert skills["move_back"] == "move_back(distance_m: float[0 to 10 m] = 0.5)  # Walk backward without turning."
    assert "positive to the left" in skills["rotate"] and "aloud: also say it" in skills["query_memory"]
