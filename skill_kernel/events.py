# SPDX-License-Identifier: Apache-2.0
"""Events of a run: what happens to its calls, streams, processes and models, and what a person should read.

Each class is the message of that name in `msg/`, field by field; a test holds them equal.
"""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from skill_kernel.codes import CallCode, ModelCode, Outcome

CallKind = Enum("CallKind", "QUEUED STARTED RESETTING ENDED CONTENTION", start=0)
StreamKind = Enum("StreamKind", "STARTED ENDED REPAIR STOP_GENERATION TURN_ENDED", start=0)
ProcessKind = Enum(
    "ProcessKind",
    "STARTED ENDED PAUSED RESUMED INTERRUPTED DRAINED PLAN_ENDED SUBTASK_DONE PLAN_EVENT GUIDELINE_FIRED CLAIMED",
    start=0,
)
ModelKind = Enum("ModelKind", "ASKED ANSWERED SKIPPED DEGRADED", start=0)
NoticeKind = Enum("NoticeKind", "MESSAGE HALTED HALT_CLEARED ROUTINE_SAVED UNPROVEN FACT", start=0)
"""Kinds of each event, with the numbers of the message."""


@dataclass(frozen=True, kw_only=True)
class EventBase:
    """Fields of every event. A node that writes one fills in where it comes from: `stamp_s` to `seq` (EventHead.msg)."""

    process_id: str = ""
    stream_id: str = ""
    error_code: int = 0
    error_msg: str = ""
    stamp_s: float = 0.0
    robot: str = ""
    node: str = ""
    session: int = 0
    seq: int = 0


@dataclass(frozen=True, kw_only=True)
class CallEvent(EventBase):
    """Stage of a call."""

    kind: CallKind
    call_id: str = ""
    parent_id: str = ""
    function: str = ""
    args_json: str = ""
    channels: tuple[str, ...] = ()
    outcome: Outcome | None = None
    message: str = ""
    start_s: float = -1.0
    end_s: float = -1.0
    holder_id: str = ""
    value_json: str = ""

    @property
    def value(self) -> Any:
        """Return what the skill returned to its caller; None where it returned nothing or it cannot be read."""
        try:
            return json.loads(self.value_json) if self.value_json else None
        except (ValueError, RecursionError):
            return None

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments; none where they cannot be read."""
        return read_arguments(self.args_json)

    @property
    def outcome_name(self) -> str:
        """Return the outcome's name; "" before the end."""
        return self.outcome.value if self.outcome is not None else ""

    @property
    def lost(self) -> bool:
        """Return whether it was cut off, or the kernel let it not begin. A branch that is not taken is not lost."""
        held = self.error_code in (CallCode.STALE_EPOCH, CallCode.PROCESS_PAUSED)
        return self.outcome is Outcome.INTERRUPTED or (self.outcome is Outcome.DROPPED and held)

    @property
    def told(self) -> str:
        """Return what is wrong, or else what the skill says."""
        return self.error_msg or self.message


@dataclass(frozen=True, kw_only=True)
class StreamEvent(EventBase):
    """Stage of a model's stream."""

    kind: StreamKind
    end: str = ""


@dataclass(frozen=True, kw_only=True)
class ProcessEvent(EventBase):
    """Change of a process or of its plan."""

    kind: ProcessKind
    instruction: str = ""
    status: str = ""
    cause: str = ""
    channels: tuple[str, ...] = ()
    epoch: int = 0
    plan_item_id: str = ""
    plan_item: str = ""
    guideline: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelEvent(EventBase):
    """Question of a planning layer to its model, and its cost."""

    kind: ModelKind
    layer: str = ""
    model: str = ""
    fallback: str = ""
    reason: str = ""
    start_s: float = 0.0
    end_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = -1.0

    @property
    def took_s(self) -> float:
        return max(0.0, self.end_s - self.start_s)

    @property
    def unwanted(self) -> bool:
        """Return whether the layer took its question back."""
        return self.error_code == ModelCode.MODEL_CANCELLED

    @property
    def failed(self) -> bool:
        """Return whether there was no usable answer. One that was no longer wanted is no failure."""
        return bool(self.error_code) and not self.unwanted


@dataclass(frozen=True, kw_only=True)
class Notice(EventBase):
    """Something that a person should read, and the halt."""

    kind: NoticeKind = NoticeKind.MESSAGE
    call_id: str = ""
    function: str = ""
    channels: tuple[str, ...] = ()
    layer: str = ""
    routine: str = ""
    text: str = ""

    @property
    def told(self) -> str:
        """Return what is wrong, or else the message."""
        return self.error_msg or self.text


RunEvent: TypeAlias = CallEvent | StreamEvent | ProcessEvent | ModelEvent | Notice
EventKind: TypeAlias = CallKind | StreamKind | ProcessKind | ModelKind | NoticeKind
EVENT_CLASSES: tuple[type[RunEvent], ...] = (CallEvent, StreamEvent, ProcessEvent, ModelEvent, Notice)


def read_arguments(args_json: str) -> dict[str, Any]:
    """Return the arguments of a call; none where they cannot be read."""
    try:
        value = json.loads(args_json or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
