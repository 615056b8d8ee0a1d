# SPDX-License-Identifier: Apache-2.0
"""The state of the page: changes lead from one state to the next, and what robots tell is folded whatever its order."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ghostshell_ros.nodes.dashboard.state import LOST_S, MAX_CHAT, MAX_TEXT, STALE_S, PageState, RobotPage, patch
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind, ModelEvent, ModelKind, Notice, NoticeKind, RunEvent
from skill_kernel.processes.process import ProcessSource, ProcessStatus

KEYS = st.sampled_from("abcde")
LEAVES = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0, 0.5]) | st.sampled_from(["", "x", "<b>"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)
STATES = st.dictionaries(KEYS, VALUES, max_size=4)


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def applied(state: Any, changes: str) -> Any:
    """Return a state changed as a browser does it: deletions first; one behind the end of a list appends."""
    sets, deletes = json.loads(changes)
    state = {"": json.loads(json.dumps(state))}

    def reach(path: list[Any]) -> tuple[Any, Any]:
        node: Any = state
        for key in ["", *path[:-1]] if path else []:
            node = node[key]
        return node, (path or [""])[-1]

    for path in deletes:
        node, key = reach(path)
        del node[key]
    for path, value in sets:
        node, key = reach(path)
        if isinstance(node, list) and key == len(node):
            node.append(value)
        else:
            node[key] = value
    return state[""]


@given(STATES, STATES)
def test_a_patch_leads_from_one_state_to_the_next(before: dict[str, Any], after: dict[str, Any]) -> None:
    changes = patch(before, after)
    assert text(applied(before, json.dumps(changes))) == text(after)
    assert (changes == ([], [])) == (text(before) == text(after))


@given(STATES, KEYS, VALUES)
def test_a_patch_holds_no_more_than_what_differs(state: dict[str, Any], key: str, value: Any) -> None:
    sets, deletes = patch(state, {**state, key: value})
    assert all(path[0] == key for path, _ in sets) and all(path[0] == key for path in deletes)


def test_one_more_element_is_all_that_is_sent_of_a_list() -> None:
    before = {"chat": [{"n": n} for n in range(100)]}
    assert patch(before, {"chat": [*before["chat"], {"n": 100}]}) == ([(["chat", 100], {"n": 100})], [])


CALLS = st.builds(
    CallEvent,
    kind=st.sampled_from(CallKind),
    process_id=st.sampled_from(["a", "b", "reflex-step_back-1"]),
    call_id=st.sampled_from(["1", "2", "3"]),
    function=st.sampled_from(["text", "nod"]),
    args_json=st.sampled_from(["", '{"text": "<img src=x onerror=alert(1)>"}', "[", '{"x": NaN}']),
    outcome=st.none() | st.sampled_from(Outcome),
    stamp_s=st.floats(0, 100),
    start_s=st.sampled_from([-1.0, float("nan"), 3.0]),
    end_s=st.sampled_from([-1.0, float("inf"), 5.0]),
)
MODELS = st.builds(
    ModelEvent, kind=st.sampled_from(ModelKind), process_id=st.sampled_from(["a", ""]), layer=st.sampled_from(["s1", "s2"])
)
NOTICES = st.builds(Notice, kind=st.sampled_from(NoticeKind), text=st.sampled_from(["", "hear"]), stamp_s=st.floats(0, 100))


@given(st.lists(CALLS | MODELS | NOTICES, max_size=20), st.data())
def test_whatever_events_come_each_state_is_json_and_follows_from_the_one_before(
    events: list[RunEvent], data: st.DataObject
) -> None:
    page = PageState()
    page.robots["kalos"] = RobotPage()
    shown = page.render(0.0)
    for n, event in enumerate(events):
        page.robots["kalos"].event(event)
        if data.draw(st.booleans()):
            after = page.render(float(n))
            assert text(applied(shown, json.dumps(patch(shown, after), allow_nan=False))) == text(after)
            shown = after
    late = PageState()
    late.robots["kalos"] = RobotPage()
    for event in events:
        late.robots["kalos"].event(event)
    assert text(late.render(1e6)) == text(page.render(1e6))


def process(page: RobotPage, status: ProcessStatus, at_s: float, message: str = "") -> None:
    about = {"process_id": "a", "instruction": "sit", "source": ProcessSource.USER, "pause_causes": [], "usage": []}
    page.process(SimpleNamespace(**about, status=status, message=message), 1.0, at_s)


def test_a_call_whose_process_ended_without_it_runs_no_more() -> None:
    page = RobotPage()
    process(page, ProcessStatus.IN_PROGRESS, 1.0)
    page.event(CallEvent(kind=CallKind.STARTED, process_id="a", call_id="1", function="walk", stamp_s=2.0))
    assert "unheard" not in page.render(3.0)["calls"]["1"]
    process(page, ProcessStatus.STOPPED, 9.0)
    assert page.render(9.0)["calls"]["1"]["unheard"], "its end was missed while a node was started anew"
    ended = {"outcome": Outcome.INTERRUPTED, "start_s": 2.0, "end_s": 8.0}
    page.event(CallEvent(kind=CallKind.ENDED, process_id="a", call_id="1", function="walk", stamp_s=8.0, **ended))
    late = page.render(9.0)["calls"]["1"]
    assert "unheard" not in late and late["outcome"] == "INTERRUPTED"


def test_what_has_not_changed_is_the_same_object() -> None:
    page = PageState()
    page.robots["kalos"] = RobotPage()
    process(page.robots["kalos"], ProcessStatus.IN_PROGRESS, 1.0)
    page.robots["kalos"].sign(10.0)
    one, other = page.render(10.1), page.render(10.6)
    assert one["robots"] is other["robots"] and patch(one, other) == ([], [])


def test_the_talk_is_told_in_order_also_after_a_restart_of_the_node() -> None:
    page = RobotPage()
    process(page, ProcessStatus.FAILED, 9.0, message="I have no legs")
    page.event(Notice(text="halted by a hand", stamp_s=5.0))
    said = page.render(10.0)["chat"]
    assert [(line["from"], line["text"]) for line in said] == [
        ("person", "sit"),
        ("notice", "halted by a hand"),
        ("notice", "failed: I have no legs"),
    ]
    assert [state[:2] for state in page.render(10.0)["processes"]["a"]["states"]] == [["WAITING", 1.0], ["FAILED", 9.0]]


def test_talk_and_streams_have_an_end() -> None:
    page = RobotPage()
    for n in range(3 * MAX_CHAT):
        page.event(Notice(text=f"{n}", stamp_s=float(n)))
        page.chunk("a", "s", "x" * 100)
    made = page.render(0.0)
    assert [line["text"] for line in made["chat"]][-1] == f"{3 * MAX_CHAT - 1}" and len(made["chat"]) == MAX_CHAT
    assert len(made["streams"]["a"]) == MAX_TEXT
    page.chunk("a", "another", "<nod/>")
    assert page.render(0.0)["streams"]["a"] == "<nod/>"


def test_a_robot_that_falls_silent_is_stale_and_then_lost() -> None:
    page = RobotPage()
    page.sign(100.0)
    links = [page.render(100.0 + age)["link"] for age in (0.0, STALE_S + 0.1, LOST_S + 0.1)]
    assert links == ["live", "stale", "lost"] and page.render(120.0)["age_s"] == 20
    page.sign(121.0)
    assert page.render(121.0)["link"] == "live"


def test_a_halt_is_what_the_gate_tells() -> None:
    page = RobotPage()
    assert page.render(0.0)["halted"]["on"] is None
    page.event(Notice(kind=NoticeKind.HALTED, text="a stop word", stamp_s=1.0))
    assert page.render(1.0)["halted"]["on"] is None
    page.halt(on=True, cause="a stop word")
    assert page.render(1.0)["halted"] == {"on": True, "cause": "a stop word", "number": 0}


def test_the_way_is_drawn_where_it_moves() -> None:
    page = RobotPage()
    for x in (0.0, 0.01, 0.02, 0.5, float("nan")):
        page.pose((x, 0.0, 0.1))
    assert page.render(0.0)["map"]["trail"] == [[0.0, 0.0], [0.5, 0.0]] and page.render(0.0)["map"]["pose"] is None
