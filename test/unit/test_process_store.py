# SPDX-License-Identifier: Apache-2.0
"""Processes on disk: what was saved is there again, and a bad file or a full disk is told instead of raised."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skill_kernel.processes.process import HISTORY, CallRecord, LayerUsage, Process, ProcessSource, ProcessStatus
from skill_kernel.processes.store import ProcessStore, StoreError


def process(name: str = "a", **fields: object) -> Process:
    made = Process(name, "patrol", "topic", "somebody", "stream", 12.5)
    return replace(made, **fields)


def call(number: int) -> CallRecord:
    return CallRecord(f"c{number}", "walk", '{"distance": 2}', "DONE", 0, "2 m", 1.0, 2.0)


def fail(why: str) -> None:
    raise AssertionError(why)


def eventually(so: Callable[[], bool]) -> None:
    """Wait at most two seconds until something is so."""
    end = time.monotonic() + 2.0
    while not so():
        assert time.monotonic() < end
        time.sleep(0.01)


def on_disk(path: Path) -> dict[str, Process]:
    return {p.process_id: p for p in ProcessStore(path, on_problem=fail).found}


def saved(path: Path, *processes: Process) -> list[Process]:
    store = ProcessStore(path, on_problem=fail)
    for item in processes:
        store.save(item)
    # Not closed: a killed node closes nothing either.
    eventually(lambda: on_disk(path).get(processes[-1].process_id) == processes[-1])
    return ProcessStore(path, on_problem=fail).found


def test_what_ran_when_the_robot_was_shut_down_is_kept_as_stopped_with_its_calls(tmp_path: Path) -> None:
    under_way = replace(call(1), outcome="RUNNING")
    running = process(status=ProcessStatus.PAUSED, pause_causes=frozenset({"s3"}), running=(under_way,))
    done = process("b", status=ProcessStatus.SUCCESS, ended_s=14.0)
    kept, same = saved(tmp_path / "p.sqlite3", *(p.shut_down(20.0, "shut down") for p in (running, done)))
    assert (kept.status, kept.ended_s, kept.message) == (ProcessStatus.STOPPED, 20.0, "shut down")
    assert not kept.pause_causes and not kept.running and [c.outcome for c in kept.history] == ["INTERRUPTED"]
    assert same == done


def test_a_process_comes_back_as_it_was(tmp_path: Path) -> None:
    full = process(
        "b",
        source=ProcessSource.IDLE,
        status=ProcessStatus.PAUSED,
        pause_causes=frozenset({"user", "s3"}),
        displaced_by="a",
        subsystems=("legs", "head"),
        running=(CallRecord("c9", "nod"),),
        history=(call(0), call(1)),
        calls=2,
        epoch=7,
        plan=1,
        code=525,
        message="\u505c \u201cno\u201d",
        usage=(LayerUsage("s1", "m", 3, 1, 2, 400, 100, 20, 0.25, 4.5, 2.5),),
        degraded=(("s2", "fallback"),),
        fired_events=("e1: wave", "e1: wave"),
    )
    assert saved(tmp_path / "deep" / "p.sqlite3", process("a"), process("b"), full) == [process("a"), full]


def test_history_grows_call_by_call_and_keeps_the_newest(tmp_path: Path) -> None:
    path, store = tmp_path / "p.sqlite3", ProcessStore(tmp_path / "p.sqlite3", on_problem=fail)
    history: tuple[CallRecord, ...] = ()
    for number in range(HISTORY + 20):
        history = (*history, call(number))[-HISTORY:]
        store.save(process(history=history, calls=number + 1))
        if number % 50 == 0:
            eventually(lambda at=number: on_disk(path).get("a", process()).calls > at - 50)
    store.close()
    again = ProcessStore(path, on_problem=fail)
    assert again.found == [process(history=history, calls=HISTORY + 20)]
    again.save(process(history=(*history, call(999))[-HISTORY:], calls=HISTORY + 21))
    again.close()
    (found,) = ProcessStore(path, on_problem=fail).found
    assert [c.call_id for c in found.history[-2:]] == [f"c{HISTORY + 19}", "c999"] and len(found.history) == HISTORY


def test_ended_processes_beyond_the_number_kept_are_forgotten_and_living_ones_are_not(tmp_path: Path) -> None:
    store = ProcessStore(tmp_path / "p.sqlite3", on_problem=fail, keep=3)
    for number in range(10):
        status = ProcessStatus.IN_PROGRESS if number == 0 else ProcessStatus.SUCCESS
        store.save(process(f"p{number}", status=status, history=(call(number),), calls=1))
    store.close()
    found = ProcessStore(tmp_path / "p.sqlite3", on_problem=fail).found
    assert [p.process_id for p in found] == ["p0", "p7", "p8", "p9"] and all(p.history for p in found)


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b""])
def test_a_corrupt_file_is_a_named_error_and_an_empty_one_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.sqlite3"
    path.write_bytes(content)
    if content:
        with pytest.raises(StoreError, match="move the file away"):
            ProcessStore(path, on_problem=fail)
        assert path.read_bytes() == content
    else:
        assert ProcessStore(path, on_problem=fail).found == []


def test_a_file_of_another_format_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite3"
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="format 99"):
        ProcessStore(path, on_problem=fail)


def test_a_write_that_fails_is_told_once_and_saving_goes_on_without_it(tmp_path: Path) -> None:
    told: list[str] = []
    path = tmp_path / "p.sqlite3"
    store = ProcessStore(path, on_problem=told.append)
    store.save(process("a"))
    eventually(lambda: "a" in on_disk(path))
    with sqlite3.connect(path) as file:
        # What a full disk does to every write, from the next one on.
        file.execute("CREATE TRIGGER full BEFORE INSERT ON process BEGIN SELECT RAISE(FAIL, 'disk is full'); END")
    for name in ("b", "c"):
        store.save(process(name))
        eventually(lambda: bool(told))
    store.close()
    assert len(told) == 1 and "disk is full" in told[0] and str(path) in told[0]


def test_a_file_of_a_program_that_knew_less_or_more_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite3"
    (kept,) = saved(path, process(status=ProcessStatus.SUCCESS, ended_s=20.0))
    with sqlite3.connect(path) as file:
        block = json.loads(file.execute("SELECT block FROM process").fetchone()[0])
        old = {k: v for k, v in block.items() if k not in ("usage", "degraded", "fired_events")}
        file.execute("UPDATE process SET block = ?", (json.dumps({**old, "of_tomorrow": 1}),))
    (found,) = ProcessStore(path, on_problem=fail).found
    assert found == kept


def test_parts_of_a_process_may_hold_more_than_this_program_knows(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite3"
    full = process(usage=(LayerUsage("s2", "m", 1),), running=(call(2),), history=(call(0), call(1)), calls=2)
    saved(path, full)
    with sqlite3.connect(path) as file:
        block = json.loads(file.execute("SELECT block FROM process").fetchone()[0])
        for part in (*block["usage"], *block["running"], *block["history"]):
            part["of_tomorrow"] = [1]
        file.execute("UPDATE process SET block = ?", (json.dumps(block),))
    assert ProcessStore(path, on_problem=fail).found == [full]


def test_what_was_used_and_fired_is_kept_over_a_restart_and_what_was_degraded_is_not(tmp_path: Path) -> None:
    lived = process(usage=(LayerUsage("s2", "m", 1, prompt_tokens=9),), degraded=(("s2", "x"),), fired_events=("e1: wave",))
    (found,) = saved(tmp_path / "p.sqlite3", lived)
    again = found.restored("started anew")
    assert (again.usage, again.fired_events, again.prompt_tokens, again.degraded) == (lived.usage, ("e1: wave",), 9, ())
