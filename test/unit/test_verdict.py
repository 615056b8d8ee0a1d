# SPDX-License-Identifier: Apache-2.0
"""Verdicts before dispatch, on the virtual clock with the real scheduler: they can only veto, and in doubt they do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from shell_kit import mapper

from bench.dry_run import AssumedConditions, VirtualExecutor
from bench.virtual_clock import VirtualClock
from function_tokens.parsing.parser import StreamingParser
from function_tokens.scheduling.scheduler import Scheduler
from planners import verdict as verdict_module
from planners.verdict import ProposedCall, Verdict, VerdictWorld, WeighingExecutor, load_verdicts
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.config.plugins import PluginError
from skill_kernel.events import CallEvent, CallKind, RunEvent

Answer = Callable[[str], None]


class Says(Verdict):
    """Does what a test tells it to, and keeps what it was asked."""

    deadline_s = 0.5

    def __init__(self, weigh: Callable[[ProposedCall, Answer], None], name: str = "says") -> None:
        self.name, self._weigh = name, weigh
        self.asked: list[ProposedCall] = []

    def weigh(self, call: ProposedCall, world: VerdictWorld, answer: Answer) -> None:
        self.asked.append(call)
        self._weigh(call, answer)


class Bench:
    """One process with verdicts between its scheduler and a body that takes its declared times."""

    def __init__(self, *verdicts: Verdict) -> None:
        self.clock = VirtualClock()
        self.body = VirtualExecutor(self.clock)
        world = SimpleNamespace(robot=None)
        executor = WeighingExecutor(self.body, "p", verdicts, world, self.clock)  # type: ignore[arg-type]
        self.ended: dict[str, CallEvent] = {}
        ids = itertools.count()
        assumed = AssumedConditions({}, None)
        self.scheduler = Scheduler(
            mapper(), executor, self.clock, self._event, new_call_id=lambda: f"c{next(ids)}", conditions=assumed
        )
        self.body.scheduler = executor.scheduler = self.scheduler

    def _event(self, event: RunEvent) -> None:
        if isinstance(event, CallEvent) and event.kind is CallKind.ENDED:
            self.ended[event.function] = event

    def write(self, text: str) -> None:
        parser = StreamingParser("lenient")
        self.scheduler.open_stream("s")
        for token in (*parser.feed(text), *parser.close()):
            self.scheduler.feed("s", token)
        self.scheduler.end_stream("s")

    def run(self, seconds: float) -> None:
        self.clock.run(self.clock.now() + seconds)


def test_a_call_that_all_let_pass_is_performed_as_ever() -> None:
    first, second = Says(lambda call, answer: answer("")), Says(lambda call, answer: answer(""), "second")
    bench = Bench(first, second)
    bench.write('<walk s="2"/>')
    bench.run(3.0)
    assert bench.ended["walk"].outcome is Outcome.DONE
    assert first.asked == second.asked == [ProposedCall("p", "c0", "walk", {"s": 2.0}, frozenset({"legs"}))]


def test_a_veto_ends_the_call_refused_with_its_sentence() -> None:
    never = Says(lambda call, answer: pytest.fail("one veto is enough"), "never")
    bench = Bench(Says(lambda call, answer: answer("not in this room")), never)
    bench.write("<walk/><nod/>")
    bench.run(3.0)
    result = bench.ended["walk"]
    assert (result.outcome, result.error_code, result.error_msg) == (
        Outcome.REFUSED,
        CallCode.VETOED,
        "verdict 'says': not in this room",
    )


def test_one_that_raises_vetoes_and_says_so() -> None:
    bench = Bench(Says(lambda call, answer: (_ for _ in ()).throw(KeyError("room"))))
    bench.write("<walk/>")
    assert bench.ended["walk"].outcome is Outcome.REFUSED
    assert bench.ended["walk"].error_msg == "verdict 'says': it failed: KeyError: 'room'"


def test_one_that_is_late_vetoes_and_what_it_says_then_counts_no_more() -> None:
    answers: list[Answer] = []
    bench = Bench(Says(lambda call, answer: answers.append(answer)))
    bench.write("<walk/>")
    bench.run(0.4)
    assert not bench.ended
    bench.run(0.2)
    assert bench.ended["walk"].error_msg == "verdict 'says': it gave no answer within 0.5 s"
    answers[0]("")
    bench.run(2.0)
    assert bench.ended["walk"].outcome is Outcome.REFUSED


def test_what_comes_while_it_is_weighed_follows_the_start() -> None:
    answers: list[Answer] = []
    bench = Bench(Says(lambda call, answer: answers.append(answer)))
    bench.write("<note>hello</note>")
    bench.run(0.3)
    assert not bench.ended
    answers[0]("")
    bench.run(6.0)
    assert bench.ended["note"].outcome is Outcome.DONE


def test_an_interrupt_ends_a_call_that_is_still_weighed() -> None:
    answers: list[Answer] = []
    bench = Bench(Says(lambda call, answer: answers.append(answer)))
    bench.write("<walk/>")
    bench.scheduler.interrupt("a halt")
    assert bench.ended["walk"].outcome is Outcome.DROPPED, "it has not begun"
    answers[0]("")
    bench.run(2.0)
    assert bench.ended["walk"].outcome is Outcome.DROPPED


def test_a_verdict_that_is_not_installed_or_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PluginError, match="there is no 'nonsense' in ghostshell.verdicts"):
        load_verdicts(["nonsense"])
    monkeypatch.setattr(verdict_module, "load_plugin", lambda group, name: print)
    with pytest.raises(PluginError, match="'print' is no Verdict of that name"):
        load_verdicts(["print"])
