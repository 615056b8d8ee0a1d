# SPDX-License-Identifier: Apache-2.0
"""The command line `ghostshell`: a table of its commands, each in a file of its own that imports what is heavy late."""

from __future__ import annotations

import typer

from bench.commands.evaluate import bench
from bench.commands.simulated_model import simulated_model
from ghostshell_ros.cli.demo import demo
from ghostshell_ros.cli.dry_run import dry_run
from ghostshell_ros.cli.guideline import guideline
from ghostshell_ros.cli.launch import launch
from ghostshell_ros.cli.memory import memory
from ghostshell_ros.cli.observe import observe
from ghostshell_ros.cli.processes import pause, ps, resume, stop
from ghostshell_ros.cli.record import record
from ghostshell_ros.cli.reflex import reflex
from ghostshell_ros.cli.replay import replay
from ghostshell_ros.cli.say import clear, halt, say
from ghostshell_ros.cli.task import prescribe, task
from ghostshell_ros.cli.teleop import teleop
from ghostshell_ros.cli.tokens import tokens
from ghostshell_ros.cli.watch import watch

app = typer.Typer(
    name="ghostshell",
    help="Function tokens on a robot: try streams, start nodes, talk to a robot.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("tokens")(tokens)
app.command("dry-run")(dry_run)
app.command("launch")(launch)
app.command("demo")(demo)
app.command("say")(say)
app.command("halt")(halt)
app.command("clear")(clear)
app.command("teleop")(teleop)
app.command("observe")(observe)
app.command("watch")(watch)
app.command("ps")(ps)
app.command("pause")(pause)
app.command("resume")(resume)
app.command("stop")(stop)
app.command("record")(record)
app.command("replay")(replay)
app.command("simulated-model")(simulated_model)
app.add_typer(bench, name="bench")
app.command("prescribe")(prescribe)
app.add_typer(task, name="task")
app.add_typer(guideline, name="guideline")
app.add_typer(memory, name="memory")
app.add_typer(reflex, name="reflex")


@app.callback()
def _ghostshell() -> None:
    """Keeps sub-commands named even while there is only one."""


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
