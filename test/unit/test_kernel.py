# SPDX-License-Identifier: Apache-2.0
"""The skill kernel: one result a call, subsystems, resets and interrupts, deadlines, content, epochs, halt."""

from __future__ import annotations

import pytest
from kernel_bench import Bench, rest

from skill_kernel import CallCode, Outcome, ParseCode, SkillReturn
from skill_kernel.calls import Refused
from skill_kernel.events import Notice, NoticeKind
from skill_kernel.kernel.kernel import KernelSettings


@pytest.fixture
def bench() -> Bench:
    return Bench()


def refused(answer: Refused | None, code: CallCode) -> Refused:
    assert isinstance(answer, Refused) and answer.code is code, answer
    return answer


# -- outcomes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returned", "outcome", "code", "error", "message"),
    [
        (SkillReturn.success("4 steps"), Outcome.DONE, 0, "", "4 steps"),
        (None, Outcome.DONE, 0, "", ""),
        (True, Outcome.DONE, 0, "", ""),
        ("4 steps", Outcome.DONE, 0, "", "4 steps"),
        (False, Outcome.FAILED, CallCode.SKILL_FAILED, "walk did not succeed", ""),
        (7, Outcome.FAILED, CallCode.SKILL_FAILED, "returned a int", ""),
        (SkillReturn.failure("a leg is stuck"), Outcome.FAILED, CallCode.SKILL_FAILED, "a leg is stuck", ""),
        (SkillReturn.failure("gone", 133), Outcome.FAILED, CallCode.DRIVER_LOST, "gone", ""),
        (SkillReturn.interruption("half way"), Outcome.FAILED, CallCode.SKILL_FAILED, "stopped from outside", "half way"),
        (ValueError("no\nleg"), Outcome.FAILED, CallCode.SKILL_RAISED, "walk raised ValueError: no leg", ""),
        (SystemExit(1), Outcome.FAILED, CallCode.SKILL_RAISED, "SystemExit", ""),
        (SkillReturn(True, 4), Outcome.DONE, 0, "", "4"),  # type: ignore[arg-type]
        (SkillReturn(True, None), Outcome.DONE, 0, "", ""),  # type: ignore[arg-type]
        (SkillReturn(False, OSError("gone")), Outcome.FAILED, CallCode.SKILL_FAILED, "gone", ""),  # type: ignore[arg-type]
        (SkillReturn(False, "gone", False, "E5"), Outcome.FAILED, CallCode.SKILL_FAILED, "gone", ""),  # type: ignore[arg-type]
        (SkillReturn(False, "gone", False, None), Outcome.FAILED, CallCode.SKILL_FAILED, "gone", ""),  # type: ignore[arg-type]
    ],
)
def test_what_a_skill_returns_becomes_the_outcome(
    bench: Bench, returned: object, outcome: Outcome, code: int, error: str, message: str
) -> None:
    bench.start("walk", "a")
    bench.clock.run(until_s=1.5)
    bench.finish("a", returned)
    result = bench.result("a")
    assert (result.outcome, result.code, result.message) == (outcome, code, message)
    assert isinstance(result.error, str) and error in result.error and "Traceback" not in result.error
    assert (result.start_s, result.end_s) == (0.0, 1.5)
    assert bench.holders("legs") == ()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, ""),
        ({"label": "ball", "distance_m": 1.5, "near": None}, '{"label": "ball", "distance_m": 1.5, "near": null}'),
        ([1, "zwei", True], '[1, "zwei", true]'),
        (0, "0"),
    ],
)
def test_what_a_skill_found_out_travels_as_json(bench: Bench, value: object, told: str) -> None:
    bench.start("walk", "a")
    bench.finish("a", SkillReturn.success("found it", value=value))
    result = bench.result("a")
    assert (result.outcome, result.message, result.value) == (Outcome.DONE, "found it", told)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({1, 2}, "walk returned a value that is no JSON: Object of type set"),
        (float("nan"), "walk returned a value that is no JSON"),
        ("x" * 70_000, "walk returned a value of 70002 characters; return at most 65536"),
    ],
)
def test_a_value_that_cannot_travel_fails_its_call(bench: Bench, value: object, why: str) -> None:
    bench.start("walk", "a")
    bench.finish("a", SkillReturn.success("found it", value=value))
    result = bench.result("a")
    assert (result.outcome, result.value) == (Outcome.FAILED, "") and why in result.error


