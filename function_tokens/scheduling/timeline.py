# SPDX-License-Identifier: Apache-2.0
"""Records of ended calls, as the dry run prints them and the pictures show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_jsonable_python

from function_tokens.scheduling.calls import Call
from skill_kernel.skills.skill import MAIN


@dataclass(frozen=True)
class CallRecord:
    """Record one ended call. `channel` is the first it claims, `channels` all of them; times are seconds, None if it never
    started (`start_s`). `outcome` is a name of `skill_kernel.Outcome`."""

    call: str
    function: str
    args: Mapping[str, Any]
    channel: str
    channels: tuple[str, ...]
    start_s: float | None
    end_s: float | None
    outcome: str
    error: str = ""
    parent: str = ""
    code: int = 0
    message: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, call: Call) -> CallRecord:
        """Return the record of a call that has ended; raises ValueError for one that has not."""
        if call.result is None:
            raise ValueError(f"call {call.call_id} ('{call.function}') has not ended yet")
        own = [c for c in call.subsystems if c in call.channels] or sorted(call.channels)
        channels = tuple(dict.fromkeys([*own, *sorted(call.channels)]))
        return cls(
            call=call.call_id,
            function=call.function,
            args=to_jsonable_python(call.args_shown, fallback=str),
            channel=channels[0] if channels else "",
            channels=channels,
            start_s=call.start_s,
            end_s=call.end_s,
            outcome=call.result.outcome.value,
            error=call.result.error,
            parent=call.parent.call_id if call.parent is not None else "",
            code=int(call.result.code),
            message=call.result.message,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the dry run's line: call, function, args, channel, start, end, outcome; error and message if any."""
        line: dict[str, Any] = {
            "call": self.call,
            "function": self.function,
            "args": dict(self.args),
            "channel": self.channel,
            "start": _rounded(self.start_s),
            "end": _rounded(self.end_s),
            "outcome": self.outcome,
        }
        if len(self.channels) > 1:
            line["channels"] = list(self.channels)
        if self.parent:
            line["parent"] = self.parent
        if self.error:
            line["error"] = self.error
        if self.message:
            line["message"] = self.message
        return line


def channel_order(records: list[CallRecord]) -> list[str]:
    """Return the channels in the order they were first used, main first."""
    met = dict.fromkeys(c for r in records for c in r.channels if r.start_s is not None)
    return [MAIN, *(c for c in met if c != MAIN)] if MAIN in met else list(met)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
