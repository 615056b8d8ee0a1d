# SPDX-License-Identifier: Apache-2.0
"""A process asks for a scheduling priority, takes the lesser one where it may not have the first, and says which it has."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from ghostshell_ros.runtime import priority

THREADS = """
import os, threading
from ghostshell_ros.runtime.priority import take_priority
made, looked = threading.Event(), threading.Event()
def wait():
    made.set()
    looked.wait(10)
threading.Thread(target=wait).start()
made.wait(10)
said = take_priority({realtime}, {nice})
later = threading.Thread(target=looked.wait, args=(10,))
later.start()
tasks = [int(t) for t in os.listdir("/proc/self/task")]
policies = {{os.sched_getscheduler(t) for t in tasks}}
nices = {{os.getpriority(os.PRIO_PROCESS, t) for t in tasks}}
print(said, len(tasks), policies, nices, sep="|")
looked.set()
"""


def _run(realtime: int, nice: int) -> list[str]:
    code = THREADS.format(realtime=realtime, nice=nice)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip().split("|")


def _may_be_real_time() -> bool:
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


@pytest.mark.skipif(not _may_be_real_time(), reason="this user may not use the real-time scheduler")
def test_every_thread_there_is_and_that_comes_later_is_real_time() -> None:
    said, threads, policies, _ = _run(10, -10)
    assert said == "runs at real-time priority 10"
    assert int(threads) == 3 and policies == str({os.SCHED_RR})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may always lower a nice value")
def test_without_a_wish_for_real_time_every_thread_gets_the_nice_value() -> None:
    said, threads, policies, nices = _run(0, -7)
    assert said == "runs at nice -7"
    assert int(threads) == 3 and policies == str({os.SCHED_OTHER}) and nices == str({-7})


def test_nothing_wished_changes_nothing() -> None:
    said, _, policies, _ = _run(0, 0)
    assert said == "runs at ordinary priority" and policies == str({os.SCHED_OTHER})


def test_where_real_time_is_not_allowed_the_nice_value_is_taken_and_the_refusal_told(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(priority.os, "sched_setscheduler", _refuse)
    monkeypatch.setattr(priority.os, "setpriority", lambda _, thread, nice: given.append((thread, nice)))
    said = priority.take_priority(10, -10)
    assert said.startswith("runs at nice -10; real-time priority 10 is not allowed")
    assert {nice for _, nice in given} == {-10} and threading.get_native_id() in {thread for thread, _ in given}


def test_where_nothing_is_allowed_it_runs_on_and_says_how_to_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority.os, "sched_setscheduler", _refuse)
    monkeypatch.setattr(priority.os, "setpriority", _refuse)
    said = priority.take_priority(10, -10)
    assert said.startswith("runs at ordinary priority; real-time priority 10 is not allowed")
    assert "nice -10 is not allowed" in said and "rtprio" in said


def _refuse(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")
