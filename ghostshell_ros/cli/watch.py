# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell observe` and `watch`: show a robot's observation and its loops."""

import queue
import sys
import time
from contextlib import suppress
from typing import Annotated

import typer
from ghostshell.msg import Observation as ObservationMsg
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import WAIT_S, absent, command_node, received, robots_of, spun
from ghostshell_ros.cli.run_view import RunListener, RunScreen, RunView
from ghostshell_ros.cli.say import Robot, Wait
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.observation_messages import from_message
from ghostshell_ros.wire.qos import OBSERVATION
from planners.prompts.blocks import quoted
from skill_kernel.config.observation import Serialise
from skill_kernel.observation.model import Observation
from skill_kernel.observation.render import shown

GONE_S = 1.0
"""Time between two checks that the watched robot is still there."""
SHOW_S = 0.5
"""Minimum time between two displayed observations."""


def observe(
    robot: Robot = "",
    wait: Wait = WAIT_S,
    follow: Annotated[bool, typer.Option("--follow", help="go on showing it until Ctrl-C")] = False,
) -> None:
    """Show the fields of a robot's observation, with their ages; stale and missing ones say so."""
    heard: queue.Queue[ObservationMsg] = queue.Queue()
    console, shown_s = Console(emoji=False), float("-inf")

    def listener() -> RuntimeNode:
        node = command_node(robot)
        node.create_subscription(ObservationMsg, "observation", heard.put, OBSERVATION)
        return node

    with suppress(KeyboardInterrupt), spun(listener) as node:
        while follow or shown_s < 0:
            message = received(heard, node, robot, wait)
            if message is None and shown_s > 0:
                print(f"no observation for {wait:g} s: what is shown above is old", file=sys.stderr)
                continue
            if message is None:
                fail(f"no observer of robot '{robot}' says anything; the output of its launch says why")
            if time.monotonic() - shown_s >= SHOW_S:
                if follow and console.is_terminal:
                    console.clear()
                shown_s = time.monotonic()
                _show(console, from_message(message, shown_s))


def _show(console: Console, observation: Observation) -> None:
    table = Table("field", "age", "value")
    for name, field in observation.fields.items():
        age = field.age(observation.stamp)
        stale = ", stale" if field.value is not None and field.stale(observation.stamp) else ""
        value = field.missing if field.value is None else quoted(shown(field.value, Serialise()))
        table.add_row(escape(name), f"{age:.1f} s{stale}" if field.value is not None else "missing", escape(value))
    console.print(table)


def watch(
    robot: Robot = "",
    wait: Wait = WAIT_S,
    lines: Annotated[bool, typer.Option("--lines", help="one line for each piece of news, and no table")] = False,
) -> None:
    """Follow a robot's loops until Ctrl-C: who thinks, who moves, what is queued, and what it has cost."""
    begun_s: float | None = time.monotonic()
    there: bool | None = None
    looked_s = 0.0
    with (
        suppress(KeyboardInterrupt),
        spun(lambda: RunListener(robot)) as listener,
        RunScreen(view := RunView(), listener, table=not lines) as screen,
    ):
        while True:
            try:
                screen.hear(*listener.inbox.get(timeout=0.2))
                begun_s = None
            except queue.Empty:
                waited_s = time.monotonic() - begun_s if begun_s is not None else 0.0
                if why := absent(listener, robot, waited_s, wait) if begun_s is not None else "":
                    fail(why)
                if begun_s is None and time.monotonic() - looked_s > GONE_S:
                    found, looked_s = robot in robots_of(listener), time.monotonic()
                    if there and not found:
                        view.lose(listener.now_s())
                        screen.say(f"robot '{robot}' is not there any more")
                    elif found and there is False:
                        screen.say(f"robot '{robot}' is there again")
                    # One that was never found may not be discovered yet.
                    there = found or (None if there is None else False)
            screen.refresh()
