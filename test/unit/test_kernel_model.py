# SPDX-License-Identifier: Apache-2.0
"""Random interleavings of all the kernel can be told, held against a model; then the same with real races."""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kernel_bench import ROBOT, Bench

from skill_kernel import CallCode, Outcome, SkillReturn, robot_skill
from skill_kernel.calls import Accepted, CallResult, CallSpec
from skill_kernel.clock import SteadyClock
from skill_kernel.kernel import Kernel
from skill_kernel.registry import SkillRegistry

SUBSYSTEM_OF = {"walk": "legs", "wave": "arm", "crew": "crew", "hum": "sound", "think": "free"}
RETURNS: dict[str, tuple[Any, Outcome]] = {
    "ok": (SkillReturn.success(), Outcome.DONE),
    "failure": (SkillReturn.failure("no"), Outcome.FAILED),
    "raise": (RuntimeError("boom"), Outcome.FAILED),
}


@dataclass
class Modelled:
    """A call as the model sees it: `cause` is the outcome its first stop fixed."""

    process: str
    function: str
    open: bool
    cause: Outcome | None = None
    body_ended: bool = False
    uncertain: bool = False


class KernelAgainstModel(RuleBasedStateMachine):
    """The model: who holds what, what the first cause was, and what each call's one outcome must be."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.calls: dict[str, Modelled] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.lowest: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.epoch = 0
        self.halted = False
        self.number = 0
        for process in ("p1", "p2"):
            self.bench.start("think", process, process)
            self.bench.finish(process)
            self.outcomes[process] = Outcome.DONE

    def teardown(self) -> None:
        for call_id, call in list(self.calls.items()):
            if not call.body_ended:
                self.bench.finish(call_id)

    # what the model expects

    def refusal(self, process: str, function: str, epoch: int) -> CallCode | None:
        subsystem = SUBSYSTEM_OF[function]
        if epoch < max(self.lowest[p, c] for p in ("", process) for c in ("", subsystem)):
            return CallCode.STALE_EPOCH
        if self.halted:
            return CallCode.HALTED
        wanted = ROBOT.subsystems[subsystem]
        for other in self.calls.values():
            if SUBSYSTEM_OF[other.function] == subsystem:
                if wanted.exclusive_per_process and other.process != process:
                    return CallCode.SUBSYSTEM_HELD
                if not wanted.parallel:
                    return CallCode.SUBSYSTEM_HELD
        return None

    def stop(self, call_id: str, cause: Outcome) -> None:
        call = self.calls[call_id]
        if call.cause is None:
            call.cause = cause
            if call.body_ended:
                self.end(call_id, cause)

    def end(self, call_id: str, outcome: Outcome) -> None:
        assert call_id not in self.outcomes
        self.outcomes[call_id] = outcome
        del self.calls[call_id]

    def pick(self, data: st.DataObject, which: Callable[[Modelled], bool] = lambda call: True) -> str:
        return data.draw(st.sampled_from([c for c, call in self.calls.items() if which(call)]))

    # what may happen

    @rule(
        process=st.sampled_from(["p1", "p2"]),
        function=st.sampled_from(sorted(SUBSYSTEM_OF)),
        age=st.integers(0, 2),
        open_call=st.booleans(),
    )
    def execute(self, process: str, function: str, age: int, open_call: bool) -> None:
        call_id, epoch = f"call{self.number}", max(0, self.epoch - age)
        self.number += 1
        expected = self.refusal(process, function, epoch)
        answer = self.bench.execute(function, call_id, process, epoch=epoch, open=open_call)
        if expected is None:
            assert isinstance(answer, Accepted), answer
            assert self.bench.bodies[call_id].started.wait(5)
            self.calls[call_id] = Modelled(process, function, open_call)
        else:
            assert not isinstance(answer, Accepted) and answer.code is expected, answer
            assert not self.bench.bodies[call_id].started.is_set()

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        call_id = self.pick(data)
        self.bench.kernel.reset(call_id)
        self.stop(call_id, Outcome.DONE)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def interrupt(self, data: st.DataObject) -> None:
        call_id = self.pick(data)
        self.bench.kernel.interrupt(call_id, "because")
        self.stop(call_id, Outcome.INTERRUPTED)

    @rule(
        process=st.sampled_from(["", "p1", "p2"]),
        channels=st.sets(st.sampled_from(sorted(SUBSYSTEM_OF.values())), max_size=2),
    )
    def interrupt_process(self, process: str, channels: set[str]) -> None:
        answer = self.bench.kernel.interrupt_process(process, channels, "because")
        assert answer.epoch > self.epoch
        self.epoch = answer.epoch
        for channel in channels or {""}:
            self.lowest[process, channel] = answer.epoch
        hit = [
            call_id for call_id, call in self.calls.items()
            if process in ("", call.process) and (not channels or SUBSYSTEM_OF[call.function] in channels)
        ]  # fmt: skip
        assert set(answer.stopped) == {c for c in hit if not self.calls[c].uncertain}
        for call_id in hit:
            self.stop(call_id, Outcome.INTERRUPTED)

    @rule()
    def halt(self) -> None:
        self.bench.kernel.halt("button")
        self.halted = True
        for call_id in list(self.calls):
            self.stop(call_id, Outcome.INTERRUPTED)

    @rule()
    def clear(self) -> None:
        self.bench.kernel.clear()
        self.halted = False

    @precondition(lambda self: any(not call.body_ended for call in self.calls.values()))
    @rule(data=st.data(), how=st.sampled_from(sorted(RETURNS)))
    def body_ends(self, data: st.DataObject, how: str) -> None:
        call_id = self.pick(data, lambda call: not call.body_ended)
        command, outcome = RETURNS[how]
        self.bench.finish(call_id, command)
        call = self.calls[call_id]
        call.body_ended = True
        if call.uncertain:
            del self.calls[call_id]
        elif call.cause is Outcome.INTERRUPTED:
            self.end(call_id, Outcome.INTERRUPTED)
        elif call.cause is Outcome.DONE or not call.open or outcome is not Outcome.DONE:
            self.end(call_id, outcome)

    @rule()
    def stop_times_pass(self) -> None:
        self.bench.clock.run(until_s=self.bench.clock.now() + 0.8)
        late = [c for c, call in self.calls.items() if call.cause is not None and not call.uncertain]
        for call_id in late:
            call = self.calls[call_id]
            call.uncertain = True
            self.outcomes[call_id] = Outcome.INTERRUPTED if call.cause is Outcome.INTERRUPTED else Outcome.FAILED
        if late:
            self.halted = True
            for call_id in [c for c, call in self.calls.items() if not call.uncertain]:
                self.stop(call_id, Outcome.INTERRUPTED)

    # what must hold

    @invariant()
    def each_call_has_the_one_result_the_model_expects(self) -> None:
        assert {c: [r.outcome for r in results] for c, results in self.bench.results.items() if results} == {
            c: [outcome] for c, outcome in self.outcomes.items()
        }

    @invariant()
    def subsystems_are_held_by_whom_the_model_says(self) -> None:
        state = self.bench.kernel.state()
        for subsystem in state.subsystems:
            holders = {c for c, call in self.calls.items() if SUBSYSTEM_OF[call.function] == subsystem.name}
            assert set(subsystem.call_ids) == holders
        assert set(state.running) == {c for c, call in self.calls.items() if not call.uncertain}
        assert state.halted == self.halted

    @invariant()
    def a_skill_is_told_to_stop_exactly_when_there_is_a_cause(self) -> None:
        for call_id, call in self.calls.items():
            assert self.bench.bodies[call_id].seen["stop"].is_set() == (call.cause is not None)


KernelAgainstModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestKernelAgainstModel = KernelAgainstModel.TestCase


@dataclass
class Arena:
    """What racing skills touch: who is inside which subsystem now, and every rule that was broken."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    inside: Counter[str] = field(default_factory=Counter)
    voided: dict[str, int] = field(default_factory=dict)
    started: int = 0
    broken: list[str] = field(default_factory=list)

    def enter(self, subsystem: str, process: str, epoch: int, stop: threading.Event) -> None:
        with self.lock:
            self.started += 1
            self.inside[subsystem] += 1
            if self.inside[subsystem] > 1:
                self.broken.append(f"{self.inside[subsystem]} calls on {subsystem}")
            if epoch < self.voided.get(process, 0) and not stop.is_set():
                self.broken.append(f"epoch {epoch} of {process} runs on after {self.voided[process]}")

    def leave(self, subsystem: str) -> None:
        with self.lock:
            self.inside[subsystem] -= 1


