# SPDX-License-Identifier: Apache-2.0
"""Strategy `team`: five agents in turn, robots and people at the same time, and nothing before it was validated."""

from __future__ import annotations

import io
import json
import threading
import time
from typing import Any

import pytest
from PIL import Image as Pillow
from team_kit import Office, assigned, ends, steps

from planners.models.base import Image
from planners.models.model_call import AnswerError
from planners.people import Person
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport
from planners.strategies.team.answers import Answer, Assignments, Clarity, Perception, Review, ToaPlan, Validity, read_answer
from planners.strategies.team.toa import State, Step, ToaGraph, check_order
from planners.strategy import Interrupted, Paused, Restarted, Resumed
from skill_kernel.codes import TaskCode
from skill_kernel.events import NoticeKind

PASS = json.dumps({"verdict": "pass", "thought": "it fits"})
FAIL = json.dumps({"verdict": "fail", "thought": "dog holds nothing"})
NOT_DONE = json.dumps({"flag": "N", "thought": "nobody was in the lab", "summary": "one step failed"})


# -- the schemas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (Clarity, '{"clear": false, "question": "Which laptop?"}', '{"clear": false}'),
        (Clarity, '{"clear": true, "question": null}'.replace("null", '""'), '{"clear": "yes"}'),
        (Review, '{"flag": "Y", "thought": "", "summary": ""}', '{"flag": "maybe", "thought": "", "summary": ""}'),
        (
            Perception,
            '{"perception": ["a"], "world": [["Li", "in", "lab"]]}',
            '{"perception": ["a"], "world": [["Li", "lab"]]}',
        ),
        (
            ToaPlan,
            '{"thought": "", "steps": [{"step": 2, "skill": "x()", "dep": 1}]}',
            '{"thought": "", "steps": [{"step": 0}]}',
        ),
        (Assignments, '{"assignments": []}', '{"assignments": [{"step": 1, "agent": "", "call": "x()"}]}'),
        (Validity, '{"verdict": "pass", "thought": "fine"}', '{"verdict": true, "thought": "fine"}'),
    ],
)
def test_each_schema_reads_what_it_should_in_any_wrapping_and_rejects_what_is_malformed(
    schema: type[Answer], good: str, bad: str
) -> None:
    assert read_answer(schema, f"Here it is:\n```json\n{good}\n```\n") == read_answer(schema, good)
    for text in (bad, good[:-1], "no JSON at all"):
        with pytest.raises(AnswerError):
            read_answer(schema, text)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 200_000,
        '{"thought": ' * 50_000 + "}" * 50_000,
        '{"thought": "", "steps": [{"step": %s, "skill": "x()"}]}' % ("9" * 4300),
        '{"thought": "", "steps": [{"step": NaN, "skill": "x()"}]}',
        '{"thought": "\\ud800", "steps": []}',
    ],
)
def test_an_answer_that_is_only_large_deep_or_odd_is_refused_at_once(text: str) -> None:
    begun_s = time.process_time()
    with pytest.raises(AnswerError):
        read_answer(ToaPlan, text)
    assert time.process_time() - begun_s < 1.0, "the halt of the team is on the same thread"


def test_a_dependency_may_be_one_number_as_in_the_paper() -> None:
    plan = read_answer(ToaPlan, '{"thought": "", "steps": [{"step": 3, "skill": "Print(file)", "dep": 2}]}')
    assert plan.steps[0].dep == [2]


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ([(1, [2]), (2, [1])], "in a circle"),
        ([(1, [1])], "in a circle"),
        ([(1, [7])], "depends on step 7, which is not there"),
        ([(1, []), (1, [])], "there twice"),
        ([(5, [])], "there twice"),
    ],
)
def test_circles_missing_dependencies_and_numbers_that_are_taken_are_rejected(order: Any, why: str) -> None:
    with pytest.raises(AnswerError, match=why):
        check_order(order, known=[5])


def test_a_failed_step_takes_along_only_what_stands_on_it() -> None:
    graph = ToaGraph()
    graph.add([Step(n, "x()", after, "dog") for n, after in ((1, ()), (2, (1,)), (3, (2,)), (4, ()), (5, (4, 3)), (6, (4,)))])
    graph.fail(graph.steps[2], "it slipped")
    assert [step.number for step in graph.of(State.VOID)] == [3, 5] and graph.sound == [1, 4, 6]
    with pytest.raises(AnswerError, match="has failed"):
        graph.add([Step(7, "x()", (3,), "dog")])


