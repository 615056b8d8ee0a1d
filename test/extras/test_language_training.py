# SPDX-License-Identifier: Apache-2.0
"""The way from pairs to an adapter in small, and what llama.cpp makes of such an adapter. Nothing is learned here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="make test-extras installs it")
from training.adapter import export
from training.base import TARGETS, save, tokenizer, weights
from training.serving import serve

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(1200)
TEXT = "<|im_start|>user\nNod twice.<|im_end|>\n<|im_start|>assistant\n"


def test_the_stages_of_the_training_run_one_after_the_other(tmp_path: Path) -> None:
    small = {"TINY": "--tiny", "JOBS": "1", "PAIRS": "24", "FRESH": "8", "HELD": "2", "SFT_BATCH": "2", "SFT_STEPS": "3"}
    small |= {"SAMPLED": "2", "SAMPLES": "2", "REFINED_STEPS": "1", "REFINED_BATCH": "1", "ANSWERS": "2"}
    small |= {
        "BEFORE": "0",
        "GRPO_STEPS": "1",
        "GRPO_BATCH": "2",
        "GRPO_GROUP": "2",
        "PYTHON": sys.executable,
        "OUT": str(tmp_path),
    }
    done = subprocess.run(
        [str(ROOT / "training" / "all.sh")], env={**os.environ, **small}, capture_output=True, text=True, timeout=1100
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    for stage in ("sft", "rejection", "grpo"):
        assert (tmp_path / stage / "adapter_model.safetensors").stat().st_size > 10_000
        told = json.loads((tmp_path / stage / "answers.json").read_text(encoding="utf-8"))
        assert told["paraphrases"]["of"] == told["skills"]["of"] == 2
    losses = [row["loss"] for row in json.loads((tmp_path / "sft" / "curve.json").read_text(encoding="utf-8")) if "loss" in row]
    rewards = [
        row["reward"] for row in json.loads((tmp_path / "grpo" / "curve.json").read_text(encoding="utf-8")) if "reward" in row
    ]
    assert losses and all(0.0 < loss < 20.0 for loss in losses)
    assert rewards and all(-3.0 <= value <= 4.0 for value in rewards)


def _first_token(server: Any) -> dict[int, float]:
    """Return the likeliest first tokens of an answer with the logarithms of their probabilities."""
    body = {"prompt": TEXT, "n_predict": 1, "n_probs": 10, "temperature": 0.0, "cache_prompt": False}
    request = urllib.request.Request(
        server.listening_address + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300.0) as answer:
        told = json.load(answer)["completion_probabilities"][0]["top_logprobs"]
    return {one["id"]: one["logprob"] for one in told}


def test_llama_cpp_reads_an_adapter_as_it_was_trained(tmp_path: Path) -> None:
    """An adapter of random weights moves the probabilities far, and in both programs to the same place."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(3)
    file = weights()
    base = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=list(TARGETS), task_type="CAUSAL_LM"))
    for name, values in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(values, std=0.3)
    read = tokenizer(file)(TEXT, return_tensors="pt", add_special_tokens=False)
    with torch.no_grad():
        wanted = torch.log_softmax(model(**read).logits[0, -1].double(), dim=-1)
        with model.disable_adapter():
            before = torch.log_softmax(model(**read).logits[0, -1].double(), dim=-1)
    save(model, tmp_path / "adapter")
    export(tmp_path / "adapter", file, tmp_path / "adapter.gguf")
    served = _first_token(serve(0, tmp_path / "adapter.gguf", 2))
    apart = [abs(value - wanted[n].item()) for n, value in served.items()]
    moved = [abs(before[n].item() - wanted[n].item()) for n in served]
    # What lies between the two programs is the rounding of weights in four bits.
    assert sum(moved) > 5 * sum(apart), (apart, moved)
