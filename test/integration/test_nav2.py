# SPDX-License-Identifier: Apache-2.0
"""Navigation by Nav2: goals passed on to an action server of its type, its velocities through the gate, its refusals told."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nav2_msgs.action", reason="needs nav2_msgs: run make setup")

from base_plant import BasePlant, base_robot
from driver_kit import DriverKit
from flat_world import FlatWorld
from geometry_msgs.msg import Twist
from ghostshell.action import NavigateTo
from nav2_msgs.action import NavigateToPose
from std_srvs.srv import Trigger

from bench.clearing import Clearing
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import SET_POINTS
from ros_support import ROOT, Processes, ask, wait_until
from skill_kernel.codes import CallCode
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import DriverResult, Pose2D

PERIOD_S = 0.05


class Nav2(RuntimeNode):
    """Goes straight to the goal at 3 m/s, which only the gate limits. `moods` change what it does."""

    def __init__(self, namespace: str, world: FlatWorld) -> None:
        super().__init__("bt_navigator", namespace=namespace)
        self.world = world
        self.goal: Goal | None = None
        self.goals: list[Any] = []
        self.cancelled: list[bytes] = []
        self.moods: set[str] = set()
        self.code = 0
        self._velocity = self.create_publisher(Twist, "cmd_vel_nav2", SET_POINTS)
        GoalServer(self, NavigateToPose, "navigate_to_pose", on_goal=self._on_goal, on_cancel=self._on_cancel)
        self.steady_timer(PERIOD_S, self._tick)

    def refuses_goals(self) -> str:
        return "inactive" if "inactive" in self.moods else ""

    def _on_goal(self, goal: Goal) -> None:
        self.goals.append(goal.request)
        if self.code:
            goal.abort(NavigateToPose.Result(error_code=self.code))
            return
        self.goal = goal

    def _on_cancel(self, goal: Goal) -> None:
        self.cancelled.append(goal.goal_id)
        self.goal = None
        goal.canceled(NavigateToPose.Result())

    def _tick(self) -> None:
        if "runaway" in self.moods:
            self._velocity.publish(_forward(0.5))
        if self.goal is None or "hangs" in self.moods:
            return
        to, world = self.goal.request.pose.pose.position, self.world
        left = math.dist((to.x, to.y), (world.x, world.y))
        message = NavigateToPose.Feedback(distance_remaining=left)
        at = message.current_pose.pose
        at.position.x, at.position.y = world.x, world.y
        at.orientation.z, at.orientation.w = math.sin(world.yaw / 2), math.cos(world.yaw / 2)
        self.goal.feedback(message)
        if left < 0.1:
            self._velocity.publish(Twist())
            self.goal.succeed(NavigateToPose.Result())
            self.goal = None
        elif "stuck" not in self.moods:
            self._velocity.publish(_forward(3.0))


def _forward(speed: float) -> Twist:
    message = Twist()
    message.linear.x = speed
    return message


class Robot(RuntimeNode):
    """The kernel's place: driver clients; and an operator."""

    def __init__(self, namespace: str, config: RobotConfig) -> None:
        super().__init__("kernel", namespace=namespace)
        self.drivers = DriverKit(self, config)
        self.goals = GoalClient(self, NavigateTo, "navigate_to")
        self.teleop = self.create_publisher(Twist, "cmd_vel_teleop", SET_POINTS)
        self._triggers: dict[str, Any] = {n: self.create_client(Trigger, n) for n in ("halt", "release_teleop")}
        self._triggers["clear_halt"] = Clearing(self)

    def call(self, name: str) -> None:
        ask(self, self._triggers[name], Trigger.Request())


class Rig:
    """Gate, drivers and plant, with Nav2 beside them."""

    def __init__(self, namespace: str, file: Path) -> None:
        self.namespace, self.file = namespace, file
        self.plant = BasePlant(namespace, FlatWorld([]))
        self.robot = Robot(namespace, RobotConfig.load(str(file)))
        self.nav2 = Nav2(namespace, self.plant.world)
        self.pool = ThreadPoolExecutor(4)

    def go(self, stop: threading.Event | None = None, **where: Any) -> DriverResult:
        return self.robot.drivers.navigate(stop=stop or threading.Event(), **where)

    def going(self, stop: threading.Event | None = None) -> Any:
        """Return the call of a long way, once the base moves."""
        call = self.pool.submit(self.go, stop, pose=Pose2D(6.0, 0.0, 0.0))
        wait_until(lambda: self.plant.speed > 0.3, 5.0, "it moves")
        return call

    def reset(self) -> None:
        self.nav2.moods, self.nav2.code = set(), 0
        wait_until(lambda: self.plant.speed == 0.0, 2.0, "it stands")
        self.robot.call("release_teleop")
        self.robot.call("clear_halt")
        wait_until(lambda: self.plant.halted is False, 2.0, "it is not halted")
        self.plant.world.x = self.plant.world.y = self.plant.world.yaw = 0.0
        time.sleep(0.05)  # odometry of the new place
        self.plant.commands.clear()
        self.nav2.goals.clear()
        self.nav2.cancelled.clear()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("nav2") / "plant.yaml"
    made.write_text(base_robot())
    return made


