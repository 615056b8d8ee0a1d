# SPDX-License-Identifier: Apache-2.0
"""The loops as a person follows them: news is told once, the table shows what is now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from ghostshell.msg import GlobalEvent, Plan, ProcessArray, ProcessState, StepQueue, Subtask

from ghostshell_ros.cli.run_view import RunScreen, RunView
from skill_kernel.codes import ModelCode, Outcome
from skill_kernel.events import CallEvent, CallKind, ModelEvent, ModelKind, ProcessEvent, ProcessKind, StreamEvent, StreamKind


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


def _processes(**statuses: int) -> ProcessArray:
    made = [ProcessState(process_id=name, instruction=f"Do {name}", status=n) for name, n in statuses.items()]
    return ProcessArray(processes=made)


def _failed(process_id: str, error: str) -> StreamEvent:
    return StreamEvent(kind=StreamKind.ENDED, process_id=process_id, error_msg=error)


def _reflex_call(kind: CallKind, reflex: str, function: str) -> CallEvent:
    return CallEvent(kind=kind, process_id=f"reflex-{reflex}-1", call_id=reflex, function=function)


def _queue(running: str, queued: list[str], done: int, *, reading: bool = False) -> StepQueue:
    return StepQueue(process_id="a", running=running, queued=queued, done=done, reading=reading)


def test_an_answer_tells_how_long_it_took_and_what_it_cost() -> None:
    view = _view()
    assert _asked(view, 10.0, "s2") == []
    assert ("  S2 plan", "thinks for 0.5 s", "1 call") in view.rows(10.5)
    line = _answered(view, 11.2, "s2", prompt_tokens=900, cached_tokens=800, completion_tokens=40, cost_usd=0.002)
    assert line == "1  S2 plan thought for 1.2 s (900 tokens in, 800 of them cached, 40 out)"
    assert ("process 1", "IN_PROGRESS 12.0 s: Find the ball", "940 tokens, $0.0020") in view.rows(12.0)
    assert ("  S2 plan", "waits", "1 call, 940 tokens") in view.rows(12.0)


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


def test_ended_tasks_tell_no_plan_and_use_no_number_whatever_arrives_first() -> None:
    view = RunView()
    old, new = _plan([("Sit", 1)]), _plan([("Look around", 1)])
    old.process_id, new.process_id = "ended", "lives"
    assert view.hear("plan", old, 0.0) == view.hear("plan", new, 0.0) == []
    lines = view.hear("processes", _processes(ended=ProcessState.SUCCESS, lives=ProcessState.IN_PROGRESS), 0.1)
    assert lines == ["1  task: Do lives", "1  S2 plans: Look around"]
    assert view.hear("plan", old, 0.2) == []
    done = ProcessEvent(kind=ProcessKind.SUBTASK_DONE, process_id="ended", plan_item="Sit")
    assert view.hear("event", done, 0.3) == []
    # The scheduler forgets ended processes before their latched plans are gone.
    old.process_id = "forgotten"
    assert view.hear("plan", old, 0.4) == []


def test_a_process_that_began_before_the_view_tells_nothing() -> None:
    view = RunView(10.0)
    before = _processes(early=ProcessState.IN_PROGRESS, late=ProcessState.IN_PROGRESS)
    before.processes[0].created, before.processes[1].created = Time(sec=9), Time(sec=11)
    assert view.hear("processes", before, 12.0) == ["1  task: Do late"]
    assert view.hear("queue", StepQueue(process_id="early", running="<step/>"), 12.1) == []


def test_an_error_is_told_once_for_each_process_and_again_when_it_comes_later() -> None:
    view = _view()
    _asked(view, 1.0, "s1")
    assert "failed after 1.0 s: silent" in _answered(
        view, 2.0, "s1", error_code=int(ModelCode.MODEL_TIMEOUT), error_msg="silent"
    )
    assert view.event(_failed("a", "silent"), 2.0) == []
    assert view.event(_failed("b", "silent"), 2.1) == ["2  silent"]
    assert view.event(_failed("a", ""), 2.2) == []
    assert view.event(_failed("a", "silent"), 3600.0) == ["1  silent"]


def test_each_reflex_stays_in_the_row_until_its_own_call_ends() -> None:
    view = _view()
    for reflex, function in (("dodge", "back"), ("greet", "bark")):
        view.event(_reflex_call(CallKind.STARTED, reflex, function), 0.0)
    assert view.rows(0.0)[0][1] == "dodge: back(), greet: bark()"
    view.event(_reflex_call(CallKind.ENDED, "dodge", "back"), 1.0)
    assert view.rows(1.0)[0][1] == "greet: bark()"
    view.event(_reflex_call(CallKind.ENDED, "greet", "bark"), 2.0)
    assert view.rows(2.0)[0][1] == "watch"


def test_the_table_shows_a_step_that_is_still_being_read_and_a_line_tells_of_it_afterwards() -> None:
    view = _view()
    _asked(view, 0.0, "s1")
    view.steps(_queue("<step>1</step>", ["<step>2</step>"], 0), 0.0)
    assert view.steps(_queue("<step>2</step>", [], 1, reading=True), 0.0) == ""
    rows = {name: rest for name, *rest in view.rows(0.0)}
    assert "queue ▯▯▯ step: <step>2</step>" in rows["  S1 actions"][0]
    assert rows["  body"][1] == "1 step done"
    assert view.steps(_queue("<step>2</step>", [], 1), 0.0) == "step: <step>2</step>   queue ▯▯▯"


def _own() -> RunView:
    view = RunView(own=lambda process_id: process_id in ("", "a"))
    assert view.hear("processes", _processes(a=ProcessState.IN_PROGRESS), 0.0) == []
    return view


def _call(kind: CallKind, function: str, **fields: Any) -> CallEvent:
    return CallEvent(kind=kind, process_id="a", call_id=function, function=function, channels=("legs",), **fields)


def test_whoever_sent_a_task_sees_its_calls_and_what_they_say_without_a_number() -> None:
    view = _own()
    assert view.event(_call(CallKind.STARTED, "walk", args_json='{"cm": 20}'), 1.0) == ["  walk(20) [legs]"]
    ended = _call(CallKind.ENDED, "walk", outcome=Outcome.DONE, message="walked 19 cm")
    assert view.waiting(3.0) == "walk(20) for 2 s"
    assert view.event(ended, 3.0) == ["  walk DONE: walked 19 cm"]
    spoken = _call(CallKind.STARTED, "text", args_json='{"text": "hello"}')
    assert view.event(spoken, 4.0) == ["  “hello” [legs]"]
    assert view.event(_call(CallKind.ENDED, "text", outcome=Outcome.DONE, message="said: hello"), 5.0) == []
    assert view.hear("processes", _processes(a=ProcessState.SUCCESS), 6.0) == [] and view.waiting(6.0) == ""


def test_a_text_that_begins_before_it_is_written_is_shown_whole_at_its_end() -> None:
    view = _own()
    begun = _call(CallKind.STARTED, "text", args_json='{"text": "Hello! I"}')
    assert view.event(begun, 1.0) == ["  “Hello! I” [legs]"]
    ended = _call(CallKind.ENDED, "text", outcome=Outcome.DONE, args_json='{"text": "Hello! I am here."}')
    assert view.event(ended, 3.0) == ["  “Hello! I am here.”"]


def test_lines_of_ones_task_have_a_number_while_another_one_runs() -> None:
    view = _own()
    both = _processes(a=ProcessState.IN_PROGRESS, b=ProcessState.IN_PROGRESS)
    assert view.hear("processes", both, 1.0) == ["2  task: Do b"]
    assert view.event(_call(CallKind.STARTED, "walk"), 2.0) == ["1    walk() [legs]"]
    assert view.waiting(3.0) == "1  walk() for 1 s; 2  in_progress for 2 s"
    assert view.ended("a", "DONE") == "1  DONE"


def test_a_call_of_a_paused_task_is_not_shown_as_running() -> None:
    view = _own()
    view.event(_call(CallKind.STARTED, "walk"), 1.0)
    view.hear("processes", _processes(a=ProcessState.PAUSED), 2.0)
    assert view.waiting(4.0) == "paused for 2 s"
    assert all("walk" not in cell for row in view.rows(4.0) for cell in row)


def test_a_task_that_waits_names_the_task_that_it_waits_for() -> None:
    view = _own()
    view.hear("processes", _processes(a=ProcessState.IN_PROGRESS, b=ProcessState.IN_PROGRESS), 1.0)
    contention = CallEvent(kind=CallKind.CONTENTION, process_id="a", call_id="walk", function="walk", holder_id="b")
    assert view.event(contention, 2.0) == []
    told = view.hear("processes", _processes(a=ProcessState.WAITING, b=ProcessState.IN_PROGRESS), 2.1)
    assert told == ["1  WAITING (for “Do b”)"]


def test_without_a_language_model_nothing_is_told_of_thinking_and_an_error_at_the_end_alone() -> None:
    view = _own()
    for fields in ({}, {"error_code": int(ModelCode.MODEL_NOT_UNDERSTOOD), "error_msg": "not understood"}):
        assert _asked(view, 1.0, "stream") == []
        assert view.event(ModelEvent(kind=ModelKind.ANSWERED, process_id="a", layer="stream", **fields), 1.1) == []
    assert not view.has_told("a", "not understood")
    _asked(view, 2.0, "stream")
    slow = {"error_code": int(ModelCode.MODEL_TIMEOUT), "error_msg": "silent"}
    assert "model failed after 15.0 s: silent" in _answered(view, 17.0, "stream", **slow)
    assert view.has_told("a", "silent")
    _asked(view, 18.0, "stream")
    assert view.waiting(20.0) == "model thinks for 2 s"


def test_names_between_colons_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    screen = RunScreen(RunView(), SimpleNamespace(now_s=lambda: 0.0), table=False)  # type: ignore[arg-type]
    screen.say("model openai:m: it says :dog: and [red]")
    assert capsys.readouterr().out == "model openai:m: it says :dog: and [red]\n"
