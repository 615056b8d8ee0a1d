# SPDX-License-Identifier: Apache-2.0
"""Make JPEG pictures of cameras that somebody watches; of a picture that nobody shows in time none is made."""

from __future__ import annotations

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rclpy.node import Node
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Image

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.images import to_pixels
from ghostshell_ros.wire.qos import SENSORS

QUALITY = 80
"""Of a JPEG, in percent."""
MAX_SIDE = 1280
"""Pixels of a picture's longer side; a larger one is made smaller."""


class _Camera:
    """Hold the newest picture of a topic. Its number rises with each; 0: none has come."""

    def __init__(self) -> None:
        self.watchers = 0
        self.subscription: Any = None
        self.number, self.raw = 0, b""
        self.news = asyncio.Event()
        self.made = 0, b""
        self.making = asyncio.Lock()


class Cameras:
    """Serve pictures on an event loop, of topics that are heard on the node's executor only while somebody watches."""

    def __init__(self, node: RuntimeNode, loop: asyncio.AbstractEventLoop) -> None:
        self._node, self._loop = node, loop
        self._cameras: dict[str, _Camera] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="page-jpeg")

    def watch(self, topic: str, *, begins: bool) -> None:
        """Hear that somebody begins or ends to watch a topic."""
        camera = self._cameras.setdefault(topic, _Camera())
        camera.watchers += 1 if begins else -1
        if camera.watchers == 1 and begins:
            self._node.call_soon(self._subscribe, topic, camera)
        elif camera.watchers == 0:
            del self._cameras[topic]
            self._node.call_soon(self._unsubscribe, camera)

    async def frame(self, topic: str, after: int) -> tuple[int, bytes]:
        """Return the newest picture that is not number `after`, and its number. Clients share what is made."""
        camera = self._cameras[topic]
        while True:
            while camera.number == after:
                await camera.news.wait()
            async with camera.making:
                if camera.made[0] not in (0, after) and camera.made[0] == camera.number:
                    return camera.made
                number, raw = camera.number, camera.raw
                try:
                    camera.made = number, await self._loop.run_in_executor(self._pool, jpeg, raw)
                except ValueError as error:
                    self._node.get_logger().warning(f"pictures on {topic} cannot be shown: {error}", throttle_duration_sec=30.0)
                    after = number
                    continue
                return camera.made

    def close(self) -> None:
        """Make no more pictures."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _subscribe(self, topic: str, camera: _Camera) -> None:
        def take(raw: bytes) -> None:
            self._loop.call_soon_threadsafe(self._show, camera, raw)

        camera.subscription = self._node.create_subscription(Image, topic, take, SENSORS, raw=True)

    def _unsubscribe(self, camera: _Camera) -> None:
        if camera.subscription is not None:
            self._node.destroy_subscription(camera.subscription)

    @staticmethod
    def _show(camera: _Camera, raw: bytes) -> None:
        camera.number, camera.raw = camera.number + 1, raw
        camera.news.set()
        camera.news = asyncio.Event()


def camera_topics(node: Node, robot: str) -> list[str]:
    """Return the topics with pictures of a robot that a node has discovered, below its namespace."""
    below = f"/{robot}/"
    found = node.get_topic_names_and_types()
    return sorted(
        name.removeprefix(below) for name, kinds in found if name.startswith(below) and "sensor_msgs/msg/Image" in kinds
    )


def jpeg(raw: bytes) -> bytes:
    """Return a serialised sensor_msgs/Image as JPEG. Raises ValueError for an encoding that cannot be read."""
    from PIL import Image as Pillow

    picture = Pillow.fromarray(to_pixels(deserialize_message(raw, Image)))
    picture.thumbnail((MAX_SIDE, MAX_SIDE))
    out = io.BytesIO()
    picture.save(out, format="JPEG", quality=QUALITY)
    return out.getvalue()
