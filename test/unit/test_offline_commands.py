# SPDX-License-Identifier: Apache-2.0
"""The offline parser does what a direct command says, on whatever robot, and nothing it did not understand."""

from __future__ import annotations

import re
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from thorough import examples

from bench.dry_run import ANY_ROBOT, DryRun, dry_run, skills_of
from function_tokens.mapper import Mapper
from function_tokens.routines import Routine, RoutineStore
from planners.language.lexicon import FILLERS, LIGHT
from planners.language.parser import CommandParser, Reading
from planners.prompts.prompt import GrammarOptions
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

SETS = Path(__file__).parent / "skillsets"
SPIDER = skills_of(SETS / "desk_spider.py")
QUADRUPED = skills_of(SETS / "quadruped.py")
CONFIG = RobotConfig.load("coco")
COCO = SkillRegistry.from_modules(CONFIG.skills, text_skill=CONFIG.text_skill)
COCO_OPTIONS = GrammarOptions(CONFIG.builtin_names, CONFIG.limits)
TAUGHT = [Routine("zigzag dance", "", "<spider_sit/>", 0.0)]
KALOS_CONFIG = RobotConfig.load("kalos")
KALOS = SkillRegistry.from_modules(KALOS_CONFIG.skills, text_skill=KALOS_CONFIG.text_skill)
ROBOTS = {"coco": (COCO, COCO_OPTIONS), "spider": (SPIDER, GrammarOptions()), "quadruped": (QUADRUPED, GrammarOptions())}
SHIPPED = {**ROBOTS, "kalos": (KALOS, GrammarOptions(KALOS_CONFIG.builtin_names, KALOS_CONFIG.limits))}


def _read(text: str, robot: str = "coco", last: str = "", routines: list[Routine] | None = None) -> Reading:
    return (_parser(robot, routines) if routines else _untaught(robot)).read(text, last)


def _parser(robot: str, routines: list[Routine]) -> CommandParser:
    skills, options = SHIPPED[robot]
    return CommandParser(skills, routines, options, "CoCo")


@cache
def _untaught(robot: str) -> CommandParser:
    return _parser(robot, [])


def _performed(source: str, robot: str = "coco") -> DryRun:
    skills, options = ROBOTS[robot]
    settings = {"limits": options.limits, "builtin_names": options.builtin_names}
    mapper = Mapper(ANY_ROBOT.model_copy(update=settings), skills)
    with tempfile.TemporaryDirectory() as folder:
        run = dry_run(source, mapper, mode="strict", routines=RoutineStore(Path(folder) / "routines.json", clock=lambda: 0.0))
    assert run.error is None
    return run


