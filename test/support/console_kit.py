# SPDX-License-Identifier: Apache-2.0
"""Strategy `console` on the virtual clock: the real planning and the real interpreter, a robot that takes its time, and a model
that says what a test tells it to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from layered_kit import Asked, Says, ScriptedModel

from bench.virtual_clock import VirtualClock
from planners.learned import LearnedStore
from planners.models.base import ModelRequest
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport, RobotFacts
from planners.strategies.console.session import Session
from planners.strategies.console.strategy import Console
from planners.strategies.console.transcript import written
from planners.strategy import Interrupted, Paused, PlannerEvent, Report, Restarted, Resumed, Task
from skill_kernel import Content, SkillReturn, robot_skill
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallEvent, CallKind, ModelEvent, Notice
from skill_kernel.skills.skill import Skill

TAKES_S = 1.0
WORK_S = 0.001


@robot_skill("move_to", subsystem="base")
def move_to(place: str, speed: float = 1.0) -> SkillReturn:
    """Drive to a place."""


@robot_skill("list_places", subsystem="main")
def list_places() -> SkillReturn:
    """Return the names of all places."""


@robot_skill("put", subsystem="arm")
def put(what: str, where: Literal["table", "bin"]) -> SkillReturn:
    """Put a thing somewhere."""


@robot_skill("ask", subsystem=(), decides=True)
def ask(question: Content) -> SkillReturn:
    """Ask somebody."""


@robot_skill("speak", subsystem="main", speaks_text=True)
def speak(text: Content) -> SkillReturn:
    """Say a text aloud."""


SKILLS: list[Skill] = [f.__robot_skill__ for f in (move_to, list_places, put, ask, speak)]  # type: ignore[attr-defined]
PLACES = ["kitchen", "mobile-kitchen-counter_0"]
SETTINGS = {"history_tokens": 3000, "max_output_tokens": 2048, "deadline_s": 60.0}
SETTINGS |= {p.name: p.default for p in Console.parameters}


def answer(call: str, arguments: Mapping[str, Any]) -> SkillReturn:
    """Do what the small robot can do."""
    if call == "list_places":
        return SkillReturn.success("two places", value=PLACES)
    if call == "move_to" and arguments["place"] not in PLACES:
        return SkillReturn.failure(f"there is no place '{arguments['place']}'; use one that list_places() returns")
    if call == "ask":
        return SkillReturn.success("the red one", value="the red one")
    return SkillReturn.success()


class Call:
    """A call of the robot; a `CallHandle`."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.name, self.arguments = name, arguments
        self.ended: CallEvent | None = None
        self._callbacks: list[Callable[[CallEvent], None]] = []

    def then(self, callback: Callable[[CallEvent], None]) -> None:
        self._callbacks.append(callback)

    def end(self, outcome: Outcome, message: str = "", error: str = "", value: Any = None, code: int = 0) -> None:
        """End it, once."""
        if self.ended is not None:
            return
        said = {"function": self.name, "args_json": json.dumps(self.arguments), "outcome": outcome, "message": message}
        value_json = "" if value is None else json.dumps(value)
        self.ended = CallEvent(kind=CallKind.ENDED, error_msg=error, error_code=code, value_json=value_json, **said)
        for callback in self._callbacks:
            callback(self.ended)


@dataclass
class Robot:
    """The robot of several tasks, one after the other; a `RobotView`."""

    folder: Path
    examples: Mapping[str, str] = field(default_factory=dict)
    strategy: Console = field(default_factory=Console)
    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))
    act: Callable[[str, Mapping[str, Any]], SkillReturn] = answer
    memory: Sequence[str] = ()
    seen: dict[str, Any] = field(default_factory=lambda: {"room": "hall"})
    skills: Sequence[Skill] = tuple(SKILLS)
    learned: LearnedStore | None = None
    check: Callable[[str, Mapping[str, str]], str] = field(default=lambda name, attributes: "")

    def __post_init__(self) -> None:
        self.about = RobotFacts("toto", "", self.skills, examples={"console": self.examples})

    def observed(self) -> dict[str, Any]:
        return self.seen

    def restart(self) -> None:
        """End the node as kill -9 does: what was in memory is gone, and so are the interpreters."""
        for session in self.sessions():
            session.close()
        self.strategy = Console()

    def sessions(self) -> list[Session]:
        """Return the consoles that there are."""
        desk = self.strategy._desk
        return [*desk._taken.values(), *([desk._idle] if desk._idle is not None else [])]


