# SPDX-License-Identifier: Apache-2.0
"""The calls of a run, read from the channel scheduler's events; the same for a recorded run and for its replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

QUEUED, STARTED, RESETTING, ENDED = 10, 11, 12, 13
STREAM_ENDED, TURN_ENDED, INTERRUPTED = 3, 6, 21
"""Numbers of SkillEvent; a test holds them against the interface."""

OUTCOMES = {0: "", 1: "DONE", 2: "FAILED", 3: "INTERRUPTED", 4: "REFUSED", 5: "DROPPED"}
SCHEDULER = "channel_scheduler"


class Key(NamedTuple):
    """A call by its place in its stream: call ids are made anew in each run."""

    stream_id: str
    number: int


class Output(NamedTuple):
    """Something the scheduler told: the event's type, and which call or stream it is about."""

    kind: int
    key: Key


@dataclass
class RecordedCall:
    """What became of a call. Times are seconds of ROS time, None for what never happened."""

    key: Key
    process_id: str
    function: str
    args_json: str = "{}"
    channels: tuple[str, ...] = ()
    parent: Key | None = None
    queued_s: float = 0.0
    started_s: float | None = None
    begun: int = 0
    """Its place among all that the scheduler told: times alone do not tell which of two began first."""
    resetting_s: float | None = None
    ended_s: float | None = None
    outcome: int = 0
    code: int = 0
    error: str = ""
    message: str = ""

    def __str__(self) -> str:
        return f"{self.function}{self.args_json} (call {self.key.number + 1} of stream {self.key.stream_id})"


@dataclass
class CallBook:
    """Calls and the scheduler's outputs in the order it told them. `whole` streams are those heard from their start."""

    calls: dict[Key, RecordedCall] = field(default_factory=dict)
    outputs: list[tuple[float, Output]] = field(default_factory=list)
    by_id: dict[str, Key] = field(default_factory=dict)
    _in_stream: dict[str, int] = field(default_factory=dict)
    _ends: dict[str, int] = field(default_factory=dict)

    def hear(self, event: Any) -> Output | None:
        """Take one event; what the scheduler told by it, None for what does not count."""
        if event.node != SCHEDULER:
            return None
        now_s = event.stamp.sec + event.stamp.nanosec * 1e-9
        if event.type in (STREAM_ENDED, TURN_ENDED, INTERRUPTED):
            subject = event.stream_id or event.process_id
            name = f"{event.type}:{subject}"
            self._ends[name] = self._ends.get(name, -1) + 1
            return self._told(now_s, event.type, Key(subject, self._ends[name]))
        if event.type not in (QUEUED, STARTED, RESETTING, ENDED):
            return None
        call = self._call(event, now_s)
        if event.type == QUEUED:
            call.queued_s = now_s
        elif event.type == STARTED:
            call.started_s, call.begun = now_s, len(self.outputs)
        elif event.type == RESETTING:
            call.resetting_s = now_s
        else:
            call.ended_s = event.end_s if event.end_s > 0 else now_s
            if event.start_s > 0:
                call.started_s = event.start_s
            call.outcome, call.code = event.outcome, event.error_code
            call.error, call.message, call.args_json = event.error_msg, event.text, event.args_json
        return self._told(now_s, event.type, call.key)

    def call_of(self, call_id: str) -> RecordedCall | None:
        """The call of an id of this run."""
        key = self.by_id.get(call_id)
        return self.calls[key] if key is not None else None

    def _call(self, event: Any, now_s: float) -> RecordedCall:
        key = self.by_id.get(event.call_id)
        if key is None:
            number = self._in_stream.get(event.stream_id, 0)
            self._in_stream[event.stream_id] = number + 1
            key = self.by_id[event.call_id] = Key(event.stream_id, number)
            self.calls[key] = RecordedCall(
                key,
                event.process_id,
                event.function,
                event.args_json,
                tuple(sorted(event.channels)),
                self.by_id.get(event.parent_id),
                now_s,
            )
        return self.calls[key]

    def _told(self, now_s: float, kind: int, key: Key) -> Output:
        output = Output(kind, key)
        self.outputs.append((now_s, output))
        return output
