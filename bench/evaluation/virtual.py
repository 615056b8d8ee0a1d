# SPDX-License-Identifier: Apache-2.0
"""Runs trials on a virtual clock: the real planners, parser, channel scheduler, process scheduler, skill kernel and skills in
a building without physics, asked of the simulated model in this process. The glue stands for the nodes."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from bench.evaluation.kinematics import Building, Drivers, Patience, Turns, VirtualEvent, observe
from bench.evaluation.tasks import AHEAD_M, PERSON_HOME, STANDS_S, Setting, Task
from bench.evaluation.trace import Recorder, StateAt, Trace
from bench.evaluation.truth import Places, walks
from bench.evaluation.virtual_memory import Remembering
from bench.evaluation.virtual_models import CONFIG, NOWHERE, WIRE_S, Models, Saying
from bench.evaluation.virtual_reflexes import VirtualReflexes
from bench.simulated_model.service import SimulatedModel
from bench.simulated_model.table import Table
from bench.virtual_clock import VirtualClock
from function_tokens.builtins import STEP_NAMES
from function_tokens.mapper import Mapper, Refusal
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken
from function_tokens.routines import RoutineStore, to_source
from function_tokens.scheduling.calls import Answer, Call, Role, Verdict
from function_tokens.scheduling.scheduler import Scheduler
from ghostshell_ros.robots.kalos.body import KalosBody
from planners.judging import SentenceJudge
from planners.language.deeds import unproven
from planners.learned import LearnedStore
from planners.memory import Memory
from planners.models.base import Image, ModelRequest
from planners.models.model_call import AnswerEnd
from planners.people import People
from planners.plan import Plan
from planners.processes import advisor
from planners.processes.advisor import AdvisorContext, ProcessAdvisor
from planners.prompts.blocks import Layer
from planners.prompts.prompt import MEMORY_TOKENS, CallReport, GrammarOptions, RobotFacts
from planners.scene import Present
from planners.strategies.layered import task_planner
from planners.strategies.layered.prompts import system_prompt
from planners.strategies.layered.task_planner import TaskPlanner
from planners.strategy import (
    CallHandle,
    Feed,
    Interrupted,
    Judge,
    Observed,
    Paused,
    PlannerEvent,
    Planning,
    Report,
    Restarted,
    Resumed,
    Strategy,
    StreamHandle,
    load_strategies,
    parameters_of,
)
from planners.strategy import Task as PlannedTask
from skill_kernel.calls import CallResult, CallSpec, ProcessHoldState
from skill_kernel.clock import Clock
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.config.observation import FieldConfig
from skill_kernel.events import CallEvent, CallKind, ProcessEvent, ProcessKind, RunEvent, StreamEvent, StreamKind
from skill_kernel.guard.condition_text import holds, read_condition
from skill_kernel.guard.reading import GuardError
from skill_kernel.kernel.kernel import Kernel
from skill_kernel.observation.accessors import View, accessors_of
from skill_kernel.observation.model import Observation
from skill_kernel.observation.observer import Observer
from skill_kernel.observation.render import facts
from skill_kernel.processes.process import Process, ProcessStatus, SchedulerSettings
from skill_kernel.processes.scheduler import PLANNER, ProcessScheduler
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

LOOK_S, SEEN_S, POSE_S, STEP_S = 0.5, 0.2, 0.2, 0.25
"""Times between two looks of System 2, two observations, two true poses, and two looks whether the task has ended."""
SCAN_S = 0.1
"""Time between two revolutions of the laser, at each of which reflexes are evaluated."""
AFTER_S, AT_REST_S = 0.6, 1.5
REMEMBERED = ("T7", "A7")
"""Tasks that ask the memory."""
OTHER = "channel_scheduler"
ACTIONS = ("drive", "navigate_to", "set_posture", "speak", "play_sound", "memory", "ask_human")
PICTURES = Path("pictures")


class VirtualRobot:
    """Kalos with a table of the simulated model, and a memory if one is given; with `remembers`, one of its own in each trial
    that asks it. What does not change from trial to trial is made once."""

    def __init__(
        self,
        table: Table,
        folder: Path,
        memory: Memory | None = None,
        *,
        memory_tokens: int = MEMORY_TOKENS,
        remembers: bool = False,
    ) -> None:
        self.remembers = remembers
        self.table, self.folder, self.memory, self.memory_tokens = table, folder, memory, memory_tokens
        self.config = config = RobotConfig.load("kalos")
        self.registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
        virtual = (replace(skill, function=partial(self._performed, skill.function)) for skill in self.registry)
        self.skills = SkillRegistry(virtual, text_skill=config.text_skill)
        self.turns: Turns
        self.mapper = Mapper(config, self.registry)
        self.routines = RoutineStore(folder / "routines.json", clock=time.time)
        fields = {name: field.role for name, field in config.observation.items() if field.serialise.prompt}
        options = GrammarOptions(config.builtin_names, config.limits)
        self.accessors = accessors_of(config)
        self.about = RobotFacts(
            config.name,
            config.description,
            self.registry,
            options,
            self.accessors,
            fields,
            config.waypoints,
            config.first_actions,
            config.resume_motion,
            config.examples,
        )
        self.strategies, _ = load_strategies()
        limits = CONFIG.deadlines
        of_model: dict[str, Any] = {"step_deadline_s": limits.steps_s, "first_deadline_s": limits.first_action_s}
        answer: dict[str, Any] = {"deadline_s": limits.answer_s, "max_output_tokens": 2048}
        self.settings = answer | {p.name: p.default for p in parameters_of(self.strategies.values())} | of_model
        self.plan_settings: dict[str, Any] = {p.name: p.default for p in task_planner.PARAMETERS} | {
            "deadline_s": limits.plan_s
        }
        self.make_plan_system = partial(system_prompt, subtasks=int(self.plan_settings["max_subtasks"]))
        self.system_prompt = lru_cache(maxsize=None)(lambda make: make(self.about))
        of_advisor = RobotFacts(config.name, config.description, (), fields=fields)
        self.advisor_system = advisor.system_prompt(of_advisor)
        self.condition = lru_cache(maxsize=256)(lambda text: read_condition(text, self.accessors))

    def _performed(self, function: Callable[..., Any], **given: Any) -> Any:
        """Call a skill's function with a stop event that lets virtual time pass."""
        if "stop_evt" in given:
            given["stop_evt"] = VirtualEvent(given["stop_evt"], self.turns)
        return function(**given)

    def perform(
        self, task: Task, setting: Setting, strategy: str, *, cost_aware: bool, seed: str
    ) -> tuple[Trace, Collection[int]]:
        """Run one trial; return its trace and how many places the robot may say it has been in. `seed` names what is drawn."""
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big")
        # Prompts tell where a picture was kept, and what is drawn depends on prompts: the path must be the same each time.
        before, folder = Path.cwd(), Path(tempfile.mkdtemp(dir=self.folder.absolute()))
        os.chdir(folder)
        try:
            trial = _Trial(self, setting, SimulatedModel(self.table.with_options(seed=number)), cost_aware, task)
            trace, places = trial.run(task, strategy)
        finally:
            os.chdir(before)
        trace.calls = [
            replace(c, told=c.told.replace(f"kept as {PICTURES}", f"kept as {folder / PICTURES}")) for c in trace.calls
        ]
        return trace, places


