# SPDX-License-Identifier: Apache-2.0
"""Writes `SkillEvent` messages on the robot's topic `events`."""

from __future__ import annotations

from typing import Any

from ghostshell.msg import SkillEvent
from rclpy.node import Node

from function_tokens.scheduling.calls import Call, EventType, ShellEvent
from ghostshell_ros.wire.qos import EVENTS
from ghostshell_ros.wire.values import OUTCOME_NUMBERS, ros_text
from skill_kernel.skills.arguments import to_json

TYPES = {
    EventType.STREAM_STARTED: SkillEvent.STREAM_STARTED,
    EventType.STREAM_ENDED: SkillEvent.STREAM_ENDED,
    EventType.STOP_GENERATION: SkillEvent.STOP_GENERATION,
    EventType.QUEUED: SkillEvent.CALL_QUEUED,
    EventType.STARTED: SkillEvent.CALL_STARTED,
    EventType.RESETTING: SkillEvent.CALL_RESETTING,
    EventType.ENDED: SkillEvent.CALL_ENDED,
    EventType.ROUTINE_SAVED: SkillEvent.ROUTINE_SAVED,
    EventType.TURN_ENDED: SkillEvent.TURN_ENDED,
    EventType.DRAINED: SkillEvent.DRAINED,
    EventType.NOTICE: SkillEvent.NOTICE,
}

CLEAR_HINT = "clear the halt first: ghostshell clear, or ros2 service call <robot>/clear_halt std_srvs/srv/Trigger"


class EventWriter:
    """Publishes events stamped with the node's clock, its name and the robot's namespace."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._robot = node.get_namespace().strip("/")
        self._publisher = node.create_publisher(SkillEvent, "events", EVENTS)

    def write(self, kind: int, *, process_id: str = "", error_code: int = 0, error_msg: str = "", **fields: Any) -> None:
        """Publish one event; further fields of SkillEvent by name."""
        fields["text"] = ros_text(fields.get("text", ""))
        self._publisher.publish(
            SkillEvent(
                stamp=self._node.get_clock().now().to_msg(),
                robot=self._robot,
                node=self._node.get_name(),
                type=kind,
                process_id=process_id,
                error_code=error_code,
                error_msg=ros_text(error_msg),
                **fields,
            )
        )

    def write_shell(self, process_id: str, event: ShellEvent) -> None:
        """Publish what a scheduler reported."""
        fields: dict[str, Any] = {"stream_id": event.stream_id, "text": event.reason}
        if event.call is not None:
            fields.update(_call_fields(event.call, event.type))
        self.write(TYPES[event.type], process_id=process_id, error_code=event.code, error_msg=event.error, **fields)


def _call_fields(call: Call, kind: EventType) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "call_id": call.call_id,
        "parent_id": call.parent.call_id if call.parent is not None else "",
        "function": call.function,
        "args_json": to_json(call.args_shown),
        "channels": list(dict.fromkeys([*(s for s in call.subsystems if s in call.channels), *sorted(call.channels)])),
    }
    if kind is EventType.ENDED and call.result is not None:
        fields["outcome"] = OUTCOME_NUMBERS[call.result.outcome]
        fields["text"] = call.result.message
        fields["start_s"] = call.start_s if call.start_s is not None else -1.0
        fields["end_s"] = call.end_s if call.end_s is not None else -1.0
    return fields
