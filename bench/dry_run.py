# SPDX-License-Identifier: Apache-2.0
"""Schedule a whole stream on a virtual clock, without a robot, to see what would happen and when. Nothing moves."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.calls import CallRun
from bench.virtual_clock import VirtualClock
from function_tokens.mapper import Mapper
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError
from function_tokens.routines import RoutineStore
from function_tokens.run_model import merged
from function_tokens.scheduling.calls import Answer, Call, ConditionSource, Role, Verdict
from function_tokens.scheduling.scheduler import Scheduler, SchedulerSettings
from skill_kernel.calls import CallResult
from skill_kernel.clock import OneShotTimer
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.config.sections import shown
from skill_kernel.config.yaml_text import is_file
from skill_kernel.events import CallEvent, Notice, RunEvent, StreamEvent, StreamKind
from skill_kernel.robot import RobotConfig, SubsystemConfig
from skill_kernel.skills.registry import RegistryError, SkillRegistry
from skill_kernel.skills.skill import SkillDefinitionError

TEXT_NOMINAL_S = 1.0
"""Duration of an utterance when the skill set has no skill that speaks text."""

_SHARED, _PARALLEL = (SubsystemConfig(exclusive_per_process=False, parallel=parallel) for parallel in (False, True))
ANY_ROBOT = RobotConfig(
    name="robot", skills=["skills"], subsystems={"SOUND": _SHARED, "default": _PARALLEL, "DEFAULT": _PARALLEL}
)
"""Robot of a file of skills alone: the subsystems that several processes may use where no robot's file says more (TypeGo 4)."""


class VirtualExecutor:
    """Implement `calls.Executor`. `stop_time` may replace the declared stop times."""

    def __init__(self, clock: VirtualClock, *, stop_time: Callable[[Call], float] | None = None) -> None:
        self._clock = clock
        self._stop_time = stop_time or _declared_stop
        self._timers: dict[str, OneShotTimer] = {}
        self._natural_end: dict[str, float] = {}
        self._outcome: dict[str, CallResult] = {}
        self.scheduler: Scheduler
        """Set it before the first call."""
        self.faults: dict[str, None] = {}
        """Faults of declared durations, each once; such a call takes no time, as in the kernel."""

    def start(self, call: Call) -> None:
        """Begin at once; a body without content ends by itself after its duration."""
        if not call.takes_content:
            self._begin_body(call)
        self.scheduler.started(call.call_id)

    def content(self, call: Call, text: str, last: bool) -> None:
        """Begin the body of a call with content when all of it is known, and with it the duration."""
        if last and call.call_id not in self._natural_end:
            self._begin_body(call)

    def reset(self, call: Call) -> None:
        """End as DONE after the stop time, or when the body ends by itself if that is sooner."""
        self._cut_short(call, CallResult(Outcome.DONE))

    def stop(self, call: Call, cause: str) -> None:
        """End as INTERRUPTED after the stop time; a reset under way is only hastened."""
        self._cut_short(call, CallResult(Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY, cause))

    def _begin_body(self, call: Call) -> None:
        seconds = self._seconds(_declared_duration, call)
        self._natural_end[call.call_id] = self._clock.now() + seconds
        if not call.open or call.takes_content:
            self._end_after(call, seconds, CallResult(Outcome.DONE))

    def _cut_short(self, call: Call, result: CallResult) -> None:
        result = self._outcome.setdefault(call.call_id, result)
        now = self._clock.now()
        remaining = max(0.0, self._natural_end.get(call.call_id, now) - now)
        self._end_after(call, min(self._seconds(self._stop_time, call), remaining), result)

    def _seconds(self, declared: Callable[[Call], float], call: Call) -> float:
        try:
            return declared(call)
        except SkillDefinitionError as error:
            self.faults[f"{error}; counted as 0 s"] = None
            return 0.0

    def _end_after(self, call: Call, seconds: float, result: CallResult) -> None:
        pending = self._timers.pop(call.call_id, None)
        if pending is not None:
            pending.cancel()
        self._timers[call.call_id] = self._clock.call_later(seconds, lambda: self._end(call, result))

    def _end(self, call: Call, result: CallResult) -> None:
        self._timers.pop(call.call_id, None)
        self._natural_end.pop(call.call_id, None)
        self._outcome.pop(call.call_id, None)
        self.scheduler.ended(call.call_id, result)


