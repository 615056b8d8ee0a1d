# SPDX-License-Identifier: Apache-2.0
"""Let the model in training answer, and count how many answers are right. It is not bound to a grammar here."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.base import load, options
from training.robots import robot
from training.sft import rows
from training.streams import same, stream_reward

LONGEST = 96
"""Tokens of an answer at most."""


def answers(
    model: Any, words: Any, prompts: Sequence[Any], *, samples: int = 1, heat: float = 0.0, batch: int = 64
) -> list[list[str]]:
    """Return `samples` answers to each conversation, the likeliest one where `heat` (the temperature) is 0."""
    import torch

    words.padding_side = "left"
    model.eval()
    written: list[list[str]] = []
    for n in range(0, len(prompts), batch):
        texts = words.apply_chat_template(list(prompts[n : n + batch]), add_generation_prompt=True, tokenize=False)
        read = words(texts, return_tensors="pt", padding=True, add_special_tokens=False).to(model.device)
        how = {"do_sample": True, "temperature": heat, "top_p": 1.0, "top_k": 0} if heat else {"do_sample": False}
        with torch.no_grad():
            out = model.generate(**read, max_new_tokens=LONGEST, num_return_sequences=samples, **how)
        said = words.batch_decode(out[:, read["input_ids"].shape[1] :], skip_special_tokens=True)
        written += [said[k : k + samples] for k in range(0, len(said), samples)]
    return written


def scored(pairs: Sequence[dict[str, Any]], said: Sequence[str]) -> dict[str, Any]:
    """Return how many answers do what was asked, their mean reward, and both by kind of instruction."""
    kinds: dict[str, list[tuple[bool, float]]] = {}
    wrong: list[dict[str, str]] = []
    for pair, text in zip(pairs, said, strict=True):
        body = robot(pair["robot"])
        right = same(text, pair["stream"], body, pair["also"])
        kinds.setdefault(pair["kind"], []).append((right, stream_reward(text, pair["stream"], body)))
        if not right:
            wrong.append({name: pair[name] for name in ("robot", "kind", "instruction", "stream")} | {"answer": text})
    every = [one for results in kinds.values() for one in results]
    return {
        "right": sum(right for right, _ in every),
        "of": len(every),
        "reward": round(sum(value for _, value in every) / len(every), 3),
        "kinds": {kind: [sum(right for right, _ in results), len(results)] for kind, results in sorted(kinds.items())},
        "wrong": wrong,
    }


def main() -> None:
    """Answer files of pairs and write the scores to answers.json."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=Path, nargs="+", required=True)
    parser.add_argument("--batch", type=int, default=64)
    chosen: argparse.Namespace = parser.parse_args()
    model, words = load(chosen, trained=False)
    import torch

    if torch.cuda.is_available():
        model = model.to("cuda")
    told = {}
    for file in chosen.pairs:
        pairs = rows(file)
        said = answers(model, words, [pair["prompt"] for pair in pairs], batch=chosen.batch)
        told[file.stem] = scored(pairs, [one[0] for one in said])
        print(file.stem, {name: value for name, value in told[file.stem].items() if name != "wrong"}, flush=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "answers.json").write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
