# SPDX-License-Identifier: Apache-2.0
"""`ghostshell watch`: the planning loops of a running robot, as they work."""

from __future__ import annotations

import queue
import sys
import time
from typing import Annotated

import typer

from ghostshell_ros.cli.say import Robot, Wait


def watch(
    robot: Robot = "coco",
    wait: Wait = 10.0,
    lines: Annotated[bool, typer.Option("--lines", help="one line for each piece of news, and no table")] = False,
) -> None:
    """Follow a robot's loops until Ctrl-C: who thinks, who moves, what is queued, and what it has cost."""
    import rclpy
    from rich.console import Console
    from rich.live import Live

    from ghostshell_ros.cli.loops_feed import LoopsClient, LoopsFeed
    from ghostshell_ros.cli.loops_view import LoopsView
    from ghostshell_ros.runtime.node_runtime import NodeHost

    rclpy.init(signal_handler_options=rclpy.SignalHandlerOptions.NO)
    client = LoopsClient(robot)
    host = NodeHost([client])
    host.start()
    console, view = Console(), LoopsView()
    feed, begun_s, heard = LoopsFeed(view), time.monotonic(), False
    live = None if lines or not console.is_terminal else Live(console=console, auto_refresh=False)
    try:
        if live is not None:
            live.start()
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
                for line in feed.hear(kind, message, now_s):
                    console.print(f"{now_s - begun_s:8.2f} s  {line}", soft_wrap=True, markup=False, highlight=False)
            if live is not None:
                live.update(view.table(now_s), refresh=True)
    except KeyboardInterrupt:
        pass
    finally:
        if live is not None:
            live.stop()
        host.close()
        rclpy.try_shutdown()
