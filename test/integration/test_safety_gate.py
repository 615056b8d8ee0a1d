# SPDX-License-Identifier: Apache-2.0
"""The safety gate as a process: what reaches the robot, whatever is asked for."""

from __future__ import annotations

import math
import os
import pwd
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ghostshell.srv import ControlHalt
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from bench.clearing import Clearing
from ghostshell_ros.halt_door import robots_here
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.qos import LATCHED, SET_POINTS
from ros_support import JOINTS, ROBOT, ROOT, Plant, Processes, ask, wait_until
from skill_kernel.roles import Role

SPEED = 2.0
PERIOD_S = 0.02
SILENCE_S = 0.5
OLD_S = 8.5
"""A gate older than this is the first of two."""


LOOK, HALT, CLEAR = ControlHalt.Request.LOOK, ControlHalt.Request.HALT, ControlHalt.Request.CLEAR


class Commander(RuntimeNode):
    """Sends joint commands at 50 Hz while `wish` is set, and calls the gate's services."""

    def __init__(self, namespace: str) -> None:
        super().__init__("commander", namespace=namespace)
        self.wish: dict[str, float] = {}
        self._publisher = self.create_publisher(JointState, "joint_command_in", SET_POINTS)
        self._halt = self.create_client(Trigger, "halt")
        self._clear = Clearing(self)
        self.anonymous_clear = self.create_client(Trigger, "clear_halt")
        self._control = self.create_client(ControlHalt, "control_halt")
        self.request = self.create_client(ControlHalt, "request_halt")
        self.causes: list[str] = []
        self.create_subscription(String, "halt_cause", lambda m: self.causes.append(m.data), LATCHED)
        self.steady_timer(PERIOD_S, self._send)

    def _send(self) -> None:
        if self.wish:
            self._publisher.publish(JointState(name=list(self.wish), position=list(self.wish.values())))

    def ready(self) -> bool:
        return bool(
            self._publisher.get_subscription_count() and self._halt.service_is_ready() and self._clear.service_is_ready()
        )

    def control(self, command: int, role: Role = Role.ANONYMOUS, *, proof: str = "", number: int = 0, cause: str = "") -> Any:
        """Ask as a role; with `proof`, bear that one instead."""
        request = signed(self, "control_halt", ControlHalt.Request(command=command, number=number, cause=cause), role)
        request.proof = proof or request.proof
        return ask(self, self._control, request, again_s=math.inf)

    def call(self, name: str) -> Any:
        client = {"halt": self._halt, "clear_halt": self._clear}[name]
        replies: list[Any] = []
        self.call_soon(lambda: client.call_async(Trigger.Request()).add_done_callback(replies.append))
        wait_until(lambda: replies, 5.0, f"reply of {name}")
        return replies[0].result()


@dataclass
class Rig:
    """One gate for the tests of this file: to start it takes longer than most of them. `reset` starts a killed one anew."""

    plant: Plant
    commander: Commander
    processes: Processes
    file: str
    gate: Any = None
    started_s: float = 0.0

    def reset(self) -> None:
        """Up, not halted, nobody commands, all joints at 0 and nothing remembered."""
        self.commander.wish = {}
        if self.gate is None or self.gate.poll() is not None:
            self.plant.halted, self.started_s = None, time.monotonic()
            self.gate = self.start()
            wait_until(lambda: self.plant.halted is not None, 15.0, "the gate says whether it is halted")
            wait_until(self.commander.ready, 10.0, "commander and gate see each other")
        else:
            halted = self.plant.halted
            self.plant.silent.set()  # after that set-points start anew from what is measured
            if halted:
                time.sleep(SILENCE_S + 0.1)  # nothing tells that it noticed the silence too
            wait_until(lambda: self.plant.halted, 2.0, "halted by the silence")
        self.plant.positions.update(dict.fromkeys(JOINTS, 0.0))
        self.plant.silent.clear()
        time.sleep(0.1)  # a few measurements
        self.commander.call("clear_halt")
        wait_until(lambda: self.plant.halted is False, 5.0, "the gate is not halted")
        self.plant.commands.clear()

    def start(self) -> Any:
        return self.processes.start("safety_gate", f"robot:={self.file}", f"measurement_timeout_s:={SILENCE_S}")


