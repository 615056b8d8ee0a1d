# SPDX-License-Identifier: Apache-2.0
"""Arms in the simulated kitchen with real nodes: deeds, what is observed, the grippers' action, stops, a killed driver."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("mujoco")

from control_msgs.action import GripperCommand
from control_msgs.msg import GripperCommand as GripperCommandMsg
from ghostshell.action import ExecuteSkill
from ghostshell.msg import Observation as ObservationMsg
from ghostshell.msg import ProcessHeartbeat, SkillCall
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String

from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.observation_messages import from_message
from ghostshell_ros.wire.qos import HEARTBEATS, LATCHED, OBSERVATION, SENSORS
from ghostshell_ros.wire.values import OUTCOME_NUMBERS
from ros_support import Processes, spun, wait_until
from skill_kernel.codes import CallCode, Outcome

UP_S, DEED_S = 40.0, 60.0
NODES = ("skill_kernel", "safety_gate", "observer")


class Robot(RuntimeNode):
    """Calls a robot's skills as a planner does, and hears what it tells."""

    def __init__(self, name: str) -> None:
        super().__init__("caller", namespace=f"/{name}")
        self.robot = name
        self.joints: dict[str, float] = {}
        self.observed: dict[str, Any] = {}
        self.halted: bool | None = None
        self.hand: str | None = None
        self._client = GoalClient(self, ExecuteSkill, "execute_skill")
        self._gripper = GoalClient(self, GripperCommand, "arm_gripper_controller/gripper_cmd")
        self._process = f"p{uuid.uuid4().hex[:6]}"
        self._beat = self.create_publisher(ProcessHeartbeat, "process_heartbeat", HEARTBEATS)
        self._goal: Any = None
        self.create_subscription(JointState, "joint_states", self._on_joints, SENSORS)
        self.create_subscription(ObservationMsg, "observation", self._on_observation, OBSERVATION)
        self.create_subscription(Bool, "halted", lambda m: setattr(self, "halted", m.data), LATCHED)
        self.create_subscription(String, "hand", lambda m: setattr(self, "hand", m.data), LATCHED)
        self.steady_timer(0.1, lambda: self._beat.publish(ProcessHeartbeat(process_ids=[self._process])))

    def _on_joints(self, message: JointState) -> None:
        self.joints = dict(zip(message.name, message.position, strict=True))

    def _on_observation(self, message: ObservationMsg) -> None:
        now = self.steady_now()
        fields = from_message(message, now).fields
        self.observed = {name: field.value for name, field in fields.items() if not field.stale(now)}

    def up(self) -> bool:
        return self._client.server_is_ready() and self.halted is False and {"things", "doors", "hand"} <= set(self.observed)

    def begin(self, skill: str, **arguments: str) -> list[tuple[GoalEnd, Any]]:
        """Start a call; what comes into the list is how it ends."""
        ends: list[tuple[GoalEnd, Any]] = []
        call = SkillCall(
            process_id=self._process, call_id=uuid.uuid4().hex, function=skill, args_json=json.dumps(arguments), epoch=0
        )

        def send() -> None:
            self._goal = self._client.send(ExecuteSkill.Goal(call=call), on_end=lambda end, result: ends.append((end, result)))

        self.call_soon(send)
        return ends

    def grip(self, gap: float, effort: float) -> tuple[GoalEnd, Any]:
        """Move the fingers as MoveIt does, and return how that ended."""
        ends: list[tuple[GoalEnd, Any]] = []
        goal = GripperCommand.Goal(command=GripperCommandMsg(position=gap, max_effort=effort))
        self.call_soon(lambda: self._gripper.send(goal, on_end=lambda end, result: ends.append((end, result))))
        wait_until(lambda: ends, 10.0, "the fingers have moved")
        return ends[0]

    def stop(self) -> None:
        self.call_soon(lambda: self._goal.cancel())

    def do(self, skill: str, **arguments: str) -> Any:
        """Return the result of a call."""
        ends = self.begin(skill, **arguments)
        wait_until(lambda: ends, DEED_S, f"{skill} ends")
        return ends[0][1]


def said(result: Any, outcome: Outcome = Outcome.DONE) -> str:
    """Return what a call says that ended so."""
    assert result.outcome == OUTCOME_NUMBERS[outcome], result
    return str(result.message or result.error_msg)


@pytest.fixture(scope="module")
def kitchen(ros: None) -> Iterator[tuple[Robot, Robot, Processes, dict[str, Any]]]:
    robots = Robot("atlas"), Robot("hebe")
    with spun("/kitchen", *robots) as processes:
        started: dict[str, Any] = {}
        processes.start(
            "sim", "robots:=atlas hebe", "world:=kitchen", "start:=''", "film:=overview", "atlas.camera:=table_camera"
        )
        for robot in robots:
            name = robot.robot
            for node in NODES:
                processes.start(node, f"robot:={name}", namespace=f"/{name}")
            started[name] = processes.start("drivers", f"robot:={name}", "synthesiser:=timing", namespace=f"/{name}")
        lacking = lambda: [(robot.robot, robot.halted, sorted(robot.observed)) for robot in robots]  # noqa: E731
        wait_until(lambda: all(robot.up() for robot in robots), UP_S, lambda: f"both robots are up: {lacking()}")
        yield (*robots, processes, started)


