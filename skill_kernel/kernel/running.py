# SPDX-License-Identifier: Apache-2.0
"""Keep running calls: the state of each, its deadlines, its outcome (laws C5, C9, C10), and the table of all."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from skill_kernel.calls import DONE, CallResult, CallSpec
from skill_kernel.clock import Clock, Timer
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.skills.hearing import ContentBuffer, PauseEvent
from skill_kernel.skills.skill import Skill, SkillReturn

MAX_VALUE_CHARS = 65_536
"""Longest value of a skill as JSON. Keep larger things elsewhere, and name them."""

MAX_ENDED_CALLS = 4096
"""Ids of ended calls that are remembered, so that none is used twice."""


class Deadline:
    """Call back once when the time set has passed, pauses left out. Not thread-safe: its owner's lock guards it.

    The callback comes without that lock, so it asks `passed` under it: the deadline may be put off or cleared meanwhile.
    """

    def __init__(self, clock: Clock, on_late: Callable[[], None]) -> None:
        self._clock = clock
        self._on_late = on_late
        self._due_s: float | None = None
        self._paused_at_s: float | None = None
        self._timer: Timer | None = None

    def extend(self, delay_s: float) -> None:
        """Put the deadline off to at least `delay_s` seconds from now."""
        due_s = self._clock.now() + delay_s
        if self._due_s is None or due_s > self._due_s:
            self._due_s = due_s
            self._arm()

    def pause(self) -> None:
        """Stop counting."""
        if self._paused_at_s is None:
            self._paused_at_s = self._clock.now()
            self._arm()

    def resume(self) -> None:
        """Count on."""
        if self._paused_at_s is not None:
            if self._due_s is not None:
                self._due_s += self._clock.now() - self._paused_at_s
            self._paused_at_s = None
            self._arm()

    def clear(self) -> None:
        """Forget the time, and count on."""
        self._due_s = self._paused_at_s = None
        self._arm()

    @property
    def passed(self) -> bool:
        """Return whether its time has come."""
        running = self._paused_at_s is None and self._due_s is not None
        return running and self._clock.now() >= (self._due_s or 0.0) - 1e-6

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._due_s is not None and self._paused_at_s is None:
            self._timer = self._clock.call_later(self._due_s - self._clock.now(), self._on_late)


def interruption(cause: str, code: CallCode = CallCode.INTERRUPTED_BY) -> CallResult:
    """Return an event-driven end."""
    return CallResult(Outcome.INTERRUPTED, code, f"interrupted: {cause}")


class Pausing(Enum):
    """Tell how far the pause of its process has come with a call."""

    NONE = "runs"
    ASKED = "was asked to come to rest"
    STOPPING = "is being stopped, to go on later"
    PARKED = "waits, without its leases"


@dataclass(eq=False)
class RunningCall:
    """Hold a call from its acceptance until its result was given and its thread has ended. The kernel's lock guards it."""

    spec: CallSpec
    skill: Skill
    arguments: dict[str, Any]
    subsystems: tuple[str, ...]
    buffer: ContentBuffer | None
    deadline: Deadline
    stop_deadline: Deadline
    """Deadline of its stop, or of coming to rest for a pause."""
    accepted_s: float
    stop_evt: threading.Event = field(default_factory=threading.Event)
    pause_evt: PauseEvent = field(default_factory=PauseEvent)
    begun: bool = False
    start_s: float = -1.0
    stop_asked_s: float | None = None
    pausing: Pausing = Pausing.NONE
    starts_anew: bool = False
    parts: list[str] = field(default_factory=list)
    """Messages of its skill about the parts that were done before pauses which stopped it."""
    ending: CallResult | None = None
    """The first cause to end it, which fixes the outcome (law C9)."""
    body_result: SkillReturn | None = None
    body_ended: bool = False
    reported: bool = False
    nested: dict[str, int] = field(default_factory=dict)

    def holds(self, channels: frozenset[str]) -> bool:
        """Return whether it claims one of these channels or runs on a subsystem of that name; true for none given."""
        return not channels or not channels.isdisjoint((*self.spec.channels, *self.all_subsystems))

    @property
    def leased(self) -> bool:
        return self.pausing is not Pausing.PARKED

    @property
    def all_subsystems(self) -> tuple[str, ...]:
        """Return its own subsystems and those of skills that a composite calls now."""
        return (*self.subsystems, *self.nested)

    def declared_s(self, declared: Callable[[dict[str, Any]], float]) -> float:
        """Return a duration that its skill declares, with the text known so far in the content's place.

        One that cannot be worked out counts as 0, which leaves the kernel's own margins.
        """
        content = self.skill.content if self.buffer is not None else None
        text = {content: self.buffer.received} if content is not None and self.buffer is not None else {}
        try:
            return declared({**self.arguments, **text})
        except Exception:  # noqa: BLE001 - a skill's own function may raise anything
            return 0.0

    def tell(self, ending: CallResult, now_s: float) -> bool:
        """Note why it is to end and ask the skill to stop; return false when another cause came first."""
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

    def result(self, end_s: float) -> CallResult:
        """Return the outcome, once the body has ended and nothing keeps the call open."""
        body, ending = self.body_result or SkillReturn.success(), self.ending
        if ending is None or (ending is DONE and not body.ok and not body.interrupted):
            ending = _ending_of(self.skill.name, body)
        last = "" if ending.outcome is Outcome.FAILED and ending.error == body.message else body.message
        message = "; after a pause: ".join(filter(None, [*self.parts, last]))
        value = _json(body.value) if body.value is not None else ""
        return replace(ending, message=message, start_s=self.start_s, end_s=end_s, value=value)

    def uncertain_result(self, what: str, end_s: float) -> CallResult:
        """Return the outcome of a call whose body may not have stopped."""
        interrupted = self.ending is not None and self.ending.outcome is Outcome.INTERRUPTED
        outcome = Outcome.INTERRUPTED if interrupted else Outcome.FAILED
        error = f"{what}; the robot is halted: look at it, then clear the halt"
        return CallResult(outcome, CallCode.STOP_UNCERTAIN, error, "", self.start_s, end_s)

    def remaining(self, body: SkillReturn) -> list[dict[str, Any]] | None:
        """Return the calls that are left of a skill that was stopped for a pause: one or none; None where it cannot tell.

        Runs code of the skill's author.
        """
        if not body.interrupted:
            return None
        if self.skill.remaining is not None and body.progress is not None:
            left: Mapping[str, Any] | None = self.skill.remaining(body.progress, **self.arguments)
            return [] if left is None else [{**self.arguments, **left}]
        return [self.arguments] if self.skill.idempotent else None


