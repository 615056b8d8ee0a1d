# SPDX-License-Identifier: Apache-2.0
"""Collects the simulator's film camera into an animated GIF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sensor_msgs.msg import Image

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import SENSORS

MAX_FRAMES = 600


class FilmReel:
    """Frames with the time each arrived, at most `MAX_FRAMES`. Frames of a film nobody asked to stop are dropped then,
    and so are those that come sooner than `every_s` after the last one."""

    def __init__(self, node: RuntimeNode, *, every_s: float = 0.0) -> None:
        self._node = node
        self._every_s = every_s
        self._frames: list[tuple[float, Image]] = []
        self._newest: Image | None = None
        self._subscription = node.create_subscription(Image, "film/image_raw", self._frame, SENSORS)

    @property
    def frames(self) -> int:
        """Return how many were taken."""
        return len(self._frames)

    @property
    def newest(self) -> Image | None:
        """Return the newest frame; None before the first."""
        return self._newest

    def _frame(self, message: Image) -> None:
        self._newest = message
        now = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
        if len(self._frames) < MAX_FRAMES and (not self._frames or now - self._frames[-1][0] >= self._every_s):
            self._frames.append((now, message))

    def write(self, path: Path, *, width: int = 320) -> None:
        """Write the GIF, each frame shown for as long as it was the newest. Raises ValueError when there are none."""
        from PIL import Image as Pillow

        frames = list(self._frames)
        if not frames:
            raise ValueError("the simulator sent no film; is MuJoCo's off-screen rendering (EGL or OSMesa) installed?")
        pictures: list[Any] = []
        for _, message in frames:
            picture = Pillow.frombytes("RGB", (message.width, message.height), bytes(message.data))
            picture = picture.resize((width, round(width * message.height / message.width)))
            pictures.append(picture.quantize(128, dither=Pillow.Dither.NONE))
        times = [t for t, _ in frames]
        gaps = [max(20, min(1000, round((b - a) * 1000))) for a, b in zip(times, times[1:], strict=False)] + [1000]
        path.parent.mkdir(parents=True, exist_ok=True)
        pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=gaps, loop=0, optimize=False)
