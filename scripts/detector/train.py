# SPDX-License-Identifier: Apache-2.0
"""Trains the detector: `python3 -m scripts.detector.train --data DIR [DIR …] --out FILE`; needs requirements/training.txt.

The last frames of the last folder are not trained on; the mean average precision on them is the learning curve.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ghostshell_ros.perception.detector import to_boxes
from scripts.detector.average_precision import scores, truth_of
from scripts.detector.network import STRIDE, Answers, Network, middles
from scripts.detector.shapes import LABELS

HELD = 600
KEEP = 0.999
"""Share of the averaged weights that a step leaves as they are."""
MIDDLE = 0.3
"""Cells whose target is at least this learn the box."""
SPREAD = 0.11
LEAST_CELLS = 0.6
"""Standard deviation of a target around its middle: a share of the box's side, in cells at least the second."""

Images = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Rows = Floats


class Frames:
    """Frames of several folders by one number."""

    def __init__(self, folders: list[Path]) -> None:
        self._frames = [np.load(folder / "frames.npy", mmap_mode="r") for folder in folders]
        self._starts = np.cumsum([0] + [len(f) for f in self._frames])
        self._rows: list[Rows] = []
        for folder, part in zip(folders, self._frames, strict=True):
            self._rows += truth_of(np.load(folder / "boxes.npy"), len(part))

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, number: int) -> tuple[Images, Rows]:
        part = int(np.searchsorted(self._starts, number, side="right")) - 1
        return self._frames[part][number - self._starts[part]], self._rows[number]


def targets(rows: Rows, height: int, width: int) -> tuple[Floats, Floats, Floats]:
    """Heat (labels, rows, columns; nan where it does not count), weight (rows, columns) and edges (4, rows, columns) of the
    box that a cell learns: of several, the one whose middle it is nearest to by their sizes."""
    heat = np.zeros((len(LABELS), height, width), np.float32)
    weight, edges = np.zeros((height, width), np.float32), np.zeros((4, height, width), np.float32)
    xs, ys = (np.arange(width) + 0.5) * STRIDE, (np.arange(height)[:, None] + 0.5) * STRIDE
    ignored = np.zeros_like(heat, bool)
    for label, left, top, right, bottom, hidden in rows:
        if hidden:
            ignored[int(label)] |= (xs > left - 4) & (xs < right + 4) & (ys > top - 4) & (ys < bottom + 4)
            continue
        x, y = (left + right) / 2, (top + bottom) / 2
        column, row = min(int(x / STRIDE), width - 1), min(int(y / STRIDE), height - 1)
        sx, sy = (max(LEAST_CELLS * STRIDE, SPREAD * side) for side in (right - left, bottom - top))
        # The middle cell is a full target wherever in it the middle is.
        near = np.exp(-(((xs - xs[column]) / sx) ** 2 + ((ys - ys[row]) / sy) ** 2) / 2).astype(np.float32)
        heat[int(label)] = np.maximum(heat[int(label)], near)
        own = (near >= MIDDLE) & (near > weight)
        weight[own] = near[own]
        edges[:, own] = np.array([left, top, right, bottom], np.float32)[:, None]
    heat[ignored & (heat < 1.0)] = np.nan
    return heat, weight, edges


def changed(image: Images, rows: Rows, random: np.random.Generator) -> tuple[Floats, Rows]:
    """Return the image with other light, colours, noise and sharpness, or mirrored."""
    picture = image.astype(np.float32) / 255.0
    if random.random() < 0.5:
        picture, rows = picture[:, ::-1], rows.copy()
        rows[:, [1, 3]] = picture.shape[1] - rows[:, [3, 1]]
    picture = picture * (random.uniform(0.7, 1.3) * random.normal(1.0, 0.05, 3)).astype(np.float32)
    grey = picture.mean(axis=2, keepdims=True)
    picture = grey + (picture - grey) * np.float32(random.uniform(0.7, 1.25))
    if random.random() < 0.3:
        picture = (picture + np.roll(picture, 1, axis=0) + np.roll(picture, 1, axis=1)) / 3
    if random.random() < 0.5:
        picture = picture + random.standard_normal(picture.shape, dtype=np.float32) * np.float32(random.uniform(0, 0.03))
    return np.clip(picture, 0.0, 1.0), rows


