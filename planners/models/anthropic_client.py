# SPDX-License-Identifier: Apache-2.0
"""Models behind the Anthropic messages protocol."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from types import ModuleType
from typing import Any

from planners.models.base import Message, ModelRequest, TextDelta, ToolCall, ToolSpec, Usage
from planners.models.config import ModelConfig
from planners.models.faults import names_option
from planners.models.http_stream import Activity, Complete, HttpModelClient, Item, Surroundings

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

    package = "anthropic"

    def __init__(self, config: ModelConfig, *, surroundings: Surroundings | None = None) -> None:
        super().__init__(config, surroundings=surroundings)
        self._takes_temperature = True

    def _connect(self, sdk: ModuleType, key: str) -> Any:
        http = self._transport(sdk)
        timeout = sdk.Timeout(None, connect=self._config.connect_s)
        client: Any = sdk.AsyncAnthropic(
            api_key=key, base_url=self._config.url, max_retries=0, timeout=timeout, http_client=http
        )
        _ = client.messages  # Imported by the SDK when it is first touched: now, not in the first request.
        return client

    async def _items(self, client: Any, request: ModelRequest, tools: tuple[ToolSpec, ...]) -> AsyncGenerator[Item, None]:
        options: dict[str, Any] = {
            "model": self._config.model,
            "max_tokens": request.max_output_tokens,
            "messages": [_message(m) for m in request.messages],
        }
        if request.system:
            options["system"] = [{"type": "text", "text": request.system, "cache_control": {"type": "ephemeral"}}]
        if request.temperature is not None and self._takes_temperature:
            # Not an argument of every version of the SDK.
            options["extra_body"] = {"temperature": request.temperature}
        if request.stop:
            options["stop_sequences"] = list(request.stop)
        if tools:
            options["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)} for tool in tools
            ]
        try:
            stream = await self._open(client, options, with_calls=bool(tools))
        except Exception as error:
            if "extra_body" not in options or not names_option(error, "temperature"):
                raise
            self._takes_temperature = False
            del options["extra_body"]
            stream = await self._open(client, options, with_calls=bool(tools))
        translate = _Translator()
        try:
            async for event in stream:
                for item in translate(event):
                    yield item
        finally:
            await stream.close()

    async def _open(self, client: Any, options: dict[str, Any], *, with_calls: bool) -> Any:
        """The SDK's stream of raw events, or with native calls its helper that puts their arguments together."""
        if with_calls:
            return await client.messages.stream(**options).__aenter__()
        return await client.messages.create(stream=True, **options)


class _Translator:
    """Keeps the counts of `message_start`, which later events complete."""

    def __init__(self) -> None:
        self._usage = Usage(0, 0)
        self._reason = "stop"
        self._arguments: dict[int, str] = {}

    def __call__(self, event: Any) -> list[Item]:
        if event.type == "message_start":
            return [self._counted(event.message.usage)]
        if event.type == "content_block_delta":
            if event.delta.type == "text_delta":
                return [TextDelta(event.delta.text)]
            if event.delta.type == "input_json_delta":
                self._arguments[event.index] = self._arguments.get(event.index, "") + event.delta.partial_json
            return [Activity()]
        if event.type == "content_block_stop":
            block = getattr(event, "content_block", None)
            if block is not None and block.type == "tool_use":
                return [ToolCall(block.id, block.name, self._arguments.get(event.index) or "{}")]
            return []
        if event.type == "message_delta":
            self._reason = _REASONS.get(event.delta.stop_reason or "end_turn", str(event.delta.stop_reason))
            return [self._counted(event.usage)]
        if event.type == "message_stop":
            return [Complete(self._reason)]
        return []

    def _counted(self, usage: Any) -> Usage:
        """The counts so far; a `message_delta` may leave out those of the prompt."""
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


def _message(message: Message) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for image in message.images:
        encoded = base64.b64encode(image.data).decode("ascii")
        parts.append({"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": encoded}})
    if message.text:
        parts.append({"type": "text", "text": message.text})
    return {"role": message.role, "content": parts}
