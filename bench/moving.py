# SPDX-License-Identifier: Apache-2.0
"""CoCo's tasks on the moving robot: all nodes, the simulator's physics, and a server that answers each instruction with a given
stream. A call counts as done when the body bears it out."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from bench.body import Body, borne_out
from bench.calls import CallRun
from bench.evaluation.faults import HungError
from bench.evaluation.listener import Listener, seconds
from bench.evaluation.robot import SETTLE_S, Robot, brought_up
from bench.evaluation.settings import settings
from bench.scoring import Task
from bench.simulated_model.model_server import Answer, ModelServer, RecordedRequest
from bench.simulated_model.prompt import instruction_of, turn_of
from function_tokens.run_model import merged
from ghostshell_ros.runtime.data import config_folder
from ghostshell_ros.wire.qos import LATCHED, MEASUREMENTS, SENSORS
from skill_kernel.events import CallEvent, ModelEvent, Notice

ROBOT, MODEL = "coco", "given"
TOKENS_PER_S, FIRST_TOKEN_S = 50.0, 0.3
DEADLINE_S = 120.0
AFTER_S = 0.8


class CocoListener(Listener):
    """Hears CoCo's calls, and its body as the simulator has it."""

    def __init__(self, things: Sequence[str] = ()) -> None:
        super().__init__(ROBOT, things)
        self.runs: dict[str, CallEvent] = {}
        self.body = Body()
        self.tilts: dict[str, float] = {}
        """How far each thing leans from upright, in rad."""
        for name in things:
            self.create_subscription(PoseStamped, f"ground_truth/{name}", partial(self._on_tilt, name), SENSORS)
        self.create_subscription(JointState, "joint_states", self._on_joints, MEASUREMENTS)
        self.create_subscription(String, "face", self._on_face, LATCHED)

    def begin_body(self) -> None:
        """Forget what was before."""
        self.begin()
        with self.changed:
            self.runs, self.body = {}, Body()

    def _on_event(self, event: CallEvent | ModelEvent | Notice) -> None:
        super()._on_event(event)
        if isinstance(event, CallEvent):
            with self.changed:
                self.runs[event.call_id] = merged(self.runs.get(event.call_id), event, event.stamp_s)

    def _on_tilt(self, name: str, message: PoseStamped) -> None:
        q = message.pose.orientation
        with self.changed:
            self.tilts[name] = math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (q.x * q.x + q.y * q.y))))

    def _on_joints(self, message: JointState) -> None:
        with self.changed:
            self.body.joints.append((seconds(message.header.stamp), dict(zip(message.name, message.position, strict=True))))

    def _on_face(self, message: String) -> None:
        with self.changed:
            self.body.faces.append((self.ros_now(), message.data))


@contextmanager
def coco(
    answer: Callable[[RecordedRequest], str | Answer],
    log: Path,
    things: Sequence[str] = (),
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    model: str = "",
) -> Iterator[tuple[Robot, CocoListener]]:
    """Bring up CoCo in the simulator with strategy `stream` and a server that answers so, or the `model` named; with further
    `parameters` of nodes.

    Raises HungError when it does not come up.
    """
    made: list[CocoListener] = []

    def listener() -> Listener:
        made.append(CocoListener(things))
        return made[0]

    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ghostshell-coco-", ignore_cleanup_errors=True)))
        server = stack.enter_context(ModelServer(answer, rate=TOKENS_PER_S, first_token_s=FIRST_TOKEN_S))
        entry = {"provider": "openai", "model": "any", "base_url": server.openai_url}
        folder = settings(config_folder(), data / "config", {MODEL: entry}, parameters or {})
        arguments = {"model": model or MODEL, "strategy": "stream", "config_dir": str(folder)}
        yield stack.enter_context(brought_up(arguments, data, log, listener)), made[0]


def answers(tasks: Sequence[Task]) -> Callable[[RecordedRequest], str]:
    """Return a model that writes each task's reference, and what was said in the turns before it; nothing when asked again."""
    streams = {task.instruction: task.reference for task in tasks}
    streams |= {turn.user: turn.stream for task in tasks for turn in task.setup.turns}

    def answer(request: RecordedRequest) -> str:
        asked = request.last_user_text
        return "<plan_done/>" if turn_of(asked) else streams[instruction_of(asked)]

    return answer


def perform(robot: Robot, heard: CocoListener, task: Task) -> list[CallRun]:
    """Have the robot carry out a task; its calls, with FAILED for those that its body belies. Raises HungError."""
    robot.quiet()
    robot.arrange("{}", anew=True)
    time.sleep(SETTLE_S)
    for turn in task.setup.turns:
        _run(robot, turn.user)
    heard.begin_body()
    _run(robot, task.instruction, task.interrupt_s)
    time.sleep(AFTER_S)
    with heard.changed:
        calls, body = [CallRun.of(run) for run in heard.runs.values()], heard.body
        body.poses = list(heard.trace.poses)
    return [borne_out(call, body, calls) for call in sorted(calls, key=lambda c: c.start_s or math.inf)]


def _run(robot: Robot, instruction: str, interrupt_s: float | None = None) -> None:
    _, ended = robot.tell(instruction, "stream")
    if interrupt_s is None:
        robot.wait(ended, DEADLINE_S, f"“{instruction}” does not end")
        return
    try:
        robot.wait(ended, interrupt_s, "")
    except HungError:
        if robot.exited:
            raise
        robot.quiet()
