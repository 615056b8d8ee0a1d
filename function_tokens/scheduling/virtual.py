# SPDX-License-Identifier: Apache-2.0
"""Executor on the virtual clock: calls take their declared `nominal_s`, nothing moves. For dry runs and tests."""

from __future__ import annotations

from collections.abc import Callable

from function_tokens.scheduling.calls import Call, Role
from function_tokens.scheduling.scheduler import Scheduler
from skill_kernel.calls import CallResult
from skill_kernel.clock import OneShotTimer, VirtualClock
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.skills.skill import SkillDefinitionError

TEXT_NOMINAL_S = 1.0
"""Duration of an utterance when the skill set has no skill that speaks text."""


def nominal_duration(call: Call) -> float:
    """Return the seconds a call takes by its skill's `nominal_s`. Raises SkillDefinitionError when that gives none."""
    return TEXT_NOMINAL_S if call.skill is None else call.skill.nominal_for(call.arguments_with_content)


class VirtualExecutor:
    """Implement `calls.Executor`. `duration` may replace the declared durations, `stop_time` the stop times."""

    def __init__(
        self,
        clock: VirtualClock,
        *,
        duration: Callable[[Call], float] = nominal_duration,
        stop_time: Callable[[Call], float] | None = None,
    ) -> None:
        self._clock = clock
        self._duration = duration
        self._stop_time = stop_time or self._declared_stop
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
        seconds = self._seconds(self._duration, call)
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

    @staticmethod
    def _declared_stop(call: Call) -> float:
        if call.role is Role.TEXT or call.skill is None:
            return 0.0
        return call.skill.stop_bound_s(call.arguments_with_content)
