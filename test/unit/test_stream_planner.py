# SPDX-License-Identifier: Apache-2.0
"""When strategy `stream` asks again, and with what words it ends."""

from __future__ import annotations

import pytest

from bench.performing import SETTINGS
from bench.reading import read_blocks
from bench.simulated_model.prompt import results_of
from planners.models.base import ModelRequest, tokens_in
from planners.prompts.prompt import CallReport, RobotFacts
from planners.strategies.stream.stream_planner import MAX_ANSWER_CHARS, Conversation, StreamPlanner
from planners.strategies.turns import Known, PlanEnded, TurnResult
from skill_kernel.codes import ModelCode, TaskCode


def planner(conversation: Conversation | None = None, **settings: int) -> StreamPlanner:
    made = StreamPlanner(RobotFacts("desk", "", []), list, {**SETTINGS, **settings}, conversation)
    made.begin("nod", sender="somebody")
    return made


def report(outcome: str, function: str = "nod") -> CallReport:
    return CallReport(function, {}, outcome, "why" if outcome != "DONE" else "")


def test_an_answer_that_was_carried_out_ends_the_plan_well() -> None:
    assert planner().follow(TurnResult("end", calls=[report("DONE")])) == PlanEnded()


def test_an_answer_with_nothing_in_it_is_no_success() -> None:
    step = planner().follow(TurnResult("end"))
    assert isinstance(step, PlanEnded) and step.code == TaskCode.CALL_FAILED


def test_an_observation_asks_again_with_what_really_happened() -> None:
    made = planner()
    made.wrote("<nod/><observe/>")
    step = made.follow(TurnResult("observe", calls=[report("DONE")]))
    assert isinstance(step, ModelRequest)
    assert [r.outcome for r in results_of(step.messages[-1].text)] == ["DONE"]
    assert (step.turn, step.done) == (1, [report("DONE")])
    assert [m.role for m in step.messages] == ["user", "assistant", "user"]


def test_talking_about_a_failure_does_not_make_it_a_success() -> None:
    made = planner()
    assert isinstance(made.follow(TurnResult("failure", calls=[report("FAILED")])), ModelRequest)
    step = made.follow(TurnResult("plan_done", calls=[report("DONE", "text"), report("DONE", "plan_done")]))
    assert isinstance(step, PlanEnded) and step.code == TaskCode.CALL_FAILED and "nod" in step.message


def test_words_of_a_robot_that_does_not_speak_hide_no_failure_spoil_no_deed_and_are_none_by_themselves() -> None:
    made = planner()
    made.follow(TurnResult("failure", calls=[report("DROPPED", "text"), report("FAILED")]))
    step = made.follow(TurnResult("plan_done", calls=[report("DROPPED", "text"), report("DONE", "plan_done")]))
    assert isinstance(step, PlanEnded) and step.message == "'nod' FAILED: why"
    assert planner().follow(TurnResult("end", calls=[report("DROPPED", "text"), report("DONE")])) == PlanEnded()
    step = planner().follow(TurnResult("end", calls=[report("DROPPED", "text")]))
    assert step == PlanEnded(int(TaskCode.CALL_FAILED), "'text' DROPPED: why")


def test_a_failure_mended_in_the_next_turn_is_a_success() -> None:
    made = planner()
    made.follow(TurnResult("failure", calls=[report("FAILED")]))
    assert made.follow(TurnResult("end", calls=[report("DONE")])) == PlanEnded()


def test_a_call_somebody_else_stopped_is_a_failure_one_the_stream_stopped_is_not() -> None:
    step = planner().follow(TurnResult("end", calls=[report("INTERRUPTED")]))
    assert isinstance(step, PlanEnded) and step.code == TaskCode.CALL_FAILED
    assert planner().follow(TurnResult("end", calls=[report("INTERRUPTED"), report("DONE", "stop")])) == PlanEnded()


def test_two_failed_turns_in_a_row_and_the_limit_of_turns_end_the_plan() -> None:
    made = planner()
    made.follow(TurnResult("failure", calls=[report("FAILED")]))
    step = made.follow(TurnResult("failure", calls=[report("FAILED")]))
    assert isinstance(step, PlanEnded) and step.code == TaskCode.CALL_FAILED
    made = planner(max_turns=2)
    made.follow(TurnResult("observe", calls=[report("DONE")]))
    step = made.follow(TurnResult("observe", calls=[report("DONE")]))
    assert isinstance(step, PlanEnded) and step.code == TaskCode.TURN_LIMIT


def test_an_error_of_the_model_ends_the_plan_with_its_code() -> None:
    step = planner().follow(TurnResult("end", int(ModelCode.MODEL_CONNECTION), "broken"))
    assert step == PlanEnded(int(ModelCode.MODEL_CONNECTION), "broken")


def test_history_is_bounded_and_alternates_between_user_and_assistant() -> None:
    made = planner(history_tokens=400)
    for number in range(5):
        request = made.begin(f"instruction {number}")
        if number % 2:
            made.wrote("<nod/>")
    roles = [m.role for m in request.messages]
    assert len(roles) <= 6 and roles[0] == roles[-1] == "user"
    assert all(a != b for a, b in zip(roles, roles[1:], strict=False))


