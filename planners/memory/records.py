# SPDX-License-Identifier: Apache-2.0
"""Define the memory's content: typed records of four tiers (TypeGo 9), each with its provenance, time, place and visibility."""

import errno
import json
import math
import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

from skill_kernel.codes import MemoryCode
from skill_kernel.config.sections import shown


class StoreError(RuntimeError):
    """Report that the memory cannot do what it was asked; the message says why and what to do."""

    def __init__(self, message: str, code: MemoryCode = MemoryCode.STORE_UNAVAILABLE) -> None:
        super().__init__(message)
        self.code = code


_FULL = ("disk is full", "disk full", "file too large")
_CORRUPT = ("malformed", "not a database", "corrupt", "no such table", "no such column", "file is encrypted")
_FULL_ERRNO = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def named(error: Exception, path: Path) -> StoreError:
    """Return the error by its name. What SQLite calls an I/O error while writing is nearly always a full or vanished disk."""
    if isinstance(error, StoreError):
        return error
    if not isinstance(error, (sqlite3.Error, OSError)):
        return StoreError(f"{path} cannot be used ({type(error).__name__}: {error}); this is a fault of the memory, report it")
    text = str(error)
    low = text.lower()
    name = str(getattr(error, "sqlite_errorname", ""))  # from Python 3.11 on
    if getattr(error, "errno", None) in _FULL_ERRNO or any(t in low for t in _FULL) or name == "SQLITE_IOERR_WRITE":
        mend = "free space on its disk, or forget or move old records: what is new waits until then, as far as the queue goes"
        return StoreError(f"no room to write to {path} ({text}); {mend}", MemoryCode.STORE_FULL)
    if any(t in low for t in _CORRUPT) or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        mend = "move it away, start anew, and import the last export"
        return StoreError(f"{path} is damaged or no memory file ({text}); {mend}", MemoryCode.STORE_CORRUPT)
    if "interrupted" in low:
        late = "the query took longer than its deadline; ask for a shorter time or fewer records"
        return StoreError(late, MemoryCode.QUERY_TIMEOUT)
    return StoreError(f"{path} cannot be used ({text}); check that the folder exists, may be written and is not locked")


MAX_TEXT = 20_000
"""Longest text of a record, in characters."""
MAX_DATA = 262_144
"""Longest data of a record, in characters of its JSON."""

MAX_TIME_S = 4_102_444_800.0
"""The year 2100: later times are no times, and no calendar holds some of them."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Tier(IntEnum):
    """Distance of a record from the sensors; higher tiers are made of lower ones by consolidation."""

    M0 = 0
    """Raw structured observations."""
    M1 = 1
    """Sentences: what was seen, heard, done."""
    M2 = 2
    """Summaries of episodes: of a task, of an hour."""
    M3 = 3
    """Lasting knowledge: habits, usual places, entities and their relations."""


class Kind(str, Enum):
    """Name the kinds that this project writes. A record may have any other name of small letters, digits and underscores."""

    OBSERVATION = "observation"
    HEARD = "heard"
    CALL = "call"
    OUTCOME = "outcome"
    EVENT = "event"
    SIGHTING = "sighting"
    VISIT = "visit"
    EPISODE = "episode"
    DIGEST = "digest"
    HABIT = "habit"
    ENTITY = "entity"
    RELATION = "relation"
    NOTE = "note"


class Visibility(IntEnum):
    """Circle of those who may read a record."""

    PROCESS = 0
    """Only the process that it comes from."""
    ROBOT = 1
    """Every process of its robot."""
    SHARED = 2
    """Every robot of the fleet."""


@dataclass(frozen=True)
class Provenance:
    """Origin of a record: `source` is the topic, node or program; `sender` and `door` tell who said it and how."""

    robot: str = ""
    source: str = ""
    process: str = ""
    sender: str = ""
    door: str = ""


SOURCE = "consolidation"
"""Provenance of what the memory made itself."""


@dataclass(frozen=True)
class Spot:
    """A place in the map frame [m], the name of its room, or both."""

    x: float | None = None
    y: float | None = None
    room: str = ""


NOWHERE = Spot()


@dataclass(frozen=True)
class Record:
    """Hold one thing remembered.

    `time_s` is when it was last so, `begun_s` since when (seconds of the robot's clock since 1970); `text` is what full
    text and embeddings search, `data` what programs read (JSON). A record with a `key` replaces the one with the same key
    and owner, unless it is older. `parents` are the ids of the records it was made of. `id` is 0 until it is stored,
    `revoked_s` 0 unless it was forgotten.

    Raises ValueError for what cannot be stored.
    """

    tier: Tier
    kind: str
    time_s: float
    text: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance = Provenance()
    spot: Spot = NOWHERE
    visibility: Visibility = Visibility.SHARED
    begun_s: float | None = None
    key: str = ""
    parents: tuple[int, ...] = ()
    id: int = 0
    revoked_s: float = 0.0

    def __post_init__(self) -> None:
        kind = self.kind.value if isinstance(self.kind, Kind) else self.kind
        object.__setattr__(self, "kind", kind)
        if not _NAME.fullmatch(kind):
            raise ValueError(f"kind {shown(kind)!r} must be small letters, digits and underscores, at most 40")
        if len(self.text) > MAX_TEXT:
            raise ValueError(f"the text of a record has {len(self.text)} characters, more than {MAX_TEXT}; shorten it")
        if not 0.0 <= self.start_s <= self.time_s <= MAX_TIME_S:
            raise ValueError(f"a record's times rise from 1970 to 2100 [s], not from {self.start_s} to {self.time_s}")
        at = (self.spot.x, self.spot.y)
        if at != (None, None) and not all(value is not None and math.isfinite(value) for value in at):
            raise ValueError(f"a place is two finite numbers, or none, not {at}")

    @property
    def start_s(self) -> float:
        """Return the time since which it was so."""
        return self.time_s if self.begun_s is None else self.begun_s

    @property
    def scope(self) -> str:
        """Return the owner of the key: two robots may each have a private record of one key."""
        owner = self.provenance
        if self.visibility is Visibility.SHARED:
            return ""
        return owner.robot if self.visibility is Visibility.ROBOT else f"{owner.robot}/{owner.process}"


@dataclass(frozen=True)
class Viewer:
    """Reader of records. A record that is private to another robot or process is not shown to it."""

    robot: str = ""
    process: str = ""


def narrowest(records: Sequence[Record]) -> Visibility:
    """Return who may see what these records were made into: nobody who may not see all of them."""
    return min((r.visibility for r in records), default=Visibility.SHARED)


def clean(text: str) -> str:
    """Return text that SQLite and ROS can hold: no NUL and no lone surrogate."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def encoded(data: Mapping[str, Any]) -> str:
    """Return data as it is stored. Raises ValueError for what JSON cannot hold."""
    try:
        text = clean(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))) if data else "{}"
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the data of a record must be JSON: {error}") from error
    if len(text) > MAX_DATA:
        raise ValueError(f"the data of a record has {len(text)} characters of JSON, more than {MAX_DATA}; shorten it")
    return text
