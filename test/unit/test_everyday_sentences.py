# SPDX-License-Identifier: Apache-2.0
"""Sentences that were written down before the parser was looked at: most are understood, and none moves a robot wrongly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planners.language.parser import CommandParser
from planners.prompts.prompt import GrammarOptions, declared
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

TEXTS = Path(__file__).parent / "texts"
HARMLESS = {"wait", "sleep", "query_memory", "stop"}
_EXPECTED = re.compile(r"(\w+)(?:\(([^)]*)\))?")


def _calls(source: str) -> list[tuple[str, dict[str, str]]]:
    """Return the calls of a stream in their order, speech as `speak`; each repetition is a call."""
    calls = []
    for name, attributes, text in re.findall(r"<(\w+)([^<>]*?)/?>|([^<>]+)", re.sub(r"</\w+>", "", source)):
        if text.strip():
            calls.append(("speak", {}))
        elif name and name not in HARMLESS:
            calls.append((name, dict(re.findall(r'(\w+)="([^"]*)"', attributes))))
    return calls


def _fits(call: tuple[str, dict[str, str]], wanted: str, defaults: dict[str, dict[str, object]]) -> bool:
    found = _EXPECTED.fullmatch(wanted.strip())
    assert found, wanted
    name, said = call
    if name != found[1]:
        return False
    given = {**{k: str(v) for k, v in defaults.get(name, {}).items()}, **said}
    for condition in filter(None, (found[2] or "").split(",")):
        key, sign, value = re.fullmatch(r"(\w+)([=<>])(.*)", condition.strip()).groups()  # type: ignore[union-attr]
        got = given[key]
        if sign == "=":
            same = float(got) == float(value) if re.fullmatch(r"-?[\d.]+", value) else got == value
        else:
            same = float(got) > float(value) if sign == ">" else float(got) < float(value)
        if not same:
            return False
    return True


def _sentences(robot: str, name: str) -> list[str]:
    """Return the lines of a file that are for this robot."""
    lines = (TEXTS / f"everyday_{name}.txt").read_text(encoding="utf-8").splitlines()
    if name == robot:
        return [line for line in lines if not line.startswith("#")]
    return [line.removeprefix(f"{robot}: ") for line in lines if line.startswith(f"{robot}: ")]


def judge(robot: str, name: str) -> tuple[list[str], list[str], int]:
    """Return the sentences that were not understood, those that moved wrongly, and how many sentences there are."""
    config = RobotConfig.load(robot)
    registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    parser = CommandParser(registry, [], GrammarOptions(config.builtin_names, config.limits), config.name)
    defaults = {s.name: {p.name: p.default for p in declared(s, config.limits)} for s in registry}
    missed, wrong, total = [], [], 0
    for line in _sentences(robot, name):
        total += 1
        sentence, _, expected = line.partition(" => ")
        calls = _calls(parser.read(sentence).source)
        alternatives = [[] if a.strip() == "refuse" else a.split(";") for a in expected.split("|")]
        if "a dance" in expected and len(calls) > 5:
            continue
        if any(
            len(calls) == len(a) and all(_fits(c, w, defaults) for c, w in zip(calls, a, strict=True)) for a in alternatives
        ):
            continue
        (wrong if any(name != "speak" for name, _ in calls) else missed).append(f"{sentence} => {calls}")
    return missed, wrong, total


@pytest.mark.parametrize(
    ("robot", "name", "least"),
    [
        (r, n, k)
        for r in ("coco", "kalos")
        for n, k in ((r, 120), ("again", 60), ("paraphrases", 100), ("fresh", 50), ("refused", 120))
    ],
)
def test_most_everyday_sentences_are_understood_and_none_moves_wrongly(robot: str, name: str, least: int) -> None:
    missed, wrong, total = judge(robot, name)
    assert total >= least
    assert not wrong
    assert len(missed) <= 0.3 * total, missed
