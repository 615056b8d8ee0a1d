# SPDX-License-Identifier: Apache-2.0
"""`ghostshell replay`: perform a recorded run again by today's parser and scheduler."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bench.replay.recorded import RunFile


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
    from bench.replay.recorded import RunFileError, read_run

    try:
        if info:
            _tell(read_run(file, _told_by_info))
            return
        from bench.replay.replaying import replay_file

        same = replay_file(file, robot=robot, speed=speed, most=most, say=print)
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
