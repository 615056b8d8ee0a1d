# SPDX-License-Identifier: Apache-2.0
"""Processes in the kernel: what they keep, how they pause and go on, and who answers for them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from kernel_bench import REST, ROBOT, WAIT_S, Bench, code_of, rest

from bench.virtual_clock import VirtualClock
from skill_kernel import CallCode, Content, Outcome, SkillReturn
from skill_kernel.calls import CallSpec, ProcessHoldState
from skill_kernel.clock import OneShotTimer, SteadyClock
from skill_kernel.codes import LeaseCode
from skill_kernel.events import CallKind, ProcessKind
from skill_kernel.kernel.heartbeats import Heartbeats, Silence, Source
from skill_kernel.kernel.holds import LeaseTable
from skill_kernel.kernel.kernel import Kernel
from skill_kernel.skills.registry import RegistryError, SkillRegistry
from skill_kernel.skills.skill import SkillDefinitionError, robot_skill


@pytest.fixture
def bench() -> Bench:
    return Bench()


# -- what a process keeps --------------------------------------------------------------------------------------------


def test_an_exclusive_subsystem_stays_reserved_between_calls_until_the_process_ends(bench: Bench) -> None:
    bench.start("walk", "a", "p1")
    bench.finish("a")
    (legs,) = [s for s in bench.kernel.state().subsystems if s.name == "legs"]
    assert (legs.process_id, legs.call_ids) == ("p1", ())
    assert bench.kernel.state().processes == (ProcessHoldState("p1", ("legs",)),)
    assert code_of(bench.execute("walk", "b", "p2")) is CallCode.SUBSYSTEM_HELD
    bench.start("walk", "c", "p1")
    answer = bench.kernel.end_process("p1", "done")
    assert answer.stopped == ("c",) and bench.kernel.state().processes == ()
    assert code_of(bench.execute("walk", "d", "p2")) is CallCode.SUBSYSTEM_HELD, "the call is still stopping"
    bench.finish("c")
    assert bench.execute("walk", "e", "p2") is None
    assert code_of(bench.execute("think", "f", "p1")) is CallCode.STALE_EPOCH


def test_shared_subsystems_are_kept_by_nobody(bench: Bench) -> None:
    bench.start("hum", "a", "p1")
    bench.finish("a")
    bench.start("hum", "b", "p2")
    assert bench.kernel.state().processes == () and bench.kernel.state().calling == ("p2",)


def test_a_contention_is_told_with_who_wants_and_who_has(bench: Bench) -> None:
    bench.start("walk", "a", "p1")
    bench.execute("walk", "b", "p2")
    bench.execute("walk", "c", "p1")
    (event,) = bench.events
    assert event.kind is CallKind.CONTENTION and event.error_code == CallCode.SUBSYSTEM_HELD
    assert (event.process_id, event.call_id, event.holder_id, event.channels) == ("p2", "b", "p1", ("legs",))
    assert "walk (call a of process p1) holds until its process pauses or ends" in event.error_msg


def test_a_reservation_is_given_back_once_and_only_by_its_process() -> None:
    leases = LeaseTable(ROBOT.subsystems)
    leases.acquire(CallSpec("p1", "a", "walk"), ["legs", "sound"])
    assert leases.free("p2") == () and leases.reserved_for("p1") == ("legs",), "sound is kept by nobody"
    assert leases.free("p1") == ("legs",) and leases.free("p1") == ()
    assert leases.holders("legs") == (CallSpec("p1", "a", "walk"),), "its call is another matter"


# -- pause and resume ------------------------------------------------------------------------------------------------


def test_a_paused_process_gives_its_legs_away_when_its_skill_is_at_rest_and_takes_them_back(bench: Bench) -> None:
    body = bench.start("walk", "a", "p1")
    assert bench.kernel.pause_process("p1", "s3").paused == ("a",) and body.seen["pause"].is_set()
    assert code_of(bench.execute("walk", "b", "p2")) is CallCode.SUBSYSTEM_HELD, "not at rest yet"
    rest(bench, "a", "legs")
    assert code_of(bench.execute("think", "c", "p1")) is CallCode.PROCESS_PAUSED
    bench.start("walk", "d", "p2", open=True)
    answer = bench.kernel.resume_process("p1", "s3")
    assert (answer.code, answer.holders) == (LeaseCode.NOT_RESUMED, ("p2",)) and "p2 holds" in answer.message
    assert not body.inside and bench.kernel.state().processes[-1].pause_causes == ("s3",)
    bench.clock.run(until_s=100.0)
    bench.finish("d")
    bench.kernel.end_process("p2", "done")
    assert bench.kernel.resume_process("p1", "s3").code is LeaseCode.NONE
    bench.wait_until(lambda: body.inside)
    assert bench.holders("legs") == ("a",) and not body.seen["stop"].is_set()
    bench.finish("a", SkillReturn.success("all of it"))
    assert bench.result("a").outcome is Outcome.DONE


def test_no_resume_wakes_what_another_cause_holds(bench: Bench) -> None:
    body = bench.start("walk", "a", "p1")
    bench.kernel.pause_process("p1", "user")
    bench.kernel.pause_process("p1", "s3")
    rest(bench, "a", "legs")
    answer = bench.kernel.resume_process("p1", "user")
    assert answer.code is LeaseCode.NOT_RESUMED and "stays paused by s3" in answer.message and not answer.holders
    assert body.seen["pause"].is_set()
    assert bench.kernel.resume_process("p1", "s3").code is LeaseCode.NONE and not body.seen["pause"].is_set()
    assert [e.kind for e in bench.events] == [ProcessKind.PAUSED, ProcessKind.PAUSED, ProcessKind.RESUMED]
    bench.finish("a")


def test_a_skill_that_does_not_come_to_rest_is_stopped(bench: Bench) -> None:
    body = bench.start("walk", "a", "p1")
    bench.kernel.pause_process("p1", "s3")
    bench.clock.run(until_s=0.69)
    assert not body.seen["stop"].is_set()
    bench.clock.run(until_s=0.71)
    assert body.seen["stop"].is_set()
    bench.finish("a", SkillReturn.interruption("half"))
    assert (bench.result("a").outcome, bench.result("a").code) == (Outcome.INTERRUPTED, CallCode.PROCESS_PAUSED)
    assert "pause_evt.rest was not called" in bench.result("a").error


class LateCancel(VirtualClock):
    """Its timers are due already when they are cancelled: what they call waits for the kernel's lock."""

    def call_later(self, delay_s: float, callback: Any) -> OneShotTimer:
        timer = super().call_later(delay_s, callback)
        timer.cancel = lambda: None  # type: ignore[method-assign]
        return timer


