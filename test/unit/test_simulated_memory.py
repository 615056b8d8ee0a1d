# SPDX-License-Identifier: Apache-2.0
"""What the memory holds of a task reaches the prompts of every strategy, and without it the task goes worse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_kit import NOON, settle
from memory_model import observation

from bench.evaluation.judge import Facts, judge
from bench.evaluation.tasks import TASKS, Setting, Task, setting
from bench.evaluation.trace import Trace
from bench.evaluation.truth import number_said, room_of
from bench.evaluation.virtual import VirtualRobot
from bench.simulated_model.table import load_table
from bench.simulated_model.where import default_table
from planners.memory import Memory, Store

pytestmark = pytest.mark.component

STRATEGIES = ["layered", "react", "plan_and_execute", "stream"]
YESTERDAY = Task("YESTERDAY", "", "Go where you saw the ball yesterday.", "", 120.0)
HALLWAY = Setting((2.0, 0.0, 0.0))
DAY_S = 86_400.0


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Yesterday a ball was seen in the lounge, an hour ago in the kitchen."""
    made = Memory(Store(tmp_path_factory.mktemp("memory") / "memory.sqlite3"), wall=lambda: NOON, background=False)
    for begun_s, room in ((NOON - DAY_S, "lounge"), (NOON - 3600.0, "kitchen")):
        made.put(*(observation(begun_s + t, room, ["ball"] if 5 < t < 10 else []) for t in range(15))).result()
    settle(made)
    yield made
    made.close()


@pytest.fixture
def robot(memory: Memory, tmp_path: Path) -> VirtualRobot:
    return VirtualRobot(load_table(default_table()), tmp_path, memory)


def perform(robot: VirtualRobot, task: Task, world: Setting, strategy: str = "layered") -> tuple[Trace, list[str]]:
    """Run a task; return its trace and the rooms that it was in, by their order."""
    trace, _ = robot.perform(task, world, strategy, cost_aware=True, seed="a test")
    return trace, list(dict.fromkeys(filter(None, (room_of(robot.config, pose) for pose in trace.poses))))


def asked_the_memory(trace: Trace) -> bool:
    return any(call.function == "query_memory" for call in trace.own())


def tokens(trace: Trace) -> int:
    return sum(answer.prompt_tokens for answer in trace.answers)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_goes_where_the_ball_was_seen_yesterday(robot: VirtualRobot, strategy: str) -> None:
    trace, rooms = perform(robot, YESTERDAY, HALLWAY, strategy)
    assert trace.status == "SUCCESS" and rooms == ["hallway", "lounge"]
    assert not asked_the_memory(trace)


@pytest.mark.parametrize("strategy", ["layered", "react", "stream"])
def test_without_the_lines_it_has_to_ask_and_needs_more_questions(robot: VirtualRobot, strategy: str) -> None:
    shown, _ = perform(robot, YESTERDAY, HALLWAY, strategy)
    robot.memory_tokens = 0
    asked, rooms = perform(robot, YESTERDAY, HALLWAY, strategy)
    assert asked_the_memory(asked) and rooms == ["hallway", "lounge"]
    assert asked.total > shown.total + 0.3 and tokens(asked) > 1.2 * tokens(shown)


def test_a_plan_made_ahead_cannot_look_at_an_answer(robot: VirtualRobot) -> None:
    robot.memory_tokens = 0
    trace, rooms = perform(robot, YESTERDAY, HALLWAY, "plan_and_execute")
    assert asked_the_memory(trace) and rooms == ["hallway"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_a_memory_it_fails_and_stays_where_it_is(robot: VirtualRobot, strategy: str) -> None:
    robot.memory = None
    trace, rooms = perform(robot, YESTERDAY, HALLWAY, strategy)
    assert trace.status == "FAILED" and "no memory" in trace.message and rooms == ["hallway"]


def test_a_question_on_the_way_needs_the_memory(robot: VirtualRobot) -> None:
    """Task T7; the memory holds two places, and the walk adds none to it."""
    world, task = setting("T7", 0), TASKS["T7"]
    trace, _ = perform(robot, task, world)
    judged = judge(task, world, trace, Facts(robot.config, (2,)))
    assert judged.success, judged.reasons
    robot.memory = None
    trace, _ = perform(robot, task, world)
    judged = judge(task, world, trace, Facts(robot.config, (2,)))
    assert not judged.success and trace.added_status == "FAILED"


@pytest.mark.parametrize("strategy", ["react", "stream", "plan_and_execute"])
def test_a_question_is_answered_from_the_lines_and_without_them_by_a_call(robot: VirtualRobot, strategy: str) -> None:
    task, world = TASKS["A7"], setting("A7", 0)
    trace, _ = perform(robot, task, world, strategy)
    assert number_said(trace.said()) == 2 and not asked_the_memory(trace)
    robot.memory_tokens = 0
    trace, _ = perform(robot, task, world, strategy)
    assert number_said(trace.said()) == 2 and asked_the_memory(trace)
