# SPDX-License-Identifier: Apache-2.0
"""Keep the memory of one trial on the virtual clock: what its node hears goes in, and consolidation runs in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from planners.memory import Memory, Record, Store
from planners.memory.experience import Recorder
from skill_kernel.events import CallEvent, CallKind, RunEvent
from skill_kernel.observation.model import Observation
from skill_kernel.processes.process import Process


class Remembering:
    """Remember what happens in a trial that begins with an empty memory. All on the trial's thread: each record is on disk
    before time goes on."""

    def __init__(self, path: Path, robot: str, now: Callable[[], float]) -> None:
        self.memory = Memory(Store(path, power_safe=False), wall=now, background=False)
        self._recorder = Recorder(robot)

    def observed(self, observation: Observation, now: float) -> None:
        """Take an observation, and consolidate what there is."""
        self._put(self._recorder.observation(observation, now))
        while self.memory.consolidator.step():
            pass

    def heard(self, event: RunEvent) -> None:
        """Take what became of a call."""
        if isinstance(event, CallEvent) and event.kind is CallKind.ENDED:
            self._put(self._recorder.call(event))

    def changed(self, process: Process) -> None:
        """Take a task that began or ended."""
        self._put(self._recorder.task(process))

    def close(self) -> None:
        """End the writer."""
        self.memory.close()

    def _put(self, records: list[Record]) -> None:
        if records:
            self.memory.put(*records).result()
