# SPDX-License-Identifier: Apache-2.0
"""Strategy `closed_loop` on the virtual clock: the real planning, a small kitchen in which two robots act and that their
cameras show, and a model that says what a test tells it to."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, Literal

from layered_kit import Answer, Asked, Says, ScriptedModel
from PIL import Image as Pillow
from PIL import ImageDraw

from bench.dry_run import ANY_ROBOT
from bench.virtual_clock import VirtualClock
from function_tokens.mapper import Mapper, Refusal
from planners.models.base import Image
from planners.prompts.blocks import Layer
from planners.prompts.prompt import RobotFacts
from planners.strategies.closed_loop.strategy import ClosedLoop
from planners.strategy import Interrupted, Observed, Paused, PlannerEvent, Report, Restarted, Resumed, Task
from skill_kernel import SkillReturn, robot_skill
from skill_kernel.codes import CallCode, Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, ModelEvent, Notice
from skill_kernel.observation.model import Observation
from skill_kernel.skills.registry import SkillRegistry

Thing = Literal["apple", "tea", "cup"]
ArmSpace = Literal["table", "drawer", "bin"]
BaseSpace = Literal["table", "fridge", "sink"]
Point = Literal["in_front_of_table", "in_front_of_fridge"]
COLOURS = {"apple": (220, 20, 20), "tea": (20, 150, 50), "cup": (120, 30, 160)}
PLACES = {"table": (20, 100), "drawer": (120, 100), "bin": (220, 100), "fridge": (20, 20), "sink": (120, 20)}
"""Left upper corner of each space in every picture of 320 times 200 pixels."""
DOORS = {"drawer": "shut", "fridge": "shut"}
OBSERVE_S = 0.1
TAKES_S = {"open": 4.0, "close": 4.0, "pick_from": 3.0, "release_to": 2.0, "go_to": 5.0}


@robot_skill("open", subsystem="arm", nominal_s=4.0, stop_s=0.0)
def open_drawer(what: Literal["drawer"]) -> SkillReturn:
    """Open a drawer."""


@robot_skill("open", subsystem="arm", nominal_s=4.0, stop_s=0.0)
def open_fridge(what: Literal["fridge"]) -> SkillReturn:
    """Open a door."""


@robot_skill("pick_from", subsystem="arm", nominal_s=3.0, stop_s=0.0)
def pick_arm(object: Thing, space: ArmSpace) -> SkillReturn:
    """Pick a thing."""


@robot_skill("pick_from", subsystem="arm", nominal_s=3.0, stop_s=0.0)
def pick_base(object: Thing, space: BaseSpace) -> SkillReturn:
    """Pick a thing."""


@robot_skill("release_to", subsystem="arm", nominal_s=2.0, stop_s=0.0)
def release_arm(space: ArmSpace) -> SkillReturn:
    """Release what the hand holds."""


@robot_skill("release_to", subsystem="arm", nominal_s=2.0, stop_s=0.0)
def release_base(space: BaseSpace) -> SkillReturn:
    """Release what the hand holds."""


@robot_skill("go_to", subsystem="base", nominal_s=5.0, stop_s=0.0)
def go_to(point: Point) -> SkillReturn:
    """Drive to a point."""


@robot_skill("wave", subsystem="arm", nominal_s=1.0, stop_s=0.0)
def wave(speed: float = 1.0) -> SkillReturn:
    """Wave the hand."""


@robot_skill("ask", subsystem=(), nominal_s=3.0, stop_s=0.0, decides=True)
def ask(question: str) -> SkillReturn:
    """Ask somebody."""


SKILLS = {"atlas": [open_drawer, pick_arm, release_arm, wave, ask], "hebe": [open_fridge, pick_base, release_base, go_to]}


def mapper_of(robot: str) -> Mapper:
    """Return the mapper over a robot's skills."""
    return Mapper(ANY_ROBOT, SkillRegistry([f.__robot_skill__ for f in SKILLS[robot]]))  # type: ignore[attr-defined]


