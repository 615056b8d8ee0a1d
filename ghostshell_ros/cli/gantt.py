# SPDX-License-Identifier: Apache-2.0
"""Draw Gantt pictures: the calls of a task by channel, with its stream beneath, or several processes on one robot."""

from __future__ import annotations

import functools
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from function_tokens.run_model import CallRun, ProcessRun, RunModel, call_label
from skill_kernel.skills.skill import MAIN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "DONE": "#4c8c6b",
    "FAILED": "#c0392b",
    "INTERRUPTED": "#d98c2b",
    "REFUSED": "#8e44ad",
    "DROPPED": "#95a5a6",
    "ANSWERED": "#b08bc7",
    "running": "#4c6f8c",
    "open element": "#bcd5e8",
}
"""Bars by outcome. Those of elements that stand around other calls are pale and lie behind those."""
BANDS = {"IN_PROGRESS": "#eaf3ee", "PAUSED": "#dcdcdc", "WAITING": "#f6efdf"}
"""Background of a process by its state."""
PAUSED = {"facecolor": BANDS["PAUSED"], "hatch": "////", "edgecolor": "#888888"}
WRITING = "model writes"
THINKS = " thinks"
"""Ends the name of a row whose bars are a layer's questions to its model."""
LABEL_CHARACTERS = 150
"""How many characters fit across the whole picture."""
MAX_STREAM_LINES = 14
MAX_STREAM_CHARACTERS = 8000
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


class Bar(NamedTuple):
    """A bar in each of its rows, in seconds of the picture; `end_s` is None while it goes on. `outcome` names its colour."""

    rows: tuple[str, ...]
    label: str
    start_s: float
    end_s: float | None
    outcome: str


def draw_timeline(
    calls: Sequence[CallRun],
    path: Path,
    *,
    title: str,
    stream: str = "",
    note: str = "",
    origin_s: float = 0.0,
    writing: tuple[float, float] | None = None,
) -> None:
    """Write a PNG. A call that claims several channels gets a bar in each; one that never started is listed below.

    Times of the picture count from `origin_s`; `writing` is when the model began and ended its answer, counted so.
    """
    parents = {call.parent_id for call in calls}
    bars = [Bar((WRITING,), "", *writing, "ANSWERED")] if writing else []
    for call in sorted(calls, key=lambda c: c.call_id not in parents):
        if call.start_s is not None and call.end_s is not None:
            outcome = "open element" if call.call_id in parents and call.outcome_name == "DONE" else call.outcome_name
            label = call_label(call.function, call.arguments)
            bars.append(Bar(call.channels, label, max(0.0, call.start_s - origin_s), call.end_s - origin_s, outcome))
    rows = list(dict.fromkeys(row for bar in sorted(bars, key=lambda b: b.start_s) for row in bar.rows)) or ["(nothing ran)"]
    rows.sort(key=lambda row: (row != WRITING, row != MAIN))
    lines = _wrapped(stream)
    text_in = 0.19 * (len(lines) + 2) if lines else 0.1
    end = max([bar.end_s or 0.0 for bar in bars if bar.rows != (WRITING,)], default=1.0)
    figure, axes = _figure(11, 1.0 + 0.5 * len(rows), text_in + 0.55)
    for bar in bars:
        for row in bar.rows:
            _draw(axes, bar, rows.index(row), end)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    never = [f"{c.function} ({c.outcome_name})" for c in calls if c.start_s is None]
    foot = "; ".join(filter(None, [note, f"never started: {', '.join(never[:8])}" if never else ""]))
    if lines:
        at = {"x": 0.09, "y": text_in / figure.get_figheight(), "fontsize": 8, "family": _families("DejaVu Sans Mono")}
        figure.text(s="\n".join(["stream", *lines]), va="top", linespacing=1.25, parse_math=False, **at)
    ticks = list(enumerate(rows))
    _finish(figure, axes, path, title=title, note=foot, end=end, ticks=ticks, used={bar.outcome for bar in bars if bar.label})


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
        started = (c for c in process.calls.values() if c.start_s is not None)
        return [c for c in started if self.subsystems_of(c) != (MAIN,)]

    def running(self, process: ProcessRun, function: str) -> CallRun | None:
        """Return a call of this function that runs."""
        return next((c for c in self.acts(process) if c.function == function and c.running), None)

    def bars(self, process: ProcessRun) -> list[Bar]:
        """Return its questions and its calls as bars."""
        origin_s, bars = self.origin_s or 0.0, []
        for question in process.questions:
            layer, answer = question.layer.upper(), question.answer
            told = "running" if answer is None else "DROPPED" if answer.unwanted else "FAILED" if answer.failed else "ANSWERED"
            end_s = None if question.ended_s is None else question.ended_s - origin_s
            bars.append(Bar((layer + THINKS,), layer, question.begun_s - origin_s, end_s, told))
        for call in sorted(self.acts(process), key=lambda c: c.start_s or 0.0):
            label = call_label(call.function, call.arguments)
            end_s = None if call.end_s is None else call.end_s - origin_s
            start_s, told = (call.start_s or 0.0) - origin_s, call.outcome_name or "running"
            bars.append(Bar(self.subsystems_of(call), label, start_s, end_s, told))
        return bars