@pytest.fixture(scope="module")
def made(ros: None, file: Path) -> Iterator[Rig]:
    rig = Rig(f"/nav2_{os.getpid()}", file)
    processes = Processes(rig.namespace)
    with NodeHost([rig.plant, rig.robot, rig.nav2]) as host:
        host.start()
        processes.start("safety_gate", f"robot:={file}")
        processes.start("drivers", f"robot:={file}", "navigation:=nav2", "nav2_silence_s:=0.6", "nav2_patience_s:=1.5")
        try:
            wait_until(lambda: rig.plant.halted is False, 15.0, "the gate says that it is not halted")
            wait_until(lambda: rig.go(waypoint="?").error_code == NavigateTo.Goal.UNKNOWN_WAYPOINT, 15.0, "navigation")
            wait_until(lambda: rig.robot.drivers.drive(stop=threading.Event(), distance=0.01).ok, 15.0, "the drive driver")
            yield rig
        finally:
            processes.end()


@pytest.fixture
def rig(made: Rig) -> Rig:
    made.reset()
    return made


def test_a_goal_goes_to_nav2_and_its_velocity_through_the_gate(rig: Rig) -> None:
    result = rig.go(pose=Pose2D(1.5, 0.0, 0.3))
    assert result.ok and result.values["pose"]["pose"]["position"]["x"] == pytest.approx(1.5, abs=0.15), result
    assert rig.plant.world.x == pytest.approx(1.5, abs=0.2)
    asked = rig.nav2.goals[0].pose
    assert asked.header.frame_id == "map" and asked.pose.position.x == 1.5
    assert 2 * math.atan2(asked.pose.orientation.z, asked.pose.orientation.w) == pytest.approx(0.3)
    assert 0.9 < max(command.linear.x for _, command in rig.plant.commands) <= 1.0, "the gate's limit, not Nav2's"
    assert rig.go(waypoint="cornr").error_code == NavigateTo.Goal.UNKNOWN_WAYPOINT
    rig.pool.submit(rig.go, threading.Event(), waypoint="corner")
    wait_until(lambda: len(rig.nav2.goals) == 2, 2.0, "the waypoint at Nav2")
    assert (rig.nav2.goals[1].pose.pose.position.x, rig.nav2.goals[1].pose.pose.position.y) == (2.5, 1.5)
    rig.robot.call("halt")


def test_a_cancelled_goal_stops_the_base_even_if_nav2_sends_on(rig: Rig) -> None:
    stop = threading.Event()
    call = rig.going(stop)
    rig.nav2.moods.add("runaway")
    stop.set()
    result = call.result(0.5)
    assert result.cancelled and 0.0 < result.values["distance_left"] < 6.0
    wait_until(lambda: rig.plant.speed == 0.0, 0.7, "it is at rest")
    wait_until(lambda: rig.nav2.cancelled, 1.0, "Nav2 was told")
    began = len(rig.plant.commands)
    wait_until(lambda: len(rig.plant.commands) > began + 15, 2.0, "commands of the gate")
    assert all(command.linear.x == 0.0 for _, command in rig.plant.commands[began:]), "nobody asked for that goal"


def test_halt_operator_and_another_driver_end_or_keep_off_nav2s_goal(rig: Rig) -> None:
    call = rig.going()
    other = rig.robot.drivers.drive(stop=threading.Event(), distance=0.5)
    assert other.error_code == 443 and "another goal" in other.error_msg
    rig.robot.call("halt")
    assert call.result(1.0).error_code == NavigateTo.Goal.BASE_HALTED
    wait_until(lambda: rig.nav2.cancelled, 1.0, "Nav2 was told of the halt")
    rig.reset()
    call = rig.going()
    rig.robot.teleop.publish(Twist())
    result = call.result(1.0)
    assert result.error_code == NavigateTo.Goal.NAVIGATION_BUSY and "operator" in result.error_msg
    wait_until(lambda: rig.nav2.cancelled, 1.0, "Nav2 was told of the operator")


