# SPDX-License-Identifier: Apache-2.0
"""An instruction is given once the drivers have come up, and is not kept back by those that do not."""

from __future__ import annotations

import pytest

from ghostshell_ros.cli.follow import QUIET_S, UNMANAGED_S, StartUp
from ghostshell_ros.runtime.lifecycle import LOST, DriverState

ACTIVE = DriverState("/kalos/speak_driver", "active")
COMING = DriverState("/kalos/drive_driver", "inactive", (), "it is being activated; ask again", True)


def test_a_robot_long_up_is_not_waited_for() -> None:
    start = StartUp(100.0)
    start.hear(100.1, 20.0, [ACTIVE])
    assert start.coming(100.1) == []


def test_a_driver_on_its_way_is_waited_for_and_named() -> None:
    start = StartUp(100.0)
    start.hear(100.1, 20.0, [ACTIVE, COMING])
    assert start.coming(160.0) == ["drive_driver"]
    start.hear(160.0, 160.0, [ACTIVE, DriverState("/kalos/drive_driver", "active")])
    assert start.coming(160.0 + QUIET_S) == []


@pytest.mark.parametrize("state", ["", "unconfigured", "configuring", "activating"])
def test_a_driver_that_was_not_yet_brought_up_is_waited_for_before_the_gate_was_heard(state: str) -> None:
    start = StartUp(100.0)
    start.hear(100.1, 20.0, [DriverState("/kalos/drive_driver", state, (), "no safety gate was heard; see whether it runs")])
    assert start.coming(160.0) == ["drive_driver"]


def test_while_the_states_change_another_driver_may_show_up() -> None:
    start = StartUp(100.0)
    start.hear(105.0, 105.0, [ACTIVE])
    assert start.coming(105.0 + QUIET_S / 2) == ["drivers"]
    assert start.coming(105.0 + QUIET_S) == []


def test_a_wrong_clock_of_the_robot_delays_by_no_more_than_the_quiet_time() -> None:
    start = StartUp(100.0)
    start.hear(105.0, 9e9, [ACTIVE])
    assert start.coming(105.0 + QUIET_S) == []


@pytest.mark.parametrize("state", [LOST, "inactive"])
def test_what_is_lost_or_was_deactivated_is_not_waited_for(state: str) -> None:
    start = StartUp(100.0)
    start.hear(100.1, 20.0, [ACTIVE, DriverState("/kalos/drive_driver", state, (), "for a reason")])
    assert start.coming(100.2) == []


def test_a_robot_without_a_manager_is_waited_for_a_moment() -> None:
    start = StartUp(100.0)
    assert start.coming(100.0 + UNMANAGED_S / 2) == ["drivers"]
    assert start.coming(100.0 + UNMANAGED_S) == []
