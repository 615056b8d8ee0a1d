# SPDX-License-Identifier: Apache-2.0
"""Weigh each call before it is dispatched: a verdict can only veto (docs/strategies.md).

A verdict is a class found by an entry point of the group `ghostshell.verdicts` and named in the parameter `verdicts` of the
channel scheduler. It may go by the call alone, by what the robot observes, or by what a model says of both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from function_tokens.scheduling.calls import Call, Executor
from function_tokens.scheduling.scheduler import Scheduler
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd
from planners.strategy import RobotView
from skill_kernel.calls import CallResult
from skill_kernel.clock import Clock, Timer
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.config.plugins import PluginError, load_plugin

GROUP = "ghostshell.verdicts"
"""Group of the entry points that name verdicts."""


@dataclass(frozen=True)
class ProposedCall:
    """Hold a call that is about to be dispatched. Of text that is still being written, `arguments` hold what is there."""

    process_id: str
    call_id: str
    function: str
    arguments: Mapping[str, Any]
    channels: frozenset[str]


class VerdictWorld(Protocol):
    """Give a verdict its evidence."""

    @property
    def robot(self) -> RobotView:
        """Return what is known of the robot."""

    def ask(self, process_id: str, request: ModelRequest, on_end: Callable[[AnswerEnd], None]) -> None:
        """Ask the model named by the parameter `verdict_model`. `on_end` hears its answer once, or why there is none."""


class Verdict(ABC):
    """Let calls pass or veto them. It is made without arguments and serves all processes of a robot.

    A verdict that raises, or has not answered within `deadline_s` seconds, vetoes.
    """

    name: str
    """The name of its entry point."""
    deadline_s: float = 1.0
    wants_images: bool = False
    """True when it reads `RobotView.images`."""

    @abstractmethod
    def weigh(self, call: ProposedCall, world: VerdictWorld, answer: Callable[[str], None]) -> None:
        """Call `answer` once, now or later and on the same thread: with "" to let the call pass, else with the sentence that
        says why not. Never block."""


def load_verdicts(names: Sequence[str]) -> list[Verdict]:
    """Return the verdicts of these names. Raises PluginError for one that is not installed or cannot be used."""
    verdicts = []
    for name in names:
        made = load_plugin(GROUP, name)
        verdict = made() if callable(made) else made
        if not isinstance(verdict, Verdict) or verdict.name != name:
            raise PluginError(f"{GROUP}: '{name}' is no Verdict of that name")
        verdicts.append(verdict)
    return verdicts


@dataclass(eq=False)
class _Weighing:
    """Hold one call that is being weighed. `waiting`: what the scheduler asked for in the meantime."""

    call: Call
    open: set[str]
    timers: list[Timer]
    waiting: list[Callable[[], None]]


class WeighingExecutor:
    """Put verdicts before an executor: a call starts when all have let it pass, and ends REFUSED with the first veto.

    `scheduler` must be set before the first call. On one thread.
    """

    def __init__(
        self, executor: Executor, process_id: str, verdicts: Sequence[Verdict], world: VerdictWorld, clock: Clock
    ) -> None:
        self._executor, self._process_id = executor, process_id
        self._verdicts, self._world, self._clock = verdicts, world, clock
        self._weighed: dict[str, _Weighing] = {}
        self.scheduler: Scheduler | None = None

    def start(self, call: Call) -> None:
        """Weigh the call, then start it."""
        weighing = self._weighed[call.call_id] = _Weighing(call, {v.name for v in self._verdicts}, [], [])
        proposed = ProposedCall(self._process_id, call.call_id, call.function, call.args_shown, call.channels)
        for verdict in self._verdicts:
            if self._weighed.get(call.call_id) is not weighing:
                return
            answer = partial(self._answered, weighing, verdict)
            late = partial(answer, f"it gave no answer within {verdict.deadline_s:g} s")
            weighing.timers.append(self._clock.call_later(verdict.deadline_s, late))
            try:
                verdict.weigh(proposed, self._world, answer)
            except Exception as error:  # noqa: BLE001 - a verdict may come from anywhere, and in doubt nothing moves
                answer(f"it failed: {type(error).__name__}: {error}")

    def content(self, call: Call, text: str, last: bool) -> None:
        """Pass character data on, behind the start of its call."""
        self._after(call.call_id, partial(self._executor.content, call, text, last))

    def reset(self, call: Call) -> None:
        """End a call as DONE, behind its start."""
        self._after(call.call_id, partial(self._executor.reset, call))

    def stop(self, call: Call, cause: str) -> None:
        """Stop a call, or keep one from starting that is still weighed."""
        weighing = self._weighed.get(call.call_id)
        if weighing is None:
            self._executor.stop(call, cause)
        else:
            self._end(weighing, CallResult(Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY, cause))

    def _after(self, call_id: str, action: Callable[[], None]) -> None:
        if call_id in self._weighed:
            self._weighed[call_id].waiting.append(action)
        else:
            action()

    def _answered(self, weighing: _Weighing, verdict: Verdict, sentence: str) -> None:
        if self._weighed.get(weighing.call.call_id) is not weighing or verdict.name not in weighing.open:
            return
        if sentence:
            why = f"verdict '{verdict.name}': {sentence}"
            self._end(weighing, CallResult(Outcome.REFUSED, CallCode.VETOED, why))
            return
        weighing.open.discard(verdict.name)
        if not weighing.open:
            self._close(weighing)
            self._executor.start(weighing.call)
            for action in weighing.waiting:
                action()

    def _end(self, weighing: _Weighing, result: CallResult) -> None:
        self._close(weighing)
        if self.scheduler is None:
            raise RuntimeError("WeighingExecutor.scheduler must be set before the first call")
        self.scheduler.ended(weighing.call.call_id, result)

    def _close(self, weighing: _Weighing) -> None:
        del self._weighed[weighing.call.call_id]
        for timer in weighing.timers:
            timer.cancel()