def test_a_planner_that_numbers_a_new_step_as_one_that_failed_is_told_before_anybody_is_asked_further() -> None:
    again = [steps('navigate_to(place="lab")', first=first) for first in (1, 1, 2)]
    office = Office({Layer.PLANNER: again, Layer.ASSIGNER: [assigned("dog"), assigned("base", first=2)]})
    office.fails = {"dog.navigate_to(lab)": "the way is shut"}
    office.run()
    assert ends(office)[0] == 0 and len(office.prompts(Layer.ASSIGNER)) == len(office.prompts(Layer.VALIDATOR)) == 2
    (told,) = office.prompts(Layer.PLANNER, "FAULTS")
    assert "step 1 was planned before; number new steps on from 2" in told.blocks["FAULTS"][0]


# -- routing -----------------------------------------------------------------------------------------------------------------


def test_the_agents_are_asked_in_turn_and_the_pool_is_told() -> None:
    office = Office({Layer.PLANNER: [steps('navigate_to(place="lab")')], Layer.ASSIGNER: [assigned("dog")]}).run()
    turns = [asked.layer.value for asked in office.model.questions]
    assert turns == ["manager", "perceiver", "planner", "assigner", "validator", "manager"]
    assert ends(office) == (0, "all is done") and [str(call) for call in office.calls] == ["dog.navigate_to(lab)"]
    assert office.notices() == [
        "it is clear",
        "the lab is open",
        '1 navigate_to(place="lab")',
        '1 dog: navigate_to(place="lab")',
        "pass: it fits",
        "done: all is done",
    ]


def test_what_is_malformed_is_repaired_once_and_then_named() -> None:
    office = Office({Layer.PLANNER: ["no JSON", steps("wait()")], Layer.ASSIGNER: [assigned("dog")]}).run()
    assert ends(office)[0] == 0 and len(office.prompts(Layer.PLANNER)) == 2
    broken = Office({Layer.PLANNER: ["no JSON"] * 20}).run()
    code, why = ends(broken)
    assert code == TaskCode.TURN_LIMIT and "the planner wrote nothing that can be used" in why and not broken.calls


def test_the_perceiver_alone_sees_what_the_robots_cameras_show() -> None:
    buffer = io.BytesIO()
    Pillow.new("RGB", (8, 8), "red").save(buffer, format="PNG")
    office = Office({Layer.PLANNER: [steps("x()")], Layer.ASSIGNER: [assigned("dog")]}, pictures=True)
    office.views["dog"].pictures = [Image(buffer.getvalue(), 0.0)]
    office.run()
    (looked,) = office.prompts(Layer.PERCEIVER)
    assert looked.blocks["IMAGES"] == [{"robot": "dog"}]
    seen = {asked.layer: asked.request.messages[-1].images for asked in office.model.questions}
    assert seen.pop(Layer.PERCEIVER) == tuple(office.views["dog"].pictures) and not any(seen.values())
    threads = [thread for view in office.views.values() for thread in view.looked]
    assert threads and threading.current_thread() not in threads, "pictures are encoded beside what keeps robots alive"


def test_pictures_that_were_taken_for_a_task_that_is_paused_meanwhile_are_taken_anew() -> None:
    office = Office({Layer.PLANNER: [steps("x()")], Layer.ASSIGNER: [assigned("dog")]}, pictures=True)
    dog = office.views["dog"]
    while not dog.looked:
        office.run(0.01)
    office.hear(Paused())
    office.run(5.0)
    assert not office.prompts(Layer.PERCEIVER)
    looked = len(dog.looked)
    office.hear(Resumed())
    office.run()
    assert len(dog.looked) > looked and ends(office)[0] == 0


