# SPDX-License-Identifier: Apache-2.0
"""Plan one process with a strategy: turn ROS messages into planner events, and the strategy's actions into messages."""

from __future__ import annotations

import json
import secrets
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ghostshell.msg import LlmChunk, ProcessState

from function_tokens.markup import value_text
from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, to_source
from ghostshell_ros.runtime.layer_model import LayerModel
from ghostshell_ros.runtime.matched_publisher import MatchedPublisher
from ghostshell_ros.runtime.node import RuntimeNode, SteadyClock
from ghostshell_ros.runtime.recollection import RecollectionClient
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.process_messages import call_reports
from ghostshell_ros.wire.values import ros_text
from planners.judging import SentenceJudge
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd, Handle
from planners.plan import Plan
from planners.scene import earlier_tasks
from planners.strategy import (
    Feed,
    Interrupted,
    Judge,
    Observed,
    Paused,
    PlannerEvent,
    Planning,
    Report,
    Restarted,
    Resumed,
    RobotView,
    Strategy,
    StreamHandle,
    Task,
)
from skill_kernel import events
from skill_kernel.clock import Clock
from skill_kernel.codes import CallCode, ModelCode, Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, ProcessEvent, ProcessKind, StreamEvent, StreamKind

CLOSE_S = 0.5
"""Polling period for the end of running calls, once a process can no longer be planned."""

NUL_ON_THE_WIRE = "\x01"
"""Stands for NUL, which no ROS string can hold; it is no XML character either, so the parser reports it just the same."""

TAKEN_S = 6.0
"""A stream that the channel scheduler has not begun so long after its first chunk is lost. Longer than chunks are held
back for a reader."""

ENDED_S = 3.0
"""A stream whose end, so long after it was written and with no call running, nobody told is lost in the same way."""


@dataclass(frozen=True)
class Desk:
    """Share what all processes of the node use. `stop` stops a process's running calls (id, epoch, why, callback)."""

    node: RuntimeNode
    robot: RobotView
    model: LayerModel
    chunks: MatchedPublisher
    events: EventWriter
    settings: Mapping[str, Any]
    judge: SentenceJudge | None
    memory: RecollectionClient
    stop: Callable[[str, int, str, Callable[[], None]], None]


class ChunkStream:
    """Write one stream of `llm_chunks`; a `StreamHandle`. Its process is lost when no node takes it or tells its end."""

    def __init__(self, process: PlannedProcess, turn: int) -> None:
        self._process, self._desk, self._epoch, self._turn = process, process.desk, process.epoch, turn
        self.stream_id = secrets.token_hex(8)
        self._next_seq = 0
        self.ended = False
        self.taken = False
        """True once the channel scheduler has told of its beginning."""

    def text(self, text: str) -> None:
        if not self.ended:
            self._publish(text)

    def end(self, code: int = 0, why: str = "") -> None:
        """End it, complete or with an error, and say so."""
        if self.ended:
            return
        self.ended = True
        self._publish("", last=True, code=code, why=why)
        self._desk.node.call_later(ENDED_S, self._not_ended)
        ids = {"process_id": self._process.process_id, "stream_id": self.stream_id}
        self._desk.events.write(StreamEvent(kind=StreamKind.ENDED, error_code=code, error_msg=why, **ids))

    def abandon(self) -> None:
        """Write no more of it. It gets no regular end, which would reset as DONE what an interrupt is about to stop."""
        self.ended = True
        self._process.streams.pop(self.stream_id, None)

    def _publish(self, text: str, *, last: bool = False, code: int = 0, why: str = "") -> None:
        self._desk.chunks.publish(
            LlmChunk(
                stamp=self._desk.node.get_clock().now().to_msg(),
                process_id=self._process.process_id,
                stream_id=self.stream_id,
                epoch=self._epoch,
                turn=self._turn,
                seq=self._next_seq,
                text=ros_text(text, NUL_ON_THE_WIRE),
                last=last,
                error_code=code,
                error_msg=ros_text(why),
            )
        )
        if not self._next_seq:
            self._desk.node.call_later(TAKEN_S, self._not_taken)
        self._next_seq += 1

    def _not_taken(self) -> None:
        """Fail a stream whose parser was killed: the graph still shows it for seconds, and what it was sent is lost."""
        if not self.taken:
            self._lost(f"did not take the stream within {TAKEN_S:g} s; repeat the instruction")

    def _not_ended(self) -> None:
        """Fail a stream whose parser died half way through; what the parser had sent on is done nevertheless."""
        if self.taken and not self._process.running:
            self._lost("lost the end of the stream; what came of it is in the history, repeat the rest")
        elif self.stream_id in self._process.streams:
            self._desk.node.call_later(ENDED_S, self._not_ended)

    def _lost(self, why: str) -> None:
        if self._process.streams.pop(self.stream_id, None) is not None:
            self._process.lost(f"token_parser or channel_scheduler {why}")


