# SPDX-License-Identifier: Apache-2.0
"""Read the calls of a run from the channel scheduler's events, and tell how those of a replay differ from the recorded ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind, EventKind, ProcessKind, RunEvent, StreamKind

SCHEDULER = "channel_scheduler"


class Key(NamedTuple):
    """A call by its place in its stream: call ids are made anew in each run."""

    stream_id: str
    number: int


class Output(NamedTuple):
    """Something the scheduler told: the event's kind, and which call or stream it is about."""

    kind: EventKind
    key: Key


@dataclass
class RecordedCall:
    """Fate of a call. Times are seconds of ROS time, None for what never happened."""

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
    outcome: Outcome | None = None
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

    def hear(self, event: RunEvent) -> Output | None:
        """Take one event. Return what the scheduler told by it; None for what does not count."""
        if event.node != SCHEDULER:
            return None
        now_s = event.stamp_s
        if event.kind in (StreamKind.ENDED, StreamKind.TURN_ENDED, ProcessKind.INTERRUPTED):
            subject = getattr(event, "stream_id", "") or event.process_id
            name = f"{event.kind}:{subject}"
            self._ends[name] = self._ends.get(name, -1) + 1
            return self._told(now_s, event.kind, Key(subject, self._ends[name]))
        if not isinstance(event, CallEvent) or event.kind is CallKind.CONTENTION:
            return None
        call = self._call(event)
        if event.kind is CallKind.QUEUED:
            call.queued_s = now_s
        elif event.kind is CallKind.STARTED:
            call.started_s, call.begun = now_s, len(self.outputs)
        elif event.kind is CallKind.RESETTING:
            call.resetting_s = now_s
        else:
            call.ended_s = event.end_s if event.end_s > 0 else now_s
            if event.start_s > 0:
                call.started_s = event.start_s
            call.outcome, call.code = event.outcome, event.error_code
            call.error, call.message, call.args_json = event.error_msg, event.message, event.args_json
        return self._told(now_s, event.kind, call.key)

    def call_of(self, call_id: str) -> RecordedCall | None:
        """Return the call of an id of this run."""
        key = self.by_id.get(call_id)
        return self.calls[key] if key is not None else None

    def _call(self, event: CallEvent) -> RecordedCall:
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
                event.stamp_s,
            )
        return self.calls[key]

    def _told(self, now_s: float, kind: EventKind, key: Key) -> Output:
        output = Output(kind, key)
        self.outputs.append((now_s, output))
        return output


START_S = 0.3
"""A call may begin so much earlier or later than it did; the replay's time waits for what is missing, so more is a change."""


def start_tolerance_s(speed: float) -> float:
    """At another speed; what is measured on the steady clock is longer then, by the recording's time."""
    return START_S * max(1.0, speed / 2)


@dataclass(frozen=True)
class Difference:
    """Something that is not the same; `at_s`: when it was in the recording."""

    at_s: float
    text: str


def differences(
    recorded: Mapping[Key, RecordedCall], replayed: Mapping[Key, RecordedCall], *, speed: float = 1.0
) -> list[Difference]:
    """All of them, the earliest first. A call that the recording does not see the end of is compared as far as it goes."""
    found = [_lacking(call) for key, call in recorded.items() if key not in replayed]
    new = [call for key, call in replayed.items() if key not in recorded]
    found += [Difference(call.queued_s, f"{call}: is not in the recording") for call in new]
    for key, call in recorded.items():
        if key in replayed:
            found += _of_call(call, replayed[key], start_tolerance_s(speed))
    found += _of_order(recorded, replayed)
    return sorted(found, key=lambda difference: difference.at_s)


def _lacking(call: RecordedCall) -> Difference:
    return Difference(call.queued_s, f"{call}: is in the recording, not in the replay")


def _of_call(was: RecordedCall, now: RecordedCall, start_s: float) -> list[Difference]:
    found = []

    def differs(at_s: float | None, what: str, recorded: object, replayed: object) -> None:
        if recorded != replayed:
            when_s = was.queued_s if at_s is None else at_s
            found.append(Difference(when_s, f"{was}: {what} was {recorded}, is {replayed}"))

    differs(was.queued_s, "function", was.function, now.function)
    differs(was.queued_s, "channels", ", ".join(was.channels), ", ".join(now.channels))
    differs(was.queued_s, "enclosing call", _place(was.parent), _place(now.parent))
    if was.ended_s is not None:
        differs(was.queued_s, "arguments", was.args_json, now.args_json)
        differs(was.ended_s, "outcome", _outcome(was), _outcome(now) if now.ended_s is not None else "none")
        differs(was.started_s, "started", was.started_s is not None, now.started_s is not None)
    if was.started_s is not None and now.started_s is not None and abs(now.started_s - was.started_s) > start_s:
        late_s = now.started_s - was.started_s
        how = "later" if late_s > 0 else "earlier"
        found.append(Difference(was.started_s, f"{was}: begins {abs(late_s):.2f} s {how} than it did"))
    return found


def _place(key: Key | None) -> str:
    return "none" if key is None else f"call {key.number + 1} of stream {key.stream_id}"


def _outcome(call: RecordedCall) -> str:
    name = call.outcome.value if call.outcome is not None else ""
    return f"{name} ({call.code})" if call.code else name


def _of_order(recorded: Mapping[Key, RecordedCall], replayed: Mapping[Key, RecordedCall]) -> list[Difference]:
    """Return the first call of each process's channels that does not begin in its turn."""
    found = []
    was, now = _starts(recorded, replayed), _starts(replayed, recorded)
    for channel, keys in was.items():
        for key, other in zip(keys, now.get(channel, []), strict=False):
            if key != other:
                call = recorded[key]
                text = f"{call}: was the next on {channel[1]}, now {recorded[other]} begins before it"
                found.append(Difference(call.started_s or call.queued_s, text))
                break
    return found


def _starts(calls: Mapping[Key, RecordedCall], also: Mapping[Key, RecordedCall]) -> dict[tuple[str, str], list[Key]]:
    """Return the calls that both runs began, by process and channel, in the order in which they began."""
    common = [c for k, c in calls.items() if c.started_s is not None and k in also and also[k].started_s is not None]
    by_channel: dict[tuple[str, str], list[Key]] = {}
    for call in sorted(common, key=lambda c: c.begun):
        for channel in call.channels:
            by_channel.setdefault((call.process_id, channel), []).append(call.key)
    return by_channel
