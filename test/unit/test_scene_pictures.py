# SPDX-License-Identifier: Apache-2.0
"""A planning node's view of a camera: the newest picture, and when it was taken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="the node's part is of ROS")
pytest.importorskip("ghostshell.msg", reason="needs the built interfaces")

from builtin_interfaces.msg import Time

from ghostshell_ros.runtime.scene import STALE_S, Scene
from ghostshell_ros.wire.images import to_message

ROS_S = 1000.0


class Camera:
    """A scene on a node of which the test moves both clocks, and a camera that sends what the test tells it to."""

    def __init__(self) -> None:
        self.now_s, heard = 50.0, dict[str, Any]()
        node = SimpleNamespace(
            steady_now=lambda: self.now_s,
            now_s=lambda: ROS_S + self.now_s,
            create_subscription=lambda _, topic, callback, *__, **___: heard.update({topic: callback}),
        )
        robot = SimpleNamespace(facts=lambda: None, routines=None, config=SimpleNamespace(observation={}))
        self.scene = Scene(node, robot, send_images=True)  # type: ignore[arg-type]
        self._heard = heard["camera/image_raw"]

    def send(self, at_s: float) -> None:
        """Send a picture stamped with this ROS time."""
        stamp = Time(sec=int(at_s), nanosec=int(at_s % 1 * 1e9))
        self._heard(to_message(np.zeros((4, 6, 3), np.uint8), stamp, "camera"))


@pytest.mark.parametrize(
    ("stamped_s", "taken_s"),
    [(ROS_S + 50.0, 50.0), (ROS_S + 49.75, 49.75), (0.0, 50.0), (ROS_S + 60.0, 50.0), (ROS_S - 500.0, 50.0)],
)
def test_a_picture_tells_when_it_was_taken_and_of_a_foreign_clock_when_it_came(stamped_s: float, taken_s: float) -> None:
    camera = Camera()
    assert not camera.scene.images()
    camera.send(stamped_s)
    (image,) = camera.scene.images()
    assert image.taken_s == pytest.approx(taken_s)


def test_a_picture_is_encoded_once_and_the_next_one_takes_its_place() -> None:
    camera = Camera()
    camera.send(ROS_S + 50.0)
    assert camera.scene.images()[0] is camera.scene.images()[0]
    camera.now_s += 0.1
    camera.send(ROS_S + 50.1)
    assert camera.scene.images()[0].taken_s == pytest.approx(50.1)


def test_a_picture_is_left_out_once_it_is_old_also_where_it_came_late() -> None:
    camera = Camera()
    camera.send(ROS_S + 49.5)
    camera.now_s += STALE_S - 0.5
    assert camera.scene.images()
    camera.now_s += 0.1
    assert not camera.scene.images()
