# SPDX-License-Identifier: Apache-2.0
"""Plan one process by a strategy: messages become events of the seam, and what the strategy does becomes messages."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ghostshell.msg import ProcessState

from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, to_source
from ghostshell_ros.nodes.action_planner.chunk_streams import ChunkStream, ChunkStreams
from ghostshell_ros.runtime.layer_model import LayerModel
from ghostshell_ros.runtime.node import SteadyClock
from ghostshell_ros.runtime.node_runtime import RuntimeNode
from ghostshell_ros.wire.call_messages import call_report, ended_call, started_call
from ghostshell_ros.wire.events import EventWriter
from planners.judging import SentenceJudge
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd, Handle
from planners.plan import Plan
from planners.prompts.prompt import CallReport
from planners.strategy import (
    CallEnded,
    Degraded,
    EventFired,
    Feed,
    GenerationStopped,
    Interrupted,
    Judge,
    Notice,
    Observed,
    Paused,
    PlanChanged,
    Planning,
    Report,
    Restarted,
    Resumed,
    RobotView,
    RunEvent,
    Skipped,
    Strategy,
    StreamEnded,
    StreamHandle,
    StreamRepaired,
    SubtaskDone,
    Task,
)
from skill_kernel import events
from skill_kernel.clock import Clock
from skill_kernel.codes import CallCode, ModelCode, Outcome, TaskCode
from skill_kernel.events import CallKind, ProcessEvent, ProcessKind, StreamEvent, StreamKind

TOLD = ("DONE", "FAILED", "INTERRUPTED")
"""Outcomes in a process's history that a strategy is told of."""

CLOSE_S = 0.5
"""How often a process that cannot be planned any further is looked at, whether what runs of it has ended."""


@dataclass(frozen=True)
class Desk:
    """Share what all processes of the node use. `stop` stops what runs of a process (id, epoch, why, what is next)."""

    node: RuntimeNode
    robot: RobotView
    model: LayerModel
    streams: ChunkStreams
    events: EventWriter
    settings: Mapping[str, Any]
    judge: SentenceJudge | None
    stop: Callable[[str, int, str, Callable[[], None]], None]


class OpenStream:
    """The `StreamHandle` of one stream."""

    def __init__(self, desk: Desk, stream: ChunkStream) -> None:
        self._desk, self._stream = desk, stream
        self.stream_id = stream.stream_id

    @property
    def ended(self) -> bool:
        """Return whether nothing more can be written to it."""
        return self._stream.ended

    def text(self, text: str) -> None:
        """Write the next piece."""
        self._desk.streams.text(self._stream, text)

    def end(self, code: int = 0, why: str = "") -> None:
        """End it, and say so."""
        if self._desk.streams.end(self._stream, code, why):
            self._desk.events.write(
                StreamEvent(
                    kind=StreamKind.ENDED,
                    process_id=self._stream.process_id,
                    stream_id=self.stream_id,
                    error_code=code,
                    error_msg=why,
                )
            )

    def abandon(self) -> None:
        """Write no more of it."""
        self._desk.streams.abandon(self._stream)


class PendingCall:
    """The `CallHandle` of a stream of one call."""

    def __init__(self, function: str, arguments: Mapping[str, Any], guarded: Callable[..., None]) -> None:
        self.function, self.arguments, self._guarded = function, arguments, guarded
        self.ended: CallEnded | None = None
        self._callbacks: list[Callable[[CallEnded], None]] = []

    def then(self, callback: Callable[[CallEnded], None]) -> None:
        """Call back with its outcome."""
        if self.ended is not None:
            callback(self.ended)
        else:
            self._callbacks.append(callback)

    def end(self, call: CallEnded) -> None:
        """Tell its outcome."""
        self.ended = call
        for callback in self._callbacks:
            self._guarded(callback, call)

    def end_unheard(self, stream_id: str, outcome: Outcome, code: int, why: str) -> None:
        """Tell an outcome that no other node will tell."""
        self.end(CallEnded(stream_id, "", self.function, self.arguments, outcome.value, code, why))


