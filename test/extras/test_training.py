# SPDX-License-Identifier: Apache-2.0
"""The way from random rooms to a model file, in small: what is trained here is only started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ghostshell_ros.perception.detector import OnnxDetector

pytest.importorskip("torch", reason="make test-extras installs it")
ROOT = Path(__file__).resolve().parents[2]


def _run(module: str, *arguments: object) -> str:
    command = [sys.executable, "-W", "ignore", "-m", f"scripts.detector.{module}", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_frames_are_rendered_trained_on_exported_and_judged(tmp_path: Path) -> None:
    rooms = tmp_path / "rooms"
    try:
        _run("render_frames", "--out", rooms, "--frames", 40, "--seed", 5)
    except AssertionError as error:
        if "EGL" in str(error) or "OpenGL" in str(error) or "GLContext" in str(error):
            pytest.skip("nothing can be rendered here")
        raise
    frames, rows = np.load(rooms / "frames.npy"), np.load(rooms / "boxes.npy")
    assert frames.shape == (40, 240, 320, 3) and len(rows) > 40
    assert (rows[:, 4] > rows[:, 2]).all() and (rows[:, 5] > rows[:, 3]).all() and rows[:, 4].max() <= 320

    again = tmp_path / "again"
    _run("render_frames", "--out", again, "--frames", 40, "--seed", 5)
    assert np.array_equal(rows, np.load(again / "boxes.npy")), "the same seed gives the same worlds"

    told = _run("train", "--data", rooms, "--out", tmp_path / "weights.pt", "--epochs", 2, "--batch", 4, "--threads", 1)
    assert "epoch 2" in told
    _run("export", tmp_path / "weights.pt", tmp_path / "model.onnx")
    detector = OnnxDetector(tmp_path / "model.onnx", confidence=0.0)
    assert tuple(detector.labels) == ("person", "chair", "ball", "apple", "bottle", "door")
    assert detector.detect(frames[0])
    assert "AP@0.5" in _run("evaluate", rooms, "--model", tmp_path / "model.onnx")


def test_the_exported_model_answers_as_the_network_does(tmp_path: Path) -> None:
    import torch

    from ghostshell_ros.perception.detector import letterbox, to_boxes
    from scripts.detector.network import Answers, Network
    from scripts.detector.shapes import LABELS

    torch.manual_seed(2)
    network = Network(len(LABELS)).eval()
    torch.save({"network": network.state_dict(), "labels": LABELS}, tmp_path / "weights.pt")
    _run("export", tmp_path / "weights.pt", tmp_path / "model.onnx")
    image = np.random.default_rng(4).integers(0, 255, (240, 320, 3), np.uint8)
    with torch.no_grad():
        answers = Answers(network, 240, 320).eval()(torch.from_numpy(letterbox(image, 320, 240)[0])).numpy()
    theirs = to_boxes(answers, LABELS, (1.0, 0.0, 0.0), (320, 240), 0.0, 0.5)
    ours = OnnxDetector(tmp_path / "model.onnx", confidence=0.0).detect(image)
    assert len(ours) == len(theirs) and ours
    for mine, other in zip(ours[:20], theirs[:20], strict=True):
        assert mine.label == other.label and mine.left == pytest.approx(other.left, abs=0.05)