def test_the_timer_of_an_earlier_pause_does_not_end_a_later_one() -> None:
    bench = Bench(clock=LateCancel())
    body = bench.start("walk", "a", "p1")
    bench.kernel.pause_process("p1", "s3")
    bench.clock.run(until_s=0.5)
    bench.kernel.resume_process("p1", "s3")
    bench.kernel.pause_process("p1", "s3")
    bench.clock.run(until_s=1.1)
    assert not body.seen["stop"].is_set()
    bench.clock.run(until_s=1.3)
    assert body.seen["stop"].is_set()
    bench.finish("a", SkillReturn.interruption("half"))


def test_the_timer_of_an_earlier_stop_does_not_halt_the_robot() -> None:
    bench = Bench(clock=LateCancel())
    body = bench.start("seek", "a", "p1")
    bench.kernel.pause_process("p1", "s3")
    body.commands.put(SkillReturn.interruption("nothing yet"))
    bench.wait_until(lambda: bench.holders("legs") == ())
    bench.kernel.resume_process("p1", "s3")
    bench.wait_until(lambda: body.begins == 2)
    bench.clock.run(until_s=2.0)
    assert not bench.kernel.state().halted and not body.seen["stop"].is_set()
    bench.finish("a")
    assert bench.result("a").outcome is Outcome.DONE


