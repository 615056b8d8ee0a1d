# SPDX-License-Identifier: Apache-2.0
"""Connect the mobile base to the safety gate: commands by rank and sensors in, one velocity, posture and attitude out."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from geometry_msgs.msg import Twist, TwistStamped, Vector3
from nav_msgs.msg import Odometry
from rclpy.duration import Duration
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.qos import LATCHED, SENSORS, SET_POINTS
from ghostshell_ros.wire.sensing import points_of, pose_of, twist_of, velocity_of
from ghostshell_ros.wire.values import seconds
from skill_kernel.events import Notice
from skill_kernel.robot import BaseConfig, JointConfig
from skill_kernel.safety.base_gate import HOLD, POSTURES, STILL, BaseGate, Source
from skill_kernel.safety.joint_gate import JointGate, Refusal, RefusalKind

ATTITUDE = ("roll", "pitch", "yaw")
ATTITUDE_LIMITS = dict.fromkeys(ATTITUDE, JointConfig(lower=-0.4, upper=0.4, max_velocity=1.5))
"""Range and speed of each of them [rad, rad/s]."""
LAST_WORD_S = 0.1
"""Longest time a gate that ends waits for its last velocity to arrive."""
SWITCH_S = 0.05
"""Time in which the executor lets a reader of `cmd_vel` go; a participant can hear a topic in one type only."""

ATTITUDE_HEARD_S = 2.0
"""Time for the body to reach an attitude at its largest speed; unlike a velocity, an attitude is sent once."""
REST_S = 1.0
"""Time for which the base has to stand still without a command until it is looked at with everything else, by `look_around`."""
OPERATOR = "an operator has the base; try again when it is given back"
ELSEWHERE = {"geometry_msgs/msg/Twist": Twist, "geometry_msgs/msg/TwistStamped": TwistStamped}
"""Types in which `cmd_vel` is published. A participant can hear a topic in one type at a time."""


class BasePorts:
    """Connect a `BaseGate` to ROS for the safety gate's node, which documents the topics.

    `on_tick` is called after each tick, so that a halt found here reaches the other gates of the robot.
    """

    def __init__(
        self,
        node: RuntimeNode,
        base: BaseConfig,
        gate: BaseGate,
        *,
        rate_hz: float,
        events: EventWriter,
        on_tick: Callable[[], None],
        on_refused: Callable[[Refusal], None],
    ) -> None:
        if node.resolve_topic_name("cmd_vel") == node.resolve_topic_name("cmd_vel_gated"):
            raise NodeStartError("the gate would hear itself: remap cmd_vel of the base to cmd_vel_gated, not that of the gate")
        self._node = node
        self._base = base
        self.gate = gate
        self.attitude = JointGate(ATTITUDE_LIMITS, timeout_s=ATTITUDE_HEARD_S, measurement_timeout_s=0.0)
        self.attitude.measure(node.steady_now(), ATTITUDE, (0.0, 0.0, 0.0))
        self.ready = False
        """True once the base was heard: before its first odometry it is not reported as free to move."""
        self.relaying = False
        """True once commands are relayed; before, they are dropped and nothing is sent but a halt."""
        self._events = events
        self._on_tick = on_tick
        self._refused = on_refused
        self._teleop_published: bool | None = None

        self._cmd_vel = node.create_publisher(Twist, "cmd_vel_gated", SET_POINTS)
        self._posture = node.create_publisher(String, "posture", SET_POINTS)
        self._attitude = node.create_publisher(Vector3, "attitude", SET_POINTS)
        self._teleop = node.create_publisher(Bool, "teleop_active", LATCHED)
        # Best effort takes commands of publishers of either kind; a lost one is sent again, or the base comes to stand.
        for topic, source in (("in", Source.SKILL), ("reflex", Source.REFLEX), ("teleop", Source.TELEOP)):
            node.create_subscription(Twist, f"cmd_vel_{topic}", partial(self._on_velocity, source), SENSORS)
        self._hear_elsewhere(Twist)
        node.create_subscription(String, "posture_in", self._on_posture, SET_POINTS)
        node.create_subscription(Vector3, "attitude_in", self._on_attitude, SET_POINTS)
        node.create_subscription(Odometry, "odom", self._on_odometry, SENSORS)
        node.create_subscription(LaserScan, "scan", self._on_scan, SENSORS)
        node.create_service(Trigger, "release_teleop", self._on_release)
        self._moved_at = node.steady_now()
        self._timer = node.steady_timer(1.0 / rate_hz, self._tick)

    def halt(self, cause: str) -> None:
        """Rest: the velocity first and at once, then a change of posture or attitude stays where it is."""
        self.gate.halt(cause)
        self.publish()
        self.attitude.halt(cause)
        self._posture.publish(String(data=HOLD))

    def rest(self) -> None:
        """Send zero as the gate's last word, and wait until it has arrived."""
        if self.relaying:
            self.halt("the safety gate ends")
            self._cmd_vel.wait_for_all_acked(Duration(seconds=LAST_WORD_S))

    def clear_halt(self) -> None:
        """Let commands count again; nothing moves before a new one."""
        self.gate.clear_halt()
        self.attitude.clear_halt()

    def look_around(self) -> None:
        """Tick while the base rests, and hear `cmd_vel` in the type in which it is published."""
        if self._timer.is_canceled():
            self._tick()
        if self._node.count_publishers("cmd_vel"):
            found = {info.topic_type for info in self._node.get_publishers_info_by_topic("cmd_vel")}
            kinds = [kind for name, kind in ELSEWHERE.items() if name in found]
            if kinds and self._elsewhere.msg_type not in kinds:
                self._node.destroy_subscription(self._elsewhere)
                self._node.call_later(SWITCH_S, partial(self._hear_elsewhere, kinds[0]))

    def _hear_elsewhere(self, kind: type[Twist | TwistStamped]) -> None:
        def heard(message: Twist | TwistStamped) -> None:
            self._on_velocity(Source.ELSEWHERE, message.twist if kind is TwistStamped else message)

        self._elsewhere = self._node.create_subscription(kind, "cmd_vel", heard, SENSORS)

    def publish(self) -> None:
        """Send what the gate has now; on a halt at once, not at the next tick."""
        self._cmd_vel.publish(twist_of(self.gate.output))

    def _wake(self) -> None:
        """Tick at the full rate: a command has come."""
        self._moved_at = self._node.steady_now()
        if self._timer.is_canceled():
            # The time until now was spent standing still and must not count as time to move in.
            self.gate.tick(self._moved_at)
            self._timer.reset()

    def _tick(self) -> None:
        now = self._node.steady_now()
        self.gate.tick(now)
        attitude = self.attitude.tick(now)
        if self.relaying:
            self.publish()
            self._publish_teleop()
        if self.attitude.moving(now):
            self._attitude.publish(Vector3(**{axis: attitude[name] for axis, name in zip("xyz", ATTITUDE, strict=True)}))
            self.gate.plausibility.excuse()
        self._on_tick()
        if self.gate.commander or self.gate.output != STILL or self.attitude.moving(now):
            self._moved_at = now
        elif now - self._moved_at > REST_S:
            self._timer.cancel()

    def _on_velocity(self, source: Source, message: Twist) -> None:
        if not self.relaying:
            return
        self._wake()
        refusal = self.gate.command(self._node.steady_now(), source, velocity_of(message))
        if refusal is not None:
            self._refused(refusal)

    def _on_odometry(self, message: Odometry) -> None:
        pose = pose_of(message.pose.pose)
        if all(map(math.isfinite, (pose.x, pose.y, pose.yaw))):
            self.ready = True
            if self._believed("odom", message):
                self.gate.odometry(self._node.steady_now(), pose.x, pose.y, pose.yaw)

    def _believed(self, sensor: str, message: Odometry | LaserScan) -> bool:
        node = self._node
        return self.gate.believes(node.steady_now(), sensor, seconds(message.header.stamp), node.now_s())

    def _on_scan(self, message: LaserScan) -> None:
        step = message.angle_increment
        angles = math.isfinite(message.angle_min) and math.isfinite(step) and (step != 0.0 or len(message.ranges) < 2)
        limits = math.isfinite(message.range_min) and message.range_max > message.range_min
        if not (angles and limits and any(distance == distance for distance in message.ranges)):
            text = "a scan without measured ranges, angles or limits counts as silence: is the laser covered or broken?"
            self._refused(Refusal(RefusalKind.NOT_FINITE, "scan", text))
        elif self._believed("scan", message):
            self.gate.scan(self._node.steady_now(), points_of(message, self._base.laser), np.asarray(message.ranges))

    def _on_posture(self, message: String) -> None:
        if not self.relaying:
            return
        if message.data == HOLD:
            self._posture.publish(message)
        elif message.data not in POSTURES:
            text = f"posture '{message.data[:40]}' is unknown; send one of {', '.join((*POSTURES, HOLD))}"
            self._refused(Refusal(RefusalKind.UNKNOWN_JOINT, "posture", text))
        elif refusal := self._held_back("posture"):
            self._refused(refusal)
        else:
            self.gate.plausibility.excuse()
            self._posture.publish(message)

    def _on_attitude(self, message: Vector3) -> None:
        if not self.relaying:
            return
        self._wake()
        angles = (message.x, message.y, message.z)
        refusal = self._held_back("attitude") or self.attitude.command(self._node.steady_now(), ATTITUDE, angles)
        if refusal is not None:
            self._refused(refusal)

    def _held_back(self, what: str) -> Refusal | None:
        """Return why a change of posture or attitude is not relayed now, or None."""
        operator = Refusal(RefusalKind.HALTED, what, OPERATOR) if self.gate.teleop else None
        return self.gate.refusal(what) or operator

    def _on_release(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        had = self.gate.release_teleop()
        self._publish_teleop()
        response.success = True
        response.message = "the base is given back" if had else "no operator had the base"
        return response

    def _publish_teleop(self) -> None:
        active = self.gate.teleop
        if active == self._teleop_published:
            return
        if active:
            self._posture.publish(String(data=HOLD))
        if active or self._teleop_published:
            text = "an operator has taken the base (teleop); release_teleop gives it back" if active else "teleop has ended"
            self._events.write(Notice(text=text))
            self._node.get_logger().info(text)
        self._teleop_published = active
        self._teleop.publish(Bool(data=active))
