# SPDX-License-Identifier: Apache-2.0
"""Kalos's body as its skills see it: moves that end soon after their stop event, rest while paused, and go on with
what remains."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, Literal, Protocol

from ghostshell_ros.runtime.data import data_folder
from skill_kernel.codes import CallCode
from skill_kernel.skills.drivers import Action, Detection, DriverResult, Memory, Pose2D, Senses, StopEvent, map_pose
from skill_kernel.skills.skill import SkillReturn

PAUSE_LOOK_S = 0.01
"""A reflex waits for the pause of what it displaces."""


class Pause(Protocol):
    """The part of the kernel's pause event a skill needs: `rest` says that the body is at rest, and waits."""

    def is_set(self) -> bool: ...
    def rest(self) -> None: ...


class Control:
    """Set while the call is paused or to end. `rested_s` is how long the call was paused so far."""

    def __init__(self, stop: Event, pause: Pause, now: Callable[[], float] = time.monotonic) -> None:
        self._stop, self._pause, self.now = stop, pause, now
        self.rested_s = 0.0

    @property
    def stopped(self) -> bool:
        """Return whether the call is to end."""
        return self._stop.is_set()

    def is_set(self) -> bool:
        return self._stop.is_set() or self._pause.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until either is set, at most `timeout` seconds; without one, a minute."""
        end = self.now() + (60.0 if timeout is None else timeout)
        while not self.is_set() and (left := end - self.now()) > 0:
            self._stop.wait(min(left, PAUSE_LOOK_S))
        return self.is_set()

    def go_on(self) -> bool:
        """Rest while the call is paused, the body standing still; false when the call is to end."""
        while self._pause.is_set() and not self._stop.is_set():
            since = self.now()
            self._pause.rest()
            self.rested_s += self.now() - since
        return not self._stop.is_set()


Axis = Literal["distance", "lateral", "turn"]

LEAST = {"distance": 0.02, "lateral": 0.02, "turn": math.radians(1.0)}
"""What is left of a move and not worth another step, in m and rad."""
BLOCKED = 440
"""Drive.action: something is in the way."""
TAKEN_OVER = (443, 455, 461)
"""BASE_BUSY, NAVIGATION_BUSY, POSTURE_BUSY of their actions: somebody else, an operator perhaps, has the base."""
TAKEN_OVER_S = 0.5
LOOK_S = 0.1
FRESH_S = 0.5
"""After a motion an image of before it may still be on its way for so long."""
SURE = 0.35
"""Confidence from which on a thing that was not looked at before counts as seen; one that is being gone up to may be
less clear, as far as the detector tells of it."""


class BlindError(RuntimeError):
    """Nobody looks: the message says what to start."""


class KalosBody:
    """What Kalos can do with its drivers. Skills of different subsystems call it from different threads; only skills
    that hold movement call what moves."""

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
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        pictures: Path | None = None,
    ) -> None:
        self.drive, self.navigate_to, self.set_posture = drive, navigate_to, set_posture
        self.speak, self.play_sound, self.senses, self.memory = speak, play_sound, senses, memory
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
        """Move along one axis, in m or rad. Returns how it ended and how far it came in all; a pause on the way is
        waited for, and only what is left then follows."""
        done = 0.0
        while control.go_on():
            result, step = self._step(axis, amount - done, control)
            done += step
            if result.ok or (result.cancelled and abs(amount - done) <= LEAST[axis]):
                return replace(result, ok=True, cancelled=False), done
            if not result.cancelled:
                return result, done
        return DriverResult(False, cancelled=True), done

    def step(self, control: Control, distance: float, turn: float) -> tuple[DriverResult, float]:
        """One step on the way to something seen: it turns as it goes. Ends early, as cancelled, also at a pause."""
        result = self._upright(control)
        if not result.ok:
            return result, 0.0
        before = self.senses.odometry()
        result = _yielded(self.drive(stop=control, distance=distance, turn=turn), control)
        return result, _moved("distance", result, before, self.senses.odometry())

    def navigate(self, control: Control, *, waypoint: str = "", pose: Pose2D | None = None) -> DriverResult:
        """Go to a place of the map, from where it stands then also after a pause."""
        goal: dict[str, Any] = {"waypoint": waypoint} if pose is None else {"pose": map_pose(pose)}
        while control.go_on():
            result = self._upright(control)
            if result.ok:
                result = _yielded(self.navigate_to(stop=control, **goal), control)
            if not result.cancelled:
                return result
        return DriverResult(False, cancelled=True)

    def look(
        self, label: str, control: Control, seconds: float, *, sure: float = SURE, least: float = SURE
    ) -> Detection | None:
        """The first thing of this kind that is seen with confidence `sure`; after some seconds without, the surest with at
        least `least`, or None; None as well at a stop or pause.

        Raises BlindError when the detector said nothing at all in that time."""
        end, blind = self.now() + seconds, True
        doubtful: Detection | None = None
        while True:
            seen = self.senses.detections()
            if seen is not None:
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
            raise BlindError("no object detections arrive; is the detector running and the camera sending?")
        return doubtful

    def _step(self, axis: Axis, amount: float, control: Control) -> tuple[DriverResult, float]:
        result = self._upright(control)
        if not result.ok:
            return result, 0.0
        before = self.senses.odometry()
        if axis == "distance":
            result = self.drive(stop=control, distance=amount)
        elif axis == "lateral":
            result = self.drive(stop=control, lateral=amount)
        else:
            result = self.drive(stop=control, turn=amount)
        return _yielded(result, control), _moved(axis, result, before, self.senses.odometry())

    def _upright(self, stop: StopEvent) -> DriverResult:
        return DriverResult(True) if self._standing else self.posture("stand", stop)


def _yielded(result: DriverResult, control: StopEvent) -> DriverResult:
    """A driver whose base was taken by somebody of higher rank ends before the kernel's pause arrives; that is awaited."""
    if not result.ok and result.error_code in TAKEN_OVER and control.wait(TAKEN_OVER_S):
        return replace(result, cancelled=True, error_code=0, error_msg="")
    return result


def outcome(result: DriverResult, what: str) -> SkillReturn:
    """A driver's result as a skill's: `what` says what was done, or how far it came."""
    if result.ok:
        return SkillReturn.success(what)
    if result.cancelled:
        return SkillReturn.interruption(what)
    code = result.error_code or int(CallCode.SKILL_FAILED)
    return SkillReturn.failure(f"{what}: {result.error_msg or 'the driver gives no reason'}", code)


def _moved(axis: Axis, result: DriverResult, before: Pose2D | None, after: Pose2D | None) -> float:
    """How far it came: as the driver says, else by odometry, because a stopped driver may not have answered in time."""
    if axis in result.values:
        return result.values[axis]
    if before is None or after is None:
        return 0.0
    dx, dy = after.x - before.x, after.y - before.y
    c, s = math.cos(before.yaw), math.sin(before.yaw)
    if axis == "turn":
        return math.remainder(after.yaw - before.yaw, math.tau)
    return dx * c + dy * s if axis == "distance" else dy * c - dx * s
