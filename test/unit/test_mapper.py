# SPDX-License-Identifier: Apache-2.0
"""The mapper and the intake: tags to typed calls, odd values, channels to stop, what is recorded of text and routines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

import pytest
from shell_kit import SKILLS, mapper

from bench.dry_run import ANY_ROBOT, DryRun, dry_run
from function_tokens.mapper import Mapped, Mapper, Refusal
from function_tokens.routines import RoutineStore
from skill_kernel import CallCode, Content, SkillDefinitionError, SkillReturn, robot_skill
from skill_kernel.robot import RobotConfig, SubsystemConfig
from skill_kernel.skills.registry import SkillRegistry


class Side(Enum):
    LEFT = "left"
    RIGHT = "right"


@robot_skill("point", subsystem="arm")
def point(side: Side = Side.LEFT) -> SkillReturn:
    """Point."""


@robot_skill("drive", subsystem="wheels", nominal_s=lambda metres, speed: metres / speed)
def drive(metres: float, speed: float = 1.0) -> SkillReturn:
    """Drive."""


@robot_skill("tell", subsystem="board", nominal_s=lambda text: float(len(text)))
def tell(text: Content) -> SkillReturn:
    """Tell."""


ODD = Mapper(ANY_ROBOT, SkillRegistry([f.__robot_skill__ for f in (point, drive, tell)]))


def refusal(name: str, attrs: Mapping[str, str], by: Mapper | None = None) -> Refusal:
    found = (by or mapper()).map(name, attrs)
    assert isinstance(found, Refusal)
    return found


def rows(run: DryRun) -> list[tuple[str, float | None, float | None, str]]:
    return [(c.function, c.start_s, c.end_s, c.outcome) for c in run.calls]


@pytest.mark.parametrize("word", ["true", "True", "1", "yes", " on "])
def test_sync_adds_main_to_the_calls_own_channels_c8(word: str) -> None:
    found = mapper().map("walk", {"sync": word})
    assert isinstance(found, Mapped) and found.channels == {"legs", "main"} and found.subsystems == ("legs",)


def test_a_sync_that_is_neither_yes_nor_no_is_refused() -> None:
    assert refusal("walk", {"sync": "maybe"}).code is CallCode.INVALID_ARGUMENT


def test_refusals_name_what_may_have_been_meant_and_end_the_turn_only_for_motion() -> None:
    unknown = refusal("wlak", {})
    assert unknown.code is CallCode.UNKNOWN_FUNCTION and "walk" in unknown.message and unknown.ends_turn
    assert refusal("fly", {}).ends_turn and not refusal("pong", {}).ends_turn
    assert refusal("walk", {"s": "soon"}).ends_turn
    assert not refusal("ping", {"s": "1"}).ends_turn
    assert mapper().map("response", {}) is None


def test_the_channels_one_may_stop_are_shown_as_they_are_named() -> None:
    ear = SubsystemConfig(exclusive_per_process=True, parallel=False)
    robot = Mapper(ANY_ROBOT.model_copy(update={"subsystems": {"ear_left": ear, "ear_right": ear}}), SKILLS)
    assert "ear_left, ear_right" in refusal("stop", {"channel": "wings"}, robot).message
    assert "ear_{" not in refusal("stop", {"channel": "wings"}, robot).message
    assert isinstance(mapper().map("stop", {"channel": "ear_left"}), Mapped)
    spaced = mapper().map("stop", {"channel": " legs\n"})
    assert isinstance(spaced, Mapped) and spaced.arguments == {"channel": "legs"}


def test_an_enum_is_shown_by_its_value() -> None:
    assert [c.arguments for c in dry_run('<point/><point side="RIGHT"/>', ODD).calls] == [{"side": "left"}, {"side": "right"}]


@pytest.mark.parametrize("attrs", ['metres="1" speed="0"', 'metres="-1"'])
def test_a_duration_that_cannot_be_worked_out_is_reported_and_stops_nothing(attrs: str) -> None:
    run = dry_run(f'<drive {attrs}/><drive metres="2"/>', ODD)
    assert rows(run) == [("drive", 0, 0, "DONE"), ("drive", 0, 2, "DONE")]
    (notice,) = run.notices
    assert "nominal_s of skill 'drive'" in notice


def test_a_duration_that_no_number_holds_is_reported_too() -> None:
    @robot_skill("count_up", subsystem="arm", nominal_s=lambda to: to)
    def count_up(to: int) -> SkillReturn:
        """Count."""

    run = dry_run(f'<count_up to="1{"0" * 400}"/>', Mapper(ANY_ROBOT, SkillRegistry([count_up.__robot_skill__])))
    assert rows(run) == [("count_up", 0, 0, "DONE")] and "nominal_s of skill 'count_up'" in run.notices[0]


def test_text_given_as_an_attribute_comes_before_the_content() -> None:
    run = dry_run('<tell text="ab"/><tell text="ab">cd</tell><tell/>', ODD)
    assert [(c.arguments["text"], c.end_s) for c in run.calls] == [("ab", 2), ("abcd", 6), ("", 6)]


def test_text_behind_the_end_of_a_turn_is_recorded_as_dropped_c10() -> None:
    run = dry_run('<walk s="x"/>One &amp; two.<nod/>Three.', mapper())
    assert [(c.function, c.outcome) for c in run.calls] == [
        ("walk", "REFUSED"),
        ("text", "DROPPED"),
        ("nod", "DROPPED"),
        ("text", "DROPPED"),
    ]
    assert run.calls[3].arguments == {"text": "Three."}


@pytest.mark.parametrize("stream", ['<save name="a"><walk/>', '<wait><save name="a"><walk/></wait>'])
def test_a_routine_without_its_end_tag_is_not_kept(stream: str, tmp_path: Path) -> None:
    store = RoutineStore(tmp_path / "routines.json", clock=lambda: 0.0)
    dry_run('<save name="a"><nod/></save>', mapper(), routines=store)
    run = dry_run(stream, mapper(), routines=store)
    assert [c.outcome for c in run.calls if c.function == "save"] == ["DROPPED"]
    kept = store.get("a")
    assert kept is not None and kept.source == "<nod/>"


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param("<walk/>" * 3000, marks=pytest.mark.slow),
        pytest.param("<ping/>" * 3000, marks=pytest.mark.slow),
        pytest.param("Hi." + "<ping/>" * 3000, marks=pytest.mark.slow),
        "<walk/>Hi.<nod/>" * 1000,
    ],
)
def test_a_long_script_runs_to_its_end(stream: str) -> None:
    run = dry_run(stream, mapper())
    assert len(run.calls) > 2999 and {c.outcome for c in run.calls} == {"DONE"}


def test_a_boundary_of_a_phrase_is_found_across_pieces_c4() -> None:
    words = "one two three four five and more"
    (call,) = dry_run(words + "<walk/>", mapper(), chunk=1, chars_per_s=10).calls[:1]
    assert call.start_s == pytest.approx(words.index("five") / 10, abs=0.11)


def declared(**options: object) -> None:
    def skill() -> None:
        """Nothing."""

    robot_skill(**options)(skill)


def test_declarations_that_cannot_work_are_refused_by_name() -> None:
    for options, said in (
        ({"name": "two words"}, "two words"),
        ({"nominal_s": None}, "None"),
        ({"nominal_s": -1.0}, "-1.0"),
        ({"stop_s": math.inf}, "stop_s is inf"),
        ({"stop_s": math.nan}, "stop_s is nan"),
        ({"stop_s": "0.5"}, "stop_s is '0.5'"),
        ({"on_failure": "end turn"}, "on_failure is 'end turn'"),
    ):
        with pytest.raises(SkillDefinitionError, match=said):
            declared(**options)
    with pytest.raises(SkillDefinitionError, match=r"robot_skill\(\)"):
        robot_skill(test_text_given_as_an_attribute_comes_before_the_content)
    with pytest.raises(SkillDefinitionError, match="async"):

        @robot_skill("glide")
        async def glide() -> None:
            """Never awaited."""


@pytest.mark.parametrize(
    ("name", "attrs", "value"),
    [
        ("spider_rotate", {"angle": "90°"}, 90.0),
        ("spider_run_distance", {"distance": "20 cm"}, 20.0),
        ("spider_stand", {"duration": "1.5s"}, 1.5),
        ("spider_shake_ass", {"speed": "50%"}, 50.0),
        ("head_pose", {"yaw": "20 degrees", "pitch": "0"}, 20.0),
    ],
)
def test_coco_takes_a_number_with_the_unit_it_is_declared_in(name: str, attrs: dict[str, str], value: float) -> None:
    robot = RobotConfig.load("coco")
    found = Mapper(robot, SkillRegistry.from_modules(robot.skills)).map(name, attrs)
    assert isinstance(found, Mapped) and found.arguments[next(iter(attrs))] == value
    assert isinstance(
        Mapper(robot, SkillRegistry.from_modules(robot.skills)).map("spider_run_distance", {"distance": "0.2 m"}), Refusal
    )