def test_injected_parameters_arrive_and_the_model_cannot_write_them(bench: Bench) -> None:
    body = bench.start("walk", "a", open=True)
    assert body.seen["until_reset"] is True and not body.seen["stop"].is_set()
    answer = bench.execute("walk", "b", arguments={"stop_evt": None})
    refused(answer, CallCode.UNKNOWN_ARGUMENT)


def test_arguments_are_checked_and_clamped_again(bench: Bench) -> None:
    refused(bench.execute("go", "a"), CallCode.MISSING_ARGUMENT)
    refused(bench.execute("go", "a", arguments={"distance": "far"}), CallCode.INVALID_ARGUMENT)
    assert "did you mean 'walk'" in refused(bench.execute("wlak", "a"), CallCode.UNKNOWN_FUNCTION).message
    assert bench.execute("go", "a", arguments={"distance": 900}) is None
    assert bench.bodies["a"].started.wait(5) and bench.bodies["a"].seen["distance"] == 200.0
    (event,) = bench.events
    assert (event.call_id, event.function, event.error_code) == ("a", "go", 0) and "900.0 was limited to 200.0" in event.text


def test_a_call_id_is_used_once(bench: Bench) -> None:
    bench.start("walk", "a")
    refused(bench.execute("think", "a"), CallCode.INVALID_ARGUMENT)
    bench.finish("a")
    refused(bench.execute("think", "a"), CallCode.INVALID_ARGUMENT)
    assert len(bench.results["a"]) == 1


# -- reset and interrupt ---------------------------------------------------------------------------------------------


def test_an_open_call_whose_body_ended_holds_its_subsystem_until_the_reset(bench: Bench) -> None:
    bench.start("walk", "a", open=True)
    bench.finish("a", SkillReturn.success("stands"))
    assert bench.results["a"] == [] and bench.holders("legs") == ("a",)
    bench.clock.run(until_s=500.0)
    bench.kernel.reset("a")
    assert bench.result("a").outcome is Outcome.DONE and bench.result("a").message == "stands"
    assert bench.result("a").end_s == 500.0 and bench.holders("legs") == ()


def test_an_open_call_that_failed_ends_at_once(bench: Bench) -> None:
    bench.start("walk", "a", open=True)
    bench.finish("a", SkillReturn.failure("slipped"))
    assert bench.result("a").outcome is Outcome.FAILED and bench.holders("legs") == ()


def test_a_reset_stops_the_skill_and_ends_as_done(bench: Bench) -> None:
    body = bench.start("walk", "a", open=True)
    bench.kernel.reset("a")
    assert body.seen["stop"].is_set() and bench.results["a"] == []
    bench.finish("a", SkillReturn.interruption("3 steps"))
    assert (bench.result("a").outcome, bench.result("a").message) == (Outcome.DONE, "3 steps")


def test_a_failure_during_a_reset_is_not_hidden(bench: Bench) -> None:
    bench.start("walk", "a", open=True)
    bench.kernel.reset("a")
    bench.finish("a", SkillReturn.failure("driver gone", CallCode.DRIVER_LOST))
    assert (bench.result("a").outcome, bench.result("a").code) == (Outcome.FAILED, CallCode.DRIVER_LOST)


def test_the_first_cause_fixes_the_outcome(bench: Bench) -> None:
    bench.start("walk", "a", open=True)
    bench.kernel.reset("a")
    bench.kernel.interrupt("a", "new instruction")
    bench.kernel.halt("button")
    bench.finish("a", SkillReturn.interruption("x"))
    assert bench.result("a").outcome is Outcome.DONE
    bench.kernel.clear()
    bench.start("walk", "b", open=True)
    bench.kernel.interrupt("b", "new instruction")
    bench.kernel.reset("b")
    bench.finish("b", SkillReturn.success("all of it"))
    result = bench.result("b")
    assert (result.outcome, result.code, result.message) == (Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY, "all of it")
    assert "new instruction" in result.error


