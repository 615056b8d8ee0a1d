# SPDX-License-Identifier: Apache-2.0
"""The joint gate's laws on a virtual clock: within limits, never too fast, still on silence and while halted."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skill_kernel.robot import JointConfig
from skill_kernel.safety.joint_gate import LARGEST_STEP_S, JointGate, RefusalKind

LIMITS = {
    "knee": JointConfig(lower=-1.0, upper=1.0, max_velocity=2.0),
    "hip": JointConfig(lower=0.0, upper=0.5, max_velocity=10.0),
}
TICK = 0.01


def gate(**positions: float) -> JointGate:
    made = JointGate(LIMITS, timeout_s=0.2, measurement_timeout_s=1.0)
    start = {"knee": 0.0, "hip": 0.2, **positions}
    made.measure(0.0, list(start), list(start.values()))
    return made


def run(made: JointGate, start: float, seconds: float) -> list[dict[str, float]]:
    made_ticks = []
    for k in range(1, round(seconds / TICK) + 1):
        now = start + k * TICK
        made.measure(now, [], [])
        made_ticks.append(dict(made.tick(now)))
    return made_ticks


def test_a_joint_starts_from_its_measured_position() -> None:
    made = gate(knee=0.4)
    made.tick(0.0)
    assert made.command(0.0, ["knee"], [1.0]) is None
    assert made.tick(TICK) == {"knee": pytest.approx(0.4 + 2.0 * TICK)}


def test_only_commanded_joints_get_set_points() -> None:
    made = gate()
    made.command(0.0, ["hip"], [0.3])
    assert set(made.tick(TICK)) == {"hip"}


def test_a_joint_outside_its_range_walks_back_instead_of_leaping() -> None:
    made = gate(knee=1.5)
    made.tick(0.0)
    made.command(0.0, ["knee"], [1.5])
    knees = [tick["knee"] for tick in run(made, 0.0, 0.1)]
    assert knees[0] == pytest.approx(1.5 - 2.0 * TICK)
    assert knees == sorted(knees, reverse=True)


def test_silence_holds_the_last_set_point() -> None:
    made = gate()
    made.tick(0.0)
    made.command(0.0, ["knee"], [1.0])
    ticks = run(made, 0.0, 0.5)
    assert ticks[-1]["knee"] == pytest.approx(2.0 * 0.2, abs=2.0 * TICK + 1e-9)
    assert ticks[-1] == ticks[-20]
    assert not made.moving(0.5)


def test_a_late_tick_makes_no_leap() -> None:
    made = gate()
    made.tick(0.0)
    made.command(0.15, ["knee"], [1.0])
    assert made.tick(0.3)["knee"] <= 2.0 * LARGEST_STEP_S + 1e-9


def test_halt_is_latched_and_clearing_moves_nothing() -> None:
    made = gate()
    made.tick(0.0)
    made.command(0.0, ["knee"], [1.0])
    before = run(made, 0.0, 0.05)[-1]
    made.halt("service")
    refusal = made.command(0.06, ["knee"], [-1.0])
    assert refusal is not None and refusal.kind is RefusalKind.HALTED
    assert all(tick == before for tick in run(made, 0.06, 0.1))
    made.clear_halt()
    assert all(tick == before for tick in run(made, 0.16, 0.1))
    assert made.command(0.3, ["knee"], [-1.0]) is None
    assert run(made, 0.3, 0.05)[-1]["knee"] < before["knee"]


@pytest.mark.parametrize(
    ("names", "positions", "kind"),
    [
        (["knee"], [math.nan], RefusalKind.NOT_FINITE),
        (["hip", "knee"], [0.1, -math.inf], RefusalKind.NOT_FINITE),
        (["knee", "tail"], [0.1, 0.1], RefusalKind.UNKNOWN_JOINT),
        (["knee", "hip"], [0.1], RefusalKind.LENGTHS),
    ],
)
def test_one_fault_refuses_the_whole_command(names: list[str], positions: list[float], kind: RefusalKind) -> None:
    made = gate()
    refusal = made.command(0.0, names, positions)
    assert refusal is not None and refusal.kind is kind
    assert made.tick(TICK) == {}


def test_nothing_moves_before_the_first_measurement() -> None:
    refusal = JointGate(LIMITS).command(0.0, ["knee"], [0.5])
    assert refusal is not None and refusal.kind is RefusalKind.NOT_MEASURED


def test_a_silent_sensor_halts_and_its_return_starts_from_the_new_pose() -> None:
    made = gate()
    made.command(0.0, ["knee"], [1.0])
    made.tick(0.9)
    assert not made.halted
    made.tick(1.1)
    assert made.halted and "joint_states" in made.halt_cause and made.silent == "joint_states"
    made.clear_halt()
    assert made.command(1.2, ["knee"], [1.0]) is not None, "cleared, but the sensor is still silent"
    made.measure(2.0, ["knee"], [-0.7])
    assert made.silent == ""
    made.command(2.0, ["knee"], [-0.7])
    assert made.tick(2.01) == {"knee": -0.7}


wishes = st.floats(allow_nan=True, allow_infinity=True, width=32) | st.floats(-3, 3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("command"), st.sampled_from(["knee", "hip", "tail"]), wishes),
        st.tuples(st.just("tick"), st.floats(-0.1, 0.6), st.none()),
        st.tuples(st.just("halt"), st.none(), st.none()),
        st.tuples(st.just("clear"), st.none(), st.none()),
        st.tuples(st.just("measure"), st.sampled_from(["knee", "hip"]), wishes),
    ),
    max_size=60,
)


@given(steps=steps)
def test_no_sequence_breaks_limits_speed_or_halt(steps: list[tuple[str, object, object]]) -> None:
    made = JointGate(LIMITS, timeout_s=0.2, measurement_timeout_s=0.0)
    made.measure(0.0, ["knee", "hip"], [0.0, 0.2])
    now, before = 0.0, dict(made.tick(0.0))
    for what, first, second in steps:
        if what == "command":
            made.command(now, [str(first)], [float(second)])
        elif what == "halt":
            made.halt("test")
        elif what == "clear":
            made.clear_halt()
        elif what == "measure" and -1 <= float(second) <= 1 and first in before:
            made.measure(now, [str(first)], [float(second)])
        elif what == "tick":
            now += float(first)
            after = dict(made.tick(now))
            for name, position in after.items():
                limit = LIMITS[name]
                assert limit.lower - 1e-9 <= position <= limit.upper + 1e-9
                start = before.get(name, {"knee": 0.0, "hip": 0.2}[name])
                allowed = limit.max_velocity * min(max(float(first), 0.0), LARGEST_STEP_S)
                assert abs(position - start) <= allowed + 1e-9
                assert not made.halted or position == start
            before = after


def test_a_bus_that_sends_no_numbers_counts_as_silent() -> None:
    made = gate()
    made.tick(0.0)
    for k in range(1, 20):
        assert not made.measure(k * 0.1, ["knee", "hip"], [math.nan, math.inf])
        made.tick(k * 0.1)
    assert made.halted and "silent" in made.halt_cause


def follow(made: JointGate, start: float, seconds: float, knee: Callable[[float, float], float]) -> float:
    """Measure and tick; `knee` gives its position by time and set-point. Gives the time of the halt, or of the end."""
    for k in range(round(seconds / TICK)):
        now = start + k * TICK
        set_point = made.tick(now).get("knee", 0.0)
        made.measure(now, ["knee", "hip"], [knee(now, set_point), 0.2])
        if made.halted:
            return now
    return start + seconds


@pytest.mark.parametrize("commanded", [False, True])
def test_a_joint_that_moves_without_an_order_halts_and_a_push_does_not(commanded: bool) -> None:
    made = gate()
    if commanded:
        made.command(0.0, ["knee"], [0.3])
    follow(made, 0.0, 2.0, lambda _, set_point: set_point)
    follow(made, 2.0, 1.4, lambda now, set_point: set_point - min(0.5, 2.0 * (now - 2.0)))
    follow(made, 3.4, 1.0, lambda _, set_point: set_point)
    assert not made.halted, made.halt_cause
    halted = follow(made, 5.0, 4.0, lambda now, set_point: set_point + min(0.6, 1.0 * (now - 5.0)))
    assert halted < 7.1 and "joint knee moved 0.6 rad without an order" in made.halt_cause


def test_a_joint_that_lags_is_held_up_and_let_go_or_is_put_elsewhere_does_not_halt() -> None:
    made = gate()
    for k in range(20):
        made.command(0.01 * k, ["knee"], [0.9])
        follow(made, 0.01 * k, 0.01, lambda _, set_point: 0.2 * set_point)
    follow(made, 0.2, 3.0, lambda now, set_point: min(set_point, 0.1 + 0.1 * now))
    follow(made, 3.2, 2.0, lambda *_: 0.1)
    follow(made, 5.2, 1.0, lambda now, set_point: min(0.1 + 3.0 * (now - 5.2), set_point))
    follow(made, 6.2, 4.0, lambda *_: -0.8)
    assert not made.halted, made.halt_cause


@pytest.mark.parametrize("commanded", [False, True])
def test_a_joint_that_was_bent_while_halted_sets_out_from_there_once_that_is_cleared(commanded: bool) -> None:
    made = gate()
    if commanded:
        made.command(0.0, ["knee"], [0.3])
    follow(made, 0.0, 2.0, lambda _, set_point: set_point)
    made.halt("somebody halts")

    def stay(start: float, seconds: float) -> None:
        for k in range(round(seconds / TICK)):
            made.tick(start + k * TICK)
            made.measure(start + k * TICK, ["knee", "hip"], [min(0.9, 0.2 * (start + k * TICK - 2.0)), 0.2])

    stay(2.0, 8.0)
    made.clear_halt()
    stay(10.0, 3.0)
    assert not made.halted, made.halt_cause
    made.command(13.0, ["knee"], [0.0])
    assert made.tick(13.0 + TICK)["knee"] == pytest.approx(0.9, abs=2 * 2.0 * TICK), "it leaps to the old set-point"


def test_a_joint_that_falls_silent_while_others_go_on_halts() -> None:
    made = gate()
    for k in range(1, 20):
        made.measure(k * 0.1, ["hip"], [0.2])
        made.tick(k * 0.1)
    assert made.halt_cause == "joint_states silent about knee for 1.1 s"
    made.clear_halt()
    refusal = made.command(2.0, ["knee"], [0.5])
    assert refusal is not None and refusal.kind is RefusalKind.NOT_MEASURED
    assert made.command(2.0, ["hip"], [0.3]) is None
