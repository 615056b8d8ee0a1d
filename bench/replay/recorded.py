# SPDX-License-Identifier: Apache-2.0
"""Read recorded runs and streams, and give their answers as a model: with the recorded timing, faster, or at once."""

from __future__ import annotations

import codecs
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from bench.reading import layer_of
from bench.replay.recording import FORMAT, Piece, RecordedStream
from planners.models.base import (
    MAX_COUNT,
    CancelToken,
    Finished,
    ModelClient,
    ModelError,
    ModelEvent,
    ModelRequest,
    Surroundings,
    TextDelta,
    Usage,
)
from planners.models.config import ConfigError, ModelConfig
from planners.prompts.blocks import Layer
from skill_kernel.codes import ModelCode
from skill_kernel.config.sections import shown
from skill_kernel.config.yaml_text import is_file
from skill_kernel.observation.records import LATEST_S

MAGIC = b"\x89MCAP0\r\n"
MAX_BYTES = 64 * 1024 * 1024
"""Size of a file of streams."""
MAX_CHUNK = 32 * 1024 * 1024
"""Bytes that a chunk of an MCAP file unpacks to; the recorder's have a quarter of a megabyte, or one message."""
MAX_RATIO = 100
"""All chunks of a file unpack to MAX_CHUNK and this many times its size."""


class RecordingError(ValueError):
    """A recording cannot be read; the message names file and line."""


class RunFileError(ValueError):
    """A file is no recording; the sentence names it and says why."""


@dataclass(frozen=True)
class RunMessage:
    """One message of a topic. `value` has the fields of its type; `data` is what was on the wire."""

    topic: str
    kind: str
    log_ns: int
    value: Any
    data: bytes


@dataclass
class RunFile:
    """Messages read from a file, in its order. `whole` is False for one whose end is missing."""

    path: Path
    messages: list[RunMessage] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """Messages of each topic, also of those that were not asked for."""
    kinds: dict[str, str] = field(default_factory=dict)
    attachments: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    begin_ns: int = 0
    end_ns: int = 0
    whole: bool = False
    fault: str = ""
    """Description of how the file breaks off, where its end is missing."""


