# SPDX-License-Identifier: Apache-2.0
"""Full text search (FTS5) whose time is bounded: rare words find, frequent ones only rank, and nothing in a query is
syntax."""

from __future__ import annotations

import math
import re
import sqlite3
from dataclasses import dataclass, replace
from typing import Any

from planners.memory.query import Query, conditions, run
from planners.memory.schema import COLUMNS

MAX_WORDS = 24
"""Of a longer text the first words count."""
RARE = 1000
"""A word in fewer records than this is looked up whole; of a more frequent one only the newest records."""

MANY = 20_000
"""Where none of those fits the rest of the query, so many are looked through."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
STOP_WORDS = frozenset(
    "a an and any are as at be been but by can could did do does for from had has have he her him his how i if in into is it "
    "its last me my near of on or our please robot she so some tell than that the their them then there these they this "
    "to us was we were what when where which who whom why will with would you your ever ago now know remember".split()
)
"""Words that say nothing about what is looked for."""


@dataclass(frozen=True)
class Found:
    """Rows of `COLUMNS` in order of rank. Not `complete`: older records with only frequent words may be missing."""

    rows: list[tuple[Any, ...]]
    scores: list[float]
    complete: bool = True


def words_of(text: str) -> list[str]:
    """The words of a text worth looking for, each once; when none is left, all of them."""
    all_words = list(dict.fromkeys(w.casefold().replace("’", "'") for w in _WORD.findall(text)))
    telling = [w for w in all_words if w not in STOP_WORDS]
    return (telling or all_words)[:MAX_WORDS]


def quoted_word(word: str) -> str:
    """The word as an FTS5 string, in which nothing is an operator."""
    return '"' + word.replace("\x00", " ").replace('"', '""') + '"'


def search(file: sqlite3.Connection, query: Query, newest_only: bool = False) -> Found:
    """Records with any word of the query's text: those with more and rarer words first, newer before older.

    `newest_only` orders by time alone, for records that hold all the words.
    """
    words = words_of(query.text)
    if not words:
        return Found([], [])
    newest = {w: _newest(file, quoted_word(w), RARE) for w in words}
    rare = [w for w in words if len(newest[w]) < RARE]
    frequent = [w for w in words if len(newest[w]) >= RARE]
    if newest_only and len(words) > 1:
        everything = _newest(file, " AND ".join(map(quoted_word, words)), RARE)
        return _among_all(file, query, everything)
    if newest_only:
        return _among_all(file, query, newest[words[0]])
    holding = {w: set(newest[w]) for w in words}
    candidates = set().union(*(holding[w] for w in rare))
    complete = bool(candidates) or not frequent
    if candidates and frequent:
        either = " OR ".join(map(quoted_word, rare))
        holding |= {w: set(_newest(file, f"{quoted_word(w)} AND ({either})", RARE)) for w in frequent}
    elif frequent:
        candidates = set(_newest(file, " AND ".join(map(quoted_word, frequent)), RARE)) or holding[frequent[0]]
    weights = {w: math.log(2.0 + RARE / (1.0 + len(newest[w]))) for w in words}
    scores = {c: sum(weights[w] for w in words if c in holding[w]) for c in candidates}
    return _fitting(file, query, scores, complete)


def _among_all(file: sqlite3.Connection, query: Query, newest: list[int]) -> Found:
    """Of the newest records that hold all the words those that fit; where none does, of many more of them."""
    found = _fitting(file, query, dict.fromkeys(newest, 1.0), len(newest) < RARE)
    if found.rows or found.complete:
        return found
    where, values = conditions(query)
    held = "SELECT rowid FROM record_text WHERE record_text MATCH ? ORDER BY rowid DESC LIMIT ?"
    match = " AND ".join(map(quoted_word, words_of(query.text)))
    fits = " AND ".join([f"id IN ({held})", *where])
    ids = [
        i
        for (i,) in file.execute(
            f"SELECT id FROM record WHERE {fits} ORDER BY id DESC LIMIT ?", (match, MANY, *values, query.limit)
        )
    ]
    (held_by,) = file.execute(f"SELECT count(*) FROM ({held})", (match, MANY)).fetchone()
    return _fitting(file, query, dict.fromkeys(ids, 1.0), held_by < MANY and len(ids) < query.limit)


def all_ids(file: sqlite3.Connection, query: Query) -> list[int]:
    """All records that fit and hold all words of the query's text, whatever its limit."""
    where, values = conditions(query)
    if query.text:
        words = words_of(query.text)
        if not words:
            return []
        where.append("id IN (SELECT rowid FROM record_text WHERE record_text MATCH ?)")
        values.append(" AND ".join(map(quoted_word, words)))
    sql = f"SELECT id FROM record WHERE {' AND '.join(where) or '1'} ORDER BY time DESC, id DESC"
    return [i for (i,) in file.execute(sql, values)]


def _newest(file: sqlite3.Connection, match: str, limit: int) -> list[int]:
    sql = "SELECT rowid FROM record_text WHERE record_text MATCH ? ORDER BY rowid DESC LIMIT ?"
    return [row[0] for row in file.execute(sql, (match, limit))]


def _fitting(file: sqlite3.Connection, query: Query, scores: dict[int, float], complete: bool) -> Found:
    """Those of the candidates that fit the rest of the query, by score and then by time."""
    where, values = conditions(query)
    ids = list(scores)
    found: list[tuple[float, float, int]] = []
    for begin in range(0, len(ids), 500):
        part = ids[begin : begin + 500]
        fits = " AND ".join([f"id IN ({', '.join('?' * len(part))})", *where])
        found += [(scores[i], t, i) for i, t in file.execute(f"SELECT id, time FROM record WHERE {fits}", (*part, *values))]
    found.sort(reverse=True)
    best = found[: query.limit]
    rows = {r[0]: r for r in by_id(file, [i for _, _, i in best])}
    return Found([rows[i] for _, _, i in best if i in rows], [s for s, _, i in best if i in rows], complete)


def by_id(file: sqlite3.Connection, ids: list[int]) -> list[tuple[Any, ...]]:
    """Rows by their ids, in no order."""
    found: list[tuple[Any, ...]] = []
    for begin in range(0, len(ids), 500):
        part = ids[begin : begin + 500]
        found += file.execute(f"SELECT {COLUMNS} FROM record WHERE id IN ({', '.join('?' * len(part))})", part)
    return found


def find(file: sqlite3.Connection, query: Query) -> Found:
    """The records of a query, with text or without."""
    if query.text:
        return search(file, query)
    rows = run(file, replace(query, text=""))
    return Found(rows, [0.0] * len(rows))
