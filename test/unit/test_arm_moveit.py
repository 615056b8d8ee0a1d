# SPDX-License-Identifier: Apache-2.0
"""An arm whose free ways MoveIt finds: the body asks for their ends alone, and does all else as ever."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from arm_sim import ArmSim

from ghostshell_ros.arms.arm import Arm
from ghostshell_ros.arms.motion import Pace, PathMotion
from ghostshell_ros.drivers.trajectory import MotionCode
from skill_kernel.skills.drivers import DriverResult, StopEvent, joint_trajectory

pytestmark = pytest.mark.component

STEP_S = 0.04


class Planned(ArmSim):
    """Goes straight through the joints' space where a way is left to MoveIt, or fails to with `refusal`."""

    def __init__(self) -> None:
        self.asked: list[tuple[Mapping[str, Any], float]] = []
        self.refusal = ""
        super().__init__("atlas", moveit=True)

    def move(self, *, trajectory: Mapping[str, Any], stop: StopEvent, planned_speed: float = 0.0, **more: Any) -> DriverResult:
        if planned_speed:
            self.asked.append((trajectory, planned_speed))
            if self.refusal:
                return DriverResult(False, int(MotionCode.NO_WAY), self.refusal)
            joints = trajectory["joint_names"]
            start = [float(self.data.ctrl[self.world.model.actuator(joint).id]) for joint in joints]
            speeds = [self.config.joints[joint].max_velocity for joint in joints]
            path = [start, trajectory["points"][-1]["positions"]]
            way = PathMotion(path, np.zeros((2, 3)), speeds, Pace(planned_speed, 1.0))
            times = [k * STEP_S for k in range(1, math.ceil(way.duration_s / STEP_S) + 1)]
            trajectory = joint_trajectory(joints, times, [way.sample(t).tolist() for t in times])
        return super().move(trajectory=trajectory, stop=stop, **more)


@pytest.fixture
def atlas(monkeypatch: pytest.MonkeyPatch) -> Planned:
    monkeypatch.setattr(Arm, "_around_it", lambda *_: pytest.fail("the embedded planner was asked for a way"))
    return Planned()


def test_only_the_ends_of_free_ways_are_asked_for(atlas: Planned) -> None:
    result = atlas.body.pick("apple", "table", atlas.stop)
    assert result.ok and atlas.body.held() == "apple", result.message
    ((trajectory, speed),) = atlas.asked
    assert trajectory["joint_names"] == [f"joint{k}" for k in range(1, 8)] and len(trajectory["points"]) == 1
    assert speed == 1.0 and atlas.sent == 4, "went there, open as it was, came down, shut, came up"
    result = atlas.body.put("table", atlas.stop)
    assert result.ok and atlas.lying()["apple"] == "table", result.message
    assert [speed for _, speed in atlas.asked] == [1.0, 0.8, 1.0], "it carried more slowly, and was drawn in"


def test_a_way_that_moveit_does_not_find_is_told_and_nothing_else_moves(atlas: Planned) -> None:
    atlas.refusal = "MoveIt gave up (PLANNING_FAILED)"
    result = atlas.body.pick("apple", "table", atlas.stop)
    assert not result.ok and result.error_code == MotionCode.NO_WAY, result
    assert "with an empty hand" in result.message and atlas.refusal in result.message
    assert len(atlas.asked) == 1 and atlas.sent == 0
