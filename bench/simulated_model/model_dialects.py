# SPDX-License-Identifier: Apache-2.0
"""Stream an answer as in the OpenAI chat completions and in the Anthropic messages protocol, as server-sent
events."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.simulated_model.model_faults import Fault

CHARS_PER_TOKEN = 4


@dataclass(frozen=True)
class ToolUse:
    """A native call in an answer; `arguments` may be a text that is no JSON."""

    name: str
    arguments: Mapping[str, object] | str

    @property
    def written(self) -> str:
        """Return the arguments as they are sent."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Answer:
    """An answer of the server: reasoning first, then text, then tool calls. Counts of the prompt are guessed where not
    given."""

    text: str = ""
    tool_calls: tuple[ToolUse, ...] = ()
    reasoning: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int = 0
    finish: str = ""
    """The protocol's own word for the end; empty: the usual one."""
    first_token_s: float | None = None
    rate: float | None = None
    """Delay of the first token, and tokens a second, of this answer; None: the server's own."""
    fault: Fault | None = None
    """Fault of this answer, unless the request met an injected one."""


@dataclass(frozen=True)
class RecordedRequest:
    """A request as it arrived; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    at_s: float

    @property
    def prompt(self) -> str:
        """All text of the request, system part first, one part a line."""
        parts = texts_of(self.body.get("system"))
        for message in self.body.get("messages", []):
            parts += texts_of(message.get("content"))
        return "\n".join(parts)

    @property
    def last_user_text(self) -> str:
        """The text of the last message."""
        messages = self.body.get("messages", [])
        return "\n".join(texts_of(messages[-1].get("content"))) if messages else ""

    @property
    def images(self) -> list[bytes]:
        """All pictures of the request, decoded."""
        found: list[bytes] = []
        for message in self.body.get("messages", []):
            content = message.get("content")
            for part in content if isinstance(content, list) else []:
                if part.get("type") == "image_url":
                    found.append(base64.b64decode(part["image_url"]["url"].partition("base64,")[2]))
                elif part.get("type") == "image":
                    found.append(base64.b64decode(part["source"]["data"]))
        return found


def texts_of(content: object) -> list[str]:
    """Return the text parts of a message's content."""
    if isinstance(content, str):
        return [content]
    return [p["text"] for p in content if p.get("type") == "text"] if isinstance(content, list) else []


@dataclass(frozen=True)
class Event:
    """One server-sent event: the bytes, how many tokens the model needed for it, and how many characters of the
    answer it adds."""

    data: bytes
    tokens: int = 0
    chars: int = 0


def _event(payload: Mapping[str, object], name: str = "", *, tokens: int = 0, chars: int = 0) -> Event:
    head = f"event: {name}\n" if name else ""
    return Event(f"{head}data: {json.dumps(payload)}\n\n".encode(), tokens, chars)


def tokens_in(text: str) -> int:
    """Return how many tokens a text counts as."""
    return max(1, math.ceil(len(text) / CHARS_PER_TOKEN))


def _cut(text: str, breaks: tuple[int, ...] = ()) -> Iterator[str]:
    """Yield the text in pieces of one token, cut at `breaks` as well."""
    start = 0
    for end in sorted(
        {*range(CHARS_PER_TOKEN, len(text), CHARS_PER_TOKEN), *(b for b in breaks if 0 < b < len(text)), len(text)}
    ):
        if text[start:end]:
            yield text[start:end]
        start = end


@dataclass
class _Count:
    prompt: int
    cached: int
    limit: int
    done: int = 0
    cut_short: bool = field(default=False)

    def spend(self, tokens: int) -> bool:
        """Return whether the answer may still grow by some tokens."""
        if self.done + tokens > self.limit:
            self.cut_short = True
            return False
        self.done += tokens
        return True


def _count(request: RecordedRequest, answer: Answer) -> _Count:
    prompt = tokens_in(request.prompt) if answer.prompt_tokens is None else answer.prompt_tokens
    limit = request.body.get("max_completion_tokens") or request.body.get("max_tokens") or 1_000_000
    return _Count(prompt, answer.cached_tokens, int(limit))


