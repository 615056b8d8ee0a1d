# SPDX-License-Identifier: Apache-2.0
"""Run the node `process_scheduler` (S3): make each instruction a process, follow it to its end, stop without any model."""

from collections.abc import Callable
from functools import partial

from ghostshell.msg import KernelState, ProcessHeartbeat
from std_msgs.msg import Bool, String

from function_tokens.builtins import STEP_NAMES
from ghostshell_ros.nodes.process_scheduler.prescription_server import PrescriptionServer
from ghostshell_ros.nodes.process_scheduler.process_advice import ProcessAdvice
from ghostshell_ros.nodes.process_scheduler.robot_link import RobotLink
from ghostshell_ros.runtime.node import Beat
from ghostshell_ros.runtime.process_server import TICK_S, ProcessServer, call_purposes
from ghostshell_ros.runtime.robot_setup import RobotSetup, declare_robot
from ghostshell_ros.wire.events import CLEAR_HINT, EventWriter, read_events
from ghostshell_ros.wire.qos import LATCHED, SENSORS
from planners.language.deeds import unproven
from planners.language.skills import Matcher
from planners.strategy import load_strategies, strategy_names
from skill_kernel.calls import ProcessHoldState
from skill_kernel.codes import TaskCode
from skill_kernel.config.sections import shown
from skill_kernel.events import CallEvent, CallKind, ModelEvent, Notice, NoticeKind, ProcessEvent, ProcessKind, RunEvent
from skill_kernel.processes.process import Process, SchedulerSettings
from skill_kernel.processes.scheduler import PLANNER, SCHEDULER

BEAT_S, REST_BEAT_S = 0.1, 0.5
"""Time between two heartbeats while a process lives, and while none does."""
DEAF = (
    "use the robot's own emergency stop: the safety gate does not confirm the halt, so the robot may still be moving; "
    "its tasks are told to end"
)


