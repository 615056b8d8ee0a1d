# SPDX-License-Identifier: Apache-2.0
"""Strategy `layered`: System 2 splits the task, System 1 writes steps of one subtask while earlier steps are performed
(TypeGo 6). Here System 1 meets the seam."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from planners.models.base import Message, ModelRequest
from planners.models.model_call import AnswerEnd, Handle, Model
from planners.plan import GlobalEvent, Subtask
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport
from planners.scene import MOVED_M, SceneSnapshot, snapshot
from planners.strategies.layered.step_answer import Check
from planners.strategies.layered.step_degrade import DirectCommands
from planners.strategies.layered.step_link import Bounds, Outlet, StepSettings
from planners.strategies.layered.step_planner import State, StepPlanner
from planners.strategies.layered.step_prompt import (
    Situation,
    first_action_message,
    first_action_system,
    step_message,
    step_system,
)
from planners.strategies.stream.stream_planner import Stream
from planners.strategy import (
    CallEnded,
    CallStarted,
    Degraded,
    EventFired,
    Feed,
    GenerationStopped,
    Interrupted,
    ModelRole,
    Notice,
    Observed,
    Parameter,
    Paused,
    PlanChanged,
    PlannerIO,
    Planning,
    Restarted,
    Resumed,
    RobotView,
    RunEvent,
    SettingsChanged,
    Skipped,
    Strategy,
    StreamEnded,
    StreamHandle,
    StreamRepaired,
    SubtaskDone,
    Task,
)

FIRST_TOKENS = 120
"""Length of a first action at most [tokens]."""

_log = logging.getLogger(__name__)


class Layered(Strategy):
    """Plan in layers. Without a language model instructions are carried out as `stream` does it."""

    name = "layered"
    roles = (
        ModelRole(Layer.S1.value),
        ModelRole(Layer.S1P.value, model="fast_model"),
        ModelRole(Layer.S2.value),
        *Stream.roles,
    )
    wants = frozenset({Feed.PLANS, Feed.ADVICE, Feed.OBSERVATION})
    parameters = (
        *Stream.parameters,
        Parameter("queue_steps", 3, "layered: steps that may wait", minimum=1, maximum=20),
        Parameter("refill_at", 1, "layered, cost_aware: ask for more steps when so few wait", minimum=0, maximum=20),
        Parameter("cost_aware", True, "layered: ask only when something has changed; else whenever there is room", live=True),
        Parameter("step_deadline_s", 20.0, "layered: time for an answer that writes steps [s]", minimum=0.1, maximum=600.0),
        Parameter(
            "plan_wait_s",
            4.0,
            "layered: wait for a plan before the instruction itself becomes the plan [s]",
            minimum=0.0,
            maximum=60.0,
        ),
        Parameter(
            "first_deadline_s",
            3.0,
            "layered: a first action later than this is thrown away, 0: none is asked for [s]",
            minimum=0.0,
            maximum=60.0,
        ),
        Parameter("review_wait_s", 8.0, "layered: wait for another plan after equal failures [s]", minimum=0.0, maximum=600.0),
        Parameter("max_subtask_failures", 5, "layered: failures in one subtask at most", minimum=1, maximum=100),
        Parameter("max_failures", 12, "layered: failures in one process at most", minimum=1, maximum=1000),
        Parameter("max_subtask_answers", 25, "layered: answers in one subtask at most", minimum=1, maximum=1000),
        Parameter("max_answers", 150, "layered: answers in one process at most", minimum=1, maximum=10_000),
    )

    def __init__(self) -> None:
        self._without_model = Stream()

    def prepare(self) -> None:
        """Import the parser of direct commands, which is needed when a model fails."""
        import planners.language.client  # noqa: F401

    def start(self, task: Task, robot: RobotView, io: PlannerIO) -> Planning:
        """Ask for a first action, and for steps as soon as there is a plan."""
        if not io.thinks(Layer.S1.value):
            return self._without_model.start(task, robot, io)
        return LayeredPlanning(task, robot, io)


def step_settings(settings: Mapping[str, Any]) -> StepSettings:
    """Return what the parameters of the node say. No answer takes longer than `deadline_s`."""
    same = ("queue_steps", "refill_at", "cost_aware", "plan_wait_s", "first_deadline_s", "review_wait_s")
    return StepSettings(
        **{name: settings[name] for name in same},
        deadline_s=min(settings["step_deadline_s"], settings["deadline_s"]),
        bounds=Bounds(
            subtask=settings["max_subtask_failures"],
            process=settings["max_failures"],
            answers=settings["max_subtask_answers"],
            all_answers=settings["max_answers"],
        ),
    )


class LayeredPlanning:
    """Plan one process: the `StepLink` and the `Outlet` of its System 1."""

    def __init__(self, task: Task, robot: RobotView, io: PlannerIO) -> None:
        self._task, self._robot, self._io = task, robot, io
        self._open: dict[str, StreamHandle] = {}
        self._settings = step_settings(io.settings)
        self._commands = DirectCommands(robot.about.skills, robot.routines, robot.about.options, robot.about.name)
        self.model: Model = self
        self.outlet: Outlet = self
        self.check: Check = robot.check
        self.clock, self.judge = io.clock, io.judge
        self.accessors, self.first_actions = robot.about.accessors, robot.about.first_actions
        self.observation, self.steady_now = robot.observation, robot.steady_now
        self.allowance, self.stop, self.plan_ended = partial(io.allowance, Layer.S1.value), io.stop, io.finish
        self._planner = self._new_planner(task.done)

    def _new_planner(self, done: Sequence[CallReport]) -> StepPlanner:
        plans = self._io.thinks(Layer.S2.value)
        planner = StepPlanner(self._task, self, self._settings, done=done, plans=plans)
        planner.begin()
        return planner

    def on(self, event: RunEvent) -> None:
        """Hand it to System 1."""
        planner = self._planner
        if isinstance(event, CallStarted):
            planner.started(event)
        elif isinstance(event, CallEnded):
            planner.ended(event)
        elif isinstance(event, GenerationStopped):
            planner.stop_generation(event.stream_id, event.why)
        elif isinstance(event, StreamEnded):
            planner.stream_over(event.stream_id, event.reason)
        elif isinstance(event, PlanChanged):
            planner.plan(event.plan)
        elif isinstance(event, Observed):
            planner.observed()
        elif isinstance(event, Paused):
            planner.paused()
        elif isinstance(event, Resumed):
            planner.resumed()
        elif isinstance(event, Interrupted):
            self._open.clear()
            planner.interrupted(event.cause)
        elif isinstance(event, Restarted):
            self._open.clear()
            planner.anew()
        elif isinstance(event, SettingsChanged):
            self._settings.cost_aware = self._io.settings["cost_aware"]
        elif isinstance(event, StreamRepaired):
            _log.warning("the parser mended what was written in full: %s", event.why)

    def close(self, why: str) -> None:
        """Ask and write no more."""
        if self._planner.state is not State.ENDED:
            self._planner.end()

    # -- Model --------------------------------------------------------------------------------------------------------

    def ask(
        self,
        layer: Layer,
        process_id: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream_id: str = "",
    ) -> Handle:
        """Ask a model for this process."""
        return self._io.ask(layer.value, request, on_text, on_end)

    # -- Outlet -------------------------------------------------------------------------------------------------------

    def open(self, turn: int) -> str:
        """Begin a stream; return its id."""
        stream = self._io.open(turn)
        self._open[stream.stream_id] = stream
        return stream.stream_id

    def text(self, stream_id: str, text: str) -> None:
        """Write the next piece of it."""
        self._open[stream_id].text(text)

    def close_stream(self, stream_id: str, code: int = 0, why: str = "") -> None:
        """End it."""
        if (stream := self._open.pop(stream_id, None)) is not None:
            stream.end(code, why)

    # -- StepLink -----------------------------------------------------------------------------------------------------

    def commands(self, text: str, done: Sequence[CallReport]) -> str:
        """Return the direct commands in a text that is understood wholly without a model."""
        return self._commands.read(text, done)

    def way_back(self, before: SceneSnapshot) -> str:
        """Return the call that brings the robot to where it stood."""
        motion, pose = self._robot.about.resume_motion, before.pose
        if not motion or pose is None or self.relies_on().moved_m(before) <= MOVED_M:
            return ""
        return motion.format(x_m=pose.x, y_m=pose.y, yaw_deg=math.degrees(pose.yaw))

    def relies_on(self) -> SceneSnapshot:
        """Return what may be relied on now."""
        return snapshot(self.observation(), self.steady_now())

    def step_request(self, situation: Situation) -> ModelRequest:
        """Return the prompt for further steps."""
        robot = self._robot
        message = Message("user", step_message(situation, robot.observed()), tuple(robot.images()))
        return ModelRequest(
            robot.system_prompt(step_system),
            (message,),
            max_output_tokens=self._io.settings["max_output_tokens"],
            deadline_s=self._settings.deadline_s,
            instruction=self._task.instruction,
        )

    def first_request(self) -> ModelRequest | None:
        """Return the prompt for a first action; None where there is none."""
        robot, task = self._robot, self._task
        known = {skill.name for skill in robot.about.skills}
        if not known & set(self.first_actions) or not self._io.thinks(Layer.S1P.value):
            return None
        message = Message("user", first_action_message(task.instruction, task.sender, robot.observed()))
        return ModelRequest(
            robot.system_prompt(first_action_system),
            (message,),
            max_output_tokens=FIRST_TOKENS,
            deadline_s=self._settings.first_deadline_s,
            instruction=task.instruction,
        )

    def subtask_done(self, subtask: Subtask) -> None:
        """Tell that a subtask is done."""
        self._io.report(SubtaskDone(subtask.id, subtask.description))

    def fired(self, event: GlobalEvent) -> None:
        """Tell that an event of the plan has come true."""
        self._io.report(EventFired(event.id, event.response))

    def notice(self, why: str) -> None:
        """Tell something that a person should read."""
        self._io.report(Notice(why))

    def skipped(self, why: str) -> None:
        """Tell that nothing is asked."""
        self._io.report(Skipped(Layer.S1.value, why))

    def degraded(self, layer: Layer, how: str, why: str) -> None:
        """Tell that a layer goes on without its model."""
        self._io.report(Degraded(layer.value, how, why))
