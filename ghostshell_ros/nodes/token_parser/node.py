# SPDX-License-Identifier: Apache-2.0
"""Run the node `token_parser`: chunks of a model's answer in, function tokens out (GhostShell 3.4.1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ghostshell.msg import FunctionToken as TokenMsg
from ghostshell.msg import LlmChunk
from ghostshell.srv import Interrupt

from function_tokens.parsing.asides import AsideFilter
from function_tokens.parsing.parser import REASONING_TAGS, StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, ParserLimits
from ghostshell_ros.runtime.matched_publisher import MatchedPublisher
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import STREAM
from ghostshell_ros.wire.values import TOKEN_NUMBERS
from planners.prompts.blocks import MARK, MARK_BEGUN
from skill_kernel.codes import CallCode, ParseCode

MAX_STREAMS = 64
"""Ended streams are remembered so that a late chunk of one does not look like a new stream."""


@dataclass
class _Stream:
    parser: StreamingParser
    asides: AsideFilter
    process_id: str
    epoch: int
    turn: int
    next_chunk: int = 0
    next_token: int = 0
    ended: bool = False


class TokenParser(RuntimeNode):
    """Parse each stream of `llm_chunks` as it arrives and publish its tokens on `function_tokens`."""

    def __init__(self) -> None:
        super().__init__("token_parser")
        self._mode: Any = self.declare(
            "mode", "lenient", "strict ends a stream at its first violation, lenient mends it", choices=("lenient", "strict")
        )
        self._reasoning = self.declare(
            "reasoning_tags", list(REASONING_TAGS), "elements whose text is neither spoken nor executed"
        )
        self._max_chars = self.declare(
            "max_stream_chars", 1_000_000, "length of one stream at most [characters]", 1000, 100_000_000
        )
        self._streams: dict[str, _Stream] = {}
        self._oldest_epoch: dict[str, int] = {}  # by process; "" stands for all
        self._tokens = MatchedPublisher(
            self, TokenMsg, "function_tokens", STREAM, reader="channel_scheduler", on_unmatched=self.get_logger().error
        )
        self.create_subscription(LlmChunk, "llm_chunks", self._chunk, STREAM)
        self.create_service(Interrupt, "~/interrupt", self._interrupt)

    def _chunk(self, chunk: LlmChunk) -> None:
        if chunk.epoch < max(self._oldest_epoch.get(process_id, 0) for process_id in ("", chunk.process_id)):
            self._void(chunk)
            return
        stream = self._streams.get(chunk.stream_id)
        if stream is None:
            stream = self._open(chunk)
        if stream.ended:
            return
        if chunk.seq != stream.next_chunk:
            why = f"chunk {stream.next_chunk} of stream {chunk.stream_id} is missing (got {chunk.seq}); the stream is ended"
            self._finish(chunk.stream_id, stream, int(ParseCode.SEQUENCE_GAP), why)
            return
        stream.next_chunk += 1
        try:
            self._send(chunk.stream_id, stream, stream.parser.feed(chunk.text))
            if chunk.last:
                self._finish(chunk.stream_id, stream, chunk.error_code, chunk.error_msg)
        except ParseError as error:
            self._send(chunk.stream_id, stream, error.tokens, last=True)
            self._end(chunk.stream_id, stream, int(error.code), str(error))
        except Exception as error:
            # Nobody may wait for a stream whose end never comes; the traceback goes to the log.
            why = f"the parser failed ({type(error).__name__}); please report the stream"
            self._end(chunk.stream_id, stream, int(ParseCode.SYNTAX), why)
            raise

    def _open(self, chunk: LlmChunk) -> _Stream:
        while len(self._streams) >= MAX_STREAMS:
            del self._streams[next(iter(self._streams))]
        parser = StreamingParser(
            self._mode,
            limits=ParserLimits(total_length=self._max_chars),
            reasoning_tags=tuple(self._reasoning),
            stream_id=chunk.stream_id,
        )
        stream = _Stream(parser, AsideFilter(MARK, MARK_BEGUN), chunk.process_id, chunk.epoch, chunk.turn)
        self._streams[chunk.stream_id] = stream
        return stream

    def _void(self, chunk: LlmChunk) -> None:
        """End a stream at once that begins after the interrupt of its epoch, so that nobody waits for it."""
        if chunk.stream_id not in self._streams:
            why = f"the stream is of epoch {chunk.epoch}, which an interrupt had ended before it began"
            self._end(chunk.stream_id, self._open(chunk), int(CallCode.STALE_EPOCH), why)

    def _finish(self, stream_id: str, stream: _Stream, code: int, why: str) -> None:
        try:
            self._send(stream_id, stream, stream.parser.close(), last=True)
        except ParseError as error:
            self._send(stream_id, stream, error.tokens, last=True)
            code, why = code or int(error.code), why or str(error)
        self._end(stream_id, stream, code, why)

    def _end(self, stream_id: str, stream: _Stream, code: int, why: str) -> None:
        stream.ended = True
        message = self._message(stream_id, stream, TokenMsg.END)
        message.error_code, message.error_msg, message.text = code, why, why
        self._tokens.publish(message)

    def _send(self, stream_id: str, stream: _Stream, tokens: Iterable[FunctionToken], *, last: bool = False) -> None:
        for token in (*stream.asides.feed(tokens), *(stream.asides.close() if last else ())):
            message = self._message(stream_id, stream, TOKEN_NUMBERS[token.kind])
            message.name, message.text, message.start, message.end = token.name, token.text, token.start, token.end
            message.attr_names, message.attr_values = list(token.attrs), list(token.attrs.values())
            self._tokens.publish(message)
        for repair in (*stream.parser.take_repairs(), *stream.asides.take_repairs()):
            message = self._message(stream_id, stream, TokenMsg.REPAIR)
            message.start = message.end = repair.offset
            message.error_code = int(repair.code)
            place = f"line {repair.line}, column {repair.column}: " if repair.line else ""
            message.error_msg = f"{place}{repair.message}"
            self._tokens.publish(message)

    def _message(self, stream_id: str, stream: _Stream, kind: int) -> TokenMsg:
        message = TokenMsg(
            stamp=self.get_clock().now().to_msg(),
            process_id=stream.process_id,
            stream_id=stream_id,
            epoch=stream.epoch,
            turn=stream.turn,
            seq=stream.next_token,
            kind=kind,
        )
        stream.next_token += 1
        return message

    def _interrupt(self, request: Interrupt.Request, response: Interrupt.Response) -> Interrupt.Response:
        """Ignore what arrives of streams that are older than the epoch."""
        oldest = max(request.epoch, self._oldest_epoch.pop(request.process_id, 0))
        self._oldest_epoch[request.process_id] = oldest
        while len(self._oldest_epoch) > MAX_STREAMS:
            del self._oldest_epoch[next(process_id for process_id in self._oldest_epoch if process_id)]
        response.epoch = request.epoch
        return response
