# SPDX-License-Identifier: Apache-2.0
"""Define the detector of objects: pixels in, labelled boxes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]


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
