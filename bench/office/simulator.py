# SPDX-License-Identifier: Apache-2.0
"""Let time pass in an office: robots perform skills, people answer and do what they have accepted, on a virtual clock. Several
tasks may run in one office."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from bench.evaluation.propositions import Moment
from bench.evaluation.virtual_models import WIRE_S
from bench.office.acts import Act
from bench.office.judging import moment
from bench.office.people import ANSWER_S, DEED_S, DONE, reply
from bench.office.skills import SKILLS, skills_of, takes_s
from bench.office.vocabulary import PLACES, Profile
from bench.office.world import Code, Deed, Failure, Office
from bench.virtual_call import VirtualCall
from bench.virtual_clock import VirtualClock
from function_tokens.routines import RoutineStore
from planners.models.base import Image
from planners.people import ENDED, People, Person, read_reply
from planners.prompts.prompt import NO_LIMITS, RobotFacts
from planners.scene import Present
from skill_kernel import SkillReturn
from skill_kernel.abilities import Abilities
from skill_kernel.codes import AskCode, CallCode, Outcome
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.observation.model import Observation
from skill_kernel.robot import WaypointConfig
from skill_kernel.skills.arguments import ArgumentError, bind

FIELDS = {
    "place": "The place where the robot is.",
    "has": "What it holds or carries.",
    "lies_here": "What it sees lying where it is.",
    "locker": "Its locker: shut or open, and the code that opens it.",
}
TRIES_S = 2.0
"""A skill that cannot be done is told so after so long."""
NOON_S = 43_200.0
_FOLDER = "/nonexistent"


@lru_cache(maxsize=64)
def facts_of(name: str, profile: Profile) -> RobotFacts:
    """Return what prompts tell of a robot, as of one that a file declares."""
    places = {place: WaypointConfig(x=PLACES[place].x, y=PLACES[place].y) for place in profile.places}
    abilities = Abilities(
        speed_m_s=profile.speed_m_s,
        radius_m=0.3,
        arms=int(profile.arm),
        reach_m=round(profile.high_m - profile.low_m, 2),
        payload_kg=profile.payload_kg,
        places=tuple(places),
    )
    about = f"A {name.rpartition('_')[0]} is {profile.about}."
    return RobotFacts(name, about, skills_of(profile), fields=FIELDS, places=places, abilities=abilities)


class View:
    """`RobotView` of one robot."""

    def __init__(self, name: str, office: OfficeSimulator) -> None:
        self.about = facts_of(name, office.world.layout.robots[name])
        self.routines = office.routines
        self._name, self._office = name, office
        self._prompts: dict[Callable[[RobotFacts], str], str] = {}

    def observation(self) -> Observation:
        return Observation(self._office.clock.now())

    def observed(self) -> Mapping[str, Any]:
        """Return where it is, what it has, what lies there, and its locker."""
        world, name = self._office.world, self._name
        place, profile = world.robot_at[name], world.layout.robots[name]
        lies = [item for item, where in world.items.items() if where.state == "lies" and where.name == place]
        told: dict[str, Any] = {"place": place, "has": world.had_by(name), "lies_here": lies}
        if profile.locker:
            told["locker"] = {"is": "open" if name in world.open else "shut", "code": world.layout.codes[name]}
        return told

    def present(self) -> Present:
        now = self._office.clock.now()
        return Present(self.observation(), (), (), now, now)

    def images(self) -> Sequence[Image]:
        return ()

    def steady_now(self) -> float:
        return self._office.clock.now()

    now_s = steady_now

    def check(self, name: str, attributes: Mapping[str, str]) -> str:
        skill = SKILLS.get(name) if name in {s.name for s in self.about.skills} else None
        if skill is None:
            return f"{self._name} has no function '{name}'"
        try:
            bind(skill, attributes, NO_LIMITS)
        except ArgumentError as error:
            return str(error)
        return ""

    def system_prompt(self, make: Callable[[RobotFacts], str]) -> str:
        if make not in self._prompts:
            self._prompts[make] = make(self.about)
        return self._prompts[make]


@dataclass(frozen=True)
class Done:
    """Hold something that was attempted for a process: by whom, since when and until when [s], and why it failed."""

    process_id: str
    act: Act
    began_s: float
    ended_s: float
    failure: str = ""


@dataclass(frozen=True)
class Request:
    """Hold a question to a person that was put for a process; `deed` is what was accepted, `answer` what was said."""

    process_id: str
    person: str
    text: str
    kind: str
    """request, ended (whether it is done), or question."""
    at_s: float
    answer: str = ""


class _Body:
    """The body of one robot: performs a skill in the office."""

    def __init__(self, robot: str, world: Office) -> None:
        self.failure: Failure | None = None
        self._robot, self._world = robot, world

    def attempt(self, skill: str, given: Mapping[str, str]) -> SkillReturn:
        self.failure = self._world.attempt(self._robot, skill, given)
        if self.failure is not None:
            return SkillReturn.failure(str(self.failure), int(CallCode.SKILL_FAILED))
        offered = skill == "give" and given["person"] in self._world.robot_at
        return SkillReturn.success(f"offered: {given['person']} must take it now" if offered else "")


class OfficeSimulator:
    """Run an office. `on_change` hears each change."""

    def __init__(self, world: Office, clock: VirtualClock, *, about: Callable[[str], Person] | None = None) -> None:
        self.world, self.clock = world, clock
        self.routines = RoutineStore(f"{_FOLDER}/routines.json", clock=clock.now)
        self.views = {name: View(name, self) for name in world.layout.robots}
        known = {name: (about or self._person)(name) for name in world.layout.people}
        self.people = People(known, now=clock.now, day_s=lambda: NOON_S + clock.now())
        self.moments: list[Moment] = [moment(world, clock.now())]
        self.done: list[Done] = []
        self.requests: list[Request] = []
        self.unreachable: set[str] = set()
        """Robots that were found to be out of service: nobody knows before somebody has tried."""
        self._busy: dict[str, str] = {}
        self._promised: dict[str, tuple[Deed, float]] = {}
        """Requests that people have accepted, and when each is done."""
        self._ids = itertools.count(1)

    def _person(self, name: str) -> Person:
        about = self.world.layout.people[name]
        return Person(about="a lead, who may sign for any team and shred" if about.lead else "", place=about.place)

    # -- robots -------------------------------------------------------------------------------------------------------

    def call(
        self, process_id: str, skill: str, robot: str, given: Mapping[str, Any], tell: Callable[[CallEvent], None]
    ) -> VirtualCall:
        """Have a robot perform a skill; `tell` hears start and end."""
        handle = VirtualCall()
        event = self._event(process_id, skill, robot, given)
        view = self.views.get(robot)
        texts = {name: str(value) for name, value in given.items()}
        fault, code = (view.check(skill, texts), CallCode.INVALID_ARGUMENT) if view else ("", CallCode.NONE)
        if view is None:
            fault, code = f"there is no robot '{robot}'", CallCode.INVALID_ARGUMENT
        elif not fault and robot in self.unreachable and self.world.absent(robot) is not None:
            fault, code = f"{robot} is out of reach", CallCode.KERNEL_UNAVAILABLE
        elif not fault and robot in self._busy:
            fault, code = f"{robot} is busy with {self._busy[robot]}", CallCode.SUBSYSTEM_HELD
        if fault:
            how = Outcome.FAILED if code is CallCode.KERNEL_UNAVAILABLE else Outcome.REFUSED
            refused = replace(event, kind=CallKind.ENDED, outcome=how, error_code=int(code), error_msg=fault)
            self.clock.call_later(WIRE_S, partial(self._end, handle, refused, tell))
            return handle
        self._busy[robot] = skill
        self.clock.call_later(WIRE_S, partial(self._begin, handle, event, texts, tell))
        return handle

    def _begin(self, handle: VirtualCall, event: CallEvent, given: dict[str, str], tell: Callable[[CallEvent], None]) -> None:
        tell(replace(event, stamp_s=self.clock.now()))
        self.world.now_s = self.clock.now()
        robot, profile = event.robot, self.world.layout.robots[event.robot]
        failure = self.world.fault(robot, event.function, given)
        lasts = TRIES_S if failure else takes_s(profile, event.function, given, self.world.robot_at[robot])
        self.clock.call_later(lasts, partial(self._perform, handle, event, given, tell, self.clock.now()))

    def _perform(
        self, handle: VirtualCall, event: CallEvent, given: dict[str, str], tell: Callable[[CallEvent], None], began_s: float
    ) -> None:
        self.world.now_s = self.clock.now()
        del self._busy[event.robot]
        body = _Body(event.robot, self.world)
        made: SkillReturn = SKILLS[event.function].function(**given, body=body)
        act = Act(event.robot, event.function, given)
        why = str(body.failure) if body.failure else ""
        self.done.append(Done(event.process_id, act, began_s, self.clock.now(), why))
        if body.failure is None:
            self._changed()
            self._end(handle, replace(event, kind=CallKind.ENDED, outcome=Outcome.DONE, message=made.message), tell)
            return
        if body.failure.code is Code.ROBOT_DOWN:
            self.unreachable.add(event.robot)
        failed = replace(
            event, kind=CallKind.ENDED, outcome=Outcome.FAILED, error_code=int(CallCode.SKILL_FAILED), error_msg=why
        )
        self._end(handle, failed, tell)

    def _changed(self) -> None:
        self.moments.append(moment(self.world, self.clock.now()))

    # -- people -------------------------------------------------------------------------------------------------------

    def ask(
        self,
        process_id: str,
        person: str,
        text: str,
        choices: Sequence[str],
        within_s: float,
        answer: Callable[[str], str] | None,
        tell: Callable[[CallEvent], None],
    ) -> VirtualCall:
        """Ask a person. `answer` says what is answered to a question about the task; None for a request to do something."""
        handle = VirtualCall()
        given = {"person": person, "text": text, "choices": list(choices)}
        event = self._event(process_id, "ask", "", given)
        if why := self.people.refusal(person):
            refused = replace(
                event, kind=CallKind.ENDED, outcome=Outcome.REFUSED, error_code=int(AskCode.PERSON_BUSY), error_msg=why
            )
            self.clock.call_later(WIRE_S, partial(self._end, handle, refused, tell))
            return handle
        self.people.opened(person)
        tell(replace(event, stamp_s=self.clock.now()))
        self.world.now_s = self.clock.now()
        ended = set(choices) == set(ENDED) and person in self._promised
        kind = "question" if answer is not None else "ended" if ended else "request"
        self.requests.append(Request(process_id, person, text, kind, self.clock.now()))
        number = len(self.requests) - 1
        if kind == "ended":
            deed, due_s = self._promised.pop(person)
            wait_s = max(0.0, due_s - self.clock.now())
            say = partial(self._done, process_id, person, deed)
        else:
            wait_s = min(ANSWER_S, within_s / 2)
            say = partial(self._reply, person, text, answer)
        if wait_s > within_s:
            self.clock.call_later(within_s, partial(self._silent, handle, event, tell, person))
        else:
            self.clock.call_later(wait_s, partial(self._said, handle, event, tell, number, say, within_s - wait_s))
        return handle

    def _reply(self, person: str, text: str, answer: Callable[[str], str] | None) -> str:
        self.world.now_s = self.clock.now()
        if answer is not None:
            return answer(text) if self.world.absent(person) is None else ""
        word = reply(self.world, person, text)
        if word.deed is not None:
            self._promised[person] = (word.deed, self.clock.now() + DEED_S[word.deed.kind])
        return word.text

    def _done(self, process_id: str, person: str, deed: Deed) -> str:
        """Let a person do what was accepted, at its end."""
        self.world.now_s = self.clock.now()
        failure = self.world.do(person, deed)
        act = Act(person, "ask", {}, deed)
        began_s = self.clock.now() - DEED_S[deed.kind]
        self.done.append(Done(process_id, act, began_s, self.clock.now(), str(failure) if failure else ""))
        if failure is not None:
            return f"I could not: {failure.why}."
        self._changed()
        return DONE

    def _said(
        self,
        handle: VirtualCall,
        event: CallEvent,
        tell: Callable[[CallEvent], None],
        number: int,
        say: Callable[[], str],
        left_s: float,
    ) -> None:
        text = say()
        person = str(event.arguments["person"])
        if not text:
            self.clock.call_later(left_s, partial(self._silent, handle, event, tell, person))
            return
        self.requests[number] = replace(self.requests[number], answer=text)
        self.people.closed(person)
        made = read_reply(text, [name for name in self.people.known if name != person])
        value = {"answer": made.kind.value, "text": text, "person": person, "instead": made.instead}
        said = replace(event, kind=CallKind.ENDED, outcome=Outcome.DONE, message=text, value_json=json.dumps(value))
        self._end(handle, said, tell)

    def _silent(self, handle: VirtualCall, event: CallEvent, tell: Callable[[CallEvent], None], person: str) -> None:
        self.people.closed(person)
        code, why = int(AskCode.NO_ANSWER), "nobody answered in time"
        self._end(handle, replace(event, kind=CallKind.ENDED, outcome=Outcome.FAILED, error_code=code, error_msg=why), tell)

    # -- events -------------------------------------------------------------------------------------------------------

    def _event(self, process_id: str, function: str, robot: str, given: Mapping[str, Any]) -> CallEvent:
        return CallEvent(
            kind=CallKind.STARTED,
            call_id=f"c{next(self._ids)}",
            process_id=process_id,
            robot=robot,
            function=function,
            args_json=json.dumps({**({"robot": robot} if robot else {}), **given}),
            channels=("body",) if robot else (),
        )

    def _end(self, handle: VirtualCall, event: CallEvent, tell: Callable[[CallEvent], None]) -> None:
        event = replace(event, stamp_s=self.clock.now())
        tell(event)
        handle.end(event)
