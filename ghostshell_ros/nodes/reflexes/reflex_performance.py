# SPDX-License-Identifier: Apache-2.0
"""One firing's way through its action: taken subsystems, call after call, until it is over or cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from function_tokens.scheduling.calls import Call
from reflexes.loop import Ended, Firing
from skill_kernel.calls import CallResult
from skill_kernel.codes import CallCode, LeaseCode, Outcome
from skill_kernel.guard import SkillRequest
from skill_kernel.guard.vocabulary import STOP, WAIT

LEASE_S = 0.5
"""How long the kernel may take to answer; without it nothing is begun."""
FREE_S = 3.0
"""How long a subsystem that was taken may take to come to rest: the longest stop time of a skill, and some."""
ASK_AGAIN_S = 0.05
"""The kernel's state tells when something became free; this is for one that was lost."""
STOP_AGAIN_S = 0.1
"""So often the base is stopped while what it did before has not come to rest: the gate forgets a wish after 0.2 s."""
NOT_NOW = (CallCode.HALTED, CallCode.PROCESS_PAUSED, CallCode.STALE_EPOCH, CallCode.KERNEL_UNAVAILABLE, CallCode.INTERRUPTED_BY)
"""Outcomes of a call that are no fault of the action: the reflex may fire again."""


class Means(Protocol):
    """What a performance uses: the performer, on the executor's thread."""

    def advance(self, firing: Firing, succeeded: bool) -> SkillRequest | None: ...
    def call(self, performance: Performance, request: SkillRequest) -> Call: ...
    def send(self, performance: Performance, call: Call) -> None: ...
    def interrupt(self, call: Call, cause: str) -> None: ...
    def tell_started(self, performance: Performance, call: Call) -> None: ...
    def tell_ended(self, performance: Performance, call: Call, result: CallResult) -> None: ...
    def needs_base(self, firing: Firing) -> bool: ...
    def stand_still(self) -> None: ...
    def moves(self, call: Call) -> bool: ...
    def exclusive(self, call: Call) -> bool: ...
    def later(self, delay_s: float, callback: Callable[[], None]) -> None: ...
    def now(self) -> float: ...
    def finish(self, performance: Performance, how: Ended, message: str) -> None: ...


class Performance:
    """One firing's way through its action. Takes the place of a scheduler for its calls (`KernelLink`)."""

    def __init__(self, performer: Means, firing: Firing, process_id: str) -> None:
        self._performer = performer
        self.firing = firing
        self.process_id = process_id
        self._asked = True
        self._call: Call | None = None
        self._bound = False
        self._waiting = False
        self._stopped_s = performer.now()
        self._held_since_s: float | None = None
        self._waits = 0
        self._stands = False
        self._failed = False
        self._over = False

    @property
    def stands(self) -> bool:
        """Whether the base is to be kept still: the action has asked for it and moves nothing itself now."""
        return self._stands and not (self._call is not None and self._performer.moves(self._call))

    def answered(self, response: Any) -> None:
        """The kernel has answered the pre-emption."""
        if self._over or not self._asked:
            return
        self._asked = False
        if response.success:
            self.go_on()
        else:
            self.refused(response.error_msg or LeaseCode(response.error_code).name)

    def unanswered(self) -> None:
        """The kernel may not have answered in time."""
        if self._asked and self._call is None and not self._waits:
            self.refused(f"the skill kernel did not answer within {LEASE_S} s")

    def refused(self, why: str) -> None:
        """It could not begin."""
        self._end(Ended.NOT_NOW, why)

    def go_on(self, succeeded: bool = True, message: str = "") -> None:
        """The next call, or the end."""
        self._asked = False
        if self._over:
            return
        request = self._performer.advance(self.firing, succeeded)
        while request is not None and request.name == STOP:
            self._stands = True
            self._performer.stand_still()
            request = self._performer.advance(self.firing, True)
        if request is None:
            how = Ended.NOT_NOW if self.firing.cancelled else Ended.FAILED if self._failed else Ended.DONE
            self._end(how, self.firing.cancelled or message)
        elif request.name == WAIT:
            self._waits += 1
            turn = self._waits
            self._performer.later(float(request.arguments["seconds"]), lambda: self._waited(turn))
        else:
            self._held_since_s, self._bound = None, request.bound
            self._call = self._performer.call(self, request)

    def cancel(self, cause: str) -> None:
        """Stop what runs; it ends when that has."""
        if self._call is not None and not self._waiting:
            self._performer.interrupt(self._call, cause)
            self._performer.later(FREE_S, lambda: self._end(Ended.NOT_NOW, cause))
        else:
            self._end(Ended.NOT_NOW, cause)

    def started(self, _: str) -> None:
        """The call runs."""
        if self._call is not None and self._call.start_s is None:
            self._performer.tell_started(self, self._call)

    def held(self, _: str, why: str) -> None:
        """A subsystem is not at rest yet."""
        now = self._performer.now()
        self._held_since_s = self._held_since_s if self._held_since_s is not None else now
        if self.firing.cancelled:
            self._end(Ended.NOT_NOW, self.firing.cancelled)
        elif now - self._held_since_s > FREE_S:
            self._end(Ended.FAILED, f"{why}; it did not become free within {FREE_S:g} s")
        else:
            self._waiting = True
            if now - self._stopped_s > STOP_AGAIN_S and self._performer.needs_base(self.firing):
                self._stopped_s = now
                self._performer.stand_still()
            self._performer.later(ASK_AGAIN_S, self.freed)

    def freed(self) -> None:
        """Something became free, or some time has passed: ask again if the call waits for it."""
        if self._waiting and self._call is not None and not self._over:
            self._waiting = False
            self._performer.send(self, self._call)

    def ended(self, _: str, result: CallResult) -> None:
        """The call is over."""
        call, self._call = self._call, None
        if call is not None:
            self._performer.tell_ended(self, call, result)
        if self.firing.cancelled:
            self._end(Ended.NOT_NOW, self.firing.cancelled)
        elif result.outcome is not Outcome.DONE and result.code in NOT_NOW:
            self._end(Ended.NOT_NOW, result.error or result.message)
        elif result.outcome is not Outcome.DONE and not self._bound and call is not None and self._performer.exclusive(call):
            # What follows was meant for where this one would have brought it (law C11).
            self._end(Ended.FAILED, result.error or result.message)
        else:
            self._failed = result.outcome is not Outcome.DONE
            self.go_on(not self._failed, result.error or result.message)

    def _waited(self, turn: int) -> None:
        if turn == self._waits:
            self.go_on()

    def _end(self, how: Ended, message: str) -> None:
        if not self._over:
            self._over = True
            self._performer.finish(self, how, message)
