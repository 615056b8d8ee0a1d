# SPDX-License-Identifier: Apache-2.0
"""Ways of an arm by MoveIt: a server of its action plans them and has them played by the driver, and whatever it does ends."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("moveit_msgs.action", reason="needs moveit_msgs: run make test-moveit")

import move_group
from driver_kit import DriverKit
from ghostshell.action import MoveJoints
from move_group import MoveGroupServer
from moveit_msgs.msg import MoveItErrorCodes
from std_srvs.srv import Trigger

from bench.clearing import Clearing
from ghostshell_ros.runtime.goal_client import GoalEnd
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ros_support import ROOT, Plant, Processes, ask, spun, wait_until
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import DriverResult, joint_trajectory
from test_arms import Robot as KitchenRobot
from test_arms import said

FILE = """
name: stub
skills: [nothing]
subsystems: {main: {exclusive_per_process: false, parallel: false}}
drivers:
  move_joints_driver:
    node: ghostshell_ros.drivers.arm_driver:ArmDriver
    actions: {move_joints: ghostshell/action/MoveJoints}
joints:
  knee: {lower: -1.0, upper: 1.0, max_velocity: 2.0}
  hip: {lower: -0.5, upper: 0.5, max_velocity: 2.0}
  neck: {lower: 0.0, upper: 0.04, max_velocity: 2.0}
arms:
  arm: {joints: [knee, hip], hand: grip, fingers: [neck]}
