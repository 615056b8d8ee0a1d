# SPDX-License-Identifier: Apache-2.0
"""Detect objects, pixels in, boxes out: make the detector, fit images to a network, read its output, place the boxes."""

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from skill_kernel.config.plugins import DETECTORS, PluginError, load_plugin, plugins
from skill_kernel.safety.obstacles import scan_points
from skill_kernel.skills.drivers import Pose2D, Scan

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


class DetectorError(RuntimeError):
    """Say that a detector cannot be made or cannot look; the message names the fault and what to do."""


@dataclass(frozen=True)
class Box:
    """Hold one thing in an image: confidence from 0 to 1, edges in px from the image's left and top.

    `right` and `bottom` are the first that do not belong to it.
    """

    label: str
    confidence: float
    left: float
    top: float
    right: float
    bottom: float


class Detector(Protocol):
    """Look at one image at a time, on one thread."""

    @property
    def labels(self) -> Sequence[str]:
        """Return every label it can give."""
        ...

    def detect(self, pixels: Pixels) -> list[Box]:
        """Return what is in an image of shape (height, width, 3), RGB; nothing for one without pixels. Raises DetectorError."""
        ...


PADDING = 114
"""Grey that the YOLO family is trained to see beside an image."""
MOST_CANDIDATES = 300
"""Number of the surest boxes that are compared with each other."""


def letterbox(pixels: Pixels, width: int, height: int) -> tuple[Floats, float, float, float]:
    """Return the image as network input (1, 3, height, width) from 0 to 1, scaled as a whole and centred on grey, with its
    scale and the left and upper border in px."""
    rows, columns = pixels.shape[:2]
    scale = min(width / columns, height / rows)
    size = max(1, round(columns * scale)), max(1, round(rows * scale))
    left, top = (width - size[0]) // 2, (height - size[1]) // 2
    framed = Image.new("RGB", (width, height), (PADDING, PADDING, PADDING))
    framed.paste(Image.fromarray(pixels).resize(size, Image.Resampling.BILINEAR), (left, top))
    channels = np.asarray(framed, dtype=np.float32).transpose(2, 0, 1)
    return np.ascontiguousarray(channels[None]) / np.float32(255.0), scale, left, top


def decode(output: npt.NDArray[Any], classes: int) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    """Return edges (left, top, right, bottom; N x 4), scores and class numbers from a network's output.

    Two layouts are known: (1, 4 + classes, N) with centre, width and height before the scores, still overlapping, and
    (1, N, 6) with edges, score and class, already chosen. Raises ValueError for another.
    """
    if output.ndim == 3 and output.shape[0] == 1 and output.shape[1] == 4 + classes:
        table = output[0].astype(np.float32, copy=False)
        best = table[4:].argmax(axis=0)
        centre, half = table[:2].T, table[2:4].T / 2
        with np.errstate(invalid="ignore"):  # a network that answers inf; `choose` leaves it out
            return np.concatenate([centre - half, centre + half], axis=1), table[4:].max(axis=0), best
    if output.ndim == 3 and output.shape[0] == 1 and output.shape[2] == 6:
        rows = output[0].astype(np.float32, copy=False)
        rows = rows[np.isfinite(rows).all(axis=1)]
        numbers = rows[:, 5].astype(np.intp)
        known = (numbers >= 0) & (numbers < classes)
        return rows[known, :4], rows[known, 4], numbers[known]
    raise ValueError(f"its output has the shape {output.shape}, not (1, {4 + classes}, N) or (1, N, 6)")


def choose(
    edges: Floats, scores: Floats, numbers: npt.NDArray[np.intp], confidence: float, overlap: float
) -> npt.NDArray[np.intp]:
    """Return the rows to keep, surest first: the surest of boxes of one class whose `iou` is above `overlap`."""
    sound = np.isfinite(edges).all(axis=1) & np.isfinite(scores) & (scores >= confidence)
    sound &= (edges[:, 2:] > edges[:, :2]).all(axis=1)
    candidates = np.flatnonzero(sound)
    candidates = candidates[np.argsort(-scores[candidates], kind="stable")][:MOST_CANDIDATES]
    kept: list[int] = []
    while candidates.size:
        first, rest = candidates[0], candidates[1:]
        kept.append(int(first))
        same = numbers[rest] == numbers[first]
        candidates = rest[~(same & (iou(edges[first], edges[rest]) > overlap))]
    return np.array(kept, dtype=np.intp)


