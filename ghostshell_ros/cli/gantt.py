# SPDX-License-Identifier: Apache-2.0
"""Draws a timeline as a Gantt picture by channel, with the text of the stream beneath."""

from __future__ import annotations

import functools
import textwrap
import warnings
from pathlib import Path
from typing import Any

from function_tokens.scheduling.timeline import CallRecord, channel_order

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
    if record.function == "text":
        full = f"“{record.args.get('text', '')}”"
    else:
        full = f"{record.function}({', '.join(_value(v) for v in record.args.values())})"
    return full if len(full) <= room else (full[: room - 1] + "…" if room > 3 else "")


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _wrapped(stream: str) -> list[str]:
    shown = stream[:MAX_STREAM_CHARACTERS].strip()
    lines = [w for line in shown.splitlines() for w in textwrap.wrap(line, 128) or [""]]
    return lines if len(lines) <= MAX_STREAM_LINES else [*lines[: MAX_STREAM_LINES - 1], "…"]
