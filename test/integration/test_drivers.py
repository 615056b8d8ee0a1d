# SPDX-License-Identifier: Apache-2.0
"""The drivers as processes, driven through the clients that skills use."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from driver_kit import DriverKit
from rclpy.duration import Duration
from sensor_msgs.msg import Image
from std_msgs.msg import String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectoryPoint, MultiDOFJointTrajectory

from bench.clearing import Clearing
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import LATCHED
from ghostshell_ros.wire.values import time_message
from ros_support import JOINTS, ROBOT, Plant, Processes, wait_until
from skill_kernel.codes import CallCode
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import DriverResult


class Robot(RuntimeNode):
    """The kernel's place: driver clients, and the faces as they are shown."""

    def __init__(self, namespace: str, file: str) -> None:
        super().__init__("kernel", namespace=namespace)
        self.lost: list[str] = []
        self.drivers = DriverKit(self, RobotConfig.load(file), on_lost=self.lost.append)
        self.faces: list[str] = []
        self.images: list[Any] = []
        self.create_subscription(String, "face", lambda message: self.faces.append(message.data), LATCHED)
        self.create_subscription(Image, "face/image_raw", self.images.append, LATCHED)
        self.follow = GoalClient(self, FollowJointTrajectory, "joint_trajectory_controller/follow_joint_trajectory")
        self._halt = self.create_client(Trigger, "halt")
        self._clear = Clearing(self)

    def halt(self) -> None:
        self.call_soon(self._halt.call_async, Trigger.Request())

    def clear_halt(self) -> None:
        self.call_soon(self._clear.call_async, Trigger.Request())


@pytest.fixture
def alone(namespace: str, robot_file: str, host: Callable[..., Any]) -> Robot:
    """Return the kernel's place where there is nobody else, or whom the test starts."""
    made = Robot(namespace, robot_file)
    host(made)
    return made


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def all_ready(robot: Robot) -> None:
    seen = threading.Event()

    def look() -> None:
        if robot.drivers.ready():
            seen.set()
        else:
            robot.call_later(0.02, look)

    robot.call_soon(look)
    assert seen.wait(15.0), "the drivers were not discovered within 15 s"


@dataclass
class Rig:
    """Gate and drivers for all tests of this file: to start them takes longer than most of these. `reset` starts those
    anew that a test killed."""

    plant: Plant
    robot: Robot
    processes: Processes
    file: str
    running: dict[str, Any] = field(default_factory=dict)

    def reset(self) -> None:
        """Up and connected, not halted, all joints at 0, nothing remembered."""
        self.plant.blocked.clear()
        started = not (self._runs("gate") and self._runs("drivers"))
        if not self._runs("gate"):
            self.plant.halted = None
            self.running["gate"] = self.processes.start("safety_gate", f"robot:={self.file}")
        if not self._runs("drivers"):
            self.robot.faces.clear()
            self.robot.images.clear()
            self.running["drivers"] = self.processes.start(
                "drivers", f"robot:={self.file}", "synthesiser:=timing", "player:=timing"
            )
        wait_until(lambda: self.plant.halted is not None, 15.0, "the gate is up")
        all_ready(self.robot)
        self.robot.clear_halt()
        wait_until(lambda: self.plant.halted is False, 15.0, "the gate says that it is not halted")
        wait_until(self.robot.drivers.joint_positions, 5.0, "joint positions")
        if started or any(self.plant.positions.values()):
            wait_until(self._home, 15.0, "the joints are at 0")
        self.plant.commands.clear()
        self.robot.lost.clear()

    def _runs(self, name: str) -> bool:
        return name in self.running and self.running[name].poll() is None

    def _home(self) -> bool:
        """Send again while a driver that was just started still refuses."""
        return self.robot.drivers.move_joints(list(JOINTS), [0.6], [[0.0] * len(JOINTS)], stop=threading.Event()).ok