class ProcessSchedulerNode(ProcessServer):
    """Own the processes of one robot. A new instruction joins those that run; where two need the same exclusive
    subsystem, the preemption table decides (semantics section 5).

    An instruction that is nothing but a stop word halts the robot at once, without a model, until the halt is cleared.
    One that begins with a stop word ("stop, nod, then resume") pauses or ends at once what runs, and latches nothing.

    If the strategy of an instruction asks for advice, a language model (System 3, docs/planning.md) judges within that table
    what it means for those that run. Standing guidelines start reactive processes (docs/prescriptions.md).
    """

    def __init__(self) -> None:
        super().__init__("process_scheduler")
        robot = self._robot_setup = declare_robot(self)
        settings = self._settings(robot)
        self._events = EventWriter(self, ProcessEvent, ModelEvent, Notice)
        self._heartbeat = self.create_publisher(ProcessHeartbeat, "process_heartbeat", SENSORS)
        self._link = RobotLink(self, on_problem=self._problem, on_change=self._changed, on_amend=self._keep)
        self._core = self._link.core = self._scheduler(self._link, settings)
        self._beat = Beat(self, BEAT_S, REST_BEAT_S, lambda: self._core.living, self._answer_for_processes)
        self._halting = 0
        """Pending answers to stop words."""
        self._gate_is_halted, self._halt_cause = False, ""
        self._advice = ProcessAdvice(self, robot, self._core, self._events, halting=lambda: self.halted)
        default = load_strategies()[0].get(settings.strategy)
        if default is not None and (why := default.refusal(lambda role: self._advice.thinks)):
            self.get_logger().warning(why)
        self._open_doors()
        read_events(self, self._event)
        self.create_subscription(KernelState, "kernel_state", self._kernel_state, LATCHED)
        self.create_subscription(String, "halt_cause", lambda m: setattr(self, "_halt_cause", m.data), LATCHED)
        self.create_subscription(Bool, "halted", self._gate, LATCHED)
        for name, node in (("scheduler", SCHEDULER), ("planner", PLANNER)):
            self.create_subscription(ProcessHeartbeat, f"{name}_heartbeat", partial(self._alive, node), SENSORS)
        self._prescriptions = PrescriptionServer(self, robot, self._advice, self._events, stops=self.stops, begin=self.begin)
        self._open_store()
        self.steady_timer(TICK_S, self._core.tick)
        self._link.meet()
        self._publish()

    def _settings(self, robot: RobotSetup) -> SchedulerSettings:
        strategies = strategy_names()
        return SchedulerSettings(
            strategy=self.declare("strategy", "layered", "how instructions become actions", choices=strategies),
            strategies=strategies,
            idle=robot.config.idle,
            idle_after_s=self.declare(
                "idle_after_s", 5.0, "idle behaviour begins after nothing else has run for this time [s]", 0.0, 3600.0
            ),
            max_processes=self._max_processes(),
            purposes=call_purposes(robot.registry, robot.registry.text_skill),
            unproven=lambda process: unproven(process, robot.registry, robot.config.limits),
        )

    def _answer_for_new(self) -> None:
        """Send a heartbeat for a new process before anybody acts on it: else nobody would notice if this node died now."""
        self._beat.now()

    def _follow(self, process: Process, *, fresh: bool) -> None:
        self._advice.changed(process, fresh=fresh)

    def _answer_for_processes(self) -> None:
        """Send the heartbeat of the living processes: the skill kernel frees what a process without one holds."""
        self._heartbeat.publish(ProcessHeartbeat(process_ids=[p.process_id for p in self._core.living]))

    def _matcher(self) -> Matcher:
        return Matcher(self._robot_setup.registry, self._robot_setup.config.limits)

    # -- the halt -----------------------------------------------------------------------------------------------------

    @property
    def halted(self) -> bool:
        """Return whether the robot is halted, or is being halted."""
        return self._gate_is_halted or bool(self._halting)

    def halt_refusal(self) -> str:
        """Return why no instruction is taken; "" unless the robot is halted, or is being halted."""
        why = f" ({self._halt_cause})" if self._halt_cause else ""
        return f"the robot is halted{why}; {CLEAR_HINT}" if self.halted else ""

    def _stop_everything(self, text: str, then: Callable[[bool, str], object]) -> None:
        self._halting += 1
        told = f"told “{shown(text)}”"

        def answered(obeys: bool) -> None:
            self._answered()
            then(obeys, f"stopped and halted; {CLEAR_HINT}" if obeys else DEAF)

        self._link.halt(told, then=answered)
        if self._core.living:
            self._core.end_all(told)
        else:
            self._halting += 1
            self._link.interrupt("", "stop word", then=self._answered)

    def _answered(self, epoch: int = 0) -> None:
        self._halting -= 1
        self._core.learn_epoch(epoch)

    # -- what is reported ---------------------------------------------------------------------------------------------

    def _event(self, event: RunEvent) -> None:
        if isinstance(event, Notice) and event.error_code == TaskCode.NODE_UNAVAILABLE:  # a node gave up, perhaps this one
            self._core.fail(event.process_id, TaskCode.NODE_UNAVAILABLE, event.error_msg)
        self._advice.event(event)
        if isinstance(event, CallEvent) and event.function in STEP_NAMES and event.kind is not CallKind.CONTENTION:
            if event.function == "replace_steps":
                self._core.steps_replaced(event.process_id)
            return  # steps and branches exist only in the scheduler; the calls in them have events of their own
        if event.kind is ProcessKind.PLAN_ENDED and event.error_code == TaskCode.CANCELLED:
            self._link.learn_epoch()
        self._core.take(event)

    def _kernel_state(self, state: KernelState) -> None:
        self._core.kernel_state(
            ProcessHoldState(p.process_id, tuple(p.subsystems), tuple(p.pause_causes)) for p in state.processes
        )

    def _gate(self, message: Bool) -> None:
        was, self._gate_is_halted = self._gate_is_halted, message.data
        self._advice.halted(message.data)
        self._core.halted(message.data, self._halt_cause)
        if was and not message.data:
            self._events.write(Notice(kind=NoticeKind.HALT_CLEARED, text="the robot takes instructions again"))

    # -- the node -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Drop the open requests, and keep living processes as stopped ones."""
        self._advice.close()
        super().close()
