# SPDX-License-Identifier: Apache-2.0
"""The `kernel` parameter of a composite skill: it calls other skills within its own call (TypeGo 4)."""

from __future__ import annotations

from typing import Any

from skill_kernel.codes import CallCode
from skill_kernel.kernel.parts import KernelParts
from skill_kernel.kernel.running import RunningCall, normalized
from skill_kernel.skills.arguments import ArgumentError, Limits, bind_typed
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.returns import SkillReturn


class SkillCaller:
    """Calls skills on the composite skill's thread. They share its stop and pause events, its process and its result;
    subsystems that it does not hold itself are taken for the time of the call."""

    def __init__(self, run: RunningCall, registry: SkillRegistry, limits: Limits, body: Any, *, parts: KernelParts) -> None:
        self._run, self._registry, self._limits, self._body = run, registry, limits, body
        self._parts = parts

    def call(self, name: str, /, **arguments: Any) -> SkillReturn:
        """Run a skill to its end. A failure is returned, not raised; what the skill itself raises passes through."""
        skill = self._registry.get(name)
        if skill is None:
            return SkillReturn.failure(f"there is no skill '{name}'", CallCode.UNKNOWN_FUNCTION)
        try:
            bound = bind_typed(skill, arguments, self._limits)
        except ArgumentError as error:
            return SkillReturn.failure(error.message, error.code)
        values = bound.values
        if skill.content is not None:
            text = str(values.pop(skill.content, ""))
            values[skill.content] = iter([text]) if skill.content_streams else text
        injected = {
            "body": self._body,
            "stop_evt": self._run.stop_evt,
            "pause_evt": self._run.pause_evt,
            "until_reset": False,
            "kernel": self,
        }
        taken: list[str] = []
        try:
            refused = self._take(name, skill.subsystems_for(bound.values), taken)
            if refused is not None:
                return refused
            return normalized(skill.function(**values, **{n: injected[n] for n in skill.injected}), name)
        finally:
            self._give_back(taken)

    def _take(self, name: str, wanted: tuple[str, ...], taken: list[str]) -> SkillReturn | None:
        """Between two skills a composite is at rest: a pause is waited out here, before the next one begins."""
        run, leases = self._run, self._parts.leases
        while True:
            with self._parts.lock:
                if run.ending is not None or run.stop_evt.is_set():
                    return SkillReturn.interruption(f"stopped before {name} began")
                if not run.pause_evt.is_set():
                    new = [s for s in wanted if s not in run.subsystems and s not in run.nested]
                    held = leases.acquire(run.owner, new)
                    if held is not None:
                        text = f"{name} needs {held.subsystem}, which process {held.process_id} holds"
                        return SkillReturn.failure(text, CallCode.SUBSYSTEM_HELD)
                    for subsystem in wanted:
                        if subsystem not in run.subsystems:
                            run.nested[subsystem] = run.nested.get(subsystem, 0) + 1
                            taken.append(subsystem)
                    self._parts.changed()
                    break
            run.pause_evt.rest()
        self._parts.flush()
        return None

    def _give_back(self, taken: list[str]) -> None:
        with self._parts.lock:
            for subsystem in taken:
                self._run.nested[subsystem] -= 1
                if not self._run.nested[subsystem]:
                    del self._run.nested[subsystem]
                    if self._run.leased:
                        self._parts.leases.release(self._run.owner, [subsystem])
            self._parts.changed()
        self._parts.flush()
