# SPDX-License-Identifier: Apache-2.0
"""CoCo's skills: names and parameters, channels, nominal times, the open form, head, ears, face, voice and music."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import get_args

import pytest
from coco_sim import CocoSim, config, registry
from sim_probe import tilt

from ghostshell_ros.drivers.faces import EMOTIONS, FACES
from ghostshell_ros.drivers.speech import phrases
from ghostshell_ros.drivers.tunes import TUNES
from ghostshell_ros.robots.coco.skills import head, sound
from skill_kernel.skills.arguments import bind, unknown_limits
from skill_kernel.skills.drivers import DriverResult

pytestmark = pytest.mark.component

FUNCTIONS = {
    "spider_stand": ("posture", "duration"),
    "spider_sit": ("style", "duration"),
    "spider_run_distance": ("speed", "amplitude", "distance"),
    "spider_rotate": ("angle",),
    "spider_body_lean": ("direction", "duration"),
    "spider_wave_move": ("speed", "amplitude", "times"),
    "spider_shake_ass": ("speed", "amplitude", "times"),
    "spider_push_up": ("duration",),
    "spider_arm_pull": ("direction", "speed", "times"),
    "spider_arm_knock": ("speed", "times"),
    "spider_single_leg_knock": ("leg", "speed", "times"),
    "head_act": ("action", "duration"),
    "head_pose": ("yaw", "pitch"),
    "ear_swing": ("side", "start_angle", "end_angle", "speed", "duration"),
    "ear_state": ("state", "duration"),
    "shake_ears": ("duration",),
    "display_face": ("face", "duration"),
    "emotion": ("emo", "duration"),
    "wink_left": ("duration",),
    "wink_right": ("duration",),
    "speech_role": ("role", "emotion", "speech_rate", "loudness_rate"),
    "play_bgm": ("name", "volume"),
    "speak": ("text",),
}
REQUIRED = {"ear_swing": {"side": "left"}, "speak": {"text": "Hello, I am CoCo. I can dance!"}}


def test_the_functions_and_their_parameters_are_the_published_ones_and_the_question_that_every_robot_has() -> None:
    every_robots = {"ask": ("question", "choices")}
    assert {skill.name: tuple(skill.signature.parameters) for skill in registry()} == FUNCTIONS | every_robots


def test_every_skill_is_described_interruptible_bounded_and_on_a_channel_of_the_robot() -> None:
    for skill in registry():
        assert len(skill.description) > 20, skill.name
        assert skill.interruptible and skill.stop_s is not None, skill.name
        assert unknown_limits(skill, config().limits) == [], skill.name
        arguments = {n: p.default for n, p in skill.signature.parameters.items()} | REQUIRED.get(skill.name, {})
        assert set(skill.subsystems_for(arguments)) <= set(config().subsystems), skill.name
    assert registry().text_skill is not None and registry().text_skill.name == "speak"


def test_the_config_imports_its_body_and_model() -> None:
    assert config().load_body().__name__ == "CocoBody"
    assert config().builtin_names == {"SAVE": "save", "RUN": "run"}


def test_left_and_right_ear_are_channels_of_their_own_and_the_others_take_both() -> None:
    swing = registry().get("ear_swing")
    assert swing.subsystems_for({"side": "left"}) == ("ear_left",)
    assert swing.subsystems_for({"side": "right"}) == ("ear_right",)
    assert registry().get("shake_ears").subsystems_for({}) == ("ear_left", "ear_right")


def test_motion_past_the_robots_limits_is_clamped() -> None:
    walk = bind(registry().get("spider_run_distance"), {"distance": "900"}, config().limits)
    assert walk.values["distance"] == 200 and walk.clamped
    turn = bind(registry().get("spider_rotate"), {"angle": "-720"}, config().limits)
    assert turn.values["angle"] == -360 and turn.clamped


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "speech_role"])
def test_a_skill_takes_about_its_nominal_time(name: str) -> None:
    measured = CocoSim().run(name, **REQUIRED.get(name, {}))
    assert measured.result.ok, measured.result.message
    assert measured.seconds == pytest.approx(measured.nominal_s, rel=0.2, abs=0.05)
    assert measured.peak_tilt < 25


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("spider_run_distance", {"distance": 40}),
        pytest.param("spider_run_distance", {"distance": -100, "speed": 100}, marks=pytest.mark.slow),
        ("spider_run_distance", {"distance": 10, "speed": 0, "amplitude": 0}),
        ("spider_rotate", {"angle": 30}),
        pytest.param("spider_rotate", {"angle": -180}, marks=pytest.mark.slow),
        ("spider_wave_move", {"speed": 0, "times": 2}),
        pytest.param("spider_push_up", {"duration": 9}, marks=pytest.mark.slow),
        ("head_act", {"action": "look_around", "duration": 4}),
        ("ear_swing", {"side": "right", "start_angle": -90, "end_angle": 90, "speed": 0, "duration": 6}),
        ("ear_state", {"state": "opponent", "duration": 0}),
        ("play_bgm", {"name": "lullaby"}),
    ],
    ids=str,
)
def test_nominal_times_follow_the_arguments(name: str, arguments: dict) -> None:
    measured = CocoSim().run(name, **arguments)
    assert measured.seconds == pytest.approx(measured.nominal_s, rel=0.2, abs=0.05)


@pytest.mark.parametrize("reset_at", [3.05, pytest.param(6.05, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "speak"])
def test_an_open_element_ends_within_the_stop_time_of_its_reset(name: str, reset_at: float) -> None:
    sim = CocoSim()
    measured = sim.run(name, until_reset=True, stop_after=reset_at, **REQUIRED.get(name, {}))
    assert reset_at <= measured.seconds <= reset_at + measured.stop_bound_s
    assert measured.result.ok or measured.result.interrupted
    sim.settle()
    assert math.degrees(tilt(sim.world)) < 3


@pytest.mark.parametrize(("name", "times_s"), [("spider_shake_ass", 3.2), ("head_act", 1.5), ("shake_ears", 1.6)])
def test_a_repeated_motion_goes_on_until_its_reset(name: str, times_s: float) -> None:
    sim = CocoSim()
    moving: list[float] = []
    observe = sim._observe

    def watch() -> None:
        observe()
        if max(map(abs, sim.world.robot.joint_velocities().values())) > 0.3:
            moving.append(sim.world.time)

    sim._observe = watch
    sim.run(name, until_reset=True, stop_after=4 * times_s)
    assert max(moving) > 3.5 * times_s


@pytest.mark.parametrize("yaw", [-65, 40])
@pytest.mark.parametrize("pitch", [-30, 38])
def test_the_head_points_where_it_is_told(yaw: float, pitch: float) -> None:
    sim = CocoSim()
    sim.run("head_pose", yaw=yaw, pitch=pitch)
    sim.settle(0.3)
    joints = sim.world.robot.joint_positions()
    assert math.degrees(joints["head_yaw"]) == pytest.approx(yaw, abs=2)
    assert math.degrees(joints["head_pitch"]) == pytest.approx(pitch, abs=3)
    forward = sim.world.data.body("head").xmat.reshape(3, 3)[:, 0]
    assert math.copysign(1, forward[1]) == math.copysign(1, yaw)
    assert math.copysign(1, forward[2]) == math.copysign(1, pitch)


def test_head_acts_move_the_right_joint_and_come_back_to_where_the_head_was() -> None:
    joint_of = {"nod": "head_pitch", "shake": "head_yaw", "look_left": "head_yaw", "bow": "head_pitch"}
    for action, joint in joint_of.items():
        sim = CocoSim()
        sim.run("head_pose", yaw=20, pitch=5)
        seen: list[dict[str, float]] = []
        observe = sim._observe
        sim._observe = lambda observe=observe, seen=seen, sim=sim: (observe(), seen.append(sim.world.robot.joint_positions()))
        sim.run("head_act", action=action)
        sim.settle(0.3)
        spans = {j: max(s[j] for s in seen) - min(s[j] for s in seen) for j in ("head_yaw", "head_pitch")}
        assert spans[joint] > 0.3 and spans[joint] == max(spans.values())
        end = sim.world.robot.joint_positions()
        assert math.degrees(end["head_yaw"]) == pytest.approx(20, abs=2)
        assert math.degrees(end["head_pitch"]) == pytest.approx(5, abs=2)


def test_a_longer_nod_has_more_beats() -> None:
    def beats(duration: float) -> int:
        sim = CocoSim()
        pitch: list[float] = []
        observe = sim._observe
        sim._observe = lambda: (observe(), pitch.append(sim.world.robot.joint_positions()["head_pitch"]))
        sim.run("head_act", action="nod", duration=duration)
        return sum(1 for a, b in pairwise(pitch) if a >= -0.15 > b)

    assert (beats(0.8), beats(1.5), beats(3.0)) == (1, 2, 5)


def test_an_ear_swings_alone_between_its_angles_and_ends_upright() -> None:
    sim = CocoSim()
    seen: list[dict[str, float]] = []
    observe = sim._observe
    sim._observe = lambda: (observe(), seen.append(sim.world.robot.joint_positions()))
    sim.run("ear_swing", side="right", start_angle=-60, end_angle=30, speed=40, duration=4)
    sim.settle(0.3)
    right = [math.degrees(s["ear_right"]) for s in seen]
    assert min(right) == pytest.approx(-60, abs=6) and max(right) == pytest.approx(30, abs=6)
    assert max(abs(s["ear_left"]) for s in seen) < 0.03
    assert abs(sim.world.robot.joint_positions()["ear_right"]) < 0.03


def test_every_expression_has_a_drawing_and_every_tune_notes() -> None:
    assert set(get_args(head.Face)) <= set(FACES)
    assert set(EMOTIONS) == set(get_args(head.Emotion))
    assert set(EMOTIONS.values()) <= set(FACES)
    assert set(get_args(sound.Tune)) <= set(TUNES)


def test_a_face_is_shown_for_its_time_and_then_the_one_before() -> None:
    sim = CocoSim()
    sim.drivers.face = "calm"
    shown: list[str] = []
    sim._observe = lambda: shown.append(sim.drivers.face)
    sim.run("emotion", emo="afraid", duration=1.0)
    assert set(shown[:-1]) == {"fear"} and sim.drivers.face == "calm"
    assert len(shown) == pytest.approx(50, abs=2)


def test_speech_goes_out_phrase_by_phrase_in_the_voice_that_was_set() -> None:
    sim = CocoSim()
    sim.run("speech_role", role="girl", emotion="happy", speech_rate=50, loudness_rate=-50)
    sim.run("speak", text=iter(["Hi ", "there. How", " are you?\u200b \u4f60\u597d\uff01", " \U0001f600"]))
    assert [s[0] for s in sim.drivers.spoken] == ["Hi there.", "How are you?", "\u4f60\u597d\uff01"]
    assert [s[1] for s in sim.drivers.spoken] == ["en+f2", "en+f2", "cmn+f2"]
    assert all(s[2] == pytest.approx(1.62) and s[3] < 0.5 for s in sim.drivers.spoken)


def test_a_voice_around_text_ends_with_its_element() -> None:
    sim = CocoSim()
    before = sim.body.voice
    sim.run("speech_role", role="robot", until_reset=True, stop_after=1.0)
    assert sim.body.voice == before
    sim.run("speech_role", role="robot")
    assert sim.body.voice != before


def test_speech_that_is_stopped_says_what_was_said() -> None:
    sim = CocoSim()
    measured = sim.run("speak", text="First sentence. Second sentence, which is longer.", stop_after=1.5)
    assert measured.result.interrupted
    assert "First sentence." in measured.result.message and "longer" not in measured.result.message
    assert measured.seconds < 1.6


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        (["It is 3", ".5 cm, no", "t 4."], ["It is 3.5 cm,", "not 4."]),
        (["a" * 500], ["a" * 160, "a" * 160, "a" * 160, "a" * 20]),
        (["At 10:30, ok"], ["At 10:30,", "ok"]),
        (["  \n ", "!!", "\u2026"], []),
        (["one\ntwo"], ["one", "two"]),
        ([], []),
    ],
)
def test_text_is_cut_into_phrases_at_their_certain_ends(pieces: list[str], said: list[str]) -> None:
    assert list(phrases(pieces)) == said


def test_a_phrase_is_said_before_the_text_behind_it_arrives() -> None:
    arrived: list[str] = []

    def pieces():
        for piece in ("Hello!", " And", " more."):
            arrived.append(piece)
            yield piece

    assert next(phrases(pieces())) == "Hello!"
    assert arrived == ["Hello!"]


def test_music_plays_once_or_until_the_reset() -> None:
    sim = CocoSim()
    once = sim.run("play_bgm", name="happy")
    assert once.result.ok and once.seconds == pytest.approx(TUNES["happy"].duration_s, abs=0.1)
    looped = sim.run("play_bgm", name="happy", until_reset=True, stop_after=30)
    assert looped.seconds == pytest.approx(30, abs=0.1)


@pytest.mark.parametrize(("skill", "way"), [("spider_run_distance", {"distance": 20.0}), ("spider_rotate", {"angle": 90.0})])
def test_a_way_on_which_the_steps_bring_it_nowhere_is_not_said_to_be_done(skill: str, way: dict[str, float]) -> None:
    sim = CocoSim()
    sim.drivers.move_joints = lambda **_: DriverResult(True)
    result = sim.run(skill, **way).result
    assert not result.ok and " 0" in result.message and "is it held, or does it slip?" in result.message, result


@pytest.mark.parametrize(("skill", "wish"), [("spider_sit", {"style": "normal"}), ("head_pose", {"yaw": 40.0})])
def test_a_posture_to_which_the_joints_do_not_come_is_not_said_to_be_taken(skill: str, wish: dict[str, object]) -> None:
    sim = CocoSim()
    sim.drivers._command = lambda _: None
    result = sim.run(skill, **wish).result
    assert not result.ok and "did not come within" in result.message, result


def test_what_is_left_of_a_walk_or_a_turn_after_a_pause() -> None:
    skills = registry()
    walk, turn = skills.get("spider_run_distance"), skills.get("spider_rotate")
    assert walk is not None and walk.remaining is not None and turn is not None and turn.remaining is not None
    arguments = {"speed": 60.0, "amplitude": 60.0}
    assert walk.remaining({"distance": 150.0}, **arguments, distance=200.0) == {"distance": 50.0}
    assert walk.remaining({"distance": -15.0}, **arguments, distance=-20.0) == {"distance": -5.0}
    assert walk.remaining({"distance": 199.5}, **arguments, distance=200.0) is None
    assert walk.remaining({"distance": 203.0}, **arguments, distance=200.0) is None
    assert turn.remaining({"angle": -30.0}, angle=-90.0) == {"angle": -60.0}


def test_every_skill_but_speech_goes_on_after_a_pause() -> None:
    assert [skill.name for skill in registry() if not (skill.pausable or skill.restartable)] == ["speak"]


@pytest.mark.parametrize(
    ("name", "arguments", "stop_after", "left"),
    [
        ("spider_wave_move", {"times": 4}, 0.5, "times"),
        pytest.param("spider_shake_ass", {"times": 6}, 0.5, "times", marks=pytest.mark.slow),
        pytest.param("spider_arm_pull", {"times": 3}, 0.6, "times", marks=pytest.mark.slow),
        pytest.param("spider_arm_knock", {"times": 5}, 0.4, "times", marks=pytest.mark.slow),
        pytest.param("spider_single_leg_knock", {"leg": 3, "times": 5}, 0.4, "times", marks=pytest.mark.slow),
        ("spider_push_up", {"duration": 8.0}, 0.5, "duration"),
    ],
)
def test_a_move_that_is_made_some_times_is_counted_through_over_a_pause(
    name: str, arguments: dict[str, float], stop_after: float, left: str
) -> None:
    skill, whole = registry().get(name), CocoSim().run(name, **arguments)
    times = int(whole.result.value["times"])
    assert whole.result.message.startswith(f"did {times} of {times}") and skill.remaining is not None
    stopped = CocoSim().run(name, **arguments, stop_after=whole.seconds * stop_after)
    done = stopped.result.progress["times"]
    assert stopped.result.interrupted and 0 < done < times
    given = {n: p.default for n, p in skill.signature.parameters.items() if n in ("duration", "times")} | arguments
    rest = skill.remaining(stopped.result.progress, **{n: v for n, v in given.items() if n in ("duration", "times")})
    again = CocoSim().run(name, **{**arguments, **rest})
    assert done + again.result.value["times"] == times
    assert skill.remaining({"times": times}, **{n: v for n, v in given.items() if n in ("duration", "times")}) is None
