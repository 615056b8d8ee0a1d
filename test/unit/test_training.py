# SPDX-License-Identifier: Apache-2.0
"""The reward of the training, and the pairs that a small model is trained on. Neither needs PyTorch."""

from __future__ import annotations

import random
import re
from itertools import islice

import pytest

from bench.bench_coco_tasks import TASKS
from bench.scoring import TaskFile
from training.pairs import Pair, Writer, generate, held_out_skills, training_robots
from training.phrases import part
from training.rewards import PERFECT, Step, reward
from training.robots import SHIPPED, robot, words_of, words_of_invented
from training.streams import read, same, stream_reward

COCO = robot("coco")
SMILE_THEN_NOD = '<wait><display_face face="love"/></wait><head_act action="bow"/>'


def step(name: str, n: int, dep: int = 0, **params: str) -> Step:
    return Step(name, frozenset(params.items()), n, dep)


WALK, PRINT = step("WalkTo", 1, 0, where="printer"), step("Print", 2, 1, what="report", copies="2")
GOLDEN = [
    ("the reference itself", True, [WALK, PRINT], 4.0),
    ("nothing", False, [], -3.0),
    ("well formed, but of other skills", True, [step("Sing", 1)], -2.0),
    ("right in all but its form", False, [WALK, PRINT], 3.0),
    # names 1/2, parameters 1/2, order 2 of 4
    ("half of it", True, [WALK], 1.0),
    # names 2/2, parameters (1 + 1/3) / 2, order 4 of 4
    ("one parameter wrong", True, [WALK, step("Print", 2, 1, what="report", copies="9")], 1 + 2 * (1 + 2 / 3 + 1) - 3),
    # names and parameters right; of the numbers only the `dep` of none
    ("the other way round", True, [step("Print", 1, 0, what="report", copies="2"), step("WalkTo", 2, 1, where="printer")], 2.0),
    # names 2/3
    ("one skill more", True, [WALK, PRINT, step("Sing", 3)], 1 + 2 * (2 / 3 + 2) - 3),
]


@pytest.mark.parametrize("what, valid, plan, value", GOLDEN, ids=[case[0] for case in GOLDEN])
def test_the_reward_of_golden_plans(what: str, valid: bool, plan: list[Step], value: float) -> None:
    assert reward(valid, plan, [WALK, PRINT]) == pytest.approx(value)


def test_alike_steps_are_matched_once() -> None:
    twice = [step("Knock", 1, 0, door="a"), step("Knock", 2, 1, door="b")]
    assert reward(True, twice, twice) == PERFECT
    # The second step of the reference finds nobody: parameters 1/2, order 2 of 4.
    assert reward(True, twice[:1], twice) == pytest.approx(1 + 2 * (1 + 0.5 + 0.5) - 3)


def test_streams_are_rewarded_by_what_they_do() -> None:
    assert stream_reward(SMILE_THEN_NOD, SMILE_THEN_NOD, COCO) == PERFECT
    assert stream_reward("", SMILE_THEN_NOD, COCO) == -3.0
    assert stream_reward('<fly to="moon"/>', SMILE_THEN_NOD, COCO) == -3.0
    # The same calls at once instead of one after the other: of four numbers one is wrong.
    assert stream_reward(SMILE_THEN_NOD.replace("<wait>", "").replace("</wait>", ""), SMILE_THEN_NOD, COCO) == 3.5


@pytest.mark.parametrize(
    "stream, other, alike",
    [
        ('<head_act action="nod"/>', "<head_act/>", True),
        ('<wait><head_act/></wait><spider_sit style="dog"/>', '<head_act sync="true"/><spider_sit style="dog"/>', True),
        ('<wait><head_act/></wait><spider_sit style="dog"/>', '<head_act/><spider_sit style="dog"/>', False),
        ("<head_act/><head_act/>", "<head_act/>", False),
        ('<display_face face="shy">Hello!</display_face>', '<display_face face="shy"/>Hello!', False),
        ("Good night.", "good night", True),
        ('<spider_rotate angle="-90"/>', '<spider_rotate angle="90"/>', False),
        ("<spider_sit/>", '<spider_sit speed="3"/>', False),
    ],
)
def test_two_streams_are_the_same_where_they_do_the_same(stream: str, other: str, alike: bool) -> None:
    assert same(other, stream, COCO) is alike


def test_what_does_as_well_counts() -> None:
    look, also = '<head_act action="look_up"/>', {'<head_act action="look_up"/>': [{"call": "head_pose", "pitch": "above 0"}]}
    assert same('<head_pose pitch="20"/>', look, COCO, also)
    assert not same('<head_pose pitch="-20"/>', look, COCO, also)
    assert not same('<head_pose pitch="20"/>', look, COCO)


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return list(islice(generate(5, training_robots), 150))


def test_every_generated_stream_is_valid_and_worth_the_full_reward(pairs: list[Pair]) -> None:
    for pair in [*pairs, *held_out_skills(20)]:
        body = robot(pair.robot)
        assert read(pair.stream, body).valid, pair
        assert stream_reward(pair.stream, pair.stream, body) == PERFECT, pair
        assert same(pair.stream, pair.stream, body, pair.also), pair


def test_the_same_seed_gives_the_same_pairs_and_all_robots_have_some(pairs: list[Pair]) -> None:
    assert list(islice(generate(5, training_robots), 30)) == pairs[:30]
    assert {pair.robot.partition(":")[0] for pair in pairs} == {*SHIPPED, "invented"}
    assert len({pair.kind for pair in pairs}) >= 13
    assert pairs[0].prompt[0]["content"].startswith("You control ") and "INSTRUCTION" in pairs[0].prompt[1]["content"]


def test_every_skill_of_a_shipped_robot_has_phrases() -> None:
    known = words_of("shipped")
    for name in SHIPPED:
        silent = {s.name for s in robot(name).skills if not s.speaks_text} - {"ask", *known}
        assert not silent, f"{name}: nobody ever asks for {silent}"


def test_validation_shares_no_paraphrase_with_the_training() -> None:
    for entries in words_of("shipped").values():
        for entry in entries:
            seen, unseen = set(part(entry["say"], False)), set(part(entry["say"], True))
            assert seen == unseen or not seen & unseen
    talk = words_of("talk")
    assert all(set(lists["train"]).isdisjoint(lists["held_out"]) for lists in talk.values())
    assert words_of_invented()["train"].keys().isdisjoint(words_of_invented()["held_out"])


def _runs(text: str, length: int = 7) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z']+", text.lower())
    return {tuple(words[n : n + length]) for n in range(len(words) - length + 1)}


def test_nothing_is_taken_from_the_tasks_of_the_evaluation() -> None:
    of_tasks = set().union(*(_runs(task.instruction) for task in TaskFile.load(TASKS).tasks))
    writer = Writer("coco", random.Random(8))
    instructions = [writer.pair().instruction for _ in range(800)]
    shared = set().union(*map(_runs, instructions)) & of_tasks
    assert not shared, shared