class PendingCall:
    """The `CallHandle` of a stream of one call."""

    def __init__(self, function: str, arguments: Mapping[str, Any], guarded: Callable[..., None]) -> None:
        self._function, self._arguments, self._guarded = function, arguments, guarded
        self.ended: CallEvent | None = None
        self._callbacks: list[Callable[[CallEvent], None]] = []

    def then(self, callback: Callable[[CallEvent], None]) -> None:
        if self.ended is not None:
            callback(self.ended)
        else:
            self._callbacks.append(callback)

    def end(self, call: CallEvent) -> None:
        self.ended = call
        for callback in self._callbacks:
            self._guarded(callback, call)

    def end_unheard(self, stream_id: str, outcome: Outcome, code: int, why: str) -> None:
        """Tell an outcome that no other node will tell."""
        self.end(
            CallEvent(
                kind=CallKind.ENDED,
                stream_id=stream_id,
                function=self._function,
                args_json=json.dumps(self._arguments),
                outcome=outcome,
                error_code=code,
                error_msg=why,
            )
        )


class PlannedProcess:
    """Implement `PlannerIO` for one process, and deliver its events to the strategy's `Planning`."""

    def __init__(self, desk: Desk, strategy: Strategy, process: ProcessState) -> None:
        self.desk, self._strategy, self.process_id = desk, strategy, process.process_id
        earlier = earlier_tasks(desk.robot.present(), process.process_id)
        self._task = Task(process.process_id, process.instruction, process.sender, call_reports(process), earlier)
        self._roles = {role.name: role for role in strategy.roles}
        self._planning: Planning | None = None
        self._calls: dict[str, PendingCall] = {}
        """Calls of the strategy that have no outcome yet, by stream."""
        self.streams: dict[str, ChunkStream] = {}
        """Those that are open, or whose end the channel scheduler has not told."""
        self._last_stream = ""
        self._next_turn = 0
        self.epoch = process.epoch
        self.finished = False
        self.running: set[str] = set()
        """Ids of calls that run."""
        clock = SteadyClock(desk.node)
        clock.call_later = lambda delay_s, callback: desk.node.call_later(delay_s, lambda: self._guarded(callback))
        self.clock: Clock = clock
        self.settings = desk.settings
        self.judge: Judge | None = self._judge if desk.judge is not None else None

    def wants(self, feed: Feed) -> bool:
        return feed in self._strategy.wants

    # -- what happens to the process ----------------------------------------------------------------------------------

    def start(self) -> None:

        def start() -> None:
            self._planning = self._strategy.start(self._task, self.desk.robot, self)

        self._guarded(start)

    def restart(self, process: ProcessState) -> None:
        """Plan it under its new epoch; nothing runs or waits."""
        self.epoch = process.epoch
        self.running.clear()
        self._void("the process is planned again")
        self.deliver(Restarted(call_reports(process)))

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
            self._void(cause)
            self.deliver(Interrupted(cause))
        if not self.finished:
            self._plan_ended(int(TaskCode.CANCELLED), f"interrupted: {cause}")

    def lost(self, why: str, code: TaskCode = TaskCode.NODE_UNAVAILABLE) -> None:
        """End the plan of a process that can be planned no further."""
        if not self.finished:
            self.close(why)
            self._plan_ended(int(code), why)
            self._close_streams(why)

    def unmatched(self, why: str) -> None:
        """End its plan if it has written a stream, because no node receives it."""
        if self._last_stream:
            self.lost(why)

    def close(self, why: str) -> None:
        """Plan it no longer: what is being written has no regular end."""
        planning, self._planning = self._planning, None
        self.finished = True
        if planning is not None:
            self._run(planning.close, why)
        self._calls.clear()
        self._abandon_streams()

    def shut_down(self, why: str) -> None:
        """Plan it no longer, and end what is being written."""
        for stream in list(self.streams.values()):
            stream.end(int(ModelCode.MODEL_CANCELLED), why)
        self.close(why)

    def event(self, event: events.RunEvent) -> None:
        """Hand on what another node tells of the process."""
        if isinstance(event, CallEvent) and event.kind in (CallKind.STARTED, CallKind.ENDED):
            if event.kind is CallKind.STARTED:
                self.running.add(event.call_id)
            else:
                self.running.discard(event.call_id)
                if not event.parent_id and (call := self._calls.pop(event.stream_id, None)) is not None:
                    call.end(event)
            self.deliver(event)
        elif not isinstance(event, StreamEvent):
            return
        elif event.kind is StreamKind.STARTED:
            if event.stream_id in self.streams:
                self.streams[event.stream_id].taken = True
        elif event.kind is StreamKind.ENDED:
            self.streams.pop(event.stream_id, None)
        elif event.kind is StreamKind.TURN_ENDED and event.error_code == TaskCode.TOO_MANY_PROCESSES:
            self.lost(event.error_msg, TaskCode.TOO_MANY_PROCESSES)
        else:
            if event.kind is StreamKind.TURN_ENDED and (call := self._calls.pop(event.stream_id, None)) is not None:
                why = event.error_msg or "the stream ended without it"
                call.end_unheard(event.stream_id, Outcome.FAILED, event.error_code, why)
            self.deliver(event)

    def plan(self, plan: Plan) -> None:
        if self.wants(Feed.PLANS):
            self.deliver(plan)

    def observed(self) -> None:
        if self.wants(Feed.OBSERVATION):
            self.deliver(Observed())

    def deliver(self, event: PlannerEvent) -> None:
        if self._planning is not None and not self.finished:
            self._guarded(self._planning.on, event)

    def _guarded(self, call: Callable[..., object], *args: Any) -> None:
        """Call into the strategy, unless the process is finished: an answer may come late."""
        if not self.finished:
            self._run(call, *args)

    def _run(self, call: Callable[..., object], *args: Any) -> None:
        """Call into the strategy; what it raises ends this process and no other."""
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 - a strategy may come from anywhere
            self.desk.node.get_logger().error(f"strategy {self._strategy.name} failed:\n{traceback.format_exc()}")
            why = f"strategy '{self._strategy.name}' failed: {type(error).__name__}: {error}"
            self.lost(why, TaskCode.CALL_FAILED)

    def _void(self, why: str) -> None:
        """Write no more of what is open, and end the calls of the strategy."""
        self._abandon_streams()
        calls, self._calls = self._calls, {}
        for stream_id, call in calls.items():
            call.end_unheard(stream_id, Outcome.INTERRUPTED, int(CallCode.INTERRUPTED_BY), why)

    def _abandon_streams(self) -> None:
        for stream in list(self.streams.values()):
            stream.abandon()

    def _close_streams(self, why: str) -> None:
        """Close the open streams at the channel scheduler, and the process with them, once none of its calls runs."""
        if self.running:
            self.desk.node.call_later(CLOSE_S, lambda: self._close_streams(why))
        else:
            self.stop(why, lambda: None)

    def _plan_ended(self, code: int, why: str) -> None:
        kind, stream_id = ProcessKind.PLAN_ENDED, self._last_stream
        self.report(ProcessEvent(kind=kind, stream_id=stream_id, error_code=code, error_msg=why, epoch=self.epoch))

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

    def _judge(self, sentence: str, answer: Callable[[bool | None], None]) -> None:
        assert self.desk.judge is not None
        self.desk.judge.ask(self.process_id, sentence, lambda judged: self._guarded(answer, judged.holds))

    def thinks(self, role: str) -> bool:
        return self.desk.model.thinks(role)

    def allowance(self, role: str) -> tuple[bool, float, str]:
        return self.desk.model.allowance(self.process_id, role)

    def ask(
        self,
        role: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream: StreamHandle | None = None,
    ) -> Handle:
        request = replace(request, deadline_s=min(request.deadline_s, self._roles[role].deadline_s))
        return self.desk.model.ask(
            role,
            self.process_id,
            request,
            lambda text: self._guarded(on_text, text),
            lambda end: self._guarded(on_end, end),
            stream_id=stream.stream_id if stream is not None else "",
        )

    def recollect(self, then: Callable[[Sequence[str]], None]) -> None:
        self.desk.memory.ask(self.process_id, self._task.instruction, lambda lines: self._guarded(then, lines))

    def open(self, turn: int) -> ChunkStream:
        self._next_turn = max(self._next_turn, turn + 1)
        stream = ChunkStream(self, turn)
        self._last_stream = stream.stream_id
        self.streams[stream.stream_id] = stream
        return stream

    def perform(self, tokens: Iterable[FunctionToken]) -> ChunkStream:
        source = to_source(tokens)
        stream = self.open(self._next_turn)
        stream.text(source)
        stream.end()
        return stream

    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> PendingCall:
        call = PendingCall(skill, arguments, self._guarded)
        if robot and robot != (own := self.desk.robot.about.name):
            why = f"there is no robot '{robot}' here; this planner plans for '{own}' alone"
            call.end_unheard("", Outcome.REFUSED, int(CallCode.INVALID_ARGUMENT), why)
            return call
        attributes = {name: value_text(value) for name, value in arguments.items()}
        try:
            stream = self.perform([FunctionToken(TokenKind.SCF, skill, attributes)])
        except RoutineError as error:
            call.end_unheard("", Outcome.REFUSED, int(CallCode.INVALID_ARGUMENT), str(error))
        else:
            self._calls[stream.stream_id] = call
        return call

    def stop(self, why: str, then: Callable[[], None]) -> None:
        self.desk.stop(self.process_id, self.epoch, why, lambda: self._guarded(then))

    def report(self, report: Report) -> None:
        self.desk.events.write(replace(report, process_id=self.process_id))

    def finish(self, code: int = 0, why: str = "") -> None:
        if not self.finished:
            self.finished = True
            self._plan_ended(code, why)