class _Trial:
    """One world with one task, from its beginning to its end."""

    def __init__(self, robot: VirtualRobot, setting: Setting, model: SimulatedModel, cost_aware: bool, task: Task) -> None:
        """Make the world. A memory of its own, and the reflexes, are there in the tasks that need them."""
        self.robot = robot
        self.about, self.routines = robot.about, robot.routines
        self.clock = VirtualClock()
        robot.turns = turns = self.turns = Turns(self.clock)
        self.building = Building(self.clock, robot.config, setting)
        self.model = Models(model, robot.table, self.clock, lambda told: self.tell(told, PLANNER))
        self.settings = {**robot.settings, "cost_aware": cost_aware}
        self.plan_settings = {**robot.plan_settings, "cost_aware": cost_aware}
        self.trace = Trace(asked=0.0)
        self._recorder = Recorder(self.trace)
        self._observer = Observer(robot.config)
        self._seen: Observation | None = None
        self._start = setting.robot
        self.memory, self.remembering = robot.memory, None
        if robot.remembers and task.id in REMEMBERED:
            self.remembering = Remembering(Path("memory"), robot.config.name, self.clock.now)
            self.memory = self.remembering.memory
        drivers = Drivers(self.building, turns, self.clock, self.memory)
        actions: dict[str, Any] = {name: getattr(drivers, name) for name in ACTIONS}
        body = KalosBody(**actions, senses=drivers, now=self.clock.now, wall=self.clock.now, pictures=PICTURES)
        self._results: dict[str, Callable[[CallResult], None]] = {}
        self.kernel = Kernel(
            robot.skills,
            robot.config,
            body,
            self.clock,
            on_result=lambda call_id, result: self.soon(self._results.pop(call_id), result),
            on_event=lambda event: self.tell(event, "skill_kernel"),
            on_change=self._kernel_changed,
            on_halt=self._halt,
            spawn=self._spawn,
        )
        self._state_due = False
        self.ids = itertools.count()
        self.core = ProcessScheduler(
            self,
            new_id=lambda: f"p{next(self.ids)}",
            now=self.clock.now,
            settings=SchedulerSettings(
                strategy="layered",
                strategies=tuple(robot.strategies),
                unproven=lambda process: unproven(process, robot.registry, robot.config.limits),
            ),
        )
        self.planned: dict[str, _Planned] = {}
        context = AdvisorContext(
            self.model, self.clock, robot.advisor_system, self.observed, lambda: (), CONFIG.deadlines.advice_s
        )
        self._advisor = ProcessAdvisor(context, self.core, lambda report: self.tell(report, "process_scheduler"))
        self.judge = SentenceJudge(self.model, self.clock, self, CONFIG.deadlines.judge_s)
        for period_s, beat in ((LOOK_S, self._look), (SEEN_S, self._observed), (POSE_S, self.building.note)):
            self._every(period_s, beat)
        self.reflexes = VirtualReflexes(self, robot.config, robot.registry, robot.folder) if task.person else None
        if self.reflexes is not None:
            self._every(SCAN_S, self._watch)

    def run(self, task: Task, strategy: str) -> tuple[Trace, Collection[int]]:
        trace, building = self.trace, self.building
        if self.remembering is not None:
            # In the simulator it has stood a while before it is told anything.
            self.clock.run(AT_REST_S)
            trace.asked = self.clock.now()
        trace.process_id = own = self._instruct(task.instruction, strategy)
        if task.concurrent:
            self._until(lambda: self._ended(own) or walks(building.poses, self._start), task.deadline_s)
        if task.added and not self._ended(own):
            trace.added, trace.added_id = self.clock.now(), self._instruct(task.added, strategy)
            self._until(lambda: self._ended(trace.added_id), task.deadline_s)
            trace.added_status = self._ended(trace.added_id)
        elif task.person and not self._ended(own):
            self._step_in(own)
        self._until(lambda: self._ended(own), task.deadline_s)
        trace.status = self._ended(own)
        if (process := self.core.get(own)) is not None:
            trace.unproven = list(process.unproven)
        self.clock.run(self.clock.now() + AFTER_S)
        self.turns.close()
        if self.remembering is not None:
            self.remembering.close()
        trace.poses, trace.objects, trace.postures, trace.sounds = (
            building.poses,
            building.objects,
            building.postures,
            building.sounds,
        )
        places = Places(self.robot.config)
        for pose in trace.poses:
            places.add(pose)
        trace.close()
        return trace, places.counts()

    def _step_in(self, own: str) -> None:
        """Let somebody step in its way, until a reflex has acted."""
        building, trace = self.building, self.trace
        trace.added = self.clock.now()
        x, y = building.x + AHEAD_M * math.cos(building.yaw), building.y + AHEAD_M * math.sin(building.yaw)
        building.put("person", x, y)
        acted = lambda: any(c.process_id.startswith("reflex-") for c in trace.calls)  # noqa: E731
        self._until(lambda: self._ended(own) or acted(), trace.added + STANDS_S)
        building.put("person", *PERSON_HOME[:2])

    def _watch(self) -> None:
        assert self.reflexes is not None
        self.reflexes.observe(self.observation(), self.clock.now())

    def _instruct(self, instruction: str, strategy: str) -> str:
        return self.core.instruct(instruction, door="action", sender="bench", strategy=strategy).process_id

    def _ended(self, process_id: str) -> str:
        """Return how a process ended, "" while it lives."""
        process = self.core.get(process_id)
        return process.status.name if process is not None and process.status.ended else ""

    def _until(self, come: Callable[[], object], limit_s: float) -> None:
        while not come() and self.clock.now() < limit_s:
            self.clock.run(self.clock.now() + STEP_S)

    def soon(self, call: Callable[..., object], *given: Any) -> None:
        """Call when a message would have arrived."""

        def arrive() -> None:
            call(*given)

        self.clock.call_later(WIRE_S, arrive)

    def tell(self, event: RunEvent, node: str) -> None:
        """Tell everybody of an event."""
        self.soon(self._hear, replace(event, stamp_s=self.clock.now(), node=node))

    def _hear(self, event: RunEvent) -> None:
        self._recorder.take(event)
        if self.remembering is not None:
            self.remembering.heard(event)
        told_by_itself = isinstance(event, CallEvent) and event.function in STEP_NAMES and event.kind is not CallKind.CONTENTION
        if told_by_itself and isinstance(event, CallEvent) and event.function == "replace_steps":
            self.core.steps_replaced(event.process_id)
        if not told_by_itself:
            self.core.take(event)
        if (planned := self.planned.get(event.process_id)) is not None:
            if event.node != PLANNER:
                planned.event(event)
            planned.event_for_plan(event)

    def _every(self, period_s: float, beat: Callable[[], object]) -> None:
        def ring() -> None:
            beat()
            self.clock.call_later(period_s, ring)

        self.clock.call_later(period_s, ring)

    # -- the skill kernel ---------------------------------------------------------------------------------------------

    def _spawn(self, run: Callable[[], None], name: str) -> None:
        """Start a call's thread. While its process is paused it waits on the virtual clock, also inside the kernel."""
        assert isinstance(run, partial)
        run.args[0].pause_evt._changed = Patience(self.turns)
        self.turns.spawn(run, name)

    def execute(self, spec: CallSpec, listener: Scheduler) -> None:
        """Hand a call to the kernel."""
        self._results[spec.call_id] = partial(listener.ended, spec.call_id)
        answer = self.kernel.execute(spec)
        if answer is None:
            self.soon(listener.started, spec.call_id)
            return
        ended = self._results.pop(spec.call_id)
        if answer.code in (CallCode.SUBSYSTEM_HELD, CallCode.PROCESS_PAUSED):
            self.soon(listener.held, spec.call_id, answer.message)
            self.clock.call_later(2 * WIRE_S, listener.freed)
        else:
            outcome = Outcome.INTERRUPTED if answer.code is CallCode.STALE_EPOCH else Outcome.REFUSED
            self.soon(ended, CallResult(outcome, answer.code, answer.message))

    def _kernel_changed(self) -> None:
        if not self._state_due:
            self._state_due = True
            self.clock.call_later(0.01, self._publish_state)

    def _publish_state(self) -> None:
        self._state_due = False
        holds_now: Iterable[ProcessHoldState] = self.kernel.state().processes
        paused = {hold.process_id for hold in holds_now if hold.pause_causes}
        for process_id, planned in self.planned.items():
            planned.scheduler.pause(process_id in paused)
            planned.scheduler.freed()
        self.core.kernel_state(holds_now)

    def _halt(self, cause: str) -> None:
        self.trace.notes.append((self.clock.now(), cause))
        self.kernel.halt(cause)
        self.core.halted(True)

    # -- RobotCommands ------------------------------------------------------------------------------------------------

    def changed(self, process: Process) -> None:
        causes = tuple(sorted(process.pause_causes))
        fresh = all(s.process_id != process.process_id for s in self.trace.states)
        if fresh and Feed.ADVICE in self.robot.strategies[process.strategy].wants:
            self.soon(self._advisor.began, process.process_id)
        state = StateAt(self.clock.now(), process.process_id, process.status.name, causes, process.code, process.message)
        if self.remembering is not None:
            self.remembering.changed(process)
        if not self.trace.states or replace(self.trace.states[-1], at=state.at) != state:
            self.trace.states.append(state)
        self.soon(self._planned, process)

    def _planned(self, process: Process) -> None:
        planned = self.planned.get(process.process_id)
        if planned is not None:
            planned.update(process)
        elif process.status is ProcessStatus.IN_PROGRESS:
            planned = self.planned[process.process_id] = _Planned(self, self.robot.strategies[process.strategy], process)
            planned.start()

    def amended(self, process: Process) -> None:
        """Nothing shows what an ended process has cost."""

    def end(self, process_id: str, cause: str) -> None:
        self.soon(self._interrupt, process_id, cause)
        self.soon(self.kernel.end_process, process_id, cause)

    def release(self, process_id: str) -> None:
        self.soon(self.kernel.end_process, process_id, "it has ended")

    def pause(self, process_id: str, cause: str) -> None:
        self.soon(lambda: self.core.paused(process_id, self.kernel.pause_process(process_id, cause).stopped))

    def resume(self, process_id: str, cause: str) -> None:
        def ask() -> None:
            answer = self.kernel.resume_process(process_id, cause)
            self.core.resumed(process_id, cause, not answer.code, answer.holders)

        self.soon(ask)

    def void_plan(self, process_id: str, cause: str) -> None:
        self.soon(lambda: self.core.interrupted(process_id, self._interrupt(process_id, cause)))

    def _interrupt(self, process_id: str, cause: str) -> int:
        epoch = self.kernel.interrupt_process(process_id, (), cause).epoch
        if (planned := self.planned.get(process_id)) is not None:
            planned.scheduler.interrupt(cause)
            planned.interrupt(cause)
        return epoch

    # -- RobotView ----------------------------------------------------------------------------------------------------

    def observation(self) -> Observation:
        now = self.clock.now()
        if self._seen is None or self._seen.stamp < now:
            rows = {
                s.name: "busy" if s.call_ids else "held" if s.process_id else "free" for s in self.kernel.state().subsystems
            }
            observe(self.building, self._observer, now, rows)
            self._seen = self._observer.observation(now, now)
        return self._seen

    def observed(self) -> Mapping[str, Any]:
        fields: Mapping[str, FieldConfig] = self.robot.config.observation
        return facts(self.observation(), fields, self.clock.now())

    def present(self) -> Present:
        return Present(self.observation(), self.core.processes, (), self.clock.now(), self.clock.now())

    def images(self) -> Sequence[Image]:
        return ()

    def steady_now(self) -> float:
        return self.clock.now()

    now_s = steady_now

    def check(self, name: str, attributes: Mapping[str, str]) -> str:
        mapped = self.robot.mapper.map(name, attributes)
        if mapped is None:
            return f"there is no function '{name}'"
        return mapped.message if isinstance(mapped, Refusal) else ""

    def system_prompt(self, make: Callable[[RobotFacts], str]) -> str:
        return self.robot.system_prompt(make)

    def _look(self) -> None:
        for planned in self.planned.values():
            if planned.plans is not None:
                planned.plans.observed(self.observed())

    def _observed(self) -> None:
        if self.remembering is not None:
            self.remembering.observed(self.observation(), self.clock.now())
        for planned in self.planned.values():
            if Feed.OBSERVATION in planned.strategy.wants:
                planned.deliver(Observed())

    # -- ConditionSource ----------------------------------------------------------------------------------------------

    def fault(self, text: str) -> str:
        try:
            self.robot.condition(text)
        except GuardError as error:
            return error.message
        return ""

    def ask(self, text: str, answer: Answer, process_id: str) -> None:
        try:
            condition = self.robot.condition(text)
        except GuardError as error:
            answer(Verdict(None, error.message))
            return
        if condition.expression is not None:
            view = View(self.observation(), self.robot.accessors, self.clock.now())
            answer(Verdict(*holds(condition.expression, view.call)))
        else:
            self.judge.ask(
                process_id, condition.text, lambda judged: answer(Verdict(judged.holds, judged.why or judged.reason))
            )


