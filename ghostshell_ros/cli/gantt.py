# SPDX-License-Identifier: Apache-2.0
"""Draw Gantt pictures: the calls of a task by channel, with its stream beneath, or several processes on one robot."""

from __future__ import annotations

import functools
import textwrap
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from function_tokens.run_model import CallRun, ProcessRun, Question, RunModel, call_label
from function_tokens.scheduling.timeline import CallRecord, channel_order
from skill_kernel.skills.skill import MAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "DONE": "#4c8c6b",
    "FAILED": "#c0392b",
    "INTERRUPTED": "#d98c2b",
    "REFUSED": "#8e44ad",
    "DROPPED": "#95a5a6",
    "ANSWERED": "#b08bc7",
}
ELEMENT_COLOUR = "#bcd5e8"
"""Bars of elements that stand around other calls are pale and lie behind those."""

WRITING = "model writes"
WRITING_COLOUR = "#b08bc7"

MAX_STREAM_LINES = 14
MAX_STREAM_CHARACTERS = 8000


def draw_timeline(
    records: list[CallRecord],
    path: Path,
    *,
    title: str,
    stream: str = "",
    note: str = "",
    writing: tuple[float, float] | None = None,
) -> None:
    """Write a PNG. A call that claims several channels gets a bar in each; one that never started is listed below.

    `writing` is when the model began and ended its answer, in seconds on the records' clock.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    shown = [r for r in records if r.start_s is not None and r.end_s is not None]
    channels = [*([WRITING] if writing else []), *(channel_order(shown) or ["(nothing ran)"])]
    lines = _wrapped(stream)
    chart_in = 1.0 + 0.5 * len(channels)
    text_in = 0.19 * (len(lines) + 2) if lines else 0.1
    figure = Figure(figsize=(11, chart_in + text_in + 0.9), dpi=110)
    FigureCanvasAgg(figure)
    height = chart_in + text_in + 0.9
    axes = figure.add_axes((0.105, (text_in + 0.55) / height, 0.875, (chart_in - 0.35) / height))
    end = max([r.end_s or 0.0 for r in shown], default=1.0)
    if writing:
        axes.barh(0, writing[1] - writing[0], left=writing[0], height=0.3, color=WRITING_COLOUR)
    parents = {r.parent for r in records}
    for record in sorted(shown, key=lambda r: r.call not in parents):
        is_element = record.call in parents
        for channel in record.channels:
            row = channels.index(channel)
            _bar(axes, record, row, end, element=is_element)
    axes.set_yticks(range(len(channels)), channels)
    axes.set_ylim(len(channels) - 0.5, -0.5)
    axes.set_xlim(-0.01 * end, end * 1.02 + 0.05)
    axes.set_xlabel("time [s]")
    axes.grid(axis="x", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(textwrap.fill(title, 110), fontsize=10, loc="left", pad=22)
    present = [o for o in COLOURS if any(r.outcome == o for r in shown)]
    handles = [Patch(color=COLOURS[o], label=o) for o in present]
    if any(r.call in parents for r in shown):
        handles.append(Patch(color=ELEMENT_COLOUR, label="open element"))
    if handles:
        axes.legend(
            handles=handles, fontsize=8, ncols=len(handles), loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False
        )
    never = [f"{r.function} ({r.outcome})" for r in records if r.start_s is None]
    foot = "; ".join(filter(None, [note, f"never started: {', '.join(never[:8])}" if never else ""]))
    if lines:
        figure.text(0.105, (text_in + 0.02) / height, "stream", fontsize=8, color="#555555", va="bottom")
        figure.text(
            0.105,
            text_in / height,
            "\n".join(lines),
            fontsize=8,
            family=_families("DejaVu Sans Mono"),
            va="top",
            linespacing=1.25,
            parse_math=False,
        )
    if foot:
        figure.text(0.98, 0.01, foot, fontsize=7, color="#777777", ha="right", va="bottom")
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():  # a script that no font here has shows as boxes
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(path, format="png")


WIDE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "Microsoft YaHei",
    "PingFang SC",
)
"""Fonts with Chinese characters, where one of them is installed."""


@functools.lru_cache
def _families(first: str) -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [first, *(name for name in WIDE_FONTS if name in installed)]


def _bar(axes: Any, record: CallRecord, row: int, end: float, *, element: bool) -> None:
    start, stop = record.start_s or 0.0, record.end_s or 0.0
    width = max(stop - start, end * 0.003)
    tall = 0.86 if element else 0.56
    colour = ELEMENT_COLOUR if element and record.outcome == "DONE" else COLOURS.get(record.outcome, "#333333")
    axes.barh(row, width, left=start, height=tall, color=colour, edgecolor="white", linewidth=0.8)
    label = _label(record, max(1, int(140 * width / max(end, 1e-9))))
    if not label:
        return
    top = row - 0.41 if element else row
    axes.text(
        start + end * 0.004,
        top,
        label,
        fontsize=7,
        va="top" if element else "center",
        color="#274863" if element else "white",
        clip_on=True,
        parse_math=False,
        family=_families("DejaVu Sans"),
    )


def _label(record: CallRecord, room: int) -> str:
    full = call_label(record.function, record.args)
    return full if len(full) <= room else (full[: room - 1] + "…" if room > 3 else "")


def _wrapped(stream: str) -> list[str]:
    shown = stream[:MAX_STREAM_CHARACTERS].strip()
    lines = [w for line in shown.splitlines() for w in textwrap.wrap(line, 128) or [""]]
    return lines if len(lines) <= MAX_STREAM_LINES else [*lines[: MAX_STREAM_LINES - 1], "…"]


BANDS = {"IN_PROGRESS": "#eaf3ee", "PAUSED": "#dcdcdc", "WAITING": "#f6efdf"}
"""Background of a process by its state."""
HALT_COLOUR = "#c0392b"
RUNNING_COLOUR = "#4c6f8c"
LABEL_CHARACTERS = 165
"""How many characters fit across the whole picture."""

THINKS = " thinks"
"""Ends the name of a row whose bars are a layer's questions to its model."""


