# SPDX-License-Identifier: Apache-2.0
"""Write recorded model streams in the file format `ghostshell-stream/1`: JSON lines in UTF-8, one stream after
another.

A stream is a header, its pieces in order of time, and an end; `t` is in seconds since the request::

    {"format": "ghostshell-stream/1", "model": "openai:gpt-4.1", "prompt_sha256": "…", "recorded":
    "2026-01-31T12:00:00Z"} {"t": 0.412, "text": "<nod"}
    {"t": 0.430, "text": "/>Hello"}
    {"t": 0.501, "finish": "stop", "usage": {"prompt_tokens": 812, "completion_tokens": 9}}

A stream that failed ends in ``{"t": …, "error": "MODEL_CONNECTION", "message": "…"}`` instead, also with its usage
where that is known. `prompt_sha256` is `ModelRequest.sha256`. A file never holds a prompt, a header of HTTP or a key.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from skill_kernel.config.yaml_text import replace_file

FORMAT = "ghostshell-stream/1"


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
    """Which planning layer had asked; a file of JSON lines does not tell."""


def write_recording(path: Path, streams: Sequence[RecordedStream]) -> None:
    """Write all streams so that the file is either the old one or the new one, whole. Raises OSError."""
    replace_file(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for stream in streams for line in _lines(stream)))


def _lines(stream: RecordedStream) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = [
        {"format": FORMAT, "model": stream.model, "prompt_sha256": stream.prompt_sha256, "recorded": stream.recorded}
    ]
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
    """Write every stream of `inner` to `path`, which begins anew with the first; the file is whole after each stream.

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
        self._lock = threading.Lock()
        self._streams: list[RecordedStream] = []

    def __repr__(self) -> str:
        return f"RecordingModelClient({self._inner!r}, {str(self._path)!r})"

    @property
    def name(self) -> str:
        return f"record:{self._inner.name}"

    @property
    def is_language_model(self) -> bool:
        return self._inner.is_language_model

    def prepare(self) -> None:
        folder = self._path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror
        else:
            reason = None if os.access(folder, os.W_OK) and not self._path.is_dir() else "no permission, or it is a folder"
        if reason is not None:
            raise ModelError(ModelCode.MODEL_REFUSED, f"{self.name}: {self._path} cannot be written ({reason})")
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
                )
            )

    def _keep(self, stream: RecordedStream) -> None:
        with self._lock:
            self._streams.append(stream)
            try:
                write_recording(self._path, self._streams)
            except OSError as error:
                _log.error("the recording %s could not be written: %s", self._path, error.strerror)