"""
GOAL = {"knee": 0.9, "hip": -0.3}
PARAMETERS = "moveit:=true", "moveit_wait_s:=0.5", "moveit_plan_s:=0.2", "moveit_silence_s:=1.0"
START_S = 20.0


class Robot(RuntimeNode):
    """The kernel's place: the driver's clients."""

    def __init__(self, namespace: str, file: Path) -> None:
        super().__init__("kernel", namespace=namespace)
        self.lost: list[str] = []
        self.drivers = DriverKit(self, RobotConfig.load(str(file)), on_lost=self.lost.append)
        self._halt = self.create_client(Trigger, "halt")
        self._clear = Clearing(self)

    def go(
        self, stop: threading.Event | None = None, goal: dict[str, float] = GOAL, speed: float = 0.5, **more: Any
    ) -> DriverResult:
        trajectory = joint_trajectory(list(goal), [0.0], [list(goal.values())])
        move = self.drivers.parts.action("move_joints")
        return move(trajectory=trajectory, goal_tolerance=0.05, planned_speed=speed, stop=stop or threading.Event(), **more)

    def halt(self) -> None:
        ask(self, self._halt, Trigger.Request())

    def clear(self) -> None:
        ask(self, self._clear, Trigger.Request())


class Rig:
    """Gate, driver and joints that are at once where the gate says, with MoveIt beside them."""

    def __init__(self, namespace: str, file: Path) -> None:
        self.plant, self.robot, self.server = Plant(namespace), Robot(namespace, file), MoveGroupServer(namespace)
        self.pool = ThreadPoolExecutor(2)

    def going(self, **how: Any) -> Any:
        """Return the call of a way once the arm moves."""
        call = self.pool.submit(self.robot.go, **how)
        wait_until(lambda: self.plant.positions["knee"] > 0.1, 5.0, "it moves")
        return call

    def reset(self) -> None:
        self.server.moods, self.server.code, self.server.speed = set(), MoveItErrorCodes.SUCCESS, 1.0
        self.robot.clear()
        wait_until(lambda: self.plant.halted is False, 5.0, "it is not halted")
        home = {"knee": 0.0, "hip": 0.0}
        wait_until(lambda: self.robot.go(goal=home, speed=1.0).ok, 10.0, "it is at its begin")
        self.plant.commands.clear()
        self.server.goals.clear()
        self.server.cancelled.clear()
        self.server.played.clear()

    def rests(self) -> bool:
        """Return whether the arm does not move for a while."""
        before = dict(self.plant.positions)
        time.sleep(0.3)
        return max(abs(self.plant.positions[joint] - at) for joint, at in before.items()) < 1e-6


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("moveit") / "stub.yaml"
    made.write_text(FILE)
    return made


@pytest.fixture(scope="module")
def made(ros: None, file: Path) -> Iterator[Rig]:
    namespace = f"/moveit{os.getpid()}"
    rig, processes = Rig(namespace, file), Processes(namespace)
    with NodeHost([rig.plant, rig.robot, rig.server]) as host:
        host.start()
        processes.start("safety_gate", f"robot:={file}")
        processes.start("drivers", f"robot:={file}", *PARAMETERS)
        try:
            wait_until(lambda: rig.plant.halted is False, START_S, "the gate says that it is not halted")
            wait_until(lambda: rig.robot.go(goal={"knee": 0.0, "hip": 0.0}).ok, START_S, "the driver and MoveIt are up")
            yield rig
        finally:
            processes.end()


@pytest.fixture
def rig(made: Rig) -> Rig:
    made.reset()
    return made


def test_moveit_plans_the_way_and_its_set_points_pass_the_gate(rig: Rig) -> None:
    result = rig.robot.go()
    assert result.ok, result
    assert result.values["final_positions"] == pytest.approx(list(GOAL.values()), abs=0.05)
    assert rig.server.played == [(GoalEnd.SUCCEEDED, rig.server.played[0][1])]
    asked = rig.server.goals[0]
    request, options = asked.request, asked.planning_options
    assert (request.group_name, request.max_velocity_scaling_factor) == ("arm", pytest.approx(0.5))
    assert (request.allowed_planning_time, options.plan_only) == (pytest.approx(0.2), False)
    assert (
        request.start_state.is_diff and options.planning_scene_diff.is_diff and options.planning_scene_diff.robot_state.is_diff
    )
    (constraints,) = request.goal_constraints
    assert {wish.joint_name: wish.position for wish in constraints.joint_constraints} == pytest.approx(GOAL)
    ways = [command["knee"] for _, command in rig.plant.commands]
    assert len(ways) > 60 and max(b - a for a, b in pairwise(ways)) < 0.05, "set-points of the gate, at half a rad/s"
    rig.server.speed = 20.0
    too_fast = rig.robot.go(goal={"knee": 0.0, "hip": 0.0})
    assert too_fast.error_code == MoveJoints.Goal.NO_WAY
    assert "CONTROL_FAILED" in too_fast.error_msg and "faster than 2" in too_fast.error_msg


@pytest.mark.parametrize("mood", ["", "deaf"])
def test_a_stop_holds_the_arm_at_once_even_if_moveit_does_not_hear(rig: Rig, mood: str) -> None:
    rig.server.moods.add(mood)
    stop = threading.Event()
    call = rig.going(stop=stop)
    stop.set()
    result = call.result(1.5)
    assert result.cancelled and 0.0 < result.values["completed_s"] < 1.8
    assert result.values["final_positions"][0] < 0.8
    wait_until(rig.rests, 2.0, "it rests")
    assert rig.plant.positions["knee"] == pytest.approx(result.values["final_positions"][0], abs=0.1)
    wait_until(lambda: rig.server.cancelled and rig.server.played, 2.0, "MoveIt was told, and its trajectory has ended")
    assert rig.server.played[0][0] in (GoalEnd.CANCELED, GoalEnd.ABORTED)


def test_halt_and_deadline_end_it_with_their_reason(rig: Rig) -> None:
    call = rig.going()
    assert rig.robot.go().error_code == MoveJoints.Goal.JOINTS_BUSY
    rig.robot.halt()
    result = call.result(1.0)
    assert result.error_code == MoveJoints.Goal.DRIVER_HALTED and "ghostshell clear" in result.error_msg
    wait_until(rig.rests, 2.0, "it rests")
    wait_until(lambda: rig.server.cancelled, 2.0, "MoveIt was told")
    rig.reset()
    result = rig.going(deadline_s=1.2).result(2.0)
    assert result.error_code == CallCode.DEADLINE and not result.ok
    wait_until(rig.rests, 2.0, "it rests")


@pytest.mark.parametrize(
    ("mood", "code", "expected", "said"),
    [
        ("inactive", MoveItErrorCodes.SUCCESS, int(CallCode.DRIVER_INACTIVE), "rejected"),
        ("", MoveItErrorCodes.GOAL_IN_COLLISION, MoveJoints.Goal.NO_WAY, "MoveIt gave up (GOAL_IN_COLLISION)"),
        ("", -4711, MoveJoints.Goal.NO_WAY, "code -4711"),
        ("hangs", MoveItErrorCodes.SUCCESS, MoveJoints.Goal.NO_WAY, "neither moved arm nor given up"),
        ("lazy", MoveItErrorCodes.SUCCESS, MoveJoints.Goal.NOT_REACHED, "joint 'knee' is 0.900 rad from its goal"),
        ("astray", MoveItErrorCodes.SUCCESS, MoveJoints.Goal.NO_WAY, "no goal of move_joints asks for this way"),
    ],
)
def test_a_moveit_that_does_not_do_its_work_is_a_failure_with_the_reason(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, mood: str, code: int, expected: int, said: str
) -> None:
    rig.server.moods.add(mood)
    rig.server.code = code
    if mood == "astray":
        plan = rig.server.plan
        monkeypatch.setattr(rig.server, "plan", lambda wishes, speed: plan({j: -q for j, q in wishes.items()}, speed))
    began = time.monotonic()
    result = rig.robot.go()
    assert (result.ok, result.error_code) == (False, expected) and said in result.error_msg, result
    assert time.monotonic() - began < 6.0
    assert rig.plant.positions["knee"] == pytest.approx(0.0, abs=1e-3), "nothing has moved"


def test_what_moveit_plans_for_somebody_else_moves_no_arm(rig: Rig) -> None:
    rig.server.call_soon(lambda: rig.server.play(rig.server.plan(GOAL, 1.0)))
    wait_until(lambda: rig.server.played, 3.0, "its end")
    end, result = rig.server.played[0]
    assert end is GoalEnd.ABORTED and "no goal of move_joints asks for this way" in result.error_string
    assert rig.plant.positions["knee"] == pytest.approx(0.0, abs=1e-3)


def test_a_goal_that_moveit_cannot_take_is_refused(rig: Rig) -> None:
    for goal, speed, why in (
        ({"knee": 0.5}, 0.5, "one arm, with all of its joints"),
        ({"knee": 0.5, "hip": 3.0}, 0.5, "outside of -0.5 to 0.5"),
        (GOAL, 1.5, "planned_speed 1.5"),
        (GOAL, math.nan, "planned_speed nan"),
    ):
        result = rig.robot.go(goal=goal, speed=speed)
        assert result.error_code == MoveJoints.Goal.BAD_TRAJECTORY and why in result.error_msg, result
    assert not rig.server.goals


@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.faults)])
def test_a_moveit_that_dies_in_mid_motion_is_told_and_the_arm_holds(
    namespace: str, file: Path, processes: Processes, host: Any, end: signal.Signals
) -> None:
    plant, robot = Plant(namespace), Robot(namespace, file)
    host(plant, robot)
    processes.start("safety_gate", f"robot:={file}")
    processes.start("drivers", f"robot:={file}", *PARAMETERS)
    missing: list[DriverResult] = []
    wait_until(lambda: plant.halted is False, START_S, "the gate says that it is not halted")

    def told() -> bool:
        missing.append(robot.go())
        return f"{namespace}/move_action answers: start MoveIt" in missing[-1].error_msg

    wait_until(told, START_S, "the driver is up and misses MoveIt")
    assert missing[-1].error_code == CallCode.DRIVER_UNAVAILABLE
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, move_group.__file__, "--ros-args", "-r", f"__ns:={namespace}"]
    server = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
    try:
        wait_until(lambda: robot.go(goal={"knee": 0.0, "hip": 0.0}).ok, START_S, "MoveIt is up")
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(robot.go, speed=0.2)
            wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "it moves")
            server.send_signal(end)
            result = call.result(6.0)
        assert result.error_code == CallCode.DRIVER_LOST and "move_group died or hangs" in result.error_msg, result
        assert result.values["final_positions"][0] < 0.8 and not robot.lost
        stopped = dict(plant.positions)
        time.sleep(0.5)
        assert plant.positions == pytest.approx(stopped, abs=0.02) and plant.halted is False
    finally:
        server.kill()
        server.wait()


def test_without_moveit_msgs_the_driver_does_not_start_and_says_what_to_install(file: Path, tmp_path: Path) -> None:
    (tmp_path / "moveit_msgs.py").write_text("raise ModuleNotFoundError(\"No module named 'moveit_msgs'\")")
    path = os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    words = ["--ros-args", "-p", f"robot:={file}", "-p", "moveit:=true"]
    ended = subprocess.run(
        [sys.executable, "-m", "ghostshell_ros.executables", "drivers", *words],
        cwd=ROOT,
        timeout=30.0,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == os.EX_CONFIG
    assert "needs moveit_msgs" in ended.stderr and "ros-jazzy-moveit-msgs" in ended.stderr, ended.stderr


@pytest.mark.slow
def test_an_arm_takes_a_thing_in_the_kitchen_on_ways_of_moveits(ros: None) -> None:
    atlas, server = KitchenRobot("atlas"), MoveGroupServer("/atlas")
    with spun("/atlas", atlas, server) as processes:
        processes.start(
            "sim",
            "robots:=atlas",
            "world:=kitchen",
            "start:=''",
            "film:=overview",
            "atlas.camera:=table_camera",
            namespace="/kitchen",
        )
        for node in ("safety_gate", "observer"):
            processes.start(node, "robot:=atlas")
        file = ROOT / "config" / "arms" / "moveit.yaml"
        processes.start("skill_kernel", "robot:=atlas", params_file=file)
        processes.start("drivers", "robot:=atlas", "synthesiser:=timing", params_file=file)
        wait_until(atlas.up, 60.0, "the robot is up")
        result = atlas.do("pick_from", object="apple", space="table")
        assert said(result) == "holds apple" and len(server.goals) == 1
        (wishes,) = (constraints.joint_constraints for constraints in server.goals[0].request.goal_constraints)
        assert [wish.joint_name for wish in wishes] == [f"joint{k}" for k in range(1, 8)]
        assert server.played[0][0] is GoalEnd.SUCCEEDED
        assert said(atlas.do("release_to", space="table")) == "put apple into table"
        assert [goal.request.max_velocity_scaling_factor for goal in server.goals] == [1.0, 0.5, 1.0]
        server.code = MoveItErrorCodes.PLANNING_FAILED
        assert "MoveIt gave up (PLANNING_FAILED)" in said(atlas.do("pick_from", object="cup", space="table"), Outcome.FAILED)