@pytest.fixture(scope="module")
def rig(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    namespace = f"/drivers{os.getpid()}"
    file = tmp_path_factory.mktemp("drivers") / "stub.yaml"
    file.write_text(ROBOT)
    made = Rig(Plant(namespace), Robot(namespace, str(file)), Processes(namespace), str(file))
    with NodeHost([made.plant, made.robot]) as host:
        host.start()
        try:
            yield made
        finally:
            made.processes.end()


@pytest.fixture
def robot(rig: Rig) -> Robot:
    rig.reset()
    return rig.robot


@pytest.fixture
def plant(rig: Rig, robot: Robot) -> Plant:
    return rig.plant


@pytest.fixture
def body(rig: Rig, robot: Robot) -> dict[str, Any]:
    """Return the processes of gate and drivers."""
    return rig.running


def test_a_trajectory_is_played_to_its_end(robot: Robot, plant: Plant) -> None:
    plant.commands.clear()
    started = time.monotonic()
    result = robot.drivers.move_joints(
        ["knee", "hip"], [0.3, 0.8], [[0.4, 0.0], [-0.2, 0.3]], stop=threading.Event(), tolerance_rad=0.02
    )
    took = time.monotonic() - started
    assert result.ok, result
    assert 0.75 < took < 1.5
    assert result.values["completed_s"] == pytest.approx(0.8, abs=0.001)
    assert plant.positions["knee"] == pytest.approx(-0.2, abs=0.02)
    assert max(command.get("knee", -9.0) for _, command in plant.commands) == pytest.approx(0.4, abs=0.08)
    assert robot.drivers.joint_positions()["hip"] == pytest.approx(0.3, abs=0.02)


def test_disjoint_joints_move_side_by_side_and_shared_ones_are_refused(
    robot: Robot, plant: Plant, pool: ThreadPoolExecutor
) -> None:
    started = time.monotonic()
    one: Future[DriverResult] = pool.submit(robot.drivers.move_joints, ["knee"], [0.8], [[0.5]], stop=threading.Event())
    two = pool.submit(robot.drivers.move_joints, ["hip"], [0.8], [[0.5]], stop=threading.Event())
    wait_until(lambda: plant.positions["knee"] > 0.05 and plant.positions["hip"] > 0.05, 3.0, "both move")
    clash = robot.drivers.move_joints(["neck", "hip"], [0.5], [[0.1, 0.1]], stop=threading.Event())
    assert (clash.ok, clash.error_code) == (False, 402)
    assert "hip" in clash.error_msg and "neck" not in clash.error_msg
    assert one.result(5).ok and two.result(5).ok
    assert time.monotonic() - started < 1.5, "they ran one after the other"
    assert robot.drivers.move_joints(["neck", "hip"], [0.5], [[0.1, 0.1]], stop=threading.Event()).ok


def test_a_stop_ends_the_call_within_a_fifth_of_a_second_and_the_gate_holds(
    robot: Robot, plant: Plant, pool: ThreadPoolExecutor
) -> None:
    stop = threading.Event()
    call = pool.submit(robot.drivers.move_joints, ["knee"], [2.0], [[1.0]], stop=stop)
    wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "the knee moves")
    stopped = time.monotonic()
    stop.set()
    result = call.result(5)
    assert time.monotonic() - stopped < 0.25
    assert result.cancelled and not result.ok
    assert 0.1 < result.values["completed_s"] < 1.9
    time.sleep(0.25)
    held = plant.positions["knee"]
    time.sleep(0.2)
    assert plant.positions["knee"] == held < 0.9


@pytest.mark.parametrize(
    ("joints", "times", "positions", "code", "word"),
    [
        (["tail"], [1.0], [[0.1]], 400, "tail"),
        (["knee"], [1.0], [[float("nan")]], 401, "nan"),
        (["knee"], [1.0, 0.5], [[0.1], [0.2]], 401, "0.5"),
        (["knee"], [1.0], [[0.1, 0.2]], 401, "2 positions"),
        (["knee"], [float("inf")], [[0.1]], CallCode.INVALID_ARGUMENT, "infinity"),
        ([], [], [], 401, "no joints"),
    ],
)
def test_what_cannot_be_played_says_why(robot: Robot, joints: Any, times: Any, positions: Any, code: int, word: str) -> None:
    result = robot.drivers.move_joints(joints, times, positions, stop=threading.Event())
    assert (result.ok, result.error_code) == (False, code), result
    assert word in result.error_msg


def follow(robot: Robot, goal: Any, cancel_when: Callable[[], object] = lambda: False) -> tuple[GoalEnd, Any, list[Any]]:
    """Send a FollowJointTrajectory as MoveIt does; return how it ended, its result and its feedback."""
    ends: list[tuple[GoalEnd, Any]] = []
    heard: list[Any] = []
    sent: list[Any] = []

    def send() -> None:
        if robot.follow.server_is_ready():
            on_end = lambda end, result: ends.append((end, result))  # noqa: E731
            sent.append(robot.follow.send(goal, on_end=on_end, on_feedback=heard.append))
        else:
            robot.call_later(0.02, send)

    robot.follow.doubt()
    robot.call_soon(send)
    wait_until(lambda: ends or cancel_when(), 8.0, "its end, or the time to cancel it")
    if not ends:
        sent[0].cancel()
        wait_until(lambda: ends, 1.0, "its cancel")
    return *ends[0], heard


