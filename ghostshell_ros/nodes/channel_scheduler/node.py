# SPDX-License-Identifier: Apache-2.0
"""Run the node `channel_scheduler`: function tokens in, calls to the skill kernel out (GhostShell 3.4.3)."""

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import lru_cache

from ghostshell.msg import FunctionToken as TokenMsg
from ghostshell.msg import KernelState, ProcessHeartbeat
from ghostshell.msg import StepQueue as StepQueueMsg
from ghostshell.srv import Interrupt, JudgeCondition

from function_tokens.parsing.tokens import FunctionToken
from function_tokens.scheduling.calls import Answer, Executor, Verdict
from function_tokens.scheduling.queues import StepQueue
from function_tokens.scheduling.scheduler import Scheduler, SchedulerSettings
from ghostshell_ros.runtime.kernel_executor import KernelLink, ProcessExecutor
from ghostshell_ros.runtime.layer_model import LayerModel
from ghostshell_ros.runtime.model_setup import deadlines_of, optional_model
from ghostshell_ros.runtime.node import Beat, RosClock, RuntimeNode, SteadyClock
from ghostshell_ros.runtime.robot_setup import RobotSetup, declare_robot
from ghostshell_ros.runtime.scene import Scene
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.wire.codec import filled
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.qos import LATCHED, QUEUES, SENSORS, STREAM
from ghostshell_ros.wire.values import TOKEN_NUMBERS
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd
from planners.verdict import WeighingExecutor, load_verdicts
from skill_kernel.codes import ModelCode, ParseCode, TaskCode
from skill_kernel.config.sections import CAUSE_CHARS, shown
from skill_kernel.events import CallEvent, ModelEvent, Notice, ProcessEvent, ProcessKind, StreamEvent, StreamKind
from skill_kernel.guard.condition_text import holds, read_condition
from skill_kernel.guard.reading import GuardError
from skill_kernel.observation.accessors import View

KINDS = {number: kind for kind, number in TOKEN_NUMBERS.items()}

NO_PROCESS = "none-"
"""Prefix of the process id of an interrupt that only makes contact."""

MAX_PROCESSES = 16
"""Maximum number of processes with calls. Twice as many are remembered, so that late tokens of ended ones end as dropped."""

MAX_CHARS = 4_000_000
"""Maximum number of characters in the tokens of a stream, which any node may send."""

KEPT_STREAMS = 1000
"""Number of streams of a process whose tokens are counted; those that began longest ago are forgotten."""

JUDGE_MARGIN_S = 0.5
"""Time by which a judgement is waited for longer here than the planner waits for its model."""

BEAT_S, REST_BEAT_S = 0.1, 0.2
"""Time between two heartbeats while there are calls, and without."""

VERDICT_ROLE = "verdict"
"""Role of the verdicts' model in events, usage and budgets."""

READ_AHEAD = 256
"""Conditions that are kept compiled."""


class Verdicts:
    """Declare `verdicts`, `verdict_model` and `models_file`, and weigh calls if a verdict is named. Without one no call takes
    longer."""

    def __init__(self, node: RuntimeNode, robot: RobotSetup) -> None:
        names = node.declare("verdicts", [""], "verdicts that weigh each call before dispatch, by their installed names")
        self._client = optional_model(node, "verdict_model", "model that verdicts may ask; empty: none", robot)
        self._clock = SteadyClock(node)
        self._verdicts = load_verdicts([name for name in names if name])
        self.robot = Scene(node, robot, send_images=any(verdict.wants_images for verdict in self._verdicts))
        if self._verdicts:
            events = EventWriter(node, ModelEvent, Notice)
            self._models = LayerModel(node, {VERDICT_ROLE: self._client} if self._client is not None else {}, events)

    def before(self, executor: Executor, process_id: str) -> WeighingExecutor | None:
        """Return the executor that weighs the calls of a process first; None without a verdict."""
        if not self._verdicts:
            return None
        return WeighingExecutor(executor, process_id, self._verdicts, self, self._clock)

    def ask(self, process_id: str, request: ModelRequest, on_end: Callable[[AnswerEnd], None]) -> None:
        """Ask the verdicts' model."""
        if self._client is None:
            why = "no model is set; name one in the parameter verdict_model"
            on_end(AnswerEnd("", int(ModelCode.MODEL_REFUSED), why))
        else:
            self._models.ask(VERDICT_ROLE, process_id, request, lambda text: None, on_end)

    def close(self) -> None:
        """Let every answer go."""
        if self._verdicts:
            self._models.close()
        if self._client is not None:
            self._client.close()


