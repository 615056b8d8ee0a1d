# SPDX-License-Identifier: Apache-2.0
"""Threads that race each other through the kernel on the real clock: two never move one actuator, nothing is lost."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from kernel_bench import ROBOT
from thorough import examples

from skill_kernel import Outcome, PauseEvent, SkillReturn, robot_skill
from skill_kernel.calls import CallResult, CallSpec
from skill_kernel.clock import SteadyClock
from skill_kernel.kernel.kernel import Kernel, Rank
from skill_kernel.skills.registry import SkillRegistry

SUBSYSTEMS = ("legs", "arm", "sound")


@dataclass
class Arena:
    """Hold what racing skills touch: who is inside which subsystem now, and every rule that was broken."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    inside: Counter[str] = field(default_factory=Counter)
    voided: dict[str, int] = field(default_factory=dict)
    started: int = 0
    rested: int = 0
    broken: list[str] = field(default_factory=list)

    def enter(self, subsystem: str) -> None:
        with self.lock:
            self.inside[subsystem] += 1
            if self.inside[subsystem] > 1:
                self.broken.append(f"{self.inside[subsystem]} calls on {subsystem}")

    def leave(self, subsystem: str) -> None:
        with self.lock:
            self.inside[subsystem] -= 1

    def begin(self, process: str, epoch: int, stop: threading.Event) -> None:
        with self.lock:
            self.started += 1
            if epoch < self.voided.get(process, 0) and not stop.is_set():
                self.broken.append(f"epoch {epoch} of {process} runs on after {self.voided[process]}")


def _racer(name: str) -> Any:
    def function(
        process: str, epoch: int, busy_us: int, body: Arena, stop_evt: threading.Event, pause_evt: PauseEvent, until_reset: bool
    ) -> SkillReturn:
        body.begin(process, epoch, stop_evt)
        body.enter(name)
        rounds = 2000 if until_reset else 1
        while rounds and not stop_evt.wait(busy_us / 1e6):
            rounds -= 1
            if pause_evt.is_set():
                body.leave(name)
                pause_evt.rest()
                if stop_evt.is_set():
                    return SkillReturn.interruption("told to, at rest")
                body.enter(name)
                body.rested += 1
        body.leave(name)
        return SkillReturn.interruption("told to") if stop_evt.is_set() else SkillReturn.success()

    return robot_skill(name, subsystem=name, nominal_s=1.0, stop_s=5.0)(function)


def test_thousands_of_races_break_no_rule() -> None:
    arena, clock = Arena(), SteadyClock()
    results: defaultdict[str, list[CallResult]] = defaultdict(list)
    accepted: set[str] = set()
    epochs: dict[str, int] = {"p0": 0, "p1": 0}
    notes = threading.Lock()

    def on_result(call_id: str, result: CallResult) -> None:
        with notes:
            results[call_id].append(result)

    kernel = Kernel(
        SkillRegistry(_racer(name).__robot_skill__ for name in SUBSYSTEMS), ROBOT, arena, clock, on_result=on_result
    )

    give_up_s = time.monotonic() + 60.0

    def work(worker: int) -> None:
        choose = random.Random(worker)
        mine: list[str] = []
        number = 0
        while arena.started <= examples(800) and time.monotonic() < give_up_s:
            number += 1
            process, action = choose.choice(["p0", "p1"]), choose.random()
            if action < 0.55:
                call_id, function = f"{worker}.{number}", choose.choice(SUBSYSTEMS)
                epoch = max(0, epochs[process] - choose.choice([0, 0, 0, 1]))
                arguments = {"process": process, "epoch": epoch, "busy_us": choose.randrange(50)}
                call = CallSpec(process, call_id, function, arguments, epoch=epoch, open=choose.random() < 0.3)
                if kernel.execute(call) is None:
                    mine.append(call_id)
                else:
                    time.sleep(1e-4)  # on a loaded machine nobody else would get on
            elif action < 0.72 and mine:
                end = choose.choice([kernel.reset, lambda c: kernel.interrupt(c, "race")])
                end(choose.choice(mine[-5:]))
            elif action < 0.75:
                kernel.pause_process(process, choose.choice(["user", "s3"]))
            elif action < 0.92:
                kernel.resume_process(process, choose.choice(["user", "s3"]))
            elif action < 0.94:
                kernel.preempt(Rank.SCHEDULER, [choose.choice(SUBSYSTEMS)], "race", process)
            elif action < 0.98:
                new = kernel.interrupt_process(process, [], "race").epoch
                kernel.end_process(process, "race") if choose.random() < 0.5 else None
                with arena.lock:
                    arena.voided[process] = max(arena.voided.get(process, 0), new)
                    epochs[process] = max(epochs[process], new + 1)
            else:
                kernel.halt("race")
                kernel.clear()
        with notes:
            accepted.update(mine)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in workers:
            thread.start()
        for thread in workers:
            thread.join(70.0)
    finally:
        sys.setswitchinterval(switch_s)
    assert not any(thread.is_alive() for thread in workers)
    for process in epochs:
        kernel.end_process(process, "the end")
    free = threading.Event()
    for _ in range(1000):
        last = kernel.state()
        if not last.running and not any(s.process_id for s in last.subsystems):
            break
        free.wait(0.005)
    clock.close()
    assert arena.broken == []
    state = kernel.state()
    assert not any(s.call_ids or s.process_id for s in state.subsystems) and not state.running and not state.processes
    assert {c for c, r in results.items() if len(r) == 1} == accepted and all(len(r) == 1 for r in results.values())
    assert arena.started > examples(800)
    assert arena.rested > 0 or examples(800) < 800, "in a tenth of the races it is chance whether a call that runs is paused"
    assert {r[0].outcome for r in results.values()} >= {Outcome.DONE, Outcome.INTERRUPTED}
