# SPDX-License-Identifier: Apache-2.0
"""Print failures, for all commands."""

import sys
from typing import NoReturn

import typer


def fail(message: object, *, command: str = "", status: int = 2) -> NoReturn:
    """End a command with a sentence on standard error and an exit status."""
    print(f"ghostshell {command}".rstrip() + f": {message}", file=sys.stderr)
    raise typer.Exit(status)
