# SPDX-License-Identifier: Apache-2.0
"""Remember for the robots: one store of typed records, consolidated in the background, answers questions with its sources."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from planners.language.questions import read
from planners.memory import schema
from planners.memory.answers import MAX_SEARCHED, MAX_SOURCES, Answer, Answerer, clock, is_evidence
from planners.memory.consolidation import ConsolidationSettings, Consolidator
from planners.memory.embedding import Embedder, Embeddings
from planners.memory.query import Circle, Query, tells_of
from planners.memory.recollection import Recollection
from planners.memory.records import Kind, Provenance, Record, Spot, StoreError, Tier, Viewer, Visibility
from planners.memory.store import Background, Store, Ticket
from planners.prompts.prompt import MEMORY_TOKENS

__all__ = [
    "Answer",
    "Circle",
    "Kind",
    "Memory",
    "Provenance",
    "Query",
    "Record",
    "Spot",
    "Store",
    "StoreError",
    "Tier",
    "Viewer",
    "Visibility",
]

SHOWN = 3
"""Number of passages that are read out where no form fits."""


class Memory:
    """Join store, consolidation and search. All methods may be called from any thread; `ask` and `recall` block theirs for
    some tens of milliseconds. `wall` is the clock of the records, in seconds since 1970.

    With `background` consolidation and embedding run on threads of their own; without, a caller runs `consolidator.step` and
    `embeddings.step` itself.
    """

    def __init__(
        self,
        store: Store,
        *,
        wall: Callable[[], float],
        settings: ConsolidationSettings | None = None,
        embedder: Embedder | None = None,
        background: bool = True,
        period_s: float = 1.0,
        on_problem: Callable[[StoreError], None] = lambda _: None,
    ) -> None:
        self.store, self.put = store, store.put
        self._wall = wall
        self.embeddings = Embeddings(store, embedder, wall=wall)
        self.consolidator = Consolidator(store, settings, wall=wall, on_problem=on_problem)
        steps = {"memory-consolidation": self.consolidator.step}
        if embedder is not None:
            steps["memory-embedding"] = self.embeddings.step
        self._threads = [
            Background(step, name=name, period_s=period_s, on_problem=on_problem) for name, step in steps.items() if background
        ]

    def recall(self, query: Query) -> Answer:
        """Return the records that fit a query, without words of its own; see `Embeddings.retrieve`."""
        return self.embeddings.retrieve(query)

    def ask(self, question: str, *, viewer: Viewer | None = None, robot: str = "", limit: int = MAX_SOURCES) -> Answer:
        """Answer a question as `robot`, from what `viewer` may see; None sees everything.

        Raises StoreError, and ValueError for a question that is empty or too long.
        """
        now_s = self._wall()
        asked = read(question, now_s, tuple(sorted({*self._robots(), robot} - {""})))
        answer = Answerer(self.store, asked, viewer, robot, now_s).answer()
        if answer is None:
            since_s, until_s = asked.since_s, asked.until_s
            query = Query(asked.text, since_s=since_s, until_s=until_s, viewer=viewer, limit=MAX_SEARCHED, lasting=True)
            found = self.recall(query)
            fitting = [r for r in found.sources if is_evidence(r) and self._fits(asked.text, r)][: min(limit, MAX_SOURCES)]
            told = " ".join(f"{clock(r.time_s, now_s).capitalize()}: {r.text}" for r in fitting[:SHOWN])
            text = asked.say("recalled", told=told) if told else asked.say("not_recalled")
            answer = replace(found, text=text, sources=tuple(fitting))
        state = self.store.state
        notes = [
            answer.note,
            f"nothing new is kept at present: {state.problem}" if state.problem is not None else "",
            f"{state.dropped} records were dropped since the start" if state.dropped else "",
        ]
        return replace(answer, sources=answer.sources[:limit], note="; ".join(filter(None, notes)))

    def recollect(self, task: str, *, viewer: Viewer | None = None, robot: str = "", tokens: int = MEMORY_TOKENS) -> Answer:
        """Return what bears on a task, a line of a prompt each, of which the block is no longer than `tokens`. Raises
        StoreError."""
        answer = partial(self.ask, viewer=viewer, robot=robot)
        return Recollection(self.store, task, answer, viewer, self._wall()).chosen(tokens)

    def _fits(self, question: str, record: Record) -> bool:
        """Return whether a passage is about the question: by its meaning, or by its words."""
        return bool(self.embeddings.count) or tells_of(record.text, question)

    def _robots(self) -> set[str]:
        """Return the names that mean a robot in a question."""
        with self.store.reading() as file:
            key = "\x1fentity:robot:"
            keys = file.execute("SELECT key FROM record WHERE key >= ? AND key < ?", (key, f"{key}\U0010ffff"))
            return {known.removeprefix(key) for (known,) in keys}

    def forget(self, ids: Iterable[int], *, who: str, why: str = "") -> Ticket[list[int]]:
        """Revoke records and what was made of them, see `schema.revoke`; the ticket tells which."""
        chosen, now_s = list(ids), self._wall()
        return self.store.do(lambda file: schema.revoke(file, chosen, now_s, who, why))

    def stats(self) -> dict[str, int]:
        """Count the records by tier and by kind, the vectors, and the bytes of the files; takes some hundred milliseconds
        for a million records."""
        found: dict[str, int] = {}
        with self.store.reading(30.0) as file:
            for name in ("tier", "kind"):
                counts = file.execute(f"SELECT {name}, count(*) FROM record WHERE revoked = 0 GROUP BY {name} ORDER BY {name}")
                found |= {f"tier M{of}" if name == "tier" else f"kind {of}": count for of, count in counts}
            (found["with embeddings"],) = file.execute("SELECT count(*) FROM vector").fetchone()
        found["bytes"] = sum(p.stat().st_size for p in self.store.path.parent.glob(self.store.path.name + "*"))
        return found

    def close(self) -> None:
        """End the background work, write what is left, close the file."""
        for thread in self._threads:
            thread.close()
        self.store.close()
