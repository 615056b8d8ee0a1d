# SPDX-License-Identifier: Apache-2.0
"""Schedules a whole stream on a virtual clock, without a robot: what would happen, and when."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from function_tokens.mapper import Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError
from function_tokens.routines import RoutineStore
from function_tokens.run_model import CallRun
from function_tokens.scheduling.calls import Call
from function_tokens.scheduling.conditions import ConditionSource
from function_tokens.scheduling.scheduler import Scheduler, SchedulerSettings
from function_tokens.scheduling.virtual import VirtualExecutor, nominal_duration
from skill_kernel.clock import VirtualClock
from skill_kernel.events import CallEvent, Notice, RunEvent, StreamEvent, StreamKind

STREAM = "dry-run"

_SETTINGS = SchedulerSettings(max_unstarted=10**9)
"""The whole text is there at once, so the bound at which a model is made to pause would only cut long scripts."""


@dataclass
class DryRun:
    """Hold the result of `dry_run`: every call in token order, what the parser mended, the violation that ended a strict
    run, and `reason`, why the turn ended (`end` of its TURN_ENDED).
    """

    calls: list[CallRun] = field(default_factory=list)
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
    calls: dict[str, CallRun] = {}

    def on_event(event: RunEvent) -> None:
        if isinstance(event, CallEvent):
            calls.setdefault(event.call_id, CallRun.of(event)).take(event, event.stamp_s)
        elif isinstance(event, Notice) and event.error_msg:
            run.notices.append(event.error_msg)
        elif isinstance(event, StreamEvent) and event.kind is StreamKind.TURN_ENDED:
            run.reason = event.end

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
    run.calls = [calls[call_id] for call_id in sorted(calls, key=lambda call_id: int(call_id[1:]))]
    return run


def call_line(call: CallRun) -> dict[str, Any]:
    """Return a call as `ghostshell dry-run` prints it: channels, parent, error and message only where there are any."""
    line: dict[str, Any] = {
        "call": call.call_id,
        "function": call.function,
        "args": dict(call.arguments),
        "channel": call.channels[0] if call.channels else "",
        "start": None if call.start_s is None else round(call.start_s, 6),
        "end": None if call.end_s is None else round(call.end_s, 6),
        "outcome": call.outcome_name,
    }
    if len(call.channels) > 1:
        line["channels"] = list(call.channels)
    further = {"parent": call.parent_id, "error": call.error, "message": call.message}
    return line | {key: text for key, text in further.items() if text}


def _feed(scheduler: Scheduler, tokens: Iterable[FunctionToken]) -> None:
    for token in tokens:
        scheduler.feed(STREAM, token)


def _ignore(_: object) -> None:
    return None
