# SPDX-License-Identifier: Apache-2.0
"""Whether a call may run, and in words why not: skill, arguments, epoch, halt, pause, leases."""

from __future__ import annotations

from dataclasses import dataclass

from skill_kernel.calls import CallSpec, KernelEventType, Refused
from skill_kernel.codes import CallCode
from skill_kernel.kernel.context import KernelContext
from skill_kernel.kernel.leases import Held, Owner
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.arguments import ArgumentError, BoundArguments, bind_typed, unknown_limits
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.skill import Skill


@dataclass(frozen=True)
class Request:
    """Hold a call whose skill is known and whose arguments fit."""

    call: CallSpec
    skill: Skill
    bound: BoundArguments
    subsystems: tuple[str, ...]
    owner: Owner


class Admission:
    """Admit calls. `check` needs no lock; `refusal` takes the leases when there is none, under the kernel's lock."""

    def __init__(self, context: KernelContext, registry: SkillRegistry, robot: RobotConfig) -> None:
        self._context, self._registry, self._robot = context, registry, robot

    def check(self, call: CallSpec) -> Request | Refused:
        """Resolve skill, arguments and subsystems."""
        skill = self._registry.get(call.function)
        if skill is None:
            near = self._registry.suggestions(call.function)
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; known: {', '.join(self._registry.names)}"
            return Refused(CallCode.UNKNOWN_FUNCTION, f"there is no skill '{call.function[:80]}'{hint}")
        if missing := unknown_limits(skill, self._robot.limits):  # the skill set may have been replaced
            return Refused(CallCode.SKILL_FAILED, no_limit(skill, missing[0], self._robot))
        try:
            bound = bind_typed(skill, call.arguments, self._robot.limits)
            subsystems = skill.subsystems_for(bound.values)
        except ArgumentError as error:
            return Refused(error.code, error.message)
        except Exception as error:  # noqa: BLE001 - a subsystem made of an argument that has no text
            why = f"{skill.name} cannot tell its subsystem: {type(error).__name__}: {error}"
            return Refused(CallCode.SKILL_FAILED, why)
        owner = Owner(call.process_id, call.call_id, open=call.open, nested=bool(call.parent_id))
        return Request(call, skill, bound, subsystems, owner)

    def refusal(self, request: Request) -> Refused | None:
        """Return why the call cannot run now; None when it can, and then it holds its leases."""
        context, call, skill = self._context, request.call, request.skill
        lowest = context.epochs.lowest(call.process_id, (*call.channels, *request.subsystems), context.clock.now())
        if call.epoch < lowest:
            text = f"{skill.name} is of epoch {call.epoch}; an interrupt ended all before epoch {lowest}"
            return Refused(CallCode.STALE_EPOCH, text)
        if context.halt_cause is not None:
            return Refused(CallCode.HALTED, f"the robot is halted ({context.halt_cause}); clear the halt first")
        if context.calls.used(call.call_id):
            text = f"call id {call.call_id} was used before; each call needs its own"
            return Refused(CallCode.INVALID_ARGUMENT, text)
        if causes := context.holds.causes(call.process_id):
            text = f"process {call.process_id} is paused by {', '.join(causes)}; {skill.name} may run when it is resumed"
            return Refused(CallCode.PROCESS_PAUSED, text)
        if len(context.calls) >= context.settings.max_running:
            return Refused(CallCode.QUEUE_FULL, f"{len(context.calls)} calls run already; wait until some have ended")
        held = context.leases.acquire(request.owner, request.subsystems)
        return None if held is None else self._held(request, held)

    def _held(self, request: Request, held: Held) -> Refused:
        call, needs = request.call, f"{request.skill.name} needs {held.subsystem}, which "
        holder = self._context.calls.get(held.call_id)
        if held.process_id == call.process_id and holder in self._context.calls.around(call) and holder is not None:
            text = f"{needs}the {holder.skill.name} around it holds; write it after the end tag"
            return Refused(CallCode.CHANNEL_HELD_BY_ANCESTOR, text, held.process_id)
        exclusive = self._context.leases.settings(held.subsystem).exclusive_per_process
        text = f"{needs}process {held.process_id} keeps until it pauses or ends"
        if holder is not None:
            until = "it ends" if held.process_id == call.process_id or not exclusive else "its process pauses or ends"
            text = f"{needs}{holder.skill.name} (call {held.call_id} of process {held.process_id}) holds until {until}"
        if exclusive and held.process_id != call.process_id:
            self._context.report(
                KernelEventType.CONTENTION, text, call, process_id=held.process_id, subsystems=request.subsystems
            )
        return Refused(CallCode.SUBSYSTEM_HELD, text, held.process_id)


def no_limit(skill: Skill, limit: str, robot: RobotConfig) -> str:
    """Return the error for a skill that uses a limit which the robot does not have."""
    return f"skill '{skill.name}' uses limit '{limit}'; add it to limits of robot '{robot.name}'"
