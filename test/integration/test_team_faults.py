# SPDX-License-Identifier: Apache-2.0
"""What becomes of a team's robots when one of their kernels or the team's planner is killed in the middle of a call."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from ghostshell.action import RunTask
from ghostshell.msg import KernelState, ProcessState

from ghostshell_ros.wire.qos import LATCHED
from ros_support import wait_until
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallKind
from team_support import Gate, Person, Sent, Team, outcome, team_up

pytestmark = pytest.mark.faults

_numbers = count()


@pytest.fixture
def up(ros: None, tmp_path: Path) -> Iterator[tuple[Team, Person, Gate, Gate]]:
    with team_up(tmp_path, f"{os.getpid()}_{next(_numbers)}") as found:
        yield found


def begun(team: Team, person: Person, text: str) -> Sent:
    """Return a task once both robots act."""
    task = person.task(team.tasks(text))
    wait_until(lambda: len(person.of(CallKind.STARTED)) == 2, 5.0, "both act")
    return task


def test_a_kernel_that_is_killed_ends_its_call_and_halts_its_robot_alone(up: tuple[Team, Person, Gate, Gate]) -> None:
    team, person, left, right = up
    task = begun(team, person, "left lift 30 & right lift 4; left tell & right tell")
    team.kernels[team.left].kill()
    wait_until(lambda: person.of(CallKind.ENDED), 4.0, "the plan hears of it")
    (lost,) = person.of(CallKind.ENDED)
    assert (lost.channels, lost.outcome, lost.error_code) == ((team.left,), Outcome.FAILED, CallCode.KERNEL_UNAVAILABLE)
    wait_until(lambda: left.halted, 2.0, "nobody else can stop its motion, so its gate is halted")
    wait_until(lambda: len(person.of(CallKind.ENDED, "lift")) == 2, 6.0, "the other goes on")
    assert person.of(CallKind.ENDED, "lift")[1].outcome is Outcome.DONE and right.halted is False
    team.start_kernel(team.left)
    task.end(20.0)
    ended = {call.channels[0]: call for call in person.of(CallKind.ENDED, "tell")}
    assert ended[team.right].outcome is Outcome.DONE
    assert (ended[team.left].outcome, ended[team.left].error_code) in [
        (Outcome.REFUSED, CallCode.HALTED),
        (Outcome.FAILED, CallCode.KERNEL_UNAVAILABLE),
    ]
    left.clear()
    assert outcome(person.task(team.tasks("left lift 0.2 & right lift 0.2")).end())[0] == "SUCCESS", "all is well again"


class Kernel:
    """The state of a robot's kernel."""

    def __init__(self, gate: Gate) -> None:
        self.state = KernelState()
        gate.create_subscription(KernelState, "kernel_state", lambda m: setattr(self, "state", m), LATCHED)

    @property
    def idle(self) -> bool:
        return not self.state.running and not self.state.processes


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_goes_on_that_a_planner_asked_for_which_is_gone(
    up: tuple[Team, Person, Gate, Gate], how: signal.Signals
) -> None:
    team, person, left, right = up
    kernels = [Kernel(left), Kernel(right)]
    begun(team, person, "left lift 30 & right hold 30")
    team.planner.send_signal(how)
    ended_s = wait_until(lambda: all(kernel.idle for kernel in kernels), 3.0, "both kernels have ended what it asked for")
    assert ended_s < 2.0 and not left.halted and not right.halted
    if how is signal.SIGTERM:
        team.planner.wait(5.0)
    person.states.clear()
    team.start_planner()
    wait_until(lambda: person.states and person.states[-1].processes, 15.0, "the new planner tells of the task")
    (task,) = person.states[-1].processes
    assert task.status == (ProcessState.PAUSED if how is signal.SIGKILL else ProcessState.STOPPED)
    time.sleep(0.5)
    assert all(kernel.idle for kernel in kernels), "it does not go on by itself"
    if how is signal.SIGKILL:
        wait_until(lambda: person.lacking() in ([], ["drivers"]), 10.0, "it takes tasks")
        person.command("RESUME", again_s=1.0)
        wait_until(lambda: all(kernel.state.running for kernel in kernels), 10.0, "both act again")
        assert person.command("STOP").success
        wait_until(lambda: all(kernel.idle for kernel in kernels), 5.0, "both are free")


def stop_told(person: Person) -> RunTask.Result:
    """Wait for the end of the stop word itself, which is no process."""

    def told() -> list[RunTask.Result]:
        person.hear()
        return [end for end in person.ends if not end.process_id]

    wait_until(told, 3.0, "what came of the stop is told")
    return told()[0]


def test_a_stop_word_halts_the_gate_that_is_there(up: tuple[Team, Person, Gate, Gate]) -> None:
    team, person, left, right = up
    begun(team, person, "left lift 30 & right lift 30")
    team.gates[team.left].kill()
    end = person.task("stop")
    wait_until(lambda: right.halted, 2.0, "the other gate is halted")
    assert end.end().status == ProcessState.STOPPED, "the task has ended"
    told = stop_told(person)
    assert (told.status, told.achievement) == (ProcessState.STOPPED, ProcessState.NOT_DONE)
    assert told.error_msg.startswith(f"{team.left} does not obey; use its own emergency stop; halted: {team.right}; ")
    wait_until(lambda: f"the safety gate of {team.left} does not obey" in person.notices(), 3.0, "it is told")
    kernel = Kernel(left)
    wait_until(lambda: kernel.idle, 3.0, "its call was stopped at the kernel")
