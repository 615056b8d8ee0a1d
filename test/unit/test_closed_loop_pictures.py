# SPDX-License-Identifier: Apache-2.0
"""Pictures for the critic: bounded, robust against what cameras send, and compared where somebody looked."""

from __future__ import annotations

import io

import numpy as np
import pytest
from kitchen_kit import Kitchen, Room, answers
from PIL import Image as Pillow

from planners.models.base import JPEG_MAGIC, PNG_MAGIC, Image
from planners.strategies.closed_loop.pictures import MAX_PX, Box, Pictures

pytestmark = pytest.mark.component

TABLE: Box = (20 / 320, 100 / 200, 90 / 320, 160 / 200)
SINK: Box = (120 / 320, 20 / 200, 190 / 320, 80 / 200)


def encoded(width: int, height: int, kind: str = "PNG", mode: str = "RGB") -> bytes:
    buffer = io.BytesIO()
    Pillow.new(mode, (width, height)).save(buffer, format=kind)
    return buffer.getvalue()


def taken(data: bytes | None) -> Pictures:
    """Return a look through one camera that has sent this."""
    kitchen = Kitchen(answers([]), robots=("atlas",))
    kitchen.views["atlas"].pictures = lambda: [] if data is None else [Image(data, 7.0)]
    return Pictures.take(kitchen.views)


def look(room: Room, noise: float = 0.0) -> Pictures:
    """Return a look at a room through a camera with noise."""
    pixels = np.asarray(Pillow.open(io.BytesIO(room.picture()))).astype(float)
    pixels += np.random.default_rng(1 + int(noise * 10)).normal(0.0, noise, pixels.shape)
    buffer = io.BytesIO()
    Pillow.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, format="PNG")
    return Pictures({"atlas": Image(buffer.getvalue())}, {})


def test_a_picture_of_ordinary_size_is_sent_as_it_came() -> None:
    data = encoded(640, 480)
    assert taken(data).images["atlas"].data is data and taken(data).shown() == [{"robot": "atlas"}]


@pytest.mark.parametrize(("width", "height"), [(3840, 2160), (2160, 3840), (1025, 3), (8000, 1)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_that_is_too_large_is_made_smaller(width: int, height: int, kind: str) -> None:
    image = taken(encoded(width, height, kind)).images["atlas"]
    assert max(Pillow.open(io.BytesIO(image.data)).size) <= MAX_PX and image.data.startswith(JPEG_MAGIC)
    assert image.taken_s == 7.0 and len(image.data) < 200_000


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "I;16"])
def test_pictures_of_any_kind_of_pixels_are_taken(mode: str) -> None:
    assert taken(encoded(2000, 20, mode=mode)).images["atlas"].data.startswith(JPEG_MAGIC)
    assert taken(encoded(20, 20, mode=mode)).images["atlas"].data.startswith(PNG_MAGIC)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "no picture of late"),
        (PNG_MAGIC, "cannot be read"),
        (encoded(64, 48)[:60], "cannot be read"),
        (encoded(3000, 48)[:90], "cannot be read"),
        (JPEG_MAGIC + b"\x00" * 50, "cannot be read"),
    ],
)
def test_a_picture_that_is_missing_or_broken_is_told(data: bytes | None, why: str) -> None:
    pictures = taken(data)
    assert not pictures.images and why in pictures.shown()[0]["missing"]


def test_noise_of_the_camera_is_no_change_and_a_thing_that_moves_is_one() -> None:
    before, room = look(Room(), 6.0), Room()
    assert before.same(look(room, 5.0), {})
    room.things["apple"] = "sink"
    assert not before.same(look(room, 5.0), {})
    assert not before.same(look(room, 5.0), {"atlas": TABLE}) and not before.same(look(room, 5.0), {"atlas": SINK})


def test_what_changes_elsewhere_than_somebody_looked_counts_for_nothing() -> None:
    before, room = look(Room()), Room()
    room.doors["fridge"] = "open"
    assert before.same(look(room), {"atlas": TABLE}) and not before.same(look(room), {})


def test_a_small_thing_of_little_contrast_is_a_change() -> None:
    before, data = look(Room(), 6.0), io.BytesIO()
    picture = Pillow.open(io.BytesIO(Room().picture()))
    picture.paste((200, 200, 200), (60, 140, 68, 148))
    picture.save(data, format="PNG")
    assert not before.same(taken(data.getvalue()), {"atlas": TABLE})


def test_another_size_or_no_picture_at_all_is_a_change() -> None:
    before = look(Room())
    assert not before.same(taken(encoded(64, 48)), {"atlas": TABLE})
    assert not before.same(taken(None), {"atlas": TABLE}) and not taken(None).same(before, {"atlas": TABLE})
    assert not taken(None).same(taken(None), {}), "who has seen nothing cannot say that it is as it was"


def test_a_region_of_no_width_still_has_a_pixel() -> None:
    before = look(Room())
    assert before.same(look(Room()), {"atlas": (0.999, 0.999, 1.0, 1.0)})
