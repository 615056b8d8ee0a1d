# SPDX-License-Identifier: Apache-2.0
"""The part of the action planner's node that writes: a model's answers, published piece by piece as they come."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ghostshell.msg import LlmChunk, SkillEvent

from ghostshell_ros.nodes.event_writer import EventWriter
from ghostshell_ros.nodes.matched_publisher import MatchedPublisher
from ghostshell_ros.nodes.node_runtime import STREAM, RuntimeNode
from ghostshell_ros.nodes.wire_text import ros_text
from planners.llm.base import (
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
from planners.prompt import CallReport
from planners.stream_planner import StreamPlanner
from skill_kernel.codes import ModelCode

NUL_ON_THE_WIRE = "\x01"
"""Stands for NUL, which no ROS string can hold; it is no XML character either, so the parser reports it just the same."""


@dataclass
class Turn:
    """One answer being written and what came of it."""

    process_id: str
    epoch: int
    turn: int
    planner: StreamPlanner
    stream_id: str = field(default_factory=lambda: secrets.token_hex(8))
    cancel: CancelToken = field(default_factory=CancelToken)
    next_seq: int = 0
    written: list[str] = field(default_factory=list)
    usage: Usage | None = None
    ended: bool = False
    taken: bool = False
    closed: bool = False
    began_s: float = 0.0
    reports: list[CallReport] = field(default_factory=list)
    running: dict[str, CallReport] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)


class AnswerStreams:
    """Publishes `llm_chunks`. `on_first(turn)` hears of the first chunk of a stream, `on_last(turn)` of the last,
    `on_unmatched(why)` when no parser came to take what was written. On the executor's thread only; a model is read on a
    thread of its own."""

    def __init__(
        self, node: RuntimeNode, client: ModelClient, events: EventWriter, *, on_first: Callable[[Turn], None],
        on_last: Callable[[Turn], None], on_unmatched: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._node, self._client, self._events = node, client, events
        self._on_first, self._on_last = on_first, on_last
        self._chunks = MatchedPublisher(
            node, LlmChunk, "llm_chunks", STREAM, reader="token_parser", on_unmatched=on_unmatched
        )

    def begin(self, turn: Turn, request: ModelRequest) -> None:
        """Ask the model."""
        events = self._client.stream(request, cancel=turn.cancel)
        threading.Thread(target=self._read, args=(turn, events), name=f"stream-{turn.turn}", daemon=True).start()

    def end(self, turn: Turn, code: int, why: str) -> None:
        """The answer is complete, or has ended with an error; told once."""
        if turn.ended:
            return
        turn.ended = True
        usage = turn.usage or Usage(0, 0)
        self._publish(turn, "", last=True, code=code, why=why)
        self._on_last(turn)
        turn.planner.wrote("".join(turn.written))
        self._events.write(
            SkillEvent.STREAM_ENDED, process_id=turn.process_id, stream_id=turn.stream_id, error_code=code, error_msg=why,
            prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens,
            cost_usd=usage.cost_usd if usage.cost_usd is not None else -1.0,
        )  # fmt: skip

    def cancel(self, turn: Turn) -> None:
        """Stop writing. The stream gets no regular end, which would reset as DONE what an interrupt is about to stop."""
        turn.cancel.cancel()
        if not turn.ended:
            turn.ended = True
            turn.planner.wrote("".join(turn.written))

    def _read(self, turn: Turn, events: Iterator[ModelEvent]) -> None:
        """On a thread of its own: the model's iterator blocks."""
        try:
            for event in events:
                self._node.call_soon(self._model_event, turn, event)
        except ModelError as error:
            self._node.call_soon(self.end, turn, int(error.code), f"model {self._client.name}: {error.message}")
        except Exception as error:  # noqa: BLE001 - whatever an SDK raises must end the stream, not the node
            why = f"model {self._client.name}: {type(error).__name__} in its client"
            self._node.call_soon(self.end, turn, int(ModelCode.MODEL_CONNECTION), why)
        else:
            self._node.call_soon(self.end, turn, 0, "")

    def _model_event(self, turn: Turn, event: ModelEvent) -> None:
        if isinstance(event, TextDelta):
            if not turn.ended and not turn.cancel.cancelled:
                turn.written.append(event.text)
                self._publish(turn, event.text)
        elif isinstance(event, Usage):
            turn.usage = event
        elif isinstance(event, Retrying):
            why = f"model {self._client.name} failed, next try in {event.wait_s:.1f} s: {event.error.message}"
            self._events.write(SkillEvent.NOTICE, process_id=turn.process_id, stream_id=turn.stream_id, error_msg=why)
        elif isinstance(event, Finished) and event.reason not in ("stop", "end_turn"):
            why = f"the model ended its answer for the reason '{event.reason}'"
            self._events.write(SkillEvent.NOTICE, process_id=turn.process_id, stream_id=turn.stream_id, error_msg=why)

    def _publish(self, turn: Turn, text: str, *, last: bool = False, code: int = 0, why: str = "") -> None:
        self._chunks.publish(
            LlmChunk(
                stamp=self._node.get_clock().now().to_msg(), process_id=turn.process_id, stream_id=turn.stream_id,
                epoch=turn.epoch, turn=turn.turn, seq=turn.next_seq, text=ros_text(text, NUL_ON_THE_WIRE), last=last,
                error_code=code, error_msg=ros_text(why),
            )
        )  # fmt: skip
        if not turn.next_seq:
            self._on_first(turn)
        turn.next_seq += 1
