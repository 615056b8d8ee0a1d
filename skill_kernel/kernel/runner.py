# SPDX-License-Identifier: Apache-2.0
"""Performs calls: each skill on a thread of its own, with what it is to be given, to its one return."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from skill_kernel.calls import KernelEventType
from skill_kernel.codes import CallCode
from skill_kernel.kernel.composite import SkillCaller
from skill_kernel.kernel.ends import CallEnds
from skill_kernel.kernel.parts import KernelParts
from skill_kernel.kernel.pauses import Pauses, Remaining, what_remains
from skill_kernel.kernel.running import Pausing, RunningCall, normalized
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.content import ContentLost
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.returns import SkillReturn


class SkillRunner:
    """Runs the bodies of calls. Nothing here is called under the kernel's lock."""

    def __init__(
        self,
        parts: KernelParts,
        ends: CallEnds,
        registry: SkillRegistry,
        robot: RobotConfig,
        body: Any,
        spawn: Callable[[Callable[[], None], str], None],
    ) -> None:
        self._parts, self._ends, self._registry, self._robot, self._body = parts, ends, registry, robot, body
        self._spawn = spawn
        self.pauses = Pauses(parts, ends, self.begin)

    def begin(self, run: RunningCall) -> None:
        """Start the skill's thread."""
        try:
            self._spawn(partial(self._run, run), f"{run.skill.name}-{run.spec.call_id[:8]}")
        except RuntimeError as error:
            why = f"{run.skill.name} got no thread ({error}); too much runs at once"
            self._returned(run, SkillReturn.failure(why))

    def _run(self, run: RunningCall) -> None:
        try:
            content = {run.skill.content: run.content()} if run.skill.content is not None else {}
            if self._may_begin(run):
                injected = {name: self._injected(run, name) for name in run.skill.injected}
                returned = run.skill.function(**{**run.arguments, **content, **injected})
                body = normalized(returned, run.skill.name)
            else:
                body = SkillReturn.interruption("it was stopped before it began")
        except ContentLost as error:
            body = SkillReturn.failure(str(error), CallCode.DEADLINE)
        except BaseException as error:  # noqa: BLE001 - a skill's fault must not take the kernel with it
            body = _raised(run, error)
        self._returned(run, body)

    def _may_begin(self, run: RunningCall) -> bool:
        """Wait out a pause that came before the first statement; false when the call was stopped."""
        while True:
            with self._parts.lock:
                if run.ending is not None:
                    return False
                if not run.pause_evt.is_set():
                    run.begun = True
                    run.start_s = self._parts.clock.now() if run.start_s < 0 else run.start_s
                    return True
            run.pause_evt.rest()

    def _injected(self, run: RunningCall, name: str) -> Any:
        if name == "kernel":
            return SkillCaller(run, self._registry, self._robot.limits, self._body, parts=self._parts)
        return {"body": self._body, "stop_evt": run.stop_evt, "pause_evt": run.pause_evt, "until_reset": run.spec.open}[name]

    def _returned(self, run: RunningCall, body: SkillReturn) -> None:
        left: Remaining | None = None
        if run.skill.restartable and run.pausing is Pausing.STOPPING:
            try:
                left = what_remains(run, body)
            except Exception as error:  # noqa: BLE001 - the skill's author's code
                body = _raised(run, error)
        with self._parts.lock:
            self._settle(run, body, left)
        self._parts.flush()

    def _settle(self, run: RunningCall, body: SkillReturn, left: Remaining | None) -> None:
        run.body_ended, run.body_result = True, body
        self._ends.body_ended(run)
        if run.reported:
            late_s = self._parts.clock.now() - run.accepted_s
            text = f"{run.skill.name} has stopped after all, {late_s:.1f} s on"
            self._parts.report(KernelEventType.STOPPED_LATE, text, run.spec)
            self._ends.forget(run)
            return
        if not body.ok and body.error_code == CallCode.STOP_UNCERTAIN:
            self._ends.uncertain(run, body.message or f"{run.skill.name} does not know whether it stopped")
            return
        if run.pausing is Pausing.STOPPING and run.ending is None:
            final = self.pauses.stopped(run, body, left)
            if final is None:
                return
            run.body_result = body = final
        run.deadline.close()
        if run.ending is not None or not run.spec.open or not body.ok:
            self._ends.end(run, run.result(self._parts.clock.now()))
        else:
            self.pauses.open_body_ended(run)


def _raised(run: RunningCall, error: BaseException) -> SkillReturn:
    text = " ".join(str(error).split())[:300]
    return SkillReturn.failure(f"{run.skill.name} raised {type(error).__name__}: {text}", CallCode.SKILL_RAISED)
