# SPDX-License-Identifier: Apache-2.0
"""Run CLEA's trials on a virtual clock: a team strategy with the robots' real skills as they are declared, the simulated model
in this process, and the kitchen without physics."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from bench.clea.kitchen import ROBOTS
from bench.clea.pictures import Cameras
from bench.clea.trials import DEADLINE_S, LATE_S, SOON_S, Disturbance, Setting, Trial, setting
from bench.evaluation.propositions import Moment
from bench.evaluation.trace import Recorder, Trace
from bench.evaluation.virtual_models import WIRE_S, Models
from bench.simulated_model.service import SimulatedModel
from bench.simulated_model.table import Table
from bench.virtual_call import VirtualCall
from bench.virtual_clock import VirtualClock
from bench.virtual_door import VirtualDoor, settings_of
from function_tokens.mapper import Mapper, Refusal
from function_tokens.markup import value_text
from function_tokens.routines import RoutineStore
from planners.models.base import Image, ModelRequest
from planners.models.model_call import AnswerEnd, Handle
from planners.people import People
from planners.prompts.blocks import Layer
from planners.prompts.prompt import GrammarOptions, RobotFacts
from planners.scene import Present
from planners.strategies.closed_loop.strategy import ClosedLoop
from planners.strategy import Observed, Planning, StreamHandle, Task, TeamStrategy
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallEvent, CallKind, ModelEvent
from skill_kernel.observation.model import Observation
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

SEEN_S, STEP_S = 0.2, 0.5
"""Times between two observations, and between two looks whether the task has ended."""
TRIES_S = 1.0
"""A skill that cannot be done is told so after so long: the robot has looked, and planned its motion."""
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "full": {"closed_loop.critic": "always"},
    "on_doubt": {"closed_loop.critic": "on_doubt"},
    "no_critic": {"closed_loop.critic": "never"},
    "open_loop": {"closed_loop.mode": "open"},
}
"""The paper's loop, ours with the model asked only in doubt, the paper's ablation, and its baseline."""


@dataclass
class Run:
    """Hold what came of a run. `trace` has calls, with the robot among their arguments, and the models' answers; `notices`
    what the strategy told [s]; `happened` when the disturbance came and what it was. `refused`: calls that no driver saw;
    `invalid`: those that one saw although no robot can do them."""

    trace: Trace
    moments: list[Moment]
    notices: list[tuple[float, str, str]] = field(default_factory=list)
    happened: list[tuple[float, str]] = field(default_factory=list)
    refused: int = 0
    invalid: int = 0
    repaired: int = 0
    """Plans that held what is no call, and were sent back with the reason."""


class Robot:
    """A robot as its file declares it, of which nothing changes from run to run."""

    def __init__(self, name: str, folder: Path) -> None:
        self.config = config = RobotConfig.load(name)
        registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
        self.mapper = Mapper(config, registry)
        fields = {name: f.role for name, f in config.observation.items() if f.serialise.prompt}
        options = GrammarOptions(config.builtin_names, config.limits)
        self.about = RobotFacts(config.name, config.description, registry, options, fields=fields)
        self.routines = RoutineStore(folder / f"{name}.json", clock=time.time)
        self.system_prompt = lru_cache(maxsize=None)(lambda make: make(self.about))


class VirtualTeam:
    """Both robots with a table of the simulated model."""

    def __init__(self, table: Table, folder: Path) -> None:
        self.table, self.cameras = table, Cameras()
        self.robots = {name: Robot(name, folder) for name in ROBOTS}
        self.strategy: TeamStrategy = ClosedLoop()
        self.settings = settings_of(self.strategy.parameters)

    def perform(self, trial: Trial, seed: int, variant: str, world: Setting | None = None) -> Run:
        """Run a trial once, in the world of its seed unless another is given; what the model draws depends on trial and seed
        alone."""
        number = int.from_bytes(hashlib.sha256(f"clea {trial.id} {seed}".encode()).digest()[:4], "big")
        model = SimulatedModel(self.table.with_options(seed=number))
        return _Run(self, trial, world or setting(trial, seed), model, {**self.settings, **VARIANTS[variant]}).run()


class _View:
    """`RobotView` of one robot."""

    def __init__(self, robot: Robot, run: _Run) -> None:
        self.about, self.routines, self.system_prompt = robot.about, robot.routines, robot.system_prompt
        self._robot, self._run = robot, run

    def observation(self) -> Observation:
        return Observation(self._run.clock.now())

    def observed(self) -> Mapping[str, Any]:
        """Return what is in the picture now, as the simulator tells it."""
        kitchen, name = self._run.kitchen, self.about.name
        view = self._run.team.cameras.view(kitchen, name)
        places = {thing: kitchen.things[thing] for thing in sorted(view.things)}
        return {
            "things": {thing: "" if where in ROBOTS else where for thing, where in places.items()},
            "doors": {door: "open" if kitchen.doors[door] else "shut" for door in sorted(view.doors)},
            "hand": kitchen.held(name),
        }

    def present(self) -> Present:
        return Present(self.observation(), (), (), self._run.clock.now(), self._run.clock.now())

    def images(self) -> Sequence[Image]:
        return (Image(self._run.team.cameras.view(self._run.kitchen, self.about.name).png, self._run.clock.now()),)

    def steady_now(self) -> float:
        return self._run.clock.now()

    now_s = steady_now

    def check(self, name: str, attributes: Mapping[str, str]) -> str:
        mapped = self._robot.mapper.map(name, attributes)
        if mapped is None:
            return f"there is no function '{name}'"
        return mapped.message if isinstance(mapped, Refusal) else ""


class _Run(VirtualDoor):
    """One world with one task."""

    def __init__(
        self, team: VirtualTeam, trial: Trial, world: Setting, model: SimulatedModel, settings: Mapping[str, Any]
    ) -> None:
        self.virtual = VirtualClock()
        super().__init__(self.virtual, People(now=self.virtual.now), settings)
        self.team, self.kitchen, self.disturbance = team, world.kitchen(), world.disturbance
        self._task = Task("p1", trial.instruction, "bench")
        self.result = Run(Trace(asked=0.0, process_id="p1"), [], self.notices)
        self._recorder = Recorder(self.result.trace)
        self._models = Models(model, team.table, self.clock, self._answered)
        self._views = {name: _View(robot, self) for name, robot in team.robots.items()}
        self._ids = itertools.count(1)
        self._busy: dict[str, str] = {}
        self._actions = 0
        self._awaited = world.disturbance.kind in ("moved", "shut")
        self._planning: Planning | None = None

    def run(self) -> Run:
        self._changed()
        self._planning = self.team.strategy.start_team(self._task, self._views, self)
        self._observe()
        while not self.ended and self.virtual.now() < DEADLINE_S:
            self.virtual.run(self.virtual.now() + STEP_S)
        if not self.ended:
            self._planning.close("the deadline has passed")
            self.result.trace.end = self.virtual.now()
        return self.result

    def _answered(self, told: ModelEvent) -> None:
        self._recorder.take(replace(told, stamp_s=self.clock.now()))

    def _observe(self) -> None:
        if not self.ended:
            if self._planning is not None:
                self._planning.on(Observed())
            self.clock.call_later(SEEN_S, self._observe)

    def _changed(self) -> None:
        self.result.moments.append(self.team.cameras.moment(self.kitchen, self.clock.now()))

    # -- the robots ---------------------------------------------------------------------------------------------------

    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> VirtualCall:
        handle, call_id = VirtualCall(), f"c{next(self._ids)}"
        view = self._views.get(robot)
        attributes = {name: value_text(value) for name, value in arguments.items()}
        fault = f"there is no robot '{robot}'" if view is None else view.check(skill, attributes)
        code = CallCode.INVALID_ARGUMENT
        if not fault and robot in self._busy:
            fault, code = f"{robot} is busy with {self._busy[robot]}", CallCode.SUBSYSTEM_HELD
        event = CallEvent(
            kind=CallKind.STARTED,
            call_id=call_id,
            process_id="p1",
            robot=robot,
            function=skill,
            args_json=json.dumps({"robot": robot, **arguments}),
            channels=("body",),
        )
        if fault:
            self.result.refused += 1
            ended = replace(event, kind=CallKind.ENDED, outcome=Outcome.REFUSED, error_code=int(code), error_msg=fault)
            self.clock.call_later(WIRE_S, lambda: self._tell(handle, ended))
        else:
            self._busy[robot] = skill
            self.clock.call_later(WIRE_S, lambda: self._begin(handle, event, attributes))
        return handle

    def _begin(self, handle: VirtualCall, event: CallEvent, given: Mapping[str, str]) -> None:
        """Start a call: the driver's side of it."""
        robot, skill = event.robot, event.function
        self.result.invalid += bool(self._views[robot].check(skill, given))
        self._recorder.take(replace(event, stamp_s=self.clock.now()))
        why = self.kitchen.fault(robot, skill, given)
        takes_s = TRIES_S if why else self.kitchen.takes_s(skill, given)
        self.clock.call_later(takes_s, lambda: self._end(handle, event, given, why))
        self._actions += 1
        self._disturb(self._actions, takes_s)

    def _end(self, handle: VirtualCall, event: CallEvent, given: Mapping[str, str], why: str) -> None:
        del self._busy[event.robot]
        why = why or self.kitchen.attempt(event.robot, event.function, given)
        if not why:
            self._changed()
        ended = replace(event, kind=CallKind.ENDED, outcome=Outcome.FAILED if why else Outcome.DONE, message=why)
        self._tell(handle, replace(ended, error_code=int(CallCode.SKILL_FAILED)) if why else ended)

    def _tell(self, handle: VirtualCall, ended: CallEvent) -> None:
        ended = replace(ended, stamp_s=self.clock.now())
        self._recorder.take(ended)
        handle.end(ended)

    # -- what disturbs them -------------------------------------------------------------------------------------------

    def _disturb(self, action: int, takes_s: float) -> None:
        what = self.disturbance
        if self._awaited and action >= what.action:
            late = max(0.0, takes_s - LATE_S) if what.kind == "moved" else takes_s + SOON_S
            self.clock.call_later(late, partial(self._happen, what))

    def _happen(self, what: Disturbance) -> None:
        if self._awaited and not self.ended and what.can(self.kitchen):
            self._awaited = False
            self.result.happened.append((self.clock.now(), what.happen(self.kitchen)))
            self._changed()

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

    def ask(
        self,
        role: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream: StreamHandle | None = None,
    ) -> Handle:
        self.result.repaired += role == Layer.PLANNER.value and "\nFAULTS (" in request.messages[-1].text
        return self._models.ask(Layer(role), "p1", request, on_text, on_end)

    def unavailable(self, robot: str) -> str:
        return "" if robot in self.team.robots else "out of reach"

    def finished(self, code: int, why: str) -> None:
        trace = self.result.trace
        trace.end, trace.status, trace.code, trace.message = self.clock.now(), "FAILED" if code else "SUCCESS", code, why
