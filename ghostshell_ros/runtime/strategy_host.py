# SPDX-License-Identifier: Apache-2.0
"""Run a strategy for the processes of a planner node: deliver what happens to its `Planning`, and implement of `PlannerIO` what
is the same for a robot and a team."""

from __future__ import annotations

import json
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from ghostshell.msg import ProcessState

from ghostshell_ros.runtime.layer_model import LayerModel
from ghostshell_ros.runtime.node import RuntimeNode, SteadyClock
from ghostshell_ros.runtime.recollection import RecollectionClient
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.process_messages import call_reports
from planners.judging import SentenceJudge
from planners.learned import LearnedStore
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd, Handle
from planners.people import People
from planners.scene import Present, earlier_tasks
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
    Strategy,
    StreamHandle,
    Task,
)
from skill_kernel.clock import Clock
from skill_kernel.codes import CallCode, ModelCode, Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, ProcessEvent, ProcessKind

T = TypeVar("T")


@dataclass(frozen=True)
class Desk:
    """Share what all processes of a planner node use."""

    node: RuntimeNode
    model: LayerModel
    events: EventWriter
    settings: Mapping[str, Any]
    judge: SentenceJudge | None
    memory: RecollectionClient
    folder: Path
    """Of the robot's or the team's data."""
    people: People = field(default_factory=People, kw_only=True)
    learned: LearnedStore | None = field(default=None, kw_only=True)


_WORKER = ThreadPoolExecutor(1, "strategies")
"""Does what blocks, for all strategies of the node."""


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
                args_json=json.dumps(self._arguments, default=str),
                outcome=outcome,
                error_code=code,
                error_msg=why,
            )
        )


