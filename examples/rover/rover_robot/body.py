# SPDX-License-Identifier: Apache-2.0
"""The rover as its skills see it: ways in metres and degrees, on top of the drivers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skill_kernel import SkillReturn
from skill_kernel.codes import CallCode
from skill_kernel.skills.drivers import Action, DriverResult, Pose2D, StopEvent, map_pose

TAKEN_OVER = (443, 455, CallCode.SUBSYSTEM_HELD)
"""BASE_BUSY of Drive.action, NAVIGATION_BUSY of NavigateTo.action, and the same of drivers without a code of their own."""
TAKEN_OVER_S = 0.5


class RoverBody:
    """Built once by the skill kernel, with the actions that it names; skills get it as `body`."""

    def __init__(self, *, drive: Action, navigate_to: Action, dock: Action, speak: Action, ask_human: Action) -> None:
        self._drive, self._navigate_to, self._dock = drive, navigate_to, dock
        self.speak, self.ask_human = speak, ask_human

    def drive(self, metres: float, stop: StopEvent) -> DriverResult:
        """Straight on, backward if negative. Blocks; ends within 0.2 s of `stop`."""
        return _yielded(self._drive(distance=metres, stop=stop), stop)

    def turn(self, degrees: float, stop: StopEvent) -> DriverResult:
        """On the spot, to the left if positive."""
        return _yielded(self._drive(turn=math.radians(degrees), stop=stop), stop)

    def go_to(self, waypoint: str, stop: StopEvent) -> DriverResult:
        """To a named place, around what stands in the way."""
        return _yielded(self._navigate_to(waypoint=waypoint, stop=stop), stop)

    def back_into(self, dock: Pose2D, stop: StopEvent) -> DriverResult:
        """Backward into a pose of the map, within half a minute."""
        return _yielded(self._dock(pose=map_pose(dock), stop=stop, deadline_s=30.0), stop)


def _yielded(result: DriverResult, stop: StopEvent) -> DriverResult:
    """Tell an operator's take-over from a failure: the driver hears of it before the kernel pauses this call."""
    if not result.ok and result.error_code in TAKEN_OVER and stop.wait(TAKEN_OVER_S):
        return replace(result, cancelled=True)
    return result


def outcome(result: DriverResult, done: str, progress: Mapping[str, Any] | None = None) -> SkillReturn:
    """Turn a driver's result into a skill's; `progress` tells how far a stopped one came."""
    if result.ok:
        return SkillReturn.success(done)
    if result.cancelled:
        return SkillReturn.interruption(f"stopped on the way: {done}", progress=progress)
    return SkillReturn.failure(f"{done}: {result.error_msg}", result.error_code)
