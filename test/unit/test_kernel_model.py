# SPDX-License-Identifier: Apache-2.0
"""Random interleavings of all the kernel can be told, held against a model, which finds known faults when they are put in."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from kernel_model import KernelAndModel
from thorough import examples

from skill_kernel.calls import CallSpec, LeaseAnswer
from skill_kernel.kernel.holds import LeaseError, LeaseTable
from skill_kernel.kernel.kernel import Kernel
from skill_kernel.kernel.running import RunningCall


class KernelAgainstModel(RuleBasedStateMachine):
    """Hypothesis chooses, and shrinks what it finds. One number a step: many small draws reach few deep states."""

    def __init__(self) -> None:
        super().__init__()
        self.both = KernelAndModel()

    @rule(seed=st.integers(0, 2**32 - 1))
    def step(self, seed: int) -> None:
        choice = random.Random(f"{seed} {sum(self.both.done.values())}")
        self.both.step(lambda options: choice.choice(list(options)))

    def teardown(self) -> None:
        self.both.close()


KernelAgainstModel.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=60)
TestKernelAgainstModel = KernelAgainstModel.TestCase


def interleave(steps: int, seed: int, steps_a_kernel: int = 250) -> dict[str, int]:
    """Drive kernels and models by chance; how often each thing was done, "woken" what went on by itself. Raises
    AssertionError where they differ."""
    done: dict[str, int] = {}
    choice = random.Random(seed)
    for _ in range(0, steps, steps_a_kernel):
        both = KernelAndModel()
        try:
            for _ in range(steps_a_kernel):
                both.step(lambda options: choice.choice(list(options)))
        finally:
            both.close()
        for name, count in [*both.done.items(), ("woken", both.woken)]:
            done[name] = done.get(name, 0) + count
    return done


def test_a_long_random_run_breaks_no_rule() -> None:
    done = interleave(8000, seed=20)
    assert done.pop("woken") > 20, done
    assert sum(done.values()) == 8000 and min(done.values()) > 50, done


# -- the two faults known from TypeGo, and one more ------------------------------------------------------------------------


def pause_and_stop_both_release(patch: pytest.MonkeyPatch) -> None:
    """Give the leases of a paused call away without a note, so that its end gives them back once more."""
    patch.setattr(RunningCall, "leased", property(lambda self: True))


def both_release_whoever_holds(patch: pytest.MonkeyPatch) -> None:
    """Do the same where a lease has no owner: the second release takes it from whoever has come in between."""
    pause_and_stop_both_release(patch)

    def ownerless(self: LeaseTable, call: CallSpec, subsystems: Iterable[str]) -> None:
        for name in subsystems:
            self._holders[name].clear()

    patch.setattr(LeaseTable, "release", ownerless)


def resume_waits_under_the_lock(patch: pytest.MonkeyPatch) -> None:
    """Let a resume wait, with the lock, for a skill that needs the lock to end."""
    resume = Kernel._resume

    def waiting(self: Kernel, process_id: str, cause: str) -> LeaseAnswer:
        deadline = time.monotonic() + 4.0
        while any(r.ending is not None for r in self._calls.of(process_id)) and time.monotonic() < deadline:
            time.sleep(0.005)
        return resume(self, process_id, cause)

    patch.setattr(Kernel, "_resume", waiting)


def forgets_who_waits(patch: pytest.MonkeyPatch) -> None:
    """Offer what becomes free to nobody."""
    patch.setattr(Kernel, "_serve_waiting", lambda self, causes=None: None)


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
"""A fault that is put in also ends the thread of the skill that met it."""

FAULTS: list[Any] = [pause_and_stop_both_release, both_release_whoever_holds, resume_waits_under_the_lock, forgets_who_waits]


@pytest.mark.parametrize("put_in", FAULTS)
@pytest.mark.slow
def test_the_random_run_finds_the_fault(put_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch)
    with pytest.raises((AssertionError, LeaseError)):
        interleave(2000, seed=1)


@pytest.mark.parametrize("put_in", FAULTS)
@pytest.mark.slow
def test_the_state_machine_finds_the_fault(put_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch)
    seeking = settings(
        max_examples=100,
        stateful_step_count=80,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with pytest.raises((AssertionError, LeaseError, Flaky)):
        run_state_machine_as_test(KernelAgainstModel, settings=seeking)
