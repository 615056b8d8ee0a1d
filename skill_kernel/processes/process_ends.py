# SPDX-License-Identifier: Apache-2.0
"""How processes end: told to the rest of the robot, and to who waited for it."""

from __future__ import annotations

from collections.abc import Callable

from skill_kernel.codes import TaskCode
from skill_kernel.processes.process import Process, ProcessStatus, ProcessTable
from skill_kernel.processes.process_commands import Command, EndProcess, ReleaseProcess


class ProcessEnds:
    """Ends processes; `after` hears of each once, when it has ended."""

    def __init__(self, table: ProcessTable, on_command: Callable[[Command], None], after: Callable[[Process], None]) -> None:
        self._table, self._do, self._after = table, on_command, after

    def end(self, process: Process, status: ProcessStatus, code: TaskCode, why: str) -> None:
        """End it now, whatever it does."""
        ended = self._table.end(process.process_id, status, int(code), why)
        self._do(EndProcess(process.process_id, why))
        if ended is not None:
            self._after(ended)

    def settle(self, process_id: str, **changes: object) -> None:
        """Note what may complete it."""
        before = self._table.lives(process_id)
        after = self._table.change(process_id, **changes)
        if before is not None and after is not None and after.status.ended:
            self._do(ReleaseProcess(process_id))
            self._after(after)
