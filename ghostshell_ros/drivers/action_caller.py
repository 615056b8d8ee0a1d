# SPDX-License-Identifier: Apache-2.0
"""Call a driver's action and wait for its end, with a deadline for everything that may never come."""

import math
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.lifecycle import HOW_TO_ACTIVATE, DriverStates
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.codec import FieldError, UnknownFieldError, filled, plain
from skill_kernel.codes import CallCode
from skill_kernel.skills.drivers import DriverResult, StopEvent

AVAILABLE_S = 0.5
"""Time a call waits for its driver to be discovered."""
FIRST_S = 2.0
"""The same for a driver that is active by its manager and has not answered yet: on a busy machine discovery takes longer."""
ANSWER_S = 0.3
"""Time until a goal that was not accepted is asked for by its id, because the answer may be lost; for as long again."""
SILENCE_S = 0.7
"""Silence after which a driver is gone; it sends feedback every 0.1 s. The safety gate stops its motion much sooner."""
BUSY_SILENCE_S = 3.0
"""The same on a machine that is so busy that this process is held up, too."""
CANCEL_S = 0.5
"""Time a stopped call waits for the driver's confirmation, which takes some ms; without it, nobody knows whether it stopped."""
STOP_LOOK_S = 0.02
"""Time between two looks of a waiting call at its stop event; the driver's answer wakes it at once."""


class _State(Enum):
    SENDING = auto()
    SENT = auto()
    ACCEPTED = auto()
    ENDED = auto()


@dataclass
class _Call:
    """Share with the executor's thread what becomes of a call. Guarded by `changed`."""

    changed: threading.Condition
    stop: StopEvent
    end_by: float
    """Steady time of the caller's deadline."""
    on_feedback: Callable[[Mapping[str, Any]], None] | None = None
    state: _State = _State.SENDING
    heard_at: float = 0.0
    sent: SentGoal | None = None
    end: GoalEnd | None = None
    result: Any = None
    given_up: bool = False
    sent_again: bool = False
    why: str = ""


