# SPDX-License-Identifier: Apache-2.0
"""Runs trials one after the other on one robot, the strategies in turn, and keeps each result at once as a line of JSON."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.evaluation.faults import HungError, LostError
from bench.evaluation.judge import Facts, judge
from bench.evaluation.measures import figures
from bench.evaluation.tasks import ADD_ONS, CONCURRENT_TASKS, TASKS, setting
from bench.evaluation.trace import Trace
from skill_kernel.robot import RobotConfig

if TYPE_CHECKING:
    from bench.evaluation.robot import Robot

BLIND = "layered_blind"
"""The layered strategy with its cost rules off."""
COST_AWARE_NODES = ("action_planner", "task_planner", "process_scheduler")
Perform = Callable[[Any, "Key"], "tuple[Trace, Collection[int]]"]
"""Run a trial on a robot; return its trace and how many places the robot may say it has been in."""
STALL_S = 0.4
"""A trial in which the simulator stood still for so long tells of the machine: it is reported, left out of the tables and run
again with the next command. Nodes that are silent for 0.5 s lose their calls."""
MOST_HUNG = 3
"""Trials after which the robot had to be brought up anew, in a row, end the run."""


@dataclass(frozen=True)
class Key:
    """Identity of a trial; one result is kept of each. `fast_model` and `table` (the simulated model's, as a hash) are part of
    it: another setup is another trial."""

    task: str
    strategy: str
    trial: int
    error: float = 0.0
    fast_scale: float = 1.0
    model: str = ""
    fast_model: str = ""
    table: str = ""

    @classmethod
    def of(cls, line: dict[str, Any]) -> Key:
        """Of a result; what one of an older run does not tell is as by default."""
        return cls(**{f.name: line[f.name] for f in fields(cls) if f.name in line})

    @property
    def planner(self) -> str:
        """The strategy as the robot knows it."""
        return "layered" if self.strategy == BLIND else self.strategy

    @property
    def trace(self) -> str:
        """The name of its trace's file."""
        setup = hashlib.sha256(json.dumps([self.model, self.fast_model, self.table]).encode()).hexdigest()[:6]
        return f"{self.task}-{self.strategy}-{self.trial}-{self.error:g}-{self.fast_scale:g}-{setup}.json"


@dataclass(frozen=True)
class Plan:
    """The trials to be run. Tasks with a second activity, and the add-ons alone, are run by layered strategies only: the others
    admit none."""

    tasks: Sequence[str]
    strategies: Sequence[str]
    trials: int
    errors: Sequence[float]
    fast_scales: Sequence[float]
    model: str
    fast_model: str = ""
    table: str = ""

    def trials_in_order(self) -> Iterator[Key]:
        """Yield the trials in order: error rate, then S1P's speed, then trial, task, strategy; the strategies take turns in
        going first, so that a machine that grows slow or warm treats them alike."""
        for error in self.errors:
            for scale in self.fast_scales:
                for trial in range(self.trials):
                    for number, task in enumerate(self.tasks):
                        n = len(self.strategies)
                        for i in range(n):
                            strategy = self.strategies[(i + trial + number) % n]
                            if strategy in ("react", "plan_and_execute") and task in (*CONCURRENT_TASKS, *ADD_ONS.values()):
                                continue
                            yield Key(task, strategy, trial, error, scale, self.model, self.fast_model, self.table)


class Results:
    """A file of results, a JSON object a line; one that broke off while it was written is mended. `key_of` tells whose result a
    line is."""

    def __init__(self, path: Path, key_of: Callable[[dict[str, Any]], Hashable] = Key.of) -> None:
        self.path, self._key_of = path, key_of
        self.lines: list[dict[str, Any]] = []
        self._done: set[Hashable] = set()
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    self.lines.append(json.loads(line))
                except json.JSONDecodeError:
                    continue
        self._done = {key_of(line) for line in self.lines if counts(line)}

    def done(self, key: Hashable) -> bool:
        """Return whether a result is kept that counts."""
        return key in self._done

    def add(self, line: dict[str, Any]) -> None:
        """Keep one more, on disk at once."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = not self.path.exists() or self.path.read_bytes()[-1:] in (b"", b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("" if whole else "\n") + json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.lines.append(line)
        if counts(line):
            self._done.add(self._key_of(line))


def counts(line: dict[str, Any]) -> bool:
    """Return whether a result is one of the robot's, not of one that did not come up or of a machine that stalled."""
    return not line.get("hung") and line.get("stall_s", 0.0) <= STALL_S


def run(
    plan: Plan,
    results: Results,
    bring_up: Callable[[Path, float, float], AbstractContextManager[Any]],
    say: Callable[[str], None],
    *,
    perform: Perform | None = None,
    limit_s: float = 0.0,
) -> bool:
    """Run what is not done yet; whether everything is done. `bring_up(data, error, fast_scale)` gives a robot whose model has
    that error rate and S1P speed; `limit_s` ends the run after a trial when so much time has passed (0: never). `perform`
    runs a trial otherwise than in the simulator; traces are kept of those in the simulator alone."""
    begun, hung = time.monotonic(), 0
    todo = [key for key in plan.trials_in_order() if not results.done(key)]
    say(f"{len(todo)} trials to run; results: {results.path}")
    with ExitStack() as stack:
        up: tuple[float, float] | None = None
        robot: Any = None
        for key in todo:
            if limit_s and time.monotonic() - begun > limit_s:
                return False
            try:
                if robot is None or up != (key.error, key.fast_scale):
                    stack.close()
                    robot, up = None, (key.error, key.fast_scale)
                    data = tempfile.TemporaryDirectory(prefix="ghostshell-typego-", ignore_cleanup_errors=True)
                    robot = stack.enter_context(bring_up(Path(stack.enter_context(data)), key.error, key.fast_scale))
                trace, places = (perform or _on_robot)(robot, key)
                if perform is None:
                    trace.write(results.path.parent / "traces" / key.trace)
                line = _line(key, trace, _judged(key, trace, places))
                hung = 0
            except LostError as error:
                hung += 1
                error.trace.write(results.path.parent / "traces" / key.trace)
                line = _line(key, error.trace, [f"the robot hung: {error}"])
                robot = None
            except HungError as error:
                hung += 1
                line = {**asdict(key), "success": False, "reasons": [f"the robot hung: {error}"], "hung": True}
                robot = None
            results.add(line)
            say(_told(line))
            if hung >= MOST_HUNG:
                say(f"{hung} trials in a row ended with a robot that hung; what follows would do no better")
                return False
    return True


def _on_robot(robot: Robot, key: Key) -> tuple[Trace, Collection[int]]:
    from bench.evaluation.trial import run_trial  # needs ROS, which reading results does not

    if robot.cost_aware != (key.strategy != BLIND):
        robot.cost_aware = key.strategy != BLIND
        for node in COST_AWARE_NODES:
            if not robot.set(node, "cost_aware", robot.cost_aware):
                raise HungError(f"{node} does not let its parameter cost_aware be changed while it runs")
    trace = run_trial(robot, TASKS[key.task], setting(key.task, key.trial), key.planner)
    return trace, robot.heard.places.counts()


def _judged(key: Key, trace: Trace, places: Collection[int]) -> list[str]:
    facts = Facts(_kalos(), places)
    return list(judge(TASKS[key.task], setting(key.task, key.trial), trace, facts).reasons)


@lru_cache(maxsize=1)
def _kalos() -> RobotConfig:
    return RobotConfig.load("kalos")


def _line(key: Key, trace: Trace, reasons: list[str]) -> dict[str, Any]:
    return {
        **asdict(key),
        "success": not reasons,
        "reasons": reasons,
        **figures(trace),
        "status": trace.status,
        "code": trace.code,
        "message": trace.message,
        "unproven": trace.unproven,
        "said": trace.said()[:400],
        "ball": setting(key.task, key.trial).ball is not None,
        "load": round(os.getloadavg()[0], 2),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "trace": key.trace,
    }


def _told(line: dict[str, Any]) -> str:
    took = "" if line.get("total_s") is None else f" in {line['total_s']:.1f} s"
    first = "" if line.get("ttfa_s") is None else f", first action after {line['ttfa_s']:.2f} s"
    waits = line.get("waits_s") or []
    wait = f", {sum(waits) / len(waits):.2f} s between steps" if waits else ""
    why = f": {'; '.join(line['reasons'])}" if line["reasons"] else ""
    if line.get("stall_s", 0.0) > STALL_S:
        why += f" (does not count: the machine stalled for {line['stall_s']:.1f} s)"
    name = f"{line['task']} {line['strategy']} {line['trial']}" + (f" error {line['error']:g}" if line["error"] else "")
    return f"{name}: {'done' if line['success'] else 'NOT DONE'}{took}{first}{wait}{why}"
