# SPDX-License-Identifier: Apache-2.0
"""The prompts of the planning layers: short, true to the robot, and with examples that its own mapper takes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from kalos_fake import config, registry

from bench.simulated_model.robot import skills_in
from function_tokens.mapper import Mapped, Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import TokenKind
from planners.models.base import tokens_in
from planners.prompts.prompt import RARE, GrammarOptions, RobotFacts, build_system_prompt, line
from planners.strategies.layered.criteria import trace_accessors
from planners.strategies.layered.prompts import first_action_system, step_system, system_prompt
from planners.strategies.layered.task_answer import TaskAnswer, TaskReader
from skill_kernel.guard.condition_text import read_condition
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

MOST = {"kalos": {"s1": 2050, "s2": 2050, "s1p": 520}, "coco": {"s1": 2400, "s2": 2450, "s1p": 700}}
"""Tokens of a front with its examples, about."""


class Shown:
    """A robot, its mapper and its fronts."""

    def __init__(self, name: str) -> None:
        robot = RobotConfig.load(name)
        self.registry = SkillRegistry.from_modules(robot.skills, text_skill=robot.text_skill)
        self.mapper = Mapper(robot, self.registry)
        fields = {key: field.role for key, field in robot.observation.items() if field.serialise.prompt}
        options = GrammarOptions(robot.builtin_names, robot.limits)
        self.facts = facts = RobotFacts(
            robot.name,
            robot.description,
            list(self.registry),
            options,
            accessors_of(robot),
            fields,
            robot.waypoints,
            robot.first_actions,
            examples=robot.examples,
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


def _taken(shown: Shown, text: str) -> list[str]:
    """Return the functions of a stream; all of it must be taken as it is written."""
    parser = StreamingParser("strict")
    tokens = [t for t in (*parser.feed(text), *parser.close()) if t.kind in (TokenKind.SCF, TokenKind.AF)]
    assert not parser.take_repairs()
    mapped = [shown.mapper.map(token.name, token.attrs, strict=True) for token in tokens]
    assert all(isinstance(one, Mapped) for one in mapped), mapped
    conditions = [token.attrs["cond"] for token in tokens if "cond" in token.attrs]
    assert all(read_condition(text, shown.accessors).expression is not None for text in conditions if text != "always")
    return [token.name for token in tokens]


def test_generated_examples_are_ones_that_the_robot_takes(shown: Shown) -> None:
    facts = replace(shown.facts, examples={})
    (steps,) = re.findall(r"^Example of an answer: (.*)$", step_system(facts), re.MULTILINE)
    assert _taken(shown, steps)[0] == "step"
    (plan,) = re.findall(r"^Example of a plan: (.*)$", system_prompt(facts, subtasks=12), re.MULTILINE)
    assert len(_planned(shown, plan).subtasks) == 2


def test_every_picked_stream_is_taken_and_shown(shown: Shown) -> None:
    prompt = build_system_prompt(shown.facts)
    for asked, answer in shown.facts.examples["stream"].items():
        _taken(shown, answer)
        assert f"\n{asked}\n{answer}\n" in prompt
    assert sum(not asked.isascii() for asked in shown.facts.examples["stream"]) >= 1


def test_every_picked_answer_of_steps_is_steps_and_a_mark(shown: Shown) -> None:
    for asked, answer in shown.facts.examples["steps"].items():
        names = _taken(shown, answer)
        assert names[0] == "step" and names[-1] == "subtask_complete" and names.count("subtask_complete") == 1
        assert f"- {asked}\n  {answer}\n" in shown.fronts["s1"]


def test_every_picked_first_action_is_one_allowed_call_or_none(shown: Shown) -> None:
    for asked, answer in shown.facts.examples["first"].items():
        assert answer == "<none/>" or (names := _taken(shown, answer))[0] in shown.facts.first_actions and len(names) == 1
        assert f"- {asked}\n  {answer}\n" in shown.fronts["s1p"]


def test_every_picked_plan_is_read_and_its_conditions_are_expressions(shown: Shown) -> None:
    table = {**shown.accessors, **trace_accessors((skill.name for skill in shown.registry), tuple)}
    for asked, answer in shown.facts.examples["plan"].items():
        plan = _planned(shown, answer)
        conditions = [s.criteria for s in plan.subtasks if s.criteria] + [e.condition for e in plan.events]
        assert plan.subtasks and all(read_condition(text, table).expression is not None for text in conditions)
        assert f"- {asked}\n  {answer}\n" in shown.fronts["s2"]


def _planned(shown: Shown, text: str) -> TaskAnswer:
    reader = TaskReader(most=12, known=set(), fields=frozenset(shown.facts.fields), first=True, claimed=False, strict=True)
    reader.feed(text)
    return reader.close()


def test_conditions_name_what_plans_need_and_no_lure(shown: Shown) -> None:
    text = shown.fronts["s1"]
    for name in shown.accessors:
        assert (f"- {name}(" in text) is (name not in RARE)
    assert "- times_done(function) -> int" in text


def test_the_dull_part_of_a_docstring_is_left_out_and_the_rest_stays() -> None:
    skills = {skill.name: line(skill, config().limits) for skill in registry()}
    assert skills["move_back"] == "move_back(distance_m: float[0 to 10 m] = 0.5)  # Walk backward without turning."
    assert "positive to the left" in skills["rotate"] and "aloud: also say it" in skills["query_memory"]
