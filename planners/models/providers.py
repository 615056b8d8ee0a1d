# SPDX-License-Identifier: Apache-2.0
"""Speak two protocols over their SDKs: OpenAI's chat completions, with any server that has them at `base_url`, and Anthropic's
messages."""

import json
import re
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

from planners.models.base import Finished, Message, ModelRequest, Reading, Surroundings, TextDelta, Usage, count
from planners.models.config import OFFICIAL_URL, ModelConfig
from planners.models.faults import names_option
from planners.models.http_stream import NO_TEXT, HttpModelClient, Item

_OPENAI_REASONS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refused",
}
_SILENT_WORK = ("reasoning_content", "reasoning", "tool_calls", "refusal")
"""Fields of a delta that show work but are no text of the answer (the first two are DeepSeek's, vLLM's and Groq's)."""


class OpenAIModelClient(HttpModelClient):
    """Streams through the `openai` SDK. Options that a server rejects by name are left out from then on."""

    package, sdk_client, resource = "openai", "AsyncOpenAI", "chat.completions"

    def __init__(self, config: ModelConfig, *, surroundings: Surroundings | None = None) -> None:
        super().__init__(config, surroundings=surroundings)
        official = urlsplit(config.url).hostname == urlsplit(OFFICIAL_URL["openai"]).hostname
        self._limit_field = "max_completion_tokens" if official else "max_tokens"
        self._limit_swapped = False
        self._takes_stream_options = True

    async def _items(self, client: Any, request: ModelRequest) -> AsyncGenerator[Item, None]:
        while True:
            try:
                quoted = _JsonString() if request.grammar and self._config.grammar == "ollama" else None
                async with await client.chat.completions.create(stream=True, **self.options(request)) as stream:
                    async for chunk in stream:
                        for item in items_of(chunk):
                            if quoted and isinstance(item, TextDelta):
                                item = TextDelta(quoted.feed(item.text))  # empty: NO_TEXT
                            yield item
                return
            except Exception as error:
                if not self._adapt(error):
                    raise

    def options(self, request: ModelRequest) -> dict[str, Any]:
        """Return the arguments of a request, without those that this server rejects."""
        messages = [_openai_message(m) for m in request.messages]
        if request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        options: dict[str, Any] = {
            "model": self._config.model,
            "messages": messages,
            self._limit_field: request.max_output_tokens,
        }
        if extra := self._of_server(request):
            options["extra_body"] = extra
        return options | ({"stream_options": {"include_usage": True}} if self._takes_stream_options else {})

    def _of_server(self, request: ModelRequest) -> dict[str, Any]:
        """Return what only servers of one kind understand: the grammar under their name for it, and a wish for progress."""
        server, grammar = self._config.grammar, request.grammar
        extra: dict[str, Any] = {"return_progress": True} if server == "llama.cpp" else {}
        if grammar is not None and server == "llama.cpp":
            extra["grammar"] = grammar.gbnf()
        elif grammar is not None and server == "vllm":
            extra["structured_outputs"] = {"grammar": grammar.gbnf()}
        elif grammar is not None and server == "ollama":
            extra["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "stream", "schema": grammar.json_schema()},
            }
        return extra

    def _adapt(self, error: Exception) -> bool:
        """Return whether the server rejected an option that the request can do without or say otherwise."""
        if self._takes_stream_options and names_option(error, "stream_options"):
            self._takes_stream_options = False
            return True
        if names_option(error, self._limit_field) and "unsupported" in str(error).lower() and not self._limit_swapped:
            self._limit_field = "max_tokens" if self._limit_field != "max_tokens" else "max_completion_tokens"
            self._limit_swapped = True
            return True
        return False


def _openai_message(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    urls = [f"data:{image.media_type};base64,{image.base64}" for image in message.images]
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    if message.text:
        parts.append({"type": "text", "text": message.text})
    return {"role": message.role, "content": parts}


def items_of(chunk: Any) -> list[Item]:
    """Return what a chunk of the stream says."""
    items: list[Item] = []
    if isinstance(progress := getattr(chunk, "prompt_progress", None), dict):
        items.append(Reading(count(progress.get("processed")), count(progress.get("total"))))
    for choice in chunk.choices or []:
        delta = choice.delta
        if delta is not None and delta.content:
            items.append(TextDelta(delta.content))
        elif delta is not None and any(getattr(delta, field, None) for field in _SILENT_WORK):
            items.append(NO_TEXT)
        if choice.finish_reason:
            reason = str(choice.finish_reason)[:60]
            items.append(Finished(_OPENAI_REASONS.get(reason, reason)))
    if chunk.usage is not None:
        items.append(_openai_usage(chunk.usage))
    return items


class _JsonString:
    """Read a text that comes as a JSON string, piece by piece; anything else is left as it is."""

    _parts = re.compile(r'(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u])*')

    def __init__(self) -> None:
        self._kept = ""
        self._quoted: bool | None = None
        """True for such a string; None before its first character."""

    def feed(self, piece: str) -> str:
        """Return what is known of the text with the next piece."""
        written = self._kept + piece
        if self._quoted is None and (begun := written.lstrip()):
            self._quoted = begun.startswith('"')
            written = begun[1:] if self._quoted else written
        if self._quoted is False:
            return piece
        found = self._parts.match(written) if self._quoted else None
        text = found[0] if found else ""
        self._kept = written[len(text) :]
        return str(json.loads(f'"{text}"', strict=False))


def _openai_usage(usage: Any) -> Usage:
    details = getattr(usage, "prompt_tokens_details", None)
    return Usage(
        prompt_tokens=count(usage.prompt_tokens),
        completion_tokens=count(usage.completion_tokens),
        cached_tokens=count(getattr(details, "cached_tokens", None)),
    )


_ANTHROPIC_REASONS = {
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
            self._reason = _ANTHROPIC_REASONS.get(reason, reason)
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


PROVIDERS: dict[str, type[HttpModelClient]] = {"openai": OpenAIModelClient, "anthropic": AnthropicModelClient}
"""Clients by the provider of a configuration."""
