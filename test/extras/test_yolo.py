# SPDX-License-Identifier: Apache-2.0
"""The detector yolo with the real package ultralytics; the weights are random, made here, because none can be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ghostshell_ros.perception.detector import Box, DetectorError, iou, make_detector

ultralytics = pytest.importorskip("ultralytics", reason="make test-extras installs it")

LEAST = 1e-4
"""Random weights are sure of nothing."""
IMAGE = np.random.default_rng(3).integers(0, 255, (240, 320, 3), np.uint8)


@pytest.fixture(scope="module", params=["yolo11n.yaml", "yolo26n.yaml"])
def weights(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of both kinds: those that need non-maximum suppression after them, and those that do not."""
    import torch

    torch.manual_seed(1)
    file = tmp_path_factory.mktemp("weights") / Path(request.param).with_suffix(".pt")
    model: Any = ultralytics.YOLO(request.param, task="detect")
    for part in model.model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = 1.0
    # Once through in training, so that what a layer gives depends on what it gets.
    with torch.no_grad():
        model.model.train()(torch.rand(8, 3, 128, 128))
    model.model.eval()
    model.model.names = {i: f"thing {i}" for i in range(80)}
    model.save(str(file))
    return file


def _edges(boxes: list[Box]) -> np.ndarray:
    return np.array([[b.left, b.top, b.right, b.bottom] for b in boxes], np.float32)


def test_weights_from_a_file_see_what_ultralytics_sees(weights: Path) -> None:
    detector = make_detector("yolo", model=str(weights), confidence=LEAST)
    assert list(detector.labels)[:2] == ["thing 0", "thing 1"] and len(detector.labels) == 80
    boxes = detector.detect(IMAGE)
    (result,) = ultralytics.YOLO(str(weights)).predict(
        IMAGE[..., ::-1].copy(), conf=LEAST, iou=0.5, verbose=False, device="cpu"
    )
    assert boxes, "random weights that see nothing test nothing"
    assert np.allclose(_edges(boxes), result.boxes.xyxy.numpy(), atol=1e-3)
    assert [b.label for b in boxes] == [f"thing {int(c)}" for c in result.boxes.cls]
    assert all(0 <= b.left < b.right <= 320 and 0 <= b.top < b.bottom <= 240 for b in boxes)


def test_red_and_blue_are_not_swapped(weights: Path) -> None:
    detector = make_detector("yolo", model=str(weights), confidence=LEAST)
    assert detector.detect(IMAGE) != detector.detect(IMAGE[..., ::-1].copy())


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (1, 900), (2000, 3000)])
def test_images_of_any_size_are_taken(weights: Path, size: tuple[int, int]) -> None:
    make_detector("yolo", model=str(weights)).detect(np.full((*size, 3), 128, np.uint8))


def test_an_open_vocabulary_looks_for_the_robots_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from ultralytics.nn.tasks import WorldModel

    # The weights of the encoder of texts cannot be loaded here.
    monkeypatch.setattr(WorldModel, "get_text_pe", lambda self, text, **_: torch.randn(1, len(text), 512))
    file = tmp_path / "yolov8s-worldv2.pt"
    torch.save({"model": ultralytics.YOLO("yolov8s-worldv2.yaml").model, "train_args": {}}, file)
    detector = make_detector("yolo", model=str(file), confidence=LEAST, words=["cup", "red ball", "door"])
    assert list(detector.labels) == ["cup", "red ball", "door"]
    assert {box.label for box in detector.detect(IMAGE)} <= {"cup", "red ball", "door"}


def test_weights_that_are_none_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("weights")
    with pytest.raises(DetectorError, match=r"text\.pt"):
        make_detector("yolo", model=str(tmp_path / "text.pt"))
    with pytest.raises(DetectorError, match=r"none\.pt"):
        make_detector("yolo", model=str(tmp_path / "none.pt"))


def test_what_ultralytics_exports_is_a_model_for_the_light_detector(weights: Path) -> None:
    exported = ultralytics.YOLO(str(weights)).export(format="onnx", imgsz=(256, 320), simplify=False, verbose=False)
    light = make_detector("onnx", model=str(exported), confidence=LEAST)
    assert list(light.labels) == [f"thing {i}" for i in range(80)]
    image = np.ascontiguousarray(IMAGE[:, :300])
    boxes = light.detect(image)
    (result,) = ultralytics.YOLO(str(weights)).predict(
        image[..., ::-1].copy(), conf=LEAST, iou=0.5, imgsz=(256, 320), rect=False, verbose=False, device="cpu"
    )
    theirs = result.boxes.xyxy.numpy()
    assert boxes and len(theirs)
    # The padding differs by a fraction of a pixel, so the least sure ones may come and go.
    surest = _edges(boxes)[:5]
    assert all(iou(box, theirs).max() > 0.8 for box in surest)
