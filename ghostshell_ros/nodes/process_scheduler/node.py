# SPDX-License-Identifier: Apache-2.0
"""Node `process_scheduler` (S3): makes each instruction a process and follows it to its end; stops without any model."""

from __future__ import annotations

import secrets
import sys

from ghostshell.msg import ProcessArray, ProcessHeartbeat

from ghostshell_ros.nodes.process_scheduler.instruction_server import INSTRUCTION_CHARS, InstructionServer
from ghostshell_ros.nodes.process_scheduler.prescription_server import PrescriptionServer
from ghostshell_ros.nodes.process_scheduler.process_advice import ProcessAdvice
from ghostshell_ros.nodes.process_scheduler.reports import ProcessReports
from ghostshell_ros.nodes.process_scheduler.robot_link import RobotLink
from ghostshell_ros.runtime.data import data_folder
from ghostshell_ros.runtime.node import Health, Level
from ghostshell_ros.runtime.node_runtime import LATCHED, SENSORS, NodeStartError, RuntimeNode, run
from ghostshell_ros.runtime.robot_setup import declare_robot
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.process_messages import process_state
from planners.installed_strategies import strategy_names
from skill_kernel.codes import TaskCode
from skill_kernel.config.plugins import PluginError
from skill_kernel.events import ModelEvent, Notice, ProcessEvent, ProcessKind
from skill_kernel.processes.process import Process, ProcessSource, ProcessStatus, SchedulerSettings
from skill_kernel.processes.scheduler import ProcessScheduler
from skill_kernel.processes.store import ProcessStore, StoreError

TICK_S = 0.25
"""How often idle behaviour and what waits is looked at."""
_ENDED = 2
"""The last stage of a process that the log tells; received is 0, started 1."""


