# SPDX-License-Identifier: Apache-2.0
"""Hears a simulated robot's topics and writes what happens into the trace of the trial that runs."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

from action_msgs.msg import GoalStatus, GoalStatusArray
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from ghostshell.msg import KernelState, ProcessArray, ProcessState
from rclpy.qos import qos_profile_action_status_default
from std_msgs.msg import String

from bench.evaluation.trace import PoseAt, Recorder, StateAt, Trace
from bench.evaluation.truth import Places
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import LATCHED, LATCHED_BY_ANY, SENSORS
from ghostshell_ros.wire.values import yaw_of
from skill_kernel.events import CallEvent, ModelEvent, Notice
from skill_kernel.processes.process import ProcessStatus
from skill_kernel.robot import RobotConfig

ENDED = (ProcessState.SUCCESS, ProcessState.FAILED, ProcessState.STOPPED)
BASE, THINGS = "base_link", ("ball", "person")


class Listener(RuntimeNode):
    """`changed` guards everything and is notified of each message. Times are ROS time, as the stamps are."""

    def __init__(self, robot: str, things: Sequence[str] = THINGS) -> None:
        super().__init__("typego", namespace=robot, use_global_arguments=False)
        self.robot = robot
        self.changed = threading.Condition()
        self.trace = Trace()
        self._recorder = Recorder(self.trace)
        self.places = Places(RobotConfig.load(robot))
        self.pose: PoseAt | None = None
        self.living: dict[str, ProcessState] = {}
        self.running: tuple[str, ...] = ()
        self.halted = ""
        self.kernel_seen = False
        self.drivers: dict[str, bool] = {}
        self._posture = ""
        self._sounds: set[bytes] = set()
        self._statuses: dict[str, tuple[object, ...]] = {}
        read_events(self, self._on_event, CallEvent, ModelEvent, Notice)
        self.create_subscription(ProcessArray, "processes", self._on_processes, LATCHED_BY_ANY)
        self.create_subscription(KernelState, "kernel_state", self._on_kernel, LATCHED)
        self.create_subscription(DiagnosticArray, "driver_states", self._on_drivers, LATCHED)
        self.create_subscription(String, "posture_state", self._on_posture, LATCHED)
        self.create_subscription(PoseStamped, f"ground_truth/{BASE}", self._on_base, SENSORS)
        for name in things:
            self.create_subscription(PoseStamped, f"ground_truth/{name}", lambda m, n=name: self._on_thing(n, m), SENSORS)
        self.create_subscription(
            GoalStatusArray, "play_sound/_action/status", self._on_sounds, qos_profile_action_status_default
        )

    def ros_now(self) -> float:
        return float(self.get_clock().now().nanoseconds * 1e-9)

    def begin(self) -> Trace:
        """Begin a new trace."""
        with self.changed:
            self.trace = Trace(asked=self.ros_now())
            self._recorder = Recorder(self.trace)
            self.trace.postures.append((self.trace.asked, self._posture))
            self._statuses.clear()
            return self.trace

    def end(self) -> None:
        """End the trace: what is heard from now on belongs to no trial."""
        with self.changed:
            self.trace = Trace()
            self._recorder = Recorder(self.trace)

    def _on_event(self, event: CallEvent | ModelEvent | Notice) -> None:
        with self.changed:
            self._recorder.take(event)
            self.changed.notify_all()

    def _on_processes(self, message: ProcessArray) -> None:
        at = seconds(message.stamp)
        with self.changed:
            self.living = {p.process_id: p for p in message.processes if p.status not in ENDED}
            for p in message.processes:
                if not seconds(p.created) >= self.trace.asked - 0.5:
                    continue
                state = (ProcessStatus(p.status).name, tuple(p.pause_causes), p.error_code, p.message)
                if self._statuses.get(p.process_id) != state:
                    self._statuses[p.process_id] = state
                    self.trace.states.append(StateAt(at, p.process_id, state[0], state[1], state[2], state[3]))
            self.changed.notify_all()

    def _on_kernel(self, message: KernelState) -> None:
        with self.changed:
            self.kernel_seen, self.running = True, tuple(message.running)
            self.halted = (message.halt_cause or "halted") if message.halted else ""
            self.changed.notify_all()

    def _on_drivers(self, message: DiagnosticArray) -> None:
        with self.changed:
            self.drivers = {s.name.rsplit("/", 1)[-1]: s.level == DiagnosticStatus.OK for s in message.status}
            self.changed.notify_all()

    def _on_posture(self, message: String) -> None:
        with self.changed:
            self._posture = message.data
            self.trace.postures.append((self.ros_now(), message.data))
            self.changed.notify_all()

    def _on_base(self, message: PoseStamped) -> None:
        at, q = message.pose.position, message.pose.orientation
        pitch = math.asin(max(-1.0, min(1.0, 2 * (q.w * q.y - q.z * q.x))))
        with self.changed:
            self.pose = PoseAt(seconds(message.header.stamp), at.x, at.y, yaw_of(q), pitch)
            self.places.add(self.pose)
            if self.pose.at >= self.trace.asked:
                self.trace.poses.append(self.pose)
            self.changed.notify_all()

    def _on_thing(self, name: str, message: PoseStamped) -> None:
        at = message.pose.position
        with self.changed:
            self.trace.objects.setdefault(name, []).append((seconds(message.header.stamp), at.x, at.y))

    def _on_sounds(self, message: GoalStatusArray) -> None:
        with self.changed:
            for status in message.status_list:
                name = bytes(status.goal_info.goal_id.uuid)
                if status.status == GoalStatus.STATUS_SUCCEEDED and name not in self._sounds:
                    self._sounds.add(name)
                    if seconds(status.goal_info.stamp) >= self.trace.asked:
                        self.trace.sounds.append(self.ros_now())
            self.changed.notify_all()


def seconds(stamp: Time) -> float:
    return float(stamp.sec) + stamp.nanosec * 1e-9
