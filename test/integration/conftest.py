# SPDX-License-Identifier: Apache-2.0
"""Real nodes in processes of their own over real DDS, each test in a namespace of its own."""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Read by the middleware when the first context is made, and inherited by every process started here.
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)
os.environ["FASTDDS_BUILTIN_TRANSPORTS"] = "DEFAULT?sockets_size=4MB"  # these tests send images, and kill those that read them
_keys = tempfile.TemporaryDirectory(prefix="ghostshell_keys_")
os.environ["GHOSTSHELL_KEYS"] = _keys.name
"""Those of the tests and of the robots that they start."""

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("ghostshell.msg", reason="needs the built interfaces: source install/setup.bash")

sys.path.insert(0, str(Path(__file__).parent))  # pytest's importlib mode does not, and the tests share ros_support

from rclpy.signals import SignalHandlerOptions  # noqa: E402

from ghostshell_ros.runtime.node import RuntimeNode  # noqa: E402
from ghostshell_ros.runtime.node_runtime import NodeHost  # noqa: E402
from ros_support import ROBOT, Plant, Processes  # noqa: E402

_numbers = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def ros() -> Iterator[None]:
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    yield
    rclpy.try_shutdown()


@pytest.fixture
def namespace() -> str:
    return f"/t{os.getpid()}_{next(_numbers)}"


@pytest.fixture
def robot_file(tmp_path: Path) -> str:
    """Return a robot of three joints that each do 2 rad/s."""
    path = tmp_path / "stub.yaml"
    path.write_text(ROBOT)
    return str(path)


@pytest.fixture
def processes(namespace: str) -> Iterator[Processes]:
    started = Processes(namespace)
    yield started
    started.end()


@pytest.fixture
def host(ros: None) -> Iterator[Callable[..., Any]]:
    """Spins nodes of the test's own process: `host(node, …)`."""
    hosts: list[NodeHost] = []

    def spin(*nodes: RuntimeNode) -> None:
        hosts.append(NodeHost(nodes))
        hosts[-1].start()

    yield spin
    for spun in hosts:
        spun.close()


@pytest.fixture
def plant(namespace: str, host: Callable[..., Any]) -> Plant:
    made = Plant(namespace)
    host(made)
    return made
