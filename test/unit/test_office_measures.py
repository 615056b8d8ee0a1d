# SPDX-License-Identifier: Apache-2.0
"""The paper's metrics and rewards, on traces and plans whose figures are known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.evaluation.propositions import evaluate
from bench.evaluation.trace import Trace
from bench.office.acts import Act
from bench.office.judging import moment
from bench.office.layout import office
from bench.office.measures import line, redundant
from bench.office.rewards import gold, reward
from bench.office.run import Run
from bench.office.simulator import Done, Request
from bench.office.tasks import Step, Task
from bench.office.world import Where
from skill_kernel.codes import TaskCode

LAYOUT = office(0)
ITEM = next(n for n, w in LAYOUT.at_first.items() if w.state == "had" and LAYOUT.items[n].kind not in ("document", "monitor"))
OWNER = LAYOUT.at_first[ITEM].name
TO = next(name for name in LAYOUT.people if name != OWNER)
TASK = Task(
    "basic",
    "borrow",
    0,
    TO,
    f"bring {ITEM}",
    {},
    (Step("get", ITEM, (OWNER,)), Step("deliver", ITEM, (TO,), deps=(0,))),
    asks=1,
)


def run_of(
    *acts: tuple[str, dict[str, str]], status: str = "SUCCESS", code: int = 0, message: str = "", task: Task = TASK
) -> Run:
    """Return a run in which porter_1 did this, one act a second."""
    world = task.world()
    run = Run(task, Trace(asked=0.0, end=99.0, status=status, code=code, message=message), [moment(world, 0.0)])
    for at, (skill, arguments) in enumerate(acts, start=1):
        failure = world.attempt("porter_1", skill, arguments)
        act = Act("porter_1", skill, arguments)
        run.done.append(Done("p1", act, at - 1.0, float(at), str(failure) if failure else ""))
        run.moments.append(moment(world, float(at)))
    run.moments.append(moment(world, 99.0))
    return run


GO = ("navigate_to", {"place": LAYOUT.people[OWNER].place})
TAKE = ("take", {"item": ITEM, "person": OWNER})
THERE = ("navigate_to", {"place": LAYOUT.people[TO].place})
OPEN = ("open_locker", {"locker": "porter_1", "code": LAYOUT.codes["porter_1"]})
GIVE = ("give", {"item": ITEM, "person": TO})
ASIDE = ("navigate_to", {"place": "library"})


def test_metrics_of_a_run_without_a_superfluous_action() -> None:
    figures = line(run_of(GO, TAKE, THERE, OPEN, GIVE))
    assert figures["success"] and figures["complete"] == 1.0 and figures["redundant"] == 0.0 and figures["robot_share"] == 1.0
    assert figures["total_s"] == 99.0


def test_redundant_and_failed_actions_count() -> None:
    figures = line(run_of(ASIDE, TAKE, GO, TAKE, OPEN, THERE, OPEN, GIVE))
    assert figures["success"] and figures["failed"] == 1
    assert figures["redundant"] == pytest.approx(2 / 7, abs=1e-3)
    assert figures["robot_share"] == pytest.approx(7 / 8, abs=1e-3)


def test_share_of_steps_and_of_robots_in_a_run_that_did_half() -> None:
    run = run_of(GO, TAKE, status="SUCCESS")
    run.requests += [Request("p1", TO, "please", "request", 1.0), Request("p1", TO, "what?", "question", 1.0)]
    figures = line(run)
    assert not figures["success"] and figures["complete"] == 0.5 and figures["robot_share"] == pytest.approx(2 / 3, abs=1e-3)
    assert figures["requests"] == 1 and figures["questions"] == 1


@pytest.mark.parametrize(
    ("status", "code", "message", "success"),
    [
        ("FAILED", TaskCode.GIVEN_UP, f"{OWNER} is not available", True),
        ("FAILED", TaskCode.GIVEN_UP, "it is not possible", False),
        ("FAILED", TaskCode.TURN_LIMIT, f"{OWNER} is not available", False),
        ("SUCCESS", 0, f"{OWNER} is not available", False),
        ("", 0, "", False),
    ],
)
def test_what_cannot_be_done_must_be_reported_with_who_stands_in_the_way(
    status: str, code: int, message: str, success: bool
) -> None:
    task = Task("dynamic", "borrow", 0, TO, "", {}, TASK.steps, label="report", blocked=(OWNER,))
    assert line(run_of(status=status, code=int(code), message=message, task=task))["success"] is success


def test_redundancy_of_a_run_that_met_nothing_is_everything() -> None:
    run = run_of(GO, ASIDE)
    assert redundant(TASK, run.done, evaluate(TASK.criterion, run.moments)) == 2


# -- rewards ------------------------------------------------------------------------------------------------------------------

PAPER = next(n for n, w in LAYOUT.at_first.items() if w == Where("file"))
PRINTED = Task(
    "basic",
    "print_sign",
    0,
    TO,
    "",
    {},
    (
        Step("use", PAPER, facility="printer", action="print"),
        Step("sign", PAPER, (OWNER,), deps=(0,)),
        Step("deliver", PAPER, (TO,), deps=(1,)),
    ),
)


def plan(*steps: tuple[int, str, list[int]]) -> str:
    """Return an answer of the planner."""
    return json.dumps({"thought": "", "steps": [{"step": n, "skill": skill, "dep": deps} for n, skill, deps in steps]})


def perfect() -> list[tuple[int, str, list[int]]]:
    return [(i, s.written, [d + 1 for d in s.deps]) for i, s in enumerate(PRINTED.steps, start=1)]


def test_perfect_plan_gets_four_and_nothing_gets_minus_three() -> None:
    wanted = gold(PRINTED)
    assert reward(plan(*perfect()), wanted).final == 4.0
    for nothing in ("", "no JSON", plan(), '{"steps": 3}'):
        assert reward(nothing, wanted).final == -3.0


def test_reward_counts_names_parameters_and_order_apart() -> None:
    wanted = gold(PRINTED)
    use, sign, deliver = perfect()
    swapped = reward(plan((1, sign[1], []), (2, use[1], [1]), (3, deliver[1], [2])), wanted)
    assert (swapped.format, swapped.name, swapped.param) == (1.0, 1.0, 1.0) and swapped.order == pytest.approx(1 / 3)
    other = reward(plan(use, (2, f"Sign({PAPER}, {TO})", [1]), deliver), wanted)
    assert other.name == other.order == 1.0 and other.param == pytest.approx((1 + 1 / 3 + 1) / 3)
    short = reward(plan(use), wanted)
    assert (short.name, short.param, short.order) == pytest.approx((1 / 3, 1 / 3, 1 / 3))


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["Use(a)", "Sign(b, c)", "Deliver()"]), st.just([])), max_size=6))
def test_reward_keeps_to_the_papers_bounds(steps: list[Any]) -> None:
    assert -3.0 <= reward(plan(*steps), gold(PRINTED)).final <= 4.0
