# SPDX-License-Identifier: Apache-2.0
"""Sentences found by their meaning, and the index of their vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_kit import NOON, Clock
from thorough import examples

from planners.memory import Kind, Memory, Query, Record, Store, Tier
from planners.memory.embedding import EmbeddingError, Embeddings, VectorIndex

MEANING = {"ball": 0, "sphere": 0, "toy": 0, "kitchen": 1, "food": 1, "sleep": 2, "bed": 2}


class FakeEmbedder:
    """Words of one meaning share a direction."""

    name = "fake-1"

    def __init__(self, fail: str = "") -> None:
        self.fail, self.encoded = fail, 0

    def load(self) -> None:
        if self.fail:
            raise EmbeddingError(self.fail)

    def encode(self, texts: Sequence[str]) -> Any:
        found = np.full((len(texts), 4), 1e-3, np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in text.lower().split():
                if word in MEANING:
                    row[MEANING[word]] += 1.0
        self.encoded += len(texts)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture
def with_meaning(tmp_path: Path, clock: Clock) -> Iterator[Callable[..., Memory]]:
    made: list[Memory] = []

    def make(embedder: FakeEmbedder) -> Memory:
        made.append(Memory(Store(tmp_path / "m.sqlite3", power_safe=False), wall=clock, embedder=embedder, background=False))
        return made[-1]

    yield make
    for memory in made:
        memory.close()


def embed_all(memory: Memory) -> None:
    while memory.embeddings.step():
        pass


def test_a_passage_is_found_by_its_meaning_once_it_is_embedded(with_meaning: Callable[..., Memory], clock: Clock) -> None:
    memory = with_meaning(FakeEmbedder())
    ids = memory.put(*[Record(Tier.M1, Kind.NOTE, NOON, t) for t in ("a sphere rolls", "a soft bed", "food is ready")]).result()
    clock.now += 60
    before = memory.ask("any toy around?")
    assert "loaded" in before.note and before.sources == ()
    embed_all(memory)
    after = memory.recall(Query(text="any toy around?"))
    assert after.note == "" and [r.id for r in after.sources] == [ids[0]]
    assert memory.recall(Query(text="toy", kinds=("call",))).sources == ()
    memory.forget([ids[0]], who="alice").result()
    assert memory.recall(Query(text="any toy around?")).sources == ()


def test_a_sentence_that_changed_is_embedded_anew_and_another_model_begins_anew(
    with_meaning: Callable[..., Memory], clock: Clock
) -> None:
    embedder = FakeEmbedder()
    memory = with_meaning(embedder)
    memory.put(Record(Tier.M1, Kind.NOTE, NOON, "a ball", key="k")).result()
    clock.now += 60
    embed_all(memory)
    memory.put(Record(Tier.M1, Kind.NOTE, NOON + 1, "a bed", key="k")).result()
    assert memory.recall(Query(text="toy")).sources == (), "it is no ball any more"
    embed_all(memory)
    assert [r.text for r in memory.recall(Query(text="sleep")).sources] == ["a bed"] and embedder.encoded >= 2
    memory.store.close()
    second = FakeEmbedder()
    again = with_meaning(second)
    embed_all(again)
    assert second.encoded == 0 and again.embeddings.count == 1, "the vectors are on disk"
    third = FakeEmbedder()
    third.name = "fake-2"
    embed_all(with_meaning(third))
    assert third.encoded == 1


def test_a_sentence_that_changes_while_it_is_embedded_has_its_turn_again(
    with_meaning: Callable[..., Memory], clock: Clock
) -> None:
    class Slow(FakeEmbedder):
        def encode(self, texts: Sequence[str]) -> Any:
            if "a ball" in texts:
                memory.put(Record(Tier.M1, Kind.NOTE, NOON + 1, "a bed", key="k")).result()
            return super().encode(texts)

    memory = with_meaning(Slow())
    memory.put(Record(Tier.M1, Kind.NOTE, NOON, "a ball", key="k")).result()
    clock.now += 60
    embed_all(memory)
    assert [r.text for r in memory.recall(Query(text="sleep")).sources] == ["a bed"]
    assert memory.recall(Query(text="toy")).sources == ()


def test_without_the_extra_the_answer_says_that_full_text_alone_was_used(with_meaning: Callable[..., Memory]) -> None:
    memory = with_meaning(FakeEmbedder("sentence-transformers is not installed; install the extra"))
    memory.put(Record(Tier.M1, Kind.NOTE, NOON, "a ball on the floor")).result()
    embed_all(memory)
    found = memory.ask("a ball?")
    assert "install the extra" in found.note and "floor" in found.text


@given(
    st.lists(st.integers(1, 40), max_size=120),
    st.integers(1, 5),
    st.one_of(st.none(), st.sets(st.integers(1, 40), max_size=10)),
    st.sampled_from([8, 1000]),
)
@settings(max_examples=examples(80))
def test_the_vector_index_finds_what_a_plain_loop_finds(
    added: list[int], count: int, among: set[int] | None, limit: int
) -> None:
    rng = np.random.default_rng(1)
    index, plain = VectorIndex(limit), dict[int, Any]()
    for record_id in added:
        vector = rng.normal(size=8).astype(np.float32)
        index.add(record_id, vector)
        plain[record_id] = vector
        if len(plain) > limit:
            del plain[min(plain)]
    wanted = rng.normal(size=8).astype(np.float32)
    chosen = {i: v for i, v in plain.items() if among is None or i in among}
    best = sorted(chosen, key=lambda i: -float(chosen[i] @ wanted))[:count]
    assert len(index) == len(plain)
    assert [i for i, _ in index.nearest(wanted, count, None if among is None else sorted(among))] == best


def test_beyond_its_limit_the_index_lets_go_of_the_oldest() -> None:
    index = VectorIndex(100)
    for n in range(105):
        index.add(n, np.ones(4, np.float32))
    index.add(3, np.ones(4, np.float32))
    assert {i for i, _ in index.nearest(np.ones(4, np.float32), 200)} == set(range(5, 105))


def test_an_answer_says_that_only_the_newest_sentences_are_found_by_meaning(tmp_path: Path, clock: Clock) -> None:
    store = Store(tmp_path / "m.sqlite3", power_safe=False)
    memory = Memory(store, wall=clock, embedder=FakeEmbedder(), background=False)
    memory.embeddings = Embeddings(store, FakeEmbedder(), wall=clock, limit=2)
    ids = memory.put(*[Record(Tier.M1, Kind.NOTE, NOON, f"a sphere {n}") for n in range(3)]).result()
    clock.now += 60
    embed_all(memory)
    found = memory.recall(Query(text="toy"))
    assert sorted(r.id for r in found.sources) == ids[1:] and "only the newest 2" in found.note
    memory.close()
