# SPDX-License-Identifier: Apache-2.0
"""Make the detector that the parameters ask for: our own runs a network in an ONNX file, on the CPU."""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from ghostshell_ros.perception.detector import Box, Detector, DetectorError, Pixels, letterbox, to_boxes
from skill_kernel.config.plugins import DETECTORS, PluginError, load_plugin, plugins

OWN_MODEL = Path(__file__).with_name("models") / "things.onnx"
"""Network for the things of the simulated worlds; models/README.md tells its data and its figures."""


class OnnxDetector:
    """Run a network with one input (1, 3, height, width), RGB from 0 to 1, and one output that `detector.decode` knows.

    `things.onnx` is such a network, and ultralytics exports them. The file's metadata entry `names` tells its classes.
    """

    def __init__(self, model: str | Path = "", *, confidence: float = 0.35, overlap: float = 0.5, threads: int = 1) -> None:
        """Load `model`, a file, or empty for our own. Raises DetectorError when it or onnxruntime is missing, or it is no such
        network."""
        try:
            import onnxruntime
        except ImportError as error:
            raise DetectorError(f"detector onnx needs the package onnxruntime ({error}): pip install onnxruntime") from error
        path = Path(model) if model else OWN_MODEL
        if not path.is_file():
            raise DetectorError(f"there is no model '{path}'; name an .onnx file, or none for our own")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise DetectorError(f"'{path}' is no model that onnxruntime can run: {str(error)[:200]}") from error
        meta: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map
        self.labels: Sequence[str] = _names(path, meta)
        self._input, self._size = self._shape(path, meta)
        self._confidence, self._overlap = confidence, overlap
        self._path = path

    def detect(self, pixels: Pixels) -> list[Box]:
        """See `Detector`."""
        height, width = pixels.shape[:2]
        if not height or not width:
            return []
        data, *placed = letterbox(pixels, *self._size)
        try:
            output = self._session.run(None, {self._input: data})[0]
            return to_boxes(
                output, self.labels, (placed[0], placed[1], placed[2]), (width, height), self._confidence, self._overlap
            )
        except ValueError as error:
            raise DetectorError(f"'{self._path}': {error}") from error
        except Exception as error:
            raise DetectorError(f"'{self._path}' failed on an image of {width} x {height}: {str(error)[:200]}") from error

    def _shape(self, path: Path, meta: Mapping[str, str]) -> tuple[str, tuple[int, int]]:
        """Return the input's name, width and height, from the metadata `imgsz` where the file leaves them open."""
        inputs = self._session.get_inputs()
        shape = list(inputs[0].shape)
        if len(inputs) != 1 or len(shape) != 4 or shape[1] != 3 or inputs[0].type != "tensor(float)":
            takes = ", ".join(f"{one.name} {one.type} {one.shape}" for one in inputs)
            raise DetectorError(f"'{path}' takes {takes}; a detector here takes one tensor(float) of [1, 3, height, width]")
        if not all(isinstance(side, int) and side > 0 for side in shape[2:]):
            try:
                height, width = ast.literal_eval(meta["imgsz"])
            except (KeyError, ValueError, TypeError, SyntaxError) as error:
                raise DetectorError(
                    f"'{path}' leaves the size of its input open ({shape}); export it with a fixed size, or with imgsz in its "
                    "metadata"
                ) from error
            shape[2:] = int(height), int(width)
        return str(inputs[0].name), (int(shape[3]), int(shape[2]))


def _names(path: Path, meta: Mapping[str, str]) -> tuple[str, ...]:
    """Return the labels in the order of the classes, from `names`: a dict by number or a list, as Python writes them."""
    try:
        names = ast.literal_eval(meta["names"])
        ordered = [names[i] for i in range(len(names))]
    except (KeyError, ValueError, TypeError, SyntaxError, IndexError) as error:
        raise DetectorError(f"'{path}' does not tell its classes; add names to its metadata: {{0: 'person'}}") from error
    if not ordered or not all(isinstance(name, str) and name for name in ordered):
        raise DetectorError(f"'{path}' has the classes {ordered!r:.80}; each needs a name")
    return tuple(ordered)


def kinds() -> tuple[str, ...]:
    """Return the names of all detectors: the project's own, then those of installed packages."""
    return ("onnx", "yolo", *plugins(DETECTORS))


def make_detector(
    kind: str, *, model: str = "", confidence: float = 0.35, overlap: float = 0.5, threads: int = 1, looks: Sequence[str] = ()
) -> Detector:
    """Return a detector of one of `kinds()`. Raises DetectorError when it cannot be made."""
    if kind == "onnx":
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
