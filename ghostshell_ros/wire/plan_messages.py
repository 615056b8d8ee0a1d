# SPDX-License-Identifier: Apache-2.0
"""Convert plans of System 2 to and from messages."""

from __future__ import annotations

from dataclasses import asdict

from builtin_interfaces.msg import Time
from ghostshell.msg import Plan as PlanMsg

from ghostshell_ros.wire.codec import filled
from planners.plan import GlobalEvent, Plan, Subtask, SubtaskStatus


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
    same = ("revision", "complete", "achieved", "given_up", "reason", "made_by")
    return Plan(subtasks=subtasks, events=events, **{name: getattr(message, name) for name in same})
