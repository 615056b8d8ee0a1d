# SPDX-License-Identifier: Apache-2.0
"""Node `action_planner` (S1), strategy `stream`: asks the model and publishes its answer while it is being written."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from builtin_interfaces.msg import Time
from ghostshell.msg import CallRecord, KernelState, ProcessArray, ProcessState, SkillEvent
from ghostshell.srv import Interrupt

from ghostshell_ros.nodes.answer_streams import AnswerStreams, Turn
from ghostshell_ros.nodes.diagnostics import Health, Level
from ghostshell_ros.nodes.event_writer import EventWriter
from ghostshell_ros.nodes.model_setup import declare_model
from ghostshell_ros.nodes.node_runtime import EVENTS, LATCHED, RuntimeNode, run
from ghostshell_ros.nodes.process_messages import OUTCOME_NAMES
from ghostshell_ros.nodes.robot_setup import declare_robot
from ghostshell_ros.nodes.scene import Scene
from planners.llm.base import ModelError, ModelRequest
from planners.prompt import CallReport, GrammarOptions
from planners.stream_planner import Conversation, PlanEnded, PlannerSettings, StreamPlanner, TurnResult
from skill_kernel.codes import ModelCode, TaskCode

STRATEGY = "stream"

TAKEN_S = 6.0
"""A stream that the channel scheduler has not begun so long after its first chunk is lost. Longer than chunks are held
back for a reader."""

ENDED_S = 3.0
"""A stream whose end, so long after it was written and with no call running, nobody told is lost in the same way."""

TELL_LOST_S = 1.0
"""How long after it came up a planner tells of processes that it knows nothing of: its first words may find no reader."""

TOLD = ("DONE", "FAILED", "INTERRUPTED")
"""Outcomes in a process's history that a plan made anew is told of."""


