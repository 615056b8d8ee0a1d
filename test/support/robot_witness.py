# SPDX-License-Identifier: Apache-2.0
"""Stand beside a robot or a team, on its own machine: print what its kernel runs, its halts, each step of its front leg, what
it tells people, and which robots it lacks."""

from __future__ import annotations

import json
import sys
import time

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from ghostshell.msg import KernelState
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import DIAGNOSTICS, LATCHED, SENSORS
from skill_kernel.events import Notice

LEG, AWAY, HOME = "leg1_coxa", 0.15, 0.05
"""A joint that swings once a step, and how far from rest [rad] it is in a step, and between two."""


class Witness(RuntimeNode):
    """Print a line of JSON for each thing that happens: {"at": steady time, what: …}."""

    def __init__(self, robot: str) -> None:
        super().__init__("witness", namespace=robot)
        self._planner = f"{robot}/team_planner"
        self._running: set[str] = set()
        self._steps, self._away, self._health = 0, False, ""
        self.create_subscription(KernelState, "kernel_state", self._calls, LATCHED)
        self.create_subscription(Bool, "halted", lambda m: self._tell(halted=m.data), LATCHED)
        self.create_subscription(JointState, "joint_states", self._joints, SENSORS)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._healths, DIAGNOSTICS)
        read_events(self, lambda notice: self._tell(notice=notice.told), Notice, robot=robot)

    def _tell(self, **what: object) -> None:
        print(json.dumps({"at": time.monotonic(), **what}), flush=True)

    def _calls(self, state: KernelState) -> None:
        running = {*state.running}
        for call_id in running - self._running:
            self._tell(began=call_id)
        for call_id in self._running - running:
            self._tell(ended=call_id)
        self._running = running

    def _joints(self, message: JointState) -> None:
        angle = abs(message.position[message.name.index(LEG)])
        if self._away and angle < HOME:
            self._steps += 1
            self._tell(steps=self._steps)
        self._away = angle > (HOME if self._away else AWAY)

    def _healths(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == self._planner and status.message != self._health:
                self._health = status.message
                self._tell(health=status.message)


def main() -> None:
    """Watch until the standard input ends."""
    rclpy.init()
    with NodeHost((Witness(sys.argv[1]),)) as host:
        host.start()
        sys.stdin.read()


if __name__ == "__main__":
    main()
