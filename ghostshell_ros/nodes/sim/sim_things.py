# SPDX-License-Identifier: Apache-2.0
"""Publish what a simulated robot's cameras see, as a detector of things in space would."""

from vision_msgs.msg import Detection3D, Detection3DArray, ObjectHypothesisWithPose

from ghostshell_ros.nodes.sim.sim_sensors import LOOK_S, Simulated
from ghostshell_ros.runtime.node import Beat
from ghostshell_ros.sim.sight import Seen, Sight
from ghostshell_ros.wire.qos import MEASUREMENTS


class SimThings:
    """Publish `things` (vision_msgs/Detection3DArray, frame map) while somebody subscribes.

    It tells of each thing that one of the robot's cameras sees now, and of the handle of each door: the name as the class, and
    where it is.
    """

    def __init__(self, sim: Simulated, sight: Sight, rate: float) -> None:
        self._sim, self._sight, self._frame = sim, sight, f"{sim.frame_prefix}map"
        self._things = sim.node.create_publisher(Detection3DArray, f"{sim.namespace}things", MEASUREMENTS)
        Beat(sim.node, 1.0 / rate, LOOK_S, self._things.get_subscription_count, self._publish)

    def _publish(self) -> None:
        if not self._things.get_subscription_count():
            return
        with self._sim.lock:
            seen, stamp = self._sight.seen(), self._sim.stamp()
        message = Detection3DArray()
        message.header.stamp, message.header.frame_id = stamp, self._frame
        message.detections = [self._detection(name, one, message) for name, one in seen.items()]
        self._things.publish(message)

    @staticmethod
    def _detection(name: str, seen: Seen, array: Detection3DArray) -> Detection3D:
        detection, result = Detection3D(header=array.header), ObjectHypothesisWithPose()
        result.hypothesis.class_id, result.hypothesis.score = name, 1.0
        center, size = detection.bbox.center, detection.bbox.size
        center.position.x, center.position.y, center.position.z = seen.position
        turned = center.orientation
        turned.w, turned.x, turned.y, turned.z = seen.orientation
        size.x, size.y, size.z = seen.size
        result.pose.pose = center
        detection.results = [result]
        return detection
