# SPDX-License-Identifier: Apache-2.0
"""Define speaking and barking."""

from threading import Event
from typing import Annotated

from pydantic import Field

from ghostshell_ros.drivers.speech import say, speaking_s
from ghostshell_ros.drivers.tunes import TUNES
from ghostshell_ros.robots.control import Control
from ghostshell_ros.robots.kalos.body import KalosBody
from skill_kernel import ContentStream, PauseEvent, SkillReturn, robot_skill
from skill_kernel.skills.drivers import DriverResult, outcome

STOP_S = 0.3


@robot_skill(subsystem="sound", nominal_s=lambda text="": speaking_s(text), stop_s=STOP_S, speaks_text=True)
def speak(text: ContentStream, *, body: KalosBody, stop_evt: Event, pause_evt: PauseEvent) -> SkillReturn:
    """Say a text aloud while the robot goes on with what it does. Plain text of the answer is spoken without this tag."""
    control = Control(stop_evt, pause_evt, body.now)
    return say(text, lambda phrase: body.speak(text=phrase, stop=control), stop_evt, control.go_on)


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
