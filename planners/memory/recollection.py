# SPDX-License-Identifier: Apache-2.0
"""Choose what of the memory bears on a task: the lines of the block MEMORY in prompts (TypeGo 9: what to inject, the runtime
chooses)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from operator import itemgetter

from planners.language.questions import MAX_QUESTION, names, read, readable, times_in
from planners.memory.answers import Answer, age, clock, is_evidence, sight
from planners.memory.experience import FACTS
from planners.memory.query import MAX_LIMIT, Query, tells_of
from planners.memory.records import MAX_TIME_S, Kind, Record, Viewer
from planners.memory.schema import select
from planners.memory.store import Store
from planners.models.base import tokens_in
from planners.prompts.prompt import MEMORY_TOKENS, remembered

ROOMS = 3
"""Lines about one thing at most: its newest sighting in each room."""
SHOWN_IDS, SHOWN_CHARS = 3, 300
"""Ids of records, and characters of a text, that a line shows."""


class Recollection:
    """Choose for one task. `answer` answers a question from the memory, `viewer` is who reads. Raises StoreError."""

    def __init__(self, store: Store, task: str, answer: Callable[[str], Answer], viewer: Viewer | None, now_s: float) -> None:
        self._store, self._answer, self._viewer, self._now_s = store, answer, viewer, now_s
        self._task = " ".join(task.split())[:MAX_QUESTION]

    def chosen(self, tokens: int = MEMORY_TOKENS) -> Answer:
        """Return the lines, the most telling first, with the records they stand on; their block has so many tokens at most."""
        lines: list[str] = []
        sources: list[Record] = []
        for line, of in self._lines() if self._task else ():
            if tokens_in(remembered([*lines, line])) <= tokens:
                lines.append(line)
                sources += of
        return Answer("\n".join(lines), tuple(sources), "task")

    def _lines(self) -> Iterator[tuple[str, Sequence[Record]]]:
        form = read(self._task, self._now_s).form
        if form.endswith("_now"):
            return
        if form and (found := self._answer(self._task)).sources:
            yield self._line(f"answer to the question: {found.text}", found.sources), found.sources
            return
        known = self._find(Query(kinds=(Kind.ENTITY.value,), limit=MAX_LIMIT))
        named = (name for name in dict.fromkeys(str(r.data.get("name", "")) for r in known) if names(self._task, name))
        # The newest of each thing first: one thing that is often seen must not leave no room for another.
        ranked = [told for name in named for told in enumerate(self._about(name, known))]
        yield from (told for _, told in sorted(ranked, key=itemgetter(0)))
        facts = [r for r in self._find(Query(kinds=(Kind.RELATION.value,), limit=MAX_LIMIT)) if r.provenance.source == FACTS]
        for fact in facts:
            ends = (str(fact.data[end]).partition(":")[2] for end in ("subject", "object"))
            if any(names(self._task, name) for name in ends):
                yield self._dated(fact, fact.text), [fact]
        for note in self._find(Query(self._task, (Kind.NOTE.value,))):
            if tells_of(note.text, self._task) and is_evidence(note):
                yield self._dated(note, note.text), [note]

    def _about(self, label: str, known: Sequence[Record]) -> Iterator[tuple[str, Sequence[Record]]]:
        """Yield where a thing was last seen, in the time that the task names if it was seen then, and where it usually is."""
        since_s, until_s = times_in(self._task, self._now_s)
        ever = self._seen(label, known)
        then = self._seen(label, known, since_s, until_s) if since_s is not None else []
        for sighting in (then or ever)[:ROOMS]:
            later = next((r.spot.room for r in ever[:1] if r.time_s > sighting.time_s), sighting.spot.room)
            since = f", since then in the {readable(later)}" if later != sighting.spot.room else ""
            yield self._dated(sighting, f"{sight(sighting)}{since}"), [sighting]
        if (habit := self._store.by_key(f"habit:place:{label}")) is not None:
            yield self._dated(habit, habit.text), [habit]

    def _seen(
        self, label: str, known: Sequence[Record], since_s: float | None = None, until_s: float | None = None
    ) -> list[Record]:
        """Return the newest sighting of a thing by each robot in each room, the newest first, by their keys: a search by words
        takes too long where a thing is seen often."""
        robots, rooms = ({str(r.data["name"]) for r in known if r.data.get("type") == of} for of in ("robot", "place"))
        who, times = self._viewer, (since_s or 0.0, MAX_TIME_S if until_s is None else until_s)
        scopes = ["", *([who.robot, f"{who.robot}/{who.process}"] if who is not None else [])]
        found: list[Record] = []
        with self._store.reading() as file:
            for scope, robot, room in product(scopes, robots, (*rooms, "")):
                key = f"{scope}\x1f{Kind.SIGHTING.value}:{robot}:{label}:{room}:"
                bounds = [f"{key}{time_s:018.6f}" for time_s in times]
                found += select(file, "record WHERE key BETWEEN ? AND ? AND revoked = 0 ORDER BY key DESC LIMIT 1", bounds)
        return sorted(found, key=lambda r: r.time_s, reverse=True)

    def _find(self, query: Query) -> list[Record]:
        return self._store.find(replace(query, viewer=self._viewer))

    def _dated(self, record: Record, text: str) -> str:
        return self._line(f"{clock(record.time_s, self._now_s)} ({age(self._now_s - record.time_s)} ago): {text}", [record])

    def _line(self, text: str, sources: Sequence[Record]) -> str:
        ids = [str(r.id) for r in sources]
        more = "…" if len(ids) > SHOWN_IDS else ""
        processes = dict.fromkeys(r.provenance.process for r in sources if r.provenance.process)
        of = f" of process {', '.join(processes)}" if len(processes) == 1 else ""
        said = " ".join(text.split()).rstrip(".")
        said = f"{said[:SHOWN_CHARS]}…" if len(said) > SHOWN_CHARS else said
        return f"{said} [record {', '.join(ids[:SHOWN_IDS])}{more}{of}]"
