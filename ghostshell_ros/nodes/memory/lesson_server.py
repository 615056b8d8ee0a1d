# SPDX-License-Identifier: Apache-2.0
"""The part of the memory's node that keeps what robots learn: serves `learn`, and tells each robot's lessons on `learned`."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ghostshell.msg import LessonArray
from ghostshell.srv import Learn

from ghostshell_ros.runtime.lesson_client import LEARN
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.signing import Doorkeeper
from ghostshell_ros.wire.lesson_messages import proposal_message, proposal_of
from ghostshell_ros.wire.qos import LATCHED
from ghostshell_ros.wire.values import ros_text
from planners.learned import LearnedError, Lesson, newest
from planners.memory import Store
from planners.memory.lessons import LessonBook
from skill_kernel.codes import LearnCode
from skill_kernel.roles import Act, Caller

LOOK_S = 1.0
"""Time between two looks for changes by other programs, such as `ghostshell learned`."""


class LessonServer:
    """Serve the lessons of all robots that `robots` names. On the executor's thread; the file is read and written on `pool`."""

    def __init__(
        self, node: RuntimeNode, store: Store, robots: Callable[[], Collection[str]], pool: ThreadPoolExecutor
    ) -> None:
        self._node, self._store, self._robots, self._pool = node, store, robots, pool
        self._books: dict[str, LessonBook] = {}
        self._told: dict[str, list[Lesson]] = {}
        self._publishers: dict[str, Any] = {}
        self._door = Doorkeeper(node, LEARN)
        node.create_service(Learn, LEARN, self._learn)
        node.steady_timer(LOOK_S, self._look)

    def _look(self) -> None:
        with suppress(RuntimeError):  # the node is ending
            for robot in self._robots():
                self._pool.submit(self._read, robot)

    def _read(self, robot: str) -> None:
        lessons = newest(self._book(robot).lessons())
        self._node.call_soon(self._tell, robot, lessons)

    def _book(self, robot: str) -> LessonBook:
        return self._books.setdefault(robot, LessonBook(self._store, robot, wall=self._node.now_s))

    def _tell(self, robot: str, lessons: list[Lesson]) -> None:
        if robot not in self._publishers:
            self._publishers[robot] = self._node.create_publisher(LessonArray, f"/{robot}/learned", LATCHED)
        if self._told.get(robot) != lessons:
            self._told[robot] = lessons
            self._publishers[robot].publish(LessonArray(lessons=list(map(proposal_message, lessons))))

    async def _learn(self, request: Learn.Request, response: Learn.Response) -> Learn.Response:
        caller = self._door.caller(request)
        if request.command == Learn.Request.LOOK:
            response.success = True
        elif why := caller.refusal(Act.INSTRUCT):
            response.error_code, response.error_msg = int(LearnCode.NOT_PERMITTED), why
        else:
            try:
                response.id = await self._node.run_on(self._pool, partial(self._do, request, caller))
                response.success = True
            except (LearnedError, ValueError) as error:
                response.error_code, response.error_msg = int(LearnCode.NOT_LEARNED), ros_text(str(error))
        return response

    def _do(self, request: Learn.Request, caller: Caller) -> int:
        """Do what is asked, tell the robot's lessons anew, and return the lesson's id; on the pool."""
        robot, lesson, who = request.robot.strip("/"), request.id, caller.named(request.who)
        if robot not in self._robots():
            raise ValueError(f"there is no robot '{robot}' here; name one that runs")
        book = self._book(robot)
        if request.command == Learn.Request.PROPOSE:
            proposal = proposal_of(request.lesson)
            lesson = book.propose(replace(proposal, sender=caller.named(proposal.sender)))
        elif request.command == Learn.Request.CONFIRM:
            book.confirm(lesson, who)
        elif request.command == Learn.Request.REVOKE:
            book.revoke(lesson, who, request.why)
        else:
            raise ValueError(f"command {request.command} is unknown; use LOOK, PROPOSE, CONFIRM or REVOKE")
        self._read(robot)
        return lesson
