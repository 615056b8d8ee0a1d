# SPDX-License-Identifier: Apache-2.0
"""Drivers as managed nodes: the manager brings them up, a dead one halts the robot and waits for the halt to be cleared."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from ghostshell.action import MoveJoints, ShowFace
from ghostshell.srv import ControlHalt
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from bench.clearing import Clearing
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from ghostshell_ros.runtime.lifecycle import HEARTBEAT_TOPIC, DriverState
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import DIAGNOSTICS as QOS
from ghostshell_ros.wire.qos import HEARTBEATS, LATCHED, LATCHED_BY_ANY
from ros_support import Plant, Processes, ask, wait_until
from skill_kernel.codes import CallCode

pytestmark = pytest.mark.faults

GATE, MANAGER = "safety_gate", "lifecycle_manager"
DRIVERS = "drivers"
NAMES = {"move_joints_driver", "speak_driver", "play_sound_driver", "show_face_driver"}


class Engineer(RuntimeNode):
    """Looks at the drivers' states and at /diagnostics, and does by hand what `ros2 lifecycle` does."""

    def __init__(self, namespace: str) -> None:
        super().__init__("engineer", namespace=namespace)
        self.states: dict[str, str] = {}
        self.drivers: dict[str, DriverState] = {}
        self.reports: dict[str, Any] = {}
        self.move = GoalClient(self, MoveJoints, "move_joints")
        self.face = GoalClient(self, ShowFace, "show_face")
        self.clear = Clearing(self)
        self.change = self.create_client(ChangeState, "show_face_driver/change_state")
        self.ask_state = self.create_client(GetState, "show_face_driver/get_state")
        self.gate = self.create_publisher(Bool, "halted", LATCHED_BY_ANY)
        self.create_subscription(DiagnosticArray, "driver_states", self._on_states, LATCHED)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, QOS)

    def _on_states(self, message: DiagnosticArray) -> None:
        self.drivers = {status.name: DriverState.of(status) for status in message.status}
        self.states = {name: driver.state for name, driver in self.drivers.items()}

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.hardware_id == self.get_namespace().strip("/"):
                self.reports[status.name.rpartition("/")[2]] = status

    def says(self, node: str) -> str:
        """Return the message of a node's diagnostics, empty before the first."""
        return str(self.reports[node].message) if node in self.reports else ""

    def all_are(self, state: str, names: set[str] = NAMES) -> bool:
        return {name for name, its in self.states.items() if its == state} == names

    def call(self, client: Any, request: Any) -> Any:
        return ask(self, client, request, again_s=math.inf)  # a transition asked for twice fails

    def set(self, transition: int) -> bool:
        return bool(self.call(self.change, ChangeState.Request(transition=Transition(id=transition))).success)

    def send(self, client: GoalClient, goal: Any) -> list[tuple[GoalEnd, Any]]:
        """Send as soon as the server answers; what comes into the list is how the goal ended."""
        ends: list[tuple[GoalEnd, Any]] = []

        def send() -> None:
            if client.server_is_ready():
                client.send(goal, on_end=lambda end, result: ends.append((end, result)))
            else:
                self.call_later(0.02, send)

        client.doubt()  # the server may be another process by now
        self.call_soon(send)
        return ends


def bend(knee: float, seconds: float) -> MoveJoints.Goal:
    point = JointTrajectoryPoint(positions=[knee])
    point.time_from_start.sec = int(seconds)
    return MoveJoints.Goal(trajectory=JointTrajectory(joint_names=["knee"], points=[point]))


@pytest.fixture
def engineer(namespace: str, host: Callable[..., Any]) -> Engineer:
    made = Engineer(namespace)
    host(made)
    return made


def start_drivers(processes: Processes, robot_file: str) -> Any:
    return processes.start(DRIVERS, f"robot:={robot_file}", "synthesiser:=timing", "player:=timing", "autostart:=false")


