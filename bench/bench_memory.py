# SPDX-License-Identifier: Apache-2.0
"""The memory's store: records inserted a second and queries by time, place, kind and text, each beside plain SQLite on the
same rows in the same run; search among embeddings apart.

`--records 1000000` is the size of the target; without it fewer are written, so that all benchmarks end in minutes.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import OUT, Table, Target, arguments, percentile, report
from planners.memory import Circle, Kind, Memory, Provenance, Query, Record, Spot, Store, Tier, Viewer
from planners.memory.embedding import VectorIndex

RECORDS, BATCH, TRIALS = 100_000, 100, 300
VECTORS, DIMENSIONS = 100_000, 384
BEGIN_S = 1.7e9
ROOMS = ("kitchen", "office", "lounge", "lobby", "hallway")
KINDS = ("observation",) * 6 + ("sighting", "sighting", "call", "heard")
WORDS = [f"word{n}" for n in range(20_000)]


class Records:
    """Records as robots make them: most raw, words as frequent as in language (Zipf), two per second."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def word(self) -> str:
        return WORDS[min(len(WORDS) - 1, int(self._random.paretovariate(0.7)))]

    def batches(self, count: int) -> Iterator[list[Record]]:
        for begin in range(0, count, BATCH):
            yield [self._record(begin + n) for n in range(min(BATCH, count - begin))]

    def _record(self, number: int) -> Record:
        choose, kind, room = self._random, self._random.choice(KINDS), self._random.choice(ROOMS)
        text = f"kalos saw a {self.word()} beside the {self.word()} in the {room} at step {number}"
        return Record(
            Tier.M0 if kind == "observation" else Tier.M1,
            kind,
            BEGIN_S + number / 2,
            text,
            {"n": number, "label": "ball"},
            Provenance(f"robot{number % 3}", "bench", f"p{number // 500}"),
            Spot(choose.uniform(-2, 12), choose.uniform(-4, 4), room),
        )


def insert(store: Store, count: int) -> float:
    """Seconds until all records are acknowledged; they are made in the meantime."""
    begun = time.perf_counter()
    ticket = None
    for batch in Records(1).batches(count):
        while store.state.queued > 15_000:
            time.sleep(0.001)
        ticket = store.put(*batch)
    assert ticket is not None
    ticket.result(60.0)
    return time.perf_counter() - begun


def insert_plainly(path: Path, count: int) -> float:
    """Insert the same records into one plain table without any index, a commit a batch."""
    file = sqlite3.connect(path)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = FULL")
    file.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, kind TEXT, time REAL, x REAL, y REAL, room TEXT, text TEXT)")
    begun = time.perf_counter()
    for batch in Records(1).batches(count):
        with file:
            file.executemany(
                "INSERT INTO record (kind, time, x, y, room, text) VALUES (?, ?, ?, ?, ?, ?)",
                [(r.kind, r.time_s, r.spot.x, r.spot.y, r.spot.room, r.text) for r in batch],
            )
    seconds = time.perf_counter() - begun
    file.execute("CREATE INDEX record_time ON record (time)")
    file.close()
    return seconds


def timed(ask: Callable[[], Any], trials: int = TRIALS) -> dict[str, float]:
    """Median and 95th percentile in milliseconds."""
    found = []
    for _ in range(trials):
        begun = time.perf_counter()
        ask()
        found.append(time.perf_counter() - begun)
    ms = [s * 1e3 for s in found]
    return {"median_ms": percentile(ms, 50), "p95_ms": percentile(ms, 95), "max_ms": max(ms)}


def queries(store: Store, count: int) -> dict[str, Callable[[], Any]]:
    """Return a query of each sort, its values at random."""
    rng, records = random.Random(2), Records(3)

    def then() -> float:
        return BEGIN_S + rng.random() * count / 2

    def near() -> Circle:
        return Circle(rng.uniform(-2, 12), rng.uniform(-4, 4), 1.5)

    def hour() -> Query:
        since = then()
        return Query(since_s=since, until_s=since + 3600)

    return {
        "time": lambda: store.find(hour()),
        "place": lambda: store.find(Query(near=near())),
        "room": lambda: store.find(Query(room=rng.choice(ROOMS))),
        "kind": lambda: store.find(Query(kinds=(rng.choice(KINDS),))),
        "text": lambda: store.find(Query(text=records.word())),
        "text, three words": lambda: store.find(Query(text=f"{records.word()} {records.word()} {rng.choice(ROOMS)}")),
        "kind, room, viewer": lambda: store.find(Query(kinds=("heard",), room=rng.choice(ROOMS), viewer=Viewer("robot1"))),
        "place, kind, before": lambda: store.find(Query(near=near(), kinds=("sighting",), until_s=then())),
    }


