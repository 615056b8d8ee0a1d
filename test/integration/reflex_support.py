# SPDX-License-Identifier: Apache-2.0
"""A kernel, the node of the reflexes, and a node that stands for all others of the robot."""

from __future__ import annotations

import math
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from ghostshell.action import ExecuteSkill
from ghostshell.msg import KernelState, Observation, ObservationField, ProcessHeartbeat, ReflexStateArray, SkillCall
from ghostshell.msg import ReflexState as State
from ghostshell.srv import CompileReflex, ProcessLease
from reflex_robot import ROBOT_YAML
from std_msgs.msg import Bool

from ghostshell_ros.runtime.goal_client import GoalClient
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import DIAGNOSTICS as QOS
from ghostshell_ros.wire.qos import HEARTBEATS, LATCHED, OBSERVATION, SET_POINTS
from ros_support import ROOT, Processes, ask, spun, wait_until
from skill_kernel.events import EventKind, NoticeKind, RunEvent
from skill_kernel.roles import ACT_OF, Role, key_role

BACK = "def condition():\n    return near_m() < 0.2\n\n\ndef action():\n    move_back(distance_m=0.5)\n"
SUPPORT = str(ROOT / "test" / "support")
NEAR, FAR = 0.1, 2.0


def reflex(name: str, condition: str, *action: str, **settings: Any) -> dict[str, Any]:
    """Return a shipped reflex."""
    body = "".join(f"    {line}\n" for line in action)
    source = f"def condition():\n    return {condition}\n\n\ndef action():\n{body}"
    return {"name": name, "sentence": name, "source": source, "cooldown_s": 0.2, **settings}


class StandIn(RuntimeNode):
    """The observer, a scheduler with one patrol, an operator, and ears for all that the node says."""

    def __init__(self, namespace: str) -> None:
        super().__init__("stand_in", namespace=namespace)
        self.near, self.loud, self.silent = FAR, False, False
        self.events: list[RunEvent] = []
        self.stops: list[tuple[float, Twist]] = []
        self.states: dict[str, State] = {}
        self.array: ReflexStateArray | None = None
        self.kernel: KernelState | None = None
        self.said_of_itself = ""
        self.walker = "walker"
        self._patrols = 0
        self._seq = 0
        self._out = self.create_publisher(Observation, "observation", OBSERVATION)
        self._beat = self.create_publisher(ProcessHeartbeat, "process_heartbeat", HEARTBEATS)
        self.teleop = self.create_publisher(Bool, "teleop_active", LATCHED)
        self.halted = self.create_publisher(Bool, "halted", LATCHED)
        read_events(self, self.events.append)
        self.create_subscription(Twist, "cmd_vel_reflex", lambda m: self.stops.append((time.monotonic(), m)), SET_POINTS)
        self.create_subscription(ReflexStateArray, "reflex_states", self._on_states, LATCHED)
        self.create_subscription(KernelState, "kernel_state", lambda m: setattr(self, "kernel", m), LATCHED)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, QOS)
        self.service = self.create_client(CompileReflex, "compile_reflex")
        self.lease = self.create_client(ProcessLease, "skill_kernel/process_lease")
        self.calls = GoalClient(self, ExecuteSkill, "execute_skill")
        self.steady_timer(0.05, self.observe)
        self.steady_timer(0.1, lambda: self._beat.publish(ProcessHeartbeat(process_ids=[self.walker])))

    def _on_states(self, message: ReflexStateArray) -> None:
        self.array, self.states = message, {r.name: r for r in message.reflexes}

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        name = f"{self.get_namespace().strip('/')}/reflexes"
        self.said_of_itself = next((status.message for status in message.status if status.name == name), self.said_of_itself)

    def observe(self) -> float:
        """Send an observation now; gives the steady time."""
        self._seq += 1
        near = ObservationField(name="near_m", kind=ObservationField.NUMBER, max_age_s=0.5, number=self.near)
        loud = ObservationField(name="loud", kind=ObservationField.BOOLEAN, max_age_s=0.5, flag=self.loud)
        stamp = self.get_clock().now().to_msg()
        at = time.monotonic()
        if not self.silent:
            self._out.publish(Observation(stamp=stamp, seq=self._seq, fields=[near, loud]))
        return at

    def comes(self, near: float) -> float:
        """Something is so near, from now on; gives the steady time."""
        self.near = near
        return self.observe()

    def patrol(self) -> None:
        """Start a patrol, of a process of its own whose name begins with `walker`, and wait until it runs."""
        self._patrols += 1
        self.walker = f"walker-{self._patrols}"
        call = SkillCall(
            process_id=self.walker, stream_id="s", call_id=uuid.uuid4().hex, function="patrol", channels=["movement"]
        )
        goal = ExecuteSkill.Goal(call=call)
        wait_until(self.calls.server_is_ready, 10.0, "the kernel answers")
        phases: list[str] = []
        self.call_soon(
            lambda: self.calls.send(
                goal, on_end=lambda *_: None, on_feedback=lambda f: phases.append(f.phase), goal_id=bytes.fromhex(call.call_id)
            )
        )
        wait_until(lambda: phases, 5.0, "the patrol runs")

    def of(self, beginning: str, kind: EventKind | None = None, since: int = 0) -> list[RunEvent]:
        """Events of processes whose id begins so."""
        return [e for e in self.events[since:] if e.process_id.startswith(beginning) and kind in (None, e.kind)]

    def ask(self, command: str, timeout_s: float = 10.0, role: Role | None = None, **fields: Any) -> Any:
        """Ask compile_reflex and wait for the answer."""
        request = CompileReflex.Request(command=getattr(CompileReflex.Request, command), **fields)
        if command == "APPROVE":
            for state in [state for state in self.listed() if state.name == request.name]:
                request.sentence, request.source = state.sentence, state.source
        return ask(
            self,
            self.service,
            signed(self, "compile_reflex", request, role or key_role(ACT_OF[command])),
            timeout_s,
            again_s=math.inf,
        )

    def listed(self) -> list[State]:
        """Return the states of all reflexes, as they are now."""
        return list(self.ask("LIST").reflexes)

    def reset(self) -> None:
        """Bring all to rest and take every reflex away; forget what was heard."""
        self.near, self.loud, self.silent = FAR, False, False
        self.teleop.publish(Bool(data=False))
        self.halted.publish(Bool(data=False))
        # What was seen last would let the reflexes of the next test fire as soon as they are approved.
        wait_until(lambda: all(r.holds == State.NO for r in self.listed() if r.state == State.APPROVED), 5.0, "nothing is near")
        for state in self.listed():
            assert self.ask("REMOVE", name=state.name).success
        request = ProcessLease.Request(command=ProcessLease.Request.END, process_id=self.walker, cause="the next test")
        ask(self, self.lease, request)
        wait_until(lambda: not self.states and self.kernel and at_rest(self.kernel), 5.0, lambda: f"it rests: {self.kernel}")

    def take(self, *rules: dict[str, Any]) -> None:
        """Add and approve these reflexes and wait until they watch."""
        for rule in rules:
            assert self.ask("ADD", person="Ada", **rule).success
            assert self.ask("APPROVE", name=rule["name"], person="Ada").success
        wait_until(lambda: all(s.holds == State.NO for s in self.listed()), 10.0, "observations arrive")
        wait_until(lambda: len(self.states) == len(rules), 5.0, "the reflexes are told of")
        self.events.clear()
        self.stops.clear()


