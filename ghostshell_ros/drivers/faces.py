# SPDX-License-Identifier: Apache-2.0
"""Facial expressions for a small display, drawn from simple shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

WIDTH, HEIGHT = 320, 240
_SCALE = 3
"""Drawn this much larger and reduced, which smooths the edges."""

Colour = tuple[int, int, int]
NIGHT: Colour = (12, 16, 28)
CYAN: Colour = (92, 225, 255)
WARM: Colour = (255, 214, 120)
GREEN: Colour = (140, 240, 170)
BLUE: Colour = (110, 150, 255)
RED: Colour = (255, 96, 84)
PINK: Colour = (255, 132, 176)
VIOLET: Colour = (190, 160, 255)


@dataclass(frozen=True)
class Expression:
    """A face: the shape of each eye (the robot's own left is drawn on the right), mouth, brows and what is added.

    `brow` is the slope of the brows: positive is worried, negative is angry, None leaves them out. `gaze` moves the
    pupils by (right, down), each -1..1.
    """

    eyes: str = "round"
    mouth: str = "smile"
    colour: Colour = CYAN
    left_eye: str = ""
    right_eye: str = ""
    brow: float | None = None
    gaze: tuple[float, float] = (0.0, 0.0)
    extras: tuple[str, ...] = ()


FACES: dict[str, Expression] = {
    "neutral": Expression(mouth="flat"),
    "smile": Expression(mouth="smile"),
    "happy": Expression("arch", "grin", WARM, extras=("blush",)),
    "laugh": Expression("squeezed", "laugh", WARM, extras=("blush", "tear")),
    "excited": Expression("star", "laugh", WARM),
    "proud": Expression("half", "smirk", WARM, brow=-0.1),
    "calm": Expression("closed", "soft", GREEN),
    "love": Expression("heart", "grin", PINK, extras=("blush",)),
    "shy": Expression("round", "small", PINK, gaze=(0.5, 0.7), extras=("blush",)),
    "wink": Expression(mouth="smirk", colour=WARM, right_eye="arch"),
    "wink_left": Expression(mouth="smirk", colour=WARM, left_eye="arch"),
    "wink_right": Expression(mouth="smirk", colour=WARM, right_eye="arch"),
    "surprise": Expression("wide", "o", CYAN, brow=0.0),
    "confused": Expression("round", "wave", VIOLET, left_eye="half", brow=0.3, extras=("question",)),
    "thinking": Expression("round", "aside", VIOLET, brow=0.0, gaze=(0.6, -0.8), extras=("dots",)),
    "bored": Expression("half", "flat", BLUE, gaze=(-0.6, 0.3)),
    "sleepy": Expression("closed", "small", BLUE, extras=("zzz",)),
    "sad": Expression("round", "frown", BLUE, brow=0.4, gaze=(0.0, 0.5)),
    "cry": Expression("closed", "frown", BLUE, brow=0.4, extras=("tears",)),
    "pitiable": Expression("puppy", "quiver", BLUE, brow=0.5, extras=("tear",)),
    "fear": Expression("small_pupil", "wave", VIOLET, brow=0.5, extras=("sweat",)),
    "very_fear": Expression("tiny_pupil", "scream", VIOLET, brow=0.6, extras=("sweat", "gloom")),
    "angry": Expression("glare", "frown", RED, brow=-0.5),
    "disgust": Expression("half", "wave", GREEN, brow=-0.25),
    "dizzy": Expression("cross", "wave", VIOLET, extras=("dots",)),
}
"""The known faces by name."""


@lru_cache(maxsize=len(FACES))
def draw(name: str) -> npt.NDArray[np.uint8]:
    """Return the face as HEIGHT x WIDTH x 3. Raises KeyError for an unknown name."""
    face = FACES[name]
    image = Image.new("RGB", (WIDTH * _SCALE, HEIGHT * _SCALE), NIGHT)
    pen = _Pen(ImageDraw.Draw(image), face.colour)
    for x, side, eye in ((96, -1, face.right_eye or face.eyes), (224, 1, face.left_eye or face.eyes)):
        pen.eye(eye, x, 100, side, face.gaze)
        if face.brow is not None:
            slope = face.brow * side
            pen.line([(x - 32, 44 - slope * 32), (x + 32, 44 + slope * 32)], width=8)
    _MOUTHS[face.mouth](pen)
    for extra in face.extras:
        _EXTRAS[extra](pen)
    pixels = np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS), dtype=np.uint8)
    pixels.setflags(write=False)
    return pixels


class _Pen:
    """Draws in the face's colour, in units of the finished picture."""

    def __init__(self, canvas: ImageDraw.ImageDraw, colour: Colour) -> None:
        self._canvas = canvas
        self.colour = colour

    def ellipse(self, x: float, y: float, rx: float, ry: float, colour: Colour | None = None) -> None:
        self._canvas.ellipse([c * _SCALE for c in (x - rx, y - ry, x + rx, y + ry)], fill=colour or self.colour)

    def box(self, x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
        self._canvas.rectangle([c * _SCALE for c in (x0, y0, x1, y1)], fill=colour)

    def polygon(self, points: list[tuple[float, float]], colour: Colour | None = None) -> None:
        self._canvas.polygon([(x * _SCALE, y * _SCALE) for x, y in points], fill=colour or self.colour)

    def line(self, points: list[tuple[float, float]], width: float = 9, colour: Colour | None = None) -> None:
        """A stroke with round ends."""
        scaled = [(x * _SCALE, y * _SCALE) for x, y in points]
        self._canvas.line(scaled, fill=colour or self.colour, width=round(width * _SCALE), joint="curve")
        for x, y in (points[0], points[-1]):
            self.ellipse(x, y, width / 2, width / 2, colour)

    def arc(self, x: float, y: float, rx: float, ry: float, start: float, end: float, width: float = 9) -> None:
        """Part of an ellipse from `start` to `end` degrees, clockwise from the right."""
        steps = [math.radians(start + (end - start) * k / 40) for k in range(41)]
        self.line([(x + rx * math.cos(a), y + ry * math.sin(a)) for a in steps], width)

    def eye(self, kind: str, x: float, y: float, side: int, gaze: tuple[float, float]) -> None:
        if kind == "arch":
            self.arc(x, y + 16, 30, 32, 200, 340, 10)
        elif kind == "closed":
            self.arc(x, y - 6, 30, 22, 20, 160, 10)
        elif kind == "squeezed":
            self.line([(x + side * 26, y - 22), (x - side * 22, y), (x + side * 26, y + 22)], 10)
        elif kind == "cross":
            self.line([(x - 24, y - 24), (x + 24, y + 24)], 10)
            self.line([(x - 24, y + 24), (x + 24, y - 24)], 10)
        elif kind == "heart":
            self.ellipse(x - 15, y - 10, 19, 19)
            self.ellipse(x + 15, y - 10, 19, 19)
            self.polygon([(x - 32, y), (x + 32, y), (x, y + 38)])
        elif kind == "star":
            tips = [math.radians(-90 + 36 * k) for k in range(10)]
            radii = [38 if k % 2 == 0 else 16 for k in range(10)]
            self.polygon([(x + r * math.cos(a), y + r * math.sin(a)) for r, a in zip(radii, tips, strict=True)])
        else:
            self._open_eye(kind, x, y, side, gaze)

    def _open_eye(self, kind: str, x: float, y: float, side: int, gaze: tuple[float, float]) -> None:
        rx, ry, pupil = _OPEN_EYES.get(kind, (31, 36, 15))
        self.ellipse(x, y, rx, ry)
        px, py = x + gaze[0] * (rx - pupil) * 0.8, y + gaze[1] * (ry - pupil) * 0.8
        self.ellipse(px, py, pupil, pupil, NIGHT)
        self.ellipse(px - pupil * 0.35, py - pupil * 0.4, pupil * 0.32, pupil * 0.32, (255, 255, 255))
        if kind == "puppy":
            self.ellipse(px + pupil * 0.35, py + pupil * 0.35, pupil * 0.22, pupil * 0.22, (255, 255, 255))
        if kind == "half":
            self.box(x - rx - 2, y - ry - 2, x + rx + 2, y - 6, NIGHT)
            self.line([(x - rx, y - 6), (x + rx, y - 6)], 7)
        if kind == "glare":
            lid = [(x - side * (rx + 4), y - 2), (x + side * (rx + 4), y - ry - 2), (x, y - ry - 20)]
            self.polygon([*lid, (x - side * (rx + 4), y - ry - 20)], NIGHT)


_OPEN_EYES = {"wide": (38, 42, 15), "puppy": (38, 42, 27), "small_pupil": (34, 38, 9), "tiny_pupil": (38, 44, 5)}
"""Half width, half height and radius of the pupil of the eyes that are not the usual size."""


def _bowl(pen: _Pen, y: float, rx: float, ry: float) -> None:
    """The lower half of an ellipse."""
    angles = [math.pi * k / 40 for k in range(41)]
    pen.polygon([(160 + rx * math.cos(a), y + ry * math.sin(a)) for a in angles])


def _laugh(pen: _Pen) -> None:
    _bowl(pen, 164, 54, 56)
    pen.ellipse(160, 206, 26, 13, RED)


def _ring(pen: _Pen, y: float, rx: float, ry: float) -> None:
    pen.ellipse(160, y, rx, ry)
    pen.ellipse(160, y, rx - 9, ry - 9, NIGHT)


def _blush(pen: _Pen) -> None:
    for x in (48, 272):
        pen.ellipse(x, 152, 22, 11, (150, 62, 82))


def _gloom(pen: _Pen) -> None:
    for x in range(40, 290, 24):
        pen.line([(x, 6), (x, 34)], 4, BLUE)


def _dots(pen: _Pen) -> None:
    for x, radius in ((246, 5), (266, 6), (290, 8)):
        pen.ellipse(x, 24, radius, radius)


def _wave(pen: _Pen) -> None:
    pen.line([(112 + 2 * k, 186 + 9 * math.sin(k * 2 * math.pi / 16)) for k in range(49)], 8)


_MOUTHS: dict[str, Callable[[_Pen], None]] = {
    "smile": lambda pen: pen.arc(160, 160, 46, 34, 20, 160),
    "soft": lambda pen: pen.arc(160, 168, 30, 18, 20, 160),
    "grin": lambda pen: _bowl(pen, 168, 44, 40),
    "laugh": _laugh,
    "flat": lambda pen: pen.line([(124, 186), (196, 186)]),
    "small": lambda pen: pen.arc(160, 180, 14, 9, 10, 170, 7),
    "smirk": lambda pen: pen.arc(172, 160, 46, 34, 15, 110),
    "aside": lambda pen: pen.line([(164, 190), (206, 182)]),
    "frown": lambda pen: pen.arc(160, 214, 42, 32, 205, 335),
    "quiver": lambda pen: pen.line([(136 + 2 * k, 192 - 8 * math.sin(k * math.pi / 24)) for k in range(25)], 8),
    "wave": _wave,
    "o": lambda pen: _ring(pen, 188, 22, 28),
    "scream": lambda pen: _ring(pen, 192, 34, 38),
}


def _drop(pen: _Pen, x: float, y: float, size: float, colour: Colour) -> None:
    pen.ellipse(x, y, size, size, colour)
    pen.polygon([(x - size * 0.92, y - size * 0.4), (x + size * 0.92, y - size * 0.4), (x, y - size * 2.4)], colour)


def _zzz(pen: _Pen) -> None:
    for x, y, size in ((258, 62, 10), (276, 40, 13), (294, 16, 16)):
        pen.line([(x - size, y - size / 2), (x, y - size / 2), (x - size, y + size / 2), (x, y + size / 2)], 4)


def _question(pen: _Pen) -> None:
    pen.arc(284, 34, 13, 14, 180, 400, 6)
    pen.line([(293, 44), (284, 54), (284, 62)], 6)
    pen.ellipse(284, 74, 4, 4)


def _streams(pen: _Pen) -> None:
    for x in (96, 224):
        pen.line([(x, 124), (x, 214)], 12, (150, 190, 255))
        _drop(pen, x, 218, 11, (150, 190, 255))


_SKY: Colour = (160, 205, 255)
_EXTRAS: dict[str, Callable[[_Pen], None]] = {
    "blush": _blush,
    "tear": lambda pen: _drop(pen, 262, 142, 9, _SKY),
    "tears": _streams,
    "sweat": lambda pen: _drop(pen, 296, 66, 11, _SKY),
    "gloom": _gloom,
    "zzz": _zzz,
    "question": _question,
    "dots": _dots,
}
