# SPDX-License-Identifier: Apache-2.0
"""The part of the action planner's node for strategies whose every answer is one stream: asked, published, and followed by
another turn when its calls have ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ghostshell.msg import ProcessState, SkillEvent

from ghostshell_ros.nodes.action_planner.chunk_streams import ChunkStream, ChunkStreams
from ghostshell_ros.runtime.layer_model import LayerModel
from ghostshell_ros.runtime.scene import Scene
from ghostshell_ros.wire.call_messages import call_report
from ghostshell_ros.wire.event_writer import EventWriter
from ghostshell_ros.wire.values import arguments_of, outcome_name
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd, Handle
from planners.prompts.prompt import CallReport
from planners.strategies.stream.stream_planner import PlanEnded, StreamingPlanner, TurnResult
from skill_kernel.codes import ModelCode, TaskCode

TOLD = ("DONE", "FAILED", "INTERRUPTED")
"""Outcomes in a process's history that a plan made anew is told of."""


@dataclass(eq=False)
class Turn:
    """One answer being written and what came of it."""

    planner: StreamingPlanner
    stream: ChunkStream
    answer: Handle | None = None
    written: list[str] = field(default_factory=list)
    began_s: float = 0.0
    reports: list[CallReport] = field(default_factory=list)
    running: dict[str, CallReport] = field(default_factory=dict)
    repairs: list[str] = field(default_factory=list)


