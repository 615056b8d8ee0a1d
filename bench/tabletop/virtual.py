# SPDX-License-Identifier: Apache-2.0
"""Run the tabletop's trials on a virtual clock: strategy `console` with its interpreter, learning and memory, robot `tabletop`
as it is declared, and a table without physics."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.evaluation.propositions import Moment, Report, evaluate
from bench.tabletop.person import MOST, REMEMBER, YES, correction, is_offer
from bench.tabletop.tasks import Trial
from bench.virtual_call import VirtualCall
from bench.virtual_clock import VirtualClock
from bench.virtual_door import VirtualDoor, settings_of
from function_tokens.mapper import Mapper, Refusal
from function_tokens.markup import value_text
from function_tokens.routines import RoutineStore
from planners.learned import LearnedStore
from planners.memory.lessons import LessonBook
from planners.memory.store import Store
from planners.models.base import Image, ModelRequest
from planners.models.model_call import AnswerEnd, Handle, Model
from planners.people import People
from planners.prompts.blocks import Layer
from planners.prompts.prompt import GrammarOptions, RobotFacts
from planners.scene import Present
from planners.strategies.console.api import SkillCall
from planners.strategies.console.strategy import Console
from planners.strategy import Planning, Task
from skill_kernel.clock import Clock
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.observation.model import Observation
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

ROBOT, PERSON = "tabletop", "the person at the table"
TAKES_S: Mapping[str, float] = {"put_first_on_second": 12.0, "speak": 2.0}
"""Time that a skill takes; others are answered at once [s]."""
AT_ONCE_S, DEADLINE_S = 0.01, 600.0
"""Time of a call that moves nothing, and the limit on what follows one sentence [s]."""
MakeModel = Callable[[Clock], Model]


@dataclass
class Outcomes:
    """Hold what came of a trial. `yields`: the judge's reports, one each time that the robot waits. `talk`: who said what."""

    yields: list[Report] = field(default_factory=list)
    talk: list[tuple[str, str]] = field(default_factory=list)
    corrections: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Reasons for which the robot gave up."""
    asked: int = 0
    confirmed: int = 0

    @property
    def first(self) -> int | None:
        """Return how many corrections it took until the task was done; None where it never was (n of section 4.1)."""
        return next((k for k, report in enumerate(self.yields) if report.success), None)


class Robot:
    """Robot `tabletop` as its file declares it, which never changes."""

    def __init__(self) -> None:
        config = RobotConfig.load(ROBOT)
        registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
        self.mapper = Mapper(config, registry)
        fields = {name: f.role for name, f in config.observation.items() if f.serialise.prompt}
        options = GrammarOptions(config.builtin_names, config.limits)
        self.about = RobotFacts(config.name, config.description, registry, options, fields=fields, examples=config.examples)


@contextmanager
def lessons(folder: Path) -> Iterator[LearnedStore]:
    """Give an empty memory in which the robot keeps what it learns, in a file of this folder."""
    with tempfile.TemporaryDirectory(dir=folder) as own, closing(Store(Path(own) / "memory.db")) as store:
        yield LessonBook(store, ROBOT, wall=time.time)


def perform(trial: Trial, robot: Robot, model: MakeModel, learned: LearnedStore | None, folder: Path) -> Outcomes:
    """Give the task, and correct it until it is done, at most `MOST` times; then have what was learned confirmed. Every trial
    has a console of its own: what went before it is known from `learned` alone, which a restart would keep as well."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        table = _AtTable(trial, robot, model, learned, Path(own))
        try:
            return table.meet()
        finally:
            table.close()


