# SPDX-License-Identifier: Apache-2.0
"""The object detector as a node: a picture of Kalos's building on its topics, and pictures that are none."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("mujoco")

import mujoco
from ghostshell.msg import DetectionArray
from sensor_msgs.msg import CameraInfo, Image, LaserScan
from vision_msgs.msg import Detection2DArray

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.sim.parts import Legged
from ghostshell_ros.sim.world import SimWorld, SimWorldError
from ghostshell_ros.wire.images import to_message
from ghostshell_ros.wire.qos import IMAGES, SENSORS
from ros_support import ROOT, Processes, spun, wait_until

FOCAL = 207.8
PERSON_M, BALL_M = 3.5, 2.0
"""Their places, along the hallway from Kalos's middle."""


class Camera(RuntimeNode):
    """Sends pictures when it is told to and notes what is seen in them."""

    def __init__(self, namespace: str) -> None:
        super().__init__("camera", namespace=namespace)
        self.seen: dict[int, Any] = {}
        self.boxes: dict[int, Any] = {}
        self.scans_heard = 0
        self._image = self.create_publisher(Image, "camera/image_raw", IMAGES)
        self._info = self.create_publisher(CameraInfo, "camera/camera_info", IMAGES)
        self._scan = self.create_publisher(LaserScan, "scan", SENSORS)
        self.create_subscription(DetectionArray, "object_detections", self._on_seen, SENSORS)
        self.create_subscription(Detection2DArray, "camera/detections", self._on_boxes, SENSORS)
        self.steady_timer(0.1, self._send_scan)

    def _on_seen(self, message: Any) -> None:
        self.seen[message.header.stamp.sec] = message

    def _on_boxes(self, message: Any) -> None:
        self.boxes[message.header.stamp.sec] = message

    def _send_scan(self) -> None:
        self._info.publish(CameraInfo(k=[FOCAL, 0.0, 160.0, 0.0, FOCAL, 120.0, 0.0, 0.0, 1.0]))
        scan = LaserScan(angle_min=-math.pi, angle_increment=math.tau / 360, range_min=0.1, range_max=10.0)
        scan.ranges = [PERSON_M - 0.28] * 360
        self._scan.publish(scan)
        self.scans_heard += self._scan.get_subscription_count() > 0

    @property
    def heard(self) -> bool:
        """Return whether the detector hears pictures and has a scan, without which it tells distances by size."""
        return self._image.get_subscription_count() > 0 and self.scans_heard >= 5

    def show(self, number: int, message: Any) -> None:
        """Send a picture under a number, which the detections bear as the seconds of their stamp."""
        message.header.stamp.sec = number
        self.call_soon(self._image.publish, message)


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    """Return a person, a ball and a chair in the hallway, by Kalos's camera."""
    world = SimWorld("robots/kalos/kalos.xml", world="building")
    Legged(world, world.robot)
    world.step(400)
    at = world.model.jnt_qposadr[world.model.body("ball").jntadr[0]]
    world.data.qpos[at : at + 3] = BALL_M, 0.4, 0.11
    world.data.mocap_pos[world.model.body("person").mocapid[0]][:2] = PERSON_M, 0.0
    world.model.body("chair_office").pos[:2] = 3.0, -0.7
    mujoco.mj_forward(world.model, world.data)
    try:
        return world.render("front_camera", 320, 240)
    except SimWorldError as error:
        pytest.skip(str(error))
    finally:
        world.close()


@pytest.fixture(scope="module")
def camera(ros: None) -> Iterator[Camera]:
    """Return the camera of a detector that all tests show pictures, each with numbers of its own."""
    namespace = f"/seen{os.getpid()}"
    made = Camera(namespace)
    with spun(namespace, made) as processes:
        processes.start("object_detector", params_file=ROOT / "config" / "object_detector.yaml")
        wait_until(lambda: made.heard, 20.0, "the detector is up")
        yield made