class _Stream:
    """One stream on its way through the parser to the channel scheduler."""

    def __init__(self, process: _Planned, turn: int, stream_id: str) -> None:
        self._process, self._parser = process, StreamingParser("lenient", stream_id=stream_id)
        self.stream_id, self.ended = stream_id, False
        process.trial.soon(partial(process.scheduler.open_stream, stream_id, epoch=process.epoch, turn=turn))

    def text(self, text: str) -> None:
        if not self.ended:
            self._process.trial.soon(lambda: self._feed(self._parser.feed(text)))

    def end(self, code: int = 0, why: str = "") -> None:
        if self.ended:
            return
        self.ended = True

        def arrive() -> None:
            self._feed(self._parser.close())
            self._process.scheduler.end_stream(self.stream_id, code, why)

        self._process.trial.soon(arrive)
        told = StreamEvent(kind=StreamKind.ENDED, stream_id=self.stream_id, error_code=code, error_msg=why)
        self._process.report(told)

    def abandon(self) -> None:
        self.ended = True

    def _feed(self, tokens: Sequence[FunctionToken]) -> None:
        for token in tokens:
            self._process.scheduler.feed(self.stream_id, token)
        for repair in self._parser.take_repairs():
            told = StreamEvent(
                kind=StreamKind.REPAIR, stream_id=self.stream_id, error_code=int(repair.code), error_msg=repair.message
            )
            self._process.trial.tell(replace(told, process_id=self._process.process_id), OTHER)