def test_a_skill_that_cannot_pause_ends_and_says_why(bench: Bench) -> None:
    body = bench.start("go", "a", "p1", arguments={"distance": 2})
    assert bench.kernel.pause_process("p1", "s3").stopped == ("a",) and body.seen["stop"].is_set()
    bench.finish("a", SkillReturn.interruption("1.5 m"))
    result = bench.result("a")
    assert (result.outcome, result.code, result.message) == (Outcome.INTERRUPTED, CallCode.PROCESS_PAUSED, "1.5 m")
    assert "cannot pause; plan it anew" in result.error


def test_a_skill_that_tells_what_remains_does_only_that_after_the_pause(bench: Bench) -> None:
    body = bench.start("haul", "a", "p1", arguments={"loads": 3})
    assert bench.kernel.pause_process("p1", "s3").paused == ("a",) and body.seen["stop"].is_set()
    body.commands.put(SkillReturn.interruption("two done", progress={"loads": 2}))
    bench.wait_until(lambda: bench.holders("arm") == ())
    assert bench.results["a"] == [] and bench.kernel.state().running == ("a",)
    bench.kernel.resume_process("p1", "s3")
    bench.wait_until(lambda: body.begins == 2)
    assert body.seen["loads"] == 1 and not body.seen["stop"].is_set() and bench.holders("arm") == ("a",)
    bench.kernel.pause_process("p1", "s3")
    bench.finish("a", SkillReturn.interruption("the last one", progress={"loads": 1}))
    assert bench.result("a").outcome is Outcome.DONE, "nothing is left"
    assert bench.result("a").message == "two done; after a pause: the last one"


def test_a_skill_that_may_be_called_anew_is(bench: Bench) -> None:
    body = bench.start("seek", "a", "p1")
    bench.kernel.pause_process("p1", "s3")
    bench.kernel.resume_process("p1", "s3")
    body.commands.put(SkillReturn.interruption("nothing yet"))
    bench.wait_until(lambda: body.begins == 2)
    assert not body.seen["stop"].is_set() and bench.holders("legs") == ("a",)
    bench.finish("a")
    assert bench.result("a").outcome is Outcome.DONE


def test_an_open_call_whose_skill_ends_with_the_pause_gives_its_subsystem_away(bench: Bench) -> None:
    bench.start("seek", "a", "p1", open=True)
    bench.kernel.pause_process("p1", "s3")
    bench.finish("a", SkillReturn.success("it holds"))
    assert bench.holders("legs") == () and bench.results["a"] == []
    bench.kernel.resume_process("p1", "s3")
    assert bench.holders("legs") == ("a",)
    bench.kernel.reset("a")
    assert (bench.result("a").outcome, bench.result("a").message) == (Outcome.DONE, "it holds")


def test_one_that_does_not_tell_how_far_it_came_ends(bench: Bench) -> None:
    bench.start("haul", "a", "p1")
    bench.kernel.pause_process("p1", "s3")
    bench.finish("a", SkillReturn.interruption("somewhere"))
    assert (bench.result("a").outcome, bench.result("a").code) == (Outcome.INTERRUPTED, CallCode.PROCESS_PAUSED)


def test_one_that_waits_to_be_called_anew_can_be_ended(bench: Bench) -> None:
    body = bench.start("seek", "a", "p1")
    bench.kernel.pause_process("p1", "s3")
    body.commands.put(SkillReturn.interruption("nothing yet"))
    bench.wait_until(lambda: bench.holders("legs") == ())
    bench.kernel.end_process("p1", "over")
    assert bench.result("a").outcome is Outcome.INTERRUPTED and bench.kernel.state().running == ()


