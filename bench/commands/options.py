# SPDX-License-Identifier: Apache-2.0
"""Parse options and print tables for the commands that measure."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from bench.evaluation.tables import Table


def show(table: Table) -> None:
    """Print a table."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as RichTable

    shown = RichTable(title=escape(table.title), title_justify="left", title_style="bold")
    for column in table.columns:
        shown.add_column(escape(column), overflow="fold")
    for row in table.rows:
        shown.add_row(*map(escape, row))
    Console(width=None if os.isatty(1) else 160).print(shown)


def words(text: str) -> list[str]:
    """Split a list at commas and spaces."""
    return [word for word in text.replace(",", " ").split() if word]


def fail(message: str) -> NoReturn:
    """Say why the command cannot start, and exit with 2."""
    print(f"ghostshell bench: {message}", file=sys.stderr)
    raise typer.Exit(2)