class _Planned:
    """One process: `PlannerIO` for its strategy, the executor of its channel scheduler, and its System 2 if it has one."""

    def __init__(self, trial: _Trial, strategy: Strategy, process: Process) -> None:
        self.trial, self.strategy, self.process_id, self.epoch = trial, strategy, process.process_id, process.epoch
        self.task = PlannedTask(process.process_id, process.instruction, process.sender)
        self.clock: Clock = trial.clock
        self.settings: Mapping[str, Any] = trial.settings
        self.judge: Judge | None = self._judge
        self.folder = NOWHERE
        self.people = People(now=self.clock.now)
        self.learned: LearnedStore | None = None
        self.finished = False
        self._planning: Planning | None = None
        self._streams: dict[str, _Stream] = {}
        self._next_turn = 0
        self.plans: TaskPlanner | None = None
        calls = _Calls(trial, self.process_id)
        self.scheduler = calls.scheduler = Scheduler(
            trial.robot.mapper,
            calls,
            trial.clock,
            lambda event: trial.tell(event, OTHER),
            new_call_id=lambda: f"{next(trial.ids):032x}",
            process_id=self.process_id,
            routines=trial.routines,
            conditions=trial,
        )
        self._paused = False

    def start(self) -> None:
        if Feed.PLANS in self.strategy.wants:
            robot = self.trial.robot
            self.plans = TaskPlanner(
                self.task,
                system=lambda: robot.system_prompt(robot.make_plan_system),
                fields=frozenset(robot.about.fields),
                things=robot.about.things,
                model=self.trial.model,
                made_by="simulated",
                publish=lambda plan: self.trial.soon(self._plan, plan),
                report=lambda report: self.trial.tell(report, "task_planner"),
                clock=self.clock,
                settings=self.trial.plan_settings,
            )
            self.recollect(self.plans.recollected)
            self.plans.observed(self.trial.observed())
            self.plans.begin()
        self._planning = self.strategy.start(self.task, self.trial, self)

    def update(self, process: Process) -> None:
        """Take note of its status."""
        if process.status.ended:
            self.close("the process has ended")
            return
        paused = process.status is ProcessStatus.PAUSED
        if process.epoch > self.epoch:
            if paused:
                return
            self.epoch = process.epoch
            if self.plans is not None:
                self.plans.planned_anew()
            done = [CallReport(c.function, json.loads(c.args_json or "{}"), c.outcome, c.message) for c in process.history]
            self.deliver(Restarted(done))
        elif paused != self._paused:
            self.deliver(Paused() if paused else Resumed())
        if self.plans is not None:
            self.plans.paused(paused)
        self._paused = paused

    def close(self, why: str) -> None:
        self.finished = True
        if self._planning is not None:
            self._planning.close(why)
            self._planning = None
        if self.plans is not None:
            self.plans.end()
            self.plans = None

    def interrupt(self, cause: str) -> None:
        for stream in self._streams.values():
            stream.abandon()
        self.deliver(Interrupted(cause))

    def deliver(self, event: PlannerEvent) -> None:
        if self._planning is not None and not self.finished:
            self._planning.on(event)

    def event(self, event: RunEvent) -> None:
        """Hand on what other nodes tell of the process."""
        wanted = (CallKind.STARTED, CallKind.ENDED, StreamKind.TURN_ENDED, StreamKind.STOP_GENERATION, StreamKind.REPAIR)
        if isinstance(event, (CallEvent, StreamEvent)) and event.kind in wanted:
            self.deliver(event)

    def event_for_plan(self, event: RunEvent) -> None:
        """Hand on what System 2 hears."""
        plans = self.plans
        if plans is None:
            return
        if event.kind is ProcessKind.SUBTASK_DONE and isinstance(event, ProcessEvent):
            plans.subtask_done(event.plan_item_id)
        elif event.kind is ProcessKind.PLAN_EVENT and isinstance(event, ProcessEvent):
            plans.event_fired(event.plan_item_id)
        elif event.kind is ProcessKind.CLAIMED and isinstance(event, ProcessEvent):
            plans.claimed(event.plan_item)
        elif not isinstance(event, CallEvent) or (
            event.function in STEP_NAMES and event.error_code != CallCode.CONDITION_UNKNOWN
        ):
            return
        elif event.kind is CallKind.STARTED:
            plans.call_started(event.call_id, CallReport.of(event))
        elif event.kind is CallKind.ENDED:
            skill = self.trial.robot.registry.get(event.function)
            grave = event.outcome is Outcome.REFUSED or skill is None or skill.on_failure != "continue"
            plans.call_ended(event.call_id, CallReport.of(event), grave=grave, lost=event.lost)

    def _plan(self, plan: Plan) -> None:
        self.deliver(plan)

    # -- PlannerIO ----------------------------------------------------------------------------------------------------

    def _judge(self, sentence: str, answer: Callable[[bool | None], None]) -> None:
        self.trial.judge.ask(self.process_id, sentence, lambda judged: answer(judged.holds))

    def thinks(self, role: str) -> bool:
        return True

    def allowance(self, role: str) -> tuple[bool, float, str]:
        return True, 0.0, ""

    def ask(
        self,
        role: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream: StreamHandle | None = None,
    ) -> Saying:
        return self.trial.model.ask(Layer(role), self.process_id, request, self._guarded(on_text), self._guarded(on_end))

    def unavailable(self, robot: str) -> str:
        return "" if robot == self.trial.robot.about.name else "out of reach"

    def recollect(self, then: Callable[[Sequence[str]], None]) -> None:
        robot, memory = self.trial.robot, self.trial.memory
        found = ""
        if memory is not None:
            found = memory.recollect(self.task.instruction, robot=robot.config.name, tokens=robot.memory_tokens).text
        then(found.splitlines())

    def work(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        value = work()
        self.clock.call_later(0.0, lambda: self._guarded(then)(value))

    def _guarded(self, call: Callable[[Any], None]) -> Callable[[Any], None]:
        return lambda given: None if self.finished else call(given)

    def open(self, turn: int) -> _Stream:
        self._next_turn = max(self._next_turn, turn + 1)
        stream = _Stream(self, turn, f"s{next(self.trial.ids)}")
        self._streams[stream.stream_id] = stream
        return stream

    def perform(self, tokens: Iterable[FunctionToken]) -> _Stream:
        stream = self.open(self._next_turn)
        stream.text(to_source(tokens))
        stream.end()
        return stream

    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> CallHandle:
        raise NotImplementedError(f"strategy '{self.strategy.name}' calls skills itself, which the virtual clock does not know")

    def stop(self, why: str, then: Callable[[], None]) -> None:
        self.trial.soon(self.scheduler.interrupt, why)
        self.clock.call_later(2 * WIRE_S, then)

    def report(self, report: Report | StreamEvent) -> None:
        self.trial.tell(replace(report, process_id=self.process_id), PLANNER)

    def finish(self, code: int = 0, why: str = "") -> None:
        if not self.finished:
            self.finished = True
            self.report(ProcessEvent(kind=ProcessKind.PLAN_ENDED, error_code=code, error_msg=why, epoch=self.epoch))


class _Calls:
    """Hand the calls of one process to the skill kernel; an `Executor`. Character data is handed over whole."""

    scheduler: Scheduler

    def __init__(self, trial: _Trial, process_id: str) -> None:
        self._trial, self._process_id = trial, process_id
        self._texts: dict[str, str] = {}
        """Character data of calls that wait for the rest of it."""

    def start(self, call: Call) -> None:
        if call.takes_content:
            self._texts[call.call_id] = ""
        else:
            self._execute(call, {})

    def content(self, call: Call, text: str, last: bool) -> None:
        if call.call_id in self._texts:
            self._texts[call.call_id] += text
            if last:
                self._execute(call, {"content": self._texts.pop(call.call_id)})

    def reset(self, call: Call) -> None:
        self._trial.soon(self._trial.kernel.reset, call.call_id)

    def stop(self, call: Call, cause: str) -> None:
        if self._texts.pop(call.call_id, None) is not None:
            ended = CallResult(Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY, cause)
            self._trial.soon(self.scheduler.ended, call.call_id, ended)
        else:
            self._trial.soon(self._trial.kernel.interrupt, call.call_id, cause)

    def _execute(self, call: Call, given: Mapping[str, str]) -> None:
        registry = self._trial.robot.registry
        skill = registry.text_skill if call.role is Role.TEXT else registry.get(call.function)
        assert skill is not None
        arguments = dict(call.arguments)
        if given and skill.content is not None:
            arguments[skill.content] = f"{arguments.get(skill.content, '')}{given['content']}"
        spec = CallSpec(
            self._process_id,
            call.call_id,
            skill.name,
            arguments,
            stream_id=call.stream_id,
            parent_id=call.parent.call_id if call.parent is not None else "",
            epoch=call.epoch,
            channels=tuple(sorted(call.channels)),
            open=call.open and not call.takes_content,
        )
        self._trial.soon(self._trial.execute, spec, self.scheduler)
