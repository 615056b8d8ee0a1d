# SPDX-License-Identifier: Apache-2.0
"""Tells what the camera sees, by colour alone: a small detector for a simulated building, without a trained model."""

from __future__ import annotations

import sys

from ghostshell.msg import Detection, DetectionArray
from sensor_msgs.msg import CameraInfo, Image, LaserScan

from ghostshell_ros.nodes.images import to_pixels
from ghostshell_ros.nodes.node_runtime import IMAGES, SENSORS, NodeStartError, RuntimeNode, run
from ghostshell_ros.perception.colour import Look, find
from ghostshell_ros.perception.placing import Camera, Laser, place
from skill_kernel.drivers import Scan
from skill_kernel.robot import RobotConfig

SCAN_S = 0.5
"""A lidar turn older than this says nothing of the image."""


class ColourDetector(RuntimeNode):
    """Subscribes `camera/image_raw` (rgb8), `camera/camera_info` and `scan`; publishes `object_detections`
    (ghostshell/DetectionArray), one an image, also when nothing is seen.

    Parameters: `robot` (kalos; its base tells where the laser is), `things` (one line each, see `Look.parse`),
    `camera_forward` and `camera_height` [m].
    """

    def __init__(self) -> None:
        super().__init__("colour_detector")
        robot = RobotConfig.load(self.declare("robot", "kalos", "robot's name in config/robots, or a YAML file's path"))
        about = "how a thing looks: <label> <hue from, to [deg], saturation from, to, value from, to> width <its width [m]>"
        things = self.declare("things", [""], about)
        try:
            self._looks = {look.label: look for look in map(Look.parse, filter(None, things))}
        except ValueError as error:
            raise NodeStartError(f"parameter things: {error}") from error
        if not self._looks:
            self.get_logger().warning("parameter things is empty: nothing will be seen")
        self._forward = self.declare("camera_forward", 0.352, "camera in front of base_link [m]", minimum=-2.0, maximum=2.0)
        self._height = self.declare("camera_height", 0.325, "camera above the ground [m]", minimum=0.01, maximum=3.0)
        x, y, yaw = robot.base.laser if robot.base is not None else (0.0, 0.0, 0.0)
        self._laser = Laser(x, y, yaw)
        self._focal = 0.0
        self._scan: tuple[float, Scan] | None = None
        self._seen = self.create_publisher(DetectionArray, "object_detections", SENSORS)
        self.create_subscription(CameraInfo, "camera/camera_info", self._on_info, IMAGES)
        self.create_subscription(LaserScan, "scan", self._on_scan, SENSORS)
        self.create_subscription(Image, "camera/image_raw", self._on_image, IMAGES)

    def _on_info(self, message: CameraInfo) -> None:
        self._focal = float(message.k[0])

    def _on_scan(self, message: LaserScan) -> None:
        ranges = [r if message.range_min <= r <= message.range_max else float("inf") for r in message.ranges]
        self._scan = self.steady_now(), Scan(message.angle_min, message.angle_increment, ranges)

    def _on_image(self, message: Image) -> None:
        if self._focal <= 0.0:
            return
        try:
            pixels = to_pixels(message)
        except ValueError as error:
            self.get_logger().error(f"camera/image_raw: {error}", once=True)
            return
        fresh = self._scan is not None and self.steady_now() - self._scan[0] <= SCAN_S
        scan = self._scan[1] if self._scan is not None and fresh else None
        camera = Camera(self._focal, message.width, message.height, self._forward, self._height)
        seen = DetectionArray(stamp=message.header.stamp, frame_id="base_link")
        for blob in find(pixels, self._looks.values()):
            bearing, distance = place(blob, camera, self._laser, scan, self._looks[blob.label].width_m)
            seen.detections.append(
                Detection(
                    label=blob.label, confidence=blob.confidence, bearing=bearing, distance=distance,
                    box=[blob.left, blob.top, blob.right, blob.bottom],
                )
            )  # fmt: skip
        self._seen.publish(seen)


def main() -> int:
    return run(ColourDetector)


if __name__ == "__main__":
    sys.exit(main())
