# SPDX-License-Identifier: Apache-2.0
"""Plain questions are answered from what is known now, in their language, and never move a robot."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from planners.language.client import OfflineClient
from planners.language.questions import read
from planners.models.base import Message, ModelError, ModelRequest
from planners.prompts.prompt import GrammarOptions, RobotFacts
from planners.scene import EARLIER_S, Present, earlier_tasks
from skill_kernel.codes import Achievement
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, SeenObject, Value
from skill_kernel.processes.process import Process, ProcessSource, ProcessStatus
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

NOW_S = 100.0


def _facts(robot: str) -> RobotFacts:
    config = RobotConfig.load(robot)
    skills = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
    options = GrammarOptions(config.builtin_names, config.limits)
    return RobotFacts(config.name, config.description, skills, options, accessors_of(config), places=config.waypoints)


KALOS, COCO = (OfflineClient(_facts(robot)) for robot in ("kalos", "coco"))


def _field(name: str, kind: Kind, value: Value, max_age_s: float | None = None) -> FieldValue:
    return FieldValue(name, kind, value, NOW_S - 0.1, max_age_s)


def _task(instruction: str, status: ProcessStatus, ended_s: float = 0.0, message: str = "") -> Process:
    process = Process(
        process_id=instruction,
        instruction=instruction,
        source=ProcessSource.USER,
        door="action",
        sender="ann",
        strategy="stream",
        created_s=10.0,
    )
    return replace(process, status=status, ended_s=ended_s, message=message)


@pytest.mark.parametrize(
    ("said", "hours"),
    [
        *(("half an hour ago", 0.5), ("1.5 hours ago", 1.5), ("1,5 hours ago", 1.5), ("two and a half hours ago", 2.5)),
        *(("an hour and a half ago", 1.5), ("twenty five minutes ago", 25 / 60), ("twenty-five minutes ago", 25 / 60)),
        *(
            ("a quarter of an hour ago", 0.25),
            ("a few minutes ago", 0.05),
            ("a couple of hours ago", 2.0),
            ("12 hours ago", 12.0),
        ),
        *(("半小时前", 0.5), ("一个半小时前", 1.5), ("两个半小时前", 2.5), ("1.5小时前", 1.5), ("二十五分钟前", 25 / 60)),
    ],
)
def test_a_time_that_a_question_names_is_read_to_its_fractions(said: str, hours: float) -> None:
    asked = read(f"你{said}看到球了吗？" if "前" in said else f"Did you see a ball {said}?", 1e9)
    assert (asked.form, asked.subject) == ("whether_seen", "ball")
    assert asked.since_s is not None and asked.until_s is not None
    assert 1e9 - (asked.since_s + asked.until_s) / 2 == pytest.approx(hours * 3600.0)


@pytest.mark.parametrize(
    ("said", "begins", "hours"),
    [
        ("yesterday", (2026, 3, 29, 0), 23.0),
        ("the day before yesterday", (2026, 3, 28, 0), 24.0),
        ("last night", (2026, 3, 29, 18), 6.0),
        ("today", (2026, 3, 30, 0), 24.0),
    ],
)
def test_a_day_is_that_of_the_calendar_also_where_it_has_23_hours(
    said: str, begins: tuple[int, ...], hours: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        asked = read(f"did you see a ball {said}?", time.mktime((2026, 3, 30, 12, 0, 0, 0, 0, -1)))
        assert asked.subject == "ball" and asked.since_s is not None and asked.until_s is not None
        assert time.localtime(asked.since_s)[:4] == begins and asked.until_s - asked.since_s == hours * 3600.0
    finally:
        monkeypatch.undo()
        time.tzset()


FIELDS = (
    _field("room", Kind.TEXT, "hallway"),
    _field("pose", Kind.POSE, Pose(1.0, 0.2, 0.0)),
    _field("battery", Kind.NUMBER, 87.0, 5.0),
    _field("moving", Kind.BOOLEAN, True),
    _field("posture", Kind.TEXT, "stand"),
    _field(
        "object_detections", Kind.OBJECTS, (SeenObject(1, "person", 0.9, 0.0, 2.1), SeenObject(2, "ball", 0.8, 0.7, 1.24)), 1.0
    ),
)
TASKS = (
    _task("patrol the building", ProcessStatus.IN_PROGRESS),
    _task("bark twice", ProcessStatus.SUCCESS, 45.0),
    _task("where are you?", ProcessStatus.IN_PROGRESS),
    _task("what do you see?", ProcessStatus.SUCCESS, 91.0),
)
PATROL = CallEvent(kind=CallKind.STARTED, call_id="c1", process_id="patrol the building", function="patrol")
NOW = Present(Observation(NOW_S, 1, NOW_S, {f.name: f for f in FIELDS}), TASKS, (PATROL,), NOW_S, NOW_S)


def _answer(question: str, present: Present = NOW, robot: OfflineClient = KALOS, **more: Any) -> str:
    return robot.answer(ModelRequest("", (Message("user", "x"),), instruction=question, present=present, **more))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("where are you?", "I am in the hallway, at (1.0, 0.2) m of the map."),
        ("Kalos, are you in the kitchen?", "I am in the hallway, at (1.0, 0.2) m of the map."),
        ("Hello Kalos. Could you tell me where you are?", "I am in the hallway, at (1.0, 0.2) m of the map."),
        ("what do you see", "I see a person 2.1 m ahead and a ball 1.2 m to the left."),
        ("do you see anybody?", "I see a person 2.1 m ahead."),
        ("is there a ball?", "I see a ball 1.2 m to the left."),
        ("is there a ball in the hallway?", "I see a ball 1.2 m to the left."),
        ("do you see an apple", "I see no apple now."),
        (
            "do you see an elephant?",
            "I do not know: I cannot tell “elephant”, only ball, apple, bottle, person, chair and door.",
        ),
        ("what are you doing right now?", "I am working on “patrol the building” (patrol)."),
        ("what did you do just now?", "I worked on “bark twice” (done 55 s ago)."),
        ("did you bark?", "I worked on “bark twice” (done 55 s ago)."),
        ("why did you stop?", "I do not know: no task of mine has failed or been stopped."),
        ("are you ok?", "I am well, as far as I know; my battery is at 87 %."),
        ("how is your battery?", "My battery is at 87 %."),
        ("are you moving?", "I am moving."),
        ("are you standing still?", "I am moving."),
        ("你在走吗？", "我在动。"),
        ("are you sitting?", "My posture is “stand”."),
        ("who are you?", "I am Kalos, a four-legged robot as large as a dog."),
        ("你在哪里？", "我在走廊，地图位置（1.0, 0.2）米。"),
        ("你看到什么了？", "我看到前方2.1米的人、左边1.2米的球。"),
        ("您看见人了吗？", "我看到前方2.1米的人。"),
        ("你在做什么呢？", "我正在做“patrol the building”（patrol）。"),
        ("你刚才做了什么？", "我做过的任务：“bark twice”（55秒前做完）。"),
        ("请问电量还有多少？", "我的电量是87%。"),
        ("你是谁？", "我是kalos。"),
        ("what time is it?", f"It is {time.strftime('%H:%M', time.localtime(NOW_S))}."),
        ("how far is the person?", "I see a person 2.1 m ahead."),
        ("is the ball to your left?", "I see a ball 1.2 m to the left."),
        ("人离你多远？", "我看到前方2.1米的人。"),
        ("are you standing or sitting?", "My posture is “stand”."),
        ("why are you patrolling the building?", "I am working on “patrol the building” (patrol)."),
        ("where are you going?", "I am working on “patrol the building” (patrol)."),
        ("你要去哪里？", "我正在做“patrol the building”（patrol）。"),
        ("did you patrol the building?", "I am working on “patrol the building” (patrol)."),
        ("have you reached the building?", "I am working on “patrol the building” (patrol)."),
    ],
)
def test_a_question_about_now_is_answered_in_one_sentence_of_its_language(question: str, answer: str) -> None:
    assert _answer(question) == answer


def test_whether_it_reached_a_place_is_told_of_the_task_and_not_of_an_earlier_visit() -> None:
    trip = _task("go to the kitchen", ProcessStatus.STOPPED, 95.0, "the robot was halted")
    told = _answer("did you reach the kitchen?", replace(NOW, processes=(*TASKS, trip)))
    assert told == "I worked on “go to the kitchen” (stopped 5 s ago: the robot was halted)."
    assert "query_memory" in _answer("did you reach the lounge?", replace(NOW, processes=(*TASKS, trip)))


@pytest.mark.parametrize("text", ["请去厨房看看有没有苹果", "找找球在哪儿"])
def test_a_command_in_the_form_of_a_question_is_no_question_to_the_memory(text: str) -> None:
    with pytest.raises(ModelError):
        _answer(text)


def test_a_polite_request_that_begins_as_a_question_is_obeyed() -> None:
    assert KALOS.read_wholly("do you mind going to the kitchen") == KALOS.read_wholly("go to the kitchen") != ""


@pytest.mark.parametrize("question", ["what can you do?", "你会做什么？"])
def test_what_it_can_do_comes_from_its_skills(question: str) -> None:
    said = _answer(question), _answer(question, robot=COCO)
    assert said[0] != said[1]
    for robot, answer in zip((KALOS, COCO), said, strict=True):
        phrases = re.split("; ?", re.sub(r"^.*?[:：] ?|[.。]$", "", answer))
        assert len(phrases) >= 5 and all(robot.read_wholly(unescape(phrase)) for phrase in phrases), phrases


def test_whether_it_is_able_to_is_told_and_not_done() -> None:
    assert _answer("are you able to bark twice?") == "Yes, say “bark twice”."
    assert _answer("can you fly?").startswith("Not that I know; you can say: ")
    assert _answer("你能坐下吗？") == "可以，请说“坐下”。"


@pytest.mark.parametrize(
    "question",
    [
        "is there a ball in the lounge?",
        "where did you last see the apple?",
        "How many places have you explored?",
        "客厅里有球吗？",
    ],
)
def test_what_is_not_in_sight_is_asked_of_the_memory_where_the_robot_has_one(question: str) -> None:
    assert _answer(question) == f'<query_memory question="{question}"/>'
    unknown = _answer(question, robot=COCO)
    assert unknown.startswith(("I do not know: ", "我不知道：")) and "<" not in unknown


def test_an_old_observation_is_no_evidence_of_now() -> None:
    later = replace(NOW, steady_s=NOW_S + 12.0)
    for question in ("where are you?", "what do you see?", "do you see a person?", "how is your battery?", "how are you?"):
        answer = _answer(question, later)
        assert answer.startswith("I do not know") and "12 s old" in answer, answer
    assert _answer("is there a ball here?", later).startswith("I do not know what is in sight")
    assert "query_memory" in _answer("is there a ball in the hallway?", later)
    assert "no observation of it has come" in _answer("where are you?", Present())
    blind = replace(NOW, observation=Observation(NOW_S, 1, NOW_S, {}))
    assert _answer("where are you?", blind, COCO).startswith("I do not know where I am: no sensor of mine")


def test_what_has_left_the_sight_is_not_seen() -> None:
    gone = _field("object_detections", Kind.OBJECTS, (SeenObject(2, "ball", 0.8, 0.7, 1.24, seen_s=1.5),), 1.0)
    assert _answer("what do you see?", replace(NOW, observation=Observation(NOW_S, 1, NOW_S, {gone.name: gone}))) == (
        "I see nothing that I know now."
    )


def test_a_failed_task_is_told_with_its_reason() -> None:
    failed = replace(NOW, processes=(*TASKS, _task("fetch it", ProcessStatus.FAILED, 90.0, "the way is blocked")))
    assert _answer("why did you stop?", failed) == "I worked on “fetch it” (failed 10 s ago: the way is blocked)."
    assert _answer("are you ok?", failed).startswith("Not quite: “fetch it” (failed 10 s ago: the way is blocked)")
    assert _answer("what are you doing?", replace(NOW, processes=())) == "I am doing nothing and wait for an instruction."


@pytest.mark.parametrize(
    "question", ["why is the sky blue?", "what is the capital of France?", "is the coffee ready?", "你为什么不坐下？"]
)
def test_what_nobody_knows_is_said_and_nothing_is_done(question: str) -> None:
    assert _answer(question, robot=COCO).startswith(("I do not know", "这个我不知道", "我不知道"))
    answer = _answer(question)
    assert "<" not in answer or answer.startswith("<query_memory ")


@pytest.mark.parametrize("request_", ["could you sit down?", "would you please sit down?", "sit down please?"])
def test_a_polite_request_stays_a_command(request_: str) -> None:
    assert _answer(request_) == "<sit/>"


@pytest.mark.parametrize(
    "text",
    [
        "sit down",
        "bark twice",
        "go to the kitchen",
        "say hello",
        "find the ball",
        "do it again",
        "have a seat",
        "坐下",
        "patrol",
        "nod and sit",
    ],
)
def test_a_command_is_no_question(text: str) -> None:
    assert read(text, NOW_S, ("kalos",)).form == ""


def test_a_question_among_commands_refuses_the_whole() -> None:
    mixed = "where are you and sit down", "where is my apple, go find it"
    for text in ("do you see a ball? sit down", "sit down. where are you?", *mixed):
        with pytest.raises(ModelError, match="is a question"):
            _answer(text)


def test_questions_are_answered_for_another_strategy_only_where_the_present_is_known() -> None:
    assert KALOS.read_wholly("where are you?") == ""
    assert KALOS.read_wholly("where are you?", (), NOW).startswith("I am in the hallway")


@pytest.mark.parametrize("text", ["stop the walk", "stop going to the lounge", "stop moving your legs", "停止放音乐"])
@pytest.mark.parametrize("robot", [KALOS, COCO])
def test_a_stop_that_reaches_no_other_instruction_is_never_reported_as_done(text: str, robot: OfflineClient) -> None:
    assert robot.read_wholly(text) == ""
    with pytest.raises(ModelError) as refused:
        robot.answer(ModelRequest("", (Message("user", text),), instruction=text))
    assert "ghostshell stop" in str(refused.value) or "ghostshell skills" in str(refused.value)


def test_a_stop_behind_what_the_same_instruction_begins_is_done() -> None:
    assert "<stop" in COCO.read_wholly("play music and nod twice, then stop the music")


def test_the_newest_ended_tasks_of_people_are_those_before_a_new_one() -> None:
    tasks = [_task(f"nod {i}", ProcessStatus.SUCCESS, ended_s=NOW_S - 50 + i) for i in range(5)]
    old, idle = _task("old", ProcessStatus.SUCCESS, ended_s=1.0), replace(tasks[0], source=ProcessSource.IDLE)
    living = _task("walk", ProcessStatus.IN_PROGRESS)
    present = Present(processes=(old, idle, *tasks, living), time_s=NOW_S + EARLIER_S - 60)
    failed = replace(tasks[4], achievement=Achievement.NOT_DONE)
    told = earlier_tasks(replace(present, processes=(*tasks[:4], failed)), "nod 3")
    assert [task["instruction"] for task in earlier_tasks(present, "walk")] == ["nod 2", "nod 3", "nod 4"]
    assert told == [{"instruction": f"nod {i}", "achieved": "NOT_DONE" if i == 4 else "OPEN"} for i in (1, 2, 4)]


def test_of_several_tasks_it_tells_which_failed_and_of_one_why_in_a_sentence() -> None:
    why = "I know no “cup”, so I did nothing. Try: find the ball; find the apple. All: ghostshell skills"
    failed = _task("find a cup", ProcessStatus.FAILED, NOW_S - 10, why)
    nodded = _task("nod", ProcessStatus.SUCCESS, NOW_S - 20)
    both = replace(NOW, processes=(nodded, failed))
    assert _answer("what did you do?", both) == "I worked on “find a cup” (failed 10 s ago) and “nod” (done 20 s ago)."
    assert _answer("why did you stop?", both) == (
        "I worked on “find a cup” (failed 10 s ago: I know no “cup”, so I did nothing)."
    )
