# SPDX-License-Identifier: Apache-2.0
"""Exact search among vectors held in memory: one product with a matrix, then the largest."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


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
