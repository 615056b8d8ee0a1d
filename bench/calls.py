# SPDX-License-Identifier: Apache-2.0
"""Hold the calls of a run as benchmarks compare and draw them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent


@dataclass
class CallRun:
    """Hold one call. Times are None where they are not known; `outcome` is None where it has not ended."""

    call_id: str
    process_id: str
    stream_id: str
    parent_id: str
    function: str
    channels: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    start_s: float | None = None
    end_s: float | None = None
    outcome: Outcome | None = None
    code: int = 0
    error: str = ""
    message: str = ""

    @classmethod
    def of(cls, call: CallEvent) -> CallRun:
        """Return a call as the events of it leave it (`run_model.merged`)."""
        about = (call.call_id, call.process_id, call.stream_id, call.parent_id, call.function, call.channels, call.arguments)
        start_s, end_s = (time_s if time_s >= 0 else None for time_s in (call.start_s, call.end_s))
        return cls(*about, start_s, end_s, call.outcome, call.error_code, call.error_msg, call.message)

    @property
    def outcome_name(self) -> str:
        """Return the outcome's name; "" before the end."""
        return self.outcome.value if self.outcome is not None else ""
