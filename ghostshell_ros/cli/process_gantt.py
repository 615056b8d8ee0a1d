# SPDX-License-Identifier: Apache-2.0
"""Draws processes as a Gantt picture: a band each, with a row for each subsystem it used and its pauses in grey."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from ghostshell_ros.cli.gantt import COLOURS
from ghostshell_ros.cli.process_view import ProcessTrack, ProcessView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BANDS = {"IN_PROGRESS": "#eaf3ee", "PAUSED": "#dcdcdc", "WAITING": "#f6efdf"}
"""Background of a process by its state."""
HALT_COLOUR = "#c0392b"
RUNNING_COLOUR = "#4c6f8c"
LABEL_CHARACTERS = 165
"""How many characters fit across the whole picture."""


def draw_processes(view: ProcessView, path: Path, *, title: str, note: str = "") -> None:
    """Write a PNG of the processes in the order they began."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    tracks = sorted(view.tracks.values(), key=lambda t: t.begun_s)
    rows: list[tuple[ProcessTrack, str]] = [(t, s) for t in tracks for s in t.subsystems() or ["(no call)"]]
    end = max(view.now_s, 1.0)
    height = 1.6 + 0.42 * max(1, len(rows)) + 0.32 * len(tracks)
    figure = Figure(figsize=(12, height), dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.09, 0.75 / height, 0.895, (height - 1.55) / height))
    y, ticks, used = 0.0, [], set()
    for number, track in enumerate(tracks, start=1):
        own = [s for t, s in rows if t is track]
        for state, stop in track.spans(end):
            if state.name in BANDS:
                wide, colour = stop - state.begin_s, BANDS[state.name]
                axes.barh(y + len(own) / 2 + 0.25, wide, left=state.begin_s, height=len(own) + 0.7, color=colour, zorder=0)
        head = f"process {number} ({track.source.lower()}, {track.status}): {track.instruction} {track.note}"
        late = track.begun_s > 0.55 * end
        at = min([end, *view.halts]) - 0.003 * end if late else track.begun_s + 0.003 * end
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
            for bar in track.bars.values():
                if subsystem in bar.subsystems:
                    stop = bar.end_s if bar.end_s is not None else end
                    used.add(bar.outcome or "running")
                    width = max(stop - bar.start_s, 0.003 * end)
                    colour = COLOURS.get(bar.outcome, RUNNING_COLOUR)
                    axes.barh(at, width, left=bar.start_s, height=0.6, color=colour, edgecolor="white", zorder=2)
                    room = int(LABEL_CHARACTERS * width / end)
                    label = bar.label if len(bar.label) <= room else bar.label[: room - 1] + "…" if room > 3 else ""
                    if label:
                        axes.text(
                            bar.start_s + 0.004 * end,
                            at,
                            label,
                            fontsize=7,
                            va="center",
                            color="white",
                            clip_on=True,
                            zorder=3,
                            parse_math=False,
                        )
            _pauses(axes, track, subsystem, at, end)
        y += len(own) + 0.75
    for at in view.halts:
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


def _pauses(axes: Axes, track: ProcessTrack, subsystem: str, at: float, end: float) -> None:
    """Hatching over a call while its process was paused, and the cause: it waits and moves nothing."""
    for state, stop in track.spans(end):
        if state.name == "PAUSED":
            for bar in (b for b in track.bars.values() if subsystem in b.subsystems):
                low, high = max(state.begin_s, bar.start_s), min(stop, bar.end_s if bar.end_s is not None else end)
                if high > low:
                    axes.barh(
                        at, high - low, left=low, height=0.6, facecolor="#dcdcdc", hatch="////", edgecolor="#888888", zorder=3
                    )
                    axes.text(
                        (low + high) / 2,
                        at,
                        state.why,
                        fontsize=7,
                        va="center",
                        ha="center",
                        zorder=5,
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
                    )
