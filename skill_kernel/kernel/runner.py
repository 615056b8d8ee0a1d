# SPDX-License-Identifier: Apache-2.0
"""Perform calls: each skill on a thread of its own, with what is injected into it, to its one return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from skill_kernel.calls import KernelEventType
from skill_kernel.codes import CallCode
from skill_kernel.kernel.context import KernelContext
from skill_kernel.kernel.ends import CallEnds
from skill_kernel.kernel.pauses import Pauses, Remaining, what_remains
from skill_kernel.kernel.running import Pausing, RunningCall, normalized
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.arguments import ArgumentError, Limits, bind_typed
from skill_kernel.skills.content import ContentLost
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.returns import SkillReturn

MAX_IDLE_THREADS = 16
"""Idle threads that are kept."""


class SkillThreads:
    """Run each function on a daemon thread of its own; never wait for a free one.

    An idle thread is kept for the next call, because a new one takes far longer to begin.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = 0
        self._handed_over: SimpleQueue[tuple[Callable[[], None], str]] = SimpleQueue()

    def __call__(self, run: Callable[[], None], name: str) -> None:
        """Begin. Raises RuntimeError when the system has no thread left."""
        with self._lock:
            idle = self._idle > 0
            if idle:
                self._idle -= 1
        if idle:
            self._handed_over.put((run, name))
        else:
            threading.Thread(target=self._work, args=(run, name), daemon=True).start()

    def _work(self, run: Callable[[], None], name: str) -> None:
        while True:
            threading.current_thread().name = name
            run()
            with self._lock:
                if self._idle >= MAX_IDLE_THREADS:
                    return
                self._idle += 1
            run, name = self._handed_over.get()


class SkillCaller:
    """Call skills on the composite skill's thread: its `kernel` parameter (TypeGo 4).

    They share its stop and pause events, its process and its result. Subsystems that it does not hold itself are taken for
    the time of the call.
    """

    def __init__(self, run: RunningCall, registry: SkillRegistry, limits: Limits, body: Any, *, context: KernelContext) -> None:
        self._run, self._registry, self._limits, self._body = run, registry, limits, body
        self._context = context

    def call(self, name: str, /, **arguments: Any) -> SkillReturn:
        """Run a skill to its end. A failure is returned, not raised; an exception of the skill passes through."""
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
        """Take the subsystems of the next skill. Between two skills a composite is at rest, so a pause is waited out here."""
        run, leases = self._run, self._context.leases
        while True:
            with self._context.lock:
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
                    self._context.changed()
                    break
            run.pause_evt.rest()
        self._context.flush()
        return None

    def _give_back(self, taken: list[str]) -> None:
        with self._context.lock:
            for subsystem in taken:
                self._run.nested[subsystem] -= 1
                if not self._run.nested[subsystem]:
                    del self._run.nested[subsystem]
                    if self._run.leased:
                        self._context.leases.release(self._run.owner, [subsystem])
            self._context.changed()
        self._context.flush()


class SkillRunner:
    """Run the bodies of calls. Nothing here is called under the kernel's lock."""

    def __init__(
        self,
        context: KernelContext,
        ends: CallEnds,
        registry: SkillRegistry,
        robot: RobotConfig,
        body: Any,
        spawn: Callable[[Callable[[], None], str], None],
    ) -> None:
        self._context, self._ends, self._registry, self._robot, self._body = context, ends, registry, robot, body
        self._spawn = spawn
        self.pauses = Pauses(context, ends, self.begin)

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
        """Wait out a pause that came before the first statement; return false when the call was stopped."""
        while True:
            with self._context.lock:
                if run.ending is not None:
                    return False
                if not run.pause_evt.is_set():
                    run.begun = True
                    run.start_s = self._context.clock.now() if run.start_s < 0 else run.start_s
                    return True
            run.pause_evt.rest()

    def _injected(self, run: RunningCall, name: str) -> Any:
        if name == "kernel":
            return SkillCaller(run, self._registry, self._robot.limits, self._body, context=self._context)
        return {"body": self._body, "stop_evt": run.stop_evt, "pause_evt": run.pause_evt, "until_reset": run.spec.open}[name]

    def _returned(self, run: RunningCall, body: SkillReturn) -> None:
        left: Remaining | None = None
        if run.skill.restartable and run.pausing is Pausing.STOPPING:
            try:
                left = what_remains(run, body)
            except Exception as error:  # noqa: BLE001 - the skill's author's code
                body = _raised(run, error)
        with self._context.lock:
            self._settle(run, body, left)
        self._context.flush()

    def _settle(self, run: RunningCall, body: SkillReturn, left: Remaining | None) -> None:
        run.body_ended, run.body_result = True, body
        self._ends.body_ended(run)
        if run.reported:
            late_s = self._context.clock.now() - run.accepted_s
            text = f"{run.skill.name} has stopped after all, {late_s:.1f} s on"
            self._context.report(KernelEventType.STOPPED_LATE, text, run.spec)
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
            self._ends.end(run, run.result(self._context.clock.now()))
        else:
            self.pauses.open_body_ended(run)


def _raised(run: RunningCall, error: BaseException) -> SkillReturn:
    text = " ".join(str(error).split())[:300]
    return SkillReturn.failure(f"{run.skill.name} raised {type(error).__name__}: {text}", CallCode.SKILL_RAISED)
