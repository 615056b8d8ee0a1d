# SPDX-License-Identifier: Apache-2.0
"""Sentence embeddings: the model behind one protocol, loaded late, and the work of giving each sentence its vector."""

import json
import os
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.memory import schema
from planners.memory.answers import Answer
from planners.memory.query import LIMITED, Query, conditions, index_of
from planners.memory.records import Tier
from planners.memory.store import Store
from skill_kernel.config.sections import shown


class VectorIndex:
    """Hold vectors of length 1 by id, the `limit` newest of them. From any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._ids = np.zeros(limit, np.int64)
        self._matrix = np.zeros((0, 0), np.float32)
        self._at: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._at)

    def add(self, record_id: int, vector: NDArray[np.float32]) -> None:
        """Add or replace one vector, where there is no room in the place of the oldest; all have as many components."""
        with self._lock:
            if not self._at:
                self._matrix = np.zeros((self.limit, vector.shape[0]), np.float32)  # the system gives room as it is used
            at = self._at.get(record_id, len(self._at))
            if at == self.limit:
                at = int(np.argmin(self._ids))
                oldest = int(self._ids[at])
                if record_id < oldest:
                    return
                del self._at[oldest]
            self._at[record_id] = at
            self._ids[at], self._matrix[at] = record_id, vector

    def nearest(self, vector: NDArray[np.float32], count: int, among: Sequence[int] | None = None) -> list[tuple[int, float]]:
        """Return ids and cosines of the nearest vectors, best first; with `among`, of those ids only."""
        with self._lock:
            chosen = slice(len(self._at)) if among is None else [self._at[i] for i in among if i in self._at]
            ids, scores = self._ids[chosen], self._matrix[chosen] @ vector if self._at else np.zeros(0, np.float32)
            best = np.argpartition(-scores, min(count, len(scores)) - 1)[:count] if len(scores) else np.zeros(0, np.intp)
            best = best[np.argsort(-scores[best], kind="stable")]
            return [(int(ids[i]), float(scores[i])) for i in best]


BATCH = 64
SETTLE_S = 30.0
"""A sentence that grew so lately is not embedded yet: it will grow again."""
_MODEL = "embedding_model"
LOADING = "the sentence model is still being loaded"


class EmbeddingError(RuntimeError):
    """Report that there are no sentence embeddings; the message says why and what to do."""


class Embedder:
    """A model of sentence-transformers (the extra `memory`), by its name or the folder it lies in. It maps sentences to vectors
    of length 1, near in meaning being near in angle. Raises EmbeddingError."""

    def __init__(self, model: str, *, threads: int = 1) -> None:
        self._given, self._threads = model, threads
        self._model: Any = None
        self.name = os.path.basename(model.rstrip("/"))
        """Name of the model; vectors of another one are made anew."""

    def load(self) -> None:
        """Do what takes long."""
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
            why = shown(error, 300)
            raise EmbeddingError(
                f"the sentence model '{self._given}' cannot be loaded ({why}); give the folder it lies in, or a name while "
                "there is a network"
            ) from error

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text, once it is loaded."""
        found = self._model.encode(list(texts), batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)


CANDIDATES = 100
FEW = 2000
"""Among fewer records than this each is compared, among more the nearest of all are looked through."""
LEAST_COSINE = 0.2
"""With all-MiniLM-L6-v2 what answers a question has 0.24 and more, what does not mostly less than 0.2 (test/extras)."""
_RANK = 60.0
"""Constant of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009)."""