class Run:
    """One task: its `PlannerIO`. `replies` are what the model writes, in order, or a function that does."""

    def __init__(
        self,
        robot: Robot,
        instruction: str,
        replies: Sequence[str | Says] | Callable[[Asked], str | Says],
        *,
        process_id: str = "p1",
        functions: Mapping[str, str] | None = None,
        improves: Sequence[str] = (),
        sender: str = "a test",
        done: Sequence[CallReport] = (),
    ) -> None:
        self.robot, self.clock = robot, VirtualClock()
        self.settings, self.folder = robot.settings, robot.folder
        self.judge = None
        given = iter(replies) if not callable(replies) else None
        self._reply = replies if callable(replies) else lambda asked: next(given or iter(()), "")
        self._functions = dict(functions or {})
        self._improves = iter(improves)
        self.learned = robot.learned
        self.model = ScriptedModel(self.clock, self._answer)
        self.calls: list[Call] = []
        self.ended: list[tuple[int, str]] = []
        self.told: list[str] = []
        self.degraded: list[str] = []
        self.budget: tuple[bool, float, str] = (True, 0.0, "")
        self.planning = robot.strategy.start(Task(process_id, instruction, sender, done), robot, self)  # type: ignore[arg-type]

    def _answer(self, asked: Asked) -> str | Says:
        if asked.layer is Layer.IMPROVE:
            return next(self._improves, "")
        if asked.layer is Layer.FUNCTIONS:
            return next((text for call, text in self._functions.items() if f": {call}." in asked.request.messages[-1].text), "")
        return self._reply(asked)

    # -- the test's side ----------------------------------------------------------------------------------------------

    def run(self, until_s: float | None = None) -> Run:
        """Let time pass, and close the process once its plan has ended."""
        self.clock.run(until_s)
        if self.ended and self.planning is not None:
            self.close("the process has ended")
        return self

    def close(self, why: str) -> None:
        """End the process."""
        planning, self.planning = self.planning, None  # type: ignore[assignment]
        planning.close(why)
        self.clock.run(self.clock.now() + 0.1)

    def hear(self, event: PlannerEvent) -> None:
        """Tell the strategy of something."""
        self.planning.on(event)

    def interrupt(self, cause: str, *, restarts: bool = True) -> None:
        """Void what was planned, as a halt does."""
        for call in self.calls:
            call.end(Outcome.INTERRUPTED, error=cause, code=int(CallCode.INTERRUPTED_BY))
        self.hear(Interrupted(cause))
        if restarts:
            done = [CallReport.of(call.ended) for call in self.calls if call.ended is not None]
            self.clock.call_later(0.1, lambda: self.hear(Restarted(done)))

    def pause(self, at_s: float, for_s: float) -> None:
        """Pause the process for some time."""
        self.clock.call_later(at_s, lambda: self.hear(Paused()))
        self.clock.call_later(at_s + for_s, lambda: self.hear(Resumed()))

    @property
    def session(self) -> Session:
        """Return the console of the task."""
        return self.robot.sessions()[0]

    @property
    def transcript(self) -> str:
        """Return what the console shows."""
        return written(self.session.entries)

    @property
    def done(self) -> list[str]:
        """Return what was called, in order."""
        return [f"{call.name}({', '.join(map(str, call.arguments.values()))})" for call in self.calls]

    def prompts(self, layer: Layer = Layer.CONSOLE) -> list[str]:
        """Return what the model was asked, the front left out."""
        return [asked.request.messages[-1].text for asked in self.model.of(layer)]

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

    def thinks(self, role: str) -> bool:
        return True

    def allowance(self, role: str) -> tuple[bool, float, str]:
        return self.budget

    def ask(self, role: str, request: ModelRequest, on_text: Any, on_end: Any) -> Any:
        return self.model.ask(Layer(role), "p1", request, on_text, on_end)

    def work(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        value = work()
        self.clock.call_later(WORK_S, lambda: then(value) if not self.ended else None)

    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> Call:
        call = Call(skill, arguments)
        self.calls.append(call)

        def end() -> None:
            told = self.robot.act(skill, arguments)
            outcome = Outcome.DONE if told.ok else Outcome.FAILED
            call.end(outcome, told.message if told.ok else "", "" if told.ok else told.message, told.value)

        self.clock.call_later(TAKES_S, end)
        return call

    def recollect(self, then: Callable[[Sequence[str]], None]) -> None:
        then(self.robot.memory)

    def report(self, report: Report) -> None:
        if isinstance(report, ModelEvent):
            self.degraded.append(f"{report.layer} {report.fallback}: {report.error_msg}")
        else:
            assert isinstance(report, Notice)
            self.told.append(report.text)

    def finish(self, code: int = 0, why: str = "") -> None:
        if not self.ended:
            self.ended.append((code, why))


@contextmanager
def robots(folder: Path, **settings: Any) -> Iterator[Robot]:
    """Give a robot, and end the interpreters of its consoles."""
    robot = Robot(folder, **settings)
    yield robot
    for session in robot.sessions():
        session.close()
