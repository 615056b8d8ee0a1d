# SPDX-License-Identifier: Apache-2.0
"""Mean average precision of a detector on rendered frames: `python3 -m scripts.detector.evaluate DIR [DIR …]`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import yaml

from ghostshell_ros.perception.detector import kinds, make_detector
from scripts.detector.average_precision import scores, truth_of
from scripts.detector.shapes import LABELS

CONFIG = Path(__file__).resolve().parents[2] / "config" / "object_detector.yaml"
LEAST = 0.02
"""Boxes less sure than this change nothing in the mean."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="+", help="folders that render_frames wrote")
    parser.add_argument("--detector", choices=kinds(), default="onnx")
    parser.add_argument("--model", default="", help="file with weights, empty for our own")
    args = parser.parse_args()
    looks = yaml.safe_load(CONFIG.read_text())["/**/object_detector"]["ros__parameters"]["looks"]
    detector = make_detector(args.detector, model=args.model, confidence=LEAST, looks=looks)
    for folder in args.data:
        frames = np.load(folder / "frames.npy", mmap_mode="r")
        begun = time.process_time()
        found = [detector.detect(np.asarray(frame)) for frame in frames]
        took = (time.process_time() - begun) / len(frames)
        truth = truth_of(np.load(folder / "boxes.npy"), len(frames))
        print(f"{folder.name}: {len(frames)} frames, {1e3 * took:.1f} ms of CPU each")
        print(f"  {'':8s} {'things':>6s} {'AP@0.5':>7s} {'AP@0.5:0.95':>12s}")
        for label, (half, mean) in scores(found, truth, LABELS).items():
            wanted = sum(int(np.sum((label in ("all", LABELS[int(r[0])])) and not r[5])) for rows in truth for r in rows)
            print(f"  {label:8s} {wanted:6d} {half:7.3f} {mean:12.3f}")


if __name__ == "__main__":
    main()