@pytest.mark.parametrize(("times", "plans"), [(10, 1), (40, 2)])
def test_a_busy_robot_is_waited_for_and_no_plan_is_spent_on_it_until_it_is_too_late(times: int, plans: int) -> None:
    says = {Layer.PLANNER: [steps("x()"), steps("x()", first=2)], Layer.ASSIGNER: [assigned("dog"), assigned("base", first=2)]}
    office = Office({**says, "REVIEW": [] if plans == 1 else [NOT_DONE]})
    office.busy = {"dog.navigate_to(lab)": times}
    office.run()
    assert ends(office)[0] == 0 and len(office.prompts(Layer.PLANNER)) == plans
    (call,) = office.calls
    assert call.robot == ("dog" if plans == 1 else "base") and call.began_s >= (50.0 if plans == 1 else 115.0)


def test_steps_for_what_no_robot_has_are_refused_before_anybody_validates_them() -> None:
    bad = [assigned("dog", calls=["fly()"]), assigned("cat"), assigned("dog", "dog")]
    office = Office({Layer.PLANNER: [steps("x()")] * 9, Layer.ASSIGNER: [*bad, assigned("dog")]}).run()
    assert ends(office)[0] == 0 and len(office.prompts(Layer.VALIDATOR)) == 1
    shown = "".join(asked.request.messages[-1].text for asked in office.prompts(Layer.ASSIGNER))
    assert "dog has no function 'fly'" in shown and "'cat' is no robot or person" in shown


def test_nothing_is_dispatched_before_the_validator_has_passed_it() -> None:
    says = {Layer.PLANNER: [steps("x()")] * 2, Layer.ASSIGNER: [assigned("dog"), assigned("base")], Layer.VALIDATOR: [FAIL]}
    office = Office(says).run()
    (call,) = office.calls
    passed = [asked.ended_s for asked in office.prompts(Layer.VALIDATOR)]
    assert call.robot == "base" and call.began_s >= passed[1] > passed[0], "the rejected one never began"
    assert "dog holds nothing" in office.prompts(Layer.PLANNER)[1].blocks["FEEDBACK"][-1]
    silent = Office(
        {**says, Layer.VALIDATOR: [FAIL] * 20, Layer.PLANNER: [steps("x()")] * 20, Layer.ASSIGNER: [assigned("dog")] * 20}
    )
    assert ends(silent.run())[0] == TaskCode.TURN_LIMIT and not silent.calls


def test_an_unclear_instruction_is_asked_back_and_the_answer_is_told_to_all() -> None:
    unclear = json.dumps(
        {"clear": False, "question": "Which laptop do you mean?", "choices": ["the black one", "the grey one"]}
    )
    says = {"CLARIFY": [unclear], Layer.PLANNER: [steps("x()")], Layer.ASSIGNER: [assigned("dog")]}
    office = Office(says, replies={"Wang": ["the grey one"]}, instruction="bring the laptop").run()
    assert ends(office)[0] == 0 and office.requests() == [("Wang", "Which laptop do you mean?")]
    assert office.asked[0].arguments["choices"] == ("the black one", "the grey one")
    known = [{"question": "Which laptop do you mean?", "answer": "the grey one"}]
    assert all(asked.blocks["CLARIFIED"] == known for asked in office.model.questions[1:])
    unheard = Office({"CLARIFY": [unclear]}, replies={"Wang": [None]}).run()
    assert ends(unheard)[0] == TaskCode.GIVEN_UP and "nobody answered: Which laptop" in ends(unheard)[1] and not unheard.calls


# -- dispatch ----------------------------------------------------------------------------------------------------------------


def test_independent_steps_overlap_and_dependent_ones_do_not() -> None:
    plan, who = steps("a()", "b()", "c()", s3=[1, 2]), assigned("dog", "base", "dog")
    office = Office({Layer.PLANNER: [plan], Layer.ASSIGNER: [who]}).run()
    first, second, third = office.calls
    assert first.began_s == second.began_s and third.began_s == max(first.ended_s, second.ended_s)  # type: ignore[type-var]


def test_what_does_not_stand_on_a_failed_step_goes_on_and_only_the_rest_is_planned_anew() -> None:
    says = {
        Layer.PLANNER: [steps("a()", "b()", "c()", "d()", s3=1, s4=2), steps("e()", first=5, s5=2)],
        Layer.ASSIGNER: [assigned("dog", "base", "dog", "base", calls=['pick_up(item="cup")']), assigned("base", first=5)],
        "REVIEW": [NOT_DONE],
    }
    office = Office(says)
    office.fails = {"dog.pick_up(cup)": "it slipped"}
    office.run()
    assert ends(office)[0] == 0 and len(office.calls) == 4, "a fails, b and d are done, c is void, e is new"
    planned = office.prompts(Layer.PLANNER)[1]
    assert [step["state"] for step in planned.blocks["PLAN"]] == ["failed", "done", "void", "running"]
    assert planned.blocks["NUMBER"] == [5] and "it slipped" in planned.blocks["FEEDBACK"][0]
    assert planned.blocks["REFLECTION"][0]["flag"] == "N", "the manager has reflected, and the perceiver looked again"
    assert len(office.prompts(Layer.PERCEIVER)) == 2