def test_an_atomic_skill_runs_to_its_end_when_stopped(bench: Bench) -> None:
    bench.start("stand", "a")
    bench.kernel.interrupt("a", "no")
    bench.clock.run(until_s=3.4)
    assert bench.results["a"] == [] and not bench.kernel.state().halted
    bench.finish("a", SkillReturn.success("stands"))
    assert (bench.result("a").outcome, bench.result("a").message) == (Outcome.INTERRUPTED, "stands")


def test_a_skill_that_does_not_stop_is_reported_halts_the_robot_and_keeps_its_subsystem(bench: Bench) -> None:
    bench.start("walk", "a")
    bench.start("wave", "b")
    bench.kernel.interrupt("a", "new instruction")
    bench.clock.run(until_s=0.69)
    assert bench.results["a"] == []
    bench.clock.run(until_s=0.71)
    assert (bench.result("a").outcome, bench.result("a").code) == (Outcome.INTERRUPTED, CallCode.STOP_UNCERTAIN)
    assert len(bench.halts) == 1 and bench.kernel.state().halted
    assert bench.bodies["b"].seen["stop"].is_set()
    assert CallCode.STOP_UNCERTAIN in [e.error_code for e in bench.events]
    assert bench.kernel.interrupt_process("p", [], "again").uncertain == ("a",)
    bench.finish("b")
    bench.kernel.clear()
    refused(bench.execute("walk", "c", epoch=9), CallCode.SUBSYSTEM_HELD)
    bench.finish("a")
    assert "has stopped after all" in bench.events[-1].text and len(bench.results["a"]) == 1
    assert bench.execute("walk", "c", epoch=9) is None


@pytest.mark.parametrize("asked", ["interrupt", "pause", "nothing"])
def test_a_skill_whose_driver_confirms_no_stop_halts_the_robot(bench: Bench, asked: str) -> None:
    bench.start("seek" if asked == "pause" else "walk", "a")
    bench.start("wave", "b", process="q")
    if asked == "interrupt":
        bench.kernel.interrupt("a", "new instruction")
    elif asked == "pause":
        bench.kernel.pause_process("p", "user")
    bench.finish("a", SkillReturn.failure("the driver did not confirm", CallCode.STOP_UNCERTAIN))
    result = bench.result("a")
    assert (result.outcome is Outcome.INTERRUPTED) == (asked == "interrupt")
    assert result.code == CallCode.STOP_UNCERTAIN and "did not confirm" in result.error
    assert bench.halts == [result.error] and bench.kernel.state().halted
    assert CallCode.STOP_UNCERTAIN in [e.error_code for e in bench.events]
    assert bench.bodies["b"].seen["stop"].is_set() and bench.holders("legs") == ()
    bench.finish("b")
    bench.kernel.clear()
    bench.kernel.resume_process("p", "user")
    assert len(bench.results["a"]) == 1 and bench.bodies["a"].begins == 1, "it does not go on by itself"
    assert bench.execute("walk", "c", epoch=9) is None


def test_a_reset_that_does_not_stop_is_a_failure(bench: Bench) -> None:
    bench.start("walk", "a", open=True)
    bench.kernel.reset("a")
    bench.clock.run(until_s=1.0)
    assert (bench.result("a").outcome, bench.result("a").code) == (Outcome.FAILED, CallCode.STOP_UNCERTAIN)
    bench.finish("a")


# -- time ------------------------------------------------------------------------------------------------------------


def test_a_call_past_its_deadline_is_stopped_and_fails(bench: Bench) -> None:
    body = bench.start("walk", "a")
    bench.clock.run(until_s=15.9)
    assert not body.seen["stop"].is_set()
    bench.clock.run(until_s=16.1)
    assert body.seen["stop"].is_set()
    bench.finish("a", SkillReturn.interruption("half"))
    assert (bench.result("a").outcome, bench.result("a").code) == (Outcome.FAILED, CallCode.DEADLINE)


