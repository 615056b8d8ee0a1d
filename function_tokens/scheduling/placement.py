# SPDX-License-Identifier: Apache-2.0
"""Whether a call can stand where it was written: on an ancestor's channel (C7), in a routine, in or outside a step."""

from __future__ import annotations

from collections.abc import Iterator

from function_tokens.builtins import BRANCHES, FURTHER, NOT_IN_ROUTINES, NOT_UNDER_CONDITION
from function_tokens.mapper import Mapped, Refusal
from function_tokens.routines import RoutineStore
from function_tokens.scheduling.branches import Branches
from function_tokens.scheduling.calls import Call
from function_tokens.scheduling.streams import Stream
from skill_kernel.codes import CallCode
from skill_kernel.skills.skill import MAIN

MAX_RUN_DEPTH = 8
_BRANCH_TAGS = BRANCHES | FURTHER


class Placement:
    """Refuses what cannot stand where it stands; the message says where it can."""

    def __init__(self, parallel: frozenset[str], routines: RoutineStore | None, branches: Branches) -> None:
        self._parallel = parallel
        self._routines = routines
        self._branches = branches

    def refusal(self, stream: Stream, mapped: Mapped, written: str) -> Refusal | None:
        """Why this call, whose tag is `written`, cannot stand here; None when it can."""
        name = mapped.function
        if not mapped.builtin:
            return self._held_by_ancestor(stream, mapped)
        if stream.run_stack and name in NOT_IN_ROUTINES:
            message = f"<{name}> cannot stand in routine '{stream.run_stack[-1]}'; save the routine anew without it"
            return Refusal(name, CallCode.ROUTINE_INVALID, message, ends_turn=False, channels=mapped.channels)
        if name in NOT_UNDER_CONDITION and any(c.function in BRANCHES for c in _around(stream)):
            message = f"<{name}> cannot stand under a condition; write it outside of <if> and <else>"
            return Refusal(name, CallCode.RESERVED_NAME, message, ends_turn=True)
        if name == "replace_steps" and stream.parent is not None:
            message = f"<replace_steps/> cannot stand inside <{stream.parent.function}>; write it before the steps that replace"
            return Refusal(name, CallCode.RESERVED_NAME, message, ends_turn=True)
        if name == "run":
            return self._not_runnable(stream, str(mapped.arguments["name"]))
        return self._no_branch(stream, mapped, written) if name in BRANCHES else None

    def _held_by_ancestor(self, stream: Stream, mapped: Mapped) -> Refusal | None:
        for node in _around(stream):
            shared = (node.channels & mapped.channels) - {MAIN} - self._parallel
            if shared:
                message = (
                    f"'{mapped.function}' needs channel '{min(shared)}', which <{node.function}> around it holds; "
                    f"close </{node.function}> first"
                )
                ends = mapped.exclusive and mapped.skill.on_failure == "end_turn"
                return Refusal(mapped.function, CallCode.CHANNEL_HELD_BY_ANCESTOR, message, ends, mapped.channels)
        return None

    def _no_branch(self, stream: Stream, mapped: Mapped, written: str) -> Refusal | None:
        name = mapped.function
        if not any(c.function == "step" for c in _around(stream)):
            message = f'<{name}> has a meaning only inside a step; write <step><if cond="…">…</if><else>…</else></step>'
        elif written in FURTHER and (around := _unbranched(stream)) and (name == "else" or around in _BRANCH_TAGS):
            hint = 'write <if cond="…">…</if> before it'
            hint = f"close it with </{around}> first" if around in _BRANCH_TAGS else hint
            message = f"<{written}> has no <if> before it inside <{around}>; {hint}"
        elif name == "if" and (fault := self._branches.fault(str(mapped.arguments["cond"]))):
            return Refusal(name, CallCode.INVALID_ARGUMENT, f"cond: {fault}", ends_turn=True)
        else:
            return None
        return Refusal(name, CallCode.RESERVED_NAME, message, ends_turn=True)

    def _not_runnable(self, stream: Stream, name: str) -> Refusal | None:
        if self._routines is None or self._routines.get(name) is None:
            return Refusal("run", CallCode.ROUTINE_UNKNOWN, f"there is no routine '{name}'; save it first", False)
        if name in stream.run_stack:
            chain = " → ".join([*stream.run_stack, name])
            return Refusal("run", CallCode.ROUTINE_CYCLE, f"routine '{name}' runs itself ({chain})", False)
        if len(stream.run_stack) >= MAX_RUN_DEPTH:
            message = f"routines nest deeper than {MAX_RUN_DEPTH} at '{name}'"
            return Refusal("run", CallCode.ROUTINE_CYCLE, message, False)
        return None


def _unbranched(stream: Stream) -> str:
    """The tag of the innermost element if no branch has stood right inside it yet, else ""."""
    inner = stream.inner
    return "" if inner is None or inner.branched else inner.name


def _around(stream: Stream) -> Iterator[Call]:
    parent = stream.parent
    if parent is not None:
        yield parent
        yield from parent.ancestors
