# SPDX-License-Identifier: Apache-2.0
"""The part of the action planner's node that writes: streams of chunks, and whether the other nodes have taken them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from ghostshell.msg import LlmChunk

from ghostshell_ros.runtime.matched_publisher import MatchedPublisher
from ghostshell_ros.runtime.node_runtime import STREAM, RuntimeNode
from ghostshell_ros.wire.values import ros_text
from skill_kernel.events import RunEvent, StreamKind

NUL_ON_THE_WIRE = "\x01"
"""Stands for NUL, which no ROS string can hold; it is no XML character either, so the parser reports it just the same."""

TAKEN_S = 6.0
"""A stream that the channel scheduler has not begun so long after its first chunk is lost. Longer than chunks are held
back for a reader."""

ENDED_S = 3.0
"""A stream whose end, so long after it was written and with no call running, nobody told is lost in the same way."""


@dataclass(eq=False)
class ChunkStream:
    """One stream being written. `taken` and `closed`: the channel scheduler has told of its beginning, of its end."""

    process_id: str
    epoch: int
    turn: int
    stream_id: str = field(default_factory=lambda: secrets.token_hex(8))
    next_seq: int = 0
    ended: bool = False
    taken: bool = False
    closed: bool = False


class ChunkStreams:
    """Publishes `llm_chunks`. On the executor's thread only.

    `busy(process_id)` tells whether calls of a process run, `lost(stream, why)` is told of a stream that nobody took or
    whose end got lost, `unmatched(why)` that no parser came to take what was written.
    """

    def __init__(
        self,
        node: RuntimeNode,
        *,
        busy: Callable[[str], bool],
        lost: Callable[[ChunkStream, str], None],
        unmatched: Callable[[str], None],
    ) -> None:
        self._node, self._busy, self._lost = node, busy, lost
        self._streams: dict[str, ChunkStream] = {}
        self._chunks = MatchedPublisher(node, LlmChunk, "llm_chunks", STREAM, reader="token_parser", on_unmatched=unmatched)

    def open(self, process_id: str, epoch: int, turn: int) -> ChunkStream:
        """A new stream, of which nobody hears before its first text or its end."""
        return ChunkStream(process_id, epoch, turn)

    def text(self, stream: ChunkStream, text: str) -> None:
        """The next piece."""
        if not stream.ended:
            self._publish(stream, text)

    def end(self, stream: ChunkStream, code: int = 0, why: str = "") -> bool:
        """It is complete, or ended with an error; whether this was news."""
        if stream.ended:
            return False
        stream.ended = True
        self._publish(stream, "", last=True, code=code, why=why)
        self._node.call_later(ENDED_S, lambda: self._not_ended(stream))
        return True

    def abandon(self, stream: ChunkStream) -> None:
        """Write no more of it. It gets no regular end, which would reset as DONE what an interrupt is about to stop."""
        stream.ended = True
        self._streams.pop(stream.stream_id, None)

    def forget(self, process_id: str) -> None:
        """Nobody wants to know any more what becomes of the streams of a process."""
        for stream in [s for s in self._streams.values() if s.process_id == process_id]:
            self.abandon(stream)

    def heard(self, event: RunEvent) -> None:
        """What the channel scheduler says of a stream."""
        if event.kind not in (StreamKind.STARTED, StreamKind.ENDED):
            return
        stream = self._streams.get(event.stream_id)
        if stream is not None and event.kind is StreamKind.STARTED:
            stream.taken = True
        elif stream is not None:
            stream.closed = True
            del self._streams[event.stream_id]

    def _publish(self, stream: ChunkStream, text: str, *, last: bool = False, code: int = 0, why: str = "") -> None:
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
            self._streams[stream.stream_id] = stream
            self._node.call_later(TAKEN_S, lambda: self._not_taken(stream))
        stream.next_seq += 1

    def _not_taken(self, stream: ChunkStream) -> None:
        """A parser that was killed is still found in the graph for many seconds, and what it was sent is lost."""
        if not stream.taken and self._streams.pop(stream.stream_id, None) is not None:
            why = f"token_parser or channel_scheduler did not take the stream within {TAKEN_S:g} s; repeat the instruction"
            self._lost(stream, why)

    def _not_ended(self, stream: ChunkStream) -> None:
        """A parser that dies half way through takes the stream's end with it; what it had sent on is done nevertheless."""
        if stream.closed or stream.stream_id not in self._streams:
            return
        if self._busy(stream.process_id) or not stream.taken:
            self._node.call_later(ENDED_S, lambda: self._not_ended(stream))
            return
        del self._streams[stream.stream_id]
        why = "token_parser or channel_scheduler lost the end of the stream; what came of it is in the history, repeat the rest"
        self._lost(stream, why)
