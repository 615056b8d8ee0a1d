# SPDX-License-Identifier: Apache-2.0
"""A process scheduler at whose commands the skill kernel is played by the test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind, ModelEvent, ModelKind, ProcessEvent, ProcessKind, StreamEvent, StreamKind
from skill_kernel.processes.process import Process, ProcessSource, ProcessStatus, SchedulerSettings
from skill_kernel.processes.scheduler import ProcessScheduler

USER, REACTIVE, IDLE = ProcessSource.USER, ProcessSource.REACTIVE, ProcessSource.IDLE
PAUSED, RUNS, WAITING = ProcessStatus.PAUSED, ProcessStatus.IN_PROGRESS, ProcessStatus.WAITING


@dataclass(frozen=True)
class _Caused:
    process_id: str
    cause: str


class EndProcess(_Caused):
    pass


class PauseProcess(_Caused):
    pass


class ResumeProcess(_Caused):
    pass


class InterruptPlan(_Caused):
    pass


@dataclass(frozen=True)
class ReleaseProcess:
    process_id: str


@dataclass(frozen=True)
class Amended:
    process: Process


COMMANDS = {
    "end": EndProcess,
    "release": ReleaseProcess,
    "pause": PauseProcess,
    "resume": ResumeProcess,
    "void_plan": InterruptPlan,
    "amended": Amended,
}
Command = Any
EVENTS: dict[Any, Any] = {CallKind: CallEvent, StreamKind: StreamEvent, ProcessKind: ProcessEvent, ModelKind: ModelEvent}


class Desk:
    """A scheduler with what it asked for; a pause is answered at once, `legs` is the one exclusive subsystem."""

    def __init__(self, *, idle: str = "", unpausable: bool = False, restore: Iterable[Process] = ()) -> None:
        self.now_s = 100.0
        self.asked: list[Command] = []
        self.blocks: list[Process] = []
        self.legs = ""
        self.unpausable = unpausable
        self.epoch = 0
        ids = count(1)
        self.core = ProcessScheduler(
            self,
            new_id=lambda: f"p{next(ids)}",
            now=lambda: self.now_s,
            settings=SchedulerSettings(
                strategy="stream", strategies=("stream", "layered"), idle=idle, idle_after_s=5.0, max_processes=4
            ),
        )
        self.core.restore(restore)

    def changed(self, process: Process) -> None:
        self.blocks.append(process)

    def __getattr__(self, name: str) -> Any:
        """Note what the scheduler asks of the robot."""
        if name not in COMMANDS:
            raise AttributeError(name)
        return lambda *asked: self.asked.append(COMMANDS[name](*asked))

    def answer(self) -> list[Command]:
        """Let the kernel answer everything that was asked, in order; return what was asked."""
        done: list[Command] = []
        while self.asked:
            command = self.asked.pop(0)
            done.append(command)
            name = command.process_id
            if isinstance(command, PauseProcess):
                held, self.legs = self.legs == name, "" if self.legs == name else self.legs
                self.core.paused(name, ["call"] if self.unpausable and held else [])
            elif isinstance(command, ResumeProcess):
                ok = self.legs in ("", name)
                self.core.resumed(name, command.cause, ok, () if ok else (self.legs,))
            elif isinstance(command, InterruptPlan):
                self.epoch += 1
                self.core.interrupted(name, self.epoch)
            elif isinstance(command, (EndProcess, ReleaseProcess)) and self.legs == name:
                self.legs = ""
        return done

    def says(self, text: str = "walk", source: ProcessSource = USER) -> str:
        return self.core.instruct(text, source=source).process_id

    def wants_legs(self, name: str) -> None:
        """Return a call on the legs: granted, or refused as often as the table lets somebody else keep them."""
        for _ in range(3):
            if self.legs in ("", name):
                self.legs = name
                self.tell(CallKind.STARTED, name, call_id="c", function="walk")
                return
            self.core.contention(name, self.legs)
            self.answer()

    def finishes(self, name: str) -> None:
        self.plan_ends(name, self.process(name).epoch)

    def plan_ends(self, name: str, epoch: int = 0, code: int = 0, why: str = "") -> None:
        self.tell(ProcessKind.PLAN_ENDED, name, epoch=epoch, error_code=code, error_msg=why)

    def call_ends(self, name: str, outcome: Outcome, code: int, stream: str = "s", call: str = "c") -> None:
        told = {"stream_id": stream, "call_id": call, "function": "walk", "outcome": outcome, "error_code": code}
        self.tell(CallKind.ENDED, name, **told)

    def tell(self, kind: Any, name: str, **more: Any) -> None:
        """Tell the scheduler of an event."""
        self.core.take(EVENTS[type(kind)](kind=kind, process_id=name, **more))

    def process(self, name: str) -> Process:
        found = self.core.get(name)
        assert found is not None
        return found

    def status(self, *names: str) -> list[ProcessStatus]:
        return [self.process(n).status for n in names]
