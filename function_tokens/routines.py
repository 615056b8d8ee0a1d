# SPDX-License-Identifier: Apache-2.0
"""Keep routines on disk: named sequences of function tokens that a robot was taught (GhostShell 4, semantics section 3)."""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from function_tokens.markup import attribute, escape
from function_tokens.parsing.tokens import FunctionToken, TokenKind
from skill_kernel.config.sections import shown
from skill_kernel.config.yaml_text import replace_file
from skill_kernel.observation.records import LATEST_S

MAX_NAME = 64
MAX_DESCRIPTION = 500
MAX_SOURCE = 100_000
MAX_ROUTINES = 500
MAX_FILE = 64_000_000
"""Bytes of the file that keeps them."""

_NAME = re.compile(r"\w[\w .\-]*")
_TAG = re.compile(r"[^\W\d][\w:.\-]*")
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class RoutineError(ValueError):
    """Report that a routine cannot be kept: what is wrong with its name, description or source, or with the file."""


@dataclass(frozen=True)
class Routine:
    """Hold a named sequence. `source` is canonical function-token text, `created` seconds since the epoch. One that a person
    revoked, `revoked_by`, is kept and not performed."""

    name: str
    description: str
    source: str
    created: float
    revoked_by: str = ""

    @classmethod
    def of(cls, name: str, description: str, source: str, created: float, revoked_by: str = "") -> Routine:
        """Return the routine in its one spelling. Raises RoutineError when one of the texts cannot be kept."""
        about = " ".join(description.split())
        if not source.strip():
            raise RoutineError("the routine is empty; put the sequence to keep between its tags")
        for what, text, limit in (("description", about, MAX_DESCRIPTION), ("routine", source, MAX_SOURCE)):
            if len(text) > limit:
                raise RoutineError(f"the {what} has {len(text)} characters; {limit} are allowed")
        if not 0.0 <= float(created) <= LATEST_S:
            raise RoutineError(f"it was created at {shown(created)}; that is no time")
        return cls(check_name(name), _characters(about), _characters(source), float(created), shown(revoked_by, MAX_NAME))

    @property
    def refusal(self) -> str:
        """Return why it is not performed and cannot be replaced, "" for one that stands."""
        return f"routine '{self.name}' was revoked by {self.revoked_by}; a person has to approve it" if self.revoked_by else ""


