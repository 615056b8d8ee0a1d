# SPDX-License-Identifier: Apache-2.0
"""The machine's clock is set while CoCo walks, as NTP does after a start without a network: by an hour, a day, and back.

libfaketime gives the robot's processes a wall clock that a file moves, and leaves their steady clock alone. Theirs stays ahead
of the real one, and they speak UDP: Fast DDS locks shared memory until an absolute time, which libfaketime does not move.
The module needs a process of its own: a participant that has heard messages from the future drops those of the present.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ghostshell.msg import ProcessState

from kill_support import ready
from pipeline_support import NODES, BroughtUp, brought_up
from ros_support import wait_until
from skill_kernel.events import CallKind

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
pytestmark = [pytest.mark.faults, pytest.mark.skipif(not LIBRARIES, reason="needs libfaketime: apt install faketime")]

HOUR_S, DAY_S = 3600, 86_400
START_S = 40 * DAY_S
READ_S = 1.0
"""libfaketime reads the file this often."""
WALK = "walk 60 cm forward"


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file that says by how many seconds the robot's clock is ahead."""
    file = tmp_path_factory.mktemp("clock") / "ahead"
    file.write_text(f"{START_S:+d}\n")
    return file


def faked(clock: Path) -> dict[str, str]:
    """Return the environment of a program whose wall clock that file moves."""
    return {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": f"{READ_S:g}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4",
    }


@pytest.fixture(scope="module")
def coco(clock: Path, tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[BroughtUp]:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in faked(clock).items():
            environment.setenv(name, value)
        folder = tmp_path_factory.mktemp("jumping")
        with brought_up(folder, nodes=NODES, model="offline") as up:
            yield up


def cleared(robot: BroughtUp, clock: Path) -> None:
    """Clear a halt from a terminal, whose proof bears the time of the robot's clock, and wait until the robot takes a task."""
    watch = robot.observer
    if watch.halted:
        command = [sys.executable, "-m", "ghostshell_ros.cli.main", "clear", "--robot", watch.get_namespace().strip("/")]
        subprocess.run(command, env={**os.environ, **faked(clock)}, check=True, timeout=30)
    ready(robot)


@pytest.mark.parametrize("ahead_s", [START_S + HOUR_S, START_S, START_S - DAY_S, START_S + 30 * DAY_S])
def test_a_walk_goes_on_or_ends_with_a_reason_and_the_next_one_is_as_ever(coco: BroughtUp, clock: Path, ahead_s: int) -> None:
    watch = coco.observer
    cleared(coco, clock)
    walk = watch.task(WALK)
    watch.wait_event(CallKind.STARTED, 10.0, process_id=walk.process_id)
    clock.write_text(f"{ahead_s:+d}\n")
    result = walk.result(40.0)
    assert result.status == ProcessState.SUCCESS or (result.error_code and result.error_msg)
    assert not watch.halted or watch.kernel.halt_cause
    cleared(coco, clock)
    again = watch.task(WALK).result(40.0)
    assert again.status == ProcessState.SUCCESS, again.error_msg
    wait_until(lambda: not watch.kernel.running, 3.0, "nothing runs")
    assert not [p for p in watch.processes if p.status < ProcessState.SUCCESS]
