# SPDX-License-Identifier: Apache-2.0
"""The safety gate of a base as a process: what reaches the base, whoever commands."""

from __future__ import annotations

import math
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from base_plant import BasePlant, base_robot
from flat_world import FlatWorld
from geometry_msgs.msg import Twist, TwistStamped, Vector3
from ghostshell.msg import ProcessArray, ProcessState
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Joy, LaserScan
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from bench.clearing import Clearing
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import LATCHED, LATCHED_BY_ANY, SET_POINTS
from ros_support import ROOT, Processes, Stranger, ask, saying, wait_until
from skill_kernel.events import Notice

WALL_X = 2.0
LAUNCHER = "import subprocess, sys; subprocess.run(sys.argv[1:])"


class Commander(RuntimeNode):
    """Says at 50 Hz what stands in `wishes` by topic, and calls services."""

    def __init__(self, namespace: str) -> None:
        super().__init__("commander", namespace=namespace)
        self.wishes: dict[str, tuple[float, float, float]] = {}
        self.pad: Any = None
        self.said = ""
        self.said_why: list[str] = []
        read_events(self, lambda event: self.said_why.append(event.error_msg), Notice)
        self.joy = self.create_publisher(Joy, "joy", SET_POINTS)
        self._topics = {n: self.create_publisher(Twist, f"cmd_vel_{n}", SET_POINTS) for n in ("in", "reflex", "teleop")}
        self.posture = self.create_publisher(String, "posture_in", SET_POINTS)
        self.attitude = self.create_publisher(Vector3, "attitude_in", SET_POINTS)
        self._triggers: dict[str, Any] = {n: self.create_client(Trigger, n) for n in ("halt", "release_teleop")}
        self._triggers["clear_halt"] = Clearing(self)
        self.steady_timer(0.02, self._send)

    def _send(self) -> None:
        if self.pad is not None:
            self.joy.publish(self.pad)
        if self.said:
            self.posture.publish(String(data=self.said))
        for topic, (forward, lateral, turn) in list(self.wishes.items()):
            message = Twist()
            message.linear.x, message.linear.y, message.angular.z = forward, lateral, turn
            self._topics[topic].publish(message)

    @property
    def why(self) -> str:
        """Return what the gate said last of its halts."""
        return self.said_why[-1] if self.said_why else ""

    def ready(self) -> bool:
        writers = [*self._topics.values(), self.posture, self.attitude]
        return all(w.get_subscription_count() for w in writers) and all(c.service_is_ready() for c in self._triggers.values())

    def call(self, name: str) -> Any:
        return ask(self, self._triggers[name], Trigger.Request())


@dataclass
class Rig:
    """One gate for all tests of this file: to start it takes longer than most of them."""

    plant: BasePlant
    commander: Commander
    gate: Any
    file: str

    def reset(self) -> None:
        """Everything as at the start: standing at the origin, nobody commands, not halted."""
        self.commander.wishes, self.commander.said = {}, ""
        self.plant.silent_scan.clear()
        self.plant.silent_odometry.clear()
        self.plant.ahead_s = 0
        self.plant.world.x = self.plant.world.y = self.plant.world.yaw = 0.0
        time.sleep(0.25)  # a scan and odometry, so that what was silent is heard again
        self.commander.call("release_teleop")
        self.commander.call("clear_halt")
        wait_until(lambda: self.plant.halted is False and self.plant.speed == 0.0, 3.0, "it stands, not halted")
        for seen in (self.plant.commands, self.plant.attitudes, self.plant.postures, self.commander.said_why):
            seen.clear()


