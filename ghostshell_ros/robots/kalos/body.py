# SPDX-License-Identifier: Apache-2.0
"""Give Kalos's skills its body: moves that end soon after their stop event, rest while paused, and then go on."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ghostshell_ros.navigation.motion import seen_from
from ghostshell_ros.robots.control import Control
from ghostshell_ros.runtime.data import data_folder
from skill_kernel.skills.drivers import Action, Detection, DriverResult, Memory, Pose2D, Senses, StopEvent, map_pose
from skill_kernel.skills.skill import SkillReturn

Axis = Literal["distance", "lateral", "turn"]

MIN_REST = {"distance": 0.02, "lateral": 0.02, "turn": math.radians(1.0)}
"""Rest of a move that is not worth another step, in m and rad."""
COAST_M, COAST_RAD = 0.15, 0.3
"""From its stop to its standstill it comes no farther."""
BLOCKED = 440
"""Drive.action: something is in the way."""
TAKEN_OVER = (443, 455, 461)
"""BASE_BUSY, NAVIGATION_BUSY, POSTURE_BUSY of their actions: somebody else, an operator perhaps, has the base."""
TAKEN_OVER_S = 0.5
LOOK_S = 0.1
FRESH_S = 0.5
"""Time after a motion in which an image from before it may still arrive."""
SURE = 0.35
"""Confidence from which on a thing that was not looked at before counts as seen. One that the robot goes up to may be less
clear."""


class SkillEnd(Exception):
    """End a skill from within: `result` is what it returns."""

    def __init__(self, result: SkillReturn) -> None:
        super().__init__(result.message)
        self.result = result


class KalosBody:
    """Do what Kalos can do with its drivers.

    Skills of different subsystems call it from different threads; only skills that hold movement call what moves.
    """

    def __init__(
        self,
        *,
        drive: Action,
        navigate_to: Action,
        set_posture: Action,
        speak: Action,
        play_sound: Action,
        senses: Senses,
        memory: Memory,
        ask_human: Action,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        pictures: Path | None = None,
    ) -> None:
        self.drive, self.navigate_to, self.set_posture = drive, navigate_to, set_posture
        self.speak, self.play_sound, self.senses, self.memory = speak, play_sound, senses, memory
        self.ask_human = ask_human
        self.now, self.wall = now, wall
        self.pictures = pictures if pictures is not None else data_folder() / "kalos" / "pictures"
        self._standing = False

    def posture(self, posture: str, stop: StopEvent) -> DriverResult:
        """Stand or sit."""
        self._standing = False
        result = _yielded(self.set_posture(posture=posture, stop=stop), stop)
        self._standing = result.ok and posture == "stand"
        return result

    def pitch(self, pitch: float, seconds: float, stop: StopEvent) -> DriverResult:
        """Lean the trunk, in rad, nose down positive."""
        return _yielded(self.set_posture(pitch=pitch, duration=seconds, stop=stop), stop)

    def move(self, axis: Axis, amount: float, control: Control) -> tuple[DriverResult, float]:
        """Move along one axis, in m or rad. Returns how it ended and how far it came in all.

        After a pause on the way it goes on with the rest.
        """
        done = 0.0
        while control.go_on():
            result, step = self._drive(axis, control, {axis: amount - done})
            done += step
            if result.cancelled:
                stopped = self.senses.odometry()
                if control.go_on():
                    done += _coasted(axis, stopped, self.senses.odometry())
            if result.ok or (result.cancelled and math.copysign(1.0, amount) * (amount - done) <= MIN_REST[axis]):
                return replace(result, ok=True, cancelled=False), done
            if not result.cancelled:
                return result, done
        return DriverResult(False, cancelled=True), done

    def step(self, control: Control, distance: float, turn: float) -> tuple[DriverResult, float]:
        """Go one step towards something seen, turning on the way. Ends early, as cancelled, also at a pause."""
        return self._drive("distance", control, {"distance": distance, "turn": turn})

    def navigate(self, control: Control, *, waypoint: str = "", pose: Pose2D | None = None) -> DriverResult:
        """Go to a place of the map; after a pause, from where it then stands."""
        goal: dict[str, Any] = {"waypoint": waypoint} if pose is None else {"pose": map_pose(pose)}
        while control.go_on():
            result = self._upright(control)
            if result.ok:
                result = self._went(self.navigate_to(stop=control, **goal), control)
            if not result.cancelled:
                return result
        return DriverResult(False, cancelled=True)

    def look(
        self, label: str, control: Control, seconds: float, *, sure: float = SURE, least: float = SURE
    ) -> Detection | None:
        """Return the first thing of this kind that is seen with confidence `sure`.

        After some seconds without, return the surest with at least `least`, or None; None as well at a stop or pause. Raises
        SkillEnd when the detector does not know that kind, or said nothing at all in that time.
        """
        end, blind = self.now() + seconds, True
        doubtful: Detection | None = None
        while True:
            seen = self.senses.detections()
            if seen is not None:
                if (sights := self.senses.sights()) and label not in sights:
                    text = f"the detector knows no “{label}”, only {', '.join(sights)}; so nobody has looked for it"
                    raise SkillEnd(SkillReturn.failure(text))
                blind = False
                best = max((d for d in seen if d.label == label), key=lambda d: d.confidence, default=None)
                if best is not None and best.confidence >= sure:
                    return best
                if best is not None and best.confidence >= (doubtful.confidence if doubtful is not None else least):
                    doubtful = best
            if control.is_set():
                return None
            if self.now() >= end:
                break
            control.wait(LOOK_S)
        if blind:
            text = "no object detections arrive; is the detector running and the camera sending?"
            raise SkillEnd(SkillReturn.failure(text))
        return doubtful

    def _drive(self, axis: Axis, control: Control, way: dict[str, Any]) -> tuple[DriverResult, float]:
        """Drive, standing up first. Returns how it ended and how far it came along an axis."""
        result = self._upright(control)
        if not result.ok:
            return result, 0.0
        before = self.senses.odometry()
        result = self.drive(stop=control, **way)
        return self._went(result, control), _moved(axis, result, before, self.senses.odometry())

    def _went(self, result: DriverResult, control: Control) -> DriverResult:
        """Return how a way ended. After one that failed it may have fallen or lie: it is told to stand before the next."""
        self._standing = result.ok or result.cancelled
        return _yielded(result, control)

    def _upright(self, stop: StopEvent) -> DriverResult:
        return DriverResult(True) if self._standing else self.posture("stand", stop)


def _yielded(result: DriverResult, control: StopEvent) -> DriverResult:
    """Return a result as cancelled where somebody of higher rank took the base: its pause arrives after the driver's end."""
    if not result.ok and result.error_code in TAKEN_OVER and control.wait(TAKEN_OVER_S):
        return replace(result, cancelled=True, error_code=0, error_msg="")
    return result


def _coasted(axis: Axis, stopped: Pose2D | None, now: Pose2D | None) -> float:
    """Return how far it still came in a pause before it stood, 0 where it was moved in the pause."""
    if stopped is None or now is None:
        return 0.0
    moved = seen_from(stopped, now)
    if math.hypot(moved.x, moved.y) > COAST_M or abs(moved.yaw) > COAST_RAD:
        return 0.0
    return {"distance": moved.x, "lateral": moved.y, "turn": moved.yaw}[axis]


def _moved(axis: Axis, result: DriverResult, before: Pose2D | None, after: Pose2D | None) -> float:
    """Return how far it came: as the driver says, else by odometry, because a stopped driver may not have answered in time."""
    if axis in result.values:
        return result.values[axis]
    if before is None or after is None:
        return 0.0
    moved = seen_from(before, after)
    return {"distance": moved.x, "lateral": moved.y, "turn": moved.yaw}[axis]
