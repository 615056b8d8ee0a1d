# SPDX-License-Identifier: Apache-2.0
"""One running call: its events, its first cause of ending, and the outcome that follows (laws C5, C9, C10)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from skill_kernel.calls import CallResult, CallSpec
from skill_kernel.clock import Timer
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.kernel.deadline import Deadline
from skill_kernel.kernel.leases import Owner
from skill_kernel.skills.content import ContentBuffer
from skill_kernel.skills.pause_event import PauseEvent
from skill_kernel.skills.returns import SkillReturn
from skill_kernel.skills.skill import Skill


@dataclass(frozen=True)
class Ending:
    """Why a call was told to end. The first one fixes the outcome (law C9)."""

    outcome: Outcome
    code: int = 0
    error: str = ""


RESET = Ending(Outcome.DONE)


def interruption(cause: str, code: CallCode = CallCode.INTERRUPTED_BY) -> Ending:
    """An event-driven end."""
    return Ending(Outcome.INTERRUPTED, code, f"interrupted: {cause}")


class Pausing(Enum):
    """How far the pause of its process has come with a call."""

    NONE = "runs"
    ASKED = "was asked to come to rest"
    STOPPING = "is being stopped, to go on later"
    PARKED = "waits, without its leases"


@dataclass(eq=False)
class RunningCall:
    """A call from its acceptance until its result was given and its thread has ended. The kernel's lock guards it."""

    spec: CallSpec
    skill: Skill
    arguments: dict[str, Any]
    owner: Owner
    subsystems: tuple[str, ...]
    buffer: ContentBuffer | None
    deadline: Deadline
    accepted_s: float
    stop_evt: threading.Event = field(default_factory=threading.Event)
    pause_evt: PauseEvent = field(default_factory=PauseEvent)
    begun: bool = False
    start_s: float = -1.0
    stop_asked_s: float | None = None
    pausing: Pausing = Pausing.NONE
    paused_alone: bool = False
    at_rest: bool = False
    starts_anew: bool = False
    leased: bool = True
    pause_timer: Timer | None = None
    ending: Ending | None = None
    body_result: SkillReturn | None = None
    body_ended: bool = False
    reported: bool = False
    stop_timer: Timer | None = None
    watch: int = 0
    """Number of the timer that counts: an older one may be due, and wait for the lock, when it is cancelled."""
    nested: dict[str, int] = field(default_factory=dict)

    def holds(self, channels: frozenset[str]) -> bool:
        """Whether it claims one of these channels or runs on a subsystem of that name; true for none given."""
        return not channels or not channels.isdisjoint((*self.spec.channels, *self.subsystems, *self.nested))

    def nominal_s(self) -> float:
        """Expected duration, with the text known so far in the content's place."""
        return _seconds(self.skill.nominal_for, self._arguments_so_far())

    def stop_bound_s(self) -> float:
        """How long a stop may take."""
        return _seconds(self.skill.stop_bound_s, self._arguments_so_far())

    def _arguments_so_far(self) -> dict[str, Any]:
        if self.skill.content is None or self.buffer is None:
            return self.arguments
        return {**self.arguments, self.skill.content: self.buffer.received}

    @property
    def all_subsystems(self) -> tuple[str, ...]:
        """Its own, and those of skills that a composite calls now."""
        return (*self.subsystems, *self.nested)

    def tell(self, ending: Ending, now_s: float) -> bool:
        """Note why it is to end and ask the skill to stop; false when another cause came first."""
        first = self.ending is None
        if first:
            self.ending = ending
        self.ask_to_stop(now_s)
        self.pause_evt.clear()
        if self.buffer is not None:
            self.buffer.close()
        return first

    def ask_to_stop(self, now_s: float) -> None:
        """Set the skill's stop event; the time of its stop counts from the first time."""
        if self.stop_asked_s is None:
            self.stop_asked_s = now_s
        self.stop_evt.set()

    def content(self) -> Any:
        """What the content parameter gets: an iterator, or the whole text, waiting for it. Raises ContentLost."""
        buffer = self.buffer if self.buffer is not None else _no_content()
        return buffer if self.skill.content_streams else buffer.whole()

    def result(self, end_s: float) -> CallResult:
        """The outcome, once the body has ended and nothing keeps the call open."""
        body, ending = self.body_result or SkillReturn.success(), self.ending
        failed_while_reset = ending is RESET and not body.ok and not body.interrupted
        if ending is None or failed_while_reset:
            outcome, code, error = _of_body(self.skill.name, body)
        else:
            outcome, code, error = ending.outcome, ending.code, ending.error
        message = "" if outcome is Outcome.FAILED and error == body.message else body.message
        return CallResult(outcome, code, error, message, self.start_s, end_s)

    def uncertain_result(self, what: str, end_s: float) -> CallResult:
        """The outcome of a call of which nobody knows whether its body stopped."""
        interrupted = self.ending is not None and self.ending.outcome is Outcome.INTERRUPTED
        outcome = Outcome.INTERRUPTED if interrupted else Outcome.FAILED
        error = f"{what}; the robot is halted: look at it, then clear the halt"
        return CallResult(outcome, CallCode.STOP_UNCERTAIN, error, "", self.start_s, end_s)


def normalized(returned: object, name: str) -> SkillReturn:
    """What a skill's function returned as a SkillReturn: None and True mean success, a string is the message."""
    if isinstance(returned, SkillReturn):
        return returned
    if returned is None or returned is True:
        return SkillReturn.success()
    if isinstance(returned, str):
        return SkillReturn.success(returned)
    if returned is False:
        return SkillReturn.failure(f"{name} did not succeed and gives no reason")
    return SkillReturn.failure(f"{name} returned a {type(returned).__name__}; a skill returns SkillReturn, str, bool or None")


def _of_body(name: str, body: SkillReturn) -> tuple[Outcome, int, str]:
    if body.ok:
        return Outcome.DONE, 0, ""
    code = body.error_code if 0 < body.error_code <= 0xFFFF else int(CallCode.SKILL_FAILED)
    reason = body.message or "it gives no reason"
    if body.interrupted:
        return Outcome.FAILED, code, f"{name} was stopped from outside the kernel: {reason}"
    return Outcome.FAILED, code, reason


def _seconds(declared: Callable[[dict[str, Any]], float], arguments: dict[str, Any]) -> float:
    """A declared duration; one that cannot be worked out counts as 0, which leaves the kernel's own margins."""
    try:
        return declared(arguments)
    except Exception:  # noqa: BLE001 - a skill's own function may raise anything
        return 0.0


def _no_content() -> ContentBuffer:
    buffer = ContentBuffer(timeout_s=0.0)
    buffer.close()
    return buffer