def normalized(returned: object, name: str) -> SkillReturn:
    """Return as SkillReturn what a skill's function returned: None and True mean success, a string is the message."""
    if isinstance(returned, SkillReturn):
        return _with_json_value(_as_declared(returned), name)
    if returned is None or returned is True:
        return SkillReturn.success()
    if isinstance(returned, str):
        return SkillReturn.success(returned)
    if returned is False:
        return SkillReturn.failure(f"{name} did not succeed and gives no reason")
    return SkillReturn.failure(f"{name} returned a {type(returned).__name__}; a skill returns SkillReturn, str, bool or None")


def _as_declared(returned: SkillReturn) -> SkillReturn:
    """Return it with a text as its message and a whole number as its code, whatever its author has put there."""
    message: object = returned.message
    code: object = returned.error_code
    text = "" if message is None else str(message)
    return replace(returned, message=text, error_code=code if isinstance(code, int) else 0)


def _with_json_value(returned: SkillReturn, name: str) -> SkillReturn:
    """Return it as it is, or that it failed because its value cannot travel."""
    try:
        size = len(_json(returned.value))
    except (TypeError, ValueError, RecursionError) as error:
        return SkillReturn.failure(f"{name} returned a value that is no JSON: {error}")
    if size > MAX_VALUE_CHARS:
        return SkillReturn.failure(f"{name} returned a value of {size} characters; return at most {MAX_VALUE_CHARS}")
    return returned


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _ending_of(name: str, body: SkillReturn) -> CallResult:
    if body.ok:
        return DONE
    code = body.error_code if 0 < body.error_code <= 0xFFFF else int(CallCode.SKILL_FAILED)
    reason = body.message or "it gives no reason"
    return CallResult(
        Outcome.FAILED, code, f"{name} was stopped from outside the kernel: {reason}" if body.interrupted else reason
    )


class CallTable(dict[str, RunningCall]):
    """Hold running calls by id, in the order they came, and the ids of ended ones. Guarded by the kernel's lock."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: dict[str, None] = {}

    def of(self, process_id: str) -> list[RunningCall]:
        return [run for run in self.values() if run.spec.process_id == process_id]

    def forget(self, run: RunningCall) -> None:
        """Remove a call that is over, and remember its id."""
        del self[run.spec.call_id]
        self.ended[run.spec.call_id] = None
        if len(self.ended) > MAX_ENDED_CALLS:
            del self.ended[next(iter(self.ended))]

    def around(self, call: CallSpec) -> list[RunningCall]:
        """Return the running calls around this one. What a caller says of its parents may be wrong, even circular."""
        found: list[RunningCall] = []
        run = self.get(call.parent_id)
        while run is not None and run not in found:
            found.append(run)
            run = self.get(run.spec.parent_id)
        return found
