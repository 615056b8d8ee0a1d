# SPDX-License-Identifier: Apache-2.0
"""Sentence embeddings: the model behind one protocol, loaded late, and the work of giving each sentence its vector."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from planners.memory import schema
from planners.memory.query import Query, conditions, few_ids
from planners.memory.records import Record, Tier
from planners.memory.store import Store


class VectorIndex:
    """Vectors of length 1 by id, at most `limit` of them. From any thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._ids = np.zeros(0, np.int64)
        self._matrix = np.zeros((0, 0), np.float32)
        self._at: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._at)

    def add(self, record_id: int, vector: NDArray[np.float32]) -> None:
        """Add or replace one vector; all have the same number of components."""
        with self._lock:
            at = self._at.get(record_id)
            if at is None:
                at = len(self._at)
                if at >= len(self._ids):
                    room = max(256, 2 * at)
                    grown = np.zeros((room, vector.shape[0]), np.float32)
                    grown[:at] = self._matrix[:at] if at else 0.0
                    self._ids, self._matrix = np.concatenate([self._ids, np.zeros(room - len(self._ids), np.int64)]), grown
                self._at[record_id] = at
                self._ids[at] = record_id
            self._matrix[at] = vector

    def remove(self, ids: Sequence[int]) -> None:
        """Take vectors out; those that are not there are no matter."""
        with self._lock:
            for record_id in ids:
                at = self._at.pop(record_id, None)
                if at is None:
                    continue
                last = len(self._at)
                if at != last:
                    self._ids[at], self._matrix[at] = self._ids[last], self._matrix[last]
                    self._at[int(self._ids[at])] = at

    def overflow(self) -> list[int]:
        """Take out the oldest vectors beyond the limit, some more at once than need be, and tell which."""
        if len(self) <= self._limit:
            return []
        oldest = sorted(self._at)[: len(self) - self._limit + self._limit // 50]
        self.remove(oldest)
        return oldest

    def nearest(self, vector: NDArray[np.float32], count: int, among: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """Ids and cosines of the nearest vectors, best first; with `among`, of those ids only."""
        with self._lock:
            size = len(self._at)
            if not size:
                return []
            if among is None:
                ids, matrix = self._ids[:size], self._matrix[:size]
            else:
                chosen = [self._at[i] for i in among if i in self._at]
                ids, matrix = self._ids[chosen], self._matrix[chosen]
            scores = matrix @ vector
            best = np.argpartition(-scores, min(count, len(scores)) - 1)[:count] if len(scores) else np.zeros(0, np.intp)
            best = best[np.argsort(-scores[best], kind="stable")]
            return [(int(ids[i]), float(scores[i])) for i in best]


Vectors = NDArray[np.float32]

BATCH = 64
SETTLE_S = 30.0
"""A sentence that grew so lately is not embedded yet: it will grow again."""
_MODEL = "embedding_model"


class Embedder(Protocol):
    """A model that maps sentences to vectors of length 1, near in meaning being near in angle."""

    @property
    def name(self) -> str:
        """Which model; vectors of another one are made anew."""

    def load(self) -> None:
        """Do what takes long. Raises EmbeddingError."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One row for each text. Raises EmbeddingError."""


class EmbeddingError(RuntimeError):
    """There are no sentence embeddings; the message says why and what to do."""


class SentenceTransformerEmbedder:
    """A model of sentence-transformers (the extra `memory`), by its name or the folder it lies in."""

    def __init__(self, model: str, *, threads: int = 1) -> None:
        self._given, self._threads = model, threads
        self._model: Any = None

    @property
    def name(self) -> str:
        return os.path.basename(self._given.rstrip("/"))

    def load(self) -> None:
        try:
            torch, library = import_module("torch"), import_module("sentence_transformers")
        except ImportError as error:
            raise EmbeddingError(
                f"sentence-transformers is not installed ({error}); install the extra: pip install -r requirements/memory.txt"
            ) from error
        try:
            # A fleet's memory must not take the cores of what moves the robots.
            torch.set_num_threads(self._threads)
            self._model = library.SentenceTransformer(self._given, device="cpu")
        except Exception as error:  # the library raises what its downloader and torch raise
            why = " ".join(str(error).split())[:300]
            raise EmbeddingError(
                f"the sentence model '{self._given}' cannot be loaded ({why}); give the folder it lies in, or a name while "
                "there is a network"
            ) from error

    def encode(self, texts: Sequence[str]) -> Vectors:
        if self._model is None:
            raise EmbeddingError(f"the sentence model '{self._given}' is not loaded yet")
        found = self._model.encode(list(texts), batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)


class State(Enum):
    """How far the embeddings are."""

    OFF = "off"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class Embeddings:
    """Loads the model on the background thread that calls `step`, then embeds what is new, and searches.

    `note` says in one sentence why answers are found without them, "" when they are not.
    """

    def __init__(self, store: Store, embedder: Embedder | None, *, wall: Callable[[], float], limit: int = 100_000) -> None:
        self._store, self._embedder, self._wall = store, embedder, wall
        self._index = VectorIndex(limit)
        self._lock = threading.Lock()
        self.state = State.OFF if embedder is None else State.LOADING
        self.note = (
            "no sentence model is configured: found by full text alone"
            if embedder is None
            else ("the sentence model is still being loaded: found by full text alone")
        )

    @property
    def count(self) -> int:
        """Sentences that can be searched by meaning."""
        return len(self._index)

    def search(self, text: str, count: int, among: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """Ids and cosines of the sentences nearest in meaning, best first; none while there is no model."""
        if self._embedder is None or self.state is not State.READY:
            return []
        with self._lock:
            (vector,) = self._embedder.encode([text])
        return self._index.nearest(vector, count, among)

    def step(self) -> bool:
        """Load the model, or embed the next sentences; false when there is nothing to do. Raises StoreError."""
        if self._embedder is None or self.state is State.FAILED:
            return False
        try:
            if self.state is State.LOADING:
                self._embedder.load()
                self._take_over(self._embedder.name)
                self.state, self.note = State.READY, ""
                return True
            return self._embed(self._embedder)
        except EmbeddingError as error:
            self.state, self.note = State.FAILED, f"{error}: found by full text alone"
            return False

    def _take_over(self, name: str) -> None:
        """The vectors that are there, or, when they are another model's, begin anew."""
        with self._store.reading(60.0) as file:
            if schema.meta(file, _MODEL) == name:
                for record_id, value in file.execute("SELECT id, value FROM vector ORDER BY id"):
                    self._index.add(record_id, np.frombuffer(value, dtype=np.float16).astype(np.float32))
                return

        def anew(file: sqlite3.Connection) -> None:
            file.execute("DELETE FROM vector")
            file.execute("INSERT OR IGNORE INTO unembedded SELECT id FROM record WHERE tier > 0 AND text <> '' AND revoked = 0")
            schema.set_meta(file, _MODEL, name)

        self._store.do(anew).result(60.0)

    def _embed(self, embedder: Embedder) -> bool:
        with self._store.reading() as file:
            waiting = file.execute(
                "SELECT u.id, coalesce(r.text, '') FROM unembedded u LEFT JOIN record r ON r.id = u.id "
                "WHERE r.time IS NULL OR r.revoked > 0 OR r.time <= ? ORDER BY u.id DESC LIMIT ?",
                (self._wall() - SETTLE_S, BATCH),
            ).fetchall()
        if not waiting:
            return False
        sentences = [(i, text) for i, text in waiting if text]
        vectors = embedder.encode([text[:2000] for _, text in sentences]) if sentences else np.zeros((0, 1), np.float32)

        def write(file: sqlite3.Connection) -> list[int]:
            kept, done = [], [i for i, text in waiting if not text]
            for (record_id, text), vector in zip(sentences, vectors, strict=True):
                # Only if it is still what was embedded; else its turn comes again.
                if file.execute("SELECT 1 FROM record WHERE id = ? AND text = ?", (record_id, text)).fetchone():
                    value = vector.astype(np.float16).tobytes()
                    file.execute("INSERT OR REPLACE INTO vector VALUES (?, ?)", (record_id, value))
                    kept.append(record_id)
            file.executemany("DELETE FROM unembedded WHERE id = ?", [(i,) for i in (*done, *kept)])
            return kept

        kept = set(self._store.do(write).result())
        for (record_id, _), vector in zip(sentences, vectors, strict=True):
            if record_id in kept:
                self._index.add(record_id, vector)
        if dropped := self._index.overflow():
            self._store.do(lambda file: file.executemany("DELETE FROM vector WHERE id = ?", [(i,) for i in dropped])).result()
            self.note = f"only the newest {len(self._index)} sentences are found by meaning, older ones by full text"
        return True


CANDIDATES = 100
LEAST_COSINE = 0.2
"""With all-MiniLM-L6-v2 what answers a question has 0.24 and more, what does not mostly less than 0.2 (test/extras)."""
_RANK = 60.0
"""Constant of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009)."""


@dataclass(frozen=True)
class Passage:
    """A record that was found, how well it fits, and how it was found: `words`, `meaning` or both."""

    record: Record
    score: float
    by: tuple[str, ...]


@dataclass(frozen=True)
class Retrieved:
    """Passages, best first. `note` says how the search was limited, "" when it was not."""

    passages: list[Passage]
    note: str = ""


def retrieve(store: Store, embeddings: Embeddings, query: Query) -> Retrieved:
    """The passages for the query's text among the records that fit the rest of it. Raises StoreError."""
    tiers = query.tiers or (Tier.M1, Tier.M2, Tier.M3)
    wide = replace(query, tiers=tiers, limit=CANDIDATES)
    found, _, complete = store.search(wide)
    records = {r.id: r for r in found}
    ranks: dict[int, dict[str, int]] = {r.id: {"words": n} for n, r in enumerate(found)}
    for n, (record_id, _) in enumerate(_by_meaning(store, embeddings, wide)):
        ranks.setdefault(record_id, {})["meaning"] = n
    missing = [i for i in ranks if i not in records]
    records |= {r.id: r for r in store.get(missing)} if missing else {}
    scored = [
        Passage(records[i], sum(1.0 / (_RANK + n) for n in places.values()), tuple(sorted(places)))
        for i, places in ranks.items()
        if i in records
    ]
    scored.sort(key=lambda p: (-p.score, -p.record.time_s, -p.record.id))
    notes = [embeddings.note] if embeddings.note else []
    if not complete:
        notes.append("of the records with these frequent words only the newest were looked at")
    return Retrieved(scored[: query.limit], "; ".join(notes))


def _by_meaning(store: Store, embeddings: Embeddings, query: Query) -> list[tuple[int, float]]:
    if not embeddings.count:
        return []
    with store.reading() as file:
        chosen = few_ids(file, query)
        if chosen is not None:
            near = embeddings.search(query.text, query.limit, chosen)
        else:
            near = embeddings.search(query.text, 20 * query.limit)
            where, values = conditions(query)
            sql = f"SELECT id FROM record WHERE id IN ({', '.join('?' * len(near))}) AND {' AND '.join(where)}"
            fits = {i for (i,) in file.execute(sql, (*(i for i, _ in near), *values))}
            near = [(i, c) for i, c in near if i in fits]
        marks = ", ".join("?" * len(near))
        # What has changed since it was embedded has no vector on disk until its turn comes again.
        valid = {i for (i,) in file.execute(f"SELECT id FROM vector WHERE id IN ({marks})", [i for i, _ in near])}
    return [(i, c) for i, c in near if c >= LEAST_COSINE and i in valid][: query.limit]
