# SPDX-License-Identifier: Apache-2.0
"""Calls of events and histories in the words of the planners."""

from __future__ import annotations

from ghostshell.msg import CallRecord

from planners.prompts.prompt import CallReport
from planners.strategy import CallEnded, CallStarted
from skill_kernel.events import CallEvent, read_arguments


def call_report(call: CallRecord) -> CallReport:
    """Return a call of a process's history."""
    return CallReport(call.function, read_arguments(call.args_json), call.outcome, call.message)


def started_call(event: CallEvent) -> CallStarted:
    """Return a call that has started."""
    return CallStarted(event.stream_id, event.call_id, event.function, event.arguments, parent_id=event.parent_id)


def ended_call(event: CallEvent) -> CallEnded:
    """Return a call that has ended."""
    return CallEnded(
        event.stream_id,
        event.call_id,
        event.function,
        event.arguments,
        event.outcome_name,
        event.error_code,
        event.told,
        event.parent_id,
        event.start_s,
        event.end_s,
        event.value,
    )