def test_a_step_that_fails_while_another_failure_is_planned_for_is_not_forgotten() -> None:
    says = {
        Layer.PLANNER: [steps("a()", "b()"), steps("a()", first=3), steps("b()", first=4)],
        Layer.ASSIGNER: [
            assigned("dog", "base", calls=['pick_up(item="cup")', 'pick_up(item="pen")']),
            assigned("dog", first=3),
            assigned("base", first=4),
        ],
        "REVIEW": [NOT_DONE, NOT_DONE],
    }
    office = Office(says)
    office.fails = {"dog.pick_up(cup)": "it slipped", "base.pick_up(pen)": "it rolled away"}
    office.takes = {"base.pick_up(pen)": 7.5}
    office.run()
    first, second = (asked.blocks["FEEDBACK"] for asked in office.prompts(Layer.PLANNER)[1:])
    assert ends(office)[0] == 0 and len(office.calls) == 4
    assert ["slipped" in str(first), "rolled" in str(first), "rolled" in str(second)] == [True, False, True]


@pytest.mark.parametrize("why", ["out of reach", "halted"])
def test_a_lost_robot_s_step_goes_to_another_one_and_none_is_given_to_it_until_it_is_back(why: str) -> None:
    says = {
        Layer.PLANNER: [steps("a()"), steps("a()", first=2)],
        Layer.ASSIGNER: [assigned("dog"), assigned("dog", first=2), assigned("base", first=2)],
        "REVIEW": [NOT_DONE],
    }
    office = Office(says)
    office.at(8.0, lambda: office.lose("dog", why)).run()
    assert ends(office)[0] == 0 and [call.robot for call in office.calls] == ["dog", "base"], "nothing is called twice"
    shown = office.prompts(Layer.PLANNER)[1].blocks["ROBOTS"]
    assert {robot["robot"]: robot["state"] for robot in shown} == {"dog": why, "base": "free"}
    assert f"dog is {why}; give the step to somebody else" in office.prompts(Layer.ASSIGNER)[2].request.messages[-1].text


# -- people ------------------------------------------------------------------------------------------------------------------


SIGN = {Layer.PLANNER: [steps("sign(form)"), steps("sign(form)", first=2)], "REVIEW": [NOT_DONE]}
ASK_LI = assigned("Li", calls=["Please sign the form."], why="Wang needs it today")


def test_a_person_is_asked_with_a_reason_accepts_and_says_when_it_is_done() -> None:
    office = Office({**SIGN, "REVIEW": [], Layer.ASSIGNER: [ASK_LI]}, replies={"Li": ["yes, of course", "done"]}).run()
    assert ends(office) == (0, "all is done") and not office.calls
    asked, told = office.asked
    assert asked.arguments["why"] == "Wang needs it today" and asked.arguments["choices"] == ("yes", "no", "later")
    assert told.arguments["text"] == "Tell me when it is done: Please sign the form." and told.arguments["within"] == 600.0


def test_who_says_ok_or_later_when_asked_for_the_end_has_not_done_it_and_has_the_rest_of_the_time() -> None:
    says = {**SIGN, Layer.ASSIGNER: [ASK_LI, assigned("Bo", calls=["Please sign the form."], first=2)]}
    office = Office({**says, "REVIEW": []}, replies={"Li": ["yes", "ok", "in a minute", "done"]}).run()
    assert ends(office) == (0, "all is done") and len(office.asked) == 4
    assert [call.arguments["within"] for call in office.asked[1:]] == [600.0, 597.0, 594.0]
    office = Office(says, replies={"Li": ["yes", "ok"], "Bo": ["yes", "done"]}).run(2000.0)
    assert ends(office)[0] == 0 and office.requests()[-1][0] == "Bo", "nobody has heard that Li has done it"


