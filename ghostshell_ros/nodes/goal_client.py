# SPDX-License-Identifier: Apache-2.0
"""An action client whose goals may be cancelled at any moment and end exactly once, whatever the server does."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID

from ghostshell_ros.nodes.node_runtime import RuntimeNode


class GoalEnd(Enum):
    """How a goal ended, seen from its client."""

    SUCCEEDED = "succeeded"
    ABORTED = "aborted"
    CANCELED = "canceled"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    """The server does not know the goal (it was started anew)."""


_ENDS = {
    GoalStatus.STATUS_SUCCEEDED: GoalEnd.SUCCEEDED,
    GoalStatus.STATUS_ABORTED: GoalEnd.ABORTED,
    GoalStatus.STATUS_CANCELED: GoalEnd.CANCELED,
}


class SentGoal:
    """A goal on its way. All callbacks come on the executor's thread; `on_end` comes at most once, and not at all when
    the server stays silent: who waits sets a deadline and then calls `abandon`."""

    def __init__(
        self,
        node: RuntimeNode,
        on_accepted: Callable[[], None] | None,
        on_feedback: Callable[[Any], None] | None,
        on_end: Callable[[GoalEnd, Any], None],
    ) -> None:
        self._node = node
        self._on_accepted = on_accepted
        self._on_feedback = on_feedback
        self._on_end: Callable[[GoalEnd, Any], None] | None = on_end
        self._handle: Any = None
        self._cancel_wanted = False
        self.ended = False

    def cancel(self) -> None:
        """Ask the server to cancel; before acceptance, once it is accepted. From any thread, any number of times."""
        self._node.call_soon(self._cancel)

    def abandon(self) -> None:
        """Cancel, and report nothing any more: a goal accepted after its deadline must not run unattended."""
        self._node.call_soon(self._abandon)

    def _abandon(self) -> None:
        self._on_end = self._on_feedback = self._on_accepted = None
        self._cancel()

    def _cancel(self) -> None:
        if not self._cancel_wanted:
            self._cancel_wanted = True
            self._send_cancel()

    def _send_cancel(self) -> None:
        if self._handle is not None and not self.ended:
            self._handle.cancel_goal_async()

    def _feedback(self, message: Any) -> None:
        if self._on_feedback is not None and not self.ended:
            self._on_feedback(message.feedback)

    def _responded(self, future: Future) -> None:
        handle = future.result()
        if not handle.accepted:
            self._end(GoalEnd.REJECTED, None)
            return
        self._handle = handle
        handle.get_result_async().add_done_callback(self._result)
        if self._cancel_wanted:
            self._send_cancel()
        if self._on_accepted is not None:
            self._on_accepted()

    def _result(self, future: Future) -> None:
        response = future.result()
        self._end(_ENDS.get(response.status, GoalEnd.UNKNOWN), response.result)

    def _end(self, end: GoalEnd, result: Any) -> None:
        if self.ended:
            return
        self.ended = True
        if self._on_end is not None:
            self._on_end(end, result)


class GoalClient:
    """Sends goals of one action. On the executor's thread only: other threads go through `node.call_soon`."""

    def __init__(self, node: RuntimeNode, action_type: Any, name: str) -> None:
        self._node = node
        self._client = ActionClient(node, action_type, name)

    def server_is_ready(self) -> bool:
        return bool(self._client.server_is_ready())

    def send(
        self,
        goal: Any,
        *,
        on_end: Callable[[GoalEnd, Any], None],
        on_accepted: Callable[[], None] | None = None,
        on_feedback: Callable[[Any], None] | None = None,
        goal_id: bytes | None = None,
    ) -> SentGoal:
        """Send a goal. `goal_id` (16 bytes) names it, so that a call's id is its goal's; random when None."""
        sent = SentGoal(self._node, on_accepted, on_feedback, on_end)
        uuid = None if goal_id is None else UUID(uuid=list(goal_id))
        future = self._client.send_goal_async(goal, feedback_callback=sent._feedback, goal_uuid=uuid)
        future.add_done_callback(sent._responded)
        return sent
