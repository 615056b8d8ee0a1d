# SPDX-License-Identifier: Apache-2.0
"""A scheduler of plans in steps on a virtual clock: conditions are answered when the test says so, or after a delay."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shell_kit import mapper

from bench.calls import CallRun
from bench.dry_run import VirtualExecutor
from bench.virtual_clock import VirtualClock
from function_tokens.parsing.parser import StreamingParser
from function_tokens.routines import RoutineStore
from function_tokens.run_model import merged
from function_tokens.scheduling.calls import Answer, Call, Verdict
from function_tokens.scheduling.queues import StepQueue
from function_tokens.scheduling.scheduler import Scheduler, SchedulerSettings
from skill_kernel.calls import CallResult
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallEvent, CallKind, EventKind, RunEvent


class Asked:
    """Conditions that wait for the test: `say` answers the oldest question about one."""

    def __init__(self) -> None:
        self.open: list[tuple[str, Answer]] = []
        self.faults: dict[str, str] = {}

    def fault(self, condition: str) -> str:
        return self.faults.get(condition, "")

    def ask(self, condition: str, answer: Answer, process_id: str) -> None:
        self.open.append((condition, answer))

    def say(self, condition: str, holds: bool | None, reason: str = "") -> None:
        place = [c for c, _ in self.open].index(condition)
        self.open.pop(place)[1](Verdict(holds, reason))


class Told:
    """Conditions that answer by a table, after `delay_s(condition)`; None there: never."""

    def __init__(
        self, clock: VirtualClock, table: dict[str, bool | None], delay_s: Callable[[str], float | None] = lambda c: 0.0
    ) -> None:
        self._clock = clock
        self._table = table
        self._delay_s = delay_s

    def fault(self, condition: str) -> str:
        return ""

    def ask(self, condition: str, answer: Answer, process_id: str) -> None:
        delay_s = self._delay_s(condition)
        if delay_s == 0.0:
            answer(Verdict(self._table[condition], "told"))
        elif delay_s is not None:
            self._clock.call_later(delay_s, lambda: answer(Verdict(self._table[condition], "told")))


class Manual:
    """An executor whose calls begin and end when the test says so."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.stops: list[str] = []
        self.resets: list[str] = []

    def start(self, call: Call) -> None:
        self.started.append(call.function)

    def content(self, call: Call, text: str, last: bool) -> None:
        """Nothing listens."""

    def reset(self, call: Call) -> None:
        self.resets.append(call.function)

    def stop(self, call: Call, cause: str) -> None:
        self.stops.append(call.function)


@dataclass
class Plan:
    """A scheduler with what happened to it. With `manual` calls end by `end`, else after their nominal time."""

    manual: bool = True
    conditions: Asked | Told | None = None
    routines: RoutineStore | None = None
    settings: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.events: list[RunEvent] = []
        self.queues: list[StepQueue] = []
        self.hand = Manual()
        executor = self.hand if self.manual else VirtualExecutor(self.clock)
        self.conditions = self.conditions or Asked()
        if isinstance(self.conditions, Told):
            self.conditions._clock = self.clock
        ids = itertools.count(1)
        self.scheduler = Scheduler(
            mapper(),
            executor,
            self.clock,
            self.events.append,
            new_call_id=lambda: f"c{next(ids)}",
            conditions=self.conditions,
            on_steps=self.queues.append,
            routines=self.routines,
            settings=SchedulerSettings(**self.settings),
        )
        if isinstance(executor, VirtualExecutor):
            executor.scheduler = self.scheduler
        self.parsers: dict[str, StreamingParser] = {}

    def write(self, text: str, stream: str = "s", turn: int = 0, epoch: int = 0) -> None:
        """More of a stream; it begins with its first text."""
        if stream not in self.parsers:
            self.parsers[stream] = StreamingParser("lenient", stream_id=stream)
            self.scheduler.open_stream(stream, turn=turn, epoch=epoch)
        for token in self.parsers[stream].feed(text):
            self.scheduler.feed(stream, token)

    def close(self, stream: str = "s", code: int = 0) -> None:
        """End the stream here, wherever that is."""
        for token in self.parsers[stream].close():
            self.scheduler.feed(stream, token)
        self.scheduler.end_stream(stream, code, "cut" if code else "")

    def id_of(self, function: str) -> str:
        return next(c.call_id for c in self.scheduler.live_calls if c.function == function)

    def run(self, *functions: str) -> None:
        """Tell that these calls run now."""
        for function in functions:
            self.scheduler.started(self.id_of(function))

    def end(self, function: str, outcome: Outcome = Outcome.DONE, code: CallCode = CallCode.NONE) -> None:
        """Tell that this call has ended."""
        call_id = self.id_of(function)
        self.scheduler.started(call_id)
        self.scheduler.ended(call_id, CallResult(outcome, code, "why" if code else ""))

    def fail(self, function: str) -> None:
        self.end(function, Outcome.FAILED, CallCode.SKILL_FAILED)

    @property
    def ended(self) -> list[CallRun]:
        """Return the calls that have ended, in that order."""
        return ended_calls(self.events)

    def outcomes(self) -> list[tuple[str, str]]:
        return [(c.function, c.outcome_name) for c in self.ended]

    def result(self, function: str) -> CallRun:
        """Return how the call of that name ended that ended last."""
        return [c for c in self.ended if c.function == function][-1]

    @property
    def begun(self) -> list[str]:
        """Functions that began, in that order."""
        return [e.function for e in self.events if e.kind is CallKind.STARTED]

    @property
    def queue(self) -> StepQueue:
        return self.queues[-1]

    def reported(self, kind: EventKind) -> list[RunEvent]:
        return [e for e in self.events if e.kind is kind]


def ended_calls(events: Sequence[RunEvent]) -> list[CallRun]:
    """Return the calls that have ended, in that order."""
    ended = (event for event in events if isinstance(event, CallEvent) and event.kind is CallKind.ENDED)
    return [CallRun.of(merged(None, event, event.stamp_s)) for event in ended]
