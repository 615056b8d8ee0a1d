# SPDX-License-Identifier: Apache-2.0
"""`ghostshell observe`: what a running robot knows of itself and its surroundings."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ghostshell_ros.cli.say import Robot, Wait

if TYPE_CHECKING:
    from rich.console import Console

    from skill_kernel.observation.model import Observation


def observe(
    robot: Robot = "coco",
    wait: Wait = 3.0,
    follow: Annotated[bool, typer.Option("--follow", help="go on showing it until Ctrl-C")] = False,
) -> None:
    """Show the fields of a robot's observation, with their ages; stale and missing ones say so."""
    import rclpy
    from ghostshell.msg import Observation as ObservationMsg
    from rich.console import Console

    from ghostshell_ros.runtime.node_runtime import OBSERVATION
    from ghostshell_ros.wire.observation_messages import from_message

    rclpy.init()
    node = rclpy.create_node("ghostshell_observe", namespace=robot, use_global_arguments=False)
    newest: list[Observation] = []
    node.create_subscription(
        ObservationMsg, "observation", lambda m: newest.append(from_message(m, time.monotonic())), OBSERVATION
    )
    try:
        console, shown_at = Console(), 0.0
        heard_at = time.monotonic()
        while True:
            rclpy.spin_once(node, timeout_sec=0.1)
            if newest:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > wait:
                text = f"no observer of robot '{robot}' says anything; is it launched on this ROS domain?"
                print(f"ghostshell: {text}", file=sys.stderr)
                raise typer.Exit(2)
            if newest and time.monotonic() - shown_at >= 0.5:
                if follow and console.is_terminal:
                    console.clear()
                _show(console, newest[-1])
                if not follow:
                    return
                shown_at = time.monotonic()
            newest.clear()
    except KeyboardInterrupt:
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def _show(console: Console, observation: Observation) -> None:
    from rich.markup import escape
    from rich.table import Table

    from planners.prompts.quoting import quoted
    from skill_kernel.config.observation import Serialise
    from skill_kernel.observation.render import shown

    table = Table("field", "age [s]", "", "value")
    for name, field in observation.fields.items():
        age = field.age(observation.stamp)
        state = "missing" if field.value is None else "stale" if field.stale(observation.stamp) else ""
        value = field.missing if field.value is None else quoted(shown(field.value, Serialise()))
        table.add_row(escape(name), f"{age:.1f}", state, escape(value))
    console.print(table)
