# SPDX-License-Identifier: Apache-2.0
"""The node of the reflexes with a real kernel: it stops, takes, acts and gives back, and one bad rule costs only itself.

One kernel and one node serve the tests of this file that do not end them; each test adds its rules and they go with it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ghostshell.msg import ReflexState as State
from std_msgs.msg import Bool

from reflex_support import FAR, NEAR, Setting, StandIn, ended, reflex, started
from reflexes.loop import REARM_S
from ros_support import Processes, wait_until
from skill_kernel.codes import Outcome
from skill_kernel.events import CallKind, ProcessKind


@pytest.fixture(scope="module")
def shared(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    with started(tmp_path_factory.mktemp("reflexes")) as made:
        yield made


@pytest.fixture
def node(shared: Setting) -> StandIn:
    shared.node.reset()
    return shared.node


@pytest.fixture
def setting(tmp_path: Path, namespace: str, processes: Processes, host: Callable[..., Any]) -> Setting:
    node = StandIn(namespace)
    host(node)
    return Setting(tmp_path, processes, node)


def test_a_reflex_stops_the_base_pauses_the_patrol_acts_and_lets_it_go_on(node: StandIn) -> None:
    node.take(reflex("back", "near_m() < 0.2", "move_back(distance_m=0.5)"))
    node.patrol()
    node.comes(NEAR)
    assert "done" in ended(node, "back").text
    wait_until(lambda: node.of("walker", ProcessKind.RESUMED), 2.0, "the patrol goes on")
    kinds = [
        (e.process_id.split("-")[0], e.kind)
        for e in node.events
        if e.kind in (ProcessKind.PAUSED, ProcessKind.RESUMED, CallKind.STARTED, CallKind.ENDED)
    ]
    assert kinds == [
        ("walker", ProcessKind.PAUSED),
        ("reflex", CallKind.STARTED),
        ("reflex", CallKind.ENDED),
        ("walker", ProcessKind.RESUMED),
    ]
    assert node.stops and not any((m.linear.x, m.linear.y, m.angular.z) != (0.0, 0.0, 0.0) for _, m in node.stops)
    wait_until(lambda: node.states["back"].fired == 1 and not node.states["back"].acting, 2.0, "the state tells of it")
    assert node.states["back"].last == "done: walked back 0.5 m"
    node.comes(NEAR)
    time.sleep(0.5)
    assert node.states["back"].fired == 1


def test_the_stop_leaves_at_once(node: StandIn) -> None:
    node.take(reflex("back", "near_m() < 0.2", "move_back(distance_m=0.1)"))
    times = []
    for _ in range(10):
        node.comes(FAR)
        time.sleep(REARM_S + 0.2)  # so long it has to be far, and a few measurements
        node.stops.clear()
        since = len(node.events)
        sent = node.comes(NEAR)
        wait_until(lambda: node.stops, 2.0, "the stop")
        times.append(node.stops[0][0] - sent)
        ended(node, "back", since=since)
    assert sorted(times)[len(times) // 2] < 0.05


def test_a_text_is_spoken_while_others_go_on_moving(node: StandIn) -> None:
    node.take(reflex("greet", "loud()", "say(text='hello there')"))
    node.patrol()
    node.loud = True
    assert "done" in ended(node, "greet").text
    (end,) = node.of("reflex-greet", CallKind.ENDED)
    assert end.outcome == Outcome.DONE and end.message == "said: hello there"
    assert not node.of("walker", ProcessKind.PAUSED) and node.stops == []


def test_a_higher_reflex_interrupts_a_lower_one(node: StandIn) -> None:
    node.take(
        reflex("low", "near_m() < 1", "move_back(distance_m=5)", priority=10),
        reflex("high", "near_m() < 0.2", "move_back(distance_m=0.2)", priority=90),
    )
    node.patrol()
    node.comes(0.5)
    wait_until(lambda: node.of("reflex-low", CallKind.STARTED), 5.0, "the lower one acts")
    node.comes(NEAR)
    assert "done" in ended(node, "high").text
    assert "not now, reflex 'high' has a higher priority" in ended(node, "low").text
    (low,) = node.of("reflex-low", CallKind.ENDED)
    assert low.outcome == Outcome.INTERRUPTED
    node.comes(FAR)
    wait_until(lambda: node.of("walker", ProcessKind.RESUMED), 8.0, "the patrol goes on after both")


def test_one_that_raises_is_disabled_for_good_and_the_others_go_on(node: StandIn, shared: Setting) -> None:
    node.take(
        reflex("bad", "near_m() < 1 and 1 / (near_m() - 0.5) > 0", "move_back(distance_m=0.1)", priority=90),
        reflex("back", "near_m() < 0.6", "move_back(distance_m=0.1)"),
    )
    node.comes(0.5)
    assert "done" in ended(node, "back").text
    wait_until(lambda: node.states["bad"].state == State.DISABLED, 3.0, "the bad one is disabled")
    assert "ZeroDivisionError" in node.states["bad"].reason
    assert any("reflex 'bad' is disabled" in getattr(e, "text", "") for e in node.events)
    kept = yaml.safe_load((shared.data / "jumpy" / "reflexes" / "bad.yaml").read_text())
    assert kept["state"] == "disabled"
    node.comes(FAR)
    time.sleep(0.2)
    assert node.ask("ENABLE", name="bad").success
    wait_until(lambda: node.states["bad"].state == State.APPROVED, 3.0, "it is enabled")


def test_stale_sensors_and_a_halt_let_nothing_fire(node: StandIn) -> None:
    node.take(reflex("back", "near_m() < 0.2", "move_back(distance_m=0.1)"))
    node.silent = True
    wait_until(lambda: node.states["back"].stale_field == "near_m", 3.0, "it cannot be told")
    assert node.states["back"].holds == State.UNKNOWN and node.states["back"].stale > 0
    node.halted.publish(Bool(data=True))
    time.sleep(0.2)
    node.silent = False
    node.comes(NEAR)
    time.sleep(0.5)
    assert node.stops == [] and node.states["back"].fired == 0
    node.halted.publish(Bool(data=False))
    wait_until(lambda: node.stops, 2.0, "it fires once the halt is cleared")


def test_an_operator_who_takes_the_base_ends_a_reflex_for_good(node: StandIn) -> None:
    node.take(reflex("back", "near_m() < 0.2", "patrol()"))
    node.comes(NEAR)
    wait_until(lambda: node.of("reflex-back", CallKind.STARTED), 5.0, "it acts")
    node.comes(FAR)
    node.teleop.publish(Bool(data=True))
    assert "not now, the kernel paused it (teleop)" in ended(node, "back", timeout_s=2.0).text
    node.teleop.publish(Bool(data=False))
    wait_until(lambda: node.kernel and not node.kernel.processes, 3.0, "the operator and the reflex keep nothing")
    time.sleep(0.5)
    assert len(node.of("reflex-back", CallKind.STARTED)) == 1
    assert node.states["back"].state == State.APPROVED


def test_a_halt_ends_a_reflex_that_waits(node: StandIn) -> None:
    node.take(reflex("back", "near_m() < 0.2", "stop()", "wait(0.5)", "move_back(distance_m=0.5)"))
    node.comes(NEAR)
    wait_until(lambda: node.stops, 5.0, "it acts")
    node.comes(FAR)
    node.halted.publish(Bool(data=True))
    assert "not now, the robot is halted" in ended(node, "back", timeout_s=1.0).text
    node.halted.publish(Bool(data=False))
    time.sleep(1.0)
    assert not node.of("reflex-back", CallKind.STARTED)


def test_stop_holds_the_base_as_long_as_the_action_lasts(node: StandIn) -> None:
    node.take(reflex("freeze", "near_m() < 0.2", "stop()", "wait(1.0)"))
    node.comes(NEAR)
    assert "done" in ended(node, "freeze").text
    times = [at for at, _ in node.stops]
    assert times[-1] - times[0] > 0.8 and max(b - a for a, b in zip(times, times[1:], strict=False)) < 0.19
    time.sleep(0.3)
    assert len(node.stops) == len(times)


def test_an_action_whose_last_step_failed_has_failed(node: StandIn) -> None:
    node.take(reflex("trip", "near_m() < 0.2", "stumble()"))
    node.comes(NEAR)
    assert "'trip': failed, stumbled" in ended(node, "trip").text


def test_nothing_follows_a_step_that_failed_unless_the_action_looks_at_it(node: StandIn) -> None:
    node.take(
        reflex("trip", "near_m() < 0.2", "stumble()", "move_back(0.5)"),
        reflex("look", "loud()", "went = stumble()", "if not went:", "    move_back(0.5)"),
    )
    node.comes(NEAR)
    assert "'trip': failed, stumbled" in ended(node, "trip").text
    stepped_back = lambda: [e for e in node.events if e.kind == CallKind.STARTED and e.function == "move_back"]  # noqa: E731
    assert not stepped_back()
    node.loud = True
    node.comes(FAR)
    assert "done" in ended(node, "look").text and stepped_back()


@pytest.mark.faults
def test_when_the_node_dies_in_the_middle_the_patrol_goes_on(setting: Setting) -> None:
    node = setting.start(reflex("back", "near_m() < 0.2", "move_back(distance_m=5)"))
    node.patrol()
    node.comes(NEAR)
    wait_until(lambda: node.of("reflex-back", CallKind.STARTED), 5.0, "it acts")
    assert setting.process is not None
    setting.process.send_signal(signal.SIGKILL)
    wait_until(lambda: node.of("walker", ProcessKind.RESUMED), 3.0, "the patrol goes on")


def test_the_rounds_are_punctual_and_cheap_with_fifty_reflexes(setting: Setting) -> None:
    rules = [reflex(f"r{n}", f"near_m() < 0.0{n + 10} and not loud()", "move_back(distance_m=0.1)") for n in range(50)]
    node = setting.start(*rules)
    wait_until(lambda: node.array is not None and node.array.rate_hz > 80, 6.0, "a second of rounds")
    assert node.array is not None
    print(json.dumps({"rate": node.array.rate_hz, "late_ms": node.array.late_ms, "latest_ms": node.array.latest_ms}))
    assert node.array.late_ms < 5.0
    assert max(r.mean_us for r in node.array.reflexes) < 100.0


_LIFE = """
import gc, os, signal, sys
from ghostshell_ros.executables import run
from ghostshell_ros.nodes.reflexes import node as reflexes
class Ended(reflexes.ReflexesNode):
    def __init__(self):
        super().__init__()
        self.call_later(0.1, self.end)
    def end(self):
        print(gc.get_freeze_count() > 0)
        os.kill(os.getpid(), signal.SIGINT)
reflexes.ReflexesNode = Ended
code = run("reflexes")
print(gc.get_freeze_count())
sys.exit(code)
"""


def test_what_it_keeps_from_the_collector_is_given_back_at_its_end(namespace: str) -> None:
    # A frozen node keeps its context alive until the middleware is torn down beneath it, which now and then ends in a crash.
    arguments = ["--ros-args", "-r", f"__ns:={namespace}", "-p", "robot:=kalos"]
    command = [sys.executable, "-c", _LIFE, *arguments]
    ended_so = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended_so.returncode, ended_so.stdout.split()) == (0, ["True", "0"]), ended_so.stderr
