# SPDX-License-Identifier: Apache-2.0
"""Find where a robot's odometry began in the map, from the transforms of all robots."""

from collections.abc import Callable

from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import LATCHED_BY_ANY, SENSORS
from ghostshell_ros.wire.values import yaw_of

_MAP_FRAME = b"map\0"


def follow_map(node: RuntimeNode, found: Callable[[float, float, float], object]) -> None:
    """Call `found` with x and y [m] and yaw [rad] of the robot's own odom in its map, from `/tf` and `/tf_static`.

    Once the transform is static, as with embedded navigation, `/tf` is no longer read.
    """
    # Built into the environment only where a robot has a base.
    from tf2_msgs.msg import TFMessage

    own = node.get_namespace().strip("/")

    def heard(raw: bytes) -> bool:
        # Most transforms have nothing to do with the map, and reading them would be most of a reader's work.
        if _MAP_FRAME not in raw:
            return False
        for transform in deserialize_message(raw, TFMessage).transforms:
            frames = (transform.header.frame_id, transform.child_frame_id)
            # Frames of other robots keep their prefix.
            if [frame.strip("/").removeprefix(f"{own}/") for frame in frames] == ["map", "odom"]:
                at = transform.transform.translation
                found(at.x, at.y, yaw_of(transform.transform.rotation))
                return True
        return False

    moving: Subscription | None = node.create_subscription(TFMessage, "/tf", heard, SENSORS, raw=True)

    def heard_static(raw: bytes) -> None:
        nonlocal moving
        if heard(raw) and moving is not None:
            node.call_soon(node.destroy_subscription, moving)
            moving = None

    node.create_subscription(TFMessage, "/tf_static", heard_static, LATCHED_BY_ANY, raw=True)
