# SPDX-License-Identifier: Apache-2.0
"""Add judgement to the process scheduler: System 3's model, and the standing guidelines."""

from collections.abc import Callable, Sequence

from ghostshell_ros.runtime.layer_model import LayerModel, ModelBudget
from ghostshell_ros.runtime.model_setup import deadlines_of, model_if_any, prepare_models
from ghostshell_ros.runtime.node import RuntimeNode, SteadyClock
from ghostshell_ros.runtime.robot_setup import RobotSetup
from ghostshell_ros.runtime.scene import Scene
from ghostshell_ros.wire.events import EventWriter
from planners.models.config import Deadlines
from planners.prescriptions.prescription import Kept
from planners.processes.advisor import AdvisorContext, ProcessAdvisor, system_prompt
from planners.processes.guidelines import GuidelineLoop
from planners.prompts.blocks import Layer
from planners.strategy import Feed, strategies_that_want
from skill_kernel.events import RunEvent
from skill_kernel.processes.process import Process
from skill_kernel.processes.scheduler import ProcessScheduler

LOOK_S = 0.1
"""Shortest interval at which guidelines look at the observation [s]."""


class ProcessAdvice:
    """Advise on processes: subscribe `observation`, publish `prompts`. Declare `model`, `models_file`, `cost_aware` (live),
    `advice_deadline_s`, and the parameters of the token budget.

    Nothing here holds a process up. Without a language model (`model: offline`) advice is silent, and of the guidelines
    those go on that need none.
    """

    def __init__(
        self, node: RuntimeNode, robot: RobotSetup, core: ProcessScheduler, events: EventWriter, *, halting: Callable[[], bool]
    ) -> None:
        self._node, self._core, self._events = node, core, events
        self._scene, self._looked_s = Scene(node, robot, heard=self._look), 0.0
        self._shown: list[dict[str, str]] = []
        client = model_if_any(node, robot, "System 3 goes on without a model")
        node.declare("cost_aware", True, "ask about guidelines only when something has changed", read_only=False)
        self.deadlines = Deadlines() if client is None else deadlines_of(node, "model")
        deadline_s = node.declare(
            "advice_deadline_s",
            self.deadlines.advice_s,
            "System 3's model is waited for so long, a repair included [s]",
            0.1,
            3600.0,
        )
        self._budget = ModelBudget(node)
        self._layers = LayerModel(node, {} if client is None else {Layer.S3: client}, events, self._budget)
        self.thinks = self._layers.thinks(Layer.S3)
        """Return whether a language model advises."""
        self._advised = strategies_that_want(Feed.ADVICE)
        """Strategies whose processes it advises on; guidelines are looked at whatever the strategy is."""
        clock = SteadyClock(node)
        system = self._scene.system_prompt(system_prompt)
        self._context = AdvisorContext(self._layers, clock, system, self._scene.observed, lambda: self._shown, deadline_s)
        self._advisor = ProcessAdvisor(self._context, core, events.write)
        self.loop = GuidelineLoop(
            core,
            clock,
            self._scene.about.accessors,
            events.write,
            context=self._context if self.thinks else None,
            blind=lambda: not node.get_parameter("cost_aware").value,
            wait_s=lambda: self._layers.allowance("", Layer.S3)[1],
            halting=halting,
            robot=robot.config.name,
        )
        if client is not None and self.thinks:
            prepare_models(node, [client])

    # -- what happens -------------------------------------------------------------------------------------------------

    def changed(self, process: Process, *, fresh: bool) -> None:
        """Take a process as it stands now; it is `fresh` when it is new."""
        if process.status.ended:
            self._budget.forget(process.process_id)
            self.loop.process_ended(process)
            return
        if not self.thinks:
            return
        self._budget.at_least(process.process_id, process.prompt_tokens + process.completion_tokens)
        if fresh and process.strategy in self._advised:
            self._node.call_soon(self._advisor.began, process.process_id)

    def event(self, event: RunEvent) -> None:
        """Take what any node has asked its model: the budget of the hour is one for all."""
        if self.thinks:
            self._budget.hear(event)

    def follow(self, guidelines: Sequence[Kept]) -> None:
        """Follow the guidelines that are enabled now."""
        self._shown = [_shown(kept) for kept in guidelines]
        self.loop.set(guidelines)

    def close(self) -> None:
        """Drop what was asked."""
        self._advisor.close()
        self.loop.close()
        self._layers.close()

    def halted(self, halted: bool) -> None:
        """Note that the robot is halted, or no longer is."""
        if halted:
            self.loop.close()
            self._advisor.close()

    def _look(self) -> None:
        """Show the guidelines a new observation, unless none is followed: to read one takes a millisecond."""
        now = self._node.steady_now()
        if self._shown and now - self._looked_s >= LOOK_S and (observation := self._scene.observation()) is not None:
            self._looked_s = now
            self.loop.observe(observation)


def _shown(kept: Kept) -> dict[str, str]:
    return {"name": kept.name, "sentence": kept.prescription.sentence}
