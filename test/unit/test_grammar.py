# SPDX-License-Identifier: Apache-2.0
"""Whatever the grammar of a robot allows is performed as it stands: real parser, real mapper, both strict."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction

import pytest
from gbnf import Gbnf, read, regex
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples
from typer.testing import CliRunner

from function_tokens.mapper import Mapped, Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import TokenKind
from ghostshell_ros.cli.main import app
from planners.prompts.grammar import StreamGrammar, number
from planners.prompts.prompt import Declared, GrammarOptions
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.skill import MAIN

ROUTINES = ("greet", "tea & cake")


class Robot:
    """Hold what the grammar of a shipped robot is made of, and what reads its streams."""

    def __init__(self, name: str) -> None:
        config = RobotConfig.load(name)
        skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
        self.mapper = Mapper(config, skills)
        self.grammar = StreamGrammar(skills, GrammarOptions(config.builtin_names, config.limits), ROUTINES)
        self.strings = Gbnf(self.grammar.gbnf())

    def check(self, stream: str) -> list[str]:
        """Return the functions that a stream calls. Fails where a strict parser or the mapper objects to any of it."""
        parser = StreamingParser("strict")
        called, held = [], list[frozenset[str]]()
        for token in [*parser.feed(stream), *parser.close()]:
            if token.kind is TokenKind.RF:
                held.pop()
            elif token.name:
                mapped = self.mapper.map(token.name, token.attrs)
                assert isinstance(mapped, Mapped), (stream, mapped)
                assert not mapped.clamped, stream
                assert mapped.function != "run" or mapped.arguments["name"] in ROUTINES
                channels = mapped.channels - {MAIN}
                assert not any(channels & theirs for theirs in held), f"a channel of the element around it: {stream}"
                called.append(mapped.function)
                if token.kind is TokenKind.AF:
                    held.append(channels)
        return called


COCO, KALOS = Robot("coco"), Robot("kalos")
robots = pytest.mark.parametrize("robot", [COCO, KALOS], ids=["coco", "kalos"])


@robots
@settings(max_examples=examples(2000))
@given(st.integers(0, 2**32))
def test_every_stream_of_the_grammar_maps_without_refusal(robot: Robot, seed: int) -> None:
    robot.check(robot.strings.draw(random.Random(seed)))


@robots
def test_every_function_of_the_robot_can_be_written(robot: Robot) -> None:
    chance, called, drawn = random.Random(7), set[str](), 0
    every = {*robot.mapper.registry.names, "wait", "sleep", "observe", "stop", "save", "run", "plan_done"}
    while called != every:
        called.update(robot.check(robot.strings.draw(chance)))
        drawn += 1
        assert drawn < 2000 and called <= every, every - called


@robots
@settings(max_examples=examples(200))
@given(st.integers(0, 2**32))
def test_the_json_form_allows_the_same_without_escapes(robot: Robot, seed: int) -> None:
    plain = Gbnf(re.sub(r"(?m)^(inside-\d+) ::= .*$", r"\1 ::= text?", robot.grammar.gbnf()))
    stream = plain.draw(random.Random(seed)).replace('"', "'")
    assert re.fullmatch(robot.grammar.json_schema()["pattern"], stream)
    robot.check(stream)
    assert json.loads(f'"{stream}"') == stream


@pytest.mark.parametrize(
    "stream",
    [
        '<head_pose yaw="65.01"/>',
        '<head_pose yaw="-66"/>',
        '<head_act action="jump"/>',
        '<ear_swing speed="5"/>',
        "<spider_sit><spider_stand/></spider_sit>",
        '<RUN name="unknown"/>',
        "<fly/>",
        "<observe/>Hello",
        "a < b",
    ],
)
def test_what_would_be_refused_cannot_be_written(stream: str) -> None:
    assert not re.fullmatch(COCO.grammar.json_schema()["pattern"], stream.replace('"', "'"))


@settings(max_examples=examples(400))
@given(st.integers(-1300, 1300), st.integers(0, 1300), st.booleans(), st.booleans(), st.booleans())
def test_exactly_the_numbers_in_a_range_can_be_written(low: int, width: int, above: bool, below: bool, whole: bool) -> None:
    lower, upper = low / 100, (low + width) / 100
    declared = Declared("n", "", "int" if whole else "float", True, None, (), lower, upper, above, below)
    rule = number(declared)
    matches = re.compile(regex(read(rule)) if rule else "(?!)").fullmatch
    for n in range(low - 120, low + width + 120):
        if whole and n % 100:
            continue
        text = str(n // 100) if whole else f"{'-' * (n < 0)}{abs(n) // 100}.{abs(n) % 100:02}"
        spellings = {text} if whole else {text, *([text[:-1]] if n % 10 == 0 else []), *([text[:-3]] if n % 100 == 0 else [])}
        inside = (n > low or n == low and not above) and (n < low + width or n == low + width and not below)
        assert declared.admits(float(Fraction(n, 100))) == inside
        bare = [s for s in spellings if matches(s)]
        assert bool(bare) == inside, (n, rule)
        assert not inside or text in bare or n % 100 == 0, (n, rule)


def test_the_command_prints_every_form() -> None:
    def printed(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["grammar", *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    plain = printed("--robot", "kalos")
    assert Gbnf(plain).draw(random.Random(1)) is not None and '"<goto_waypoint"' in plain
    assert printed("--robot", "kalos", "--form", "ebnf") == plain
    assert json.loads(printed("--form", "json"))["type"] == "string"
    assert {"head_act", "observe"} < {tool["name"] for tool in json.loads(printed("--form", "tools"))}
    assert CliRunner().invoke(app, ["grammar", "--robot", "nobody"]).exit_code == 2