@dataclass
class ProcessView:
    """The processes of `model` as a picture shows them. Text is spoken on `text_subsystems`; `notes` are what came of each
    process. Times shown are seconds since `origin_s`, the first time that was given."""

    model: RunModel
    text_subsystems: tuple[str, ...] = (MAIN,)
    notes: dict[str, str] = field(default_factory=dict)
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

    def subsystems_of(self, call: CallRun) -> tuple[str, ...]:
        """Return where a call runs: text is scheduled on the channel main, and spoken on the subsystem of its skill."""
        return self.text_subsystems if call.function == "text" else call.channels

    def acts(self, process: ProcessRun) -> list[CallRun]:
        """Return the calls that have started, without those that only order others."""
        started = (c for c in process.calls.values() if c.started_s is not None)
        return [c for c in started if self.subsystems_of(c) != (MAIN,)]

    def running(self, process: ProcessRun, function: str) -> CallRun | None:
        """Return a call of this function that runs."""
        return next((c for c in self.acts(process) if c.function == function and c.running), None)

    def bars(self, process: ProcessRun) -> list[_Bar]:
        """Return its questions and its calls as bars in rows."""
        asked = [
            _Bar((q.layer.upper() + THINKS,), q.layer.upper(), q.begun_s, q.ended_s, _outcome(q)) for q in process.questions
        ]
        calls = [
            _Bar(
                self.subsystems_of(c),
                call_label(c.function, c.arguments),
                c.started_s or 0.0,
                c.ended_s,
                c.outcome.value if c.outcome else "",
            )
            for c in self.acts(process)
        ]
        return asked + sorted(calls, key=lambda bar: bar.start_s)


class _Bar(NamedTuple):
    rows: tuple[str, ...]
    label: str
    start_s: float
    end_s: float | None
    outcome: str


def _outcome(question: Question) -> str:
    if question.answer is None:
        return ""
    return "DROPPED" if question.answer.unwanted else "FAILED" if question.answer.failed else "ANSWERED"


