# SPDX-License-Identifier: Apache-2.0
"""Strategy `closed_loop` on the virtual clock: what begins, what is doubted, what is planned again, and how it ends."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pytest
from kitchen_kit import PLACES, Kitchen, Room, View, answers, judgement, plan
from layered_kit import Asked, Says
from PIL import Image as Pillow

from bench.simulated_model.model_server import ModelServer
from planners.models.base import CancelToken, Image, Surroundings, tokens_in
from planners.models.config import ModelConfig
from planners.models.factory import make_client
from planners.prompts.blocks import Layer
from planners.strategies.closed_loop.strategy import ClosedLoop
from skill_kernel.codes import CallCode, ModelCode, Outcome, TaskCode

OPEN_DRAWER = 'open(robot="atlas", what="drawer")'
OPEN_FRIDGE = 'open(robot="hebe", what="fridge")'
PICK_APPLE = 'pick_from(robot="atlas", object="apple", space="table")'
PICK_CUP = 'pick_from(robot="atlas", object="cup", space="drawer")'
PICK_TEA = 'pick_from(robot="hebe", object="tea", space="fridge")'
BIN, TABLE = 'release_to(robot="atlas", space="bin")', 'release_to(robot="hebe", space="table")'
TO_TABLE = 'go_to(robot="hebe", point="in_front_of_table")'
APPLE_INTO_BIN = ["atlas.pick_from(apple, table)", "atlas.release_to(bin)"]


def red_at(picture: bytes, space: tuple[int, int]) -> bool:
    """Return whether a picture shows the apple in the space that begins at this pixel."""
    x, y = space
    pixels = np.asarray(Pillow.open(io.BytesIO(picture)).convert("RGB"))[y : y + 60, x : x + 70]
    return bool((pixels == (220, 20, 20)).all(axis=2).any())


def sees_apple(asked: Asked) -> Says | str:
    """Let the apple be picked where the pictures show it, and a task be done when they show it in the bin."""
    action = next(iter(asked.blocks.get("ACTION", [])), "")
    if action and "apple" not in action:
        return judgement(True)
    space = next((name for name in PLACES if f'space="{name}"' in action), "bin")
    seen = any(red_at(image.data, PLACES[space]) for image in asked.request.messages[-1].images)
    return judgement(seen, f"the apple is in the {space}" if seen else f"there is no apple in the {space}")


def feedback(kitchen: Kitchen) -> list[list[str]]:
    """Return what each plan was told of the one before."""
    return [asked.blocks.get("FEEDBACK", []) for asked in kitchen.asked(Layer.PLANNER)]


# -- the way of a task ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("critic", ["always", "on_doubt"])
def test_a_task_is_planned_done_looked_at_and_ends_with_what_was_claimed(critic: str) -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)], sees_apple), critic=critic).run()
    assert kitchen.ended == [(0, "all is done")] and kitchen.done() == APPLE_INTO_BIN
    assert kitchen.room.things["apple"] == "bin"
    claims = [asked for asked in kitchen.asked(Layer.CRITIC) if "CLAIM" in asked.blocks]
    assert len(claims) == 1 and claims[0].blocks["CLAIM"] == ["all is done"]


@pytest.mark.parametrize(("first_s", "looked_s", "seen"), [(0.45, 0.5, "what is to be seen"), (1e9, 2.0, "")])
def test_the_first_plan_waits_for_the_first_pictures_but_not_for_long(
    first_s: float, looked_s: float, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = View.images
    monkeypatch.setattr(View, "images", lambda view: taken(view) if view.steady_now() >= first_s else [])
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)])).run(20.0)
    first = kitchen.asked(Layer.OBSERVER if seen else Layer.PLANNER)[0]
    assert first.time_s == pytest.approx(looked_s)
    assert (seen in kitchen.asked(Layer.PLANNER)[0].blocks["SEEN"]) is bool(seen)


def test_the_planner_hears_what_was_believed_and_seen_and_the_summarizer_what_was_done() -> None:
    kitchen = Kitchen(answers([plan(OPEN_DRAWER), plan(PICK_APPLE, BIN)])).run()
    first, second, last = kitchen.asked(Layer.PLANNER)
    assert "BELIEF" not in first.blocks and first.blocks["SEEN"] == ["what is to be seen"]
    assert "BELIEF" not in second.blocks, "the summarizer has not answered yet, and nobody waits for it"
    assert [(item["step"], item["action"], item["feedback"]) for item in second.blocks["HISTORY"]] == [(1, OPEN_DRAWER, "DONE")]
    assert last.blocks["BELIEF"] == ["Trajectory: step 1\nSpatial: here"]
    assert [item["step"] for item in last.blocks["HISTORY"]] == [2] and last.blocks["RUNNING"] == [BIN]
    assert [item["robot"] for item in second.blocks["OBSERVATION"]] == ["hebe", "atlas"]
    assert second.blocks["NAMES"][0]["object"] == ["apple", "tea", "cup"]
    history = kitchen.asked(Layer.SUMMARIZER)[-1].blocks["HISTORY"]
    assert [(item["step"], item["action"]) for item in history] == [(1, OPEN_DRAWER), (2, PICK_APPLE), (3, BIN)]
    assert len(kitchen.asked(Layer.SUMMARIZER)) == 3 and "FEEDBACK" not in last.blocks


def test_observer_and_critic_get_the_pictures_of_both_robots_and_the_planner_none() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)]), critic="always").run()
    for layer, pictures in ((Layer.OBSERVER, 2), (Layer.CRITIC, 2), (Layer.PLANNER, 0), (Layer.SUMMARIZER, 0)):
        for asked in kitchen.asked(layer):
            images = asked.request.messages[-1].images
            assert len(images) == pictures
            assert all(Pillow.open(io.BytesIO(image.data)).size == (320, 200) for image in images)
            assert [item["robot"] for item in asked.blocks.get("IMAGES", [])] == ["hebe", "atlas"][:pictures]


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_the_pictures_of_both_robots_reach_a_provider_as_pictures(provider: str) -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE)]), critic="always").run()
    asked = kitchen.asked(Layer.CRITIC)[0].request
    with ModelServer(judgement(True)) as server:
        url = server.openai_url if provider == "openai" else server.anthropic_url
        config = ModelConfig.model_validate({"provider": provider, "model": "m", "base_url": url})
        client = make_client(config, surroundings=Surroundings(environ={}))
        assert list(client.stream(asked, cancel=CancelToken()))
        client.close()
    assert server.requests[0].images == [image.data for image in asked.messages[-1].images]
    assert len(server.requests[0].images) == 2 and f"ACTION:\n- {json.dumps(PICK_APPLE)}" in server.requests[0].last_user_text


def test_the_memory_works_while_the_next_action_runs() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)], delay_s=0.7), critic="never").run()
    pick, release = kitchen.calls
    seen = [asked for asked in kitchen.asked(Layer.OBSERVER) if pick.ended_s <= asked.time_s < release.ended_s]
    assert len(seen) == 1 and seen[0].ended_s is not None and seen[0].ended_s < release.ended_s
    assert release.began_s - pick.ended_s <= 0.3


def test_a_plan_holds_five_calls_at_most() -> None:
    wave = 'wave(robot="atlas", speed=1.0)'
    kitchen = Kitchen(answers([plan(*[wave] * 9)]), critic="never").run()
    assert kitchen.done() == ["atlas.wave(1.0)"] * 5


# -- verdicts ---------------------------------------------------------------------------------------------------------


def test_always_asks_before_every_action_and_on_doubt_only_where_it_cannot_know() -> None:
    plans = [plan(OPEN_FRIDGE, PICK_TEA, TO_TABLE, TABLE), plan(PICK_APPLE, BIN)]
    asked = {}
    for policy in ("always", "on_doubt", "never"):
        kitchen = Kitchen(answers(plans), critic=policy).run()
        assert len(kitchen.done()) == 6 and kitchen.ended[0][0] == 0
        asked[policy] = [q.blocks["ACTION"][0] for q in kitchen.asked(Layer.CRITIC) if "ACTION" in q.blocks]
    assert set(asked["always"]) == {OPEN_FRIDGE, PICK_TEA, TO_TABLE, TABLE, PICK_APPLE, BIN} and not asked["never"]
    assert len(asked["on_doubt"]) / 6 <= 0.3


def test_no_action_begins_before_the_critic_has_let_it() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)]), critic="always").run()
    for call in kitchen.calls:
        verdicts = [q for q in kitchen.asked(Layer.CRITIC) if call.skill in q.blocks.get("ACTION", [""])[0]]
        assert verdicts and verdicts[0].ended_s is not None and verdicts[0].ended_s <= call.began_s


def test_a_rejected_action_never_begins_costs_no_motion_and_is_planned_again_with_the_feedback() -> None:
    def critic(asked: Asked) -> str:
        return judgement("apple" not in asked.blocks.get("ACTION", [""])[0], "the apple is a toy: take the cup")

    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN), plan(OPEN_DRAWER, PICK_CUP)], critic), critic="always").run()
    assert kitchen.done() == ["atlas.open(drawer)", "atlas.pick_from(cup, drawer)"] and len(kitchen.calls) == 2
    told = f"{PICK_APPLE} was rejected (model): the apple is a toy: take the cup"
    assert feedback(kitchen)[1] == [told] and told in kitchen.notices()


@pytest.mark.parametrize(
    ("plans", "why"),
    [
        ([plan(PICK_APPLE, PICK_APPLE), plan(BIN)], "the hand of atlas holds apple; it must be put down first"),
        (
            [plan(TO_TABLE, 'pick_from(robot="hebe", object="apple", space="sink")'), plan(PICK_APPLE, BIN)],
            "apple is in table, not in sink",
        ),
    ],
)
def test_what_cannot_come_off_is_rejected_while_the_action_before_it_still_runs(plans: list[str], why: str) -> None:
    kitchen = Kitchen(answers(plans)).run()
    first = kitchen.calls[0]
    assert any(text.endswith(f"was rejected (world): once what runs has ended, {why}") for text in kitchen.notices())
    again = kitchen.asked(Layer.PLANNER)[1]
    assert again.time_s < first.ended_s and len(again.blocks["RUNNING"]) == 1 and why in again.blocks["FEEDBACK"][0]
    assert kitchen.ended == [(0, "all is done")] and kitchen.room.things["apple"] == "bin" and not kitchen.done("FAILED")


def test_a_planner_that_insists_on_what_cannot_come_off_ends_no_action_that_runs() -> None:
    stubborn = [plan(PICK_APPLE, PICK_APPLE), plan(PICK_APPLE), plan(BIN)]
    kitchen = Kitchen(answers(stubborn), max_rejections=2).run()
    assert kitchen.done() == APPLE_INTO_BIN and kitchen.ended == [(0, "all is done")]
    early = [text for text in kitchen.notices() if "once what runs has ended" in text]
    assert len(early) == 1, "another one while the same action runs would count without anything having happened"


def test_what_an_action_may_show_is_waited_for_before_the_next_one_is_rejected() -> None:
    unfit = 'pick_from(robot="hebe", object="apple", space="sink")'
    kitchen = Kitchen(answers([plan(OPEN_FRIDGE, unfit), plan(PICK_APPLE, BIN)])).run()
    assert kitchen.asked(Layer.PLANNER)[1].time_s >= kitchen.calls[0].ended_s
    assert feedback(kitchen)[1] == [f"{unfit} was rejected (world): apple is in table, not in sink"]


def test_what_the_critic_says_when_it_agrees_reaches_no_later_prompt() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)], lambda _: judgement(True, "SECRET PRAISE")), critic="always").run()
    assert kitchen.ended[0][0] == 0
    assert not any("SECRET PRAISE" in asked.request.messages[-1].text for asked in kitchen.model.questions)


def test_feedback_reaches_the_next_plan_and_none_after_it() -> None:
    kitchen = Kitchen(answers([plan(PICK_CUP), plan(OPEN_DRAWER), plan(PICK_CUP)])).run()
    assert [len(told) for told in feedback(kitchen)] == [0, 1, 0, 0]
    assert feedback(kitchen)[1] == [f"{PICK_CUP} was rejected (world): drawer is shut; it must be opened first"]
    assert not [q for q in kitchen.asked(Layer.CRITIC) if "ACTION" in q.blocks], "the world's verdict needs no model"


def test_rejections_without_end_end_the_task_with_the_reason() -> None:
    kitchen = Kitchen(answers([plan(PICK_CUP)] * 50), max_rejections=4).run(2000)
    ((code, why),) = kitchen.ended
    assert code == TaskCode.TURN_LIMIT and "4 plans in a row were rejected" in why and "drawer is shut" in why
    assert not kitchen.calls and len(kitchen.asked(Layer.PLANNER)) == 4


def test_rejections_and_failures_with_something_done_between_them_do_not_add_up() -> None:
    wave = plan('wave(robot="atlas")')
    kitchen = Kitchen(answers([plan(PICK_CUP), wave] * 5 + [plan(PICK_APPLE, BIN)]), max_rejections=2).run(2000)
    assert kitchen.ended == [(0, "all is done")] and len(feedback(kitchen)) == 12
    kitchen = Kitchen(answers([plan(OPEN_DRAWER), wave] * 5 + [plan(PICK_APPLE, BIN)]), critic="never", max_failures=2)
    for n in range(1000):
        kitchen.at(n * 0.1, lambda: kitchen.fails.update({"atlas.open(drawer)": "the handle is stuck"}))
    kitchen.run(2000)
    assert len(kitchen.done("FAILED")) == 5 and kitchen.room.things["apple"] == "bin"


def test_actions_that_somebody_interrupts_are_no_failures() -> None:
    def cut(kitchen: Kitchen) -> None:
        for call in kitchen.running:
            call.end(Outcome.INTERRUPTED, kitchen.clock.now(), int(CallCode.INTERRUPTED_BY), "a reflex took the arm")

    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)] * 9), max_failures=2)
    for n in range(40):
        kitchen.at(n * 0.5, lambda: cut(kitchen))
    kitchen.run()
    assert len(kitchen.done("INTERRUPTED")) > 2 and kitchen.room.things["apple"] == "bin"


def test_plans_without_end_end_the_task() -> None:
    kitchen = Kitchen(answers([plan('wave(robot="atlas")')] * 50), critic="never", max_plans=7).run(2000)
    ((code, why),) = kitchen.ended
    assert code == TaskCode.TURN_LIMIT and "not done after 7 plans" in why and len(kitchen.calls) == 7


def test_an_invalid_call_goes_back_to_the_planner_with_its_reason_and_reaches_no_robot() -> None:
    bad = plan('pick_from(robot="hebe", object="apple", space="bin")')
    kitchen = Kitchen(answers([bad, plan(PICK_APPLE, BIN)])).run()
    assert kitchen.done() == APPLE_INTO_BIN and len(kitchen.calls) == 2
    repaired = kitchen.asked(Layer.PLANNER)[1]
    assert "space" in repaired.blocks["FAULTS"][0] and "bin" in repaired.blocks["FAULTS"][0]
    kitchen = Kitchen(answers([bad] * 40), max_rejections=3).run(2000)
    assert kitchen.ended[0][0] == TaskCode.TURN_LIMIT and not kitchen.calls


def test_a_critic_that_says_nothing_of_use_lets_nothing_begin() -> None:
    def critic(asked: Asked) -> Says | str:
        return Says(silent=True) if len(asked.blocks["ACTION"][0]) % 2 else "Looks fine to me!"

    kitchen = Kitchen(answers([plan(PICK_APPLE), plan(BIN)] * 20, critic), critic="always", max_rejections=3).run(2000)
    assert not kitchen.calls and kitchen.ended[0][0] == TaskCode.TURN_LIMIT
    assert "the critic gave no verdict" in kitchen.ended[0][1]


# -- what changes on the way ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("critic", ["always", "on_doubt"])
def test_a_thing_that_is_moved_on_the_way_is_found_again_and_without_a_critic_is_grasped_at(critic: str) -> None:
    def run(policy: str) -> Kitchen:
        then = 'pick_from(robot="hebe", object="apple", space="sink")'
        plans = [plan(OPEN_DRAWER, PICK_APPLE, BIN), plan(then, TABLE), plan(PICK_APPLE, BIN)]
        kitchen = Kitchen(answers(plans, sees_apple), critic=policy)
        return kitchen.at(4.0, lambda: kitchen.move("apple", "sink")).run()

    kitchen = run(critic)
    assert kitchen.ended == [(0, "all is done")] and kitchen.room.things["apple"] == "bin" and not kitchen.done("FAILED")
    assert run("never").done("FAILED") == ["atlas.pick_from(apple, table)"]


def test_an_action_that_fails_voids_the_plan_and_the_planner_hears_why() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN), plan(PICK_APPLE, BIN)]))
    kitchen.fails["atlas.pick_from(apple, table)"] = "it slipped"
    kitchen.run()
    assert kitchen.done("FAILED") == ["atlas.pick_from(apple, table)"] and kitchen.done() == APPLE_INTO_BIN
    assert feedback(kitchen)[1] == [f"{PICK_APPLE} FAILED: it slipped"]
    doubted = [q for q in kitchen.asked(Layer.CRITIC) if q.blocks.get("ACTION") == [PICK_APPLE]]
    assert len(doubted) == 1, "what has failed is looked at before it is tried again"


def test_what_was_planned_behind_a_question_is_planned_again_with_its_answer() -> None:
    asks = 'ask(robot="atlas", question="Which bin?")'
    kitchen = Kitchen(answers([plan(asks, PICK_APPLE), plan(PICK_APPLE, BIN)], sees_apple)).run()
    assert kitchen.done() == ["atlas.ask(Which bin?)", *APPLE_INTO_BIN]
    assert [bool(told) for told in feedback(kitchen)] == [False, True, False]
    assert feedback(kitchen)[1][0].startswith(f"{asks} DONE")


def test_failures_without_end_end_the_task() -> None:
    kitchen = Kitchen(answers([plan(OPEN_DRAWER)] * 20), max_failures=3)
    for n in range(20):
        kitchen.at(n * 2.0, lambda: kitchen.fails.update({"atlas.open(drawer)": "the handle is stuck"}))
    kitchen.run(2000)
    assert kitchen.ended == [(TaskCode.CALL_FAILED, f"{OPEN_DRAWER} FAILED: the handle is stuck")]
    assert len(kitchen.calls) == 3


@pytest.mark.parametrize("critic", ["on_doubt", "never"])
def test_an_action_that_fails_again_and_again_is_not_tried_for_ever_while_the_other_robot_does_well(critic: str) -> None:
    wave = 'wave(robot="atlas")'
    kitchen = Kitchen(answers([plan(OPEN_FRIDGE, wave)] * 30), critic=critic, max_tries=3)
    for n in range(2000):
        kitchen.at(n * 0.1, lambda: kitchen.fails.update({"hebe.open(fridge)": "the handle is stuck"}))
    kitchen.run(2000)
    assert kitchen.done("FAILED") == ["hebe.open(fridge)"] * 3 and kitchen.done() == ["atlas.wave()"] * 3
    why = f"{OPEN_FRIDGE} was rejected (world): it has failed 3 times"
    assert feedback(kitchen)[-1][0].startswith(why) and "the handle is stuck" in feedback(kitchen)[-1][0]
    ((code, told),) = kitchen.ended
    assert code == TaskCode.TURN_LIMIT and "nothing that it rests on has changed since" in told and "handle is stuck" in told


def test_an_action_that_failed_too_often_is_tried_again_after_somebody_stepped_in() -> None:
    kitchen = Kitchen(answers([plan(OPEN_FRIDGE)] * 9), critic="never", max_tries=2)
    for n in range(150):
        kitchen.at(n * 0.1, lambda: kitchen.fails.update({"hebe.open(fridge)": "the handle is stuck"}))
    kitchen.run(15.0)
    assert len(kitchen.done("FAILED")) == 2 and any("it has failed 2 times" in text for text in kitchen.notices())
    kitchen.fails.clear()
    kitchen.interrupt()
    kitchen.run()
    assert "hebe.open(fridge)" in kitchen.done()


# -- criticism ahead of time ------------------------------------------------------------------------------------------

LOOK_AT_TABLE = "{atlas: [0.0625, 0.5, 0.28, 0.8]}"


def ahead(
    region: str, disturb: Callable[[Kitchen], object] | None = None, at_s: float = 0.0, *, wait_s: float = 0.5
) -> Kitchen:
    """Let atlas wave and then pick the apple, each weighed by the model; something happens so long after the wave began."""

    def critic(asked: Asked) -> Says:
        seen = sees_apple(asked) if "apple" in asked.blocks.get("ACTION", [""])[0] else judgement(True)
        return Says(f"{str(seen).rstrip('`').rstrip()}\nRegion: {region}\n```" if region else str(seen), delay_s=wait_s)

    kitchen = Kitchen(answers([plan('wave(robot="atlas", speed=1.0)', PICK_APPLE, BIN)], critic), critic="always")
    kitchen.clock.run(2.0)
    while not kitchen.calls:
        kitchen.run(0.05)
    if disturb is not None:
        kitchen.at(kitchen.calls[0].began_s + at_s - kitchen.clock.now(), lambda: disturb(kitchen))
    return kitchen.run()


def picks(kitchen: Kitchen) -> list[Asked]:
    return [asked for asked in kitchen.asked(Layer.CRITIC) if asked.blocks.get("ACTION") == [PICK_APPLE]]


def test_the_next_action_is_weighed_while_the_current_one_runs() -> None:
    kitchen = ahead(LOOK_AT_TABLE)
    wave, pick = kitchen.calls[:2]
    (asked,) = picks(kitchen)
    assert wave.began_s <= asked.time_s < wave.ended_s and asked.blocks["RUNNING"] == ['wave(robot="atlas", speed=1.0)']
    assert pick.began_s - wave.ended_s <= 0.3


@pytest.mark.parametrize("at_s", [0.2, 0.7, 0.95, 0.999])
@pytest.mark.parametrize("region", [LOOK_AT_TABLE, ""])
def test_a_disturbance_after_the_look_has_it_asked_again(region: str, at_s: float) -> None:
    kitchen = ahead(region, lambda k: k.move("apple", "sink"), at_s)
    assert not kitchen.done("FAILED") and "atlas.pick_from(apple, table)" not in kitchen.done()
    assert any("apple" in why for why in kitchen.notices())


def test_what_changes_elsewhere_than_the_critic_looked_costs_no_second_question() -> None:
    kitchen = ahead(LOOK_AT_TABLE, lambda k: k.room.doors.update(fridge="open"), 0.8)
    assert len(picks(kitchen)) == 1 and kitchen.done()[:2] == ["atlas.wave(1.0)", "atlas.pick_from(apple, table)"]
    kitchen = ahead("", lambda k: k.room.doors.update(fridge="open"), 0.8)
    assert len(picks(kitchen)) == 2, "where it does not say where it looked, the whole picture counts"


def test_an_early_verdict_is_void_when_the_current_action_ends_otherwise() -> None:
    kitchen = ahead(LOOK_AT_TABLE, lambda k: k.calls[0].end(*failed(k)), 0.9)
    assert "atlas.pick_from(apple, table)" not in kitchen.done() and feedback(kitchen)[1][0].endswith(
        "FAILED: it hit something"
    )


def failed(kitchen: Kitchen) -> tuple[Any, ...]:
    return Outcome.FAILED, kitchen.clock.now(), int(CallCode.SKILL_FAILED), "it hit something"


def test_an_early_no_is_asked_again_when_the_thing_has_come_meanwhile() -> None:
    def critic(asked: Asked) -> Says | str:
        return sees_apple(asked)

    room = Room()
    room.things["apple"] = "sink"
    kitchen = Kitchen(answers([plan('wave(robot="atlas", speed=1.0)', PICK_APPLE)], critic), critic="always", room=room)
    for view in kitchen.views.values():
        view.observed = dict  # type: ignore[method-assign]
    kitchen.run(2.4)
    kitchen.move("apple", "table")
    kitchen.run()
    assert "atlas.pick_from(apple, table)" in kitchen.done()


def test_what_nobody_can_see_yet_is_not_asked_ahead() -> None:
    kitchen = Kitchen(answers([plan(OPEN_FRIDGE, PICK_TEA, TO_TABLE, TABLE)]), critic="always").run()
    opened = kitchen.calls[0]
    asked = [q for q in kitchen.asked(Layer.CRITIC) if q.blocks.get("ACTION") == [PICK_TEA]]
    assert [q.time_s >= opened.ended_s for q in asked] == [True], "whether the tea is there shows when the door is open"


def test_the_gaps_between_actions_are_short_beyond_what_models_take() -> None:
    kitchen = Kitchen(answers([plan(OPEN_FRIDGE, PICK_TEA, TO_TABLE, TABLE), plan(PICK_APPLE, BIN)] * 3)).run()
    busy = [(q.time_s, q.ended_s) for q in kitchen.model.questions]
    gaps = []
    for before, after in zip(kitchen.calls, kitchen.calls[1:], strict=False):
        asked = sum(min(e, after.began_s) - max(s, before.ended_s) for s, e in busy if s < after.began_s and e > before.ended_s)
        gaps.append(max(0.0, after.began_s - before.ended_s - asked))
    assert len(gaps) >= 5 and median(gaps) <= 0.3


# -- several robots ---------------------------------------------------------------------------------------------------


def test_two_robots_act_at_the_same_time_where_they_share_nothing() -> None:
    kitchen = Kitchen(answers([plan(OPEN_DRAWER, OPEN_FRIDGE, PICK_TEA)])).run()
    drawer, fridge, tea = kitchen.calls
    assert drawer.began_s == fridge.began_s and tea.began_s >= fridge.ended_s


def test_what_shares_a_thing_or_a_place_waits_in_the_order_of_the_plan() -> None:
    room = Room()
    room.things |= {"tea": "hebe"}
    plans = [plan(TABLE, 'pick_from(robot="atlas", object="tea", space="table")', TO_TABLE, BIN)]
    kitchen = Kitchen(answers(plans), room=room).run()
    by_name = {str(call): call for call in kitchen.calls}
    put, drive = by_name["hebe.release_to(table)"], by_name["hebe.go_to(in_front_of_table)"]
    take, release = by_name["atlas.pick_from(tea, table)"], by_name["atlas.release_to(bin)"]
    assert len(by_name) == 4 and put.ended_s <= take.began_s < drive.ended_s and take.ended_s <= release.began_s
    assert kitchen.room.things["tea"] == "bin"


def test_a_halted_robot_leaves_the_other_going_and_the_plan_informed() -> None:
    plans = [plan(OPEN_FRIDGE, PICK_APPLE, BIN), plan(PICK_APPLE, BIN), plan(BIN), plan(PICK_APPLE, BIN)]
    kitchen = Kitchen(answers(plans))
    kitchen.at(2.5, lambda: kitchen.halt("hebe")).run()
    assert kitchen.done("INTERRUPTED") == ["hebe.open(fridge)"] and kitchen.room.things["apple"] == "bin"
    apple = next(call for call in kitchen.calls if call.skill == "pick_from")
    assert str(apple) in kitchen.done(), "the other robot's action goes on to its end"
    assert feedback(kitchen)[1] == [f"{OPEN_FRIDGE} INTERRUPTED: the robot was halted: a person"]
    assert kitchen.asked(Layer.PLANNER)[1].blocks["RUNNING"] == [PICK_APPLE], "it is planned again while that one runs"


def test_an_action_of_a_halted_robot_is_not_even_tried() -> None:
    kitchen = Kitchen(answers([plan(OPEN_FRIDGE), plan(TO_TABLE), plan(PICK_APPLE, BIN)]))
    kitchen.at(2.5, lambda: kitchen.halt("hebe")).run()
    assert [str(call) for call in kitchen.calls] == ["hebe.open(fridge)", *APPLE_INTO_BIN]
    assert "hebe is halted" in feedback(kitchen)[2][0]


def test_one_robot_alone_plans_by_the_same_strategy() -> None:
    kitchen = Kitchen(answers([plan('pick_from("apple", "table")', 'release_to(space="bin")')]), robots=("atlas",)).run()
    assert kitchen.done() == APPLE_INTO_BIN and kitchen.ended == [(0, "all is done")]


# -- plans ahead of time ----------------------------------------------------------------------------------------------


def test_what_comes_next_is_planned_while_the_last_action_of_a_plan_runs() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE), plan(BIN)])).run()
    pick, release = kitchen.calls
    ahead = kitchen.asked(Layer.PLANNER)[1]
    assert pick.began_s <= ahead.time_s and ahead.ended_s < pick.ended_s and ahead.blocks["RUNNING"] == [PICK_APPLE]
    assert release.began_s - pick.ended_s <= 0.3 and kitchen.ended == [(0, "all is done")]
    assert len(kitchen.asked(Layer.PLANNER)) == 3, "nothing is asked twice"


@pytest.mark.parametrize("answer_s", [0.2, 2.9])
def test_a_plan_made_ahead_is_void_where_the_world_is_not_as_it_supposed(answer_s: float) -> None:
    plans, answer = [plan(PICK_APPLE), plan(BIN), plan(OPEN_FRIDGE)], answers([])

    def model(asked: Asked) -> Says | str:
        ahead = "RUNNING" in asked.blocks
        return (
            Says(plans.pop(0), delay_s=answer_s if ahead else 0.5) if asked.layer is Layer.PLANNER and plans else answer(asked)
        )

    kitchen = Kitchen(model)
    kitchen.at(3.0, lambda: kitchen.move("tea", "sink")).run()
    assert kitchen.done() == ["atlas.pick_from(apple, table)", "hebe.open(fridge)"]
    assert "plans again, because tea is in sink" in kitchen.notices()
    asked = kitchen.asked(Layer.PLANNER)
    assert "RUNNING" not in asked[2].blocks and asked[2].time_s > kitchen.calls[0].ended_s


def test_a_plan_made_ahead_is_void_where_nobody_sees_any_more_how_the_world_is() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE), plan(BIN)]))
    kitchen.at(2.0, lambda: [setattr(view, "blind", True) for view in kitchen.views.values()])
    kitchen.run()
    assert any("plans again, because atlas does not tell what it sees" in text for text in kitchen.notices())


def test_a_plan_made_ahead_is_void_when_what_it_supposes_fails() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE), plan(BIN), plan(PICK_APPLE, BIN)]))
    kitchen.fails["atlas.pick_from(apple, table)"] = "it slipped"
    kitchen.run()
    assert kitchen.done("FAILED") == ["atlas.pick_from(apple, table)"] and kitchen.done() == APPLE_INTO_BIN
    assert feedback(kitchen)[2] == [f"{PICK_APPLE} FAILED: it slipped"]


@pytest.mark.parametrize("answer", [Says(plan(status="impossible")), Says("a poem"), Says(silent=True)])
def test_an_answer_of_no_use_ahead_of_time_ends_nothing_that_runs(answer: Says) -> None:
    model = answers([plan(PICK_APPLE), plan(BIN)])

    def ahead(asked: Asked) -> Says | str:
        useless = asked.layer is Layer.PLANNER and asked.blocks.get("RUNNING") == [PICK_APPLE]
        return answer if useless else model(asked)

    kitchen = Kitchen(ahead).run()
    assert kitchen.done() == APPLE_INTO_BIN and kitchen.ended == [(0, "all is done")]


@pytest.mark.parametrize("last", [OPEN_FRIDGE, 'wave(robot="atlas")', 'ask(robot="atlas", question="Why?")'])
def test_what_shows_or_decides_something_new_is_waited_for(last: str) -> None:
    kitchen = Kitchen(answers([plan(last), plan(PICK_APPLE, BIN)])).run()
    assert not any(last in asked.blocks.get("RUNNING", []) for asked in kitchen.asked(Layer.PLANNER))


# -- the open loop ----------------------------------------------------------------------------------------------------


def test_the_open_loop_makes_one_whole_plan_from_the_pictures_and_nobody_doubts_it() -> None:
    kitchen = Kitchen(answers([plan(OPEN_DRAWER, PICK_CUP, BIN, PICK_APPLE, BIN, OPEN_FRIDGE)]), mode="open").run()
    assert len(kitchen.done()) == 6
    assert [q.layer for q in kitchen.model.questions] == [Layer.PLANNER]
    assert len(kitchen.model.questions[0].request.messages[-1].images) == 2
    assert kitchen.ended == [(0, "unverified: the plan was carried out without another look")]


def test_the_open_loop_plans_once_more_after_an_action_that_failed_and_no_third_time() -> None:
    kitchen = Kitchen(answers([plan(PICK_CUP, BIN), plan(OPEN_DRAWER, PICK_CUP, BIN)]), mode="open").run()
    assert kitchen.done("FAILED") == ["atlas.pick_from(cup, drawer)"] and kitchen.room.things["cup"] == "bin"
    assert kitchen.ended[0][0] == 0 and len(kitchen.asked(Layer.PLANNER)) == 2
    assert feedback(kitchen)[1] == [f"{PICK_CUP} FAILED: drawer is shut"]
    kitchen = Kitchen(answers([plan(PICK_APPLE, PICK_CUP), plan(BIN, PICK_CUP), plan(OPEN_DRAWER)]), mode="open").run()
    assert len(kitchen.asked(Layer.PLANNER)) == 2 and kitchen.ended[0][0] != 0 and "drawer is shut" in kitchen.ended[0][1]


# -- the end ----------------------------------------------------------------------------------------------------------


def test_a_claim_that_a_look_refutes_is_planned_again() -> None:
    kitchen = Kitchen(answers([plan(subgoal="it is in the bin", status="done"), plan(PICK_APPLE, BIN)], sees_apple)).run()
    assert kitchen.ended == [(0, "all is done")] and kitchen.room.things["apple"] == "bin"
    assert "there is no apple in the bin" in feedback(kitchen)[1][0]


def test_a_claim_is_looked_at_when_nothing_runs_any_more() -> None:
    kitchen = Kitchen(answers([plan(OPEN_FRIDGE, PICK_APPLE)]))
    kitchen.at(2.5, lambda: kitchen.halt("hebe")).run()
    (look,) = [asked for asked in kitchen.asked(Layer.CRITIC) if "CLAIM" in asked.blocks]
    pick = next(call for call in kitchen.calls if call.skill == "pick_from")
    (claimed,) = kitchen.asked(Layer.PLANNER)[1:]
    assert claimed.ended_s < pick.ended_s < look.time_s
    assert PICK_APPLE in [item["action"] for item in look.blocks["HISTORY"]]


def test_claims_without_end_end_the_task_as_not_done() -> None:
    kitchen = Kitchen(answers([plan(subgoal="done", status="done")] * 20, sees_apple), max_rejections=3).run(1000)
    assert kitchen.ended[0][0] == TaskCode.TURN_LIMIT and "no apple in the bin" in kitchen.ended[0][1] and not kitchen.calls


def test_without_a_look_a_claim_is_unverified_and_with_nothing_done_it_is_no_success() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)]), critic="never").run()
    assert kitchen.ended == [(0, "unverified: no critic, or no picture for it to look at")]
    kitchen = Kitchen(answers([]), critic="never").run()
    assert kitchen.ended[0][0] == TaskCode.ONLY_WORDS
    kitchen = Kitchen(
        answers([plan(PICK_APPLE, BIN)], lambda q: Says(silent=True) if "CLAIM" in q.blocks else judgement(True))
    ).run()
    assert kitchen.ended[0][0] == 0 and kitchen.ended[0][1].startswith("unverified: the critic gave no verdict")


def test_a_claim_after_a_failure_that_nobody_can_look_at_is_a_failure() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE)]), critic="never")
    kitchen.fails["atlas.pick_from(apple, table)"] = "it slipped"
    kitchen.run()
    assert kitchen.ended == [(TaskCode.CALL_FAILED, f"{PICK_APPLE} FAILED: it slipped")]


def test_the_planner_may_give_up_with_its_reason() -> None:
    kitchen = Kitchen(answers([plan(subgoal="the apple is glued to the table", status="impossible")])).run()
    assert kitchen.ended == [(TaskCode.GIVEN_UP, "the planner gives up: the apple is glued to the table")]


# -- models and pictures that fail ------------------------------------------------------------------------------------


def failing(layer: Layer, says: Says) -> Kitchen:
    """Run with a model that always answers so as one role."""
    good = answers([plan(PICK_APPLE, BIN)])
    return Kitchen(lambda asked: says if asked.layer is layer else good(asked)).run(2000)


@pytest.mark.parametrize("layer", [Layer.OBSERVER, Layer.SUMMARIZER])
@pytest.mark.parametrize("says", [Says(silent=True), Says(code=int(ModelCode.MODEL_SERVER), why="down"), Says("")])
def test_without_observer_or_summarizer_it_goes_on_by_outcomes_and_says_so(layer: Layer, says: Says) -> None:
    kitchen = failing(layer, says)
    assert kitchen.ended == [(0, "all is done")] and kitchen.done() == APPLE_INTO_BIN
    unheard = layer is Layer.SUMMARIZER and says.silent
    assert set(kitchen.degraded()) == (set() if unheard else {layer.value}), "nobody waits for a silent summarizer"


def test_the_planner_is_told_the_newest_reasons_alone() -> None:
    kitchen = Kitchen(answers(["I would rather not."] * 40), max_rejections=12).run(2000)
    assert max(map(len, feedback(kitchen))) == 5 and kitchen.ended[0][0] == TaskCode.TURN_LIMIT


@pytest.mark.parametrize(
    ("says", "code", "asked"),
    [
        (Says(silent=True), ModelCode.MODEL_TIMEOUT, 3),
        (Says(code=int(ModelCode.MODEL_CONNECTION), why="no route"), ModelCode.MODEL_CONNECTION, 3),
        (Says(code=int(ModelCode.MODEL_AUTH), why="no key"), ModelCode.MODEL_AUTH, 1),
        (Says("I would rather not."), TaskCode.TURN_LIMIT, 12),
    ],
)
def test_a_planner_that_gives_no_plan_ends_the_task_with_its_code(says: Says, code: int, asked: int) -> None:
    kitchen = failing(Layer.PLANNER, says)
    assert [c for c, _ in kitchen.ended] == [code] and not kitchen.calls and len(kitchen.asked(Layer.PLANNER)) == asked


def test_one_lost_answer_of_the_planner_is_asked_again() -> None:
    good, lost = answers([plan(PICK_APPLE, BIN)]), [Says(code=int(ModelCode.MODEL_SERVER), why="down")]
    kitchen = Kitchen(lambda q: lost.pop() if lost and q.layer is Layer.PLANNER else good(q)).run()
    assert kitchen.ended == [(0, "all is done")] and kitchen.degraded() == ["planner"]


def test_a_spent_budget_ends_it_and_a_slow_one_slows_it() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)]))
    kitchen.budget = lambda role: (False, 0.0, "the process has used its tokens")
    kitchen.run()
    assert kitchen.ended == [(TaskCode.BUDGET_SPENT, "the process has used its tokens")] and not kitchen.calls
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)]))
    kitchen.budget = lambda role: (role == "planner", 0.0, "the rest is kept for the layer that acts")
    kitchen.run()
    assert kitchen.done() == APPLE_INTO_BIN and kitchen.ended[0][1].startswith("unverified: the critic gave no verdict")
    slow = Kitchen(answers([plan(PICK_APPLE, BIN)]))
    slow.budget = lambda role: (True, max(0.0, 5.0 - slow.clock.now()), "nearly spent")
    slow.run()
    assert slow.ended == [(0, "all is done")] and slow.calls[0].began_s >= 5.0


@pytest.mark.parametrize("data", [None, b"\x89PNG\r\n\x1a\nbroken", "4k"])
def test_pictures_that_are_missing_broken_or_huge_do_not_stop_it(data: Any) -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)]), critic="always")
    buffer = io.BytesIO()
    Pillow.linear_gradient("L").resize((3840, 2160)).save(buffer, format="JPEG")
    shown = [] if data is None else [Image(buffer.getvalue() if data == "4k" else data)]
    for view in kitchen.views.values():
        view.pictures = lambda: shown
    kitchen.run(60.0)
    assert kitchen.done() == APPLE_INTO_BIN
    for asked in kitchen.asked(Layer.CRITIC):
        images = asked.request.messages[-1].images
        assert all(max(Pillow.open(io.BytesIO(image.data)).size) <= 1024 for image in images)
        assert [("missing" in item) for item in asked.blocks["IMAGES"]] == [data != "4k"] * 2
    assert kitchen.ended[0][1].startswith("unverified") is (data != "4k"), "no picture, no proof"


def test_without_any_observation_the_critic_decides_by_the_pictures() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)], sees_apple))
    for view in kitchen.views.values():
        view.observed = lambda: None  # type: ignore[method-assign]
    kitchen.run()
    assert kitchen.room.things["apple"] == "bin"
    assert next(q.blocks["ACTION"] for q in kitchen.asked(Layer.CRITIC) if "ACTION" in q.blocks) == [PICK_APPLE]


def test_an_observation_that_stops_coming_holds_nothing_up() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)]))
    kitchen.run(1.0)
    kitchen._observe = lambda: None  # type: ignore[method-assign]
    for view in kitchen.views.values():
        view.observed = lambda: None  # type: ignore[method-assign]
    kitchen.run(60.0)
    assert kitchen.ended and kitchen.done() == APPLE_INTO_BIN


def test_prompts_are_bounded_whatever_models_and_skills_say() -> None:
    chatter = "word " * 1500

    def answer(asked: Asked) -> Says:
        text = judgement(True, chatter) if asked.layer is Layer.CRITIC else chatter
        return Says(plan('wave(robot="atlas")', subgoal=chatter) if asked.layer is Layer.PLANNER else text, rate=1e6)

    kitchen = Kitchen(answer, critic="always", max_plans=12, max_failures=100, max_tries=100)
    for n in range(100):
        kitchen.at(n * 1.0, lambda: kitchen.fails.update({"atlas.wave()": chatter}))
    kitchen.run(2000)
    assert len(kitchen.asked(Layer.PLANNER)) == 12
    assert max(tokens_in(q.request.messages[-1].text) for q in kitchen.model.questions) < 6000


# -- pauses and interrupts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_s", [0.1, 0.8, 1.5, 3.0, 5.0, 5.4, 6.2, 8.0])
def test_in_a_pause_nothing_is_asked_or_begun_and_it_goes_on_after_it(at_s: float) -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)] * 9), critic="always").run(at_s)
    kitchen.pause()
    asked, begun = len(kitchen.model.questions), len(kitchen.calls)
    kitchen.run(20.0)
    assert (len(kitchen.model.questions), len(kitchen.calls)) == (asked, begun)
    assert all(q.ended_s is not None for q in kitchen.model.questions), "what was being asked is taken back"
    kitchen.resume()
    kitchen.resume()
    kitchen.run()
    assert kitchen.room.things["apple"] == "bin" and kitchen.done()[:2] == APPLE_INTO_BIN


def test_after_a_pause_nobody_takes_it_that_a_robot_stands_where_it_stood() -> None:
    kitchen = Kitchen(answers([plan(TO_TABLE)] * 3)).run(2.0)
    assert kitchen.running
    kitchen.pause()
    kitchen.run(20.0).resume()
    kitchen.run()
    assert kitchen.done() == ["hebe.go_to(in_front_of_table)"] * 2


@pytest.mark.parametrize("at_s", [0.1, 0.8, 1.5, 3.0, 5.0, 5.4, 6.2, 8.0])
def test_an_interrupt_voids_what_was_planned_and_it_is_planned_again_from_what_is_there(at_s: float) -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)] * 4 + [plan(BIN)]), critic="always").run(at_s)
    kitchen.interrupt()
    asked, begun = len(kitchen.model.questions), len(kitchen.calls)
    kitchen.run(2.9)
    assert (len(kitchen.model.questions), len(kitchen.calls)) == (asked, begun)
    assert all(q.ended_s is not None for q in kitchen.model.questions)
    kitchen.run()
    told = [why for plan in feedback(kitchen) for why in plan]
    assert kitchen.ended and any("the process was interrupted: somebody spoke" in why for why in told)


def test_an_interrupt_outlasts_the_wait_for_a_lost_answer() -> None:
    lost = Says(code=int(ModelCode.MODEL_SERVER), why="down")
    kitchen = Kitchen(lambda asked: lost if asked.layer is Layer.PLANNER else "what is to be seen").run(1.5)
    kitchen.interrupt()
    kitchen.run(2.9)
    assert len(kitchen.asked(Layer.PLANNER)) == 1
    kitchen.run(1.0)
    assert len(kitchen.asked(Layer.PLANNER)) == 2


def test_an_interrupt_of_the_open_loop_is_its_one_replan() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)] * 3), mode="open").run(2.0)
    kitchen.interrupt()
    kitchen.run()
    assert [q.layer for q in kitchen.model.questions if not q.cancelled] == [Layer.PLANNER] * 2
    assert kitchen.room.things["apple"] == "bin" and kitchen.ended[0][1].startswith("unverified")


def test_what_the_critic_said_before_a_pause_is_asked_again_after_it() -> None:
    kitchen = ahead(LOOK_AT_TABLE, lambda k: (k.pause(), k.at(5.0, k.resume)), 0.97)
    assert len(picks(kitchen)) == 2 and kitchen.room.things["apple"] == "bin"


def test_a_process_that_has_ended_asks_and_begins_nothing_more() -> None:
    kitchen = Kitchen(answers([plan(PICK_APPLE, BIN)]), critic="always").run(1.6)
    kitchen.planning.close("a person said stop")
    asked, begun = len(kitchen.model.questions), len(kitchen.calls)
    kitchen.run()
    assert (len(kitchen.model.questions), len(kitchen.calls), kitchen.ended) == (asked, begun, [])
    assert all(q.ended_s is not None for q in kitchen.model.questions)


def test_it_is_installed_and_says_what_may_be_set() -> None:
    parameters = {p.name: p for p in ClosedLoop.parameters}
    assert parameters["closed_loop.critic"].choices == ("always", "on_doubt", "never")
    assert parameters["closed_loop.mode"].default == "closed"
    assert {role.name for role in ClosedLoop.roles} == {"observer", "summarizer", "planner", "critic"}
