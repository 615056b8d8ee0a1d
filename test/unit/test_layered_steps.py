# SPDX-License-Identifier: Apache-2.0
"""What the planner's node hears of its streams, beyond what System 1 itself decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="the node's part is of ROS")
pytest.importorskip("ghostshell.msg", reason="needs the built interfaces")

from builtin_interfaces.msg import Time
from ghostshell.msg import ProcessState, SkillEvent

from ghostshell_ros.nodes.action_planner.layered_steps import LayeredSteps
from planners.strategies.layered.step_link import StepSettings
from skill_kernel.codes import TaskCode


class Desk:
    """The parts of a node that LayeredSteps needs; `told` is what it wrote on `events`."""

    def __init__(self) -> None:
        self.told: list[tuple[int, dict[str, Any]]] = []
        self.stopped: list[str] = []
        timer = SimpleNamespace(cancel=lambda: None)
        node = SimpleNamespace(steady_now=lambda: 1.0, call_later=lambda *_: timer, call_soon=lambda *_: None)
        parts = SimpleNamespace(
            node=node,
            settings=StepSettings(),
            accessors={},
            judge=None,
            robot=SimpleNamespace(config=SimpleNamespace(first_actions=()), registry=[]),
            model=SimpleNamespace(thinks=lambda layer: False),
            scene=SimpleNamespace(seen=lambda: None),
            streams=SimpleNamespace(forget=lambda process_id: None),
            stop=lambda process_id, epoch, why, then: self.stopped.append(process_id),
            events=SimpleNamespace(write=lambda kind, **fields: self.told.append((kind, fields))),
        )
        self.steps = LayeredSteps(parts, plans=True)  # type: ignore[arg-type]
        self.steps.begin(ProcessState(process_id="p", instruction="walk", strategy="layered", created=Time()))

    def ends(self) -> list[tuple[int, str]]:
        return [(f["error_code"], f["error_msg"]) for kind, f in self.told if kind == SkillEvent.PLAN_ENDED]


def over(code: int, why: str) -> SkillEvent:
    return SkillEvent(type=SkillEvent.TURN_ENDED, process_id="p", stream_id="s", text="end", error_code=code, error_msg=why)


def test_a_process_that_the_channel_scheduler_has_no_room_for_ends_with_its_reason() -> None:
    desk = Desk()
    desk.steps.event(over(int(TaskCode.TOO_MANY_PROCESSES), "wait for one to end, or end one"))
    desk.steps.event(over(int(TaskCode.TOO_MANY_PROCESSES), "wait for one to end, or end one"))
    assert desk.ends() == [(int(TaskCode.TOO_MANY_PROCESSES), "wait for one to end, or end one")]
    assert desk.stopped == ["p"], "a stream whose end was lost is closed, or its process would stay"


def test_another_end_of_a_turn_ends_no_process() -> None:
    desk = Desk()
    desk.steps.event(over(0, ""))
    assert desk.ends() == []
