# SPDX-License-Identifier: Apache-2.0
"""Improve the adapter by GRPO with the reward (InteractGen, stage 2).

Runs on a CPU, a GPU, or by `accelerate launch` on several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from training.answers import LONGEST
from training.base import load, options, save
from training.robots import robot
from training.sft import rows
from training.streams import stream_reward


def rewards(completions: list[Any], stream: list[str], on: list[str], **_: Any) -> list[float]:
    """Return the reward of each answer beside its reference stream; `on` names the robots."""
    said = [one[0]["content"] if isinstance(one, list) else one for one in completions]
    return [stream_reward(text, wanted, robot(name)) for text, wanted, name in zip(said, stream, on, strict=True)]


def main() -> None:
    """Train and save the adapter; write the rewards to curve.json."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=Path, required=True, help="file of pairs that were not trained on yet")
    parser.add_argument("--batch", type=int, default=64, help="answers a step and device, a multiple of --group")
    parser.add_argument("--group", type=int, default=8, help="answers to one instruction")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rate", type=float, default=1e-4, help="learning rate")
    parser.add_argument("--heat", type=float, default=0.9, help="temperature")
    parser.add_argument("--beta", type=float, default=0.0, help="weight of the distance to the model at the start")
    parser.add_argument("--log-every", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=0.0, help="end after so long; 0: after --steps")
    chosen = parser.parse_args()
    model, words = load(chosen)

    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from training.pace import UntilThen

    gpu = torch.cuda.is_available()
    pairs = rows(chosen.pairs)
    data = Dataset.from_list([{"prompt": p["prompt"], "stream": p["stream"], "on": p["robot"]} for p in pairs])
    settings = GRPOConfig(
        output_dir=str(chosen.out / "work"),
        per_device_train_batch_size=chosen.batch,
        num_generations=chosen.group,
        max_completion_length=LONGEST,
        max_steps=chosen.steps,
        learning_rate=chosen.rate,
        temperature=chosen.heat,
        beta=chosen.beta,
        logging_steps=chosen.log_every,
        logging_first_step=True,
        save_strategy="no",
        report_to="none",
        bf16=gpu,
        use_cpu=not gpu,
        gradient_checkpointing=False,
        seed=chosen.seed,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=rewards,
        args=settings,
        train_dataset=data,
        processing_class=words,
        callbacks=[UntilThen(chosen.minutes)] if chosen.minutes else [],
    )
    trainer.train()
    if trainer.is_world_process_zero():
        save(trainer.model, chosen.out)
        (chosen.out / "curve.json").write_text(json.dumps(trainer.state.log_history, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
