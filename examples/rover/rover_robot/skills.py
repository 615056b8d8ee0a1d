# SPDX-License-Identifier: Apache-2.0
"""Define the skills of the rover. A language model is told their signatures and docstrings."""

from __future__ import annotations

import math
from pathlib import Path
from threading import Event
from typing import Annotated, Literal

from pydantic import Field

from ghostshell_ros.robots.asking import ask as ask
from rover_robot.body import RoverBody, outcome
from skill_kernel import Content, Limited, SkillReturn, robot_skill
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import Pose2D

STOP_S = 0.5
"""A driver call returns within 0.2 s of its stop event; the wheels then need their speed over their deceleration."""
CONFIG = RobotConfig.load(Path(__file__).parents[1] / "rover.yaml")
CRUISE_MPS, CRUISE_RADPS = 0.4, 1.0
"""As in rover.yaml, for the expected durations."""

Metres = Annotated[float, Field(ge=0, le=50, description="m"), Limited("way_m")]
Degrees = Annotated[float, Field(ge=-720, le=720, description="deg"), Limited("turn_deg")]
Place = Literal[tuple(CONFIG.waypoints)]


@robot_skill(
    subsystem="wheels",
    nominal_s=lambda distance_m: 1.0 + distance_m / CRUISE_MPS,
    stop_s=STOP_S,
    remaining=lambda progress, distance_m: _left("distance_m", distance_m, progress["m"], 0.02),
)
def move_forward(distance_m: Metres = 1.0, *, body: RoverBody, stop_evt: Event) -> SkillReturn:
    """Drive straight ahead. distance_m: metres. Stops before what is in the way."""
    result = body.drive(distance_m, stop_evt)
    done = result.values.get("distance", 0.0)
    return outcome(result, f"drove {done:.2f} m of {distance_m:g} m", {"m": done})


@robot_skill(
    subsystem="wheels",
    nominal_s=lambda distance_m: 1.0 + distance_m / CRUISE_MPS,
    stop_s=STOP_S,
    remaining=lambda progress, distance_m: _left("distance_m", distance_m, progress["m"], 0.02),
)
def move_back(distance_m: Metres = 0.5, *, body: RoverBody, stop_evt: Event) -> SkillReturn:
    """Drive backward without turning. distance_m: metres."""
    result = body.drive(-distance_m, stop_evt)
    done = -result.values.get("distance", 0.0)
    return outcome(result, f"drove {done:.2f} m of {distance_m:g} m backward", {"m": done})


@robot_skill(
    subsystem="wheels",
    nominal_s=lambda angle_deg: 1.0 + math.radians(abs(angle_deg)) / CRUISE_RADPS,
    stop_s=STOP_S,
    remaining=lambda progress, angle_deg: _left("angle_deg", angle_deg, progress["deg"], 1.0),
)
def rotate(angle_deg: Degrees = 90.0, *, body: RoverBody, stop_evt: Event) -> SkillReturn:
    """Turn on the spot. angle_deg: degrees, positive to the left (counter-clockwise), negative to the right."""
    result = body.turn(angle_deg, stop_evt)
    done = math.degrees(result.values.get("turn", 0.0))
    return outcome(result, f"turned {done:.0f} of {angle_deg:g} degrees", {"deg": done})


@robot_skill(subsystem="wheels", nominal_s=20.0, stop_s=STOP_S, idempotent=True)
def goto_waypoint(waypoint: Place, *, body: RoverBody, stop_evt: Event) -> SkillReturn:
    """Go (navigate, return) to a named place around what stands in the way."""
    result = body.go_to(waypoint, stop_evt)
    left = result.values.get("distance_left", 0.0)
    return outcome(result, f"at {waypoint}" if result.ok else f"did not reach {waypoint}, {left:.1f} m were left")


@robot_skill(subsystem="wheels", nominal_s=15.0, stop_s=STOP_S, idempotent=True)
def park(*, body: RoverBody, stop_evt: Event) -> SkillReturn:
    """Park: back up into the dock, from less than three metres away."""
    dock = CONFIG.waypoints["dock"]
    result = body.back_into(Pose2D(dock.x, dock.y, dock.yaw), stop_evt)
    return outcome(result, "parked in the dock" if result.ok else "did not come into the dock")


@robot_skill(subsystem="main", nominal_s=lambda text="": 0.5 + 0.07 * len(text), stop_s=STOP_S, speaks_text=True)
def speak(text: Content, *, body: RoverBody, stop_evt: Event) -> SkillReturn:
    """Say a text aloud. Plain text of the answer is spoken without this tag."""
    return outcome(body.speak(text=text, stop=stop_evt), f"say: {text}")


def _left(name: str, asked: float, done: float, least: float) -> dict[str, float] | None:
    """Return what is left of a way or a turn that was stopped, or None when it is not worth another start."""
    return {name: asked - done} if abs(asked - done) > least else None
