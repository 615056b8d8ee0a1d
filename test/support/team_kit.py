# SPDX-License-Identifier: Apache-2.0
"""Strategy `team` on the virtual clock: the real planning, robots whose calls take 5 s, people who answer as a test says, and
agents that say what a test tells them to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kitchen_kit import Call
from layered_kit import Asked, Says, ScriptedModel

from bench.dry_run import ANY_ROBOT
from bench.virtual_clock import VirtualClock
from function_tokens.mapper import Mapper, Refusal
from planners.models.base import Image
from planners.people import People, Person, read_reply
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport, RobotFacts
from planners.strategies.team.strategy import Team
from planners.strategy import Heard, PlannerEvent, Report, Task
from skill_kernel import SkillReturn, robot_skill
from skill_kernel.abilities import Abilities
from skill_kernel.codes import AskCode, CallCode, Outcome
from skill_kernel.events import Notice, NoticeKind
from skill_kernel.skills.registry import SkillRegistry

CALL_S, ANSWER_S = 5.0, 3.0


@robot_skill("navigate_to", subsystem="base", nominal_s=5.0, stop_s=0.0)
def navigate_to(place: str) -> SkillReturn:
    """Go to a place."""


@robot_skill("pick_up", subsystem="arm", nominal_s=5.0, stop_s=0.0)
def pick_up(item: str) -> SkillReturn:
    """Pick up an item."""


@robot_skill("say", subsystem="voice", nominal_s=5.0, stop_s=0.0)
def say(person: str, text: str) -> SkillReturn:
    """Say something to a person."""


@robot_skill("announce", subsystem="voice", nominal_s=5.0, stop_s=0.0, speaks_text=True)
def announce(text: str) -> SkillReturn:
    """Say something aloud."""


_SKILLS = (navigate_to, pick_up, say, announce)
MAPPER = Mapper(ANY_ROBOT, SkillRegistry([f.__robot_skill__ for f in _SKILLS]))  # type: ignore[attr-defined]


class View:
    """A robot as the strategy sees it; a `RobotView`."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self.about = RobotFacts(
            name, "A robot.", list(MAPPER.registry), abilities=Abilities(speed_m_s=0.5, arms=1, payload_kg=2.0)
        )
        self.steady_now = now
        self.pictures: Sequence[Image] = ()
        self.looked: list[threading.Thread] = []
        """Threads on which somebody looked at the pictures."""

    def images(self) -> Sequence[Image]:
        self.looked.append(threading.current_thread())
        return self.pictures

    def observation(self) -> None:
        return None

    observed = observation

    def check(self, name: str, attributes: Mapping[str, str]) -> str:
        mapped = MAPPER.map(name, attributes)
        return mapped.message if isinstance(mapped, Refusal) else ""

    def system_prompt(self, make: Callable[[RobotFacts], str]) -> str:
        return make(self.about)


def steps(*skills: str, first: int = 1, **deps: int | Sequence[int]) -> str:
    """Return a planner's answer: one step a skill, each with the dependencies named by its number (`s2=1`)."""
    made = [{"step": n, "skill": skill, "dep": deps.get(f"s{n}", [])} for n, skill in enumerate(skills, first)]
    return json.dumps({"thought": "so it is", "steps": made})


def assigned(*agents: str, calls: Sequence[str] = (), first: int = 1, why: str = "it is needed") -> str:
    """Return an assigner's answer: an agent and a call a step; robots go to the lab where nothing is said."""
    given = [*calls, *[""] * len(agents)]
    made = [
        {"step": n, "agent": agent, "call": given[n - first] or 'navigate_to(place="lab")', "why": why}
        for n, agent in enumerate(agents, first)
    ]
    return json.dumps({"assignments": made})


