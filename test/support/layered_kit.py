# SPDX-License-Identifier: Apache-2.0
"""System 1 on the virtual clock: the real planner, parser and channel scheduler, a model that says what a test tells it to, and
a body that takes its declared times."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

import pytest
from shell_kit import mapper

from bench.dry_run import AssumedConditions, VirtualExecutor
from bench.reading import read_blocks
from bench.virtual_clock import VirtualClock
from function_tokens.mapper import Refusal
from function_tokens.parsing.parser import StreamingParser
from function_tokens.routines import RoutineStore
from function_tokens.scheduling.calls import Call
from function_tokens.scheduling.scheduler import Scheduler
from planners.language.client import rest_of
from planners.models.base import Image, ModelError, ModelRequest
from planners.models.model_call import AnswerEnd
from planners.plan import Plan, Subtask
from planners.prompts.blocks import Layer
from planners.prompts.prompt import RobotFacts
from planners.scene import Present
from planners.strategies.layered.step_planner import StepPlanner
from planners.strategies.layered.strategy import Layered
from planners.strategy import Interrupted, Judge, PlannerEvent, Report, Restarted, Task
from skill_kernel.calls import CallResult
from skill_kernel.codes import CallCode, ModelCode, Outcome
from skill_kernel.events import CallKind, ModelEvent, ModelKind, ProcessEvent, ProcessKind, RunEvent
from skill_kernel.observation.accessors import Accessor
from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, SeenObject

WIRE_S = 0.005
"""Time that a message is under way."""


@dataclass
class Asked:
    """A question that was put to the model."""

    layer: Layer
    time_s: float
    request: ModelRequest
    blocks: dict[str, list[Any]]
    ended_s: float | None = None
    cancelled: bool = False

    @property
    def subtask(self) -> dict[str, Any]:
        """Return the subtask whose steps are wanted."""
        (wanted,) = self.blocks["SUBTASK"]
        return next(subtask for subtask in self.blocks["PLAN"] if subtask["id"] == wanted)


@dataclass
class Says:
    """An answer: `text` after `delay_s`, in pieces of `piece` characters at `rate` characters a second; then an error if
    `code`, or nothing at all if `silent`."""

    text: str = ""
    delay_s: float = 0.5
    piece: int = 7
    rate: float = 400.0
    code: int = 0
    why: str = ""
    silent: bool = False


Answer = Callable[[Asked], "Says | str"]


class ScriptedModel:
    """Answers each question by a function; `questions` holds what was asked."""

    def __init__(self, clock: VirtualClock, answer: Answer) -> None:
        self._clock, self.answer = clock, answer
        self.questions: list[Asked] = []
        self.open: dict[Layer, int] = dict.fromkeys(Layer, 0)
        self.most_open: dict[Layer, int] = dict.fromkeys(Layer, 0)

    def ask(
        self,
        layer: Layer,
        process_id: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream_id: str = "",
    ) -> _Saying:
        asked = Asked(layer, self._clock.now(), request, read_blocks(request.messages[-1].text))
        self.questions.append(asked)
        self.open[layer] += 1
        self.most_open[layer] = max(self.most_open[layer], self.open[layer])
        said = self.answer(asked)
        return _Saying(self, asked, Says(said) if isinstance(said, str) else said, on_text, on_end)

    def of(self, layer: Layer = Layer.S1) -> list[Asked]:
        """Return what a layer asked."""
        return [q for q in self.questions if q.layer is layer]


class _Saying:
    def __init__(
        self,
        model: ScriptedModel,
        asked: Asked,
        says: Says,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
    ) -> None:
        self._model, self._asked, self._on_text, self._on_end = model, asked, on_text, on_end
        self._over = False
        clock = model._clock
        at = says.delay_s
        for i in range(0, len(says.text), says.piece):
            piece = says.text[i : i + says.piece]
            at += len(piece) / says.rate
            clock.call_later(at, lambda piece=piece: self._text(piece))
        if not says.silent:
            clock.call_later(at + 0.001, lambda: self._end(AnswerEnd(says.text, says.code, says.why)))

    def cancel(self) -> None:
        if not self._over:
            self._asked.cancelled = True
            self._close()

    def enough(self) -> None:
        self.cancel()

    def _text(self, piece: str) -> None:
        if not self._over:
            self._on_text(piece)

    def _end(self, end: AnswerEnd) -> None:
        if not self._over:
            self._close()
            self._on_end(end)

    def _close(self) -> None:
        self._over = True
        self._asked.ended_s = self._model._clock.now()
        self._model.open[self._asked.layer] -= 1


class Body(VirtualExecutor):
    """`fails` says why a call that would be done fails, "" for it does not."""

    fails: Callable[[Call], str] = staticmethod(lambda call: "")

    def _end(self, call: Call, result: CallResult) -> None:
        why = self.fails(call) if result.outcome is Outcome.DONE else ""
        super()._end(call, CallResult(Outcome.FAILED, CallCode.SKILL_FAILED, message=why) if why else result)


@dataclass
class World:
    """The robot's observation."""

    room: str = "hall"
    labels: tuple[str, ...] = ()
    x: float = 0.0
    stale: bool = False

    def observation(self, now: float) -> Observation:
        things = tuple(SeenObject(i, label, 0.9, 0.0, 1.0) for i, label in enumerate(self.labels))
        at = now - 99.0 if self.stale else now
        fields = {
            "room": FieldValue("room", Kind.TEXT, self.room, at, 1.0),
            "pose": FieldValue("pose", Kind.POSE, Pose(self.x, 0.0, 0.0), at, 1.0),
            "object_detections": FieldValue("object_detections", Kind.OBJECTS, things, at, 1.0),
        }
        return Observation(now, 0, now, fields)


