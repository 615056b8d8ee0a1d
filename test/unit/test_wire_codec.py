# SPDX-License-Identifier: Apache-2.0
"""Messages are filled from plain values by field, with a reason for what does not fit, and come back as plain values."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="messages are of ROS")
pytest.importorskip("ghostshell.action", reason="needs the built interfaces")

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseWithCovariance
from ghostshell.action import Drive, MoveJoints, NavigateTo, Speak
from nav2_msgs.action import NavigateToPose

from ghostshell_ros.wire.codec import FieldError, UnknownFieldError, filled, interface, plain
from ghostshell_ros.wire.process_messages import MAX_HISTORY, call_reports, process_state
from skill_kernel.processes.process import CallRecord, Process
from skill_kernel.skills.drivers import Pose2D, joint_trajectory, map_pose


def test_goal_fields_of_every_depth_are_set_and_come_back() -> None:
    goal = filled(MoveJoints.Goal(), {"trajectory": joint_trajectory(["knee"], [0.5], [[0.25]]), "goal_tolerance": 1})
    (point,) = goal.trajectory.points
    assert (point.time_from_start.sec, point.time_from_start.nanosec) == (0, 500_000_000)
    assert plain(goal)["trajectory"]["points"][0] | {"positions": [0.25], "time_from_start": 0.5} == plain(point)
    pose = filled(NavigateToPose.Goal(), {"pose": map_pose(Pose2D(1.0, -2.0, math.pi))}).pose
    assert (pose.header.frame_id, pose.pose.position.y) == ("map", -2.0)
    assert pose.pose.orientation.z == pytest.approx(1.0)
    assert filled(Speak.Goal(), {"text": "a\0b"}).text == "a b"
    assert math.isnan(filled(Drive.Goal(), {"turn": math.nan}).turn), "the driver says what is wrong with it"


@pytest.mark.parametrize(
    ("kind", "values", "reason"),
    [
        (Drive, {"distance": "far"}, "distance is 'far'; give a number"),
        (NavigateTo, {"pose": {"header": {"stamp": 1e10}}}, "header.stamp is 10000000000.0 s; give seconds"),
        (Speak, {"text": None}, "text is None; give a text"),
        (NavigateTo, {"pose": 5}, "pose is 5; give the fields of geometry_msgs/PoseStamped"),
        (NavigateTo, {"pose": {"pose": {"position": {"x": []}}}}, r"pose\.pose\.position\.x is \[\]"),
        (MoveJoints, {"trajectory": {"joint_names": "knee"}}, "joint_names is 'knee'; give a list"),
        (MoveJoints, {"trajectory": {"points": [{"time_from_start": math.inf}]}}, r"points\[0\]\.time_from_start is infinity"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_place(kind: Any, values: dict[str, Any], reason: str) -> None:
    with pytest.raises(FieldError, match=reason):
        filled(kind.Goal(), values)


def test_whole_numbers_and_lists_keep_to_their_bounds() -> None:
    result = NavigateToPose.Result()
    assert filled(result, {"error_code": 65535}).error_code == 65535
    with pytest.raises(FieldError, match="error_code is 65536; give 0 to 65535"):
        filled(result, {"error_code": 65536})
    assert filled(DiagnosticStatus(), {"level": 2}).level == b"\x02"
    with pytest.raises(FieldError, match="level is 256; give 0 to 255"):
        filled(DiagnosticStatus(), {"level": 256})
    with pytest.raises(FieldError, match="error_code is 1.5; give a number"):
        filled(result, {"error_code": 1.5})
    with pytest.raises(FieldError, match="covariance has 2 elements; give 36"):
        filled(PoseWithCovariance(), {"covariance": [0.0, 1.0]})


def test_an_unknown_field_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownFieldError, match="no field 'distnce'; did you mean 'distance'"):
        filled(Drive.Goal(), {"distnce": 1.0})
    with pytest.raises(UnknownFieldError, match=r"'pose\.pose\.positio'; did you mean 'position'"):
        filled(NavigateTo.Goal(), {"pose": {"pose": {"positio": {}}}})


def test_an_interface_is_found_by_its_name() -> None:
    assert interface("nav2_msgs/action/NavigateToPose") is NavigateToPose
    with pytest.raises(ImportError, match="there is no interface ghostshell/action/Drvie"):
        interface("ghostshell/action/Drvie")


def test_a_revised_plan_is_told_of_what_was_done_however_much_was_refused_since() -> None:
    done = CallRecord("c0", "walk", '{"distance": 1.0}', "DONE", message="walked 1 m")
    refused = [CallRecord(f"c{n + 1}", "walk", outcome="REFUSED") for n in range(2 * MAX_HISTORY)]
    process = Process("p", "go there", "chat", "Ada", "layered", 1.0, plan=1, history=(done, *refused))
    (report,) = call_reports(process_state(process))
    assert (report.outcome, report.message) == ("DONE", "walked 1 m")