def is_mcap(path: Path) -> bool:
    """Return whether a file begins as an MCAP file does. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_run(path: Path, wanted: Callable[[str], bool]) -> RunFile:
    """Read the messages of the topics that `wanted` chooses, in the order they were heard. Raises RunFileError."""
    from mcap.records import Attachment, Channel, Footer, Message, Metadata, Schema, Statistics
    from mcap_ros2.decoder import DecoderFactory

    run, decoders = RunFile(path), DecoderFactory()
    schemas: dict[int, Schema] = {}
    channels: dict[int, Channel] = {}
    told: int | None = None
    for record in _records(run):
        if isinstance(record, Schema):
            schemas[record.id] = record
        elif isinstance(record, Channel):
            channels[record.id] = record
            run.kinds[record.topic] = schemas[record.schema_id].name if record.schema_id in schemas else ""
        elif isinstance(record, Message) and record.channel_id in channels:
            channel = channels[record.channel_id]
            run.counts[channel.topic] = run.counts.get(channel.topic, 0) + 1
            run.begin_ns = min(run.begin_ns or record.log_time, record.log_time)
            run.end_ns = max(run.end_ns, record.log_time)
            if wanted(channel.topic):
                try:
                    decode = decoders.decoder_for(channel.message_encoding, schemas.get(channel.schema_id))
                    value = decode(record.data) if decode is not None else None
                except Exception as error:
                    why = f"a message of {shown(channel.topic)} is not of its type ({shown(error, 200)})"
                    raise RunFileError(f"{path}: {why}") from error
                if decode is None:
                    raise RunFileError(f"{path}: topic {shown(channel.topic)} is not encoded as ROS 2 does (cdr, ros2msg)")
                kind = run.kinds[channel.topic]
                run.messages.append(RunMessage(channel.topic, kind, record.log_time, value, record.data))
        elif isinstance(record, Attachment):
            run.attachments[record.name] = record.data.decode("utf-8", "replace")
        elif isinstance(record, Metadata):
            run.metadata[record.name] = dict(record.metadata)
        elif isinstance(record, Statistics):
            told = record.message_count
        elif isinstance(record, Footer):
            run.whole = True
    # A chunk whose kind is damaged looks like a program's own record, which readers skip.
    heard = sum(run.counts.values())
    if told is not None and heard < told:
        run.whole, run.fault = False, f"{heard} of its {told} messages are left"
    run.messages.sort(key=lambda message: message.log_ns)
    return run


def _records(run: RunFile) -> Iterator[Any]:
    """Yield the file's records up to its end, or up to where it is cut off or damaged, which `run.fault` then says."""
    from mcap.stream_reader import StreamReader

    count = 0
    try:
        if not is_mcap(run.path):
            raise RunFileError(f"{run.path} is no MCAP file; make one with: ghostshell record")
        size = run.path.stat().st_size
        with run.path.open("rb") as file:
            reader = StreamReader(file, emit_chunks=True, validate_crcs=True, record_size_limit=size)
            records = _unpacked(reader.records, MAX_CHUNK + MAX_RATIO * size)
            while True:
                try:
                    record = next(records, None)
                except OSError:
                    raise
                except _TooLargeError as error:
                    raise RunFileError(f"{run.path}: {error}") from error
                except Exception as error:  # noqa: BLE001 - whatever the library makes of damaged bytes
                    run.fault = f"{type(error).__name__} after {count} records"
                    return
                if record is None:
                    return
                count += 1
                yield record
    except RunFileError:
        raise
    except (OSError, ValueError) as error:
        raise RunFileError(f"{shown(run.path, 300)} cannot be read ({_why(error)}); check the path") from error


class _TooLargeError(ValueError):
    """A chunk unpacks to more than is read."""


def _unpacked(records: Iterable[Any], room: int) -> Iterator[Any]:
    """Yield the records with those inside chunks in their place. Raises _TooLargeError where chunks unpack to more than `room`
    bytes in all, or one to more than MAX_CHUNK, whatever sizes they claim."""
    import lz4.frame
    import zstandard
    from mcap.records import Chunk
    from mcap.stream_reader import breakup_chunk

    for record in records:
        if not isinstance(record, Chunk):
            yield record
            continue
        data, most = record.data, min(room, MAX_CHUNK, record.uncompressed_size)
        if record.compression == "zstd":
            data = zstandard.ZstdDecompressor().stream_reader(data).read(most + 1)
        elif record.compression == "lz4":
            data = lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=most + 1)
        if len(data) > most:
            raise _TooLargeError(f"its chunks unpack to more than is read ({most} bytes here); it is damaged, or no recording")
        room -= len(data)
        yield from breakup_chunk(replace(record, compression="", data=data), validate_crc=True)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or shown(error)


TOPICS = ("prompts", "answers", "llm_chunks")


def read_run_answers(path: Path) -> tuple[RecordedStream, ...]:
    """All answers in the order they were asked for; none when the file is no MCAP file. `FILE.mcap#kalos` names one robot.

    A stream without a message of its answer (its model still wrote when the recording ended) is put together from its
    chunks. Raises RecordingError.
    """
    file, robot = str(path), ""
    try:
        if "#" in path.name and not is_file(path):
            file, _, robot = file.rpartition("#")
        if not is_mcap(Path(file)):
            return ()
        answers = _answers(read_run(Path(file), lambda topic: _is_wanted(topic, robot)).messages)
    except RunFileError as error:
        raise RecordingError(str(error)) from error
    except (AttributeError, TypeError, ArithmeticError) as error:
        raise RecordingError(f"{file}: a message of {', '.join(TOPICS)} is not of its type ({shown(error)})") from error
    except (OSError, ValueError) as error:
        raise RecordingError(f"{shown(file, 300)} cannot be read ({_why(error)}); check the path or record it first") from error
    if not answers:
        whose = f" of robot {robot}" if robot else ""
        raise RecordingError(f"{file} holds no answer of a model{whose}; see: ghostshell replay --info {file}")
    return answers