@dataclass(frozen=True)
class Told:
    """Something the planner told."""

    kind: str
    time_s: float
    values: tuple[Any, ...]


class _Stream:
    """A stream that is written to the scheduler, with the time of a message."""

    def __init__(self, bench: Bench, turn: int) -> None:
        self._bench, self._parser = bench, StreamingParser("lenient")
        self.stream_id = f"s{next(bench.ids)}"
        self.text_written, self.ended = "", False
        self._later(partial(bench.scheduler.open_stream, self.stream_id, turn=turn))

    def _later(self, action: Callable[[], object]) -> None:
        self._bench.clock.call_later(WIRE_S, action)

    def text(self, text: str) -> None:
        assert not self.ended, "text behind the end of a stream"
        self.text_written += text
        self._bench._count()
        self._later(lambda: self._feed(self._parser.feed(text)))

    def end(self, code: int = 0, why: str = "") -> None:
        assert not self.ended, "a stream ended twice"
        self.ended = True

        def arrive() -> None:
            self._feed(self._parser.close())
            self._bench.scheduler.end_stream(self.stream_id, code, why)

        self._later(arrive)

    def _feed(self, tokens: Any) -> None:
        for token in tokens:
            self._bench.scheduler.feed(self.stream_id, token)


DEFAULTS = {"deadline_s": 60.0, "max_output_tokens": 2048} | {p.name: p.default for p in Layered.parameters}
DEFAULTS["begin_directly"] = False


