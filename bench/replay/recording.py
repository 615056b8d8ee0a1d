# SPDX-License-Identifier: Apache-2.0
"""Write recorded model streams in the file format `ghostshell-stream/1`: JSON lines in UTF-8, one stream after
another, of all the programs that record into the file.

A stream is a header, its pieces in order of time, and an end; `t` is in seconds since the request::

    {"format": "ghostshell-stream/1", "model": "openai:gpt-4.1", "prompt_sha256": "…", "recorded":
    "2026-01-31T12:00:00Z", "layer": "s1"}
    {"t": 0.412, "text": "<nod"}
    {"t": 0.430, "text": "/>Hello"}
    {"t": 0.501, "finish": "stop", "usage": {"prompt_tokens": 812, "completion_tokens": 9}}

A stream that failed ends in ``{"t": …, "error": "MODEL_CONNECTION", "message": "…"}`` instead, also with its usage
where that is known. `prompt_sha256` is `ModelRequest.sha256`; `layer` is there where the prompt names one. A file never holds
a prompt, a header of HTTP or a key.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import io
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.reading import layer_of
from planners.models.base import (
    CancelToken,
    Finished,
    ModelClient,
    ModelError,
    ModelEvent,
    ModelRequest,
    Retrying,
    Surroundings,
    TextDelta,
    Usage,
)
from planners.models.config import ConfigError, ModelConfig
from skill_kernel.codes import ModelCode

FORMAT = "ghostshell-stream/1"
LOCK_S = 5.0
"""Limit on the wait for other programs that write to the same file."""
LAST_LINE = 65_536
"""Bytes of the end of a file in which its last line is looked for first."""


@dataclass(frozen=True)
class Piece:
    """Hold text that arrived `t_s` seconds after the request."""

    t_s: float
    text: str


@dataclass(frozen=True)
class RecordedStream:
    """Hold one answer. It ended at `end_s` with `finish`, or with `error` where the model failed."""

    model: str
    prompt_sha256: str
    recorded: str
    pieces: tuple[Piece, ...]
    end_s: float
    finish: str = "stop"
    error: ModelCode = ModelCode.NONE
    message: str = ""
    usage: Usage | None = None
    layer: str = ""
    """Planning layer that asked; "" where the prompt did not tell."""


def append_recording(path: Path, streams: Sequence[RecordedStream]) -> None:
    """Add whole streams to a file, while other programs may do the same; a new file is its owner's alone to read.

    What a killed program left of a stream is cut off first. Raises OSError: the file is then as it was.
    """
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for stream in streams for line in _lines(stream))
    left = memoryview(text.encode(errors="replace"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b", buffering=0) as file:
        _lock(file.fileno())
        end = _end_of_streams(file)
        file.truncate(end)
        file.seek(max(0, end - 1))
        try:
            if file.read(1) not in (b"", b"\n"):
                file.write(b"\n")
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def _lock(file: int) -> None:
    """Lock a file until it is closed. Raises OSError when another program does not let go of it."""
    until_s = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until_s:
                raise OSError(errno.EBUSY, f"another program has locked it for {LOCK_S:g} s") from None
            time.sleep(0.005)


def _end_of_streams(file: io.FileIO) -> int:
    """Return up to where a file holds whole streams, most often all of it. Raises OSError for a file of another kind."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    begin = f'{{"format": "{FORMAT}"'.encode()
    if not begin.startswith(file.read(len(begin))):
        raise OSError(errno.EEXIST, "it is no recording; name another file")
    file.seek(max(0, size - LAST_LINE))
    if _is_end(file.read().splitlines(keepends=True)[-1:]):
        return size
    file.seek(0)
    lines = file.read().splitlines(keepends=True)
    while lines and not _is_end(lines[-1:]):
        size -= len(lines.pop())
    return size


def _is_end(line: Sequence[bytes]) -> bool:
    """Return whether a file's last line, if any, is the whole end of a stream."""
    try:
        end = json.loads(line[0]) if line else None
    except (ValueError, RecursionError):
        return False
    return isinstance(end, dict) and ("finish" in end or "error" in end)