def test_a_pause_is_asked_of_the_skill_and_not_counted(bench: Bench) -> None:
    body = bench.start("walk", "a")
    bench.clock.run(until_s=4.0)
    bench.kernel.pause_process("p", "s3")
    assert body.seen["pause"].is_set()
    rest(bench, "a", "legs")
    bench.clock.run(until_s=100.0)
    bench.kernel.resume_process("p", "s3")
    assert not body.seen["pause"].is_set() and not body.seen["stop"].is_set()
    bench.clock.run(until_s=111.9)
    assert not body.seen["stop"].is_set()
    bench.clock.run(until_s=112.1)
    assert body.seen["stop"].is_set()
    bench.finish("a")


def test_a_stop_wakes_a_paused_skill(bench: Bench) -> None:
    body = bench.start("walk", "a")
    bench.kernel.pause_process("p", "s3")
    bench.kernel.interrupt("a", "new instruction")
    assert body.seen["stop"].is_set() and not body.seen["pause"].is_set()
    bench.finish("a")


# -- subsystems ------------------------------------------------------------------------------------------------------


def test_a_held_subsystem_is_refused_with_its_holder_and_free_afterwards(bench: Bench) -> None:
    bench.start("walk", "a", "p1")
    answer = refused(bench.execute("walk", "b", "p2"), CallCode.SUBSYSTEM_HELD)
    assert answer.holder == "p1" and "walk (call a of process p1)" in answer.message
    changes = bench.changes
    bench.finish("a")
    assert bench.changes > changes
    held = refused(bench.execute("walk", "b", "p2"), CallCode.SUBSYSTEM_HELD)
    assert held.holder == "p1" and "keeps until it pauses or ends" in held.message
    bench.kernel.end_process("p1", "over")
    assert bench.execute("walk", "b", "p2") is None


@pytest.mark.parametrize(
    ("skill", "same_process", "other_process"),
    [("walk", False, False), ("crew", True, False), ("hum", False, False), ("think", True, True)],
)
def test_the_two_settings_of_a_subsystem(bench: Bench, skill: str, same_process: bool, other_process: bool) -> None:
    bench.start(skill, "a", "p1")
    assert (bench.execute(skill, "b", "p1") is None) is same_process
    assert (bench.execute(skill, "c", "p2") is None) is other_process


def test_a_channel_held_by_an_ancestor_is_refused_for_good_but_main_is_shared_with_it(bench: Bench) -> None:
    bench.start("walk", "a", open=True)
    bench.start("think", "b", parent_id="a", open=True)
    refused(bench.execute("walk", "c", parent_id="b"), CallCode.CHANNEL_HELD_BY_ANCESTOR)
    bench.start("talk", "d", open=True)
    bench.start("talk", "e", parent_id="d")
    refused(bench.execute("talk", "f"), CallCode.SUBSYSTEM_HELD)
    refused(bench.execute("talk", "g", "p2", parent_id="d"), CallCode.SUBSYSTEM_HELD)


def test_parents_that_stand_in_a_circle_do_not_hang_the_kernel(bench: Bench) -> None:
    bench.start("walk", "other")
    bench.start("think", "a", parent_id="b")
    bench.start("think", "b", parent_id="a")
    refused(bench.execute("walk", "c", parent_id="b"), CallCode.SUBSYSTEM_HELD)
    refused(bench.execute("walk", "d", parent_id="d"), CallCode.SUBSYSTEM_HELD)


def test_calls_beyond_the_bound_are_refused() -> None:
    bench = Bench(settings=KernelSettings(max_running=2))
    bench.start("think", "a")
    bench.start("think", "b")
    refused(bench.execute("think", "c"), CallCode.QUEUE_FULL)


def test_a_composite_calls_skills_on_subsystems_it_takes_for_that_time(bench: Bench) -> None:
    bench.start("dance", "a")
    bench.bodies["a"].commands.put(("wave", {"key": "inner"}))
    assert bench.bodies["inner"].started.wait(5)
    assert bench.holders("arm") == ("a",) and bench.holders("legs") == ("a",)
    refused(bench.execute("wave", "b"), CallCode.SUBSYSTEM_HELD)
    stopped = bench.kernel.interrupt_process("p", ["arm"], "free the arm").stopped
    assert stopped == ("a",) and bench.bodies["inner"].seen["stop"].is_set()
    bench.bodies["inner"].commands.put(SkillReturn.interruption("half"))
    bench.join("a")
    assert bench.result("a").outcome is Outcome.INTERRUPTED and bench.holders("arm") == ()