def openai_events(request: RecordedRequest, answer: Answer, breaks: tuple[int, ...]) -> Iterator[Event]:
    """Yield the chunks of a chat completion, its usage where it was asked for, and [DONE]."""
    count = _count(request, answer)

    def chunk(delta: Mapping[str, object] | None, finish: str | None = None, *, tokens: int = 0, chars: int = 0) -> Event:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        return _event({**head, "choices": choices}, tokens=tokens, chars=chars)

    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": request.body.get("model", "")}
    yield chunk({"role": "assistant", "content": ""})
    for piece in _cut(answer.reasoning):
        if count.spend(1):
            yield chunk({"reasoning_content": piece}, tokens=1)
    for piece in _cut(answer.text, breaks):
        if count.spend(1):
            yield chunk({"content": piece}, tokens=1, chars=len(piece))
    for index, call in enumerate(answer.tool_calls):
        if count.spend(tokens_in(call.name)):
            function = {"name": call.name, "arguments": ""}
            start = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
            yield chunk({"tool_calls": [start]}, tokens=tokens_in(call.name))
        for piece in _cut(call.written):
            if count.spend(1):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, tokens=1, chars=len(piece))
    usual = "tool_calls" if answer.tool_calls else "stop"
    yield chunk({}, "length" if count.cut_short else answer.finish or usual)
    if (request.body.get("stream_options") or {}).get("include_usage"):
        usage = {
            "prompt_tokens": count.prompt,
            "completion_tokens": count.done,
            "total_tokens": count.prompt + count.done,
            "prompt_tokens_details": {"cached_tokens": count.cached},
        }
        yield _event({**head, "choices": [], "usage": usage})
    yield Event(b"data: [DONE]\n\n")


def anthropic_events(request: RecordedRequest, answer: Answer, breaks: tuple[int, ...]) -> Iterator[Event]:
    """Yield the events of a message, each content block with its start and stop."""
    count = _count(request, answer)
    usage = {
        "input_tokens": count.prompt - count.cached,
        "cache_read_input_tokens": count.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", ""),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield _event({"type": "message_start", "message": message}, "message_start")
    yield _event({"type": "ping"}, "ping")
    index = -1

    def start(block: Mapping[str, object], tokens: int = 0) -> Event:
        payload = {"type": "content_block_start", "index": index, "content_block": block}
        return _event(payload, "content_block_start", tokens=tokens)

    def delta(kind: str, name: str, piece: str, chars: int) -> Event:
        payload = {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: piece}}
        return _event(payload, "content_block_delta", tokens=1, chars=chars)

    def stop() -> Event:
        return _event({"type": "content_block_stop", "index": index}, "content_block_stop")

    if answer.reasoning:
        index += 1
        yield start({"type": "thinking", "thinking": "", "signature": ""})
        for piece in _cut(answer.reasoning):
            if count.spend(1):
                yield delta("thinking_delta", "thinking", piece, 0)
        yield stop()
    if answer.text:
        index += 1
        yield start({"type": "text", "text": ""})
        for piece in _cut(answer.text, breaks):
            if count.spend(1):
                yield delta("text_delta", "text", piece, len(piece))
        yield stop()
    for call in answer.tool_calls:
        if not count.spend(tokens_in(call.name)):
            break
        index += 1
        yield start({"type": "tool_use", "id": f"toolu_{index}", "name": call.name, "input": {}}, tokens_in(call.name))
        for piece in _cut(call.written):
            if count.spend(1):
                yield delta("input_json_delta", "partial_json", piece, len(piece))
        yield stop()
    usual = "tool_use" if answer.tool_calls else "end_turn"
    reason = "max_tokens" if count.cut_short else answer.finish or usual
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": count.done},
    }
    yield _event(end, "message_delta")
    yield _event({"type": "message_stop"}, "message_stop")


def error_body(dialect: str, kind: str, message: str) -> dict[str, object]:
    """Return a provider's error as JSON."""
    if dialect == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"type": kind, "message": message, "code": kind, "param": None}}