class ProcessSchedulerNode(RuntimeNode):
    """Owns the processes of one robot. A new instruction joins the running ones; where two need the same exclusive
    subsystem, the preemption table decides (semantics section 5).

    An instruction that is nothing but a stop word halts the robot at once, without a model, until the halt is cleared.
    One that begins with a stop word ("stop, nod, then resume") pauses or ends what runs at once and is not latched.
    Every process and its history is kept in `<data>/processes/<robot>.sqlite3`; living ones of an earlier run come back
    paused by the user.

    With a language model System 3 reads what a new instruction means for those that run, within that table and if its strategy
    asks for advice; standing guidelines begin reactive processes (docs/prescriptions.md).

    Topics: `instruction`, with `global_instruction` also `/instruction`, `events`, `kernel_state`, `halted`,
    `scheduler_heartbeat`, `observation`, `prescribe`, `reflex_states` (in); `processes` and `prescriptions` (latched),
    `process_heartbeat` (10 Hz), `events`, `prompts` (out). Action: `run_task`. Services: `control_process`, `prescribe`;
    client of `skill_kernel/process_lease`, `halt`, `compile_reflex` and the `interrupt` services. Parameters: `robot`,
    `data_dir`, `strategy`, `global_instruction`, `interrupt_deadline_s`, `max_instruction_chars`, `max_processes`,
    `idle_after_s`, `reactive_doors`, `prescriptions`, `model`, `models_file`, `cost_aware` (live), `advice_deadline_s`,
    `process_tokens`, `hour_tokens`, `budget_slow_from`, `budget_slowest_s`.
    """

    def __init__(self) -> None:
        super().__init__("process_scheduler")
        robot = declare_robot(self)
        settings = self._settings(robot.config.idle)
        deadline_s = self.declare(
            "interrupt_deadline_s",
            0.5,
            "a node that does not answer an interrupt in this time is skipped [s]",
            minimum=0.05,
            maximum=10.0,
        )
        self._robot = self.get_namespace().strip("/")
        self._told: dict[str, int] = {}
        self._publish_due = False
        self._store: ProcessStore | None = None
        self._events = EventWriter(self, ProcessEvent, ModelEvent, Notice)
        self._publisher = self.create_publisher(ProcessArray, "processes", LATCHED)
        self._heartbeat = self.create_publisher(ProcessHeartbeat, "process_heartbeat", SENSORS)
        link = RobotLink(self, deadline_s=deadline_s, on_problem=self._problem, on_change=self._changed, on_amend=self._keep)
        self._core = link.core = ProcessScheduler(link, new_id=lambda: secrets.token_hex(8), now=self.now_s, settings=settings)
        self._instructions = InstructionServer(self, self._core, self._events, link, gate_halted=lambda: self._reports.halted)
        self._advice = ProcessAdvice(self, robot, self._core, self._events, halting=lambda: self._instructions.halted)
        self._reports = ProcessReports(self, self._core, self._events, link, self._advice.event)
        self._prescriptions = PrescriptionServer(self, robot, self._instructions, self._advice, self._events)
        self._open_store(self.get_parameter("data_dir").value)
        self.steady_timer(TICK_S, self._core.tick)
        self.steady_timer(0.1, self._beat)
        link.meet()
        self._publish()

    def _settings(self, idle: str) -> SchedulerSettings:
        try:
            strategies = strategy_names()
        except PluginError as error:
            raise NodeStartError(str(error)) from error
        return SchedulerSettings(
            strategy=self.declare("strategy", "layered", "how instructions become actions", choices=strategies),
            strategies=strategies,
            idle=idle,
            idle_after_s=self.declare(
                "idle_after_s",
                5.0,
                "idle behaviour begins when nothing else has run for so long [s]",
                minimum=0.0,
                maximum=3600.0,
            ),
            max_processes=self.declare(
                "max_processes", 8, "processes that may live at a time, more are refused", minimum=1, maximum=16
            ),
        )

    def _open_store(self, data_dir: str) -> None:
        path = data_folder(data_dir) / "processes" / f"{self._robot.replace('/', '.') or 'robot'}.sqlite3"
        try:
            self._store = ProcessStore(path, on_problem=lambda why: self.call_soon(self._store_failed, why))
        except StoreError as error:
            self.call_soon(self._store_failed, f"{error}; until then processes are not kept")
            return
        self._told.update((p.process_id, _ENDED if p.status.ended else 1) for p in self._store.found)
        self._core.restore(self._store.found)

    def _store_failed(self, why: str) -> None:
        self._store = None
        self._problem(why)

    def _keep(self, process: Process) -> None:
        """Write a process down, and publish it soon."""
        if self._store is not None:
            self._store.save(process)
        if not self._publish_due:
            self._publish_due = True
            self.call_soon(self._publish_if_due)

    def _changed(self, process: Process) -> None:
        """Tell everybody of a process."""
        self._keep(process)
        fresh = process.process_id not in self._told
        if fresh:
            self._beat()  # before anybody acts on it: were we to die now, the kernel would not know that it had an owner
        if fresh or process.status.ended:
            self._publish()
        self._say(process)
        if fresh:
            self._events.write(
                ProcessEvent(kind=ProcessKind.STARTED, process_id=process.process_id, instruction=process.instruction[:1000])
            )
        if process.status.ended:
            self._events.write(
                ProcessEvent(
                    kind=ProcessKind.ENDED,
                    process_id=process.process_id,
                    error_code=process.code,
                    error_msg=process.message,
                    status=process.status.name,
                )
            )
        self._instructions.changed(process)
        self._advice.changed(process, fresh=fresh)

    def _say(self, process: Process) -> None:
        """Tell whoever watches the launch, in a line each, that it was received, has started, and how it ended."""
        told = self._told.get(process.process_id, -1)
        stage = _ENDED if process.status.ended else int(process.status is not ProcessStatus.WAITING)
        self._told[process.process_id] = max(told, stage)
        if process.source is ProcessSource.IDLE or stage <= told:
            return
        say, text = self.get_logger().info, f"instruction {process.instruction[:INSTRUCTION_CHARS]!r}"
        if told < 0:
            say(f"{text} received by {process.door}: process {process.process_id}")
        if stage:
            ended = "done" if process.status is ProcessStatus.SUCCESS else process.status.name.lower()
            what = ended if stage == _ENDED else "started"
            say(f"{text} {what}" + (f": {process.message}" if process.message else ""))

    def _publish_if_due(self) -> None:
        if self._publish_due:
            self._publish()

    def _publish(self) -> None:
        self._publish_due = False
        states = [process_state(p) for p in self._core.processes]
        self._publisher.publish(ProcessArray(stamp=self.get_clock().now().to_msg(), processes=states))

    def _beat(self) -> None:
        """The skill kernel frees what a process holds that nobody answers for any more."""
        self._heartbeat.publish(ProcessHeartbeat(process_ids=[p.process_id for p in self._core.living]))

    def _problem(self, why: str) -> None:
        self.get_logger().error(why)
        self._events.write(Notice(error_code=TaskCode.NODE_UNAVAILABLE, error_msg=why))

    def health(self) -> Health:
        """How many processes live, and whether they are kept on disk."""
        living = self._core.living
        values = {"living": len(living), "paused": sum(bool(p.pause_causes) for p in living)}
        if self._store is None:
            return Health("processes are not kept on disk", Level.WARN, values)
        return Health(f"{len(living)} processes", Level.OK, values)

    def close(self) -> None:
        """Keep what lives as stopped: a robot that is switched on again does not take up yesterday's walk."""
        self._advice.close()
        if self._store is not None:
            for process in self._core.living:
                self._store.save(process.shut_down(self.now_s(), "the robot was shut down while it ran"))
            self._store.close()


def main() -> int:
    """Entry point of the executable `process_scheduler`."""
    return run(ProcessSchedulerNode)


if __name__ == "__main__":
    sys.exit(main())
