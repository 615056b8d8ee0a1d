# SPDX-License-Identifier: Apache-2.0
"""Send goals of an action that may be cancelled at any moment and end at most once, whatever the server does."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.action.client import ClientGoalHandle
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import ACTIONS, REQUESTS

PROBE_S = 0.15
"""Time between two requests that prove the way to a server which was discovered but has not answered yet."""
ANSWER_S = 1.0
"""Time until a goal that was not accepted is asked for by its id, because the answer may be lost; for as long again."""


class GoalEnd(Enum):
    """Name how a goal ended, seen from its client."""

    SUCCEEDED = "succeeded"
    ABORTED = "aborted"
    CANCELED = "canceled"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    """The server does not know the goal: it never received it, or was restarted since."""


_ENDS = {
    GoalStatus.STATUS_SUCCEEDED: GoalEnd.SUCCEEDED,
    GoalStatus.STATUS_ABORTED: GoalEnd.ABORTED,
    GoalStatus.STATUS_CANCELED: GoalEnd.CANCELED,
}


@dataclass(eq=False)
class SentGoal:
    """Follow one goal. Callbacks run on the executor's thread.

    `on_end` is called at most once, and never where the server stays silent: set a deadline and then call `abandon`. The
    goal is addressed by the id it was sent with, so it can be cancelled even if the server's answer was lost.
    """

    _node: RuntimeNode
    _handle: ClientGoalHandle
    _on_accepted: Callable[[], None] | None
    _on_feedback: Callable[[Any], None] | None
    _on_end: Callable[[GoalEnd, Any], None] | None
    _again: bool = False
    """True where it was sent before under the same id."""
    _cancel_wanted: bool = False
    _asked: bool = False
    accepted: bool = False
    ended: bool = False

    @property
    def goal_id(self) -> bytes:
        """Return the 16 bytes of its id."""
        return bytes(self._handle.goal_id.uuid)

    def cancel(self) -> None:
        """Ask the server to cancel, and once more when it accepts the goal. From any thread, any number of times."""
        self._node.call_soon(self._cancel)

    def ask(self) -> None:
        """Ask for the result when it is overdue; a goal that the server does not know ends UNKNOWN. From any thread."""
        self._node.call_soon(self._ask)

    def abandon(self) -> None:
        """Cancel and report nothing more, because a goal accepted after its deadline must not run unattended."""
        self._node.call_soon(self._abandon)

    def _abandon(self) -> None:
        self._on_end = self._on_feedback = self._on_accepted = None
        self._cancel()

    def _cancel(self) -> None:
        if not self._cancel_wanted:
            self._cancel_wanted = True
            if not self.ended:
                self._handle.cancel_goal_async()

    def _ask(self) -> None:
        if not self._asked and not self.ended:
            self._asked = True
            self._handle.get_result_async().add_done_callback(self._node.guarded(self._result))

    def _feedback(self, message: Any) -> None:
        self._accept()
        if self._on_feedback is not None and not self.ended:
            self._on_feedback(message.feedback)

    def _responded(self, future: Future) -> None:
        if future.result().accepted:
            self._accept()
        elif self._again:
            self._ask()  # a server takes an id once: the first try may have arrived after all
        elif not self.accepted:
            self._end(GoalEnd.REJECTED, None)

    def _accept(self) -> None:
        """Note that it was accepted, by the server's answer or by feedback where that was lost."""
        if self.accepted or self.ended:
            return
        self.accepted = True
        self._ask()
        if self._cancel_wanted:
            self._handle.cancel_goal_async()
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
    """Send goals of one action. On the executor's thread only; other threads use `node.call_soon`."""

    def __init__(self, node: RuntimeNode, action_type: Any, name: str) -> None:
        self._node = node
        self._type = action_type
        self._client = ActionClient(node, action_type, name, feedback_sub_qos_profile=REQUESTS, **ACTIONS)
        self._answers = False
        self._probed_at = 0.0

    def server_is_ready(self) -> bool:
        """Return whether the server is discovered and has answered. Call it repeatedly: each call may probe the server.

        A server may discover its client later than the client discovers the server, and answers to an unknown client are
        lost (rmw_fastrtps waits 0.1 s, then drops them). So the server is asked for the result of a goal that was never
        sent, until its answer shows that it knows this client.
        """
        if not self._client.server_is_ready():
            self._answers = False
            return False
        now = self._node.steady_now()
        if not self._answers and now - self._probed_at >= PROBE_S:
            self._probed_at = now
            self._handle(uuid.uuid4().bytes).get_result_async().add_done_callback(self._answered)
        return self._answers

    def doubt(self) -> None:
        """Probe the server again before the next goal, because it left one unanswered. From any thread."""
        self._answers, self._probed_at = False, 0.0

    def unanswered(self, sent: SentGoal, since_s: float) -> bool:
        """Return whether the wait for the answer to a goal, sent at a steady time, is over; halfway the goal is asked for."""
        waited_s = self._node.steady_now() - since_s
        if waited_s > ANSWER_S:
            sent.ask()
        if waited_s <= 2 * ANSWER_S:
            return False
        self.doubt()
        return True

    def _answered(self, _: Future) -> None:
        self._answers = True

    def _handle(self, goal_id: bytes) -> ClientGoalHandle:
        return ClientGoalHandle(self._client, UUID(uuid=list(goal_id)), self._type.Impl.SendGoalService.Response(accepted=True))

    def send(
        self,
        goal: Any,
        *,
        on_end: Callable[[GoalEnd, Any], None],
        on_accepted: Callable[[], None] | None = None,
        on_feedback: Callable[[Any], None] | None = None,
        goal_id: bytes | None = None,
        again: bool = False,
    ) -> SentGoal:
        """Send a goal under `goal_id`, 16 bytes; under a random id when None. `again`: it was sent before under that id."""
        handle = self._handle(goal_id if goal_id is not None else uuid.uuid4().bytes)
        sent = SentGoal(self._node, handle, on_accepted, on_feedback, on_end, again)
        guarded = self._node.guarded
        future = self._client.send_goal_async(goal, guarded(sent._feedback), goal_uuid=handle.goal_id)
        future.add_done_callback(guarded(sent._responded))
        return sent
