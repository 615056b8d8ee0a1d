# SPDX-License-Identifier: Apache-2.0
"""Hold one console: its interpreter, its transcript and what it waits for, kept in a file so that it outlives its node."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from planners.strategies.console.api import SkillCall
from planners.strategies.console.errors import ErrorBook
from planners.strategies.console.functions import bound_names
from planners.strategies.console.sandbox import HostCall, Raised, Ran, Sandbox, SandboxError, Step
from planners.strategies.console.transcript import Entry, shown

VERSION = 2
MAX_ENTRIES = 500
"""Statements that a console keeps, the newest."""
MAX_RESULTS, MAX_RESULT = 100, 2000
"""Values of skills that are kept, the newest, and characters of one as JSON."""
STILL_RUNS = "# It still runs, for another task."


class Session:
    """Hold one console. `run`, `answer`, `refuse`, `break_off` and `open` block, and are called one after the other; they keep
    the console in its file before they return. All else may be read between them."""

    def __init__(self, functions: Collection[str], file: Path | None = None, entries: Collection[Entry] = ()) -> None:
        self._sandbox = Sandbox(functions)
        self.file = file
        self.entries = list(entries)
        self.names: set[str] = set()
        """Names that its statements bound."""
        self.call: HostCall | None = None
        """What its statement waits for."""
        self.spent = ""
        """The last error, once errors of its kind have been told often enough."""
        self.results: list[tuple[SkillCall, Any]] = []
        """Skills that were called and the value of each, the oldest first."""
        self.offered = 0
        """The lesson that somebody was asked to confirm, until he says something."""
        self._code = self._hint = ""
        self._errors = ErrorBook()

    @property
    def busy(self) -> bool:
        """Return whether a statement has begun and not ended."""
        return bool(self._code)

    # -- statements ---------------------------------------------------------------------------------------------------

    def run(self, code: str) -> Step:
        """Run a statement until it ends or waits. Raises SandboxError."""
        self._code, self.spent = code, ""
        return self._take(self._sandbox.run(code))

    def answer(self, value: Any) -> Step:
        """Let the function that it waits for return a value."""
        return self._take(self._sandbox.answer(value))

    def refuse(self, kind: str, message: str) -> Step:
        """Let the function that it waits for raise an exception. One of the kind RuntimeError is a hint: its sentence says what
        is wrong and what to do."""
        self._hint = message if kind == "RuntimeError" else ""
        return self._take(self._sandbox.refuse(kind, message))

    def break_off(self, why: str) -> Step:
        """End the statement, whatever it catches; what it had assigned is undone."""
        return self._take(self._sandbox.break_off(why), counts=False)

    def offer(self, functions: Collection[str]) -> None:
        """Let statements call these functions from now on, and no others."""
        self._sandbox.functions = functions

    def reset(self) -> None:
        """Forget all that was written, and the variables."""
        self.entries.clear()
        self.names.clear()
        self.results.clear()
        self.offered = 0
        self._errors.reset()
        self._sandbox.forget()

    def note(self, code: str) -> None:
        """Take down a line that does nothing."""
        self.entries.append(Entry(code))

    def returned(self, call: SkillCall, value: Any) -> None:
        """Take down what a skill returned."""
        if len(json.dumps([call.arguments, value], default=str)) <= MAX_RESULT:
            self.results = [*self.results, (call, value)][-MAX_RESULTS:]

    def _take(self, step: Step, *, counts: bool = True) -> Step:
        self.call = step if isinstance(step, HostCall) else None
        if isinstance(step, Ran):
            self._errors.reset()
            self._end(shown(step.printed, step.shown))
        elif isinstance(step, Raised):
            hint = step.kind == "RuntimeError" and bool(self._hint) and step.message == self._hint
            told = self._errors.told(step, hint=hint) if counts else f"{step.kind}: {' '.join(step.message.split())}"
            self.spent = "" if told is not None else f"{step.kind}: {step.message}"
            self._end(shown(step.printed, told if told is not None else self.spent))
        self.keep()
        return step

    def _end(self, output: str) -> None:
        self.names |= bound_names(self._code)
        self.entries.append(Entry(self._code, output))
        del self.entries[:-MAX_ENTRIES]
        self._code = self._hint = ""

    # -- the file -----------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Keep it as it is now. A file that cannot be written is done without: the console only does not outlive its node."""
        if self.file is None:
            return
        with suppress(OSError, SandboxError):
            data = json.dumps(self._state()).encode()
            try:
                _replace(self.file, data)
            except FileNotFoundError:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                _replace(self.file, data)

    def move(self, file: Path | None) -> None:
        """Keep it under another name from now on."""
        old, self.file = self.file, file
        self.keep()
        if old is not None and old != file:
            old.unlink(missing_ok=True)

    def _state(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "entries": [[entry.code, entry.output] for entry in self.entries],
            "names": sorted(self.names),
            "results": [[call.skill, dict(call.arguments), value] for call, value in self.results],
            "offered": self.offered,
            "code": self._code,
            "call": asdict(self.call) if self.call is not None else None,
            "state": b64encode(self._sandbox.dump()).decode() if self.call is not None else "",
            "kept": b64encode(self._sandbox.kept).decode(),
        }

    @classmethod
    def open(cls, functions: Collection[str], file: Path) -> Session | None:
        """Return the console that a file holds, in mid-statement if it was; None where there is none that can be read."""
        try:
            told = json.loads(file.read_text(encoding="utf-8"))
            if told["version"] != VERSION:
                return None
            session = cls(functions, file, [Entry(str(code), str(output)) for code, output in told["entries"]])
            session.names = {str(name) for name in told["names"]}
            session.results = [(SkillCall(str(skill), dict(given)), value) for skill, given, value in told["results"]]
            session.offered = int(told["offered"])
            state, kept = b64decode(told["state"]), b64decode(told["kept"])
            if state:
                session.call = session._sandbox.restore(state, kept)
                session._code = str(told["code"])
            elif kept:
                session._sandbox.restore(kept)
        except (OSError, ValueError, KeyError, TypeError, SandboxError):
            return None
        return session

    def fork(self, functions: Collection[str]) -> Session:
        """Return a console of its own that begins with what this one has done; it knows of what still runs here."""
        running = [Entry(self._code, STILL_RUNS)] if self._code else []
        other = Session(functions, None, [*self.entries, *running])
        other.names, other.results = set(self.names), list(self.results)
        if self._sandbox.kept:
            other._sandbox.restore(self._sandbox.kept)
        return other

    def close(self) -> None:
        """End its interpreter."""
        self._sandbox.close()


def _replace(file: Path, data: bytes) -> None:
    """Replace a file as a whole, readable by its owner alone. A skill waits for it, and each call of the operating system lets
    other threads in, so there are no more than needed. Raises OSError."""
    new = file.with_suffix(".new")
    opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        if os.write(opened, data) != len(data):
            raise OSError(f"{new} was written in part: its disk is full")
    finally:
        os.close(opened)
    os.replace(new, file)
