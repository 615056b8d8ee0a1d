# SPDX-License-Identifier: Apache-2.0
"""`ghostshell tokens`: print the function tokens of a stream as JSON lines, each as soon as it is complete."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, Repair

_READ_BYTES = 65_536


class InputError(ValueError):
    """A stream cannot be read; the message says why and what to do."""


def pieces(file: Path | None, chunk: int = 0) -> Iterator[str]:
    """Text of a UTF-8 file, or of standard input for None and "-", as it arrives or cut into `chunk` characters.

    Raises InputError when it cannot be opened or is not UTF-8.
    """
    try:
        yield from _pieces(file, chunk)
    except UnicodeError as error:
        raise InputError(f"{file or 'standard input'} is not UTF-8: {error}; convert it first") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; name a file, or - for standard input") from error


def _pieces(file: Path | None, chunk: int) -> Iterator[str]:
    if file is None or str(file) == "-":
        yield from _cut(_decoded(sys.stdin.buffer), chunk)
    else:
        with file.open("rb", buffering=0) as stream:
            yield from _cut(_decoded(stream), chunk)


def _decoded(stream: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    read = getattr(stream, "read1", stream.read)
    done = 0
    while True:
        data: bytes = read(_READ_BYTES)
        kept = len(decoder.getstate()[0])
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise UnicodeError(f"byte 0x{byte:02x} at offset {done - kept + error.start}") from None
        done += len(data)
        if text:
            yield text
        if not data:
            return


def _cut(texts: Iterable[str], size: int) -> Iterator[str]:
    for text in texts:
        for i in range(0, len(text), size or len(text)):
            yield text[i : i + (size or len(text))]


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
