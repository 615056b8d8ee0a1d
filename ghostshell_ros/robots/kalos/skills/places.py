# SPDX-License-Identifier: Apache-2.0
"""Going to named places, one or several in turn."""

from __future__ import annotations

from threading import Event
from typing import Annotated, Literal

from pydantic import Field

from ghostshell_ros.robots.kalos.body import KalosBody, outcome
from ghostshell_ros.robots.kalos.control import Control, Pause
from ghostshell_ros.robots.kalos.places import HALLWAY, PLACES, ROOMS, Place
from ghostshell_ros.robots.kalos.skills.locomotion import NAV_S
from ghostshell_ros.robots.kalos.skills.ranges import STOP_S
from skill_kernel import SkillReturn, robot_skill
from skill_kernel.kernel.runner import SkillCaller

LEG_S = 12.0
AREAS = {"hallway": HALLWAY, "rooms": ROOMS, "building": PLACES}
Area = Literal["hallway", "rooms", "building"]


@robot_skill(subsystem="movement", nominal_s=NAV_S, stop_s=STOP_S)
def goto_waypoint(waypoint: Place, *, body: KalosBody, stop_evt: Event, pause_evt: Pause) -> SkillReturn:
    """Go (navigate, return) to a named place of the building around what stands in the way."""
    result = body.navigate(Control(stop_evt, pause_evt, body.now), waypoint=waypoint)
    left = result.values.get("distance_left", 0.0)
    return outcome(result, f"at {waypoint}" if result.ok else f"did not reach {waypoint}, {left:.1f} m were left")


@robot_skill(subsystem="movement", nominal_s=lambda area, rounds: LEG_S * rounds * max(1, len(AREAS[area])), stop_s=STOP_S)
def patrol(
    area: Area = "hallway",
    rounds: Annotated[int, Field(ge=1, le=20, description="times")] = 1,
    *,
    kernel: SkillCaller,
    stop_evt: Event,
    pause_evt: Pause,
) -> SkillReturn:
    """Patrol: walk from place to place of the hallway, the rooms or the whole building. A place it cannot reach is left
    out and named at the end. rounds: how often."""
    control = Control(stop_evt, pause_evt)
    visited, missed = 0, dict[str, str]()
    for place in AREAS[area] * rounds:
        result = kernel.call("goto_waypoint", waypoint=place)
        if control.stopped or result.interrupted:
            return SkillReturn.interruption(f"patrolled {visited} of {len(AREAS[area]) * rounds} places")
        if result.ok:
            visited += 1
        else:
            missed[place] = result.message
    what = f"patrolled {visited} of {len(AREAS[area]) * rounds} places"
    return SkillReturn.failure(f"{what}; {'; '.join(missed.values())}") if missed else SkillReturn.success(what)
