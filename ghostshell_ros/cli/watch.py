# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell observe`, `watch` and `record`: show a robot's observation and its loops, and keep a run in a file."""

from __future__ import annotations

import math
import queue
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import command_node, spun
from ghostshell_ros.cli.say import Robot, Wait

if TYPE_CHECKING:
    from rich.console import Console

    from ghostshell_ros.runtime.node import RuntimeNode
    from skill_kernel.observation.model import Observation

SHOW_S = 0.5
"""Shortest time for which an observation is shown before the next one."""


def observe(
    robot: Robot = "coco",
    wait: Wait = 3.0,
    follow: Annotated[bool, typer.Option("--follow", help="go on showing it until Ctrl-C")] = False,
) -> None:
    """Show the fields of a robot's observation, with their ages; stale and missing ones say so."""
    from ghostshell.msg import Observation as ObservationMsg
    from rich.console import Console

    from ghostshell_ros.wire.observation_messages import from_message
    from ghostshell_ros.wire.qos import OBSERVATION

    heard: queue.Queue[ObservationMsg] = queue.Queue()
    console, shown_s = Console(), float("-inf")

    def listener() -> RuntimeNode:
        node = command_node(robot)
        node.create_subscription(ObservationMsg, "observation", heard.put, OBSERVATION)
        return node

    with suppress(KeyboardInterrupt), spun(listener):
        while follow or shown_s < 0:
            try:
                message = heard.get(timeout=wait)
            except queue.Empty:
                fail(f"no observer of robot '{robot}' says anything; is it launched on this ROS domain?")
            if time.monotonic() - shown_s >= SHOW_S:
                if follow and console.is_terminal:
                    console.clear()
                shown_s = time.monotonic()
                _show(console, from_message(message, shown_s))


def _show(console: Console, observation: Observation) -> None:
    from rich.markup import escape
    from rich.table import Table

    from planners.prompts.blocks import quoted
    from skill_kernel.config.observation import Serialise
    from skill_kernel.observation.render import shown

    table = Table("field", "age [s]", "", "value")
    for name, field in observation.fields.items():
        age = field.age(observation.stamp)
        state = "missing" if field.value is None else "stale" if field.stale(observation.stamp) else ""
        value = field.missing if field.value is None else quoted(shown(field.value, Serialise()))
        table.add_row(escape(name), f"{age:.1f}", state, escape(value))
    console.print(table)


def watch(
    robot: Robot = "coco",
    wait: Wait = 10.0,
    lines: Annotated[bool, typer.Option("--lines", help="one line for each piece of news, and no table")] = False,
) -> None:
    """Follow a robot's loops until Ctrl-C: who thinks, who moves, what is queued, and what it has cost."""
    from ghostshell_ros.cli.run_view import RunListener, RunScreen, RunView

    deadline_s: float | None = time.monotonic() + wait
    with (
        suppress(KeyboardInterrupt),
        spun(lambda: RunListener(robot)) as listener,
        RunScreen(RunView(), listener, table=not lines) as screen,
    ):
        while True:
            try:
                screen.hear(*listener.inbox.get(timeout=0.2))
                deadline_s = None
            except queue.Empty:
                if deadline_s is not None and time.monotonic() > deadline_s:
                    fail(f"no process scheduler of robot '{robot}' says anything; is it launched on this ROS domain?")
            screen.refresh()


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
