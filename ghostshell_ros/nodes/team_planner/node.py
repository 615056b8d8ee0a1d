# SPDX-License-Identifier: Apache-2.0
"""Run the node `team_planner`: plan for several robots together, and call each at its own kernel. It has no body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from diagnostic_msgs.msg import DiagnosticArray
from ghostshell.msg import KernelState, ProcessHeartbeat, ProcessHold, ProcessState, Said, Subsystem

from ghostshell_ros.nodes.team_planner.halt_doors import HaltDoors
from ghostshell_ros.nodes.team_planner.team_link import TeamLink
from ghostshell_ros.nodes.team_planner.team_member import MemberSettings, TeamCall, TeamMember
from ghostshell_ros.nodes.team_planner.team_process import TeamDesk, TeamProcess
from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.layer_model import LayerModel, ModelBudget
from ghostshell_ros.runtime.lifecycle import TOPIC as DRIVER_STATES
from ghostshell_ros.runtime.model_setup import (
    ANSWER,
    deadlines_of,
    declare_model,
    declare_settings,
    hedged,
    optional_model,
    prepare_models,
)
from ghostshell_ros.runtime.node import Health, Level, NodeStartError
from ghostshell_ros.runtime.process_server import NAME_CHARS, TICK_S, ProcessServer, call_purposes
from ghostshell_ros.runtime.recollection import RecollectionClient
from ghostshell_ros.runtime.robot_setup import declare_data_dir, load_robot
from ghostshell_ros.runtime.strategy_host import HostTable
from ghostshell_ros.wire.events import EventWriter, read_events
from ghostshell_ros.wire.process_messages import process_state
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED, SENSORS
from planners.language.skills import Matcher
from planners.people import ASK, People, load_people
from planners.scene import Present
from planners.strategy import Heard, TeamStrategy, load_strategies, parameters_of
from skill_kernel.calls import ProcessHoldState
from skill_kernel.codes import TaskCode
from skill_kernel.config.sections import shown
from skill_kernel.events import CallEvent, CallKind, ModelEvent, Notice, ProcessEvent, ProcessKind, RunEvent, StreamEvent
from skill_kernel.processes.process import CallPurpose, Process, SchedulerSettings
from skill_kernel.processes.questions import MAX_ANSWER
from skill_kernel.processes.scheduler import PLANNER, SCHEDULER
from skill_kernel.robot import RobotConfigError
from skill_kernel.team import TeamConfig

STATE_DELAY_S = 0.01
"""Time from a change of a robot's state to the team's message of it, so that changes close together go out once."""


class TeamEvents(EventWriter):
    """Write a node's events and feed each back to the node: `heard` gets them in order, after the writer has returned."""

    def __init__(self, node: TeamPlanner, heard: Callable[[RunEvent], None], *classes: type[RunEvent]) -> None:
        super().__init__(node, *classes)
        self._soon = partial(node.call_soon, heard)

    def write(self, event: RunEvent) -> None:
        """Publish one event, and hand it on."""
        super().write(event)
        self._soon(event)


