# SPDX-License-Identifier: Apache-2.0
"""Print failures, shortened texts and UTF-8, for all commands."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer


def fail(message: object, *, command: str = "", status: int = 2) -> NoReturn:
    """End a command with a sentence on standard error and an exit status."""
    print(f"ghostshell {command}".rstrip() + f": {message}", file=sys.stderr)
    raise typer.Exit(status)


def shortened(text: str, length: int) -> str:
    """Return the text in one line of at most `length` characters."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def write_utf8() -> None:
    """Write UTF-8 whatever the locale says."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")


@contextmanager
def until_reader_leaves() -> Iterator[None]:
    """Write to standard output; where its reader has gone, nothing is left to say and the command goes on in silence."""
    try:
        yield
    except BrokenPipeError:
        # The interpreter must not flush into the closed pipe at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