def iou(one: Floats, many: Floats) -> Floats:
    """Return the intersection over union of a box (4) with others (N x 4)."""
    low, high = np.maximum(one[:2], many[:, :2]), np.minimum(one[2:], many[:, 2:])
    inside = np.clip(high - low, 0.0, None).prod(axis=1)
    union = (one[2:] - one[:2]).prod() + (many[:, 2:] - many[:, :2]).prod(axis=1) - inside
    return np.asarray(inside / np.maximum(union, 1e-9), dtype=np.float32)


def to_boxes(
    output: npt.NDArray[Any],
    labels: Sequence[str],
    placed: tuple[float, float, float],
    size: tuple[int, int],
    confidence: float,
    overlap: float,
) -> list[Box]:
    """Return the boxes in an image of `size` (width, height) that `letterbox` placed by `placed` (scale, left, top)."""
    edges, scores, numbers = decode(output, len(labels))
    scale, left, top = placed
    found = []
    for i in choose(edges, scores, numbers, confidence, overlap):
        x0, y0, x1, y1 = ((edges[i] - (left, top, left, top)) / scale).tolist()
        x0, x1 = (min(max(0.0, x), float(size[0])) for x in (x0, x1))
        y0, y1 = (min(max(0.0, y), float(size[1])) for y in (y0, y1))
        if x1 > x0 and y1 > y0:
            found.append(Box(labels[numbers[i]], min(1.0, float(scores[i])), x0, y0, x1, y1))
    return found


OWN_MODEL = Path(__file__).with_name("models") / "things.onnx"
"""Network for the things of the simulated worlds; models/README.md tells its data and its figures."""


class OnnxDetector:
    """Run a network with one input (1, 3, height, width), RGB from 0 to 1, and one output that `decode` knows.

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


class YoloDetector:
    """Run any weights that `ultralytics.YOLO` loads for detection, by that package: an extra under AGPL-3.0."""

    def __init__(
        self, model: str, *, confidence: float = 0.35, overlap: float = 0.5, threads: int = 1, words: Sequence[str] = ()
    ) -> None:
        """Load `model`, a file, or a name that ultralytics knows and then downloads (`yolo11n.pt`). One with an open
        vocabulary (`yolov8s-worldv2.pt`) looks for `words`.

        Raises DetectorError when ultralytics is missing or the weights cannot be had.
        """
        if not model:
            raise DetectorError("detector yolo needs weights: set the parameter model to a file or a name such as yolo11n.pt")
        try:
            import torch
            from ultralytics import YOLO
        except ImportError as error:
            raise DetectorError(
                f"detector yolo needs the package ultralytics ({error}): pip install -r requirements/perception.txt, or set "
                "detector to onnx"
            ) from error
        torch.set_num_threads(threads)
        try:
            self._model: Any = YOLO(model, task="detect")
            if words and hasattr(self._model, "set_classes"):
                self._model.set_classes(list(words))
            names = dict(enumerate(self._model.names)) if isinstance(self._model.names, list) else self._model.names
        except Exception as error:
            raise DetectorError(f"ultralytics cannot load '{model}': {str(error)[:200]}; name a file with weights") from error
        self.labels: Sequence[str] = tuple(names[i] for i in sorted(names))
        self._names = names
        self._options = {"conf": confidence, "iou": overlap, "verbose": False, "device": "cpu"}

    def detect(self, pixels: Pixels) -> list[Box]:
        """See `Detector`."""
        if not pixels.shape[0] or not pixels.shape[1]:
            return []
        try:
            (result,) = self._model.predict(pixels[..., ::-1].copy(), **self._options)
        except Exception as error:
            raise DetectorError(f"ultralytics failed on an image of shape {pixels.shape}: {str(error)[:200]}") from error
        boxes = result.boxes
        rows = zip(boxes.xyxy.tolist(), boxes.conf.tolist(), boxes.cls.tolist(), strict=True)
        return [Box(self._names[int(number)], float(score), *edges) for edges, score, number in rows]


def kinds() -> tuple[str, ...]:
    """Return the names of all detectors: the project's own, then those of installed packages."""
    return ("onnx", "yolo", *plugins(DETECTORS))


