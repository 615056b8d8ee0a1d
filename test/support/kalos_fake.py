# SPDX-License-Identifier: Apache-2.0
"""Kalos without a simulator: a point that drives in virtual time, with walls, things and events at set times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ghostshell_ros.robots.kalos.body import KalosBody
from skill_kernel import SkillReturn
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.arguments import bind_typed
from skill_kernel.skills.drivers import Detection, DriverResult, MemoryAnswer, Pose2D
from skill_kernel.skills.registry import SkillRegistry

NEVER = math.inf
TICK_S = 0.05
SPEED, TURN_SPEED = 0.5, 1.0
BLOCKED = 440


@lru_cache(maxsize=1)
def config() -> RobotConfig:
    return RobotConfig.load("kalos")


@lru_cache(maxsize=1)
def registry() -> SkillRegistry:
    return SkillRegistry.from_modules(config().skills, text_skill=config().text_skill)


class World:
    """Time and place. `things` are label, x, y; `wall` is how far along its heading the robot may walk at all."""

    def __init__(self) -> None:
        self.now = 0.0
        self.x = self.y = self.yaw = 0.0
        self.walked = self.turned = self.aside = 0.0
        self.wall = NEVER
        self.things: list[tuple[str, float, float]] = []
        self.clear: Callable[[str, float], float] = lambda label, bearing: 0.9
        """Return the detector's confidence in a thing in this direction [rad]."""
        self.unreachable: set[str] = set()
        self.at = ""


class Stop:
    """A stop event that is set at a time."""

    def __init__(self, world: World, at: float = NEVER) -> None:
        self.world, self.at = world, at

    def is_set(self) -> bool:
        return self.world.now >= self.at

    def wait(self, timeout: float | None = None) -> bool:
        self.world.now += max(timeout or 0.0, 1e-6)
        return self.is_set()


class Pause:
    """A pause from one time to another; `rests` is when the skill said that the body is at rest."""

    def __init__(self, world: World, stop: Stop, begin: float = NEVER, end: float = NEVER) -> None:
        self.world, self.stop, self.begin, self.end = world, stop, begin, end
        self.rests: list[float] = []

    def is_set(self) -> bool:
        return self.begin <= self.world.now < self.end

    def rest(self) -> None:
        self.rests.append(self.world.now)
        self.world.now = max(self.world.now, min(self.end, self.stop.at))