class Bench:
    """One process and everything below its System 1: its `PlannerIO` and its `RobotView`. `run` lets virtual time pass."""

    def __init__(
        self,
        answer: Answer,
        *,
        instruction: str = "do it",
        settings: dict[str, Any] | None = None,
        plans: bool = True,
        commands: dict[str, str] | None = None,
        accessors: dict[str, Accessor] | None = None,
        first_actions: Sequence[str] = ("walk", "nod"),
        way_back: str = "",
        judge: Judge | None = None,
        agrees: bool = True,
        routines: RoutineStore | None = None,
        earlier: Sequence[dict[str, str]] = (),
    ) -> None:
        """`agrees`: System 2 agrees whenever the task is held for done; else it never looks again."""
        self.clock = VirtualClock()
        self.agrees = agrees
        self.model = ScriptedModel(self.clock, answer)
        self.world = World()
        self.told: list[Told] = []
        self.events: list[PlannerEvent] = []
        self.streams: dict[str, _Stream] = {}
        self.most_queued = 0
        self.judge = judge
        self.ids = itertools.count()
        self._mapper = mapper()
        self._plans = plans
        self.settings: dict[str, Any] = {**DEFAULTS, **(settings or {})}
        self.task = Task("p1", instruction, "a test", earlier=earlier)
        self.about = RobotFacts(
            "stub",
            "",
            list(self._mapper.registry),
            accessors=accessors or {},
            first_actions=tuple(first_actions),
            resume_motion=way_back,
        )
        self.routines: Any = routines or SimpleNamespace(list=tuple)
        self.memory: Sequence[str] = ()
        self.budget: tuple[bool, float, str] = (True, 0.0, "")
        self.body = Body(self.clock)
        self._new_scheduler()
        self._written = commands or {}
        self.planner: Any = None
        with pytest.MonkeyPatch.context() as patch:
            parser = SimpleNamespace(read_wholly=self._read_commands)
            patch.setattr("planners.language.client.OfflineClient", lambda about, routines: parser)
            self.planner = StepPlanner(self.task, self, self)  # type: ignore[arg-type]
        self.planner._commands = parser

    def _new_scheduler(self) -> None:
        self.scheduler = Scheduler(
            self._mapper,
            self.body,
            self.clock,
            self._run_event,
            new_call_id=lambda: f"c{next(self.ids)}",
            conditions=AssumedConditions({}, None),
            routines=self.routines if isinstance(self.routines, RoutineStore) else None,
        )
        self.body.scheduler = self.scheduler

    # -- the test's side ----------------------------------------------------------------------------------------------

    def plan(
        self, *descriptions: str, revision: int = 1, complete: bool = True, criteria: Sequence[str] = (), **more: Any
    ) -> None:
        """System 2 publishes a plan; its subtasks are named t1, t2 … in order."""
        written = zip_longest(descriptions, criteria, fillvalue="")
        subtasks = tuple(Subtask(f"t{i}", text, proof) for i, (text, proof) in enumerate(written, 1))
        self.planner.on(Plan(revision, complete, subtasks, **more))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.run(self.clock.now() + seconds)

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        """Return what the planner told of a kind: ended, done, fired, skipped, degraded."""
        return [t.values for t in self.told if t.kind == kind]

    @property
    def ended(self) -> list[tuple[Any, ...]]:
        """Code and message of the plan's end."""
        return self.of("ended")

    def calls(self, *, outcome: str = "DONE") -> list[str]:
        """Functions that ended so, in order; without steps and marks."""
        silent = {"step", "subtask_complete", "if", "else", "wait", "replace_steps"}
        ended = [e for e in self.events if e.kind is CallKind.ENDED]
        return [e.function for e in ended if e.outcome_name == outcome and e.function not in silent]

    def interrupt(self) -> None:
        """All that was planned is void, as when the process gets a new epoch."""
        self.hear(Interrupted("a test"))
        self.scheduler.interrupt("a test")
        self.run(WIRE_S * 3)
        self.hear(Restarted(()))

    def hear(self, event: PlannerEvent) -> None:
        """Something happens to the process."""
        self.planner.on(event)

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

    def thinks(self, role: str) -> bool:
        return self._plans or role != Layer.S2

    def ask(
        self, role: str, request: ModelRequest, on_text: Callable[[str], None], on_end: Callable[[AnswerEnd], None]
    ) -> _Saying:
        return self.model.ask(Layer(role), "p1", request, on_text, on_end)

    def recollect(self, then: Callable[[Sequence[str]], None]) -> None:
        then(self.memory)

    def open(self, turn: int) -> _Stream:
        stream = _Stream(self, turn)
        self.streams[stream.stream_id] = stream
        return stream

    def _count(self) -> None:
        if self.planner is not None:
            self.most_queued = max(self.most_queued, len(self.planner._book.queued))

    def stop(self, why: str, then: Callable[[], None]) -> None:
        self._tell("stopped", why)
        self.scheduler.interrupt(why)
        self.clock.call_later(WIRE_S * 2, then)

    def allowance(self, role: str) -> tuple[bool, float, str]:
        return self.budget

    def finish(self, code: int = 0, why: str = "") -> None:
        self._tell("ended", code, why)

    def report(self, report: Report) -> None:
        if isinstance(report, ProcessEvent) and report.kind is ProcessKind.CLAIMED:
            self._tell("claimed", report.plan_item)
            if self.agrees:
                self.clock.call_later(0.0, lambda: self._agree(self.planner._claim))
        elif isinstance(report, ProcessEvent):
            self._tell("done" if report.kind is ProcessKind.SUBTASK_DONE else "fired", report.plan_item_id)
        elif not isinstance(report, ModelEvent):
            self._tell("notice", report.error_msg)
        elif report.kind is ModelKind.SKIPPED:
            self._tell("skipped", report.reason)
        else:
            self._tell("degraded", Layer(report.layer), report.fallback, report.error_msg)

    def _agree(self, claim: object) -> None:
        """Say as System 2 that the task is done, once all of its subtasks are."""
        goals, book = self.planner._goals, self.planner._book
        if self.planner._claim is not claim or self.planner._closing:
            return
        if goals.over and book.idle and not self.planner._unproved:
            self.hear(replace(goals.plan, revision=goals.plan.revision + 1, achieved=True))
        else:
            self.clock.call_later(WIRE_S, partial(self._agree, claim))

    # -- RobotView ----------------------------------------------------------------------------------------------------

    def check(self, name: str, attrs: Any) -> str:
        mapped = self._mapper.map(name, attrs)
        return mapped.message if isinstance(mapped, Refusal) else ""

    def observation(self) -> Observation:
        return self.world.observation(self.clock.now())

    def observed(self) -> dict[str, Any]:
        return {"room": self.world.room}

    def images(self) -> Sequence[Image]:
        return ()

    def steady_now(self) -> float:
        return self.clock.now()

    def system_prompt(self, make: Callable[[RobotFacts], str]) -> str:
        return make(self.about)

    def present(self) -> Present:
        return Present()

    def _read_commands(self, text: str, done: Sequence[Any], present: Present) -> str:
        try:
            return rest_of(self._written.get(text, ""), done, {"text", "sleep"})
        except ModelError:
            return ""

    def _tell(self, kind: str, *values: Any) -> None:
        self.told.append(Told(kind, self.clock.now(), values))

    # -- what the scheduler reports -----------------------------------------------------------------------------------

    def _run_event(self, event: RunEvent) -> None:
        self.events.append(event)
        self.clock.call_later(WIRE_S, lambda: self._arrive(event))

    def _arrive(self, event: Any) -> None:
        self.planner.on(event)
        self._count()


def failing(code: ModelCode = ModelCode.MODEL_CONNECTION, delay_s: float = 0.2) -> Says:
    """Return an answer that does not come."""
    return Says(delay_s=delay_s, code=int(code), why="the connection broke")


GOOD = "<step><nod/></step><subtask_complete/>"


def script(*answers: Says | str, then: Says | str = "<nothing/>") -> Answer:
    """One answer after the other to System 1, then always the same one; no first action."""
    left = list(answers)

    def answer(asked: Asked) -> Says | str:
        if asked.layer is not Layer.S1:
            return "<none/>"
        return left.pop(0) if left else then

    return answer
