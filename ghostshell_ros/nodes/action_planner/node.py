# SPDX-License-Identifier: Apache-2.0
"""Node `action_planner` (S1): asks the model and publishes its answer while it is being written, by each process's strategy."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial

from ghostshell.msg import KernelState, ProcessArray, ProcessState, SkillEvent
from ghostshell.msg import Plan as PlanMsg
from ghostshell.srv import Interrupt
from rcl_interfaces.msg import SetParametersResult
from rclpy.parameter import Parameter

from ghostshell_ros.nodes.action_planner.answer_streams import AnswerStreams
from ghostshell_ros.nodes.action_planner.chunk_streams import ChunkStream, ChunkStreams
from ghostshell_ros.nodes.action_planner.judge_service import JudgeService
from ghostshell_ros.nodes.action_planner.layered_steps import LayeredSteps
from ghostshell_ros.nodes.action_planner.process_link import LayeredParts
from ghostshell_ros.nodes.action_planner.step_parameters import declare_steps
from ghostshell_ros.runtime.layer_model import LayerModel
from ghostshell_ros.runtime.model_budget import ModelBudget
from ghostshell_ros.runtime.model_setup import declare_models
from ghostshell_ros.runtime.node import Health, Level, SteadyClock
from ghostshell_ros.runtime.node_runtime import EVENTS, LATCHED, PLANS, RuntimeNode, run
from ghostshell_ros.runtime.robot_setup import RobotSetup, declare_robot
from ghostshell_ros.runtime.scene import Scene
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.wire.event_writer import EventWriter
from ghostshell_ros.wire.plan_messages import plan_of
from ghostshell_ros.wire.values import seconds
from planners.models.base import ModelClient, ModelError
from planners.prompts.blocks import Layer
from planners.prompts.prompt import GrammarOptions
from planners.strategies.baselines.baselines import PlanAndExecutePlanner, ReactPlanner
from planners.strategies.layered.direct_commands import DirectCommands
from planners.strategies.layered.judging import SentenceJudge
from planners.strategies.layered.reliance import reliance
from planners.strategies.layered.step_prompt import Fronts, RobotFacts
from planners.strategies.stream.stream_planner import Conversation, PlannerSettings, StreamingPlanner, StreamPlanner
from skill_kernel.codes import TaskCode
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.processes.process_commands import STRATEGIES

LAYERED = "layered"

STOP_S = 0.5
"""How long the channel scheduler may take to stop what a process does."""

MATCH_S = 15.0
"""How long it is waited for when it has not been found yet: this node or the scheduler has just come up."""

LOOK_S = 0.1
"""How often it is looked for."""

TELL_LOST_S = 1.0
"""How long after it came up a planner tells of processes that it knows nothing of: its first words may find no reader."""


class ActionPlanner(RuntimeNode):
    """Plans each process in progress by its strategy, several processes at a time. Strategies `stream`, `react` and
    `plan_and_execute` write one stream a turn; `layered` writes steps of the subtasks in `plans` while earlier steps are
    performed, and without a language model (`model: offline`) does what `stream` does. A process whose epoch has risen is
    planned anew.

    Topics: `processes`, `plans`, `events`, `kernel_state`, `observation`, `odom`, with `send_images` also
    `camera/image_raw` (in); `llm_chunks`, `events`, `prompts` and `answers` while somebody listens (out). Services:
    `~/interrupt`, `judge_condition`. Parameters: `robot`, `data_dir`, `model`, `fast_model`, `models_file`, `max_turns`,
    `history`, `deadline_s`, `max_output_tokens`, `send_images`, `max_processes`, those of `StepSettings` and of the budget.
    """

    def __init__(self) -> None:
        super().__init__("action_planner")
        robot = self._robot = declare_robot(self)
        self._client, self._fast = declare_models(self, robot)
        settings = PlannerSettings(
            max_turns=self.declare("max_turns", 8, "answers to one instruction at most", minimum=1, maximum=100),
            history=self.declare("history", 12, "earlier messages a request carries", minimum=0, maximum=200),
            deadline_s=self.declare("deadline_s", 60.0, "one answer may take so long [s]", minimum=0.1, maximum=3600.0),
            max_output_tokens=self.declare(
                "max_output_tokens", 2048, "length of one answer at most [tokens]", minimum=16, maximum=1_000_000
            ),
        )
        send_images = self.declare("send_images", False, "show the model the camera's last image")
        self._max_processes = self.declare(
            "max_processes", 8, "processes answered at a time, more are refused", minimum=1, maximum=16
        )
        self._steps_settings = declare_steps(self, settings.deadline_s)
        self._events = EventWriter(self)
        self._budget = ModelBudget(self)
        self._models = LayerModel(self, _by_layer(self._client, self._fast), self._events, self._budget)
        self._scene = Scene(self, robot.config.observation, send_images=send_images, observed=lambda: self._layered.observed())
        self._seen: dict[str, int] = {}
        self._heard = False
        self._began_s = self._scene.now_s()
        self._streams = ChunkStreams(self, busy=self._busy, lost=self._lost_stream, unmatched=self._unmatched)
        self._facts = _facts(robot)
        self._fronts = Fronts(self._facts, lambda: robot.registry.version)
        self._answers = AnswerStreams(self._models, self._streams, self._events, self._scene, _planners(robot, settings))
        self._commands = DirectCommands(robot.registry, robot.routines, self._facts.options, robot.config.name)
        judge = self._make_judge()
        self._layered = LayeredSteps(
            LayeredParts(
                self,
                robot,
                self._fronts,
                self._models,
                self._streams,
                self._events,
                self._scene,
                judge,
                self._commands,
                self._facts.accessors,
                self._steps_settings,
                settings.max_output_tokens,
                self._stop,
            ),
            plans=self._models.thinks(Layer.S2),
        )
        self.add_on_set_parameters_callback(self._set)
        self._scheduler_interrupt = ServiceClient(self, Interrupt, "channel_scheduler/interrupt")
        self.create_subscription(ProcessArray, "processes", self._processes, LATCHED)
        self.create_subscription(PlanMsg, "plans", lambda m: self._layered.plan(m.process_id, plan_of(m)), PLANS)
        self.create_subscription(SkillEvent, "events", self._event, EVENTS)
        self.create_subscription(KernelState, "kernel_state", self._kernel_state, LATCHED)
        self.create_service(Interrupt, "~/interrupt", self._interrupt)
        self._judge_service = JudgeService(self, judge)
        threading.Thread(target=self._prepare, name="prepare-model", daemon=True).start()

    def _make_judge(self) -> SentenceJudge | None:
        judge_s = self.declare("judge_s", 3.5, "a sentence is judged within this time [s]", minimum=0.1, maximum=60.0)
        if not self._models.thinks(Layer.JUDGE):
            return None

        def scene() -> object:
            seen = reliance(self._scene.seen(), self.steady_now())
            return (seen.room, seen.posture, seen.in_sight)

        return SentenceJudge(
            self._models, SteadyClock(self), self._fronts, observe=self._scene.observation, scene=scene, deadline_s=judge_s
        )

    def _prepare(self) -> None:
        """Import the SDK and look for the key before the first instruction needs them."""
        for client in dict.fromkeys((self._client, self._fast)):
            try:
                client.prepare()
            except ModelError as error:
                self.get_logger().warning(f"model {client.name}: {error.message}")
            else:
                self.get_logger().info(f"model {client.name} is ready")
        self._commands.prepare()

    def _set(self, parameters: list[Parameter]) -> SetParametersResult:
        for parameter in parameters:
            if parameter.name == "cost_aware":
                self._steps_settings.cost_aware = bool(parameter.value)
        return SetParametersResult(successful=True)

    # -- processes ----------------------------------------------------------------------------------------------------

    def _kernel_state(self, state: KernelState) -> None:
        self._scene.kernel_state(state)
        if problem := self._robot.follow(state.skills_version):
            self.get_logger().error(problem)

    def _processes(self, message: ProcessArray) -> None:
        first, self._heard = not self._heard, True
        self._budget.processes(message)
        for process in message.processes:
            process_id = process.process_id
            if process.status >= ProcessState.SUCCESS:
                self._cancel(process_id)
            elif first and (not self._began_s or seconds(process.created) < self._began_s):
                self._seen[process_id] = process.epoch
                self.call_later(TELL_LOST_S, lambda lost=process: self._lost(lost))
            elif (
                process.status == ProcessState.IN_PROGRESS
                and process.strategy in STRATEGIES
                and process.epoch > self._seen.get(process_id, -1)
            ):
                self._seen[process_id] = process.epoch
                self._begin(process)
            elif process_id in self._layered:
                self._layered.update(process)
        while len(self._seen) > 1000:
            del self._seen[next(iter(self._seen))]

    def _begin(self, process: ProcessState) -> None:
        known = process.process_id in self._layered or process.process_id in self._answers
        if not known and len(self._answers) + len(self._layered) >= self._max_processes:
            why = f"{self._max_processes} processes are being answered already; wait for one to end, or end one"
            self._plan_ended(process, TaskCode.TOO_MANY_PROCESSES, why)
        elif process.strategy == LAYERED and self._models.thinks(Layer.S1):
            self._layered.begin(process)
        else:
            self._answers.begin(process)

    def _lost(self, process: ProcessState) -> None:
        """It was planned by a planner that is gone: planning it again would do again what is done already, and going on would
        be going on with nobody who hears what comes of it."""
        if process.process_id not in self._answers and process.process_id not in self._layered:
            why = "the action planner was started anew while the process lived; repeat the instruction"
            ended = partial(self._plan_ended, process, TaskCode.NODE_UNAVAILABLE, why)
            self._stop(process.process_id, process.epoch, why, ended)

    def _plan_ended(self, process: ProcessState, code: TaskCode, why: str) -> None:
        self._events.write(
            SkillEvent.PLAN_ENDED, process_id=process.process_id, error_code=int(code), error_msg=why, epoch=process.epoch
        )

    def _cancel(self, process_id: str) -> None:
        self._answers.cancel(process_id)
        self._layered.cancel(process_id)

    # -- what came of it ----------------------------------------------------------------------------------------------

    def _busy(self, process_id: str) -> bool:
        return self._answers.busy(process_id) or self._layered.busy(process_id)

    def _lost_stream(self, stream: ChunkStream, why: str) -> None:
        self._answers.lost(stream, why)
        self._layered.lost(stream, why)

    def _unmatched(self, why: str) -> None:
        self._answers.unmatched(why)
        self._layered.unmatched(why)

    def _event(self, event: SkillEvent) -> None:
        self._budget.hear(event)
        if event.node != self.get_name():
            self._streams.heard(event)
            self._answers.event(event)
            self._layered.event(event)

    def _stop(self, process_id: str, epoch: int, why: str, then: Callable[[], None]) -> None:
        """Stop the calls of a process that is about to end; `then` comes at the deadline at the latest."""
        request = Interrupt.Request(process_id=process_id, cause=why, epoch=epoch)
        self._scheduler_interrupt.ask(request, lambda _: then(), deadline_s=STOP_S, wait_s=MATCH_S)

    def _interrupt(self, request: Interrupt.Request, response: Interrupt.Response) -> Interrupt.Response:
        for part in (self._answers, self._layered):
            for process_id in [request.process_id] if request.process_id else part.ids():
                part.interrupt(process_id, request.cause)
        response.epoch = request.epoch
        return response

    def health(self) -> Health:
        """The model, and how many processes it answers."""
        return Health(f"model {self._client.name}", Level.OK, {"streams": len(self._answers) + len(self._layered)})

    def close(self) -> None:
        """End the running streams and the model's connections."""
        self._answers.close()
        self._layered.close()
        self._models.close()
        for client in dict.fromkeys((self._client, self._fast)):
            client.close()


