# SPDX-License-Identifier: Apache-2.0
"""The drivers of a base as processes behind the gate, driven through the clients that skills use."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from base_plant import BasePlant, base_robot
from driver_kit import DriverKit
from flat_world import FlatWorld
from geometry_msgs.msg import Twist
from nav_msgs.msg import OccupancyGrid, Path
from std_msgs.msg import String
from std_srvs.srv import Trigger

from bench.clearing import Clearing
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import LATCHED, SET_POINTS
from ros_support import Processes, ask, wait_until
from skill_kernel.codes import CallCode
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import DriverResult, Pose2D

WALLS = [(2.0, -4.0, 2.0, 0.6), (4.0, -4.0, 4.0, 4.0), (-2.0, -4.0, -2.0, 4.0), (-2.0, -4.0, 4.0, -4.0), (-2.0, 4.0, 4.0, 4.0)]
"""A closed room with a wall in it that ends at y = 0.6; the waypoint `corner` lies behind it."""


class Robot(RuntimeNode):
    """The kernel's place: driver clients; and an operator."""

    def __init__(self, namespace: str, config: RobotConfig) -> None:
        super().__init__("kernel", namespace=namespace)
        self.drivers = DriverKit(self, config)
        self.maps: list[Any] = []
        self.plans: list[Any] = []
        self.create_subscription(OccupancyGrid, "map", self.maps.append, LATCHED)
        self.create_subscription(Path, "plan", self.plans.append, LATCHED)
        self.wishes: list[Any] = []
        self.create_subscription(Twist, "cmd_vel_in", self.wishes.append, SET_POINTS)
        self.teleop = self.create_publisher(Twist, "cmd_vel_teleop", SET_POINTS)
        self._triggers: dict[str, Any] = {n: self.create_client(Trigger, n) for n in ("halt", "release_teleop")}
        self._triggers["clear_halt"] = Clearing(self)

    def call(self, name: str) -> None:
        ask(self, self._triggers[name], Trigger.Request())


@dataclass
class Rig:
    """Gate, drivers and plant of one kind of base."""

    plant: BasePlant
    robot: Robot
    holonomic: bool
    drivers: subprocess.Popen[bytes]
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(4))

    def reset(self) -> None:
        self.plant.stuck.clear()
        self.plant.silent_odometry.clear()
        self.plant.world.walls = list(WALLS)
        wait_until(lambda: self.plant.speed == 0.0, 2.0, "it stands")
        self.robot.call("release_teleop")
        self.robot.call("clear_halt")
        wait_until(lambda: self.plant.halted is False, 2.0, "it is not halted")
        self.put(0.0, 0.0)
        self.plant.commands.clear()

    def put(self, x: float, y: float) -> None:
        self.plant.world.x, self.plant.world.y, self.plant.world.yaw = x, y, 0.0
        time.sleep(0.15)  # odometry and scan of the new place

    def drive(self, stop: threading.Event | None = None, **way: float) -> DriverResult:
        return self.robot.drivers.drive(stop=stop or threading.Event(), **way)


