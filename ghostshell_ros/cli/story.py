# SPDX-License-Identifier: Apache-2.0
"""Kalos's demonstration: a task in plain words, planned by four loops; another one interrupts and gives back, a reflex does so
too, and a question is answered on the way."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable

from ghostshell.msg import ProcessState, SkillEvent
from rich.console import Console

from ghostshell_ros.cli.loops_feed import OUTCOMES, REFLEX_ID, LoopsFeed, call_label
from ghostshell_ros.cli.loops_view import LoopsView
from ghostshell_ros.cli.process_view import ENDED, THINKS, Bar, ProcessTrack, ProcessView
from ghostshell_ros.cli.story_client import StoryClient
from skill_kernel.codes import ModelCode
from skill_kernel.processes.process import ProcessStatus
from skill_kernel.skills.drivers import Pose2D
from skill_kernel.skills.skill import MAIN

TASK = (
    "Go to the lounge and look for a ball there. If you find one, walk up to it and bark twice. If there is none, return to "
    "the start and sit down."
)
LOOK = "Stop, check what is on your left, then resume."
QUESTION = "How many places have you explored?"

LOOK_X_M = 2.0
"""So far along the hallway it is asked for the picture."""
CROSSING_X_M = 7.0
"""Where the person steps into the hallway."""
AHEAD_M = (1.2, 1.6)
"""The person sets out when Kalos comes so near, and then stands in front of it about 2 s later."""
REFLEX_S = 20.0
"""So long somebody stands in its way at most, or beside it."""
WALK_S = 180.0
"""Longest wait for Kalos to come somewhere, six times what it takes: a busy machine simulates more slowly."""
PASSES = 2
"""How often Kalos may pass there before somebody has stepped in its way in time."""

SOURCES = {ProcessState.USER: "USER", ProcessState.REACTIVE: "REACTIVE", ProcessState.IDLE: "IDLE"}
REFLEX = "REFLEX"
THOUGHT = "ANSWERED"
"""Outcome of a bar that is a model's answer."""


class StoryError(RuntimeError):
    """The story went another way than told; the message says what did not happen."""


