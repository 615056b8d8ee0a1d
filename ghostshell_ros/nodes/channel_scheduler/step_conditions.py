# SPDX-License-Identifier: Apache-2.0
"""Answer the conditions of a plan from the newest observation, or by a model that judges a sentence."""

from functools import lru_cache

from ghostshell.msg import Observation as ObservationMsg
from ghostshell.srv import JudgeCondition
from rclpy.serialization import deserialize_message

from function_tokens.scheduling.conditions import Answer, Verdict
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.wire.observation_messages import from_message
from ghostshell_ros.wire.qos import OBSERVATION
from skill_kernel.guard import GuardError
from skill_kernel.guard.condition_text import holds, read_condition
from skill_kernel.observation.accessors import View, accessors_of
from skill_kernel.observation.model import Observation
from skill_kernel.robot import RobotConfig

READ_AHEAD = 256
"""Conditions that are kept compiled."""


class StepConditions:
    """Implement `scheduling.conditions.ConditionSource` for all processes. On the executor's thread only.

    Subscribes `observation`; calls the service `judge_condition` for what is no expression over accessors, and takes a
    judge that has not answered within `judge_s` as one who cannot tell.
    """

    def __init__(self, node: RuntimeNode, robot: RobotConfig, *, judge_s: float) -> None:
        self._node = node
        self._judge_s = judge_s
        self._accessors = accessors_of(robot)
        self._newest: tuple[bytes, float, float] | None = None
        self._read = lru_cache(READ_AHEAD)(lambda text: read_condition(text, self._accessors))
        self._judge = ServiceClient(node, JudgeCondition, "judge_condition")
        node.create_subscription(ObservationMsg, "observation", self._on_observation, OBSERVATION, raw=True)
        # An empty condition costs no model.
        self._judge.prove(JudgeCondition.Request)

    def fault(self, text: str) -> str:
        """Return what is wrong with a condition that is meant as code, "" for a sentence."""
        try:
            self._read(text)
        except GuardError as error:
            return error.message
        return ""

    def ask(self, text: str, answer: Answer, process_id: str) -> None:
        """Answer from the newest observation at once, or by a model later."""
        try:
            condition = self._read(text)
        except GuardError as error:
            answer(Verdict(None, error.message))
            return
        if condition.expression is not None:
            view = View(self._observation(), self._accessors, self._node.steady_now())
            answer(Verdict(*holds(condition.expression, view.call)))
        elif not self._judge.discovered():
            known = ", ".join(sorted(self._accessors)) or "none, this robot observes nothing"
            why = f"it is no expression over accessors ({known}), and no model judges sentences here"
            answer(Verdict(None, why))
        else:
            request = JudgeCondition.Request(process_id=process_id, condition=condition.text)
            self._judge.ask(request, lambda response: answer(self._verdict(response)), deadline_s=self._judge_s)

    def _verdict(self, response: JudgeCondition.Response | None) -> Verdict:
        if response is None:
            return Verdict(None, f"no model judged it within {self._judge_s:g} s")
        if not response.known:
            return Verdict(None, response.error_msg or response.reason or "the model cannot tell")
        return Verdict(response.holds, response.reason)

    def _observation(self) -> Observation | None:
        if self._newest is None:
            return None
        raw, now, ros_now_s = self._newest
        return from_message(deserialize_message(raw, ObservationMsg), now, ros_now_s)

    def _on_observation(self, raw: bytes) -> None:
        self._newest = (raw, self._node.steady_now(), self._node.now_s())
