# SPDX-License-Identifier: Apache-2.0
"""Plan one process with a strategy: turn ROS messages into planner events, and the strategy's actions into messages."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ghostshell.msg import LlmChunk, ProcessState

from function_tokens.markup import value_text
from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, to_source
from ghostshell_ros.runtime.matched_publisher import MatchedPublisher
from ghostshell_ros.runtime.strategy_host import Desk, PendingCall, StrategyHost
from ghostshell_ros.wire.values import ros_text
from planners.plan import Plan
from planners.strategy import Feed, Planning, RobotView, Strategy
from skill_kernel import events
from skill_kernel.codes import CallCode, ModelCode, Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, StreamEvent, StreamKind

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
class RobotDesk(Desk):
    """Add the robot. `stop` stops a process's running calls (id, epoch, why, callback)."""

    robot: RobotView
    chunks: MatchedPublisher
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


class PlannedProcess(StrategyHost):
    """Implement `PlannerIO` for one process of a robot: the strategy acts by streams."""

    desk: RobotDesk

    def __init__(self, desk: RobotDesk, strategy: Strategy, process: ProcessState) -> None:
        super().__init__(desk, strategy, process, desk.robot.present())
        self.streams: dict[str, ChunkStream] = {}
        """Those that are open, or whose end the channel scheduler has not told."""
        self._next_turn = 0
        self.running: set[str] = set()
        """Ids of calls that run."""

    def _begin(self) -> Planning:
        return self._strategy.start(self._task, self.desk.robot, self)

    # -- what happens to the process ----------------------------------------------------------------------------------

    def restart(self, process: ProcessState) -> None:
        """Plan it under its new epoch; nothing runs or waits."""
        self.running.clear()
        super().restart(process)

    def unmatched(self, why: str) -> None:
        """End its plan if it has written a stream, because no node receives it."""
        if self._last_stream:
            self.lost(why)

    def shut_down(self, why: str) -> None:
        """Plan it no longer, and end what is being written."""
        for stream in list(self.streams.values()):
            stream.end(int(ModelCode.MODEL_CANCELLED), why)
        self.close(why)

    def event(self, event: events.RunEvent) -> None:
        """Hand on what another node tells of the process."""
        if isinstance(event, CallEvent):
            if event.kind is CallKind.STARTED:
                self.running.add(event.call_id)
            elif event.kind is CallKind.ENDED:
                self.running.discard(event.call_id)
            self.call_event(event)
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

    def _abandon(self) -> None:
        for stream in list(self.streams.values()):
            stream.abandon()

    def _end_calls(self, why: str) -> None:
        """Close the open streams at the channel scheduler, and the process with them, once none of its calls runs."""
        if self.running:
            self.desk.node.call_later(CLOSE_S, lambda: self._end_calls(why))
        else:
            self.stop(why, lambda: None)

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

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

    def unavailable(self, robot: str) -> str:
        return "" if robot == self.desk.robot.about.name else "out of reach"

    def stop(self, why: str, then: Callable[[], None]) -> None:
        self.desk.stop(self.process_id, self.epoch, why, lambda: self._guarded(then))
