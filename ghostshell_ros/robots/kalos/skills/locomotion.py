# SPDX-License-Identifier: Apache-2.0
"""Define standing, walking, turning, nodding, and going to points and named places of the map; and what all skills share."""

import math
from threading import Event
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from ghostshell_ros.robots.control import Control
from ghostshell_ros.robots.kalos.body import KalosBody
from skill_kernel import Limited, PauseEvent, SkillReturn, robot_skill
from skill_kernel.config.observation import Track
from skill_kernel.kernel.kernel import SkillCaller
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import Pose2D, outcome

CONFIG = RobotConfig.load("kalos")
assert CONFIG.base is not None
BASE = CONFIG.base
PLACES = tuple(CONFIG.waypoints)
HALLWAY = tuple(name for name in PLACES if name.startswith("hallway"))
ROOMS = tuple(name for name in PLACES if name not in HALLWAY)

SIGHTS = CONFIG.observation["object_detections"].process
assert isinstance(SIGHTS, Track)

if TYPE_CHECKING:
    Place: TypeAlias = str
    Thing: TypeAlias = str
else:
    Place = Literal[PLACES]
    Thing = Literal[SIGHTS.labels]


STOP_S = 0.5
"""Time to stop: a driver call returns within 0.2 s, and the base then has to brake."""

Metres = Annotated[float, Field(ge=0, le=50, description="m"), Limited("walk_m")]
Sideways = Annotated[float, Field(ge=0, le=10, description="m"), Limited("strafe_m")]
Degrees = Annotated[float, Field(ge=-1080, le=1080, description="deg"), Limited("turn_deg")]
MapMetres = Annotated[float, Field(ge=-1000, le=1000, description="m")]
Near = Annotated[float, Field(ge=0.3, le=5, description="m"), Limited("keep_off_m")]
Seconds = Annotated[float, Field(ge=1, le=600, description="s"), Limited("duration_s")]


def way_s(metres: float, *, slower: float = 1.0) -> float:
    """Return the seconds that a way takes at the base's usual speed."""
    return 1.0 + abs(metres) / (BASE.cruise_linear * slower)


def turn_s(radians: float) -> float:
    """Return the seconds that a turn takes at the base's usual speed."""
    return 1.0 + abs(radians) / BASE.cruise_turn


NAV_S = 25.0
"""Time of a way through the building; only the map knows its length."""


@robot_skill(subsystem="movement", nominal_s=way_s, stop_s=STOP_S)
def move_forward(distance_m: Metres = 1.0, *, body: KalosBody, stop_evt: Event, pause_evt: PauseEvent) -> SkillReturn:
    """Walk straight ahead. distance_m: metres. Stands up first if need be, and stops before what is in the way."""
    return _walk(body, distance_m, Control(stop_evt, pause_evt, body.now))


@robot_skill(subsystem="movement", nominal_s=lambda distance_m: way_s(distance_m, slower=0.6), stop_s=STOP_S)
def move_back(distance_m: Metres = 0.5, *, body: KalosBody, stop_evt: Event, pause_evt: PauseEvent) -> SkillReturn:
    """Walk backward without turning. distance_m: metres."""
    return _walk(body, -distance_m, Control(stop_evt, pause_evt, body.now))


@robot_skill(subsystem="movement", nominal_s=lambda distance_m: way_s(distance_m, slower=0.5), stop_s=STOP_S)
def strafe(
    direction: Literal["left", "right"], distance_m: Sideways = 0.5, *, body: KalosBody, stop_evt: Event, pause_evt: PauseEvent
) -> SkillReturn:
    """Step to the side without turning. distance_m: metres."""
    sign = 1.0 if direction == "left" else -1.0
    result, done = body.move("lateral", sign * distance_m, Control(stop_evt, pause_evt, body.now))
    return outcome(result, f"stepped {abs(done):.2f} m of {distance_m:g} m to the {direction}")


@robot_skill(subsystem="movement", nominal_s=lambda angle_deg: turn_s(math.radians(angle_deg)), stop_s=STOP_S)
def rotate(angle_deg: Degrees = 90.0, *, body: KalosBody, stop_evt: Event, pause_evt: PauseEvent) -> SkillReturn:
    """Turn on the spot. angle_deg: degrees, positive to the left (counter-clockwise), negative to the right."""
    result, done = body.move("turn", math.radians(angle_deg), Control(stop_evt, pause_evt, body.now))
    return outcome(result, f"turned {math.degrees(done):.0f} of {angle_deg:g} degrees")


@robot_skill(subsystem="movement", nominal_s=NAV_S, stop_s=STOP_S)
def nav(
    x_m: MapMetres, y_m: MapMetres, yaw_deg: Degrees = 0.0, *, body: KalosBody, stop_evt: Event, pause_evt: PauseEvent
) -> SkillReturn:
    """Navigate to a point of the map around what stands in the way. x_m, y_m: metres, yaw_deg: heading at the end in
    degrees, 0 along x."""
    goal = Pose2D(x_m, y_m, math.radians(yaw_deg))
    result = body.navigate(Control(stop_evt, pause_evt, body.now), pose=goal)
    left = result.values.get("distance_left", math.nan)
    return outcome(result, f"at ({x_m:g}, {y_m:g})" if result.ok else f"{left:.1f} m short of ({x_m:g}, {y_m:g})")


def _walk(body: KalosBody, distance: float, control: Control) -> SkillReturn:
    result, done = body.move("distance", distance, control)
    return outcome(result, f"walked {done:.2f} m of {distance:g} m")


LEG_S = 12.0
AREAS = {"hallway": HALLWAY, "rooms": ROOMS, "building": PLACES}
Area = Literal["hallway", "rooms", "building"]


@robot_skill(subsystem="movement", nominal_s=NAV_S, stop_s=STOP_S)
def goto_waypoint(waypoint: Place, *, body: KalosBody, stop_evt: Event, pause_evt: PauseEvent) -> SkillReturn:
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
    pause_evt: PauseEvent,
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


POSTURE_S = 2.0
POSTURE_STOP_S = 0.4
NOD_RAD = 0.22
BEAT_S = 0.35
LEVEL_S = 0.2

Times = Annotated[int, Field(ge=1, le=10, description="times")]


@robot_skill(subsystem="movement", nominal_s=POSTURE_S, stop_s=POSTURE_STOP_S, idempotent=True)
def stand(*, body: KalosBody, stop_evt: Event) -> SkillReturn:
    """Stand up."""
    return outcome(body.posture("stand", stop_evt), "standing")


@robot_skill(subsystem="movement", nominal_s=POSTURE_S, stop_s=POSTURE_STOP_S, idempotent=True)
def sit(*, body: KalosBody, stop_evt: Event) -> SkillReturn:
    """Sit down and stay seated."""
    return outcome(body.posture("sit", stop_evt), "sitting")


@robot_skill(
    subsystem="movement",
    nominal_s=lambda times: POSTURE_S + times * 2.0 * BEAT_S,
    stop_s=POSTURE_STOP_S + LEVEL_S,
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
