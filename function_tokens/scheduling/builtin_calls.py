# SPDX-License-Identifier: Apache-2.0
"""What the scheduler carries out itself: the bodies and the ends of built-in calls (semantics, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from function_tokens.builtins import STEP_NAMES
from function_tokens.scheduling.branches import Branches
from function_tokens.scheduling.calls import DONE, Call, CallResult
from function_tokens.scheduling.endings import Endings
from skill_kernel.codes import Outcome

if TYPE_CHECKING:
    from function_tokens.scheduling.life import CallLife

CONTAINERS = frozenset({"wait", "run", "step", "if", "else"})
"""Built-ins without a body: they end with their children."""


class BuiltinCalls:
    """Begins and ends the built-in calls of one process."""

    def __init__(self, scheduler: CallLife, branches: Branches, endings: Endings, live: Mapping[str, Call]) -> None:
        self._scheduler = scheduler
        self._branches = branches
        self._endings = endings
        self._live = live
        self._observing: Call | None = None

    def perform(self, call: Call) -> None:
        """Begin what a call does by itself."""
        scheduler = self._scheduler
        if call.function == "sleep":
            scheduler.clock.call_later(float(call.arguments["seconds"]), lambda: self._over(call, DONE))
        elif call.function == "stop":
            channel = call.arguments["channel"]
            earlier = [c for c in scheduler.live_calls if c.seq < call.seq and not call.is_descendant_of(c)]
            self._endings.stop([c for c in earlier if not channel or channel in c.channels], "stopped by <stop>")
            scheduler.body_ended(call, DONE)
        elif call.function == "observe":
            self._observing = call
            scheduler.clock.call_later(scheduler.settings.observe_timeout_s, lambda: self._observe_timed_out(call))
        elif call.function in ("plan_done", "subtask_complete"):
            scheduler.body_ended(call, DONE)

    def result(self, call: Call) -> CallResult | None:
        """What a call ends with whose reset has been read and whose children have ended; None where it goes on."""
        if call.function not in CONTAINERS and (not call.open or call.function == "observe"):
            return None
        if call.ending is not None:
            return call.ending
        if call.function in STEP_NAMES and self._branches.none_held(call):
            return CallResult(Outcome.DONE, message="no branch held")
        return DONE

    def finish_observation(self) -> bool:
        """End an observation that has nothing left to wait for."""
        call = self._observing
        if call is None or not call.live:
            return False
        before = (c for c in self._live.values() if c.exclusive and c.seq < call.seq)
        if any(not call.is_descendant_of(c) for c in before):
            return False
        self._observing = None
        self._scheduler.end(call, DONE)
        return True

    def _observe_timed_out(self, call: Call) -> None:
        late = CallResult(Outcome.DONE, message="observed at the deadline; motion still runs")
        self._over(call, late)

    def _over(self, call: Call, result: CallResult) -> None:
        if call.live:
            self._scheduler.body_ended(call, result)
            self._scheduler.settle()