def plain_select(path: Path, count: int) -> Callable[[], Any]:
    """Twenty rows by an index, from the plain table."""
    file, rng = sqlite3.connect(path), random.Random(2)
    sql = "SELECT * FROM record WHERE time >= ? AND time <= ? ORDER BY time DESC LIMIT 20"

    def ask() -> Any:
        since = BEGIN_S + rng.random() * count / 2
        return file.execute(sql, (since, since + 3600)).fetchall()

    return ask


def while_consolidating(store: Store) -> dict[str, float]:
    """Time queries while consolidation works off the raw records behind them."""
    memory = Memory(store, wall=lambda: BEGIN_S, background=False)
    done = threading.Event()

    def work() -> None:
        while not done.is_set() and memory.consolidator.step():
            pass

    worker = threading.Thread(target=work)
    worker.start()
    found = timed(lambda: store.find(Query(kinds=(Kind.CALL.value,))), 200)
    done.set()
    worker.join(30.0)
    return found


def vectors(count: int) -> dict[str, float]:
    """Search among vectors, beside the bare product of matrix and vector."""
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(count, DIMENSIONS)).astype(np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    index = VectorIndex(count)
    for n, vector in enumerate(matrix):
        index.add(n + 1, vector)
    asked = matrix[rng.integers(0, count, 50)] + rng.normal(scale=0.01, size=(50, DIMENSIONS)).astype(np.float32)
    turn = iter(range(10**9))
    searched = timed(lambda: index.nearest(asked[next(turn) % 50], 100), 100)
    bare = timed(lambda: matrix @ asked[next(turn) % 50], 100)
    best = [index.nearest(v, 1)[0][0] - 1 for v in asked]
    right = sum(int(np.argmax(matrix @ v)) == b for v, b in zip(asked, best, strict=True))
    return {**searched, "bare_median_ms": bare["median_ms"], "right": right}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--records", type=int, default=RECORDS, help=f"records to write ({RECORDS}; the target is 1000000)")
    parser.add_argument("--vectors", type=int, default=VECTORS, help=f"vectors to search ({VECTORS})")
    options = parser.parse_args()
    count = options.records
    OUT.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=OUT))
    try:
        plain_s = insert_plainly(folder / "plain.sqlite3", count)
        store = Store(folder / "memory.sqlite3")
        ours_s = insert(store, count)
        size = (folder / "memory.sqlite3").stat().st_size
        asked = {name: timed(ask) for name, ask in queries(store, count).items()}
        reference = timed(plain_select(folder / "plain.sqlite3", count))
        busy = while_consolidating(store)
        store.close()
        weak = Store(folder / "weak.sqlite3", power_safe=False)
        weak_s = insert(weak, min(count, 100_000))
        weak.close()
        found = vectors(options.vectors)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rates = {
        "memory (5 indexes, full text, flushed)": count / ours_s,
        "memory, commits not flushed (100,000)": min(count, 100_000) / weak_s,
        "plain SQLite, one table, no index, flushed": count / plain_s,
    }
    rows = [[n, r["median_ms"], r["p95_ms"], r["max_ms"], r["median_ms"] / reference["median_ms"]] for n, r in asked.items()]
    for name, r in (("kind, while consolidating", busy), ("reference: plain SQLite by time", reference)):
        rows.append([name, r["median_ms"], r["p95_ms"], r["max_ms"], r["median_ms"] / reference["median_ms"]])
    inserted = [[name, round(rate)] for name, rate in rates.items()]
    report(
        "memory",
        {
            "records": count,
            "bytes": size,
            "insert_per_s": rates,
            "queries": asked,
            "reference": reference,
            "busy": busy,
            "vectors": {"count": options.vectors, "dimensions": DIMENSIONS, **found},
        },
        [
            Table(f"insert, {count:,} records ({size / 1e6:.0f} MB)", ("what", "records/s"), inserted),
            Table("query, 20 records each [ms]", ("by", "median", "p95", "max", "× reference"), rows),
            Table(
                f"the 100 nearest of {options.vectors:,} vectors [ms]",
                ("what", "median", "p95"),
                [["memory", found["median_ms"], found["p95_ms"]], ["bare product", found["bare_median_ms"], None]],
            ),
        ],
        [
            Target(f"inserts at {count:,} records", rates["memory (5 indexes, full text, flushed)"], 5000, "1/s", least=True),
            *(Target(f"query by {n}, p95", asked[n]["p95_ms"], 50, "ms") for n in ("time", "place", "kind", "text")),
            Target("nearest vectors found as by brute force", found["right"], 50, "of 50", least=True),
        ],
        as_json=options.json,
    )


if __name__ == "__main__":
    main()
