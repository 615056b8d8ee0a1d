# SPDX-License-Identifier: Apache-2.0
"""Kalos's demonstration: three processes on one body, one interrupts and gives back, one replaces, a halt ends all."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from ghostshell.action import RunTask
from ghostshell.msg import KernelState, ProcessArray, ProcessState, SkillEvent
from rich.console import Console
from std_srvs.srv import Trigger

from ghostshell_ros.cli.process_view import ENDED, Bar, ProcessTrack, ProcessView
from ghostshell_ros.nodes.goal_client import GoalClient
from ghostshell_ros.nodes.node_runtime import EVENTS, LATCHED, NodeHost, RuntimeNode
from skill_kernel.process import ProcessStatus
from skill_kernel.skill import MAIN

PATROL = "Patrol the hallway twice, and tell me what you are doing."
LOOK = "Stop, take a picture of what is on your left, then resume."
FETCH = "Go to the kitchen and find the apple."

SOURCES = {ProcessState.USER: "USER", ProcessState.REACTIVE: "REACTIVE", ProcessState.IDLE: "IDLE"}
OUTCOMES = {
    SkillEvent.DONE: "DONE",
    SkillEvent.FAILED: "FAILED",
    SkillEvent.OUTCOME_INTERRUPTED: "INTERRUPTED",
    SkillEvent.REFUSED: "REFUSED",
    SkillEvent.DROPPED: "DROPPED",
}


DRIVERS = ("drive_driver", "navigate_driver", "posture_driver", "speak_driver", "play_sound_driver")
"""Those the story needs."""


class StoryError(RuntimeError):
    """The story went another way than told; the message says what did not happen."""


class StoryClient(RuntimeNode):
    """Says instructions to a robot and hears what becomes of all its processes. What it hears goes into `inbox`."""

    def __init__(self, robot: str) -> None:
        super().__init__("ghostshell_story", namespace=robot, use_global_arguments=False)
        self.inbox: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.kernel_seen = False
        self.halted = False
        self._task = GoalClient(self, RunTask, "run_task")
        self._halt = self.create_client(Trigger, "halt")
        self.create_subscription(SkillEvent, "events", lambda m: self.inbox.put(("event", m)), EVENTS)
        self.create_subscription(ProcessArray, "processes", lambda m: self.inbox.put(("processes", m)), LATCHED)
        self.create_subscription(KernelState, "kernel_state", self._on_kernel, LATCHED)
        self._task_ready = False
        self._drivers: dict[str, bool] = {}
        self.create_subscription(DiagnosticArray, "driver_states", self._on_drivers, LATCHED)
        self.steady_timer(0.1, self._look)

    def ready(self) -> bool:
        """Whether the robot takes tasks and can be halted, and its drivers are active."""
        return self.kernel_seen and self._task_ready and set(DRIVERS) <= {n for n, active in self._drivers.items() if active}

    def _on_drivers(self, message: DiagnosticArray) -> None:
        self._drivers = {s.name.rsplit("/", 1)[-1]: s.level == DiagnosticStatus.OK for s in message.status}

    def _look(self) -> None:
        self._task_ready = self._task.server_is_ready() and self._halt.service_is_ready()

    def say(self, instruction: str) -> None:
        """Send a task; it goes on whatever becomes of the ones before."""
        goal = RunTask.Goal(instruction=instruction, sender="demonstration", door="action")
        self.call_soon(lambda: self._task.send(goal, on_end=lambda end, result: None))

    def halt(self) -> None:
        """Latch the safety gate."""
        self.call_soon(lambda: self._halt.call_async(Trigger.Request()))

    def _on_kernel(self, message: KernelState) -> None:
        self.kernel_seen, self.halted = True, message.halted


class Story:
    """Plays the demonstration and keeps what was seen in `view`. On the main thread."""

    def __init__(self, client: StoryClient, text_subsystems: tuple[str, ...], console: Console | None = None) -> None:
        self._client = client
        self._text_subsystems = text_subsystems
        self._console = console or Console()
        self.view = ProcessView()
        self._begun_s = 0.0

    def play(self) -> None:
        """Raises StoryError when a part of it does not come about in time."""
        self._begun_s = self._now_s()
        patrol = self._say(PATROL, "patrol", 20.0)
        self._go_on(12.0)
        look = self._say(LOOK, "rotate", 20.0)
        self._until(lambda: look.status in ENDED, 45.0, f"“{LOOK}” does not end")
        self._until(lambda: patrol.status == "IN_PROGRESS", 5.0, "the patrol does not go on")
        self._go_on(8.0)
        fetch = self._say(FETCH, "goto_waypoint", 20.0)
        self._until(lambda: patrol.status == "STOPPED", 5.0, "the patrol was not replaced")
        self._until(lambda: fetch.running("search") is not None, 70.0, "it does not begin to search")
        self._go_on(3.0)
        self._line("halt")
        self._client.halt()
        self._until(lambda: self._client.halted and fetch.status in ENDED, 5.0, "the halt does not end the last task")
        self._go_on(1.0)

    def _say(self, instruction: str, function: str, limit_s: float) -> ProcessTrack:
        """Give an instruction and wait until its process runs `function`."""
        before = set(self.view.tracks)
        self._line(f"says: {instruction}")
        self._client.say(instruction)
        self._until(lambda: bool(set(self.view.tracks) - before), 5.0, f"no process was made of “{instruction}”")
        track = self.view.tracks[next(iter(set(self.view.tracks) - before))]
        self._until(
            lambda: track.running(function) is not None or track.status in ENDED, limit_s, f"{function} does not begin"
        )
        if track.running(function) is None:
            raise StoryError(f"“{instruction}” ended as {track.status} before {function} began")
        return track

    def _go_on(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._hear(min(left, 0.1))

    def _until(self, come: Callable[[], bool], limit_s: float, what: str) -> None:
        end = time.monotonic() + limit_s
        while not come():
            if time.monotonic() > end:
                raise StoryError(f"{what} within {limit_s:g} s")
            self._hear(0.1)

    def _hear(self, wait_s: float) -> None:
        try:
            kind, message = self._client.inbox.get(timeout=wait_s)
        except queue.Empty:
            self.view.since(self._now_s())
            return
        now = message.stamp.sec + message.stamp.nanosec * 1e-9
        if kind == "processes":
            for p in message.processes:
                # The scheduler keeps the processes of former runs.
                if p.created.sec + p.created.nanosec * 1e-9 < self._begun_s:
                    continue
                status = ProcessStatus(p.status).name
                if self.view.state(now, p.process_id, p.instruction, SOURCES.get(p.source, "?"), status):
                    self._line(f"process {list(self.view.tracks).index(p.process_id) + 1} is {status}")
        else:
            self._event(now, message)

    def _event(self, now: float, event: SkillEvent) -> None:
        if event.type == SkillEvent.CALL_STARTED:
            label = _label(event.function, event.args_json)
            # Text is scheduled on the channel main, and spoken on the subsystem of the skill that speaks.
            on = self._text_subsystems if event.function == "text" else tuple(event.channels)
            if on != (MAIN,):  # what only orders others takes no subsystem
                self.view.started(now, event.process_id, event.call_id, Bar(event.function, label, on, 0.0))
            self._line(f"  {label} [{'+'.join(on)}]")
        elif event.type == SkillEvent.CALL_ENDED:
            outcome = OUTCOMES.get(event.outcome, "?")
            bar = self.view.ended(now, event.process_id, event.call_id, outcome)
            if bar is not None:
                bar.label = _label(event.function, event.args_json)  # by now the whole text is known
            self._line(f"  {event.function} {outcome} {event.error_msg or event.text}".rstrip())
        elif event.type == SkillEvent.HALTED:
            self.view.halted(now)

    def _now_s(self) -> float:
        return float(self._client.get_clock().now().nanoseconds * 1e-9)

    def _line(self, text: str) -> None:
        now = self.view.since(self._now_s())
        self._console.print(f"{now:7.2f} s  {text}", soft_wrap=True, markup=False, highlight=False)


def open_story(robot: str) -> tuple[NodeHost, StoryClient]:
    """A client of the robot, spun on a thread of its own; close the host when done."""
    client = StoryClient(robot)
    host = NodeHost([client])
    host.start()
    return host, client


def _label(function: str, args_json: str) -> str:
    try:
        arguments = json.loads(args_json or "{}")
    except json.JSONDecodeError:
        arguments = {}
    if function == "text":
        return f"“{arguments.get('text', '')}”"
    return f"{function}({', '.join(f'{v:g}' if isinstance(v, float) else str(v) for v in arguments.values())})"
