# SPDX-License-Identifier: Apache-2.0
"""Executable `mind`: nodes of one robot in one process, where start-up time and memory matter more than isolation. Gate,
kernel, reflexes, drivers and simulator stay apart."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module

from rclpy.utilities import remove_ros_args

from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from ghostshell_ros.runtime.node_runtime import run

PLANNING = {
    "channel_scheduler": "ChannelScheduler",
    "token_parser": "TokenParser",
    "action_planner": "ActionPlanner",
    "task_planner": "TaskPlannerNode",
    "process_scheduler": "ProcessSchedulerNode",
}
NODES = PLANNING | {
    "observer": "ObserverNode",
    "lifecycle_manager": "LifecycleManager",
    "object_detector": "ObjectDetector",
    "memory": "MemoryNode",
}
"""Classes of the nodes, each in ghostshell_ros.nodes.<name>.node."""


def _make(name: str) -> RuntimeNode:
    if name not in NODES:
        raise NodeStartError(f"there is no node '{name}' to run here; name some of {', '.join(NODES)}")
    node: RuntimeNode = getattr(import_module(f"ghostshell_ros.nodes.{name}.node"), NODES[name])()
    return node


def main() -> int:
    """Run the nodes that the arguments name; without any, those that plan."""
    named = " ".join(remove_ros_args(sys.argv)[1:]).split()
    return run(*(partial(_make, name) for name in named or PLANNING))


if __name__ == "__main__":
    sys.exit(main())
