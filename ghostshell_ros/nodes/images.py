# SPDX-License-Identifier: Apache-2.0
"""Pictures as arrays and as sensor_msgs/Image."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt
from builtin_interfaces.msg import Time
from sensor_msgs.msg import Image


def to_message(pixels: npt.NDArray[np.uint8], stamp: Time, frame_id: str) -> Image:
    """An rgb8 message of height x width x 3."""
    height, width, _ = pixels.shape
    message = Image(height=height, width=width, encoding="rgb8", step=3 * width)
    message.header.stamp = stamp
    message.header.frame_id = frame_id
    # The message would check bytes one by one; an array it takes as it is.
    message.data = array("B", pixels.tobytes())
    return message


def to_pixels(message: Image) -> npt.NDArray[np.uint8]:
    """Height x width x 3 of an rgb8 message. Raises ValueError for another encoding or a size that does not fit."""
    if message.encoding != "rgb8":
        raise ValueError(f"encoding is '{message.encoding}': send rgb8")
    if len(message.data) != message.height * message.step or message.step < 3 * message.width:
        raise ValueError(f"{len(message.data)} bytes do not make {message.height} rows of {message.step}")
    rows = np.frombuffer(message.data, dtype=np.uint8).reshape(message.height, message.step)
    return rows[:, : 3 * message.width].reshape(message.height, message.width, 3)
