# SPDX-License-Identifier: Apache-2.0
"""The part of the action planner's node that writes: streams of chunks, and whether the other nodes have taken them."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from ghostshell.msg import LlmChunk

from ghostshell_ros.runtime.matched_publisher import MatchedPublisher
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.qos import STREAM
from ghostshell_ros.wire.values import ros_text
from skill_kernel.events import RunEvent, StreamEvent, StreamKind

NUL_ON_THE_WIRE = "\x01"
"""Stands for NUL, which no ROS string can hold; it is no XML character either, so the parser reports it just the same."""

TAKEN_S = 6.0
"""A stream that the channel scheduler has not begun so long after its first chunk is lost. Longer than chunks are held
back for a reader."""

ENDED_S = 3.0
"""A stream whose end, so long after it was written and with no call running, nobody told is lost in the same way."""


class ChunkStream:
    """The `StreamHandle` of one stream being written. `taken`: the channel scheduler has told of its beginning."""

    def __init__(self, streams: ChunkStreams, process_id: str, epoch: int, turn: int) -> None:
        self._streams = streams
        self.process_id, self.epoch, self.turn = process_id, epoch, turn
        self.stream_id = secrets.token_hex(8)
        self.next_seq = 0
        self.ended = self.taken = False

    def text(self, text: str) -> None:
        if not self.ended:
            self._streams.publish(self, text)

    def end(self, code: int = 0, why: str = "") -> None:
        """End it, complete or with an error, and say so."""
        if not self.ended:
            self.ended = True
            self._streams.publish(self, "", last=True, code=code, why=why)

    def abandon(self) -> None:
        """Write no more of it. It gets no regular end, which would reset as DONE what an interrupt is about to stop."""
        self.ended = True
        self._streams.drop(self)


class ChunkStreams:
    """Publishes `llm_chunks`. On the executor's thread only.

    `busy(process_id)` tells whether calls of a process run, `lost(stream, why)` is told of a stream that nobody took or
    whose end got lost, `unmatched(why)` that no parser came to take what was written.
    """

    def __init__(
        self,
        node: RuntimeNode,
        events: EventWriter,
        *,
        busy: Callable[[str], bool],
        lost: Callable[[ChunkStream, str], None],
        unmatched: Callable[[str], None],
    ) -> None:
        self._node, self._events, self._busy, self._lost = node, events, busy, lost
        self._streams: dict[str, ChunkStream] = {}
        """Those that are open, or whose end the channel scheduler has not told."""
        self._chunks = MatchedPublisher(node, LlmChunk, "llm_chunks", STREAM, reader="token_parser", on_unmatched=unmatched)

    def open(self, process_id: str, epoch: int, turn: int) -> ChunkStream:
        """Return a new stream, of which nobody hears before its first text or its end."""
        stream = ChunkStream(self, process_id, epoch, turn)
        self._streams[stream.stream_id] = stream
        return stream

    def end_all(self, process_id: str, code: int, why: str) -> None:
        for stream in self._of(process_id):
            stream.end(code, why)

    def forget(self, process_id: str) -> None:
        """Abandon the streams of a process: nobody wants to know any more what becomes of them."""
        for stream in self._of(process_id):
            stream.abandon()

    def drop(self, stream: ChunkStream) -> bool:
        """Follow a stream no longer; return whether it was followed."""
        return self._streams.pop(stream.stream_id, None) is not None

    def heard(self, event: RunEvent) -> None:
        """Take note of what the channel scheduler says of a stream."""
        stream = self._streams.get(event.stream_id) if isinstance(event, StreamEvent) else None
        if stream is not None and event.kind is StreamKind.STARTED:
            stream.taken = True
        elif stream is not None and event.kind is StreamKind.ENDED:
            self.drop(stream)

    def _of(self, process_id: str) -> list[ChunkStream]:
        return [stream for stream in self._streams.values() if stream.process_id == process_id]

    def publish(self, stream: ChunkStream, text: str, *, last: bool = False, code: int = 0, why: str = "") -> None:
        """Publish the next chunk of a stream."""
        self._chunks.publish(
            LlmChunk(
                stamp=self._node.get_clock().now().to_msg(),
                process_id=stream.process_id,
                stream_id=stream.stream_id,
                epoch=stream.epoch,
                turn=stream.turn,
                seq=stream.next_seq,
                text=ros_text(text, NUL_ON_THE_WIRE),
                last=last,
                error_code=code,
                error_msg=ros_text(why),
            )
        )
        if not stream.next_seq:
            self._node.call_later(TAKEN_S, lambda: self._not_taken(stream))
        stream.next_seq += 1
        if last:
            self._node.call_later(ENDED_S, lambda: self._not_ended(stream))
            self._events.write(
                StreamEvent(
                    kind=StreamKind.ENDED,
                    process_id=stream.process_id,
                    stream_id=stream.stream_id,
                    error_code=code,
                    error_msg=why,
                )
            )

    def _not_taken(self, stream: ChunkStream) -> None:
        """Fail a stream whose parser was killed: the graph still shows it for seconds, and what it was sent is lost."""
        if not stream.taken and self.drop(stream):
            why = f"token_parser or channel_scheduler did not take the stream within {TAKEN_S:g} s; repeat the instruction"
            self._lost(stream, why)

    def _not_ended(self, stream: ChunkStream) -> None:
        """Fail a stream whose parser died half way through; what the parser had sent on is done nevertheless."""
        if stream.stream_id not in self._streams:
            return
        if self._busy(stream.process_id) or not stream.taken:
            self._node.call_later(ENDED_S, lambda: self._not_ended(stream))
            return
        self.drop(stream)
        why = "token_parser or channel_scheduler lost the end of the stream; what came of it is in the history, repeat the rest"
        self._lost(stream, why)