@pytest.fixture(scope="module")
def rig(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    namespace = f"/joints{os.getpid()}"
    file = tmp_path_factory.mktemp("gate") / "stub.yaml"
    file.write_text(ROBOT)
    made = Rig(Plant(namespace), Commander(namespace), Processes(namespace), str(file))
    with NodeHost([made.plant, made.commander]) as host:
        host.start()
        try:
            yield made
        finally:
            made.processes.end()


@pytest.fixture
def plant(rig: Rig) -> Plant:
    rig.reset()
    return rig.plant


@pytest.fixture
def commander(rig: Rig, plant: Plant) -> Commander:
    return rig.commander


def test_a_leap_is_walked_at_the_joints_speed(plant: Plant, commander: Commander) -> None:
    plant.positions["knee"] = 0.5
    time.sleep(0.1)  # a few measurements, so that the gate has seen the knee at 0.5
    commander.wish = {"knee": -7.0}
    wait_until(lambda: plant.positions["knee"] == -1.0, 5.0, "the knee at its lower limit, not beyond")
    knees = [command["knee"] for _, command in plant.commands]
    assert knees[0] == pytest.approx(0.5, abs=SPEED * 0.05 + 1e-6)
    assert min(knees) == -1.0
    duration = plant.commands[-1][0] - plant.commands[0][0]
    assert duration >= 1.5 / SPEED * 0.9
    assert all("hip" not in command for _, command in plant.commands)


def test_ghostshell_halt_reaches_the_gate_without_joining_the_graph(plant: Plant, commander: Commander) -> None:
    commander.wish = {"knee": 1.0}
    wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "the knee moves")
    name = commander.get_namespace().strip("/")
    done = subprocess.run(
        [ROOT / "ghostshell", "halt", "a test", "--robot", name], capture_output=True, text=True, timeout=10.0
    )
    held = plant.positions["knee"]
    assert done.stdout == f"{name}: halted; when it is safe to move again: ghostshell clear --robot {name}\n", done.stderr
    assert held < 1.0 and name in robots_here(os.environ["ROS_DOMAIN_ID"])
    wait_until(lambda: plant.halted, 1.0, "the gate says that it is halted")
    who = f"user {pwd.getpwuid(os.getuid()).pw_name} of this machine"
    assert commander.control(LOOK).message == f"halt was called by {who}: “a test”"
    time.sleep(0.2)
    assert plant.positions["knee"] == pytest.approx(held, abs=SPEED * PERIOD_S)


def test_a_command_that_is_not_a_number_moves_nothing(plant: Plant, commander: Commander) -> None:
    commander.wish = {"knee": math.nan, "hip": 0.4}
    time.sleep(0.2)
    commander.wish = {"tail": 0.3}
    time.sleep(0.2)
    assert plant.commands == []
    commander.wish = {"hip": 0.4}
    wait_until(lambda: plant.positions["hip"] == pytest.approx(0.4), 5.0, "the gate lives on")


def test_silence_of_the_commander_holds(plant: Plant, commander: Commander) -> None:
    commander.wish = {"knee": 1.0}
    wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "the knee moves")
    commander.wish = {}
    time.sleep(0.4)
    held = plant.positions["knee"]
    assert 0.1 < held < 1.0
    time.sleep(0.2)
    assert plant.positions["knee"] == held


def test_halt_stops_within_a_tenth_of_a_second_and_stays_until_cleared(plant: Plant, commander: Commander) -> None:
    commander.wish = {"knee": 1.0}
    wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "the knee moves")
    asked = time.monotonic()
    assert commander.call("halt").success
    wait_until(lambda: plant.halted, 1.0, "halted is told")
    assert time.monotonic() - asked < 0.5
    time.sleep(0.1)
    held = plant.positions["knee"]
    assert held < 1.0
    changes = [at for (at, one), (_, before) in zip(plant.commands[1:], plant.commands, strict=False) if one != before]
    assert changes[-1] - asked < 0.1
    time.sleep(0.2)
    assert plant.positions["knee"] == held
    assert commander.call("clear_halt").success
    wait_until(lambda: plant.positions["knee"] == 1.0, 5.0, "commands count again")


def test_a_late_listener_learns_that_it_is_halted(plant: Plant, commander: Commander, host: Callable[..., Any]) -> None:
    commander.call("halt")
    late = Plant(plant.get_namespace())
    late.silent.set()
    host(late)
    wait_until(lambda: late.halted, 5.0, "the latched state reaches a late subscriber")


def test_a_silent_sensor_halts_for_good(plant: Plant, commander: Commander) -> None:
    commander.wish = {"knee": 1.0}
    wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "the knee moves")
    plant.silent.set()
    wait_until(lambda: plant.halted, 2.0, "halted by the silence of joint_states")
    assert "nothing is heard of joint_states" in commander.call("clear_halt").message
    plant.silent.clear()
    held = plant.positions["knee"]
    time.sleep(0.2)
    assert plant.halted and plant.positions["knee"] == held


