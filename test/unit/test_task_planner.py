# SPDX-License-Identifier: Apache-2.0
"""System 2: when it asks and when not, and what becomes of its answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from task_kit import OLD, PLAN, SILENT, WITH_EVENT, Bench, planned

from function_tokens.routines import Routine
from planners.plan import FALLBACK, SubtaskStatus
from planners.prompts.prompt import CallReport
from planners.strategies.layered.task_planner import STALE_S
from skill_kernel.codes import ModelCode

# -- the first plan -----------------------------------------------------------------------------------------------------


def test_it_asks_at_once_and_publishes_each_subtask_as_its_end_tag_is_written() -> None:
    bench = Bench(latency_s=0.0)
    bench.run(0.2)
    (question,) = bench.asked
    assert question.blocks["TASK"] == [{"instruction": "find the ball and bark twice", "from": "ann"}]
    assert "PLAN" not in question.blocks and question.blocks["WHY"] == ["the task begins"]
    question.write('<subtask criteria="in sight">Find the b')
    assert bench.plans == []
    question.write("all</subtask><subtask")
    assert [(p.revision, p.complete) for p in bench.plans] == [(1, False)]
    assert bench.shown == [("t1", "Find the ball", "ACTIVE")]
    question.answer(">If so, bark</subtask>")
    assert [(p.revision, p.complete) for p in bench.plans] == [(1, False), (2, False), (3, True)]
    assert bench.shown == [("t1", "Find the ball", "ACTIVE"), ("t2", "If so, bark", "PENDING")]
    assert bench.plans[-1].made_by == "stub"


def test_it_knows_the_tasks_before_and_what_the_robot_was_taught() -> None:
    earlier, bow = {"instruction": "bow", "achieved": "DONE"}, Routine("bow", "for thanks", "<nod/>", 0.0)
    bench = Bench(latency_s=0.0, instruction="once more", earlier=[earlier], routines=[bow])
    bench.run(0.2)
    (question,) = bench.asked
    assert question.blocks["EARLIER"] == [earlier] and question.blocks["ROUTINES"] == [
        {"name": "bow", "description": "for thanks"}
    ]


def test_a_fence_reasoning_and_wrappers_around_the_plan_do_not_matter() -> None:
    bench = planned(f"```xml\n<think>hm <subtask>no</subtask></think><plan><subtasks>{PLAN}</subtasks></plan>\n```")
    assert [s[1] for s in bench.shown] == ["Find the ball", "If so, bark"]


@pytest.mark.parametrize(
    ("bad", "hint"),
    [
        ("I will look for the ball.", "no tag"),
        ("", "no tag"),
        ("<keep/>", "no plan yet"),
        ("<walk/>", "<walk> is not known"),
        ("<subtask></subtask>", "has no text"),
        ("<subtask>Find the", "in the middle of <subtask>"),
        ("<goals><subtask>a</subtask></goals>", "must not stand inside <goals>"),
        ("<subtask><desc>a</desc></subtask>", "holds <desc>"),
        ('<subtask id="t9"/>', "id 't9'"),
        ("<event cond='x'/>", "needs both"),
        ("<subtask>a</subtask>" * 13, "more than 12"),
        ("<subtask>a</subtask><give_up>no</give_up>", "contradict"),
    ],
)
def test_an_unusable_first_answer_is_asked_for_once_more_with_the_fault_shown(bad: str, hint: str) -> None:
    bench = Bench([bad, PLAN])
    bench.run(2.0)
    first, second = bench.asked
    assert hint in second.blocks["FAULTS"][0] and second.blocks["TASK"] == first.blocks["TASK"]
    assert [s[1] for s in bench.shown] == ["Find the ball", "If so, bark"] and bench.plans[-1].complete
    assert not [t for t in bench.told if t[0] == "degraded"]


@pytest.mark.parametrize("answers", [["chatter", "more chatter"], [ModelCode.MODEL_CONNECTION], [SILENT]])
def test_without_a_usable_answer_the_instruction_is_the_plan_and_a_later_answer_replaces_it(answers: list[object]) -> None:
    bench = Bench([*answers, PLAN])  # type: ignore[list-item]
    bench.run(OLD["deadline_s"] + 5.0)
    fallback = bench.plans[0]
    assert [s.description for s in fallback.subtasks] == [bench.instruction] and fallback.made_by == FALLBACK
    assert fallback.complete and [t[0] for t in bench.told] == ["degraded"]
    assert [s[1] for s in bench.shown] == ["Find the ball", "If so, bark"] and bench.plans[-1].made_by == "stub"


def test_a_first_plan_that_breaks_off_keeps_what_was_read_and_the_instruction_stands_for_the_rest() -> None:
    bench = Bench()
    bench.run(0.2)
    bench.asked[0].write("<subtask>Find the ball</subtask><subtask>Ba")
    bench.planner.subtask_done("t1")
    bench.asked[0].end(int(ModelCode.MODEL_CONNECTION), "cut off")
    assert bench.shown == [("t1", "Find the ball", "DONE"), ("t2", bench.instruction, "ACTIVE")]
    assert bench.plans[-1].complete and bench.plans[-1].made_by == FALLBACK


def test_a_dead_model_is_asked_ever_more_seldom() -> None:
    bench = Bench([ModelCode.MODEL_CONNECTION] * 100, latency_s=0.1)
    bench.run(300.0)
    gaps = [round(b.at_s - a.at_s, 3) for a, b in zip(bench.asked, bench.asked[1:], strict=False)]
    assert gaps == sorted(gaps) and max(gaps) <= 30.2 and len(bench.asked) < 16
    assert len([t for t in bench.told if t[0] == "degraded"]) == len(bench.asked)


def test_a_list_that_is_too_long_twice_is_done_in_fewer_steps_and_loses_nothing() -> None:
    many = "".join(f"<subtask>do thing {n}</subtask>" for n in range(15))
    bench = Bench([many, many])
    bench.run(2.0)
    words = " ".join(s[1] for s in bench.shown)
    assert len(bench.shown) == 12 and all(f"do thing {n}" in words for n in range(15))


# -- when it looks again ------------------------------------------------------------------------------------------------


def test_nothing_is_asked_while_nothing_happens() -> None:
    bench = planned()
    bench.run(600.0, 0.5, lambda now: {"room": "kitchen", "battery": 80.0, "pose": {"x_m": now, "y_m": 0, "heading_deg": 0}})
    assert len(bench.asked) == 1


def test_not_cost_aware_it_asks_every_two_seconds() -> None:
    bench = Bench([PLAN, *["<keep/>"] * 50], settings=OLD | {"cost_aware": False}, latency_s=0.5)
    bench.run(25.5)
    assert len(bench.asked) == 11
    bench.settings["cost_aware"] = True
    bench.run(60.0)
    assert len(bench.asked) == 11


@pytest.mark.parametrize("what", ["subtask", "failure", "event", "resume", "watched", "named"])
def test_it_looks_again_within_two_seconds_of_what_happened_and_says_why(what: str) -> None:
    bench = planned("<subtask>Bark</subtask><subtask>Find the ball</subtask>" if what == "named" else WITH_EVENT)
    seen = {"room": "kitchen", "object_detections": [{"id": 1, "label": "chair", "distance_m": 2.0}]}
    bench.run(5.0, 0.5, lambda _: seen)
    then = bench.clock.now()
    if what == "subtask":
        bench.planner.subtask_done("t1")
    elif what == "failure":
        bench.fail()
    elif what == "event":
        bench.planner.event_fired("e3")
    elif what == "resume":
        bench.planner.paused(True)
        bench.run(4.0)
        then = bench.clock.now()
        bench.planner.paused(False)
    elif what == "watched":
        seen = {**seen, "room": "hallway"}
    else:
        seen = {**seen, "object_detections": [{"id": 2, "label": "ball", "distance_m": 3.0}]}
    bench.run(2.0, 0.5, lambda _: seen)
    assert len(bench.asked) == 2 and bench.asked[1].at_s - then <= (1.0 if what in ("watched", "named") else 0.3)
    why = {
        "subtask": "subtask t1 is done",
        "failure": "nav FAILED: blocked",
        "event": "event e3 has come true: visible('person')",
        "resume": "it goes on after a pause",
        "watched": "room is 'hallway' now, it was 'kitchen'",
        "named": "ball has come into sight",
    }
    assert bench.asked[1].blocks["WHY"] == [why[what]]


def test_what_happens_together_is_one_question() -> None:
    bench = planned()
    bench.fail(1)
    bench.planner.subtask_done("t1")
    bench.run(0.1)
    bench.fail(2, "still blocked")
    bench.run(1.0)
    assert len(bench.asked) == 2 and len(bench.asked[1].blocks["WHY"]) == 3


def test_a_change_that_is_gone_again_is_no_question_and_told_as_saved() -> None:
    bench = planned()
    bench.run(3.0, 0.2, lambda _: {"room": "kitchen"})
    bench.planner.observed({"room": "hallway"})
    bench.run(0.4)
    bench.planner.observed({"room": "kitchen"})
    bench.run(10.0)
    assert len(bench.asked) == 1 and bench.told == [("skipped", "what it watches is again as it was")]


def test_what_never_comes_to_rest_is_asked_about_all_the_same() -> None:
    bench = planned()
    bench.run(3.0, 0.3, lambda _: {"room": "kitchen"})
    then = bench.clock.now()
    bench.run(2.0, 0.3, lambda now: {"room": f"room at {now}"})
    assert len(bench.asked) == 2 and bench.asked[1].at_s - then <= 1.0


def test_a_field_that_grows_stale_is_one_change_however_old_it_gets() -> None:
    bench = planned()
    bench.run(3.0, 0.5, lambda _: {"room": "kitchen"})
    bench.run(1.5, 0.5, lambda now: {"room": {"stale_s": now, "last": "kitchen"}})
    bench.reply("<keep/>")
    bench.run(60.0, 0.5, lambda now: {"room": {"stale_s": now, "last": "kitchen"}})
    assert len(bench.asked) == 2
    assert bench.asked[1].blocks["WHY"] == ["room is 'not known' now, it was 'kitchen'"]


def test_what_no_subtask_watches_and_small_changes_of_what_is_watched_are_no_question() -> None:
    bench = planned('<subtask watch="battery, pose">Find the ball</subtask>')
    bench.run(
        30.0,
        0.5,
        lambda now: {
            "battery": 60.0 - now / 10,
            "pose": {"x_m": 0.4 * (now % 1), "y_m": 0.0, "heading_deg": now},
            "room": f"room {now}",
            "object_detections": [{"label": "chair", "distance_m": now}],
        },
    )
    assert len(bench.asked) == 1


def test_a_watched_list_of_things_is_news_when_a_label_is_new_and_not_each_time_the_robot_turns() -> None:
    bench = planned('<subtask watch="object_detections">Look around</subtask>')
    around = [["chair"], ["chair", "table"], ["table"], [], ["plant"], ["chair", "plant"]]
    bench.answers = ["<keep/>"] * 30
    bench.run(60.0, 1.0, lambda now: {"object_detections": [{"label": label} for label in around[int(now / 3) % 6]]})
    told = [why for q in bench.asked[1:] for why in q.blocks["WHY"]]
    assert told == ["table has come into sight", "plant has come into sight"]


def test_a_watched_list_is_news_of_what_the_subtask_speaks_of_alone() -> None:
    bench = planned('<subtask watch="object_detections">Look for the ball</subtask>')
    bench.planner._things = ("ball", "chair", "plant")
    bench.run(10.0, 1.0, lambda now: {"object_detections": [{"label": "chair" if now < 5 else "plant"}]})
    assert len(bench.asked) == 1
    bench.run(3.0, 1.0, lambda now: {"object_detections": [{"label": "ball"}]})
    assert [q.blocks["WHY"] for q in bench.asked[1:]] == [["ball has come into sight"]]


def test_a_thing_that_a_subtask_speaks_of_is_news_when_it_comes_and_not_each_time_it_comes_and_goes() -> None:
    bench = planned("<subtask>Bark</subtask><subtask>Go to the chair</subtask>")
    bench.answers = ["<keep/>"] * 30
    bench.run(18.0, 1.0, lambda now: {"object_detections": [{"label": "chair"}] if int(now / 5) % 2 else []})
    told = [why for q in bench.asked[1:] for why in q.blocks["WHY"]]
    assert told == ["chair has come into sight"]


def test_a_watched_number_that_falls_far_enough_is_a_question() -> None:
    bench = planned('<subtask watch="battery">Find the ball</subtask>')
    bench.run(3.0, 0.5, lambda now: {"battery": 21.0})
    bench.run(3.0, 0.5, lambda now: {"battery": 19.0})
    assert [q.blocks["WHY"] for q in bench.asked[1:]] == [["battery has changed"]]


def test_what_happens_while_an_answer_is_written_is_asked_after_it() -> None:
    bench = planned()
    bench.fail(1)
    bench.run(0.5)
    bench.planner.subtask_done("t1")
    bench.reply("<keep/>")
    bench.run(1.0)
    assert len(bench.asked) == 3 and bench.asked[2].blocks["WHY"] == ["subtask t1 is done"]


def test_a_thing_that_the_present_subtask_speaks_of_is_left_to_system_1() -> None:
    bench = planned("<subtask>Find a chair</subtask><subtask>Bark</subtask>")
    bench.run(18.0, 1.0, lambda now: {"object_detections": [{"label": "chair"}] if int(now / 5) % 2 else []})
    assert len(bench.asked) == 1


# -- two keys: what is held for done is looked at again ------------------------------------------------------------------


def claimed(step: str = "<step><bark/></step>") -> Bench:
    """Return a process whose first subtask is done and whose last step runs."""
    bench = planned()
    bench.planner.subtask_done("t1")
    bench.run(0.5)
    bench.reply("<keep/>")
    bench.run(2.0)
    bench.planner.claimed(step)
    bench.run(0.3)
    return bench


def test_a_claim_is_looked_at_while_its_last_step_runs_and_counts_once_all_subtasks_are_done() -> None:
    bench = claimed()
    asked = bench.asked[-1].blocks
    assert asked["CLAIM"] == ["<step><bark/></step>"] and "all subtasks are done" in asked["WHY"][-1]
    bench.planner.call_started("c", CallReport("bark", {}, "RUNNING"))
    bench.reply("<achieved/>")
    bench.run(5.0)
    assert not bench.plans[-1].over
    bench.planner.call_ended("c", CallReport("bark", {}, "DONE"))
    bench.planner.subtask_done("t2")
    assert bench.plans[-1].achieved and bench.plans[-1].over
    count = len(bench.asked)
    bench.run(60.0)
    assert len(bench.asked) == count


def test_an_agreement_of_long_ago_does_not_count_for_a_mark_that_comes_out_of_nothing() -> None:
    bench = claimed()
    bench.planner.call_started("c", CallReport("bark", {}, "RUNNING"))
    bench.reply("<achieved/>")
    bench.planner.call_ended("c", CallReport("bark", {}, "DONE"))
    bench.run(STALE_S + 1.0)
    bench.planner.subtask_done("t2")
    assert not bench.plans[-1].over
    bench.run(1.0)
    assert bench.asked[-1].blocks["CLAIM"] == ["(ended)"]
    bench.reply("<achieved/>")
    assert bench.plans[-1].achieved


def test_a_verdict_that_comes_after_the_last_subtask_counts_as_well() -> None:
    bench = claimed()
    bench.planner.subtask_done("t2")
    assert not bench.plans[-1].over
    bench.reply("<achieved/>")
    assert bench.plans[-1].achieved


def test_a_failure_after_the_look_voids_it_until_the_task_is_held_for_done_again() -> None:
    bench = claimed()
    bench.reply("<achieved/>")
    bench.fail()
    bench.run(1.0)
    bench.reply('<subtask id="t2"/>')
    bench.planner.subtask_done("t2")
    assert not bench.plans[-1].over
    bench.planner.claimed("")
    bench.run(1.0)
    assert bench.asked[-1].blocks["CLAIM"] == ["(ended)"]
    bench.reply("<achieved/>")
    assert bench.plans[-1].achieved


@pytest.mark.parametrize("outcome", ["INTERRUPTED", "DROPPED"])
def test_a_call_that_is_lost_after_the_look_voids_it(outcome: str) -> None:
    bench = claimed()
    bench.reply("<achieved/>")
    bench.planner.call_ended("c", CallReport("bark", {}, outcome, "the epoch is over"), lost=True)
    bench.planner.subtask_done("t2")
    assert not bench.plans[-1].over
    bench.run(1.0)
    assert "CLAIM" in bench.asked[-1].blocks


def test_a_failure_during_the_look_makes_it_worthless() -> None:
    bench = claimed()
    bench.fail()
    bench.reply("<achieved/>")
    bench.planner.subtask_done("t2")
    assert not bench.plans[-1].over


def test_what_the_look_finds_missing_is_planned() -> None:
    bench = claimed()
    bench.planner.subtask_done("t2")
    bench.reply("<subtask>Bark once more</subtask>")
    assert bench.shown[-1] == ("t3", "Bark once more", "ACTIVE") and not bench.plans[-1].over and bench.plans[-1].reopened
    bench.planner.subtask_done("t3")
    bench.run(1.0)
    assert "CLAIM" in bench.asked[-1].blocks
    bench.reply("<achieved/>")
    assert bench.plans[-1].achieved


def test_a_layer_that_never_agrees_does_not_send_the_robot_round_for_ever() -> None:
    bench = claimed()
    bench.planner.subtask_done("t2")
    for _ in range(20):
        bench.reply("<subtask>Bark once more</subtask>")
        bench.run(1.0)
        if bench.plans[-1].made_by == FALLBACK:
            break
        for subtask in bench.plans[-1].open:
            bench.planner.claimed("<step><bark/></step>")
            bench.run(1.0)
            bench.planner.subtask_done(subtask.id)
    assert "Bark once more" in bench.plans[-1].reason and not bench.plans[-1].open
    assert [s[1] for s in bench.shown].count("Bark once more") in (2, 3) and len(bench.asked) < 10


def test_what_is_named_missing_while_it_is_being_done_is_asked_about_again_afterwards() -> None:
    bench = claimed()
    bench.planner.subtask_done("t2")
    bench.reply('<subtask id="t2"/>')
    bench.run(1.0)
    assert bench.asked[-1].blocks["CLAIM"] == ["(ended)"]
    bench.reply("<achieved/>")
    assert bench.plans[-1].achieved


@pytest.mark.parametrize("answers", [["<keep/>", "<keep/>"], [ModelCode.MODEL_CONNECTION]])
def test_a_claim_that_nobody_answers_is_told_as_one_that_nobody_looked_at(answers: list[str | ModelCode]) -> None:
    bench = claimed()
    for answer in answers:
        if isinstance(answer, str):
            bench.reply(answer)
        else:
            bench._end(bench.running[-1], answer)
    assert bench.plans[-1].made_by == FALLBACK and bench.plans[-1].reason and not bench.plans[-1].over


def test_the_last_subtask_is_looked_at_also_where_nobody_said_that_it_was_the_last() -> None:
    bench = planned()
    bench.planner.subtask_done("t1")
    bench.planner.subtask_done("t2")
    bench.run(1.0)
    assert "CLAIM" in bench.asked[-1].blocks and not bench.plans[-1].over


def test_a_plain_command_that_has_begun_is_looked_at_in_the_place_of_a_plan() -> None:
    bench = Bench()
    bench.planner.claimed("<step><bark/></step>")
    bench.run(1.0)
    (question,) = bench.asked
    assert question.blocks["CLAIM"] == ["<step><bark/></step>"] and "PLAN" not in question.blocks
    bench.reply("<achieved/>")
    assert bench.plans == []
    bench.planner.subtask_done("task")
    assert bench.plans[-1].achieved


def test_what_a_plain_command_left_out_is_a_plan() -> None:
    bench = Bench()
    bench.planner.claimed("<step><bark/></step>")
    bench.run(1.0)
    bench.planner.subtask_done("task")
    bench.reply("<subtask>Find the ball</subtask>")
    assert bench.shown == [("t1", "Find the ball", "ACTIVE")] and not bench.plans[-1].over


@pytest.mark.parametrize("done_first", [True, False])
@pytest.mark.parametrize("budget", [True, False])
def test_a_plain_command_that_nobody_can_look_at_is_never_planned_again(done_first: bool, budget: bool) -> None:
    bench = Bench()
    bench.allowed = (not budget, 0.0, "the budget is spent" if budget else "")
    bench.planner.claimed("<step><bark/></step>")
    bench.run(1.0)
    if done_first:
        bench.planner.subtask_done("task")
        bench.run(1.0)
    if not budget:
        bench._end(bench.running[-1], ModelCode.MODEL_CONNECTION)
    assert bench.plans and all(p.made_by == FALLBACK and not p.open and not p.reopened for p in bench.plans)


def test_a_successor_that_holds_the_task_for_done_hands_nothing_of_it_out_again() -> None:
    bench = Bench(["<achieved/>"], adopted=1000)
    bench.run(5.0)
    assert all(not p.open for p in bench.plans)


def test_an_agreement_is_void_once_system_2_has_planned_something_more() -> None:
    bench = claimed()
    bench.reply("<achieved/>")
    bench.planner.paused(True)
    bench.planner.paused(False)
    bench.run(1.0)
    bench.reply('<subtask id="t2"/><subtask>Sit down</subtask>')
    for subtask in ("t2", "t3"):
        bench.planner.subtask_done(subtask)
    assert not bench.plans[-1].over
    bench.run(1.0)
    assert "CLAIM" in bench.asked[-1].blocks


def test_one_word_of_one_model_ends_nothing_while_subtasks_are_open() -> None:
    bench = planned()
    bench.fail()
    bench.run(0.5)
    bench.reply("<achieved/>")
    assert bench.plans[-1].reason == "kept" and not bench.plans[-1].over and len(bench.plans[-1].open) == 2


def test_a_task_that_seems_done_before_it_is_planned_is_its_own_subtask() -> None:
    bench = Bench(["<achieved/>"])
    bench.run(1.0)
    assert bench.shown == [("t1", bench.instruction, "ACTIVE")] and bench.plans[-1].complete and not bench.plans[-1].over


# -- what becomes of an answer ------------------------------------------------------------------------------------------


def test_kept_subtasks_keep_their_ids_and_unlisted_ones_are_gone() -> None:
    bench = planned()
    bench.fail()
    bench.run(0.5)
    bench.reply('<subtask id="t2"/><subtask criteria="y">find  the BALL!</subtask><subtask>Sit down</subtask>')
    assert bench.shown == [("t2", "If so, bark", "ACTIVE"), ("t1", "find the BALL!", "PENDING"), ("t3", "Sit down", "PENDING")]
    bench.fail(2)
    bench.run(2.0)
    bench.reply("<subtask>Sit down</subtask>")
    assert bench.shown == [("t3", "Sit down", "ACTIVE")]


@pytest.mark.parametrize("late", ['<subtask id="t1"/><subtask id="t2"/>', PLAN, "<subtask>Find the ball</subtask><keep/>"])
def test_a_late_answer_does_not_bring_back_what_was_done_meanwhile(late: str) -> None:
    bench = planned()
    bench.fail()
    bench.run(0.5)
    bench.planner.subtask_done("t1")
    bench.reply(late)
    if "keep" in late:
        bench.reply(late)
    assert bench.shown[0] == ("t1", "Find the ball", "DONE") and "t1" not in [s[0] for s in bench.shown[1:]]
    assert [s[1] for s in bench.shown].count("Find the ball") == 1


def test_what_was_done_before_the_question_can_be_planned_once_more() -> None:
    bench = planned()
    bench.planner.subtask_done("t1")
    bench.run(0.5)
    bench.reply("<subtask>If so, bark</subtask><subtask>Find the ball</subtask>")
    assert bench.shown == [("t1", "Find the ball", "DONE"), ("t2", "If so, bark", "ACTIVE"), ("t3", "Find the ball", "PENDING")]


def test_an_id_that_is_named_twice_is_one_subtask_and_a_new_one() -> None:
    bench = planned()
    bench.fail()
    bench.run(0.5)
    bench.reply('<subtask id="t2"/><subtask id="t2"/><subtask id="t2">Bark again</subtask>')
    assert bench.shown == [("t2", "If so, bark", "ACTIVE"), ("t3", "Bark again", "PENDING")]


def test_events_stay_without_new_ones_and_keep_id_and_count() -> None:
    bench = planned(WITH_EVENT)
    bench.planner.event_fired("e3")
    bench.run(1.0)
    assert bench.asked[1].blocks["EVENTS"] == [{"id": "e3", "condition": "visible('person')", "response": "wave", "fired": 1}]
    bench.reply("<subtask>Bark</subtask>")
    assert [(e.id, e.fired) for e in bench.plans[-1].events] == [("e3", 1)]
    bench.fail()
    bench.run(2.0)
    bench.reply("<event cond=\"visible('person')\">nod</event><event cond=\"visible('cat')\">stop</event>")
    assert [(e.id, e.response, e.fired) for e in bench.plans[-1].events] == [("e3", "nod", 1), ("e5", "stop", 0)]
    assert bench.shown == [("t4", "Bark", "ACTIVE")]


def test_every_review_that_a_failure_made_is_a_revision_also_when_the_plan_is_kept() -> None:
    bench = planned()
    before = bench.plans[-1]
    bench.fail()
    bench.run(0.5)
    bench.reply("<keep/>")
    assert bench.plans[-1] == replace(before, revision=before.revision + 1, reason="kept")
    bench.planner.subtask_done("t1")
    bench.run(2.0)
    count = len(bench.plans)
    bench.reply("<keep/>")
    assert len(bench.plans) == count


def test_a_given_up_task_says_why_and_nothing_is_asked_any_more() -> None:
    bench = planned()
    bench.fail()
    bench.run(0.5)
    bench.reply("<give_up>The door to the hallway is shut.</give_up>")
    assert not bench.plans[-1].over
    bench.run(2.0)
    assert "only if nothing else is left to try" in bench.asked[-1].blocks["WHY"][-1]
    bench.reply("<give_up>The door to the hallway is shut.</give_up>")
    plan = bench.plans[-1]
    assert plan.given_up and plan.reason == "The door to the hallway is shut." and plan.complete
    assert [s.status for s in plan.subtasks] == [SubtaskStatus.FAILED, SubtaskStatus.PENDING]
    bench.fail(2)
    bench.planner.paused(True)
    bench.planner.paused(False)
    bench.run(60.0)
    assert len(bench.asked) == 3 and bench.plans[-1] is plan
