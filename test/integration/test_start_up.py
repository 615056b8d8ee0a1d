# SPDX-License-Identifier: Apache-2.0
"""A start that cannot work says so and touches nothing that runs; an instruction is given once the drivers have come up, and is
not kept back by those that do not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from sensor_msgs.msg import JointState

from ghostshell_ros.cli import doctor
from ghostshell_ros.cli.follow import QUIET_S, UNMANAGED_S, StartUp
from ghostshell_ros.runtime.lifecycle import LOST, DriverState
from ghostshell_ros.runtime.node import RuntimeNode
from ros_support import Processes, wait_until

SILENCE = "nobody publishes {}/joint_states, so nothing can move: start the robot's own node that does"

ACTIVE = DriverState("/kalos/speak_driver", "active")
COMING = DriverState("/kalos/drive_driver", "inactive", (), "it is being activated; ask again", True)


def test_a_robot_long_up_is_not_waited_for() -> None:
    start = StartUp(100.0)
    start.hear(100.1, 20.0, [ACTIVE])
    assert start.coming(100.1) == []


def test_a_driver_on_its_way_is_waited_for_and_named() -> None:
    start = StartUp(100.0)
    start.hear(100.1, 20.0, [ACTIVE, COMING])
    assert start.coming(160.0) == ["drive_driver"]
    start.hear(160.0, 160.0, [ACTIVE, DriverState("/kalos/drive_driver", "active")])
    assert start.coming(160.0 + QUIET_S) == []


@pytest.mark.parametrize("state", ["", "unconfigured", "configuring", "activating"])
def test_a_driver_that_was_not_yet_brought_up_is_waited_for_before_the_gate_was_heard(state: str) -> None:
    start = StartUp(100.0)
    start.hear(100.1, 20.0, [DriverState("/kalos/drive_driver", state, (), "no safety gate was heard; see whether it runs")])
    assert start.coming(160.0) == ["drive_driver"]


def test_while_the_states_change_another_driver_may_show_up() -> None:
    start = StartUp(100.0)
    start.hear(105.0, 105.0, [ACTIVE])
    assert start.coming(105.0 + QUIET_S / 2) == ["drivers"]
    assert start.coming(105.0 + QUIET_S) == []


def test_a_wrong_clock_of_the_robot_delays_by_no_more_than_the_quiet_time() -> None:
    start = StartUp(100.0)
    start.hear(105.0, 9e9, [ACTIVE])
    assert start.coming(105.0 + QUIET_S) == []


@pytest.mark.parametrize("state", [LOST, "inactive"])
def test_what_is_lost_or_was_deactivated_is_not_waited_for(state: str) -> None:
    start = StartUp(100.0)
    start.hear(100.1, 20.0, [ACTIVE, DriverState("/kalos/drive_driver", state, (), "for a reason")])
    assert start.coming(100.2) == []


def test_a_robot_without_a_manager_is_waited_for_a_moment() -> None:
    start = StartUp(100.0)
    assert start.coming(100.0 + UNMANAGED_S / 2) == ["drivers"]
    assert start.coming(100.0 + UNMANAGED_S) == []


def test_a_missing_servo_node_is_told_and_a_second_launch_touches_nothing(
    processes: Processes, namespace: str, robot_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    gate = processes.start("safety_gate", f"robot:={robot_file}")
    said = ""

    def told() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return SILENCE.format(namespace) in said

    wait_until(told, 20.0, "the gate misses joint_states")
    name = namespace.strip("/")
    launch = [sys.executable, "-m", "ghostshell_ros.cli.main", "launch", "robot", f"robot:={robot_file}", f"robot_name:={name}"]
    again = subprocess.run(launch, capture_output=True, text=True, timeout=30, check=False)
    assert again.returncode == 1 and not again.stdout and f"robot '{name}' already runs on this machine" in again.stderr
    findings = {text: level for level, text in doctor._network()}
    assert set(findings.values()) == {"ok"} and any(name in text for text in findings if text.startswith("robots that run"))
    assert gate.poll() is None and said.count("nobody publishes") == 1


def test_a_robot_whose_joints_are_measured_misses_nothing(
    processes: Processes, namespace: str, robot_file: str, host: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    servos = RuntimeNode("servos", namespace=namespace)
    states = servos.create_publisher(JointState, "joint_states", 10)
    host(servos)
    gate = processes.start("safety_gate", f"robot:={robot_file}")
    wait_until(lambda: states.get_subscription_count() > 0, 20.0, "the gate listens")
    heard: list[float] = []
    servos.call_later(3.0, lambda: heard.append(1.0))
    wait_until(lambda: bool(heard), 10.0, "the time has passed in which it would tell")
    assert gate.poll() is None and "nobody publishes" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("node", "parameter", "says"),
    [
        ("task_planner", "model:=gpt", "parameter model: 'gpt' names no model; use one of: anthropic"),
        ("task_planner", "model:=openai:gpt-4.1", "no key; set the environment variable OPENAI_API_KEY"),
        ("process_scheduler", "strategy:=strem", "is 'strem'; use one of closed_loop, "),
        ("action_planner", "prompt:=shrot", "is 'shrot'; use one of full, short"),
        ("action_planner", "dialect:=tools", "parameter dialect: the model offline calls no tools; use dialect:=xml"),
    ],
)
def test_a_node_that_cannot_work_ends_for_good(
    processes: Processes,
    node: str,
    parameter: str,
    says: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert processes.start(node, parameter).wait(timeout=30) == os.EX_CONFIG
    said = capfd.readouterr().err
    assert said.count(says) == 1 and "Traceback" not in said
