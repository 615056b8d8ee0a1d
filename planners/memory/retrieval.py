# SPDX-License-Identifier: Apache-2.0
"""Passages for a question: full text and meaning, ranked together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planners.memory.embedding import Embeddings
from planners.memory.query import Query, conditions, few_ids
from planners.memory.records import Record, Tier
from planners.memory.store import Store

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
