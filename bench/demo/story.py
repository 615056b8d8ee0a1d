# SPDX-License-Identifier: Apache-2.0
"""Kalos's demonstration: a task in plain words, planned by four loops; another one interrupts and gives back, a reflex does so
too, and a question is answered on the way."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from ghostshell.action import RunTask
from ghostshell.msg import KernelState, ReflexState, ReflexStateArray
from ghostshell.srv import QueryMemory
from nav_msgs.msg import Odometry
from rich.console import Console
from std_srvs.srv import SetBool, Trigger

from bench.demo.processes import ProcessView, paused_by
from function_tokens.run_model import REFLEX, ProcessRun
from ghostshell_ros.cli.run_view import RunListener, RunView
from ghostshell_ros.runtime.goal_client import GoalClient
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.qos import LATCHED, SENSORS
from ghostshell_ros.wire.values import seconds, yaw_of
from skill_kernel.codes import Outcome
from skill_kernel.roles import Act, key_role
from skill_kernel.skills.drivers import Pose2D

TASK = (
    "Go to the lounge and look for a ball there. If you find one, walk up to it and bark twice. If there is none, return to "
    "the start and sit down."
)
LOOK = "Stop, check what is on your left, then resume."
QUESTION = "How many places have you explored?"

LOOK_X_M = 2.0
"""So far along the hallway it is asked for the picture."""
CROSSING_X_M = 7.0
"""Place at which the person steps into the hallway."""
AHEAD_M = (1.2, 1.6)
"""The person sets out when Kalos comes so near, and then stands in front of it about 2 s later."""
REFLEX_S = 20.0
"""So long somebody stands in its way at most, or beside it."""
WALK_S = 180.0
"""Longest wait for Kalos to come somewhere, six times what it takes: a busy machine simulates more slowly."""
PASSES = 2
"""Passes of Kalos after which somebody must have stepped in its way."""

DRIVERS = ("base_driver", "posture_driver", "speak_driver", "play_sound_driver")
"""Those the story needs."""


class StoryError(RuntimeError):
    """The story went another way than told; the message says what did not happen."""


class StoryClient(RunListener):
    """Says instructions to a robot and hears what becomes of all its processes."""

    def __init__(self, robot: str) -> None:
        super().__init__(robot, "ghostshell_story")
        self.pose: Pose2D | None = None
        self.halted = False
        self.reflexes: dict[str, str] = {}
        """Sentences of those that are watching now, by name."""
        self._kernel_seen = False
        self._task_ready = False
        self._drivers: dict[str, bool] = {}
        self._task = GoalClient(self, RunTask, "run_task")
        self._halt = self.create_client(Trigger, "halt")
        self._person = self.create_client(SetBool, "world/person")
        self._memory = self.create_client(QueryMemory, "/query_memory")
        self.create_subscription(KernelState, "kernel_state", self._on_kernel, LATCHED)
        self.create_subscription(ReflexStateArray, "reflex_states", self._on_reflexes, LATCHED)
        self.create_subscription(DiagnosticArray, "driver_states", self._on_drivers, LATCHED)
        self.create_subscription(Odometry, "odom", self._on_odometry, SENSORS)
        self.steady_timer(0.1, self._look)
        self._lacking = "the robot"

    @property
    def lacking(self) -> str:
        """Return what the story needs and what is not there yet; empty when it can begin."""
        return self._lacking

    def say(self, instruction: str) -> None:
        """Send a task; it goes on whatever becomes of the ones before."""
        goal = RunTask.Goal(instruction=instruction, sender="demonstration", door="action")
        goal = signed(self, "run_task", goal, key_role(Act.INSTRUCT))
        self.call_soon(lambda: self._task.send(goal, on_end=lambda end, result: None))

    def halt(self) -> None:
        """Latch the safety gate."""
        self.call_soon(lambda: self._halt.call_async(Trigger.Request()))

    def send_person(self, forth: bool) -> None:
        """Let the simulated person walk into the hallway, or back to where nobody sees them."""
        self.call_soon(lambda: self._person.call_async(SetBool.Request(data=forth)))

    def _look(self) -> None:
        active = {name for name, is_active in self._drivers.items() if is_active}
        needs = {
            "the skill kernel": self._kernel_seen,
            "the process scheduler": self._task.server_is_ready(),
            "the safety gate": self._halt.service_is_ready(),
            **{name: name in active for name in DRIVERS},
            "odometry": self.pose is not None,
            "a reflex that is watching": bool(self.reflexes),
            "the simulation's person": self._person.service_is_ready(),
            "the memory": self._memory.service_is_ready(),
        }
        self._lacking = ", ".join(what for what, there in needs.items() if not there)

    def _on_kernel(self, message: KernelState) -> None:
        self._kernel_seen, self.halted = True, message.halted

    def _on_reflexes(self, message: ReflexStateArray) -> None:
        watching = (r for r in message.reflexes if r.state == ReflexState.APPROVED and r.holds != ReflexState.UNKNOWN)
        self.reflexes = {r.name: r.sentence for r in watching}

    def _on_drivers(self, message: DiagnosticArray) -> None:
        self._drivers = {s.name.rsplit("/", 1)[-1]: s.level == DiagnosticStatus.OK for s in message.status}

    def _on_odometry(self, message: Odometry) -> None:
        pose = message.pose.pose
        self.pose = Pose2D(pose.position.x, pose.position.y, yaw_of(pose.orientation))


class Story:
    """Plays the demonstration, or an act of it, and keeps what was seen in `view`. On the main thread."""

    def __init__(self, client: StoryClient, text_subsystems: tuple[str, ...], console: Console | None = None) -> None:
        self._client = client
        self._console = console or Console()
        self.loops = RunView(self._client.now_s())
        self.view = ProcessView(self.loops.model, text_subsystems)

    def play(self) -> None:
        """Tell the whole story. Raises StoryError when a part of it does not come about in time."""
        task = self.say(TASK, "", 20.0)
        self._until(lambda: self._faces(1.0) and self._at.x > LOOK_X_M, WALK_S, "it does not walk along the hallway", task)
        look = self.say(LOOK, "", 20.0)
        self._until(lambda: look.ended, 90.0, f"“{LOOK}” does not end")
        self._until(lambda: task.status == "IN_PROGRESS", 10.0, "the search does not go on after the look", task)
        self.ask(QUESTION, task)
        self.step_in_front(task)
        self._until(lambda: task.ended, WALK_S, "the search does not end")
        if task.status != "SUCCESS":
            raise StoryError(f"the search ended as {task.status}: {task.why}")
        self._go_on(1.0)

    def step_in_front(self, walk: ProcessRun) -> ProcessRun:
        """Let a person step in its way, a reflex step it back, the person leave, and Kalos walk on. Return the process of the
        reflex. Raises StoryError."""
        states = len(walk.states)
        acting = self._meet(walk)
        self._until(lambda: acting.ended, 40.0, "the reflex does not end", walk)
        if acting.status != "SUCCESS":
            raise StoryError(f"the reflex “{acting.instruction}” ended as {acting.status}")
        self._until(lambda: walk.status == "IN_PROGRESS", 10.0, "the walk does not go on after the reflex", walk)
        if not paused_by(walk, "s0", states):
            raise StoryError("the reflex acted, but the walk was not paused for it")
        self._walks(0.4, walk)
        return acting

    def ask(self, question: str, walk: ProcessRun) -> str:
        """Ask the memory while Kalos walks: its answer, which it has spoken walking on. Raises StoryError."""
        states, came_from = len(walk.states), self._at
        asked = self.say(question, "query_memory", 20.0)
        call = self.view.running(asked, "query_memory")
        assert call is not None
        self._until(lambda: asked.ended, 60.0, f"“{question}” is not answered", walk)
        if call.outcome is not Outcome.DONE or "not said" in call.message:
            raise StoryError(f"“{question}” was not answered aloud: {call.message or call.outcome}")
        if len(walk.states) != states:
            raise StoryError("the walk was interrupted by the question")
        if self._apart(came_from) < 0.2:
            raise StoryError(f"it did not walk on while it answered: {self._apart(came_from):.2f} m")
        self.view.notes[asked.process_id] = call.message
        return call.message

    def say(self, instruction: str, function: str, limit_s: float) -> ProcessRun:
        """Give an instruction and wait until its process runs `function`, or anything with "". Raises StoryError."""
        before = set(self.view.processes)
        self._line(f"says: {instruction}")
        self._client.say(instruction)
        self._until(lambda: bool(self._new(before)), 10.0, f"no process was made of “{instruction}”")
        track = self._new(before)[0]
        self._until(
            lambda: self.view.running(track, function) is not None if function else bool(self.view.acts(track)),
            limit_s,
            f"{function or 'it'} does not begin",
            track,
        )
        return track

    def _meet(self, walk: ProcessRun) -> ProcessRun:
        """Send the person when Kalos comes, and back when a reflex of it acts: the process of that."""
        for left in reversed(range(PASSES)):
            self._until(self._comes_to_crossing, WALK_S, "it does not come where the person steps into the hallway", walk)
            before = set(self.view.processes)
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

    def _acting(self, before: set[str], walk: ProcessRun) -> ProcessRun:
        """Return the process of a reflex that is new and has called a skill."""
        self._until(
            lambda: any(self.view.acts(t) for t in self._new(before, REFLEX)), REFLEX_S, "no reflex acts on the person", walk
        )
        return next(t for t in self._new(before, REFLEX) if self.view.acts(t))

    def _new(self, before: set[str], source: str = "USER") -> list[ProcessRun]:
        return [t for name, t in self.view.processes.items() if name not in before and t.source == source]

    @property
    def _at(self) -> Pose2D:
        assert self._client.pose is not None, "the story begins when there is odometry"
        return self._client.pose

    def _apart(self, place: Pose2D) -> float:
        return math.dist((place.x, place.y), (self._at.x, self._at.y))

    def _faces(self, along: float) -> bool:
        """Return whether it is in the hallway and looks along it: 1 to the east, -1 to the west."""
        return abs(self._at.y) < 0.5 and along * math.cos(self._at.yaw) > 0.9

    def _comes_to_crossing(self) -> bool:
        return any(self._faces(a) and AHEAD_M[0] < a * (CROSSING_X_M - self._at.x) < AHEAD_M[1] for a in (1.0, -1.0))

    def _walks(self, metres: float, walk: ProcessRun) -> None:
        start = self._at
        self._until(lambda: self._apart(start) > metres, 60.0, f"it does not walk {metres:g} m", walk)

    def _go_on(self, seconds: float) -> None:
        """For those who watch."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._hear(min(left, 0.1))

    def _until(self, come: Callable[[], bool], limit_s: float, what: str, lives: ProcessRun | None = None) -> None:
        """Hear until it has come; StoryError with `what` when it has not in time, or when `lives` ends before."""
        end = time.monotonic() + limit_s
        while not come():
            if lives is not None and lives.ended:
                raise StoryError(f"{what}: “{lives.instruction}” ended before, as {lives.status}")
            if time.monotonic() > end:
                raise StoryError(f"{what} within {limit_s:g} s")
            self._hear(0.05)

    def _hear(self, wait_s: float) -> None:
        try:
            kind, message = self._client.inbox.get(timeout=wait_s)
        except queue.Empty:
            self.view.since(self._client.now_s())
            return
        now = message.stamp_s if kind == "event" else seconds(message.stamp)
        self.view.since(now)
        for line in self.loops.hear(kind, message, now):
            self._line(line)

    def _line(self, text: str) -> None:
        now = self.view.since(self._client.now_s())
        self._console.print(f"{now:7.2f} s  {text}", soft_wrap=True, markup=False, highlight=False)
