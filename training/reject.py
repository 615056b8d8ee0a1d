# SPDX-License-Identifier: Apache-2.0
"""Sample answers to instructions and keep those that the model gets wrong at times, with a right answer: pairs to fine-tune on
again (InteractGen, stage 3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from training.answers import answers
from training.base import load, options
from training.robots import robot
from training.sft import rows
from training.streams import same


def kept(pairs: list[dict[str, Any]], said: list[list[str]]) -> list[dict[str, Any]]:
    """Return each pair that was answered wrong at least once, with its first right answer in place of the reference; one that
    was never answered right keeps the reference."""
    chosen: list[dict[str, Any]] = []
    for pair, texts in zip(pairs, said, strict=True):
        right = [text for text in texts if same(text, pair["stream"], robot(pair["robot"]), pair["also"])]
        if len(right) < len(texts):
            chosen.append({**pair, "stream": right[0] if right else pair["stream"]})
    return chosen


def main() -> None:
    """Write the kept pairs to kept.jsonl."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=Path, required=True, help="file of pairs that were not trained on yet")
    parser.add_argument("--samples", type=int, default=4, help="answers a pair")
    parser.add_argument("--heat", type=float, default=0.8, help="temperature")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--limit", type=int, default=10_000, help="pairs to sample")
    chosen = parser.parse_args()
    model, words = load(chosen, trained=False)
    import torch

    if torch.cuda.is_available():
        model = model.to("cuda")
    pairs = rows(chosen.pairs)[: chosen.limit]
    said = answers(
        model, words, [pair["prompt"] for pair in pairs], samples=chosen.samples, heat=chosen.heat, batch=chosen.batch
    )
    chosen.out.mkdir(parents=True, exist_ok=True)
    useful = kept(pairs, said)
    print(f"{len(useful)} of {len(pairs)} pairs were answered wrong at least once in {chosen.samples}", flush=True)
    with (chosen.out / "kept.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(pair, ensure_ascii=False) + "\n" for pair in useful)


if __name__ == "__main__":
    main()