def _shown(camera: Camera, number: int, pixels: np.ndarray) -> dict[str, Any]:
    """Return what the detector sees in a picture, by label."""

    def answered() -> bool:
        camera.show(number, to_message(pixels, camera.get_clock().now().to_msg(), "robot/camera_optical_frame"))
        try:
            wait_until(lambda: number in camera.seen, 1.0, "an answer")
        except pytest.fail.Exception:
            return False  # its first picture came before the camera's data
        return True

    wait_until(answered, 15.0, "detections")
    return {seen.label: seen for seen in camera.seen[number].detections}


def test_a_picture_of_the_building_is_told_with_places(camera: Camera, picture: np.ndarray) -> None:
    seen = _shown(camera, 1, picture)
    assert {"person", "ball", "chair"} <= set(seen)
    assert camera.seen[1].header.frame_id == "robot/base_link"
    assert seen["person"].distance == pytest.approx(PERSON_M, abs=0.15) and abs(seen["person"].bearing) < 0.05
    ball = seen["ball"]
    assert ball.distance == pytest.approx(math.hypot(BALL_M, 0.4), abs=0.25)
    assert ball.bearing == pytest.approx(math.atan2(0.4, BALL_M), abs=0.05)
    left, top, right, bottom = ball.box
    assert picture[(top + bottom) // 2, (left + right) // 2, 0] > 150, "the box is on the orange ball"
    assert seen["person"].confidence > 0.35

    wait_until(lambda: 1 in camera.boxes, 3.0, "the standard message")
    boxes = {box.results[0].hypothesis.class_id: box for box in camera.boxes[1].detections}
    assert set(boxes) == set(seen) and camera.boxes[1].header.frame_id == "robot/camera_optical_frame"
    centre, score = boxes["ball"].bbox.center.position, boxes["ball"].results[0].hypothesis.score
    assert (centre.x, centre.y) == ((left + right + 1) / 2, (top + bottom + 1) / 2)
    assert boxes["ball"].bbox.size_x == right - left + 1 and score == pytest.approx(ball.confidence)


def test_pictures_that_are_none_are_left_out_and_the_next_is_seen(camera: Camera, picture: np.ndarray) -> None:
    _shown(camera, 9, picture)
    for number, message in enumerate(
        (
            Image(),
            Image(encoding="rgb8"),
            Image(encoding="rgb8", height=10, width=0, step=0),
            Image(encoding="rgb8", height=0, width=10, step=30),
            Image(encoding="rgb8", height=240, width=320, step=960, data=array("B", bytes(7))),
            Image(encoding="rgb8", height=2, width=2**31, step=6, data=array("B", bytes(12))),
            Image(encoding="yuv422_yuy2", height=2, width=2, step=4, data=array("B", bytes(8))),
            Image(encoding="32FC1", height=1, width=1, step=4, data=array("B", bytes(4))),
        ),
        start=10,
    ):
        camera.show(number, message)
    assert "person" in _shown(camera, 30, picture)


def test_grey_pictures_and_large_ones_are_taken(camera: Camera, picture: np.ndarray) -> None:
    large = np.kron(picture, np.ones((8, 8, 1), np.uint8))
    seen = _shown(camera, 2, large)
    assert "person" in seen and seen["person"].box[2] > 320, "boxes are in the picture's own pixels"
    grey = picture.mean(axis=2).astype(np.uint8)
    message = Image(encoding="mono8", height=240, width=320, step=320, data=array("B", grey.tobytes()))
    camera.show(3, message)
    wait_until(lambda: 3 in camera.seen, 5.0, "an answer to a grey picture")


def test_labels_and_widths_are_those_that_the_robot_is_given(
    namespace: str, host: Callable[..., Any], processes: Processes, picture: np.ndarray
) -> None:
    made = Camera(namespace)
    host(made)
    processes.start("object_detector", "labels:=['ball: toy']", "widths:=['toy: 0.11']")
    wait_until(lambda: made.heard, 20.0, "the detector is up")
    seen = _shown(made, 1, picture)
    assert "ball" not in seen and seen["toy"].distance == pytest.approx(math.hypot(BALL_M, 0.4) / 2, abs=0.3), "half as wide"
