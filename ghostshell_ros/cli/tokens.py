# SPDX-License-Identifier: Apache-2.0
"""`ghostshell tokens`: the function tokens of a stream as JSON lines, each as soon as it is complete."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, Repair
from ghostshell_ros.cli.stream_input import InputError, pieces


def tokens(
    file: Annotated[Path | None, typer.Argument(help="UTF-8 text; - or nothing reads standard input")] = None,
    chunk: Annotated[int, typer.Option(min=0, help="characters fed at a time; 0: as they arrive")] = 0,
    strict: Annotated[bool, typer.Option("--strict/--lenient", help="end at a violation, or mend and go on")] = False,
) -> None:
    """Print one JSON object a token: kind, name, attrs, text, start, end (offsets in characters).

    What the lenient parser mends goes to standard error as JSON lines: code, message, offset, line, column, snippet.
    Exit status: 0 all read, 2 a violation in strict mode (one such line) or input that cannot be read.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8")
    parser = StreamingParser("strict" if strict else "lenient")
    try:
        for piece in pieces(file, chunk):
            _print(parser.feed(piece), parser)
        _print(parser.close(), parser)
    except ParseError as error:
        _print(error.tokens, parser)
        print(problem_line(error), file=sys.stderr)
        raise typer.Exit(2) from None
    except BrokenPipeError:
        # The reader has gone: nothing is left to say, and the interpreter must not flush into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except InputError as error:
        _fail(str(error))


def _print(found: Iterable[FunctionToken], parser: StreamingParser) -> None:
    lines = [_token(token) for token in found]
    if lines:
        print("\n".join(lines), flush=True)
    for repair in parser.take_repairs():
        print(problem_line(repair), file=sys.stderr, flush=True)


def _token(token: FunctionToken) -> str:
    kind, name, attrs, text, start, end, _, _ = token
    shown = {"kind": kind.value, "name": name, "attrs": dict(attrs), "text": text, "start": start, "end": end}
    return json.dumps(shown, ensure_ascii=False)


def problem_line(problem: ParseError | Repair) -> str:
    """A violation or a repair as one JSON line."""
    shown = {
        "code": problem.code.name,
        "message": problem.message,
        "offset": problem.offset,
        "line": problem.line,
        "column": problem.column,
        "snippet": problem.snippet,
    }
    return json.dumps(shown, ensure_ascii=False)


def _fail(message: str) -> None:
    print(f"ghostshell tokens: {message}", file=sys.stderr)
    raise typer.Exit(2)
