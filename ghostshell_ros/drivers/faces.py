# SPDX-License-Identifier: Apache-2.0
"""Draw the facial expressions of `faces.yaml` for a small display."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skill_kernel.config.yaml_text import read_yaml

if TYPE_CHECKING:
    from PIL import ImageDraw

WIDTH, HEIGHT = 320, 240
_SCALE = 3
"""Pictures are drawn this much larger and then reduced, which smooths their edges."""
_SHAPES: dict[str, Any] = read_yaml(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_COLOURS: dict[str, tuple[int, int, int]] = {name: tuple(rgb) for name, rgb in _SHAPES["colours"].items()}
FACES: tuple[str, ...] = tuple(_SHAPES["faces"])
"""Names of the known faces."""
EMOTIONS: dict[str, str] = _SHAPES["emotions"]
"""Names of the faces that show emotions."""

Point = tuple[float, float]


@lru_cache(maxsize=len(FACES))
def draw(name: str) -> npt.NDArray[np.uint8]:
    """Return the face as HEIGHT x WIDTH x 3, RGB. Raises KeyError for an unknown name."""
    from PIL import Image, ImageDraw  # not for those who only want the names

    face = _SHAPES["faces"][name]
    image = Image.new("RGB", (WIDTH * _SCALE, HEIGHT * _SCALE), _COLOURS["night"])
    pen = _Pen(ImageDraw.Draw(image), face.get("colour", "cyan"))
    both = face.get("eyes", "round")
    for x, side, eye in ((96, -1, face.get("right_eye", both)), (224, 1, face.get("left_eye", both))):
        pen.middle, pen.side = (x, 100), side
        if eye in _SHAPES["open_eyes"]:
            pen.open_eye(_SHAPES["open_eyes"][eye], face.get("gaze", (0.0, 0.0)), sparkles=2 if eye == "puppy" else 1)
        pen.strokes(_SHAPES["eyes"].get(eye, ()))
        if "brow" in face:
            slope = 32 * face["brow"]
            pen.line([(-32, -56 - slope), (32, -56 + slope)], width=8)
    pen.middle, pen.side = (0, 0), 1
    for stroke in (_SHAPES["mouths"][face.get("mouth", "smile")], *(_SHAPES["extras"][e] for e in face.get("extras", ()))):
        pen.strokes(stroke)
    pixels = np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS), dtype=np.uint8)
    pixels.setflags(write=False)
    return pixels


class _Pen:
    """Draw about `middle`, in px of the finished picture; where `side` is -1, x is mirrored."""

    def __init__(self, canvas: ImageDraw.ImageDraw, colour: str) -> None:
        self._canvas, self._colour = canvas, colour
        self.middle: Point = (0, 0)
        self.side = 1

    def strokes(self, strokes: Sequence[dict[str, Any]]) -> None:
        """Draw strokes as `faces.yaml` describes them."""
        for stroke in strokes:
            ((kind, numbers),) = ((key, value) for key, value in stroke.items() if key not in ("width", "colour"))
            width, colour = stroke.get("width", 9), stroke.get("colour", "")
            if kind == "line":
                self.line(numbers, width, colour)
            elif kind == "polygon":
                self.polygon(numbers, colour)
            elif kind == "ellipse":
                x, y, rx, ry = numbers
                self.ellipse(x, y, rx, ry, colour)
            elif kind == "arc":
                self.line(_arc(*numbers), width, colour)
            elif kind == "bowl":
                self.polygon(_arc(*numbers), colour)
            elif kind == "wave":
                self.line(_wave(*numbers), width, colour)
            else:
                x, y, size = numbers
                self.ellipse(x, y, size, size, colour)
                side, top = 0.92 * size, y - 0.4 * size
                self.polygon([(x - side, top), (x + side, top), (x, y - 2.4 * size)], colour)

    def ellipse(self, x: float, y: float, rx: float, ry: float, colour: str = "") -> None:
        ((x, y),) = self._placed([(x, y)])
        rx, ry = rx * _SCALE, ry * _SCALE
        self._canvas.ellipse((x - rx, y - ry, x + rx, y + ry), fill=self._fill(colour))

    def polygon(self, points: Sequence[Point], colour: str = "") -> None:
        self._canvas.polygon(self._placed(points), fill=self._fill(colour))

    def line(self, points: Sequence[Point], width: float, colour: str = "") -> None:
        """Draw a stroke with round ends."""
        self._canvas.line(self._placed(points), fill=self._fill(colour), width=round(width * _SCALE), joint="curve")
        for x, y in (points[0], points[-1]):
            self.ellipse(x, y, width / 2, width / 2, colour)

    def open_eye(self, shape: tuple[float, float, float], gaze: Point, sparkles: int) -> None:
        """Draw an eye of half width, half height and radius of the pupil. It looks to `gaze`, right and down, each -1 to 1."""
        rx, ry, pupil = shape
        self.ellipse(0, 0, rx, ry)
        px, py = gaze[0] * (rx - pupil) * 0.8 * self.side, gaze[1] * (ry - pupil) * 0.8
        self.ellipse(px, py, pupil, pupil, "night")
        # The light comes from the left of the picture for both eyes.
        for at, size in ((-0.35, 0.32), (0.35, 0.22))[:sparkles]:
            down = -0.4 if at < 0 else at
            self.ellipse(px + pupil * at * self.side, py + pupil * down, pupil * size, pupil * size, "white")

    def _placed(self, points: Sequence[Point]) -> list[Point]:
        return [((self.middle[0] + self.side * x) * _SCALE, (self.middle[1] + y) * _SCALE) for x, y in points]

    def _fill(self, colour: str) -> tuple[int, int, int]:
        return _COLOURS[colour or self._colour]


def _arc(x: float, y: float, rx: float, ry: float, start: float, end: float) -> list[Point]:
    angles = np.radians(np.linspace(start, end, 41))
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


def _wave(start: float, end: float, y: float, height: float, waves: float) -> list[Point]:
    return [(start + (end - start) * u, y + height * math.sin(math.tau * waves * u)) for u in np.linspace(0.0, 1.0, 49)]
