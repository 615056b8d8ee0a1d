# SPDX-License-Identifier: Apache-2.0
"""Define speaking and barking."""

from threading import Event
from typing import Annotated

from pydantic import Field

from ghostshell_ros.drivers.speech import phrases, speaking_s
from ghostshell_ros.drivers.tunes import TUNES
from ghostshell_ros.robots.kalos.body import Control, KalosBody, Pause
from skill_kernel import ContentStream, SkillReturn, robot_skill
from skill_kernel.skills.drivers import DriverResult, outcome

STOP_S = 0.3


@robot_skill(subsystem="sound", nominal_s=lambda text="": speaking_s(text), stop_s=STOP_S, speaks_text=True)
def speak(text: ContentStream, *, body: KalosBody, stop_evt: Event, pause_evt: Pause) -> SkillReturn:
    """Say a text aloud while the robot goes on with what it does. Plain text of the answer is spoken without this tag."""
    said: list[str] = []
    control = Control(stop_evt, pause_evt, body.now)
    for phrase in phrases(text):
        left = phrase
        while left and control.go_on():
            result = body.speak(text=left, stop=control)
            come = len(left) if result.ok else _word_begin(left, int(result.values.get("spoken_chars", 0.0)))
            said.append(left[:come].strip())
            left = left[come:]
            if not result.ok and not result.cancelled:
                return outcome(result, _so_far(said))
        if control.stopped:
            return SkillReturn.interruption(_so_far(said))
    return SkillReturn.interruption(_so_far(said)) if control.stopped else SkillReturn.success(_so_far(said))


@robot_skill(
    subsystem="sound",
    nominal_s=lambda times: times * TUNES["bark"].duration_s,
    stop_s=STOP_S,
    remaining=lambda progress, times: {"times": times - int(progress["times"])} if progress["times"] < times else None,
)
def bark(
    times: Annotated[int, Field(ge=1, le=10, description="times")] = 2, *, body: KalosBody, stop_evt: Event
) -> SkillReturn:
    """Bark. times: how often."""
    result, done = DriverResult(True), 0
    while result.ok and done < times:
        result = body.play_sound(name="bark", stop=stop_evt)
        done += result.ok
    return outcome(result, f"barked {done} of {times} times", progress={"times": done})


def _word_begin(text: str, at: int) -> int:
    """Return where to take up speaking again: at the word that was cut."""
    return text.rfind(" ", 0, at) + 1 if 0 < at < len(text) else at


def _so_far(said: list[str]) -> str:
    return f"said: {' '.join(filter(None, said))}" if any(said) else "said nothing"