def test_a_composite_is_told_why_a_skill_did_not_run(bench: Bench) -> None:
    bench.start("wave", "w", "p2")
    for number, (inner, code) in enumerate(
        [
            (("wave", {"key": "x"}), CallCode.SUBSYSTEM_HELD),
            (("nothing", {}), CallCode.UNKNOWN_FUNCTION),
            (("go", {"key": "x", "distance": "far"}), CallCode.INVALID_ARGUMENT),
        ]
    ):
        bench.start("dance", f"d{number}")
        bench.finish(f"d{number}", inner)
        assert bench.result(f"d{number}").code == code


def test_a_value_that_is_clamped_inside_a_composite_is_told(bench: Bench) -> None:
    bench.start("dance", "a")
    bench.bodies["a"].commands.put(("go", {"key": "inner", "distance": 900.0}))
    assert bench.bodies["inner"].started.wait(5) and bench.bodies["inner"].seen["distance"] == 200.0
    bench.bodies["inner"].commands.put(None)
    bench.join("a")
    assert [e.text for e in bench.events if isinstance(e, Notice)] == ["go: distance 900.0 was limited to 200.0 (distance)"]


# -- content ---------------------------------------------------------------------------------------------------------


def test_content_as_a_string_starts_the_skill_at_its_last_piece(bench: Bench) -> None:
    assert bench.execute("say", "a", streams_content=True) is None
    bench.kernel.content("a", 0, "Hello ", False)
    assert not bench.bodies["a"].started.is_set()
    bench.kernel.content("a", 1, "world", True)
    assert bench.bodies["a"].started.wait(5) and bench.bodies["a"].seen["text"] == "Hello world"
    bench.finish("a")
    assert bench.result("a").outcome is Outcome.DONE


def test_content_as_a_stream_arrives_piece_by_piece_and_in_order(bench: Bench) -> None:
    bench.execute("recite", "a", streams_content=True)
    pieces = bench.pieces("a")
    for seq, word in enumerate(["one", "two", "three"]):
        bench.kernel.content("a", seq, word, False)
        bench.kernel.content("a", seq, "again", False)
        assert next(pieces) == word
    bench.kernel.content("a", 3, "", True)
    assert list(pieces) == []
    bench.join("a")
    assert bench.result("a").outcome is Outcome.DONE


def test_text_in_an_attribute_counts_as_content(bench: Bench) -> None:
    bench.start("say", "a", arguments={"text": "Hi"})
    assert bench.bodies["a"].seen["text"] == "Hi"


def test_a_gap_in_the_content_fails_the_call(bench: Bench) -> None:
    bench.execute("recite", "a", streams_content=True)
    bench.kernel.content("a", 1, "two", False)
    bench.join("a")
    assert (bench.result("a").outcome, bench.result("a").code) == (Outcome.FAILED, ParseCode.SEQUENCE_GAP)


@pytest.mark.parametrize(("end", "outcome"), [("reset", Outcome.DONE), ("interrupt", Outcome.INTERRUPTED)])
def test_a_skill_that_waits_for_content_can_be_ended(bench: Bench, end: str, outcome: Outcome) -> None:
    bench.execute("say", "a", streams_content=True)
    bench.kernel.reset("a") if end == "reset" else bench.kernel.interrupt("a", "no")
    bench.join("a")
    assert bench.result("a").outcome is outcome and bench.result("a").start_s == -1
    assert not bench.bodies["a"].started.is_set()


def test_content_that_never_ends_ends_the_call() -> None:
    bench = Bench(settings=KernelSettings(content_timeout_s=0.01))
    bench.execute("say", "a", streams_content=True)
    bench.join("a")
    assert (bench.result("a").outcome, bench.result("a").code) == (Outcome.FAILED, CallCode.DEADLINE)


def test_the_deadline_of_a_text_grows_with_it(bench: Bench) -> None:
    bench.execute("say", "a", streams_content=True)
    bench.kernel.content("a", 0, "x" * 1000, True)
    assert bench.bodies["a"].started.wait(5)
    bench.clock.run(until_s=309.0)
    assert not bench.results["a"] and bench.kernel.state().running == ("a",)
    bench.finish("a")
    assert bench.result("a").outcome is Outcome.DONE


