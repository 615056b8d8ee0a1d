# SPDX-License-Identifier: Apache-2.0
"""The planning loops of a robot as a person follows them: who thinks, who moves, what is queued, what it has cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

LAYERS = ("s3", "s2", "s1p", "s1", "judge")
NAMES = {
    "s0": "S0 reflexes",
    "s1p": "S1 first action",
    "s1": "S1 actions",
    "s2": "S2 plan",
    "s3": "S3 processes",
    "judge": "judge of conditions",
}
SHOWN = 90


@dataclass
class LayerState:
    """One layer of one process. Times in seconds on the view's clock; `asked_s` None while it does not think."""

    asked_s: float | None = None
    last_s: float = 0.0
    calls: int = 0
    failures: int = 0
    skipped: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    priced: bool = False
    said: str = ""


@dataclass
class ProcessLoops:
    """What is known of the loops of one process."""

    process_id: str
    instruction: str = ""
    status: str = "IN_PROGRESS"
    why: str = ""
    layers: dict[str, LayerState] = field(default_factory=dict)
    subtasks: list[tuple[str, int]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    running: str = ""
    queued: list[str] = field(default_factory=list)
    steps_done: int = 0
    calls: dict[str, str] = field(default_factory=dict)

    def layer(self, name: str) -> LayerState:
        """The layer of that name, known from now on."""
        return self.layers.setdefault(name, LayerState())

    @property
    def tokens(self) -> int:
        """Tokens of all its layers, in and out."""
        return sum(x.prompt_tokens + x.completion_tokens for x in self.layers.values())


class LoopsView:
    """Takes in what the nodes publish; answers with a line where there is news, and with a table of what is now."""

    def __init__(self) -> None:
        self.processes: dict[str, ProcessLoops] = {}
        self.reflex = ""

    def of(self, process_id: str) -> ProcessLoops:
        """What is known of a process."""
        return self.processes.setdefault(process_id, ProcessLoops(process_id))

    def number(self, process_id: str) -> int:
        """How a person tells processes apart: in the order they came."""
        self.of(process_id)
        return list(self.processes).index(process_id) + 1

    # -- what the models do -------------------------------------------------------------------------------------------

    def asked(self, now_s: float, process_id: str, layer: str) -> None:
        """A layer has asked its model."""
        state = self.of(process_id).layer(layer)
        state.asked_s = now_s
        state.calls += 1

    def answered(
        self,
        now_s: float,
        process_id: str,
        layer: str,
        *,
        prompt_tokens: int = 0,
        cached_tokens: int = 0,
        completion_tokens: int = 0,
        cost_usd: float = -1.0,
        error: str = "",
        unwanted: bool = False,
    ) -> str:
        """Its model has answered, or failed, or the layer wanted its answer no longer."""
        state = self.of(process_id).layer(layer)
        took_s = now_s - state.asked_s if state.asked_s is not None else 0.0
        state.asked_s, state.last_s = None, took_s
        state.prompt_tokens += prompt_tokens
        state.cached_tokens += cached_tokens
        state.completion_tokens += completion_tokens
        if cost_usd >= 0:
            state.priced, state.cost_usd = True, state.cost_usd + cost_usd
        state.failures += bool(error)
        if unwanted:
            return f"{NAMES.get(layer, layer)} took its question back after {took_s:.1f} s"
        told = f"failed after {took_s:.1f} s: {error}" if error else f"thought for {took_s:.1f} s"
        cached = f", {cached_tokens} of them cached" if cached_tokens else ""
        return f"{NAMES.get(layer, layer)} {told} ({prompt_tokens} tokens in{cached}, {completion_tokens} out)"

    def skipped(self, process_id: str, layer: str) -> None:
        """A layer had no reason to ask."""
        self.of(process_id).layer(layer).skipped += 1

    def plan(
        self, process_id: str, subtasks: Iterable[tuple[str, int]], events: Iterable[str], *, reason: str, given_up: bool
    ) -> str:
        """System 2 has a new plan; the line where it differs from the one before."""
        loops, new = self.of(process_id), list(subtasks)
        changed = [t for t, _ in new] != [t for t, _ in loops.subtasks] or given_up
        loops.subtasks, loops.events = new, list(events)
        if given_up:
            return f"S2 gives the task up: {reason}"
        if not changed:
            return ""
        listed = " → ".join(f"{'✓ ' if status == 2 else ''}{text}" for text, status in new)
        return f"S2 plans: {listed}{''.join(f'; watches for: {e}' for e in loops.events)}"

    def queue(self, process_id: str, running: str, queued: Iterable[str], done: int, *, reading: bool = False) -> str:
        """The steps of a process have changed; a line where another one is performed, once it is read to its end."""
        loops, queued = self.of(process_id), list(queued)
        if reading and not queued:
            return ""
        news = running and running != loops.running
        loops.running, loops.queued, loops.steps_done = running, queued, done
        return f"step: {running}   queue {self.bar(loops)}" if news else ""

    def bar(self, loops: ProcessLoops) -> str:
        """The places of the queue, taken ones filled."""
        return "▮" * len(loops.queued) + "▯" * max(0, 3 - len(loops.queued))

    # -- what is shown ------------------------------------------------------------------------------------------------

    def rows(self, now_s: float) -> list[tuple[str, str, str]]:
        """Loop, what it does now, cost; one row a loop of each living process, and one for the reflexes."""
        rows = [("S0 reflexes", self.reflex or "watch", "no model")]
        for process_id, loops in self.processes.items():
            if loops.status in ("SUCCESS", "FAILED", "STOPPED") or not loops.instruction:
                continue
            why = f" ({loops.why})" if loops.why else ""
            rows.append((f"process {self.number(process_id)}", f"{loops.status}{why}: {loops.instruction}", self._cost(loops)))
            for layer in (x for x in LAYERS if x in loops.layers):
                rows.append((f"  {NAMES[layer]}", self._doing(loops, layer, now_s), self._layer_cost(loops.layers[layer])))
            moves = ", ".join(loops.calls.values()) or "nothing moves"
            rows.append(("  body", moves, f"{loops.steps_done} steps done"))
        return rows

    def table(self, now_s: float) -> Table:
        """The rows for a terminal."""
        from rich.markup import escape
        from rich.table import Table

        table = Table("loop", "now", "cost", expand=True)
        for name, now, cost in self.rows(now_s):
            table.add_row(escape(name), escape(_short(now)), escape(cost))
        return table

    def _doing(self, loops: ProcessLoops, layer: str, now_s: float) -> str:
        state = loops.layers[layer]
        thinks = f"thinks for {now_s - state.asked_s:.1f} s" if state.asked_s is not None else "waits"
        if layer == "s2" and loops.subtasks:
            done = sum(status == 2 for _, status in loops.subtasks)
            current = next((text for text, status in loops.subtasks if status != 2), "all done")
            return f"{thinks}; subtask {min(done + 1, len(loops.subtasks))} of {len(loops.subtasks)}: {current}"
        if layer == "s1":
            return f"{thinks}; queue {self.bar(loops)} {loops.running and 'step: ' + loops.running}".rstrip()
        return state.said and f"{thinks}; {state.said}" or thinks

    def _cost(self, loops: ProcessLoops) -> str:
        priced = [x.cost_usd for x in loops.layers.values() if x.priced]
        return f"{loops.tokens} tokens{f', ${sum(priced):.4f}' if priced else ''}"

    def _layer_cost(self, state: LayerState) -> str:
        skipped = f", {state.skipped} saved" if state.skipped else ""
        return f"{state.calls} calls{skipped}, {state.prompt_tokens + state.completion_tokens} tokens"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= SHOWN else f"{flat[: SHOWN - 1]}…"
