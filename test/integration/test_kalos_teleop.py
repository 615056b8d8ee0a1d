# SPDX-License-Identifier: Apache-2.0
"""An operator takes the simulated Kalos in the middle of a walk and gives it back, or lets go of it."""

from __future__ import annotations

import math
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from skill_kernel.events import CallKind, NoticeKind, ProcessKind

pytest.importorskip("mujoco")

from geometry_msgs.msg import Twist
from ghostshell.msg import ProcessState
from ghostshell.srv import ControlProcess
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from ghostshell_ros import launcher
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import LATCHED, SET_POINTS
from pipeline_support import Observer
from ros_support import ROOT, Stranger, saying, wait_until

pytestmark = pytest.mark.slow

NAMESPACE = "kalos_teleop"
DRIVERS = {"base_driver", "posture_driver", "speak_driver", "play_sound_driver"}


class Operator(Observer):
    """Says instructions, and drives by the topic that a keyboard or a gamepad publishes."""

    def __init__(self) -> None:
        super().__init__(f"/{NAMESPACE}")
        self.driven: bool | None = None
        self.holds = threading.Event()
        """While it is set, the operator backs Kalos out of what it does, 20 times a second."""
        self.release = self.create_client(Trigger, "release_teleop")
        self._stick = self.create_publisher(Twist, "cmd_vel_teleop", SET_POINTS)
        self.create_subscription(Bool, "teleop_active", lambda m: setattr(self, "driven", m.data), LATCHED)
        self.steady_timer(0.05, self._drive)

    def _drive(self) -> None:
        if self.holds.is_set():
            message = Twist()
            message.linear.x = -0.3
            self._stick.publish(message)

    @property
    def x(self) -> float:
        assert self.pose is not None
        return self.pose[0]

    def up(self) -> bool:
        active = {name.rpartition("/")[2] for name, state in self.drivers.items() if state == "active"}
        services = all(c.service_is_ready() for c in (self.halt, self.clear_halt, self.release, self.control))
        return self.halted is False and active >= DRIVERS and self.servers_ready and self.pose is not None and services

    def takes(self) -> None:
        self.holds.set()
        wait_until(lambda: self.driven, 2.0, "it is told that an operator has the base")

    def gives_back(self) -> None:
        # First: what comes after the release would take the base again.
        self.holds.clear()
        answer = self.ask(self.release, Trigger.Request())
        assert answer.success and answer.message == "the base is given back"


