# SPDX-License-Identifier: Apache-2.0
"""Reads a stream of function tokens from a file or standard input, as it arrives."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

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
