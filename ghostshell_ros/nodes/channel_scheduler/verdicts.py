# SPDX-License-Identifier: Apache-2.0
"""Give verdicts what they go by: the robot as the node hears it, and a model."""

from collections.abc import Callable

from ghostshell.msg import KernelState

from function_tokens.scheduling.calls import Executor
from ghostshell_ros.runtime.layer_model import LayerModel
from ghostshell_ros.runtime.model_setup import optional_model
from ghostshell_ros.runtime.node import RuntimeNode, SteadyClock
from ghostshell_ros.runtime.robot_setup import RobotSetup
from ghostshell_ros.runtime.scene import Scene
from ghostshell_ros.wire.events import EventWriter
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd
from planners.verdict import WeighingExecutor, load_verdicts
from skill_kernel.codes import ModelCode
from skill_kernel.events import ModelEvent, Notice

ROLE = "verdict"
"""Role of the verdicts' model in events, usage and budgets."""


class Verdicts:
    """Declare `verdicts`, `verdict_model` and `models_file`, and weigh calls if a verdict is named. Without one nothing is
    subscribed and no call takes longer."""

    def __init__(self, node: RuntimeNode, robot: RobotSetup) -> None:
        names = node.declare("verdicts", [""], "verdicts that weigh each call before dispatch, by their installed names")
        self._client = optional_model(node, "verdict_model", "model that verdicts may ask; empty: none", robot)
        self._clock = SteadyClock(node)
        self._verdicts = load_verdicts([name for name in names if name])
        if self._verdicts:
            images = any(verdict.wants_images for verdict in self._verdicts)
            self.robot = Scene(node, robot, send_images=images)
            events = EventWriter(node, ModelEvent, Notice)
            self._models = LayerModel(node, {ROLE: self._client} if self._client is not None else {}, events)

    def before(self, executor: Executor, process_id: str) -> WeighingExecutor | None:
        """Return the executor that weighs the calls of a process first; None without a verdict."""
        if not self._verdicts:
            return None
        return WeighingExecutor(executor, process_id, self._verdicts, self, self._clock)

    def kernel_state(self, state: KernelState) -> None:
        """Take the kernel's latest state."""
        if self._verdicts:
            self.robot.kernel_state(state)

    def ask(self, process_id: str, request: ModelRequest, on_end: Callable[[AnswerEnd], None]) -> None:
        """Ask the verdicts' model."""
        if self._client is None:
            why = "no model is set; name one in the parameter verdict_model"
            on_end(AnswerEnd("", int(ModelCode.MODEL_REFUSED), why))
        else:
            self._models.ask(ROLE, process_id, request, lambda text: None, on_end)

    def close(self) -> None:
        """Let every answer go."""
        if self._verdicts:
            self._models.close()
        if self._client is not None:
            self._client.close()
