# SPDX-License-Identifier: Apache-2.0
"""Compares the calls of a replay with those of the recording: function, arguments, order on each channel, outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ghostshell_ros.recording.call_book import OUTCOMES, Key, RecordedCall

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
    return f"{OUTCOMES.get(call.outcome, call.outcome)} ({call.code})" if call.code else OUTCOMES.get(call.outcome, "?")


def _of_order(recorded: Mapping[Key, RecordedCall], replayed: Mapping[Key, RecordedCall]) -> list[Difference]:
    """The first call of each process's channels that does not begin in its turn."""
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
    """Calls that both runs began, by process and channel, in the order in which they began."""
    common = [c for k, c in calls.items() if c.started_s is not None and k in also and also[k].started_s is not None]
    by_channel: dict[tuple[str, str], list[Key]] = {}
    for call in sorted(common, key=lambda c: c.begun):
        for channel in call.channels:
            by_channel.setdefault((call.process_id, channel), []).append(call.key)
    return by_channel
