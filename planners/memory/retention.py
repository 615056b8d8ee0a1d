# SPDX-License-Identifier: Apache-2.0
"""How long records are kept, by tier, and which have served their time."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass

from planners.memory.records import Tier

DAY_S = 86_400.0
CHUNK = 200
"""Records dropped in one transaction."""


@dataclass(frozen=True)
class Retention:
    """Seconds that the records of each tier are kept (inf: for ever), and how many raw observations at most. A record's own
    `keep_until_s` overrules it. Raw observations that were not consolidated yet are never dropped."""

    raw_s: float = DAY_S
    sentences_s: float = 30 * DAY_S
    episodes_s: float = 365 * DAY_S
    knowledge_s: float = math.inf
    max_raw: int = 500_000

    def of(self, tier: Tier) -> float:
        """Of a tier."""
        return (self.raw_s, self.sentences_s, self.episodes_s, self.knowledge_s)[tier]


def expired(file: sqlite3.Connection, retention: Retention, now_s: float, consolidated: int) -> list[int]:
    """Ids of some records whose time is over, at most `CHUNK`; the oldest of a tier first."""
    found = [
        i
        for (i,) in file.execute(
            "SELECT id FROM record WHERE keep_until IS NOT NULL AND keep_until < ? AND (tier > 0 OR id <= ?) LIMIT ?",
            (now_s, consolidated, CHUNK),
        )
    ]
    for tier in Tier:
        before = now_s - retention.of(tier)
        if tier is Tier.M0:
            kept = file.execute(
                "SELECT time FROM record INDEXED BY record_tier WHERE tier = 0 ORDER BY time DESC LIMIT 1 OFFSET ?",
                (retention.max_raw,),
            ).fetchone()
            before = max(before, math.nextafter(kept[0], math.inf) if kept else -math.inf)
        if len(found) < CHUNK and before > -math.inf:
            found += [
                i
                for (i,) in file.execute(
                    "SELECT id FROM record INDEXED BY record_tier WHERE tier = ? AND time < ? AND keep_until IS NULL AND "
                    "(tier > 0 OR id <= ?) ORDER BY time LIMIT ?",
                    (int(tier), before, consolidated, CHUNK - len(found)),
                )
            ]
    return list(dict.fromkeys(found))
