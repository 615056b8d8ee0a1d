# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each node while an arm takes hold of a cup: the cup is not thrown, the arm holds still or ends what it does, the
call ends once, and what the hand holds is told. The driver is killed in test_arms.py."""

from __future__ import annotations

import math
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

pytest.importorskip("mujoco")

from geometry_msgs.msg import PoseStamped
from ghostshell.msg import ProcessState
from std_msgs.msg import String

from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import LATCHED, SENSORS
from kill_support import Walk, Way, came_back, ended, walking
from pipeline_support import BroughtUp, Observer, brought_up
from ros_support import Processes, wait_until
from skill_kernel.codes import Outcome
from team_support import UP_S, Person, outcome, relay_installed

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

TAKE = Way("pick up the cup from the table", "pick_from", lambda watch, since_s: True)
PUT = "put it on the table"
CLOSING_M, LIFTED_M, THROWN_MPS = 0.038, 0.76, 0.6
"""Where a finger is that closes, height of a cup that is off the table, and what is faster than an arm carries."""
HELD = {"cup": "holding cup", "": "with an empty hand"}
DEED_S = 60.0
APART = ("observer", "lifecycle_manager", "memory", "reflexes", "token_parser", "action_planner", "process_scheduler")
NODES = {*APART, "channel_scheduler", "task_planner", "safety_gate", "skill_kernel", "move_joints_driver"} - {"memory"}


class Table(Observer):
    """Hears also where the cup is and what the hand is said to hold."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.hand: str | None = None
        self.cup: list[tuple[float, tuple[float, float, float]]] = []
        """Time in the simulator's clock [s] and position [m]."""
        self.create_subscription(String, "hand", lambda m: setattr(self, "hand", m.data), LATCHED)
        self.create_subscription(PoseStamped, "ground_truth/cup", self._on_cup, SENSORS)

    def _on_cup(self, message: PoseStamped) -> None:
        stamp, at = message.header.stamp, message.pose.position
        self.cup.append((stamp.sec + 1e-9 * stamp.nanosec, (at.x, at.y, at.z)))

    def fastest(self, since: int) -> float:
        """Return how fast the cup was at most, from one measurement to the next [m/s]."""
        pairs = zip(self.cup[since:], self.cup[since + 1 :], strict=False)
        return max((math.dist(a, b) / (t - s) for (s, a), (t, b) in pairs if t > s), default=0.0)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[tuple[BroughtUp, subprocess.Popen[bytes]]]:
    name = f"t{os.getpid()}_{uuid.uuid4().hex[:6]}"
    processes = Processes(f"/{name}")
    sim = processes.start("sim", "robot:=atlas", "world:=kitchen", "start:=''", "film:=overview", "camera:=table_camera")
    try:
        with brought_up(
            tmp_path_factory.mktemp("arm"),
            launch="robot",
            nodes=NODES,
            observer_class=Table,
            robot="atlas",
            robot_name=name,
            composed="false",
            memory="true",
            page="false",
        ) as robot:
            yield robot, sim
    finally:
        processes.end()


def grasping(robot: BroughtUp) -> Walk:
    """Return a task whose hand closes about the cup; on a busy machine an arm that comes too late gives up, and tries again."""
    watch = robot.observer
    for _ in range(3):
        put_down(watch)
        walk = walking(robot, TAKE)
        closing = lambda ends=walk.ends: watch.joints["left"] < CLOSING_M or ends(watch)  # noqa: E731
        wait_until(closing, DEED_S, "its fingers close")
        if not walk.ends(watch):
            return walk
    pytest.fail(f"its fingers do not close, three times: {walk.ends(watch)[0]}")


def put_down(watch: Table) -> None:
    if watch.hand == "cup":
        watch.task(PUT).result(DEED_S)


def at_rest(watch: Table) -> None:
    """Wait until no joint moves while the cup is looked at ten times."""
    looks, joints = len(watch.cup), dict(watch.joints)

    def still() -> bool:
        nonlocal looks, joints
        if max(abs(watch.joints[joint] - at) for joint, at in joints.items()) > 0.03:
            looks, joints = len(watch.cup), dict(watch.joints)
        return len(watch.cup) > looks + 10

    wait_until(still, 20.0, "the arm holds still")


