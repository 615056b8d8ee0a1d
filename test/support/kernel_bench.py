# SPDX-License-Identifier: Apache-2.0
"""A kernel on a virtual clock whose skills do, on real threads, exactly what a test tells them."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from bench.virtual_clock import VirtualClock
from skill_kernel import Content, ContentStream, Limited, SkillReturn, robot_skill
from skill_kernel.calls import CallResult, CallSpec, Refused
from skill_kernel.codes import CallCode
from skill_kernel.kernel.kernel import Kernel, KernelSettings
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

WAIT_S = 5.0

REST = object()
"""Told to a skill: come to rest as long as the pause lasts, then wait for the next word."""

ROBOT = RobotConfig.model_validate(
    {
        "name": "toy",
        "skills": ["toy"],
        "subsystems": {
            "main": {"exclusive_per_process": False, "parallel": False},
            "legs": {"exclusive_per_process": True, "parallel": False},
            "arm": {"exclusive_per_process": True, "parallel": False},
            "crew": {"exclusive_per_process": True, "parallel": True},
            "sound": {"exclusive_per_process": False, "parallel": False},
            "free": {"exclusive_per_process": False, "parallel": True},
        },
        "limits": {"distance": [0, 200]},
    }
)


@dataclass
class Body:
    """Hold the events that one call's skill waits for, and its sightings."""

    commands: queue.Queue[Any] = field(default_factory=queue.Queue)
    started: threading.Event = field(default_factory=threading.Event)
    seen: dict[str, Any] = field(default_factory=dict)
    begins: int = 0
    inside: bool = False
    """Return whether the skill may move something: it runs and is not at rest."""

    def obey(self, **seen: Any) -> Any:
        """Wait for the test's word and do it: return it, raise it, call it, or rest."""
        self.seen.update(seen)
        self.begins += 1
        self.inside = True
        self.started.set()
        try:
            while (command := self.commands.get(timeout=WAIT_S)) is REST:
                self.inside = False
                self.seen["pause"].rest()
                self.inside = not self.seen["stop"].is_set()
        finally:
            self.inside = False
        if isinstance(command, BaseException):
            raise command
        return command() if callable(command) else command


def _skill(name: str, subsystem: str) -> Any:
    def function(key: str, body: Any, stop_evt: threading.Event, pause_evt: threading.Event, until_reset: bool) -> Any:
        return body[key].obey(stop=stop_evt, pause=pause_evt, until_reset=until_reset)

    return robot_skill(name, subsystem=subsystem, nominal_s=2.0, stop_s=0.2)(function)


@robot_skill(subsystem="legs", nominal_s=3.0)
def stand(key: str, body: Any) -> SkillReturn:
    """Atomic: takes no stop_evt."""
    return body[key].obey()


@robot_skill(subsystem="legs", nominal_s=2.0)
def go(key: str, distance: Annotated[float, Limited("distance")], body: Any, stop_evt: threading.Event) -> SkillReturn:
    """Has a limited parameter, and cannot pause."""
    return body[key].obey(distance=distance, stop=stop_evt)


@robot_skill(
    subsystem="arm",
    nominal_s=2.0,
    stop_s=0.2,
    remaining=lambda done, key, loads: {"loads": loads - done["loads"]} if done["loads"] < loads else None,
)
def haul(key: str, body: Any, stop_evt: threading.Event, loads: int = 3) -> SkillReturn:
    """Cannot pause, but tells what remains."""
    return body[key].obey(stop=stop_evt, loads=loads)


@robot_skill(subsystem="legs", nominal_s=2.0, stop_s=0.2, idempotent=True)
def seek(key: str, body: Any, stop_evt: threading.Event) -> SkillReturn:
    """Cannot pause, but may be called anew."""
    return body[key].obey(stop=stop_evt)


@robot_skill(subsystem="sound", nominal_s=lambda text: len(text) / 10)
def say(text: Content, body: Any, stop_evt: threading.Event, key: str = "say") -> SkillReturn:
    """Take the content whole."""
    return body[key].obey(text=text)


@robot_skill(subsystem="sound")
def recite(text: ContentStream, body: Any, stop_evt: threading.Event, key: str = "recite") -> SkillReturn:
    """Take the content piece by piece; what comes goes to the body at once."""
    pieces: queue.Queue[str | None] = body[key].commands
    for piece in text:
        pieces.put(piece)
    pieces.put(None)
    return SkillReturn.success() if not stop_evt.is_set() else SkillReturn.interruption("stopped")


