# SPDX-License-Identifier: Apache-2.0
"""A call of a driver that is known not to be active: refused at once with its state, or held until it has come up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from driver_kit import DriverKit
from ghostshell.action import ShowFace

from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.lifecycle import TOPIC, DriverState
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import LATCHED
from ros_support import wait_until
from skill_kernel.codes import CallCode
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import DriverResult

pytestmark = pytest.mark.slow


class Manager(RuntimeNode):
    """Serves the face itself, so that no goal is missed, and says of its driver what the test wants."""

    def __init__(self, namespace: str) -> None:
        super().__init__("manager", namespace=namespace)
        self.goals: list[Goal] = []
        self.inactive = ""
        self._server = GoalServer(self, ShowFace, "show_face", on_goal=self._on_goal, on_cancel=lambda goal: None)
        self._states = self.create_publisher(DiagnosticArray, TOPIC, LATCHED)

    def _on_goal(self, goal: Goal) -> None:
        self.goals.append(goal)
        goal.succeed(ShowFace.Result())

    def refuses_goals(self) -> str:
        return self.inactive

    def says(self, state: str, why: str = "", coming_up: bool = False, action: str = "show_face") -> None:
        driver = DriverState("show_face_driver", state, (self.resolve_topic_name(action),), why, coming_up)
        self.call_soon(self._states.publish, DiagnosticArray(status=[driver.status()]))


class Kernel(RuntimeNode):
    """The kernel's place."""

    def __init__(self, namespace: str) -> None:
        super().__init__("kernel", namespace=namespace)
        self.states: list[DriverState] = []
        self.drivers = DriverKit(self, RobotConfig.load("coco"))
        self.create_subscription(
            DiagnosticArray, TOPIC, lambda m: self.states.extend(DriverState.of(s) for s in m.status), LATCHED
        )

    def smile(self) -> DriverResult:
        return self.drivers.show_face("happy", stop=threading.Event())

    def heard(self, state: str) -> None:
        wait_until(lambda: self.states and self.states[-1].state == state, 10.0, f"the kernel hears of {state}")


@pytest.fixture
def both(namespace: str, host: Callable[..., Any]) -> tuple[Manager, Kernel]:
    manager, kernel = Manager(namespace), Kernel(namespace)
    host(manager, kernel)
    manager.says("active")
    kernel.heard("active")
    wait_until(lambda: kernel.smile().ok, 10.0, "the active driver is called")
    manager.goals.clear()
    return manager, kernel


@pytest.mark.parametrize(
    ("state", "why"), [("inactive", "the robot is halted; clear it"), ("lost", "it died or hangs; see its log")]
)
def test_a_driver_that_is_not_active_gets_no_goal_and_the_answer_says_why(
    both: tuple[Manager, Kernel], state: str, why: str
) -> None:
    manager, kernel = both
    manager.says(state, why)
    kernel.heard(state)
    asked_s = time.monotonic()
    refused = kernel.smile()
    assert time.monotonic() - asked_s < 0.3
    assert refused.error_code == CallCode.DRIVER_INACTIVE and not manager.goals
    assert refused.error_msg == f"show_face_driver takes no goal of show_face: it is {state}, because {why}"
    manager.says("active")
    kernel.heard("active")
    assert kernel.smile().ok


def test_a_call_is_held_while_its_driver_is_being_activated(both: tuple[Manager, Kernel]) -> None:
    manager, kernel = both
    manager.says("inactive", "it is being activated; ask again", coming_up=True)
    kernel.heard("inactive")
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(kernel.smile)
        time.sleep(0.2)
        assert not call.done() and not manager.goals
        manager.says("active")
        assert call.result(5.0).ok and len(manager.goals) == 1
        manager.says("inactive", "it is being activated; ask again", coming_up=True)
        kernel.heard("inactive")
        assert kernel.smile().error_code == CallCode.DRIVER_INACTIVE, "but not for ever"


def test_a_rejected_goal_says_what_to_do_also_before_the_drivers_state_is_heard(both: tuple[Manager, Kernel]) -> None:
    manager, kernel = both
    manager.inactive = "it is inactive"
    refused = kernel.smile()
    assert refused.error_code == CallCode.DRIVER_INACTIVE and not manager.goals
    assert "show_face takes no goal" in refused.error_msg and "ghostshell clear" in refused.error_msg


def test_another_drivers_state_does_not_count(both: tuple[Manager, Kernel]) -> None:
    manager, kernel = both
    manager.says("lost", "it died", action="speak")
    kernel.heard("lost")
    assert kernel.smile().ok