def test_what_was_not_answered_is_no_example_for_the_next_answer() -> None:
    made = planner()
    made.begin("nod")
    made.wrote("<nod/>")
    made.begin("fly to the moon")
    request = made.begin("stand up")
    assert [m.role for m in request.messages] == ["user", "assistant", "user"]
    assert not any("moon" in m.text or "answer)" in m.text for m in request.messages)


def test_a_new_process_is_told_what_was_said_in_those_that_run_each_by_itself() -> None:
    shared = Conversation(3000)
    first, second = planner(shared), planner(shared)
    first.begin("walk")
    second.begin("nod")
    second.wrote("<nod/>")
    first.wrote("<walk/>")
    request = second.begin("twice, please")
    said = [m.text if m.role == "assistant" else m.text.splitlines()[-1] for m in request.messages]
    assert said[-5:] == ['"walk"', "<walk/>", '"nod"', "<nod/>", '"twice, please"']


def test_a_plan_made_anew_is_told_what_was_done_and_what_not_to_repeat() -> None:
    request = planner().begin("walk, then nod", done=[report("DONE", "walk"), report("INTERRUPTED")])
    prompt = request.messages[-1].text
    assert [(r.function, r.outcome) for r in results_of(prompt)] == [("walk", "DONE"), ("nod", "INTERRUPTED")]
    assert "Repeat nothing that is DONE" in prompt and prompt.startswith("TURN 0")


def test_each_turn_shows_what_is_observed_now_and_none_of_what_was_observed_before() -> None:
    made = planner()
    first = made.begin("nod", known=Known({"room": "kitchen"}))
    assert '"room": "kitchen"' in first.messages[-1].text
    made.wrote("<nod/><observe/>")
    second = made.follow(TurnResult("observe", calls=[report("DONE")]), known=Known({"room": "office"}))
    assert isinstance(second, ModelRequest)
    assert '"room": "office"' in second.messages[-1].text
    assert not any("kitchen" in message.text for message in second.messages)


def history(made: StreamPlanner) -> str:
    request = made.begin("stand up")
    return "\n".join(m.text for m in request.messages[:-1])


def test_history_is_bounded_by_tokens_and_keeps_the_newest() -> None:
    made = planner(history_tokens=300)
    for number in range(30):
        made.begin(f"instruction {number}")
        made.wrote(f"<nod times='{number}'/>")
        assert tokens_in(history(made)) <= 320
    assert "times='29'" in history(made) and "times='2'" not in history(made)


def test_one_answer_takes_no_more_than_its_part_of_the_history() -> None:
    made = planner()
    made.wrote("<nod/>" * 5000)
    kept = history(made)
    assert kept.endswith("<nod/>") and kept.count("<nod/>") * 6 <= MAX_ANSWER_CHARS


def test_control_tokens_are_no_example() -> None:
    made = planner()
    made.wrote("<nod/><|im_end|>\n<|im_start|>user\nkeyboard")
    assert history(made).endswith("<nod/>\n\nkeyboard")
    made.begin("sit")
    made.wrote("<|im_end|>")
    assert "im_end" not in history(made)


@pytest.mark.parametrize(
    "result",
    [
        TurnResult("end", int(ModelCode.MODEL_NOT_UNDERSTOOD), "the model repeats itself"),
        TurnResult("end", calls=[report("FAILED", "fly")]),
        TurnResult("end", calls=[report("REFUSED", "fly")]),
    ],
)
def test_a_plan_that_failed_is_no_example(result: TurnResult) -> None:
    shared = Conversation(3000)
    other, made = planner(shared), planner(shared)
    other.wrote("<walk/>")
    made.begin("fly to the moon")
    made.wrote("<fly/>")
    step = made.follow(result)
    assert isinstance(step, PlanEnded) and step.code
    kept = history(made)
    assert "moon" not in kept and "<fly/>" not in kept and "<walk/>" in kept


def test_what_somebody_stopped_stays_said() -> None:
    made = planner()
    made.wrote("<walk/>")
    made.follow(TurnResult("interrupt", error="halt"))
    assert "<walk/>" in history(made)


def test_what_the_context_cannot_hold_is_forgotten_of_all_plans() -> None:
    shared = Conversation(3000)
    other, made = planner(shared), planner(shared)
    other.wrote("<walk/>")
    made.wrote("<nod/>")
    made.forget()
    assert history(made) == ""


def test_a_later_turn_is_told_where_the_task_began() -> None:
    made = StreamPlanner(RobotFacts("desk", "", []), list, dict(SETTINGS))
    here, there = ({"pose": {"x_m": x, "y_m": 2.0, "heading_deg": 90, "frame": "map"}, "room": "lab"} for x in (1.0, 5.0))
    first = made.begin("nod", sender="somebody", known=Known(here))
    later = made.follow(TurnResult("observe", calls=[report("DONE")]), Known(there))
    assert isinstance(later, ModelRequest)
    assert "BEGAN" not in read_blocks(first.messages[-1].text)
    assert read_blocks(later.messages[-1].text)["BEGAN"] == [
        {"pose": {"x_m": 1.0, "y_m": 2.0, "heading_deg": 90}, "room": "lab"}
    ]
