# SPDX-License-Identifier: Apache-2.0
"""The picture of several processes: states become stretches, calls become bars, pauses and halts are kept."""

from __future__ import annotations

from pathlib import Path

from bench.demo.processes import ProcessView, draw_processes, paused_by, stretches
from function_tokens.run_model import RunModel
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind, ModelEvent, ModelKind, Notice, NoticeKind


def _state(view: ProcessView, at_s: float, process_id: str, status: str, why: str = "", instruction: str = "") -> bool:
    view.since(at_s)
    return view.model.see_process(process_id, at_s, instruction=instruction, source="USER", status=status, why=why)


def _started(view: ProcessView, at_s: float, process_id: str, call_id: str, function: str, *on: str) -> None:
    args = '{"text": "good evening"}' if function == "text" else '{"where": "hallway"}'
    for kind in (CallKind.QUEUED, CallKind.STARTED):
        event = CallEvent(
            kind=kind, process_id=process_id, call_id=call_id, function=function, args_json=args, channels=on, stamp_s=at_s
        )
        view.model.take(event)
    view.since(at_s)


def _ended(view: ProcessView, at_s: float, process_id: str, call_id: str, outcome: Outcome) -> None:
    view.since(at_s)
    event = CallEvent(kind=CallKind.ENDED, process_id=process_id, call_id=call_id, outcome=outcome, stamp_s=at_s)
    view.model.take(event)


def _view() -> ProcessView:
    view = ProcessView(RunModel(), ("sound",))
    _state(view, 100.0, "a", "IN_PROGRESS", instruction="Patrol the hallway")
    _started(view, 101.0, "a", "c1", "patrol", "movement")
    _started(view, 101.0, "a", "c2", "text", "main")
    _started(view, 101.0, "a", "c0", "step", "main")
    _ended(view, 103.0, "a", "c2", Outcome.DONE)
    _state(view, 110.0, "b", "IN_PROGRESS", instruction="Stop, look left, then resume")
    _state(view, 110.1, "a", "PAUSED", "p2")
    view.model.take(ModelEvent(kind=ModelKind.ASKED, process_id="b", layer="s1", stamp_s=110.1))
    view.model.take(ModelEvent(kind=ModelKind.ANSWERED, process_id="b", layer="s1", stamp_s=110.2))
    _started(view, 110.2, "b", "c3", "rotate", "movement")
    _ended(view, 112.0, "b", "c3", Outcome.DONE)
    _state(view, 112.1, "b", "SUCCESS")
    _state(view, 112.2, "a", "IN_PROGRESS")
    view.model.take(Notice(kind=NoticeKind.HALTED, stamp_s=120.0))
    _ended(view, 120.1, "a", "c1", Outcome.INTERRUPTED)
    _state(view, 120.2, "a", "STOPPED")
    return view


def test_a_process_keeps_its_states_as_stretches_and_its_calls_as_bars() -> None:
    view = _view()
    process = view.processes["a"]
    assert [(s.name, round(s.begin_s - 100.0, 1), round(end - 100.0, 1)) for s, end in stretches(process, 199.0)] == [
        ("IN_PROGRESS", 0.0, 10.1),
        ("PAUSED", 10.1, 12.2),
        ("IN_PROGRESS", 12.2, 20.2),
        ("STOPPED", 20.2, 20.2),
    ]
    assert [bar.rows for bar in view.bars(process)] == [("movement",), ("sound",)], "what only orders others has no bar"
    assert [bar.rows for bar in view.bars(view.processes["b"])] == [("S1 thinks",), ("movement",)]
    assert view.running(process, "patrol") is None and process.instruction == "Patrol the hallway"
    assert process.calls["c1"].outcome is Outcome.INTERRUPTED and process.ended


def test_the_same_state_twice_is_no_news_and_a_call_of_nobody_known_is_left_out() -> None:
    view = _view()
    assert not _state(view, 121.0, "a", "STOPPED")
    _started(view, 121.0, "stranger", "c9", "bark", "sound")
    _ended(view, 121.0, "stranger", "c9", Outcome.DONE)
    assert set(view.processes) == {"a", "b"}


def test_a_pause_has_its_cause_and_another_cause_is_news() -> None:
    view = _view()
    a, b = view.processes["a"], view.processes["b"]
    assert paused_by(a, "p2") and not paused_by(a, "s0")
    assert _state(view, 121.0, "b", "PAUSED", "s0") and _state(view, 122.0, "b", "PAUSED", "s0, teleop")
    assert not _state(view, 123.0, "b", "PAUSED", "s0, teleop")
    since = len(b.states)
    assert paused_by(b, "teleop") and not paused_by(b, "teleop", since)


def test_the_picture_is_written_for_processes_and_for_none(tmp_path: Path) -> None:
    draw_processes(_view(), tmp_path / "a.png", title="three processes")
    draw_processes(ProcessView(RunModel()), tmp_path / "b.png", title="nothing")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "b.png").is_file()
