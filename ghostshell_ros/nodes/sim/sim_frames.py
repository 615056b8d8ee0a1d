# SPDX-License-Identifier: Apache-2.0
"""Publish the simulated robot's frames and description, by which other tools draw it."""

from collections.abc import Iterable
from pathlib import Path

import mujoco
import numpy as np
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rclpy.qos import QoSProfile
from std_msgs.msg import Header, String
from tf2_msgs.msg import TFMessage

from ghostshell_ros.nodes.sim.sim_sensors import Simulated
from ghostshell_ros.sim.gait import times, turned
from ghostshell_ros.sim.robot import BaseState
from ghostshell_ros.wire.qos import LATCHED

LINKS_S = 0.05
"""Least time between two transforms of the links that joints move."""
OPTICAL = np.array([0.5, -0.5, 0.5, -0.5])
"""Rotation from a camera's frame (x forwards) to its optical frame (z forwards, x to the right), REP 103; w first."""
MUJOCO_CAMERA = np.array([0.0, 1.0, 0.0, 0.0])
"""Rotation from MuJoCo's camera (looking along -z, x to the right) to the optical frame."""
INVERSE = (1, -1, -1, -1)
"""Factors that make a rotation the opposite one."""


class SimFrames:
    """Publish `robot_description` (std_msgs/String, latched), `/tf` and `/tf_static`.

    The description is the URDF beside the model, its links named without the prefix that all frames bear, as
    robot_state_publisher has it. `/tf`, while somebody subscribes, tells of base_link in odom and of the level laser in
    base_link with each odometry, and every 0.05 s at most of the links that joints move; `/tf_static` of all that stays in
    its place: other links, camera, IMU.
    """

    def __init__(self, sim: Simulated, description: Path, camera: str) -> None:
        self._sim, node, robot = sim, sim.node, sim.robot
        model = sim.world.model
        self._tf = node.create_publisher(TFMessage, "/tf", QoSProfile(depth=100))
        self._base = self._frame("odom", "base_link")
        self._laser: TransformStamped | None = None
        if (laser := robot.site("laser")) is not None:
            self._laser, self._laser_at = self._frame("base_link", "laser"), model.site_pos[laser]
        still = []
        self._links: list[tuple[int, int, TransformStamped]] = []
        for body in sorted(robot.bodies - {robot.base_id}):
            parent = int(model.body_parentid[body])
            frame = self._frame(self._name(parent), self._name(body))
            if model.body_jntnum[body]:
                self._links.append((body, parent, frame))
            else:
                still.append(_placed(frame, model.body_pos[body], model.body_quat[body]))
        self._due_s = 0.0

        seen = model.camera(robot.prefix + camera)
        at = self._name(model.cam_bodyid[seen.id])
        link = times(times(seen.quat, MUJOCO_CAMERA), OPTICAL * INVERSE)
        still.append(_placed(self._frame(at, "camera_link"), seen.pos, link))
        still.append(_placed(self._frame("camera_link", "camera_optical_frame"), (0.0, 0.0, 0.0), OPTICAL))
        if robot.has_sensor("orientation"):
            imu = model.site(int(model.sensor(f"{robot.prefix}orientation").objid[0]))
            still.append(_placed(self._frame("base_link", "imu_link"), imu.pos, imu.quat))
        for frame in still:
            frame.header.stamp = sim.stamp()
        self._static = node.create_publisher(TFMessage, "/tf_static", LATCHED)
        self._static.publish(TFMessage(transforms=still))
        self._description = node.create_publisher(String, f"{sim.namespace}robot_description", LATCHED)
        try:
            self._description.publish(String(data=description.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            node.get_logger().warning(f"no robot_description: put the robot's URDF beside its model ({error})")

    def publish(self, odom: Odometry, state: BaseState) -> None:
        """Publish the transforms that belong to an odometry."""
        if not self._tf.get_subscription_count():
            return
        frames = [self._base]
        moved, at = self._base.transform.translation, odom.pose.pose.position
        moved.x, moved.y, moved.z = at.x, at.y, at.z
        self._base.transform.rotation = odom.pose.pose.orientation
        if self._laser is not None:
            # Undoes the trunk's roll and pitch, because the scan is level.
            level = times(np.array(state.orientation) * INVERSE, turned(state.pose.yaw))
            _placed(self._laser, self._laser_at, level)
            frames.append(self._laser)
        now = self._sim.node.steady_now()
        if now >= self._due_s:
            self._due_s = now + LINKS_S * 0.9
            self._update_links()
            frames += [frame for *_, frame in self._links]
        for frame in frames:
            frame.header.stamp = odom.header.stamp
        self._tf.publish(TFMessage(transforms=frames))

    def _update_links(self) -> None:
        place, back = np.empty(3), np.empty(4)
        with self._sim.lock:
            data = self._sim.world.data
            for body, parent, frame in self._links:
                mujoco.mju_negQuat(back, data.xquat[parent])
                mujoco.mju_rotVecQuat(place, data.xpos[body] - data.xpos[parent], back)
                _placed(frame, place, times(back, data.xquat[body]))

    def _name(self, body: int) -> str:
        return str(self._sim.world.model.body(body).name).removeprefix(self._sim.robot.prefix)

    def _frame(self, parent: str, child: str) -> TransformStamped:
        prefix = self._sim.frame_prefix
        return TransformStamped(header=Header(frame_id=prefix + parent), child_frame_id=prefix + child)


def _placed(frame: TransformStamped, at: Iterable[float], rotation: Iterable[float]) -> TransformStamped:
    """Return the frame, placed at a position [m] with a rotation (w first)."""
    moved, turn = frame.transform.translation, frame.transform.rotation
    moved.x, moved.y, moved.z = (float(part) for part in at)
    turn.w, turn.x, turn.y, turn.z = (float(part) for part in rotation)
    return frame