@pytest.mark.parametrize(
    ("replies", "told"),
    [
        (["no"], "Li answered: no"),
        ([None], "Li nobody answered in time"),
        (["I am at the dentist"], "Li answered: I am at the"),
        (["yes", "no"], "Li answered: no"),
        (["later", "later", "later"], "Li answered: later"),
    ],
)
def test_one_who_declines_is_silent_or_too_busy_is_replaced(replies: list[str | None], told: str) -> None:
    ask_bo = assigned("Bo", calls=["Please sign the form."], first=2)
    office = Office({**SIGN, Layer.ASSIGNER: [ASK_LI, ask_bo]}, replies={"Li": replies, "Bo": ["yes", "done"]}).run(2000.0)
    assert ends(office)[0] == 0 and office.requests()[-1][0] == "Bo"
    assert told in office.prompts(Layer.PLANNER)[1].blocks["FEEDBACK"][0]


def test_somebody_else_is_asked_instead_and_told_who_named_them() -> None:
    office = Office(
        {**SIGN, "REVIEW": [], Layer.ASSIGNER: [ASK_LI]}, replies={"Li": ["ask Bo instead"], "Bo": ["yes", "done"]}
    ).run()
    assert ends(office)[0] == 0 and [who for who, _ in office.requests()] == ["Li", "Bo", "Bo"]
    assert office.asked[1].arguments["why"] == "Wang needs it today; Li named you"
    (shown,) = office.prompts(Layer.VALIDATOR)[1].blocks["ASSIGNED"]
    assert (shown["agent"], shown["call"], shown["why"]) == ("Bo", "Please sign the form.", "Wang needs it today; Li named Bo")
    assert office.prompts(Layer.VALIDATOR)[1].ended_s <= office.asked[1].began_s, "Bo is asked once that has passed"
    (shown,) = office.prompts(Layer.MANAGER, "REVIEW")[0].blocks["PLAN"]
    assert shown["told"] == "Li named Bo; Bo answered: done", "who has no time is known from then on"


def test_somebody_whom_the_validator_does_not_want_asked_is_not_asked_instead() -> None:
    office = Office(
        {**SIGN, Layer.ASSIGNER: [ASK_LI, assigned("Bo", first=2, calls=["Please sign."])], Layer.VALIDATOR: [PASS, FAIL]},
        replies={"Li": ["ask Bo instead"], "Bo": ["yes", "done"]},
    ).run()
    (why, *_) = office.prompts(Layer.PLANNER)[1].blocks["FEEDBACK"]
    assert "Li named Bo; the validator rejected that: dog holds nothing" in why
    assert ends(office)[0] == 0 and next(text for who, text in office.requests() if who == "Bo") == "Please sign."


def test_an_assigner_who_gives_up_without_a_planner_says_why() -> None:
    gives_up = json.dumps({"assignments": [], "give_up": True, "thought": "nobody has the key"})
    office = Office({Layer.ASSIGNER: [gives_up]}, planner=False).run()
    assert ends(office) == (TaskCode.GIVEN_UP, "the assigner gives up: nobody has the key")


def test_later_is_asked_again_later_and_silence_ends_in_a_bounded_time() -> None:
    office = Office({**SIGN, "REVIEW": [], Layer.ASSIGNER: [ASK_LI]}, replies={"Li": ["not now", "yes", "done"]}).run()
    again_s = office.asked[1].began_s - office.asked[0].began_s
    assert ends(office)[0] == 0 and again_s == pytest.approx(303.0)


def test_two_steps_for_one_person_are_asked_one_after_the_other_and_quiet_hours_are_kept() -> None:
    both = assigned("Li", "Li", calls=["Please sign.", "Please print."])
    office = Office(
        {Layer.PLANNER: [steps("sign(form)", "print(form)")], Layer.ASSIGNER: [both]}, replies={"Li": ["yes", "done"] * 2}
    ).run()
    assert ends(office)[0] == 0
    times = sorted((call.began_s, call.ended_s) for call in office.asked)
    assert all(after[0] >= before[1] for before, after in zip(times, times[1:], strict=False))  # type: ignore[operator]
    quiet = {"Wang": Person(), "Li": Person(quiet=(("09:00", "11:00"),)), "Bo": Person()}
    ask_bo = assigned("Bo", calls=["Please sign the form."], first=2)
    office = Office({**SIGN, Layer.ASSIGNER: [ASK_LI, ask_bo]}, people=quiet, replies={"Bo": ["yes", "done"]}).run()
    assert ends(office)[0] == 0 and {who for who, _ in office.requests()} == {"Bo"}
    assert "is not asked between 09:00 and 11:00" in office.prompts(Layer.PLANNER)[1].blocks["FEEDBACK"][0]


