# SPDX-License-Identifier: Apache-2.0
"""What setup.cfg names as console scripts. Importing a node takes a second; a Ctrl-C meanwhile ends it without a word, for
nothing has begun yet."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM)
NODES = {
    "ghostshell_ros.nodes": (
        "process_scheduler",
        "action_planner",
        "task_planner",
        "token_parser",
        "channel_scheduler",
        "mind",
        "skill_kernel",
        "safety_gate",
        "lifecycle_manager",
        "object_detector",
        "memory",
        "observer",
        "reflexes",
        "teleop",
        "sim",
    ),
    "ghostshell_ros.drivers": ("drivers",),
}
"""Executables by their package; each is a module's `main`."""


def _without_generator() -> None:
    """Keep what every message imports from loading ROS's code generator beside it: 4 MB and 0.1 s for nothing."""
    modules: dict[str, Any] = sys.modules
    modules.setdefault("rosidl_generator_py.generate_py_impl", None)


def ghostshell() -> None:
    """The command line."""
    _without_generator()
    before = {number: signal.signal(number, lambda n, _: os._exit(128 + n)) for number in ENDING}
    main = import_module("ghostshell_ros.cli.main").main
    for number, handler in before.items():
        signal.signal(number, handler)
    main()


def _node(module: str) -> int:
    _without_generator()
    gc.disable()  # until the node has been made: little of what is made by then goes again
    for number in ENDING:
        signal.signal(number, lambda *_: os._exit(0))  # until the node's own handlers take over
    return int(import_module(module).main())


def __getattr__(name: str) -> Callable[[], int]:
    for package, names in NODES.items():
        if name in names:
            return partial(_node, f"{package}.{name}.node" if package.endswith(".nodes") else f"{package}.{name}")
    raise AttributeError(f"module '{__name__}' has no executable '{name}'")
