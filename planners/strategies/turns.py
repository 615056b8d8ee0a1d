# SPDX-License-Identifier: Apache-2.0
"""Plan turn by turn: each answer is one stream, and another answer follows when its calls have ended. Strategies `stream`,
`react` and `plan_and_execute` differ only in their `TurnPlanner`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from planners.models.base import Image, Message, ModelRequest
from planners.models.model_call import AnswerEnd, Handle
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport, RobotFacts
from planners.strategies.only_words import OnlyWords
from planners.strategy import Interrupted, Parameter, PlannerEvent, PlannerIO, Restarted, RobotView, StreamHandle, Task
from skill_kernel.codes import ModelCode, TaskCode
from skill_kernel.events import CallEvent, CallKind, ModelEvent, ModelKind, StreamEvent, StreamKind

SILENT_S = 2.0
"""A model that has written nothing for so long is done without where a plain command is to be carried out."""
CUT = "the answer was longer than max_output_tokens and is cut; write what is still missing, and less at once"
MAX_TURNS = Parameter("max_turns", 8, "answers to one instruction at most", minimum=1, maximum=100)


@dataclass
class TurnResult:
    """Tell what came of one answer: `reason` as in StreamEvent, `code` and `error` when the stream ended with an error."""

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


@dataclass(frozen=True)
class Known:
    """Knowledge of the robot now: its observation, None while no observer says anything, the camera's images, and what its
    memory holds of the task."""

    observation: Mapping[str, Any] | None = None
    images: Sequence[Image] = ()
    memory: Sequence[str] = ()


NOTHING = Known()


class TurnPlanner(ABC):
    """Make the request of each turn of one process. `layer` is its role; `whole`: nothing of an answer is performed before all
    of it is there."""

    layer: Layer
    whole = True

    def __init__(self, robot: RobotFacts, settings: Mapping[str, Any]) -> None:
        self.robot, self.settings = robot, settings
        self.instruction, self.sender = "", ""
        self.turn = 0

    def begin(
        self, instruction: str, *, sender: str = "", done: Sequence[CallReport] = (), known: Known = NOTHING
    ) -> ModelRequest:
        """Return the first request for an instruction. `done`: what was done of it before it was planned here."""
        self.instruction, self.sender, self.turn = instruction, sender or "the operator", 0
        return self.first(done, known)

    @abstractmethod
    def first(self, done: Sequence[CallReport], known: Known) -> ModelRequest:
        """Return the first request."""

    @abstractmethod
    def follow(self, result: TurnResult, known: Known = NOTHING) -> ModelRequest | PlanEnded:
        """Return the next request, or the end of the plan, after all calls of a turn have ended."""

    def wrote(self, text: str) -> None:  # noqa: B027 - for most, only what came of it counts
        """Take note of what the model wrote in this turn."""

    def forget(self) -> None:  # noqa: B027 - most keep nothing
        """Forget earlier messages: the model's context cannot hold them."""

    def request(self, system: str, messages: Sequence[Message]) -> ModelRequest:
        """Return a request within the limits of the settings."""
        return ModelRequest(
            system,
            tuple(messages),
            max_output_tokens=self.settings["max_output_tokens"],
            deadline_s=self.settings["deadline_s"],
            instruction=self.instruction,
        )


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
    cut: bool = False
    """True where the model could not write its answer to the end."""