class TeamPlanner(ProcessServer):
    """Own the processes of a team and plan each by a strategy for several robots (docs/teams.md).

    People use it as they use a robot. Each call goes to the robot that it names, whose kernel, leases, epochs and halt work as
    usual: see `TeamMember`. When a robot is halted or lost, its calls end, the plan is told, and the others go on. A stop word
    halts all. `kernel_state` and `driver_states` merge those of the robots, `scheduler_heartbeat` means that one is in reach.
    """

    def __init__(self) -> None:
        super().__init__("team_planner")
        self._members: Mapping[str, TeamMember] = {}
        team = self._declare_team()
        self._events = TeamEvents(self, self._hear, CallEvent, StreamEvent, ProcessEvent, ModelEvent, Notice)
        self._members = self._declare_members(team)
        self._people = self._load_people(team)
        robots = [member.robot for member in self._members.values()]
        self._client = declare_model(self, robots[0])
        fast = optional_model(
            self, "fast_model", "what is asked as well when the model stays silent; empty: nothing", robots[0]
        )
        self._fast = fast or self._client
        found, broken = load_strategies()
        strategies = self._strategies = {name: s for name, s in found.items() if isinstance(s, TeamStrategy)}
        for why in broken.values():
            self.get_logger().error(why)
        self._link = TeamLink(
            self, self._members, on_change=self._changed, on_amend=self._keep, interrupt_plan=self._interrupt_plan
        )
        settings = self._settings(team, strategies)
        self._core = self._link.core = self._scheduler(self._link, settings)
        self._budget = ModelBudget(self)
        clients = {"model": hedged(self, self._client, fast), "fast_model": self._fast}
        roles = {role.name: clients[role.model] for strategy in strategies.values() for role in strategy.roles}
        self._models = LayerModel(self, roles, self._events, self._budget)
        parameters = (*ANSWER, *parameters_of(strategies.values()))
        self._halts = HaltDoors(self, self._members)
        self._open_doors()
        desk = TeamDesk(
            self,
            self._models,
            self._events,
            declare_settings(self, parameters, deadline_s=deadlines_of(self, "model").answer_s),
            None,
            RecollectionClient(self, thinks=any(map(self._models.thinks, roles))),
            data_folder(self.get_parameter("data_dir").value) / team.name,
            self._members,
            self._present,
            self._link.stop,
            self._questions,
            people=self._people,
        )
        self._processes: HostTable[TeamStrategy, TeamProcess] = HostTable(
            strategies, broken, self._models, partial(TeamProcess, desk)
        )
        if why := strategies[settings.strategy].refusal(self._models.thinks):
            self.get_logger().warning(why)
        self.create_subscription(Said, "said", self._said, INSTRUCTION)
        self._heartbeat = self.create_publisher(ProcessHeartbeat, "scheduler_heartbeat", SENSORS)
        self._kernel = self.create_publisher(KernelState, "kernel_state", LATCHED)
        self._drivers = self.create_publisher(DiagnosticArray, DRIVER_STATES, LATCHED)
        self._state_due = False
        for name in self._members:
            read_events(self, self._contention, CallEvent, robot=name)
        self._open_store()
        self._core.reach()
        self.steady_timer(TICK_S, self._tick)
        self._publish()
        prepare_models(self, (self._client, self._fast), self._prepare)

    # -- what it is made of -------------------------------------------------------------------------------------------

    def _declare_team(self) -> TeamConfig:
        named = self.declare("team", "kitchen", "team, a name in config/teams or the path of a YAML file")
        try:
            team = TeamConfig.load(named)
        except RobotConfigError as error:
            raise NodeStartError(f"parameter team: {error}") from error
        if (own := self.get_namespace().strip("/")) in team.robots:
            raise NodeStartError(f"the team cannot share the namespace of its robot '{own}': start it in another one")
        return team

    def _load_people(self, team: TeamConfig) -> People:
        try:
            known = load_people(team.people)
        except RobotConfigError as error:
            raise NodeStartError(f"people of team '{team.name}': {error}") from error
        if both := next((name for name in known if name in team.robots), None):
            raise NodeStartError(f"'{both}' is a robot and a person of team '{team.name}'; name one of them otherwise")
        return People(known, now=self.steady_now, on_said=lambda said: self._deliver(Heard(said)))

    def _declare_members(self, team: TeamConfig) -> dict[str, TeamMember]:
        held = "a call waits so long for a subsystem that another process of its robot holds [s]"
        silence = "a kernel silent about a running call so long is lost [s]"
        settings = MemberSettings(
            ready_s=self.declare("kernel_ready_s", 10.0, "wait for a robot's kernel at most [s]", 0.1, 60.0),
            silence_s=self.declare("kernel_silence_s", 1.0, silence, 0.2, 60.0),
            held_s=self.declare("held_s", 20.0, held, 0.1, 3600.0),
            send_images=self.declare("send_images", True, "show the model the robots' last images"),
        )
        folder = declare_data_dir(self)
        members = {}
        for name, file in team.robots.items():
            members[name] = TeamMember(
                self,
                name,
                load_robot(self, file, folder).named(name),
                settings,
                write=self._events.write,
                paused=self._paused,
                on_ended=self._call_ended,
                on_state=self._robot_changed,
                on_problem=self._problem,
                on_observed=self._observed,
            )
        return members

    def _settings(self, team: TeamConfig, strategies: Mapping[str, TeamStrategy]) -> SchedulerSettings:
        if not strategies:
            raise NodeStartError("no strategy is installed that plans for a team; install one (docs/strategies.md)")
        chosen = self.declare("strategy", "", "how instructions become actions; empty: as the team's file says")
        default = chosen or team.strategy or next(iter(strategies))
        if default not in strategies:
            known = ", ".join(strategies)
            raise NodeStartError(f"strategy '{shown(default)}' of team '{team.name}' plans for no team; use one of {known}")
        robots = [member.robot for member in self._members.values()]
        purposes = [call_purposes(robot.registry, robot.registry.text_skill) for robot in robots]
        return SchedulerSettings(
            strategy=default,
            strategies=tuple(strategies),
            max_processes=self._max_processes(),
            purposes={name: purpose for one in purposes for name, purpose in one.items()} | {ASK: CallPurpose.SPEAK},
            team=True,
        )

    def _matcher(self) -> Matcher:
        robots = [member.robot for member in self._members.values()]
        skills = {skill.name: skill for robot in robots for skill in robot.registry}
        return Matcher(skills.values(), {name: limits for robot in robots for name, limits in robot.config.limits.items()})

    def _present(self) -> Present:
        return next(iter(self._members.values())).view.present()

    def _prepare(self) -> None:
        for strategy in self._strategies.values():
            strategy.prepare()

    # -- processes ----------------------------------------------------------------------------------------------------

    def _paused(self, process_id: str) -> bool:
        process = self._core.get(process_id)
        return process is not None and bool(process.pause_causes)

    def _follow(self, process: Process, *, fresh: bool) -> None:
        self.call_soon(self._plan, process_state(process))

    def _plan(self, process: ProcessState) -> None:
        self._processes.take(process)
        if process.status == ProcessState.IN_PROGRESS:
            for member in self._members.values():
                member.try_waiting()

    def _publish(self) -> None:
        super()._publish()
        self._budget.processes(self._published)
        for member in self._members.values():
            member.view.processes(self._published)

    def _interrupt_plan(self, process_id: str, cause: str) -> None:
        if (process := self._processes.get(process_id)) is not None:
            process.interrupt(cause)

    def _tick(self) -> None:
        self._core.alive(PLANNER, self._processes.unfinished())
        called = {call.process_id for member in self._members.values() for call in member.calls.values()}
        self._core.alive(SCHEDULER, called | {process.process_id for process in self._processes.values() if process.asks})
        self._core.tick()
        ready = [member.ready() for member in self._members.values()]  # asks them all: `ready` is what probes a robot
        if any(ready):
            self._heartbeat.publish(ProcessHeartbeat(process_ids=[p.process_id for p in self._core.living]))

    # -- what happens -------------------------------------------------------------------------------------------------

    def _hear(self, event: RunEvent) -> None:
        """Handle the events of this node, in order."""
        if isinstance(event, Notice) and event.error_code == TaskCode.NODE_UNAVAILABLE:  # a callback of a process has failed
            self._core.fail(event.process_id, TaskCode.NODE_UNAVAILABLE, event.error_msg)
        self._budget.hear(event)
        if isinstance(event, CallEvent) and event.kind is not CallKind.CONTENTION:
            for name in event.channels:  # in a team, robots are the channels
                self._members[name].view.call(event)
        self._core.take(event)
        if isinstance(event, CallEvent) and (process := self._processes.get(event.process_id)) is not None:
            process.call_event(event)

    def _call_ended(self, ended: TeamCall) -> None:
        if not any(self._link.calls(ended.process_id)):
            self._events.write(ProcessEvent(kind=ProcessKind.DRAINED, process_id=ended.process_id))

    def _contention(self, event: CallEvent) -> None:
        """Tell the scheduler that another process of a robot keeps a team's call waiting."""
        owners = self._owners()
        if event.kind is CallKind.CONTENTION and event.process_id in owners:
            process_id, holder_id = owners[event.process_id], owners.get(event.holder_id, event.holder_id)
            self._events.write(replace(event, process_id=process_id, holder_id=holder_id, channels=(event.robot,)))

    def _owners(self) -> dict[str, str]:
        """Map the process ids at the robots' kernels, one a call, to the team's processes."""
        return {c.spec.process_id: c.process_id for m in self._members.values() for c in m.calls.values()}

    def _said(self, message: Said) -> None:
        """Take what a person says to the team. A stop word halts every robot."""
        if self.stops(message.text):
            return
        self._people.hear(message.person[:NAME_CHARS], message.text[:MAX_ANSWER], private=message.in_private)

    def _deliver(self, event: Heard) -> None:
        """Tell each plan what a person said to the team, or answered in private."""
        for process in list(self._processes.values()):
            process.deliver(event)

    def _observed(self) -> None:
        for process in list(self._processes.values()):
            process.observed()

    def _robot_changed(self) -> None:
        """Schedule one message of state for changes that come together."""
        if not self._state_due:
            self._state_due = True
            self.call_later(STATE_DELAY_S, self._publish_state)

    def _publish_state(self) -> None:
        self._state_due = False
        self._core.halted(self._halts.standing, self._halts.causes)
        owners, subsystems = self._owners(), []
        held: dict[str, list[str]] = {}
        for name, member in self._members.items():
            for one in member.kernel.subsystems:
                about = {"name": f"{name}/{one.name}", "exclusive_per_process": one.exclusive_per_process}
                about |= {"parallel": one.parallel, "call_ids": one.call_ids}
                subsystems.append(Subsystem(process_id=owners.get(one.process_id, one.process_id), **about))
                if one.process_id in owners:
                    held.setdefault(owners[one.process_id], []).append(f"{name}/{one.name}")
        self._core.kernel_state(ProcessHoldState(process_id, tuple(names)) for process_id, names in held.items())
        stamp = self.get_clock().now().to_msg()
        self._kernel.publish(
            KernelState(
                stamp=stamp,
                halted=self._halts.standing,
                halt_cause=self._halts.causes,
                subsystems=subsystems,
                processes=[ProcessHold(process_id=process_id, subsystems=names) for process_id, names in held.items()],
                running=[c.spec.call_id for m in self._members.values() for c in m.calls.values() if c.begun_s >= 0],
            )
        )
        drivers = DiagnosticArray(status=[status for member in self._members.values() for status in member.drivers])
        drivers.header.stamp = stamp
        self._drivers.publish(drivers)

    # -- the halt -----------------------------------------------------------------------------------------------------

    def halt_refusal(self) -> str:
        """Return why no instruction is taken; "" while a robot can act."""
        how = f"look at each robot and clear its halt first: {self._halts.how_to_clear}"
        return f"{self._halts.causes}; {how}" if self._halts.standing else ""

    def _stop_everything(self, text: str, then: Callable[[bool, str], object]) -> None:
        told = f"told “{shown(text)}”"
        self._halts.halt(told, then)
        self._core.end_all(told)

    # -- the node -----------------------------------------------------------------------------------------------------

    def health(self) -> Health:
        """Return how much lives, and which robots are out of reach."""
        base = super().health()
        lost = [name for name, member in self._members.items() if not member.ready()]
        if lost and base.level is Level.OK:
            return Health(f"no kernel of {', '.join(lost)} answers", Level.WARN, base.values)
        return base

    def close(self) -> None:
        """Stop nothing by hand: with the heartbeats the robots' kernels stop what it asked for."""
        self._halts.close()
        for process in self._processes.values():
            process.close("the team planner ends")
        self._models.close()
        for client in dict.fromkeys((self._client, self._fast)):
            client.close()
        super().close()
