# SPDX-License-Identifier: Apache-2.0
"""`ghostshell record` and `replay`: keep a run in an MCAP file, and perform it again by today's parser and scheduler."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from planners.models.replay import RunFile


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

    import rclpy
    from rclpy.signals import SignalHandlerOptions

    from ghostshell_ros.recording.recorder import Recorder
    from ghostshell_ros.recording.run_writer import RecordingWriteError, RunWriter
    from ghostshell_ros.runtime.node_runtime import NodeHost

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
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = Recorder(writer, robots=robot or [], ground_truth=ground_truth, on_failure=lambda _: ending.set())
    host = NodeHost([node])
    host.start()
    print(f"recording to {path}; Ctrl-C ends it", flush=True)
    end_s = time.monotonic() + (seconds or math.inf)
    try:
        # In bites: a signal that another thread was given does not wake this one, whose turn its handler needs.
        while not ending.wait(min(0.5, max(0.0, end_s - time.monotonic()))) and time.monotonic() < end_s:
            pass
    finally:
        host.close()
        rclpy.try_shutdown()
    if node.failed:
        print(f"ghostshell record: {node.failed}", file=sys.stderr)
        raise typer.Exit(1)
    robots = ", ".join(name.strip("/") for name in node.robots) or "no robot"
    print(f"{path}: {writer.messages} messages of {robots}")


def replay(
    file: Annotated[Path, typer.Argument(help="a recording of ghostshell record")],
    info: Annotated[bool, typer.Option("--info", help="only tell what the file holds")] = False,
    robot: Annotated[str, typer.Option(help="only this robot; nothing: each in the file, one after the other")] = "",
    speed: Annotated[float, typer.Option(min=0.1, max=50.0, help="times as fast as it was recorded")] = 1.0,
    most: Annotated[int, typer.Option("--differences", min=1, help="differences to show")] = 5,
) -> None:
    """Feed a recorded run through the same nodes and compare every call with what was recorded.

    Exit status: 0 the same calls with the same outcomes, 1 not the same, 2 the file cannot be replayed.
    """
    from planners.models.replay import RunFileError

    try:
        if info:
            from planners.models.replay import read_run

            _tell(read_run(file, _told_by_info))
            return
        from ghostshell_ros.recording.replaying import ReplayError, replay_file

        try:
            same = replay_file(file, robot=robot, speed=speed, most=most, say=print)
        except ReplayError as error:
            print(f"ghostshell replay: {error}", file=sys.stderr)
            raise typer.Exit(2) from None
    except RunFileError as error:
        print(f"ghostshell replay: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    raise typer.Exit(0 if same else 1)


def _told_by_info(topic: str) -> bool:
    """Return whether `--info` reads a topic: instructions, and the latched list of processes."""
    return topic.endswith(("/instruction", "/processes")) and not topic.endswith("/events/processes")


def _tell(run: RunFile) -> None:
    import datetime

    began = datetime.datetime.fromtimestamp(run.begin_ns * 1e-9).astimezone()
    state = "whole" if run.whole else f"cut off ({run.fault or 'no end'}); what is there can be replayed"
    print(f"{run.path}: {state}")
    print(f"  {began:%Y-%m-%d %H:%M:%S}, {(run.end_ns - run.begin_ns) * 1e-9:.1f} s, {sum(run.counts.values())} messages")
    for topic in sorted(run.counts):
        print(f"  {run.counts[topic]:7}  {topic}  {run.kinds[topic]}")
    for name in sorted(run.attachments):
        print(f"  attached {name} ({len(run.attachments[name])} characters)")
    told: set[str] = set()
    for message in run.messages:
        robot = message.topic.rpartition("/")[0].strip("/")
        if message.kind == "std_msgs/msg/String":
            print(f"  instruction to {robot or 'the default robot'}: {message.value.data!r}")
        else:
            for process in message.value.processes:
                if process.process_id not in told:
                    told.add(process.process_id)
                    print(f"  {robot}, process {process.process_id} ({process.door}): {process.instruction!r}")