def _lines(stream: RecordedStream) -> list[dict[str, object]]:
    header = {"format": FORMAT, "model": stream.model, "prompt_sha256": stream.prompt_sha256, "recorded": stream.recorded}
    lines: list[dict[str, object]] = [{**header, **({"layer": stream.layer} if stream.layer else {})}]
    lines += [{"t": round(piece.t_s, 6), "text": piece.text} for piece in stream.pieces]
    end: dict[str, object] = {"t": round(stream.end_s, 6)}
    if stream.error is ModelCode.NONE:
        end["finish"] = stream.finish
    else:
        end["error"] = stream.error.name
        end["message"] = stream.message
    usage = stream.usage
    if usage is not None:
        counts: dict[str, object] = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        }
        if usage.cost_usd is not None:
            counts["cost_usd"] = usage.cost_usd
        end["usage"] = counts
    return [*lines, end]


_log = logging.getLogger(__name__)


def record_client(config: ModelConfig, around: Surroundings, inner: ModelClient | None) -> ModelClient:
    """Return the client of the provider `record`. Raises ConfigError without a file or a model."""
    if config.path is None or inner is None:
        raise ConfigError("provider record needs `path`, the file of the recorded stream, and `inner`, the model to record")
    return RecordingModelClient(inner, config.path, monotonic_s=around.monotonic_s, wall_s=around.wall_s)


class RecordingModelClient:
    """Add every stream of `inner` to `path`, to which other nodes may add theirs; the file is whole after each stream.

    Times count from the attempt that was answered. A file that cannot be written is logged; the stream goes on.
    """

    def __init__(
        self,
        inner: ModelClient,
        path: Path,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._inner = inner
        self._path = path
        self._monotonic_s = monotonic_s
        self._wall_s = wall_s

    def __repr__(self) -> str:
        return f"RecordingModelClient({self._inner!r}, {str(self._path)!r})"

    @property
    def name(self) -> str:
        return f"record:{self._inner.name}"

    @property
    def is_language_model(self) -> bool:
        return self._inner.is_language_model

    def prepare(self) -> None:
        try:
            append_recording(self._path, ())
        except (OSError, ValueError) as error:
            why = f"{self.name}: {self._path} cannot be written ({getattr(error, 'strerror', None) or error})"
            raise ModelError(ModelCode.MODEL_REFUSED, why) from error
        self._inner.prepare()

    def close(self) -> None:
        self._inner.close()

    def stream(self, request: ModelRequest, *, cancel: CancelToken) -> Iterator[ModelEvent]:
        began_s = self._monotonic_s()
        recorded = datetime.datetime.fromtimestamp(self._wall_s(), datetime.timezone.utc).isoformat(timespec="seconds")
        pieces: list[Piece] = []
        usage: Usage | None = None
        finish = ""
        code, message = ModelCode.MODEL_CANCELLED, "the reader left"
        events = self._inner.stream(request, cancel=cancel)
        try:
            for event in events:
                if isinstance(event, TextDelta):
                    pieces.append(Piece(self._monotonic_s() - began_s, event.text))
                elif isinstance(event, Usage):
                    usage = event
                elif isinstance(event, Retrying):
                    began_s = self._monotonic_s() + event.wait_s
                elif isinstance(event, Finished):
                    finish, code, message = event.reason, ModelCode.NONE, ""
                yield event
        except ModelError as error:
            code, message = error.code, error.message
            raise
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                with contextlib.suppress(ModelError):
                    close()
            self._keep(
                RecordedStream(
                    model=self._inner.name,
                    prompt_sha256=request.sha256(),
                    recorded=recorded.replace("+00:00", "Z"),
                    pieces=tuple(pieces),
                    end_s=max(self._monotonic_s() - began_s, pieces[-1].t_s if pieces else 0.0),
                    finish=finish,
                    error=code,
                    message=message,
                    usage=usage,
                    layer=str(layer_of(request.system) or ""),
                )
            )

    def _keep(self, stream: RecordedStream) -> None:
        try:
            append_recording(self._path, [stream])
        except OSError as error:
            _log.error("the recording %s could not be written: %s", self._path, error.strerror)
