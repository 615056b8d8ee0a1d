# SPDX-License-Identifier: Apache-2.0
"""Shell in one process on the steady clock: end of tag to function start, 20 channels started together, and the
processor while one call waits; each beside a bare Python reference in the same run."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import Table, Target, arguments, report, spread_of
from bench.dry_run import AssumedConditions
from bench.loop import Loop
from function_tokens.mapper import Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.scheduling.calls import Call
from function_tokens.scheduling.scheduler import Scheduler
from skill_kernel import SkillReturn, robot_skill
from skill_kernel.calls import CallResult, CallSpec, Refused
from skill_kernel.calls import CallResult as KernelResult
from skill_kernel.clock import SteadyClock
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import RunEvent
from skill_kernel.kernel.kernel import Kernel
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

CHANNELS = 20
BEGUN: list[float] = []
"""Time at which a skill's first statement ran, in the kernel's thread."""


@robot_skill(subsystem="limb_{n}", nominal_s=1.0)
def act(n: int, angle: float = 0.0, *, stop_evt: threading.Event) -> SkillReturn:
    """Note the time; nothing moves."""
    BEGUN.append(time.perf_counter())
    return SkillReturn.success()


@robot_skill(subsystem="main", nominal_s=1.0)
def hold(seconds: float = 60.0, *, stop_evt: threading.Event) -> SkillReturn:
    """Keep main until stopped or until the time is over."""
    BEGUN.append(time.perf_counter())
    stop_evt.wait(seconds)
    return SkillReturn.success()


ROBOT = RobotConfig.model_validate(
    {
        "name": "bench",
        "skills": ["bench.bench_scheduler"],
        "subsystems": {
            "main": {"exclusive_per_process": False, "parallel": False},
            **{f"limb_{n}": {"exclusive_per_process": True, "parallel": False} for n in range(CHANNELS)},
        },
    }
)


class NotingExecutor:
    """Notes when a call is handed over; the benchmark ends it."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.started: list[tuple[float, Call]] = []
        self.scheduler: Scheduler

    def start(self, call: Call) -> None:
        self.started.append((time.perf_counter(), call))
        self.scheduler.started(call.call_id)

    def content(self, call: Call, text: str, last: bool) -> None:
        """Nothing speaks here."""

    def reset(self, call: Call) -> None:
        self.scheduler.ended(call.call_id, CallResult(Outcome.DONE))

    def stop(self, call: Call, cause: str) -> None:
        self.scheduler.ended(call.call_id, CallResult(Outcome.INTERRUPTED))


class KernelExecutor(NotingExecutor):
    """Hands calls to the real skill kernel, which runs each on a thread of its own."""

    def __init__(self, loop: Loop, registry: SkillRegistry) -> None:
        super().__init__(loop)
        self.ended = 0
        self.kernel = Kernel(registry, ROBOT, None, SteadyClock(), on_result=self._result)

    def start(self, call: Call) -> None:
        self.started.append((time.perf_counter(), call))
        answer = self.kernel.execute(CallSpec("p", call.call_id, call.function, call.arguments, open=call.open))
        if isinstance(answer, Refused):
            raise RuntimeError(answer.message)
        self.loop.post(lambda: self.scheduler.started(call.call_id))

    def reset(self, call: Call) -> None:
        self.kernel.reset(call.call_id)

    def stop(self, call: Call, cause: str) -> None:
        self.kernel.interrupt(call.call_id, cause)

    def _result(self, call_id: str, result: KernelResult) -> None:
        def tell() -> None:
            self.ended += 1
            shell = CallResult(Outcome(result.outcome.value), CallCode(result.code), result.error, result.message)
            self.scheduler.ended(call_id, shell)

        self.loop.post(tell)


def _shell(mapper: Mapper, executor: NotingExecutor) -> tuple[StreamingParser, Scheduler]:
    ids = itertools.count(1)

    def ignore(event: RunEvent) -> None:
        return None

    scheduler = Scheduler(
        mapper, executor, executor.loop, ignore, new_call_id=lambda: f"{next(ids):032x}", conditions=AssumedConditions({}, None)
    )
    executor.scheduler = scheduler
    scheduler.open_stream("s")
    return StreamingParser(), scheduler