ON_COCO = [
    ("pls nod", '<head_act action="nod"/>'),
    ("um, nod", '<head_act action="nod"/>'),
    ("would you mind standing up", "<spider_stand/>"),
    ("请你向前走半米", '<spider_run_distance distance="50"/>'),
    ("抬头", '<head_pose pitch="30"/>'),
    ("摇左耳朵", '<ear_swing side="left"/>'),
    ("眨左眼", "<wink_left/>"),
    ("先站起来再点头", '<wait><spider_stand/></wait><head_act action="nod"/>'),
    ("stand up", "<spider_stand/>"),
    ("walk 40 cm forward", '<spider_run_distance distance="40"/>'),
    ("walk forward half a metre slowly", '<spider_run_distance speed="25" distance="50"/>'),
    ("go back 200 mm", '<spider_run_distance distance="-20"/>'),
    ("run 1 metre forward at full speed", '<spider_run_distance speed="100" distance="100"/>'),
    ("turn left 90 degrees", '<spider_rotate angle="90"/>'),
    ("rotate clockwise by forty-five degrees", '<spider_rotate angle="-45"/>'),
    ("turn right pi", None),
    ("turn half a turn to the left", '<spider_rotate angle="180"/>'),
    ("make a happy face", '<display_face face="happy"/>'),
    ("show a curious face", '<emotion emo="curious"/>'),
    ("look left", '<head_pose yaw="30"/>'),
    ("look 20 degrees to the right", '<head_pose yaw="-20"/>'),
    ("look around", '<head_act action="look_around"/>'),
    ("lean to the right for 2 seconds", '<spider_body_lean direction="right" duration="2"/>'),
    ("knock on the table with leg 2 five times", '<spider_single_leg_knock leg="2" times="5"/>'),
    ("wave", "<spider_wave_move/>"),
    ("wag your bottom", "<spider_shake_ass/>"),
    ("shake your ears", "<shake_ears/>"),
    ("wave both ears", '<ear_swing side="left"/><ear_swing side="right"/>'),
    ("sit like a dog", '<spider_sit style="dog"/>'),
    ("play some music", "<play_bgm/>"),
    ("play happy music softly", '<play_bgm name="happy" volume="25"/>'),
    ("stop", "<stop/>"),
    ("stop the music", '<stop channel="bgm"/>'),
    ("stop whatever", "<stop/>"),
    ("stop dancing", "<stop/>"),
    ("wait 2 seconds", '<sleep seconds="2"/>'),
    ("say 'a < b & c'", "a &lt; b &amp; c"),
    ("say hello, world", "hello, world"),
    ("say hello and smile", 'hello<display_face face="smile"/>'),
    ("smile while saying hello", '<display_face face="smile">hello</display_face>'),
    ("count to 3", "1, 2, 3"),
    ("rotate while counting from 1 to 4", "<spider_rotate>1, 2, 3, 4</spider_rotate>"),
    ("nod three times", '<head_act action="nod"/>' * 3),
    ("Coco, could you please nod?", '<head_act action="nod"/>'),
    ("look left, then right", '<head_pose yaw="30"/><head_pose yaw="-30"/>'),
    ("shake your head left and right", '<head_act action="shake"/>'),
    ("play some music and spin around", '<play_bgm><spider_rotate angle="360"/></play_bgm>'),
    ("While walking 20 cm, nod", '<head_act action="nod"><spider_run_distance distance="20"/></head_act>'),
    (
        "stand up, then nod twice while saying 'hello'",
        '<wait><spider_stand/></wait><head_act action="nod"/><head_act action="nod"/>hello',
    ),
    ("wave your left ear three times, then sit down", "<wait>" + '<ear_swing side="left"/>' * 3 + "</wait><spider_sit/>"),
    ("perform the zigzag dance", '<RUN name="zigzag dance"/>'),
    ("do the zigzag dance twice", '<RUN name="zigzag dance"/><RUN name="zigzag dance"/>'),
    ("站起来", "<spider_stand/>"),
    ("请坐下", "<spider_sit/>"),
    ("点头三次", '<head_act action="nod"/>' * 3),
    ("停", "<stop/>"),
    ("说你好", "你好"),
    ("左转90度", '<spider_rotate angle="90"/>'),
    ("向前走二十厘米", '<spider_run_distance distance="20"/>'),
    ("站起来，然后点头", '<wait><spider_stand/></wait><head_act action="nod"/>'),
    ("一边点头一边说“你好”", '<head_act action="nod">你好</head_act>'),
]

ON_QUADRUPED = [
    ("stand up, then nod twice while saying 'hello'", "<wait><stand/></wait><nod/><nod/>hello"),
    ("walk 40 cm forward", '<move_forward distance_m="0.4"/>'),
    ("go 2 metres", '<move_forward distance_m="2"/>'),
    ("turn left 90 degrees", '<rotate angle_deg="90"/>'),
    ("turn right 1.5 radians", '<rotate angle_deg="-85.943669"/>'),
    ("spin around", '<rotate angle_deg="180"/><rotate angle_deg="180"/>'),
    ("sit down and nod", "<sit/><nod/>"),
    ("坐下", "<sit/>"),
    ("turn left ninety degrees", '<rotate angle_deg="90"/>'),
    ("turn left ninety degrees and wink", ""),
    ("walk forward slowly", ""),
    ("walk backward 20 cm", ""),
    ("make a happy face", ""),
    ("look left", ""),
]


@pytest.mark.parametrize(("text", "expected"), [(t, e) for t, e in ON_COCO if e is not None])
def test_a_command_becomes_this_stream_on_coco(text: str, expected: str) -> None:
    reading = _read(text, routines=TAUGHT)
    assert (reading.source, reading.trouble) == (expected, None)


