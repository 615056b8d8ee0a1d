# SPDX-License-Identifier: Apache-2.0
"""Which branch of a step runs: each asks its condition when its turn has come, the first that holds is taken (TypeGo 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from function_tokens.builtins import BRANCHES
from function_tokens.scheduling.calls import Call, CallResult, CallState, Timer
from function_tokens.scheduling.conditions import ConditionSource, Verdict, constant
from skill_kernel.codes import CallCode, Outcome

if TYPE_CHECKING:
    from function_tokens.scheduling.life import CallLife

IN_TURN = BRANCHES | {"subtask_complete"}
"""Built-ins that begin when everything before them in their step has ended, whatever channel it is on."""


@dataclass
class _List:
    """The branches of one element. `broken`: one of them was not understood, so that nobody knows about those after it."""

    taken: Call | None = None
    broken: str = ""


class Branches:
    """The branch lists of a process. Each belongs to the element right around it: the step, or a branch that has branches
    of its own."""

    def __init__(self, scheduler: CallLife, conditions: ConditionSource) -> None:
        self._scheduler = scheduler
        self._conditions = conditions
        self._lists: dict[str, _List] = {}

    def fault(self, condition: str) -> str:
        """What is wrong with a condition as it stands; empty when it can be asked."""
        return "" if constant(condition) is not None else self._conditions.fault(condition)

    def read(self, parent: Call) -> None:
        """An `if` of this element has been read."""
        self._lists.setdefault(parent.call_id, _List())

    def broke(self, parent: Call | None, why: str) -> None:
        """A branch of this element was refused: those after it must not run as if it had not held."""
        if parent is not None and parent.live:
            self._lists.setdefault(parent.call_id, _List()).broken = why

    def forget(self, call: Call) -> None:
        """An element has ended."""
        self._lists.pop(call.call_id, None)

    def none_held(self, call: Call) -> bool:
        """Whether an element had branches and none was taken."""
        mine = self._lists.get(call.call_id)
        return mine is not None and mine.taken is None and not mine.broken

    def may_begin(self, call: Call) -> bool:
        """Whether everything before it in its step has ended, for what waits for that."""
        step = None
        if call.function in IN_TURN:
            for around in call.ancestors:
                step = around if around.function == "step" else step
        if step is None:
            return True
        node = call
        while node is not step and node.parent is not None:
            if next(iter(node.parent.inside)) < node.seq:
                return False
            node = node.parent
        return True

    def begin(self, call: Call) -> None:
        """The turn of a branch has come."""
        assert call.parent is not None
        mine = self._lists.setdefault(call.parent.call_id, _List())
        call.state = CallState.STARTING
        if mine.taken is not None:
            self._drop(call, "another branch was taken")
        elif mine.broken:
            self._drop(call, f"a branch before it was refused: {mine.broken}")
        elif call.function == "else":
            self._take(call)
        else:
            self._ask(call, str(call.arguments["cond"]))

    def _ask(self, call: Call, condition: str) -> None:
        holds = constant(condition)
        if holds is not None:
            self._decide(call, Verdict(holds))
            return
        timeout_s = self._scheduler.settings.condition_timeout_s
        pending: list[Timer] = []

        def answer(verdict: Verdict) -> None:
            if answered or call.state is not CallState.STARTING:
                return
            answered.append(True)
            for timer in pending:
                timer.cancel()
            self._decide(call, verdict)
            self._scheduler.settle()

        answered: list[bool] = []
        self._conditions.ask(condition, answer)
        if not answered:
            late = Verdict(None, f"no answer within {timeout_s:g} s")
            pending.append(self._scheduler.clock.call_later(timeout_s, lambda: answer(late)))

    def _decide(self, call: Call, verdict: Verdict) -> None:
        if verdict.holds is None:
            self._unknown(call, verdict.reason)
        elif not verdict.holds:
            self._drop(call, f"its condition does not hold{f': {verdict.reason}' if verdict.reason else ''}")
        elif self._scheduler.paused:
            self._scheduler.put_back(call)  # what holds now need not hold when the process goes on
        else:
            self._take(call)

    def _take(self, call: Call) -> None:
        assert call.parent is not None
        self._lists[call.parent.call_id].taken = call
        self._scheduler.mark_running(call)
        for other in list(call.parent.inside.values()):
            if other.function in BRANCHES and other is not call and other.unbegun:
                self._drop(other, "another branch was taken")

    def _unknown(self, call: Call, reason: str) -> None:
        why = f"nobody can tell whether '{call.arguments['cond']}' holds: {reason}"
        self.broke(call.parent, why)
        self._scheduler.end(call, CallResult(Outcome.DROPPED, CallCode.CONDITION_UNKNOWN, why))
        self._scheduler.fail_turn(call, why)

    def _drop(self, call: Call, why: str) -> None:
        self._scheduler.end(call, CallResult(Outcome.DROPPED, CallCode.NONE, why))