def make_detector(
    kind: str,
    *,
    model: str = "",
    confidence: float = 0.35,
    overlap: float = 0.5,
    threads: int = 1,
    looks: Sequence[str] = (),
    words: Sequence[str] = (),
) -> Detector:
    """Return a detector of one of `kinds()`; `words` are what one with an open vocabulary looks for. Raises DetectorError when
    it cannot be made."""
    if kind == "onnx":
        return OnnxDetector(model, confidence=confidence, overlap=overlap, threads=threads)
    if kind == "yolo":
        return YoloDetector(model, confidence=confidence, overlap=overlap, threads=threads, words=words)
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


EDGE_PX = 1.5
"""Distance from the image's edge within which a thing goes on beyond it."""
RAYS = 1.5
"""Steps of the scan looked at to each side of a thing that is far away and narrow: one of them meets it."""
GROUND_REACH_M = 6.0
"""Farther away a pixel of the lower edge is worth too many metres."""


@dataclass(frozen=True)
class Camera:
    """Describe a level camera: focal length and size of its image in px, its place in the base frame in m."""

    focal: float
    width: int
    height: int
    forward: float
    above_ground: float


def place(box: Box, camera: Camera, laser: Pose2D, scan: Scan | None, width_m: float = 0.0) -> tuple[float, float]:
    """Return bearing in rad and distance in m to the surface, in the base frame; the distance is nan when nothing tells it.

    `laser` is the lidar's pose in the base frame. A thing whose width is known (`width_m` > 0) is as far as it is small. Any
    other stands on the ground: where the lidar meets something in its direction, else where its lower edge meets the ground.
    """
    direction = math.atan2(camera.width / 2 - (box.left + box.right) / 2, camera.focal)
    ahead = math.nan
    if width_m > 0:
        if box.left > EDGE_PX and box.right < camera.width - EDGE_PX:
            ahead = camera.focal * width_m / (box.right - box.left)
    else:
        half = camera.focal / math.cos(direction)
        ranged = _range(scan, laser, camera, direction, (box.right - box.left) / 4 / half) if scan is not None else math.inf
        ahead = ranged if math.isfinite(ranged) else _on_ground(box, camera)
    if math.isnan(ahead):
        # The camera sits so near the middle that over a room the two directions are much the same.
        return direction, math.nan
    x, y = camera.forward + ahead, ahead * math.tan(direction)
    return math.atan2(y, x), math.hypot(x, y)


def _on_ground(box: Box, camera: Camera) -> float:
    """Return the way along the camera's axis to where the box's lower edge meets the ground; nan when that is out of sight."""
    below = box.bottom - camera.height / 2
    if below <= 0 or box.bottom >= camera.height - EDGE_PX:
        return math.nan
    ahead = camera.focal * camera.above_ground / below
    return ahead if ahead <= GROUND_REACH_M else math.nan


def _range(scan: Scan, laser: Pose2D, camera: Camera, direction: float, half_width: float) -> float:
    """Return the way along the camera's axis to the nearest echo that it sees within `half_width` rad of `direction`."""
    points = scan_points(scan, (laser.x, laser.y, laser.yaw))
    ahead, margin = points[:, 0] - camera.forward, max(half_width, RAYS * abs(scan.angle_step))
    met = (ahead > 0.0) & (np.abs(np.arctan2(points[:, 1], ahead) - direction) <= margin)
    return float(ahead[met].min(initial=math.inf))
