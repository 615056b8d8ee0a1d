# SPDX-License-Identifier: Apache-2.0
"""A command follows its task: the end in words, as an exit status and as JSON, and ends that the robot does not tell."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ghostshell.action import RunTask

from ghostshell_ros.cli.follow import CONFIRM_S, OVERDUE_S, SILENT_S, JsonScreen, Sent, end_keys, exit_status, failure, told
from skill_kernel.codes import Achievement, CallCode, Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, Notice
from skill_kernel.processes.process import ProcessStatus


def end(status: ProcessStatus, achievement: Achievement = Achievement.OPEN, **fields: Any) -> RunTask.Result:
    return RunTask.Result(status=int(status), achievement=int(achievement), **fields)


@pytest.mark.parametrize(
    ("result", "status", "said"),
    [
        (end(ProcessStatus.SUCCESS, Achievement.DONE, calls_done=1), 0, "DONE: 1 call done"),
        (end(ProcessStatus.SUCCESS, Achievement.ANSWERED, calls_done=2), 4, "ANSWERED: 2 calls done"),
        (
            end(ProcessStatus.FAILED, Achievement.PARTLY_DONE, calls_done=2, calls_failed=1, error_msg="why"),
            3,
            "PARTLY DONE (why): 2 calls done, 1 failed or refused",
        ),
        (end(ProcessStatus.FAILED, Achievement.NOT_DONE, error_msg="why"), 1, "NOT DONE (why)"),
        (end(ProcessStatus.STOPPED, Achievement.PARTLY_DONE, error_code=int(TaskCode.CANCELLED)), 1, "STOPPED"),
        (end(ProcessStatus.STOPPED, Achievement.DONE, error_msg="halted"), 0, "STOPPED (halted)"),
        (end(ProcessStatus.IN_PROGRESS), 0, "IN_PROGRESS"),
        (failure("silent", TaskCode.NODE_UNAVAILABLE), 1, "NOT DONE (silent)"),
    ],
)
def test_an_end_is_an_exit_status_and_a_line(result: RunTask.Result, status: int, said: str) -> None:
    assert (exit_status(result), told(result)) == (status, said)
    keys = end_keys(result, "nod")
    assert keys["exit_status"] == status and keys["achievement"] == Achievement(result.achievement).name
    assert json.loads(json.dumps(keys)) == keys


def test_a_reason_that_was_told_is_not_told_again() -> None:
    view: Any = SimpleNamespace(has_told=lambda process_id, error: error == "why")
    assert told(failure("why", 1), view) == "NOT DONE"
    assert told(failure("another", 1), view) == "NOT DONE (another)"


def test_events_are_json_objects_with_the_names_of_the_messages(capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = SimpleNamespace(now_s=lambda: 5.0, sent=[Sent("nod", process_id="a")])
    screen = JsonScreen(client)
    client.now_s = lambda: 6.5
    call = {"call_id": "c", "function": "nod", "channels": ("head",), "stamp_s": 9.0, "node": "kernel", "seq": 3}
    done = CallEvent(kind=CallKind.ENDED, process_id="a", outcome=Outcome.FAILED, error_code=int(CallCode.DEADLINE), **call)
    screen.hear("event", done)
    screen.hear("event", Notice(process_id="b", text="somebody else's"))
    screen.hear("processes", SimpleNamespace(process_id="a"))
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "type": "CallEvent",
        "kind": "ENDED",
        "process_id": "a",
        "call_id": "c",
        "function": "nod",
        "channels": ["head"],
        "outcome": "FAILED",
        "error_code": int(CallCode.DEADLINE),
        "time_s": 1.5,
    }


class Goal:
    """A goal that was sent."""

    cancelled = asked = 0

    def cancel(self) -> None:
        self.cancelled += 1

    def ask(self) -> None:
        self.asked += 1


def sent(**fields: Any) -> tuple[Sent, Goal]:
    goal = Goal()
    made: Any = {"goal": goal, "begun_s": 0.0, **fields}
    return Sent("walk", **made), goal


def test_a_task_beyond_its_time_is_cancelled_and_its_end_is_waited_for() -> None:
    task, goal = sent(timeout_s=8.0)
    task.look(7.9, 0.0)
    assert task.end is None and not goal.cancelled
    task.look(8.1, 0.0)
    assert task.end is None and goal.cancelled == 1 and task.why == "not done within 8 s"
    task.look(8.2, 0.0)
    task.look(task.confirm_s - 0.1, 0.0)
    assert task.end is None and goal.cancelled == 1
    task.look(task.confirm_s + 0.1, 0.0)
    assert task.end is not None and "not done within 8 s; no answer says that it has ended" in task.end.error_msg
    assert CONFIRM_S <= 5.0


def test_a_task_of_a_silent_robot_ends_as_failed() -> None:
    task, goal = sent()
    task.look(1.0, SILENT_S)
    assert task.end is None
    task.look(1.0, SILENT_S + 0.1)
    assert task.end is not None and "silent" in task.end.error_msg and exit_status(task.end) == 1 and goal.cancelled == 1


def test_a_task_that_does_not_begin_is_asked_for() -> None:
    task, goal = sent()
    task.look(OVERDUE_S - 0.1, 0.0)
    assert not goal.asked
    task.look(OVERDUE_S + 0.1, 0.0)
    assert goal.asked and task.end is None and not goal.cancelled
    begun, goal = sent(process_id="a")
    begun.look(OVERDUE_S + 0.1, 0.0)
    assert not goal.asked, "the robot has it"
