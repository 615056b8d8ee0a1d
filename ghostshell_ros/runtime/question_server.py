# SPDX-License-Identifier: Apache-2.0
"""Serve the action `ask_human` and what answers it: a service, and a topic for whoever has no services."""

from collections.abc import Callable
from functools import partial

from ghostshell.action import AskHuman
from ghostshell.msg import Question, QuestionArray
from ghostshell.srv import AnswerQuestion
from rclpy.task import Future
from std_msgs.msg import String

from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.signing import Doorkeeper
from ghostshell_ros.wire.codec import filled
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED
from ghostshell_ros.wire.values import ros_text
from planners.language.choices import chosen
from planners.language.stop_words import is_stop
from planners.people import People
from skill_kernel.codes import AnswerCode, AskCode
from skill_kernel.config.sections import shown
from skill_kernel.events import Notice
from skill_kernel.processes.process import Process
from skill_kernel.processes.questions import (
    MAX_OPEN,
    PRIVATE,
    AnswerError,
    AskError,
    OpenQuestion,
    QuestionEnd,
    Questions,
    in_private,
    named,
)
from skill_kernel.roles import ANYBODY, Act, Caller


class QuestionServer:
    """Ask people for the processes of a robot or team, and for programs; open questions are on the latched topic `questions`.

    An answer that is nothing but a stop word halts, like any instruction. Every question ends with its process, and all with a
    halt.
    """

    def __init__(
        self,
        node: RuntimeNode,
        *,
        process: Callable[[str], Process | None],
        stops: Callable[[str, Callable[[bool, str], object]], bool],
        halt_refusal: Callable[[], str],
        report: Callable[[Notice], None],
        people: People,
    ) -> None:
        self._node, self._process, self._stops, self._halted, self._report = node, process, stops, halt_refusal, report
        self._people = people
        most = MAX_OPEN + len(people.known)
        self._questions = Questions(now=node.steady_now, chosen=chosen, on_change=self._publish, most=most)
        self._asked: dict[bytes, OpenQuestion] = {}
        """Open questions by the ids of their goals."""
        self._publisher = node.create_publisher(QuestionArray, "questions", LATCHED)
        self._server = GoalServer(node, AskHuman, "ask_human", on_goal=self._ask, on_cancel=self._withdraw)
        self._door = Doorkeeper(node, "answer_question")
        node.create_service(AnswerQuestion, "answer_question", self._serve)
        node.create_subscription(String, "answer", self._heard, INSTRUCTION)
        self._publish()

    def process_ended(self, process: Process) -> None:
        """End the questions of a process that has ended."""
        self._questions.process_ended(process.process_id, process.message or process.status.name)

    def tick(self) -> None:
        """End what is over, and say of the others that they are still open. Called now and then."""
        self._questions.tick()
        if self._questions.open and (why := self._halted()):
            self._questions.end_all(AskCode.ROBOT_HALTED, why)
        now_s = self._node.steady_now()
        for goal in self._server.goals:
            if (asked := self._asked.get(goal.goal_id)) is not None:
                goal.feedback(AskHuman.Feedback(left_s=asked.until_s - now_s))

    # -- questions ----------------------------------------------------------------------------------------------------

    def ask(self, request: AskHuman.Goal, on_end: Callable[[QuestionEnd], None]) -> OpenQuestion:
        """Open a question; `on_end` hears of its end, exactly once. Raises AskError for one that cannot be asked."""
        if why := self._halted():
            raise AskError(AskCode.ROBOT_HALTED, why)
        process, person = self._process(request.process_id), request.person
        if process is not None and process.status.ended:
            raise AskError(AskCode.PROCESS_ENDED, f"process {process.process_id} has ended; it asks nothing more")
        if halts := next(filter(is_stop, request.choices), None):
            why = f"'{shown(halts)}' as an answer would halt the robot; word that choice in another way"
            raise AskError(AskCode.BAD_QUESTION, why)
        if person and self._people.known and (why := self._people.refusal(person)):
            raise AskError(AskCode.PERSON_BUSY if person in self._people.known else AskCode.BAD_QUESTION, why)

        def ended(end: QuestionEnd) -> None:
            self._people.closed(person)
            if end.private:
                self._people.hear(person, end.answer, private=True)
            on_end(end)

        asked = self._questions.ask(
            request.question,
            request.choices,
            request.timeout_s,
            process_id=request.process_id,
            person=person,
            why=request.why,
            any_words=request.any_words,
            on_end=ended,
        )
        self._people.opened(person)
        self._node.get_logger().info(f"asks: {asked.told}; answer it: ghostshell answer {asked.question_id} …")
        return asked

    def withdraw(self, asked: OpenQuestion, why: str) -> None:
        """End a question because who asked wants no answer any more; nothing happens to one that has ended."""
        self._questions.withdraw(asked.question_id, why)

    def _ask(self, goal: Goal) -> None:
        try:
            self._asked[goal.goal_id] = self.ask(goal.request, partial(self._ended, goal))
        except AskError as error:
            goal.abort(AskHuman.Result(error_code=int(error.code), error_msg=ros_text(str(error))))

    def _withdraw(self, goal: Goal) -> None:
        if (asked := self._asked.get(goal.goal_id)) is not None:
            self.withdraw(asked, "whoever asked it wants no answer any more")

    def _ended(self, goal: Goal, end: QuestionEnd) -> None:
        asked = self._asked.pop(goal.goal_id, None)
        if asked is not None:
            self._node.get_logger().info(f"question {asked.question_id}: {end.told}")
        answer = {"answered": not end.code, "answer": end.answer, "by": end.by}
        result = AskHuman.Result(**answer, error_code=int(end.code), error_msg=ros_text(end.why))
        if not end.code:
            goal.succeed(result)
        elif end.code is AskCode.CANCELLED:
            goal.canceled(result)
        else:
            goal.abort(result)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answer(
        self, question_id: str, text: str, caller: Caller, halted: Callable[[bool, str], object] = lambda *_: None
    ) -> tuple[OpenQuestion, str] | None:
        """Take an answer; return None for a stop word, which is obeyed: `halted` hears what came of it. Raises AnswerError."""
        if self._stops(in_private(text)[0], halted):
            return None
        if refusal := caller.refusal(Act.INSTRUCT):
            raise AnswerError(AnswerCode.NOT_PERMITTED, refusal)
        return self._questions.answer(question_id, text, caller.who)

    async def _serve(self, request: AnswerQuestion.Request, response: AnswerQuestion.Response) -> AnswerQuestion.Response:
        halted: Future = Future(executor=self._node.executor)
        caller = self._door.caller(request)
        try:
            taken = self._answer(request.question_id, request.text, caller, lambda *came: halted.set_result(came))
        except AnswerError as error:
            response.error_code, response.error_msg = int(error.code), ros_text(str(error))
            return response
        if taken is None:
            response.success, response.error_msg = await halted
        else:
            response.success = True
            response.question_id, response.answer = taken[0].question_id, taken[1]
        return response

    def _heard(self, message: String) -> None:
        question_id, text = named(message.data.split())
        try:
            self._answer(question_id, text, ANYBODY)
        except AnswerError as error:
            heard = PRIVATE if in_private(text)[1] else shown(text, 200)
            self._report(Notice(error_code=int(error.code), error_msg=str(error), text=heard))

    # -- what is told -------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        since_s = self._node.now_s() - self._node.steady_now()
        told = [
            {**vars(asked), "id": asked.question_id, "asked": asked.asked_s + since_s, "until": asked.until_s + since_s}
            for asked in self._questions.open
        ]
        shared = Question.get_fields_and_field_types()
        questions = [{name: one[name] for name in shared} for one in told]
        self._publisher.publish(filled(QuestionArray(), {"stamp": self._node.now_s(), "questions": questions}))
