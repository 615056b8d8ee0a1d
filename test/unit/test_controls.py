# SPDX-License-Identifier: Apache-2.0
"""Sentences that only say what becomes of running tasks: which they are, and which tasks they mean."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.language.controls import COMMANDS, Control, read_control
from planners.language.skills import Matcher
from planners.language.stop_words import is_stop
from skill_kernel.processes.process import CAUSE_USER, CallRecord, Process
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

TEXTS = Path(__file__).parent / "texts"
TOLD = {
    "stop": """
        never mind. | Forget it! | ok, end it there | cancel the task please | stop what you are doing
        you can stop following me | stop going to the lounge | stop the walk | stop the music | Stop doing that
        don't go to the kitchen | turn off the music | do not follow me any more | kalos, end the patrol
        never mind the kitchen | call off the patrol | don't go to the kitchen after all | 把音乐关掉
        no more walking | stop dancing now please | give up the search | 算了 | 别去厨房了 | 停止巡逻
        取消任务
        别再叫了 | 不要跟着我了 | 机器人，停止巡逻吧""",
    "pause": """
        wait | Wait! | please wait | kalos, wait a moment please | stay where you are | hang on | one second | pause
        ok, wait | stop for a moment | pause the music | 等一下 | 请等一下 | 暂停音乐 | 待命 | 音乐先停一下
        全部暂停 | pause the music for a moment""",
    "resume": """
        go on | ok, go on please | Continue. | keep going | carry on with the patrol | resume the walk | 继续
        continue patrolling | 都继续吧 | 继续巡逻 | 你可以继续了""",
}
OTHERS = """
    don't stop | stop at the kitchen | stop when you see the ball | stop for 5 seconds | stop by the kitchen
    stop walking 2 metres | stop patrolling and come here | wait 5 seconds | wait for the ball | stay close to me
    stop the | stop you | don't | keep to the left | pause, then nod | wait, look left | stop, then nod
    go to the kitchen | nod | what are you doing? | cancel if you see a person | stop in the kitchen | 停在厨房
    等5秒 | 去厨房 | 不要停 | 如果看到人就停止巡逻"""


def _split(text: str) -> list[str]:
    return [one.strip() for line in text.strip().splitlines() for one in line.split("|") if one.strip()]


def _process(process_id: str, instruction: str, *calls: str, paused: bool = False) -> Process:
    running = tuple(CallRecord(f"{process_id}{n}", function) for n, function in enumerate(calls))
    causes = frozenset({CAUSE_USER}) if paused else frozenset[str]()
    return Process(process_id, instruction, "topic", "", "stream", 0.0, running=running, pause_causes=causes)


def _matcher() -> Matcher:
    robot = RobotConfig.load("kalos")
    return Matcher(SkillRegistry.from_modules(robot.skills, text_skill=robot.text_skill), robot.limits)


RUNNING = [
    _process("trip", "go to the kitchen", "goto_waypoint"),
    _process("music", "play something nice", "play_music"),
    _process("watch", "跟着我"),
    _process("held", "patrol", paused=True),
]


def _meant(sentence: str) -> tuple[str, list[str]]:
    control = read_control(sentence, "kalos")
    assert control is not None, sentence
    return control.command, [p.process_id for p in control.meant(RUNNING, _matcher)]


@pytest.mark.parametrize(("command", "sentence"), [(c, s) for c, told in TOLD.items() for s in _split(told)])
def test_a_sentence_about_running_tasks_is_read(command: str, sentence: str) -> None:
    control = read_control(sentence, "kalos")
    assert control is not None and control.command == command


@pytest.mark.parametrize("sentence", [*_split(OTHERS), "stop the music " * 20])
def test_a_sentence_that_says_more_is_none(sentence: str) -> None:
    assert read_control(sentence, "kalos") is None


@pytest.mark.parametrize(
    ("sentence", "command", "meant"),
    [
        ("stop going to the kitchen", "stop", ["trip"]),
        ("stop the music", "stop", ["music"]),
        ("stop following me", "stop", ["watch"]),
        ("don't go to the kitchen", "stop", ["trip"]),
        ("别去厨房了", "stop", ["trip"]),
        ("cancel the patrol", "stop", ["held"]),
        ("never mind", "stop", ["trip", "music", "watch", "held"]),
        ("wait", "pause", ["trip", "music", "watch"]),
        ("pause the music", "pause", ["music"]),
        ("go on", "resume", ["held"]),
        ("resume the patrol", "resume", ["held"]),
        ("resume the music", "resume", []),
        ("stop the flood", "stop", []),
        ("do not bark", "stop", []),
    ],
)
def test_the_tasks_are_found_by_their_instruction_or_by_what_they_do(sentence: str, command: str, meant: list[str]) -> None:
    assert _meant(sentence) == (command, meant)


def test_what_no_instruction_names_is_found_by_the_part_of_the_body() -> None:
    tour = _process("tour", "show the guests around", "goto_waypoint")
    control = read_control("stop the walk", "kalos")
    assert control is not None and control.meant([tour, _process("idle", "talk")], _matcher) == [tour]


PIECES = sorted({word for told in (*TOLD.values(), OTHERS) for sentence in _split(told) for word in sentence.split()})


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=40).map(" ".join))
def test_any_text_is_a_control_or_none_and_what_is_meant_can_be_controlled(text: str) -> None:
    control = read_control(text, "kalos")
    assert control is None or all(map(control.fits, control.meant(RUNNING, _matcher)))


def test_an_answer_is_in_the_language_of_the_sentence() -> None:
    assert Control("stop").told("never mind", RUNNING[:2]) == "ended “go to the kitchen”, “play something nice”"
    assert Control("pause").told("等一下", RUNNING[2:3]).startswith("已暂停“跟着我”")


def test_no_ordinary_sentence_ends_a_task_that_it_does_not_name() -> None:
    sentences = (TEXTS / "ordinary_sentences.txt").read_text(encoding="utf-8").splitlines()
    other = [_process("other", "juggle under the moon")]
    read = {s: c for s in sentences if (c := read_control(s, "kalos")) is not None and not is_stop(s, "kalos")}
    assert len(sentences) > 400 and {c.command for c in read.values()} <= set(COMMANDS)
    assert [s for s, control in read.items() if control.what and control.meant(other, _matcher)] == []
