# SPDX-License-Identifier: Apache-2.0
"""Convert plans of System 2 to and from messages."""

from __future__ import annotations

from builtin_interfaces.msg import Time
from ghostshell.msg import GlobalEvent as GlobalEventMsg
from ghostshell.msg import Plan as PlanMsg
from ghostshell.msg import Subtask as SubtaskMsg

from ghostshell_ros.wire.values import ros_text
from planners.plan import GlobalEvent, Plan, Subtask, SubtaskStatus


def plan_message(process_id: str, plan: Plan, stamp: Time) -> PlanMsg:
    """Return a plan as topic `plans` carries it."""
    return PlanMsg(
        stamp=stamp,
        process_id=process_id,
        revision=plan.revision,
        complete=plan.complete,
        achieved=plan.achieved,
        given_up=plan.given_up,
        reason=ros_text(plan.reason),
        made_by=ros_text(plan.made_by),
        subtasks=[
            SubtaskMsg(
                id=ros_text(s.id),
                description=ros_text(s.description),
                criteria=ros_text(s.criteria),
                status=int(s.status),
                watch=[ros_text(field) for field in s.watch],
            )
            for s in plan.subtasks
        ],
        events=[
            GlobalEventMsg(id=ros_text(e.id), condition=ros_text(e.condition), response=ros_text(e.response), fired=e.fired)
            for e in plan.events
        ],
    )


def plan_of(message: PlanMsg) -> Plan:
    """Return the plan in a message; an unknown status counts as pending."""
    known = {int(status) for status in SubtaskStatus}
    subtasks = tuple(
        Subtask(s.id, s.description, s.criteria, SubtaskStatus(s.status if s.status in known else 0), tuple(s.watch))
        for s in message.subtasks
    )
    events = tuple(GlobalEvent(e.id, e.condition, e.response, e.fired) for e in message.events)
    return Plan(
        message.revision,
        message.complete,
        subtasks,
        events,
        message.achieved,
        message.given_up,
        message.reason,
        message.made_by,
    )
