# SPDX-License-Identifier: Apache-2.0
"""CoCo and Kalos at the same time, from one launch file: each hears its own instructions and its own halt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ghostshell.action import RunTask
from nav_msgs.msg import Odometry
from std_srvs.srv import Trigger

from bench.clearing import Clearing
from ghostshell_ros import launcher
from ghostshell_ros.cli.follow import NODES, RobotClient
from ghostshell_ros.wire.qos import SENSORS
from ros_support import ROOT, wait_until
from skill_kernel.processes.process import ProcessStatus

pytestmark = pytest.mark.slow

UP_S = 60.0


class Robot(RobotClient):
    """One of the two, as its user sees it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.x = 0.0
        self.create_subscription(Odometry, "odom", self._on_odometry, SENSORS)
        self.halting = self.create_client(Trigger, "halt")
        self.clearing = Clearing(self)
        self.answers = self.up = False
        self.steady_timer(0.1, self._look)

    def _look(self) -> None:
        lacking = self.lacking()
        self.answers = not set(lacking) & set(NODES)
        self.up = not lacking and not self._halted

    def _on_odometry(self, message: Odometry) -> None:
        self.x = message.pose.pose.position.x

    def clear(self) -> None:
        """Two simulators that start at once leave each other too little of a small machine, and silent joints halt."""
        answered = threading.Event()

        def asked() -> bool:
            """Ask again: the gate may not know its new client yet, and its answer is lost."""
            self.call_soon(lambda: self.clearing.call_async(Trigger.Request()).add_done_callback(lambda _: answered.set()))
            return answered.wait(2.0)

        wait_until(self.clearing.service_is_ready, 10.0, "the gate")
        wait_until(asked, 15.0, "the gate's answer")

    def end(self, timeout_s: float) -> RunTask.Result:
        """Return how the task that was sent ended."""
        ends: list[RunTask.Result] = []

        def look() -> bool:
            while not self.inbox.empty():
                kind, item = self.inbox.get_nowait()
                if kind == "end":
                    ends.append(item)
            return bool(ends)

        wait_until(look, timeout_s, f"the end of the task of {self.get_namespace()}")
        return ends[0]


@pytest.fixture
def robots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: Callable[..., Any]) -> Iterator[tuple[Robot, Robot]]:
    monkeypatch.setenv("GHOSTSHELL_DATA", str(tmp_path))

    def listen(event: launcher.Event) -> None:
        if not event.level:
            print(f"[{event.name}] {event.text}")  # pytest shows it where the test fails

    with launcher.LaunchRun(launcher.describe(ROOT / "launch" / "two_robots.launch.xml", {}), listener=listen) as run:
        run.start()
        pair = Robot("coco"), Robot("kalos")
        host(*pair)
        for robot in pair:
            wait_until(lambda r=robot: r.answers, UP_S, f"{robot.get_namespace()} answers")
        for robot in pair:
            robot.clear()
        for robot in pair:
            wait_until(lambda r=robot: r.up, UP_S, f"{robot.get_namespace()} takes tasks")
        yield pair


def test_both_follow_their_own_instruction_at_once_and_a_halt_of_one_is_not_the_others(robots: tuple[Robot, Robot]) -> None:
    coco, kalos = robots
    coco.call_soon(coco.send, "nod twice")
    kalos.call_soon(kalos.send, "walk 50 cm forward")
    ends = [robot.end(40.0) for robot in robots]
    assert [ProcessStatus(end.status) for end in ends] == [ProcessStatus.SUCCESS] * 2, ends
    assert kalos.x > 0.4 and abs(coco.x) < 0.1
    kalos.call_soon(kalos.halting.call_async, Trigger.Request())
    coco.call_soon(coco.send, "nod")
    assert ProcessStatus(coco.end(20.0).status) is ProcessStatus.SUCCESS
    kalos.call_soon(kalos.send, "bark")
    assert ProcessStatus(kalos.end(20.0).status) is ProcessStatus.FAILED
