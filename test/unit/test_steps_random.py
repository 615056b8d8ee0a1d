# SPDX-License-Identifier: Apache-2.0
"""Random plans in steps, held against a reading of the rules that knows no scheduler."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st
from shell_kit import mapper
from step_kit import Plan, Told
from thorough import examples

from bench.calls import CallRun
from bench.dry_run import AssumedConditions, DryRun, call_line, dry_run
from function_tokens.scheduling.calls import Call
from function_tokens.scheduling.queues import StepQueue
from skill_kernel.codes import Outcome
from skill_kernel.events import ProcessKind

TABLE: dict[str, bool | None] = {"yes1": True, "yes2": True, "no1": False, "no2": False, "who": None}
KNOWN = [c for c, holds in TABLE.items() if holds is not None]
LEAVES = ("walk", "turn", "nod", "swing", "ping")


@dataclass
class Node:
    """An element of a plan; a leaf is told apart by how long it takes."""

    name: str
    attrs: dict[str, str] = field(default_factory=dict)
    inside: list[Node] = field(default_factory=list)

    @property
    def label(self) -> str:
        return self.attrs.get("s", "")

    def source(self) -> str:
        attrs = "".join(f' {k}="{v}"' for k, v in self.attrs.items())
        if self.name in (*LEAVES, "subtask_complete"):
            return f"<{self.name}{attrs}/>"
        return f"<{self.name}{attrs}>{''.join(n.source() for n in self.inside)}</{self.name}>"


@st.composite
def plans(draw: st.DrawFn, conditions: list[str] = KNOWN) -> list[Node]:
    labels = iter(range(1, 10_000))

    def leaf() -> Node:
        name = draw(st.sampled_from([n for n in LEAVES if n != "ping"]))
        return Node(name, {"s": f"{draw(st.integers(1, 3))}.{next(labels):04d}"})

    def inside(depth: int) -> list[Node]:
        nodes: list[Node] = []
        for _ in range(draw(st.integers(0, 4))):
            kinds = ["leaf", "leaf", "if", "if", "wait"] if depth else ["leaf"]
            kind = draw(st.sampled_from([*kinds, "else"] if any(n.name == "if" for n in nodes) else kinds))
            if kind == "leaf":
                nodes.append(leaf())
            elif kind == "if":
                nodes.append(Node("if", {"cond": draw(st.sampled_from(conditions))}, inside(depth - 1)))
            else:
                nodes.append(Node(kind, {}, inside(depth - 1)))
        return nodes

    roots = []
    for _ in range(draw(st.integers(1, 4))):
        roots.append(Node("subtask_complete") if draw(st.integers(0, 4)) == 0 else Node("step", {}, inside(2)))
    return roots


class Stopped(Exception):
    """Nobody can tell whether a condition holds."""


def performed(nodes: list[Node], ran: list[str]) -> list[str]:
    """Labels of what runs, by reading the plan from top to bottom. Raises Stopped, with `ran` complete so far."""
    taken = False
    for node in nodes:
        if node.name in LEAVES:
            ran.append(node.label)
        elif node.name in ("step", "wait"):
            performed(node.inside, ran)
        elif node.name in ("if", "else") and not taken:
            holds = True if node.name == "else" else TABLE[node.attrs["cond"]]
            if holds is None:
                raise Stopped
            if holds:
                taken = True
                performed(node.inside, ran)
    return ran


def leaves(calls: list[CallRun]) -> dict[str, CallRun]:
    return {f"{float(c.arguments['s']):.4f}": c for c in calls if c.function in LEAVES}


def labels(nodes: list[Node]) -> list[str]:
    return [x for n in nodes for x in ([n.label] if n.name in LEAVES else labels(n.inside))]


def run(source: str, **options: object) -> DryRun:
    return dry_run(source, mapper(), conditions=AssumedConditions(TABLE, None), **options)  # type: ignore[arg-type]


@settings(max_examples=examples(400))
@given(plans(), st.integers(0, 9))
def test_exactly_what_the_plan_says_runs_and_it_does_not_matter_how_the_text_is_cut(roots: list[Node], chunk: int) -> None:
    source = "".join(n.source() for n in roots)
    done = run(source)
    by_label = leaves(done.calls)
    assert {x for x, c in by_label.items() if c.start_s is not None} == set(performed(roots, []))
    assert len(by_label) == len(labels(roots)) and all(c.end_s is not None for c in done.calls)
    assert {c.outcome for c in done.calls} <= {"DONE", "DROPPED"}
    assert [call_line(c) for c in run(source, chunk=chunk).calls] == [call_line(c) for c in done.calls]


@settings(max_examples=examples(400))
@given(plans([*TABLE]), st.integers(1, 9), st.floats(30, 400))
def test_of_each_element_one_branch_runs_at_most_and_nothing_of_the_others(roots: list[Node], chunk: int, rate: float) -> None:
    done = run("".join(n.source() for n in roots), chunk=chunk, chars_per_s=rate)
    by_id = {c.call_id: c for c in done.calls}
    assert len(by_id) == len(done.calls)
    begun = Counter(c.parent_id for c in done.calls if c.function in ("if", "else") and c.start_s is not None)
    assert not begun or max(begun.values()) == 1
    for call in done.calls:
        if call.parent_id and call.start_s is not None:
            around = by_id[call.parent_id]
            assert around.start_s is not None and around.outcome != "DROPPED"
            assert around.start_s <= call.start_s and call.end_s <= around.end_s + 1e-9
    try:
        performed(roots, expected := [])
    except Stopped:
        assert done.reason == "failure" and any(c.outcome == "FAILED" for c in done.calls if c.function == "step")
    else:
        assert not done.failed
    assert {x for x, c in leaves(done.calls).items() if c.start_s is not None} == set(expected)


@settings(max_examples=examples(200))
@given(plans(), st.integers(0, 4), st.integers(0, 2**30))
def test_steps_run_in_the_order_they_arrive_whatever_streams_they_come_from(roots: list[Node], streams: int, seed: int) -> None:
    plan = Plan(manual=False, conditions=Told(None, TABLE))  # type: ignore[arg-type]
    rng = random.Random(seed)
    names = [f"s{k}" for k in range(streams + 1)]
    for root in roots:
        plan.write(root.source(), rng.choice(names))
        plan.clock.run(until_s=plan.clock.now() + rng.choice([0.0, 0.5, 3.0]))
    for name in plan.parsers:
        plan.close(name)
    plan.clock.run()
    steps = [c for c in plan.ended if c.function in ("step", "subtask_complete") and not c.parent_id]
    assert len(steps) == len(roots) and {c.outcome for c in steps} == {Outcome.DONE}
    ordered = sorted(steps, key=lambda c: int(c.call_id[1:]))
    assert all(a.end_s <= b.start_s + 1e-9 for a, b in zip(ordered, ordered[1:], strict=False))
    ran = {f"{c.arguments['s']:.4f}" for c in plan.ended if c.function in LEAVES and c.start_s is not None}
    assert ran == set(performed(roots, [])) and plan.events[-1].kind is ProcessKind.DRAINED


@settings(max_examples=examples(200))
@given(st.lists(plans(), min_size=2, max_size=3), st.integers(0, 2**30), st.floats(0, 3))
def test_streams_that_are_written_at_the_same_time_do_not_hold_each_other_up(
    written: list[list[Node]], seed: int, pause_s: float
) -> None:
    plan = Plan(manual=False, conditions=Told(None, TABLE), settings={"silence_s": 1e6})  # type: ignore[arg-type]
    rng = random.Random(seed)
    texts = {f"s{k}": "".join(n.source() for n in roots) for k, roots in enumerate(written)}
    while texts:
        name = rng.choice(sorted(texts))
        size = rng.randrange(1, 60)
        plan.write(texts[name][:size], name)
        texts[name] = texts[name][size:]
        plan.clock.run(until_s=plan.clock.now() + rng.random() * pause_s)
        if not texts[name]:
            del texts[name]
            plan.close(name)
    plan.clock.run()
    assert not plan.scheduler.live_calls and plan.events[-1].kind is ProcessKind.DRAINED
    ended = [c for c in plan.ended if c.function in LEAVES]
    assert Counter(c.start_s is not None for c in ended)[True] == sum(len(performed(roots, [])) for roots in written)
    assert_serial(plan.ended)


@settings(max_examples=examples(200))
@given(plans(), plans(), st.floats(0, 12))
def test_replace_steps_never_touches_what_runs(roots: list[Node], new: list[Node], at_s: float) -> None:
    source, later = "".join(n.source() for n in roots), "".join(n.source() for n in new)

    def performed_with(text: str) -> list[CallRun]:
        plan = Plan(manual=False, conditions=Told(None, TABLE))  # type: ignore[arg-type]
        plan.write(source, "a")
        plan.close("a")
        plan.clock.run(until_s=at_s)
        if text:
            plan.write(text, "b", turn=1)
            plan.close("b")
        plan.clock.run()
        assert plan.events[-1].kind is ProcessKind.DRAINED
        return plan.ended

    def story(call: CallRun) -> tuple[object, ...]:
        return call.call_id, call.function, call.start_s, call.end_s, call.outcome

    undisturbed = [c for c in performed_with("") if c.stream_id == "a"]
    calls = performed_with(f"<replace_steps/>{later}")
    by_id = {c.call_id: c for c in undisturbed}
    old = {c.call_id: c for c in calls if c.stream_id == "a"}

    def begun(call: CallRun) -> bool:
        root = call
        while root.parent_id:
            root = by_id[root.parent_id]
        return root.start_s is not None and root.start_s <= at_s

    for call in undisturbed:
        if begun(call):
            assert story(old[call.call_id]) == story(call)
        else:
            assert old[call.call_id].start_s is None
    ran = {f"{c.arguments['s']:.4f}" for c in calls if c.stream_id == "b" and c.function in LEAVES and c.start_s is not None}
    assert ran == set(performed(new, []))


@settings(max_examples=examples(200))
@given(plans(), st.integers(0, 400), st.floats(20, 400))
def test_of_a_step_that_is_cut_nothing_begins_after_the_cut(roots: list[Node], length: int, rate: float) -> None:
    source = "".join(n.source() for n in roots)[:length]
    done = run(source, chunk=1, chars_per_s=rate)
    whole = source.count("</step>")
    steps = [c for c in done.calls if c.function == "step"]
    assert len(steps) in (whole, whole + 1)
    if len(steps) > whole:
        for call in done.calls[done.calls.index(steps[-1]) :]:
            assert call.start_s is None or call.start_s <= len(source) / rate + 1e-9
    assert {x for x, c in leaves(done.calls).items() if c.start_s is not None} <= set(performed(roots, []))


TAGS = [
    "<step>",
    "</step>",
    "<step>",
    "</step>",
    '<if cond="yes1">',
    '<if cond="no1">',
    '<if cond="who">',
    "<if>",
    "</if>",
    "<else>",
    "</else>",
    "<elif cond='yes2'>",
    "</elif>",
    "<subtask_complete/>",
    "<replace_steps/>",
    "<walk/>",
    "<nod/>",
    "<turn s='x'/>",
    "Hi.",
    "<wait>",
    "</wait>",
    "<spin>",
    "</spin>",
    "<observe/>",
    "<stop/>",
    "<plan_done/>",
    "<save name='r'>",
    "</save>",
    "<run name='r'/>",
    "<bogus>",
    "</bogus>",
    "&",
    "<",
    '<if cond="a < 3 && b">',
    '<step cond="no1">',
    "<music/>",
]


@settings(max_examples=examples(600))
@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.sampled_from(TAGS), max_size=8), st.floats(0, 2)), max_size=8),
    st.one_of(st.none(), st.floats(0, 8)),
    st.floats(0, 5),
    st.booleans(),
)
@example([(0, ["<spin>", "&"], 0.0), (1, ["<spin>", "<observe/>"], 0.0)], None, 0.0, False)
def test_whatever_is_written_each_call_has_one_outcome_and_the_process_comes_to_rest(
    pieces: list[tuple[int, list[str], float]], interrupt_s: float | None, judge_s: float, silent: bool
) -> None:
    table = {**TABLE, "a < 3 && b": True}
    delays = {"yes1": 0.0, "who": None if silent else judge_s}
    told = Told(None, table, lambda c: delays.get(c, judge_s))  # type: ignore[arg-type]
    plan = Plan(manual=False, conditions=told, settings={"condition_timeout_s": 4.0})
    if interrupt_s is not None:
        plan.clock.call_later(interrupt_s, lambda: (plan.scheduler.interrupt("enough"), None)[1])
    for turn, (stream, tags, wait_s) in enumerate(pieces):
        plan.write("".join(tags), f"s{stream}", turn=turn)
        plan.clock.run(until_s=plan.clock.now() + wait_s)
    for name in plan.parsers:
        plan.close(name)
    plan.clock.run(until_s=1000.0)
    assert not plan.scheduler.live_calls
    assert max(Counter(c.call_id for c in plan.ended).values(), default=1) == 1
    assert not plan.parsers or plan.reported(ProcessKind.DRAINED)
    shown = plan.queues[-1] if plan.queues else StepQueue()
    assert shown.queued == () and not shown.running and not shown.reading
    if interrupt_s is not None and interrupt_s > sum(w for _, _, w in pieces):
        assert all(c.start_s is None or c.start_s <= interrupt_s for c in plan.ended)
    begun = Counter(c.parent_id for c in plan.ended if c.function in ("if", "else") and c.start_s is not None)
    assert not begun or max(begun.values()) == 1
    assert_serial(plan.ended)


def assert_serial(calls: list[Call]) -> None:
    """On each channel of the body one call runs at a time."""
    for channel in ("legs", "head", "ear_left"):
        busy = sorted((c.start_s, c.end_s) for c in calls if channel in c.channels and c.start_s is not None)
        assert all(a[1] <= b[0] + 1e-9 for a, b in zip(busy, busy[1:], strict=False))