@dataclass
class Room:
    """The kitchen as it is: things by the space or robot that has them, and doors."""

    things: dict[str, str] = field(default_factory=lambda: {"apple": "table", "tea": "fridge", "cup": "drawer"})
    doors: dict[str, str] = field(default_factory=lambda: dict(DOORS))

    def in_sight(self, thing: str) -> bool:
        """Return whether no shut door hides it."""
        return self.doors.get(self.things[thing], "open") == "open"

    def hand(self, robot: str) -> str:
        """Return what a robot holds."""
        return next((thing for thing, where in self.things.items() if where == robot), "")

    def picture(self) -> bytes:
        """Return the kitchen as a PNG: a square for each space and, in it, for each thing that is in sight."""
        shown = {thing: where for thing, where in self.things.items() if where in PLACES and self.in_sight(thing)}
        shut = frozenset(door for door, state in self.doors.items() if state == "shut")
        return _drawn(tuple(sorted(shown.items())), shut)


@lru_cache(maxsize=256)
def _drawn(things: tuple[tuple[str, str], ...], shut: frozenset[str]) -> bytes:
    picture = Pillow.new("RGB", (320, 200), (200, 200, 200))
    draw = ImageDraw.Draw(picture)
    for space, (x, y) in PLACES.items():
        draw.rectangle((x, y, x + 70, y + 60), fill=(60, 60, 60) if space in shut else (240, 240, 240))
    for thing, where in things:
        x, y = PLACES[where]
        x += 5 + 20 * list(COLOURS).index(thing)
        draw.rectangle((x, y + 20, x + 15, y + 35), fill=COLOURS[thing])
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return buffer.getvalue()


class View:
    """A robot as the strategy sees it; a `RobotView`."""

    def __init__(self, name: str, kitchen: Kitchen) -> None:
        self._kitchen, self._mapper = kitchen, mapper_of(name)
        skills = list(self._mapper.registry)
        self.about = RobotFacts(name, f"{name} is a robot.", skills, fields={"things": "what it sees"})
        self.routines: Any = SimpleNamespace(list=tuple)
        self.blind = False
        self.pictures: Callable[[], Sequence[Image]] | None = None

    def observation(self) -> Observation:
        return Observation(self._kitchen.seen_s, 0, self._kitchen.seen_s, {})

    def observed(self) -> Mapping[str, Any] | None:
        return None if self.blind else self._kitchen.observed[self.about.name]

    def images(self) -> Sequence[Image]:
        if self.pictures is not None:
            return self.pictures()
        return [] if self.blind else [Image(self._kitchen.room.picture(), self._kitchen.clock.now())]

    def steady_now(self) -> float:
        return self._kitchen.clock.now()

    now_s = steady_now

    def check(self, name: str, attributes: Mapping[str, str]) -> str:
        mapped = self._mapper.map(name, attributes)
        return mapped.message if isinstance(mapped, Refusal) else "" if mapped is not None else f"no function '{name}'"

    def system_prompt(self, make: Callable[[RobotFacts], str]) -> str:
        return make(self.about)


@dataclass(eq=False)
class Call:
    """A call of a robot; a `CallHandle`."""

    robot: str
    skill: str
    arguments: dict[str, Any]
    began_s: float
    ended: CallEvent | None = None
    ended_s: float | None = None
    heard: list[Callable[[CallEvent], None]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.robot}.{self.skill}({', '.join(map(str, self.arguments.values()))})"

    def then(self, callback: Callable[[CallEvent], None]) -> None:
        if self.ended is not None:
            callback(self.ended)
        else:
            self.heard.append(callback)

    def end(self, outcome: Outcome, now: float, code: int = 0, why: str = "", value: str = "") -> None:
        """End it, once."""
        if self.ended is None:
            args = json.dumps(self.arguments)
            self.ended_s = now
            self.ended = CallEvent(
                kind=CallKind.ENDED,
                function=self.skill,
                args_json=args,
                outcome=outcome,
                error_code=code,
                error_msg=why,
                value_json=value,
            )
            for callback in self.heard:
                callback(self.ended)


