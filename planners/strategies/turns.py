# SPDX-License-Identifier: Apache-2.0
"""Plan turn by turn: each answer is one stream, and another answer follows when its calls have ended. Strategies `stream`,
`react` and `plan_and_execute` differ only in their `TurnPlanner`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from planners.models.base import Image, ModelRequest
from planners.models.model_call import AnswerEnd, Handle
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport
from planners.strategy import (
    CallEnded,
    CallStarted,
    GenerationStopped,
    Interrupted,
    Parameter,
    PlannerIO,
    Restarted,
    RobotView,
    RunEvent,
    StreamEnded,
    StreamHandle,
    StreamRepaired,
    Task,
)
from skill_kernel.codes import ModelCode

MAX_TURNS = Parameter("max_turns", 8, "answers to one instruction at most", minimum=1, maximum=100)


@dataclass(frozen=True)
class PlannerSettings:
    """Set the limits of a planner. `max_turns`: answers to one instruction at most. `history`: earlier messages a request
    carries. `deadline_s`: how long one answer of the model may take."""

    max_turns: int = 8
    history: int = 12
    deadline_s: float = 60.0
    max_output_tokens: int = 2048
    temperature: float | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> PlannerSettings:
        """Return what the parameters of the node say."""
        names = ("max_turns", "history", "deadline_s", "max_output_tokens")
        return cls(**{name: settings[name] for name in names if name in settings})


@dataclass
class TurnResult:
    """Tell what came of one answer: `reason` as in `StreamEnded`, `code` and `error` when the stream ended with an error."""

    reason: str
    code: int = 0
    error: str = ""
    calls: list[CallReport] = field(default_factory=list)
    running: list[CallReport] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PlanEnded:
    """Tell that no turn follows: `code` 0 when the instruction was carried out, else why not."""

    code: int = 0
    message: str = ""


class TurnPlanner(Protocol):
    """Make the request of each turn. `layer` is its role; `whole`: nothing of an answer is performed before all of it is
    there."""

    layer: Layer
    whole: bool

    def begin(
        self,
        instruction: str,
        *,
        sender: str = "",
        state: Mapping[str, Any] | None = None,
        observation: Mapping[str, Any] | None = None,
        images: Sequence[Image] = (),
        done: Sequence[CallReport] = (),
    ) -> ModelRequest:
        """Return the first request for an instruction. `done`: what was done of it before it was planned here."""

    def wrote(self, text: str) -> None:
        """Take note of what the model wrote in this turn."""

    def follow(
        self,
        result: TurnResult,
        *,
        state: Mapping[str, Any] | None = None,
        observation: Mapping[str, Any] | None = None,
        images: Sequence[Image] = (),
    ) -> ModelRequest | PlanEnded:
        """Return the next request, or the end of the plan, after all calls of a turn have ended."""


@dataclass(eq=False)
class _Turn:
    number: int
    stream: StreamHandle
    began_s: float
    answer: Handle | None = None
    written: list[str] = field(default_factory=list)
    reports: list[CallReport] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    noted: bool = False


class TurnPlanning:
    """Plan one process turn by turn."""

    def __init__(self, planner: TurnPlanner, task: Task, robot: RobotView, io: PlannerIO) -> None:
        self._planner, self._task, self._robot, self._io = planner, task, robot, io
        self._running: dict[str, CallReport] = {}
        self._turn: _Turn | None = None
        self._begin(task.done)

    def on(self, event: RunEvent) -> None:
        """Follow the calls of the turn, and write the next one when it has ended."""
        turn = self._turn
        if isinstance(event, Restarted):
            self._begin(event.done)
        elif turn is None:
            return
        elif isinstance(event, CallStarted):
            self._running[event.call_id] = event.report()
        elif isinstance(event, CallEnded):
            self._running.pop(event.call_id, None)
            turn.reports.append(_report(event, turn.began_s))
        elif isinstance(event, Interrupted):
            self.close(event.cause)
        elif getattr(event, "stream_id", "") != turn.stream.stream_id:
            return
        elif isinstance(event, GenerationStopped):
            self._over(turn, int(ModelCode.MODEL_CANCELLED), event.why or "the channel scheduler takes no more of it")
        elif isinstance(event, StreamRepaired):
            turn.repairs.append(event.why)
        elif isinstance(event, StreamEnded):
            self._follow(turn, event)

    def close(self, why: str) -> None:
        """Ask and write no more."""
        turn, self._turn = self._turn, None
        if turn is not None:
            if turn.answer is not None:
                turn.answer.cancel()
            self._note(turn)

    def _known(self) -> dict[str, Any]:
        """Return the observation for a prompt, or without an observer the few facts that the node knows by itself."""
        observation = self._robot.observed()
        state = self._robot.state() if observation is None else None
        return {"state": state, "observation": observation, "images": self._robot.images()}

    def _begin(self, done: Sequence[CallReport]) -> None:
        self.close("the process is planned anew")
        self._running.clear()
        task = self._task
        self._ask(0, self._planner.begin(task.instruction, sender=task.sender, done=done, **self._known()))

    def _ask(self, number: int, request: ModelRequest) -> None:
        turn = self._turn = _Turn(number, self._io.open(number), self._robot.now_s())
        turn.answer = self._io.ask(
            self._planner.layer.value,
            request,
            lambda text: self._text(turn, text),
            lambda end: self._answered(turn, end),
            stream=turn.stream,
        )

    def _text(self, turn: _Turn, text: str) -> None:
        if not turn.stream.ended:
            turn.written.append(text)
            if not self._planner.whole:
                turn.stream.text(text)

    def _answered(self, turn: _Turn, end: AnswerEnd) -> None:
        if self._planner.whole and not end.code:
            turn.stream.text("".join(turn.written))
        self._over(turn, end.code, end.why)

    def _over(self, turn: _Turn, code: int, why: str) -> None:
        """End the stream, complete or broken off."""
        if turn.answer is not None:
            turn.answer.cancel()
        self._note(turn)
        turn.stream.end(code, why)

    def _note(self, turn: _Turn) -> None:
        if not turn.noted:
            turn.noted = True
            self._planner.wrote("".join(turn.written))

    def _follow(self, turn: _Turn, event: StreamEnded) -> None:
        self._over(turn, int(ModelCode.MODEL_CANCELLED), "the turn ended before the model did")
        running = list(self._running.values())
        result = TurnResult(event.reason, event.code, event.why, turn.reports, running, turn.repairs)
        step = self._planner.follow(result, **self._known())
        if isinstance(step, PlanEnded):
            self._io.finish(step.code, step.message)
        else:
            self._ask(turn.number + 1, step)


def _report(call: CallEnded, began_s: float) -> CallReport:
    """Return a call as prompts show it, with times since its turn began."""
    start_s, end_s = (None if t < 0 else t - began_s for t in (call.start_s, call.end_s))
    return CallReport(call.function, call.arguments, call.outcome, call.message, start_s, end_s)