def _is_wanted(topic: str, robot: str) -> bool:
    namespace, _, name = topic.rpartition("/")
    return name in TOPICS and (not robot or namespace.strip("/") == robot.strip("/"))


def _answers(messages: list[RunMessage]) -> tuple[RecordedStream, ...]:
    asked: dict[str, Any] = {}
    chunks: dict[str, list[Any]] = {}
    timed: list[tuple[float, RecordedStream]] = []
    told: set[str] = set()
    for message in messages:
        value = message.value
        if message.topic.endswith("/prompts"):
            asked[value.stream_id] = value
        elif message.topic.endswith("/answers"):
            told.add(value.stream_id)
            timed.append((_seconds(value.stamp) - value.end_s, _of_answer(value)))
        else:
            chunks.setdefault(value.stream_id, []).append(value)
    for stream_id, pieces in chunks.items():
        # Where answers were told, a stream that no prompt names is no model's: a motion that needed none, say.
        if stream_id not in told and pieces[0].seq == 0 and (stream_id in asked or not told):
            timed.append(_of_chunks(pieces, asked.get(stream_id)))
    return tuple(stream for _, stream in sorted(timed, key=lambda item: item[0]))


def _of_answer(value: Any) -> RecordedStream:
    code = _code(value.error_code)
    usage = Usage(
        value.prompt_tokens, value.completion_tokens, value.cached_tokens, None if value.cost_usd < 0 else value.cost_usd
    )
    pieces = tuple(Piece(t_s, text) for t_s, text in zip(value.times_s, value.pieces, strict=False) if text)
    return RecordedStream(
        value.model, value.sha256, "", pieces, value.end_s, value.finish or "stop", code, value.error_msg, usage, value.layer
    )


def _of_chunks(chunks: list[Any], prompt: Any) -> tuple[float, RecordedStream]:
    """Without the prompt's time the answer begins at its first chunk."""
    began_s = _seconds(prompt.stamp if prompt is not None else chunks[0].stamp)
    pieces = tuple(Piece(max(0.0, _seconds(c.stamp) - began_s), c.text) for c in chunks if c.text)
    end = chunks[-1]
    code = _code(end.error_code) if end.last else ModelCode.MODEL_CONNECTION
    message = end.error_msg if end.last else "the recording ended before the answer did"
    return began_s, RecordedStream(
        prompt.model if prompt is not None else "",
        prompt.sha256 if prompt is not None else "",
        "",
        pieces,
        max(0.0, _seconds(end.stamp) - began_s),
        "stop",
        code,
        message,
        None,
        prompt.layer if prompt is not None else "stream",
    )


def _code(number: int) -> ModelCode:
    return ModelCode(number) if number in set(ModelCode) else ModelCode.MODEL_CONNECTION


def _seconds(stamp: Any) -> float:
    return float(stamp.sec + stamp.nanosec * 1e-9)


