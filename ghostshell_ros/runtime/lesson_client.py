# SPDX-License-Identifier: Apache-2.0
"""Keep a robot's lessons in the robots' memory, from a planning node: read on the topic `learned`, changed by the service
`/learn`."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from ghostshell.msg import LessonArray
from ghostshell.srv import Learn

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.lesson_messages import lesson_of, proposal_message
from ghostshell_ros.wire.qos import LATCHED
from ghostshell_ros.wire.values import ros_text
from planners.learned import LearnedError, LearnedStore, Lesson, Proposal
from skill_kernel.roles import Act, key_role

LEARN = "/learn"
"""Service of the whole fleet, and therefore outside of the robot's namespace."""
ANSWER_S, WAIT_S = 8.0, 1.0
"""Limits on an answer, which may wait for the disk, and on finding the service."""
SILENT = "the memory does not answer; `ghostshell learned list` shows whether it noted this; is it launched (memory:=true)?"


class LessonClient(LearnedStore):
    """Keep the lessons of the node's robot. Make it on the executor's thread; call on another one what changes a lesson,
    because that blocks."""

    def __init__(self, node: RuntimeNode) -> None:
        self._node, self._robot = node, node.get_namespace().strip("/")
        self._lessons: tuple[Lesson, ...] = ()
        self._client = ServiceClient(node, Learn, LEARN)
        node.create_subscription(LessonArray, "learned", self._heard, LATCHED)

    def lessons(self) -> Sequence[Lesson]:
        return self._lessons

    def propose(self, proposal: Proposal) -> int:
        return int(self._ask("PROPOSE", lesson=proposal_message(proposal)).id)

    def confirm(self, lesson: int, who: str) -> None:
        self._ask("CONFIRM", id=lesson, who=ros_text(who))

    def revoke(self, lesson: int, who: str, why: str = "") -> None:
        self._ask("REVOKE", id=lesson, who=ros_text(who), why=ros_text(why))

    def _heard(self, message: LessonArray) -> None:
        try:
            self._lessons = tuple(map(lesson_of, message.lessons))
        except ValueError as error:
            self._node.get_logger().error(f"what the memory tells of lessons cannot be read: {error}")

    def _ask(self, command: str, **fields: Any) -> Learn.Response:
        request = Learn.Request(command=getattr(Learn.Request, command), robot=self._robot, **fields)
        request = signed(self._node, LEARN, request, key_role(Act.INSTRUCT))
        answered: Future[Learn.Response | None] = Future()

        def ask() -> None:
            self._client.ask(request, answered.set_result, deadline_s=ANSWER_S, wait_s=WAIT_S)

        self._node.call_soon(ask)
        try:
            answer = answered.result(ANSWER_S + 2 * WAIT_S)
        except TimeoutError:  # the node's executor has ended or hangs
            answer = None
        if answer is None:
            raise LearnedError(SILENT)
        if not answer.success:
            raise LearnedError(answer.error_msg)
        return answer