class Story:
    """Plays the demonstration, or an act of it, and keeps what was seen in `view`. On the main thread."""

    def __init__(self, client: StoryClient, text_subsystems: tuple[str, ...], console: Console | None = None) -> None:
        self._client = client
        self._text_subsystems = text_subsystems
        self._console = console or Console()
        self.view = ProcessView()
        self._begun_s = self._now_s()
        self.loops = LoopsFeed(LoopsView(), self._begun_s)
        self._thinking: dict[tuple[str, str], str] = {}

    def play(self) -> None:
        """Raises StoryError when a part of it does not come about in time."""
        task = self.say(TASK, "", 20.0)
        self._until(lambda: self._faces(1.0) and self._at.x > LOOK_X_M, WALK_S, "it does not walk along the hallway", task)
        look = self.say(LOOK, "", 20.0)
        self._until(lambda: look.status in ENDED, 90.0, f"“{LOOK}” does not end")
        self._until(lambda: task.status == "IN_PROGRESS", 10.0, "the search does not go on after the look", task)
        self.ask(QUESTION, task)
        self.step_in_front(task)
        self._until(lambda: task.status in ENDED, WALK_S, "the search does not end")
        if task.status != "SUCCESS":
            raise StoryError(f"the search ended as {task.status}: {self.loops.view.of(task.process_id).why}")
        self._go_on(1.0)

    def step_in_front(self, walk: ProcessTrack) -> ProcessTrack:
        """A person steps in front of Kalos, a reflex makes it step back, the person leaves, and it walks on: the process of
        the reflex. Raises StoryError."""
        states = len(walk.states)
        acting = self._meet(walk)
        self._until(lambda: acting.status in ENDED, 40.0, "the reflex does not end", walk)
        if acting.status != "SUCCESS":
            raise StoryError(f"the reflex “{acting.instruction}” ended as {acting.status}")
        self._until(lambda: walk.status == "IN_PROGRESS", 10.0, "the walk does not go on after the reflex", walk)
        if not walk.paused_by("s0", states):
            raise StoryError("the reflex acted, but the walk was not paused for it")
        self._walks(0.4, walk)
        return acting

    def ask(self, question: str, walk: ProcessTrack) -> str:
        """Ask the memory while Kalos walks: its answer, which it has spoken walking on. Raises StoryError."""
        states, came_from = len(walk.states), self._at
        asked = self.say(question, "query_memory", 20.0)
        bar = asked.running("query_memory")
        assert bar is not None
        self._until(lambda: asked.status in ENDED, 60.0, f"“{question}” is not answered", walk)
        if bar.outcome != "DONE" or "not said" in bar.told:
            raise StoryError(f"“{question}” was not answered aloud: {bar.told or bar.outcome}")
        if len(walk.states) != states:
            raise StoryError("the walk was interrupted by the question")
        if self._apart(came_from) < 0.2:
            raise StoryError(f"it did not walk on while it answered: {self._apart(came_from):.2f} m")
        asked.note = bar.told
        return bar.told

    def say(self, instruction: str, function: str, limit_s: float) -> ProcessTrack:
        """Give an instruction and wait until its process runs `function`, or anything with "". Raises StoryError."""
        before = set(self.view.tracks)
        self._line(f"says: {instruction}")
        self._client.say(instruction)
        self._until(lambda: bool(self._new(before)), 10.0, f"no process was made of “{instruction}”")
        track = self._new(before)[0]
        self._until(
            lambda: track.running(function) is not None if function else bool(track.acts()),
            limit_s,
            f"{function or 'it'} does not begin",
            track,
        )
        return track

    def _meet(self, walk: ProcessTrack) -> ProcessTrack:
        """Send the person when Kalos comes, and back when a reflex of it acts: the process of that."""
        for left in reversed(range(PASSES)):
            self._until(self._comes_to_crossing, WALK_S, "it does not come where the person steps into the hallway", walk)
            before = set(self.view.tracks)
            self._line("a person steps in its way")
            self._client.send_person(True)
            try:
                return self._acting(before, walk)
            except StoryError:
                if not left:
                    raise
            finally:
                self._line("the person leaves")
                self._client.send_person(False)
        raise AssertionError("the last pass returns or raises")

    def _acting(self, before: set[str], walk: ProcessTrack) -> ProcessTrack:
        """The process of a reflex that is new and has called a skill."""
        self._until(lambda: any(t.bars for t in self._new(before, REFLEX)), REFLEX_S, "no reflex acts on the person", walk)
        return next(t for t in self._new(before, REFLEX) if t.bars)

    def _new(self, before: set[str], source: str = "USER") -> list[ProcessTrack]:
        return [t for name, t in self.view.tracks.items() if name not in before and t.source == source]

    @property
    def _at(self) -> Pose2D:
        assert self._client.pose is not None, "the story begins when there is odometry"
        return self._client.pose

    def _apart(self, place: Pose2D) -> float:
        return math.dist((place.x, place.y), (self._at.x, self._at.y))

    def _faces(self, along: float) -> bool:
        """Whether it is in the hallway and looks along it: 1 to the east, -1 to the west."""
        return abs(self._at.y) < 0.5 and along * math.cos(self._at.yaw) > 0.9

    def _comes_to_crossing(self) -> bool:
        return any(self._faces(a) and AHEAD_M[0] < a * (CROSSING_X_M - self._at.x) < AHEAD_M[1] for a in (1.0, -1.0))

    def _walks(self, metres: float, walk: ProcessTrack) -> None:
        start = self._at
        self._until(lambda: self._apart(start) > metres, 60.0, f"it does not walk {metres:g} m", walk)

    def _go_on(self, seconds: float) -> None:
        """For those who watch."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._hear(min(left, 0.1))

    def _until(self, come: Callable[[], bool], limit_s: float, what: str, lives: ProcessTrack | None = None) -> None:
        """Hear until it has come; StoryError with `what` when it has not in time, or when `lives` ends before."""
        end = time.monotonic() + limit_s
        while not come():
            if lives is not None and lives.status in ENDED:
                raise StoryError(f"{what}: “{lives.instruction}” ended before, as {lives.status}")
            if time.monotonic() > end:
                raise StoryError(f"{what} within {limit_s:g} s")
            self._hear(0.05)

    def _hear(self, wait_s: float) -> None:
        try:
            kind, message = self._client.inbox.get(timeout=wait_s)
        except queue.Empty:
            self.view.since(self._now_s())
            return
        now = message.stamp.sec + message.stamp.nanosec * 1e-9
        for line in self.loops.hear(kind, message, now):
            self._line(line)
        if kind == "processes":
            for p in message.processes:
                # The scheduler keeps the processes of former runs.
                if p.created.sec + p.created.nanosec * 1e-9 >= self._begun_s:
                    source, status = SOURCES.get(p.source, "?"), ProcessStatus(p.status).name
                    self.view.state(now, p.process_id, p.instruction, source, status, ", ".join(p.pause_causes))
        elif kind == "event":
            if message.process_id.startswith(REFLEX_ID):
                self._reflex(now, message)
            self._event(now, message)

    def _reflex(self, now: float, event: SkillEvent) -> None:
        """What no scheduler tells: a reflex's process begins with one notice and ends with the next."""
        name = event.process_id.removeprefix(REFLEX_ID).rpartition("-")[0]
        sentence, status = self._client.reflexes.get(name, name), "IN_PROGRESS"
        if event.type == SkillEvent.NOTICE and (track := self.view.tracks.get(event.process_id)) is not None:
            done = bool(track.bars) and all(bar.outcome == "DONE" for bar in track.bars.values())
            status = "SUCCESS" if done else "FAILED"
        elif event.process_id in self.view.tracks:
            return
        self.view.state(now, event.process_id, sentence, REFLEX, status)

    def _event(self, now: float, event: SkillEvent) -> None:
        key = (event.process_id, event.function)
        if event.type == SkillEvent.CALL_STARTED:
            # Text is scheduled on the channel main, and spoken on the subsystem of the skill that speaks.
            on = self._text_subsystems if event.function == "text" else tuple(event.channels)
            if on != (MAIN,):  # what only orders others takes no subsystem
                self.view.started(now, event.process_id, event.call_id, Bar(event.function, call_label(event), on, 0.0))
        elif event.type == SkillEvent.CALL_ENDED:
            bar = self.view.ended(now, event.process_id, event.call_id, OUTCOMES.get(event.outcome, "?"))
            if bar is not None:
                bar.label, bar.told = call_label(event), event.text  # by now the whole text is known
        elif event.type == SkillEvent.MODEL_ASKED:
            self._thinking[key] = f"{event.function}-{now}"
            bar = Bar(event.function, event.function.upper(), (event.function.upper() + THINKS,), 0.0)
            self.view.started(now, event.process_id, self._thinking[key], bar)
        elif event.type == SkillEvent.MODEL_ANSWERED:
            unwanted = event.error_code == ModelCode.MODEL_CANCELLED
            outcome = "DROPPED" if unwanted else "FAILED" if event.error_code else THOUGHT
            self.view.ended(now, event.process_id, self._thinking.pop(key, ""), outcome)
        elif event.type == SkillEvent.HALTED:
            self.view.halted(now)

    def _now_s(self) -> float:
        return float(self._client.get_clock().now().nanoseconds * 1e-9)

    def _line(self, text: str) -> None:
        now = self.view.since(self._now_s())
        self._console.print(f"{now:7.2f} s  {text}", soft_wrap=True, markup=False, highlight=False)