def trajectory(joints: list[str], *points: tuple[float, list[float]], **fields: Any) -> Any:
    goal = FollowJointTrajectory.Goal(**fields)
    goal.trajectory.joint_names = joints
    for time_s, positions in points:
        point = JointTrajectoryPoint(positions=positions, time_from_start=Duration(seconds=time_s).to_msg())
        goal.trajectory.points.append(point)
    return goal


def test_a_planner_plays_a_trajectory_by_the_standard_action(robot: Robot, plant: Plant) -> None:
    goal = trajectory(
        ["hip", "knee"],
        (0.0, [0.0, 0.0]),
        (0.3, [0.1, 0.4]),
        (0.8, [0.3, -0.2]),
        path_tolerance=[JointTolerance(name="knee", position=0.8), JointTolerance(name="hip", position=-1.0)],
        goal_tolerance=[JointTolerance(name="knee", position=0.02)],
    )
    started = time.monotonic()
    end, result, heard = follow(robot, goal)
    assert (end, result.error_code) == (GoalEnd.SUCCEEDED, FollowJointTrajectory.Result.SUCCESSFUL), result.error_string
    assert 0.75 < time.monotonic() - started < 1.6
    assert plant.positions["knee"] == pytest.approx(-0.2, abs=0.02)
    assert max(command.get("knee", -9.0) for _, command in plant.commands) == pytest.approx(0.4, abs=0.08)
    told = heard[-1]
    assert told.joint_names == ["hip", "knee"] and len(told.desired.positions) == len(told.actual.positions) == 2
    assert told.error.positions[1] == pytest.approx(told.desired.positions[1] - told.actual.positions[1])

    goal = trajectory(["knee"], (0.2, [0.0]))
    goal.trajectory.header.stamp = time_message(robot.now_s() + 0.5)
    started = time.monotonic()
    assert follow(robot, goal)[0] is GoalEnd.SUCCEEDED
    assert 0.6 < time.monotonic() - started < 1.5, "it starts at its stamp"


@pytest.mark.parametrize(
    ("goal", "code", "word"),
    [
        (trajectory(["tail"], (1.0, [0.1])), -2, "tail"),
        (trajectory(["knee"], (1.0, [0.1]), goal_tolerance=[JointTolerance(name="hip", position=0.1)]), -2, "hip"),
        (trajectory(["knee"], (1.0, [0.1]), path_tolerance=[JointTolerance(name="knee", velocity=0.1)]), -1, "positions"),
        (trajectory(["knee"], (1.0, [1.5])), -1, "1.500 rad, outside of -1 to 1"),
        (trajectory(["knee"], (1.0, [0.0]), (1.1, [0.5])), -1, "5.00 rad/s"),
        (trajectory(["knee"]), -1, "no points"),
        (trajectory(["knee"], (1.0, [0.1]), multi_dof_trajectory=MultiDOFJointTrajectory(joint_names=["base"])), -2, "several"),
    ],
)
def test_a_trajectory_that_cannot_be_followed_is_refused_whole(
    robot: Robot, plant: Plant, goal: Any, code: int, word: str
) -> None:
    end, result, _ = follow(robot, goal)
    assert (end, result.error_code) == (GoalEnd.ABORTED, code) and word in result.error_string, result.error_string
    assert max(abs(at) for _, command in plant.commands for at in (0.0, *command.values())) < 1e-3, "nothing moved"


def test_tolerances_time_and_cancel_of_the_standard_action_are_honoured(robot: Robot, plant: Plant) -> None:
    late = trajectory(["knee"], (1.0, [0.1]))
    late.trajectory.header.stamp = time_message(robot.now_s() - 60.0)
    assert follow(robot, late)[1].error_code == FollowJointTrajectory.Result.OLD_HEADER_TIMESTAMP
    late.trajectory.header.stamp = time_message(robot.now_s() + 1e6)
    assert "of another clock" in follow(robot, late)[1].error_string
    end, result, _ = follow(robot, trajectory(["knee"], (3.0, [0.9])), cancel_when=lambda: plant.positions["knee"] > 0.1)
    assert end is GoalEnd.CANCELED
    time.sleep(0.25)
    held = plant.positions["knee"]
    time.sleep(0.2)
    assert plant.positions["knee"] == held < 0.8
    plant.blocked.set()
    near = [JointTolerance(name="knee", position=0.05)]
    end, result, _ = follow(robot, trajectory(["knee"], (1.5, [-0.9]), path_tolerance=near))
    assert (end, result.error_code) == (GoalEnd.ABORTED, FollowJointTrajectory.Result.PATH_TOLERANCE_VIOLATED)
    started = time.monotonic()
    goal = trajectory(["knee"], (0.3, [-0.2]), goal_tolerance=near, goal_time_tolerance=Duration(seconds=1.0).to_msg())
    end, result, _ = follow(robot, goal)
    assert (end, result.error_code) == (GoalEnd.ABORTED, FollowJointTrajectory.Result.GOAL_TOLERANCE_VIOLATED)
    assert 1.25 < time.monotonic() - started < 2.2 and "knee" in result.error_string