class Kitchen:
    """One process of the strategy; its `PlannerIO`. `answer` is the model, `before` is called before each call."""

    judge = None

    def __init__(
        self,
        answer: Answer,
        *,
        robots: Sequence[str] = ("hebe", "atlas"),
        instruction: str = "put the apple into the bin",
        room: Room | None = None,
        **settings: Any,
    ) -> None:
        self.clock, self.room = VirtualClock(), room or Room()
        self.model = ScriptedModel(self.clock, answer)
        self.settings: dict[str, Any] = {p.name: p.default for p in ClosedLoop.parameters}
        self.settings |= {"deadline_s": 20.0, "max_output_tokens": 800}
        self.settings |= {name if name in self.settings else f"closed_loop.{name}": v for name, v in settings.items()}
        self.calls: list[Call] = []
        self.told: list[Report] = []
        self.ended: list[tuple[int, str]] = []
        self.halted: set[str] = set()
        self.fails: dict[str, str] = {}
        """Why a call by this text fails, once."""
        self.budget: Callable[[str], tuple[bool, float, str]] = lambda role: (True, 0.0, "")
        self.language_model = True
        self.memory: Sequence[str] = ()
        self.seen_s = 0.0
        self.views = {name: View(name, self) for name in robots}
        self._observe()
        task = Task("p1", instruction, "a test")
        strategy, (first, *others) = ClosedLoop(), self.views.values()
        # One robot alone is planned for in a node of its own.
        begun = strategy.start_team(task, self.views, self) if others else strategy.start(task, first, self)  # type: ignore[arg-type]
        self.planning = begun

    # -- the test's side ----------------------------------------------------------------------------------------------

    def run(self, seconds: float = 300.0) -> Kitchen:
        """Let time pass."""
        self.clock.run(self.clock.now() + seconds)
        return self

    def at(self, seconds: float, do: Callable[[], object]) -> Kitchen:
        """Do something so many seconds from now."""
        self.clock.call_later(seconds, lambda: (do(), None)[1])
        return self

    def hear(self, event: PlannerEvent) -> None:
        self.planning.on(event)

    def pause(self) -> None:
        self.hear(Paused())

    def resume(self) -> None:
        self.hear(Resumed())

    def interrupt(self) -> None:
        """Interrupt the process; 3 s later it is to be planned again."""
        for call in self.running:
            call.end(Outcome.INTERRUPTED, self.clock.now(), int(CallCode.INTERRUPTED_BY), "somebody spoke")
        self.hear(Interrupted("somebody spoke"))
        self.at(3.0, lambda: self.hear(Restarted(())))

    def halt(self, robot: str) -> None:
        """Halt one robot."""
        self.halted.add(robot)
        for call in self.running:
            if call.robot == robot:
                call.end(Outcome.INTERRUPTED, self.clock.now(), int(CallCode.HALTED), "the robot was halted: a person")

    def move(self, thing: str, where: str) -> None:
        """Somebody moves a thing."""
        self.room.things[thing] = where

    @property
    def running(self) -> list[Call]:
        return [call for call in self.calls if call.ended is None]

    def done(self, outcome: str = "DONE") -> list[str]:
        """Return the calls that ended so, in order of their beginning."""
        return [str(call) for call in self.calls if call.ended is not None and call.ended.outcome_name == outcome]

    def asked(self, layer: Layer) -> list[Asked]:
        return self.model.of(layer)

    def notices(self) -> list[str]:
        return [event.text for event in self.told if isinstance(event, Notice)]

    def degraded(self) -> list[str]:
        return [event.layer for event in self.told if isinstance(event, ModelEvent)]

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

    def thinks(self, role: str) -> bool:
        return self.language_model

    def allowance(self, role: str) -> tuple[bool, float, str]:
        return self.budget(role)

    def ask(self, role: str, request: Any, on_text: Any, on_end: Any, *, stream: Any = None) -> Any:
        allowed, _, why = self.budget(role)
        spent = Says(code=int(TaskCode.BUDGET_SPENT), why=why)
        model = self.model if allowed else ScriptedModel(self.clock, lambda asked: spent)
        return model.ask(Layer(role), "p1", request, on_text, on_end)

    def recollect(self, then: Callable[[Sequence[str]], None]) -> None:
        then(self.memory)

    def report(self, report: Report) -> None:
        self.told.append(report)

    def finish(self, code: int = 0, why: str = "") -> None:
        self.ended.append((code, why))

    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> Call:
        call = Call(robot, skill, arguments, self.clock.now())
        self.calls.append(call)
        why = self.fails.pop(str(call), "")
        if robot in self.halted:
            call.end(Outcome.REFUSED, self.clock.now(), int(CallCode.HALTED), "the robot is halted; clear the halt first")
        elif why.startswith("refused"):
            call.end(Outcome.REFUSED, self.clock.now(), int(CallCode.OUT_OF_RANGE), why)
        else:
            self.clock.call_later(TAKES_S.get(skill, 1.0), partial(self._perform, call, why))
        return call

    # -- the world ----------------------------------------------------------------------------------------------------

    def _perform(self, call: Call, why: str) -> None:
        if call.ended is None:
            why = why or self._change(call)
            outcome = Outcome.FAILED if why else Outcome.DONE
            call.end(outcome, self.clock.now(), int(CallCode.SKILL_FAILED) if why else 0, why)

    def _change(self, call: Call) -> str:
        """Change the room as the skill does, or say why it fails."""
        room, given = self.room, call.arguments
        space, thing = given.get("space", ""), given.get("object", "")
        if space and room.doors.get(space, "open") == "shut":
            return f"{space} is shut"
        if call.skill == "open":
            room.doors[given["what"]] = "open"
        elif call.skill == "pick_from" and room.hand(call.robot):
            return f"the hand is full: {room.hand(call.robot)}"
        elif call.skill == "pick_from" and room.things[thing] != space:
            return f"{thing} is not in {space}"
        elif call.skill == "pick_from":
            room.things[thing] = call.robot
        elif call.skill == "release_to" and not room.hand(call.robot):
            return "the hand is empty"
        elif call.skill == "release_to":
            room.things[room.hand(call.robot)] = space
        return ""

    def _observe(self) -> None:
        """Observe as the robots' observers do: ten times a second."""
        self.seen_s, room = self.clock.now(), self.room
        things = {thing: where for thing, where in room.things.items() if where in PLACES and room.in_sight(thing)}
        self.observed = {
            name: {"things": dict(things), "doors": dict(room.doors), "hand": room.hand(name)} for name in ("hebe", "atlas")
        }
        if self.clock.now():
            self.hear(Observed())
        if not getattr(self, "ended", None):
            self.clock.call_later(OBSERVE_S, self._observe)


