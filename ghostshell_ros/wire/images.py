# SPDX-License-Identifier: Apache-2.0
"""Convert pictures between arrays and sensor_msgs/Image."""

from array import array

import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Time
from sensor_msgs.msg import Image

CHANNELS = {"rgb8": (0, 1, 2), "bgr8": (2, 1, 0), "rgba8": (0, 1, 2), "bgra8": (2, 1, 0), "mono8": (0, 0, 0)}
"""Positions of red, green and blue in a pixel, by the encodings that can be read."""
BYTES = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}


def to_message(pixels: npt.NDArray[np.uint8], stamp: Time, frame_id: str) -> Image:
    """Return pixels (height x width x 3, RGB) as an rgb8 message."""
    height, width, _ = pixels.shape
    message = Image(height=height, width=width, encoding="rgb8", step=3 * width)
    message.header.stamp = stamp
    message.header.frame_id = frame_id
    # The message checks bytes one by one, but takes an array as it is.
    message.data = array("B", pixels.tobytes())
    return message


def to_pixels(message: Image) -> npt.NDArray[np.uint8]:
    """Return a message's pixels, height x width x 3, RGB.

    Raises ValueError for an encoding not in `CHANNELS` or a size that does not fit.
    """
    if message.encoding not in CHANNELS:
        raise ValueError(f"encoding is '{message.encoding}': send {', '.join(CHANNELS)}")
    deep = BYTES[message.encoding]
    if len(message.data) != message.height * message.step or message.step < deep * message.width:
        raise ValueError(f"{len(message.data)} bytes do not make {message.height} rows of {message.step}")
    rows = np.frombuffer(message.data, dtype=np.uint8).reshape(message.height, message.step)
    pixels = rows[:, : deep * message.width].reshape(message.height, message.width, deep)
    return pixels if message.encoding == "rgb8" else pixels[..., CHANNELS[message.encoding]]