def test_a_dead_driver_halts_the_robot_and_comes_back_only_after_the_halt_is_cleared(
    processes: Processes, plant: Plant, engineer: Engineer, robot_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    processes.start(GATE, f"robot:={robot_file}")
    drivers = start_drivers(processes, robot_file)
    processes.start(MANAGER, f"robot:={robot_file}")
    wait_until(lambda: engineer.all_are("active"), 15.0, "the manager activated all four")
    ends = engineer.send(engineer.move, bend(0.9, 9))
    wait_until(lambda: plant.positions["knee"] > 0.02, 5.0, "it moves")
    os.kill(drivers.pid, signal.SIGKILL)
    killed_s = time.monotonic()
    wait_until(lambda: plant.halted, 3.0, "halted in mid-motion")
    assert time.monotonic() - killed_s < 2.0
    assert not [p for at, p in plant.commands if at > killed_s + 0.6 and p["knee"] > plant.positions["knee"] + 1e-6]
    wait_until(lambda: engineer.all_are("lost"), 2.0, "all four are lost")
    wait_until(lambda: "died" in engineer.says("lifecycle_manager"), 3.0, "/diagnostics says so")

    start_drivers(processes, robot_file)
    wait_until(lambda: engineer.all_are("unconfigured"), 10.0, "they are back")
    time.sleep(0.5)  # more than enough to be activated, if anybody did
    assert engineer.all_are("unconfigured") and plant.halted and not ends
    assert all("the robot is halted" in d.why and not d.coming_up for d in engineer.drivers.values())
    refused = engineer.send(engineer.move, bend(0.5, 1))
    wait_until(lambda: refused, 5.0, "the inactive driver's answer")
    assert refused == [(GoalEnd.REJECTED, None)]
    said = [line for line in capfd.readouterr().err.splitlines() if "move_joints is rejected" in line]
    assert "unconfigured" in said[0] and "ghostshell clear" in said[0], "the log says why, and what to do"

    engineer.call(engineer.clear, Trigger.Request())
    wait_until(lambda: engineer.all_are("active"), 3.0, "activated once the halt is cleared")
    done = engineer.send(engineer.move, bend(plant.positions["knee"] - 0.05, 1))
    wait_until(lambda: done, 5.0, "it moves again")
    assert done[0][0] is GoalEnd.SUCCEEDED


def test_a_driver_deactivated_by_a_person_ends_its_goals_halts_nothing_and_is_left_so(
    processes: Processes, plant: Plant, engineer: Engineer, robot_file: str
) -> None:
    processes.start(GATE, f"robot:={robot_file}")
    start_drivers(processes, robot_file)
    manager = processes.start(MANAGER)
    wait_until(lambda: engineer.all_are("active"), 15.0, "the manager activated all four")
    assert engineer.drivers["show_face_driver"].actions == (engineer.resolve_topic_name("show_face"),)
    ends = engineer.send(engineer.face, ShowFace.Goal(face="happy"))
    wait_until(lambda: "1" in _value(engineer, "show_face_driver", "goals running"), 5.0, "the face is shown")
    assert engineer.set(Transition.TRANSITION_DEACTIVATE)
    wait_until(lambda: ends, 3.0, "the running goal ends")
    ((end, result),) = ends
    assert (end, result.error_code) == (GoalEnd.ABORTED, CallCode.DRIVER_INACTIVE) and "deactivated" in result.error_msg
    time.sleep(1.2)
    assert engineer.states["show_face_driver"] == "inactive" and plant.halted is False
    assert "by hand" in engineer.drivers["show_face_driver"].why and not engineer.drivers["show_face_driver"].coming_up
    assert engineer.set(Transition.TRANSITION_ACTIVATE)
    wait_until(lambda: engineer.all_are("active"), 2.0, "activated by the person")

    # A manager that dies itself changes nothing, and its successor takes over what it finds.
    manager.kill()
    engineer.states.clear()
    processes.start(MANAGER)
    wait_until(lambda: engineer.all_are("active"), 8.0, "the new manager hears them all")
    assert plant.halted is False
    assert not engineer.set(Transition.TRANSITION_CONFIGURE), "an active node cannot be configured"
    assert engineer.call(engineer.ask_state, GetState.Request()).current_state.label == "active"


def test_nothing_is_activated_without_a_gate_that_is_not_halted(
    processes: Processes, engineer: Engineer, robot_file: str
) -> None:
    start_drivers(processes, robot_file)
    processes.start(MANAGER)
    wait_until(lambda: engineer.all_are("unconfigured"), 15.0, "the manager hears them")
    wait_until(lambda: all("hears no sensors" in d.why for d in engineer.drivers.values()), 5.0, "the engineer's gate is seen")
    assert all(d.coming_up for d in engineer.drivers.values()), "a call may wait for what is just starting"
    engineer.call_soon(engineer.gate.publish, Bool(data=True))
    wait_until(lambda: not any(d.coming_up for d in engineer.drivers.values()), 3.0, "nothing comes up while it is halted")
    time.sleep(0.3)
    assert engineer.all_are("unconfigured")
    wait_until(lambda: "halted" in engineer.says("lifecycle_manager"), 3.0, "and says what it waits for")
    engineer.call_soon(engineer.gate.publish, Bool(data=False))
    wait_until(lambda: engineer.all_are("active"), 3.0, "now it activates them")


def test_a_driver_that_is_shut_down_halts_the_robot_and_is_never_coming_up(
    processes: Processes, plant: Plant, engineer: Engineer, robot_file: str
) -> None:
    processes.start(GATE, f"robot:={robot_file}")
    start_drivers(processes, robot_file)
    processes.start(MANAGER, f"robot:={robot_file}")
    wait_until(lambda: engineer.all_are("active"), 15.0, "the manager activated all four")
    assert engineer.set(Transition.TRANSITION_ACTIVE_SHUTDOWN)
    wait_until(lambda: plant.halted, 3.0, "halted: an error in the driver ends in the same state")
    wait_until(lambda: engineer.states["show_face_driver"] == "finalized", 3.0, "the manager tells the state")
    assert "start it again" in engineer.drivers["show_face_driver"].why
    engineer.call(engineer.clear, Trigger.Request())
    wait_until(lambda: not plant.halted, 3.0, "cleared")
    time.sleep(0.5)
    ended = engineer.drivers["show_face_driver"]
    assert ended.state == "finalized" and "start it again" in ended.why and not ended.coming_up
    assert plant.halted is False and engineer.all_are("active", NAMES - {"show_face_driver"})


@pytest.mark.parametrize("state", ["errorprocessing", "finalized", "shuttingdown", "unconfigured"])
def test_each_way_out_of_active_but_deactivation_halts(
    processes: Processes, plant: Plant, engineer: Engineer, robot_file: str, state: str
) -> None:
    processes.start(GATE, f"robot:={robot_file}")
    processes.start(MANAGER)
    beats = engineer.create_publisher(DiagnosticStatus, HEARTBEAT_TOPIC, HEARTBEATS)
    beating = ["active"]
    engineer.call_soon(
        engineer.steady_timer, 0.1, lambda: beats.publish(DiagnosticStatus(name="own_driver", message=beating[-1]))
    )
    wait_until(lambda: engineer.states == {"own_driver": "active"} and plant.halted is False, 15.0, "all is well")
    beating.append(state)
    wait_until(lambda: plant.halted, 3.0, "halted")
    assert "person" not in engineer.drivers["own_driver"].why


def test_a_gate_that_has_gone_activates_nothing(processes: Processes, engineer: Engineer, robot_file: str) -> None:
    processes.start(MANAGER, f"robot:={robot_file}")
    wait_until(lambda: engineer.gate.get_subscription_count(), 15.0, "the manager listens to the gate")
    engineer.call_soon(engineer.gate.publish, Bool(data=False))
    said = "not active: move_joints_driver, speak_driver, play_sound_driver, show_face_driver"
    wait_until(lambda: engineer.says("lifecycle_manager") == said, 5.0, "the gate is heard, the drivers are not")
    engineer.call_soon(engineer.destroy_publisher, engineer.gate)
    start_drivers(processes, robot_file)
    wait_until(lambda: engineer.all_are("unconfigured"), 15.0, "the manager hears them")
    time.sleep(0.5)
    assert engineer.all_are("unconfigured")
    assert all("no safety gate" in d.why and d.coming_up for d in engineer.drivers.values())

    def start_gate() -> None:
        engineer.gate = engineer.create_publisher(Bool, "halted", LATCHED_BY_ANY)
        engineer.gate.publish(Bool(data=False))

    engineer.call_soon(start_gate)
    wait_until(lambda: engineer.all_are("active"), 5.0, "another gate is heard")


def test_a_gate_that_stalled_is_heard_again(processes: Processes, plant: Plant, engineer: Engineer, robot_file: str) -> None:
    engineer.call_soon(engineer.destroy_publisher, engineer.gate)
    gate = processes.start(GATE, f"robot:={robot_file}", "measurement_timeout_s:=0.0")
    processes.start(MANAGER, f"robot:={robot_file}")
    said = "not active: move_joints_driver, speak_driver, play_sound_driver, show_face_driver"
    wait_until(lambda: engineer.says("lifecycle_manager") == said, 10.0, "the gate is heard, the drivers are not")
    gate.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: "no safety gate" in engineer.says("lifecycle_manager"), 27.0, "the middleware forgets the gate")
    finally:
        gate.send_signal(signal.SIGCONT)
    wait_until(lambda: engineer.says("lifecycle_manager") == said, 8.0, "its latched state comes again")
    assert plant.halted is False