def read_recording(path: Path) -> tuple[RecordedStream, ...]:
    """All streams of a file, at least one, but for a last one that a killed program left without its end. Raises
    RecordingError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        text = codecs.getincrementaldecoder("utf-8")().decode(content)  # the last character may be torn
    except UnicodeDecodeError as error:
        raise RecordingError(f"{path} is not UTF-8 text; it is no recording of format {FORMAT}") from error
    except (OSError, ValueError) as error:
        raise RecordingError(f"{shown(path, 300)} cannot be read ({_why(error)}); check the path or record it first") from error
    if len(content) > MAX_BYTES:
        raise RecordingError(f"{path} has more than the {MAX_BYTES} bytes that are read; record a shorter run")
    streams: list[RecordedStream] = []
    header: dict[str, Any] | None = None
    pieces: list[Piece] = []
    # Not splitlines(): a text may hold U+2028, at which that would cut.
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            data = _object(line, where)
        except RecordingError:
            if streams and number == len(lines):
                break
            raise
        if header is None:
            if data.get("format") != FORMAT:
                found = shown(repr(data.get("format")))
                raise RecordingError(f"{where}: expected a header with format {FORMAT!r}, found {found}")
            header, pieces = data, []
            continue
        t_s = data.get("t")
        after = pieces[-1].t_s if pieces else 0.0
        if isinstance(t_s, bool) or not isinstance(t_s, (int, float)) or not after <= t_s <= LATEST_S:
            raise RecordingError(f"{where}: `t` must be a number of seconds not before {after}, not {shown(repr(t_s))}")
        if isinstance(data.get("text"), str):
            pieces.append(Piece(float(t_s), data["text"]))
        else:
            streams.append(_ended(header, tuple(pieces), float(t_s), data, where))
            header = None
    if not streams:
        raise RecordingError(f"{path} ends before its last stream does; record it again")
    return tuple(streams)


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(line)
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RecordingError(f"{where}: holds half of a surrogate pair, which is no character") from error
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{where}: is not valid JSON") from error
    if not isinstance(data, dict):
        raise RecordingError(f"{where}: must be a JSON object")
    return data


def _ended(header: dict[str, Any], pieces: tuple[Piece, ...], end_s: float, data: dict[str, Any], where: str) -> RecordedStream:
    code = ModelCode.NONE
    if "error" in data:
        try:
            code = ModelCode[str(data["error"])]
        except KeyError:
            raise RecordingError(f"{where}: {shown(repr(data['error']))} is no code of a model's error") from None
    elif not isinstance(data.get("finish"), str):
        raise RecordingError(f"{where}: expected `text`, `finish` or `error`")
    return RecordedStream(
        model=str(header.get("model", "")),
        prompt_sha256=str(header.get("prompt_sha256", "")),
        recorded=str(header.get("recorded", "")),
        pieces=pieces,
        end_s=end_s,
        finish=str(data.get("finish", "")),
        error=code,
        message=str(data.get("message", "")),
        usage=_usage(data.get("usage"), where),
        layer=str(header.get("layer", "")),
    )


def _usage(data: object, where: str) -> Usage | None:
    if data is None:
        return None
    if not isinstance(data, dict):
        raise RecordingError(f"{where}: `usage` must be an object of counts")
    try:
        cost = data.get("cost_usd")
        if not all(0 <= number <= MAX_COUNT for number in data.values() if number is not None):
            raise ValueError
        return Usage(
            prompt_tokens=int(data.get("prompt_tokens", 0)),
            completion_tokens=int(data.get("completion_tokens", 0)),
            cached_tokens=int(data.get("cached_tokens", 0)),
            cost_usd=None if cost is None else float(cost),
            cache_write_tokens=int(data.get("cache_write_tokens", 0)),
        )
    except (TypeError, ValueError) as error:
        raise RecordingError(f"{where}: `usage` holds something that is no count") from error


def replay_client(config: ModelConfig, around: Surroundings, inner: ModelClient | None) -> ModelClient:
    """Return the client of the provider `replay`. Raises ConfigError without a file."""
    if config.path is None:
        raise ConfigError("provider replay needs `path`, the file of the recorded stream")
    return ReplayModelClient(config.path, speed=config.speed, monotonic_s=around.monotonic_s, wait=around.wait)


class ReplayModelClient:
    """Answers each request from a recording: with the stream recorded for the same prompt (one not yet used first),
    else with the next one not yet used, of the same planning layer where the recording tells layers (of an MCAP file of
    `ghostshell record`, `FILE.mcap#kalos` takes one robot's answers alone). `speed` 2.0 plays twice as fast; `instant`
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
