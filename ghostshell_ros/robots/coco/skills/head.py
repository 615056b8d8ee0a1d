# SPDX-License-Identifier: Apache-2.0
"""Define skills of the head, of the face on its display, and of the ears, which have a channel a side: called one after the
other they move together."""

import math
from threading import Event
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ghostshell_ros.drivers.faces import EMOTIONS, FACES
from ghostshell_ros.robots.coco import motions
from ghostshell_ros.robots.coco.body import HEAD, CocoBody, Percent, Seconds, wait_for_reset
from skill_kernel import Limited, SkillReturn, robot_skill
from skill_kernel.skills.drivers import outcome

FACE_STOP_S = 0.3
MIN_SHOW_S = 0.2

if TYPE_CHECKING:
    Face = str
    Emotion = str
else:
    Face = Literal[FACES]
    Emotion = Literal[tuple(EMOTIONS)]


def _nominal(duration: float) -> float:
    return max(duration, MIN_SHOW_S)


@robot_skill(subsystem="face", nominal_s=_nominal, stop_s=FACE_STOP_S, idempotent=True)
def display_face(
    face: Face = "smile", duration: Seconds = 3.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Show an expression on the face, then the one before. duration: seconds. Around text or other calls it stays
    until the end tag."""
    return _show(body, face, duration, stop_evt, until_reset)


@robot_skill(subsystem="face", nominal_s=_nominal, stop_s=FACE_STOP_S, idempotent=True)
def emotion(
    emo: Emotion = "happy", duration: Seconds = 3.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Let the face show an emotion, then what it showed before. duration: seconds."""
    return _show(body, EMOTIONS[emo], duration, stop_evt, until_reset)


@robot_skill(subsystem="face", nominal_s=_nominal, stop_s=FACE_STOP_S, idempotent=True)
def wink_left(duration: Seconds = 0.6, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Wink with CoCo's left eye. duration: seconds the eye stays closed."""
    return _show(body, "wink_left", duration, stop_evt, until_reset)


@robot_skill(subsystem="face", nominal_s=_nominal, stop_s=FACE_STOP_S, idempotent=True)
def wink_right(duration: Seconds = 0.6, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Wink with CoCo's right eye. duration: seconds the eye stays closed."""
    return _show(body, "wink_right", duration, stop_evt, until_reset)


def _show(body: CocoBody, face: str, duration: float, stop_evt: Event, until_reset: bool) -> SkillReturn:
    result = body.show_face(face=face, stop=stop_evt, duration_s=0.0 if until_reset else _nominal(duration))
    return outcome(result, f"showed '{face}'")


STOP_S = 0.8
MOVE_S = 0.6
MIN_ACT_S = 0.6
RETURN_S = 0.4

Act = Literal["nod", "shake", "look_left", "look_right", "look_up", "look_down", "look_around", "circle", "bow"]
Yaw = Annotated[float, Field(ge=-180, le=180, description="deg"), Limited("head_yaw_deg")]
Pitch = Annotated[float, Field(ge=-90, le=90, description="deg"), Limited("head_pitch_deg")]


@robot_skill(subsystem="head", nominal_s=lambda duration: max(duration, MIN_ACT_S), stop_s=STOP_S, idempotent=True)
def head_act(
    action: Act = "nod", duration: Seconds = 1.5, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Move the head expressively and bring it back to where it was: nod for yes, shake for no, look somewhere,
    look_around, circle, bow. duration: seconds in all, at least 0.6; longer means more nods or a longer look."""
    home = body.pose(HEAD)
    frames = _frames(action, max(duration, MIN_ACT_S), home)
    return _repeat(body, HEAD, frames, home, RETURN_S, stop_evt, until_reset, action)


@robot_skill(subsystem="head", nominal_s=MOVE_S, stop_s=STOP_S, idempotent=True)
def head_pose(yaw: Yaw = 0.0, pitch: Pitch = 0.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Point the head and keep it there. yaw: degrees, positive to the left (at most 65). pitch: degrees, positive up
    (-30 to 38). Around other calls it keeps the pose until the end tag and then comes back."""
    home = body.pose(HEAD)
    goal = dict(zip(HEAD, (math.radians(yaw), math.radians(pitch)), strict=True))
    result = body.move(goal, MOVE_S, stop_evt)
    if result.ok and until_reset:
        wait_for_reset(stop_evt)
        body.relax(home, RETURN_S)
    return outcome(result, f"head at yaw {yaw:g}, pitch {pitch:g}" if result.ok else "head did not get there")


def _frames(action: str, duration: float, home: motions.Pose) -> list[tuple[float, dict[str, float]]]:
    """Return key poses relative to where the head was; they take `duration` seconds and end there."""
    act = motions.MANNERS["head"][action]
    poses = [{joint: home[joint] + change for joint, change in zip(HEAD, offset, strict=True)} for offset in act["poses"]]
    if "beat_s" in act:
        beats = max(1, round((duration - 0.25) / act["beat_s"]))
        part_s = duration / (beats * len(poses) + 1)
        return [*((part_s, pose) for pose in beats * poses), (part_s, dict(home))]
    move_s = min(0.5, duration / (len(poses) + 1.0) * 0.6)
    linger_s = (duration - move_s * (len(poses) + 1)) / len(poses)
    return [*(frame for pose in poses for frame in ((move_s, pose), (linger_s, pose))), (move_s, dict(home))]


EARS_STOP_S = 0.6
EARS_MOVE_S = 0.3
BOTH = ("ear_left", "ear_right")

EarDegrees = Annotated[float, Field(ge=-180, le=180, description="deg"), Limited("ear_deg")]
EarState = Literal["normal", "inquisitive", "opponent", "happy", "sad", "alert", "sleepy", "scared"]

_STATES: dict[str, tuple[float, float]] = motions.MANNERS["ears"]


def _swing_s(start_angle: float, end_angle: float, speed: float) -> float:
    """Return the seconds of one swing from one angle to the other; its peak stays below the servos' speed."""
    return max(0.12, abs(math.radians(end_angle - start_angle)) * 1.5 / motions.blend(1.2, 5.5, speed))


def _swings(start_angle: float, end_angle: float, speed: float, duration: float) -> int:
    return max(1, round((duration - 2.0 * EARS_MOVE_S) / _swing_s(start_angle, end_angle, speed)))


@robot_skill(
    subsystem="ear_{side}",
    nominal_s=lambda start_angle, end_angle, speed, duration: (
        2.0 * EARS_MOVE_S + _swings(start_angle, end_angle, speed, duration) * _swing_s(start_angle, end_angle, speed)
    ),
    stop_s=EARS_STOP_S,
    idempotent=True,
)
def ear_swing(
    side: Literal["left", "right"],
    start_angle: EarDegrees = -40.0,
    end_angle: EarDegrees = 40.0,
    speed: Percent = 60.0,
    duration: Seconds = 2.0,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Swing one ear to and fro. Angles in degrees: 0 upright, 90 pointing forward, -90 laid back. speed in percent.
    duration: seconds; whole swings only. Call it for both sides one after the other and they move together."""
    joint = f"ear_{side}"
    first, last = {joint: math.radians(start_angle)}, {joint: math.radians(end_angle)}
    swing_s = _swing_s(start_angle, end_angle, speed)
    count = _swings(start_angle, end_angle, speed, duration)
    frames = [(EARS_MOVE_S, first), *((swing_s, first if k % 2 else last) for k in range(count)), (EARS_MOVE_S, {joint: 0.0})]
    return _repeat(body, (joint,), frames, {joint: 0.0}, EARS_MOVE_S, stop_evt, until_reset, f"{side} ear swung {count} times")


@robot_skill(subsystem=BOTH, nominal_s=lambda duration: max(duration, 2.0 * EARS_MOVE_S), stop_s=EARS_STOP_S, idempotent=True)
def ear_state(
    state: EarState = "normal", duration: Seconds = 2.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Let both ears show a state of mind for a while, then stand upright again. duration: seconds in all."""
    goal = dict(zip(BOTH, _STATES[state], strict=True))
    result = body.move(goal, EARS_MOVE_S, stop_evt)
    if result.ok and until_reset:
        wait_for_reset(stop_evt)
        body.relax(dict.fromkeys(BOTH, 0.0), EARS_MOVE_S)
        return SkillReturn.success(f"ears {state} until the reset")
    if result.ok:
        result = body.stay(BOTH, duration - 2.0 * EARS_MOVE_S, stop_evt)
    if result.ok:
        result = body.move(dict.fromkeys(BOTH, 0.0), EARS_MOVE_S, stop_evt)
    return outcome(result, f"ears {state}")


_SHAKE_S = 0.2


def _shakes(duration: float) -> int:
    return max(1, round(duration / _SHAKE_S) - 1)


@robot_skill(subsystem=BOTH, nominal_s=lambda duration: (_shakes(duration) + 1) * _SHAKE_S, stop_s=EARS_STOP_S, idempotent=True)
def shake_ears(duration: Seconds = 1.5, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Shake both ears quickly, one forward while the other goes back. duration: seconds."""
    count = _shakes(duration)
    frames = [(_SHAKE_S, {"ear_left": s, "ear_right": -s}) for s in (0.32 if k % 2 else -0.32 for k in range(count))]
    frames.append((_SHAKE_S, dict.fromkeys(BOTH, 0.0)))
    return _repeat(body, BOTH, frames, dict.fromkeys(BOTH, 0.0), EARS_MOVE_S, stop_evt, until_reset, "shook the ears")


def _repeat(
    body: CocoBody,
    joints: tuple[str, ...],
    frames: list[tuple[float, dict[str, float]]],
    home: motions.Pose,
    home_s: float,
    stop_evt: Event,
    until_reset: bool,
    done: str,
) -> SkillReturn:
    """Play key poses once, or again and again until the reset; then the joints go home."""
    rounds = 0
    while not rounds or until_reset:
        result = body.play(motions.move(body.pose(joints), frames, joints), stop_evt)
        if not result.ok:
            break
        rounds += 1
    if until_reset:
        body.relax(home, home_s)
        return outcome(result, f"{done} until the reset, {rounds} times")
    return outcome(result, done if result.ok else f"stopped before the end of: {done}")