class FakeDrivers:
    """Kalos's actions, senses and memory in virtual time; `calls` is what was asked of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls: list[tuple[Any, ...]] = []
        self.looking = True
        self.known: tuple[str, ...] = ()
        self.answers_cancel = True
        self.remembered: str | None = "I remember nothing of that."
        self.answer: str | None = None
        self.refusals = 0
        """So often a text is refused, because another one is being said."""
        self.picture: Any = np.zeros((24, 32, 3), np.uint8)

    def drive(self, *, stop: Any, distance: float = 0.0, lateral: float = 0.0, turn: float = 0.0, **_: Any) -> DriverResult:
        self.calls.append(("drive", distance, lateral, turn))
        w, moved = self.world, {"distance": 0.0, "lateral": 0.0, "turn": 0.0}
        left = {"turn": turn, "distance": distance, "lateral": lateral}
        while any(abs(v) > 1e-9 for v in left.values()):
            if stop.is_set():
                return DriverResult(False, cancelled=True, values=moved if self.answers_cancel else {})
            w.now += TICK_S
            for name, wanted in left.items():
                most = (TURN_SPEED if name == "turn" else SPEED) * TICK_S
                step = max(-most, min(most, wanted))
                if name == "distance" and w.walked + step > w.wall:
                    return DriverResult(False, BLOCKED, "something is 0.4 m in front", values=moved)
                left[name] -= step
                moved[name] += step
                self._go(name, step)
        return DriverResult(True, values=moved)

    def _go(self, name: str, step: float) -> None:
        w = self.world
        if name == "turn":
            w.yaw += step
            w.turned += step
            return
        angle = w.yaw + (math.pi / 2 if name == "lateral" else 0.0)
        w.x, w.y = w.x + step * math.cos(angle), w.y + step * math.sin(angle)
        if name == "distance":
            w.walked += step
        else:
            w.aside += step

    def navigate_to(self, *, stop: Any, waypoint: str = "", pose: Any = None, **_: Any) -> DriverResult:
        self.calls.append(("navigate", waypoint or pose))
        end = self.world.now + 2.0
        while self.world.now < end:
            if stop.is_set():
                return DriverResult(False, cancelled=True, values={"distance_left": 1.0})
            self.world.now += TICK_S
        if waypoint in self.world.unreachable:
            return DriverResult(False, 452, "the door is blocked", values={"distance_left": 1.5})
        self.world.at = waypoint
        return DriverResult(True, values={"distance_left": 0.0})

    def set_posture(self, *, stop: Any, posture: str = "", pitch: float = 0.0, duration: float = 0.0, **_: Any) -> DriverResult:
        self.calls.append(("posture", posture, pitch))
        return self._last(duration or 1.0, stop)

    def speak(self, text: str, *, stop: Any, **_: Any) -> DriverResult:
        self.calls.append(("speak", text))
        if self.refusals:
            self.refusals -= 1
            return DriverResult(False, 421, "another text is being said")
        begun = self.world.now
        result = self._last(len(text) / 10.0, stop)
        return DriverResult(result.ok, cancelled=result.cancelled, values={"spoken_chars": (self.world.now - begun) * 10})

    def play_sound(self, name: str, *, stop: Any, **_: Any) -> DriverResult:
        self.calls.append(("sound", name))
        return self._last(0.5, stop)

    def _last(self, seconds: float, stop: Any) -> DriverResult:
        end = self.world.now + seconds
        while self.world.now < end - 1e-9:
            if stop.is_set():
                return DriverResult(False, cancelled=True)
            self.world.now += TICK_S
        return DriverResult(True)

    def memory(self, question: str, *, stop: Any, **_: Any) -> MemoryAnswer:
        self.calls.append(("memory", question))
        if self._last(0.1, stop).cancelled:
            return MemoryAnswer(False, cancelled=True)
        if self.remembered is None:
            return MemoryAnswer(False, error_code=565, error_msg="the memory is not there; is it running?")
        return MemoryAnswer(True, self.remembered)

    def ask_human(self, *, timeout_s: float, stop: Any, **goal: Any) -> DriverResult:
        """Answer after a second, where somebody is there."""
        self.calls.append(("ask_human", {**goal, "timeout_s": timeout_s}))
        waited = self._last(timeout_s if self.answer is None else 1.0, stop)
        if waited.cancelled:
            return waited
        if self.answer is None:
            return DriverResult(False, 540, f"nobody answered within {timeout_s:g} s")
        return DriverResult(True, values={"answer": self.answer, "by": "operator"})

    def odometry(self) -> Pose2D:
        return Pose2D(self.world.x, self.world.y, math.remainder(self.world.yaw, math.tau))

    def image(self) -> Any:
        return self.picture

    def sights(self) -> Sequence[str]:
        """Return what the detector knows."""
        return self.known

    def detections(self) -> Sequence[Detection] | None:
        """Return what lies within 40 degrees to each side."""
        if not self.looking:
            return None
        found = []
        for label, x, y in self.world.things:
            dx, dy = x - self.world.x, y - self.world.y
            bearing = math.remainder(math.atan2(dy, dx) - self.world.yaw, math.tau)
            if abs(bearing) < math.radians(40):
                found.append(Detection(label, self.world.clear(label, bearing), bearing, math.hypot(dx, dy)))
        return found


class Kalos:
    """Runs skills in virtual time, composite ones with the others at hand."""

    def __init__(self, pictures: Any = None) -> None:
        self.world = World()
        self.drivers = FakeDrivers(self.world)
        self.body = KalosBody(
            **{
                name: partial(self._act, name)
                for name in ("drive", "navigate_to", "set_posture", "speak", "play_sound", "memory", "ask_human")
            },
            senses=self.drivers,
            now=lambda: self.world.now,
            wall=lambda: 1_700_000_000.25,
            pictures=pictures,
        )

    process_id = "p"

    def _act(self, name: str, /, *arguments: Any, **goal: Any) -> Any:
        """Through the name, so that a test may put something else in its place."""
        return getattr(self.drivers, name)(*arguments, **goal)

    def run(
        self, name: str, /, *, stop_at: float = NEVER, pause: tuple[float, float] = (NEVER, NEVER), **arguments: Any
    ) -> SkillReturn:
        self.stop = Stop(self.world, stop_at)
        self.pause = Pause(self.world, self.stop, *pause)
        return self.call(name, **arguments)

    def call(self, name: str, /, **arguments: Any) -> SkillReturn:
        """As a composite skill calls another: with the same events."""
        skill = registry().get(name)
        assert skill is not None, name
        text = arguments.pop(skill.content, "") if skill.content else ""
        content = {skill.content: iter([text]) if skill.content_streams else text} if skill.content else {}
        bound = bind_typed(skill, arguments, config().limits).values
        given = {"body": self.body, "kernel": self, "stop_evt": self.stop, "pause_evt": self.pause, "until_reset": False}
        function: Callable[..., SkillReturn] = skill.function
        return function(**bound, **content, **{n: given[n] for n in skill.injected})
