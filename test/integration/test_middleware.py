# SPDX-License-Identifier: Apache-2.0
"""What config/fastdds.xml asks of the middleware is what the nodes get."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ghostshell_ros.runtime import node_runtime as middleware
from ghostshell_ros.runtime.node import RuntimeNode
from ros_support import ROOT, Processes, wait_until

LEASE_S = 5.0


@pytest.mark.faults
def test_a_node_that_was_killed_leaves_the_graph_in_seconds(
    namespace: str, host: Callable[..., Any], processes: Processes
) -> None:
    watcher = RuntimeNode("watcher", namespace=namespace)
    host(watcher)

    def there() -> bool:
        return ("token_parser", namespace) in watcher.get_node_names_and_namespaces()

    parser = processes.start("token_parser", env={middleware.PROFILES: ""})
    wait_until(there, 20.0, "it is in the graph")
    os.kill(parser.pid, signal.SIGKILL)
    parser.wait()
    took_s = wait_until(lambda: not there(), LEASE_S + 3.0, "it is gone")
    assert took_s > 0.5, "or it was never there"


def test_another_file_of_profiles_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(middleware.PROFILES, str(tmp_path / "mine.xml"))
    middleware.prefer_profiles()
    assert os.environ[middleware.PROFILES] == str(tmp_path / "mine.xml")
    monkeypatch.delenv(middleware.PROFILES)
    middleware.prefer_profiles()
    assert os.environ[middleware.PROFILES] == str(ROOT / "config" / "fastdds.xml")
