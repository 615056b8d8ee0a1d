# SPDX-License-Identifier: Apache-2.0
"""Renders labelled frames for the detector: `python3 -m scripts.detector.render_frames --out DIR --frames N --seed S`.

The boxes come from the simulator's segmentation. Writes `frames.npy` (uint8, N x 240 x 320 x 3) and `boxes.npy` (float32, a row
a thing: frame, label, left, top, right, bottom in px, and 1 where too little of it shows to be asked for).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scripts.detector.building import Building
from scripts.detector.rooms import Room
from scripts.detector.shapes import HEIGHT, LABELS, WIDTH

import mujoco  # isort: skip  (after the modules that choose how it renders)

FRAMES_A_ROOM = 30
MIN_PX = 16
MIN_SIDE_PX = 3
MIN_SHARE = 0.15
"""Less than this share of what a thing would cover if it stood free, and it is not asked for."""

Scene = Room | Building


def boxes(segments: npt.NDArray[np.int32], scene: Scene) -> list[tuple[float, ...]]:
    """Rows without the frame's number: label, left, top, right, bottom, ignore."""
    geoms = np.where(segments[..., 1] == int(mujoco.mjtObj.mjOBJ_GEOM), segments[..., 0], -1)
    instances = scene.instance[geoms]
    focal = HEIGHT / 2 / math.tan(math.radians(float(scene.model.cam_fovy[scene.camera_id])) / 2)
    told = set(np.unique(scene.telling[geoms]).tolist())
    rows: list[tuple[float, ...]] = []
    for number in np.unique(instances[instances >= 0]).tolist():
        ys, xs = np.nonzero(instances == number)
        label, area, at = scene.describe(number)
        distance = math.dist(at, scene.camera)
        share = len(xs) / (area * (focal / max(0.1, distance)) ** 2)
        left, top, right, bottom = xs.min(), ys.min(), xs.max() + 1, ys.max() + 1
        hidden = len(xs) < MIN_PX or min(right - left, bottom - top) < MIN_SIDE_PX or share < MIN_SHARE
        hidden |= LABELS[label] == "door" and number not in told  # without its handle it is a board
        rows.append((float(label), float(left), float(top), float(right), float(bottom), float(hidden)))
    return rows


def scenes(kind: str, seed: int) -> Iterator[tuple[Scene, int]]:
    """Worlds without end, and how many frames to take of each."""
    count = 0
    while True:
        random = np.random.default_rng([seed, count])
        yield (Room(random), FRAMES_A_ROOM) if kind == "rooms" else (Building(random), 1_000_000)
        count += 1


def rendered(scene: Scene, frames: npt.NDArray[np.uint8], first: int = 0) -> list[tuple[float, ...]]:
    """Fill `frames` with arrangements of a scene; gives the rows of their boxes, counted from `first`."""
    rows: list[tuple[float, ...]] = []
    renderer = mujoco.Renderer(scene.model, height=HEIGHT, width=WIDTH)
    for number in range(len(frames)):
        scene.arrange()
        renderer.update_scene(scene.data, scene.camera_id)
        frames[number] = renderer.render()
        renderer.enable_segmentation_rendering()
        renderer.update_scene(scene.data, scene.camera_id)
        rows += [(float(first + number), *row) for row in boxes(renderer.render(), scene)]
        renderer.disable_segmentation_rendering()
    renderer.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--frames", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--world", choices=("rooms", "building"), default="rooms", help="random rooms, or Kalos's building")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    frames = np.lib.format.open_memmap(
        args.out / "frames.npy", mode="w+", dtype=np.uint8, shape=(args.frames, HEIGHT, WIDTH, 3)
    )
    rows: list[tuple[float, ...]] = []
    done, begun = 0, time.monotonic()
    for scene, count in scenes(args.world, args.seed):
        part = frames[done : done + count]
        rows += rendered(scene, part, done)
        done += len(part)
        if done == args.frames:
            break
        if done % 300 == 0:
            print(f"{done} frames, {time.monotonic() - begun:.0f} s", flush=True)
    frames.flush()
    np.save(args.out / "boxes.npy", np.array(rows, dtype=np.float32).reshape(-1, 7))
    asked = sum(1 for row in rows if not row[-1])
    print(f"{args.frames} frames with {asked} things in {time.monotonic() - begun:.0f} s: {args.out}")


if __name__ == "__main__":
    main()
