# SPDX-License-Identifier: Apache-2.0
"""Kalos's shipped reflexes on the virtual clock: the real loop and rules; this stands for their node and performer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ghostshell_ros.runtime.data import config_folder
from planners.prescriptions.reflex_book import RuleBook
from reflexes.loop import Ended, Firing, ReflexLoop
from reflexes.rule import RuleStore
from skill_kernel.calls import CallResult, CallSpec
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind, RunEvent
from skill_kernel.guard.code import STOP, WAIT, Vocabulary
from skill_kernel.kernel.holds import Rank
from skill_kernel.kernel.kernel import Kernel
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.observation.model import Observation
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.arguments import to_json
from skill_kernel.skills.registry import SkillRegistry


class Trial(Protocol):
    """Name what a reflex needs of the trial in which it acts."""

    clock: Any
    kernel: Kernel

    def soon(self, call: Callable[..., object], *given: Any) -> None: ...

    def tell(self, event: RunEvent, node: str) -> None: ...

    def execute(self, spec: CallSpec, listener: Any) -> None: ...


class VirtualReflexes:
    """Implement `reflexes.loop.Performer`: each firing takes its subsystems, calls its skills, and gives the body back."""

    def __init__(self, trial: Trial, robot: RobotConfig, registry: SkillRegistry, folder: Path) -> None:
        accessors, base = accessors_of(robot), robot.base.subsystems if robot.base is not None else ()
        words = Vocabulary(accessors, registry, robot.limits, base)
        shipped = config_folder() / "reflexes" / f"{robot.name}.yaml"
        book = RuleBook(RuleStore(folder / "reflexes", shipped, seal=lambda _: ""), words, wall=time.time)
        self.trial, self.registry = trial, registry
        self.shared = frozenset(name for name, s in robot.subsystems.items() if not s.exclusive_per_process)
        self._acting: dict[Firing, _Performance] = {}
        self._numbers = itertools.count()
        # What a rule costs is the processor's time, which the virtual clock does not know.
        self.loop = ReflexLoop(accessors, self, lambda loaded, why: None, spent=lambda: 0.0)
        self.loop.set_rules(book.runnable())

    def observe(self, observation: Observation, now: float) -> None:
        """Evaluate all rules."""
        self.loop.observe(observation, now)

    def start(self, firing: Firing) -> None:
        """Take what the action needs; it begins when the kernel has answered."""
        name = firing.name
        performance = self._acting[firing] = _Performance(self, firing, f"reflex-{name}-{next(self._numbers)}")
        taken = [s for s in firing.loaded.guarded.subsystems if s not in self.shared]

        def ask() -> None:
            answer = self.trial.kernel.preempt(Rank.REFLEX, taken, f"reflex {name}", performance.process_id)
            self.trial.soon(performance.end, Ended.NOT_NOW) if answer.code else self.trial.soon(performance.go_on)

        self.trial.soon(ask)

    def cancel(self, firing: Firing, cause: str) -> None:
        """End its call, and it with that."""
        if (performance := self._acting.get(firing)) is not None:
            self.trial.soon(performance.cancel, cause)

    def finish(self, firing: Firing, how: Ended) -> None:
        """Give back what it has taken."""
        if (performance := self._acting.pop(firing, None)) is not None:
            self.trial.soon(self.trial.kernel.end_process, performance.process_id, "the reflex is over")
            self.loop.ended(firing, how, self.trial.clock.now())


class _Performance:
    """One firing, call after call; a listener of its calls."""

    def __init__(self, reflexes: VirtualReflexes, firing: Firing, process_id: str) -> None:
        self._reflexes, self._trial, self._firing, self.process_id = reflexes, reflexes.trial, firing, process_id
        self._call: CallSpec | None = None
        self._begun = False

    def go_on(self, succeeded: bool = True) -> None:
        now = self._trial.clock.now()
        request = self._reflexes.loop.advance(self._firing, succeeded, now)
        while request is not None and request.name == STOP:
            request = self._reflexes.loop.advance(self._firing, True, now)
        if request is None:
            self.end(Ended.NOT_NOW if self._firing.cancelled else Ended.DONE)
        elif request.name == WAIT:
            self._trial.clock.call_later(request.arguments["seconds"], self.go_on)
        else:
            skill = self._reflexes.registry.get(request.name)
            assert skill is not None
            arguments, number = dict(request.arguments), f"{self.process_id}.{now:.3f}"
            channels = skill.subsystems_for(arguments)
            self._begun = False
            self._call = CallSpec(
                self.process_id, number, request.name, arguments, stream_id=self.process_id, channels=channels
            )
            self._trial.execute(self._call, self)

    def started(self, call_id: str) -> None:
        if self._call is not None and not self._begun:
            self._begun = True
            self._tell(CallKind.STARTED, self._call)

    def held(self, call_id: str, why: str) -> None:
        """Wait until it is `freed`."""

    def freed(self) -> None:
        if self._call is not None and not self._begun:
            self._trial.execute(self._call, self)

    def ended(self, call_id: str, result: CallResult) -> None:
        call, self._call = self._call, None
        if call is not None:
            told = {
                "error_code": int(result.code),
                "error_msg": result.error,
                "outcome": result.outcome,
                "message": result.message,
            }
            self._tell(CallKind.ENDED, call, **told)
        done = result.outcome is Outcome.DONE
        self.end(Ended.NOT_NOW) if self._firing.cancelled else self.go_on() if done else self.end(Ended.FAILED)

    def cancel(self, cause: str) -> None:
        if self._call is not None and self._begun:
            self._trial.kernel.interrupt(self._call.call_id, cause)
        else:
            self.end(Ended.NOT_NOW)

    def end(self, how: Ended) -> None:
        self._call = None
        self._reflexes.finish(self._firing, how)

    def _tell(self, kind: CallKind, call: CallSpec, **more: Any) -> None:
        self._trial.tell(CallEvent(kind=kind, args_json=to_json(call.arguments), **call.about, **more), "reflexes")
