# SPDX-License-Identifier: Apache-2.0
"""System 3's model beside the preemption table: the meaning of a new instruction for those that run (TypeGo 6; semantics
section 5). It never holds anything up."""

from __future__ import annotations

from typing import Protocol

from planners.models.model_call import CallEnd, ModelCall
from planners.processes.process_prompt import AdvisorContext, S3Answer
from skill_kernel.processes.process import Process, ProcessError, ProcessSource
from skill_kernel.processes.relations import Relation
from skill_kernel.processes.scheduler import ProcessScheduler

TABLE_ALONE = "the preemption table alone decides"


class Voice(Protocol):
    """How System 3 tells people what it does and does not."""

    def notice(self, process_id: str, text: str) -> None:
        """Tell something that a person should read."""

    def skipped(self, process_id: str, why: str) -> None:
        """Tell that the model was not asked."""

    def degraded(self, process_id: str, how: str, why: str) -> None:
        """Tell that it goes on without its model."""


class ProcessAdvisor:
    """Asks once for each new user instruction, while others live, and applies the answer as far as it is still true.

    No call when nothing else lives, when the wording says it already, or when only idle behaviour runs, for which the
    table leaves no choice. Without a usable answer before the deadline the table alone has decided.
    """

    def __init__(self, context: AdvisorContext, scheduler: ProcessScheduler, voice: Voice) -> None:
        self._context, self._scheduler, self._voice = context, scheduler, voice
        self._calls: dict[str, ModelCall[S3Answer]] = {}

    def began(self, process: Process) -> None:
        """Ask about a process that was made just now, where that can matter."""
        if process.source is not ProcessSource.USER or process.status.ended:
            return
        name = process.process_id
        asked = [p for p in self._scheduler.living if p.process_id != name and p.source is not ProcessSource.IDLE]
        if not asked:
            return
        if process.returns:
            self._voice.skipped(name, "its wording says already that what it displaces goes on after it")
            return
        self._scheduler.expect(name, [p.process_id for p in asked])
        why = ["a new instruction came; say how it stands to each process that runs"]
        self._calls[name] = self._context.ask(why, lambda end: self._answered(name, end), new=process, processes=asked)

    def close(self) -> None:
        """Cancel all questions; the table alone has decided. So it is with a halt, which ends every process."""
        for process_id, call in list(self._calls.items()):
            call.cancel()
            self._settle(process_id)

    def _answered(self, process_id: str, end: CallEnd[S3Answer]) -> None:
        if end.value is None:
            self._voice.degraded(process_id, TABLE_ALONE, end.why)
        for other, relation in end.value.relations.items() if end.value is not None else ():
            try:
                done = self._scheduler.relate(process_id, other, relation)
            except ProcessError as error:
                self._voice.notice(process_id, f"the advice of System 3's model was refused: {error}")
                continue
            if done and relation is not Relation.JOIN:
                self._voice.notice(process_id, done)
        self._settle(process_id)

    def _settle(self, process_id: str) -> None:
        self._calls.pop(process_id, None)
        self._scheduler.decide(process_id)
