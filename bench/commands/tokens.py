# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell tokens`: print the function tokens of a stream as JSON lines, each as soon as it is complete."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, Repair
from ghostshell_ros.cli.output import fail

_READ_BYTES = 65_536


class InputError(ValueError):
    """Raised when a stream cannot be read; the message says why and what to do."""


def pieces(file: Path | None, chunk: int = 0) -> Iterator[str]:
    """Yield the text of a UTF-8 file, or of standard input for None and "-", as it arrives or cut into `chunk` characters.

    Raises InputError when it cannot be opened or is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    done = start = 0
    try:
        with nullcontext(sys.stdin.buffer) if file is None or str(file) == "-" else file.open("rb", buffering=0) as stream:
            read = getattr(stream, "read1", stream.read)
            data = b"-"
            while data:
                data = read(_READ_BYTES)
                start = done - len(decoder.getstate()[0])
                done += len(data)
                text = decoder.decode(data, final=not data)
                size = chunk or max(1, len(text))
                yield from (text[i : i + size] for i in range(0, len(text), size))
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at offset {start + error.start}"
        raise InputError(f"{file or 'standard input'} is not UTF-8: {byte}; convert it first") from None
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; name a file, or - for standard input") from error


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


def tokens(
    file: Annotated[Path | None, typer.Argument(help="UTF-8 text; - or nothing reads standard input")] = None,
    chunk: Annotated[int, typer.Option(min=0, help="characters fed at a time; 0: as they arrive")] = 0,
    strict: Annotated[bool, typer.Option("--strict/--lenient", help="end at a violation, or mend and go on")] = False,
) -> None:
    """Print one JSON object a token: kind, name, attrs, text, start, end (offsets in characters).

    What the lenient parser mends goes to standard error as JSON lines: code, message, offset, line, column, snippet.
    Exit status: 0 all read, 2 a violation in strict mode (one such line) or input that cannot be read.
    """
    write_utf8()
    parser = StreamingParser("strict" if strict else "lenient")
    try:
        with until_reader_leaves():
            for piece in pieces(file, chunk):
                _print(parser.feed(piece), parser)
            _print(parser.close(), parser)
    except ParseError as error:
        _print(error.tokens, parser)
        print(problem_line(error), file=sys.stderr)
        raise typer.Exit(2) from None
    except InputError as error:
        fail(error, command="tokens")


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
    """Return a violation or a repair as one JSON line."""
    shown = {
        "code": problem.code.name,
        "message": problem.message,
        "offset": problem.offset,
        "line": problem.line,
        "column": problem.column,
        "snippet": problem.snippet,
    }
    return json.dumps(shown, ensure_ascii=False)
