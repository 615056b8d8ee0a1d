# SPDX-License-Identifier: Apache-2.0
"""Define skills of the face: expressions on the display."""

from threading import Event
from typing import TYPE_CHECKING, Literal

from ghostshell_ros.drivers.faces import EMOTIONS, FACES
from ghostshell_ros.robots.coco.body import CocoBody
from ghostshell_ros.robots.coco.skills.ranges import Seconds
from skill_kernel import SkillReturn, robot_skill
from skill_kernel.skills.drivers import outcome

STOP_S = 0.3
MIN_SHOW_S = 0.2

if TYPE_CHECKING:
    Face = str
    Emotion = str
else:
    Face = Literal[FACES]
    Emotion = Literal[tuple(EMOTIONS)]


def _nominal(duration: float) -> float:
    return max(duration, MIN_SHOW_S)


@robot_skill(subsystem="face", nominal_s=_nominal, stop_s=STOP_S, idempotent=True)
def display_face(
    face: Face = "smile", duration: Seconds = 3.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Show an expression on the face, then the one before. duration: seconds. Around text or other calls it stays
    until the end tag."""
    return _show(body, face, duration, stop_evt, until_reset)


@robot_skill(subsystem="face", nominal_s=_nominal, stop_s=STOP_S, idempotent=True)
def emotion(
    emo: Emotion = "happy", duration: Seconds = 3.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Let the face show an emotion, then what it showed before. duration: seconds."""
    return _show(body, EMOTIONS[emo], duration, stop_evt, until_reset)


@robot_skill(subsystem="face", nominal_s=_nominal, stop_s=STOP_S, idempotent=True)
def wink_left(duration: Seconds = 0.6, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Wink with CoCo's left eye. duration: seconds the eye stays closed."""
    return _show(body, "wink_left", duration, stop_evt, until_reset)


@robot_skill(subsystem="face", nominal_s=_nominal, stop_s=STOP_S, idempotent=True)
def wink_right(duration: Seconds = 0.6, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Wink with CoCo's right eye. duration: seconds the eye stays closed."""
    return _show(body, "wink_right", duration, stop_evt, until_reset)


def _show(body: CocoBody, face: str, duration: float, stop_evt: Event, until_reset: bool) -> SkillReturn:
    result = body.show_face(face=face, stop=stop_evt, duration_s=0.0 if until_reset else _nominal(duration))
    return outcome(result, f"showed '{face}'")
