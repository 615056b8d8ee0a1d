# SPDX-License-Identifier: Apache-2.0
"""Convert processes and their history to and from messages."""

from __future__ import annotations

from dataclasses import asdict

from ghostshell.action import RunTask
from ghostshell.msg import CallRecord as CallRecordMsg
from ghostshell.msg import LayerUsage as LayerUsageMsg
from ghostshell.msg import ProcessState

from ghostshell_ros.wire.values import time_message
from skill_kernel.events import CallEvent
from skill_kernel.processes.process import CallRecord, LayerUsage, Process

SHOWN_HISTORY = 30
"""Number of newest calls that a revised plan takes into account."""


def process_state(process: Process) -> ProcessState:
    """Return a process as topic `processes` shows it."""
    shown = process.history[-SHOWN_HISTORY:] if process.plan and not process.status.ended else ()
    return ProcessState(
        process_id=process.process_id,
        instruction=process.instruction,
        source=int(process.source),
        door=process.door,
        sender=process.sender,
        status=int(process.status),
        strategy=process.strategy,
        epoch=process.epoch,
        turn=process.turn,
        created=time_message(process.created_s),
        ended=time_message(process.ended_s),
        error_code=process.code,
        message=process.message,
        pause_causes=sorted(process.pause_causes),
        resumes=process.resumes,
        displaced_by=process.displaced_by,
        subsystems=list(process.subsystems),
        calls_done=process.calls_done,
        calls_failed=process.calls_failed,
        prompt_tokens=process.prompt_tokens,
        completion_tokens=process.completion_tokens,
        cost_usd=process.cost_usd,
        history=[_record(c) for c in shown],
        usage=[_usage(u) for u in process.usage],
        degraded=_degraded(process),
        fired_events=list(process.fired_events),
    )


def task_result(process: Process) -> RunTask.Result:
    """Return the result of a task for its client."""
    summary = f"{process.calls_done} calls done, {process.calls_failed} failed or refused"
    return RunTask.Result(
        status=int(process.status),
        error_code=process.code,
        error_msg=process.message,
        process_id=process.process_id,
        summary=f"{summary}; without its model: {_degraded(process)}" if process.degraded else summary,
        calls_done=process.calls_done,
        calls_failed=process.calls_failed,
        prompt_tokens=process.prompt_tokens,
        completion_tokens=process.completion_tokens,
        cost_usd=process.cost_usd,
        usage=[_usage(u) for u in process.usage],
    )


def call_record(event: CallEvent) -> CallRecord:
    """Return a call that has started or ended, for the history of its process."""
    return CallRecord(
        event.call_id,
        event.function,
        event.args_json,
        event.outcome_name or "RUNNING",
        event.error_code,
        event.told,
        event.start_s,
        event.end_s,
    )


def _record(call: CallRecord) -> CallRecordMsg:
    return CallRecordMsg(
        call_id=call.call_id,
        function=call.function,
        args_json=call.args_json,
        outcome=call.outcome,
        error_code=call.code,
        message=call.message,
        start_s=call.start_s,
        end_s=call.end_s,
    )


def _usage(usage: LayerUsage) -> LayerUsageMsg:
    return LayerUsageMsg(**asdict(usage))


def _degraded(process: Process) -> str:
    return "; ".join(f"{layer}: {how}" for layer, how in process.degraded)
