# SPDX-License-Identifier: Apache-2.0
"""Calls, as events and histories tell of them, in the words of the planners."""

from __future__ import annotations

import json
from typing import Any

from ghostshell.msg import CallRecord, SkillEvent

from ghostshell_ros.wire.process_messages import OUTCOME_NAMES
from planners.prompts.prompt import CallReport
from planners.strategies.layered.step_book import CallEvent


def call_report(call: CallRecord) -> CallReport:
    """A call of a process's history."""
    return CallReport(call.function, arguments_of(call), call.outcome, call.message)


def call_event(event: SkillEvent) -> CallEvent:
    """A call that CALL_STARTED or CALL_ENDED tells of."""
    outcome = OUTCOME_NAMES.get(event.outcome, "") if event.type == SkillEvent.CALL_ENDED else ""
    return CallEvent(
        event.stream_id,
        event.call_id,
        event.function,
        arguments_of(event),
        outcome,
        event.error_code,
        event.error_msg or event.text,
        event.parent_id,
    )


def arguments_of(call: SkillEvent | CallRecord) -> dict[str, Any]:
    """The arguments of a call; none where they cannot be read."""
    try:
        value = json.loads(call.args_json or "{}")
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
