# SPDX-License-Identifier: Apache-2.0
"""A whole robot brought up from its launch file, and a node that hears and says everything, for the pipeline's tests."""

from __future__ import annotations

import difflib
import fnmatch
import gc
import math
import os
import queue
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticArray
from ghostshell.action import ExecuteSkill, RunTask
from ghostshell.msg import FunctionToken, KernelState, LlmChunk, ProcessArray, ProcessState
from ghostshell.srv import ControlProcess, Interrupt
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from bench.clearing import Clearing
from ghostshell_ros import launcher
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.security import Policy, rights
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import DIAGNOSTICS as QOS
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED, SENSORS, SET_POINTS, STREAM
from ros_support import ROOT, ask, wait_until
from scripts.graph_map import committed, rendered, settled_graph, used
from skill_kernel.events import CallKind, EventKind, ProcessKind, RunEvent
from skill_kernel.robot import RobotConfig
from skill_kernel.roles import Role

NODES = {
    "sim",
    "safety_gate",
    "skill_kernel",
    "process_scheduler",
    "action_planner",
    "token_parser",
    "channel_scheduler",
    "move_joints_driver",
    "speak_driver",
    "play_sound_driver",
    "show_face_driver",
    "lifecycle_manager",
}
KALOS_NODES = NODES - {"move_joints_driver", "show_face_driver"} | {"base_driver", "posture_driver"}
INTERRUPTED_NODES = ("skill_kernel", "channel_scheduler", "token_parser", "action_planner")
LIMITS = {name: (joint.lower, joint.upper) for name, joint in RobotConfig.load("coco").joints.items()}
UP_S = 40.0
WATCHER = "watcher"
"""Name of the tests' own node in a robot's namespace."""


class Task:
    """A RunTask goal and what was heard of it."""

    def __init__(self) -> None:
        self.sent: Any = None
        self.feedback: list[RunTask.Feedback] = []
        self.ends: list[tuple[GoalEnd, Any]] = []

    def result(self, timeout_s: float = 20.0) -> RunTask.Result:
        """Wait for the one result."""
        wait_until(lambda: self.ends, timeout_s, "the task's result")
        ((_, result),) = self.ends
        return result

    @property
    def process_id(self) -> str:
        wait_until(lambda: self.feedback or self.ends, 5.0, "the task's process id")
        return str(self.feedback[0].state.process_id if self.feedback else self.ends[0][1].process_id)


