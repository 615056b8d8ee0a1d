# SPDX-License-Identifier: Apache-2.0
"""Laws of RunModel and of the order in which events are read: whatever the wire does to them, the picture is the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function_tokens import run_model
from function_tokens.run_model import RunModel
from ghostshell_ros.wire.events import EventOrder
from skill_kernel.codes import ModelCode, Outcome
from skill_kernel.events import (
    CallEvent,
    CallKind,
    ModelEvent,
    ModelKind,
    Notice,
    NoticeKind,
    ProcessEvent,
    ProcessKind,
    RunEvent,
    StreamEvent,
    StreamKind,
)
from skill_kernel.processes.process import LayerUsage

LIFE = (CallKind.QUEUED, CallKind.STARTED, CallKind.RESETTING, CallKind.ENDED)


def numbered(events: list[RunEvent], node: str = "channel_scheduler") -> list[RunEvent]:
    """Return the events as one node writes them."""
    return [dataclasses.replace(e, node=node, session=1, seq=n, stamp_s=float(n)) for n, e in enumerate(events, start=1)]


@st.composite
def lives(draw: st.DrawFn) -> list[list[RunEvent]]:
    """Return the events of some calls, each call in its order, of some processes."""
    found = []
    for n in range(draw(st.integers(1, 5))):
        kinds = [k for k in LIFE[:3] if draw(st.booleans())] + [CallKind.ENDED] * draw(st.booleans())
        about: dict[str, Any] = {"call_id": f"c{n}", "process_id": f"p{draw(st.integers(0, 2))}", "function": "walk"}
        outcome = draw(st.sampled_from(list(Outcome)))
        found.append(
            [
                CallEvent(
                    kind=kind, stamp_s=10.0 * n + kind.value, outcome=outcome if kind is CallKind.ENDED else None, **about
                )
                for kind in kinds
            ]
        )
    return found


def picture(model: RunModel) -> dict[str, Any]:
    calls = {name: dataclasses.asdict(call) for name, call in model.calls.items()}
    by_process = {name: set(process.calls) for name, process in model.processes.items() if process.calls}
    return {"calls": calls, "by process": by_process, "halts": set(model.halts)}


def folded(events: list[RunEvent]) -> RunModel:
    model = RunModel()
    for event in events:
        model.take(event)
    return model


@given(lives(), st.randoms(use_true_random=False))
def test_calls_are_the_same_in_whatever_order_their_events_come(events: list[list[RunEvent]], random: Any) -> None:
    flat = [event for call in events for event in call]
    mixed = list(flat)
    random.shuffle(mixed)
    assert picture(folded(mixed)) == picture(folded(flat))


@given(lives(), st.randoms(use_true_random=False))
def test_events_that_come_twice_change_nothing(events: list[list[RunEvent]], random: Any) -> None:
    asked = [ModelEvent(kind=k, process_id="p0", layer="s1", prompt_tokens=7) for k in (ModelKind.ASKED, ModelKind.ANSWERED)]
    flat = numbered([*(event for call in events for event in call), *asked, Notice(kind=NoticeKind.HALTED, error_msg="halt")])
    once, twice = folded(flat), folded(flat)
    again = list(flat)
    random.shuffle(again)
    assert not any(twice.take(event) for event in again)
    assert picture(once) == picture(twice) and len(twice.halts) == 1
    assert twice.processes["p0"].usage[0].prompt_tokens == 7


@given(lives(), st.sets(st.integers(0, 19)))
def test_a_call_has_one_outcome_and_a_gap_never_raises(events: list[list[RunEvent]], lost: set[int]) -> None:
    flat = [event for call in events for event in call]
    model = folded([event for n, event in enumerate(flat) if n not in lost])
    for call in model.calls.values():
        ends = [e for e in flat if isinstance(e, CallEvent) and e.call_id == call.call_id and e.kind is CallKind.ENDED]
        assert call.outcome in {None, *(e.outcome for e in ends)}
        assert (call.outcome is None) == (call.kind is not CallKind.ENDED)
        other = next(o for o in Outcome if o is not call.outcome)
        late = CallEvent(kind=CallKind.ENDED, call_id=call.call_id, process_id=call.process_id, outcome=other)
        before = call.outcome
        model.take(late)
        assert before is None or call.outcome is before, "an outcome is final"


ids = st.sampled_from(["", "p", "reflex-x-1"])
any_event = st.one_of(
    st.builds(CallEvent, kind=st.sampled_from(CallKind), process_id=ids, call_id=st.text()),
    st.builds(StreamEvent, kind=st.sampled_from(StreamKind), stream_id=st.text()),
    st.builds(ProcessEvent, kind=st.sampled_from(ProcessKind), process_id=st.text()),
    st.builds(ModelEvent, kind=st.sampled_from(ModelKind), process_id=ids, layer=st.text(), error_code=st.integers(0, 600)),
    st.builds(Notice, kind=st.sampled_from(NoticeKind), process_id=ids, text=st.text()),
)


@given(st.lists(any_event, max_size=60))
def test_whoever_joins_late_folds_whatever_comes(events: list[RunEvent]) -> None:
    model = folded(events)
    assert all(model.calls[c] is call for p in model.processes.values() for c, call in p.calls.items())
    assert sum(len(p.calls) for p in model.processes.values()) == len(model.calls)


def test_memory_is_bounded_and_what_lives_is_kept_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_model, "MAX_SEEN", 30)
    model = RunModel(calls=50, processes=10)
    model.take(CallEvent(kind=CallKind.STARTED, call_id="lives", process_id="p"))
    model.see_process("p", 0.0, instruction="stay", source="USER", status="IN_PROGRESS")
    for n in range(500):
        model.see_process(f"q{n}", 0.0, instruction="go", source="USER", status="SUCCESS")
        model.take(
            CallEvent(kind=CallKind.ENDED, call_id=f"c{n}", process_id=f"q{n}", outcome=Outcome.DONE, node="n", seq=n + 1)
        )
        model.take(CallEvent(kind=CallKind.ENDED, call_id=f"d{n}", process_id="p", outcome=Outcome.DONE))
        model.take(Notice(kind=NoticeKind.HALTED))
    assert len(model.calls) <= 50 and len(model.processes) <= 10 and len(model.halts) == run_model.MAX_HALTS
    assert "lives" in model.calls and "p" in model.processes and len(model._seen) <= 30


def test_what_is_thought_and_spent_is_kept_by_process_and_layer() -> None:
    model = RunModel()
    model.take(ModelEvent(kind=ModelKind.ASKED, process_id="p", layer="s2", stamp_s=1.0))
    process = model.processes["p"]
    assert process.asking["s2"].begun_s == 1.0 and not process.usage
    spent = {"prompt_tokens": 30, "cached_tokens": 20, "completion_tokens": 4, "cost_usd": 0.5}
    model.take(ModelEvent(kind=ModelKind.ANSWERED, process_id="p", layer="s2", stamp_s=3.5, start_s=1.0, end_s=3.5, **spent))
    assert not process.asking and process.usage == (LayerUsage("s2", "", 1, 0, 0, 30, 20, 4, 0.5, 2.5, 2.5),)
    for code in (int(ModelCode.MODEL_CANCELLED), int(ModelCode.MODEL_TIMEOUT)):
        model.take(ModelEvent(kind=ModelKind.ASKED, process_id="p", layer="s2", stamp_s=4.0))
        model.take(ModelEvent(kind=ModelKind.ANSWERED, process_id="p", layer="s2", stamp_s=5.0, error_code=code))
    model.take(ModelEvent(kind=ModelKind.SKIPPED, process_id="p", layer="s2", reason="nothing has changed"))
    (usage,) = process.usage
    assert (usage.calls, usage.failures, usage.skipped) == (3, 1, 1)
    assert [q.answer is not None and q.answer.unwanted for q in process.questions] == [False, True, False]


def test_the_process_of_a_reflex_begins_with_its_first_notice_and_ends_with_the_next() -> None:
    model = RunModel()
    model.reflexes = {"back": "step back"}
    reflex: dict[str, Any] = {"process_id": "reflex-back-1"}
    model.take(Notice(**reflex, text="someone is near"))
    process = model.processes["reflex-back-1"]
    assert (process.instruction, process.source, process.status) == ("step back", "REFLEX", "IN_PROGRESS")
    model.take(CallEvent(kind=CallKind.STARTED, call_id="c", function="move_back", **reflex))
    model.take(CallEvent(kind=CallKind.ENDED, call_id="c", outcome=Outcome.DONE, **reflex))
    model.take(Notice(**reflex, text="done"))
    assert process.status == "SUCCESS" and process.calls["c"].outcome is Outcome.DONE


class Wire:
    """Topics that keep their own order and no other, and a timer that the test fires."""

    def __init__(self) -> None:
        self.read: list[RunEvent] = []
        self.due: list[Callable[[], None]] = []
        self.order = EventOrder(self.read.append, lambda _, call: self.due.append(call))

    def fire(self) -> None:
        while self.due:
            self.due.pop(0)()


@given(lives(), st.randoms(use_true_random=False))
def test_what_one_node_wrote_is_read_in_its_order_whichever_topic_is_faster(events: list[list[RunEvent]], random: Any) -> None:
    ends = [StreamEvent(kind=StreamKind.TURN_ENDED), ProcessEvent(kind=ProcessKind.DRAINED), Notice(text="n")]
    written = numbered([*(event for call in events for event in call), *ends])
    topics = [[e for e in written if isinstance(e, kind)] for kind in (CallEvent, StreamEvent, ProcessEvent, Notice)]
    wire = Wire()
    while any(topics):
        wire.order.take(random.choice([t for t in topics if t]).pop(0))
    assert wire.read == written


@given(st.sets(st.integers(0, 9)), st.integers(0, 9))
def test_what_is_lost_is_waited_for_once_and_a_restart_begins_anew(lost: set[int], joined: int) -> None:
    written = numbered([Notice(text=str(n)) for n in range(10)])
    wire = Wire()
    heard = [e for n, e in enumerate(written) if n not in lost and n >= joined]
    for event in heard:
        wire.order.take(event)
    wire.fire()
    assert wire.read == heard
    again = [dataclasses.replace(e, session=2) for e in written]
    for event in again:
        wire.order.take(event)
    assert wire.read == heard + again and not wire.due


def test_of_two_questions_of_a_layer_each_gets_its_own_answer() -> None:
    model = RunModel()
    for kind, at, start in ((ModelKind.ASKED, 1.0, 0.0), (ModelKind.ASKED, 2.0, 0.0), (ModelKind.ANSWERED, 3.0, 1.0)):
        model.take(ModelEvent(kind=kind, process_id="p", layer="critic", start_s=start, end_s=at, stamp_s=at))
    first, second = model.processes["p"].questions
    assert (first.ended_s, second.ended_s) == (3.0, None)
    assert model.processes["p"].asking == {"critic": second}
