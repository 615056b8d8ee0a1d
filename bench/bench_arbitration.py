# SPDX-License-Identifier: Apache-2.0
"""The skill kernel by itself: calls a second, time to a skill's start, to a refusal and to a change of hands, each beside
plain threads and locks in the same run."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import Table, Target, arguments, report, spread_of
from skill_kernel import PauseEvent, SkillReturn, robot_skill
from skill_kernel.calls import CallResult, CallSpec
from skill_kernel.clock import SteadyClock
from skill_kernel.kernel.kernel import Kernel, Rank
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

CALLS, TRIALS, LIMBS = 5000, 500, 8
WAIT_S = 5.0

BEGUN: list[float] = []
"""Time at which a skill's first statement ran, in its thread."""


@robot_skill(subsystem="limb_{n}", nominal_s=1.0)
def act(n: int, *, stop_evt: threading.Event) -> SkillReturn:
    """Note the time; nothing moves."""
    BEGUN.append(time.perf_counter())
    return SkillReturn.success()


@robot_skill(subsystem="limb_{n}", nominal_s=3600.0, stop_s=1.0)
def hold(n: int, *, stop_evt: threading.Event, pause_evt: PauseEvent) -> SkillReturn:
    """Work in turns of 1 ms until stopped; a pause is waited out at rest."""
    BEGUN.append(time.perf_counter())
    while not stop_evt.wait(0.001):
        pause_evt.rest()
    return SkillReturn.interruption("stopped")


ROBOT = RobotConfig.model_validate(
    {
        "name": "bench",
        "skills": ["bench.bench_arbitration"],
        "subsystems": {f"limb_{n}": {"exclusive_per_process": True, "parallel": False} for n in range(LIMBS)},
    }
)


class Runner:
    """A kernel whose results are waited for."""

    def __init__(self) -> None:
        self.clock, self._ids = SteadyClock(), itertools.count()
        self.ended: dict[str, threading.Event] = {}
        self.changed = threading.Event()
        functions: list[Any] = [act, hold]
        skills = [f.__robot_skill__ for f in functions]
        self.kernel = Kernel(SkillRegistry(skills), ROBOT, None, self.clock, on_result=self._result, on_change=self.changed.set)

    def _result(self, call_id: str, _: CallResult) -> None:
        self.ended.pop(call_id).set()

    def execute(self, function: str, process: str, n: int, epoch: int = 0) -> threading.Event | None:
        """Start a call; the event of its end, or None when it was refused."""
        call_id = f"call{next(self._ids)}"
        ended = self.ended[call_id] = threading.Event()
        if self.kernel.execute(CallSpec(process, call_id, function, {"n": n}, epoch=epoch)) is None:
            return ended
        del self.ended[call_id]
        return None


class Plain:
    """The reference: a lock a limb, tried without waiting, and a new thread a call. It checks, reports and stops nothing."""

    def __init__(self) -> None:
        self.locks = [threading.Lock() for _ in range(LIMBS)]

    def execute(self, n: int) -> threading.Event | None:
        """Start a call; the event of its end, or None when the limb is taken."""
        if not self.locks[n].acquire(blocking=False):
            return None
        ended = threading.Event()
        threading.Thread(target=self._run, args=(n, ended), daemon=True).start()
        return ended

    def _run(self, n: int, ended: threading.Event) -> None:
        BEGUN.append(time.perf_counter())
        self.locks[n].release()
        ended.set()


def one_by_one(execute: Callable[[], threading.Event | None]) -> dict[str, Any]:
    """Call after call: from `execute` to its return, to the first statement, and calls a second with the wait for each end."""
    BEGUN.clear()
    returned, began = [], []
    start = time.perf_counter()
    for _ in range(CALLS):
        sent = time.perf_counter()
        ended = execute()
        returned.append(time.perf_counter() - sent)
        if ended is None or not ended.wait(WAIT_S):
            raise RuntimeError("a call did not run to its end")
        began.append(BEGUN[-1] - sent)
    per_second = CALLS / (time.perf_counter() - start)
    return {"calls_per_s": round(per_second), "returned": spread_of(returned), "began": spread_of(began)}