def batches(frames: Frames, count: int, size: int, random: np.random.Generator) -> Iterator[tuple[Tensor, ...]]:
    order = random.permutation(count)
    for start in range(0, count - size + 1, size):
        images, made = [], []
        for number in order[start : start + size]:
            image, rows = changed(*frames.get(int(number)), random)
            images.append(image.transpose(2, 0, 1))
            made.append(targets(rows, image.shape[0] // STRIDE, image.shape[1] // STRIDE))
        yield torch.from_numpy(np.stack(images)), *(torch.from_numpy(np.stack(part)) for part in zip(*made, strict=True))


def loss(heat: Tensor, sides: Tensor, wanted: Tensor, weight: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """Penalty-reduced focal loss of the heat (as in CenterNet), and one minus the generalised IoU of the boxes."""
    counted = ~wanted.isnan()
    wanted = wanted.nan_to_num()
    score = heat.sigmoid().clamp(1e-4, 1 - 1e-4)
    sure = wanted >= 1.0
    part = torch.where(sure, (1 - score) ** 2 * score.log(), (1 - wanted) ** 4 * score**2 * (1 - score).log())
    found = -(part * counted).sum() / sure.sum().clamp(min=1)

    place = middles(*heat.shape[2:]).view(1, 2, *heat.shape[2:])
    low, high = place - sides[:, :2], place + sides[:, 2:]
    width, height = (high - low).unbind(1)
    wide, tall = (edges[:, 2:] - edges[:, :2]).unbind(1)
    inner = torch.minimum(high, edges[:, 2:]) - torch.maximum(low, edges[:, :2])
    outer = torch.maximum(high, edges[:, 2:]) - torch.minimum(low, edges[:, :2])
    inside, around = inner.clamp(min=0).prod(1), outer.prod(1).clamp(min=1e-3)
    union = (width * height + wide * tall - inside).clamp(min=1e-3)
    giou = inside / union - (around - union) / around
    boxed = ((1 - giou) * weight).sum() / weight.sum().clamp(min=1)
    return found, boxed


@torch.no_grad()
def judge(network: Network, frames: Frames, numbers: range) -> dict[str, tuple[float, float]]:
    network.eval()
    found, truth = [], []
    for number in numbers:
        image, rows = frames.get(number)
        answers = Answers(network, *image.shape[:2])(torch.from_numpy(image.transpose(2, 0, 1)[None] / np.float32(255)))
        found.append(to_boxes(answers.numpy(), LABELS, (1.0, 0.0, 0.0), (image.shape[1], image.shape[0]), 0.05, 0.5))
        truth.append(rows)
    return scores(found, truth, LABELS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bfloat16", action="store_true", help="calculate in bfloat16: three times as fast where the CPU can")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    random = np.random.default_rng(args.seed)
    frames = Frames(args.data)
    held = min(HELD, len(frames) // 5)
    count = len(frames) - held
    network = Network(len(LABELS)).to(memory_format=torch.channels_last)
    averaged = copy.deepcopy(network)
    print(f"{sum(p.numel() for p in network.parameters())} parameters, {count} frames, {held} held", flush=True)
    steps = count // args.batch * args.epochs
    optimizer = torch.optim.AdamW(network.parameters(), lr=args.rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.rate, total_steps=steps, pct_start=0.1)
    begun, step = time.monotonic(), 0
    for epoch in range(args.epochs):
        network.train()
        sums = np.zeros(2)
        for images, wanted, weight, edges in batches(frames, count, args.batch, random):
            with torch.autocast("cpu", torch.bfloat16, enabled=args.bfloat16):
                features = network.features(images.contiguous(memory_format=torch.channels_last))
            heat, sides = network.answers(features.float())
            found, boxed = loss(heat, sides, wanted, weight, edges)
            optimizer.zero_grad()
            (found + 2.0 * boxed).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
            optimizer.step()
            schedule.step()
            step += 1
            sums += float(found.detach()), float(boxed.detach())
            keep = min(KEEP, step / (step + 20))
            with torch.no_grad():
                for mine, theirs in zip(averaged.state_dict().values(), network.state_dict().values(), strict=True):
                    if mine.is_floating_point():
                        mine.lerp_(theirs, 1 - keep)
            if step % 50 == 0:
                print(f"step {step}/{steps} {time.monotonic() - begun:.0f} s, loss {found:.2f} {boxed:.3f}", flush=True)
        table = judge(averaged, frames, range(count, len(frames)))
        shown = ", ".join(f"{label} {a:.2f}" for label, (a, _) in table.items())
        mean = sums / max(1, count // args.batch)
        print(f"epoch {epoch + 1}: {time.monotonic() - begun:.0f} s, loss {mean.round(3)}, AP@0.5 {shown}", flush=True)
        torch.save({"network": averaged.state_dict(), "labels": LABELS, "epoch": epoch + 1}, args.out)


if __name__ == "__main__":
    main()