@pytest.mark.parametrize(("text", "expected"), ON_QUADRUPED)
def test_the_same_words_use_another_robots_own_skills(text: str, expected: str) -> None:
    assert _read(text, "quadruped").source == expected


@pytest.mark.parametrize("robot", ROBOTS)
def test_every_stream_parses_strictly_and_every_call_of_it_runs(robot: str) -> None:
    for text, _ in ON_COCO + ON_QUADRUPED:
        source = _read(text, robot).source
        assert all(call.outcome == "DONE" for call in _performed(source, robot).calls), (text, source)


def test_then_waits_although_the_channels_differ() -> None:
    calls = {c.function: c for c in _performed(_read("stand up, then nod while saying 'hello'").source).calls}
    assert calls["head_act"].start_s >= calls["spider_stand"].end_s
    assert calls["head_act"].start_s == calls["text"].start_s


def test_music_lasts_exactly_as_long_as_what_it_accompanies() -> None:
    calls = {c.function: c for c in _performed(_read("play music, then turn left, then nod").source).calls}
    assert 0.0 <= calls["play_bgm"].end_s - calls["head_act"].end_s <= 0.5
    assert calls["head_act"].start_s >= calls["spider_rotate"].end_s


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_robot_without_a_taught_dance_dances_with_what_it_has(robot: str) -> None:
    run = _performed(_read("dance", robot).source, robot)
    moves = {c.function for c in run.calls} & set(ROBOTS[robot][0].names)
    assert len(moves) >= 3
    turned = sum(c.arguments.get("angle", c.arguments.get("angle_deg", 0.0)) for c in run.calls if "rotate" in c.function)
    assert turned == 0.0


def test_a_taught_dance_is_preferred() -> None:
    assert _read("dance", routines=[Routine("dance", "", "<spider_sit/>", 0.0)]).source == '<RUN name="dance"/>'


COMMANDS = [text for text, expected in ON_COCO if expected and re.match("[a-zA-Z]", text)]


@pytest.mark.parametrize("no", ["don't ", "do not ", "never ", "please don't ", "you must not "])
@pytest.mark.parametrize("text", ["walk", "walk 40 cm forward", "stand up, then nod", "nod and walk", "dance", "turn left"])
def test_what_is_forbidden_is_never_done(no: str, text: str) -> None:
    reading = _read(no + text)
    assert reading.source == "" and reading.trouble


@pytest.mark.parametrize(
    "text",
    [
        "nod, but don't walk",
        "walk forward, not backward",
        "do not, under any circumstances, walk",
        "不要走",
        "if you see me, walk",
        "walk until you see a wall",
        "walk, until I say so",
        "when I clap, nod",
        "nod or walk",
        "如果看到我就走",
        "can you walk?",
        "how do you walk?",
        "are you sitting",
        "你会走吗",
        "walk?",
        "nod before you sit",
        "once you see me, nod",
        "walk unless it rains",
        "walk to the kitchen",
        "",
        "   ",
        "?!",
        "twirl",
        "walk 40",
        "walk my dog",
        "walk left 40 degrees forward 3 times by 7",
        "sit nod",
        "left",
        "fast",
        "2",
        "the",
        "and",
        "then",
        "while",
        "while nodding",
    ],
)
def test_what_is_no_direct_command_moves_nothing(text: str) -> None:
    assert _read(text).source == ""


@pytest.mark.parametrize("robot", SHIPPED)
@pytest.mark.parametrize("text", ["do it", "do", "please do", "just do it", "let us do it", "do it now", "do it for 4 seconds"])
def test_do_it_moves_nothing(text: str, robot: str) -> None:
    reading = _read(text, robot)
    assert reading.source == "" and reading.trouble


MEASURES = "twice|4|4 seconds|90 degrees|20 cm|half a metre|50 percent|slowly|left|both|and|,".split("|")


@settings(max_examples=examples(300))
@given(
    st.lists(st.sampled_from([*sorted(LIGHT - {"look"}), *sorted(FILLERS - {"style"}), *MEASURES]), min_size=1, max_size=6),
    st.sampled_from(sorted(SHIPPED)),
)
def test_no_command_is_understood_from_light_words_alone(words: list[str], robot: str) -> None:
    assert _read(" ".join(words), robot).source == ""