@pytest.fixture(scope="module")
def rig(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    namespace = f"/gate{os.getpid()}"
    processes = Processes(namespace)
    file = tmp_path_factory.mktemp("gate") / "plant.yaml"
    file.write_text(base_robot())
    plant, commander = BasePlant(namespace, FlatWorld([(WALL_X, -5.0, WALL_X, 5.0)])), Commander(namespace)
    with NodeHost([plant, commander]) as host:
        host.start()
        gate = processes.start("safety_gate", f"robot:={file}", "measurement_timeout_s:=0.5")
        try:
            wait_until(lambda: plant.halted is False, 15.0, plant.meets_gate)
            wait_until(commander.ready, 10.0, "commander and gate see each other")
            wait_until(lambda: plant.commands, 5.0, "the gate sends velocities though nobody commands")
            yield Rig(plant, commander, gate, str(file))
        finally:
            processes.end()


@pytest.fixture
def plant(rig: Rig) -> BasePlant:
    rig.reset()
    return rig.plant


@pytest.fixture
def commander(rig: Rig, plant: BasePlant) -> Commander:
    return rig.commander


def test_it_stands_walks_and_stands_again_when_the_commander_falls_silent(plant: BasePlant, commander: Commander) -> None:
    assert plant.speed == 0.0
    commander.wishes = {"in": (9.0, 0.0, 0.0)}
    wait_until(lambda: plant.world.x > 0.3, 5.0, "it walks")
    commander.wishes = {}
    took = wait_until(lambda: plant.speed == 0.0, 1.0, "silence stops it")
    assert took < 0.35 and plant.halted is False
    assert max(c.linear.x for _, c in plant.commands) <= 1.0
    rate = len(plant.commands) / (plant.commands[-1][0] - plant.commands[0][0])
    assert 40 < rate < 60, f"velocities a second: {rate}"


def test_a_wall_stops_it_before_it_is_touched_and_lets_it_away(plant: BasePlant, commander: Commander) -> None:
    commander.wishes = {"in": (1.0, 0.0, 0.0)}
    wait_until(lambda: plant.world.x > WALL_X - 0.25 - 0.12 - 0.1, 8.0, "it comes near to the wall")
    time.sleep(0.3)
    assert 0.05 < plant.world.clearance() < 0.25
    commander.wishes = {"in": (-0.5, 0.0, 0.0)}
    wait_until(lambda: plant.world.clearance() > 0.4, 5.0, "it backs away")


def test_teleop_takes_over_gives_back_on_purpose_and_its_silence_halts(plant: BasePlant, commander: Commander) -> None:
    commander.wishes = {"in": (0.0, 0.0, 1.0)}
    wait_until(lambda: plant.turn > 0.9, 5.0, "the skill turns it")
    commander.wishes = {"in": (0.0, 0.0, 1.0), "reflex": (0.0, 0.0, 1.0), "teleop": (0.0, 0.0, -1.0)}
    wait_until(lambda: plant.turn < -0.9, 1.0, "the operator turns it")
    wait_until(lambda: plant.teleop, 1.0, "it is told that an operator has the base")
    commander.wishes = {"in": (0.0, 0.0, 1.0)}
    assert commander.call("release_teleop").success
    wait_until(lambda: plant.turn > 0.9, 2.0, "the skill has it again")
    assert plant.teleop is False and plant.halted is False
    commander.wishes = {"in": (0.0, 0.0, 1.0), "teleop": (0.0, 0.0, -1.0)}
    wait_until(lambda: plant.turn < -0.9, 1.0, "the operator turns it")
    commander.wishes = {"in": (0.0, 0.0, 1.0)}
    wait_until(lambda: plant.halted, 1.5, "the operator's silence halts")
    assert plant.speed == 0.0


def test_a_reflex_outranks_a_skill_only_while_it_speaks(plant: BasePlant, commander: Commander) -> None:
    commander.wishes = {"in": (0.0, 0.0, 1.0), "reflex": (0.0, 0.0, -1.0)}
    wait_until(lambda: plant.turn < -0.9, 5.0, "the reflex turns it")
    commander.wishes = {"in": (0.0, 0.0, 1.0)}
    wait_until(lambda: plant.turn > 0.9, 2.0, "the skill turns it")


def test_halt_rests_at_once_and_holds_posture_and_attitude_until_cleared(plant: BasePlant, commander: Commander) -> None:
    commander.wishes = {"in": (0.5, 0.0, 1.0)}
    wait_until(lambda: plant.speed > 1.0, 5.0, "it moves")
    asked = time.monotonic()
    assert commander.call("halt").success
    wait_until(lambda: plant.halted and plant.speed == 0.0, 1.0, "it is at rest")
    moving = [at for at, c in plant.commands if c.linear.x or c.angular.z]
    assert max(moving) - asked < 0.1
    commander.posture.publish(String(data="sit"))
    commander.attitude.publish(Vector3(y=0.3))
    time.sleep(0.3)
    assert plant.speed == 0.0 and plant.postures == [] and plant.attitudes == []
    assert commander.call("clear_halt").success
    wait_until(lambda: plant.speed > 1.0, 2.0, "commands count again")
    plant.postures.clear()
    commander.posture.publish(String(data="fly"))
    commander.posture.publish(String(data="sit"))
    wait_until(lambda: plant.postures == ["sit"], 2.0, "postures pass again, unknown ones never")


def test_a_change_of_posture_stays_half_way_when_halted(plant: BasePlant, commander: Commander) -> None:
    posture = "stand" if plant.aim == "sit" else "sit"
    commander.said = posture
    wait_until(lambda: plant.posture == "moving" and plant.way_s > 0.1, 3.0, "it is on its way")
    assert commander.call("halt").success
    way_s = plant.way_s
    time.sleep(0.4)
    assert plant.posture == "moving" and plant.way_s - way_s < 0.05, "within some ticks, and not after its own time-out"
    assert commander.call("clear_halt").success
    wait_until(lambda: plant.posture == posture, 3.0, "it goes on when it is told again")


def test_a_second_gate_relays_nothing_and_does_not_say_that_it_is_not_halted(rig: Rig, plant: BasePlant) -> None:
    """In a namespace of its own, where the first gate is a publisher whose state comes late."""
    namespace = f"{plant.get_namespace()}_twice"
    again, first = BasePlant(namespace, FlatWorld([])), Commander(namespace)
    halted = first.create_publisher(Bool, "halted", LATCHED)
    heard: list[bool] = []
    first.create_subscription(Bool, "halted", lambda m: heard.append(m.data), LATCHED_BY_ANY)
    first.wishes, first.said = {"in": (0.0, 0.0, 1.0), "teleop": (0.0, 0.0, 1.0)}, "sit"
    started = Processes(namespace)
    with NodeHost([again, first]) as host:
        host.start()
        second = started.start("safety_gate", f"robot:={rig.file}")
        try:
            wait_until(first.ready, 15.0, "the second gate hears and is heard")
            time.sleep(0.4)
            first.call_soon(halted.publish, Bool(data=True))
            wait_until(lambda: second.poll() is not None, 10.0, "it hears the first one and ends")
        finally:
            started.end()
    assert not again.commands and not again.postures and again.teleop is None and heard == [True]


@pytest.mark.parametrize("kind", [pytest.param(Twist, marks=pytest.mark.slow), TwistStamped])
def test_who_publishes_cmd_vel_passes_the_gate_below_every_skill(plant: BasePlant, commander: Commander, kind: type) -> None:
    with saying(Stranger(plant.get_namespace(), "cmd_vel", kind)):
        wait_until(lambda: plant.speed > 0.9, 5.0, "it goes ahead")
        commander.wishes = {"in": (0.0, 0.0, 1.0)}
        wait_until(lambda: plant.turn > 0.9 and plant.commands[-1][1].linear.x == 0.0, 2.0, "the skill outranks it")
        commander.wishes = {}
        wait_until(lambda: plant.world.x > WALL_X - 0.25 - 0.12 - 0.1, 8.0, "it comes near to the wall")
        time.sleep(0.3)
        assert plant.world.clearance() > 0.05 and plant.halted is False
        plant.world.x = 0.0
        commander.call("halt")
        wait_until(lambda: plant.halted, 1.0, "halted")
        here = plant.world.x
        time.sleep(0.3)
        assert plant.speed == 0.0 and plant.world.x == here
    assert max(c.linear.x for _, c in plant.commands) <= 1.0


def test_who_publishes_what_the_gate_sends_is_named_and_moves_nothing(plant: BasePlant, commander: Commander) -> None:
    with saying(Stranger(plant.get_namespace(), "cmd_vel_gated")):
        wait_until(lambda: plant.halted, 3.0, "the gate sees him")
        gone = plant.world.x
        wait_until(lambda: "cmd_vel_gated has more than one publisher" in commander.why, 2.0, "it says why")
        assert f"{plant.get_namespace()}/stranger" in commander.why
        answer = commander.call("clear_halt")
        assert not answer.success and "/stranger" in answer.message
        time.sleep(0.3)
        assert plant.halted and plant.world.x - gone < 0.1
    commander.call("clear_halt")


def test_two_odometries_and_a_clock_that_is_ahead_halt_with_the_reason(plant: BasePlant, commander: Commander) -> None:
    with saying(Stranger(plant.get_namespace(), "odom", Odometry)):
        wait_until(lambda: plant.halted, 3.0, "two publishers of odometry")
        wait_until(lambda: "odom has more than one publisher" in commander.why, 2.0, "the reason")
        assert "/base_plant" in commander.why and "/stranger" in commander.why
    wait_until(lambda: commander.call("clear_halt").success, 5.0, "he has gone")
    wait_until(lambda: plant.halted is False, 3.0, "cleared")
    plant.ahead_s = 3
    wait_until(lambda: plant.halted, 2.0, "both sensors from the future")
    wait_until(lambda: "3.0 s in the future" in commander.why and "/base_plant)" in commander.why, 2.0, "the reason")


def test_a_base_that_somebody_moves_past_the_gate_halts(plant: BasePlant, commander: Commander) -> None:
    plant.carried = 0.3
    took = wait_until(lambda: plant.halted, 6.0, "it moves though nobody has ordered it")
    plant.carried = 0.0
    wait_until(lambda: "motion that the gate did not order" in commander.why, 2.0, "the reason")
    assert took > 1.5, f"as long as a push it may; {commander.why}"


def test_an_attitude_passes_within_its_limits_and_not_in_a_leap(plant: BasePlant, commander: Commander) -> None:
    commander.attitude.publish(Vector3(y=3.0))
    wait_until(lambda: plant.attitudes and plant.attitudes[-1].y == pytest.approx(0.4), 3.0, "pitch at its limit")
    pitches = [a.y for a in plant.attitudes]
    steps = [b - a for a, b in zip(pitches, pitches[1:], strict=False)]
    assert max(steps) <= 1.5 * 0.05 + 1e-6 and max(pitches) <= 0.4 + 1e-9


def test_what_is_not_a_number_moves_nothing(plant: BasePlant, commander: Commander) -> None:
    commander.wishes = {"in": (math.nan, 0.0, 1.0), "reflex": (0.0, math.inf, 0.0)}
    time.sleep(0.3)
    assert all(c.angular.z == 0.0 and c.linear.x == 0.0 for _, c in plant.commands)


@pytest.mark.parametrize("sensor", ["scan", "odometry"])
def test_a_silent_sensor_halts_for_good(plant: BasePlant, commander: Commander, sensor: str) -> None:
    commander.wishes = {"in": (0.0, 0.0, 1.0)}
    wait_until(lambda: plant.speed > 0.9, 5.0, "it turns")
    silent = getattr(plant, f"silent_{sensor}")
    silent.set()
    wait_until(lambda: plant.halted, 2.0, f"halted by the silence of {sensor}")
    refused = commander.call("clear_halt")
    topic = {"scan": "scan", "odometry": "odom"}[sensor]
    assert not refused.success and f"still halted: nothing is heard of {topic};" in refused.message
    silent.clear()
    time.sleep(0.2)
    assert plant.halted and plant.speed == 0.0
    assert commander.call("clear_halt").success, "one measurement is enough"


def test_a_scan_that_gives_all_rays_one_angle_counts_as_silence(plant: BasePlant, commander: Commander) -> None:
    commander.wishes = {"in": (0.0, 0.0, 1.0)}
    wait_until(lambda: plant.speed > 0.9, 5.0, "it turns")
    plant.silent_scan.set()
    scan = LaserScan(range_min=0.05, range_max=8.0, ranges=[5.0] * 90)
    for _ in range(15):
        plant.call_soon(plant._scan.publish, scan)
        time.sleep(0.1)
    assert plant.halted and "scan silent" in commander.why, commander.why


def test_the_keyboard_drives_it_and_leaving_gives_it_back(plant: BasePlant, rig: Rig) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "ghostshell_ros.cli.main", "teleop", "--robot", plant.get_namespace()]
    process = subprocess.Popen(command, stdin=slave, stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        wait_until(lambda: plant.teleop, 15.0, "it has taken the base")
        os.write(master, b"w")
        wait_until(lambda: plant.world.x > 0.1, 3.0, "it drives")
        os.write(master, b"\x1b[Dx")
        assert process.wait(5.0) == 0
        wait_until(lambda: plant.teleop is False, 2.0, "it has given the base back")
    finally:
        process.kill()
        os.close(master)
        os.close(slave)
    time.sleep(0.6)
    assert plant.halted is False


class Tasks(RuntimeNode):
    """Tells of a task that waits for the base, and ends none."""

    def __init__(self, namespace: str) -> None:
        super().__init__("tasks", namespace=namespace)
        self.told = self.create_publisher(ProcessArray, "processes", LATCHED)
        self.told.publish(ProcessArray(processes=[ProcessState(process_id="a", instruction="walk forward 1 m")]))


def test_leaving_the_keyboard_asks_while_a_task_would_go_on(plant: BasePlant, rig: Rig) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "ghostshell_ros.cli.main", "teleop", "--robot", plant.get_namespace()]
    tasks, begun_m = Tasks(plant.get_namespace()), plant.world.x
    with NodeHost([tasks]) as host:
        host.start()
        process = subprocess.Popen(command, stdin=slave, stdout=subprocess.PIPE, cwd=ROOT)
        try:
            wait_until(lambda: plant.teleop, 15.0, "it has taken the base")
            wait_until(tasks.told.get_subscription_count, 5.0, "it hears of tasks")
            os.write(master, b"w")
            wait_until(lambda: abs(plant.world.x - begun_m) > 0.1, 3.0, "it drives, and has heard by then")
            assert process.stdout is not None
            os.write(master, b"q")
            while b"waiting: walk forward 1 m" not in (line := process.stdout.readline()):
                assert line
            assert b"y: give the base back" in process.stdout.readline() and process.poll() is None
            assert plant.teleop
            os.write(master, b"y\r")
            assert process.wait(5.0) == 0
            wait_until(lambda: plant.teleop is False, 2.0, "it has given the base back")
        finally:
            process.kill()
            os.close(master)
            os.close(slave)