class ActionCaller:
    """Call one action, by a client made from its interface; implements `skill_kernel.skills.drivers.Action`.

    Built on the executor's thread or before spinning; it is called on other threads (a skill's), never in a callback, which
    it would block.
    """

    def __init__(
        self,
        node: RuntimeNode,
        action_type: Any,
        name: str,
        states: DriverStates,
        on_lost: Callable[[str], None] = lambda why: None,
    ) -> None:
        """Make the client; a driver that is not active by `states` gets no goal.

        `on_lost(why)` is called on the calling thread when nobody knows any more what the driver does: it vanished, or did not
        confirm that it stopped. Whatever the caller makes of the result, the robot should be halted then.
        """
        self._node, self._name, self._states, self._on_lost = node, name, states, on_lost
        self._type = action_type
        self._client = GoalClient(node, action_type, name)
        self._has_answered = False

    def ready(self) -> bool:
        """Return whether the driver is there to be used; asking is what probes it. On the executor's thread."""
        return self._client.server_is_ready()

    def __call__(
        self,
        *,
        stop: StopEvent,
        deadline_s: float | None = None,
        on_feedback: Callable[[Mapping[str, Any]], None] | None = None,
        **goal: Any,
    ) -> DriverResult:
        try:
            message = filled(self._type.Goal(), goal)
        except UnknownFieldError as error:
            raise TypeError(f"action {self._name}: {error}") from error
        except FieldError as error:
            return DriverResult(False, CallCode.INVALID_ARGUMENT, f"goal of {self._name}: {error}")
        if stop.is_set():
            return DriverResult(False, cancelled=True)
        now = self._node.steady_now()
        call = _Call(threading.Condition(), stop, math.inf if deadline_s is None else now + deadline_s, on_feedback)
        action = self._node.resolve_topic_name(self._name)
        available_s = FIRST_S if self._states.active(action) and not self._has_answered else AVAILABLE_S
        found_by = now + available_s
        self._node.call_soon(self._send, message, call, found_by)
        with call.changed:
            state = self._wait(call, {_State.SENDING}, found_by + 2 * STOP_LOOK_S)
            for asked in (False, True):
                if state is _State.SENT:
                    if asked and call.sent is not None:
                        call.sent.ask()
                    state = self._wait(call, {_State.SENT}, self._node.steady_now() + ANSWER_S)
            if state is _State.ACCEPTED:
                state = self._wait(call, {_State.ACCEPTED}, None)
            if state is _State.ENDED:
                return self._ended(call, action)
            call.given_up = True
            if stop.is_set():
                return self._stopped(call, action)
            if self._node.steady_now() >= call.end_by:
                result = self._stopped(call, action)
                text = f"{action} had not ended within {deadline_s:g} s and was stopped"
                late = replace(result, cancelled=False, error_code=CallCode.DEADLINE, error_msg=text)
                return late if result.cancelled else result
            if call.sent is not None:
                call.sent.abandon()
            self._client.doubt()
            if state is _State.ACCEPTED:
                text = f"the driver of {action} sent nothing for {SILENCE_S:g} s: it died or hangs; start it again{_load()}"
                return self._lost(CallCode.DRIVER_LOST, text)
            what = "did not answer" if state is _State.SENT else f"was not found within {available_s:g} s"
            text = f"the driver of {action} {what}: is it running in this namespace?"
            # One that answered before has died between two goals.
            return self._lost(CallCode.DRIVER_UNAVAILABLE, text, report=self._has_answered)

    def _stopped(self, call: _Call, action: str) -> DriverResult:
        """Have the driver stop, and wait until it confirms that it did."""
        if call.sent is None:
            return DriverResult(False, cancelled=True)
        call.sent.cancel()
        confirm_by = self._node.steady_now() + CANCEL_S
        if self._wait(call, set(_State) - {_State.ENDED}, confirm_by, to_the_end=True) is not _State.ENDED:
            call.sent.abandon()
            self._client.doubt()
            text = f"the driver of {action} did not confirm within {CANCEL_S} s that it stopped: look at the robot"
            return self._lost(CallCode.STOP_UNCERTAIN, text)
        return self._ended(call, action, stopped=True)

    def _wait(self, call: _Call, while_in: set[_State], until: float | None, *, to_the_end: bool = False) -> _State:
        """Wait while the call is in these states, until a time; None means until the driver is silent.

        The stop event and the caller's deadline end it earlier, but not when it waits `to_the_end`.
        """
        late_s, heard_at = 0.0, call.heard_at  # what this thread itself was late at its looks since the driver was heard
        while call.state in while_in and (to_the_end or not call.stop.is_set()):
            now = self._node.steady_now()
            if heard_at != call.heard_at:
                late_s, heard_at = 0.0, call.heard_at
            by = heard_at + min(SILENCE_S + late_s, BUSY_SILENCE_S) if until is None else until
            left = (by if to_the_end else min(by, call.end_by)) - now
            if left <= 0:
                break
            call.changed.wait(min(left, STOP_LOOK_S))
            late_s += max(0.0, self._node.steady_now() - now - 2 * STOP_LOOK_S)
        return call.state

    def _ended(self, call: _Call, action: str, *, stopped: bool = False) -> DriverResult:
        if call.end is GoalEnd.REJECTED or call.end is GoalEnd.UNKNOWN or call.result is None:
            if stopped and (call.sent is None or not call.sent.accepted):
                return DriverResult(False, cancelled=True)
            if call.end is GoalEnd.REJECTED:
                return DriverResult(False, CallCode.DRIVER_INACTIVE, call.why)
            text = f"the driver of {action} does not know the goal any more: it was restarted"
            return self._lost(CallCode.DRIVER_LOST, text)
        self._has_answered = True
        values = plain(call.result)
        code, text = int(values.pop("error_code", 0)), str(values.pop("error_msg", ""))
        if call.end is GoalEnd.ABORTED and not text:
            text = f"the driver of {action} gave the goal up and says no reason; see its log"
        return DriverResult(
            ok=call.end is GoalEnd.SUCCEEDED,
            error_code=code,
            error_msg=text,
            cancelled=call.end is GoalEnd.CANCELED or (stopped and call.end is not GoalEnd.SUCCEEDED),
            values=values,
        )

    def _lost(self, code: CallCode, text: str, *, report: bool = True) -> DriverResult:
        self._has_answered = False
        if report:
            self._on_lost(text)
        return DriverResult(False, code, text)

    def _send(self, goal: Any, call: _Call, deadline: float) -> None:
        """Send as soon as the driver is discovered, for which rclpy has no event, and active, if it is about to be.

        On the executor's thread.
        """
        with call.changed:
            if call.given_up:
                return
            action = self._node.resolve_topic_name(self._name)
            driver = self._states.inactive(action)
            if driver is not None and not (driver.coming_up and self._node.steady_now() < deadline):
                call.why, call.end = driver.refusal(self._name), GoalEnd.REJECTED
                self._set(call, _State.ENDED)
                return
            if driver is not None or not self._client.server_is_ready():
                self._node.call_later(STOP_LOOK_S, lambda: self._send(goal, call, deadline))
                return

            def accepted() -> None:
                with call.changed:
                    call.heard_at = self._node.steady_now()
                    self._set(call, _State.ACCEPTED)

            def feedback(message: Any) -> None:
                with call.changed:
                    call.heard_at = self._node.steady_now()
                if call.on_feedback is not None and not call.given_up:
                    call.on_feedback(plain(message))

            def ended(end: GoalEnd, result: Any) -> None:
                with call.changed:
                    if end is GoalEnd.UNKNOWN and call.state is _State.SENT and not call.sent_again:
                        # It never arrived. Under the same id, the server takes it once even if it still does.
                        call.sent_again = True
                        self._send(goal, call, deadline)
                        return
                    if end is GoalEnd.REJECTED:
                        known = self._states.inactive(action)
                        unknown = (
                            f"the driver of {action} takes no goal: one of GhostShell's is not active ({HOW_TO_ACTIVATE}), one "
                            "of your own tells the reason in its log"
                        )
                        call.why = known.refusal(self._name) if known else unknown
                    call.end, call.result = end, result
                    self._set(call, _State.ENDED)

            goal_id, again = None if call.sent is None else call.sent.goal_id, call.sent_again
            hears: dict[str, Any] = {"on_end": ended, "on_accepted": accepted, "on_feedback": feedback}
            call.sent = self._client.send(goal, **hears, goal_id=goal_id, again=again)
            self._set(call, _State.SENT)

    @staticmethod
    def _set(call: _Call, state: _State) -> None:
        call.state = state
        call.changed.notify_all()


def _load() -> str:
    """Return a hint that the driver may only be slow, where the machine has more to do than it can."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f", or the machine is too busy (load {load:.1f} on {cores} cores)" if load > 1.5 * cores else ""
