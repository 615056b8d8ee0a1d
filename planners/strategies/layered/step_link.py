# SPDX-License-Identifier: Apache-2.0
"""What System 1 of a process is given: its task, its settings, and the link to models, robot and observation (TypeGo 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from planners.models.base import ModelRequest
from planners.models.model_call import Model
from planners.plan import GlobalEvent, Subtask
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport
from planners.scene import SceneSnapshot
from planners.strategies.layered.step_answer import Check
from planners.strategies.layered.step_prompt import Situation
from planners.strategy import Judge
from skill_kernel.clock import Clock
from skill_kernel.observation.accessors import Accessor
from skill_kernel.observation.model import Observation


@dataclass(frozen=True)
class Bounds:
    """How much a process may try. `same`: equal failures in a row before the layer above is asked; `subtask`, `process`:
    failures at most; `answers`, `all_answers`: answers with steps, without any progress and for the process."""

    same: int = 2
    subtask: int = 5
    process: int = 12
    answers: int = 25
    all_answers: int = 150


@dataclass
class StepSettings:
    """How System 1 works; seconds, steps.

    `queue_steps` may wait; at `refill_at` waiting ones or fewer the model is asked for more, if `cost_aware`, else whenever
    there is room. `deadline_s`: how long an answer may take. `plan_wait_s`: so long it waits for System 2.
    `first_deadline_s`: 0 for no first action. `review_wait_s`: so long for a changed plan after equal failures.

    `nothing_gap_s`: before it asks again after an answer that added nothing; doubled each time up to `longest_gap_s` while
    the robot is idle, `idle_answers` times (`idle_waits` while events are watched). `anew_wait_s`: so long for the new
    epoch after a global event. `look_again_s`: how often a scene is compared, `scene_gap_s`: how often
    at most a change in it alone is a reason to ask. `say_s`: how long last words may take.
    """

    queue_steps: int = 3
    refill_at: int = 1
    cost_aware: bool = True
    deadline_s: float = 20.0
    plan_wait_s: float = 4.0
    first_deadline_s: float = 3.0
    review_wait_s: float = 8.0
    nothing_gap_s: float = 1.0
    longest_gap_s: float = 16.0
    scene_gap_s: float = 5.0
    idle_answers: int = 5
    idle_waits: int = 40
    anew_wait_s: float = 2.0
    look_again_s: float = 0.5
    say_s: float = 20.0
    bounds: Bounds = field(default_factory=Bounds)


class Outlet(Protocol):
    """What goes to the robot. `turn` tells what the writer knew: of streams of one turn, all end with the first failure."""

    def open(self, turn: int) -> str:
        """Begin a stream; its id."""

    def text(self, stream_id: str, text: str) -> None:
        """The next piece of it."""

    def close_stream(self, stream_id: str, code: int = 0, why: str = "") -> None:
        """Its end."""


class StepLink(Protocol):
    """What the planner of one process reaches the rest of the robot by; a node or a test."""

    model: Model
    clock: Clock
    outlet: Outlet
    check: Check
    accessors: Mapping[str, Accessor]
    judge: Judge | None
    first_actions: Sequence[str]

    def observation(self) -> Observation | None:
        """The newest one."""

    def steady_now(self) -> float:
        """The clock that observations are stamped with [s]."""

    def relies_on(self) -> SceneSnapshot:
        """What may be relied on now."""

    def step_request(self, situation: Situation) -> ModelRequest:
        """The prompt for further steps."""

    def first_request(self) -> ModelRequest | None:
        """The prompt for a first action; None where there is none."""

    def commands(self, text: str, done: Sequence[CallReport]) -> str:
        """The direct commands in a text that is understood wholly without a model, without what was done; else ""."""

    def way_back(self, before: SceneSnapshot) -> str:
        """The call that brings the robot to where it stood; "" when it stands there or has none."""

    def stop(self, why: str, then: Callable[[], None]) -> None:
        """Stop all that runs of the process; `then` is called soon, when it was told to."""

    def allowance(self) -> tuple[bool, float, str]:
        """Whether the budget lets it ask, in how many seconds, and why not."""

    def plan_ended(self, code: int, why: str) -> None:
        """No further step follows."""

    def subtask_done(self, subtask: Subtask) -> None:
        """A subtask is done."""

    def fired(self, event: GlobalEvent) -> None:
        """A global event has come true."""

    def notice(self, why: str) -> None:
        """Something that a person should read."""

    def skipped(self, why: str) -> None:
        """Nothing is asked."""

    def degraded(self, layer: Layer, how: str, why: str) -> None:
        """A layer goes on without its model."""
