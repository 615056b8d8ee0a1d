# SPDX-License-Identifier: Apache-2.0
"""Plan one process of a team with a strategy: its calls go to the robots that it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ghostshell.msg import ProcessState

from function_tokens.parsing.tokens import FunctionToken
from ghostshell_ros.nodes.team_planner.asking import Requests
from ghostshell_ros.nodes.team_planner.team_member import TeamMember
from ghostshell_ros.runtime.question_server import QuestionServer
from ghostshell_ros.runtime.strategy_host import Desk, PendingCall, StrategyHost
from planners.people import ASK
from planners.scene import Present
from planners.strategy import Planning, TeamStrategy
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.config.sections import nearest
from skill_kernel.events import StreamEvent, StreamKind


@dataclass(frozen=True)
class TeamDesk(Desk):
    """Add the robots by name, and who asks people. `stop` stops a process's calls on all robots (id, why, callback)."""

    members: Mapping[str, TeamMember]
    present: Callable[[], Present]
    stop: Callable[[str, str, Callable[[], None]], None]
    questions: QuestionServer


class TeamProcess(StrategyHost):
    """Implement `PlannerIO` for one process of a team: the strategy acts by calls alone, to robots and people."""

    desk: TeamDesk
    _strategy: TeamStrategy

    def __init__(self, desk: TeamDesk, strategy: TeamStrategy, process: ProcessState) -> None:
        super().__init__(desk, strategy, process, desk.present())
        self._interrupted = ""
        """Why nothing may be called until it is planned again."""
        self._requests = Requests(process.process_id, desk.questions, desk.people, desk.events, desk.node.now_s)

    def _begin(self) -> Planning:
        return self._strategy.start_team(self._task, {name: m.view for name, m in self.desk.members.items()}, self)

    def restart(self, process: ProcessState) -> None:
        """Plan it under its new epoch; nothing runs or waits."""
        self._interrupted = ""
        super().restart(process)

    def interrupt(self, cause: str) -> None:
        """Void everything planned; it goes on with a new epoch, or ends."""
        self._interrupted = cause
        super().interrupt(cause)

    def update(self, process: ProcessState) -> None:
        """Take note of its status; while it is paused, nobody is asked."""
        if process.status == ProcessState.PAUSED:
            self._requests.pause()
        elif process.status in (ProcessState.IN_PROGRESS, ProcessState.WAITING):
            self._requests.resume()
        super().update(process)

    @property
    def asks(self) -> bool:
        """Return whether a person is asked for it."""
        return self._requests.any

    def _abandon(self) -> None:
        """Leave what robots were called to do to who ends the process."""
        self._requests.stop(self._interrupted or "the process has ended")

    def _end_calls(self, why: str) -> None:
        self.stop(why, lambda: None)

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> PendingCall:
        pending = PendingCall(skill, arguments, self._guarded)
        if skill == ASK and not robot and not self._interrupted:
            return self._ask_person(pending, arguments)
        members = self.desk.members
        name = robot or (next(iter(members)) if len(members) == 1 else "")
        if self._interrupted:
            pending.end_unheard("", Outcome.INTERRUPTED, int(CallCode.INTERRUPTED_BY), self._interrupted)
        elif name not in members:
            unknown = f"there is no robot '{robot}' in the team{nearest(robot, members)}" if robot else "name the robot"
            self._refuse(pending, f"{unknown}: {', '.join(members)}")
        elif fault := _fault_of(arguments):
            self._refuse(pending, fault)
        else:
            call = members[name].call(self.process_id, skill, arguments)
            self._calls[call.spec.stream_id] = pending
            self._last_stream = call.spec.stream_id
            self.desk.events.write(
                StreamEvent(kind=StreamKind.STARTED, process_id=self.process_id, stream_id=call.spec.stream_id)
            )
        return pending

    def unavailable(self, robot: str) -> str:
        member = self.desk.members.get(robot)
        if member is None or not member.ready():
            return "out of reach"
        return "halted" if member.stands else ""

    def _ask_person(self, pending: PendingCall, arguments: Mapping[str, Any]) -> PendingCall:
        if fault := _fault_of(arguments):
            self._refuse(pending, fault)
            return pending
        try:
            stream_id = self._requests.ask(arguments)
        except (TypeError, ValueError) as error:
            self._refuse(pending, str(error))
        else:
            self._calls[stream_id] = pending
        return pending

    def finish(self, code: int = 0, why: str = "") -> None:
        self._requests.stop("the plan has ended")
        super().finish(code, why)

    def stop(self, why: str, then: Callable[[], None]) -> None:
        self._requests.stop(why)
        self.desk.stop(self.process_id, why, lambda: self._guarded(then))

    def open(self, turn: int) -> NoReturn:
        raise RuntimeError("a stream belongs to one robot; a team acts by io.call(skill, robot, …)")

    def perform(self, tokens: Iterable[FunctionToken]) -> NoReturn:
        self.open(0)

    def _refuse(self, pending: PendingCall, why: str) -> None:
        pending.end_unheard("", Outcome.REFUSED, int(CallCode.INVALID_ARGUMENT), why)


def _fault_of(arguments: Mapping[str, Any]) -> str:
    """Return why arguments cannot travel, ""."""
    try:
        json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return f"its arguments are no JSON: {error}"
    return ""
