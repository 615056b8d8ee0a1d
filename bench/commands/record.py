# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell record`: keep a run of robots in an MCAP file."""

from __future__ import annotations

import datetime
import math
import signal
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import spun
from ghostshell_ros.halt_door import is_namespace


def record(
    file: Annotated[Path | None, typer.Argument(help="file to write; nothing: run_<date>_<time>.mcap here")] = None,
    robot: Annotated[list[str] | None, typer.Option("--robot", help="only this one, from its first message on")] = None,
    ground_truth: Annotated[
        bool, typer.Option("--ground-truth", help="also the true poses of a simulated world, which cost the simulator time")
    ] = False,
    seconds: Annotated[float, typer.Option(min=0.0, help="end after so many seconds; 0: at Ctrl-C")] = 0.0,
) -> None:
    """Record instructions, prompts, answers, tokens, calls, states and observations until Ctrl-C, which ends the file.

    Exit status: 0 the file is whole, 1 it cannot be written (the disk is full …), 2 a robot is named that can be none; the
    robot does not notice either.
    """
    from bench.recording.recorder import Recorder
    from bench.recording.run_writer import RecordingWriteError, RunWriter

    for name in robot or ():
        if not name.strip("/") or not is_namespace(name.strip("/")):
            wrong = f"'{name}' is no robot's name; it has letters, digits and underscores, no digit first"
            fail(wrong, command="record")
    now = datetime.datetime.now(datetime.timezone.utc)
    path = file or Path(f"run_{now.astimezone():%Y%m%d_%H%M%S}.mcap")
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    try:
        writer = RunWriter(path)
        writer.metadata("ghostshell_recorder", {"started": now.isoformat(timespec="milliseconds"), "format": "1"})
    except RecordingWriteError as error:
        fail(error, command="record", status=1)
    with spun(lambda: Recorder(writer, robots=robot or [], ground_truth=ground_truth)) as node:
        print(f"recording to {path}; Ctrl-C ends it", flush=True)
        end_s = time.monotonic() + (seconds or math.inf)
        # In short waits: a signal that another thread gets does not wake this one, which runs the handler.
        while not node.failed and not ending.is_set() and (left_s := end_s - time.monotonic()) > 0:
            ending.wait(min(0.5, left_s))
    if node.failed:
        fail(node.failed, command="record", status=1)
    robots = ", ".join(name.strip("/") for name in node.robots) or "no robot"
    print(f"{path}: {writer.messages} messages of {robots}")
