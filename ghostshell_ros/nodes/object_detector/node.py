# SPDX-License-Identifier: Apache-2.0
"""Node `object_detector`: tell what the camera sees and where it is, by the detector that its parameters choose."""

import math
import time

from ghostshell.msg import Detection, DetectionArray
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CameraInfo, Image, LaserScan
from std_msgs.msg import Header
from vision_msgs.msg import BoundingBox2D, Detection2D, Detection2DArray, ObjectHypothesis, ObjectHypothesisWithPose

from ghostshell_ros.perception.detector import Box, Camera, DetectorError, kinds, make_detector, place, read_labels, read_widths
from ghostshell_ros.runtime.node import Health, Level, NodeStartError, RuntimeNode
from ghostshell_ros.wire.images import to_pixels
from ghostshell_ros.wire.qos import IMAGES, SENSORS
from ghostshell_ros.wire.sensing import scan_of
from skill_kernel.config.observation import Track
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import Pose2D, Scan

SCAN_S = 0.5
"""Age from which on a lidar turn says nothing of the image."""


class ObjectDetector(RuntimeNode):
    """Publish what the detector sees in each image.

    Each image has its `object_detections`, also when nothing is seen; `camera/detections` has the boxes alone for other
    tools. An image that cannot be read, or on which the detector fails, is logged and left out.
    """

    own_thread = True

    def __init__(self) -> None:
        super().__init__("object_detector")
        robot = RobotConfig.load(self.declare("robot", "kalos", "robot's name in config/robots, or a YAML file's path"))
        kind = self.declare("detector", "onnx", "what looks at the images", choices=kinds())
        model = self.declare("model", "", "file with weights, empty for our own (onnx); yolo: also a name such as yolo11n.pt")
        confidence = self.declare("confidence", 0.2, "least confidence of a published thing [1]", 0.0, 1.0)
        overlap = self.declare(
            "overlap", 0.5, "two boxes of one label that overlap more are one thing [intersection over union]", 0.0, 1.0
        )
        threads = self.declare("threads", 1, "threads of the CPU for one image", 1, 64)
        labels = self.declare("labels", [""], "<what the detector calls a thing>: <what the robot does>")
        widths = self.declare("widths", [""], "<label>: <width in m> of things that are all equally wide")
        looks = self.declare("looks", [""], "for colour: <label> <hue from, to [deg], saturation from, to, value from, to>")
        try:
            self._labels, self._widths = read_labels(labels), read_widths(widths)
            theirs = {ours: label for label, ours in self._labels.items()}
            seen = robot.observation["object_detections"].process if "object_detections" in robot.observation else None
            words = [theirs.get(word, word) for word in seen.labels] if isinstance(seen, Track) else []
            self._detector = make_detector(
                kind, model=model, confidence=confidence, overlap=overlap, threads=threads, looks=looks, words=words
            )
        except (DetectorError, ValueError) as error:
            raise NodeStartError(f"detector '{kind}': {error}") from error
        self._forward = self.declare("camera_forward", 0.352, "camera in front of base_link [m]", -2.0, 2.0)
        self._height = self.declare("camera_height", 0.325, "camera above the ground [m]", 0.01, 3.0)
        self._laser = Pose2D(*robot.base.laser) if robot.base is not None else Pose2D(0.0, 0.0, 0.0)
        self._info: CameraInfo | None = None
        self._scan: tuple[float, bytes] | None = None
        self._looked: tuple[object, list[Box]] | None = None
        """Last image and what is in it, because the same image shows the same."""
        self._fault = ""
        self._took_s = math.nan
        self._seen = self.create_publisher(DetectionArray, "object_detections", SENSORS)
        self._boxes = self.create_publisher(Detection2DArray, "camera/detections", SENSORS)
        self.create_subscription(CameraInfo, "camera/camera_info", self._on_info, IMAGES)
        self.create_subscription(LaserScan, "scan", self._on_scan, SENSORS, raw=True)
        self.create_subscription(Image, "camera/image_raw", self._on_image, IMAGES)
        self._sights = [self._labels.get(name, name) for name in self._detector.labels]
        self.get_logger().info(f"detector {kind}: {', '.join(self._sights)}")

    def _on_info(self, message: CameraInfo) -> None:
        self._info = message

    def _on_scan(self, raw: bytes) -> None:
        self._scan = self.steady_now(), raw

    def _on_image(self, message: Image) -> None:
        if self._info is None or not self._info.k[0] > 0.0:
            return
        begun = time.perf_counter()
        try:
            if self._looked is None or message.data != self._looked[0]:
                self._looked = message.data, self._detector.detect(to_pixels(message))
            boxes = self._looked[1]
        except (DetectorError, ValueError) as error:
            self._fault = f"camera/image_raw: {error}"
            self.get_logger().error(self._fault, throttle_duration_sec=10.0)
            return
        self._fault = ""
        scan = None
        if boxes and self._scan is not None and self.steady_now() - self._scan[0] <= SCAN_S:
            scan = scan_of(deserialize_message(self._scan[1], LaserScan))
        camera = Camera(float(self._info.k[0]), message.width, message.height, self._forward, self._height)
        found = [self._placed(box, camera, scan) for box in boxes]
        prefix = message.header.frame_id.rpartition("/")[0]
        header = Header(stamp=message.header.stamp, frame_id=f"{prefix}/base_link" if prefix else "base_link")
        self._seen.publish(DetectionArray(header=header, detections=found, labels=self._sights))
        if self._boxes.get_subscription_count():
            self._boxes.publish(
                Detection2DArray(header=message.header, detections=[_standard(d, message.header) for d in found])
            )
        self._took_s = time.perf_counter() - begun

    def _placed(self, box: Box, camera: Camera, scan: Scan | None) -> Detection:
        label = self._labels.get(box.label, box.label)
        bearing, distance = place(box, camera, self._laser, scan, self._widths.get(label, 0.0))
        left, top = math.floor(box.left), math.floor(box.top)
        return Detection(
            label=label,
            confidence=box.confidence,
            bearing=bearing,
            distance=distance,
            box=[left, top, max(left, math.ceil(box.right) - 1), max(top, math.ceil(box.bottom) - 1)],
        )

    def health(self) -> Health:
        if self._fault:
            return Health(self._fault, Level.ERROR)
        if math.isnan(self._took_s):
            topic = "camera/camera_info" if self._info is None else "camera/image_raw"
            return Health(f"nothing on {topic} yet, publishers: {self.count_publishers(topic)}", Level.WARN)
        return Health("sees", values={"last image [ms]": f"{1e3 * self._took_s:.1f}"})


def _standard(seen: Detection, header: Header) -> Detection2D:
    left, top, right, bottom = (float(edge) for edge in seen.box)
    box = BoundingBox2D(size_x=right - left + 1, size_y=bottom - top + 1)
    box.center.position.x, box.center.position.y = (left + right + 1) / 2, (top + bottom + 1) / 2
    kind = ObjectHypothesisWithPose(hypothesis=ObjectHypothesis(class_id=seen.label, score=float(seen.confidence)))
    return Detection2D(header=header, results=[kind], bbox=box)