def at_rest(state: KernelState) -> bool:
    """Return whether the kernel runs nothing, keeps nothing for anybody and is not halted."""
    return not (state.running or state.processes or state.halted)


class Setting:
    """A kernel, the node of the reflexes with these shipped rules, and the stand-in."""

    def __init__(self, folder: Path, processes: Processes, node: StandIn) -> None:
        self._folder, self._processes, self.node = folder, processes, node
        self.robot = folder / "jumpy.yaml"
        self.robot.write_text(ROBOT_YAML)
        self._env = {"PYTHONPATH": os.pathsep.join([str(ROOT), SUPPORT, os.environ.get("PYTHONPATH", "")])}
        self.data = folder / "data"
        self.kernel = processes.start("skill_kernel", f"robot:={self.robot}", env=self._env)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *rules: dict[str, Any], **parameters: object) -> StandIn:
        """Start the node with these rules and wait until it and the kernel work together."""
        shipped = self._folder / "shipped.yaml"
        shipped.write_text(yaml.safe_dump({"reflexes": list(rules)}))
        more = [f"{name}:={value}" for name, value in parameters.items()]
        self.process = self._processes.start(
            "reflexes", f"robot:={self.robot}", f"shipped:={shipped}", f"data_dir:={self.data}", *more, env=self._env
        )
        node = self.node
        wait_until(lambda: node.kernel is not None and node.service.service_is_ready(), 20.0, "kernel and reflexes are there")
        node.halted.publish(Bool(data=False))
        wait_until(lambda: node.kernel is not None and not node.kernel.halted, 10.0, "the kernel is not halted")
        if rules:
            wait_until(lambda: all(node.states.get(r["name"]) for r in rules), 10.0, "the reflexes are told of")
            wait_until(lambda: any(s.holds != State.UNKNOWN for s in node.states.values()), 10.0, "observations arrive")
        wait_until(lambda: node.said_of_itself not in ("", "waiting for the skill kernel"), 10.0, "the node has met the kernel")
        return node


@contextmanager
def started(folder: Path) -> Iterator[Setting]:
    """Start a kernel and a node of the reflexes without a rule, for many tests: each takes what it needs."""
    namespace = f"/reflexes{os.getpid()}"
    node = StandIn(namespace)
    with spun(namespace, node) as processes:
        setting = Setting(folder, processes, node)
        setting.start()
        yield setting


def ended(node: StandIn, name: str, timeout_s: float = 5.0, since: int = 0) -> RunEvent:
    """Return the notice that a reflex's action is over."""
    found: list[RunEvent] = []

    def look() -> bool:
        found[:] = [e for e in node.of(f"reflex-{name}-", NoticeKind.MESSAGE, since) if e.text.startswith(f"reflex '{name}': ")]
        return bool(found)

    wait_until(look, timeout_s, f"reflex {name} is over")
    return found[0]