@robot_skill(subsystem="legs", nominal_s=5.0)
def dance(key: str, body: Any, kernel: Any, stop_evt: threading.Event) -> SkillReturn:
    """Call another skill with what the test says."""
    inner = body[key].obey(kernel=kernel)
    return kernel.call(inner[0], **inner[1])


@robot_skill(subsystem="legs", nominal_s=5.0, stop_s=0.2)
def parade(key: str, body: Any, kernel: Any, stop_evt: threading.Event, pause_evt: threading.Event) -> SkillReturn:
    """Return a composite that can pause."""
    inner = body[key].obey(kernel=kernel, pause=pause_evt, stop=stop_evt)
    return kernel.call(inner[0], **inner[1])


SKILLS = [
    _skill("walk", "legs"),
    _skill("wave", "arm"),
    _skill("crew", "crew"),
    _skill("hum", "sound"),
    _skill("think", "free"),
    _skill("talk", "main"),
    stand,
    go,
    haul,
    seek,
    say,
    recite,
    dance,
    parade,
]


class Bench:
    """The kernel and everything it reported. Bodies are addressed by the argument `key`, which is the call id."""

    def __init__(self, *, settings: KernelSettings | None = None, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        self.bodies: defaultdict[str, Body] = defaultdict(Body)
        self.results: defaultdict[str, list[CallResult]] = defaultdict(list)
        self.events: list[Any] = []
        self.halts: list[str] = []
        self.changes = 0
        self.threads: dict[str, threading.Thread] = {}
        self.kernel = Kernel(
            SkillRegistry(f.__robot_skill__ for f in SKILLS),
            ROBOT,
            self.bodies,
            self.clock,
            on_result=lambda call_id, result: self.results[call_id].append(result),
            on_event=self.events.append,
            on_change=self._changed,
            on_halt=self.halts.append,
            spawn=self._spawn,
            settings=settings,
        )

    def _changed(self) -> None:
        self.changes += 1

    def _spawn(self, run: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self.threads[name.split("-", 1)[1]] = thread
        thread.start()

    def execute(self, function: str, call_id: str, process: str = "p", **more: Any) -> Refused | None:
        """Start a call whose body answers to its call id, without waiting for it."""
        self.bodies[call_id]  # made here: test and skill would race for it
        arguments = {"key": call_id, **more.pop("arguments", {})}
        return self.kernel.execute(CallSpec(process, call_id, function, arguments, **more))

    def start(self, function: str, call_id: str, process: str = "p", **more: Any) -> Body:
        """Start a call, and wait until its skill runs."""
        answer = self.execute(function, call_id, process, **more)
        assert answer is None, answer
        assert self.bodies[call_id].started.wait(WAIT_S)
        return self.bodies[call_id]

    def finish(self, call_id: str, command: Any = None) -> None:
        """Tell a skill what to return or raise, and wait until its thread has ended."""
        self.bodies[call_id].commands.put(command)
        self.join(call_id)

    def join(self, call_id: str) -> None:
        """Wait until a call's thread has ended."""
        self.threads[call_id].join(WAIT_S)
        assert not self.threads[call_id].is_alive()

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait for what a skill's thread does."""
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.0005)

    def result(self, call_id: str) -> CallResult:
        """Return the one result of a call, which may come on another thread than its skill's."""
        self.wait_until(lambda: self.results[call_id])
        (result,) = self.results[call_id]
        return result

    def holders(self, subsystem: str) -> tuple[str, ...]:
        """Call ids that hold a subsystem."""
        return next((s.call_ids for s in self.kernel.state().subsystems if s.name == subsystem), ())

    def pieces(self, call_id: str) -> Iterator[str]:
        """Return what `recite` got, until its text ended."""
        while (piece := self.bodies[call_id].commands.get(timeout=WAIT_S)) is not None:
            yield piece


def code_of(answer: Refused | None) -> CallCode:
    return answer.code if isinstance(answer, Refused) else CallCode.NONE


def rest(bench: Bench, call_id: str, subsystem: str) -> None:
    """Let a skill come to rest, and wait until its subsystem is free."""
    bench.bodies[call_id].commands.put(REST)
    bench.wait_until(lambda: call_id not in bench.holders(subsystem))
