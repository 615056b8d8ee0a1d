# SPDX-License-Identifier: Apache-2.0
"""The nodes of a replay beside the real parser and scheduler: one gives what was recorded, one answers as the kernel did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ghostshell.action import ExecuteSkill
from ghostshell.msg import CallContent, CallControl, KernelState, LlmChunk, Observation, ProcessHeartbeat
from ghostshell.srv import Interrupt, JudgeCondition
from rclpy.serialization import deserialize_message
from rclpy.task import Future
from rosgraph_msgs.msg import Clock

from bench.replay.calls import CallBook, Key, RecordedCall
from bench.replay.conductor import Answer, Conductor, Do, ReplayedKernel
from bench.replay.timeline import Input, Judgement, Timeline, What
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.matched_publisher import MatchedPublisher
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import LATCHED, OBSERVATION, SENSORS, STREAM
from ghostshell_ros.wire.values import OUTCOME_NUMBERS
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind, RunEvent

TICK_S = 0.005
FEEDBACK_S = 0.2
FRESH_S = 0.3
CONTACT = "replay-contact"
NAMED_S = 1.0
"""The event that tells which call a goal is about may come so much later than the goal."""


@dataclass
class _Running:
    goal: Goal
    key: Key | None
    runs: bool


class KernelStandIn(RuntimeNode):
    """Bears the name of the skill kernel and speaks its interfaces: action `execute_skill`, `call_control`, `call_content`
    (in), `kernel_state` (out)."""

    def __init__(self, namespace: str, run: Timeline, now_s: Callable[[], float]) -> None:
        super().__init__("skill_kernel", namespace=namespace, use_global_arguments=False)
        self._kernel = ReplayedKernel(run)
        self._now_s = now_s
        self._keys: dict[str, Key] = {}
        self._unnamed: dict[str, tuple[Goal, float]] = {}
        self._goals: dict[str, _Running] = {}
        self._paused: set[str] = set()
        self._newest: KernelState | None = None
        self._again_s: list[float] = []
        self._state = self.create_publisher(KernelState, "kernel_state", LATCHED)
        self.create_subscription(CallControl, "call_control", self._control, STREAM)
        self.create_subscription(CallContent, "call_content", lambda _: None, STREAM)
        self._server = GoalServer(self, ExecuteSkill, "execute_skill", on_goal=self._goal, on_cancel=self._cancel)
        self.steady_timer(FEEDBACK_S, self._feedback)

    def named(self, call_id: str, key: Key) -> None:
        """Note which call this is: the scheduler has told."""
        self._keys[call_id] = key
        if waiting := self._unnamed.pop(call_id, None):
            self._decide(waiting[0])

    def state(self, message: KernelState) -> None:
        """Publish the kernel's state, as recorded."""
        self._newest = message
        self._paused = {p.process_id for p in message.processes if p.pause_causes}
        self._state.publish(message)

    def result(self, call: RecordedCall) -> None:
        """Give a recorded result, which is due."""
        answer = self._kernel.result(call)
        for call_id, running in list(self._goals.items()):
            if running.key == call.key:
                self._end(call_id, answer)

    def _goal(self, goal: Goal) -> None:
        call_id = goal.request.call.call_id
        if call_id in self._keys:
            self._decide(goal)
        else:
            self._unnamed[call_id] = (goal, self.steady_now() + NAMED_S)

    def _decide(self, goal: Goal) -> None:
        call_id = goal.request.call.call_id
        answer = self._kernel.goal(self._keys.get(call_id), self._now_s(), self._paused)
        if answer.do in (Do.RUN, Do.WAIT):
            self._goals[call_id] = _Running(goal, self._keys.get(call_id), answer.do is Do.RUN)
            if answer.do is Do.RUN:
                goal.feedback(ExecuteSkill.Feedback(phase="running"))
            return
        goal.abort(_result(answer))
        if answer.do is Do.HOLD:
            self._again_s.append(max(answer.again_s, self._now_s() + FEEDBACK_S))

    def tick(self, now_s: float) -> None:
        """Let the scheduler try again what began by now: the state that showed it free may have come before."""
        due = [at_s for at_s in self._again_s if at_s <= now_s]
        if due and self._newest is not None:
            self._again_s = [at_s for at_s in self._again_s if at_s > now_s]
            self._state.publish(self._newest)

    def _control(self, message: CallControl) -> None:
        running = self._goals.get(message.call_id)
        if running is None or running.key is None:
            return
        answer = None
        if message.command == CallControl.RESET:
            answer = self._kernel.reset(running.key)
        elif message.command == CallControl.INTERRUPT:
            answer = self._kernel.stop(running.key, message.cause)
        if answer is not None:
            self._end(message.call_id, answer)

    def _cancel(self, goal: Goal) -> None:
        self._end(goal.request.call.call_id, Answer(Do.END, Outcome.INTERRUPTED, 0, "the goal was cancelled"))

    def _end(self, call_id: str, answer: Answer) -> None:
        running = self._goals.pop(call_id, None)
        if running is None:
            return
        if answer.outcome is Outcome.DONE:
            running.goal.succeed(_result(answer))
        else:
            running.goal.abort(_result(answer))

    def _feedback(self) -> None:
        for running in self._goals.values():
            running.goal.feedback(ExecuteSkill.Feedback(phase="running" if running.runs else ""))
        for call_id, (goal, until_s) in list(self._unnamed.items()):
            if self.steady_now() > until_s:
                del self._unnamed[call_id]
                self._decide(goal)


