# SPDX-License-Identifier: Apache-2.0
"""Draw a Gantt picture of several processes on one robot."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.gantt import COLOURS, Bar, draw_bar, finish, new_figure
from function_tokens.run_model import ProcessRun, RunModel, State, call_label, runs
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.processes.questions import ASK
from skill_kernel.skills.skill import MAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BANDS = {"IN_PROGRESS": "#eaf3ee", "PAUSED": "#dcdcdc", "WAITING": "#f6efdf"}
"""Background of a process by its state."""
PAUSED: dict[str, Any] = {"facecolor": BANDS["PAUSED"], "hatch": "////", "edgecolor": "#888888"}
HATCHED = "process paused (s0: by a reflex, s3: by a task)"
THINKS = " thinks"
"""Ends the name of a row whose bars are a layer's questions to its model."""


@dataclass
class ProcessView:
    """The processes of `model` as a picture shows them. Text is spoken on `text_subsystems`; `notes` are what came of each
    process, `marks` moments to be marked, in ROS time [s], with what happened. Times shown are seconds since `origin_s`, the
    first time that was given."""

    model: RunModel
    text_subsystems: tuple[str, ...] = (MAIN,)
    notes: dict[str, str] = field(default_factory=dict)
    marks: list[tuple[float, str]] = field(default_factory=list)
    origin_s: float | None = None
    now_s: float = 0.0

    def since(self, time_s: float) -> float:
        """Return the seconds since the first time that was given."""
        if self.origin_s is None:
            self.origin_s = time_s
        self.now_s = max(self.now_s, time_s - self.origin_s)
        return max(0.0, time_s - self.origin_s)

    @property
    def processes(self) -> dict[str, ProcessRun]:
        """Those of which a state is known."""
        return {name: process for name, process in self.model.processes.items() if process.states}

    def subsystems_of(self, call: CallEvent) -> tuple[str, ...]:
        """Return where a call runs: text is scheduled on the channel main, and spoken on the subsystem of its skill; a request
        runs with the person who is asked."""
        if call.function == ASK and (person := call.arguments.get("person")):
            return (str(person),)
        return self.text_subsystems if call.function == "text" else call.channels

    def acts(self, process: ProcessRun) -> list[CallEvent]:
        """Return the calls that have started, without those that only order others."""
        started = (c for c in process.calls.values() if c.start_s >= 0)
        return [c for c in started if self.subsystems_of(c) != (MAIN,)]

    def running(self, process: ProcessRun, function: str) -> CallEvent | None:
        """Return a call of this function that runs."""
        return next((c for c in self.acts(process) if c.function == function and runs(c)), None)

    def bars(self, process: ProcessRun) -> list[Bar]:
        """Return its questions and its calls as bars."""
        origin_s, bars = self.origin_s or 0.0, []
        for question in process.questions:
            layer, answer = question.layer, question.answer
            layer = layer.upper() if len(layer) <= len("s1p") else layer
            told = "running" if answer is None else "DROPPED" if answer.unwanted else "FAILED" if answer.failed else "ANSWERED"
            end_s = None if question.ended_s is None else question.ended_s - origin_s
            bars.append(Bar((layer + THINKS,), layer, question.begun_s - origin_s, end_s, told))
        for call in sorted(self.acts(process), key=lambda c: c.start_s):
            label = call_label(call.function, call.arguments)
            end_s = call.end_s - origin_s if call.kind is CallKind.ENDED else None
            start_s, told = call.start_s - origin_s, call.outcome_name or "running"
            bars.append(Bar(self.subsystems_of(call), label, start_s, end_s, told))
        return bars


def stretches(process: ProcessRun, now_s: float) -> list[tuple[State, float]]:
    """Return each state of a process with its end; the last one of a living process ends now."""
    states = list(process.states)
    last = states[-1].begin_s if process.ended else now_s
    return list(zip(states, [*(s.begin_s for s in states[1:]), last], strict=True))


def paused_by(process: ProcessRun, cause: str, since: int = 0) -> bool:
    """Return whether it was paused for this cause, in its states from number `since` on."""
    return any(s.name == "PAUSED" and cause in s.why.split(", ") for s in list(process.states)[since:])


def draw_processes(view: ProcessView, path: Path, *, title: str, note: str = "") -> None:
    """Write a PNG of the processes in the order they began."""
    tracks = [(p, view.bars(p)) for p in sorted(view.processes.values(), key=lambda p: p.states[0].begin_s)]
    rows = [list(dict.fromkeys(row for bar in bars for row in bar.rows)) or ["(no call)"] for _, bars in tracks]
    origin, end = view.origin_s or 0.0, max(view.now_s, 1.0)
    figure, axes = new_figure(12, 1.6 + 0.42 * max(1, sum(map(len, rows))) + 0.32 * len(tracks), 0.6)
    y, ticks = 0.0, []
    halts = [at - origin for at in view.model.halts]
    for number, ((process, bars), own) in enumerate(zip(tracks, rows, strict=True), start=1):
        spans = [(state, state.begin_s - origin, stop - origin) for state, stop in stretches(process, origin + end)]
        for state, start, stop in spans:
            if state.name in BANDS:
                middle, colour = y + len(own) / 2 + 0.25, BANDS[state.name]
                axes.barh(middle, stop - start, left=start, height=len(own) + 0.7, color=colour, zorder=0)
        told = view.notes.get(process.process_id, "")
        head = f"process {number} ({process.source.lower()}, {process.status}): {process.instruction} {told}"
        late = spans[0][1] > 0.55 * end
        at = min([end, *halts]) - 0.003 * end if late else spans[0][1] + 0.003 * end
        side = "right" if late else "left"
        axes.text(at, y + 0.16, textwrap.shorten(head, 140), fontsize=8, va="center", ha=side, weight="bold", parse_math=False)
        for row, name in enumerate(own):
            ticks.append((y + 0.75 + row, name))
            for bar in (bar for bar in bars if name in bar.rows):
                draw_bar(axes, bar, y + 0.75 + row, end)
                stop = end if bar.end_s is None else bar.end_s
                for state, low, high in spans:
                    if state.name == "PAUSED":
                        _pause(axes, state.why, y + 0.75 + row, max(low, bar.start_s), min(high, stop))
        y += len(own) + 0.75
    for at in halts:
        axes.axvline(at, color=COLOURS["FAILED"], linewidth=1.5, zorder=4)
        axes.text(at, -0.05, "halt ", fontsize=8, color=COLOURS["FAILED"], ha="right", va="bottom")
    for at, what in view.marks:
        axes.axvline(at - origin, color=COLOURS["INTERRUPTED"], linewidth=1.2, linestyle="--", zorder=4)
        axes.text(
            at - origin, y, f"{what} ", fontsize=7, color=COLOURS["FAILED"], rotation=90, ha="right", va="bottom", zorder=5
        )
    axes.set_ylim(max(y, 1.0), -0.1)
    used = {bar.outcome for _, bars in tracks for bar in bars}
    finish(figure, axes, path, title=title, note=note, end=end, ticks=ticks, used=used, further={HATCHED: PAUSED})


def _pause(axes: Axes, why: str, at: float, low: float, high: float) -> None:
    """Hatch a call while its process was paused, and write the cause on it: it waits and moves nothing."""
    if high > low:
        axes.barh(at, high - low, left=low, height=0.56, zorder=3, **PAUSED)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.text((low + high) / 2, at, why, fontsize=7, va="center", ha="center", zorder=5, bbox=box)
