# SPDX-License-Identifier: Apache-2.0
"""Whatever a model says and in whatever order things happen: one question at a time, a bounded queue, and an end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layered_kit import Asked, Bench, Says, failing
from thorough import examples

from planners.plan import GlobalEvent, Plan, Subtask
from planners.prompts.blocks import Layer
from planners.strategies.layered.step_planner import State
from planners.strategy import Interrupted, Observed, Paused, Resumed
from skill_kernel.codes import ModelCode
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.robot import RobotConfig

KALOS = accessors_of(RobotConfig.load("kalos"))

ANSWERS: dict[str, Says | str] = {
    "steps": "<step><walk s='1'/></step><step><nod/></step>",
    "many": "<step><walk s='0.2'/></step>" * 7,
    "done": "<step><nod/></step><subtask_complete/>",
    "mark": "<subtask_complete/>",
    "nothing": "<nothing/>",
    "replace": "<replace_steps/><step><turn/></step>",
    "branch": "<step><if cond='always'><nod/></if><else><walk/></else></step>",
    "branch mark": "<step><nod/><if cond='always'><subtask_complete/></if></step>",
    "speech": "<step>Hello there, how are you?</step>",
    "failing": "<step><turn s='0.5'/></step><subtask_complete/>",
    "unknown": "<step><fly/></step>",
    "prose": "I think that I should walk.",
    "empty": "",
    "bare": "<nod/><walk s='0.5'/>",
    "cut": "<step><walk s='0.3'/><nod/>",
    "slow": Says("<step><nod/></step>", delay_s=6.0),
    "trickle": Says("<step><walk s='0.5'/></step><step><nod/></step><subtask_complete/>", rate=20.0, piece=1),
    "silent": Says(silent=True),
    "error": failing(),
    "half": Says("<step><nod/></step><step><wal", code=int(ModelCode.MODEL_CONNECTION), why="cut"),
    "key": failing(ModelCode.MODEL_AUTH),
    "<none/>": "<none/>",
}

EVENTS = [
    "plan",
    "replan",
    "unfinished",
    "achieved",
    "pause",
    "resume",
    "interrupt",
    "void",
    "anew",
    "see",
    "leave",
    "room",
    "observe",
    "wait",
    "wait",
]
THEN = ["nothing", "failing", "steps", "silent", "error", "prose", "done"]


def _plan(bench: Bench, revision: int, *names: str, **more: Any) -> None:
    subtasks = tuple(Subtask(name, name) for name in names)
    event = GlobalEvent("e", "visible('ball')", "nod at it")
    bench.hear(Plan(revision, more.pop("complete", True), subtasks, (event,), **more))


class Story:
    """Does to a process what a list of words says."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.revision = 0
        self.fired = 0

    def do(self, word: str) -> None:
        bench = self.bench
        if word == "plan":
            self.revision += 1
            _plan(bench, self.revision, "a", "b", complete=self.revision > 1)
        elif word == "replan":
            self.revision += 1
            _plan(bench, self.revision, "a", f"c{self.revision}")
        elif word == "unfinished":
            self.revision += 1
            _plan(bench, self.revision, "a", "b", complete=False)
        elif word == "achieved":
            self.revision += 1
            _plan(bench, self.revision, "a", achieved=True)
        elif word == "pause":
            bench.hear(Paused())
            bench.scheduler.pause(True)
        elif word == "resume":
            bench.scheduler.pause(False)
            bench.hear(Resumed())
        elif word in ("interrupt", "anew"):
            bench.scheduler.pause(False)
            bench.interrupt()
        elif word == "void":
            bench.hear(Interrupted("a reflex"))
            bench.scheduler.interrupt("a reflex")
        elif word == "see":
            bench.world.labels = ("ball",)
        elif word == "leave":
            bench.world.labels = ()
        elif word == "room":
            bench.world.room += "x"
        bench.hear(Observed())
        if len(bench.of("fired")) > self.fired:
            self.fired += 1
            bench.interrupt()


@settings(max_examples=examples(250))
@given(
    st.lists(st.sampled_from(sorted(ANSWERS)), max_size=30),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.floats(0, 12)), max_size=20),
    st.sampled_from(THEN),
    st.booleans(),
)
def test_it_asks_one_question_at_a_time_keeps_its_bound_and_ends(
    answers: list[str], events: list[tuple[str, float]], then: str, cost_aware: bool
) -> None:
    left = list(answers)

    def answer(asked: Asked) -> Says | str:
        if asked.layer is not Layer.S1:
            return "<nod/>"
        return ANSWERS[left.pop(0)] if left else ANSWERS[then]

    bench = Bench(answer, accessors=KALOS, commands={"a": "<nod/>"})
    bench.settings["cost_aware"] = cost_aware
    bench.body.fails = lambda call: "it does not turn" if call.function == "turn" else ""
    story = Story(bench)
    for word, seconds in events:
        story.do(word)
        bench.run(seconds)
    story.do("leave")
    story.do("anew" if bench.planner.state is State.VOID else "resume")
    for _ in range(80):
        bench.run(30)
        if bench.ended:
            break
    assert len(bench.ended) == 1, (bench.planner.state, bench.told[-3:])
    assert max(bench.model.most_open.values()) <= 1
    assert bench.most_queued <= bench.settings["queue_steps"]
    assert len(bench.of("done")) == len(set(bench.of("done")))
    asked = len(bench.model.questions)
    bench.run(100)
    assert len(bench.model.questions) == asked and len(bench.ended) == 1


@settings(max_examples=examples(60))
@given(st.lists(st.sampled_from(["steps", "nothing", "branch", "speech", "bare"]), min_size=1, max_size=4))
@pytest.mark.slow
def test_without_news_no_question_follows_an_answer_that_added_nothing(answers: list[str]) -> None:
    left = list(answers)

    def answer(asked: Asked) -> Says | str:
        if asked.layer is not Layer.S1:
            return "<none/>"
        return ANSWERS[left.pop(0)] if left else "<nothing/>"

    bench = Bench(answer)
    bench.plan("walk")
    bench.run(120)
    added_nothing = None
    for asked in bench.model.of():
        shown = {k: v for k, v in asked.blocks.items() if k not in ("FAULTS", "MAY ADD")}
        if added_nothing is not None and "RUNNING" in shown:
            assert shown != added_nothing
        added_nothing = shown
