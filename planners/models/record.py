# SPDX-License-Identifier: Apache-2.0
"""A model client that passes another one through and keeps what it said in a file, with its timing."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from planners.models.base import (
    CancelToken,
    Finished,
    ModelClient,
    ModelError,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    Usage,
)
from planners.models.recording import Piece, RecordedStream, write_recording
from skill_kernel.codes import ModelCode

_log = logging.getLogger(__name__)


class RecordingModelClient:
    """Writes every stream of `inner` to `path`, which begins anew with the first; the file is whole after each stream.

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
