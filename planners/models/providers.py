# SPDX-License-Identifier: Apache-2.0
"""Speak two protocols over their SDKs: OpenAI's chat completions, with any server that has them at `base_url`, and Anthropic's
messages."""

import json
import re
from collections.abc import AsyncGenerator, Iterable
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from planners.models.base import Finished, Message, ModelRequest, Reading, Surroundings, TextDelta, Usage, count
from planners.models.config import OFFICIAL_URL, ModelConfig
from planners.models.faults import names_option
from planners.models.http_stream import NO_TEXT, HttpModelClient, Item
from planners.models.tool_calls import CallWriter

_OPENAI_REASONS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refused",
}
_SILENT_WORK = ("reasoning_content", "reasoning", "refusal")
"""Fields of a delta that show work but are no text of the answer (the first two are DeepSeek's, vLLM's and Groq's)."""


class OpenAIModelClient(HttpModelClient):
    """Streams through the `openai` SDK. Options that a server rejects by name are left out from then on."""

    package, sdk_client, resource = "openai", "AsyncOpenAI", "chat.completions"

    def __init__(self, config: ModelConfig, *, surroundings: Surroundings | None = None) -> None:
        super().__init__(config, surroundings=surroundings)
        official = urlsplit(config.url).hostname == urlsplit(OFFICIAL_URL["openai"]).hostname
        self._limit_field = "max_completion_tokens" if official else "max_tokens"
        self._limit_swapped = False
        self._takes_stream_options = self._takes_temperature = self._takes_schema = True

    async def _items(self, client: Any, request: ModelRequest) -> AsyncGenerator[Item, None]:
        while True:
            try:
                quoted = _JsonString() if request.grammar and self._config.grammar == "ollama" else None
                calls = CallWriter()
                async with await client.chat.completions.create(stream=True, **self._options(request)) as stream:
                    async for chunk in stream:
                        for item in _items_of(chunk, calls if request.tools else None):
                            if quoted and isinstance(item, TextDelta):
                                item = TextDelta(quoted.feed(item.text))  # empty: NO_TEXT
                            yield item
                    self._no_page(stream.response)
                return
            except Exception as error:
                if not self._adapt(error):
                    raise

    def _options(self, request: ModelRequest) -> dict[str, Any]:
        """Return the arguments of a request, without those that this server rejects."""
        messages = [said for number, m in enumerate(request.messages) for said in _openai_messages(m, number)]
        if request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        options: dict[str, Any] = {
            "model": self._config.model,
            "messages": messages,
            self._limit_field: request.max_output_tokens,
        }
        if request.temperature is not None and self._takes_temperature:
            options["temperature"] = request.temperature
        if request.tools:
            options["tools"] = [{"type": "function", "function": asdict(tool)} for tool in request.tools]
        if request.schema is not None and self._takes_schema:
            options["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": dict(request.schema)},
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
        if self._takes_temperature and names_option(error, "temperature"):
            self._takes_temperature = False
            return True
        if self._takes_schema and names_option(error, "response_format"):
            self._takes_schema = False
            return True
        if names_option(error, self._limit_field) and "unsupported" in str(error).lower() and not self._limit_swapped:
            self._limit_field = "max_tokens" if self._limit_field != "max_tokens" else "max_completion_tokens"
            self._limit_swapped = True
            return True
        return False


def _openai_messages(message: Message, number: int) -> list[dict[str, Any]]:
    """Return a turn, and the results of its calls as turns of their own."""
    urls = [f"data:{image.media_type};base64,{image.base64}" for image in message.images]
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    if parts and message.text:
        parts.append({"type": "text", "text": message.text})
    said: dict[str, Any] = {"role": message.role, "content": parts or message.text}
    results = []
    for place, call in enumerate(message.calls):
        name, call_id = call.name, f"call_{number}_{place}"
        function = {"name": name, "arguments": json.dumps(call.arguments)}
        said.setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})
        results.append({"role": "tool", "tool_call_id": call_id, "content": call.result})
    return [said, *results]


def _items_of(chunk: Any, calls: CallWriter | None) -> list[Item]:
    """Return what a chunk of the stream says, with the calls that it completes where there are tools to call."""
    items: list[Item] = []
    if isinstance(progress := getattr(chunk, "prompt_progress", None), dict):
        items.append(Reading(count(progress.get("processed")), count(progress.get("total"))))
    for choice in chunk.choices or []:
        delta = choice.delta
        if delta is not None and delta.content:
            items.append(_said(delta.content, calls))
        elif delta is not None and any(getattr(delta, field, None) for field in _SILENT_WORK):
            items.append(NO_TEXT)
        for call in (delta is not None and delta.tool_calls) or []:
            function = call.function
            parts = call.id or "", function and function.name or "", function and function.arguments or ""
            items.append(TextDelta(calls.feed(call.index, *parts)) if calls else NO_TEXT)
        if choice.finish_reason:
            reason = str(choice.finish_reason)[:60]
            reason = _OPENAI_REASONS.get(reason, reason)
            items += _finished(reason, calls)
    if chunk.usage is not None:
        items.append(_openai_usage(chunk.usage))
    return items