@pytest.fixture(scope="module", params=["legged", pytest.param("wheeled", marks=pytest.mark.slow)])
def made(request: pytest.FixtureRequest, ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    holonomic = request.param == "legged"
    namespace = f"/base{os.getpid()}_{request.param}"
    file = tmp_path_factory.mktemp("base") / "plant.yaml"
    file.write_text(base_robot(max_lateral=0.4 if holonomic else 0.0))
    processes = Processes(namespace)
    plant = BasePlant(namespace, FlatWorld(WALLS, holonomic=holonomic))
    robot = Robot(namespace, RobotConfig.load(str(file)))
    with NodeHost([plant, robot]) as host:
        host.start()
        processes.start("safety_gate", f"robot:={file}", "measurement_timeout_s:=3.0")
        base_drivers = processes.start(
            "drivers", f"robot:={file}", "blocked_s:=3.0", "no_path_s:=1.0", "stall_s:=1.0", "posture_s:=3.0"
        )
        try:
            wait_until(lambda: plant.halted is False, 15.0, "the gate says that it is not halted")

            def answered(call: Any) -> bool:
                return bool(call().error_code not in (132, 133))

            drivers, stop = robot.drivers, threading.Event()
            wait_until(lambda: answered(lambda: drivers.drive(stop=stop, distance=0.01)), 15.0, "the drive driver")
            wait_until(lambda: answered(lambda: drivers.navigate(stop=stop, waypoint="?")), 15.0, "navigation")
            wait_until(lambda: answered(lambda: drivers.set_posture("?", stop=stop)), 15.0, "the posture driver")
            yield Rig(plant, robot, holonomic, base_drivers)
        finally:
            processes.end()


@pytest.fixture
def rig(made: Rig) -> Rig:
    made.reset()
    return made


legged_only = pytest.mark.parametrize("made", ["legged"], indirect=True)
"""What does not depend on the kind of base is tried with one."""


def test_moves_end_where_they_should_and_tell_what_was_really_moved(rig: Rig) -> None:
    result = rig.drive(distance=0.8)
    assert result.ok, result
    assert result.values["distance"] == pytest.approx(rig.plant.world.x, abs=0.08) == pytest.approx(0.8, abs=0.1)
    result = rig.drive(turn=-math.pi / 2)
    assert result.ok and result.values["turn"] == pytest.approx(-math.pi / 2, abs=0.06)
    assert rig.plant.world.yaw == pytest.approx(-math.pi / 2, abs=0.1)
    result = rig.drive(lateral=0.3)
    if rig.holonomic:
        assert result.ok and result.values["lateral"] == pytest.approx(0.3, abs=0.05), result
    else:
        assert result.error_code == 442 and "sideways" in result.error_msg


@legged_only
def test_a_move_is_done_when_the_base_is_at_rest_and_fails_where_it_rolls_on(rig: Rig) -> None:
    rig.plant.carried = 0.15
    try:
        call = rig.pool.submit(rig.drive, distance=0.2)
        wait_until(lambda: rig.plant.world.x > 0.35, 5.0, "it rolls on beyond its goal")
        assert not call.done()
        rig.plant.carried = 0.0
        assert (result := call.result(2.0)).ok and result.values["distance"] == pytest.approx(rig.plant.world.x, abs=0.01)
        rig.plant.carried = 0.15
        result = rig.drive(distance=0.1)
        assert result.error_code == CallCode.DEADLINE and "still moves" in result.error_msg, result
    finally:
        rig.plant.carried = 0.0


@legged_only
def test_a_move_past_whose_end_odometry_jumps_is_not_said_to_be_done(rig: Rig) -> None:
    call = rig.pool.submit(rig.drive, distance=1.5)
    wait_until(lambda: rig.plant.world.x > 0.2, 3.0, "it moves")
    rig.plant.world.x += 3.0
    result = call.result(3.0)
    assert result.error_code == 441 and "it has jumped" in result.error_msg, result


def test_a_wall_in_the_way_is_a_failure_with_a_reason_in_bounded_time(rig: Rig) -> None:
    rig.put(1.0, -1.0)
    began = time.monotonic()
    result = rig.drive(distance=5.0)
    assert result.error_code == 440 and "ahead" in result.error_msg and " m away" in result.error_msg, result
    assert time.monotonic() - began < 12.0
    assert result.values["distance"] == pytest.approx(2.0 - 0.25 - 0.12 - 1.0, abs=0.1)
    assert rig.plant.world.clearance() > 0.05


@legged_only
def test_a_cancel_stops_at_once_and_a_second_goal_is_refused_meanwhile(rig: Rig) -> None:
    stop = threading.Event()
    call = rig.pool.submit(rig.drive, stop, distance=1.5)
    wait_until(lambda: rig.plant.world.x > 0.2, 3.0, "it moves")
    assert rig.drive(distance=0.5).error_code == 443
    away = rig.robot.drivers.navigate(stop=threading.Event(), waypoint="corner")
    assert away.error_code == 455 and "another goal" in away.error_msg, away
    stop.set()
    asked = time.monotonic()
    result = call.result(1.0)
    assert result.cancelled and 0.15 < result.values["distance"] < 1.4
    wait_until(lambda: rig.plant.speed == 0.0, 0.6, "it is at rest")
    assert time.monotonic() - asked < 0.6
    assert rig.drive(distance=0.05).ok, "the base is free again"


@legged_only
@pytest.mark.parametrize("first", ["drive", "navigate"])
def test_of_two_goals_taken_in_the_same_turn_one_steers_and_the_other_is_refused(rig: Rig, first: str) -> None:
    goals = {
        "drive": lambda: rig.drive(turn=1.5),
        "navigate": lambda: rig.robot.drivers.navigate(stop=threading.Event(), waypoint="corner"),
    }
    rig.robot.wishes.clear()
    os.kill(rig.drivers.pid, signal.SIGSTOP)
    try:
        ends: dict[str, Future[DriverResult]] = {}
        for name in sorted(goals, key=lambda name: name != first):
            ends[name] = rig.pool.submit(goals[name])
            time.sleep(0.1)
    finally:
        os.kill(rig.drivers.pid, signal.SIGCONT)
    results = {name: end.result(30.0) for name, end in ends.items()}
    (steered,) = (name for name, result in results.items() if result.ok)
    (refused,) = (result for result in results.values() if not result.ok)
    assert refused.error_code in (443, 455) and "another goal" in refused.error_msg, refused
    if steered == "drive":
        assert rig.plant.world.yaw == pytest.approx(1.5, abs=0.1)
        assert all(w.linear.x == w.linear.y == 0.0 for w in rig.robot.wishes), "nobody else steered"
    else:
        assert math.dist((rig.plant.world.x, rig.plant.world.y), (2.5, 1.5)) < 0.3


@legged_only
def test_halt_operator_and_a_dead_base_end_a_move_with_their_reason(rig: Rig) -> None:
    call = rig.pool.submit(rig.drive, distance=1.5)
    wait_until(lambda: rig.plant.world.x > 0.1, 3.0, "it moves")
    rig.robot.call("halt")
    assert call.result(1.0).error_code == 445
    assert rig.drive(distance=0.2).error_code == 445
    rig.reset()
    call = rig.pool.submit(rig.drive, distance=1.5)
    wait_until(lambda: rig.plant.world.x > 0.1, 3.0, "it moves")
    rig.robot.teleop.publish(Twist())
    result = call.result(1.0)
    assert result.error_code == 443 and "operator" in result.error_msg
    rig.robot.call("release_teleop")
    rig.plant.stuck.set()
    assert rig.drive(distance=0.5).error_code == 444
    rig.plant.stuck.clear()
    call = rig.pool.submit(rig.drive, distance=1.5)
    wait_until(lambda: rig.plant.speed > 0.1, 3.0, "it moves")
    rig.plant.silent_odometry.set()
    assert call.result(1.5).error_code == 441


# On wheels, test_navigation makes such a trip without nodes at each commit.
@pytest.mark.parametrize("made", ["legged", pytest.param("wheeled", marks=pytest.mark.slow)], indirect=True)
def test_navigation_goes_around_the_wall_and_shows_map_and_plan(rig: Rig) -> None:
    result = rig.robot.drivers.navigate(stop=threading.Event(), waypoint="corner")
    assert result.ok, result
    world = rig.plant.world
    assert math.dist((world.x, world.y), (2.5, 1.5)) < 0.3
    assert math.remainder(world.yaw - 1.57, 2 * math.pi) == pytest.approx(0.0, abs=0.1)
    assert world.clearance() > 0.0
    assert len(rig.robot.plans[-1].poses) >= 2
    wait_until(lambda: rig.robot.maps, 3.0, "a map")
    grid = rig.robot.maps[-1]
    cell = int((0.0 - grid.info.origin.position.y) / grid.info.resolution) * grid.info.width + int(
        (2.0 - grid.info.origin.position.x) / grid.info.resolution
    )
    assert grid.data[cell] > 50 and 0 <= grid.data[cell - 10] < 50


@legged_only
def test_navigation_says_in_bounded_time_why_it_cannot(rig: Rig) -> None:
    drivers, stop = rig.robot.drivers, threading.Event()
    unknown = drivers.navigate(stop=stop, waypoint="cornr")
    assert unknown.error_code == 450 and "'corner'" in unknown.error_msg
    assert drivers.navigate(stop=stop, pose=Pose2D(math.nan, 0.0, 0.0)).error_code == 454
    began = time.monotonic()
    outside = drivers.navigate(stop=stop, waypoint="outside")
    assert outside.error_code == 451 and time.monotonic() - began < 30.0, outside


@legged_only
def test_navigation_stops_when_it_is_cancelled(rig: Rig) -> None:
    stop = threading.Event()
    call = rig.pool.submit(rig.robot.drivers.navigate, stop=stop, pose=Pose2D(-1.0, 2.0, 0.0))
    wait_until(lambda: rig.plant.speed > 0.1, 5.0, "it moves")
    stop.set()
    assert call.result(1.0).cancelled
    wait_until(lambda: rig.plant.speed == 0.0, 0.6, "it is at rest")


@legged_only
def test_postures_are_waited_for_and_attitudes_are_for_a_standing_body(rig: Rig) -> None:
    drivers, stop = rig.robot.drivers, threading.Event()
    assert drivers.set_posture("sit", stop=stop).ok and rig.plant.posture == "sit"
    refused = drivers.set_posture("", stop=stop, pitch=0.2)
    assert refused.error_code == 462 and "stand" in refused.error_msg
    assert drivers.set_posture("sitt", stop=stop).error_code == 460
    rig.plant.attitudes.clear()
    assert drivers.set_posture("stand", stop=stop, pitch=0.2, duration=0.3).ok
    wait_until(lambda: rig.plant.attitudes[-1].y == pytest.approx(0.2, abs=0.01), 1.0, "the pitch")
    assert drivers.set_posture("sit", stop=stop).ok
    assert rig.plant.attitudes[-1].y == pytest.approx(0.0, abs=0.01), "a base keeps its attitude, but it is to sit level"
    assert drivers.set_posture("stand", stop=stop, pitch=0.2).ok and drivers.set_posture("", stop=stop).ok
    wait_until(lambda: rig.plant.attitudes[-1].y == pytest.approx(0.0, abs=0.01), 1.0, "level again")


@legged_only
def test_a_posture_of_which_nobody_tells_any_more_is_not_said_to_be_taken(rig: Rig) -> None:
    drivers, plant, stop = rig.robot.drivers, rig.plant, threading.Event()
    assert drivers.set_posture("stand", stop=stop).ok
    plant.call_soon(plant.destroy_publisher, plant._state)
    time.sleep(0.5)
    try:
        result = drivers.set_posture("stand", stop=stop)
        assert result.error_code == 462 and "no posture_state was heard" in result.error_msg, result
    finally:
        plant._state = plant.create_publisher(String, "posture_state", LATCHED)
        plant._state.publish(String(data=plant.posture))
    wait_until(lambda: drivers.set_posture("stand", stop=stop).ok, 10.0, "it is heard again")


@legged_only
def test_an_operator_and_a_halt_end_a_change_of_posture_and_hold_it_half_way(rig: Rig) -> None:
    drivers, plant, stop = rig.robot.drivers, rig.plant, threading.Event()
    assert drivers.set_posture("stand", stop=stop).ok

    def sitting(aim: str) -> Future[DriverResult]:
        call = rig.pool.submit(drivers.set_posture, aim, stop=stop)
        wait_until(lambda: plant.aim == aim and plant.way_s > 0.1, 3.0, f"on its way to {aim}")
        return call

    def held(call: Future[DriverResult], code: int) -> None:
        assert call.result(1.0).error_code == code
        way_s = plant.way_s
        time.sleep(0.4)
        assert plant.posture == "moving" and plant.way_s == way_s, "it stays where it was"

    call = sitting("sit")
    rig.robot.call("halt")
    held(call, 463)
    rig.robot.call("clear_halt")
    time.sleep(0.3)
    assert plant.posture == "moving", "nothing goes on by itself"
    call = sitting("stand")
    rig.robot.teleop.publish(Twist())
    held(call, 461)
    rig.robot.teleop.publish(Twist())
    refused = drivers.set_posture("sit", stop=stop)
    assert refused.error_code == 461 and "operator" in refused.error_msg
    rig.robot.call("release_teleop")
    rig.robot.call("clear_halt")
    call = sitting("lie")
    stop.set()
    assert call.result(1.0).cancelled
    held(call, 0)
    assert drivers.set_posture("stand", stop=threading.Event()).ok and plant.posture == "stand"
