# SPDX-License-Identifier: Apache-2.0
"""The memory's records, queries and answers as messages, and what other messages mean to it."""

from __future__ import annotations

import json
import math

from builtin_interfaces.msg import Time
from ghostshell.msg import MemoryRecord, ProcessState, SkillEvent
from ghostshell.srv import QueryMemory

from ghostshell_ros.wire.event_writer import OUTCOME_NUMBERS
from ghostshell_ros.wire.wire_text import ros_text
from planners.memory.query import Circle, Query
from planners.memory.recording import EndedCall, Task
from planners.memory.records import Record, Tier, Viewer
from skill_kernel.processes.process import ProcessSource, ProcessStatus

OUTCOMES = {number: outcome.value for outcome, number in OUTCOME_NUMBERS.items()}
LIMIT = 20
MOST = 1000


def seconds(stamp: Time) -> float:
    """ROS time as seconds."""
    return float(stamp.sec) + stamp.nanosec * 1e-9


def record_message(record: Record) -> MemoryRecord:
    """A record on the wire."""
    who, spot = record.provenance, record.spot
    return MemoryRecord(
        id=record.id,
        tier=int(record.tier),
        kind=record.kind,
        begun=_time(record.start_s),
        time=_time(record.time_s),
        text=ros_text(record.text),
        data_json=ros_text(json.dumps(record.data, ensure_ascii=False)),
        robot=ros_text(who.robot),
        source=ros_text(who.source),
        process_id=ros_text(who.process),
        sender=ros_text(who.sender),
        door=ros_text(who.door),
        x=math.nan if spot.x is None else spot.x,
        y=math.nan if spot.y is None else spot.y,
        room=ros_text(spot.room),
        visibility=int(record.visibility),
    )


def viewer_of(request: QueryMemory.Request) -> Viewer:
    """Who asks."""
    return Viewer(request.robot.strip("/"), request.process_id)


def query_of(request: QueryMemory.Request) -> Query:
    """The filters of a request. Raises ValueError for bounds that are none."""
    near = Circle(request.x, request.y, request.radius) if request.radius else None
    unknown = [t for t in request.tiers if t not in tuple(Tier)]
    if unknown:
        raise ValueError(f"there is no tier {unknown[0]}; use 0 to 3")
    return Query(
        text=request.text,
        kinds=tuple(request.kinds),
        tiers=tuple(Tier(t) for t in request.tiers),
        since_s=seconds(request.since) or None,
        until_s=seconds(request.until) or None,
        room=request.room,
        near=near,
        viewer=viewer_of(request),
        limit=min(request.limit or LIMIT, MOST),
    )


def task_of(process: ProcessState) -> Task:
    """A process as the memory takes it."""
    by_itself = process.source == int(ProcessSource.IDLE)
    return Task(
        process.process_id,
        process.instruction,
        process.sender,
        process.door,
        seconds(process.created),
        seconds(process.ended),
        ProcessStatus(process.status).name,
        process.message,
        by_itself,
    )


def call_of(event: SkillEvent) -> EndedCall:
    """A CALL_ENDED event as the memory takes it."""
    try:
        arguments = json.loads(event.args_json or "{}")
    except json.JSONDecodeError:
        arguments = {}
    return EndedCall(
        event.process_id,
        event.function or "?",
        arguments if isinstance(arguments, dict) else {},
        OUTCOMES.get(event.outcome, "?"),
        event.error_msg or event.text,
        seconds(event.stamp),
    )


def _time(value_s: float) -> Time:
    whole = math.floor(value_s)
    # What lies beyond ROS time is shown as its end.
    return Time(sec=max(-(2**31), min(2**31 - 1, whole)), nanosec=min(int((value_s - whole) * 1e9), 999_999_999))
