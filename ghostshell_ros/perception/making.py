# SPDX-License-Identifier: Apache-2.0
"""Make the detector that the parameters ask for, and import only what that one needs."""

from collections.abc import Mapping, Sequence

from ghostshell_ros.perception.detector import Detector, DetectorError
from skill_kernel.config.plugins import DETECTORS, PluginError, load_plugin, plugins


def kinds() -> tuple[str, ...]:
    """Return the names of all detectors: the project's own, then those of installed packages."""
    return ("onnx", "yolo", *plugins(DETECTORS))


def make_detector(
    kind: str, *, model: str = "", confidence: float = 0.35, overlap: float = 0.5, threads: int = 1, looks: Sequence[str] = ()
) -> Detector:
    """Return a detector of one of `kinds()`. Raises DetectorError when it cannot be made."""
    if kind == "onnx":
        try:
            from ghostshell_ros.perception.onnx_detector import OnnxDetector
        except ImportError as error:
            raise DetectorError(f"detector onnx needs the package onnxruntime ({error}): pip install onnxruntime") from error
        return OnnxDetector(model, confidence=confidence, overlap=overlap, threads=threads)
    if kind == "yolo":
        from ghostshell_ros.perception.yolo_detector import YoloDetector

        return YoloDetector(model, confidence=confidence, overlap=overlap, threads=threads)
    try:
        maker = load_plugin(DETECTORS, kind)
    except PluginError as error:
        raise DetectorError(str(error)) from error
    detector: Detector = maker(model=model, confidence=confidence, overlap=overlap, threads=threads, looks=looks)
    return detector


def read_labels(lines: Sequence[str]) -> Mapping[str, str]:
    """Return lines `<detector's label>: <the robot's>` as a dictionary. Raises ValueError for another line."""
    labels = {}
    for line in filter(None, lines):
        theirs, colon, ours = (part.strip() for part in line.partition(":"))
        if not (theirs and colon and ours):
            raise ValueError(f"'{line}' is not '<label of the detector>: <label of the robot>'")
        labels[theirs] = ours
    return labels


def read_widths(lines: Sequence[str]) -> Mapping[str, float]:
    """Return lines `<label>: <width in m>` as a dictionary. Raises ValueError for another line."""
    widths = {}
    for label, text in read_labels(lines).items():
        try:
            widths[label] = float(text)
        except ValueError as error:
            raise ValueError(f"'{label}: {text}' is not '<label>: <width in m>'") from error
        if not 0.0 < widths[label] < 100.0:
            raise ValueError(f"'{label}: {text}': a width is more than 0 and less than 100 m")
    return widths
