# SPDX-License-Identifier: Apache-2.0
"""What System 1 of one process reaches the rest of the robot by (strategy `layered`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ghostshell.msg import SkillEvent

from function_tokens.mapper import Refusal, Wrapper
from ghostshell_ros.nodes.action_planner.chunk_streams import ChunkStream, ChunkStreams
from ghostshell_ros.runtime.layer_model import LayerModel
from ghostshell_ros.runtime.node import SteadyClock
from ghostshell_ros.runtime.node_runtime import RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from ghostshell_ros.runtime.scene import Scene
from ghostshell_ros.wire.event_writer import EventWriter
from planners.models.base import Message, ModelRequest
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport
from planners.strategies.layered.direct_commands import DirectCommands
from planners.strategies.layered.global_events import Judge
from planners.strategies.layered.judging import SentenceJudge
from planners.strategies.layered.plan import GlobalEvent, Subtask
from planners.strategies.layered.reliance import MOVED_M, Reliance, reliance
from planners.strategies.layered.step_link import ProcessTask, StepSettings
from planners.strategies.layered.step_prompt import Fronts, Situation, first_action_message, step_message
from skill_kernel.codes import ModelCode
from skill_kernel.observation.accessors import Accessor
from skill_kernel.observation.model import Observation

FIRST_TOKENS = 120
"""Length of a first action at most [tokens]."""


@dataclass(frozen=True)
class LayeredParts:
    """What all processes of the node share."""

    node: RuntimeNode
    robot: RobotSetup
    fronts: Fronts
    model: LayerModel
    streams: ChunkStreams
    events: EventWriter
    scene: Scene
    judge: SentenceJudge | None
    commands: DirectCommands
    accessors: Mapping[str, Accessor]
    settings: StepSettings
    max_output_tokens: int
    stop: Callable[[str, int, str, Callable[[], None]], None]
    """Stops what runs of a process (id, epoch, why, what is next)."""


class ProcessLink:
    """The `StepLink` and the `Outlet` of one process."""

    def __init__(self, parts: LayeredParts, task: ProcessTask, epoch: int) -> None:
        self._parts, self._task = parts, task
        self._open: dict[str, ChunkStream] = {}
        self.epoch = epoch
        self.last_stream = ""
        self.model, self.clock, self.outlet = parts.model, SteadyClock(parts.node), self
        self.accessors = parts.accessors
        self.first_actions: Sequence[str] = parts.robot.config.first_actions
        self.judge: Judge | None = self._judge if parts.judge is not None else None

    def _judge(self, sentence: str, answer: object) -> None:
        assert self._parts.judge is not None and callable(answer)
        self._parts.judge.ask(self._task.process_id, sentence, lambda judged: answer(judged.holds))

    # -- to the robot -------------------------------------------------------------------------------------------------

    def open(self, turn: int) -> str:
        stream = self._parts.streams.open(self._task.process_id, self.epoch, turn)
        self._open[stream.stream_id] = stream
        self.last_stream = stream.stream_id
        return stream.stream_id

    def text(self, stream_id: str, text: str) -> None:
        self._parts.streams.text(self._open[stream_id], text)

    def close(self, stream_id: str, code: int = 0, why: str = "") -> None:
        stream = self._open.pop(stream_id, None)
        if stream is not None and self._parts.streams.end(stream, code, why):
            self._write(SkillEvent.STREAM_ENDED, stream_id=stream_id, error_code=code, error_msg=why)

    def close_all(self, why: str) -> None:
        """End what is being written."""
        for stream_id in list(self._open):
            self.close(stream_id, int(ModelCode.MODEL_CANCELLED), why)

    def abandon(self) -> None:
        """What is being written is void."""
        for stream in self._open.values():
            self._parts.streams.abandon(stream)
        self._open.clear()
        self._parts.streams.forget(self._task.process_id)

    def check(self, name: str, attrs: Mapping[str, str]) -> str:
        mapped = self._parts.robot.mapper.map(name, attrs)
        if isinstance(mapped, Wrapper):
            return f"there is no function '{name}'"
        return mapped.message if isinstance(mapped, Refusal) else ""

    def commands(self, text: str, done: Sequence[CallReport]) -> str:
        return self._parts.commands.read(text, done)

    def way_back(self, before: Reliance) -> str:
        motion, pose = self._parts.robot.config.resume_motion, before.pose
        if not motion or pose is None or self.relies_on().moved_m(before) <= MOVED_M:
            return ""
        return motion.format(x_m=pose.x, y_m=pose.y, yaw_deg=math.degrees(pose.yaw))

    def stop(self, why: str, then: Callable[[], None]) -> None:
        self._parts.stop(self._task.process_id, self.epoch, why, then)

    # -- what it observes ---------------------------------------------------------------------------------------------

    def observation(self) -> Observation | None:
        return self._parts.scene.seen()

    def steady_now(self) -> float:
        return self._parts.node.steady_now()

    def relies_on(self) -> Reliance:
        return reliance(self.observation(), self.steady_now())

    # -- prompts ------------------------------------------------------------------------------------------------------

    def step_request(self, situation: Situation) -> ModelRequest:
        parts = self._parts
        message = Message("user", step_message(situation, parts.scene.observation()), tuple(parts.scene.images()))
        return ModelRequest(
            parts.fronts.of(Layer.S1),
            (message,),
            max_output_tokens=parts.max_output_tokens,
            deadline_s=parts.settings.deadline_s,
            instruction=self._task.instruction,
        )

    def first_request(self) -> ModelRequest | None:
        parts, task = self._parts, self._task
        known = {skill.name for skill in parts.robot.registry}
        if not known & set(self.first_actions) or not parts.model.thinks(Layer.S1P):
            return None
        message = Message("user", first_action_message(task.instruction, task.sender, parts.scene.observation()))
        return ModelRequest(
            parts.fronts.of(Layer.S1P),
            (message,),
            max_output_tokens=FIRST_TOKENS,
            deadline_s=parts.settings.first_deadline_s,
            instruction=task.instruction,
        )

    def allowance(self) -> tuple[bool, float, str]:
        return self._parts.model.allowance(self._task.process_id, Layer.S1)

    # -- what it tells ------------------------------------------------------------------------------------------------

    def plan_ended(self, code: int, why: str) -> None:
        self._write(SkillEvent.PLAN_ENDED, stream_id=self.last_stream, error_code=code, error_msg=why, epoch=self.epoch)

    def subtask_done(self, subtask: Subtask) -> None:
        self._write(SkillEvent.SUBTASK_DONE, call_id=subtask.id, text=subtask.description)

    def fired(self, event: GlobalEvent) -> None:
        self._write(SkillEvent.GLOBAL_EVENT, call_id=event.id, text=event.response)

    def notice(self, why: str) -> None:
        self._write(SkillEvent.NOTICE, error_msg=why)

    def skipped(self, why: str) -> None:
        self._parts.model.skipped(Layer.S1, self._task.process_id, why)

    def degraded(self, layer: Layer, how: str, why: str) -> None:
        self._parts.model.degraded(layer, self._task.process_id, how, why)

    def _write(self, kind: int, **fields: object) -> None:
        self._parts.events.write(kind, process_id=self._task.process_id, **fields)
