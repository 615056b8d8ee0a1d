# SPDX-License-Identifier: Apache-2.0
"""Node `action_planner` (S1): plan each process by its strategy and publish what the strategy writes while it is written."""

from collections.abc import Callable
from functools import partial

from ghostshell.msg import LlmChunk, ProcessArray, ProcessHeartbeat, ProcessState
from ghostshell.msg import Plan as PlanMsg
from ghostshell.srv import Interrupt, JudgeCondition
from rclpy.task import Future

from ghostshell_ros.nodes.action_planner.planned_process import PlannedProcess, RobotDesk
from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.layer_model import LayerModel, ModelBudget
from ghostshell_ros.runtime.lesson_client import LessonClient
from ghostshell_ros.runtime.matched_publisher import MatchedPublisher
from ghostshell_ros.runtime.model_setup import (
    ANSWER,
    config_of,
    deadlines_of,
    declare_model,
    declare_settings,
    hedged,
    optional_model,
    prepare_models,
)
from ghostshell_ros.runtime.node import Health, Level, NodeStartError, RuntimeNode, SteadyClock
from ghostshell_ros.runtime.recollection import RecollectionClient
from ghostshell_ros.runtime.robot_setup import declare_robot
from ghostshell_ros.runtime.scene import Scene
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.runtime.strategy_host import HostTable
from ghostshell_ros.wire.events import EventWriter, read_events
from ghostshell_ros.wire.process_messages import plan_of
from ghostshell_ros.wire.qos import LATCHED, PLANS, SENSORS, STREAM
from ghostshell_ros.wire.values import ros_text, seconds
from planners.judging import Judgement, SentenceJudge
from planners.models.base import Message, ModelRequest, prompt_tokens
from planners.models.config import ModelConfig, fault_of_dialect
from planners.plan import Plan
from planners.prompts.blocks import Layer
from planners.prompts.grammar import stream_front
from planners.strategy import Strategy, load_strategies, parameters_of
from skill_kernel.codes import TaskCode
from skill_kernel.config.sections import CAUSE_CHARS, shown
from skill_kernel.events import CallEvent, ModelEvent, Notice, ProcessEvent, RunEvent, StreamEvent
from skill_kernel.guard.condition_text import MAX_SENTENCE

STOP_S = 0.5
"""Time that the channel scheduler may take to stop the calls of a process."""

MATCH_S = 15.0
"""Time for which it is waited for where it has not been found yet: this node or the scheduler has just come up."""

TELL_LOST_S = 1.0
"""Time for which a planner that has come up tells of processes unknown to it: its first words may find no reader."""

BEAT_S = 0.5
KEPT_PLANS = 50


