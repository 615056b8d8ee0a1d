# SPDX-License-Identifier: Apache-2.0
"""Convert the memory's records and queries to and from messages, and other messages to its types."""

from __future__ import annotations

import json
import math

from ghostshell.msg import MemoryRecord, ProcessState
from ghostshell.srv import QueryMemory

from ghostshell_ros.wire.values import ros_text, seconds, time_message
from planners.memory.experience import Task
from planners.memory.query import Circle, Query
from planners.memory.records import Record, Tier, Viewer
from skill_kernel.processes.process import ProcessSource, ProcessStatus

LIMIT = 20
MOST = 1000


def record_message(record: Record) -> MemoryRecord:
    """Return a record as a message."""
    who, spot = record.provenance, record.spot
    return MemoryRecord(
        id=record.id,
        tier=int(record.tier),
        kind=record.kind,
        begun=time_message(record.start_s),
        time=time_message(record.time_s),
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
    """Return who asks."""
    return Viewer(request.robot.strip("/"), request.process_id)


def query_of(request: QueryMemory.Request) -> Query:
    """Return the filters of a request. Raises ValueError for an unknown tier or bad bounds."""
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
    """Return a process as the memory takes it."""
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
