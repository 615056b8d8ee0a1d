# SPDX-License-Identifier: Apache-2.0
"""Reads the recording of a run (MCAP), also one that a crash cut off; imports no ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAGIC = b"\x89MCAP0\r\n"


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
    """What was asked for of a file, in its order. `whole` is False for one whose end is missing."""

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
    """What the end of a file that is not whole looks like."""


def is_mcap(path: Path) -> bool:
    """Whether a file begins as an MCAP file does. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_run(path: Path, wanted: Callable[[str], bool]) -> RunFile:
    """Read the messages of the topics that `wanted` chooses, in the order they were heard. Raises RunFileError."""
    from mcap.records import Attachment, Channel, Footer, Message, Metadata, Schema
    from mcap_ros2.decoder import DecoderFactory

    run, decoders = RunFile(path), DecoderFactory()
    schemas: dict[int, Schema] = {}
    channels: dict[int, Channel] = {}
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
                decode = decoders.decoder_for(channel.message_encoding, schemas.get(channel.schema_id))
                if decode is None:
                    raise RunFileError(f"{path}: topic {channel.topic} is not encoded as ROS 2 does (cdr, ros2msg)")
                try:
                    value = decode(record.data)
                except Exception as error:
                    raise RunFileError(f"{path}: a message of {channel.topic} is not of its type ({error})") from error
                kind = run.kinds[channel.topic]
                run.messages.append(RunMessage(channel.topic, kind, record.log_time, value, record.data))
        elif isinstance(record, Attachment):
            run.attachments[record.name] = record.data.decode("utf-8", "replace")
        elif isinstance(record, Metadata):
            run.metadata[record.name] = dict(record.metadata)
        elif isinstance(record, Footer):
            run.whole = True
    run.messages.sort(key=lambda message: message.log_ns)
    return run


def _records(run: RunFile) -> Iterator[Any]:
    """The file's records up to its end, or up to where it is cut off or damaged, which `run.fault` then says."""
    from mcap.stream_reader import StreamReader

    count = 0
    try:
        if not is_mcap(run.path):
            raise RunFileError(f"{run.path} is no MCAP file; make one with: ghostshell record")
        size = run.path.stat().st_size
        with run.path.open("rb") as file:
            records = StreamReader(file, validate_crcs=True, record_size_limit=size).records
            while True:
                try:
                    record = next(records, None)
                except OSError:
                    raise
                except Exception as error:  # noqa: BLE001 - whatever the library makes of damaged bytes
                    run.fault = f"{type(error).__name__} after {count} records"
                    return
                if record is None:
                    return
                count += 1
                yield record
    except OSError as error:
        raise RunFileError(f"{run.path} cannot be read ({error.strerror}); check the path") from error