class ActionPlanner(RuntimeNode):
    """Answers each process in progress with a stream of function tokens, and again after an observation or a failure;
    one stream a process, several processes at a time. A process whose epoch has risen is planned anew from its history.

    Topics: `processes`, `events`, `kernel_state`, `observation`, `odom`, with `send_images` also `camera/image_raw` (in);
    `llm_chunks`, `events` (out). Service: `~/interrupt`. Parameters: `robot`, `data_dir`, `model`, `models_file`,
    `max_turns`, `history`, `deadline_s`, `max_output_tokens`, `send_images`, `max_processes`.
    """

    def __init__(self) -> None:
        super().__init__("action_planner")
        robot = self._robot = declare_robot(self)
        self._client = declare_model(self, robot)
        settings = PlannerSettings(
            max_turns=self.declare("max_turns", 8, "answers to one instruction at most", minimum=1, maximum=100),
            history=self.declare("history", 12, "earlier messages a request carries", minimum=0, maximum=200),
            deadline_s=self.declare(
                "deadline_s", 60.0, "one answer may take so long [s]", minimum=0.1, maximum=3600.0
            ),
            max_output_tokens=self.declare(
                "max_output_tokens", 2048, "length of one answer at most [tokens]", minimum=16, maximum=1_000_000
            ),
        )
        send_images = self.declare("send_images", False, "show the model the camera's last image")
        fields = robot.config.observation
        self._scene = Scene(self, fields, send_images=send_images)
        roles = {name: config.role for name, config in fields.items() if config.serialise.prompt}
        self._max_processes = self.declare(
            "max_processes", 8, "processes answered at a time, more are refused", minimum=1, maximum=16
        )
        conversation = Conversation(settings.history)
        self._new_planner = lambda: StreamPlanner(
            skills=lambda: robot.registry, routines=robot.routines.list,
            options=GrammarOptions(robot.config.builtin_names, robot.config.limits), robot_name=robot.config.name,
            robot_description=robot.config.description, fields=roles, settings=settings, conversation=conversation,
        )  # fmt: skip
        self._seen: dict[str, int] = {}
        self._turns: dict[str, Turn] = {}
        self._heard = False
        self._began_s = self._scene.now_s()
        self._events = EventWriter(self)
        self._answers = AnswerStreams(
            self, self._client, self._events, on_first=lambda turn: self.call_later(TAKEN_S, lambda: self._not_taken(turn)),
            on_last=lambda turn: self.call_later(ENDED_S, lambda: self._not_ended(turn)), on_unmatched=self._unmatched,
        )  # fmt: skip
        self.create_subscription(ProcessArray, "processes", self._processes, LATCHED)
        self.create_subscription(SkillEvent, "events", self._event, EVENTS)
        self.create_subscription(KernelState, "kernel_state", self._kernel_state, LATCHED)
        self.create_service(Interrupt, "~/interrupt", self._interrupt)
        threading.Thread(target=self._prepare, name="prepare-model", daemon=True).start()

    def _prepare(self) -> None:
        """Import the SDK and look for the key before the first instruction needs them."""
        try:
            self._client.prepare()
        except ModelError as error:
            self.get_logger().warning(f"model {self._client.name}: {error.message}")
        else:
            self.get_logger().info(f"model {self._client.name} is ready")

    # -- processes ----------------------------------------------------------------------------------------------------

    def _kernel_state(self, state: KernelState) -> None:
        self._scene.kernel_state(state)
        if problem := self._robot.follow(state.skills_version):
            self.get_logger().error(problem)

    def _processes(self, message: ProcessArray) -> None:
        first, self._heard = not self._heard, True
        for process in message.processes:
            if process.status >= ProcessState.SUCCESS:
                self._cancel(process.process_id, "the process has ended")
            elif first and (not self._began_s or _seconds(process.created) < self._began_s):
                self._seen[process.process_id] = process.epoch
                self.call_later(TELL_LOST_S, lambda lost=process: self._lost(lost))
            elif (
                process.status == ProcessState.IN_PROGRESS
                and process.strategy == STRATEGY
                and process.epoch > self._seen.get(process.process_id, -1)
            ):
                self._seen[process.process_id] = process.epoch
                self._begin(process)
        while len(self._seen) > 1000:
            del self._seen[next(iter(self._seen))]

    def _begin(self, process: ProcessState) -> None:
        self._cancel(process.process_id, "it is planned anew")
        turn = Turn(process.process_id, process.epoch, 0, self._new_planner())
        if len(self._turns) >= self._max_processes:
            why = f"{self._max_processes} processes are being answered already; wait for one to end, or end one"
            self._plan_ended(turn, PlanEnded(int(TaskCode.TOO_MANY_PROCESSES), why))
            return
        state, observation = self._known()
        request = turn.planner.begin(
            process.instruction, sender=process.sender, state=state, observation=observation, images=self._scene.images(),
            done=[_report(c) for c in process.history if c.outcome in TOLD],
        )  # fmt: skip
        self._ask(turn, request)

    def _known(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The observation for a prompt, or without an observer the few facts that this node knows by itself."""
        observation = self._scene.observation()
        return (self._scene.state(), None) if observation is None else (None, observation)

    def _lost(self, process: ProcessState) -> None:
        """It was planned by a planner that is gone: planning it again would do again what is done already."""
        turn = Turn(process.process_id, process.epoch, 0, self._new_planner())
        if process.process_id not in self._turns:
            why = "the action planner was started anew while the process lived; repeat the instruction"
            self._plan_ended(turn, PlanEnded(int(TaskCode.NODE_UNAVAILABLE), why))

    def _cancel(self, process_id: str, why: str) -> Turn | None:
        turn = self._turns.pop(process_id, None)
        if turn is not None:
            self.get_logger().debug(f"stream {turn.stream_id}: {why}")
            self._answers.cancel(turn)
        return turn

    # -- one answer ---------------------------------------------------------------------------------------------------

    def _ask(self, turn: Turn, request: ModelRequest) -> None:
        self._turns[turn.process_id] = turn
        turn.began_s = self._scene.now_s()
        self._answers.begin(turn, request)

    def _not_taken(self, turn: Turn) -> None:
        """A parser that was killed is still found in the graph for many seconds, and what it was sent is lost."""
        if not turn.taken and self._turns.get(turn.process_id) is turn:
            self._cancel(turn.process_id, "nobody took the stream")
            why = f"token_parser or channel_scheduler did not take the stream within {TAKEN_S:g} s; repeat the instruction"
            self._plan_ended(turn, PlanEnded(int(TaskCode.NODE_UNAVAILABLE), why))

    def _not_ended(self, turn: Turn) -> None:
        """A parser that dies half way through takes the stream's end with it; what it had sent on is done nevertheless."""
        if turn.closed or self._turns.get(turn.process_id) is not turn:
            return
        if turn.running or not turn.taken:
            self.call_later(ENDED_S, lambda: self._not_ended(turn))
            return
        self._cancel(turn.process_id, "its end was lost")
        why = "token_parser or channel_scheduler lost the end of the stream; what came of it is in the history, repeat the rest"
        self._plan_ended(turn, PlanEnded(int(TaskCode.NODE_UNAVAILABLE), why))

    def _unmatched(self, why: str) -> None:
        for turn in list(self._turns.values()):
            turn.cancel.cancel()
            self._plan_ended(turn, PlanEnded(int(TaskCode.NODE_UNAVAILABLE), why))

    # -- what came of it ----------------------------------------------------------------------------------------------

    def _event(self, event: SkillEvent) -> None:
        turn = self._turns.get(event.process_id)
        if turn is None or event.node == self.get_name():
            return
        if event.type == SkillEvent.CALL_STARTED:
            turn.running[event.call_id] = CallReport(event.function, _arguments(event), "RUNNING")
        elif event.type == SkillEvent.CALL_ENDED:
            turn.running.pop(event.call_id, None)
            turn.reports.append(
                CallReport(
                    event.function, _arguments(event), OUTCOME_NAMES.get(event.outcome, "?"), event.error_msg or event.text,
                    self._since(turn, event.start_s), self._since(turn, event.end_s),
                )
            )  # fmt: skip
        elif event.stream_id != turn.stream_id:
            return
        elif event.type == SkillEvent.STREAM_STARTED:
            turn.taken = True
        elif event.type == SkillEvent.STREAM_ENDED:
            turn.closed = True
        elif event.type == SkillEvent.STOP_GENERATION:
            turn.cancel.cancel()
        elif event.type == SkillEvent.REPAIR:
            turn.repairs.append(event.error_msg)
        elif event.type == SkillEvent.TURN_ENDED:
            self._follow(turn, event)

    def _since(self, turn: Turn, time_s: float) -> float | None:
        return None if time_s < 0 else time_s - turn.began_s

    def _follow(self, turn: Turn, event: SkillEvent) -> None:
        turn.cancel.cancel()
        self._answers.end(turn, int(ModelCode.MODEL_CANCELLED), "the turn ended before the model did")
        result = TurnResult(
            event.text, event.error_code, event.error_msg, turn.reports, list(turn.running.values()), turn.repairs
        )
        state, observation = self._known()
        step = turn.planner.follow(result, state=state, observation=observation, images=self._scene.images())
        if isinstance(step, PlanEnded):
            self._plan_ended(turn, step)
            return
        following = Turn(turn.process_id, turn.epoch, turn.turn + 1, turn.planner)
        following.running = turn.running
        self._ask(following, step)

    def _plan_ended(self, turn: Turn, step: PlanEnded) -> None:
        if self._turns.get(turn.process_id) is turn:
            del self._turns[turn.process_id]
        self._events.write(
            SkillEvent.PLAN_ENDED, process_id=turn.process_id, stream_id=turn.stream_id, error_code=step.code,
            error_msg=step.message, epoch=turn.epoch,
        )  # fmt: skip

    def _interrupt(self, request: Interrupt.Request, response: Interrupt.Response) -> Interrupt.Response:
        for process_id in [request.process_id] if request.process_id else list(self._turns):
            turn = self._cancel(process_id, request.cause)
            if turn is not None:
                self._plan_ended(turn, PlanEnded(int(TaskCode.CANCELLED), f"interrupted: {request.cause}"))
        response.epoch = request.epoch
        return response

    def health(self) -> Health:
        """The model, and how many processes it answers."""
        return Health(f"model {self._client.name}", Level.OK, {"streams": len(self._turns)})

    def close(self) -> None:
        """End the running streams and the model's connections."""
        for turn in list(self._turns.values()):
            self._answers.end(turn, int(ModelCode.MODEL_CANCELLED), "the action planner ends")
            self._cancel(turn.process_id, "the node ends")
        self._client.close()


def _seconds(stamp: Time) -> float:
    return float(stamp.sec) + stamp.nanosec * 1e-9


def _report(call: CallRecord) -> CallReport:
    return CallReport(call.function, _arguments(call), call.outcome, call.message)


def _arguments(event: SkillEvent | CallRecord) -> dict[str, object]:
    try:
        value = json.loads(event.args_json or "{}")
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def main() -> int:
    """Entry point of the executable `action_planner`."""
    return run(ActionPlanner)


if __name__ == "__main__":
    sys.exit(main())
