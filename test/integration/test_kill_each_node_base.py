# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each node in turn while Kalos walks: by command and by its true pose it is at rest in bounded time, the task
ends with a reason, nothing starts by itself, and it walks again once the halt is cleared (each test begins with that)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from ghostshell.msg import ProcessState
from ghostshell.srv import ControlProcess

from base_observer import REST_S, BaseObserver, apart
from kill_support import DRIVER_CODES, Walk, Way, came_back, ended, failed, killed
from pipeline_support import KALOS_NODES, BroughtUp, brought_up
from ros_support import wait_until
from skill_kernel.codes import CallCode, Outcome, TaskCode

pytestmark = pytest.mark.faults

PLANNERS = ("process_scheduler", "task_planner", "action_planner", "token_parser", "channel_scheduler")
DRIVERS = ("base_driver", "posture_driver", "speak_driver", "play_sound_driver")
STANDS_S = 1.5
"""From the last command to a trunk that stays within `SWAY_M`: the gait ends its steps, then places its feet."""

WAY = Way("walk 120 cm forward", "move_forward", lambda watch, since_s: watch.last_command_s() > since_s + 0.3)


@pytest.fixture(scope="module")
def kalos(tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[BroughtUp]:
    folder = tmp_path_factory.mktemp("killed_base")
    nodes = KALOS_NODES | {"object_detector"}
    by_a_person = ("sim", "skill_kernel")
    with brought_up(
        folder,
        launch="kalos",
        nodes=nodes,
        observer_class=BaseObserver,
        also_respawn=by_a_person,
        model="offline",
        composed="false",
    ) as up:
        yield up


def at_rest(watch: BaseObserver, walk: Walk, within_s: float, *, body: bool = True) -> None:
    """No command after that time, and the body stands soon after the last one."""
    wait_until(lambda: time.monotonic() - watch.last_command_s() > REST_S, within_s + 3.0, "no command any more")
    told_s = watch.last_command_s()
    assert told_s - walk.killed_s < within_s
    if body:
        wait_until(lambda: time.monotonic() - watch.last_move_s() > REST_S, STANDS_S + 3.0, "it stands")
        assert watch.last_move_s() - max(told_s, walk.killed_s) < STANDS_S


def stays(watch: BaseObserver, walk: Walk, *nodes: str) -> None:
    """Nothing starts by itself, also when what was killed is back."""
    told_s, (_, pose) = watch.last_command_s(), watch.truth[-1]
    came_back(watch, walk, *nodes)
    time.sleep(0.5)
    assert watch.last_command_s() == told_s and not apart(watch.truth[-1][1], pose)
    wait_until(lambda: watch.kernel and not watch.kernel.running, 12.0, "the kernel says that nothing runs")


@pytest.mark.parametrize("manager", ["with", "without"])
def test_without_its_drivers_it_halts_and_they_stay_inactive_until_it_is_cleared(kalos: BroughtUp, manager: str) -> None:
    """Without a lifecycle_manager the kernel sees to it."""
    watch = kalos.observer
    names = ("drivers",) if manager == "with" else ("lifecycle_manager", "drivers")
    walk = killed(kalos, WAY, *names)
    event = ended(watch, walk, 5.0, Outcome.FAILED, Outcome.INTERRUPTED)
    assert event.error_code in DRIVER_CODES
    at_rest(watch, walk, 0.5)
    wait_until(lambda: watch.halted, 2.0, "halted")
    failed(walk, 5.0)
    stays(watch, walk, *names[:-1], *DRIVERS)
    wait_until(lambda: all(watch.drivers.get(name) == "unconfigured" for name in DRIVERS), 3.0, "inactive")
    assert watch.halted


def test_without_the_lifecycle_manager_it_walks_on(kalos: BroughtUp) -> None:
    watch = kalos.observer
    walk = killed(kalos, WAY, "lifecycle_manager")
    ended(watch, walk, 10.0, Outcome.DONE)
    assert walk.task.result(5.0).status == ProcessState.SUCCESS and not watch.halted
    came_back(watch, walk, "lifecycle_manager")


def test_without_its_planners_it_stops_and_the_task_waits_for_its_user(kalos: BroughtUp) -> None:
    watch = kalos.observer
    walk = killed(kalos, WAY, *PLANNERS)
    at_rest(watch, walk, 2.0)
    stays(watch, walk, *PLANNERS)
    state = watch.wait_status(walk.process_id, ProcessState.PAUSED, 5.0)
    assert "user" in state.pause_causes and not watch.halted
    request = ControlProcess.Request(process_id=walk.process_id, command=ControlProcess.Request.STOP)
    wait_until(watch.control.service_is_ready, 5.0, "control_process")
    assert watch.ask(watch.control, request).success
    watch.wait_status(walk.process_id, ProcessState.STOPPED, 5.0)


def test_without_the_kernel_the_gate_is_halted(kalos: BroughtUp) -> None:
    """The launch ends then; here a person starts the kernel anew."""
    watch = kalos.observer
    walk = killed(kalos, WAY, "skill_kernel")
    event = ended(watch, walk, 5.0, Outcome.FAILED)
    assert event.error_code == CallCode.KERNEL_UNAVAILABLE
    at_rest(watch, walk, 3.5)
    wait_until(lambda: watch.halted, 3.0, "halted")
    assert failed(walk, 5.0).error_code in (TaskCode.NODE_UNAVAILABLE, TaskCode.ROBOT_HALTED)
    stays(watch, walk, "skill_kernel")


def test_without_its_body_the_gate_halts(kalos: BroughtUp) -> None:
    """The simulator stands for the robot's hardware; odometry and scan are silent."""
    watch = kalos.observer
    walk = killed(kalos, WAY, "sim")
    at_rest(watch, walk, 1.6, body=False)
    wait_until(lambda: watch.halted, 2.0, "halted")
    ended(watch, walk, 4.0, Outcome.FAILED, Outcome.INTERRUPTED)
    failed(walk, 5.0)
    came_back(watch, walk, "sim")
    wait_until(lambda: watch.truth[-1][0] > walk.killed_s + 0.5, 12.0, "it is at its start again")
    stays(watch, walk, "sim")


def test_without_the_gate_the_body_stops_by_itself(kalos: BroughtUp) -> None:
    """The launch ends then, and nothing is to be started anew (test_launcher_files.py)."""
    watch = kalos.observer
    walk = killed(kalos, WAY, "safety_gate")
    at_rest(watch, walk, 0.1)
    event = ended(watch, walk, 6.0, Outcome.FAILED)
    assert "not followed" in event.error_msg, event
    failed(walk, 5.0)
