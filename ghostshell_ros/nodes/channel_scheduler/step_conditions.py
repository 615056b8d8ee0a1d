# SPDX-License-Identifier: Apache-2.0
"""What the conditions of a plan are held against in a node: the newest observation, or a model that judges a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ghostshell.msg import Observation as ObservationMsg
from ghostshell.srv import JudgeCondition

from function_tokens.scheduling.conditions import Answer, Verdict
from ghostshell_ros.runtime.node_runtime import OBSERVATION, RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.wire.observation_messages import from_message
from skill_kernel.guard import GuardError
from skill_kernel.guard.condition_text import Condition, holds, read_condition
from skill_kernel.observation.accessors import View, accessors_of
from skill_kernel.observation.model import Observation
from skill_kernel.robot import RobotConfig

READ_AHEAD = 256
"""Conditions that are kept compiled."""


class StepConditions:
    """Shared by the schedulers of all processes; `of` gives each its own. On the executor's thread only.

    Subscribes `observation`; calls the service `judge_condition` for what is no expression over accessors, and takes a
    judge that has not answered within `judge_s` as one who cannot tell.
    """

    def __init__(self, node: RuntimeNode, robot: RobotConfig, *, judge_s: float) -> None:
        self._node = node
        self._judge_s = judge_s
        self._accessors = accessors_of(robot)
        self._newest: tuple[ObservationMsg, float, float] | None = None
        self._read = lru_cache(READ_AHEAD)(lambda text: read_condition(text, self._accessors))
        self._judge = ServiceClient(node, JudgeCondition, "judge_condition")
        node.create_subscription(ObservationMsg, "observation", self._on_observation, OBSERVATION)
        # An empty condition costs no model.
        self._judge.prove(JudgeCondition.Request)

    def of(self, process_id: str) -> ProcessConditions:
        """Conditions of one process."""
        return ProcessConditions(self, process_id)

    def read(self, text: str) -> Condition:
        """A condition as it stands. Raises GuardError."""
        return self._read(text)

    def look(self, condition: Condition) -> Verdict:
        """What the newest observation says of an expression."""
        assert condition.expression is not None
        view = View(self._observation(), self._accessors, self._node.steady_now())
        return Verdict(*holds(condition.expression, view.call))

    def judge(self, process_id: str, condition: Condition, answer: Answer) -> None:
        """Ask a model about a sentence."""
        if not self._judge.discovered():
            known = ", ".join(sorted(self._accessors)) or "none, this robot observes nothing"
            why = f"it is no expression over accessors ({known}), and no model judges sentences here"
            answer(Verdict(None, why))
            return

        def answered(response: JudgeCondition.Response | None) -> None:
            if response is None:
                answer(Verdict(None, f"no model judged it within {self._judge_s:g} s"))
            elif not response.known:
                answer(Verdict(None, response.error_msg or response.reason or "the model cannot tell"))
            else:
                answer(Verdict(response.holds, response.reason))

        request = JudgeCondition.Request(process_id=process_id, condition=condition.text)
        self._judge.ask(request, answered, deadline_s=self._judge_s)

    def _on_observation(self, message: ObservationMsg) -> None:
        self._newest = (message, self._node.steady_now(), self._node.now_s())

    def _observation(self) -> Observation | None:
        return from_message(*self._newest) if self._newest is not None else None


@dataclass(frozen=True)
class ProcessConditions:
    """Implement `scheduling.conditions.ConditionSource` for one process."""

    source: StepConditions
    process_id: str

    def fault(self, condition: str) -> str:
        """What is wrong with a condition that is meant as code."""
        try:
            self.source.read(condition)
        except GuardError as error:
            return error.message
        return ""

    def ask(self, condition: str, answer: Answer) -> None:
        """From the newest observation at once, or from a model later."""
        try:
            read = self.source.read(condition)
        except GuardError as error:
            answer(Verdict(None, error.message))
            return
        if read.expression is None:
            self.source.judge(self.process_id, read, answer)
        else:
            answer(self.source.look(read))