def test_a_gamepad_drives_it_while_its_deadman_is_held(plant: BasePlant, commander: Commander, rig: Rig) -> None:
    started = Processes(plant.get_namespace())
    try:
        started.start("teleop")
        wait_until(commander.joy.get_subscription_count, 15.0, "the teleop node")
        buttons = ([0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 1], [0, 1, 0, 0, 1])
        up, held, released, halting = (Joy(axes=[0.0, 0.0, 0.0, 1.0], buttons=pressed) for pressed in buttons)

        def halted() -> bool:
            """Pressed again and again: that the pad is matched does not say that it is heard yet."""
            for pad in (halting, held):
                commander.pad = pad
                time.sleep(0.1)
            return bool(plant.halted)

        wait_until(halted, 15.0, "the halt button halts")
        time.sleep(0.3)
        commander.call("clear_halt")
        wait_until(lambda: plant.halted is False, 3.0, "not halted")
        time.sleep(0.3)
        assert plant.speed == 0.0, "a deadman counts once it was seen up"

        def press() -> None:
            commander.pad = up
            time.sleep(0.2)
            commander.pad = held
            wait_until(lambda: plant.turn > 0.9, 5.0, "it turns")

        press()
        commander.pad = released
        wait_until(lambda: plant.teleop is False and plant.speed == 0.0, 2.0, "given back")
        time.sleep(0.5)
        assert plant.teleop is False and plant.speed == 0.0, "the deadman that is still held takes nothing back"
        press()
        commander.pad = Joy(axes=[0.0, 0.0, 0.0, 1.0], buttons=[0, 0, 0, 0, 0])
        wait_until(lambda: plant.halted, 1.5, "let go, it halts")
    finally:
        commander.pad = None
        started.end()


