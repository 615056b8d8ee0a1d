# SPDX-License-Identifier: Apache-2.0
"""Convert processes, their history and their plans to and from messages."""

from dataclasses import asdict
from typing import Any

from builtin_interfaces.msg import Time
from ghostshell.action import RunTask
from ghostshell.msg import CallRecord, LayerUsage, ProcessState
from ghostshell.msg import Plan as PlanMsg

from ghostshell_ros.wire.codec import filled
from ghostshell_ros.wire.values import seconds, time_message
from planners.plan import GlobalEvent, Plan, Subtask, SubtaskStatus
from planners.prompts.prompt import CallReport
from skill_kernel.codes import Achievement
from skill_kernel.events import read_arguments
from skill_kernel.processes.process import Process, ProcessSource, ProcessStatus

PLANNING_OUTCOMES = ("DONE", "FAILED", "INTERRUPTED")
"""Outcomes of calls that a revised plan takes into account; refused and dropped calls did nothing."""
MAX_HISTORY = 30
"""Number of such calls, the newest, that are published."""


def _shared(process: Process, kind: Any) -> dict[str, Any]:
    """Return what a process and a message of this kind have under one name, and what is alike in all of them."""
    same = {name: getattr(process, name) for name in kind.get_fields_and_field_types() if hasattr(process, name)}
    numbers = {"status": int(process.status), "achievement": int(process.achievement), "error_code": process.code}
    return {**same, **numbers, "usage": [LayerUsage(**asdict(u)) for u in process.usage]}


def process_state(process: Process) -> ProcessState:
    """Return a process as the topic `processes` carries it."""
    replanned = process.plan > 0 and not process.status.ended
    history = [call for call in process.history if call.outcome in PLANNING_OUTCOMES][-MAX_HISTORY:] if replanned else []
    converted = {
        "source": int(process.source),
        "pause_causes": sorted(process.pause_causes),
        "history": [_record(call) for call in history],
        "degraded": _degraded_text(process),
        "created": time_message(process.created_s),
        "ended": time_message(process.ended_s),
    }
    return ProcessState(**{**_shared(process, ProcessState), **converted})


def process_of(state: ProcessState) -> Process:
    """Return what a message tells of a process: its task, its status, what was achieved and its times."""
    same = ("process_id", "instruction", "door", "sender", "strategy", "message")
    told: dict[str, Any] = {name: getattr(state, name) for name in same}
    told |= {"created_s": seconds(state.created), "ended_s": seconds(state.ended)}
    told |= {"achievement": Achievement(state.achievement)}
    return Process(source=ProcessSource(state.source), status=ProcessStatus(state.status), **told)


def task_result(process: Process) -> RunTask.Result:
    """Return the result of a task for its client."""
    summary = f"{process.calls_done} calls done, {process.calls_failed} failed or refused"
    return RunTask.Result(
        error_msg=process.message,
        summary=f"{summary}; without its model: {_degraded_text(process)}" if process.degraded else summary,
        **_shared(process, RunTask.Result),
    )


def call_reports(process: ProcessState) -> list[CallReport]:
    """Return the calls of a process that its revised plan takes into account."""
    return [CallReport(call.function, read_arguments(call.args_json), call.outcome, call.message) for call in process.history]


def _record(call: Any) -> CallRecord:
    fields = asdict(call)
    return CallRecord(error_code=fields.pop("code"), **fields)


def _degraded_text(process: Process) -> str:
    return "; ".join(f"{layer}: {how}" for layer, how in process.degraded)


def plan_message(process_id: str, plan: Plan, stamp: Time) -> PlanMsg:
    """Return a plan as topic `plans` carries it."""
    message: PlanMsg = filled(PlanMsg(), {"stamp": stamp, "process_id": process_id, **asdict(plan)})
    return message


def plan_of(message: PlanMsg) -> Plan:
    """Return the plan in a message; an unknown status counts as pending."""
    known = {int(status) for status in SubtaskStatus}
    subtasks = tuple(
        Subtask(s.id, s.description, s.criteria, SubtaskStatus(s.status if s.status in known else 0), tuple(s.watch))
        for s in message.subtasks
    )
    events = tuple(GlobalEvent(e.id, e.condition, e.response, e.fired) for e in message.events)
    same = ("revision", "complete", "achieved", "given_up", "reopened", "reason", "made_by")
    return Plan(subtasks=subtasks, events=events, **{name: getattr(message, name) for name in same})
