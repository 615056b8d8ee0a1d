# SPDX-License-Identifier: Apache-2.0
"""The node team_planner with two robots over real DDS: each at its own kernel and gate, used as a robot is used."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from ghostshell.action import ExecuteSkill, RunTask
from ghostshell.msg import ProcessHeartbeat, SkillCall
from ghostshell.srv import ControlHalt
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ghostshell_ros import halt_door
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from ghostshell_ros.wire.qos import HEARTBEATS
from ros_support import ask, wait_until
from skill_kernel.codes import CallCode, Outcome, TaskCode
from skill_kernel.events import CallKind
from team_support import Gate, Person, Team, outcome, team_up


@pytest.fixture(scope="module")
def up(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Team, Person, Gate, Gate]]:
    with team_up(tmp_path_factory.mktemp("team"), str(os.getpid())) as found:
        yield found


@pytest.fixture
def team(up: tuple[Team, Person, Gate, Gate]) -> Team:
    return up[0]


@pytest.fixture
def person(up: tuple[Team, Person, Gate, Gate]) -> Person:
    return up[1]


@pytest.fixture
def left(up: tuple[Team, Person, Gate, Gate]) -> Gate:
    return up[2]


@pytest.fixture
def right(up: tuple[Team, Person, Gate, Gate]) -> Gate:
    return up[3]


def test_both_robots_act_at_the_same_time_and_values_come_back(team: Team, person: Person) -> None:
    end = person.task(team.tasks("left lift 1 & right lift 1; left tell")).end()
    assert outcome(end)[0] == "SUCCESS" and end.calls_done == 3
    assert re.fullmatch(r"(lift DONE \{.*\}: lifted; ){2}tell DONE \d+\.\d+", end.error_msg), end.error_msg
    lifts = person.of(CallKind.ENDED, "lift")
    assert {call.channels for call in lifts} == {(team.left,), (team.right,)}
    assert abs(lifts[0].start_s - lifts[1].start_s) < 0.5 and min(c.end_s for c in lifts) > max(c.start_s for c in lifts)
    assert any(f"lift(1) [{team.left}]" in line for line in person.lines), person.lines


def test_what_cannot_be_called_is_refused_with_the_reason(team: Team, person: Person) -> None:
    end = person.task(team.tasks("left fly & nobody lift 1 & - tell & left lift")).end()
    assert end.error_code == TaskCode.CALL_FAILED
    for sentence in ("there is no robot 'nobody' in the team", f"name the robot: {team.left}, {team.right}", "lift REFUSED"):
        assert sentence in end.error_msg, end.error_msg
    (fly,) = person.of(CallKind.ENDED, "fly")
    assert (fly.outcome, fly.error_code) == (Outcome.REFUSED, CallCode.UNKNOWN_FUNCTION)
    assert fly.error_msg.startswith(f"{team.left}: there is no skill 'fly'")


def test_a_strategy_for_one_robot_is_refused_with_those_for_a_team(person: Person) -> None:
    ends: list[Any] = []
    goal = RunTask.Goal(instruction="walk", strategy="layered")
    person.call_soon(lambda: person._task.send(goal, on_end=lambda end, result: ends.append((end, result))))
    wait_until(lambda: ends, 5.0, "the end")
    ((end, result),) = ends
    assert end is GoalEnd.ABORTED and result.error_code == TaskCode.UNKNOWN_STRATEGY and "relay" in result.error_msg


def test_a_pause_is_one_of_every_call_and_a_resume_goes_on_with_them(team: Team, person: Person) -> None:
    task = person.task(team.tasks("left lift 1 & right lift 1"))
    task.runs("lift")
    wait_until(lambda: len(person.of(CallKind.STARTED)) == 2, 5.0, "both lift")
    assert person.command("PAUSE").success
    time.sleep(1.2)  # longer than the lifts, had they gone on
    assert not person.of(CallKind.ENDED)
    assert person.command("RESUME").success
    end = task.end()
    assert outcome(end)[0] == "SUCCESS" and end.error_msg.count('"rests": 1') + end.error_msg.count("'rests': 1") == 2, end


def test_a_call_that_cannot_pause_is_stopped_and_planned_anew(team: Team, person: Person) -> None:
    task = person.task(team.tasks("left hold 1"))
    task.runs("hold")
    assert person.command("PAUSE").success
    wait_until(lambda: person.of(CallKind.ENDED), 5.0, "it is stopped")
    assert person.command("RESUME").success
    end = task.end()
    assert outcome(end)[0] == "SUCCESS" and "hold DONE" in end.error_msg
    assert [call.outcome for call in person.of(CallKind.ENDED)] == [Outcome.INTERRUPTED, Outcome.DONE]


def test_a_stop_ends_the_calls_on_both_robots_and_frees_them(team: Team, person: Person) -> None:
    task = person.task(team.tasks("left hold 20 & right lift 20"))
    task.runs("hold", "lift")
    assert person.command("STOP").success
    end = task.end(3.0)
    assert (outcome(end)[0], end.error_code) == ("STOPPED", TaskCode.CANCELLED)
    wait_until(lambda: len(person.of(CallKind.ENDED)) == 2, 3.0, "both have ended")
    assert outcome(person.task(team.tasks("left lift 0.1 & right lift 0.1")).end())[0] == "SUCCESS"


def test_a_newer_task_that_needs_the_same_arm_replaces_the_older_one(team: Team, person: Person) -> None:
    older = person.task(team.tasks("left hold 20"))
    older.runs("hold")
    person.call_soon(person.send, team.tasks("left lift 0.2"))
    wait_until(lambda: (person.hear(), len(person.ends) == 2)[1], 10.0, "both have ended")
    ends = {outcome(end)[0]: end for end in person.ends}
    assert ends.keys() == {"STOPPED", "SUCCESS"} and ends["STOPPED"].error_code == TaskCode.REPLACED


class Holder:
    """Somebody else whose process holds an arm of a robot."""

    def __init__(self, gate: Gate) -> None:
        self._gate, self._process_id = gate, f"other-{uuid.uuid4().hex[:6]}"
        self._client = GoalClient(gate, ExecuteSkill, "execute_skill")
        self._beat = gate.create_publisher(ProcessHeartbeat, "process_heartbeat", HEARTBEATS)
        self._timer: Any = None
        self._sent: Any = None
        self.running = False

    def hold(self) -> None:
        def beat() -> None:
            self._beat.publish(ProcessHeartbeat(process_ids=[self._process_id]))
            if self._sent is None and self._client.server_is_ready():
                call = SkillCall(
                    process_id=self._process_id, call_id=uuid.uuid4().hex, function="hold", args_json='{"seconds": 30.0}'
                )
                told = lambda feedback: setattr(self, "running", True)  # noqa: E731
                self._sent = self._client.send(ExecuteSkill.Goal(call=call), on_end=lambda *_: None, on_feedback=told)

        self._gate.call_soon(lambda: setattr(self, "_timer", self._gate.steady_timer(0.1, beat)))
        wait_until(lambda: self.running, 10.0, "the other process holds the arm")

    def free(self) -> None:
        """Be gone: the kernel frees what nobody answers for."""
        self._gate.call_soon(self._timer.cancel)


def test_a_call_waits_for_an_arm_that_another_holds_and_says_so(team: Team, person: Person, left: Gate) -> None:
    holder = Holder(left)
    holder.hold()
    task = person.task(team.tasks("left lift 0.2 & right lift 0.2"))
    wait_until(lambda: f"lift waits on {team.left}: lift needs arm" in person.notices(), 5.0, "it says that it waits")
    holder.free()
    end = task.end()
    assert outcome(end)[0] == "SUCCESS", end


def test_a_call_that_has_waited_too_long_is_refused(team: Team, person: Person, left: Gate) -> None:
    holder = Holder(left)
    holder.hold()
    end = person.task(team.tasks("left lift 0.2 & right tell")).end()
    holder.free()
    (lift,) = person.of(CallKind.ENDED, "lift")
    assert (lift.outcome, lift.error_code) == (Outcome.REFUSED, CallCode.SUBSYSTEM_HELD)
    assert "it has waited for 1.5 s" in end.error_msg and "tell DONE" in end.error_msg


def test_a_robot_that_is_halted_ends_its_calls_and_the_other_goes_on(team: Team, person: Person, left: Gate) -> None:
    task = person.task(team.tasks("left lift 20 & right lift 1; left tell & right tell"))
    wait_until(lambda: len(person.of(CallKind.STARTED)) == 2, 5.0, "both lift")
    left.halt()
    end = task.end()
    left.clear()
    ended = {(c.function, c.channels[0]): c for c in person.of(CallKind.ENDED)}
    assert ended["lift", team.left].outcome is Outcome.INTERRUPTED and "halt" in ended["lift", team.left].told
    assert ended["lift", team.right].outcome is Outcome.DONE and ended["tell", team.right].outcome is Outcome.DONE
    refused = ended["tell", team.left]
    assert (refused.outcome, refused.error_code) == (Outcome.REFUSED, CallCode.HALTED)
    assert f"{team.left} is halted" in person.notices() and outcome(end)[0] == "FAILED"


def test_a_stop_word_halts_every_robot_until_each_is_cleared(team: Team, person: Person, left: Gate, right: Gate) -> None:
    task = person.task(team.tasks("left lift 20 & right lift 20"))
    wait_until(lambda: len(person.of(CallKind.STARTED)) == 2, 5.0, "both lift")
    told_s = time.monotonic()
    person.call_soon(person.instruction.publish, String(data="stop!"))
    wait_until(lambda: left.halted and right.halted, 2.0, "both gates are halted")
    halted_s = time.monotonic() - told_s
    assert (outcome(task.end(3.0))[0], halted_s < 1.0) == ("STOPPED", True)
    refused = person.task(team.tasks("left tell")).end()
    assert refused.error_code == TaskCode.ROBOT_HALTED and f"ghostshell clear --robot {team.left}" in refused.error_msg
    left.clear()
    assert outcome(person.task(team.tasks("left tell")).end())[0] == "SUCCESS"
    right.clear()


def test_a_team_is_halted_as_a_robot_is(team: Team, person: Person, left: Gate, right: Gate) -> None:
    told = halt_door.halt(halt_door.ros_domain(), team.name, "smoke")
    assert told is not None and told.startswith(f"halted: {team.left}, {team.right}; when it is safe")
    wait_until(lambda: left.halted and right.halted, 2.0, "both gates are halted")
    asked = person.create_client(ControlHalt, "control_halt")
    clear = ask(person, asked, ControlHalt.Request(command=ControlHalt.Request.CLEAR))
    assert not clear.success and f"ghostshell clear --robot {team.right}" in clear.message
    left.clear()
    right.clear()
    assert ask(person, person.halting, Trigger.Request()).success
    left.clear()
    right.clear()


def test_an_instruction_by_topic_is_a_task_too(team: Team, person: Person) -> None:
    person.hear()
    person.events.clear()
    person.call_soon(person.instruction.publish, String(data=team.tasks("right tell")))
    wait_until(lambda: person.of(CallKind.ENDED, "tell"), 5.0, "it is done")


def test_how_much_a_call_costs(team: Team, person: Person, capsys: pytest.CaptureFixture[str]) -> None:
    end = person.task(team.tasks(";".join(["left tell"] * 40))).end(30.0)
    ended = person.of(CallKind.ENDED, "tell")
    assert end.calls_done == 40
    gaps_s = [b.end_s - a.end_s for a, b in zip(ended, ended[1:], strict=False)]
    with capsys.disabled():
        print(f"\na call after another: median {1e3 * statistics.median(gaps_s):.1f} ms, n = {len(gaps_s)}")
    assert statistics.median(gaps_s) < 0.1


def test_a_team_has_a_namespace_of_its_own(ros: None) -> None:
    command = [sys.executable, "-m", "ghostshell_ros.executables", "team_planner", "--ros-args", "-r", "__ns:=/atlas"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30.0)
    assert ended.returncode and "cannot share the namespace of its robot 'atlas'" in ended.stdout + ended.stderr