class ActionPlanner(RuntimeNode):
    """Plan each process in progress by its strategy, several processes at a time. Strategies are found by entry point
    (docs/strategies.md); their parameters are declared here. A process whose epoch has risen is planned anew.
    """

    def __init__(self) -> None:
        super().__init__("action_planner")
        robot = self._robot = declare_robot(self)
        self._client = declare_model(self, robot)
        fast = optional_model(self, "fast_model", "what asks for the first action of a process; empty: model", robot)
        self._fast = fast or self._client
        self._strategies, broken = load_strategies()
        for why in broken.values():
            self.get_logger().error(why)
        deadlines = deadlines_of(self, "model")
        settings = declare_settings(
            self,
            (*ANSWER, *parameters_of(self._strategies.values())),
            deadline_s=deadlines.answer_s,
            step_deadline_s=deadlines.steps_s,
            first_deadline_s=deadlines_of(self, "fast_model", "model").first_action_s,
        )
        send_images = self.declare("send_images", False, "show the model the camera's last image")
        self._events = EventWriter(self, StreamEvent, ProcessEvent, ModelEvent, Notice)
        self._budget = ModelBudget(self)
        clients = {"model": hedged(self, self._client, fast), "fast_model": self._fast}
        roles = [role for strategy in self._strategies.values() for role in strategy.roles]
        answers = {role.name: clients[role.model] for role in roles}
        self._models = LayerModel(self, {**answers, Layer.JUDGE: clients["model"]}, self._events, self._budget)
        self._scene = Scene(self, robot, send_images=send_images, heard=self._observed)
        self._heard = False
        self._began_s = self.now_s()
        self._processes: HostTable[Strategy, PlannedProcess] = HostTable(
            self._strategies, broken, self._models, self._plan_process
        )
        self._plans: dict[str, Plan] = {}
        """The newest of each process, also of those that are not known here yet."""
        chunks = MatchedPublisher(self, LlmChunk, "llm_chunks", STREAM, reader="token_parser", on_unmatched=self._unmatched)
        judge_s = self.declare("judge_s", deadlines.judge_s, "a sentence is judged within this time [s]", 0.1, 3600.0)
        thinks = self._models.thinks(Layer.JUDGE)
        self._judge = SentenceJudge(self._models, SteadyClock(self), self._scene, judge_s) if thinks else None
        memory = RecollectionClient(self, thinks=thinks)
        own = self.get_namespace().strip("/") or robot.config.name  # robots of one type hold different conversations
        folder = data_folder(self.get_parameter("data_dir").value) / own
        self._desk = RobotDesk(
            self,
            self._models,
            self._events,
            settings,
            self._judge,
            memory,
            folder,
            self._scene,
            chunks,
            self._stop,
            learned=LessonClient(self) if thinks else None,
        )
        self._scheduler_interrupt = ServiceClient(self, Interrupt, "channel_scheduler/interrupt")
        self.create_subscription(ProcessArray, "processes", self._process_states, LATCHED)
        self.create_subscription(PlanMsg, "plans", self._plan, PLANS)
        read_events(self, self._event)
        self._heartbeat = self.create_publisher(ProcessHeartbeat, "planner_heartbeat", SENSORS)
        self.steady_timer(BEAT_S, self._beat)
        self.create_service(Interrupt, "~/interrupt", self._interrupt)
        self.create_service(JudgeCondition, "judge_condition", self._judge_condition)
        if why := fault_of_dialect(settings["dialect"], settings["prompt"], config_of(self, "model")):
            raise NodeStartError(f"parameter dialect: {why}")
        self._check_context(config_of(self, "model"))
        prepare_models(self, (self._client, self._fast), self._prepare)

    def _check_context(self, config: ModelConfig) -> None:
        """Warn where a prompt with what may be added to it is longer than the model's context, if that is known."""
        if config.context_tokens is None:
            return
        written = sum(self._desk.settings[name] for name in ("history_tokens", "max_output_tokens"))
        front = stream_front(self._robot.facts(), self._robot.routines.list(), self._desk.settings)
        prompt = prompt_tokens(ModelRequest(messages=(Message("user", ""),), **front)) * 4 // 3
        if prompt + written > config.context_tokens:
            why = f"the prompt has about {prompt} tokens, the conversation and an answer up to {written} more"
            remedy = "serve it with a longer one (Ollama: OLLAMA_CONTEXT_LENGTH, llama.cpp: --ctx-size) and say so there"
            self.get_logger().warning(
                f"{why}, but the context of {config.name} has {config.context_tokens} (context_tokens in models.yaml); "
                f"{remedy}, or lower history_tokens and max_output_tokens"
            )

    def _prepare(self) -> None:
        for strategy in self._strategies.values():
            strategy.prepare()

    async def _judge_condition(
        self, request: JudgeCondition.Request, response: JudgeCondition.Response
    ) -> JudgeCondition.Response:
        """Say whether a sentence is true now. An empty one is a client that makes contact; no model is asked for it."""
        condition = " ".join(request.condition.split())
        if self._judge is None or not condition:
            response.error_code = JudgeCondition.Request.NO_JUDGE
            response.error_msg = "no language model can judge; write the condition as an expression over the accessors"
            return response
        if len(condition) > MAX_SENTENCE:
            response.error_code = JudgeCondition.Request.JUDGE_FAILED
            response.error_msg = f"the condition has {len(condition)} characters; write it in at most {MAX_SENTENCE}"
            return response
        future = Future(executor=self.executor)
        self._judge.ask(request.process_id, condition, future.set_result)
        judged: Judgement = await future
        response.known, response.holds = judged.holds is not None, bool(judged.holds)
        response.reason = ros_text(judged.reason)
        if judged.code:
            response.error_code, response.error_msg = JudgeCondition.Request.JUDGE_FAILED, ros_text(judged.why)
        return response

    # -- processes ----------------------------------------------------------------------------------------------------

    def _process_states(self, message: ProcessArray) -> None:
        first, self._heard = not self._heard, True
        self._budget.processes(message)
        self._scene.processes(message)
        for process in message.processes:
            self.guarded(self._process_state)(process, first)

    def _process_state(self, process: ProcessState, first: bool) -> None:
        if process.status >= ProcessState.SUCCESS:
            self._plans.pop(process.process_id, None)
        elif first and (not self._began_s or seconds(process.created) < self._began_s):
            self._processes.pass_over(process)
            self.call_later(TELL_LOST_S, partial(self._lost, process))
            return
        self._processes.take(process)

    def _beat(self) -> None:
        """Tell the process scheduler which processes are planned here; it ends those that nobody plans."""
        if planned := self._processes.unfinished():
            self._heartbeat.publish(ProcessHeartbeat(process_ids=planned))

    def _plan_process(self, strategy: Strategy, process: ProcessState) -> PlannedProcess:
        """Return a process that is to be planned; System 2's plan may have come before it."""
        planned = PlannedProcess(self._desk, strategy, process)
        if (plan := self._plans.get(process.process_id)) is not None:
            self.call_soon(planned.plan, plan)
        return planned

    def _lost(self, process: ProcessState) -> None:
        """End a process that was planned by a planner that is gone: planning it again would do again what is done already, and
        going on would be going on with nobody who hears what comes of it."""
        if process.process_id not in self._processes:
            why = "the action planner was started anew while the process lived; repeat the instruction"
            ended = partial(self._processes.plan_ended, process, TaskCode.NODE_UNAVAILABLE, why)
            self._stop(process.process_id, process.epoch, why, ended)

    # -- what came of it ----------------------------------------------------------------------------------------------

    def _unmatched(self, why: str) -> None:
        for process in list(self._processes.values()):
            process.unmatched(why)

    def _event(self, event: RunEvent) -> None:
        self._budget.hear(event)
        if event.node != self.get_name():
            if isinstance(event, CallEvent):
                self._scene.call(event)
            if (process := self._processes.get(event.process_id)) is not None:
                process.event(event)

    def _plan(self, message: PlanMsg) -> None:
        plan = self._plans[message.process_id] = plan_of(message)
        while len(self._plans) > KEPT_PLANS:
            del self._plans[next(iter(self._plans))]
        if (process := self._processes.get(message.process_id)) is not None:
            process.plan(plan)

    def _observed(self) -> None:
        for process in list(self._processes.values()):
            process.observed()

    def _stop(self, process_id: str, epoch: int, why: str, then: Callable[[], None]) -> None:
        """Stop the calls of a process that is about to end; `then` comes at the deadline at the latest."""
        request = Interrupt.Request(process_id=process_id, cause=why, epoch=epoch)
        self._scheduler_interrupt.ask(request, lambda _: then(), deadline_s=STOP_S, wait_s=MATCH_S)

    def _interrupt(self, request: Interrupt.Request, response: Interrupt.Response) -> Interrupt.Response:
        for process_id in [request.process_id] if request.process_id else list(self._processes):
            if (process := self._processes.get(process_id)) is not None:
                process.interrupt(shown(request.cause, CAUSE_CHARS))
        response.epoch = request.epoch
        return response

    def health(self) -> Health:
        planned = len(self._processes.unfinished())
        return Health(f"model {self._client.name}", Level.OK, {"streams": planned})

    def close(self) -> None:
        for process in self._processes.values():
            process.shut_down("the action planner ends")
        self._models.close()
        for client in dict.fromkeys((self._client, self._fast)):
            client.close()
