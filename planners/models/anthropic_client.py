# SPDX-License-Identifier: Apache-2.0
"""Models behind the Anthropic messages protocol."""

from collections.abc import AsyncGenerator
from typing import Any

from planners.models.base import Finished, Message, ModelRequest, TextDelta, Usage, count
from planners.models.http_stream import NO_TEXT, HttpModelClient, Item

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refused",
}
_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


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
        translate = Translator()
        async with await client.messages.create(stream=True, **options) as stream:
            async for event in stream:
                for item in translate(event):
                    yield item


class Translator:
    """Keep the counts of `message_start`, which later events complete."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._reason = "stop"

    def __call__(self, event: Any) -> list[Item]:
        if event.type == "message_start":
            return [self._counted(event.message.usage)]
        if event.type == "content_block_delta":
            return [TextDelta(event.delta.text) if event.delta.type == "text_delta" else NO_TEXT]
        if event.type == "message_delta":
            reason = str(event.delta.stop_reason or "end_turn")[:60]
            self._reason = _REASONS.get(reason, reason)
            return [self._counted(event.usage)]
        if event.type == "message_stop":
            return [Finished(self._reason)]
        return []

    def _counted(self, usage: Any) -> Usage:
        """Return the counts so far; a `message_delta` may leave out those of the prompt."""
        told = {name: getattr(usage, name, None) for name in _COUNTS}
        self._counts |= {name: count(value) for name, value in told.items() if value is not None}
        plain, read, new, done = self._counts.values()
        return Usage(plain + read + new, done, read, cache_write_tokens=new)


def message_of(message: Message) -> dict[str, Any]:
    sources = [{"type": "base64", "media_type": image.media_type, "data": image.base64} for image in message.images]
    parts: list[dict[str, Any]] = [{"type": "image", "source": source} for source in sources]
    if message.text:
        parts.append({"type": "text", "text": message.text})
    return {"role": message.role, "content": parts}