def _declared_duration(call: Call) -> float:
    return TEXT_NOMINAL_S if call.skill is None else call.skill.nominal_for(call.arguments_with_content)


def _declared_stop(call: Call) -> float:
    return 0.0 if call.role is Role.TEXT or call.skill is None else call.skill.stop_bound_s(call.arguments_with_content)


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
    stop_time: Callable[[Call], float] | None = None,
    conditions: ConditionSource | None = None,
) -> DryRun:
    """Run a stream through parser, mapper and scheduler. The text arrives at once, or in pieces of `chunk` characters at
    `chars_per_s`; `interrupt_at_s` interrupts everything then. Durations are the skills' `nominal_s` [s]. `conditions` says
    which branches of steps hold; without it only "always" and "never" are known."""
    clock = VirtualClock()
    executor = VirtualExecutor(clock, stop_time=stop_time)
    run = DryRun()
    calls: dict[str, CallEvent] = {}

    def on_event(event: RunEvent) -> None:
        if isinstance(event, CallEvent):
            calls[event.call_id] = merged(calls.get(event.call_id), event, event.stamp_s)
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
        conditions=conditions or AssumedConditions({}, default=None),
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
    run.calls = [CallRun.of(calls[call_id]) for call_id in sorted(calls, key=lambda call_id: int(call_id[1:]))]
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


class AssumedConditions:
    """Implement `ConditionSource` for a run without a robot: what was given, else one assumption for all.

    `check` finds faults of a condition as it stands. Each assumption made is kept in `assumed`, once.
    """

    def __init__(
        self, given: Mapping[str, bool], default: bool | None = True, check: Callable[[str], str] = lambda condition: ""
    ) -> None:
        self._given = {plain(condition): holds for condition, holds in given.items()}
        self._default = default
        self._check = check
        self.assumed: dict[str, bool | None] = {}
        self.unused = dict.fromkeys(self._given)
        """Conditions that were given and not asked (so far)."""

    def fault(self, condition: str) -> str:
        return self._check(condition)

    def ask(self, condition: str, answer: Answer, process_id: str) -> None:
        known = plain(condition)
        self.unused.pop(known, None)
        if known in self._given:
            answer(Verdict(self._given[known], "as given"))
            return
        self.assumed[condition] = self._default
        answer(Verdict(self._default, "nobody said whether it does" if self._default is None else "assumed"))


def plain(condition: str) -> str:
    """Return a condition in its one spelling: single spaces and single quotes."""
    return " ".join(condition.replace('"', "'").split())


def skills_of(path: str | Path, *, text_skill: str = "") -> SkillRegistry:
    """Return the functions declared with `robot_skill` in a Python file; raises RegistryError as `from_modules` does."""
    file = Path(path)
    if not is_file(file):
        raise RegistryError(f"skill file {shown(path, 300)} does not exist")
    digest = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:8]
    name = f"_skills_{digest}_{re.sub(r'[^0-9A-Za-z_]', '_', file.stem)}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None:
        raise RegistryError(f"skill file {path} is not a Python file; its name must end in .py")
    module, before = importlib.util.module_from_spec(spec), sys.modules.get(name)
    sys.modules[name] = module
    try:
        # Not by its loader: compiled forms of a file tell two edits within one second apart by its size alone.
        exec(compile(file.read_bytes(), file, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        sys.modules |= {name: before} if before is not None else {}
        known = isinstance(error, SkillDefinitionError)
        why = f": {error}" if known else f" cannot be loaded ({type(error).__name__}: {error})"
        raise RegistryError(f"skill file {path}{why}") from error
    return SkillRegistry.from_modules([name], text_skill=text_skill)
