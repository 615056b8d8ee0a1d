# SPDX-License-Identifier: Apache-2.0
"""Share among the benchmarks over ROS: a domain of their own, a robot brought up, a node that waits for what it hears, and
a second process that answers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import rclpy
from action_msgs.msg import GoalStatusArray
from builtin_interfaces.msg import Time
from ghostshell.msg import KernelState
from rclpy.qos import qos_profile_action_status_default
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

from bench.clearing import Clearing
from bench.common import ROOT
from ghostshell_ros.launcher import LaunchRun, describe
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import LATCHED

UP_S = 60.0
ECHO = "--echo"
"""Option by which a benchmark is the other process of its round trips."""
ECHO_SERVICE = "bench_echo"
GOALS = "move_joints/_action/status"

os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
if ECHO not in sys.argv:
    # Read when the first context is made, and inherited by every process started here: a domain of this run's own.
    os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)


P = TypeVar("P", bound="Probe")


class Probe(RuntimeNode):
    """Hears what becomes of a robot's work; `changed` guards all of it and is notified of each message."""

    def __init__(self, robot: str) -> None:
        super().__init__("bench_probe", namespace=robot)
        self.changed = threading.Condition()
        self.faults: list[str] = []
        self.kernel_ready = False
        self.create_subscription(KernelState, "kernel_state", self._on_kernel, LATCHED)

    def wait(self, condition: Callable[[], object], what: str, timeout_s: float = 10.0) -> None:
        """Wait for something that a message brings; raises RuntimeError at the deadline."""
        with self.changed:
            if not self.changed.wait_for(condition, timeout_s):
                raise RuntimeError(f"not within {timeout_s:g} s: {what}; {'; '.join(self.faults[-3:]) or 'see its log'}")

    def _on_kernel(self, message: KernelState) -> None:
        with self.changed:
            self.kernel_ready = not message.halted
            self.changed.notify_all()


class Goals:
    """Times at which the driver of the joints accepted its goals [s of the system's time], by their ids."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.accepted: dict[bytes, float] = {}
        probe.create_subscription(GoalStatusArray, GOALS, self._on_status, qos_profile_action_status_default)

    def _on_status(self, message: GoalStatusArray) -> None:
        with self._probe.changed:
            for status in message.status_list:
                self.accepted.setdefault(bytes(status.goal_info.goal_id.uuid), seconds(status.goal_info.stamp))
            self._probe.changed.notify_all()


class ServiceEcho(RuntimeNode):
    """Answers an empty service, in a process of its own."""

    def __init__(self, robot: str) -> None:
        super().__init__("bench_echo", namespace=robot)
        self.create_service(Trigger, ECHO_SERVICE, lambda _, response: response)


def timed_calls(probe: Probe, *names: str) -> Callable[[str], tuple[float, float]]:
    """Clients of empty services; gives what calls one and returns the times of handing it over and of its answer [s]."""
    clients: dict[str, Any] = {
        name: Clearing(probe) if name == "clear_halt" else probe.create_client(Trigger, name) for name in names
    }

    def call(name: str) -> tuple[float, float]:
        answered: list[float] = []

        def heard(_: object) -> None:
            with probe.changed:
                answered.append(time.perf_counter())
                probe.changed.notify_all()

        until(clients[name].service_is_ready, f"the service {name}")
        began = time.perf_counter()
        probe.call_soon(lambda: clients[name].call_async(Trigger.Request()).add_done_callback(heard))
        probe.wait(lambda: answered, f"the answer of {name}", 20.0)
        return began, answered[0]

    return call


def until(condition: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
    """Wait for something that no message tells of; raises RuntimeError at the deadline."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.005)


def seconds(stamp: Time) -> float:
    return float(stamp.sec) + stamp.nanosec * 1e-9


def serve_echo(make: Callable[[], RuntimeNode]) -> None:
    """Be the other process of a round trip until the one that started it ends."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    with NodeHost([make()]) as host:
        host.start()
        sys.stdin.read()


@contextmanager
def brought_up(robot: str, make: Callable[[], P], /, **arguments: str) -> Iterator[P]:
    """Bring up a robot with all of its nodes, the other process of this benchmark, and a probe; its last lines are printed when
    something does not come."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    lines: list[str] = []
    specs = describe(ROOT / "launch" / f"{robot}.launch.xml", {"robot_name": robot, "default_robot": "false", **arguments})
    echo = subprocess.Popen([sys.executable, sys.argv[0], ECHO], stdin=subprocess.PIPE)
    launch = LaunchRun(specs, listener=lambda event: lines.append(event.text))
    probe = make()
    try:
        with launch, NodeHost([probe]) as host:
            launch.start()
            host.start()
            probe.wait(lambda: probe.kernel_ready, "the skill kernel", UP_S)
            yield probe
    except RuntimeError:
        print("\n".join(lines[-20:]), file=sys.stderr)
        raise
    finally:
        echo.communicate()
        rclpy.try_shutdown()