def draw_processes(view: ProcessView, path: Path, *, title: str, note: str = "") -> None:
    """Write a PNG of the processes in the order they began."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    tracks = sorted(view.processes.values(), key=lambda p: p.states[0].begin_s)
    bars = [view.bars(p) for p in tracks]
    rows = [list(dict.fromkeys(row for bar in own for row in bar.rows)) or ["(no call)"] for own in bars]
    origin, end = view.origin_s or 0.0, max(view.now_s, 1.0)
    height = 1.6 + 0.42 * max(1, sum(map(len, rows))) + 0.32 * len(tracks)
    figure = Figure(figsize=(12, height), dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.09, 0.75 / height, 0.895, (height - 1.55) / height))
    y, ticks, used = 0.0, [], set()
    halts = [at - origin for at in view.model.halts]
    for number, (process, own) in enumerate(zip(tracks, rows, strict=True), start=1):
        spans = [(state, state.begin_s - origin, stop - origin) for state, stop in process.spans(origin + end)]
        for state, start, stop in spans:
            if state.name in BANDS:
                at, colour = y + len(own) / 2 + 0.25, BANDS[state.name]
                axes.barh(at, stop - start, left=start, height=len(own) + 0.7, color=colour, zorder=0)
        note_of = view.notes.get(process.process_id, "")
        head = f"process {number} ({process.source.lower()}, {process.status}): {process.instruction} {note_of}"
        begun = spans[0][1]
        late = begun > 0.55 * end
        at = min([end, *halts]) - 0.003 * end if late else begun + 0.003 * end
        axes.text(
            at,
            y + 0.16,
            textwrap.shorten(head, 140),
            fontsize=8,
            va="center",
            ha="right" if late else "left",
            fontweight="bold",
            parse_math=False,
        )
        for row, subsystem in enumerate(own):
            at = y + 0.75 + row
            ticks.append((at, subsystem))
            for bar in (bar for bar in bars[number - 1] if subsystem in bar.rows):
                start = bar.start_s - origin
                stop = bar.end_s - origin if bar.end_s is not None else end
                used.add(bar.outcome or "running")
                width = max(stop - start, 0.003 * end)
                colour = COLOURS.get(bar.outcome, RUNNING_COLOUR)
                axes.barh(at, width, left=start, height=0.6, color=colour, edgecolor="white", zorder=2)
                room = int(LABEL_CHARACTERS * width / end)
                label = bar.label if len(bar.label) <= room else bar.label[: room - 1] + "…" if room > 3 else ""
                if label:
                    axes.text(
                        start + 0.004 * end,
                        at,
                        label,
                        fontsize=7,
                        va="center",
                        color="white",
                        clip_on=True,
                        zorder=3,
                        parse_math=False,
                    )
                for state, low, high in spans:
                    if state.name == "PAUSED":
                        _pause(axes, state.why, at, max(low, start), min(high, stop))
        y += len(own) + 0.75
    for at in halts:
        axes.axvline(at, color=HALT_COLOUR, linewidth=1.5, zorder=4)
        axes.text(at, -0.05, "halt ", fontsize=8, color=HALT_COLOUR, ha="right", va="bottom")
    axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks], fontsize=8)
    axes.set_ylim(max(y, 1.0), -0.1)
    axes.set_xlim(0, end * 1.02)
    axes.set_xlabel("time [s]")
    axes.grid(axis="x", alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(textwrap.fill(title, 120), fontsize=10, loc="left", pad=24)
    handles = [Patch(color=COLOURS[o], label=o) for o in COLOURS if o in used]
    handles += [Patch(color=RUNNING_COLOUR, label="running")] if "running" in used else []
    paused = "process paused (s0: by a reflex, s3: by a task)"
    handles.append(Patch(facecolor="#dcdcdc", hatch="////", edgecolor="#888888", label=paused))
    axes.legend(handles=handles, fontsize=8, ncols=len(handles), loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)
    if note:
        figure.text(0.985, 0.12 / height, note, fontsize=7, color="#777777", ha="right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


def _pause(axes: Axes, why: str, at: float, low: float, high: float) -> None:
    """Hatch a call while its process was paused, and write the cause on it: it waits and moves nothing."""
    if high > low:
        axes.barh(at, high - low, left=low, height=0.6, facecolor="#dcdcdc", hatch="////", edgecolor="#888888", zorder=3)
        axes.text(
            (low + high) / 2,
            at,
            why,
            fontsize=7,
            va="center",
            ha="center",
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )
