# SPDX-License-Identifier: Apache-2.0
"""Sentence embeddings: the model behind one protocol, loaded late, and the work of giving each sentence its vector."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from planners.memory import rows
from planners.memory.store import Store
from planners.memory.vectors import VectorIndex

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
            if rows.meta(file, _MODEL) == name:
                for record_id, value in file.execute("SELECT id, value FROM vector ORDER BY id"):
                    self._index.add(record_id, np.frombuffer(value, dtype=np.float16).astype(np.float32))
                return

        def anew(file: sqlite3.Connection) -> None:
            file.execute("DELETE FROM vector")
            file.execute("INSERT OR IGNORE INTO unembedded SELECT id FROM record WHERE tier > 0 AND text <> '' AND revoked = 0")
            rows.set_meta(file, _MODEL, name)

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