class AnswerStreams:
    """Plans processes turn by turn; `new_planner` makes the planner of a strategy."""

    def __init__(
        self,
        model: LayerModel,
        streams: ChunkStreams,
        events: EventWriter,
        scene: Scene,
        new_planner: Callable[[str], StreamingPlanner],
    ) -> None:
        self._model, self._streams, self._events, self._scene = model, streams, events, scene
        self._new_planner = new_planner
        self._turns: dict[str, Turn] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def __contains__(self, process_id: str) -> bool:
        return process_id in self._turns

    def ids(self) -> list[str]:
        """The processes that are planned here."""
        return list(self._turns)

    def busy(self, process_id: str) -> bool:
        """Whether calls of a process run."""
        return process_id in self._turns and bool(self._turns[process_id].running)

    def begin(self, process: ProcessState) -> None:
        """Plan a process, from its history if it is planned anew."""
        self.cancel(process.process_id)
        planner = self._new_planner(process.strategy)
        state, observation = self._known()
        request = planner.begin(
            process.instruction,
            sender=process.sender,
            state=state,
            observation=observation,
            images=self._scene.images(),
            done=[call_report(c) for c in process.history if c.outcome in TOLD],
        )
        turn = Turn(planner, self._streams.open(process.process_id, process.epoch, 0))
        self._ask(process.process_id, turn, request)

    def update(self, process: ProcessState) -> None:
        """Pauses are the business of kernel and scheduler."""

    def cancel(self, process_id: str) -> bool:
        """Stop writing for a process; whether it was planned here."""
        turn = self._turns.pop(process_id, None)
        if turn is None:
            return False
        self._stop(turn)
        return True

    def interrupt(self, process_id: str, cause: str) -> None:
        """Everything planned for a process is void."""
        turn = self._turns.get(process_id)
        if turn is not None:
            self._stop(turn)
            self.ended(turn, PlanEnded(int(TaskCode.CANCELLED), f"interrupted: {cause}"))

    def lost(self, stream: ChunkStream, why: str) -> None:
        """The other nodes have lost a stream."""
        turn = self._turns.get(stream.process_id)
        if turn is not None and turn.stream is stream:
            self._stop(turn)
            self.ended(turn, PlanEnded(int(TaskCode.NODE_UNAVAILABLE), why))

    def unmatched(self, why: str) -> None:
        """There is nobody to take streams."""
        for turn in list(self._turns.values()):
            self._stop(turn)
            self.ended(turn, PlanEnded(int(TaskCode.NODE_UNAVAILABLE), why))

    def close(self) -> None:
        """End what is being written."""
        for process_id, turn in list(self._turns.items()):
            self._over(turn, int(ModelCode.MODEL_CANCELLED), "the action planner ends")
            self.cancel(process_id)

    # -- one answer ---------------------------------------------------------------------------------------------------

    def _known(self) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """The observation for a prompt, or without an observer the few facts that this node knows by itself."""
        observation = self._scene.observation()
        return (self._scene.state(), None) if observation is None else (None, observation)

    def _ask(self, process_id: str, turn: Turn, request: ModelRequest) -> None:
        self._turns[process_id] = turn
        turn.began_s = self._scene.now_s()
        turn.answer = self._model.ask(
            turn.planner.layer,
            process_id,
            request,
            lambda text: self._text(turn, text),
            lambda end: self._answered(turn, end),
            stream_id=turn.stream.stream_id,
        )

    def _text(self, turn: Turn, text: str) -> None:
        if not turn.stream.ended:
            turn.written.append(text)
            if not turn.planner.whole:
                self._streams.text(turn.stream, text)

    def _answered(self, turn: Turn, end: AnswerEnd) -> None:
        if turn.planner.whole and not end.code and not turn.stream.ended:
            self._streams.text(turn.stream, "".join(turn.written))
        self._over(turn, end.code, end.why)

    def _over(self, turn: Turn, code: int, why: str) -> None:
        """The answer is complete, or has ended with an error; told once."""
        if turn.answer is not None:
            turn.answer.cancel()
        if self._streams.end(turn.stream, code, why):
            turn.planner.wrote("".join(turn.written))
            self._events.write(
                SkillEvent.STREAM_ENDED,
                process_id=turn.stream.process_id,
                stream_id=turn.stream.stream_id,
                error_code=code,
                error_msg=why,
            )

    def _stop(self, turn: Turn) -> None:
        if turn.answer is not None:
            turn.answer.cancel()
        if not turn.stream.ended:
            turn.planner.wrote("".join(turn.written))
        self._streams.abandon(turn.stream)

    # -- what came of it ----------------------------------------------------------------------------------------------

    def event(self, event: SkillEvent) -> None:
        """Something has happened to a process that is planned here."""
        turn = self._turns.get(event.process_id)
        if turn is None:
            return
        if event.type == SkillEvent.CALL_STARTED:
            turn.running[event.call_id] = CallReport(event.function, arguments_of(event.args_json), "RUNNING")
        elif event.type == SkillEvent.CALL_ENDED:
            turn.running.pop(event.call_id, None)
            turn.reports.append(
                CallReport(
                    event.function,
                    arguments_of(event.args_json),
                    outcome_name(event.outcome),
                    event.error_msg or event.text,
                    self._since(turn, event.start_s),
                    self._since(turn, event.end_s),
                )
            )
        elif event.stream_id != turn.stream.stream_id:
            return
        elif event.type == SkillEvent.STOP_GENERATION:
            self._over(turn, int(ModelCode.MODEL_CANCELLED), event.error_msg or "the channel scheduler takes no more of it")
        elif event.type == SkillEvent.REPAIR:
            turn.repairs.append(event.error_msg)
        elif event.type == SkillEvent.TURN_ENDED:
            self._follow(turn, event)

    def _since(self, turn: Turn, time_s: float) -> float | None:
        return None if time_s < 0 else time_s - turn.began_s

    def _follow(self, turn: Turn, event: SkillEvent) -> None:
        self._over(turn, int(ModelCode.MODEL_CANCELLED), "the turn ended before the model did")
        running: Sequence[CallReport] = list(turn.running.values())
        result = TurnResult(event.text, event.error_code, event.error_msg, turn.reports, list(running), turn.repairs)
        state, observation = self._known()
        step = turn.planner.follow(result, state=state, observation=observation, images=self._scene.images())
        if isinstance(step, PlanEnded):
            self.ended(turn, step)
            return
        stream = turn.stream
        following = Turn(turn.planner, self._streams.open(stream.process_id, stream.epoch, stream.turn + 1))
        following.running = turn.running
        self._ask(stream.process_id, following, step)

    def ended(self, turn: Turn, step: PlanEnded) -> None:
        """The plan of a process has ended."""
        stream = turn.stream
        if self._turns.get(stream.process_id) is turn:
            del self._turns[stream.process_id]
        self._events.write(
            SkillEvent.PLAN_ENDED,
            process_id=stream.process_id,
            stream_id=stream.stream_id,
            error_code=step.code,
            error_msg=step.message,
            epoch=stream.epoch,
        )
