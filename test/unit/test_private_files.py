# SPDX-License-Identifier: Apache-2.0
"""What a robot keeps of people, processes and runs is for its owner alone, whatever the umask and whatever was there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.recording.run_writer import RunWriter
from function_tokens.routines import RoutineStore
from planners.memory import Store
from skill_kernel.config.yaml_text import private, write_whole
from skill_kernel.processes.process import Process
from skill_kernel.processes.store import ProcessStore


@pytest.fixture
def open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def written(folder: Path) -> None:
    """Write a file of each kind."""
    processes = ProcessStore(folder / "processes.sqlite3", on_problem=pytest.fail)
    processes.save(Process("a", "nod", "topic", "somebody", "stream", 1.0))
    memory = Store(folder / "memory.sqlite3")
    RunWriter(folder / "run.mcap").finish()
    write_whole(folder / "rule.yaml", {"name": "a"})
    RoutineStore(folder / "routines.json", clock=lambda: 0.0).save("greet", "say hello", "<nod/>")
    assert not others_may_read(folder), "also while they are open"
    processes.close()
    memory.close()


def others_may_read(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.stat().st_mode & 0o077)


def test_new_files_are_private(tmp_path: Path, open_to_all: None) -> None:
    written(tmp_path)
    assert len(list(tmp_path.iterdir())) >= 5 and not others_may_read(tmp_path)


def test_files_of_an_earlier_version_become_private(tmp_path: Path, open_to_all: None) -> None:
    written(tmp_path)
    for file in tmp_path.iterdir():
        file.chmod(0o644)
    (tmp_path / "run.mcap").unlink()
    written(tmp_path)
    assert not others_may_read(tmp_path)


def test_what_is_no_file_keeps_its_mode(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o644)
    os.close(private(tmp_path / "pipe", os.O_RDWR))
    assert (tmp_path / "pipe").stat().st_mode & 0o777 == 0o644
