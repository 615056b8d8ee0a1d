# SPDX-License-Identifier: Apache-2.0
"""Serve an action whose goals end by a method call, not when a callback returns."""

from collections.abc import Callable
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.task import Future

from ghostshell_ros.runtime.node import RuntimeNode, with_reason
from ghostshell_ros.wire.qos import ACTIONS, REQUESTS
from skill_kernel.codes import TaskCode

RESULT_KEPT_S = 10
"""Time for which a result is kept for its client. rclpy visits all kept goals at each wake, so its default of 900 s is slow."""


class Goal:
    """End one accepted goal and report on it. From any thread; the first ending counts, later ones do nothing."""

    def __init__(self, node: RuntimeNode, handle: ServerGoalHandle, result_type: Any) -> None:
        self._node = node
        self._handle = handle
        self._result_type = result_type
        self._ended = False
        self._result: Future = Future()
        self.request: Any = handle.request
        self.goal_id: bytes = bytes(handle.goal_id.uuid)
        self.state: Any = None
        """Data of the owner."""
        self._refusal: tuple[int, str] | None = None

    def feedback(self, message: Any) -> None:
        self._node.call_soon(self._feedback, message)

    def succeed(self, result: Any) -> None:
        self._node.call_soon(self._end, "succeed", result)

    def abort(self, result: Any) -> None:
        self._node.call_soon(self._end, "abort", result)

    def canceled(self, result: Any) -> None:
        """End as cancelled, or as aborted when no client asked for the cancel."""
        self._node.call_soon(self._end, "canceled", result)

    def fail(self, error: Exception) -> None:
        """End as aborted with NODE_UNAVAILABLE, because its owner raised."""
        self.abort(with_reason(self._result_type(), TaskCode.NODE_UNAVAILABLE, self._node.caught(error)))

    def _feedback(self, message: Any) -> None:
        if not self._ended:
            self._handle.publish_feedback(message)

    def _end(self, how: str, result: Any) -> None:
        if self._ended:
            return
        self._ended = True
        if self._refusal is not None and how != "succeed":
            how = "abort"
            with_reason(result, *self._refusal)
        elif how == "canceled" and not self._handle.is_cancel_requested:
            how = "abort"
        if self._handle.is_active:
            getattr(self._handle, how)()
        self._result.set_result(result)


class GoalServer:
    """Serve one action. `on_goal(goal)` runs on the executor's thread after acceptance and returns at once.

    The goal ends later by `succeed`, `abort` or `canceled`; `on_cancel(goal)` asks its owner to end it. While
    `node.refuses_goals()` returns a reason, goals are rejected and the reason is logged. All other goals are accepted,
    because a rejection carries no reason: refuse by `abort` with an error code. A goal whose owner raises ends as aborted.
    """

    def __init__(
        self,
        node: RuntimeNode,
        action_type: Any,
        name: str,
        *,
        on_goal: Callable[[Goal], None],
        on_cancel: Callable[[Goal], None],
    ) -> None:
        self._node, self._type = node, action_type
        self._on_goal = on_goal
        self._on_cancel = on_cancel
        self._goals: dict[bytes, Goal] = {}
        self.action = node.resolve_topic_name(name)
        node.goal_servers.append(self)
        self._server = ActionServer(
            node,
            action_type,
            name,
            execute_callback=self._execute,
            goal_callback=self._request,
            handle_accepted_callback=self._accepted,
            cancel_callback=self._cancel,
            result_timeout=RESULT_KEPT_S,
            feedback_pub_qos_profile=REQUESTS,
            **ACTIONS,
        )

    @property
    def goals(self) -> tuple[Goal, ...]:
        """Return the goals that have not ended. On the executor's thread only."""
        return tuple(self._goals.values())

    def _request(self, _: Any) -> GoalResponse:
        if (why := self._node.guarded(self._node.refuses_goals)()) != "":
            self._node.get_logger().warning(f"a goal of {self.action} is rejected: {why}", throttle_duration_sec=1.0)
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _accepted(self, handle: ServerGoalHandle) -> None:
        goal = Goal(self._node, handle, self._type.Result)
        self._goals[goal.goal_id] = goal
        handle.execute()
        self._tell(self._on_goal, goal)

    def _tell(self, callback: Callable[[Goal], None], goal: Goal) -> None:
        """Call the owner. If it raises, its goal ends, and it is asked to end what it may have begun."""
        try:
            callback(goal)
        except Exception as error:  # noqa: BLE001 - whatever it is
            goal.fail(error)
            if callback is not self._on_cancel:
                self._tell(self._on_cancel, goal)

    def end_all(self, code: int, text: str) -> None:
        """Cancel every goal; each ends as aborted with this code and text. On the executor's thread."""
        for goal in self.goals:
            goal._refusal = (code, text)
            self._tell(self._on_cancel, goal)

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        goal = self._goals.get(bytes(handle.goal_id.uuid))
        if goal is None:
            return CancelResponse.REJECT
        # The handle becomes CANCELING only after this callback, and the owner is told after that.
        self._node.call_soon(self._tell, self._on_cancel, goal)
        return CancelResponse.ACCEPT

    async def _execute(self, handle: ServerGoalHandle) -> Any:
        goal = self._goals[bytes(handle.goal_id.uuid)]
        try:
            return await goal._result
        finally:
            del self._goals[goal.goal_id]
