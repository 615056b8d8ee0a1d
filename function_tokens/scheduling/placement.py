# SPDX-License-Identifier: Apache-2.0
"""What cannot run where it was written: on an ancestor's channel (C7), in a routine, outside a step, behind an end."""

from __future__ import annotations

from dataclasses import dataclass

from function_tokens.builtins import BRANCHES, FURTHER, NOT_IN_ROUTINES, NOT_UNDER_CONDITION
from function_tokens.mapper import Mapped, Refusal
from function_tokens.routines import RoutineStore
from function_tokens.scheduling.conditions import ConditionSource, constant
from function_tokens.scheduling.streams import Stream
from skill_kernel.calls import CallResult
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.skills.skill import MAIN

MAX_RUN_DEPTH = 8
_BRANCH_TAGS = BRANCHES | FURTHER


@dataclass(frozen=True)
class Placement:
    """Refuse what cannot stand where it stands; the message says where it can."""

    parallel: frozenset[str]
    routines: RoutineStore | None
    conditions: ConditionSource

    def refusal(self, stream: Stream, mapped: Mapped, written: str) -> Refusal | None:
        """Return why this call, whose tag is `written`, cannot stand here; None when it can."""
        name = mapped.function
        if not mapped.builtin:
            return self._held_by_ancestor(stream, mapped)
        if stream.run_stack and name in NOT_IN_ROUTINES:
            message = f"<{name}> cannot stand in routine '{stream.run_stack[-1]}'; save the routine anew without it"
            return Refusal(name, CallCode.ROUTINE_INVALID, message, ends_turn=False, channels=mapped.channels)
        if name in NOT_UNDER_CONDITION and any(c.function in BRANCHES for c in stream.around):
            message = f"<{name}> cannot stand under a condition; write it outside of <if> and <else>"
            return Refusal(name, CallCode.RESERVED_NAME, message, ends_turn=True)
        if name == "replace_steps" and stream.parent is not None:
            message = f"<replace_steps/> cannot stand inside <{stream.parent.function}>; write it before the steps that replace"
            return Refusal(name, CallCode.RESERVED_NAME, message, ends_turn=True)
        if name == "run":
            return self._not_runnable(stream, str(mapped.arguments["name"]))
        return self._no_branch(stream, mapped, written) if name in BRANCHES else None

    def _held_by_ancestor(self, stream: Stream, mapped: Mapped) -> Refusal | None:
        for node in stream.around:
            shared = (node.channels & mapped.channels) - {MAIN} - self.parallel
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
        if not any(c.function == "step" for c in stream.around):
            message = f'<{name}> has a meaning only inside a step; write <step><if cond="…">…</if><else>…</else></step>'
        elif written in FURTHER and (around := _unbranched(stream)) and (name == "else" or around in _BRANCH_TAGS):
            hint = 'write <if cond="…">…</if> before it'
            hint = f"close it with </{around}> first" if around in _BRANCH_TAGS else hint
            message = f"<{written}> has no <if> before it inside <{around}>; {hint}"
        elif name == "if" and (fault := self._condition_fault(str(mapped.arguments["cond"]))):
            return Refusal(name, CallCode.INVALID_ARGUMENT, f"cond: {fault}", ends_turn=True)
        else:
            return None
        return Refusal(name, CallCode.RESERVED_NAME, message, ends_turn=True)

    def _condition_fault(self, condition: str) -> str:
        return "" if constant(condition) is not None else self.conditions.fault(condition)

    def _not_runnable(self, stream: Stream, name: str) -> Refusal | None:
        if self.routines is None or self.routines.get(name) is None:
            return Refusal("run", CallCode.ROUTINE_UNKNOWN, f"there is no routine '{name}'; save it first", False)
        if name in stream.run_stack:
            chain = " → ".join([*stream.run_stack, name])
            return Refusal("run", CallCode.ROUTINE_CYCLE, f"routine '{name}' runs itself ({chain})", False)
        if len(stream.run_stack) >= MAX_RUN_DEPTH:
            message = f"routines nest deeper than {MAX_RUN_DEPTH} at '{name}'"
            return Refusal("run", CallCode.ROUTINE_CYCLE, message, False)
        return None


def came_late(stream: Stream) -> CallResult:
    """Return the outcome of a token behind the end of its stream."""
    why = f"it came after the stream had ended ({stream.error or stream.reason})"
    return CallResult(Outcome.DROPPED, CallCode.TURN_ENDED, why)


def never_runs(stream: Stream) -> CallResult | None:
    """Return the outcome of everything inside an element that was refused or has ended already; None elsewhere."""
    if stream.inside_refused:
        why = f"the element around it, <{stream.frames[-1].name}>, was refused"
        return CallResult(Outcome.REFUSED, CallCode.PARENT_REFUSED, why)
    parent = stream.parent
    if parent is None or parent.takes_more:
        return None
    result = parent.result or parent.body_result
    ended = f"ended as {result.outcome.value}" if result is not None else "has ended"
    why = f"the element around it, '{parent.function}', {ended}"
    return CallResult(Outcome.DROPPED, CallCode.PARENT_NOT_STARTED, why)


def _unbranched(stream: Stream) -> str:
    """Return the tag of the innermost element if no branch has stood right inside it yet, else ""."""
    inner = stream.inner
    return "" if inner is None or inner.branched else inner.name