def draw_processes(view: ProcessView, path: Path, *, title: str, note: str = "") -> None:
    """Write a PNG of the processes in the order they began."""
    tracks = [(p, view.bars(p)) for p in sorted(view.processes.values(), key=lambda p: p.states[0].begin_s)]
    rows = [list(dict.fromkeys(row for bar in bars for row in bar.rows)) or ["(no call)"] for _, bars in tracks]
    origin, end = view.origin_s or 0.0, max(view.now_s, 1.0)
    figure, axes = _figure(12, 1.6 + 0.42 * max(1, sum(map(len, rows))) + 0.32 * len(tracks), 0.6)
    y, ticks = 0.0, []
    halts = [at - origin for at in view.model.halts]
    for number, ((process, bars), own) in enumerate(zip(tracks, rows, strict=True), start=1):
        spans = [(state, state.begin_s - origin, stop - origin) for state, stop in process.spans(origin + end)]
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
                _draw(axes, bar, y + 0.75 + row, end)
                stop = end if bar.end_s is None else bar.end_s
                for state, low, high in spans:
                    if state.name == "PAUSED":
                        _pause(axes, state.why, y + 0.75 + row, max(low, bar.start_s), min(high, stop))
        y += len(own) + 0.75
    for at in halts:
        axes.axvline(at, color=COLOURS["FAILED"], linewidth=1.5, zorder=4)
        axes.text(at, -0.05, "halt ", fontsize=8, color=COLOURS["FAILED"], ha="right", va="bottom")
    axes.set_ylim(max(y, 1.0), -0.1)
    used = {bar.outcome for _, bars in tracks for bar in bars}
    _finish(figure, axes, path, title=title, note=note, end=end, ticks=ticks, used=used, pauses=True)


def _figure(width_in: float, chart_in: float, below_in: float) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height_in = chart_in + below_in + 0.35
    figure = Figure(figsize=(width_in, height_in), dpi=110)
    FigureCanvasAgg(figure)
    return figure, figure.add_axes((0.09, below_in / height_in, 0.89, (chart_in - 0.35) / height_in))


def _finish(
    figure: Figure,
    axes: Axes,
    path: Path,
    *,
    title: str,
    note: str,
    end: float,
    ticks: Sequence[tuple[float, str]],
    used: set[str],
    pauses: bool = False,
) -> None:
    from matplotlib.patches import Patch

    axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks], fontsize=8)
    axes.set_xlim(-0.01 * end, end * 1.02 + 0.05)
    axes.set_xlabel("time [s]")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(textwrap.fill(title, 115), fontsize=10, loc="left", pad=23)
    handles = [Patch(color=colour, label=name) for name, colour in COLOURS.items() if name in used]
    if pauses:
        handles.append(Patch(label="process paused (s0: by a reflex, s3: by a task)", **PAUSED))
    if handles:
        place = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}
        axes.legend(handles=handles, fontsize=8, ncols=len(handles), frameon=False, **place)
    figure.text(0.98, 0.01, note, fontsize=7, color="#777777", ha="right", va="bottom")
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():  # a script that no font here has shows as boxes
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(path, format="png")


def _draw(axes: Axes, bar: Bar, at: float, end: float) -> None:
    """Draw a bar around the height `at`, with as much of its label as fits."""
    element = bar.outcome == "open element"
    width = max((end if bar.end_s is None else bar.end_s) - bar.start_s, end * 0.003)
    look: dict[str, Any] = {"color": COLOURS.get(bar.outcome, "#333333"), "edgecolor": "white", "linewidth": 0.8, "zorder": 2}
    axes.barh(at, width, left=bar.start_s, height=0.86 if element else 0.56, **look)
    room = max(1, int(LABEL_CHARACTERS * width / max(end, 1e-9)))
    label = bar.label if len(bar.label) <= room else bar.label[: room - 1] + "…" if room > 3 else ""
    style = {"va": "top", "color": "#274863"} if element else {"va": "center", "color": "white"}
    style |= {"fontsize": 7, "clip_on": True, "zorder": 3, "parse_math": False, "family": _families("DejaVu Sans")}
    axes.text(bar.start_s + end * 0.004, at - 0.41 * element, label, **style)


def _pause(axes: Axes, why: str, at: float, low: float, high: float) -> None:
    """Hatch a call while its process was paused, and write the cause on it: it waits and moves nothing."""
    if high > low:
        axes.barh(at, high - low, left=low, height=0.56, zorder=3, **PAUSED)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.text((low + high) / 2, at, why, fontsize=7, va="center", ha="center", zorder=5, bbox=box)


def _wrapped(stream: str) -> list[str]:
    shown = stream[:MAX_STREAM_CHARACTERS].strip()
    lines = [w for line in shown.splitlines() for w in textwrap.wrap(line, 128) or [""]]
    return lines if len(lines) <= MAX_STREAM_LINES else [*lines[: MAX_STREAM_LINES - 1], "…"]


@functools.lru_cache
def _families(first: str) -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [first, *(name for name in WIDE_FONTS if name in installed)]
