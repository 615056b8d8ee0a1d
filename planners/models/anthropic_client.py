# SPDX-License-Identifier: Apache-2.0
"""Models behind the Anthropic messages protocol."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from typing import Any

from planners.models.base import Message, ModelRequest, TextDelta, Usage
from planners.models.http_stream import NO_TEXT, Complete, HttpModelClient, Item

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refused",
}


class AnthropicModelClient(HttpModelClient):
    """Streams through the `anthropic` SDK; the static system part is marked for the provider's prompt cache."""

    package, sdk_client, resource = "anthropic", "AsyncAnthropic", "messages"

    async def _items(self, client: Any, request: ModelRequest) -> AsyncGenerator[Item, None]:
        options: dict[str, Any] = {
            "model": self._config.model,
            "max_tokens": request.max_output_tokens,
            "messages": [message_of(m) for m in request.messages],
        }
        if request.system:
            options["system"] = [{"type": "text", "text": request.system, "cache_control": {"type": "ephemeral"}}]
        stream = await client.messages.create(stream=True, **options)
        translate = Translator()
        try:
            async for event in stream:
                for item in translate(event):
                    yield item
        finally:
            await stream.close()


class Translator:
    """Keeps the counts of `message_start`, which later events complete."""

    def __init__(self) -> None:
        self._usage = Usage(0, 0)
        self._reason = "stop"

    def __call__(self, event: Any) -> list[Item]:
        if event.type == "message_start":
            return [self._counted(event.message.usage)]
        if event.type == "content_block_delta":
            return [TextDelta(event.delta.text) if event.delta.type == "text_delta" else NO_TEXT]
        if event.type == "message_delta":
            self._reason = _REASONS.get(event.delta.stop_reason or "end_turn", str(event.delta.stop_reason))
            return [self._counted(event.usage)]
        if event.type == "message_stop":
            return [Complete(self._reason)]
        return []

    def _counted(self, usage: Any) -> Usage:
        """Return the counts so far; a `message_delta` may leave out those of the prompt."""
        before = self._usage
        fresh = getattr(usage, "input_tokens", None)
        cached = getattr(usage, "cache_read_input_tokens", None)
        written = getattr(usage, "cache_creation_input_tokens", None)
        plain = before.prompt_tokens - before.cached_tokens - before.cache_write_tokens if fresh is None else int(fresh)
        read = before.cached_tokens if cached is None else int(cached)
        new = before.cache_write_tokens if written is None else int(written)
        done = getattr(usage, "output_tokens", None)
        self._usage = Usage(
            prompt_tokens=plain + read + new,
            completion_tokens=before.completion_tokens if done is None else int(done),
            cached_tokens=read,
            cache_write_tokens=new,
        )
        return self._usage


def message_of(message: Message) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for image in message.images:
        encoded = base64.b64encode(image.data).decode("ascii")
        parts.append({"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": encoded}})
    if message.text:
        parts.append({"type": "text", "text": message.text})
    return {"role": message.role, "content": parts}
