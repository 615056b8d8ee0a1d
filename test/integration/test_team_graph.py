# SPDX-License-Identifier: Apache-2.0
"""Teams and the tabletop as they are launched: maps and policies of SROS 2 are those of the running graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ghostshell_ros.runtime.node import RuntimeNode
from pipeline_support import hold_mapped
from ros_support import wait_until
from scripts.graph_map import DEADLINE_S, READER, running

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("launch", ["kitchen", "home", "tabletop"])
def test_the_maps_of_robots_and_team_are_those_of_the_running_graph(launch: str, host: Callable[..., Any]) -> None:
    reader = RuntimeNode(READER)
    host(reader)
    with running(launch) as spaces:
        for space in spaces.values():
            wait_until(lambda space=space: reader.count_publishers(f"{space}/processes"), DEADLINE_S, f"{space} is up")  # type: ignore[misc]
        for name, space in spaces.items():
            hold_mapped(reader, space, name)
