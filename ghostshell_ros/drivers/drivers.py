# SPDX-License-Identifier: Apache-2.0
"""Start the drivers of a robot: each node that the robot's file names under `drivers:`."""

from __future__ import annotations

import rclpy
from rclpy.parameter import Parameter

from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from skill_kernel.robot import RobotConfig


def declared_drivers() -> list[RuntimeNode]:
    """Return the nodes of the robot's drivers. Raises ValueError with the reason why one cannot start."""
    reader = rclpy.create_node("drivers", start_parameter_services=False)
    name = str(reader.declare_parameter("robot", "coco").value)
    reader.destroy_node()
    robot = RobotConfig.load(name)
    classes = robot.load_drivers()
    if not classes:
        raise NodeStartError(f"robot '{name}' names no driver with a node; add one under drivers:, or say drivers:=false")
    nodes: list[RuntimeNode] = []
    for driver, node_class in classes.items():
        given = robot.drivers[driver].parameters
        nodes.append(node_class(driver, parameter_overrides=[Parameter(key, value=value) for key, value in given.items()]))
    return nodes