def test_a_body_that_errs_in_its_goal_is_told_so(robot: Robot) -> None:
    stop = threading.Event()
    with pytest.raises(ValueError, match="2 times but 1 rows"):
        robot.drivers.move_joints(["knee"], [1.0, 2.0], [[0.1]], stop=stop)
    with pytest.raises(TypeError, match="no field 'txt'; did you mean 'text'"):
        robot.drivers.parts.action("speak")(txt="hello", stop=stop)
    wrong = robot.drivers.parts.action("speak")(text=5, stop=stop)
    assert wrong.error_code == CallCode.INVALID_ARGUMENT and "text is 5; give a text" in wrong.error_msg


def test_a_call_ends_at_its_deadline_and_hears_feedback(robot: Robot) -> None:
    heard: list[Any] = []
    began = time.monotonic()
    result = robot.drivers.speak(
        "a rather long sentence " * 20, stop=threading.Event(), deadline_s=0.5, on_feedback=heard.append
    )
    assert (result.ok, result.cancelled, result.error_code) == (False, False, CallCode.DEADLINE), result
    assert "0.5 s" in result.error_msg and 0.5 <= time.monotonic() - began < 0.9
    assert 0 < result.values["spoken_chars"] < 100 and len(heard) >= 2
    assert heard[-1]["spoken_chars"] >= heard[0]["spoken_chars"]


def test_a_blocked_joint_is_not_reached(robot: Robot, plant: Plant) -> None:
    plant.blocked.set()
    result = robot.drivers.move_joints(["knee"], [0.2], [[0.5]], stop=threading.Event(), tolerance_rad=0.05)
    assert (result.ok, result.error_code) == (False, 404), result
    assert "knee" in result.error_msg


def test_halt_ends_running_motion_and_refuses_new_one(robot: Robot, plant: Plant, pool: ThreadPoolExecutor) -> None:
    call = pool.submit(robot.drivers.move_joints, ["knee"], [3.0], [[1.0]], stop=threading.Event())
    wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "the knee moves")
    robot.halt()
    asked = time.monotonic()
    result = call.result(3)
    assert (result.ok, result.error_code, result.cancelled) == (False, 403, False)
    assert time.monotonic() - asked < 0.5
    assert robot.drivers.move_joints(["knee"], [0.2], [[0.0]], stop=threading.Event()).error_code == 403


def test_an_absent_driver_is_reported_soon(alone: Robot) -> None:
    started = time.monotonic()
    result = alone.drivers.speak("hello", stop=threading.Event())
    assert (result.ok, result.error_code) == (False, CallCode.DRIVER_UNAVAILABLE), result
    assert "/speak" in result.error_msg and not alone.lost, "what never was is not lost"
    assert time.monotonic() - started < 1.0


def test_a_stop_while_looking_for_the_driver_ends_the_call(alone: Robot, pool: ThreadPoolExecutor) -> None:
    stop = threading.Event()
    call = pool.submit(alone.drivers.speak, "hello", stop=stop)
    stop.set()
    assert call.result(0.4).cancelled


def test_without_a_gate_nothing_is_played(processes: Processes, alone: Robot, robot_file: str) -> None:
    processes.start("drivers", f"robot:={robot_file}", "gate_wait_s:=0.2")
    all_ready(alone)
    result = alone.drivers.move_joints(["knee"], [0.2], [[0.1]], stop=threading.Event())
    assert (result.ok, result.error_code) == (False, 403), result
    assert "safety gate" in result.error_msg


def test_speech_takes_its_time_and_tells_how_far_it_came(robot: Robot, pool: ThreadPoolExecutor) -> None:
    started = time.monotonic()
    assert robot.drivers.speak("你好", stop=threading.Event()).values == {"spoken_chars": 2}
    assert 0.45 < time.monotonic() - started < 1.0
    stop = threading.Event()
    long = pool.submit(robot.drivers.speak, "a rather long sentence " * 20, stop=stop)
    wait_until(lambda: robot.drivers.speak("no", stop=threading.Event()).error_code == 410, 3.0, "it is busy")
    stop.set()
    result = long.result(1)
    assert result.cancelled and 0 <= result.values["spoken_chars"] < 200


