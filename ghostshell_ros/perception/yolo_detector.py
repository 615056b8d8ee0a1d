# SPDX-License-Identifier: Apache-2.0
"""Find things with a YOLO network of the package ultralytics (AGPL-3.0), an extra that is never installed by itself."""

from collections.abc import Sequence
from typing import Any

from ghostshell_ros.perception.detector import Box, DetectorError, Pixels


class YoloDetector:
    """Run any weights that `ultralytics.YOLO` loads for detection."""

    def __init__(self, model: str, *, confidence: float = 0.35, overlap: float = 0.5, threads: int = 1) -> None:
        """Load `model`, a file, or a name that ultralytics knows and then downloads (`yolo11n.pt`).

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
            names = self._model.names
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