class Observer(RuntimeNode):
    """Hears everything a robot publishes, with the steady time of each set-point, and can say everything to it."""

    def __init__(self, namespace: str) -> None:
        super().__init__(WATCHER, namespace=namespace)
        self.events: list[RunEvent] = []
        self.heard_s: list[float] = []
        self.chunks: list[tuple[float, LlmChunk]] = []
        self.tokens: list[FunctionToken] = []
        self.processes: list[ProcessState] = []
        self.kernel: KernelState | None = None
        self.halted: bool | None = None
        self.joints: dict[str, float] = {}
        self.pose: tuple[float, float, float] | None = None
        self.set_points: list[tuple[float, dict[str, float]]] = []
        read_events(self, self._on_event)
        self.create_subscription(LlmChunk, "llm_chunks", lambda m: self.chunks.append((time.monotonic(), m)), STREAM)
        self.create_subscription(FunctionToken, "function_tokens", self.tokens.append, STREAM)
        self.create_subscription(ProcessArray, "processes", lambda m: setattr(self, "processes", m.processes), LATCHED)
        self.create_subscription(KernelState, "kernel_state", lambda m: setattr(self, "kernel", m), LATCHED)
        self.drivers: dict[str, str] = {}
        self.create_subscription(DiagnosticArray, "driver_states", self._on_drivers, LATCHED)
        self.reported_s: dict[str, float] = {}
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, QOS)
        self.create_subscription(Bool, "halted", lambda m: setattr(self, "halted", m.data), LATCHED)
        self.create_subscription(JointState, "joint_states", self._on_joints, SENSORS)
        self.create_subscription(JointState, "joint_command", self._on_set_points, SET_POINTS)
        self.create_subscription(Odometry, "odom", self._on_odometry, SENSORS)
        self.instruction = self.create_publisher(String, "instruction", INSTRUCTION)
        self.global_instruction = self.create_publisher(String, "/instruction", INSTRUCTION)
        self.chunk_out = self.create_publisher(LlmChunk, "llm_chunks", STREAM)
        self.clients_of = {name: self.create_client(Interrupt, f"{name}/interrupt") for name in INTERRUPTED_NODES}
        self.halt = self.create_client(Trigger, "halt")
        self.clear_halt = Clearing(self)
        self.control = self.create_client(ControlProcess, "control_process")
        self.tasks = GoalClient(self, RunTask, "run_task")
        self.calls = GoalClient(self, ExecuteSkill, "execute_skill")
        self.servers_ready = False
        self._look = self.steady_timer(0.05, self._look_for_servers)

    def _look_for_servers(self) -> None:
        self.servers_ready = self.tasks.server_is_ready() & self.calls.server_is_ready()
        if self.servers_ready:
            self._look.cancel()

    def _on_drivers(self, message: DiagnosticArray) -> None:
        self.drivers = {status.name: status.message for status in message.status}

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            robot, _, node = status.name.rpartition("/")
            if f"/{robot}" == self.get_namespace():
                self.reported_s[node] = time.monotonic()

    def _on_event(self, event: RunEvent) -> None:
        self.heard_s.append(time.monotonic())
        self.events.append(event)

    def _on_joints(self, message: JointState) -> None:
        self.joints = dict(zip(message.name, message.position, strict=True))

    def _on_set_points(self, message: JointState) -> None:
        self.set_points.append((time.monotonic(), dict(zip(message.name, message.position, strict=True))))

    def _on_odometry(self, message: Odometry) -> None:
        p = message.pose.pose.position
        self.pose = (p.x, p.y, p.z)

    # -- saying things ------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        self.instruction.publish(String(data=text))

    def task(self, instruction: str, *, door: str = "", sender: str = "test", role: Role = Role.OPERATOR) -> Task:
        """Send an instruction as a RunTask goal."""
        task = Task()

        def send() -> None:
            goal = RunTask.Goal(instruction=instruction, sender=sender, door=door)
            task.sent = self.tasks.send(
                signed(self, "run_task", goal, role),
                on_end=lambda end, result: task.ends.append((end, result)),
                on_feedback=task.feedback.append,
            )

        self.call_soon(send)
        return task

    def ask(self, client: Any, request: Any, timeout_s: float = 5.0, *, again_s: float = math.inf) -> Any:
        """Call a service and wait for its answer; see `ros_support.ask`."""
        return ask(self, client, request, timeout_s, again_s=again_s)

    def interrupt(self, process_id: str, cause: str = "test") -> int:
        """Interrupt along the whole way, in the order of the architecture; gives the new epoch."""
        epoch = 0
        for name in INTERRUPTED_NODES:
            request = Interrupt.Request(process_id=process_id, cause=cause, epoch=epoch)
            epoch = self.ask(self.clients_of[name], request).epoch
        return epoch

    def newest_epoch(self) -> int:
        """Return the epoch that a new process should have."""
        return int(self.ask(self.clients_of["skill_kernel"], Interrupt.Request(process_id=uuid.uuid4().hex)).epoch)

    def stream(self, text: str, *, process_id: str = "", pieces: int = 1, last: bool = True) -> str:
        """Publish a stream of one's own, cut into pieces; gives its process id, which is also the stream's."""
        epoch = self.newest_epoch()
        process_id = process_id or f"own-{uuid.uuid4().hex[:12]}"
        size = max(1, -(-len(text) // pieces))
        parts = [text[i : i + size] for i in range(0, len(text), size)] or [""]
        for seq, part in enumerate(parts):
            self.chunk_out.publish(
                LlmChunk(
                    process_id=process_id,
                    stream_id=process_id,
                    epoch=epoch,
                    seq=seq,
                    text=part,
                    last=last and seq == len(parts) - 1,
                )
            )
        return process_id

    # -- hearing things -----------------------------------------------------------------------------------------------

    def of(self, process_id: str, kind: EventKind | None = None) -> list[RunEvent]:
        """Events of a process, in the order they came."""
        return [e for e in self.events if e.process_id == process_id and kind in (None, e.kind)]

    def codes(self, process_id: str) -> set[int]:
        """Error codes that events of a process carried."""
        return {e.error_code for e in self.of(process_id) if e.error_code}

    def wait_event(self, kind: EventKind, timeout_s: float = 10.0, since: int = 0, **fields: Any) -> RunEvent:
        """Wait for an event of that kind with these fields, not among the first `since`."""

        def found() -> RunEvent | None:
            for event in self.events[since:]:
                if event.kind == kind and all(getattr(event, name) == value for name, value in fields.items()):
                    return event
            return None

        wait_until(found, timeout_s, f"event {kind} with {fields}")
        event = found()
        assert event is not None
        return event

    def drained(self, process_id: str, timeout_s: float = 15.0) -> list[RunEvent]:
        """Wait until the process's streams and calls have ended; gives the ends of its calls."""
        self.wait_event(ProcessKind.DRAINED, timeout_s, process_id=process_id)
        return self.of(process_id, CallKind.ENDED)

    def process(self, process_id: str) -> ProcessState | None:
        return next((p for p in self.processes if p.process_id == process_id), None)

    def wait_status(self, process_id: str, status: int, timeout_s: float = 10.0) -> ProcessState:
        def reached() -> bool:
            state = self.process(process_id)
            return state is not None and state.status == status

        wait_until(reached, timeout_s, f"process {process_id} has status {status}")
        state = self.process(process_id)
        assert state is not None
        return state

    def hears_motion(self) -> bool:
        """Return whether set-points came within the last 0.1 s."""
        return bool(self.set_points) and time.monotonic() - self.set_points[-1][0] < 0.1

    def still_since(self, since_s: float) -> bool:
        """Return whether the set-points have not changed since then."""
        later = [points for at, points in self.set_points if at >= since_s]
        return all(points.get(name) == later[0].get(name) for points in later for name in points) if later else True

    def wait_still(self, for_s: float, timeout_s: float) -> float:
        """Wait until set-points have neither come nor changed for a time; gives the steady time of the last change."""
        changed_s = [0.0]

        def last_change() -> float:
            points = self.set_points
            last = points[-1][1] if points else {}
            at = 0.0
            for when, values in reversed(points):
                if any(abs(last.get(name, value) - value) > 1e-6 for name, value in values.items()):
                    break
                at = when
            changed_s[0] = at
            return at

        wait_until(lambda: time.monotonic() - last_change() > for_s, timeout_s, "the joints' set-points stand still")
        return changed_s[0]

    def beyond_limits(self) -> list[dict[str, float]]:
        """Set-points that left the joints' limits."""
        return [
            points
            for _, points in self.set_points
            if any(not LIMITS[name][0] - 1e-6 <= value <= LIMITS[name][1] + 1e-6 for name, value in points.items())
        ]


class BroughtUp:
    """A running robot: its processes, and an observer of what it does."""

    def __init__(self, events: queue.SimpleQueue[launcher.Event], observer: Any, nodes: Collection[str] = NODES) -> None:
        self._events = events
        self.observer = observer
        self.nodes = frozenset(nodes)
        self.log: list[str] = []
        self._pids: dict[str, list[int]] = {}
        self._exited: list[launcher.Event] = []

    def take_events(self) -> None:
        while not self._events.empty():
            event = self._events.get()
            if event.returncode is not None:
                self._exited.append(event)
            elif event.pid:
                self._pids.setdefault(event.name.rpartition("-")[0], []).append(event.pid)
            elif not event.level:
                self.log.append(f"[{event.name}] {event.text}")

    @property
    def exited(self) -> list[launcher.Event]:
        """Processes that have ended."""
        self.take_events()
        return self._exited

    def pid(self, executable: str) -> int:
        """Return the pid of the process that was started last from that executable."""
        self.take_events()
        return self._pids[executable][-1]

    def pids(self, executable: str) -> list[int]:
        """Of all the processes that were started from that executable, in turn."""
        self.take_events()
        return self._pids[executable]

    def kill(self, executable: str) -> float:
        """Kill -9; gives the steady time."""
        os.kill(self.pid(executable), signal.SIGKILL)
        return time.monotonic()

    def alive(self) -> bool:
        """Return whether no process has ended."""
        return not self.exited


def config_dir(folder: Path, models: dict[str, Any] | None = None, **changes: dict[str, Any]) -> Path:
    """Return a copy of the shipped configuration, with named models of the test's own and other parameters by node."""
    target = folder / "config"
    shutil.copytree(ROOT / "config", target)
    if models is not None:
        (target / "models.yaml").write_text(yaml.safe_dump({"default": next(iter(models)), "models": models}))
    for node, parameters in changes.items():
        file = target / f"{node}.yaml"
        data = yaml.safe_load(file.read_text())
        data[f"/**/{node}"]["ros__parameters"].update(parameters)
        file.write_text(yaml.safe_dump(data))
    return target


@contextmanager
def brought_up(
    folder: Path,
    config: Path | None = None,
    *,
    launch: str = "coco",
    nodes: Collection[str] = NODES,
    observer_class: type[Observer] = Observer,
    also_respawn: Collection[str] = (),
    **arguments: str,
) -> Iterator[BroughtUp]:
    """Start launch/<launch>.launch.xml, in a namespace of its own unless one is given, and wait until everything is there.

    There is no memory unless `memory` is given, no page unless `page` is, and the strategy is `stream` unless `strategy` is. A
    process that ends does not take the others with it, so that a test sees what they do without it; of the executables
    `also_respawn` names it is started anew, as a person would.
    """
    name = arguments.setdefault("robot_name", f"t{os.getpid()}_{uuid.uuid4().hex[:6]}")
    arguments.setdefault("memory", "false")
    arguments.setdefault("page", "false")
    if 'name="strategy"' in (ROOT / "launch" / f"{launch}.launch.xml").read_text():
        arguments.setdefault("strategy", "stream")
    arguments["config_dir"] = str(config or ROOT / "config")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "GHOSTSHELL_DATA": str(folder / "data"), "ROS_HOME": str(folder)}
    specs = launcher.describe(ROOT / "launch" / f"{launch}.launch.xml", arguments, environment)
    specs = [replace(spec, shutdown_on_exit=False) for spec in specs]
    specs = [
        replace(spec, respawn=True, respawn_delay_s=1.0) if spec.name.rpartition("-")[0] in also_respawn else spec
        for spec in specs
    ]
    observer = observer_class(f"/{name}")
    host = NodeHost([observer])
    host.start()
    try:
        events: queue.SimpleQueue[launcher.Event] = queue.SimpleQueue()
        with launcher.LaunchRun(specs, listener=events.put) as run:
            run.start()
            robot = BroughtUp(events, observer, nodes)
            try:
                wait_until(lambda: not missing(robot), UP_S, lambda: "\n".join([f"missing: {missing(robot)}", *robot.log]))
                yield robot
            finally:
                robot.take_events()
                (folder / "log.txt").write_text("\n".join(robot.log))
    finally:
        host.close()
    if robot.log and any("Traceback" in line for line in robot.log):
        print("\n".join(robot.log))
        pytest.fail("a node of the robot logged a traceback")


def missing(robot: BroughtUp) -> list[str]:
    """Return what is not there yet: nodes, what the observer needs connected both ways, active drivers, the model's SDK."""
    if not robot.alive():
        pytest.fail("a process ended while the robot was starting:\n" + "\n".join(robot.log))
    observer = robot.observer
    found = {name for name, ns in observer.get_node_names_and_namespaces() if ns == observer.get_namespace()}
    clients = [*observer.clients_of.values(), observer.halt, observer.clear_halt, observer.control]
    active = {name.rpartition("/")[2] for name, state in observer.drivers.items() if state == "active"}
    there = {
        "halted is false": observer.halted is False,
        "kernel_state": observer.kernel is not None,
        "joint_states": bool(observer.joints),
        "pose": observer.pose is not None,
        "a reader of instruction": observer.instruction.get_subscription_count() > 0,
        "readers of chunks": observer.chunk_out.get_subscription_count() > 1,
        "writers of events": observer.count_publishers("events/notices") >= 4,
        "action servers": observer.servers_ready,
        "nothing but active drivers": len(active) == len(observer.drivers),
        "the model": any("action_planner]: model" in line and line.endswith("is ready") for line in robot.log),
    }
    nodes = [node for node in robot.nodes if node not in found or (node.endswith("_driver") and node not in active)]
    services = [client.srv_name for client in clients if not client.service_is_ready()]
    return [*sorted(nodes), *services, *(what for what, is_so in there.items() if not is_so)]


def assert_mapped(robot: BroughtUp, name: str) -> None:
    """Hold the map in docs/architecture.md, and the policy of SROS 2 made of it, against the running graph."""
    hold_mapped(robot.observer, robot.observer.get_namespace(), name)


def hold_mapped(node: Any, namespace: str, name: str) -> None:
    """Hold the map and the policy of a robot or team against the graph of `namespace`, as a node sees it."""
    gc.collect()  # the nodes of earlier tests leave the graph when their last reference goes
    graph = settled_graph(node, namespace, ignored=(WATCHER,))
    changed = list(difflib.unified_diff(committed(name).splitlines(), rendered(graph).splitlines(), n=0, lineterm=""))
    assert not changed, "\n".join(["the graph has changed: run python3 -m scripts.graph_map and read the difference", *changed])
    policy = Policy(name, namespace.strip("/"))
    for label in graph.nodes:
        place, one = ("/", label[1:]) if label.startswith("/") else (namespace, label)
        enclave = f"{namespace}/{one}" if f"{namespace}/{one}" in policy.enclaves else f"{namespace}/drivers"
        allowed = rights(policy.permissions(enclave, 0))
        lacking = {
            (verb, topic)
            for verb, topic in used(node, one, place)
            if not any(verb == v and fnmatch.fnmatchcase(topic, pattern) for v, pattern in allowed)
        }
        assert not lacking, f"{enclave} may not what {one} does: {sorted(lacking)}; see scripts/security_policy.py"


def only(found: list[RunEvent], function: str) -> RunEvent:
    """Return the one event of a function."""
    (event,) = [e for e in found if e.function == function]
    return event


Starts = Callable[..., BroughtUp]
