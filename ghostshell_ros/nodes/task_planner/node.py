# SPDX-License-Identifier: Apache-2.0
"""Node `task_planner` (S2): decomposes each task into subtasks and events, and revises them when something has happened."""

from functools import partial

from ghostshell.msg import Plan as PlanMsg
from ghostshell.msg import ProcessArray, ProcessState

from function_tokens.builtins import STEP_NAMES
from ghostshell_ros.runtime.layer_model import LayerModel, ModelBudget
from ghostshell_ros.runtime.model_setup import (
    deadlines_of,
    declare_model,
    declare_settings,
    hedged,
    optional_model,
    prepare_models,
)
from ghostshell_ros.runtime.node import Health, Level, RuntimeNode, SteadyClock
from ghostshell_ros.runtime.recollection import RecollectionClient
from ghostshell_ros.runtime.robot_setup import declare_robot
from ghostshell_ros.runtime.scene import Scene
from ghostshell_ros.wire.events import EventWriter, read_events
from ghostshell_ros.wire.process_messages import call_reports, plan_message
from ghostshell_ros.wire.qos import LATCHED, PLANS
from ghostshell_ros.wire.values import seconds
from planners.plan import Plan
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport
from planners.scene import earlier_tasks
from planners.strategies.layered.prompts import system_prompt
from planners.strategies.layered.task_planner import PARAMETERS, TaskPlanner
from planners.strategy import Feed, Task, strategies_that_want
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallEvent, CallKind, ModelEvent, Notice, ProcessEvent, ProcessKind, RunEvent

LOOK_S = 0.5
"""Time between two comparisons of the observation with what subtasks watch."""


class TaskPlannerNode(RuntimeNode):
    """Plan every living process whose strategy asks for plans. Without a language model (`model: offline`) it is silent,
    and instructions are carried out as they stand.
    """

    def __init__(self) -> None:
        super().__init__("task_planner")
        robot = self._robot = declare_robot(self)
        model = declare_model(self, robot)
        fast = optional_model(self, "fast_model", "what is asked as well when the model stays silent; empty: nothing", robot)
        self._client = hedged(self, model, fast)
        self._planned = strategies_that_want(Feed.PLANS)
        self._settings = declare_settings(self, PARAMETERS, deadline_s=deadlines_of(self, "model").plan_s)
        self._budget = ModelBudget(self)
        self._planners: dict[str, TaskPlanner] = {}
        self._epochs: dict[str, int] = {}
        self._heard = False
        self._plans = self.create_publisher(PlanMsg, "plans", PLANS)
        self._events = EventWriter(self, ModelEvent, Notice)
        self._models = LayerModel(self, {Layer.S2: self._client}, self._events, self._budget)
        self._timers_clock = SteadyClock(self)
        thinks = self._models.thinks(Layer.S2)
        memory = RecollectionClient(self, thinks=thinks)
        if not thinks:
            return
        self._scene, self._memory = Scene(self, robot), memory
        self._make_system = partial(system_prompt, subtasks=self._settings["max_subtasks"])
        self._began_s = self.now_s()
        self.create_subscription(ProcessArray, "processes", self._processes, LATCHED)
        read_events(self, self._event, CallEvent, ProcessEvent, ModelEvent)
        self.steady_timer(LOOK_S, self._look)
        self._system()  # It takes the time of many messages, and the first task should not wait for it
        prepare_models(self, [self._client])

    # -- processes ----------------------------------------------------------------------------------------------------

    def _processes(self, message: ProcessArray) -> None:
        self._budget.processes(message)
        self._scene.processes(message)
        first, self._heard = not self._heard, True
        known = set()
        for process in message.processes:
            if process.status >= ProcessState.SUCCESS or process.strategy not in self._planned:
                continue
            known.add(process.process_id)
            self.guarded(self._take)(process, first)
        for process_id in self._planners.keys() - known:
            self._planners.pop(process_id).end()
            del self._epochs[process_id]

    def _take(self, process: ProcessState, first: bool) -> None:
        planner = self._planners.get(process.process_id)
        paused = process.status == ProcessState.PAUSED
        if planner is None:
            self._begin(process, first, paused)
            return
        if process.epoch > self._epochs[process.process_id]:
            self._epochs[process.process_id] = process.epoch
            planner.planned_anew()
        planner.paused(paused)

    def _begin(self, process: ProcessState, first: bool, paused: bool) -> None:
        created_s = seconds(process.created)
        adopted = 0
        if first and (not self._began_s or created_s < self._began_s):
            # Above all that a former node can have given out, which made no more than ten revisions a second.
            adopted = 1000 + int(10 * max(0.0, self.now_s() - created_s))
        self._epochs[process.process_id] = process.epoch
        earlier = earlier_tasks(self._scene.present(), process.process_id)
        planner = self._planners[process.process_id] = TaskPlanner(
            Task(process.process_id, process.instruction, process.sender, call_reports(process), earlier),
            system=self._system,
            fields=frozenset(self._scene.about.fields),
            things=self._scene.about.things,
            routines=self._scene.routines.list,
            model=self._models,
            made_by=self._client.name,
            publish=partial(self._publish, process.process_id),
            report=self._events.write,
            clock=self._timers_clock,
            settings=self._settings,
            adopted=adopted,
        )
        planner.observed(self._scene.observed())
        planner.begin(paused=paused)
        self._memory.ask(process.process_id, process.instruction, self.guarded(planner.recollected, process.process_id))

    def _publish(self, process_id: str, plan: Plan) -> None:
        self._plans.publish(plan_message(process_id, plan, self.get_clock().now().to_msg()))

    def _system(self) -> str:
        return self._scene.system_prompt(self._make_system)

    # -- what happens -------------------------------------------------------------------------------------------------

    def _event(self, event: RunEvent) -> None:
        self._budget.hear(event)
        planner = self._planners.get(event.process_id)
        if planner is None:
            return
        if event.kind is ProcessKind.SUBTASK_DONE:
            planner.subtask_done(event.plan_item_id)
        elif event.kind is ProcessKind.CLAIMED:
            planner.claimed(event.plan_item)
        elif event.kind is ProcessKind.PLAN_EVENT:
            planner.event_fired(event.plan_item_id)
        elif not isinstance(event, CallEvent):
            return
        elif event.function in STEP_NAMES and event.error_code != CallCode.CONDITION_UNKNOWN:
            return  # what was done in a step is told by itself
        elif event.kind is CallKind.STARTED:
            planner.call_started(event.call_id, CallReport.of(event))
        elif event.kind is CallKind.ENDED:
            skill = self._robot.registry.get(event.function)
            grave = event.outcome is Outcome.REFUSED or skill is None or skill.on_failure != "continue"
            planner.call_ended(event.call_id, CallReport.of(event), grave=grave, lost=event.lost)

    def _look(self) -> None:
        if self._planners:
            observation = self._scene.observed()
            for process_id, planner in list(self._planners.items()):
                self.guarded(planner.observed, process_id)(observation)

    def health(self) -> Health:
        if not self._models.thinks(Layer.S2):
            return Health("no language model: instructions are carried out as they stand", Level.OK, {})
        return Health(f"model {self._client.name}", Level.OK, {"processes": len(self._planners)})

    def close(self) -> None:
        for planner in self._planners.values():
            planner.end()
        self._models.close()
        self._client.close()