def test_content_and_control_for_a_call_that_does_not_run_are_void(bench: Bench) -> None:
    bench.kernel.content("a", 0, "Good", True)
    bench.kernel.interrupt("a", "too early")
    bench.execute("say", "a", streams_content=True)
    bench.kernel.content("a", 0, "Hello!", True)
    assert bench.bodies["a"].started.wait(5) and bench.bodies["a"].seen["text"] == "Hello!"
    bench.finish("a")
    bench.kernel.interrupt("a", "too late")
    assert bench.result("a").outcome is Outcome.DONE


# -- epochs and halt -------------------------------------------------------------------------------------------------


def test_an_interrupt_stops_what_runs_and_voids_older_goals(bench: Bench) -> None:
    bench.start("walk", "a", "p1")
    bench.start("hum", "b", "p2")
    answer = bench.kernel.interrupt_process("p1", [], "new instruction")
    assert answer.stopped == ("a",) and not bench.bodies["b"].seen["stop"].is_set()
    refused(bench.execute("think", "c", "p1", epoch=answer.epoch - 1), CallCode.STALE_EPOCH)
    assert bench.execute("think", "d", "p1", epoch=answer.epoch) is None
    assert bench.execute("think", "e", "p2", epoch=0) is None


def test_an_interrupt_of_channels_leaves_the_others_alone(bench: Bench) -> None:
    bench.start("walk", "a")
    bench.start("wave", "b")
    answer = bench.kernel.interrupt_process("p", ["arm"], "put it down")
    assert answer.stopped == ("b",) and not bench.bodies["a"].seen["stop"].is_set()
    bench.finish("b")
    refused(bench.execute("wave", "c"), CallCode.STALE_EPOCH)
    refused(bench.execute("think", "d", channels=("free", "arm")), CallCode.STALE_EPOCH)
    assert bench.execute("think", "e") is None


def test_an_interrupt_of_every_process_voids_goals_on_their_way_and_shuts_out_no_later_process(bench: Bench) -> None:
    bench.start("think", "a", "known")
    bench.finish("a")
    answer = bench.kernel.interrupt_process("", [], "stop")
    refused(bench.execute("think", "b", "on its way"), CallCode.STALE_EPOCH)
    assert bench.execute("think", "c", "on its way", epoch=answer.epoch) is None
    bench.clock.run(until_s=1.1)
    assert bench.execute("think", "d", "made later") is None
    refused(bench.execute("think", "e", "known"), CallCode.STALE_EPOCH)
    assert bench.execute("think", "f", "known", epoch=answer.epoch) is None


def test_an_issued_epoch_is_above_every_one_seen(bench: Bench) -> None:
    bench.start("think", "a", epoch=41)
    assert bench.kernel.interrupt_process("p", [], "x").epoch == 42
    assert bench.kernel.interrupt_process("p", [], "x", epoch=50).epoch == 50


def test_a_halt_stops_everything_and_stays_until_it_is_cleared(bench: Bench) -> None:
    bench.start("walk", "a", "p1")
    bench.start("hum", "b", "p2")
    bench.kernel.halt("button")
    bench.kernel.halt("another")
    bench.finish("a", SkillReturn.interruption("half"))
    bench.finish("b", SkillReturn.interruption("half"))
    assert {bench.result(c).code for c in "ab"} == {CallCode.HALTED}
    assert "button" in refused(bench.execute("think", "c"), CallCode.HALTED).message
    assert bench.kernel.state().halt_cause == "button"
    bench.kernel.clear()
    assert bench.execute("think", "c") is None
    assert [e.kind for e in bench.events] == [NoticeKind.HALTED, NoticeKind.HALT_CLEARED]


def test_a_listener_that_raises_does_not_swallow_the_next_result(bench: Bench) -> None:
    def broken(event: object) -> None:
        raise RuntimeError("listener")

    bench.kernel._on_event = broken
    bench.start("walk", "a")
    bench.kernel.halt("button")
    bench.finish("a")
    assert bench.result("a").outcome is Outcome.INTERRUPTED
