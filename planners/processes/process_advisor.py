# SPDX-License-Identifier: Apache-2.0
"""System 3's model beside the preemption table: what a new instruction means for those that run (TypeGo 6; semantics
section 5). It never holds anything up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from planners.models.model_call import CallEnd, Model, ModelCall
from planners.processes.process_prompt import S3Answer, S3Reader, advice_request
from planners.prompts.blocks import Layer
from skill_kernel.clock import Clock
from skill_kernel.processes.commands import ProcessError
from skill_kernel.processes.process import Process, ProcessSource
from skill_kernel.processes.relations import Relation
from skill_kernel.processes.scheduler import ProcessScheduler

DEADLINE_S = 3.0
TABLE_ALONE = "the preemption table alone decides"


class Voice(Protocol):
    """How System 3 tells of what it does and does not."""

    def notice(self, process_id: str, text: str) -> None:
        """Something a person should read."""

    def skipped(self, process_id: str, why: str) -> None:
        """The model was not asked."""

    def degraded(self, process_id: str, how: str, why: str) -> None:
        """It goes on without its model."""


@dataclass(frozen=True)
class Surroundings:
    """What a prompt shows besides processes: the static front, and what changes."""

    system: str
    observation: Callable[[], Mapping[str, Any] | None]
    guidelines: Callable[[], Sequence[Mapping[str, str]]]


class ProcessAdvisor:
    """Asks once for each new user instruction, while others live, and applies the answer as far as it is still true.

    No call when nothing else lives, when the wording says it already, or when only idle behaviour runs, for which the
    table leaves no choice. Without a usable answer within `deadline_s` the table alone has decided.
    """

    def __init__(
        self,
        model: Model,
        clock: Clock,
        scheduler: ProcessScheduler,
        around: Surroundings,
        voice: Voice,
        *,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._model, self._clock, self._scheduler = model, clock, scheduler
        self._around, self._voice, self._deadline_s = around, voice, deadline_s
        self._calls: dict[str, ModelCall[S3Answer]] = {}

    def began(self, process: Process) -> None:
        """A process was made just now."""
        if process.source is not ProcessSource.USER or process.status.ended:
            return
        others = [p for p in self._scheduler.living if p.process_id != process.process_id]
        asked = [p for p in others if p.source is not ProcessSource.IDLE]
        if not asked:
            return
        if process.returns:
            self._voice.skipped(process.process_id, "its wording says already that what it displaces goes on after it")
            return
        ids = [p.process_id for p in asked]
        self._scheduler.relations.expect(process.process_id, ids)
        request = advice_request(
            self._around.system,
            process,
            asked,
            guidelines=self._around.guidelines(),
            observation=self._around.observation(),
            deadline_s=self._deadline_s,
        )
        self._calls[process.process_id] = ModelCall(
            self._model,
            self._clock,
            Layer.S3,
            process.process_id,
            request,
            lambda: S3Reader(processes=ids, new=True),
            lambda end: self._answered(process.process_id, end),
            deadline_s=self._deadline_s,
        )

    def close(self) -> None:
        """Nobody waits for answers any more."""
        for process_id, call in list(self._calls.items()):
            call.cancel()
            self._over(process_id)

    def halted(self) -> None:
        """Every process has ended with the halt; what was asked about them is void."""
        self.close()

    def _answered(self, process_id: str, end: CallEnd[S3Answer]) -> None:
        if end.value is None:
            self._voice.degraded(process_id, TABLE_ALONE, end.why)
        for related in end.value.relations if end.value is not None else ():
            try:
                done = self._scheduler.relations.apply(process_id, related.process_id, related.relation)
            except ProcessError as error:
                self._voice.notice(process_id, f"the advice of System 3's model was refused: {error}")
                continue
            if done and related.relation is not Relation.JOIN:
                self._voice.notice(process_id, done)
        self._over(process_id)

    def _over(self, process_id: str) -> None:
        self._calls.pop(process_id, None)
        self._scheduler.relations.decide(process_id)
        self._scheduler.relations.forget(process_id)
