# SPDX-License-Identifier: Apache-2.0
"""CoCo brought up by the real ROS 2 launch: every node appears, an instruction moves joints, all end cleanly."""

from __future__ import annotations

import os
import time
import unittest
from collections.abc import Callable

import pytest

_REASON = "launch_testing is not installed; test/integration makes the same checks with the project's own runner"
launch = pytest.importorskip("launch", reason=_REASON)
launch_testing = pytest.importorskip("launch_testing", reason=_REASON)
pytest.importorskip("launch_ros", reason=_REASON)
rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory  # noqa: E402
from launch.actions import IncludeLaunchDescription  # noqa: E402
from launch.launch_description_sources import AnyLaunchDescriptionSource  # noqa: E402
from launch_testing.actions import ReadyToTest  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import String  # noqa: E402

NODES = {
    "sim",
    "safety_gate",
    "skill_kernel",
    "process_scheduler",
    "action_planner",
    "token_parser",
    "channel_scheduler",
    "move_joints_driver",
    "speak_driver",
    "play_sound_driver",
    "show_face_driver",
    "lifecycle_manager",
    "observer",
    "reflexes",
    "task_planner",
}
NAMESPACE = "/coco_launch_test"
DEADLINE_S = 30.0

try:
    SHARE = get_package_share_directory("ghostshell")
except PackageNotFoundError:
    pytest.skip("the package ghostshell is not built and sourced", allow_module_level=True)

os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))


@pytest.mark.launch_test
def generate_test_description() -> launch.LaunchDescription:
    return launch.LaunchDescription(
        [
            IncludeLaunchDescription(
                AnyLaunchDescriptionSource(f"{SHARE}/launch/coco.launch.xml"),
                launch_arguments=[("robot_name", NAMESPACE.lstrip("/"))],
            ),
            ReadyToTest(),
        ]
    )


class TestCoCo(unittest.TestCase):
    """What must hold while the launch runs."""

    def setUp(self) -> None:
        rclpy.init()
        self.node = rclpy.create_node("launch_probe", namespace=NAMESPACE)

    def tearDown(self) -> None:
        self.node.destroy_node()
        rclpy.try_shutdown()

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not holds():
            self.assertLess(time.monotonic(), end_s, f"not within {DEADLINE_S} s: {what}")
            rclpy.spin_once(self.node, timeout_sec=0.1)

    def missing(self) -> set[str]:
        found = {name for name, namespace in self.node.get_node_names_and_namespaces() if namespace == NAMESPACE}
        return NODES - found

    def test_every_node_comes_up_in_the_robots_namespace(self) -> None:
        self.until(lambda: not self.missing(), f"all of {sorted(NODES)}")

    def test_an_instruction_moves_joints(self) -> None:
        commands: list[JointState] = []
        self.node.create_subscription(JointState, "joint_command", commands.append, 10)
        instruction = self.node.create_publisher(String, "instruction", 10)
        self.until(lambda: not self.missing() and instruction.get_subscription_count() > 0, "a reader of instructions")
        instruction.publish(String(data="nod"))
        self.until(lambda: any(command.position for command in commands), "a joint command after 'nod'")


@launch_testing.post_shutdown_test()
class TestCoCoAfterShutdown(unittest.TestCase):
    """What must hold once all processes have ended."""

    def test_every_process_ended_cleanly(self, proc_info: launch_testing.ProcInfoHandler) -> None:
        launch_testing.asserts.assertExitCodes(proc_info)
