# SPDX-License-Identifier: Apache-2.0
"""Draw the timeline of one task: its calls by channel, and the stream as its model wrote it."""

from __future__ import annotations

from pathlib import Path

from ghostshell.msg import FunctionToken

from bench.calls import CallRun
from bench.gantt import draw_timeline
from function_tokens.markup import attribute, escape
from function_tokens.run_model import RunModel
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import STREAM
from ghostshell_ros.wire.values import seconds
from skill_kernel.events import CallKind

MAX_TITLE = 220


class StreamListener:
    """Keep the function tokens that a robot's model writes."""

    def __init__(self, node: RuntimeNode) -> None:
        self._tokens: list[FunctionToken] = []
        node.create_subscription(FunctionToken, "function_tokens", self._tokens.append, STREAM)

    def draw(self, model: RunModel, process_id: str, spoken: str, path: Path) -> None:
        """Write a PNG of the calls and the stream of a process."""
        tokens = [token for token in self._tokens if token.process_id == process_id]
        written_s = [seconds(token.stamp) for token in tokens]
        ended = (c for c in model.calls.values() if c.process_id == process_id and c.kind is CallKind.ENDED)
        calls = [CallRun.of(call) for call in ended]
        origin_s = min([*written_s, *(call.start_s for call in calls if call.start_s is not None)], default=0.0)
        draw_timeline(
            sorted(calls, key=lambda call: call.end_s or 0.0),
            path,
            title=spoken if len(spoken) < MAX_TITLE else spoken[: MAX_TITLE - 3] + "…",
            stream="".join(map(_source, tokens)),
            note="measured in simulation",
            origin_s=origin_s,
            writing=(written_s[0] - origin_s, written_s[-1] - origin_s) if written_s else None,
        )


def _source(token: FunctionToken) -> str:
    """Return the token as a model may have written it."""
    if token.kind in (FunctionToken.CHAR, FunctionToken.REF):
        return escape(token.text)
    if token.kind == FunctionToken.RESET:
        return f"</{token.name}>"
    if token.kind in (FunctionToken.ACTIVATE, FunctionToken.SELF_CONTAINED):
        attrs = "".join(f" {attribute(k, v)}" for k, v in zip(token.attr_names, token.attr_values, strict=False))
        return f"<{token.name}{attrs}{'/' if token.kind == FunctionToken.SELF_CONTAINED else ''}>"
    return ""
