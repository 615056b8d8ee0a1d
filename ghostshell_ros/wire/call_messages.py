# SPDX-License-Identifier: Apache-2.0
"""Convert calls, as events and histories tell of them, to the planners' types."""

from __future__ import annotations

from ghostshell.msg import CallRecord, SkillEvent

from ghostshell_ros.wire.values import arguments_of, outcome_name
from planners.prompts.prompt import CallReport
from planners.strategy import CallEnded, CallStarted


def call_report(call: CallRecord) -> CallReport:
    """Return a call of a process's history."""
    return CallReport(call.function, arguments_of(call.args_json), call.outcome, call.message)


def call_event(event: SkillEvent) -> CallStarted | CallEnded:
    """Return the call that CALL_STARTED or CALL_ENDED tells of."""
    ended = event.type == SkillEvent.CALL_ENDED
    return (CallEnded if ended else CallStarted)(
        event.stream_id,
        event.call_id,
        event.function,
        arguments_of(event.args_json),
        outcome_name(event.outcome) if ended else "",
        event.error_code,
        event.error_msg or event.text,
        event.parent_id,
        event.start_s,
        event.end_s,
    )