def halt_requests(engineer: Engineer) -> list[float]:
    """Serve `request_halt` and return the list of the times at which it is called."""
    asked: list[float] = []

    def halt(request: ControlHalt.Request, response: ControlHalt.Response) -> ControlHalt.Response:
        assert request.cause.startswith("lifecycle_manager: ") and "driver" in request.cause, "it says which driver was lost"
        asked.append(time.monotonic())
        response.success = True
        return response

    engineer.create_service(ControlHalt, "request_halt", halt)
    return asked


def test_a_loss_halts_also_a_gate_that_was_cleared_just_now_and_asks_no_more_than_needed(
    processes: Processes, engineer: Engineer, robot_file: str
) -> None:
    asked = halt_requests(engineer)
    engineer.call_soon(engineer.gate.publish, Bool(data=False))
    drivers = start_drivers(processes, robot_file)
    processes.start(MANAGER, f"robot:={robot_file}")
    wait_until(lambda: engineer.all_are("active"), 15.0, "the manager activated all four")
    engineer.call_soon(engineer.gate.publish, Bool(data=True))
    time.sleep(0.3)
    drivers.kill()
    wait_until(lambda: asked, 3.0, "the gate is asked, for the manager may not have heard of its clearing yet")
    engineer.call_soon(engineer.gate.publish, Bool(data=False))  # cleared before it was asked, and heard afterwards
    time.sleep(0.5)
    assert len(asked) > 1, "asked until the gate publishes that it is halted"
    start_drivers(processes, robot_file)
    wait_until(lambda: engineer.all_are("unconfigured"), 10.0, "they are back")
    time.sleep(0.5)
    assert engineer.all_are("unconfigured"), "and nobody activates them"
    engineer.call_soon(engineer.gate.publish, Bool(data=True))
    time.sleep(0.3)
    engineer.call_soon(engineer.gate.publish, Bool(data=False))
    wait_until(lambda: engineer.all_are("active"), 5.0, "a person cleared the halt")


