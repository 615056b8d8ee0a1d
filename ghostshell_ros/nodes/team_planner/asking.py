# SPDX-License-Identifier: Apache-2.0
"""Ask people for the processes of a team: a request is a call like any other, with one outcome and its events."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ghostshell.action import AskHuman

from ghostshell_ros.runtime.question_server import QuestionServer
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.values import ros_text
from planners.people import ASK, People, read_reply
from skill_kernel.codes import AskCode, CallCode, Outcome
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.processes.questions import AskError, OpenQuestion, QuestionEnd
from skill_kernel.skills.arguments import to_json

_CUT_OFF = (AskCode.CANCELLED, AskCode.PROCESS_ENDED, AskCode.ROBOT_HALTED)


class Requests:
    """Hold the requests to people of one process. While it is paused they are taken back, and asked again when it goes on.

    How each ends is told by its event. On the executor's thread only.
    """

    def __init__(
        self, process_id: str, questions: QuestionServer, people: People, events: EventWriter, now: Callable[[], float]
    ) -> None:
        self._process_id, self._questions, self._people = process_id, questions, people
        self._events, self._now = events, now
        self._open: dict[str, _Request] = {}

    def ask(self, arguments: Mapping[str, Any]) -> str:
        """Ask somebody; return the id of the stream that stands for the call. Raises ValueError for an unknown argument."""
        given = dict(arguments)
        goal = AskHuman.Goal(
            process_id=self._process_id,
            person=ros_text(str(given.pop("person", ""))),
            question=ros_text(str(given.pop("text", ""))),
            choices=[ros_text(str(choice)) for choice in given.pop("choices", ())],
            timeout_s=float(given.pop("within", 0.0)),
            why=ros_text(str(given.pop("why", ""))),
            any_words=True,
        )
        if given:
            raise ValueError(f"a request has no {', '.join(given)}; give person, text, choices, within and why")
        request = _Request(goal, self._now() + goal.timeout_s, self._now(), to_json(dict(arguments)))
        self._open[request.id] = request
        self._events.write(CallEvent(kind=CallKind.STARTED, **self._about(request), start_s=request.begun_s))
        self._put(request)
        return request.id

    @property
    def any(self) -> bool:
        """Return whether a request is open."""
        return bool(self._open)

    def pause(self) -> None:
        """Take all questions back until `resume`."""
        for request in self._open.values():
            asked, request.asked = request.asked, None
            if asked is not None:
                self._questions.withdraw(asked, "the task is paused")

    def resume(self) -> None:
        """Ask again what was taken back, for the time that is left of it."""
        for request in list(self._open.values()):
            if request.asked is None:
                self._put(request)

    def stop(self, why: str) -> None:
        """End all requests as INTERRUPTED."""
        for request in list(self._open.values()):
            asked, request.asked = request.asked, None
            if asked is not None:
                self._questions.withdraw(asked, why)
            self._end(request, Outcome.INTERRUPTED, code=int(CallCode.INTERRUPTED_BY), why=why)

    def _put(self, request: _Request) -> None:
        request.goal.timeout_s = max(1.0, request.until_s - self._now())
        try:
            request.asked = self._questions.ask(request.goal, partial(self._ended, request))
        except AskError as error:
            self._end(request, Outcome.REFUSED, code=int(error.code), why=str(error))

    def _ended(self, request: _Request, end: QuestionEnd) -> None:
        if request.asked is None:  # it was taken back
            return
        if end.code:
            outcome = Outcome.INTERRUPTED if end.code in _CUT_OFF else Outcome.FAILED
            self._end(request, outcome, code=int(end.code), why=end.why)
            return
        person = request.goal.person
        others = [name for name in self._people.known if name != person]
        reply = read_reply(end.answer, others, private=end.private)
        value = {"answer": reply.kind.value, "text": reply.text, "person": person, "instead": reply.instead}
        self._end(request, Outcome.DONE, value)

    def _end(
        self, request: _Request, outcome: Outcome, value: Mapping[str, str] | None = None, *, code: int = 0, why: str = ""
    ) -> None:
        if self._open.pop(request.id, None) is None:
            return
        event = CallEvent(
            kind=CallKind.ENDED,
            **self._about(request),
            outcome=outcome,
            error_code=code,
            error_msg=why,
            message=f"{value['person'] or 'somebody'}: {value['text']}" if value else "",
            value_json=json.dumps(value) if value else "",
            start_s=request.begun_s,
            end_s=self._now(),
        )
        self._events.write(event)

    def _about(self, request: _Request) -> dict[str, Any]:
        ids = {"call_id": request.id, "stream_id": request.id, "process_id": self._process_id}
        return {**ids, "function": ASK, "args_json": request.args_json}


class _Request:
    """Hold a request; `asked` is None while it is taken back."""

    def __init__(self, goal: AskHuman.Goal, until_s: float, begun_s: float, args_json: str) -> None:
        self.id, self.goal, self.until_s, self.begun_s, self.args_json = uuid.uuid4().hex, goal, until_s, begun_s, args_json
        self.asked: OpenQuestion | None = None
