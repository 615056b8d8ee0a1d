# SPDX-License-Identifier: Apache-2.0
"""Convert the values that many messages share: text, times, outcomes, headings."""

import math
from typing import Any

from builtin_interfaces.msg import Duration, Time
from ghostshell.msg import CallEvent, FunctionToken, SkillCall

from function_tokens.parsing.tokens import TokenKind
from skill_kernel.codes import Outcome

OUTCOME_NUMBERS = {outcome: int(getattr(CallEvent, outcome.name)) for outcome in Outcome}
TOKEN_NUMBERS = {
    TokenKind.AF: FunctionToken.ACTIVATE,
    TokenKind.RF: FunctionToken.RESET,
    TokenKind.SCF: FunctionToken.SELF_CONTAINED,
    TokenKind.CHAR: FunctionToken.CHAR,
    TokenKind.REF: FunctionToken.REF,
}
OUTCOMES = {number: outcome for outcome, number in OUTCOME_NUMBERS.items()}
CALL_FIELDS = SkillCall.get_fields_and_field_types().keys() - {"args_json", "channels"}
"""Fields that SkillCall shares with CallSpec."""


def ros_text(text: str, nul: str = " ") -> str:
    """Return text that the middleware can carry: NUL becomes `nul`, half of a surrogate pair "?"."""
    return text.replace("\0", nul).encode("utf-8", errors="replace").decode("utf-8")


def seconds(time: Time | Duration) -> float:
    """Return a ROS time or duration in seconds."""
    return float(time.sec) + time.nanosec * 1e-9


def time_message(time_s: float) -> Time:
    """Return seconds of ROS time as a message; a time outside the message's range becomes the nearest one inside."""
    whole = math.floor(time_s)
    return Time(sec=max(-(2**31), min(2**31 - 1, whole)), nanosec=min(int((time_s - whole) * 1e9), 999_999_999))


def yaw_of(q: Any) -> float:
    """Return the yaw in rad of a quaternion message."""
    return math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z))
