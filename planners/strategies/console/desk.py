# SPDX-License-Identifier: Apache-2.0
"""Keep the consoles of a robot: one a task, and one that waits for the next task and remembers what was said before it."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from planners.strategies.console.api import WAIT_NAME
from planners.strategies.console.sandbox import SandboxError
from planners.strategies.console.session import Session

IDLE = "idle.json"
MAX_FILES = 20
"""Consoles of tasks that never went on, the newest."""
_PLAIN = re.compile(r"[\w-]{1,64}", re.ASCII)


class Desk:
    """Hold the consoles of the tasks in progress. All methods block, and are called on one thread."""

    def __init__(self) -> None:
        self._taken: dict[str, Session] = {}
        self._idle: Session | None = None
        self._folder = Path()

    def take(self, process_id: str, functions: Collection[str], folder: Path) -> Session:
        """Return the console of a task: the one that it had when its node ended, else the one that waits, else one that begins
        with what another task has done so far. Raises SandboxError."""
        self._folder = folder
        file = folder / f"{process_id}.json" if _PLAIN.fullmatch(process_id) else None
        session = Session.open(functions, file) if file is not None and file.exists() else None
        if session is None:
            session = self._waiting(functions) or self._forked(functions) or Session(functions)
        session.offer(functions)
        session.move(file)
        self._taken[process_id] = session
        self._prune()
        return session

    def park(self, process_id: str, why: str) -> None:
        """Let the console of a task that has ended wait for the next one. What its statement was doing is broken off."""
        session = self._taken.pop(process_id, None)
        if session is None:
            return
        if session.busy and (session.call is None or session.call.name != WAIT_NAME):
            session.break_off(f"the task ended: {why}")
        if self._idle is not None:
            self._idle.close()
        session.move(self._folder / IDLE)
        self._idle = session

    def close(self) -> None:
        """End the interpreters of all consoles, which stay in their files."""
        for session in (*self._taken.values(), *([self._idle] if self._idle is not None else [])):
            session.close()

    def _waiting(self, functions: Collection[str]) -> Session | None:
        waiting, self._idle = self._idle, None
        return waiting or (None if self._taken else Session.open(functions, self._folder / IDLE))

    def _forked(self, functions: Collection[str]) -> Session | None:
        """Return a console that begins as the newest one that is in use."""
        if not self._taken:
            return None
        try:
            return list(self._taken.values())[-1].fork(functions)
        except SandboxError:
            return None

    def _prune(self) -> None:
        with suppress(OSError):
            files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
            kept = {session.file for session in self._taken.values()}
            for file in [file for file in files if file.name != IDLE and file not in kept][:-MAX_FILES]:
                file.unlink(missing_ok=True)