def _result(answer: Answer) -> ExecuteSkill.Result:
    return ExecuteSkill.Result(
        outcome=OUTCOME_NUMBERS[answer.outcome] if answer.outcome else 0,
        error_code=answer.code,
        error_msg=answer.error,
        message=answer.message,
        start_s=answer.start_s,
        end_s=answer.end_s,
    )


class Player(RuntimeNode):
    """Gives chunks, observations, the kernel's states and results, interrupts, the judge's answers and the clock.

    Topics: `llm_chunks`, `observation`, `clock` (out); `events`, `scheduler_heartbeat` (in). Service: `judge_condition`;
    client of the `interrupt` services of scheduler and parser.
    """

    def __init__(self, namespace: str, run: Timeline, *, speed: float) -> None:
        super().__init__("replay", namespace=namespace, use_global_arguments=False)
        self.book = CallBook()
        self.problems: list[str] = []
        self.begun = False
        self._ready = False
        self._run = run
        self._newest: tuple[Observation, float, float] | None = None
        self._asked: list[tuple[Judgement, Future]] = []
        self.conductor = Conductor(run.inputs, run.outputs, self._give, speed=speed)
        self.kernel = KernelStandIn(namespace, run, lambda: self.conductor.now_s)
        self._chunks = MatchedPublisher(
            self, LlmChunk, "llm_chunks", STREAM, reader="token_parser", on_unmatched=self.problems.append
        )
        self._observation = self.create_publisher(Observation, "observation", OBSERVATION)
        self._time = self.create_publisher(Clock, "clock", SENSORS)
        read_events(self, self._event)
        self.create_subscription(ProcessHeartbeat, "scheduler_heartbeat", self._beat, SENSORS)
        self._interrupts = [self.create_client(Interrupt, f"{n}/interrupt") for n in ("channel_scheduler", "token_parser")]
        self.create_service(JudgeCondition, "judge_condition", self._judge)
        self.steady_timer(TICK_S, self._tick)

    def ready(self) -> bool:
        """Return whether parser and scheduler are there, and the scheduler has found the kernel."""
        parser = any(n == "token_parser" for n, space in self.get_node_names_and_namespaces() if space == self.get_namespace())
        return self._ready and parser and all(client.service_is_ready() for client in self._interrupts)

    def begin(self) -> None:
        """Let time run."""
        self.begun = True

    def _beat(self, _: ProcessHeartbeat) -> None:
        """Interrupt nobody, which shows that the scheduler's events arrive here; it has found the kernel."""
        if not self._ready and self._interrupts[0].service_is_ready():
            self._interrupts[0].call_async(Interrupt.Request(process_id=CONTACT, cause="making contact"))

    def _tick(self) -> None:
        if self.begun:
            now_s = self.conductor.tick(self.steady_now())
            for judgement, future in [a for a in self._asked if a[0].at_s <= now_s]:
                self._asked.remove((judgement, future))
                future.set_result(judgement)
            self.kernel.tick(now_s)
            self._keep_fresh(now_s)
        else:
            now_s = self.conductor.now_s
        message = Clock()
        message.clock.sec, message.clock.nanosec = int(now_s), int(now_s % 1.0 * 1e9)
        self._time.publish(message)

    def _keep_fresh(self, now_s: float) -> None:
        """While time stands still the newest observation must not grow old."""
        if self._newest is not None:
            message, at_s, given_s = self._newest
            if self.steady_now() - given_s > FRESH_S and now_s - at_s < FRESH_S:
                self._newest = (message, at_s, self.steady_now())
                self._observation.publish(message)

    def _event(self, event: RunEvent) -> None:
        if event.process_id == CONTACT:
            self._ready = True
            return
        told = self.book.hear(event)
        if told is None:
            return
        self.conductor.saw(told)
        if isinstance(event, CallEvent) and event.kind is CallKind.QUEUED:
            self.kernel.named(event.call_id, told.key)

    def _give(self, given: Input) -> None:
        if given.what is What.CHUNK:
            self._chunks.publish(deserialize_message(given.payload.data, LlmChunk))
        elif given.what is What.OBSERVATION:
            message = deserialize_message(given.payload.data, Observation)
            self._newest = (message, given.at_s, self.steady_now())
            self._observation.publish(message)
        elif given.what is What.KERNEL_STATE:
            self.kernel.state(deserialize_message(given.payload.data, KernelState))
        elif given.what is What.RESULT:
            self.kernel.result(given.payload)
        else:
            event = given.payload
            for client in self._interrupts:
                client.call_async(
                    Interrupt.Request(
                        process_id=event.process_id, channels=list(event.channels), cause=event.cause, epoch=event.epoch
                    )
                )

    async def _judge(self, request: Any, response: Any) -> Any:
        """Give the recorded answer to this condition, when it came; not known where the recording has none."""
        judgement = self._run.judged(request.condition, self.conductor.now_s)
        if judgement is None:
            response.error_code = JudgeCondition.Request.NO_JUDGE
            response.error_msg = "the recording holds no answer to this condition"
            return response
        future: Future = Future()
        self._asked.append((judgement, future))
        answer = await future
        response.known, response.holds, response.reason = answer.holds is not None, bool(answer.holds), answer.reason
        if answer.holds is None:
            response.error_code, response.error_msg = JudgeCondition.Request.JUDGE_FAILED, "as recorded"
        return response