def test_an_arm_does_what_it_is_asked_and_the_world_is_observed(kitchen: Any) -> None:
    atlas = kitchen[0]
    assert atlas.observed["things"]["apple"] == "table" and "vitamins" not in atlas.observed["things"]
    assert atlas.observed["doors"] == {"drawer_top": "shut", "drawer_middle": "shut"} and atlas.observed["hand"] == ""
    assert said(atlas.do("open", what="drawer_top")) == "drawer_top is open"
    wait_until(lambda: atlas.observed["doors"]["drawer_top"] == "open", 2.0, "the drawer is seen open")
    assert said(atlas.do("pick_from", object="apple", space="table")) == "holds apple"
    wait_until(lambda: atlas.observed["hand"] == "apple", 2.0, "the hand is told")
    assert said(atlas.do("release_to", space="drawer_top")) == "put apple into drawer_top"
    wait_until(lambda: atlas.observed["things"]["apple"] == "drawer_top", 2.0, "it is seen there")
    assert atlas.observed["hand"] == ""


def test_what_cannot_be_is_refused_with_the_reason_and_nothing_moves(kitchen: Any) -> None:
    atlas = kitchen[0]
    before = dict(atlas.joints)
    for skill, arguments, why in (
        ("pick_from", {"object": "tea", "space": "table"}, "tea is not seen, and fridge is shut"),
        ("pick_from", {"object": "orange", "space": "trash_can"}, "orange is not in trash_can; it is in table"),
        ("release_to", {"space": "table"}, "the hand is empty"),
    ):
        assert why in said(atlas.do(skill, **arguments), Outcome.FAILED)
    refused = atlas.do("open", what="fridge")
    assert refused.error_code == int(CallCode.INVALID_ARGUMENT) and "drawer_top" in refused.error_msg
    assert max(abs(atlas.joints[joint] - at) for joint, at in before.items()) < 0.01


def test_two_arms_on_wheels_go_open_and_take(kitchen: Any) -> None:
    hebe = kitchen[1]
    assert said(hebe.do("go_to", point="in_front_of_refrigerator")) == "is in_front_of_refrigerator"
    assert said(hebe.do("open", what="fridge")) == "fridge is open"
    wait_until(lambda: hebe.observed["things"].get("tea") == "fridge", 2.0, "the tea is seen")
    assert said(hebe.do("pick_from", object="tea", space="fridge")) == "holds tea"
    assert hebe.hand == "tea"


def test_tools_move_the_fingers_by_the_fields_own_action(kitchen: Any) -> None:
    atlas = kitchen[0]
    for gap, effort, reached in ((0.02, 0.0, True), (0.08, 0.0, True), (0.3, 0.0, None)):
        end, result = atlas.grip(gap, effort)
        assert (end, bool(result.reached_goal)) == ((GoalEnd.SUCCEEDED, True) if reached else (GoalEnd.ABORTED, False)), result
    assert said(atlas.do("pick_from", object="cup", space="table")) == "holds cup"
    assert atlas.grip(0.06, 0.0)[1].reached_goal
    end, result = atlas.grip(0.0, 10.0)
    assert end is GoalEnd.SUCCEEDED and result.stalled and not result.reached_goal and 0.05 < result.position < 0.07
    assert 8.0 < result.effort < 20.0
    assert said(atlas.do("release_to", space="table")) == "put cup into table"


@pytest.mark.faults
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_an_arm_that_is_stopped_holds_still_and_tells_what_it_holds(kitchen: Any, end: str) -> None:
    atlas, started = kitchen[0], kitchen[3]
    ends = atlas.begin("pick_from", object="cup", space="table")
    wait_until(lambda: atlas.joints["left"] < 0.033, DEED_S, "its fingers close")
    if end == "stopped":
        atlas.stop()
    else:
        started["atlas"].kill()
    wait_until(lambda: ends, 10.0, "the call ends")
    told = said(ends[0][1], Outcome.INTERRUPTED if end == "stopped" else Outcome.FAILED)
    joints = dict(atlas.joints)
    held = "holding cup" in told
    assert held or "with an empty hand" in told
    wait_until(lambda: atlas.hand == ("cup" if held else ""), 2.0, "the hand is told")
    if end == "killed":
        wait_until(lambda: atlas.halted, 5.0, "the robot is halted")
    assert max(abs(atlas.joints[joint] - at) for joint, at in joints.items()) < 0.1
    assert atlas.observed["things"]["cup"] == "table"
    if end == "stopped" and held:
        said(atlas.do("release_to", space="table"))
