# SPDX-License-Identifier: Apache-2.0
"""Traces of trials as a test wants them: the robot's true way, what it called, what was heard."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bench.evaluation.judge import Facts, judge
from bench.evaluation.tasks import TASKS, Setting
from bench.evaluation.trace import Call, ModelAnswer, PoseAt, StateAt, Trace
from skill_kernel.robot import RobotConfig

PROCESS, ADDED = "p1", "p2"
KALOS = RobotConfig.load("kalos")
HZ = 10.0


class Story:
    """Tells a trial from its beginning; each part takes its seconds."""

    def __init__(self, world: Setting) -> None:
        self.setting = world
        self.trace = Trace(asked=0.0, process_id=PROCESS, postures=[(0.0, "stand")])
        self.x, self.y, self.yaw = world.robot
        self.now = 0.0
        self._pose()
        self.thing("ball", *(world.ball or (7.0, -9.0)))
        if world.person is not None:
            self.thing("person", *world.person[:2])
        self.state("IN_PROGRESS")

    def thing(self, name: str, x: float, y: float) -> None:
        self.trace.objects.setdefault(name, []).append((self.now, x, y))

    def _pose(self, pitch: float = 0.0) -> None:
        self.trace.poses.append(PoseAt(self.now, self.x, self.y, math.remainder(self.yaw, math.tau), pitch))

    def rest(self, seconds: float) -> Story:
        for _ in range(round(seconds * HZ)):
            self.now += 1 / HZ
            self._pose()
        return self

    def walk(self, ahead: float = 0.0, left: float = 0.0, turn_deg: float = 0.0, seconds: float = 2.0) -> Story:
        """Along where it looks, and turning."""
        steps, yaw = round(seconds * HZ), self.yaw
        for _ in range(steps):
            self.x += (ahead * math.cos(yaw) - left * math.sin(yaw)) / steps
            self.y += (ahead * math.sin(yaw) + left * math.cos(yaw)) / steps
            self.yaw += math.radians(turn_deg) / steps
            self.now += 1 / HZ
            self._pose()
        return self

    def go(self, x: float, y: float, yaw: float, seconds: float = 2.0) -> Story:
        """Straight to a place."""
        steps, dx, dy = round(seconds * HZ), x - self.x, y - self.y
        for _ in range(steps):
            self.x, self.y, self.yaw, self.now = self.x + dx / steps, self.y + dy / steps, yaw, self.now + 1 / HZ
            self._pose()
        return self

    def face(self, x: float, y: float) -> Story:
        off = math.remainder(math.atan2(y - self.y, x - self.x) - self.yaw, math.tau)
        return self.walk(turn_deg=math.degrees(off))

    def nod(self, times: int) -> Story:
        for _ in range(times):
            for pitch in (0.1, 0.22, 0.2, 0.1, 0.0, 0.0, 0.0):
                self.now += 1 / HZ
                self._pose(pitch)
        return self

    def sit(self) -> Story:
        self.rest(1.5)
        self.trace.postures.append((self.now, "sit"))
        return self

    def bark(self, times: int) -> Story:
        for _ in range(times):
            self.rest(0.5)
            self.trace.sounds.append(self.now)
        return self

    def call(
        self,
        function: str,
        started: float,
        ended: float,
        *,
        outcome: str = "DONE",
        told: str = "",
        process: str = PROCESS,
        channels: tuple[str, ...] = ("movement",),
        **arguments: Any,
    ) -> Story:
        self.trace.calls.append(Call(process, function, arguments, channels, started, ended, outcome, told))
        return self

    def picture(self, folder: Path) -> Story:
        kept = folder / f"{self.now:.1f}.png"
        kept.write_bytes(b"")
        told = f"picture of 320 x 240 kept as {kept}"
        return self.call("take_pic", self.now, self.now + 0.2, told=told, channels=("default",)).rest(0.3)

    def say(self, text: str, process: str = PROCESS) -> Story:
        return self.call("text", self.now, self.now + 1.0, told=f"said: {text}", process=process, channels=("main",), text=text)

    def state(self, status: str, *causes: str, process: str = PROCESS, message: str = "") -> Story:
        self.trace.states.append(StateAt(self.now, process, status, causes, 0, message))
        return self

    def answer(self, layer: str, ended: float, took: float, prompt: int = 100, completion: int = 10, cached: int = 0) -> Story:
        self.trace.answers.append(ModelAnswer(PROCESS, layer, ended, took, prompt, cached, completion, -1.0))
        return self

    def end(self, status: str = "SUCCESS", message: str = "", code: int = 0) -> Trace:
        self.trace.status, self.trace.message, self.trace.code, self.trace.end = status, message, code, self.now
        if status:
            self.state(status, message=message)
        return self.trace


def reasons(task: str, world: Setting, trace: Trace, *counts: int) -> str:
    """Why a trial was no success, "" when it was one."""
    return "; ".join(judge(TASKS[task], world, trace, Facts(KALOS, counts)).reasons)
