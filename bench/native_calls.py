# SPDX-License-Identifier: Apache-2.0
"""The providers' native function calling, which the function tokens are compared with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planners.models.base import ModelRequest, Surroundings
from planners.models.config import ModelConfig
from planners.models.http_stream import HttpModelClient
from planners.models.providers import AnthropicModelClient, OpenAIModelClient, Translator, items_of, message_of


@dataclass(frozen=True)
class ToolSpec:
    """A function offered to the model; `parameters` is its JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True)
class ToolCall:
    """A call as soon as the provider's SDK reports it complete; `arguments` is a JSON text that nobody has checked yet."""

    call_id: str
    name: str
    arguments: str


def with_tools(config: ModelConfig, tools: Sequence[ToolSpec], surroundings: Surroundings | None = None) -> HttpModelClient:
    """Return a client whose streams hold each ToolCall among their events."""
    kind = _OpenAI if config.provider == "openai" else _Anthropic
    client = kind(config, surroundings=surroundings)
    client.tools = tools
    return client


class _OpenAI(OpenAIModelClient):
    tools: Sequence[ToolSpec] = ()

    async def _items(self, client: Any, request: ModelRequest) -> AsyncGenerator[Any, None]:
        tools = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)}}
            for t in self.tools
        ]
        async with client.chat.completions.stream(tools=tools, **self.options(request)) as stream:
            async for event in stream:
                if event.type == "chunk":
                    for item in items_of(event.chunk):
                        yield item
                elif event.type == "tool_calls.function.arguments.done":
                    call = stream.current_completion_snapshot.choices[0].message.tool_calls[event.index]
                    yield ToolCall(call.id or "", event.name, event.arguments)


class _Anthropic(AnthropicModelClient):
    tools: Sequence[ToolSpec] = ()

    async def _items(self, client: Any, request: ModelRequest) -> AsyncGenerator[Any, None]:
        tools = [{"name": t.name, "description": t.description, "input_schema": dict(t.parameters)} for t in self.tools]
        arguments: dict[int, str] = {}
        translate = Translator()
        async with client.messages.stream(
            model=self._config.model,
            max_tokens=request.max_output_tokens,
            system=request.system,
            messages=[message_of(m) for m in request.messages],
            tools=tools,
        ) as stream:
            async for event in stream:
                if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                    arguments[event.index] = arguments.get(event.index, "") + event.delta.partial_json
                if event.type == "content_block_stop" and event.content_block.type == "tool_use":
                    yield ToolCall(event.content_block.id, event.content_block.name, arguments.get(event.index) or "{}")
                for item in translate(event):
                    yield item