def test_faces_lie_on_each_other(robot: Robot, pool: ThreadPoolExecutor) -> None:
    wait_until(lambda: robot.faces == ["neutral"], 5.0, "the face at rest, latched")
    stop = threading.Event()
    happy = pool.submit(robot.drivers.show_face, "happy", stop=stop)
    wait_until(lambda: robot.faces[-1] == "happy", 3.0, "happy")
    assert robot.drivers.show_face("surprise", stop=threading.Event(), duration_s=0.2).ok
    wait_until(lambda: robot.faces[-1] == "happy", 1.0, "the face before comes back")
    stop.set()
    assert happy.result(1).cancelled
    wait_until(lambda: robot.faces[-1] == "neutral", 1.0, "the face at rest comes back")
    assert robot.faces == ["neutral", "happy", "surprise", "happy", "neutral"]
    assert len({bytes(image.data) for image in robot.images}) == 3
    unknown = robot.drivers.show_face("hapy", stop=threading.Event())
    assert unknown.error_code == 430 and "'happy'" in unknown.error_msg


def test_sounds_play_to_their_end_or_until_stopped(robot: Robot, pool: ThreadPoolExecutor) -> None:
    assert robot.drivers.play_sound("beep", stop=threading.Event()).ok
    stop = threading.Event()
    loop = pool.submit(robot.drivers.play_sound, "beep", stop=stop, loop=True)
    with pytest.raises(TimeoutError):
        loop.result(1.0)
    stop.set()
    assert loop.result(1).cancelled
    assert robot.drivers.play_sound("no such tune", stop=threading.Event()).error_code == 420


def test_the_synthesiser_gets_the_text_verbatim_and_dies_with_the_cancel(
    processes: Processes, alone: Robot, robot_file: str, tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    """A stand-in for espeak-ng that notes its input and starts a child, which must die with it."""
    script = tmp_path / "espeak-ng"
    script.write_text(
        f'#!/bin/sh\ncat > {tmp_path}/said\necho "$@" > {tmp_path}/arguments\nsleep 60 & echo $! > {tmp_path}/child\nwait\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    processes.start("drivers", f"robot:={robot_file}", "synthesiser:=espeak", env={"PATH": path})
    all_ready(alone)
    text = "-v --help; $(touch pwned) `id` 'quote\" \n你好"
    stop = threading.Event()
    call = pool.submit(alone.drivers.speak, text, stop=stop, voice="--path=/etc", rate=2.0)
    wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip(), 5.0, "it speaks")
    child = int((tmp_path / "child").read_text())
    stop.set()
    assert call.result(1).cancelled
    assert (tmp_path / "said").read_text() == text
    assert (tmp_path / "arguments").read_text().split() == "--stdin -b 1 -v cmn -s 300 -a 100".split()

    def gone() -> bool:
        try:
            return Path(f"/proc/{child}/stat").read_text().split()[2] == "Z"
        except FileNotFoundError:
            return True

    wait_until(gone, 2.0, "the synthesiser's child is gone")


# Last, because who is killed must be started anew.


def test_a_killed_gate_ends_the_motion(robot: Robot, body: dict[str, Any], plant: Plant, pool: ThreadPoolExecutor) -> None:
    call = pool.submit(robot.drivers.move_joints, ["knee"], [5.0], [[1.0]], stop=threading.Event())
    wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "the knee moves")
    body["gate"].kill()
    body["gate"].wait(5)
    result = call.result(2)
    assert (result.ok, result.error_code) == (False, 403), result
    assert plant.positions["knee"] < 0.9


def test_a_killed_driver_is_lost_within_a_second_and_the_robot_holds(
    robot: Robot, body: dict[str, Any], plant: Plant, pool: ThreadPoolExecutor
) -> None:
    call = pool.submit(robot.drivers.move_joints, ["knee"], [5.0], [[1.0]], stop=threading.Event())
    wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "the knee moves")
    body["drivers"].kill()
    body["drivers"].wait(5)
    killed = time.monotonic()
    result = call.result(3)
    assert (result.ok, result.error_code) == (False, CallCode.DRIVER_LOST), result
    assert time.monotonic() - killed < 1.0
    assert "move_joints" in result.error_msg and robot.lost == [result.error_msg]
    held = plant.positions["knee"]
    assert held < 0.9
    again = time.monotonic()
    assert robot.drivers.speak("hello", stop=threading.Event()).error_code == CallCode.DRIVER_UNAVAILABLE
    assert time.monotonic() - again < 1.3
    assert plant.positions["knee"] == held