@pytest.fixture(scope="module")
def kalos(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("kalos")
    operator = Operator()

    def listen(event: launcher.Event) -> None:
        if not event.level:
            print(f"[{event.name}] {event.text}")  # pytest shows it where the test fails

    with pytest.MonkeyPatch.context() as patch, NodeHost([operator]) as host:
        patch.setenv("GHOSTSHELL_DATA", str(folder))
        host.start()
        specs = launcher.describe(ROOT / "launch" / "kalos.launch.xml", {"robot_name": NAMESPACE})
        with launcher.LaunchRun(specs, listener=listen) as run:
            run.start()
            wait_until(operator.up, 60.0, "the robot is up")
            yield operator


@pytest.fixture
def operator(kalos: Operator) -> Iterator[Operator]:
    """Return the operator of a robot that stands idle at its start, or somewhere on its way."""
    yield kalos
    kalos.holds.clear()
    kalos.ask(kalos.release, Trigger.Request())
    kalos.ask(kalos.clear_halt, Trigger.Request())
    for process in kalos.processes:
        if process.status < ProcessState.SUCCESS:
            kalos.ask(kalos.control, ControlProcess.Request(process_id=process.process_id, command=ControlProcess.Request.STOP))
    wait_until(lambda: kalos.kernel and not kalos.kernel.running and not kalos.kernel.halted, 10.0, "nothing runs")


def begin(operator: Operator, instruction: str, function: str) -> tuple[str, float]:
    """Say it and wait until it walks; gives the process id and where it began."""
    start, since = operator.x, len(operator.events)
    process_id = operator.task(instruction).process_id
    operator.wait_event(CallKind.STARTED, 10.0, since, process_id=process_id, function=function)
    wait_until(lambda: abs(operator.x - start) > 0.4, 15.0, "it walks")
    return process_id, start


@pytest.mark.parametrize("topic", ["cmd_vel", "cmd_vel_in", "cmd_vel_gated"])
def test_a_stranger_on_a_topic_of_velocities_moves_it_within_its_limits_or_not_at_all(operator: Operator, topic: str) -> None:
    """3 m/s a hundred times a second, from the hallway's western end on; while halted it does not even sway."""
    start = operator.x
    with saying(Stranger(operator.get_namespace(), topic)):
        if topic == "cmd_vel_gated":
            wait_until(lambda: operator.halted, 3.0, "the gate has seen who sends in its place")
        else:
            wait_until(lambda: operator.x > start + 0.5, 8.0, "it walks")
            since, began = operator.x, time.monotonic()
            time.sleep(1.0)
            assert operator.x - since < 0.5 * (time.monotonic() - began) + 0.1
            operator.ask(operator.halt, Trigger.Request())
        wait_until(lambda: operator.halted, 1.0, "halted")
        time.sleep(1.0)
        here = operator.x
        time.sleep(1.5)
        assert operator.x == pytest.approx(here, abs=0.05), "halted, it stands whatever is said"
        assert topic != "cmd_vel_gated" or here - start < 0.3


def test_an_operator_preempts_a_walk_and_what_is_left_of_it_follows_when_he_gives_back(operator: Operator) -> None:
    process_id, start = begin(operator, "walk 1.5 m forward", "move_forward")
    operator.takes()
    state = operator.wait_status(process_id, ProcessState.PAUSED, 2.0)
    assert list(state.pause_causes) == ["teleop"], state
    taken = operator.x
    wait_until(lambda: operator.x < taken - 0.3, 5.0, "the operator backs it out")
    assert operator.wait_status(process_id, ProcessState.PAUSED).subsystems == []
    given = operator.x
    operator.gives_back()
    operator.wait_status(process_id, ProcessState.IN_PROGRESS, 2.0)
    operator.wait_event(ProcessKind.ENDED, 20.0, process_id=process_id)
    said = [(e.kind, e.error_code, e) for e in operator.of(process_id)]
    assert operator.wait_status(process_id, ProcessState.SUCCESS, 1.0), said
    assert operator.x - start == pytest.approx(1.5 - (taken - given), abs=0.3), "1.5 m were walked, and what the operator drove"
    assert operator.halted is False


def test_an_operator_who_lets_go_halts_the_robot(operator: Operator) -> None:
    process_id, _ = begin(operator, "walk 2 m forward", "move_forward")
    operator.takes()
    operator.wait_status(process_id, ProcessState.PAUSED, 2.0)
    since = len(operator.events)
    operator.holds.clear()
    wait_until(lambda: operator.halted, 1.5, "the gate halts")
    halted = operator.wait_event(NoticeKind.HALTED, 2.0, since)
    assert "deadman" in halted.error_msg, halted
    operator.wait_status(process_id, ProcessState.STOPPED, 5.0)
    resting = operator.x
    wait_until(lambda: operator.kernel and not operator.kernel.running, 5.0, "nothing runs")
    assert operator.x == pytest.approx(resting, abs=0.1)


@contextmanager
def keyboard() -> Iterator[tuple[int, list[bytes], subprocess.Popen[bytes]]]:
    """Run `ghostshell teleop` on a terminal; gives the terminal, what it shows, and the command."""
    terminal, its = pty.openpty()
    printed: list[bytes] = []

    def read() -> None:
        with suppress(OSError):
            while part := os.read(terminal, 4096):
                printed.append(part)

    threading.Thread(target=read, daemon=True).start()
    command = [sys.executable, "-m", "ghostshell_ros.cli.main", "teleop", "--robot", NAMESPACE]
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, start_new_session=True) as teleop:
        try:
            yield terminal, printed, teleop
        finally:
            teleop.kill()
            os.close(its)
            os.close(terminal)


@pytest.mark.parametrize(("key", "status"), [(b"y", ProcessState.IN_PROGRESS), (b"e", ProcessState.STOPPED)])
def test_who_leaves_the_keyboard_is_asked_what_becomes_of_the_walk_that_waits(
    operator: Operator, key: bytes, status: int
) -> None:
    process_id, _ = begin(operator, "patrol the hallway", "patrol")
    with keyboard() as (terminal, printed, teleop):
        operator.wait_status(process_id, ProcessState.PAUSED, 15.0)
        wait_until(lambda: b"m/s" in b"".join(printed), 5.0, lambda: f"it takes keys: {printed}")
        assert operator.pose is not None
        taken = operator.pose[:2]
        for _ in range(20):  # a key that is held
            os.write(terminal, b"s")
            time.sleep(0.1)
        assert math.dist(operator.pose[:2], taken) > 0.2, "it drives"
        os.write(terminal, b"q")
        wait_until(lambda: b"y: give the base back" in b"".join(printed), 3.0, lambda: f"it asks: {printed}")
        assert b"waiting: patrol the hallway" in b"".join(printed)
        time.sleep(1.5)
        state = operator.wait_status(process_id, ProcessState.PAUSED)
        assert list(state.pause_causes) == ["teleop"], "it waits for the answer"
        assert operator.driven and operator.halted is False
        os.write(terminal, key)
        assert teleop.wait(5.0) == 0
    operator.wait_status(process_id, status, 3.0)
    assert operator.halted is False and not operator.driven
    assert b"the base is given back" in b"".join(printed)


def test_a_patrol_goes_on_after_the_operator(operator: Operator) -> None:
    process_id, _ = begin(operator, "patrol the hallway", "patrol")
    operator.takes()
    operator.wait_status(process_id, ProcessState.PAUSED, 2.0)
    operator.gives_back()
    given = operator.x
    operator.wait_status(process_id, ProcessState.IN_PROGRESS, 2.0)
    wait_until(lambda: abs(operator.x - given) > 0.4, 15.0, "it goes on")
    state = operator.wait_status(process_id, ProcessState.IN_PROGRESS)
    assert not state.pause_causes and state.calls_done == state.calls_failed == 0, "the same call, not a new one"
