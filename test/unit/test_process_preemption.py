# SPDX-License-Identifier: Apache-2.0
"""The preemption table, cell by cell, and the plain words that ask for a return."""

from __future__ import annotations

import pytest

from skill_kernel.processes.phrases import Wording, read_wording
from skill_kernel.processes.process import TABLE, ProcessSource, Verdict, verdict

USER, REACTIVE, IDLE = ProcessSource.USER, ProcessSource.REACTIVE, ProcessSource.IDLE

CELLS = [
    (USER, USER, Verdict.REPLACE),
    (USER, REACTIVE, Verdict.REPLACE),
    (USER, IDLE, Verdict.PAUSE),
    (REACTIVE, USER, Verdict.PAUSE),
    (REACTIVE, REACTIVE, Verdict.WAIT),
    (REACTIVE, IDLE, Verdict.PAUSE),
    (IDLE, USER, Verdict.WAIT),
    (IDLE, REACTIVE, Verdict.WAIT),
    (IDLE, IDLE, Verdict.ONE_ONLY),
]


@pytest.mark.parametrize(("new", "running", "expected"), CELLS)
def test_a_cell_of_the_table(new: ProcessSource, running: ProcessSource, expected: Verdict) -> None:
    assert verdict(new, running) is expected
    asked = verdict(new, running, returns=True)
    assert asked is (Verdict.PAUSE if expected is Verdict.REPLACE else expected)


def test_the_table_has_no_other_cells() -> None:
    assert set(TABLE) == {(new, running) for new, running, _ in CELLS}


@pytest.mark.parametrize(
    ("said", "wording"),
    [
        ("stop, check what is on your left, then resume", Wording("check what is on your left", True, True)),
        ("Stop! Look left and then continue.", Wording("Look left", True, True)),
        ("please stop, nod, and then go back to your task", Wording("nod", True, True)),
        ("wait, nod, then carry on with what you were doing", Wording("nod", True, True)),
        ("hold on, nod, then go on patrolling", Wording("nod", True, True)),
        ("nod twice, then go on", Wording("nod twice", False, True)),
        ("stop and turn left", Wording("turn left", True, False)),
        ("停下\uff0c看看左边\uff0c然后继续\u3002", Wording("看看左边", True, True)),
        ("先点头再继续", Wording("点头", False, True)),
        ("点头两次,然后继续巡逻", Wording("点头两次", False, True)),
        ("停\uff0c向左转", Wording("向左转", True, False)),
    ],
)
def test_words_that_stop_or_ask_for_a_return_are_read(said: str, wording: Wording) -> None:
    assert read_wording(said) == wording


@pytest.mark.parametrize(
    "said",
    [
        "stop by the kitchen",
        "stop the music",
        "wait 3 seconds then nod",
        "walk forward then continue to the kitchen",
        "nod and go on",
        "continue",
        "don't stop, nod",
        "向前走",
        "走到停车场",
        "继续",
        "resume the patrol",
        "别再继续巡逻了",
        "不要再继续了",
    ],
)
def test_other_words_are_a_plain_task(said: str) -> None:
    assert read_wording(said) == Wording(said)
