# SPDX-License-Identifier: Apache-2.0
"""The laws C1 to C12 of the channel scheduler, on the worked examples, on random trees and on odd orders of events."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shell_kit import Node, mapper, reference_schedule
from thorough import examples

from bench.dry_run import AssumedConditions, DryRun, dry_run
from bench.virtual_clock import VirtualClock
from function_tokens.parsing.parser import StreamingParser
from function_tokens.routines import RoutineStore
from function_tokens.scheduling.calls import Call
from function_tokens.scheduling.scheduler import Scheduler, SchedulerSettings
from skill_kernel.calls import CallResult
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallKind, ProcessKind, RunEvent, StreamKind


def times(run: DryRun) -> list[tuple[str, float | None, float | None]]:
    return [(c.function, c.start_s, c.end_s) for c in run.calls]


EXAMPLES = {
    '<walk s="2"/><turn s="1"/>': [("walk", 0, 2), ("turn", 2, 3)],
    '<walk s="2"/><nod s="1"/>': [("walk", 0, 2), ("nod", 0, 1)],
    '<walk s="2"/>Hello<nod s="1"/>': [("walk", 0, 2), ("text", 0, 1), ("nod", 1, 2)],
    '<nod s="1"/>A<nod s="1"/>B': [("nod", 0, 1), ("text", 0, 1), ("nod", 1, 2), ("text", 1, 2)],
    '<spin>One<nod s="1"/></spin><walk s="1"/>': [("spin", 0, 2), ("text", 0, 1), ("nod", 1, 2), ("walk", 2, 3)],
    '<wait><walk s="2"/><nod s="1"/></wait><swing s="1"/>': [("wait", 0, 2), ("walk", 0, 2), ("nod", 0, 1), ("swing", 2, 3)],
    '<walk s="2" sync="true"/><nod s="1"/>': [("walk", 0, 2), ("nod", 2, 3)],
    '<walk s="10"/><spin>One</spin>': [("walk", 0, 10), ("spin", 10, 11), ("text", 10, 11)],
    '<wait><music><walk s="1"/></music></wait><nod s="1"/>': [("wait", 0, 1), ("music", 0, 1), ("walk", 0, 1), ("nod", 1, 2)],
    '<music>One<walk s="2"/>Two<walk s="1"/></music>': [
        ("music", 0, 4),
        ("text", 0, 1),
        ("walk", 1, 3),
        ("text", 1, 2),
        ("walk", 3, 4),
    ],
}


@pytest.mark.parametrize("chunk", [0, 1, 3])
@pytest.mark.parametrize("stream", EXAMPLES)
def test_worked_examples_have_the_timeline_of_the_semantics(stream: str, chunk: int) -> None:
    run = dry_run(stream, mapper(), chunk=chunk, mode="strict")
    assert times(run) == EXAMPLES[stream]
    assert {c.outcome for c in run.calls} == {"DONE"}


def test_an_interrupt_ends_every_running_call_after_its_stop_time() -> None:
    stops = {"walk": 0.2, "music": 0.0, "nod": 0.5}
    run = dry_run(
        '<walk s="10"/><music/><nod s="9"/><nod s="9"/>', mapper(), interrupt_at_s=5.5, stop_time=lambda c: stops[c.function]
    )
    assert [(c.function, c.end_s, c.outcome) for c in run.calls] == [
        ("walk", 5.7, "INTERRUPTED"),
        ("music", 5.5, "INTERRUPTED"),
        ("nod", 6.0, "INTERRUPTED"),
        ("nod", 5.5, "DROPPED"),
    ]


# -- random trees against the reference schedule ------------------------------------------------------------------------

LEAVES = {"walk": "legs", "turn": "legs", "nod": "head", "swing": "ear_left", "music": "bgm"}


@st.composite
def trees(draw: st.DrawFn, held: frozenset[str] = frozenset(), depth: int = 3) -> list[Node]:
    nodes = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["scf", "scf", "text", "wait", "af"] if depth else ["scf", "scf", "text"]))
        free = [n for n, c in LEAVES.items() if c not in held]
        if kind in ("scf", "af") and not free:
            kind = "text"
        if kind == "text":
            if nodes and nodes[-1].kind == "text":
                continue
            nodes.append(Node("text", "text", {}, frozenset({"main"}), 1.0))
            continue
        if kind == "wait":
            nodes.append(Node("wait", "wait", {}, frozenset({"main"}), 0.0, draw(trees(held, depth - 1))))
            continue
        name = draw(st.sampled_from(free))
        seconds = draw(st.integers(0, 4))
        attrs = {} if name == "music" else {"s": str(seconds)}
        channels = frozenset({LEAVES[name]})
        if draw(st.integers(0, 5)) == 0:
            attrs["sync"] = "true"
            channels |= {"main"}
        duration = 60.0 if name == "music" else float(seconds)
        children = draw(trees(held | {LEAVES[name]}, depth - 1)) if kind == "af" else []
        nodes.append(Node(kind, name, attrs, channels, duration, children))
    for node in nodes:
        for child in node.children:
            child.parent = node
    return nodes


@settings(max_examples=examples(1000))
@given(trees(), st.integers(0, 5))
def test_random_trees_run_exactly_as_the_laws_say(roots: list[Node], chunk: int) -> None:
    run = dry_run("".join(n.source() for n in roots), mapper(), chunk=chunk, mode="strict")
    expected = [(n.name, n.start, n.end) for n in reference_schedule(roots)]
    assert times(run) == expected
    assert {c.outcome for c in run.calls} <= {"DONE"}


@settings(max_examples=examples(500))
@given(trees(), st.integers(1, 7), st.floats(1, 40), st.floats(0, 12), st.floats(0, 1))
def test_whatever_the_pace_and_the_interrupt_every_call_has_one_outcome_and_nothing_overlaps(
    roots: list[Node], chunk: int, rate: float, interrupt_s: float, stop_s: float
) -> None:
    source = "".join(n.source() for n in roots)
    run = dry_run(source, mapper(), chunk=chunk, chars_per_s=rate, interrupt_at_s=interrupt_s, stop_time=lambda _: stop_s)
    by_id = {c.call_id: c for c in run.calls}
    assert len(by_id) == len(run.calls)
    for call in run.calls:
        assert call.outcome in {"DONE", "INTERRUPTED", "DROPPED"}
        assert call.end_s is not None
        assert (call.start_s is None) == (call.outcome == "DROPPED")
        if call.start_s is not None:
            assert call.start_s <= call.end_s <= max(call.start_s + 60, interrupt_s + stop_s) + 1e-9
        parent = by_id.get(call.parent_id)
        if parent is not None and call.start_s is not None:
            assert parent.start_s is not None and parent.start_s <= call.start_s
            assert call.end_s <= parent.end_s + 1e-9

    def around(call: object) -> set[str]:
        found, parent = set(), call.parent_id
        while parent:
            found.add(parent)
            parent = by_id[parent].parent_id
        return found

    for first, second in itertools.combinations([c for c in run.calls if c.start_s is not None], 2):
        if first.call_id in around(second):
            continue
        if "main" in first.channels or set(first.channels) & set(second.channels):
            assert second.start_s >= first.end_s - 1e-9, (source, first, second)


# -- single laws --------------------------------------------------------------------------------------------------------


class Rig:
    """A scheduler on a virtual clock whose calls end when the test says so."""

    def __init__(self, **settings: float) -> None:
        self.clock = VirtualClock()
        self.events: list[RunEvent] = []
        self.started: list[str] = []
        self.resets: list[str] = []
        self.stops: list[str] = []
        self.contents: dict[str, list[tuple[str, bool]]] = {}
        ids = itertools.count(1)
        self.scheduler = Scheduler(
            mapper(),
            self,
            self.clock,
            self.events.append,
            new_call_id=lambda: f"c{next(ids)}",
            settings=SchedulerSettings(**settings),
            conditions=AssumedConditions({}, None),
        )
        self.parser = StreamingParser("lenient")
        self.scheduler.open_stream("s")

    def start(self, call: Call) -> None:
        self.started.append(call.function)

    def content(self, call: Call, text: str, last: bool) -> None:
        self.contents.setdefault(call.function, []).append((text, last))

    def reset(self, call: Call) -> None:
        self.resets.append(call.function)

    def stop(self, call: Call, cause: str) -> None:
        self.stops.append(call.function)

    def feed(self, text: str) -> None:
        for token in self.parser.feed(text):
            self.scheduler.feed("s", token)

    def close(self) -> None:
        for token in self.parser.close():
            self.scheduler.feed("s", token)
        self.scheduler.end_stream("s")

    def id_of(self, function: str) -> str:
        return next(c.call_id for c in self.scheduler.live_calls if c.function == function)

    def run(self, function: str) -> None:
        self.scheduler.started(self.id_of(function))

    def end(self, function: str, outcome: Outcome = Outcome.DONE, code: CallCode = CallCode.NONE) -> None:
        self.scheduler.ended(self.id_of(function), CallResult(outcome, code, "why" if code else ""))

    def outcomes(self) -> list[tuple[str, str]]:
        return [(e.function, e.outcome_name) for e in self.events if e.kind is CallKind.ENDED]

    def reasons(self) -> list[str]:
        return [e.end for e in self.events if e.kind is StreamKind.TURN_ENDED]


def test_a_call_starts_before_the_stream_has_ended() -> None:
    rig = Rig()
    rig.feed('<walk s="1"/')
    assert rig.started == []
    rig.feed(">")
    assert rig.started == ["walk"]


def test_text_starts_at_the_first_phrase_boundary_and_extends_until_another_token_c4() -> None:
    rig = Rig()
    rig.feed("  Hello")
    assert rig.started == []
    rig.feed(", my")
    assert rig.started == ["text"]
    rig.feed(" friend. \n")
    rig.feed("<nod/>")
    assert "".join(t for t, _ in rig.contents["text"]) == "Hello, my friend."
    assert [last for _, last in rig.contents["text"]][-1] is True
    assert rig.started == ["text"]
    rig.run("text")
    rig.end("text")
    assert rig.started == ["text", "nod"]


def test_white_space_alone_is_no_call_c4() -> None:
    assert times(dry_run(" \n <walk/> \t\n <nod/>\n", mapper())) == [("walk", 0, 1), ("nod", 0, 1)]


def test_an_open_call_whose_body_failed_ends_failed_after_its_children_c11() -> None:
    rig = Rig()
    rig.feed("<spin><nod/>")
    rig.run("spin")
    rig.run("nod")
    rig.feed("<nod/>")
    rig.end("spin", Outcome.FAILED, CallCode.SKILL_FAILED)
    assert rig.outcomes() == [("nod", "DROPPED")]
    rig.end("nod")
    assert rig.outcomes() == [("nod", "DROPPED"), ("nod", "DONE"), ("spin", "FAILED")]


def test_a_failure_on_an_exclusive_subsystem_ends_the_turn_c11() -> None:
    rig = Rig()
    rig.feed("<music><walk/><nod/><turn/>Hello.")
    rig.run("music"), rig.run("walk"), rig.run("nod")
    rig.end("walk", Outcome.FAILED, CallCode.SKILL_FAILED)
    assert ("turn", "DROPPED") in rig.outcomes() and ("text", "DROPPED") not in rig.outcomes()
    rig.run("text")
    rig.end("text")
    assert any(e.kind is StreamKind.STOP_GENERATION for e in rig.events)
    assert rig.resets == [] and rig.reasons() == []
    rig.feed("<turn/>")
    assert rig.outcomes()[-1] == ("turn", "DROPPED")
    rig.end("nod")
    assert rig.resets == ["music"]
    assert rig.reasons() == ["failure"]
    rig.end("music")
    assert rig.events[-1].kind is ProcessKind.DRAINED


def test_a_failure_on_a_shared_subsystem_is_only_reported_c11() -> None:
    rig = Rig()
    rig.feed("<music/><walk/><turn/>")
    rig.run("music"), rig.run("walk")
    rig.end("music", Outcome.FAILED, CallCode.SKILL_FAILED)
    rig.end("walk")
    assert rig.started == ["music", "walk", "turn"]


def test_an_unknown_element_is_refused_with_everything_inside_it() -> None:
    run = dry_run('<if_raining>Run!<walk s="1"/><nod><swing/></nod></if_raining><turn s="1"/>', mapper())
    assert [(c.function, c.outcome) for c in run.calls] == [
        ("if_raining", "REFUSED"),
        ("text", "REFUSED"),
        ("walk", "REFUSED"),
        ("nod", "REFUSED"),
        ("swing", "REFUSED"),
        ("turn", "DROPPED"),
    ]
    assert all(c.start_s is None for c in run.calls)


def test_a_function_that_does_not_exist_ends_the_turn_unless_its_like_is_harmless() -> None:
    assert [c.outcome for c in dry_run('<walk s="1"/><fly/><nod/>', mapper()).calls] == ["DONE", "REFUSED", "DROPPED"]
    assert [c.outcome for c in dry_run("<pingg/><nod/>", mapper()).calls] == ["REFUSED", "DONE"]


@pytest.mark.parametrize("tag", ['if cond="always"', 'elif cond="always"', "else"])
def test_a_branch_outside_a_step_is_refused_with_everything_inside_it(tag: str) -> None:
    run = dry_run(f"<{tag}><walk/></{tag.split()[0]}>", mapper())
    assert [c.outcome for c in run.calls] == ["REFUSED", "REFUSED"]
    assert run.calls[0].code == CallCode.RESERVED_NAME and run.calls[0].error.startswith(f"<{tag.split()[0]}> ")


def test_wrappers_are_transparent() -> None:
    assert times(dry_run('<response><actions><walk s="2"/></actions>Hi</response>', mapper())) == [
        ("walk", 0, 2),
        ("text", 0, 1),
    ]


def test_a_call_on_a_channel_an_ancestor_holds_is_refused_and_ends_the_turn_c7() -> None:
    run = dry_run("<spin><walk/><nod/></spin><turn/>", mapper())
    assert [(c.function, c.outcome) for c in run.calls] == [
        ("spin", "DONE"),
        ("walk", "REFUSED"),
        ("nod", "DROPPED"),
        ("turn", "DROPPED"),
    ]
    assert run.calls[1].code == CallCode.CHANNEL_HELD_BY_ANCESTOR


def test_several_channels_are_taken_together_in_token_order() -> None:
    run = dry_run('<swing s="2"/><both_ears s="1"/><swing side="right" s="1"/>', mapper())
    assert times(run) == [("swing", 0, 2), ("both_ears", 2, 3), ("swing", 3, 4)]


def test_calls_on_a_parallel_subsystem_do_not_wait_for_one_another() -> None:
    assert times(dry_run("<ping/><ping/>Hi<ping/>", mapper())) == [
        ("ping", 0, 1),
        ("ping", 0, 1),
        ("text", 0, 1),
        ("ping", 1, 2),
    ]


def test_content_is_argument_and_not_spoken() -> None:
    run = dry_run("<note>ab &lt; c</note>", mapper())
    assert [(c.function, dict(c.arguments), c.end_s) for c in run.calls] == [("note", {"text": "ab < c"}, 6.0)]


def test_an_atomic_skill_is_not_cut_short_by_its_reset_c9() -> None:
    assert times(dry_run("<kneel>Hi</kneel>", mapper())) == [("kneel", 0, 3), ("text", 0, 1)]


def test_observe_ends_the_turn_when_motion_has_ended_and_drops_what_follows() -> None:
    rig = Rig()
    rig.feed("<music/><walk/>Look.<observe/><nod/>")
    rig.run("music"), rig.run("walk"), rig.run("text")
    assert ("nod", "DROPPED") in rig.outcomes()
    rig.end("text")
    assert rig.reasons() == []
    rig.end("walk")
    assert rig.reasons() == ["observe"]
    assert [c.function for c in rig.scheduler.live_calls] == ["music"]


def test_observe_inside_an_open_motion_does_not_wait_for_the_motion_around_it() -> None:
    assert times(dry_run("<spin><observe/></spin>", mapper())) == [("spin", 0, 0), ("observe", 0, 0)]


def test_observe_has_a_deadline() -> None:
    rig = Rig(observe_timeout_s=4.0)
    rig.feed("<walk/><observe/>")
    rig.run("walk")
    rig.clock.run(until_s=3.9)
    assert rig.reasons() == []
    rig.clock.run(until_s=4.1)
    assert rig.reasons() == ["observe"]


@pytest.mark.parametrize(
    "source",
    ["<ask>Shall I walk?</ask><walk/>Here I go.", "<ask/><walk/>", "<wait><wait><ask>Shall I?</ask></wait></wait><walk/>"],
)
def test_a_call_that_decides_ends_the_answer_and_the_next_turn_begins_with_its_result(source: str) -> None:
    rig = Rig()
    rig.feed("<music/>")
    rig.run("music")
    rig.feed(source)
    rig.run("ask")
    assert rig.reasons() == [] and ("walk", "DROPPED") in rig.outcomes(), "it was written before the answer was known"
    rig.end("ask")
    assert rig.reasons() == ["observe"] and [c.function for c in rig.scheduler.live_calls] == ["music"]


def test_a_call_that_decides_inside_a_routine_ends_the_answer_behind_it(tmp_path: Path) -> None:
    routines = RoutineStore(tmp_path / "routines.json", clock=lambda: 0.0)
    routines.save("greet", "", "<ask>Shall I?</ask>")
    run = dry_run('<run name="greet"/><walk/>', mapper(), routines=routines)
    assert [(c.function, c.outcome) for c in run.calls] == [("run", "DONE"), ("ask", "DONE"), ("walk", "DROPPED")]
    assert run.reason == "observe"


def test_what_waits_behind_a_call_that_decides_inside_an_element_is_dropped_when_that_fails() -> None:
    rig = Rig()
    rig.feed("<wait><ask>Shall I?</ask><walk/></wait><nod/>")
    rig.close()
    rig.run("ask")
    assert rig.started == ["ask"], "it is on main"
    rig.end("ask", Outcome.FAILED, CallCode.SKILL_FAILED)
    assert rig.started == ["ask"] and rig.reasons() == ["observe"]
    assert {o for f, o in rig.outcomes() if f in ("walk", "nod")} == {"DROPPED"}


def test_stop_ends_what_was_started_before_on_that_channel_only() -> None:
    run = dry_run('<music/><walk s="5"/>Hi<stop channel="bgm"/><nod s="1"/>', mapper())
    assert [(c.function, c.end_s, c.outcome) for c in run.calls] == [
        ("music", 1, "INTERRUPTED"),
        ("walk", 5, "DONE"),
        ("text", 1, "DONE"),
        ("stop", 1, "DONE"),
        ("nod", 2, "DONE"),
    ]


def test_stop_of_an_unknown_channel_is_refused_with_the_channels_there_are() -> None:
    run = dry_run('<stop channel="wings"/>', mapper())
    assert run.calls[0].outcome == "REFUSED" and "legs" in run.calls[0].error
    assert dry_run('<stop channel="ear_right"/>', mapper()).calls[0].outcome == "DONE"


def test_a_silent_stream_with_an_open_element_is_ended_c12() -> None:
    rig = Rig(silence_s=3.0)
    rig.feed("<spin>")
    rig.run("spin")
    rig.clock.run(until_s=2.9)
    assert rig.resets == []
    rig.clock.run(until_s=3.1)
    assert rig.resets == ["spin"]
    assert any(e.kind is StreamKind.STOP_GENERATION for e in rig.events)


def test_an_interrupt_of_one_channel_leaves_the_others_and_takes_what_stands_inside() -> None:
    rig = Rig()
    rig.feed("<spin><nod/></spin><swing/><walk/>")
    rig.run("spin"), rig.run("nod"), rig.run("swing")
    assert set(rig.scheduler.interrupt("test", ["legs"])) == {"c1", "c2"}
    assert sorted(rig.stops) == ["nod", "spin"]
    assert rig.outcomes() == [("walk", "DROPPED")]
    rig.end("swing")
    assert ("swing", "DONE") in rig.outcomes()


def test_a_held_subsystem_keeps_the_call_at_the_head_of_its_queue_c10() -> None:
    rig = Rig()
    rig.feed("<walk/><turn/>")
    rig.scheduler.held(rig.id_of("walk"), "held by p2")
    assert rig.started == ["walk"] and rig.outcomes() == []
    rig.scheduler.freed()
    assert rig.started == ["walk", "walk"]
    rig.run("walk"), rig.end("walk")
    assert rig.started == ["walk", "walk", "turn"]


def test_a_call_the_kernel_never_began_is_dropped_not_interrupted() -> None:
    rig = Rig()
    rig.feed("<walk/>")
    rig.scheduler.interrupt("test")
    rig.end("walk", Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY)
    assert rig.outcomes() == [("walk", "DROPPED")]


def test_more_waiting_calls_than_allowed_end_the_turn() -> None:
    rig = Rig(max_unstarted=5)
    rig.feed("<walk/>" * 20)
    assert [o for _, o in rig.outcomes()].count("REFUSED") == 1
    assert not any(call.unbegun for call in rig.scheduler.live_calls)


def test_a_late_result_or_start_of_an_ended_call_changes_nothing() -> None:
    rig = Rig()
    rig.feed("<walk/>")
    call_id = rig.id_of("walk")
    rig.run("walk"), rig.end("walk")
    rig.scheduler.started(call_id)
    rig.scheduler.ended(call_id, CallResult(Outcome.FAILED))
    assert rig.outcomes() == [("walk", "DONE")]


def test_a_strict_stream_ends_at_the_first_refusal() -> None:
    run = dry_run("<unknown/><walk/>", mapper(), mode="strict")
    assert [(c.function, c.outcome) for c in run.calls] == [("unknown", "REFUSED"), ("walk", "DROPPED")]


@settings(max_examples=examples(500))
@given(
    st.lists(
        st.sampled_from(
            [
                "<walk/>",
                "<spin>",
                "</spin>",
                "<nod>",
                "</nod>",
                "<music>",
                "</music>",
                "<wait>",
                "</wait>",
                "Hi.",
                " ",
                "<observe/>",
                '<stop channel="legs"/>',
                "<stop/>",
                "<bogus>",
                "</bogus>",
                '<walk s="x"/>',
                '<sleep seconds="2"/>',
                "<plan_done/>",
                "<save name='r'>",
                "</save>",
                "<run name='r'/>",
                "&amp;",
                "<",
                "<both_ears/>",
                "<swing side='right'>",
                "</swing>",
            ]
        ),
        max_size=25,
    ),
    st.floats(0.5, 40),
    st.one_of(st.none(), st.floats(0, 10)),
)
def test_any_stream_of_tags_ends_with_one_outcome_a_call(parts: list[str], rate: float, interrupt_s: float | None) -> None:
    run = dry_run("".join(parts), mapper(), chunk=3, chars_per_s=rate, interrupt_at_s=interrupt_s)
    assert len({c.call_id for c in run.calls}) == len(run.calls)
    assert all(c.end_s is not None and c.outcome in Outcome.__members__ for c in run.calls)
    opened = sum(p.startswith("<") and not p.startswith("</") and len(p) > 1 for p in parts)
    assert sum(c.function != "text" for c in run.calls) <= opened