def test_a_call_that_has_not_begun_begins_after_the_pause(bench: Bench) -> None:
    assert bench.execute("say", "a", "p1", streams_content=True) is None
    assert bench.kernel.pause_process("p1", "s3").paused == ("a",) and bench.holders("sound") == ()
    bench.kernel.content("a", 0, "Hello", True)
    bench.start("hum", "b", "p2")
    assert not bench.bodies["a"].started.is_set()
    bench.finish("b")
    bench.kernel.resume_process("p1", "s3")
    assert bench.bodies["a"].started.wait(WAIT_S) and bench.bodies["a"].seen["text"] == "Hello"
    bench.finish("a")


def test_an_open_call_whose_skill_has_ended_waits_without_its_subsystem_and_can_be_reset(bench: Bench) -> None:
    bench.start("walk", "a", "p1", open=True)
    bench.finish("a")
    bench.kernel.pause_process("p1", "s3")
    assert bench.holders("legs") == ()
    bench.start("walk", "b", "p2")
    bench.kernel.reset("a")
    assert bench.result("a").outcome is Outcome.DONE and bench.holders("legs") == ("b",)
    bench.finish("b")


def test_a_composite_rests_before_its_next_skill(bench: Bench) -> None:
    body = bench.start("parade", "a", "p1")
    bench.kernel.pause_process("p1", "s0")
    body.commands.put(("wave", {"key": "inner"}))
    bench.wait_until(lambda: bench.holders("legs") == ())
    assert not bench.bodies["inner"].started.is_set() and bench.holders("arm") == ()
    bench.kernel.resume_process("p1", "s0")
    assert bench.bodies["inner"].started.wait(WAIT_S) and bench.holders("arm") == ("a",)
    bench.bodies["inner"].commands.put(None)
    bench.join("a")


def test_a_composite_that_can_pause_gives_all_away_and_takes_all_back(bench: Bench) -> None:
    body = bench.start("parade", "a", "p1")
    body.commands.put(("wave", {"key": "inner"}))
    inner = bench.bodies["inner"]
    assert inner.started.wait(WAIT_S) and bench.holders("arm") == ("a",)
    bench.kernel.pause_process("p1", "s0")
    inner.commands.put(REST)
    bench.wait_until(lambda: bench.holders("arm") == bench.holders("legs") == ())
    bench.start("wave", "b", "p2")
    assert bench.kernel.resume_process("p1", "s0").holders == ("p2",) and bench.holders("legs") == ()
    bench.finish("b")
    bench.kernel.end_process("p2", "done")
    assert bench.kernel.resume_process("p1", "s0").code is LeaseCode.NONE
    assert bench.holders("arm") == bench.holders("legs") == ("a",)
    inner.commands.put(SkillReturn.success())
    bench.join("a")
    assert bench.result("a").outcome is Outcome.DONE and bench.holders("arm") == ()


# -- who answers for a process ---------------------------------------------------------------------------------------


def checks(beats: Heartbeats, *known: str, rounds: int = 6, hear: Any = lambda: None) -> list[Silence]:
    said = []
    for _ in range(rounds):
        hear()
        said.append(beats.check(known))
    return [s for s in said if s != Silence()]


def test_a_process_ends_with_its_owners_silence_whatever_the_scheduler_says() -> None:
    beats = Heartbeats(5)
    beats.hear(Source.PROCESSES, ["p1", "p2"])
    (silence,) = checks(
        beats, "p1", "p2", hear=lambda: (beats.hear(Source.CALLS, ["p1", "p2"]), beats.hear(Source.PROCESSES, ["p2"]))
    )
    assert silence == Silence(ended=("p1",))


def test_calls_end_with_the_schedulers_silence_but_an_owned_process_keeps_its_subsystems() -> None:
    beats = Heartbeats(5)
    beats.hear(Source.CALLS, ["p1", "p2"])
    (silence,) = checks(beats, "p1", "p2", "never named", hear=lambda: beats.hear(Source.PROCESSES, ["p1"]))
    assert set(silence.orphaned) == {"p1", "p2", "never named"}
    assert set(silence.unclaimed) == {"p2", "never named"}