def test_a_loss_under_a_halt_does_not_undo_its_clearing(processes: Processes, engineer: Engineer, robot_file: str) -> None:
    asked = halt_requests(engineer)
    engineer.call_soon(engineer.gate.publish, Bool(data=False))
    drivers = start_drivers(processes, robot_file)
    processes.start(MANAGER, f"robot:={robot_file}")
    wait_until(lambda: engineer.all_are("active"), 15.0, "the manager activated all four")
    engineer.call_soon(engineer.gate.publish, Bool(data=True))
    time.sleep(0.3)
    drivers.kill()
    wait_until(lambda: asked, 3.0, "the gate is asked")
    time.sleep(1.0)
    count = len(asked)
    assert count <= 2, "a gate that was halted before answers and publishes nothing"
    engineer.call_soon(engineer.gate.publish, Bool(data=False))
    start_drivers(processes, robot_file)
    wait_until(lambda: engineer.all_are("active"), 10.0, "activated once the halt is cleared")
    assert len(asked) == count


def _value(engineer: Engineer, node: str, key: str) -> str:
    report = engineer.reports.get(node)
    return next((pair.value for pair in report.values if pair.key == key), "") if report is not None else ""


def test_a_driver_without_a_manager_activates_itself_and_reports_its_health(processes: Processes, engineer: Engineer) -> None:
    processes.start(DRIVERS)
    ends = engineer.send(engineer.face, ShowFace.Goal(face="happy", duration_s=0.2))
    wait_until(lambda: ends, 10.0, "the goal's end")
    assert ends[0][0] is GoalEnd.SUCCEEDED

    def well() -> bool:  # a busy machine makes the report of the start-up a warning
        report = engineer.reports.get("show_face_driver")
        return report is not None and (report.level, report.message) == (b"\0", "active")

    wait_until(well, 10.0, "diagnostics without a warning")
    assert float(_value(engineer, "show_face_driver", "executor load [%]")) < 50