def test_one_who_has_an_open_request_is_waited_for_and_then_asked() -> None:
    office = Office(
        {**SIGN, "REVIEW": [], Layer.ASSIGNER: [ASK_LI]}, replies={"Li": ["yes", "done"]}, before=lambda p: p.opened("Li")
    )
    office.at(30.0, lambda: office.people.closed("Li")).run()
    assert ends(office)[0] == 0 and office.asked[-2].began_s >= 30.0


def test_what_is_private_or_not_said_stands_in_no_prompt_and_reaches_nobody_else() -> None:
    def before(people: Any) -> None:
        people.hear("Li", "I have a secret appointment at 4711", private=True)
        people.hear("Bo", "I am in the lab")

    leaky = assigned("Bo", calls=["Please sign, Li has a secret appointment."])
    office = Office(
        {Layer.PLANNER: [steps("sign(form)")], Layer.ASSIGNER: [leaky, assigned("Bo", calls=["Please sign the form."])]},
        replies={"Bo": ["yes", "done"]},
        before=before,
    ).run()
    assert ends(office)[0] == 0 and office.requests()[0][1] == "Please sign the form."
    own = office.all_text().replace(json.dumps(json.loads(leaky))[1:-1], "")
    assert "4711" not in own and "I am in the lab" in own, "others' private words are in no prompt"
    mine = Office({Layer.PLANNER: [steps("x()")], Layer.ASSIGNER: [assigned("dog")]}, sender="Li", before=before).run()
    assert "4711" in mine.all_text(), "the person's own task may use it"
    assert not any("4711" in told for told in mine.notices())


def test_no_robot_says_aloud_what_somebody_said_in_private() -> None:
    calls = [f'announce(text="{text}")' for text in ("Li has a secret appointment", "Room 4711, please", "Please come")]
    office = Office(
        {Layer.PLANNER: [steps("a()")] * 2, Layer.ASSIGNER: [assigned("dog", calls=[call]) for call in calls]},
        before=lambda people: people.hear("Li", "I have a secret appointment at 4711", private=True),
        sender="Li",
    ).run()
    assert ends(office)[0] == 0 and [str(call) for call in office.calls] == ["dog.announce(Please come)"]


def test_no_question_and_no_proposal_holds_what_was_said_in_private() -> None:
    """Who is asked, and the page, where all can read it, are told in other words."""

    def before(people: Any) -> None:
        people.hear("Wang", "I have a secret appointment at 4711", private=True)

    leaky = json.dumps({"clear": False, "question": "Which room for your secret appointment at 4711?"})
    unclear = json.dumps({"clear": False, "question": "Which room do you mean?"})
    office = Office({"CLARIFY": [leaky, unclear]}, replies={"Wang": ["the lab"]}, before=before).run()
    assert office.requests() == [("Wang", "Which room do you mean?")]
    told = {"task": "bring a pen", "person": "Li", "why": "Wang has a secret appointment"}
    leaky, fine = (json.dumps({"perception": [], "proposal": one}) for one in (told, {**told, "why": "Wang needs one"}))
    says = {"CLARIFY": [STANDING], Layer.PERCEIVER: [leaky, fine], Layer.PLANNER: [steps("a()")]}
    office = Office({**says, Layer.ASSIGNER: [assigned("dog")]}, replies={"Li": ["no"]}, before=before).run()
    (asked,) = office.asked
    assert asked.arguments["why"] == "Wang needs one"


def test_choices_that_cannot_be_asked_are_named_to_the_manager() -> None:
    bad = [
        json.dumps({"clear": False, "question": "Which?", "choices": choices})
        for choices in (["…", "the cup"], ["go on", "stop"], ["the black one", "the grey one"])
    ]
    office = Office({"CLARIFY": bad}, replies={"Wang": ["the grey one"]}).run()
    assert len(office.asked) == 1, ends(office)
    assert office.asked[0].arguments["choices"] == ("the black one", "the grey one")


