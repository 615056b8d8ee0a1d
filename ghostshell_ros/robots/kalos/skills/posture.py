# SPDX-License-Identifier: Apache-2.0
"""Define standing, sitting and nodding."""

from threading import Event
from typing import Annotated

from pydantic import Field

from ghostshell_ros.robots.kalos.body import KalosBody
from skill_kernel import SkillReturn, robot_skill
from skill_kernel.skills.drivers import outcome

POSTURE_S = 2.0
STOP_S = 0.4
NOD_RAD = 0.22
BEAT_S = 0.35
LEVEL_S = 0.2

Times = Annotated[int, Field(ge=1, le=10, description="times")]


@robot_skill(subsystem="movement", nominal_s=POSTURE_S, stop_s=STOP_S, idempotent=True)
def stand(*, body: KalosBody, stop_evt: Event) -> SkillReturn:
    """Stand up."""
    return outcome(body.posture("stand", stop_evt), "standing")


@robot_skill(subsystem="movement", nominal_s=POSTURE_S, stop_s=STOP_S, idempotent=True)
def sit(*, body: KalosBody, stop_evt: Event) -> SkillReturn:
    """Sit down and stay seated."""
    return outcome(body.posture("sit", stop_evt), "sitting")


@robot_skill(
    subsystem="movement",
    nominal_s=lambda times: POSTURE_S + times * 2.0 * BEAT_S,
    stop_s=STOP_S + LEVEL_S,
    remaining=lambda progress, times: {"times": times - int(progress["times"])} if progress["times"] < times else None,
)
def nod(times: Times = 2, *, body: KalosBody, stop_evt: Event) -> SkillReturn:
    """Nod with the front of the body, for yes. times: how often."""
    result = body.posture("stand", stop_evt)
    done = 0
    while result.ok and done < times:
        result = body.pitch(NOD_RAD, BEAT_S, stop_evt)
        if result.ok:
            result = body.pitch(0.0, BEAT_S, stop_evt)
        done += result.ok
    if result.cancelled:
        # Level again before anything else; its length bounds it.
        body.pitch(0.0, LEVEL_S, Event())
        return SkillReturn.interruption(f"nodded {done} of {times} times", progress={"times": done})
    return outcome(result, f"nodded {done} of {times} times")
