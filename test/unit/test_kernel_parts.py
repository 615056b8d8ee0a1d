# SPDX-License-Identifier: Apache-2.0
"""Test the parts that the kernel stands on: leases that cannot be given back twice, and the steady clock's timers."""

from __future__ import annotations

import math
import threading
import time

import pytest
from kernel_bench import ROBOT

from skill_kernel.calls import CallSpec
from skill_kernel.clock import SteadyClock
from skill_kernel.kernel.holds import EpochTable, LeaseError, LeaseTable


def call(process_id: str, call_id: str) -> CallSpec:
    return CallSpec(process_id, call_id, "walk")


def test_several_subsystems_are_taken_together_or_not_at_all() -> None:
    leases = LeaseTable(ROBOT.subsystems)
    assert leases.acquire(call("p1", "a"), ["arm"]) is None
    held = leases.acquire(call("p1", "b"), ["legs", "arm"])
    assert held is not None and (held.subsystem, held.call_id) == ("arm", "a")
    assert leases.holders("legs") == ()


def test_a_lease_is_given_back_once_and_only_by_its_owner() -> None:
    leases, owner = LeaseTable(ROBOT.subsystems), call("p1", "a")
    leases.acquire(owner, ["legs", "arm"])
    with pytest.raises(LeaseError, match="not held by call b"):
        leases.release(call("p1", "b"), ["legs"])
    with pytest.raises(LeaseError, match="not held by call a of process p2"):
        leases.release(call("p2", "a"), ["legs"])
    leases.release(owner, ["legs"])
    with pytest.raises(LeaseError, match="'legs' is not held"):
        leases.release(owner, ["arm", "legs"])
    assert leases.holders("arm") == (owner,)
    leases.release(owner, ["arm"])
    with pytest.raises(LeaseError):
        leases.release(owner, ["arm"])


def test_a_subsystem_nobody_declared_is_exclusive_and_serial() -> None:
    leases = LeaseTable({})
    assert leases.acquire(call("p1", "a"), ["tail"]) is None
    assert leases.acquire(call("p1", "b"), ["tail"]) is not None
    assert leases.acquire(call("p2", "c"), ["tail"]) is not None


def test_epochs_of_a_channel_do_not_touch_another() -> None:
    epochs = EpochTable()
    assert epochs.advance("p", ["legs"], 0.0) == 1
    lowest = [epochs.lowest(process, [channel], 0.0) for process, channel in (("p", "legs"), ("p", "arm"), ("q", "legs"))]
    assert lowest == [1, 0, 0]
    assert epochs.advance("", ["arm"], 0.0) == 2
    assert (epochs.lowest("q", ["arm"], 9.0), epochs.lowest("q", ["legs"], 9.0)) == (2, 0)


def test_steady_timers_fire_in_the_order_of_their_times_and_not_when_cancelled() -> None:
    clock, fired, done = SteadyClock(), list[str](), threading.Event()
    started = time.monotonic()
    clock.call_later(0.3, lambda: fired.append("late"))
    clock.call_later(0.02, lambda: fired.append("early"))
    clock.call_later(0.03, lambda: 1 / 0)
    clock.call_later(0.03, lambda: fired.append("cancelled")).cancel()
    # Asked for last: a busy machine may come to these lines late, and each time counts from its own line.
    clock.call_later(0.35, done.set)
    assert done.wait(5.0) and fired == ["early", "late"]
    assert time.monotonic() - started >= 0.3
    clock.close()


@pytest.mark.parametrize("far_s", [1e10, 1e300, math.inf])
def test_a_timer_that_is_never_due_keeps_no_other_from_firing(far_s: float) -> None:
    clock, done = SteadyClock(), threading.Event()
    far = clock.call_later(far_s, lambda: None)
    time.sleep(0.05)  # its thread waits for the far one alone
    clock.call_later(0.01, done.set)
    assert done.wait(5.0)
    far.cancel()
    clock.close()