def _racer(name: str) -> Any:
    def function(
        process: str, epoch: int, busy_us: int, body: Arena, stop_evt: threading.Event, until_reset: bool
    ) -> SkillReturn:
        body.enter(name, process, epoch, stop_evt)
        try:
            if until_reset:
                stop_evt.wait(5.0)
            else:
                stop_evt.wait(busy_us / 1e6)
        finally:
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
        SkillRegistry(_racer(name).__robot_skill__ for name in ("legs", "arm", "sound")),
        ROBOT,
        arena,
        clock,
        on_result=on_result,
    )

    give_up_s = time.monotonic() + 60.0

    def work(worker: int) -> None:
        choose = random.Random(worker)
        mine: list[str] = []
        for number in itertools.count():
            if arena.started >= 2000 or time.monotonic() > give_up_s:
                break
            process, action = choose.choice(["p0", "p1"]), choose.random()
            if action < 0.6:
                call_id, function = f"{worker}.{number}", choose.choice(["legs", "arm", "sound"])
                epoch = epochs[process] - choose.choice([0, 0, 0, 1])
                arguments = {"process": process, "epoch": max(0, epoch), "busy_us": choose.randrange(50)}
                call = CallSpec(process, call_id, function, arguments, epoch=max(0, epoch), open=choose.random() < 0.3)
                if isinstance(kernel.execute(call), Accepted):
                    mine.append(call_id)
                else:
                    time.sleep(1e-4)  # what holds it needs a core to end
            elif action < 0.92 and mine:
                end = choose.choice([kernel.reset, lambda c: kernel.interrupt(c, "race")])
                end(choose.choice(mine[-5:]))
            elif action < 0.98:
                new = kernel.interrupt_process(process, [], "race").epoch
                with arena.lock:
                    arena.voided[process] = max(arena.voided.get(process, 0), new)
                    epochs[process] = max(epochs[process], new)
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
    kernel.halt("the end")
    free = threading.Event()
    for _ in range(1000):
        if not any(s.call_ids for s in kernel.state().subsystems):
            break
        free.wait(0.005)
    clock.close()
    assert arena.broken == []
    assert not any(s.call_ids for s in kernel.state().subsystems) and not kernel.state().running
    assert {c for c, r in results.items() if len(r) == 1} == accepted and all(len(r) == 1 for r in results.values())
    assert arena.started > 1000 and {r[0].outcome for r in results.values()} >= {Outcome.DONE, Outcome.INTERRUPTED}
