# SPDX-License-Identifier: Apache-2.0
"""Connect one simulated robot to its topics: commands that its gate has checked, measurements, frames and its display."""

from collections.abc import Callable

from nav_msgs.msg import Odometry
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Bool

from ghostshell_ros.nodes.sim.sim_frames import SimFrames
from ghostshell_ros.nodes.sim.sim_sensors import SimBase, SimSensors, Simulated
from ghostshell_ros.sim.robot import BaseState, SimWorldError
from ghostshell_ros.sim.world import Image as Pixels
from ghostshell_ros.wire.images import to_pixels
from ghostshell_ros.wire.qos import LATCHED, SET_POINTS
from skill_kernel.robot import RobotConfig


class SimRobotPorts:
    """Serve the topics of one robot. While its gate has halted it, no command moves it.

    Its joints obey `joint_command`, where no gait moves them; a servo holds its last target. A base obeys `cmd_vel_gated`.
    """

    def __init__(
        self,
        sim: Simulated,
        config: RobotConfig,
        camera: str,
        scan_rate: float,
        charge: float,
        show_face: Callable[[str, Pixels], None],
    ) -> None:
        """Open the topics. Raises SimWorldError when the robot has a base that nothing can move, or without a lidar."""
        node, at = sim.node, sim.namespace
        self._sim, self._node, self._show_face = sim, node, show_face
        node.create_subscription(Bool, f"{at}halted", self._on_halted, LATCHED)
        self._sensors = SimSensors(sim)
        try:
            self._base = SimBase(sim, scan_rate, charge) if config.base is not None else None
        except SimWorldError as error:
            raise SimWorldError(f"robot '{config.name}': {error}") from error
        if self._base is None or sim.robot.rolls:
            node.create_subscription(JointState, f"{at}joint_command", self._on_command, SET_POINTS)
        self._frames = SimFrames(sim, config.model_path().with_suffix(".urdf"), camera)
        if sim.robot.face_texture is not None:
            node.create_subscription(Image, f"{at}face/image_raw", self._on_face_image, LATCHED)

    def publish(self) -> None:
        """Publish what the robot measures now."""
        self._sensors.publish(self._on_odometry)
        if self._base is not None:
            self._base.publish_due()

    def _on_odometry(self, odom: Odometry, state: BaseState) -> None:
        if self._base is not None:
            self._base.disturb(odom)
        self._frames.publish(odom, state)

    def _on_halted(self, message: Bool) -> None:
        self._sim.halted = message.data

    def _on_command(self, message: JointState) -> None:
        """Pass on a command that the gate has checked; one that is wrong nevertheless moves nothing."""
        if self._sim.halted:
            return
        if len(message.name) != len(message.position):
            self._refuse(f"joint_command with {len(message.name)} names and {len(message.position)} positions")
            return
        try:
            with self._sim.lock:
                self._sim.robot.set_joint_targets(dict(zip(message.name, message.position, strict=True)))
            self._sim.stir()
        except SimWorldError as error:
            self._refuse(str(error))

    def _on_face_image(self, message: Image) -> None:
        try:
            pixels = to_pixels(message)
        except ValueError as error:
            self._refuse(f"face/image_raw: {error}")
            return
        self._show_face(self._sim.robot.name, pixels)

    def _refuse(self, text: str) -> None:
        whose = f" for {self._sim.robot.name}" if self._sim.robot.name else ""
        self._node.get_logger().error(f"refused{whose}: {text}", throttle_duration_sec=5.0)