@pytest.mark.parametrize("node", [*APART, "channel_scheduler"])
def test_whoever_dies_the_cup_is_not_thrown_and_the_hand_is_told(
    up: tuple[BroughtUp, subprocess.Popen[bytes]], node: str
) -> None:
    robot, _ = up
    watch = robot.observer
    walk, since = grasping(robot), len(watch.cup) - 1
    walk.killed_s = robot.kill(node)
    wait_until(lambda: watch.kernel and walk.call_id not in watch.kernel.running, DEED_S, "the kernel ends the call")
    at_rest(watch)
    assert watch.fastest(since) < THROWN_MPS and not watch.halted
    lifted = watch.cup[-1][1][2] > LIFTED_M
    wait_until(lambda: watch.hand == "cup" or (watch.hand == "" and not lifted), 2.0, "the hand is told")
    if node != "channel_scheduler":  # who is gone cannot tell of the end
        event = ended(watch, walk, 5.0, Outcome.DONE, Outcome.INTERRUPTED, Outcome.FAILED)
        assert event.outcome != Outcome.DONE or watch.hand == "cup"
        assert event.outcome != Outcome.FAILED or HELD[watch.hand] in event.error_msg
    if node != "memory":
        came_back(watch, walk, node)
    if node != "process_scheduler":  # whose task it is
        walk.task.result(20.0)


def test_a_planner_of_a_team_that_dies_leaves_the_cup_in_a_hand_and_its_robot_to_others(
    up: tuple[BroughtUp, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    robot, _ = up
    watch, name = robot.observer, robot.observer.get_namespace().strip("/")
    put_down(watch)
    file, processes, env = tmp_path / "team.yaml", Processes("/"), relay_installed(tmp_path)
    file.write_text(yaml.safe_dump({"name": f"team_{name}", "robots": {name: "atlas"}, "strategy": "relay"}))
    start = lambda: processes.start("team_planner", f"team:={file}", env=env, namespace=f"/team_{name}")  # noqa: E731
    planner, person = start(), Person(f"team_{name}")
    with NodeHost((person,)) as host:
        host.start()
        try:
            ready = lambda: person.lacking() in ([], ["drivers"])  # noqa: E731
            wait_until(ready, UP_S, lambda: f"the team lacks {person.lacking()}")
            task = person.task(f"{name} pick_from object=cup space=table")
            wait_until(lambda: watch.joints["left"] < CLOSING_M or person.ends, DEED_S, "its fingers close")
            assert not person.ends, person.ends
            since = len(watch.cup) - 1
            planner.kill()
            wait_until(lambda: watch.kernel and not watch.kernel.running, 5.0, "the kernel has ended what nobody answers for")
            at_rest(watch)
            assert watch.fastest(since) < THROWN_MPS and not watch.halted
            lifted = watch.cup[-1][1][2] > LIFTED_M
            wait_until(lambda: watch.hand == "cup" or (watch.hand == "" and not lifted), 2.0, "the hand is told")

            person.states.clear()
            planner = start()
            told = lambda: person.states and person.states[-1].processes  # noqa: E731
            wait_until(told, 15.0, "the new planner tells of the task")
            assert person.states[-1].processes[0].status == ProcessState.PAUSED
            wait_until(ready, UP_S, lambda: f"the team lacks {person.lacking()}")
            assert person.command("STOP", again_s=1.0).success
            first = "" if watch.hand == "cup" else f"{name} pick_from object=cup space=table; "
            task = person.task(f"{first}{name} release_to space=table")
            assert outcome(task.end(2 * DEED_S))[0] == "SUCCESS" and watch.hand == ""
        finally:
            processes.end()


def test_without_the_simulator_which_is_its_hardware_it_halts_and_tells(up: tuple[BroughtUp, subprocess.Popen[bytes]]) -> None:
    robot, sim = up
    watch = robot.observer
    walk = grasping(robot)
    sim.kill()
    event = ended(watch, walk, 10.0, Outcome.FAILED, Outcome.INTERRUPTED)
    wait_until(lambda: watch.halted, 3.0, "halted")
    watch.wait_still(0.4, 5.0)
    assert "joint_states" in event.error_msg or HELD[watch.hand] in event.error_msg, event.error_msg
    assert watch.hand == "" or watch.joints["left"] < CLOSING_M, "it says that it holds only what its fingers have reached"
