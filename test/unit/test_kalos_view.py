# SPDX-License-Identifier: Apache-2.0
"""The picture of several processes: states become stretches, calls become bars, pauses and halts are kept."""

from __future__ import annotations

from pathlib import Path

from ghostshell_ros.cli.process_gantt import draw_processes
from ghostshell_ros.cli.process_view import Bar, ProcessView


def _view() -> ProcessView:
    view = ProcessView()
    view.state(100.0, "a", "Patrol the hallway", "USER", "IN_PROGRESS")
    view.started(101.0, "a", "c1", Bar("patrol", "patrol(hallway)", ("movement",), 0.0))
    view.started(101.0, "a", "c2", Bar("text", "“good evening”", ("sound",), 0.0))
    view.ended(103.0, "a", "c2", "DONE")
    view.state(110.0, "b", "Stop, look left, then resume", "USER", "IN_PROGRESS")
    view.state(110.1, "a", "Patrol the hallway", "USER", "PAUSED", "p2")
    view.started(110.2, "b", "c3", Bar("rotate", "rotate(90)", ("movement",), 0.0))
    view.ended(112.0, "b", "c3", "DONE")
    view.state(112.1, "b", "", "USER", "SUCCESS")
    view.state(112.2, "a", "", "USER", "IN_PROGRESS")
    view.halted(120.0)
    view.ended(120.1, "a", "c1", "INTERRUPTED")
    view.state(120.2, "a", "", "USER", "STOPPED")
    return view


def test_a_process_keeps_its_states_as_stretches_and_its_calls_as_bars() -> None:
    track = _view().tracks["a"]
    assert [(s.name, round(s.begin_s, 1), round(end, 1)) for s, end in track.spans(99.0)] == [
        ("IN_PROGRESS", 0.0, 10.1),
        ("PAUSED", 10.1, 12.2),
        ("IN_PROGRESS", 12.2, 20.2),
        ("STOPPED", 20.2, 20.2),
    ]
    assert track.subsystems() == ["movement", "sound"] and track.running("patrol") is None
    assert track.bars["c1"].outcome == "INTERRUPTED" and track.ended_s is not None


def test_the_same_state_twice_is_no_news_and_a_call_of_nobody_known_is_left_out() -> None:
    view = _view()
    assert not view.state(121.0, "a", "", "USER", "STOPPED")
    view.started(121.0, "stranger", "c9", Bar("bark", "bark()", ("sound",), 0.0))
    assert view.ended(121.0, "stranger", "c9", "DONE") is None


def test_a_pause_has_its_cause_and_another_cause_is_news() -> None:
    view = _view()
    assert view.tracks["a"].paused_by("p2") and not view.tracks["a"].paused_by("s0")
    assert view.state(121.0, "b", "", "USER", "PAUSED", "s0") and view.state(122.0, "b", "", "USER", "PAUSED", "s0, teleop")
    assert not view.state(123.0, "b", "", "USER", "PAUSED", "s0, teleop")
    since = len(view.tracks["b"].states)
    assert view.tracks["b"].paused_by("teleop") and not view.tracks["b"].paused_by("teleop", since)


def test_the_picture_is_written_for_processes_and_for_none(tmp_path: Path) -> None:
    draw_processes(_view(), tmp_path / "a.png", title="three processes")
    draw_processes(ProcessView(), tmp_path / "b.png", title="nothing")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "b.png").is_file()