# -- what happens meanwhile ----------------------------------------------------------------------------------------------------


def test_what_somebody_says_meanwhile_makes_the_perceiver_look_and_an_unfit_step_is_planned_anew() -> None:
    moved = json.dumps({"perception": ["Li has moved to 401E"], "world": [["Li", "in", "401E"]], "unfit": [2]})
    says = {
        Layer.PLANNER: [steps("a()", "b()", s2=1), steps("b()", first=3, s3=1)],
        Layer.ASSIGNER: [assigned("dog", "dog"), assigned("dog", calls=['navigate_to(place="401E")'], first=3)],
        Layer.PERCEIVER: [json.dumps({"perception": ["Li is in the office"]}), moved],
        "REVIEW": [NOT_DONE],
    }
    office = Office(says)
    office.at(4.0, lambda: office.chat("Li", "I am in 401E today")).run()
    assert ends(office)[0] == 0 and [str(call) for call in office.calls] == ["dog.navigate_to(lab)", "dog.navigate_to(401E)"]
    assert office.notices(NoticeKind.FACT) == ["person:Li|in|401E"]


STANDING = json.dumps({"clear": True, "standing": True})
PROPOSAL = {"task": "bring tissues", "person": "Wang", "why": "you spilled water"}
SPILT = json.dumps({"perception": ["water was spilled"], "proposal": PROPOSAL})
QUIET = json.dumps({"perception": ["all is well"]})


@pytest.mark.parametrize(
    ("allows", "replies", "acts", "asks"),
    [({"navigate_to"}, [], 1, 0), ({"pick_up"}, ["yes"], 1, 1), (set(), ["no"], 0, 1), (set(), [None], 0, 1)],
)
def test_what_nobody_ordered_begins_only_within_what_a_person_has_allowed(
    allows: set[str], replies: list[str | None], acts: int, asks: int
) -> None:
    office = Office(
        {
            "CLARIFY": [STANDING],
            Layer.PERCEIVER: [QUIET, SPILT, QUIET],
            Layer.PLANNER: [steps("a()")],
            Layer.ASSIGNER: [assigned("dog")],
        },
        people={"Wang": Person(allows=frozenset(allows))},
        replies={"Wang": replies},
        instruction="when something is spilled, bring tissues",
    )
    office.at(20.0, lambda: office.chat("Wang", "I spilled water")).run(300.0)
    assert (len(office.calls), len(office.requests())) == (acts, asks) and not office.ended, "it goes on watching"
    assert all(text == "Shall we do this for you: bring tissues?" for _, text in office.requests())
    office.chat("Wang", "and again")
    office.run(10.0)
    assert office.prompts(Layer.PERCEIVER)[-1].blocks["SETTLED"][0].startswith("bring tissues, for Wang")


def test_a_proposal_that_leads_to_nothing_is_dropped_and_the_watch_goes_on() -> None:
    says = {"CLARIFY": [STANDING], Layer.PERCEIVER: [SPILT, QUIET], Layer.PLANNER: [steps("a()")] * 9}
    office = Office({**says, Layer.ASSIGNER: [assigned("dog")] * 9, Layer.VALIDATOR: [FAIL] * 9}).run()
    assert not office.calls and not office.ended and len(office.prompts(Layer.VALIDATOR)) == 4
    office.chat("Wang", "and again")
    office.run(10.0)
    assert "plans in a row came to nothing" in office.prompts(Layer.PERCEIVER)[-1].blocks["SETTLED"][0]


