# SPDX-License-Identifier: Apache-2.0
"""A goal that arrives only after it was asked for and sent again: its call follows it, so that nothing moves unattended."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from action_msgs.msg import GoalStatus
from ghostshell.action import PlaySound
from rclpy.task import Future

from ghostshell_ros.drivers.action_caller import ActionCaller
from ghostshell_ros.runtime.lifecycle import DriverStates
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import LATCHED, REQUESTS


class LateServer(RuntimeNode):
    """Serve `play_sound` by the services of an action. The first goal arrives with the second; an id is taken once."""

    def __init__(self, namespace: str) -> None:
        super().__init__("server", namespace=namespace)
        kinds, at = PlaySound.Impl, "play_sound/_action"
        self.arrived = self.ended = False
        self._goal_id: Any = None
        self._second: Future | None = None
        self._over: Future | None = None
        self.create_service(kinds.SendGoalService, f"{at}/send_goal", self._send_goal)
        self.create_service(kinds.GetResultService, f"{at}/get_result", self._get_result)
        self.create_service(kinds.CancelGoalService, f"{at}/cancel_goal", lambda _, response: response)
        self._feedback = self.create_publisher(kinds.FeedbackMessage, f"{at}/feedback", REQUESTS)
        self.create_publisher(kinds.GoalStatusMessage, f"{at}/status", LATCHED)
        self.steady_timer(0.1, self._tell)

    async def _send_goal(self, request: Any, response: Any) -> Any:
        if self._second is not None:
            self._second.set_result(None)
            return response
        self._goal_id, self._second = request.goal_id, Future(executor=self.executor)
        await self._second
        self.arrived, self._over = True, Future(executor=self.executor)
        self.call_later(1.5, lambda: self._over.set_result(None))
        response.accepted = True
        return response

    async def _get_result(self, request: Any, response: Any) -> Any:
        if self._over is not None and request.goal_id == self._goal_id:
            await self._over
            response.status, self.ended = GoalStatus.STATUS_SUCCEEDED, True
        return response

    def _tell(self) -> None:
        if self.arrived and not self.ended:
            self._feedback.publish(PlaySound.Impl.FeedbackMessage(goal_id=self._goal_id))


def test_a_goal_that_arrives_after_it_was_sent_again_is_followed_to_its_end(ros: None, namespace: str) -> None:
    server, kernel = LateServer(namespace), RuntimeNode("kernel", namespace=namespace)
    lost: list[str] = []
    caller = ActionCaller(kernel, PlaySound, "play_sound", DriverStates(kernel), lost.append)
    with NodeHost([server]) as one, NodeHost([kernel]) as other, ThreadPoolExecutor(1) as pool:
        one.start()
        other.start()
        call = pool.submit(caller, stop=threading.Event(), name="bark")
        result = call.result(10.0)
    assert server.arrived and server.ended and not lost
    assert result.ok, result
