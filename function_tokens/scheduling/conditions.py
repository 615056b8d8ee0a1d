# SPDX-License-Identifier: Apache-2.0
"""Tell which branch of a step may begin, and who is asked whether its condition holds (TypeGo 6, System 1)."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from function_tokens.builtins import BRANCHES
from function_tokens.scheduling.calls import Call

ALWAYS = frozenset({"always", "true"})
NEVER = frozenset({"never", "false"})

IN_TURN = BRANCHES | {"subtask_complete"}
"""Built-ins that begin when everything before them in their step has ended, whatever channel it is on."""


@dataclass(frozen=True)
class Verdict:
    """Answer whether a condition holds; None when nobody can tell, and then `reason` says why."""

    holds: bool | None
    reason: str = ""


Answer = Callable[[Verdict], None]


class ConditionSource(Protocol):
    """Know what is true now."""

    def fault(self, condition: str) -> str:
        """Return why a condition cannot be asked as it stands, "" when it can. Looks at no observation."""

    def ask(self, condition: str, answer: Answer, process_id: str) -> None:
        """Find out for a process, and answer once, from within this call or later, on the scheduler's thread.

        A late answer is ignored.
        """


def constant(condition: str) -> bool | None:
    """Return whether a condition holds that asks nothing; None for one that does ask."""
    word = condition.strip().lower()
    return True if word in ALWAYS else False if word in NEVER else None


def in_turn(call: Call) -> bool:
    """Return whether a call may begin as far as its step goes: a branch waits for everything before it there."""
    if call.function not in IN_TURN:
        return True
    around = [call, *call.ancestors]
    while around and around[-1].function != "step":
        around.pop()
    return all(next(iter(outer.inside)) >= inner.seq for inner, outer in pairwise(around))


def left_out(branch: Call) -> str:
    """Return why a branch does not run whatever its condition says, "" when it may."""
    assert branch.parent is not None
    if branch.parent.taken_branch is not None:
        return "another branch was taken"
    if branch.parent.broken_branch:
        return f"a branch before it was refused: {branch.parent.broken_branch}"
    return ""


def rivals(branch: Call) -> list[Call]:
    """Return the branches beside this one that have not begun."""
    beside = branch.parent.inside.values() if branch.parent is not None else ()
    return [call for call in beside if call.function in BRANCHES and call is not branch and call.unbegun]


def break_branches(parent: Call | None, why: str) -> None:
    """Note that a branch of this element was refused: those behind it must not run as if it had not held."""
    if parent is not None and parent.live:
        parent.has_branches, parent.broken_branch = True, why


def none_held(element: Call) -> bool:
    """Return whether an element had branches and none was taken."""
    return element.has_branches and element.taken_branch is None and not element.broken_branch
