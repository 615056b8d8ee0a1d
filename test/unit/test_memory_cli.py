# SPDX-License-Identifier: Apache-2.0
"""`ghostshell memory` on a file, without ROS."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from memory_model import observation
from typer.testing import CliRunner, Result

from ghostshell_ros.cli.main import app
from planners.memory import Kind, Memory, Provenance, Record, Store, Tier


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    memory = Memory(Store(tmp_path / "memory" / "memory.sqlite3"), wall=time.time, background=False)
    now = time.time()
    memory.put(
        observation(now - 3000, "kitchen", ["ball"]),
        observation(now - 100, "office"),
        Record(
            Tier.M1,
            Kind.HEARD,
            now - 50,
            "alice said through chat: “my locker opens with marzipan”",
            provenance=Provenance("kalos", "processes", "p1", "alice", "chat"),
        ),
    ).result()
    while memory.consolidator.step():
        pass
    memory.close()
    return tmp_path


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["memory", *arguments, "--data-dir", str(folder)])


def test_a_question_is_answered_with_its_sources(folder: Path) -> None:
    done = run(folder, "query", "Kalos, how many places have you explored?")
    assert done.exit_code == 0 and done.output.startswith("kalos explored 2 places: kitchen and office.")
    assert "visit: kalos was in the kitchen" in done.output


def test_records_are_listed_by_kind_and_age(folder: Path) -> None:
    assert "marzipan" in run(folder, "query", "--kind", "heard", "--since", "2m").output
    assert run(folder, "query", "--kind", "visit", "--since", "10m").output.count("visit") == 1
    assert run(folder, "query", "--since", "last tuesday").exit_code == 2


def test_what_a_person_said_is_forgotten_and_nothing_of_it_stays_in_the_files(folder: Path) -> None:
    assert run(folder, "forget").exit_code == 2
    assert run(folder, "forget", "--sender", "alice", "--yes").exit_code == 0
    assert "marzipan" not in run(folder, "query", "--text", "locker").output
    for file in (folder / "memory").iterdir():
        assert b"marzipan" not in file.read_bytes(), file.name


def test_an_export_is_imported_elsewhere_once(folder: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "all.jsonl", tmp_path / "other"
    assert "records written" in run(folder, "export", str(file)).output
    assert "were there already" in run(other, "import", str(file)).output
    assert "0 records are new" in run(other, "import", str(file)).output
    answer = run(other, "query", "where did you last see the ball?", "--robot", "kalos").output
    assert answer.startswith("I last saw the ball in the kitchen")
    assert "kind visit: 2" in run(other, "stats").output


def test_a_memory_that_is_not_there_or_damaged_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, "query", "who?")
    assert done.exit_code == 2 and "there is no memory" in done.output
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.sqlite3").write_bytes(b"garbage" * 1000)
    done = run(tmp_path, "stats")
    assert done.exit_code == 2 and "move it away" in done.output


def test_forgetting_by_words_takes_what_has_all_of_them_and_nothing_else(folder: Path) -> None:
    assert run(folder, "forget", "--text", "alice password", "--yes").exit_code == 2
    assert "marzipan" in run(folder, "query", "--text", "locker").output
    assert run(folder, "forget", "--text", "alice locker", "--yes").exit_code == 0
    assert "marzipan" not in run(folder, "query", "--text", "locker").output