def _by_layer(client: ModelClient, fast: ModelClient) -> dict[Layer, ModelClient]:
    """System 2's is not asked by this node; that it has one tells that plans will come."""
    return {layer: fast if layer is Layer.S1P else client for layer in Layer}


def _facts(robot: RobotSetup) -> RobotFacts:
    config = robot.config
    fields = {name: field.role for name, field in config.observation.items() if field.serialise.prompt}
    return RobotFacts(
        config.name,
        config.description,
        robot.registry,
        GrammarOptions(config.builtin_names, config.limits),
        accessors_of(config),
        fields,
        config.waypoints,
        config.first_actions,
    )


def _planners(robot: RobotSetup, settings: PlannerSettings) -> Callable[[str], StreamingPlanner]:
    """Makes the planner of a strategy; all of strategy `stream` share one conversation."""
    config, conversation = robot.config, Conversation(settings.history)
    facts = _facts(robot)

    def make(strategy: str) -> StreamingPlanner:
        if strategy in ("react", "plan_and_execute"):
            baseline = ReactPlanner if strategy == "react" else PlanAndExecutePlanner
            return baseline(
                skills=lambda: robot.registry,
                options=facts.options,
                robot_name=config.name,
                robot_description=config.description,
                fields=facts.fields,
                places=config.waypoints,
                settings=settings,
            )
        return StreamPlanner(
            skills=lambda: robot.registry,
            routines=robot.routines.list,
            options=facts.options,
            robot_name=config.name,
            robot_description=config.description,
            fields=facts.fields,
            settings=settings,
            conversation=conversation,
        )

    return make


def main() -> int:
    """Entry point of the executable `action_planner`."""
    return run(ActionPlanner)


if __name__ == "__main__":
    sys.exit(main())
