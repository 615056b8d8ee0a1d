# SPDX-License-Identifier: Apache-2.0
"""`ghostshell record`: keep a run in an MCAP file."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from ghostshell_ros.cli.robot_client import spun


def record(
    file: Annotated[Path | None, typer.Argument(help="file to write; nothing: run_<date>_<time>.mcap here")] = None,
    robot: Annotated[list[str] | None, typer.Option("--robot", help="only this one, from its first message on")] = None,
    ground_truth: Annotated[
        bool, typer.Option("--ground-truth", help="also the true poses of a simulated world, which cost the simulator time")
    ] = False,
    seconds: Annotated[float, typer.Option(min=0.0, help="end after so many seconds; 0: at Ctrl-C")] = 0.0,
) -> None:
    """Record instructions, prompts, answers, tokens, calls, states and observations until Ctrl-C, which ends the file.

    Exit status: 0 the file is whole, 1 it cannot be written (the disk is full …); the robot does not notice either.
    """
    import datetime

    from ghostshell_ros.recording.recorder import Recorder
    from ghostshell_ros.recording.run_writer import RecordingWriteError, RunWriter

    now = datetime.datetime.now(datetime.timezone.utc)
    path = file or Path(f"run_{now.astimezone():%Y%m%d_%H%M%S}.mcap")
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    try:
        writer = RunWriter(path)
        writer.metadata("ghostshell_recorder", {"started": now.isoformat(timespec="milliseconds"), "format": "1"})
    except RecordingWriteError as error:
        print(f"ghostshell record: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    with spun(
        lambda: Recorder(writer, robots=robot or [], ground_truth=ground_truth, on_failure=lambda _: ending.set())
    ) as node:
        print(f"recording to {path}; Ctrl-C ends it", flush=True)
        end_s = time.monotonic() + (seconds or math.inf)
        # In bites: a signal that another thread was given does not wake this one, whose turn its handler needs.
        while not ending.wait(min(0.5, max(0.0, end_s - time.monotonic()))) and time.monotonic() < end_s:
            pass
    if node.failed:
        print(f"ghostshell record: {node.failed}", file=sys.stderr)
        raise typer.Exit(1)
    robots = ", ".join(name.strip("/") for name in node.robots) or "no robot"
    print(f"{path}: {writer.messages} messages of {robots}")