@pytest.mark.parametrize(
    ("code", "expected", "said"),
    [(208, 451, "no valid path"), (105, 452, "no progress"), (202, 453, "no transform"), (9999, 452, "9999")],
)
def test_why_nav2_gave_up_is_told_in_our_codes(rig: Rig, code: int, expected: int, said: str) -> None:
    rig.nav2.code = code
    result = rig.go(pose=Pose2D(1.0, 0.0, 0.0))
    assert result.error_code == expected and said in result.error_msg, result


@pytest.mark.parametrize(
    ("mood", "code", "said"),
    [
        ("inactive", int(CallCode.DRIVER_INACTIVE), "bt_navigator"),
        ("hangs", int(CallCode.DRIVER_LOST), "no feedback"),
        ("stuck", NavigateTo.Goal.BLOCKED, "no progress"),
    ],
)
def test_a_nav2_that_does_not_do_its_work_is_a_failure_in_bounded_time(rig: Rig, mood: str, code: int, said: str) -> None:
    rig.nav2.moods.add(mood)
    began = time.monotonic()
    result = rig.go(pose=Pose2D(3.0, 0.0, 0.0))
    assert result.error_code == code and said in result.error_msg, result
    assert time.monotonic() - began < 4.0
    if mood != "inactive":
        wait_until(lambda: rig.nav2.cancelled, 1.0, "the goal is cancelled at Nav2")


def test_a_goal_of_open_heading_ends_within_its_tolerance(rig: Rig) -> None:
    goal = NavigateTo.Goal(tolerance=1.0)
    goal.pose.pose.position.x, goal.pose.pose.orientation.w = 3.0, 0.0
    ends: list[tuple[GoalEnd, Any]] = []
    rig.robot.call_soon(lambda: rig.robot.goals.send(goal, on_end=lambda end, result: ends.append((end, result))))
    wait_until(lambda: ends, 8.0, "the end")
    assert ends[0][0] is GoalEnd.SUCCEEDED and 1.8 < ends[0][1].pose.pose.position.x < 2.4
    wait_until(lambda: rig.nav2.cancelled, 1.0, "Nav2 goes no further")


def test_a_goal_that_overtakes_the_news_that_the_operator_has_left_is_done(rig: Rig) -> None:
    rig.robot.teleop.publish(Twist())
    wait_until(lambda: rig.plant.teleop, 2.0, "an operator has the base")
    goal = NavigateTo.Goal(tolerance=0.5)
    goal.pose.pose.position.x, goal.pose.pose.orientation.w = 1.0, 0.0
    heard: list[str] = []
    ends: list[GoalEnd] = []
    rig.robot.call_soon(
        lambda: rig.robot.goals.send(goal, on_end=lambda end, _: ends.append(end), on_accepted=lambda: heard.append("accepted"))
    )
    wait_until(lambda: heard, 2.0, "the driver has the goal")
    rig.robot.call("release_teleop")
    wait_until(lambda: ends, 5.0, "the end")
    assert ends == [GoalEnd.SUCCEEDED]


def test_without_nav2_a_goal_says_what_to_start(namespace: str, file: Path, processes: Processes, host: Any) -> None:
    plant, robot = BasePlant(namespace, FlatWorld([])), Robot(namespace, RobotConfig.load(str(file)))
    host(plant, robot)
    processes.start("safety_gate", f"robot:={file}")
    processes.start("drivers", f"robot:={file}", "navigation:=nav2", "nav2_wait_s:=0.5")
    wait_until(lambda: plant.halted is False, 15.0, "the gate says that it is not halted")
    drivers = robot.drivers
    wait_until(lambda: drivers.navigate(stop=threading.Event(), waypoint="?").error_code == 450, 15.0, "navigation")
    result = drivers.navigate(stop=threading.Event(), waypoint="corner")
    assert result.error_code == CallCode.DRIVER_UNAVAILABLE, result
    assert f"{namespace}/navigate_to_pose" in result.error_msg and "start Nav2" in result.error_msg


def test_without_nav2_msgs_the_driver_does_not_start_and_says_what_to_install(file: Path, tmp_path: Path) -> None:
    (tmp_path / "nav2_msgs.py").write_text("raise ModuleNotFoundError(\"No module named 'nav2_msgs'\")")
    path = os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    words = ["--ros-args", "-p", f"robot:={file}", "-p", "navigation:=nav2"]
    ended = subprocess.run(
        [sys.executable, "-m", "ghostshell_ros.executables", "drivers", *words],
        cwd=ROOT,
        timeout=30.0,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == os.EX_CONFIG
    assert "needs nav2_msgs" in ended.stderr and "ros-jazzy-navigation2" in ended.stderr, ended.stderr