@pytest.mark.parametrize("fails_after_s", [0.2, 1.0, 1.5, 2.0, 2.5, 2.9])
def test_nobody_is_asked_any_more_for_a_proposal_that_was_dropped(fails_after_s: float) -> None:
    """While Li, who is asked, is about to name Bo, a robot's step fails, and the planner gives the proposal up."""
    gives_up = json.dumps({"thought": "nobody can", "steps": [], "give_up": True})
    three = assigned("Li", "dog", "base", calls=["Please sign.", 'navigate_to(place="401E")'])
    office = Office(
        {
            "CLARIFY": [STANDING],
            "REVIEW": [NOT_DONE],
            Layer.PERCEIVER: [SPILT, QUIET],
            Layer.PLANNER: [steps("sign()", "go()", "fetch()", s3=1), gives_up],
            Layer.ASSIGNER: [three],
        },
        replies={"Wang": ["yes"], "Li": ["ask Bo instead"], "Bo": ["yes", "done"]},
    )
    office.takes["dog.navigate_to(401E)"] = fails_after_s
    office.fails["dog.navigate_to(401E)"] = "the way is shut"
    office.run(300.0)
    assert [who for who, _ in office.requests()] == ["Wang", "Li"] and [call.robot for call in office.calls] == ["dog"]
    assert all(call.ended is not None for call in office.asked) and not office.ended
    office.chat("Wang", "and again")
    office.run(10.0)
    assert office.prompts(Layer.PERCEIVER)[-1].blocks["SETTLED"] == ["bring tissues, for Wang: nobody can"]


def test_a_paused_task_asks_nobody_and_an_interrupted_one_is_planned_anew() -> None:
    says = {
        Layer.PLANNER: [steps("a()"), steps("a()", first=2)],
        Layer.ASSIGNER: [assigned("dog"), assigned("base", first=2)],
        "REVIEW": [NOT_DONE],
    }
    office = Office(says)
    office.hear(Paused())
    office.run(60.0)
    assert [asked.cancelled for asked in office.model.questions] == [True], "what was being asked is taken back"
    office.hear(Resumed())
    office.run(4.0)
    office.hear(Interrupted("somebody spoke"))
    office.at(3.0, lambda: office.hear(Restarted(())))
    office.run()
    assert ends(office)[0] == 0 and "somebody spoke" in json.dumps(office.prompts(Layer.PLANNER)[-1].blocks["FEEDBACK"])


def test_a_planner_that_is_started_anew_knows_all_that_was_done_and_ends_what_needs_no_more() -> None:
    before = [CallReport("navigate_to", {"place": f"room {n}"}, "DONE") for n in range(12)]
    office = Office({}, done=before).run()
    (asked,) = office.prompts(Layer.PLANNER)
    assert [call["arguments"]["place"] for call in asked.blocks["DONE"]] == [f"room {n}" for n in range(12)]
    assert ends(office)[0] == 0 and not office.calls, "nothing is done twice, and what was done counts"
    asked_only = Office({}, done=[CallReport("ask", {"person": "Li"}, "DONE")]).run()
    assert ends(asked_only)[0] == TaskCode.ONLY_WORDS


def test_a_watch_that_lasts_shows_the_newest_steps_alone() -> None:
    plans = [steps("a()", first=n) for n in range(1, 101)]
    office = Office(
        {Layer.PLANNER: plans, Layer.ASSIGNER: [assigned("dog", first=n) for n in range(1, 101)], "REVIEW": [NOT_DONE] * 100},
        max_plans=200,
    ).run(2000.0)
    assert len(office.calls) == 100 and len(office.prompts(Layer.PLANNER)[-1].blocks["PLAN"]) == 60


# -- ablations ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("off", "turns", "told"),
    [
        ("manager", ["perceiver", "planner", "assigner", "validator"], "Nobody reflects"),
        ("perceiver", ["manager", "planner", "assigner", "validator", "manager"], "Nobody reads what is known"),
        ("validator", ["manager", "perceiver", "planner", "assigner", "manager"], "Nobody checks your assignments"),
        ("planner", ["manager", "perceiver", "assigner", "validator", "manager"], "Nobody plans"),
    ],
)
def test_each_agent_can_be_switched_off_for_a_sentence_to_the_assigner(off: str, turns: list[str], told: str) -> None:
    says = {Layer.PLANNER: [steps("x()")], Layer.ASSIGNER: [assigned("dog")]}
    office = Office(says, **{off: False}, before=lambda people: people.hear("Bo", "the lab is shut")).run()
    assert [asked.layer.value for asked in office.model.questions] == turns and ends(office)[0] == 0
    (asked,) = office.prompts(Layer.ASSIGNER)
    assert told in asked.request.system and len(office.calls) == 1
    assert ("SAID" in asked.blocks) is (off == "perceiver") and ("NUMBER" in asked.blocks) is (off == "planner")