def test_a_call_that_begins_long_after_the_one_before_is_not_silent_from_its_beginning() -> None:
    """Between the two the scheduler beats and rightly names nothing."""
    beats = Heartbeats(5)
    beats.hear(Source.CALLS, ["p1"])
    for check in range(30):
        beats.hear(Source.PROCESSES, ["p1"])
        silence = beats.check(["p1"], ["p1"] if check >= 5 else [])
        assert not silence.orphaned, check
        beats.hear(Source.CALLS, ["p1"] if check >= 5 else [])


def test_a_scheduler_that_beats_but_never_names_a_running_call_has_forgotten_it() -> None:
    beats = Heartbeats(5)
    beats.hear(Source.CALLS, ["p1"])
    orphaned: list[int] = []
    for check in range(30):
        beats.hear(Source.PROCESSES, ["p1"])
        beats.hear(Source.CALLS, [])
        orphaned += [check] if beats.check(["p1"], ["p1"] if check >= 5 else []).orphaned else []
    assert orphaned and 9 <= orphaned[0] <= 12


def test_who_was_never_answered_for_only_loses_what_it_keeps_idle(bench: Bench) -> None:
    (silence,) = checks(Heartbeats(5), "p1")
    assert silence == Silence(unclaimed=("p1",))
    bench.start("walk", "a", "p1")
    assert not bench.kernel.release_idle("p1")
    bench.finish("a")
    assert bench.kernel.release_idle("p1") and bench.kernel.state().processes == ()
    bench.kernel.pause_process("p1", "user")
    assert not bench.kernel.release_idle("p1"), "a pause is not forgotten"


# -- skills ----------------------------------------------------------------------------------------------------------


def test_the_longest_stop_of_a_skill_is_measured(bench: Bench) -> None:
    for call_id, took_s in (("a", 0.1), ("b", 0.3), ("c", 0.2)):
        bench.start("walk", call_id)
        bench.kernel.interrupt(call_id, "x")
        bench.clock.run(until_s=bench.clock.now() + took_s)
        bench.finish(call_id)
    assert bench.kernel.stop_measured_s == {"walk": pytest.approx(0.3)}


GOOD = """
from typing import Annotated
from skill_kernel import robot_skill, Limited

@robot_skill(subsystem="legs")
def hop(height: Annotated[float, Limited("height")] = 1.0) -> str:
    return "hopped"
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GOOD + "import nothing_of_that_name\n", "nothing_of_that_name"),
        (GOOD + "def (\n", "SyntaxError"),
        (GOOD.replace('"legs"', "()"), "names no subsystem"),
        (GOOD.replace('"height"', '"wings"'), "uses limit 'wings'"),
    ],
)
def test_a_module_that_cannot_be_used_leaves_the_old_skills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hot_skills", raising=False)
    module = tmp_path / "hot_skills.py"
    module.write_text(GOOD)
    robot = ROBOT.model_copy(update={"skills": ["hot_skills"], "limits": {"height": (0.0, 2.0)}})
    registry, clock = SkillRegistry.from_modules(robot.skills), SteadyClock()
    kernel = Kernel(registry, robot, None, clock, on_result=lambda call_id, result: None)
    before = kernel.state().skills_version
    module.write_text(text)
    with pytest.raises(RegistryError, match=why):
        kernel.reload()
    assert kernel.state().skills_version == before and registry.get("hop") is not None
    module.write_text(GOOD + GOOD.replace("hop", "leap"))
    kernel.reload()
    assert kernel.state().skills_version != before and registry.get("leap") is not None
    clock.close()


def test_a_skill_whose_text_is_consumed_cannot_be_called_anew() -> None:
    def say(text: Content) -> None: ...

    with pytest.raises(SkillDefinitionError, match="not there a second time"):
        robot_skill(idempotent=True)(say)
