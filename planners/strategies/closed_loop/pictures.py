# SPDX-License-Identifier: Apache-2.0
"""Take what the cameras show, bound it for a model, and compare two looks at one place."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planners.models.base import Image
from planners.strategy import RobotView

MAX_PX = 1024
"""Longest side of a picture that a model is sent."""
GRID = 24
"""Cells along each side in which two pictures are compared."""
CHANGED = 14
"""Difference of a cell's mean colour that counts as a change, of 255: above a camera's noise, below the smallest thing."""

Box = tuple[float, float, float, float]
"""Left, top, right and bottom as shares of the picture's width and height."""
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
UNREADABLE = "the camera's picture cannot be read"
NONE = "the camera has sent no picture of late"


@dataclass(frozen=True)
class Pictures:
    """Hold one look through all cameras: a picture a robot, or why there is none."""

    images: Mapping[str, Image]
    missing: Mapping[str, str]

    @classmethod
    def take(cls, robots: Mapping[str, RobotView]) -> "Pictures":
        """Return the newest pictures, none larger than a model is sent."""
        images: dict[str, Image] = {}
        missing: dict[str, str] = {}
        for name, robot in robots.items():
            newest = list(robot.images())[-1:]
            bounded = _bounded(newest[0]) if newest else None
            if bounded is None:
                missing[name] = UNREADABLE if newest else NONE
            else:
                images[name] = bounded
        return cls(images, missing)

    def shown(self) -> Sequence[Mapping[str, str]]:
        """Return the items of the block IMAGES."""
        there = [{"robot": name} for name in self.images]
        return [*there, *({"robot": name, "missing": why} for name, why in self.missing.items())]

    def same(self, now: "Pictures", regions: Mapping[str, Box]) -> bool:
        """Return whether the regions look now as they did then: the whole of each picture where none is told."""
        regions = regions or dict.fromkeys(self.images, WHOLE)
        return bool(regions) and all(
            name in self.images and name in now.images and _same(self.images[name], now.images[name], box)
            for name, box in regions.items()
        )


NO_PICTURES = Pictures({}, {})


def _opened(image: Image) -> Any:
    from PIL import Image as Pillow  # takes a while, and most processes never need it

    return Pillow.open(io.BytesIO(image.data))


def _bounded(image: Image) -> Image | None:
    """Return the picture no larger than MAX_PX, in its own bytes where it is that already; None where it cannot be read."""
    try:
        picture = _opened(image)
        if max(picture.size) <= MAX_PX:
            picture.load()
            return image
        picture.draft("RGB", (MAX_PX, MAX_PX))
        picture = picture.convert("RGB")
        picture.thumbnail((MAX_PX, MAX_PX))
    except Exception:  # noqa: BLE001 - Pillow raises nearly anything for a broken file, and none of it may end a plan
        return None
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=90)
    return Image(buffer.getvalue(), image.taken_s)


def _same(before: Image, now: Image, box: Box) -> bool:
    from PIL import Image as Pillow
    from PIL import ImageChops

    if before.data == now.data:
        return True
    first, second = (_opened(image).convert("RGB") for image in (before, now))
    boxes = [(box[0] * w, box[1] * h, box[2] * w, box[3] * h) for w, h in (first.size, second.size)]
    cells = [
        picture.resize((GRID, GRID), Pillow.Resampling.BOX, area) for picture, area in zip((first, second), boxes, strict=True)
    ]
    return max(ImageChops.difference(*cells).tobytes()) < CHANGED
