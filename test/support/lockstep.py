# SPDX-License-Identifier: Apache-2.0
"""Drivers on a simulated world in lock-step: a blocking call advances the world itself, so skills run in virtual
time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sim_probe import joint_targets

from ghostshell_ros.drivers.faces import FACES, draw
from ghostshell_ros.drivers.speech import SpeechTiming
from ghostshell_ros.drivers.tunes import TUNES
from ghostshell_ros.sim.world import SimWorld
from skill_kernel.codes import AskCode, MemoryCode
from skill_kernel.robot import JointConfig
from skill_kernel.skills.drivers import DriverResult, MemoryAnswer, Pose2D, StopEvent

PERIOD_S = 0.02


class SimStop:
    """A stop event that is set when the world's clock reaches `at_s`; waiting on it advances the world."""

    def __init__(self, world: SimWorld, at_s: float = float("inf"), *, patience_s: float = 600.0) -> None:
        """Make `wait` raise TimeoutError once the world is `patience_s` old, so that no test waits for ever."""
        self._world = world
        self._patience_s = patience_s
        self.at_s = at_s

    def is_set(self) -> bool:
        return self._world.time >= self.at_s - 1e-9

    def wait(self, timeout: float | None = None) -> bool:
        end = self._world.time + (self._patience_s if timeout is None else timeout)
        while not self.is_set() and self._world.time < end - 1e-9:
            self._world.advance(PERIOD_S)
        if self._world.time > self._patience_s:
            raise TimeoutError(f"the stop event was waited for until {self._world.time:.1f} s of simulated time")
        return self.is_set()


class SimDrivers:
    """CoCo's actions, senses and memory for one thread, without ROS and without sleeping.

    Set-points are clamped to the joints' limits and speeds as the safety gate does. `observe` is called after each
    `PERIOD_S` of motion; `spoken`, `sounds` and `faces` keep what was said, played and shown;
    with `show_faces` the world's display is drawn as well.
    """

    def __init__(
        self,
        world: SimWorld,
        joints: Mapping[str, JointConfig],
        *,
        with_odometry: bool = True,
        show_faces: bool = False,
        observe: Callable[[SimWorld], None] | None = None,
    ) -> None:
        self.world = world
        self.spoken: list[tuple[str, str, float, float]] = []
        self.sounds: list[str] = []
        self.faces: list[str] = []
        self.face = "neutral"
        self._joints = joints
        self._with_odometry = with_odometry
        self._show_faces = show_faces
        self._observe = observe

    def parts(self) -> dict[str, Any]:
        """Return what a body's constructor may name, by name."""
        actions = {name: getattr(self, name) for name in ("move_joints", "speak", "play_sound", "show_face")}
        return {**actions, "senses": self, "memory": self.query_memory, "ask_human": self.ask_human}

    def move_joints(self, *, trajectory: Mapping[str, Any], stop: StopEvent, goal_tolerance: float = 0.0) -> DriverResult:
        """Play a trajectory; a fault of it is a result with MoveJoints' code."""
        joints: Sequence[str] = trajectory["joint_names"]
        times_s = [point["time_from_start"] for point in trajectory["points"]]
        positions = [point["positions"] for point in trajectory["points"]]
        unknown = [joint for joint in joints if joint not in self._joints]
        if unknown:
            return DriverResult(False, 400, f"there is no joint '{unknown[0]}'")
        table = np.asarray(positions, dtype=float)
        times = np.asarray(times_s, dtype=float)
        if table.shape != (len(times), len(joints)) or not np.isfinite(table).all() or (np.diff(times) <= 0).any():
            return DriverResult(False, 401, "the trajectory has wrong lengths, falling times or no numbers")
        started = self.world.time
        while (elapsed := self.world.time - started) < times[-1] - 1e-9:
            if stop.is_set():
                return DriverResult(False, cancelled=True, values={"completed_s": elapsed})
            now = elapsed + PERIOD_S
            self._command({joint: float(np.interp(now, times, table[:, i])) for i, joint in enumerate(joints)})
            self._tick()
        if goal_tolerance > 0.0:
            measured = self.world.robot.joint_positions()
            far = [j for i, j in enumerate(joints) if abs(measured[j] - table[-1, i]) > goal_tolerance]
            if far:
                return DriverResult(False, 404, f"joint '{far[0]}' did not come within {goal_tolerance} rad")
        return DriverResult(True, values={"completed_s": float(times[-1])})

    def speak(self, *, text: str, stop: StopEvent, voice: str = "", rate: float = 1.0, volume: float = 1.0) -> DriverResult:
        """Take the time the text would take."""
        self.spoken.append((text, voice, rate, volume))
        return self._pass(SpeechTiming(text, rate).duration_s, stop)

    def play_sound(self, *, name: str, stop: StopEvent, volume: float = 1.0, loop: bool = False) -> DriverResult:
        """Take the time of the tune, or until stopped when it loops."""
        if name not in TUNES:
            return DriverResult(False, 420, f"there is no sound '{name}'")
        self.sounds.append(name)
        return self._pass(float("inf") if loop else TUNES[name].duration_s, stop)

    def show_face(self, *, face: str, stop: StopEvent, duration_s: float = 0.0) -> DriverResult:
        """Show a face on the world's display for its time, then the one before."""
        if face not in FACES:
            return DriverResult(False, 430, f"there is no face '{face}'")
        self.faces.append(face)
        before = self.face
        self._show(face)
        result = self._pass(duration_s or float("inf"), stop)
        self._show(before)
        return result

    def joint_positions(self) -> Mapping[str, float]:
        """Measured positions."""
        return self.world.robot.joint_positions()

    def query_memory(self, question: str, *, stop: StopEvent, timeout_s: float = 5.0) -> MemoryAnswer:
        """There is no memory here."""
        why = "there is no memory in the simulation in lock step; ask one by the node memory"
        return MemoryAnswer(False, error_code=int(MemoryCode.MEMORY_UNAVAILABLE), error_msg=why)

    def ask_human(self, *, timeout_s: float, stop: StopEvent, **_: Any) -> DriverResult:
        """Nobody is there who would answer."""
        waited = self._pass(timeout_s, stop)
        why = f"nobody answered within {timeout_s:g} s"
        return waited if waited.cancelled else DriverResult(False, int(AskCode.NO_ANSWER), why)

    def odometry(self) -> Pose2D | None:
        """Return the base's pose, or None if the robot is to have none."""
        return self.world.robot.base().pose if self._with_odometry else None

    def _command(self, wanted: Mapping[str, float]) -> None:
        current = joint_targets(self.world)
        targets = {}
        for joint, value in wanted.items():
            limits = self._joints[joint]
            reach = limits.max_velocity * PERIOD_S
            value = min(max(value, current[joint] - reach), current[joint] + reach)
            targets[joint] = min(max(value, limits.lower), limits.upper)
        self.world.robot.set_joint_targets(targets)

    def _tick(self) -> None:
        self.world.advance(PERIOD_S)
        if self._observe is not None:
            self._observe(self.world)

    def _pass(self, seconds: float, stop: StopEvent) -> DriverResult:
        started = self.world.time
        while self.world.time - started < seconds - 1e-9:
            if stop.is_set():
                return DriverResult(False, cancelled=True)
            self._tick()
        return DriverResult(True)

    def _show(self, face: str) -> None:
        self.face = face
        if self._show_faces:
            self.world.set_face(draw(face))
