# SPDX-License-Identifier: Apache-2.0
"""Over ROS with all of CoCo's nodes up: from a statement of a console that calls a skill to the goal accepted by the driver of
the joints, beside the same from a chunk of a stream that completes a tag.

Measured from the Notice by which the console tells its statement, before it looks for functions that are missing and before the
interpreter runs it, to the stamp that the driver's action server gives the goal. A scripted model writes the statements over a
connection; what it takes to answer does not count.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import shutil

import yaml
from ghostshell.action import RunTask

from bench import bench_ros_latency, ros_probe
from bench.common import ROOT, Target, arguments, report, spread_of, spread_table
from bench.simulated_model.model_server import ModelServer, RecordedRequest
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from skill_kernel.codes import Outcome
from skill_kernel.events import Notice, RunEvent

A_TASK = 14
"""Statements of one task, fewer than `console.max_rounds`."""
STATEMENT = "head_pose(yaw={}, pitch=5)"
SERVED = "served"


class Writer:
    """Writes one statement after the other, and waits when it has written those of a task."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, request: RecordedRequest) -> str:
        self.number += 1
        return "wait_for_trigger()" if self.number % (A_TASK + 1) == 0 else STATEMENT.format(10 + self.number % 20)


class Probe(bench_ros_latency.Probe):
    """Hears the statements of a console as well."""

    def __init__(self) -> None:
        super().__init__()
        self.statements: list[float] = []
        self.results: list[RunTask.Result | None] = []
        self.tasks = GoalClient(self, RunTask, f"/{bench_ros_latency.ROBOT}/run_task")

    def _event(self, message: RunEvent) -> None:
        if isinstance(message, Notice) and message.text.startswith("head_pose("):
            self.statements.append(message.stamp_s)
        super()._event(message)

    def begin(self) -> None:
        """Give a task, and wait for its end."""
        known = len(self.results)

        def ended(end: GoalEnd, result: RunTask.Result | None) -> None:
            with self.changed:
                self.results.append(result)
                self.changed.notify_all()

        goal = RunTask.Goal(instruction="look around for a while", strategy="console")
        self.call_soon(lambda: self.tasks.send(goal, on_end=ended))
        self.wait(lambda: len(self.results) > known, "the end of a task", 60.0)


def measure(probe: Probe, tasks: int) -> list[float]:
    """Return the times from statement to goal of so many tasks [s]. Raises RuntimeError where goals are missing."""
    times: list[float] = []
    for _ in range(tasks + 1):
        probe.statements.clear()
        known = set(probe.goals.accepted)
        probe.begin()
        goals = sorted(at for goal, at in probe.goals.accepted.items() if goal not in known)
        if not len(probe.statements) == len(goals) == A_TASK:
            raise RuntimeError(f"{len(probe.statements)} statements, {len(goals)} goals: {probe.faults[-1:]}")
        times += [accepted - told for told, accepted in zip(probe.statements, goals, strict=True)]
    return times[A_TASK:]  # the first task warms up


def main() -> int:
    """Bring everything up, measure, print, write out/bench/console.json."""
    parser = arguments(__doc__)
    parser.add_argument("--tasks", type=int, default=15, help=f"tasks of {A_TASK} statements that are timed (default 15)")
    parser.add_argument("--trials", type=int, default=200, help="calls of streams that are timed (default 200)")
    parser.add_argument(ros_probe.ECHO, action="store_true", help="be the other process of the round trip")
    options = parser.parse_args()
    if options.echo:
        ros_probe.serve_echo(bench_ros_latency.Echo)
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ModelServer(Writer()) as server:
        config = Path(folder) / "config"
        shutil.copytree(ROOT / "config", config)
        model = {"provider": "openai", "model": "any", "base_url": server.openai_url, "silence_s": 5.0}
        (config / "models.yaml").write_text(yaml.safe_dump({"default": SERVED, "models": {SERVED: model}}))
        given = {"model": SERVED, "strategy": "console", "config_dir": str(config), "memory": "false", "page": "false"}
        try:
            with ros_probe.brought_up(bench_ros_latency.ROBOT, Probe, **given) as probe:
                ros_probe.until(
                    lambda: (
                        probe.chunks.get_subscription_count()
                        and probe.ping.get_subscription_count()
                        and probe.count_publishers("bench_pong")
                        and probe.count_publishers(ros_probe.GOALS)
                        and probe.tasks.server_is_ready()
                    ),
                    "token_parser, the echo process, the driver and the door for tasks",
                )
                streams = bench_ros_latency.measure(probe, options.trials, 0.3)["chunk to goal"]
                statements = measure(probe, options.tasks)
                outcomes = list(probe.ended.values())
        except RuntimeError as error:
            print(f"bench_console: {error}", file=sys.stderr)
            return 1
    results = {
        "statement of a console to goal accepted": spread_of(statements),
        "chunk with `>` published to goal accepted": spread_of(streams),
    }
    console, stream = (spread["median_ms"] for spread in results.values())
    targets = [
        Target("a statement takes longer than a stream's chunk, median", round(console - stream, 2), 10.0, "ms"),
        Target("calls that did not end as DONE", float(sum(o != Outcome.DONE for o in outcomes)), 0.0),
    ]
    measured = {"results": results, "whole_run_s": round(time.monotonic() - began, 1)}
    report("console", measured, [spread_table("over ROS, all nodes up [ms]", results)], targets, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