@pytest.mark.parametrize(
    ("first", "more"),
    [
        ("nod", " and nod"),
        ("nod", " then nod"),
        ("nod", " twice"),
        ("count", " 3"),
        ("one", " hundred and one"),
        ("a", " coco"),
        ("去厨房", "去厨房的"),
    ],
)
def test_a_text_of_any_length_is_read_in_linear_time(first: str, more: str) -> None:
    def once(times: int) -> float:
        begin = time.process_time()
        _read(first + more * times, "quadruped")
        return time.process_time() - begin

    def seconds(times: int) -> float:
        """Return the least of three: other programs on the same cores only ever add to it."""
        return min(once(times) for _ in range(3))

    assert seconds(500) < 24 * max(seconds(50), 0.001)


ON_KALOS = [
    ("go back to the kitchen", '<goto_waypoint waypoint="kitchen"/>'),
    ("return to the office", '<goto_waypoint waypoint="office"/>'),
    ("walk back 20 cm", '<move_back distance_m="0.2"/>'),
    ("去厨房", '<goto_waypoint waypoint="kitchen"/>'),
    ("请去办公室", '<goto_waypoint waypoint="office"/>'),
    ("巡逻", "<patrol/>"),
    ("拍照", "<take_pic/>"),
    ("叫两声", '<bark times="2"/>'),
    ("找球", '<search target="ball"/>'),
    ("look for a ball", '<search target="ball"/>'),
    ("向前走半米", '<move_forward distance_m="0.5"/>'),
]


@pytest.mark.parametrize("text", ["go back", "please come back"])
def test_a_way_back_that_may_be_a_place_or_a_direction_is_asked_for(text: str) -> None:
    reading = _read(text, "kalos")
    assert reading.source == "" and "a place, or backwards?" in (reading.trouble or "")


@pytest.mark.parametrize(("text", "source"), ON_KALOS)
def test_a_command_becomes_this_stream_on_kalos(text: str, source: str) -> None:
    reading = _read(text, "kalos")
    assert (reading.source, reading.trouble) == (source, None)


@pytest.mark.parametrize("text", ["sit down, then twirl, then nod", "sit down and twirl", "Sit down. Twirl."])
def test_nothing_is_done_of_what_is_understood_in_part(text: str) -> None:
    reading = _read(text)
    assert reading.source == ""
    assert reading.trouble is not None and "wirl”" in reading.trouble


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("walk forward 20 cm but slowly", '<spider_run_distance speed="25" distance="20"/>'),
        ("walk forward 20 cm, slowly", '<spider_run_distance speed="25" distance="20"/>'),
        ("nod, twice", '<head_act action="nod"/><head_act action="nod"/>'),
        ("walk forward 20 cm but backwards", ""),
        ("walk forward a meter and a half", ""),
        ("walk forward 20 cm, loudly", ""),
        ("in 5 seconds nod", ""),
        ("nod in 5 seconds", ""),
        ("nod, then do it again", ""),
    ],
)
def test_how_something_is_to_be_done_is_heeded_or_nothing_moves(text: str, source: str) -> None:
    assert _performed(_read(text).source).calls == _performed(source).calls if source else _read(text).source == ""


@pytest.mark.parametrize(
    ("text", "robot"),
    [("left", "coco"), ("put both ears down", "coco"), ("go to the kichen", "kalos"), ("patrol kitchen and lounge", "kalos")],
)
def test_no_hint_is_a_word_that_was_said(text: str, robot: str) -> None:
    hint = re.search(r"did you mean “(.*?)”", _read(text, robot).trouble or "")
    assert hint is None or hint[1] not in text.split()


def test_on_a_robot_of_one_speed_slowly_moves_nothing() -> None:
    assert _read("walk forward 0.5 m, but slowly", "kalos").source == ""


