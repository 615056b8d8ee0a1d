# SPDX-License-Identifier: Apache-2.0
"""A model client that says again what was recorded, with the recorded timing, faster, or at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from planners.models.base import CancelToken, Finished, ModelError, ModelEvent, ModelRequest, TextDelta
from planners.models.recording import RecordedStream, RecordingError, read_recording
from planners.models.run_answers import read_run_answers
from planners.prompts.blocks import Layer, layer_of
from skill_kernel.codes import ModelCode


class ReplayModelClient:
    """Answers each request from a recording: with the stream recorded for the same prompt (one not yet used first),
    else with the next one not yet used, of the same planning layer where the recording tells layers (an MCAP file of
    `ghostshell record`; `FILE.mcap#kalos` takes one robot's answers alone). `speed` 2.0 plays twice as fast; `instant`
    does not wait at all. A recorded failure fails again."""

    def __init__(
        self,
        path: Path,
        *,
        speed: float | Literal["instant"] = 1.0,
        monotonic_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float, CancelToken], bool] = lambda seconds, cancel: cancel.wait(seconds),
    ) -> None:
        self._path = path
        self._speed = speed
        self._monotonic_s = monotonic_s
        self._wait = wait
        self._lock = threading.Lock()
        self._streams: tuple[RecordedStream, ...] | None = None
        self._used: set[int] = set()
        self._closing = CancelToken()

    def __repr__(self) -> str:
        return f"ReplayModelClient({str(self._path)!r}, speed={self._speed!r})"

    is_language_model = True

    @property
    def name(self) -> str:
        return f"replay:{self._path}"

    def prepare(self) -> None:
        with self._lock:
            self._load()

    def close(self) -> None:
        self._closing.cancel()

    def stream(self, request: ModelRequest, *, cancel: CancelToken) -> Iterator[ModelEvent]:
        began_s = self._monotonic_s()
        own = CancelToken()
        unlink = [cancel.on_cancel(own.cancel), self._closing.on_cancel(own.cancel)]
        left_s = request.deadline_s
        delivered = False
        try:
            recorded = self._choose(request.sha256(), layer_of(request.system) or Layer.STREAM)
            for piece in recorded.pieces:
                left_s = self._until(began_s, piece.t_s, left_s, own, delivered)
                delivered = True
                yield TextDelta(piece.text)
            self._until(began_s, recorded.end_s, left_s, own, delivered)
            if recorded.usage is not None:
                yield recorded.usage
            if recorded.error is not ModelCode.NONE:
                raise ModelError(recorded.error, f"{self.name}: as recorded: {recorded.message}", partial=delivered)
            yield Finished(recorded.finish)
        finally:
            for function in unlink:
                function()

    def _until(self, began_s: float, t_s: float, left_s: float, cancel: CancelToken, delivered: bool) -> float:
        """Wait until `t_s` of the recording is due; returns the seconds of waiting that remain."""
        due_s = 0.0 if self._speed == "instant" else began_s + t_s / self._speed - self._monotonic_s()
        wait_s = max(0.0, due_s)
        cancelled = cancel.cancelled or (wait_s > 0.0 and self._wait(min(wait_s, left_s), cancel))
        if cancelled:
            raise ModelError(ModelCode.MODEL_CANCELLED, f"{self.name}: cancelled", partial=delivered)
        if wait_s > left_s:
            raise ModelError(
                ModelCode.MODEL_TIMEOUT,
                f"{self.name}: the recorded answer is longer than the request's deadline; allow more time or play it faster",
                partial=delivered,
            )
        return left_s - wait_s

    def _choose(self, prompt_sha256: str, layer: Layer) -> RecordedStream:
        with self._lock:
            streams = self._load()
            of_layer = [i for i, stream in enumerate(streams) if stream.layer in ("", layer.value)]
            same = [i for i, stream in enumerate(streams) if stream.prompt_sha256 == prompt_sha256]
            unused = [i for i in of_layer if i not in self._used]
            candidates = [i for i in same if i not in self._used] or same or unused
            if not candidates:
                of = f" of layer {layer.value}" if any(stream.layer for stream in streams) else ""
                raise ModelError(
                    ModelCode.MODEL_REFUSED,
                    f"{self.name}: holds {len(of_layer)} answers{of} and all were given; record a longer run, or start again",
                )
            self._used.add(candidates[0])
            return streams[candidates[0]]

    def _load(self) -> tuple[RecordedStream, ...]:
        if self._streams is None:
            try:
                self._streams = read_run_answers(self._path) or read_recording(self._path)
            except RecordingError as error:
                raise ModelError(ModelCode.MODEL_REFUSED, f"{self.name}: {error}") from error
        return self._streams
