# SPDX-License-Identifier: Apache-2.0
"""Provide a memory on a clock of its own, and the settings of property tests."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import thorough

if TYPE_CHECKING:
    from memory_kit import Clock, Disk

    from planners.memory import Memory

thorough.register()

HERE = Path(__file__).parent
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 1e9:
    # Hundreds of tests write small files and wait for them to be flushed; none is about the disk itself.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let as many processes as there are cores each load and run their own files (`make unit`)."""
    parser.addoption("--share", default="1/1", metavar="K/N", help="every N-th file of the unit tests, beginning with the K-th")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what is in the share of another process."""
    if collection_path.parent != HERE or not collection_path.match("test_*.py"):
        return None
    which, number = map(int, config.getoption("--share").split("/"))
    return sorted(HERE.glob("test_*.py")).index(collection_path) % number != which - 1 or None


def pytest_sessionstart() -> None:
    """Collect garbage seldom: what loads and runs thousands of tests makes far more objects than garbage."""
    gc.set_threshold(20_000, 20, 50)


def pytest_collection_finish() -> None:
    """Leave thousands of tests and what they import out of each collection of garbage."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let all of it go."""
    gc.unfreeze()


@pytest.fixture
def clock() -> Clock:
    """Stands at noon."""
    from memory_kit import Clock

    return Clock()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Has room, until `pages` bounds it."""
    from memory_kit import Disk

    return Disk(monkeypatch)


@pytest.fixture
def memory(tmp_path: Path, clock: Clock) -> Iterator[Memory]:
    """Return an empty one, whose background work the test does itself."""
    from planners.memory import Memory, Store

    made = Memory(Store(tmp_path / "m.sqlite3", power_safe=False), wall=clock, background=False)
    yield made
    made.close()


@pytest.fixture
def walked(memory: Memory, clock: Clock) -> Memory:
    """Has seen a robot walk through three rooms."""
    from memory_kit import NOON, ended, heard, settle, walk

    memory.put(heard(NOON, "alice", "patrol the rooms"), *walk(), ended(NOON, NOON + 59, "patrol the rooms")).result()
    clock.now = NOON + 120
    settle(memory)
    return memory
