# SPDX-License-Identifier: Apache-2.0
"""Executable `mind`: the planning nodes of one robot in one process, where start-up time and memory matter more than
isolation. Gate, kernel, drivers and simulator stay apart."""

from __future__ import annotations

import sys

from ghostshell_ros.nodes.action_planner.node import ActionPlanner
from ghostshell_ros.nodes.channel_scheduler.node import ChannelScheduler
from ghostshell_ros.nodes.process_scheduler.node import ProcessSchedulerNode
from ghostshell_ros.nodes.task_planner.node import TaskPlannerNode
from ghostshell_ros.nodes.token_parser.node import TokenParser
from ghostshell_ros.runtime.node_runtime import run


def main() -> int:
    """Entry point of the executable `mind`."""
    return run(ChannelScheduler, TokenParser, ActionPlanner, TaskPlannerNode, ProcessSchedulerNode, frozen=True)


if __name__ == "__main__":
    sys.exit(main())
