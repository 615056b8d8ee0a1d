# SPDX-License-Identifier: Apache-2.0
"""Write the MCAP file of a run so that a crash at any time leaves all but the last second readable."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mcap.writer import CompressionType, Writer

from skill_kernel.config.yaml_text import private

CHUNK_BYTES = 256 * 1024
"""Size from which on a chunk is compressed and written before its second is over."""


class RecordingWriteError(RuntimeError):
    """Raised when the file cannot be written any further, with the reason and the remedy. Flushed messages are whole."""


class RunWriter:
    """Write one file: `channel` once for each topic, `message` for each message, `flush` each second, `finish` at the end.

    A file that exists is never touched. Raises RecordingWriteError.
    """

    def __init__(self, path: Path, *, file: BinaryIO | None = None) -> None:
        self.path = path
        self.messages = 0
        self._schemas: dict[str, int] = {}
        self._unflushed = 0
        self._whole = 0
        self._ended = False
        try:
            if file is None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "xb", opener=private) if file is None else file  # noqa: SIM115 - closed by finish
        except FileExistsError:
            raise RecordingWriteError(f"{path} exists already; name another file") from None
        except OSError as error:
            raise self._failed(error) from error
        self._writer = Writer(self._file, chunk_size=CHUNK_BYTES, compression=CompressionType.ZSTD)
        with self._guarded():
            self._writer.start(profile="ros2", library="ghostshell")
            self._keep()

    def channel(self, topic: str, kind: str, schema: str, qos: str) -> int:
        """Register a topic. Return the number under which its messages are written."""
        if kind not in self._schemas:
            self._schemas[kind] = self._writer.register_schema(kind, "ros2msg", schema.encode())
        return self._writer.register_channel(topic, "cdr", self._schemas[kind], {"offered_qos_profiles": qos})

    def message(self, channel: int, data: bytes, *, log_ns: int, publish_ns: int) -> None:
        """Write one serialised message."""
        self.messages += 1
        self._unflushed += 1
        with self._guarded():
            self._writer.add_message(channel, log_time=log_ns, data=data, publish_time=publish_ns, sequence=self.messages)

    def attachment(self, name: str, text: str, *, now_ns: int, media_type: str = "text/plain") -> None:
        """Attach a text as a file."""
        with self._guarded():
            self._writer.add_attachment(now_ns, now_ns, name, media_type, text.encode())
            self._keep()

    def metadata(self, name: str, values: dict[str, str]) -> None:
        """Write named values."""
        with self._guarded():
            self._writer.add_metadata(name, values)
            self._keep()

    def flush(self) -> None:
        """Hand everything to the system, so that it survives the end of this process."""
        if not self._unflushed:
            return
        with self._guarded():
            self._writer.flush()
            self._unflushed = 0
            self._whole = self._file.tell()

    def finish(self) -> None:
        """Write the index and close; doing it again does nothing."""
        if self._ended:
            return
        self._ended = True
        with self._guarded():
            self._writer.finish()
            self._file.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(error) from error

    def _keep(self) -> None:
        self._file.flush()
        self._whole = self._file.tell()

    def _failed(self, error: OSError) -> RecordingWriteError:
        """Close the file without the part that was half written. Return the error that says why."""
        self._ended = True
        file = getattr(self, "_file", None)
        if file is not None:
            try:
                file.raw.truncate(self._whole)
                file.raw.close()
            except (OSError, AttributeError):
                pass
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            why = f"the disk is full: {self.path} holds {self.messages - self._unflushed} messages and is readable up to there"
            return RecordingWriteError(f"{why}; free space and record anew")
        return RecordingWriteError(f"{self.path} cannot be written ({error.strerror or error}); name another file")
