# SPDX-License-Identifier: Apache-2.0
"""Draw a Gantt picture of the calls of a task by channel, with its stream beneath."""

from __future__ import annotations

import functools
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.calls import CallRun
from function_tokens.run_model import call_label
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
"""Colours of bars by outcome. The bar of an element around other calls is pale and lies behind theirs."""
WRITING = "model writes"
LABEL_CHARACTERS = 150
"""Characters that fit across the whole picture."""
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
    """Describe a bar in each of its rows, in seconds of the picture. Without `end_s` it goes on; `outcome` gives its colour."""

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
    figure, axes = new_figure(11, 1.0 + 0.5 * len(rows), text_in + 0.55)
    for bar in bars:
        for row in bar.rows:
            draw_bar(axes, bar, rows.index(row), end)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    never = [f"{c.function} ({c.outcome_name})" for c in calls if c.start_s is None]
    foot = "; ".join(filter(None, [note, f"never started: {', '.join(never[:8])}" if never else ""]))
    if lines:
        at: dict[str, Any] = {
            "x": 0.1,
            "y": text_in / figure.get_figheight(),
            "fontsize": 8,
            "family": _families("DejaVu Sans Mono"),
        }
        figure.text(s="\n".join(["stream", *lines]), va="top", linespacing=1.25, parse_math=False, **at)
    ticks = list(enumerate(rows))
    finish(figure, axes, path, title=title, note=foot, end=end, ticks=ticks, used={bar.outcome for bar in bars if bar.label})


def new_figure(width_in: float, chart_in: float, below_in: float) -> tuple[Figure, Axes]:
    """Return a figure with room for a title above its axes, and for text below them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height_in = chart_in + below_in + 0.35
    figure = Figure(figsize=(width_in, height_in), dpi=110)
    FigureCanvasAgg(figure)
    return figure, figure.add_axes((0.1, below_in / height_in, 0.88, (chart_in - 0.35) / height_in))


def finish(
    figure: Figure,
    axes: Axes,
    path: Path,
    *,
    title: str,
    note: str,
    end: float,
    ticks: Sequence[tuple[float, str]],
    used: set[str],
    further: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Add rows, legend, title and note, and write the PNG. `further` are looks of patches by their name in the legend."""
    from matplotlib.patches import Patch

    axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks], fontsize=8)
    axes.set_xlim(-0.01 * end, end * 1.02 + 0.05)
    axes.set_xlabel("time [s]")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(textwrap.fill(title, 115), fontsize=10, loc="left", pad=23)
    handles = [Patch(color=colour, label=name) for name, colour in COLOURS.items() if name in used]
    handles += [Patch(label=label, **look) for label, look in further.items()]
    if handles:
        place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0)}
        axes.legend(handles=handles, fontsize=8, ncols=len(handles), frameon=False, **place)
    figure.text(0.98, 0.01, note, fontsize=7, color="#777777", ha="right", va="bottom")
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():  # a script that no font here has shows as boxes
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(path, format="png")


def draw_bar(axes: Axes, bar: Bar, at: float, end: float) -> None:
    """Draw a bar around the height `at`, with as much of its label as fits."""
    element = bar.outcome == "open element"
    width = max((end if bar.end_s is None else bar.end_s) - bar.start_s, end * 0.003)
    look: dict[str, Any] = {"color": COLOURS.get(bar.outcome, "#333333"), "edgecolor": "white", "linewidth": 0.8, "zorder": 2}
    axes.barh(at, width, left=bar.start_s, height=0.86 if element else 0.56, **look)
    room = max(1, int(LABEL_CHARACTERS * width / max(end, 1e-9)))
    label = bar.label if len(bar.label) <= room else bar.label[: room - 1] + "…" if room > 3 else ""
    style: dict[str, Any] = {"va": "top", "color": "#274863"} if element else {"va": "center", "color": "white"}
    style |= {"fontsize": 7, "clip_on": True, "zorder": 3, "parse_math": False, "family": _families("DejaVu Sans")}
    axes.text(bar.start_s + end * 0.004, at - 0.41 * element, label, **style)


def _wrapped(stream: str) -> list[str]:
    shown = stream[:MAX_STREAM_CHARACTERS].strip()
    lines = [w for line in shown.splitlines() for w in textwrap.wrap(line, 128) or [""]]
    return lines if len(lines) <= MAX_STREAM_LINES else [*lines[: MAX_STREAM_LINES - 1], "…"]


@functools.lru_cache
def _families(first: str) -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [first, *(name for name in WIDE_FONTS if name in installed)]