def _feed(parser: StreamingParser, scheduler: Scheduler, text: str) -> None:
    for token in parser.feed(text):
        scheduler.feed("s", token)


def latency(mapper: Mapper, trials: int) -> list[float]:
    """Seconds from `feed('>')` to `executor.start`, CoCo's own skill with two arguments, one fresh call a trial."""
    executor = NotingExecutor(Loop())
    parser, scheduler = _shell(mapper, executor)
    times = []
    for trial in range(trials):
        _feed(parser, scheduler, f'<head_act action="nod" duration="{1 + trial % 7}"/')
        began = time.perf_counter()
        _feed(parser, scheduler, ">")
        at, call = executor.started.pop()
        times.append(at - began)
        scheduler.ended(call.call_id, CallResult(Outcome.DONE))
    return times


def kernel_latency(registry: SkillRegistry, trials: int) -> list[float]:
    """Seconds from `feed('>')` to the first statement of the skill, through the kernel and its thread."""
    loop = Loop()
    executor = KernelExecutor(loop, registry)
    parser, scheduler = _shell(Mapper(ROBOT, registry), executor)
    times = []
    for trial in range(trials):
        BEGUN.clear()
        _feed(parser, scheduler, f'<act n="{trial % CHANNELS}" angle="12.5"/')
        began = time.perf_counter()
        _feed(parser, scheduler, ">")
        expected = trial + 1
        if not loop.run_until(lambda: executor.ended >= expected, 10.0):  # noqa: B023 - used at once
            raise RuntimeError("a call did not end within 10 s")
        times.append(BEGUN[0] - began)
    return times


def call_chain(trials: int) -> list[float]:
    """Measure the reference: three plain Python calls with the same arguments, ending in the same time stamp."""

    def last(action: str, duration: float) -> float:
        return time.perf_counter()

    def middle(action: str, duration: float) -> float:
        return last(action, duration)

    def first(action: str, duration: str) -> float:
        return middle(action, float(duration))

    times = []
    for trial in range(trials):
        began = time.perf_counter()
        times.append(first("nod", str(1 + trial % 7)) - began)
    return times


def thread_start(trials: int) -> list[float]:
    """Measure the kernel's reference: a bare thread until its first statement."""
    times: list[float] = []
    for _ in range(trials):
        began = time.perf_counter()
        thread = threading.Thread(target=lambda began=began: times.append(time.perf_counter() - began))
        thread.start()
        thread.join()
    return times


def together(registry: SkillRegistry, trials: int, make: Callable[[Loop], NotingExecutor]) -> list[float]:
    """Seconds between the first and the last of 20 calls on 20 channels that one ending call on main sets free."""
    spreads = []
    for _ in range(trials):
        loop = Loop()
        executor = make(loop)
        parser, scheduler = _shell(Mapper(ROBOT, registry), executor)
        BEGUN.clear()
        _feed(parser, scheduler, "<hold/>" + "".join(f'<act n="{n}"/>' for n in range(CHANNELS)))
        (_, first), executor.started = executor.started[0], []
        if isinstance(executor, KernelExecutor):
            loop.run_until(lambda: bool(BEGUN), 10.0)
            BEGUN.clear()
            executor.kernel.reset(first.call_id)
            loop.run_until(lambda: executor.ended == CHANNELS + 1, 10.0)  # noqa: B023
            times = list(BEGUN)
        else:
            scheduler.ended(first.call_id, CallResult(Outcome.DONE))
            times = [at for at, _ in executor.started]
        if len(times) != CHANNELS:
            raise RuntimeError(f"{len(times)} of {CHANNELS} calls started")
        spreads.append(max(times) - min(times))
    return spreads


def asyncio_together(trials: int) -> list[float]:
    """Measure the reference: 20 asyncio tasks that one event sets free."""

    async def once() -> float:
        times: list[float] = []
        go = asyncio.Event()

        async def wait() -> None:
            await go.wait()
            times.append(time.perf_counter())

        tasks = [asyncio.create_task(wait()) for _ in range(CHANNELS)]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*tasks)
        return max(times) - min(times)

    return [asyncio.run(once()) for _ in range(trials)]


