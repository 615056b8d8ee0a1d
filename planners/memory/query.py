# SPDX-License-Identifier: Apache-2.0
"""Queries by time, place, kind, owner and words: each goes through one index from the newest on; rare words find, frequent
ones only rank, and nothing in a text is syntax."""

import json
import math
import re
import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from planners.memory.records import MAX_TEXT, MAX_TIME_S, Record, Tier, Viewer, Visibility
from planners.memory.schema import select
from planners.prompts.blocks import text_beside

MAX_LIMIT = 10_000
MAX_KINDS = 50
MAX_WORDS = 24
"""Of a longer text the first words count."""
RARE = 1000
"""A word in fewer records than this is looked up whole; of a more frequent one only the newest records."""
MANY = 20_000
"""Of the records that hold all the words so many are looked through, the newest."""
LIMITED = "of the records with these frequent words only the newest were looked at"

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
STOP_WORDS = frozenset(text_beside(__file__, "stop_words.txt").split())
"""Words that say nothing about what is looked for."""


@dataclass(frozen=True)
class Circle:
    """A place and what lies within `radius_m` of it, in the map frame [m]. Raises ValueError when it is none."""

    x: float
    y: float
    radius_m: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.x) and math.isfinite(self.y) and 0 < self.radius_m < 1e6):
            raise ValueError(f"a place is a finite x and y and a radius above 0 m, not {self}")


@dataclass(frozen=True)
class Query:
    """Hold the filters of a search; what is left out does not matter. Newest first.

    `text` is searched by its words, and ranked by them before time. `viewer` None sees everything. With `lasting` also what
    began before `until_s` and ended later lies in the time, else only what ended in it.
    """

    text: str = ""
    kinds: tuple[str, ...] = ()
    tiers: tuple[Tier, ...] = ()
    since_s: float | None = None
    until_s: float | None = None
    robot: str = ""
    sender: str = ""
    room: str = ""
    near: Circle | None = None
    viewer: Viewer | None = None
    limit: int = 20
    lasting: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"limit must be 1 to {MAX_LIMIT} records, not {self.limit}")
        if len(self.text) > MAX_TEXT:
            raise ValueError(f"the words to look for have {len(self.text)} characters; {MAX_TEXT} are allowed")
        if len(self.kinds) > MAX_KINDS:
            raise ValueError(f"{len(self.kinds)} kinds of records are asked for; {MAX_KINDS} are allowed")


def conditions(query: Query) -> tuple[str, list[Any]]:
    """Return the WHERE of a query without its text, and its values."""
    found = [f"{'time >= ? AND begun <= ?' if query.lasting else 'time BETWEEN ? AND ?'} AND revoked = 0"]
    until_s = MAX_TIME_S if query.until_s is None else query.until_s
    values: list[Any] = [min(max(t, 0.0), MAX_TIME_S) for t in (query.since_s or 0.0, until_s)]
    for name, chosen in (("kind", query.kinds), ("tier", tuple(map(int, query.tiers)))):
        if chosen:
            found.append(f"{name} IN ({', '.join('?' * len(chosen))})")
            values += chosen
    for name in ("robot", "sender", "room"):
        if value := getattr(query, name):
            found.append(f"{name} = ? AND {name} <> ''")  # indexes of what is not empty are used where it is said
            values.append(value)
    if (at := query.near) is not None:
        found.append("(x - ?) * (x - ?) + (y - ?) * (y - ?) <= ?")
        values += [at.x, at.x, at.y, at.y, at.radius_m**2]
    if (who := query.viewer) is not None:
        private = "robot = ? AND robot <> '' AND (visibility = ? OR (visibility = ? AND process = ? AND process <> ''))"
        found.append(f"(visibility = ? OR ({private}))")
        values += [int(Visibility.SHARED), who.robot, int(Visibility.ROBOT), int(Visibility.PROCESS), who.process]
    return " AND ".join(found), values


