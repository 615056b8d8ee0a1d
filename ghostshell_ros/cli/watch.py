# SPDX-License-Identifier: Apache-2.0
"""`ghostshell observe` and `watch`: show what a running robot knows, and its planning loops as they work."""

from __future__ import annotations

import queue
import sys
import time
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from ghostshell_ros.cli.robot_client import spun
from ghostshell_ros.cli.say import Robot, Wait

SHOW_S = 0.5
"""How long an observation is shown at least before the next one."""

if TYPE_CHECKING:
    from rich.console import Console

    from skill_kernel.observation.model import Observation


def observe(
    robot: Robot = "coco",
    wait: Wait = 3.0,
    follow: Annotated[bool, typer.Option("--follow", help="go on showing it until Ctrl-C")] = False,
) -> None:
    """Show the fields of a robot's observation, with their ages; stale and missing ones say so."""
    from ghostshell.msg import Observation as ObservationMsg
    from rich.console import Console

    from ghostshell_ros.runtime.node import RuntimeNode
    from ghostshell_ros.wire.observation_messages import from_message
    from ghostshell_ros.wire.qos import OBSERVATION

    heard: queue.Queue[ObservationMsg] = queue.Queue()
    console, shown_s = Console(), float("-inf")

    def listen() -> RuntimeNode:
        node = RuntimeNode("ghostshell_observe", namespace=robot, use_global_arguments=False)
        node.create_subscription(ObservationMsg, "observation", heard.put, OBSERVATION)
        return node

    with suppress(KeyboardInterrupt), spun(listen):
        while follow or shown_s < 0:
            try:
                message = heard.get(timeout=wait)
            except queue.Empty:
                text = f"no observer of robot '{robot}' says anything; is it launched on this ROS domain?"
                print(f"ghostshell: {text}", file=sys.stderr)
                raise typer.Exit(2) from None
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
    from rich.console import Console
    from rich.live import Live

    from ghostshell_ros.cli.loops import LoopsClient, LoopsView

    console, view = Console(), LoopsView()
    begun_s, heard = time.monotonic(), False
    shown = nullcontext() if lines or not console.is_terminal else Live(console=console, auto_refresh=False)
    with suppress(KeyboardInterrupt), spun(lambda: LoopsClient(robot)) as client, shown as live:
        while True:
            now_s = time.monotonic()
            try:
                kind, message = client.inbox.get(timeout=0.2)
            except queue.Empty:
                if not heard and now_s - begun_s > wait:
                    text = f"no process scheduler of robot '{robot}' says anything; is it launched on this ROS domain?"
                    print(f"ghostshell: {text}", file=sys.stderr)
                    raise typer.Exit(2) from None
            else:
                heard = True
                for line in view.hear(kind, message, now_s):
                    console.print(f"{now_s - begun_s:8.2f} s  {line}", soft_wrap=True, markup=False, highlight=False)
            if live is not None:
                live.update(view.table(now_s), refresh=True)