def refusals(execute: Callable[[], threading.Event | None]) -> dict[str, float]:
    """Return how long a refusal takes, its words included."""
    took = []
    for _ in range(TRIALS):
        sent = time.perf_counter()
        if execute() is not None:
            raise RuntimeError("a call ran on a limb that is taken")
        took.append(time.perf_counter() - sent)
    return spread_of(took)


def change_of_hands(runner: Runner) -> dict[str, dict[str, float]]:
    """Preempt a process in mid-call, at some moment of its turn of 1 ms: to the first statement of the other's call;
    and how long the end of the other takes, which lets it go on."""
    kernel, there, back = runner.kernel, [], []
    for trial in range(TRIALS // 5):
        loser, winner = f"loser{trial}", f"winner{trial}"
        BEGUN.clear()
        held = runner.execute("hold", loser, 0)
        deadline = time.perf_counter() + WAIT_S
        while not BEGUN and time.perf_counter() < deadline:
            time.sleep(0.0005)
        asked = time.perf_counter()
        kernel.preempt(Rank.REFLEX, ["limb_0"], "bench", winner)
        ended = None
        while ended is None:
            runner.changed.clear()
            ended = runner.execute("act", winner, 0)
            if ended is None and not runner.changed.wait(WAIT_S):
                raise RuntimeError("the limb did not become free")
        if held is None or not ended.wait(WAIT_S):
            raise RuntimeError("a call did not run to its end")
        there.append(BEGUN[-1] - asked)
        asked = time.perf_counter()
        kernel.end_process(winner, "bench")
        back.append(time.perf_counter() - asked)
        kernel.end_process(loser, "bench")
        if not held.wait(WAIT_S):
            raise RuntimeError("a resumed call did not end")
    return {"there": spread_of(there), "back": spread_of(back)}


def measure() -> dict[str, Any]:
    """All figures, kernel and reference in turn."""
    runner, plain = Runner(), Plain()
    gc.collect()
    gc.disable()
    try:
        kernel_calls = one_by_one(lambda: runner.execute("act", "p", 1))
        plain_calls = one_by_one(lambda: plain.execute(1))
        runner.kernel.end_process("p", "bench")
        held = runner.execute("hold", "holder", 2)
        plain.locks[2].acquire()
        kernel_refusal = refusals(lambda: runner.execute("act", "q", 2))
        plain_refusal = refusals(lambda: plain.execute(2))
        runner.kernel.end_process("holder", "bench")
        if held is None or not held.wait(WAIT_S):
            raise RuntimeError("the held call did not end")
        hands = change_of_hands(runner)
    finally:
        gc.enable()
        runner.clock.close()
    return {
        "kernel": {**kernel_calls, "refused": kernel_refusal, "preempted": hands["there"], "resumed": hands["back"]},
        "plain_threads": {**plain_calls, "refused": plain_refusal},
    }


def main() -> int:
    """Entry point."""
    options = arguments(__doc__).parse_args()
    measured = measure()
    kernel, plain = measured["kernel"], measured["plain_threads"]
    rows = []
    for what, key in (
        ("execute returns", "returned"),
        ("skill begins", "began"),
        ("refused", "refused"),
        ("preempted: the other begins", "preempted"),
        ("resumed", "resumed"),
    ):
        reference = plain.get(key)
        rows.append(
            [
                what,
                kernel[key]["median_ms"],
                kernel[key]["p99_ms"],
                kernel[key]["max_ms"],
                reference and reference["median_ms"],
                reference and reference["p99_ms"],
            ]
        )
    rows.append(["calls a second, one by one", kernel["calls_per_s"], None, None, plain["calls_per_s"], None])
    columns = ("", "kernel median [ms]", "p99 [ms]", "max [ms]", "threads median [ms]", "p99 [ms]")
    report(
        "arbitration",
        measured,
        [Table(f"{CALLS} calls, {TRIALS} refusals, {TRIALS // 5} preemptions", columns, rows)],
        [
            Target("execute returns, median", kernel["returned"]["median_ms"], 1.0, "ms"),
            Target("skill begins, median", kernel["began"]["median_ms"], 2.0, "ms"),
            Target("preempted, median until the other begins", kernel["preempted"]["median_ms"], 50.0, "ms"),
        ],
        as_json=options.json,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