class PlannedProcess:
    """The `PlannerIO` of one process, and the way of its events to the strategy's `Planning`."""

    def __init__(self, desk: Desk, strategy: Strategy, process: ProcessState) -> None:
        self._desk, self._strategy = desk, strategy
        self._task = Task(process.process_id, process.instruction, process.sender, done_of(process))
        self._roles = {role.name: role for role in strategy.roles}
        self._planning: Planning | None = None
        self._open: dict[str, OpenStream] = {}
        self._calls: dict[str, PendingCall] = {}
        """Calls of the strategy that have no outcome yet, by stream."""
        self._last_stream = ""
        self._next_turn = 0
        self.epoch = process.epoch
        self.finished = False
        self.running: set[str] = set()
        """Ids of calls that run."""
        self.clock: Clock = SteadyClock(desk.node)
        self.settings = desk.settings
        self.judge: Judge | None = self._judge if desk.judge is not None else None

    def wants(self, feed: Feed) -> bool:
        """Return whether its strategy asks for a feed."""
        return feed in self._strategy.wants

    # -- what happens to the process ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Let the strategy begin."""

        def start() -> None:
            self._planning = self._strategy.start(self._task, self._desk.robot, self)

        self._guarded(start)

    def restart(self, process: ProcessState) -> None:
        """Plan it under its new epoch; nothing runs or waits."""
        self._abandon()
        for stream_id, call in self._take_calls():
            call.end_unheard(stream_id, Outcome.INTERRUPTED, int(CallCode.INTERRUPTED_BY), "the process is planned anew")
        self.epoch = process.epoch
        self.running.clear()
        self.deliver(Restarted(done_of(process)))

    def update(self, process: ProcessState) -> None:
        """Take note of its status."""
        if process.epoch != self.epoch:
            return
        if process.status == ProcessState.PAUSED:
            self.deliver(Paused())
        elif process.status in (ProcessState.IN_PROGRESS, ProcessState.WAITING):
            self.deliver(Resumed())

    def interrupt(self, cause: str) -> None:
        """Void everything written; it goes on with a new epoch, or ends."""
        if not self.finished:
            self._abandon()
            for stream_id, call in self._take_calls():
                call.end_unheard(stream_id, Outcome.INTERRUPTED, int(CallCode.INTERRUPTED_BY), cause)
            self.deliver(Interrupted(cause))
            self._plan_ended(int(TaskCode.CANCELLED), f"interrupted: {cause}")

    def lost(self, why: str, code: TaskCode = TaskCode.NODE_UNAVAILABLE) -> None:
        """End the plan of a process that can be planned no further."""
        if not self.finished:
            self.close(why)
            self._plan_ended(int(code), why)
            self._close_streams(why)

    def unmatched(self, why: str) -> None:
        """End its plan if it has written anything, for there is nobody to take it."""
        if self._last_stream:
            self.lost(why)

    def close(self, why: str) -> None:
        """Plan it no longer: what is being written has no regular end."""
        planning, self._planning = self._planning, None
        if planning is not None:
            self._guarded(planning.close, why)
        self.finished = True
        self._calls.clear()
        self._abandon()

    def shut_down(self, why: str) -> None:
        """Plan it no longer, and end what is being written."""
        for stream in list(self._open.values()):
            stream.end(int(ModelCode.MODEL_CANCELLED), why)
        self.close(why)

    def event(self, event: events.RunEvent) -> None:
        """Hand on what another node tells of the process."""
        if event.kind is CallKind.STARTED:
            self.running.add(event.call_id)
            self.deliver(started_call(event))
        elif event.kind is CallKind.ENDED:
            self.running.discard(event.call_id)
            ended = ended_call(event)
            if not event.parent_id and (call := self._calls.pop(event.stream_id, None)) is not None:
                call.end(ended)
            self.deliver(ended)
        elif event.kind is StreamKind.STOP_GENERATION:
            self.deliver(GenerationStopped(event.stream_id, event.error_msg))
        elif event.kind is StreamKind.TURN_ENDED and event.error_code == TaskCode.TOO_MANY_PROCESSES:
            self.lost(event.error_msg, TaskCode.TOO_MANY_PROCESSES)
        elif event.kind is StreamKind.TURN_ENDED:
            if (call := self._calls.pop(event.stream_id, None)) is not None:
                why = event.error_msg or "the stream ended without it"
                call.end_unheard(event.stream_id, Outcome.FAILED, event.error_code, why)
            self.deliver(StreamEnded(event.stream_id, event.end, event.error_code, event.error_msg))
        elif event.kind is StreamKind.REPAIR:
            self.deliver(StreamRepaired(event.stream_id, event.error_msg))

    def plan(self, plan: Plan) -> None:
        """Hand on a revision of System 2's plan."""
        if self.wants(Feed.PLANS):
            self.deliver(PlanChanged(plan))

    def observed(self) -> None:
        """Tell that there is a new observation."""
        if self.wants(Feed.OBSERVATION):
            self.deliver(Observed())

    def deliver(self, event: RunEvent) -> None:
        """Hand an event to the strategy."""
        if self._planning is not None and not self.finished:
            self._guarded(self._planning.on, event)

    def _guarded(self, call: Callable[..., None], *args: Any) -> None:
        """Call into the strategy; what it raises ends this process and no other."""
        if self.finished and self._planning is not None:
            return
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 - a strategy may come from anywhere
            self._desk.node.get_logger().error(f"strategy {self._strategy.name} failed:\n{traceback.format_exc()}")
            why = f"strategy '{self._strategy.name}' failed: {type(error).__name__}: {error}"
            self.lost(why, TaskCode.CALL_FAILED)

    def _abandon(self) -> None:
        for stream in self._open.values():
            stream.abandon()
        self._open.clear()
        self._desk.streams.forget(self._task.process_id)

    def _close_streams(self, why: str) -> None:
        """Close what stays open at the channel scheduler, and the process with it, as soon as nothing of it runs."""
        if self.running:
            self._desk.node.call_later(CLOSE_S, lambda: self._close_streams(why))
        else:
            self.stop(why, lambda: None)

    def _plan_ended(self, code: int, why: str) -> None:
        self._write(ProcessKind.PLAN_ENDED, stream_id=self._last_stream, error_code=code, error_msg=why, epoch=self.epoch)

    def _write(self, kind: ProcessKind, **fields: Any) -> None:
        self._desk.events.write(ProcessEvent(kind=kind, process_id=self._task.process_id, **fields))

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

    def _judge(self, sentence: str, answer: Callable[[bool | None], None]) -> None:
        assert self._desk.judge is not None
        self._desk.judge.ask(self._task.process_id, sentence, lambda judged: self._guarded(answer, judged.holds))

    def thinks(self, role: str) -> bool:
        """Return whether a language model answers the role."""
        return self._desk.model.thinks(role)

    def allowance(self, role: str) -> tuple[bool, float, str]:
        """Return what the budget says."""
        return self._desk.model.allowance(self._task.process_id, role)

    def ask(
        self,
        role: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream: StreamHandle | None = None,
    ) -> Handle:
        """Ask the model of a role."""
        request = replace(request, deadline_s=min(request.deadline_s, self._roles[role].deadline_s))
        return self._desk.model.ask(
            role,
            self._task.process_id,
            request,
            lambda text: self._guarded(on_text, text),
            lambda end: self._guarded(on_end, end),
            stream_id=stream.stream_id if stream is not None else "",
        )

    def open(self, turn: int) -> OpenStream:
        """Begin a stream."""
        self._next_turn = max(self._next_turn, turn + 1)
        stream = OpenStream(self._desk, self._desk.streams.open(self._task.process_id, self.epoch, turn))
        self._open = {i: s for i, s in self._open.items() if not s.ended}
        self._open[stream.stream_id] = stream
        self._last_stream = stream.stream_id
        return stream

    def perform(self, tokens: Iterable[FunctionToken]) -> OpenStream:
        """Perform tokens as a whole stream."""
        stream = self.open(self._next_turn)
        stream.text(to_source(tokens))
        stream.end()
        return stream

    def call(self, skill: str, /, **arguments: Any) -> PendingCall:
        """Perform one call and give it a handle."""
        call = PendingCall(skill, arguments, self._guarded)
        attributes = {name: text_of(value) for name, value in arguments.items()}
        try:
            stream = self.perform([FunctionToken(TokenKind.SCF, skill, attributes)])
        except RoutineError as error:
            call.end_unheard("", Outcome.REFUSED, int(CallCode.INVALID_ARGUMENT), str(error))
        else:
            self._calls[stream.stream_id] = call
        return call

    def _take_calls(self) -> list[tuple[str, PendingCall]]:
        calls, self._calls = list(self._calls.items()), {}
        return calls

    def stop(self, why: str, then: Callable[[], None]) -> None:
        """Stop what runs of the process."""
        self._desk.stop(self._task.process_id, self.epoch, why, lambda: self._guarded(then))

    def report(self, report: Report) -> None:
        """Publish a report on `events`."""
        process_id, model = self._task.process_id, self._desk.model
        if isinstance(report, SubtaskDone):
            self._write(ProcessKind.SUBTASK_DONE, plan_item_id=report.subtask_id, plan_item=report.description)
        elif isinstance(report, EventFired):
            self._write(ProcessKind.PLAN_EVENT, plan_item_id=report.event_id, plan_item=report.response)
        elif isinstance(report, Notice):
            self._desk.events.write(events.Notice(process_id=process_id, error_msg=report.why))
        elif isinstance(report, Skipped):
            model.skipped(report.role, process_id, report.why)
        elif isinstance(report, Degraded):
            model.degraded(report.role, process_id, report.how, report.why)

    def finish(self, code: int = 0, why: str = "") -> None:
        """End the plan."""
        if not self.finished:
            self.finished = True
            self._plan_ended(code, why)


def text_of(value: object) -> str:
    """Return a typed argument as a stream writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def done_of(process: ProcessState) -> list[CallReport]:
    """Return what was done of a process before, as its history tells."""
    return [call_report(c) for c in process.history if c.outcome in TOLD]