class Embeddings:
    """Load the model on the background thread that calls `step`, then embed what is new, and search."""

    def __init__(self, store: Store, embedder: Embedder | None, *, wall: Callable[[], float], limit: int = 100_000) -> None:
        self._store, self._embedder, self._wall = store, embedder, wall
        self._index = VectorIndex(limit)
        self._lock = threading.Lock()
        self._missing = LOADING if embedder is not None else "no sentence model is configured"

    @property
    def count(self) -> int:
        """Return the number of sentences that can be searched by meaning."""
        return len(self._index)

    @property
    def note(self) -> str:
        """Return why answers are found without them, in one sentence, "" when they are not."""
        if self._missing:
            return f"{self._missing}: found by full text alone"
        full = self.count == self._index.limit
        return f"only the newest {self.count} sentences are found by meaning, older ones by full text" if full else ""

    def step(self) -> bool:
        """Load the model, or embed the next sentences; false when there is nothing to do. Raises StoreError."""
        if self._embedder is None or self._missing not in ("", LOADING):
            return False
        try:
            if not self._missing:
                return self._embed(self._embedder)
            self._embedder.load()
            self._take_over(self._embedder.name)
            self._missing = ""
            return True
        except EmbeddingError as error:
            self._missing = str(error)
            return False

    def _take_over(self, name: str) -> None:
        """Return the vectors that are there, or, when they are another model's, begin anew."""
        with self._store.reading(60.0) as file:
            if schema.meta(file, _MODEL) == name:
                newest = file.execute("SELECT id, value FROM vector ORDER BY id DESC LIMIT ?", (self._index.limit,))
                for record_id, value in newest:
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
        vectors = embedder.encode([text[:2000] for _, text in waiting])

        def write(file: sqlite3.Connection) -> None:
            for (record_id, text), vector in zip(waiting, vectors, strict=True):
                # Only if it is still what was embedded; else its turn comes again.
                if text and file.execute("SELECT 1 FROM record WHERE id = ? AND text = ?", (record_id, text)).fetchone():
                    value = vector.astype(np.float16).tobytes()
                    file.execute("INSERT OR REPLACE INTO vector VALUES (?, ?)", (record_id, value))
                elif text:
                    continue
                file.execute("DELETE FROM unembedded WHERE id = ?", (record_id,))

        self._store.do(write).result()
        for (record_id, text), vector in zip(waiting, vectors, strict=True):
            if text:  # one that has changed since has no vector on disk, so it is not found until its turn comes again
                self._index.add(record_id, vector)
        return True

    def retrieve(self, query: Query) -> Answer:
        """Return the records that fit a query, best first: by the words and the meaning of its text; without one the newest.

        Raises StoreError.
        """
        if not query.text:
            return Answer("", tuple(self._store.find(query)))
        wide = replace(query, tiers=query.tiers or (Tier.M1, Tier.M2, Tier.M3), limit=CANDIDATES)
        found, complete = self._store.search(wide)
        scores: defaultdict[int, float] = defaultdict(float)
        for ranked in ([r.id for r in found], self._by_meaning(wide)):
            for n, record_id in enumerate(ranked):
                scores[record_id] += 1.0 / (_RANK + n)
        best = sorted(self._store.get(list(scores)), key=lambda r: (-scores[r.id], -r.time_s, -r.id))[: query.limit]
        return Answer("", tuple(best), note="; ".join(filter(None, [self.note, "" if complete else LIMITED])))

    def _by_meaning(self, query: Query) -> list[int]:
        if self._embedder is None or self._missing or not self.count:
            return []
        with self._lock:
            (vector,) = self._embedder.encode([query.text])
        where, values = conditions(query)
        with self._store.reading() as file:
            fits = f"SELECT id FROM record INDEXED BY {index_of(query)} WHERE {where} LIMIT {FEW}"
            few = [i for (i,) in file.execute(fits, values)]
            near = self._index.nearest(vector, 20 * query.limit, few if len(few) < FEW else None)
            # What has changed since it was embedded has no vector on disk until its turn comes again.
            known = f"SELECT id FROM record JOIN vector USING (id) WHERE id IN (SELECT value FROM json_each(?)) AND {where}"
            valid = {i for (i,) in file.execute(known, (json.dumps([i for i, _ in near]), *values))}
        return [i for i, cosine in near if cosine >= LEAST_COSINE and i in valid][: query.limit]
