# SPDX-License-Identifier: Apache-2.0
"""Name the topics of a robot that a recording holds, the QoS they are heard with, and the definitions of their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from std_msgs.msg import String

from ghostshell_ros.wire.codec import interface
from ghostshell_ros.wire.events import TOPICS as EVENT_TOPICS
from ghostshell_ros.wire.qos import EVENTS, INSTRUCTION, LATCHED, LATCHED_BY_ANY, OBSERVATION, PLANS, QUEUES, SENSORS, STREAM
from skill_kernel.processes.questions import in_private, named


@dataclass(frozen=True)
class Topic:
    """Name a topic below a robot's namespace. At most one message in `least_s` seconds is kept."""

    name: str
    kind: str
    qos: QoSProfile
    least_s: float = 0.0


TOPICS = (
    Topic("instruction", "std_msgs/msg/String", INSTRUCTION),
    Topic("prompts", "ghostshell/msg/LlmPrompt", QUEUES),
    Topic("answers", "ghostshell/msg/LlmAnswer", QUEUES),
    Topic("llm_chunks", "ghostshell/msg/LlmChunk", STREAM),
    Topic("function_tokens", "ghostshell/msg/FunctionToken", STREAM),
    Topic("call_content", "ghostshell/msg/CallContent", STREAM),
    Topic("call_control", "ghostshell/msg/CallControl", STREAM),
    *(Topic(name, f"ghostshell/msg/{kind.__name__}", EVENTS) for kind, name in EVENT_TOPICS.items()),
    Topic("kernel_state", "ghostshell/msg/KernelState", LATCHED_BY_ANY),
    Topic("processes", "ghostshell/msg/ProcessArray", LATCHED_BY_ANY),
    Topic("questions", "ghostshell/msg/QuestionArray", LATCHED_BY_ANY),
    Topic("answer", "std_msgs/msg/String", INSTRUCTION),
    Topic("plans", "ghostshell/msg/Plan", PLANS),
    Topic("step_queue", "ghostshell/msg/StepQueue", QUEUES),
    Topic("prescriptions", "ghostshell/msg/PrescriptionArray", LATCHED),
    Topic("observation", "ghostshell/msg/Observation", OBSERVATION),
    Topic("reflex_states", "ghostshell/msg/ReflexStateArray", LATCHED),
    Topic("halt_cause", "std_msgs/msg/String", LATCHED),
    Topic("halted", "std_msgs/msg/Bool", LATCHED_BY_ANY),
    Topic("teleop_active", "std_msgs/msg/Bool", LATCHED),
    Topic("driver_states", "diagnostic_msgs/msg/DiagnosticArray", LATCHED),
    Topic("posture_state", "std_msgs/msg/String", LATCHED),
    Topic("face", "std_msgs/msg/String", LATCHED),
    Topic("object_detections", "ghostshell/msg/DetectionArray", SENSORS, 0.5),
    Topic("cmd_vel_gated", "geometry_msgs/msg/Twist", SENSORS, 0.2),
    Topic("odom", "nav_msgs/msg/Odometry", SENSORS, 0.2),
    Topic("battery_state", "sensor_msgs/msg/BatteryState", SENSORS, 1.0),
)
"""Topics of every robot."""

GLOBAL = (Topic("/instruction", "std_msgs/msg/String", INSTRUCTION),)
"""Topics outside of every namespace."""

GROUND_TRUTH = re.compile(r"(?P<robot>.+)/ground_truth/[^/]+")
GROUND_TRUTH_KIND = "geometry_msgs/msg/PoseStamped"
GROUND_TRUTH_S = 0.5

_MARK = ("events/notices", "ghostshell/msg/Notice")
"""Topic and type by which a robot's namespace is found: each of its nodes writes there."""


def robots_in(topics: Iterable[tuple[str, list[str]]]) -> set[str]:
    """Return the namespaces of robots (`/kalos`) among topics and their types, as rclpy lists them."""
    name, kind = _MARK
    return {topic.removesuffix(f"/{name}") for topic, kinds in topics if topic.endswith(f"/{name}") and kind in kinds} - {""}


def ground_truth_in(topics: Iterable[tuple[str, list[str]]], robots: Iterable[str]) -> set[str]:
    """Return the topics with true poses of a simulated world, below the namespaces of robots."""
    wanted = set(robots)
    return {
        topic
        for topic, kinds in topics
        if GROUND_TRUTH_KIND in kinds and (found := GROUND_TRUTH.fullmatch(topic)) and found["robot"] in wanted
    }


def is_private(topic: Topic, data: bytes) -> bool:
    """Return whether serialised data of a topic are an answer that its person wants no one else to read."""
    return topic.name == "answer" and in_private(named(deserialize_message(data, String).data.split())[1])[1]


_FOREVER = "{sec: 9223372036, nsec: 854775807}"


def qos_text(qos: QoSProfile) -> str:
    """Return a QoS profile as rosbag2 keeps it with a channel, so that `ros2 bag play` offers the same."""
    reliable = qos.reliability == ReliabilityPolicy.RELIABLE
    latched = qos.durability == DurabilityPolicy.TRANSIENT_LOCAL
    return (
        f"- history: keep_last\n  depth: {qos.depth}\n  reliability: {'reliable' if reliable else 'best_effort'}\n"
        f"  durability: {'transient_local' if latched else 'volatile'}\n  deadline: {_FOREVER}\n  lifespan: {_FOREVER}\n"
        f"  liveliness: automatic\n  liveliness_lease_duration: {_FOREVER}\n  avoid_ros_namespace_conventions: false\n"
    )


_NESTED = re.compile(r"(\w+)/(\w+)")


@cache
def definition(kind: str) -> str:
    """Return the definition of `package/msg/Name` followed by those of the messages inside it, as a `ros2msg` schema.

    Raises ImportError and PackageNotFoundError for a message that is not installed.
    """
    kinds, parts = [kind], []
    for known in kinds:
        package, _, name = known.split("/")
        text = (Path(get_package_share_directory(package)) / "msg" / f"{name}.msg").read_text(encoding="utf-8")
        parts.append(text if known == kind else f"{'=' * 80}\nMSG: {package}/{name}\n{text}")
        fields = " ".join(interface(known).get_fields_and_field_types().values())
        inner = dict.fromkeys(f"{owner}/msg/{short}" for owner, short in _NESTED.findall(fields))
        kinds += [one for one in inner if one not in kinds]
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"
