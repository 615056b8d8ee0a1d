# SPDX-License-Identifier: Apache-2.0
"""Take subsystems from a process, by rank, and give them back."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_bench import Bench, Body, code_of, rest

from skill_kernel import CallCode, SkillReturn
from skill_kernel.calls import ProcessHoldState
from skill_kernel.codes import LeaseCode
from skill_kernel.events import ProcessEvent, ProcessKind
from skill_kernel.kernel.kernel import Rank


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_preemption_pauses_the_holders_and_reserves_for_who_preempts(bench: Bench) -> None:
    bench.start("walk", "a", "p1")
    bench.start("wave", "b", "p2")
    answer = bench.kernel.preempt(Rank.REFLEX, ["legs"], "too close", "s0")
    assert (answer.code, answer.holders, answer.paused) == (LeaseCode.NONE, ("p1",), ("a",))
    assert code_of(bench.execute("walk", "c", "s0")) is CallCode.SUBSYSTEM_HELD
    rest(bench, "a", "legs")
    assert code_of(bench.execute("walk", "d", "p2")) is CallCode.SUBSYSTEM_HELD, "it is the reflex's already"
    bench.start("walk", "e", "s0")
    lower = bench.kernel.preempt(Rank.SCHEDULER, ["legs", "arm"], "s3", "p3")
    assert lower.code is LeaseCode.OUTRANKED and "s0 (reflex)" in lower.message
    assert not bench.bodies["b"].seen["pause"].is_set(), "all or nothing"
    assert bench.kernel.pause_process("s0", "s3").code is LeaseCode.OUTRANKED
    higher = bench.kernel.preempt(Rank.TELEOP, ["legs"], "the gamepad", "teleop")
    assert higher.holders == ("s0",) and bench.kernel.preempt(Rank.REFLEX, ["arm"], "", "s0").code is LeaseCode.NOT_RESUMED
    bench.finish("e")
    bench.kernel.end_process("teleop", "given back")
    bench.kernel.end_process("s0", "far away")
    bench.wait_until(lambda: bench.bodies["a"].inside)
    bench.finish("a")
    bench.finish("b")


def paused_by(bench: Bench) -> dict[str, tuple[str, ...]]:
    return {p.process_id: p.pause_causes for p in bench.kernel.state().processes if p.pause_causes}


def patrol(bench: Bench) -> Body:
    """Return a process that walks and is preempted by the reflex `near`, at rest."""
    body = bench.start("walk", "patrol", "patrol")
    assert bench.kernel.preempt(Rank.REFLEX, ["legs"], "too close", "near").holders == ("patrol",)
    rest(bench, "patrol", "legs")
    return body


def test_who_was_displaced_goes_on_in_the_step_that_ends_its_pre_empter(bench: Bench) -> None:
    body = patrol(bench)
    bench.start("walk", "back off", "near")
    bench.finish("back off")
    bench.kernel.end_process("near", "far again")
    assert bench.kernel.state().processes == (ProcessHoldState("patrol", ("legs",)),)
    assert bench.holders("legs") == ("patrol",) and not body.seen["pause"].is_set()
    assert [(e.kind, e.cause) for e in bench.events] == [(ProcessKind.PAUSED, "s0"), (ProcessKind.RESUMED, "s0")]
    bench.finish("patrol")


def test_a_call_of_the_pre_empter_that_still_stops_is_waited_for(bench: Bench) -> None:
    patrol(bench)
    bench.start("walk", "back off", "near")
    bench.kernel.end_process("near", "far again")
    assert paused_by(bench) == {"patrol": ("waiting",)} and bench.holders("legs") == ("back off",)
    assert code_of(bench.execute("walk", "late", "p2")) is CallCode.SUBSYSTEM_HELD
    bench.finish("back off", SkillReturn.interruption("stopped"))
    assert paused_by(bench) == {} and bench.holders("legs") == ("patrol",), "nobody comes in between"
    assert [e.cause for e in bench.events if isinstance(e, ProcessEvent) and e.process_id == "patrol"] == [
        "s0",
        "waiting",
        "waiting",
    ]
    bench.finish("patrol")


def test_what_another_took_meanwhile_is_waited_for(bench: Bench) -> None:
    bench.start("wave", "wave", "patrol")
    bench.finish("wave")
    patrol(bench)
    bench.start("wave", "hello", "p2")
    bench.kernel.end_process("near", "far again")
    assert paused_by(bench) == {"patrol": ("waiting",)} and bench.holders("legs") == ()
    answer = bench.kernel.resume_process("patrol", "waiting")
    assert (answer.code, answer.holders) == (LeaseCode.NOT_RESUMED, ("p2",)), "asked for by name it is no other"
    bench.kernel.pause_process("patrol", "user")
    bench.finish("hello")
    bench.kernel.end_process("p2", "done")
    assert paused_by(bench) == {"patrol": ("waiting", "user")}
    assert bench.kernel.resume_process("patrol", "user").code is LeaseCode.NONE
    assert bench.holders("legs") == ("patrol",) and bench.kernel.state().processes[0].subsystems == ("arm", "legs")
    bench.finish("patrol")


def test_the_users_resume_tells_of_what_is_waited_for(bench: Bench) -> None:
    bench.start("wave", "wave", "patrol")
    bench.finish("wave")
    patrol(bench)
    bench.start("wave", "hello", "p2")
    bench.kernel.pause_process("patrol", "user")
    bench.kernel.end_process("near", "far again")
    assert paused_by(bench) == {"patrol": ("user",)}
    answer = bench.kernel.resume_process("patrol", "user")
    assert (answer.code, answer.holders) == (LeaseCode.NOT_RESUMED, ("p2",))
    bench.kernel.end_process("patrol", "enough")
    bench.finish("hello")
    bench.finish("patrol")


@pytest.mark.parametrize("first", ["near", "bumped"])
def test_of_two_reflexes_on_one_robot_the_last_to_end_gives_the_body_back(bench: Bench, first: str) -> None:
    patrol(bench)
    assert bench.kernel.preempt(Rank.REFLEX, ["legs"], "bumped", "bumped").holders == ("near",), "of the same rank"
    assert paused_by(bench) == {"patrol": ("s0",), "near": ("s0",)}
    second = "bumped" if first == "near" else "near"
    bench.kernel.end_process(first, "over")
    assert paused_by(bench) == {"patrol": ("waiting",) if first == "near" else ("s0",)}
    assert bench.holders("legs") == ()
    bench.kernel.end_process(second, "over")
    assert paused_by(bench) == {} and bench.holders("legs") == ("patrol",)
    bench.finish("patrol")


def test_who_is_displaced_twice_is_paused_until_both_have_ended(bench: Bench) -> None:
    bench.start("walk", "walk", "patrol")
    bench.start("hum", "hum", "patrol")
    bench.kernel.preempt(Rank.REFLEX, ["legs"], "too close", "near")
    bench.kernel.preempt(Rank.REFLEX, ["sound"], "a cry", "cry")
    bench.kernel.end_process("near", "far again")
    assert paused_by(bench) == {"patrol": ("s0",)}
    bench.kernel.end_process("cry", "over")
    assert paused_by(bench) == {}
    bench.finish("walk")
    bench.finish("hum")


def test_a_pre_empters_cause_is_taken_back_by_its_end_alone(bench: Bench) -> None:
    body = patrol(bench)
    bench.kernel.pause_process("patrol", "s0")
    answer = bench.kernel.resume_process("patrol", "s0")
    assert answer.code is LeaseCode.NOT_RESUMED and "process near has taken" in answer.message
    bench.kernel.pause_process("patrol", "s0")
    bench.kernel.end_process("near", "far again")
    assert paused_by(bench) == {"patrol": ("s0",)}, "it was asked for by name, too"
    assert bench.kernel.resume_process("patrol", "s0").code is LeaseCode.NONE and not body.seen["pause"].is_set()
    bench.finish("patrol")


def test_a_pre_empter_that_nobody_answers_for_gives_back_what_it_took(bench: Bench) -> None:
    bench.start("hum", "hum", "patrol")
    bench.kernel.preempt(Rank.REFLEX, ["sound"], "a cry", "cry")
    assert "cry" in [p.process_id for p in bench.kernel.state().processes], "it keeps nothing, and is still looked after"
    assert bench.kernel.release_idle("cry") and bench.kernel.state().processes == ()
    bench.finish("hum")


@pytest.mark.parametrize(
    "ask",
    [
        lambda kernel: kernel.preempt(Rank.REFLEX, ["legs"], "too close", ""),
        lambda kernel: kernel.pause_process("", "user"),
        lambda kernel: kernel.resume_process("", "s0"),
        lambda kernel: kernel.end_process("", "over"),
    ],
)
def test_nothing_is_done_for_a_process_without_a_name(bench: Bench, ask: Any) -> None:
    body = patrol(bench)
    answer = ask(bench.kernel)
    assert answer.code is LeaseCode.INVALID_REQUEST and "give its process_id" in answer.message
    assert paused_by(bench) == {"patrol": ("s0",)} and body.seen["pause"].is_set()
    bench.kernel.end_process("near", "far again")
    bench.finish("patrol")