class _AtTable:
    """One trial: the robot at its table, and the person."""

    def __init__(self, trial: Trial, robot: Robot, model: MakeModel, learned: LearnedStore | None, folder: Path) -> None:
        self.trial, self.robot, self.learned, self.folder = trial, robot, learned, folder
        self.table, self.clock = trial.table.copy(), VirtualClock()
        self.model = model(self.clock)
        self.moments = [Moment(0.0, frozenset(self.table.facts()))]
        self.result = Outcomes()
        self.strategy = Console(executor=self._trying)
        self._tasks = 0

    def meet(self) -> Outcomes:
        result, said = self.result, self.trial.instruction
        while True:
            self.say(said)
            report = evaluate(self.trial.criterion, self.moments)
            result.yields.append(report)
            if report.success or len(result.corrections) == MOST:
                break
            said = correction(self.trial, report, len(result.corrections) + 1)
            result.corrections.append(said)
        if result.yields[-1].success and result.corrections and self.learned is not None:
            self._keep()
        return result

    def _keep(self) -> None:
        """Have what was learned from the corrections confirmed, as a person does who saw that it was right."""
        if not self._offered():
            self.say(REMEMBER)
        if self._offered():
            self.say(YES)
            self.result.confirmed += 1

    def _offered(self) -> bool:
        """Return whether the robot has asked since somebody spoke last."""
        heard = max(i for i, (who, _) in enumerate(self.result.talk) if who == PERSON)
        return any(is_offer(text) for who, text in self.result.talk[heard:] if who == ROBOT)

    def say(self, text: str) -> None:
        """Say something to the robot, and wait until it waits for more."""
        self._tasks += 1
        self.result.talk.append((PERSON, text))
        io = _Io(self, f"p{self._tasks}")
        planning: Planning = self.strategy.start(Task(io.process_id, text, PERSON), _View(self), io)
        until = self.clock.now() + DEADLINE_S
        while not io.ended and self.clock.now() < until:
            self.clock.run(self.clock.now() + 1.0)
        if not io.ended:
            self.result.ended.append("the deadline has passed")
        planning.close("what was asked for has ended")
        self.clock.run(self.clock.now() + 1.0)

    def put(self, arguments: Mapping[str, Any], skill: str) -> Any:
        """Let the robot do something."""
        done = self.table.call(skill, arguments)
        if done.ok and skill == "put_first_on_second":
            self.moments.append(Moment(self.clock.now(), frozenset(self.table.facts())))
        return done

    def _trying(self, view: Any) -> Callable[[SkillCall], Any]:
        """Return what an improved interaction is tried at: the same table as it was at the start."""
        table = self.trial.table.copy()

        def call(wanted: SkillCall) -> Any:
            given = dict(wanted.arguments)
            if fault := view.check(wanted.skill, {name: value_text(value) for name, value in given.items()}):
                raise RuntimeError(fault)
            if wanted.skill == "speak":
                return None
            done = table.call(wanted.skill, given)
            if not done.ok:
                raise RuntimeError(done.message)
            return done.value

        return call

    def close(self) -> None:
        """End the interpreters."""
        self.strategy.close()


class _View:
    """`RobotView` of the robot at its table."""

    def __init__(self, at: _AtTable) -> None:
        self._at, self.about = at, at.robot.about
        self.routines = RoutineStore(at.folder / "routines.json", clock=at.clock.now)

    def observation(self) -> Observation:
        return Observation(self._at.clock.now())

    def observed(self) -> Mapping[str, Any]:
        return {"things": {name: list(self._at.table.at(name)) for name in self._at.table.things}}

    def present(self) -> Present:
        return Present(self.observation(), (), (), self._at.clock.now(), self._at.clock.now())

    def images(self) -> Sequence[Image]:
        return ()

    def steady_now(self) -> float:
        return self._at.clock.now()

    now_s = steady_now

    def check(self, name: str, attributes: Mapping[str, str]) -> str:
        mapped = self._at.robot.mapper.map(name, attributes)
        if mapped is None:
            return f"there is no function '{name}'"
        return mapped.message if isinstance(mapped, Refusal) else ""

    def system_prompt(self, make: Callable[[RobotFacts], str]) -> str:
        return make(self.about)


class _Io(VirtualDoor):
    """The door of what follows one sentence."""

    def __init__(self, at: _AtTable, process_id: str) -> None:
        super().__init__(at.clock, People(), settings_of(at.strategy.parameters, deadline_s=60.0), process_id)
        self._at, self.folder, self.learned = at, at.folder / "console", at.learned

    def ask(
        self,
        role: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream: Any = None,
    ) -> Handle:
        self._at.result.asked += 1
        return self._at.model.ask(Layer(role), self.process_id, request, on_text, on_end)

    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> VirtualCall:
        handle = VirtualCall()
        fault = _View(self._at).check(skill, {name: value_text(value) for name, value in arguments.items()})
        event = CallEvent(
            kind=CallKind.ENDED, process_id=self.process_id, function=skill, args_json=json.dumps(arguments), robot=ROBOT
        )

        def end() -> None:
            if fault:
                code = int(CallCode.INVALID_ARGUMENT)
                handle.end(replace(event, outcome=Outcome.REFUSED, error_code=code, error_msg=fault))
                return
            if skill == "speak":
                self._at.result.talk.append((ROBOT, str(arguments.get("text", ""))))
                handle.end(replace(event, outcome=Outcome.DONE))
                return
            done = self._at.put(arguments, skill)
            if done.ok:
                value = "" if done.value is None else json.dumps(done.value)
                handle.end(replace(event, outcome=Outcome.DONE, message=done.message, value_json=value))
            else:
                code = int(CallCode.SKILL_FAILED)
                handle.end(replace(event, outcome=Outcome.FAILED, error_code=code, error_msg=done.message))

        self.clock.call_later(AT_ONCE_S if fault else TAKES_S.get(skill, AT_ONCE_S), end)
        return handle

    def unavailable(self, robot: str) -> str:
        return ""

    def finished(self, code: int, why: str) -> None:
        if code:
            self._at.result.ended.append(why)
