# SPDX-License-Identifier: Apache-2.0
"""Prove by code that a subtask is done: its criteria, where they are an expression over the observation and over what the
process has done."""

from collections.abc import Callable, Iterable, Sequence

from planners.plan import Subtask
from planners.prompts.prompt import CallReport
from skill_kernel.codes import Outcome
from skill_kernel.guard.condition_text import holds, read_condition
from skill_kernel.guard.reading import GuardError
from skill_kernel.observation.accessors import Accessor, Parameter, View

PROOF_S = 1.0
"""Time that the observation may take to show what a step has done."""
REFUSALS = 2
"""Marks of one subtask that criteria may refuse; after them the criteria are as doubtful as the marks."""


def trace_accessors(functions: Iterable[str], done: Callable[[], Sequence[CallReport]]) -> dict[str, Accessor]:
    """Return accessors over the ended calls of a process, for criteria and events. Only calls that ended DONE count."""
    function, earlier = Parameter("function", tuple(functions)), Parameter("earlier", tuple(functions))

    def calls(name: str) -> list[int]:
        return [i for i, call in enumerate(done()) if call.function == name and call.outcome == Outcome.DONE.name]

    def times(_: View, name: str) -> int:
        ended = done()
        return sum(_repeats(ended[i]) for i in calls(name))

    def after(_: View, name: str, before: str) -> bool:
        later, first = calls(name), calls(before)
        return bool(later and first) and later[-1] > first[0]

    return {
        accessor.name: accessor
        for accessor in (
            Accessor("done", (function,), bool, "Whether this function was DONE in this task.", lambda _, f: bool(calls(f))),
            Accessor("times_done", (function,), int, "How often in this task; an argument `times` counts.", times),
            Accessor("done_after", (function, earlier), bool, "Whether it was DONE after the other one.", after),
        )
    }


def _repeats(call: CallReport) -> int:
    times = call.arguments.get("times", 1)
    return int(times) if isinstance(times, (int, float)) else 1


class Criteria:
    """Weigh the marks of one process. `table` holds its accessors, `view` what is observed now."""

    def __init__(self, table: dict[str, Accessor], view: Callable[[], View]) -> None:
        self._table, self._view = table, view
        self._refused: dict[str, int] = {}

    def hold(self, subtask: Subtask) -> bool | None:
        """Return whether the subtask is done; None where its criteria are prose, or cannot be told now."""
        if not subtask.criteria or self._refused.get(subtask.id, 0) >= REFUSALS:
            return None
        try:
            expression = read_condition(subtask.criteria, self._table).expression
        except GuardError:
            return None
        return holds(expression, self._view().call)[0] if expression is not None else None

    def refuse(self, subtask: Subtask) -> str:
        """Count a mark that was set in vain; return what the model that set it must know."""
        self._refused[subtask.id] = self._refused.get(subtask.id, 0) + 1
        return f"<subtask_complete/> of {subtask.id} does not count: {subtask.criteria} does not hold yet; do what is missing"
