# SPDX-License-Identifier: Apache-2.0
"""Routines among the rules of the page: tried against the robot's skills, revoked and approved."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="the skills of Kalos are those of a robot of ROS")

from function_tokens.routines import RoutineStore
from ghostshell_ros.nodes.dashboard.routine_rules import RoutineRules
from skill_kernel.robot import RobotConfig


@pytest.fixture
def store(tmp_path: Path) -> RoutineStore:
    return RoutineStore(tmp_path / "kalos" / "routines.json", clock=lambda: 0.0)


def test_a_routine_is_tried_revoked_and_approved(tmp_path: Path, store: RoutineStore) -> None:
    rules = RoutineRules(RobotConfig.load("kalos"), tmp_path)
    assert rules.rules() == []
    store.save("greet", "greets people", '<nod times="2"/><speak>hello</speak>')
    (rule,) = rules.rules()
    assert (rule["name"], rule["text"], rule["state"], rule["actions"]) == (
        "greet",
        "greets people",
        "approved",
        ["test", "revoke"],
    )
    assert ["code", '<nod times="2"/><speak>hello</speak>'] in rule["detail"]
    assert rules.do("test", "greet", "x") == (True, "each call fits kalos: nod(2), speak()")
    assert rules.do("revoke", "greet", "page (operator)") == (True, "")
    (rule,) = rules.rules()
    assert rule["state"] == "revoked" and ["revoked by", "page (operator)"] in rule["detail"]
    assert store.list() == () and rule["actions"] == ["test", "approve"]
    assert rules.do("approve", "greet", "x") == (True, "") and [r.name for r in store.list()] == ["greet"]


def test_what_would_be_refused_is_told_with_its_reason(tmp_path: Path, store: RoutineStore) -> None:
    rules = RoutineRules(RobotConfig.load("kalos"), tmp_path)
    store.save("bad", "", '<nod/><hover height="2"/><run name="gone"/>')
    done, told = rules.do("test", "bad", "x")
    assert not done and told.startswith("2 of 3 calls would be refused: hover: there is no function 'hover'")
    assert told.endswith("run: there is no routine 'gone'")
    for action in ("test", "approve", "revoke"):
        assert rules.do(action, "none", "x") == (False, "there is no routine 'none'")
