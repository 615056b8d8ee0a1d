# SPDX-License-Identifier: Apache-2.0
"""Keep what was written at the prompt and what came of it, as a console shows it, and read it back (section 3.2)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

PROMPT, MORE = ">>>", "..."
WAIT = "wait_for_trigger()"
_HEARS = re.compile(r"wait_for_trigger\(\)|ask\(.*\)", re.DOTALL)
"""A statement by which a person is heard."""
_FAKED = re.compile(rf"^(?={re.escape(PROMPT)}|{re.escape(MORE)}|```)", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """Hold a statement and what the console showed below it: what was printed, a result by its `repr`, or an error."""

    code: str
    output: str = ""

    def __str__(self) -> str:
        first, *rest = self.code.split("\n")
        lines = [f"{PROMPT} {first}", *(f"{MORE} {line}" for line in rest)]
        return "\n".join([*lines, self.output] if self.output else lines)

    @property
    def waits(self) -> bool:
        """Return whether it waits for the next thing that somebody wants."""
        return self.code.rpartition("\n")[2].strip() == WAIT

    @property
    def heard(self) -> str | None:
        """Return what a person said here, where that is its result; else None."""
        if not self.output or not _HEARS.fullmatch(self.code.rpartition("\n")[2].strip()):
            return None
        try:
            said = ast.literal_eval(self.output.rpartition("\n")[2])
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None
        return said if isinstance(said, str) else None


def shown(printed: str, result: str) -> str:
    """Return the lines below a statement. What a statement prints cannot pass for a prompt or for the end of the console."""
    return "\n".join(filter(None, [_FAKED.sub(" ", printed.rstrip("\n")), result]))


def written(entries: list[Entry]) -> str:
    """Return a transcript as the console shows it."""
    return "\n".join(map(str, entries))


def read(text: str) -> list[Entry]:
    """Return the entries of a transcript. Lines above its first statement are left out."""
    return [Entry("\n".join(code), "\n".join(output)) for code, output in _groups(text)]


def _groups(text: str) -> Iterator[tuple[list[str], list[str]]]:
    code: list[str] = []
    output: list[str] = []
    for line in text.split("\n"):
        if line.startswith(PROMPT):
            if code:
                yield code, output
            code, output = [line.removeprefix(PROMPT).removeprefix(" ")], []
        elif line.startswith(MORE) and code and not output:
            code.append(line.removeprefix(MORE).removeprefix(" "))
        elif code:
            output.append(line)
    if code:
        yield code, output


def instructions(entries: list[Entry]) -> list[str]:
    """Return what people said, the oldest first."""
    return [entry.heard for entry in entries if entry.heard is not None]


def newest(entries: list[Entry], characters: int) -> list[Entry]:
    """Return the newest whole interactions of a transcript, each from where a person was waited for, in about so many
    characters; the last one always, however long it is."""
    begins = [i for i, entry in enumerate(entries) if entry.waits]
    for begin in begins:
        if len(written(entries[begin:])) <= characters:
            return entries[begin:]
    return entries[begins[-1] :] if begins else list(entries)