def index_of(query: Query) -> str:
    """Return the index to go through, newest first: of a room, kind or tier, or of all."""
    one = {"room": query.room, "kind": len(query.kinds) == 1, "tier": len(query.tiers) == 1}
    return f"record_{next((name for name, chosen in one.items() if chosen), 'time')}"


def find(file: sqlite3.Connection, query: Query, *, every: bool = False) -> tuple[list[Record], bool]:
    """Return the records that fit, newest first, and whether older ones cannot have been left out.

    With a text those with more and rarer words come first, or, with `every`, only those that hold all the words are found.
    """
    where, values = conditions(query)
    if not query.text:
        rest = f"record INDEXED BY {index_of(query)} WHERE {where} ORDER BY time DESC, id DESC LIMIT ?"
        return select(file, rest, (*values, query.limit)), True
    scores, complete = _scores(file, words_of(query.text), every)
    hits = "(SELECT CAST(key AS INTEGER) AS hit, value AS score FROM json_each(?)) JOIN record ON record.id = hit"
    rest = f"{hits} WHERE {where} ORDER BY score DESC, time DESC, record.id DESC LIMIT ?"
    return select(file, rest, (json.dumps(scores), *values, query.limit)), complete


def all_ids(file: sqlite3.Connection, query: Query) -> list[int]:
    """Return the ids of all records that fit and hold all words of the query's text, whatever its limit."""
    where, values = conditions(query)
    if query.text:
        where += " AND id IN (SELECT rowid FROM record_text WHERE record_text MATCH ?)"
        values.append(_match(words_of(query.text)))
    return [i for (i,) in file.execute(f"SELECT id FROM record WHERE {where} ORDER BY time DESC, id DESC", values)]


def words_of(text: str) -> list[str]:
    """Return the words of a text worth looking for, each once; when none is left, all of them."""
    all_words = list(dict.fromkeys(w.casefold().replace("’", "'") for w in _WORD.findall(text)))
    telling = [w for w in all_words if w not in STOP_WORDS]
    return (telling or all_words)[:MAX_WORDS]


def tells_of(text: str, question: str) -> bool:
    """Return whether a text holds more than half of the words of a question."""
    words, low = words_of(question), text.casefold()
    return 2 * sum(word in low for word in words) > len(words)


def _match(words: list[str], by: str = " AND ") -> str:
    """Return the words as FTS5 strings, in which nothing is an operator."""
    return by.join(f'"{word}"' for word in words)


def _scores(file: sqlite3.Connection, words: list[str], every: bool) -> tuple[dict[int, float], bool]:
    """Return the records with these words and how much each tells, and whether older ones cannot have been left out."""

    def newest(match: str, limit: int = RARE) -> list[int]:
        sql = "SELECT rowid FROM record_text WHERE record_text MATCH ? ORDER BY rowid DESC LIMIT ?"
        return [i for (i,) in file.execute(sql, (match, limit))]

    if every or not words:
        found = newest(_match(words), MANY) if words else []
        return dict.fromkeys(found, 0.0), len(found) < MANY
    holding = {w: newest(_match([w])) for w in words}
    weights = {w: math.log(2.0 + RARE / (1.0 + len(ids))) for w, ids in holding.items()}
    rare = [w for w in words if len(holding[w]) < RARE]
    frequent = [w for w in words if len(holding[w]) >= RARE]
    candidates = {i for w in rare for i in holding[w]}
    complete = bool(candidates) or not frequent
    if candidates:
        holding |= {w: newest(f"{_match([w])} AND ({_match(rare, ' OR ')})") for w in frequent}
    elif frequent:
        candidates = set(newest(_match(frequent)) or holding[frequent[0]])
    scores: defaultdict[int, float] = defaultdict(float)
    for word, ids in holding.items():
        for i in candidates.intersection(ids):
            scores[i] += weights[word]
    return scores, complete
