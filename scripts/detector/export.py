# SPDX-License-Identifier: Apache-2.0
"""Writes trained weights as ONNX: `python3 -m scripts.detector.export WEIGHTS MODEL.onnx`; needs requirements/training.txt.

The answers are those of `network.Answers`, the layout that ultralytics exports too; `names` in the metadata tells the labels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx
import torch

from scripts.detector.network import Answers, Network
from scripts.detector.shapes import HEIGHT, WIDTH

OPSET = 17


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("model", type=Path)
    args = parser.parse_args()
    saved = torch.load(args.weights, weights_only=True)
    network = Network(len(saved["labels"]))
    network.load_state_dict(saved["network"])
    answers = Answers(network, HEIGHT, WIDTH).eval()
    torch.onnx.export(
        answers,
        (torch.zeros(1, 3, HEIGHT, WIDTH),),
        str(args.model),
        input_names=["images"],
        output_names=["answers"],
        opset_version=OPSET,
        dynamo=False,
    )
    model = onnx.load(str(args.model))
    about = {"names": str(dict(enumerate(saved["labels"]))), "license": "Apache-2.0", "author": "GhostShell"}
    onnx.helper.set_model_props(model, about)
    onnx.checker.check_model(model)
    onnx.save(model, str(args.model))
    print(f"{args.model}: {args.model.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
