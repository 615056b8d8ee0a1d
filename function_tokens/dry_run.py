# SPDX-License-Identifier: Apache-2.0
"""Schedules a whole stream on a virtual clock, without a robot: what would happen, and when."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from function_tokens.mapper import Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError
from function_tokens.routines import RoutineStore
from function_tokens.scheduling.calls import Call, EventType, ShellEvent
from function_tokens.scheduling.conditions import ConditionSource
from function_tokens.scheduling.scheduler import Scheduler, SchedulerSettings
from function_tokens.scheduling.timeline import CallRecord
from function_tokens.scheduling.virtual import VirtualExecutor, nominal_duration
from skill_kernel.clock import VirtualClock

STREAM = "dry-run"

_SETTINGS = SchedulerSettings(max_unstarted=10**9)
"""The whole text is there at once, so the bound at which a model is made to pause would only cut long scripts."""


@dataclass
class DryRun:
    """Hold the result of `dry_run`: every call in token order, what the parser mended, the violation that ended a strict
    run, and `reason`, why the turn ended (as in `TURN_ENDED`).
    """

    calls: list[CallRecord] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    error: ParseError | None = None
    reason: str = ""

    @property
    def refused(self) -> bool:
        """Return whether any call was refused."""
        return any(c.outcome == "REFUSED" for c in self.calls)

    @property
    def failed(self) -> bool:
        """Return whether a step failed, because nobody could tell whether a condition holds or something in it was refused."""
        return any(c.outcome == "FAILED" for c in self.calls)


def dry_run(
    text: str,
    mapper: Mapper,
    *,
    mode: Literal["strict", "lenient"] = "lenient",
    chunk: int = 0,
    chars_per_s: float = 0.0,
    interrupt_at_s: float | None = None,
    routines: RoutineStore | None = None,
    duration: Callable[[Call], float] = nominal_duration,
    stop_time: Callable[[Call], float] | None = None,
    conditions: ConditionSource | None = None,
) -> DryRun:
    """Run a stream through parser, mapper and scheduler. The text arrives at once, or in pieces of `chunk` characters at
    `chars_per_s`; `interrupt_at_s` interrupts everything then. Durations are the skills' `nominal_s` [s]. `conditions` says
    which branches of steps hold; without it only "always" and "never" are known."""
    clock = VirtualClock()
    executor = VirtualExecutor(clock, duration=duration, stop_time=stop_time)
    run = DryRun()
    ended: list[Call] = []

    def on_event(event: ShellEvent) -> None:
        if event.type is EventType.ENDED and event.call is not None:
            ended.append(event.call)
        elif event.type is EventType.NOTICE:
            run.notices.append(event.error)
        elif event.type is EventType.TURN_ENDED:
            run.reason = event.reason

    ids = itertools.count(1)
    scheduler = Scheduler(
        mapper,
        executor,
        clock,
        on_event,
        new_call_id=lambda: f"c{next(ids)}",
        routines=routines,
        settings=_SETTINGS,
        conditions=conditions,
    )
    executor.scheduler = scheduler
    parser = StreamingParser(mode)
    scheduler.open_stream(STREAM, strict=mode == "strict")
    if interrupt_at_s is not None:
        clock.call_later(interrupt_at_s, lambda: _ignore(scheduler.interrupt("interrupt")))
    size = chunk or max(1, len(text))
    try:
        for k in range(0, len(text), size):
            _feed(scheduler, parser.feed(text[k : k + size]))
            if chars_per_s > 0:
                clock.run(until_s=min(len(text), k + size) / chars_per_s)
        _feed(scheduler, parser.close())
    except ParseError as error:
        run.error = error
        _feed(scheduler, error.tokens)
        scheduler.end_stream(STREAM, int(error.code), str(error))
    scheduler.end_stream(STREAM)
    run.repairs = [r.message for r in parser.take_repairs()]
    clock.run()
    run.notices += executor.faults
    run.calls = [CallRecord.of(c) for c in sorted(ended, key=lambda c: c.seq)]
    return run


def _feed(scheduler: Scheduler, tokens: Iterable[FunctionToken]) -> None:
    for token in tokens:
        scheduler.feed(STREAM, token)


def _ignore(_: object) -> None:
    return None