def test_who_proves_no_role_halts_but_clears_nothing(plant: Plant, commander: Commander) -> None:
    assert ask(commander, commander.anonymous_clear, Trigger.Request()).message == "was not halted"
    assert commander.control(HALT, cause="a child on the stairs").success
    wait_until(lambda: plant.halted, 1.0, "it is halted")
    said = "halt was called without a proof of role: “a child on the stairs”"
    assert commander.control(LOOK).message == said and commander.causes[-1] == said, "it says who and why"
    refused = ask(commander, commander.anonymous_clear, Trigger.Request())
    assert not refused.success and "anonymous may not clear a halt" in refused.message and "operator" in refused.message
    for role in (Role.ANONYMOUS, Role.VIEWER, Role.APPROVER):
        answer = commander.control(CLEAR, role)
        assert (answer.success, answer.error_code, answer.halted) == (False, ControlHalt.Request.NOT_PERMITTED, True)
    forged = commander.control(CLEAR, proof=f"operator {time.time():.3f} {'0' * 32} {'0' * 64}")
    assert not forged.success and "fits neither" in forged.message
    assert commander.control(CLEAR, Role.OPERATOR).success
    wait_until(lambda: plant.halted is False, 1.0, "cleared")


def test_the_service_for_reasons_halts_and_clears_nothing(plant: Plant, commander: Commander) -> None:
    for command, halted in ((LOOK, False), (HALT, True), (CLEAR, True)):
        request = signed(commander, "request_halt", ControlHalt.Request(command=command, cause="x" * 999), Role.OPERATOR)
        assert ask(commander, commander.request, request, again_s=math.inf).halted is halted
    cause = commander.control(LOOK).message
    assert cause.startswith("halt was called by operator: “xxx") and len(cause) < 350, "a long reason is cut"
    assert commander.control(CLEAR, Role.OPERATOR).success
    wait_until(lambda: commander.causes[-1] == "", 1.0, "nothing halts it any more")


def test_a_halt_by_safety_is_cleared_by_safety_alone(plant: Plant, commander: Commander) -> None:
    commander.control(HALT, Role.SAFETY)
    commander.call("halt")
    looked = commander.control(LOOK)
    assert (looked.halted, looked.holder) == (True, "safety") and "by safety" in looked.message
    assert not commander.control(CLEAR, Role.OPERATOR).success and plant.halted
    assert commander.control(CLEAR, Role.SAFETY).success
    wait_until(lambda: plant.halted is False, 1.0, "cleared by any client of the role")


def test_neither_a_repeated_nor_a_replayed_clear_clears_a_newer_halt(plant: Plant, commander: Commander) -> None:
    commander.call("halt")
    seen = commander.control(LOOK).number
    clear = ControlHalt.Request(command=CLEAR, number=seen)
    proof = signed(commander, "control_halt", clear, Role.OPERATOR).proof
    assert commander.control(CLEAR, proof=proof, number=seen).success
    commander.call("halt")
    replayed = commander.control(CLEAR, proof=proof, number=seen)
    assert not replayed.success and plant.halted
    repeated = commander.control(CLEAR, Role.OPERATOR, number=seen)
    assert not repeated.success and "newer halt" in repeated.message and plant.halted
    assert repeated.number == seen + 1, "a halt counts once"
    moved = commander.control(CLEAR, proof=signed(commander, "halt", clear, Role.OPERATOR).proof, number=repeated.number)
    assert not moved.success, "a proof for another service"
    assert commander.control(CLEAR, Role.OPERATOR, number=repeated.number).success


# Last, when the gate is old, and then no longer needed.


def test_a_second_gate_of_the_robot_ends_and_the_first_goes_on(plant: Plant, commander: Commander, rig: Rig) -> None:
    commander.call("halt")
    commander.call("clear_halt")  # neither change of its own may look like another gate
    time.sleep(max(0.0, rig.started_s + OLD_S - time.monotonic()))
    second = rig.start()
    wait_until(lambda: second.poll() is not None, 15.0, "the second gate ends")
    commander.wish = {"knee": 1.0}
    wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "the first gate still moves the knee")
    assert rig.gate.poll() is None


def test_a_killed_gate_leaves_the_robot_where_it_is(plant: Plant, commander: Commander, rig: Rig) -> None:
    commander.wish = {"knee": 1.0}
    wait_until(lambda: plant.positions["knee"] > 0.1, 5.0, "the knee moves")
    rig.gate.kill()
    rig.gate.wait()
    time.sleep(0.1)
    held = plant.positions["knee"]
    time.sleep(0.2)
    assert plant.positions["knee"] == held < 1.0
