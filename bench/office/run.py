# SPDX-License-Identifier: Apache-2.0
"""Run one task of the office by a team strategy, on a virtual clock."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.evaluation.propositions import Moment
from bench.evaluation.trace import Recorder, Trace
from bench.office.judging import moment
from bench.office.people import meant
from bench.office.simulator import Done, OfficeSimulator, Request
from bench.office.tasks import Task
from bench.office.world import Layout
from bench.virtual_call import VirtualCall
from bench.virtual_clock import VirtualClock
from bench.virtual_door import VirtualDoor
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd, Model
from planners.models.model_call import Handle as Asked
from planners.people import ASK, ENDED, REQUEST
from planners.prompts.blocks import Layer
from planners.strategy import Planning, StreamHandle, TeamStrategy
from planners.strategy import Task as Given
from skill_kernel.clock import Clock
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, ModelEvent

DEADLINE_S = 7200.0
STEP_S = 5.0


@dataclass
class Run:
    """Hold what came of a task: `trace` has calls and what answers cost, `prompts` time, role and text of each question,
    `answers` time, role, question and answer of those that came to their end. `busy_s`: wall time that the strategy took for
    each thing that it heard, without models."""

    task: Task
    trace: Trace
    moments: list[Moment] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    notices: list[tuple[float, str, str]] = field(default_factory=list)
    prompts: list[tuple[float, str, str]] = field(default_factory=list)
    answers: list[tuple[float, str, str, str]] = field(default_factory=list)
    refused: int = 0
    busy_s: list[float] = field(default_factory=list)


def memory_lines(layout: Layout, instruction: str) -> Iterator[str]:
    """Yield what the memory knows that bears on an instruction: facilities, and things whose kind or owner is named."""
    words = set(re.findall(r"[a-z]+", instruction.lower().replace("'s", " ")))
    for name, facility in layout.facilities.items():
        uses = ", ".join(
            f"{action} (only {'leads' if use.lead else 'people'})" if use.by == "person" else action
            for action, use in facility.uses.items()
        )
        yield f"{name} is in {facility.place}: {uses}"
    yield f"the smart_locker opens with {layout.codes['smart_locker']}"
    for name, item in layout.items.items():
        if item.owner.lower() in words or words.issuperset(item.kind.split("_")):
            yield f"{name}, {item.owner}'s {item.kind.replace('_', ' ')}, was last seen {layout.at_first[name]}"


class Process(VirtualDoor):
    """One task in an office. `model` answers all roles."""

    def __init__(
        self,
        office: OfficeSimulator,
        task: Task,
        settings: Mapping[str, Any],
        process_id: str = "p1",
        keep_prompts: bool = True,
    ) -> None:
        super().__init__(office.clock, office.people, settings, process_id)
        self.office, self.task = office, task
        self.model: Model | None = None
        self.result = Run(task, Trace(asked=office.clock.now(), process_id=process_id), notices=self.notices)
        self._recorder = Recorder(self.result.trace)
        self._planning: Planning | None = None
        self._keep_prompts, self._models_s = keep_prompts, 0.0

    def start(self, strategy: TeamStrategy) -> None:
        """Begin to plan."""
        given = Given(self.process_id, self.task.instruction, self.task.sender)
        self._planning = self._timed(lambda: strategy.start_team(given, self.office.views, self))

    def close(self, why: str) -> None:
        """End a task that has not ended by itself."""
        if not self.ended and self._planning is not None:
            self.ended = True
            self._planning.close(why)
            self.result.trace.end = self.clock.now()

    def hear(self, told: ModelEvent) -> None:
        """Take what a model's answer cost."""
        self._recorder.take(replace(told, stamp_s=self.clock.now()))

    def judged(self) -> Run:
        """Return the run with what the office knows of it."""
        self.result.done = [done for done in self.office.done if done.process_id == self.process_id]
        self.result.requests = [asked for asked in self.office.requests if asked.process_id == self.process_id]
        end = moment(self.office.world, self.office.clock.now())
        self.result.moments = [*self.office.moments, end]
        return self.result

    def _timed(self, call: Callable[[], Any]) -> Any:
        """Do what the strategy does; note how long it took, without what models took."""
        before, models = time.perf_counter(), self._models_s
        value = call()
        self.result.busy_s.append(time.perf_counter() - before - (self._models_s - models))
        return value

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

    def ask(
        self,
        role: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream: StreamHandle | None = None,
    ) -> Asked:
        assert self.model is not None
        text = "\n".join([request.system, *(message.text for message in request.messages)])
        if self._keep_prompts:
            self.result.prompts.append((self.clock.now(), role, text))
        begun = time.perf_counter()

        def ended(end: AnswerEnd) -> None:
            if self._keep_prompts:
                self.result.answers.append((self.clock.now(), role, text, end.text))
            self._timed(lambda: on_end(end))

        asked = self.model.ask(Layer(role), self.process_id, request, on_text, ended)
        self._models_s += time.perf_counter() - begun
        return asked

    def recollect(self, then: Callable[[Sequence[str]], None]) -> None:
        lines = tuple(memory_lines(self.office.world.layout, self.task.instruction))
        self.clock.call_later(0.0, lambda: then(lines))

    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> VirtualCall:
        if skill == ASK and not robot:
            return self._ask_person(**arguments)
        return self.office.call(self.process_id, skill, robot, arguments, self._tell)

    def _ask_person(
        self, person: str = "", text: str = "", choices: Sequence[str] = (), within: float = 120.0, why: str = ""
    ) -> VirtualCall:
        person = person or self.task.sender
        is_request = tuple(choices) in (REQUEST, ENDED)
        answer = None if is_request else lambda question: meant(self.task, question, choices)
        if answer is not None and person != self.task.sender:
            answer = lambda question: "I do not know."  # noqa: E731 - a word for it
        return self.office.ask(self.process_id, person, text, choices, within, answer, self._tell)

    def unavailable(self, robot: str) -> str:
        reached = robot in self.office.views and robot not in self.office.unreachable
        return "" if reached else "out of reach"

    def finished(self, code: int, why: str) -> None:
        trace = self.result.trace
        trace.end, trace.status, trace.code, trace.message = (self.clock.now(), "FAILED" if code else "SUCCESS", code, why)

    def _tell(self, event: CallEvent) -> None:
        self.result.refused += event.outcome is Outcome.REFUSED
        self._recorder.take(event)
        if self._planning is not None and not self.ended:
            planning = self._planning
            self._timed(lambda: planning.on(event))


MakeModel = Callable[[Clock, Callable[[ModelEvent], None]], Model]
"""Make the model of a task from its clock and from who hears what answers cost."""


def perform(task: Task, strategy: TeamStrategy, settings: Mapping[str, Any], make_model: MakeModel) -> Run:
    """Run a task once."""
    clock = VirtualClock()
    process = Process(OfficeSimulator(task.world(), clock), task, settings)
    process.model = make_model(clock, process.hear)
    process.start(strategy)
    while not process.ended and clock.now() < DEADLINE_S:
        clock.run(clock.now() + STEP_S)
    process.close("the deadline has passed")
    return process.judged()
