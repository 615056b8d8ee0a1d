# SPDX-License-Identifier: Apache-2.0
"""Executable `monitor`: the nodes that watch a robot and its surroundings, in one process.

`monitor observer lifecycle_manager object_detector` runs those three; the names may also come as one argument. One process
takes a third of the memory of three. Planners are not among them: a model's answer must not delay an observation.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import rclpy

from ghostshell_ros.runtime.node_runtime import run

NODES = {
    "observer": "ghostshell_ros.nodes.observer.node:ObserverNode",
    "lifecycle_manager": "ghostshell_ros.nodes.lifecycle_manager.node:LifecycleManager",
    "object_detector": "ghostshell_ros.nodes.object_detector.node:ObjectDetector",
}


def wanted(argv: Sequence[str]) -> list[str]:
    """Return the names of the nodes before `--ros-args`. Raises ValueError for one that is not among NODES, or for none."""
    names = " ".join(argv[: argv.index("--ros-args")] if "--ros-args" in argv else argv).split()
    for name in names:
        if name not in NODES:
            raise ValueError(f"monitor: there is no node '{name}'; name one or more of {', '.join(NODES)}")
    if not names:
        raise ValueError(f"monitor: name the nodes to run: one or more of {', '.join(NODES)}")
    return list(dict.fromkeys(names))


def main() -> int:
    """Run the named nodes until a signal ends them. Exits with status 2 when the names are wrong."""
    try:
        names = wanted(sys.argv[1:])
    except ValueError as error:
        rclpy.logging.get_logger("ghostshell").fatal(str(error))
        return 2
    factories = []
    for name in names:
        module, _, class_name = NODES[name].partition(":")
        factories.append(getattr(import_module(module), class_name))
    return run(*factories)


if __name__ == "__main__":
    sys.exit(main())