class StrategyHost(ABC):
    """Run the strategy of one process. Subclasses add the ways in which it acts."""

    def __init__(self, desk: Desk, strategy: Strategy, process: ProcessState, present: Present) -> None:
        self.desk, self._strategy, self.process_id = desk, strategy, process.process_id
        earlier = earlier_tasks(present, process.process_id)
        self._task = Task(process.process_id, process.instruction, process.sender, call_reports(process), earlier)
        self._roles = {role.name: role for role in strategy.roles}
        self._planning: Planning | None = None
        self._calls: dict[str, PendingCall] = {}
        """Calls of the strategy that have no outcome yet, by stream."""
        self._last_stream = ""
        self.epoch = process.epoch
        self.finished = False
        clock = SteadyClock(desk.node)
        clock.call_later = lambda delay_s, callback: desk.node.call_later(delay_s, lambda: self._guarded(callback))
        self.clock: Clock = clock
        self.settings = desk.settings
        self.folder = desk.folder / strategy.name
        self.judge: Judge | None = self._judge if desk.judge is not None else None
        self.people, self.learned = desk.people, desk.learned

    def wants(self, feed: Feed) -> bool:
        return feed in self._strategy.wants

    @abstractmethod
    def _begin(self) -> Planning:
        """Start the strategy."""

    @abstractmethod
    def _abandon(self) -> None:
        """Write and send no more of what was begun."""

    @abstractmethod
    def _end_calls(self, why: str) -> None:
        """End the calls of a process that can be planned no further."""

    @abstractmethod
    def stop(self, why: str, then: Callable[[], None]) -> None:
        """Stop all that runs of the process."""

    # -- what happens to the process ----------------------------------------------------------------------------------

    def start(self) -> None:

        def start() -> None:
            self._planning = self._begin()

        self._guarded(start)

    def restart(self, process: ProcessState) -> None:
        """Plan it under its new epoch; nothing runs or waits."""
        self.epoch = process.epoch
        self._void("the process is planned again")
        self.deliver(Restarted(call_reports(process)))

    def update(self, process: ProcessState) -> None:
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
            self._end_calls(why)

    def close(self, why: str) -> None:
        """Plan it no longer: what is being written has no regular end."""
        planning, self._planning = self._planning, None
        self.finished = True
        if planning is not None:
            self._run(planning.close, why)
        self._calls.clear()
        self._abandon()

    def call_event(self, event: CallEvent) -> None:
        if event.kind not in (CallKind.STARTED, CallKind.ENDED):
            return
        if (
            event.kind is CallKind.ENDED
            and not event.parent_id
            and (call := self._calls.pop(event.stream_id, None)) is not None
        ):
            call.end(event)
        self.deliver(event)

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
        self._abandon()
        calls, self._calls = self._calls, {}
        for stream_id, call in calls.items():
            call.end_unheard(stream_id, Outcome.INTERRUPTED, int(CallCode.INTERRUPTED_BY), why)

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

    def work(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        def run() -> None:
            try:
                value = work()
            except Exception as error:  # noqa: BLE001 - raised again where it ends the process
                self.desk.node.call_soon(self._guarded, _raise, error)
            else:
                self.desk.node.call_soon(self._guarded, then, value)

        _WORKER.submit(run)

    def report(self, report: Report) -> None:
        self.desk.events.write(replace(report, process_id=self.process_id))

    def finish(self, code: int = 0, why: str = "") -> None:
        if not self.finished:
            self.finished = True
            self._plan_ended(code, why)


def _raise(error: Exception) -> NoReturn:
    raise error


H = TypeVar("H", bound=StrategyHost)
S = TypeVar("S", bound=Strategy)


class HostTable(dict[str, H], Generic[S, H]):
    """Keep the processes that a node plans by their ids, each run by its strategy. `make` begins one, and `models` play the
    roles."""

    def __init__(
        self, strategies: Mapping[str, S], broken: Mapping[str, str], models: LayerModel, make: Callable[[S, ProcessState], H]
    ) -> None:
        super().__init__()
        self._strategies, self._broken, self._models, self._make = strategies, broken, models, make
        self._epochs: dict[str, int] = {}
        """The newest epoch of each process that was planned here."""

    def take(self, process: ProcessState) -> None:
        """Plan a process as it stands now: begin, begin again under a new epoch, go on, or end."""
        process_id = process.process_id
        if process.status >= ProcessState.SUCCESS:
            if (host := self.pop(process_id, None)) is not None:
                host.close("the process has ended")
        elif process.status == ProcessState.IN_PROGRESS and process.epoch > self._epochs.get(process_id, -1):
            self.pass_over(process)
            self._begin(process)
        elif process_id in self:
            self[process_id].update(process)

    def pass_over(self, process: ProcessState) -> None:
        """Plan a process only once it has a newer epoch."""
        self._epochs[process.process_id] = process.epoch
        while len(self._epochs) > 1000:
            del self._epochs[next(iter(self._epochs))]

    def unfinished(self) -> list[str]:
        return [process_id for process_id, host in self.items() if not host.finished]

    def _begin(self, process: ProcessState) -> None:
        known = self.get(process.process_id)
        if known is not None and not known.finished:
            known.restart(process)
        elif (strategy := self._strategies.get(process.strategy)) is None:
            self.plan_ended(process, TaskCode.UNKNOWN_STRATEGY, self._unknown(process.strategy))
        elif why := strategy.refusal(self._models.thinks):
            self.plan_ended(process, ModelCode.MODEL_NOT_UNDERSTOOD, why)
        else:
            host = self[process.process_id] = self._make(strategy, process)
            host.start()

    def _unknown(self, name: str) -> str:
        if name in self._broken:
            return self._broken[name]
        return f"strategy '{name}' is not installed here; use one of {', '.join(self._strategies)}"

    def plan_ended(self, process: ProcessState, code: TaskCode | ModelCode, why: str) -> None:
        """Tell that a process has no further plan."""
        ids = {"process_id": process.process_id, "epoch": process.epoch}
        self._models.events.write(ProcessEvent(kind=ProcessKind.PLAN_ENDED, error_code=int(code), error_msg=why, **ids))