def plan(*actions: str, subgoal: str = "go on", status: str = "continue") -> str:
    """Return an answer of the planner."""
    lines = "".join(f"\n  - {action}" for action in actions) or " []"
    return f"Thought: so it is\n```yaml\nSubgoal: {subgoal}\nAction Plan:{lines}\nStatus: {status}\n```"


def judgement(suits: bool, feedback: str = "as it looks", region: str = "") -> str:
    """Return an answer of the critic."""
    where = f"\nRegion: {region}" if region else ""
    return f"Thought: I look\n```yaml\nAction Suitability: {suits}\nFeedback: {feedback}{where}\n```"


def answers(plans: Sequence[str], critic: Callable[[Asked], Says | str] | None = None, **says: Any) -> Answer:
    """Return a model: the planner answers in order, then that the task is done; the critic by a function, else always yes."""
    left = list(plans)

    def answer(asked: Asked) -> Says | str:
        if asked.layer is Layer.PLANNER:
            return Says(left.pop(0) if left else plan(subgoal="all is done", status="done"), **says)
        if asked.layer is Layer.CRITIC:
            said = critic(asked) if critic is not None else judgement(True)
            return said if isinstance(said, Says) else Says(said, **says)
        return Says("what is to be seen" if asked.layer is Layer.OBSERVER else "Trajectory: step 1\nSpatial: here", **says)

    return answer
