# SPDX-License-Identifier: Apache-2.0
"""The loops as a person follows them: news is told once, the table shows what is now."""

from __future__ import annotations

from typing import Any

from ghostshell.msg import GlobalEvent, Plan, StepQueue, Subtask

from ghostshell_ros.cli.run_view import RunView
from skill_kernel.codes import ModelCode
from skill_kernel.events import ModelEvent, ModelKind


def _view() -> RunView:
    view = RunView()
    view.model.see_process("a", 0.0, instruction="Find the ball", source="USER", status="IN_PROGRESS")
    return view


def _asked(view: RunView, at_s: float, layer: str) -> list[str]:
    return view.event(ModelEvent(kind=ModelKind.ASKED, process_id="a", layer=layer), at_s)


def _answered(view: RunView, at_s: float, layer: str, **fields: Any) -> str:
    (line,) = view.event(ModelEvent(kind=ModelKind.ANSWERED, process_id="a", layer=layer, **fields), at_s)
    return line


def _plan(subtasks: list[tuple[str, int]], *events: tuple[str, str], **fields: Any) -> Plan:
    made = [Subtask(description=text, status=status) for text, status in subtasks]
    listed = [GlobalEvent(condition=condition, response=response) for condition, response in events]
    return Plan(process_id="a", complete=True, subtasks=made, events=listed, **fields)


def _queue(running: str, queued: list[str], done: int, *, reading: bool = False) -> StepQueue:
    return StepQueue(process_id="a", running=running, queued=queued, done=done, reading=reading)


def test_an_answer_tells_how_long_it_took_and_what_it_cost() -> None:
    view = _view()
    assert _asked(view, 10.0, "s2") == []
    assert ("  S2 plan", "thinks for 0.5 s", "1 calls, 0 tokens") in view.rows(10.5)
    line = _answered(view, 11.2, "s2", prompt_tokens=900, cached_tokens=800, completion_tokens=40, cost_usd=0.002)
    assert line == "1  S2 plan thought for 1.2 s (900 tokens in, 800 of them cached, 40 out)"
    assert ("process 1", "IN_PROGRESS: Find the ball", "940 tokens, $0.0020") in view.rows(12.0)
    assert ("  S2 plan", "waits", "1 calls, 940 tokens") in view.rows(12.0)


def test_an_answer_that_fails_says_why() -> None:
    view = _view()
    _asked(view, 1.0, "s1")
    line = _answered(view, 4.0, "s1", error_code=int(ModelCode.MODEL_TIMEOUT), error_msg="silent")
    assert "failed after 3.0 s: silent" in line
    assert view.model.processes["a"].usage[0].failures == 1
    _asked(view, 5.0, "s1")
    assert "took its question back after 1.0 s" in _answered(view, 6.0, "s1", error_code=int(ModelCode.MODEL_CANCELLED))
    assert view.model.processes["a"].usage[0].failures == 1


def test_a_plan_is_told_when_it_differs_and_when_it_is_given_up() -> None:
    view = _view()
    first = [("Look around", 1), ("Report", 0)]
    assert view.plan(_plan(first, ("visible('cat')", "stop")), 0.0) == (
        "S2 plans: Look around → Report; watches for: visible('cat') → stop"
    )
    assert view.plan(_plan([("Look around", 2), ("Report", 1)]), 0.0) == ""
    _asked(view, 1.0, "s2")
    assert any("subtask 2 of 2: Report" in now for _, now, _ in view.rows(2.0))
    assert view.plan(_plan(first, reason="the door is shut", given_up=True), 0.0) == "S2 gives the task up: the door is shut"


def test_a_step_is_told_when_it_begins_and_the_queue_is_drawn() -> None:
    view = _view()
    assert view.steps(_queue("", ["<step>1</step>", "<step>2</step>"], 0), 0.0) == ""
    assert view.steps(_queue("<step>1</step>", ["<step>2</step>"], 0), 0.0) == "step: <step>1</step>   queue ▮▯▯"
    assert view.steps(_queue("<step>1</step>", [], 0), 0.0) == ""
    assert view.steps(_queue("<step>", [], 1, reading=True), 0.0) == ""
    assert view.steps(_queue("<step>2</step>", [], 1), 0.0) == "step: <step>2</step>   queue ▯▯▯"


def test_processes_are_numbered_as_they_came_and_ended_ones_leave_the_table() -> None:
    view = _view()
    view.model.see_process("b", 0.0, instruction="Bark", source="USER", status="IN_PROGRESS")
    assert (view.number("a"), view.number("b")) == (1, 2)
    view.model.see_process("a", 1.0, instruction="", source="USER", status="SUCCESS")
    assert [name for name, _, _ in view.rows(0.0)] == ["S0 reflexes", "process 2", "  body"]
    assert view.table(0.0).row_count == 3
