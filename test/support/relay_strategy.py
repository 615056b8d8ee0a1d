# SPDX-License-Identifier: Apache-2.0
"""A strategy for teams that asks no model: "left lift 2 & right lift 2; left put space=table" calls what stands there, one
group after the other, the calls of a group at the same time. It ends with what came of each call."""

from __future__ import annotations

from collections.abc import Mapping

from planners.strategy import PlannerEvent, PlannerIO, Planning, Restarted, RobotView, Task, TeamStrategy
from skill_kernel.codes import Outcome, TaskCode
from skill_kernel.events import CallEvent


class Relay(TeamStrategy):
    """Begin with the first group."""

    name = "relay"

    def start_team(self, task: Task, robots: Mapping[str, RobotView], io: PlannerIO) -> Planning:
        return _Relay(task.instruction, io)


class _Relay:
    def __init__(self, instruction: str, io: PlannerIO) -> None:
        self._io = io
        self._groups = [group.split("&") for group in instruction.split(";")]
        self._ended: list[str] = []
        self._failed = False
        self._begin()

    def on(self, event: PlannerEvent) -> None:
        """Begin a group again that was interrupted."""
        if isinstance(event, Restarted):
            self._begin()

    def close(self, why: str) -> None:
        """Nothing has to be ended."""

    def _begin(self) -> None:
        self._left = len(self._groups[0])
        for written in self._groups[0]:
            robot, skill, *words = written.split()
            given = dict[str, object](word.split("=") for word in words if "=" in word)
            if words and not given:
                given["seconds"] = float(words[0])
            self._io.call(skill, "" if robot == "-" else robot, **given).then(self._call_ended)

    def _call_ended(self, call: CallEvent) -> None:
        if call.outcome is Outcome.INTERRUPTED and call.error_msg.startswith("it is planned anew"):
            return
        told = f": {call.told}" if call.told else ""
        self._ended.append(f"{call.function} {call.outcome_name} {call.value or ''}{told}")
        self._failed |= call.outcome is not Outcome.DONE
        self._left -= 1
        if not self._left:
            del self._groups[0]
            if self._groups:
                self._begin()
            else:
                self._io.finish(int(TaskCode.CALL_FAILED) if self._failed else 0, "; ".join(self._ended))