def _said(text: str, calls: CallWriter | None) -> TextDelta:
    """Return the next text, behind a call that it ends."""
    said = TextDelta(text)
    return TextDelta(calls.end() + said.text) if calls else said


def _finished(reason: str, calls: CallWriter | None) -> list[Item]:
    """Return the end of an answer, behind a call that it ends. Where there are tools, to have called one is no odd end."""
    if calls is None:
        return [Finished(reason)]
    reason = "stop" if reason == "tool_calls" else reason
    return [TextDelta(calls.end(cut=reason != "stop")), Finished(reason)]


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
    """Streams through the `anthropic` SDK, which takes no temperature; the static system part is marked for the provider's
    prompt cache."""

    package, sdk_client, resource = "anthropic", "AsyncAnthropic", "messages"

    async def _items(self, client: Any, request: ModelRequest) -> AsyncGenerator[Item, None]:
        options: dict[str, Any] = {
            "model": self._config.model,
            "max_tokens": request.max_output_tokens,
            "messages": _anthropic_messages(request.messages),
        }
        if request.system:
            options["system"] = [{"type": "text", "text": request.system, "cache_control": {"type": "ephemeral"}}]
        if request.tools:
            # Without it the provider holds arguments back until they are checked.
            eager = {"eager_input_streaming": True}
            options["tools"] = [
                {"name": t.name, "description": t.description, "input_schema": t.parameters, **eager} for t in request.tools
            ]
        translate = _Translator(CallWriter() if request.tools else None)
        async with await client.messages.create(stream=True, **options) as stream:
            async for event in stream:
                for item in translate(event):
                    yield item
            self._no_page(stream.response)


class _Translator:
    """Keep the counts of `message_start`, which later events complete, and the call that is being written."""

    def __init__(self, calls: CallWriter | None) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._reason = "stop"
        self._calls = calls

    def __call__(self, event: Any) -> list[Item]:
        if event.type == "message_start":
            return [self._counted(event.message.usage)]
        if event.type == "content_block_start" and self._calls and event.content_block.type == "tool_use":
            block = event.content_block
            given = json.dumps(block.input) if block.input else ""  # All at once, as some servers of this protocol write it.
            return [TextDelta(self._calls.feed(event.index, block.id, block.name, given))]
        if event.type == "content_block_delta":
            if event.delta.type == "input_json_delta" and self._calls:
                return [TextDelta(self._calls.feed(event.index, "", "", event.delta.partial_json))]
            return [_said(event.delta.text, self._calls) if event.delta.type == "text_delta" else NO_TEXT]
        if event.type == "message_delta":
            reason = str(event.delta.stop_reason or "end_turn")[:60]
            self._reason = _ANTHROPIC_REASONS.get(reason, reason)
            return [self._counted(event.usage)]
        if event.type == "message_stop":
            return _finished(self._reason, self._calls)
        return []

    def _counted(self, usage: Any) -> Usage:
        """Return the counts so far; a `message_delta` may leave out those of the prompt."""
        told = {name: getattr(usage, name, None) for name in _COUNTS}
        self._counts |= {name: count(value) for name, value in told.items() if value is not None}
        plain, read, new, done = self._counts.values()
        return Usage(plain + read + new, done, read, cache_write_tokens=new)


def _anthropic_messages(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the turns; results of calls stand at the beginning of the turn after them."""
    turns: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for number, message in enumerate(messages):
        sources = [{"type": "base64", "media_type": image.media_type, "data": image.base64} for image in message.images]
        parts = [*results, *({"type": "image", "source": source} for source in sources)]
        if message.text:
            parts.append({"type": "text", "text": message.text})
        results = []
        for place, call in enumerate(message.calls):
            call_id = f"call_{number}_{place}"
            parts.append({"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments})
            results.append({"type": "tool_result", "tool_use_id": call_id, "content": call.result})
        turns.append({"role": message.role, "content": parts})
    return turns


PROVIDERS: dict[str, type[HttpModelClient]] = {"openai": OpenAIModelClient, "anthropic": AnthropicModelClient}
"""Clients by the provider of a configuration."""