def test_a_killed_gate_leaves_the_base_at_rest(plant: BasePlant, commander: Commander, rig: Rig) -> None:
    """The last one of this file: it takes the gate away."""
    commander.wishes = {"in": (0.0, 0.0, 1.0)}
    wait_until(lambda: plant.speed > 0.9, 5.0, "it turns")
    rig.gate.kill()
    rig.gate.wait()
    wait_until(lambda: plant.speed == 0.0, 0.5, "the base stops by itself")


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM, signal.SIGKILL])
def test_the_last_word_of_a_gate_that_is_ended_in_motion_is_zero(
    number: signal.Signals, rig: Rig, processes: Processes, namespace: str, host: Callable[..., Any]
) -> None:
    """SIGKILL is for its launcher."""
    plant, commander = BasePlant(namespace, FlatWorld([(WALL_X, -5.0, WALL_X, 5.0)])), Commander(namespace)
    host(plant, commander)
    launcher = [sys.executable, "-c", LAUNCHER] if number is signal.SIGKILL else []
    gate = processes.start("safety_gate", f"robot:={rig.file}", "measurement_timeout_s:=0.5", launcher=launcher)
    wait_until(lambda: plant.halted is False, 15.0, plant.meets_gate)
    wait_until(commander.ready, 10.0, "commander and gate see each other")
    commander.wishes = {"in": (0.5, 0.0, 0.0)}
    wait_until(lambda: plant.world.x > 0.1, 5.0, "it walks")

    pid = Path(f"/proc/{gate.pid}/task/{gate.pid}/children").read_text().strip() if launcher else gate.pid
    gate.send_signal(number)

    assert gate.wait(5.0) == (-number if launcher else 0)
    wait_until(lambda: not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes(), 2.0, "gone")
    wait_until(lambda: plant.commands[-1][1].linear.x == 0.0, 1.0, "the last velocity is zero")
