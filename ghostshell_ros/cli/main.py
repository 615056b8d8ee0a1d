# SPDX-License-Identifier: Apache-2.0
"""The command line `ghostshell`. A command is imported when it is used; installed packages add commands of their own."""

import inspect
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from ghostshell_ros.cli.output import fail
from skill_kernel.config.plugins import COMMANDS, PluginError, how_to_install, load_plugin, plugins

_COMMANDS = {
    "launch": "launch",
    "chat": "chat",
    "say": "say answer halt clear ps pause resume stop",
    "skills": "skills reload",
    "grammar": "grammar",
    "teleop": "teleop",
    "watch": "observe watch",
    "prescriptions": "prescribe task guideline reflex",
    "memory": "memory",
    "learned": "learned",
    "page": "page",
    "mcp": "mcp",
    "foxglove": "foxglove",
    "security": "security",
    "doctor": "doctor",
}
OWN = {command: module for module, commands in _COMMANDS.items() for command in commands.split()}
"""Commands of this package and the modules of ghostshell_ros.cli that hold them."""


class Commands(TyperGroup):
    """Import a command when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of other packages last."""
        return [*OWN, *(name for name in plugins(COMMANDS) if name not in OWN)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name. Exits with status 2 where the package that provides it is missing or broken."""
        try:
            if cmd_name in OWN:
                module = import_module(f"ghostshell_ros.cli.{OWN[cmd_name]}")
                return _command(cmd_name, getattr(module, cmd_name.replace("-", "_")))
            if cmd_name in plugins(COMMANDS) or how_to_install(cmd_name):
                return _command(cmd_name, load_plugin(COMMANDS, cmd_name))
        except PluginError as error:
            fail(error)
        return None


def _command(name: str, what: Any) -> Any:
    """Return the command for a function, or for an application with commands of its own."""
    parent = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    parent.callback()(lambda: None)
    if isinstance(what, typer.Typer):
        parent.add_typer(what, name=name)
    else:
        # Typer keeps the line breaks of a docstring; the terminal's width decides here.
        paragraphs = (inspect.getdoc(what) or "").split("\n\n")
        parent.command(name, help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))(what)
    return typer.main.get_group(parent).commands[name]


app = typer.Typer(
    name="ghostshell",
    cls=Commands,
    help="Function tokens on a robot: try streams, start nodes, talk to a robot.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _ghostshell() -> None:
    """Make the application a group of commands."""


def main() -> None:
    app()


if __name__ == "__main__":
    main()
