# SPDX-License-Identifier: Apache-2.0
"""The memory as others use it: put records in, ask questions, forget; consolidation and embeddings run behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from planners.memory.answers import MAX_SOURCES, Answer, Answerer, clock
from planners.memory.consolidation import ConsolidationSettings, Consolidator, ModelWriter
from planners.memory.embedding import Embedder, Embeddings, Passage, Retrieved, retrieve
from planners.memory.experience import InteractionExample, example_of
from planners.memory.graph import Graph, load
from planners.memory.query import Query
from planners.memory.questions import read
from planners.memory.records import Kind, Record, StoreError, Viewer
from planners.memory.store import Background, Store, Ticket

SHOWN = 3
"""So many passages are read out where no form fits and no model answers."""


@dataclass(frozen=True)
class Stats:
    """How much there is: records by tier and by kind, vectors, and the size of the files."""

    tiers: dict[str, int]
    kinds: dict[str, int]
    vectors: int
    bytes: int


class Memory:
    """One memory over one store. All methods may be called from any thread; `ask` and `recall` block theirs for some tens
    of milliseconds, longer with a model. `wall` is the clock of the records, in seconds since 1970.

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
        model: ModelWriter | None = None,
        background: bool = True,
        period_s: float = 1.0,
        on_problem: Callable[[StoreError], None] = lambda _: None,
    ) -> None:
        self.store, self.put = store, store.put
        self._wall, self._model = wall, model
        self.embeddings = Embeddings(store, embedder, wall=wall)
        self.consolidator = Consolidator(store, settings, wall=wall, summariser=model, on_problem=on_problem)
        self._robots: frozenset[str] = frozenset()
        steps = {"memory-consolidation": self.consolidator.step}
        if embedder is not None:
            steps["memory-embedding"] = self.embeddings.step
        self._threads = [
            Background(step, name=name, period_s=period_s, on_problem=on_problem) for name, step in steps.items() if background
        ]

    def recall(self, query: Query) -> Retrieved:
        """The records that fit a query: with a text by words and meaning, the best first; without, the newest first."""
        if query.text:
            return retrieve(self.store, self.embeddings, query)
        return Retrieved([Passage(r) for r in self.store.find(query)])

    def ask(self, question: str, *, viewer: Viewer | None = None, robot: str = "", limit: int = MAX_SOURCES) -> Answer:
        """Answer a question as `robot`, from what `viewer` may see; None sees everything.

        Raises StoreError, and ValueError for a question that is empty or too long.
        """
        now_s = self._wall()
        asked = read(question, now_s, tuple(sorted({*self._robots, robot} - {""})))
        answer = Answerer(self.store, asked, viewer, robot, now_s).answer()
        if answer is None:
            query = Query(
                asked.text, since_s=asked.since_s, until_s=asked.until_s, viewer=viewer, limit=min(limit, MAX_SOURCES)
            )
            found = self.recall(query)
            answer = self._from_passages(asked.text, [p.record for p in found.passages], found.note, now_s)
        state = self.store.state
        notes = [
            answer.note,
            f"nothing new is kept at present: {state.problem}" if state.problem is not None else "",
            f"{state.dropped} records were dropped since the start" if state.dropped else "",
        ]
        return replace(answer, sources=answer.sources[:limit], note="; ".join(filter(None, notes)))

    def _from_passages(self, question: str, records: list[Record], note: str, now_s: float) -> Answer:
        text = ""
        if self._model is not None and records:
            text = self._model.answer(question, records, now_s)
            if not text and self._model.problem:
                note = "; ".join(filter(None, [note, f"the model did not answer: {self._model.problem}"]))
        if not text:
            told = [f"{clock(r.time_s, now_s).capitalize()}: {r.text}" for r in records[:SHOWN]]
            text = f"What I remember of that: {' '.join(told)}" if told else "I remember nothing of that."
        return Answer(text, tuple(records), note=note)

    def know_robots(self, names: Iterable[str]) -> None:
        """Names that mean a robot in a question."""
        self._robots |= frozenset(names)

    def examples(self, instruction: str, count: int = 5, viewer: Viewer | None = None) -> list[InteractionExample]:
        """The interaction examples nearest to an instruction, best first."""
        query = Query(text=instruction, kinds=(Kind.EXAMPLE.value,), viewer=viewer, limit=count)
        return [example_of(p.record) for p in self.recall(query).passages]

    def graph(self, viewer: Viewer | None = None) -> Graph:
        """People, places, objects, facilities and robots with their relations."""
        return load(self.store, viewer)

    def forget(self, ids: Iterable[int], *, who: str, why: str = "") -> Ticket[list[int]]:
        """Revoke records and what was made of them; see `schema.revoke`."""
        return self.store.revoke(ids, now_s=self._wall(), who=who, why=why)

    def stats(self) -> Stats:
        """How much there is. Takes some hundred milliseconds for a million records."""
        with self.store.reading(30.0) as file:
            counted = "SELECT {0}, count(*) FROM record WHERE revoked = 0 GROUP BY {0}"
            tiers = {f"M{tier}": count for tier, count in file.execute(counted.format("tier"))}
            kinds = dict(file.execute(counted.format("kind")).fetchall())
            (vectors,) = file.execute("SELECT count(*) FROM vector").fetchone()
        size = sum(p.stat().st_size for p in self.store.path.parent.glob(self.store.path.name + "*"))
        return Stats(tiers, kinds, vectors, size)

    def close(self) -> None:
        """End the background work, write what is left, close the file."""
        for thread in self._threads:
            thread.close()
        self.store.close()