class RoutineStore:
    """Keep the routines of one robot in one JSON file that is replaced as a whole, so that a crash leaves the old or the
    new one.

    A file that cannot be used is left as it is: `load_error` then holds the RoutineError to report, and nothing is saved until
    it is mended or moved away. A file changed by another process is read again. Safe to use from several threads.
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], float]) -> None:
        self._path = Path(path)
        self._clock = clock
        self._lock = threading.RLock()
        self._routines: dict[str, Routine] = {}
        self._seen: tuple[int, int, int] | None = None
        self.load_error: RoutineError | None = None
        self._refresh()

    def save(self, name: str, description: str, source: str) -> Routine:
        """Keep a routine, replacing one of that name as a whole. Raises RoutineError and leaves the store as it was."""
        routine = Routine.of(name, description, source, self._clock())
        with self._lock:
            self._refresh()
            if (before := self._routines.get(routine.name)) is not None and before.refusal:
                raise RoutineError(before.refusal)
            if routine.name not in self._routines and len(self._routines) >= MAX_ROUTINES:
                raise RoutineError(f"there are {MAX_ROUTINES} routines already; replace one, or remove one from the file")
            self._write({**self._routines, routine.name: routine})
        return routine

    def approve(self, name: str) -> None:
        """Let a routine be performed again. Raises RoutineError where there is none."""
        self._mark(name, "")

    def revoke(self, name: str, person: str) -> None:
        """Let a routine be performed no more. Raises RoutineError where there is none."""
        self._mark(name, person)

    def _mark(self, name: str, revoked_by: str) -> None:
        with self._lock:
            self._refresh()
            if (before := self._routines.get(_normal(name))) is None:
                raise RoutineError(f"there is no routine '{shown(name)}'")
            self._write({**self._routines, before.name: replace(before, revoked_by=shown(revoked_by, MAX_NAME))})

    def get(self, name: str) -> Routine | None:
        """Return the routine of that name, also one that was revoked, or None."""
        with self._lock:
            self._refresh()
            return self._routines.get(_normal(name))

    def list(self, *, revoked: bool = False) -> tuple[Routine, ...]:
        """Return the routines that may be performed, or also those that were `revoked`, sorted by name."""
        with self._lock:
            self._refresh()
            kept = (self._routines[name] for name in sorted(self._routines))
            return tuple(routine for routine in kept if revoked or not routine.refusal)

    def _write(self, routines: dict[str, Routine]) -> None:
        if self.load_error is not None:
            raise self.load_error
        document = {"version": 1, "routines": [asdict(routines[name]) for name in sorted(routines)]}
        try:
            replace_file(self._path, json.dumps(document, ensure_ascii=False, indent=1))
        except OSError as error:
            raise RoutineError(f"routines cannot be written to {self._path} ({error})") from error
        self._routines = routines
        self._seen = self._signature()

    def _refresh(self) -> None:
        signature = self._signature()
        if signature == self._seen:
            return
        self._seen, self.load_error = signature, None
        try:
            self._routines = _read(self._path) if signature is not None else {}
        except (AttributeError, KeyError, OSError, OverflowError, RecursionError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {shown(error, 200)}"
            self.load_error = RoutineError(f"routine file {self._path} cannot be used ({why}); mend it or move it away")

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            state = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError:
            return (0, 0, 0)
        return (state.st_ctime_ns, state.st_size, state.st_ino)


def check_name(name: str) -> str:
    """Return the routine's name in its one spelling.

    Raises RoutineError unless it is 1 to 64 letters, digits, ' ', '.', '-', '_'.
    """
    normal = _normal(name)
    if not 0 < len(normal) <= MAX_NAME or not _NAME.fullmatch(normal):
        raise RoutineError(
            f"{shown(name)!r} is no name for a routine; "
            f"use 1 to {MAX_NAME} letters, digits, spaces, '.', '-' or '_', a letter first"
        )
    return normal


def to_source(tokens: Iterable[FunctionToken]) -> str:
    """Return the canonical XML text of a balanced sequence of tokens; parsing it gives the same tokens, adjacent text joined.

    Raises RoutineError when the tokens do not nest or a name or character cannot stand in XML.
    """
    parts: list[str] = []
    opened: list[str] = []
    for token in tokens:
        if token.kind is TokenKind.RF and (not opened or opened.pop() != token.name):
            raise RoutineError(f"</{token.name}> closes nothing here; end every element inside the one it began in")
        parts.append(token_source(token))
        if token.kind is TokenKind.AF:
            opened.append(token.name)
    if opened:
        raise RoutineError(f"<{opened[-1]}> is not closed; end it with </{opened[-1]}>")
    return "".join(parts)


def token_source(token: FunctionToken) -> str:
    """Return the canonical XML text of one token. Raises RoutineError for a name or character that cannot stand in XML."""
    if token.kind in (TokenKind.CHAR, TokenKind.REF):
        return escape(_characters(token.text)).replace("\r", "&#13;")
    if token.kind is TokenKind.RF:
        return f"</{token.name}>"
    if not _TAG.fullmatch(token.name):
        raise RoutineError(f"{shown(token.name)!r} cannot be the name of a tag")
    attributes = "".join(f" {_attribute(name, value)}" for name, value in token.attrs.items())
    return f"<{token.name}{attributes}{'/' if token.kind is TokenKind.SCF else ''}>"


def _attribute(name: str, value: str) -> str:
    if not _TAG.fullmatch(name):
        raise RoutineError(f"{shown(name)!r} cannot be the name of an attribute")
    return attribute(name, _characters(value))


def _characters(text: str) -> str:
    wrong = _NOT_XML.search(text)
    if wrong is not None:
        raise RoutineError(f"character U+{ord(wrong.group()):04X} cannot stand in a routine; leave it out")
    return text


def _normal(name: str) -> str:
    return unicodedata.normalize("NFC", name).strip()


def _read(path: Path) -> dict[str, Routine]:
    """Return the routines of a file. Raises all that Python raises for one that holds anything else."""
    with path.open("rb") as file:
        data = file.read(MAX_FILE + 1)
    document = json.loads(data.decode("utf-8"))
    if len(data) > MAX_FILE or document["version"] != 1 or len(document["routines"]) > MAX_ROUTINES:
        raise ValueError(f"it is no list of version 1, of at most {MAX_ROUTINES} routines and {MAX_FILE} bytes")
    return {routine.name: routine for routine in (Routine.of(**entry) for entry in document["routines"])}
