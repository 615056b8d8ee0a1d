# SPDX-License-Identifier: Apache-2.0
"""The service `judge_condition`: whether a sentence is true now, as a model judges from the observation."""

from __future__ import annotations

from ghostshell.srv import JudgeCondition
from rclpy.task import Future

from ghostshell_ros.runtime.node_runtime import RuntimeNode
from ghostshell_ros.wire.values import ros_text
from planners.judging import Judgement, SentenceJudge

MAX_CONDITION = 300


class JudgeService:
    """Answers JudgeCondition. An empty condition is a client that makes contact; no model is asked for it."""

    def __init__(self, node: RuntimeNode, judge: SentenceJudge | None) -> None:
        self._node, self._judge = node, judge
        node.create_service(JudgeCondition, "judge_condition", self._serve)

    async def _serve(self, request: JudgeCondition.Request, response: JudgeCondition.Response) -> JudgeCondition.Response:
        condition = " ".join(request.condition.split())
        if self._judge is None or not condition:
            response.error_code = JudgeCondition.Request.NO_JUDGE
            response.error_msg = "no language model can judge; write the condition as an expression over the accessors"
            return response
        if len(condition) > MAX_CONDITION:
            response.error_code = JudgeCondition.Request.JUDGE_FAILED
            response.error_msg = f"the condition has {len(condition)} characters; write it in at most {MAX_CONDITION}"
            return response
        future = Future(executor=self._node.executor)
        self._judge.ask(request.process_id, condition, future.set_result)
        judged: Judgement = await future
        response.known, response.holds = judged.holds is not None, bool(judged.holds)
        response.reason = ros_text(judged.reason)
        if judged.code:
            response.error_code, response.error_msg = JudgeCondition.Request.JUDGE_FAILED, ros_text(judged.why)
        return response
