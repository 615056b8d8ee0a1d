# SPDX-License-Identifier: Apache-2.0
"""Detectors from ONNX files: our own on the simulator's pictures, others by what their file says, broken ones by name."""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from onnx_files import write_answer

from ghostshell_ros.perception.detector import Box, DetectorError, OnnxDetector, iou, make_detector, read_labels, read_widths

pytestmark = pytest.mark.component

NAMES = {"names": "{0: 'cat', 1: 'dog'}"}
CAT = np.array([[[160], [120], [40], [20], [0.9], [0.1]]], np.float32)


@lru_cache(maxsize=1)
def own() -> OnnxDetector:
    return OnnxDetector()


def test_a_file_tells_its_labels_and_its_answers_are_boxes(tmp_path: Path) -> None:
    detector = OnnxDetector(write_answer(tmp_path / "cat.onnx", CAT, NAMES))
    assert tuple(detector.labels) == ("cat", "dog")
    assert detector.detect(np.zeros((240, 320, 3), np.uint8)) == [Box("cat", pytest.approx(0.9), 140, 110, 180, 130)]
    assert detector.detect(np.zeros((480, 640, 3), np.uint8)) == [Box("cat", pytest.approx(0.9), 280, 220, 360, 260)]


def test_an_open_input_takes_the_size_that_the_metadata_names(tmp_path: Path) -> None:
    names = {**NAMES, "imgsz": "[64, 96]"}
    corner = np.array([[[86], [54], [20], [20], [0.9], [0.1]]], np.float32)
    file = write_answer(tmp_path / "open.onnx", corner, names, ("batch", 3, "height", "width"))
    assert OnnxDetector(file).detect(np.zeros((640, 960, 3), np.uint8)) == [Box("cat", pytest.approx(0.9), 760, 440, 960, 640)]
    with pytest.raises(DetectorError, match="imgsz"):
        OnnxDetector(write_answer(tmp_path / "no.onnx", CAT, NAMES, ("batch", 3, "height", "width")))


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({}, "does not tell its classes"),
        ({"names": "__import__('os').system('true')"}, "does not tell its classes"),
        ({"names": "{1: 'cat'}"}, "does not tell its classes"),
        ({"names": "{}"}, "needs a name"),
        ({"names": "[1, 2]"}, "needs a name"),
    ],
)
def test_a_file_without_sound_names_is_refused(tmp_path: Path, metadata: dict[str, str], complaint: str) -> None:
    with pytest.raises(DetectorError, match=complaint):
        OnnxDetector(write_answer(tmp_path / "model.onnx", CAT, metadata))


def test_a_file_that_is_missing_broken_or_no_detector_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DetectorError, match="there is no model"):
        OnnxDetector(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("weights")
    with pytest.raises(DetectorError, match="no model that onnxruntime can run"):
        OnnxDetector(tmp_path / "text.onnx")
    with pytest.raises(DetectorError, match="a detector here takes one"):
        OnnxDetector(write_answer(tmp_path / "flat.onnx", CAT, NAMES, (1, 10)))


def test_answers_of_an_unknown_layout_are_an_error_at_the_first_image(tmp_path: Path) -> None:
    detector = OnnxDetector(write_answer(tmp_path / "odd.onnx", np.zeros((1, 9, 5), np.float32), NAMES))
    with pytest.raises(DetectorError, match=r"odd\.onnx.*\(1, 9, 5\)"):
        detector.detect(np.zeros((10, 10, 3), np.uint8))


@pytest.mark.parametrize("size", [(0, 0), (0, 320), (240, 0), (1, 1), (1, 2000), (2000, 1), (3, 3), (3000, 4000)])
def test_our_own_takes_images_of_any_size(size: tuple[int, int]) -> None:
    boxes = own().detect(np.full((*size, 3), 128, np.uint8))
    assert all(0 <= b.left < b.right <= size[1] and 0 <= b.top < b.bottom <= size[0] for b in boxes)


def test_in_grey_black_white_and_noise_our_own_sees_nothing() -> None:
    noise = np.random.default_rng(1).integers(0, 255, (240, 320, 3), np.uint8)
    for image in (*(np.full((240, 320, 3), grey, np.uint8) for grey in (0, 114, 255)), noise):
        assert own().detect(image) == []


def test_the_kinds_are_named_and_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DetectorError, match="there is no 'magic' in ghostshell.detectors; installed: colour"):
        make_detector("magic")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(DetectorError, match="pip install onnxruntime"):
        make_detector("onnx")


def test_labels_and_widths_are_read_and_wrong_lines_named() -> None:
    assert read_labels(["", "sports ball: ball"]) == {"sports ball": "ball"}
    assert read_widths(["ball: 0.22"]) == {"ball": 0.22}
    for line in ("ball", ": ball", "ball:"):
        with pytest.raises(ValueError, match="label of the detector"):
            read_labels([line])
    for line in ("ball: wide", "ball: 0", "ball: nan"):
        with pytest.raises(ValueError, match="width"):
            read_widths([line])


@lru_cache(maxsize=1)
def scene() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Kalos's camera in the hallway of its building with the things before it, and the true edges of each."""
    mujoco = pytest.importorskip("mujoco")
    from ghostshell_ros.sim.parts import Legged
    from ghostshell_ros.sim.world import SimWorld, SimWorldError

    world = SimWorld("robots/kalos/kalos.xml", world="building")
    Legged(world, world.robot)
    world.step(400)
    model, data = world.model, world.data
    for name, (x, y, z) in {"ball": (2.0, -0.5, 0.11), "apple": (1.5, 0.05, 0.042), "bottle_green": (1.8, 0.35, 0.1)}.items():
        at = model.jnt_qposadr[model.body(name).jntadr[0]]
        data.qpos[at : at + 3] = x, y, z
    data.mocap_pos[model.body("person").mocapid[0]][:2] = 3.5, -0.25
    model.body("chair_office").pos[:2] = 3.0, 0.7
    mujoco.mj_forward(model, data)
    try:
        picture = world.render("front_camera", 320, 240)
    except SimWorldError as error:
        pytest.skip(f"nothing can be rendered here: {error}")
    renderer = mujoco.Renderer(model, height=240, width=320)
    renderer.enable_segmentation_rendering()
    renderer.update_scene(data, "front_camera")
    geoms = renderer.render()[..., 0]
    renderer.close()
    world.close()
    edges = {}
    for name, label in (("ball",) * 2, ("apple",) * 2, ("bottle_green", "bottle"), ("person",) * 2, ("chair_office", "chair")):
        mine = np.flatnonzero(model.geom_bodyid == model.body(name).id)
        ys, xs = np.nonzero(np.isin(geoms, mine))
        edges[label] = np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1], np.float32)
    return picture, edges


@pytest.mark.parametrize("label", ["person", "chair", "ball", "apple", "bottle"])
def test_our_own_finds_the_things_of_a_building_it_was_not_trained_in(label: str) -> None:
    picture, edges = scene()
    boxes = [b for b in own().detect(picture) if b.label == label]
    assert len(boxes) == 1, f"one {label}, not {boxes}"
    found = np.array([[boxes[0].left, boxes[0].top, boxes[0].right, boxes[0].bottom]], np.float32)
    assert iou(edges[label], found)[0] > 0.5 and math.isfinite(boxes[0].confidence)