DEFAULTS = {
    "CLARIFY": json.dumps({"clear": True}),
    "REVIEW": json.dumps({"flag": "Y", "thought": "all is done", "summary": "done"}),
    Layer.PERCEIVER: json.dumps({"perception": ["the lab is open"]}),
    Layer.PLANNER: json.dumps({"thought": "nothing is missing", "steps": []}),
    Layer.VALIDATOR: json.dumps({"verdict": "pass", "thought": "it fits"}),
}


class Office:
    """One process of the strategy; its `PlannerIO`.

    `says` holds for an agent, or the manager's CLARIFY or REVIEW, its answers in order, then what it always says. `replies`
    holds for each person what it answers in order; None is silence, as is all that comes after the last.
    """

    judge = None

    def __init__(
        self,
        says: Mapping[str, Sequence[str]],
        *,
        replies: Mapping[str, Sequence[str | None]] | None = None,
        people: Mapping[str, Person] | None = None,
        robots: Sequence[str] = ("base", "dog"),
        instruction: str = "go to the lab",
        sender: str = "Wang",
        done: Sequence[CallReport] = (),
        before: Callable[[People], object] = lambda people: None,
        **settings: Any,
    ) -> None:
        self.clock = VirtualClock()
        self.says = {key: list(answers) for key, answers in says.items()}
        self.replies = {name: list(told) for name, told in (replies or {}).items()}
        self.model = ScriptedModel(self.clock, self._answer)
        known = people if people is not None else {"Wang": Person(), "Li": Person(place="meeting_room"), "Bo": Person()}
        self.day_s = 36_000.0
        self.people = People(known, now=self.clock.now, day_s=lambda: self.day_s + self.clock.now())
        before(self.people)
        self.settings: dict[str, Any] = {p.name: p.default for p in Team.parameters}
        self.settings |= {"deadline_s": 20.0, "max_output_tokens": 800} | {f"team.{name}": v for name, v in settings.items()}
        self.calls: list[Call] = []
        self.asked: list[Call] = []
        self.told: list[Report] = []
        self.ended: list[tuple[int, str]] = []
        self.fails: dict[str, str] = {}
        """Why a call by this text fails, once."""
        self.busy: dict[str, int] = {}
        """How often a call by this text finds that its robot does something else."""
        self.takes: dict[str, float] = {}
        """How long a call by this text takes [s]."""
        self.lost: dict[str, str] = {}
        self.memory: Sequence[str] = ()
        self.views = {name: View(name, self.clock.now) for name in robots}
        task = Task("p1", instruction, sender, done)
        self.planning = Team().start_team(task, self.views, self)  # type: ignore[arg-type]

    # -- the test's side ----------------------------------------------------------------------------------------------

    def run(self, seconds: float = 600.0) -> Office:
        """Let time pass."""
        self.clock.run(self.clock.now() + seconds)
        return self

    def at(self, seconds: float, do: Callable[[], object]) -> Office:
        """Do something so many seconds from now."""
        self.clock.call_later(seconds, lambda: (do(), None)[1])
        return self

    def hear(self, event: PlannerEvent) -> None:
        self.planning.on(event)

    def chat(self, person: str, text: str, *, private: bool = False) -> None:
        """Let somebody say something."""
        self.people.hear(person, text, private=private)
        self.hear(Heard(self.people.said(person)[-1]))

    def lose(self, robot: str, why: str) -> None:
        """Let a robot take no calls, because it is `why`: those that it has end as when its kernel falls silent."""
        self.lost[robot] = why
        for call in self.calls:
            if call.robot == robot:
                call.end(Outcome.FAILED, self.clock.now(), int(CallCode.KERNEL_UNAVAILABLE), "the skill kernel is silent")

    def prompts(self, layer: Layer, block: str = "") -> list[Asked]:
        return [asked for asked in self.model.of(layer) if not block or block in asked.blocks]

    def all_text(self) -> str:
        """Return all that any agent was shown."""
        return "\n".join(asked.request.system + asked.request.messages[-1].text for asked in self.model.questions)

    def notices(self, kind: NoticeKind = NoticeKind.MESSAGE) -> list[str]:
        return [event.text for event in self.told if isinstance(event, Notice) and event.kind is kind]

    def requests(self) -> list[tuple[str, str]]:
        return [(call.arguments["person"], call.arguments["text"]) for call in self.asked if call.ended_s != call.began_s]

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

    def _answer(self, asked: Asked) -> Says | str:
        block = next((one for one in ("CLARIFY", "REVIEW") if one in asked.blocks), "")
        key = block if asked.layer is Layer.MANAGER else asked.layer
        left = self.says.get(key, [])
        return left.pop(0) if left else DEFAULTS[key]

    def thinks(self, role: str) -> bool:
        return True

    def allowance(self, role: str) -> tuple[bool, float, str]:
        return True, 0.0, ""

    def ask(self, role: str, request: Any, on_text: Any, on_end: Any, *, stream: Any = None) -> Any:
        return self.model.ask(Layer(role), "p1", request, on_text, on_end)

    def recollect(self, then: Callable[[Sequence[str]], None]) -> None:
        then(self.memory)

    def work(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(work()))
        thread.start()
        thread.join(10.0)
        self.clock.call_later(0.1, lambda: None if self.ended else then(made[0]))

    def report(self, report: Report) -> None:
        self.told.append(report)

    def stop(self, why: str, then: Callable[[], None]) -> None:
        for call in (*self.calls, *self.asked):
            if call.ended is None and call in self.asked:
                self.people.closed(call.arguments["person"])
            call.end(Outcome.INTERRUPTED, self.clock.now(), int(CallCode.INTERRUPTED_BY), why)
        self.clock.call_later(0.0, then)

    def finish(self, code: int = 0, why: str = "") -> None:
        self.ended.append((code, why))

    def unavailable(self, robot: str) -> str:
        return self.lost.get(robot, "") if robot in self.views else "out of reach"

    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> Call:
        call = Call(robot, skill, arguments, self.clock.now())
        if skill == "ask" and not robot:
            self._ask_person(call)
            return call
        if self.busy.get(str(call), 0):
            self.busy[str(call)] -= 1
            call.end(Outcome.REFUSED, self.clock.now(), int(CallCode.SUBSYSTEM_HELD), f"{robot} does something else")
            return call
        self.calls.append(call)
        self.clock.call_later(self.takes.get(str(call), CALL_S), partial(self._perform, call, self.fails.pop(str(call), "")))
        return call

    def _perform(self, call: Call, why: str) -> None:
        outcome = Outcome.FAILED if why else Outcome.DONE
        call.end(outcome, self.clock.now(), int(CallCode.SKILL_FAILED) if why else 0, why)

    def _ask_person(self, call: Call) -> None:
        self.asked.append(call)
        person, within = call.arguments["person"], call.arguments["within"]
        if why := person and self.people.refusal(person):
            call.end(Outcome.REFUSED, self.clock.now(), int(AskCode.PERSON_BUSY), why)
            return
        self.people.opened(person)
        left = self.replies.get(person, [])
        told = left.pop(0) if left else None
        if told is None:
            self.clock.call_later(within, partial(self._replied, call, None))
        else:
            self.clock.call_later(ANSWER_S, partial(self._replied, call, told))

    def _replied(self, call: Call, told: str | None) -> None:
        person, now = call.arguments["person"], self.clock.now()
        self.people.closed(person)
        if told is None:
            call.end(Outcome.FAILED, now, int(AskCode.NO_ANSWER), "nobody answered in time")
            return
        reply = read_reply(told, [name for name in self.people.known if name != person])
        value = {"answer": reply.kind.value, "text": told, "person": person, "instead": reply.instead}
        call.end(Outcome.DONE, now, value=json.dumps(value))


def ends(office: Office) -> tuple[int, str]:
    """Return the one end of the process."""
    (end,) = office.ended
    return end