def threads_together(trials: int) -> list[float]:
    """Measure the kernel's reference: 20 bare threads started one after the other."""
    spreads = []
    for _ in range(trials):
        times: list[float] = []
        threads = [threading.Thread(target=lambda times=times: times.append(time.perf_counter())) for _ in range(CHANNELS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spreads.append(max(times) - min(times))
    return spreads


_IDLE = """
import json, sys, time
cpu, wall = time.process_time(), time.monotonic()
time.sleep(float(sys.argv[1]))
print(json.dumps((time.process_time() - cpu) / (time.monotonic() - wall)))
"""


def waiting(registry: SkillRegistry, seconds: float) -> dict[str, float]:
    """Share of a core while one call runs in the kernel and the loop waits for it, beside a process that sleeps."""
    loop = Loop()
    executor = KernelExecutor(loop, registry)
    parser, scheduler = _shell(Mapper(ROBOT, registry), executor)
    idle = subprocess.Popen([sys.executable, "-c", _IDLE, str(seconds)], stdout=subprocess.PIPE, text=True)
    cpu, wall = time.process_time(), time.monotonic()
    _feed(parser, scheduler, f'<hold seconds="{seconds}"/>')
    if not loop.run_until(lambda: executor.ended == 1, seconds + 20.0):
        raise RuntimeError("the waiting call did not end")
    share = (time.process_time() - cpu) / (time.monotonic() - wall)
    out, _ = idle.communicate(timeout=30.0)
    return {"seconds": seconds, "cpu_share_of_a_core": round(share, 5), "sleeping_process": round(json.loads(out), 5)}


def main() -> None:
    """Measure, print, write out/bench/scheduler.json."""
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=5000, help="calls whose start is timed (default 5000)")
    parser.add_argument("--wait-s", type=float, default=10.0, help="how long the waiting call takes (default 10)")
    options = parser.parse_args()
    coco = RobotConfig.load("coco")
    mapper = Mapper(coco, SkillRegistry.from_modules(coco.skills, text_skill=coco.text_skill))
    functions: list[Any] = [act, hold]
    registry = SkillRegistry(f.__robot_skill__ for f in functions)
    few = max(20, options.trials // 25)
    latency(mapper, 200)
    gc.collect()
    starts = {
        "end of tag to executor.start": spread_of(latency(mapper, options.trials)),
        "reference: three plain calls": spread_of(call_chain(options.trials)),
        "end of tag to the skill's first line, kernel thread": spread_of(kernel_latency(registry, few)),
        "reference: bare thread to its first line": spread_of(thread_start(few)),
    }
    spreads = {
        "20 channels, executor.start": spread_of(together(registry, few, NotingExecutor)),
        "20 channels, kernel threads": spread_of(together(registry, 20, lambda loop: KernelExecutor(loop, registry))),
        "reference: 20 asyncio tasks": spread_of(asyncio_together(few)),
        "reference: 20 bare threads": spread_of(threads_together(20)),
    }
    cpu = waiting(registry, options.wait_s)
    targets = [
        Target("end of tag to function start, median", starts["end of tag to executor.start"]["median_ms"], 0.2, "ms"),
        Target("end of tag to function start, p99", starts["end of tag to executor.start"]["p99_ms"], 1.0, "ms"),
        Target("20 channels started together, spread, median", spreads["20 channels, executor.start"]["median_ms"], 2.0, "ms"),
        Target("one call waiting, share of a core", cpu["cpu_share_of_a_core"], 0.02),
    ]
    tables = [
        Table("start of a function [ms]", ("what", "median", "p99", "max", "trials"), _rows(starts)),
        Table("first to last of 20 [ms]", ("what", "median", "p99", "max", "trials"), _rows(spreads)),
        Table(
            f"processor while one call waits {cpu['seconds']:g} s",
            ("what", "share of a core"),
            [
                ["scheduler, kernel, loop", cpu["cpu_share_of_a_core"]],
                ["reference: a process that sleeps", cpu["sleeping_process"]],
            ],
        ),
    ]
    measured: dict[str, Any] = {"starts": starts, "spreads": spreads, "waiting": cpu}
    report("scheduler", measured, tables, targets, as_json=options.json)


def _rows(results: dict[str, dict[str, float]]) -> list[list[object]]:
    return [[name, r["median_ms"], r["p99_ms"], r["max_ms"], r["trials"]] for name, r in results.items()]


if __name__ == "__main__":
    main()