class TurnPlanning:
    """Plan one process turn by turn."""

    def __init__(self, planner: TurnPlanner, task: Task, robot: RobotView, io: PlannerIO) -> None:
        self._planner, self._task, self._robot, self._io = planner, task, robot, io
        self._running: dict[str, CallReport] = {}
        self._turn: _Turn | None = None
        self._memory: Sequence[str] = ()
        self._waits = True
        """Whether the memory has not told yet what the first question needs."""
        io.recollect(self._recollected)

    def on(self, event: PlannerEvent) -> None:
        turn = self._turn
        if isinstance(event, Restarted):
            self._begin(event.done)
        elif isinstance(event, Interrupted):
            self.close(event.cause)
        elif turn is None:
            return
        elif isinstance(event, CallEvent) and event.kind is CallKind.STARTED:
            self._running[event.call_id] = CallReport.of(event)
        elif isinstance(event, CallEvent):
            self._running.pop(event.call_id, None)
            start_s, end_s = (None if t < 0 else t - turn.began_s for t in (event.start_s, event.end_s))
            turn.reports.append(replace(CallReport.of(event), start_s=start_s, end_s=end_s))
        elif not isinstance(event, StreamEvent) or event.stream_id != turn.stream.stream_id:
            return
        elif event.kind is StreamKind.STOP_GENERATION:
            why = event.error_msg or "the channel scheduler takes no more of it"
            self._over(turn, int(ModelCode.MODEL_CANCELLED), why)
        elif event.kind is StreamKind.REPAIR:
            turn.repairs.append(event.error_msg)
        elif event.kind is StreamKind.TURN_ENDED:
            self._follow(turn, event)

    def _recollected(self, lines: Sequence[str]) -> None:
        self._memory = lines
        if self._waits:
            self._begin(self._task.done)

    def close(self, why: str) -> None:
        self._waits = False
        turn, self._turn = self._turn, None
        if turn is not None:
            self._stop_asking(turn)

    def _known(self) -> Known:
        return Known(self._robot.observed(), self._robot.images(), self._memory)

    def _begin(self, done: Sequence[CallReport]) -> None:
        self.close("the process is planned anew")
        self._running.clear()
        task = self._task
        self._only_words = OnlyWords(task.instruction, self._robot.about, done)
        self._ask(0, self._planner.begin(task.instruction, sender=task.sender, done=done, known=self._known()))

    def _ask(self, number: int, request: ModelRequest) -> None:
        if not self._io.thinks(self._planner.layer):
            request = replace(request, present=self._robot.present())
        turn = self._turn = _Turn(number, self._io.open(number), self._robot.now_s())

        def heard(text: str) -> None:
            if not turn.stream.ended:
                turn.written.append(text)
                if not self._planner.whole:
                    turn.stream.text(text)

        def answered(end: AnswerEnd) -> None:
            turn.cut = end.cut
            if end.forgot:
                self._planner.forget()
            if self._planner.whole and not end.code:
                turn.stream.text("".join(turn.written))
            self._over(turn, end.code, end.why)
            if end.code == ModelCode.MODEL_NOT_UNDERSTOOD and not self._planner.whole and self._io.thinks(self._planner.layer):
                # What goes round in circles is not spoken to its end.
                self._turn = None
                self._planner.follow(TurnResult("end", end.code, end.why))
                self._io.stop(end.why, lambda: self._io.finish(end.code, end.why))

        turn.answer = self._io.ask(self._planner.layer, request, heard, answered, stream=turn.stream)
        if not (number or request.done or self._planner.whole) and self._io.thinks(self._planner.layer):
            self._io.clock.call_later(SILENT_S, partial(self._begin_without_model, turn))

    def _begin_without_model(self, turn: _Turn) -> None:
        """Follow a plain command where the model has said nothing of it yet: nobody need wait for a model then."""
        if turn is not self._turn or turn.written or turn.stream.ended:
            return
        from planners.language.client import OfflineClient  # takes a while, and most processes never need it

        commands = OfflineClient(self._robot.about, self._robot.routines)
        if source := commands.read_wholly(self._task.instruction, (), self._robot.present()):
            turn.written.append(source)
            turn.stream.text(source)
            self._over(turn, 0, "")
            how, why = "follows the direct commands in the task", f"the model has said nothing for {SILENT_S:g} s"
            layer = self._planner.layer.value
            self._io.report(ModelEvent(kind=ModelKind.DEGRADED, layer=layer, fallback=how, error_msg=why))

    def _over(self, turn: _Turn, code: int, why: str) -> None:
        """End the stream, complete or broken off."""
        self._stop_asking(turn)
        turn.stream.end(code, why)

    def _stop_asking(self, turn: _Turn) -> None:
        if turn.answer is not None:
            turn.answer.cancel()
        if not turn.noted:
            turn.noted = True
            self._planner.wrote("".join(turn.written))

    def _follow(self, turn: _Turn, event: StreamEvent) -> None:
        self._over(turn, int(ModelCode.MODEL_CANCELLED), "the turn ended before the model did")
        running = list(self._running.values())
        result = TurnResult(event.end, event.error_code, event.error_msg, turn.reports, running, turn.repairs)
        if turn.cut and not self._planner.whole and result.reason == "end" and not result.code:
            result = replace(result, reason="failure", error=CUT, repairs=[*turn.repairs, CUT])
        self._only_words.hear("".join(turn.written), [*turn.reports, *running])
        step = self._planner.follow(result, self._known())
        if isinstance(step, PlanEnded) and not step.code and self._io.thinks(self._planner.layer):
            step = self._unless_only_words(step)
        if isinstance(step, PlanEnded):
            self._io.finish(step.code, step.message)
        else:
            self._ask(turn.number + 1, step)

    def _unless_only_words(self, ended: PlanEnded) -> ModelRequest | PlanEnded:
        """Return the end of a plan, or where it only talked and its task asks for a deed, another question or its failure."""
        words = self._only_words
        reminded, (code, why) = words.reminder, words.verdict()
        if code is TaskCode.ONLY_WORDS and not reminded:
            again = self._planner.follow(TurnResult("observe", repairs=[words.reminder]), self._known())
            if isinstance(again, ModelRequest):
                return again
        return self._planner.follow(TurnResult("end", int(code), why)) if code else ended
