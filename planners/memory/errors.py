# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with the memory's file, each with a name and a code, and how SQLite's own errors are told apart."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from skill_kernel.codes import MemoryCode


class StoreError(RuntimeError):
    """The memory cannot do what it was asked; the message says why and what to do."""

    code = MemoryCode.STORE_UNAVAILABLE


class StoreFullError(StoreError):
    """The disk, or the quota of the file, is full."""

    code = MemoryCode.STORE_FULL


class StoreCorruptError(StoreError):
    """The file is no memory, is damaged, or has a format this program does not write."""

    code = MemoryCode.STORE_CORRUPT


class QueryTimeoutError(StoreError):
    """A query took longer than its deadline."""

    code = MemoryCode.QUERY_TIMEOUT


class RecordRefusedError(StoreError):
    """One record cannot be stored as it is; the others of its batch are."""

    code = MemoryCode.QUERY_INVALID


_FULL = ("disk is full", "disk full", "file too large")
_CORRUPT = ("malformed", "not a database", "corrupt", "no such table", "no such column", "file is encrypted")
_FULL_ERRNO = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def named(error: Exception, path: Path) -> StoreError:
    """The error by its name. What SQLite calls an I/O error while writing is nearly always a full or vanished disk."""
    if isinstance(error, StoreError):
        return error
    if not isinstance(error, (sqlite3.Error, OSError)):
        return StoreError(f"{path} cannot be used ({type(error).__name__}: {error}); this is a fault of the memory, report it")
    text = str(error)
    low = text.lower()
    name = str(getattr(error, "sqlite_errorname", ""))  # from Python 3.11 on
    if getattr(error, "errno", None) in _FULL_ERRNO or any(t in low for t in _FULL) or name == "SQLITE_IOERR_WRITE":
        return StoreFullError(
            f"no room to write to {path} ({text}); free space on its disk, or forget or move old records: what is new is "
            "kept waiting until then, as far as the queue goes"
        )
    if any(t in low for t in _CORRUPT) or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreCorruptError(
            f"{path} is damaged or no memory file ({text}); move it away, start anew, and import the last export"
        )
    if "interrupted" in low:
        return QueryTimeoutError("the query took longer than its deadline; ask for a shorter time or fewer records")
    return StoreError(f"{path} cannot be used ({text}); check that the folder exists, may be written and is not locked")


def environmental(error: sqlite3.Error) -> bool:
    """Whether the file or the disk is at fault, so that the same write may succeed later; else the record is."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(
        error, (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.NotSupportedError)
    )
