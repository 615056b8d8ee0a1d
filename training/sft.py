# SPDX-License-Identifier: Apache-2.0
"""Fine-tune the adapter on generated pairs (InteractGen, stage 1).

Runs on a CPU, a GPU, or by `accelerate launch` on several."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from training.base import load, options, save


def rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of pairs (`python3 -m training.pairs`)."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def dataset(pairs: Iterable[dict[str, Any]]) -> Any:
    """Return pairs as trl takes them: a conversation to read and the answer to learn."""
    from datasets import Dataset

    answers = [{"prompt": row["prompt"], "completion": [{"role": "assistant", "content": row["stream"]}]} for row in pairs]
    return Dataset.from_list(answers)


def main() -> None:
    """Train and save the adapter; write the losses to curve.json."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=Path, required=True, help="file of pairs to train on")
    parser.add_argument("--validation", type=Path, help="file of pairs to measure the loss on")
    parser.add_argument("--batch", type=int, default=8, help="pairs a step and device")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate")
    parser.add_argument("--tokens", type=int, default=768, help="longest pair; a longer one is cut")
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--evaluate-every", type=int, default=200, help="steps between two measurements on --validation")
    parser.add_argument("--gather", type=int, default=1, help="batches that are added up to a step")
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="end after so long, with the learning rate fallen; 0: after --steps"
    )
    chosen = parser.parse_args()
    model, words = load(chosen)

    import torch
    from trl import SFTConfig, SFTTrainer

    from training.pace import UntilThen

    gpu = torch.cuda.is_available()
    settings = SFTConfig(
        output_dir=str(chosen.out / "work"),
        per_device_train_batch_size=chosen.batch,
        per_device_eval_batch_size=chosen.batch,
        gradient_accumulation_steps=chosen.gather,
        max_steps=chosen.steps,
        learning_rate=chosen.rate,
        warmup_steps=min(20, chosen.steps // 10),
        lr_scheduler_type="linear",
        max_length=chosen.tokens,
        completion_only_loss=True,
        logging_steps=chosen.log_every,
        logging_first_step=True,
        eval_strategy="steps" if chosen.validation else "no",
        eval_steps=chosen.evaluate_every,
        save_strategy="no",
        report_to="none",
        bf16=gpu,
        use_cpu=not gpu,
        gradient_checkpointing=False,
        dataloader_num_workers=2 if gpu else 0,
        dataset_num_proc=len(os.sched_getaffinity(0)),
        seed=chosen.seed,
        disable_tqdm=True,
    )
    trainer = SFTTrainer(
        model=model,
        args=settings,
        train_dataset=dataset(rows(chosen.pairs)),
        eval_dataset=dataset(rows(chosen.validation)) if chosen.validation else None,
        processing_class=words,
        callbacks=[UntilThen(chosen.minutes)] if chosen.minutes else [],
    )
    trainer.train()
    if trainer.is_world_process_zero():
        save(trainer.model, chosen.out)
        (chosen.out / "curve.json").write_text(json.dumps(trainer.state.log_history, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