@pytest.mark.parametrize(
    ("text", "robot", "parts"),
    [
        ("walk 5 m", "coco", ["5 m is too far; at most 2 m"]),
        ("walk back 3 km", "coco", ["3000 m is too far; at most 2 m"]),
        ("turn left 400 degrees", "coco", ["angle", "400", "-360 to 360"]),
        ("walk 4 m", "quadruped", ["4 m is too far; at most 3 m"]),
        ("nod 50 times", "coco", ["50", "20"]),
        ("wait 2 hours", "coco", []),
        ("knock 2.5 times", "spider", []),
        ("swing your ear", "coco", ["left or right"]),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_range(text: str, robot: str, parts: list[str]) -> None:
    reading = _read(text, robot)
    assert reading.source == ""
    assert reading.trouble is not None and all(p in reading.trouble for p in parts), reading.trouble


def test_two_gestures_of_one_channel_come_one_after_the_other_and_it_says_so() -> None:
    run = _performed(_read("nod and shake your head at the same time").source)
    assert "both need my head" in str(run.calls[0].arguments)
    assert [c.arguments["action"] for c in run.calls if c.function == "head_act"] == ["nod", "shake"]


def test_a_sequence_is_kept_as_a_routine_under_its_name() -> None:
    reading = _read("remember this as happy greeting: nod twice, then say hello")
    inside = '<wait><head_act action="nod"/><head_act action="nod"/></wait>hello'
    assert reading.source.startswith('<SAVE name="happy greeting" description="nod twice, then say hello">')
    assert reading.source == f"{reading.source.split('>')[0]}>{inside}</SAVE>"
    assert _read("save sit down as rest").source == '<SAVE name="rest" description="sit down"><spider_sit/></SAVE>'


def test_what_was_done_last_can_be_kept_repeated_and_changed() -> None:
    last = "<spider_sit/>"
    assert _read("save that as rest", last=last).source.endswith("><spider_sit/></SAVE>")
    assert _read("again", last=last).source == last
    twice = _performed(_read("do it twice instead", last="hi<head_act/>").source).calls
    assert [c.function for c in twice if c.function != "wait"] == ["text", "head_act", "text", "head_act"]
    kept = _read("do it twice instead", last='<SAVE name="rest"><spider_sit/></SAVE>').source
    assert kept == '<SAVE name="rest"><wait><spider_sit/></wait><spider_sit/></SAVE>'


@pytest.mark.parametrize("text", ["again", "save that as x", "remember this as x: twirl", "remember this as x: save nod as y"])
def test_nothing_is_kept_or_repeated_where_there_is_nothing(text: str) -> None:
    reading = _read(text)
    assert reading.source == "" and reading.trouble


WORDS = st.sampled_from(
    (
        "walk turn nod shake sit stand say smile left right forward 40 cm degrees 90 twice times and then while , . ? "
        "! not don't if the a your head ear both music play stop dance slowly again as remember : 'hi' at same time "
        "点头 说 走 然后 别 20厘米 < > & \" ' half hundred quarter save it perform zigzag count to from 3 before look km"
    ).split(" ")
    + ["9" * 400, "9" * 307, f"{'9' * 309}.5", f"-{'9' * 400}"]
)


@settings(max_examples=examples(150))
@example("save as walk", "coco")
@example(f"nod {'9' * 400} times", "coco")
@example(f"walk {'9' * 307} km", "quadruped")
@example(f"count to {'9' * 309}", "coco")
@given(st.lists(WORDS, max_size=14).map(" ".join) | st.text(max_size=60), st.sampled_from(list(ROBOTS)))
def test_no_instruction_breaks_the_grammar_or_is_refused(text: str, robot: str) -> None:
    reading = _read(text, robot, last="<wait></wait>", routines=TAUGHT)
    run = _performed(reading.source, robot)
    assert not [c for c in run.calls if c.outcome == "REFUSED" and c.function not in ("run", "RUN")], reading.source


@settings(max_examples=examples(100))
@given(st.lists(st.sampled_from(COMMANDS), min_size=1, max_size=3), st.sampled_from(["not", "never", "don't"]), st.data())
def test_a_negation_anywhere_outside_speech_stops_every_movement_of_its_sentence(
    commands: list[str], no: str, data: st.DataObject
) -> None:
    sentence = " and ".join(c.rstrip("?") for c in commands if not re.search("say|count|remember", c))
    words = sentence.split(" ")
    words.insert(data.draw(st.integers(0, len(words))), no)
    assert _read(" ".join(words)).source == ""
