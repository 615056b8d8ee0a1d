# SPDX-License-Identifier: Apache-2.0
"""Convert the values that many messages share: text, times, outcomes, arguments of calls, headings."""

from __future__ import annotations

import json
import math
from typing import Any

from builtin_interfaces.msg import Duration, Time
from ghostshell.msg import SkillEvent
from rclpy.node import Node

from skill_kernel.codes import Outcome

OUTCOME_NUMBERS = {
    Outcome.DONE: SkillEvent.DONE,
    Outcome.FAILED: SkillEvent.FAILED,
    Outcome.INTERRUPTED: SkillEvent.OUTCOME_INTERRUPTED,
    Outcome.REFUSED: SkillEvent.REFUSED,
    Outcome.DROPPED: SkillEvent.DROPPED,
}
OUTCOMES = {number: outcome for outcome, number in OUTCOME_NUMBERS.items()}


def ros_text(text: str, nul: str = " ") -> str:
    """Return the text without what the middleware cuts at or refuses: NUL becomes `nul`, half of a surrogate pair "?"."""
    return text.replace("\0", nul).encode("utf-8", errors="replace").decode("utf-8")


def outcome_name(number: int, unknown: str = "?") -> str:
    """Return the name of an outcome's number; `unknown` for a call that has not ended."""
    return OUTCOMES[number].value if number in OUTCOMES else unknown


def seconds(time: Time | Duration) -> float:
    """Return a ROS time or duration in seconds."""
    return float(time.sec) + time.nanosec * 1e-9


def now_s(node: Node) -> float:
    """Return a node's ROS time in seconds."""
    return float(node.get_clock().now().nanoseconds) * 1e-9


def time_message(time_s: float) -> Time:
    """Return seconds of ROS time as a message; what lies beyond the message's range becomes its end."""
    whole = math.floor(time_s)
    return Time(sec=max(-(2**31), min(2**31 - 1, whole)), nanosec=min(int((time_s - whole) * 1e9), 999_999_999))


def arguments_of(args_json: str) -> dict[str, Any]:
    """Return the arguments of a call; none where they cannot be read."""
    try:
        value = json.loads(args_json or "{}")
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def yaw_of(q: Any) -> float:
    """Return the yaw in rad of a quaternion message."""
    return math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z))
