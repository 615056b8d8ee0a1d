# SPDX-License-Identifier: Apache-2.0
"""Measure how late the rounds of 50 reflexes come, 100 a second, with all of Kalos's nodes up: while nothing is planned, and
while the planners are loaded with an instruction each quarter of a second.

The node of the reflexes is the real one, in a process of its own; it only keeps the time of each round. A round's lateness is
how much later than one period it comes after the one before. Beside it stands the same for a bare timer of a process of
ordinary priority, which does nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ghostshell.msg import ProcessArray, ReflexStateArray
from std_msgs.msg import String

from bench import ros_probe
from bench.bench_reflexes import ROBOT, Echo, configured
from bench.common import ROOT, Target, arguments, report, spread_of, spread_table
from bench.reflex_load import REFLEXES
from bench.timed_reflexes import ROUNDS
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED

PERIOD_S, EVERY_S = 0.01, 0.25
SAID = ("bark twice", "look left", "sit down", "stand up")
LATE_MS = 15.0


class Probe(ros_probe.Probe):
    """Give the instructions."""

    def __init__(self) -> None:
        super().__init__(ROBOT)
        self.loaded = 0
        self.planned: set[str] = set()
        """Processes that the instructions have become."""
        self.instruction = self.create_publisher(String, "instruction", INSTRUCTION)
        self.create_subscription(ReflexStateArray, "reflex_states", self._on_states, LATCHED)
        self.create_subscription(
            ProcessArray, "processes", lambda m: self.planned.update(p.process_id for p in m.processes), LATCHED
        )

    def _on_states(self, message: ReflexStateArray) -> None:
        with self.changed:
            self.loaded = len(message.reflexes)
            self.changed.notify_all()


class BareTimer:
    """A thread that wakes a hundred times a second."""

    def __init__(self) -> None:
        self.rounds_s: list[float] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let it end."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._end.is_set():
            self.rounds_s.append(time.monotonic())
            due = max(due + PERIOD_S, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))


def lateness(rounds_s: list[float], since_s: float, until_s: float) -> dict[str, float]:
    """Return how late the rounds of a span came."""
    spanned = [at for at in rounds_s if since_s <= at <= until_s]
    return spread_of([max(0.0, after - before - PERIOD_S) for before, after in pairwise(spanned)])


def main() -> int:
    """Bring everything up, measure, print, write out/bench/lateness.json."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each of the two spans (default 60)")
    parser.add_argument(ros_probe.ECHO, action="store_true", help="be the other process that every benchmark has")
    options = parser.parse_args()
    if options.echo:
        ros_probe.serve_echo(Echo)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            spans, rounds, bare, planned = measure(Path(folder), options.seconds)
        except RuntimeError as error:
            print(f"bench_lateness: {error}", file=sys.stderr)
            return 1
    results = {}
    for name, span in spans.items():
        results[f"reflexes, {name}"] = lateness(rounds, *span)
        results[f"reference: bare timer, {name}"] = lateness(bare, *span)
    targets = [
        Target(f"{name}: 99 %", figures["p99_ms"], LATE_MS, "ms") for name, figures in results.items() if "bare" not in name
    ]
    load = os.getloadavg()[0]
    title = f"lateness of {REFLEXES} reflexes' rounds [ms]; {planned} processes were planned; the machine's load was {load:.1f}"
    report(
        "lateness",
        {"results": results, "processes": planned, "load": load},
        [spread_table(title, results)],
        targets,
        as_json=options.json,
    )
    return 0


def measure(folder: Path, seconds: float) -> tuple[dict[str, tuple[float, float]], list[float], list[float], int]:
    """Return the two spans, the rounds of the reflexes and of a bare timer [s], and how many processes were planned."""
    config, file = configured(folder), folder / "rounds.json"
    with ros_probe.brought_up(ROBOT, Probe, robot="kalos", config_dir=str(config), reflexes="false") as probe:
        words = ["--ros-args", "-r", f"__ns:=/{ROBOT}", "--params-file", str(config / "reflexes.yaml"), "-p", "robot:=kalos"]
        node = subprocess.Popen(
            [sys.executable, "-m", "bench.timed_reflexes", *words], cwd=ROOT, env={**os.environ, ROUNDS: str(file)}
        )
        try:
            probe.wait(lambda: probe.loaded == REFLEXES, "the reflexes", 30.0)
            time.sleep(5.0)  # until drivers are active and nodes that have found each other answer their first calls
            bare, spans = BareTimer(), {}
            began = time.monotonic()
            time.sleep(seconds)
            spans["nothing planned"] = (began, time.monotonic())
            began, count = time.monotonic(), 0
            while time.monotonic() - began < seconds:
                probe.call_soon(probe.instruction.publish, String(data=SAID[count % len(SAID)]))
                count += 1
                time.sleep(EVERY_S)
            spans["planners loaded"] = (began, time.monotonic())
            bare.close()
        finally:
            node.terminate()
            node.wait(10.0)
    return spans, json.loads(file.read_text()), bare.rounds_s, len(probe.planned)


if __name__ == "__main__":
    sys.exit(main())
