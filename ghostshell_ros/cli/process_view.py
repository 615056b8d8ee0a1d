# SPDX-License-Identifier: Apache-2.0
"""Several processes on one robot, as they were: what each called on which subsystem, when it was paused, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass
class Bar:
    """One call. Times in seconds since the view's beginning; `end_s` is None while it runs."""

    function: str
    label: str
    subsystems: tuple[str, ...]
    start_s: float
    end_s: float | None = None
    outcome: str = ""
    told: str = ""
    """What the skill said of its end."""


THINKS = " thinks"
"""Ends the name of a row whose bars are a layer's questions to its model."""


class State(NamedTuple):
    """A state from its beginning on; `why` it is paused."""

    name: str
    begin_s: float
    why: str = ""


@dataclass
class ProcessTrack:
    """One process: its instruction, calls and states."""

    process_id: str
    instruction: str
    source: str
    begun_s: float
    states: list[State] = field(default_factory=list)
    bars: dict[str, Bar] = field(default_factory=dict)
    ended_s: float | None = None
    note: str = ""
    """What came of it."""

    @property
    def status(self) -> str:
        """Its last known state."""
        return self.states[-1].name if self.states else "WAITING"

    def spans(self, now_s: float) -> list[tuple[State, float]]:
        """Each state and its end."""
        ends = [*(s.begin_s for s in self.states[1:]), self.ended_s if self.ended_s is not None else now_s]
        return list(zip(self.states, ends, strict=True))

    def paused_by(self, cause: str, since: int = 0) -> bool:
        """Whether it was paused for this cause, in its states from number `since` on."""
        return any(s.name == "PAUSED" and cause in s.why.split(", ") for s in self.states[since:])

    def subsystems(self) -> list[str]:
        """Those its calls ran on, in the order of their first use; who thought for it stands above."""
        used = dict.fromkeys(s for bar in self.bars.values() for s in bar.subsystems)
        return sorted(used, key=lambda s: not s.endswith(THINKS))

    def acts(self) -> list[Bar]:
        """Its calls, without the answers of models."""
        return [b for b in self.bars.values() if not any(s.endswith(THINKS) for s in b.subsystems)]

    def running(self, function: str) -> Bar | None:
        """A call of this function that runs."""
        return next((b for b in self.bars.values() if b.function == function and b.end_s is None), None)


ENDED = ("SUCCESS", "FAILED", "STOPPED")


@dataclass
class ProcessView:
    """Collects processes; every time given is on one clock, every time kept is in seconds since the first."""

    tracks: dict[str, ProcessTrack] = field(default_factory=dict)
    halts: list[float] = field(default_factory=list)
    origin_s: float | None = None
    now_s: float = 0.0

    def since(self, time_s: float) -> float:
        """Seconds since the first time that was given."""
        if self.origin_s is None:
            self.origin_s = time_s
        self.now_s = max(self.now_s, time_s - self.origin_s)
        return max(0.0, time_s - self.origin_s)

    def state(self, time_s: float, process_id: str, instruction: str, source: str, status: str, why: str = "") -> bool:
        """A process is in this state; whether that is news. `why`: causes of a pause, with commas between."""
        at = self.since(time_s)
        track = self.tracks.setdefault(process_id, ProcessTrack(process_id, instruction, source, at))
        if track.states and track.states[-1][::2] == (status, why):
            return False
        track.states.append(State(status, at, why))
        track.ended_s = at if status in ENDED else None
        return True

    def started(self, time_s: float, process_id: str, call_id: str, bar: Bar) -> None:
        """A call moves the robot; `bar.start_s` is set from `time_s`."""
        bar.start_s = self.since(time_s)
        if process_id in self.tracks:
            self.tracks[process_id].bars[call_id] = bar

    def ended(self, time_s: float, process_id: str, call_id: str, outcome: str) -> Bar | None:
        """A call has its outcome; the bar it had, None when it never started."""
        at = self.since(time_s)
        bar = self.tracks[process_id].bars.get(call_id) if process_id in self.tracks else None
        if bar is not None and bar.end_s is None:
            bar.end_s, bar.outcome = at, outcome
        return bar

    def halted(self, time_s: float) -> None:
        """The robot was halted."""
        self.halts.append(self.since(time_s))