class StepConditions:
    """Implement `scheduling.calls.ConditionSource` for all processes. On the executor's thread only.

    Calls the service `judge_condition` for what is no expression over accessors, and takes a judge that has not answered
    within `judge_s` as one who cannot tell.
    """

    def __init__(self, node: RuntimeNode, scene: Scene, *, judge_s: float) -> None:
        self._scene, self._judge_s, self._accessors = scene, judge_s, scene.about.accessors
        self._read = lru_cache(READ_AHEAD)(lambda text: read_condition(text, self._accessors))
        self._judge = ServiceClient(node, JudgeCondition, "judge_condition")
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
            view = View(self._scene.observation(), self._accessors, self._scene.steady_now())
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


@dataclass
class _Process:
    scheduler: Scheduler
    oldest_epoch: int = 0
    next_seq: dict[str, int] = field(default_factory=dict)
    characters: Counter[str] = field(default_factory=Counter)


class ChannelScheduler(RuntimeNode):
    """Schedule the calls of every process by the channel laws and report each call's outcome on `events`."""

    def __init__(self) -> None:
        super().__init__("channel_scheduler")
        robot = declare_robot(self)
        self._settings = SchedulerSettings(
            silence_s=self.declare("silence_s", 3.0, "a stream silent so long with an element open is ended [s]", 0.1, 600.0),
            observe_timeout_s=self.declare(
                "observe_timeout_s", 30.0, "an observation starts then at the latest [s]", 0.1, 600.0
            ),
            max_unstarted=self.declare("max_unstarted", 2000, "calls that may wait to start, more end the turn", 1, 100_000),
        )
        self._strict = self.declare("strict", False, "the first refused call ends the stream, as in the paper")
        ready_s = self.declare("kernel_ready_s", 10.0, "wait for the kernel at most [s]", 0.1, 60.0)
        silence_s = self.declare("kernel_silence_s", 1.0, "a kernel silent about a running call so long is lost [s]", 0.2, 60.0)
        self._robot = robot
        self._ros_clock = RosClock(self)
        self._processes: dict[str, _Process] = {}
        self._oldest_epoch = 0
        self._paused: frozenset[str] = frozenset()
        self._events = EventWriter(self, CallEvent, StreamEvent, ProcessEvent, Notice)
        self._steps = self.create_publisher(StepQueueMsg, "step_queue", QUEUES)
        self._verdicts = Verdicts(self, robot)
        self.declare("model", "offline", "model that judges conditions, a name in models_file or provider:model")
        judge_s = deadlines_of(self, "model").judge_s + JUDGE_MARGIN_S
        judge_s = self.declare("judge_s", judge_s, "a model judges a condition within this time [s]", 0.1, 3600.0)
        self._conditions = StepConditions(self, self._verdicts.robot, judge_s=judge_s)
        self._link = KernelLink(self, ready_s=ready_s, silence_s=silence_s)
        self._proven = False
        self._heartbeat = self.create_publisher(ProcessHeartbeat, "scheduler_heartbeat", SENSORS)
        self.create_subscription(TokenMsg, "function_tokens", self._token, STREAM)
        self.create_subscription(KernelState, "kernel_state", self._kernel_state, LATCHED)
        self.create_service(Interrupt, "~/interrupt", self._interrupt)
        Beat(self, BEAT_S, REST_BEAT_S, self._live, self._beat)

    def _beat(self) -> None:
        """Tell the kernel that we are alive, so that it stops our calls when we are gone. The first beat says: ready."""
        self._proven = self._proven or self._link.ready()
        if self._proven:
            self._heartbeat.publish(ProcessHeartbeat(process_ids=self._live()))

    def _live(self) -> list[str]:
        """Return the processes that have calls."""
        return [process_id for process_id, process in self._processes.items() if process.scheduler.live_calls]

    def _process(self, process_id: str) -> _Process:
        """Return the process of that id. A new one may take the place of the one without calls that was used longest ago."""
        process = self._processes.pop(process_id, None)
        if process is None:
            idle = (i for i, p in self._processes.items() if not p.scheduler.live_calls)
            if len(self._processes) >= 2 * MAX_PROCESSES and (oldest := next(idle, None)) is not None:
                del self._processes[oldest]
            executor = ProcessExecutor(self._link, self._robot.registry, process_id)
            weighing = self._verdicts.before(executor, process_id)
            executor.scheduler = Scheduler(
                # Told after the calls are on their way: writing an event takes as long as starting one.
                self._robot.mapper,
                weighing or executor,
                self._ros_clock,
                lambda event: self.call_soon(self._events.write, event),
                new_call_id=lambda: secrets.token_hex(16),
                process_id=process_id,
                routines=self._robot.routines,
                settings=self._settings,
                conditions=self._conditions,
                on_steps=lambda steps: self.call_soon(self._publish_steps, process_id, steps),
            )
            if weighing is not None:
                weighing.scheduler = executor.scheduler
            executor.scheduler.pause(process_id in self._paused)
            process = _Process(executor.scheduler, self._oldest_epoch)
        self._processes[process_id] = process  # the one used last stands last, the first is the first to be forgotten
        return process

    def _token(self, message: TokenMsg) -> None:
        process = self._process(message.process_id)
        scheduler, stream_id = process.scheduler, message.stream_id
        if stream_id not in process.next_seq:
            process.next_seq[stream_id] = 0
            if len(process.next_seq) > KEPT_STREAMS:
                oldest = next(iter(process.next_seq))
                del process.next_seq[oldest]
                process.characters.pop(oldest, None)
            scheduler.open_stream(stream_id, epoch=message.epoch, strict=self._strict, turn=message.turn)
            if message.epoch < process.oldest_epoch:
                scheduler.void_stream(stream_id, "the process was interrupted before the stream arrived")
            elif not scheduler.live_calls and len(self._live()) >= MAX_PROCESSES:
                why = f"{MAX_PROCESSES} processes have calls that run or wait already; wait for one to end, or end one"
                scheduler.void_stream(stream_id, why, TaskCode.TOO_MANY_PROCESSES)
        expected = process.next_seq[stream_id]
        process.next_seq[stream_id] = message.seq + 1
        if message.seq != expected:
            why = f"token {expected} of stream {stream_id} is missing (got {message.seq}); the stream is ended"
            scheduler.end_stream(stream_id, int(ParseCode.SEQUENCE_GAP), why)
        process.characters[stream_id] += sum(map(len, (message.name, message.text, *message.attr_names, *message.attr_values)))
        if process.characters[stream_id] > MAX_CHARS:
            why = f"the tokens of stream {stream_id} hold more than {MAX_CHARS} characters; the stream is ended"
            scheduler.end_stream(stream_id, int(ParseCode.LIMIT_EXCEEDED), why)
            return
        if message.kind == TokenMsg.END:
            scheduler.end_stream(stream_id, message.error_code, message.error_msg)
        elif message.kind == TokenMsg.REPAIR:
            self._events.write(
                StreamEvent(
                    kind=StreamKind.REPAIR,
                    process_id=message.process_id,
                    stream_id=stream_id,
                    error_code=message.error_code,
                    error_msg=message.error_msg,
                )
            )
        elif message.kind in KINDS:
            scheduler.feed(stream_id, _token_of(message))

    def _kernel_state(self, state: KernelState) -> None:
        self._link.kernel_changed()
        self._paused = frozenset(hold.process_id for hold in state.processes if hold.pause_causes)
        for process_id, process in self._processes.items():
            self.guarded(process.scheduler.pause, process_id)(process_id in self._paused)
            self.guarded(process.scheduler.freed, process_id)()

    def _interrupt(self, request: Interrupt.Request, response: Interrupt.Response) -> Interrupt.Response:
        cause = shown(request.cause, CAUSE_CHARS)
        if not request.process_id.startswith(NO_PROCESS):
            told = ProcessEvent(
                kind=ProcessKind.INTERRUPTED,
                process_id=request.process_id,
                channels=tuple(request.channels),
                cause=cause,
                epoch=request.epoch,
            )
            # In its turn among what the schedulers have told so far: a replay goes by this order.
            self.call_soon(self._events.write, told)
        if request.process_id:
            self._process(request.process_id)
        else:
            self._oldest_epoch = max(self._oldest_epoch, request.epoch)
        for process_id, process in self._processes.items():
            if request.process_id in ("", process_id):
                process.oldest_epoch = max(process.oldest_epoch, request.epoch)
                response.stopped += process.scheduler.interrupt(cause or "interrupted", request.channels)
        response.epoch = request.epoch
        return response

    def _publish_steps(self, process_id: str, steps: StepQueue) -> None:
        message = StepQueueMsg(stamp=self.get_clock().now().to_msg(), process_id=process_id)
        self._steps.publish(filled(message, asdict(steps)))

    def close(self) -> None:
        """Let the verdicts' model go."""
        self._verdicts.close()


def _token_of(message: TokenMsg) -> FunctionToken:
    attrs = dict(zip(message.attr_names, message.attr_values, strict=False))
    return FunctionToken(
        KINDS[message.kind], message.name, attrs, message.text, message.start, message.end, message.seq, message.stream_id
    )
