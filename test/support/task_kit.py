# SPDX-License-Identifier: Apache-2.0
"""A task planner on a virtual clock with a model that answers as it is told, for the tests of System 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.reading import read_blocks
from bench.virtual_clock import VirtualClock
from function_tokens.routines import Routine
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd
from planners.plan import Plan
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport
from planners.strategies.layered.task_planner import PARAMETERS, TaskPlanner
from planners.strategy import Report, Task
from skill_kernel.codes import ModelCode
from skill_kernel.events import ModelEvent, ModelKind

FIELDS = frozenset({"room", "battery", "object_detections", "last_heard", "pose"})
SILENT = None


@dataclass
class Question:
    """One that was asked; `cancelled` when the planner did not want its answer any more."""

    at_s: float
    request: ModelRequest
    on_text: Callable[[str], None]
    on_end: Callable[[AnswerEnd], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    @property
    def blocks(self) -> dict[str, list[Any]]:
        return read_blocks(self.request.messages[-1].text)

    def write(self, *pieces: str) -> None:
        for piece in pieces:
            if not self.cancelled:
                self.on_text(piece)

    def end(self, code: int = 0, why: str = "") -> None:
        if not self.cancelled:
            self.on_end(AnswerEnd("", code, why))

    def answer(self, text: str) -> None:
        self.write(text)
        self.end()


@dataclass
class Bench:
    """`answers` are given one a question after `latency_s`: a text, SILENT, or a ModelCode the call fails with. Without one
    left the question waits for the test in `asked`."""

    answers: list[str | ModelCode | None] = field(default_factory=list)
    latency_s: float = 0.5
    settings: dict[str, Any] = field(default_factory=lambda: dict(OLD))
    instruction: str = "find the ball and bark twice"
    adopted: int = 0
    done: list[CallReport] = field(default_factory=list)
    begun_paused: bool = False
    earlier: Sequence[Mapping[str, str]] = ()
    routines: Sequence[Routine] = ()

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.asked: list[Question] = []
        self.plans: list[Plan] = []
        self.told: list[tuple[str, ...]] = []
        self.allowed: tuple[bool, float, str] = (True, 0.0, "")
        self.planner = TaskPlanner(
            Task("p", self.instruction, "ann", self.done, self.earlier),
            system=lambda: "LAYER s2\nrules",
            fields=FIELDS,
            routines=lambda: self.routines,
            model=self,
            made_by="stub",
            publish=self.plans.append,
            report=self.report,
            clock=self.clock,
            settings=self.settings,
            adopted=self.adopted,
        )
        self.planner.begin(paused=self.begun_paused)

    # -- Model --------------------------------------------------------------------------------------------------------

    def ask(
        self,
        layer: Layer,
        process_id: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream_id: str = "",
    ) -> Question:
        assert (layer, process_id) == (Layer.S2, "p") and not [q for q in self.running if q is not None]
        question = Question(self.clock.now(), request, on_text, on_end)
        self.asked.append(question)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, ModelCode):
                self.clock.call_later(self.latency_s, lambda: self._end(question, answer))
            elif answer is not SILENT:
                self.clock.call_later(self.latency_s, lambda: self._whole(question, str(answer)))
        return question

    @property
    def running(self) -> list[Question]:
        """Questions that nobody has answered or taken back."""
        return [q for q in self.asked if not q.cancelled and not getattr(q, "over", False)]

    def _whole(self, question: Question, text: str) -> None:
        question.write(*(text[i : i + 7] for i in range(0, len(text), 7)))
        self._end(question, None)

    def _end(self, question: Question, code: ModelCode | None) -> None:
        question.over = True  # type: ignore[attr-defined]
        question.end(int(code or 0), "the model failed" if code else "")

    def reply(self, text: str) -> None:
        """Answer the question that waits."""
        self._whole(self.running[-1], text)

    def report(self, event: Report) -> None:
        assert isinstance(event, ModelEvent) and (event.process_id, event.layer) == ("p", "s2")
        told = ("skipped", event.reason) if event.kind is ModelKind.SKIPPED else ("degraded", event.fallback, event.error_msg)
        self.told.append(told)

    def allowance(self, process_id: str, layer: str) -> tuple[bool, float, str]:
        return self.allowed

    # -- the world ----------------------------------------------------------------------------------------------------

    def run(self, seconds: float, step_s: float = 0.0, facts: Callable[[float], Any] | None = None) -> None:
        """Let time pass; with `facts` the planner observes every `step_s`."""
        end_s = self.clock.now() + seconds
        while facts is not None and self.clock.now() < end_s:
            self.planner.observed(facts(self.clock.now()))
            self.clock.run(min(end_s, self.clock.now() + step_s))
        self.clock.run(end_s)

    def fail(self, number: int = 0, why: str = "blocked") -> None:
        """Let a movement fail."""
        self.planner.call_ended(f"f{number}", CallReport("nav", {"to": "hallway"}, "FAILED", why))

    @property
    def shown(self) -> list[tuple[str, str, str]]:
        """The newest plan: id, words and status of each subtask."""
        return [(s.id, s.description, s.status.name) for s in self.plans[-1].subtasks]


PLAN = (
    '<subtask criteria="a ball is in sight" watch="room">Find the ball</subtask>'
    '<subtask criteria="barked twice">If so, bark</subtask>'
)
WITH_EVENT = PLAN + "<event cond=\"visible('person')\">wave</event>"
OLD = {p.name: p.default for p in PARAMETERS}


def planned(text: str = PLAN, **options: object) -> Bench:
    """With a first plan."""
    bench = Bench([text], **options)  # type: ignore[arg-type]
    bench.run(1.0)
    return bench
