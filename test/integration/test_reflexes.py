# SPDX-License-Identifier: Apache-2.0
"""The node of the reflexes with a real kernel: it stops, takes, acts and gives back, and one bad rule costs only itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import Twist
from ghostshell.action import ExecuteSkill
from ghostshell.msg import (
    KernelState,
    Observation,
    ObservationField,
    ProcessHeartbeat,
    ReflexStateArray,
    SkillCall,
    SkillEvent,
)
from ghostshell.msg import ReflexState as State
from ghostshell.srv import CompileReflex
from reflex_robot import ROBOT_YAML
from std_msgs.msg import Bool

from ghostshell_ros.nodes.diagnostics import QOS
from ghostshell_ros.nodes.goal_client import GoalClient
from ghostshell_ros.nodes.node_runtime import EVENTS, HEARTBEATS, LATCHED, OBSERVATION, SET_POINTS, RuntimeNode
from ghostshell_ros.testing.model_server import ModelServer
from ros_support import ROOT, Processes, wait_until
from skill_kernel.codes import ReflexCode

BACK = "def condition():\n    return near_m() < 0.2\n\n\ndef action():\n    move_back(distance_m=0.5)\n"
SUPPORT = str(ROOT / "test" / "support")
NEAR, FAR = 0.1, 2.0


def reflex(name: str, condition: str, *action: str, **settings: Any) -> dict[str, Any]:
    """A shipped reflex."""
    body = "".join(f"    {line}\n" for line in action)
    source = f"def condition():\n    return {condition}\n\n\ndef action():\n{body}"
    return {"name": name, "sentence": name, "source": source, "cooldown_s": 0.2, **settings}


class StandIn(RuntimeNode):
    """The observer, a scheduler with one patrol, an operator, and ears for all that the node says."""

    def __init__(self, namespace: str) -> None:
        super().__init__("stand_in", namespace=namespace)
        self.near, self.loud, self.silent = FAR, False, False
        self.events: list[SkillEvent] = []
        self.stops: list[tuple[float, Twist]] = []
        self.states: dict[str, State] = {}
        self.array: ReflexStateArray | None = None
        self.kernel: KernelState | None = None
        self.said_of_itself = ""
        self._seq = 0
        self._out = self.create_publisher(Observation, "observation", OBSERVATION)
        self._beat = self.create_publisher(ProcessHeartbeat, "process_heartbeat", HEARTBEATS)
        self.halted = self.create_publisher(Bool, "halted", LATCHED)
        self.create_subscription(SkillEvent, "events", self.events.append, EVENTS)
        self.create_subscription(Twist, "cmd_vel_reflex", lambda m: self.stops.append((time.monotonic(), m)), SET_POINTS)
        self.create_subscription(ReflexStateArray, "reflex_states", self._on_states, LATCHED)
        self.create_subscription(KernelState, "kernel_state", lambda m: setattr(self, "kernel", m), LATCHED)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, QOS)
        self.service = self.create_client(CompileReflex, "compile_reflex")
        self.calls = GoalClient(self, ExecuteSkill, "execute_skill")
        self.steady_timer(0.05, self.observe)
        self.steady_timer(0.1, lambda: self._beat.publish(ProcessHeartbeat(process_ids=["walker"])))

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
        """Start the patrol of process `walker` and wait until it runs."""
        call = SkillCall(process_id="walker", stream_id="s", call_id=uuid.uuid4().hex, function="patrol", channels=["movement"])
        goal = ExecuteSkill.Goal(call=call)
        wait_until(self.calls.server_is_ready, 10.0, "the kernel answers")
        phases: list[str] = []
        self.call_soon(
            lambda: self.calls.send(
                goal, on_end=lambda *_: None, on_feedback=lambda f: phases.append(f.phase), goal_id=bytes.fromhex(call.call_id)
            )
        )
        wait_until(lambda: phases, 5.0, "the patrol runs")

    def of(self, beginning: str, kind: int | None = None, since: int = 0) -> list[SkillEvent]:
        """Events of processes whose id begins so."""
        return [e for e in self.events[since:] if e.process_id.startswith(beginning) and kind in (None, e.type)]

    def ask(self, command: str, timeout_s: float = 10.0, **fields: Any) -> Any:
        """Ask compile_reflex and wait for the answer."""
        answers: list[Any] = []
        request = CompileReflex.Request(command=getattr(CompileReflex.Request, command), **fields)
        self.call_soon(lambda: self.service.call_async(request).add_done_callback(lambda f: answers.append(f.result())))
        wait_until(lambda: answers, timeout_s, f"answer of {command}")
        return answers[0]


class Setting:
    """A kernel, the node of the reflexes with these shipped rules, and the stand-in."""

    def __init__(self, tmp_path: Path, namespace: str, processes: Processes, host: Callable[..., Any]) -> None:
        self._folder, self._namespace, self._processes = tmp_path, namespace, processes
        self.robot = tmp_path / "jumpy.yaml"
        self.robot.write_text(ROBOT_YAML)
        self._env = {"PYTHONPATH": os.pathsep.join([str(ROOT), SUPPORT, os.environ.get("PYTHONPATH", "")])}
        self.data = tmp_path / "data"
        self.node = StandIn(namespace)
        host(self.node)
        self.kernel = processes.start("ghostshell_ros.nodes.skill_kernel", f"robot:={self.robot}", env=self._env)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *rules: dict[str, Any], **parameters: object) -> StandIn:
        """Start the node with these rules and wait until it and the kernel work together."""
        shipped = self._folder / "shipped.yaml"
        shipped.write_text(yaml.safe_dump({"reflexes": list(rules)}))
        more = [f"{name}:={value}" for name, value in parameters.items()]
        self.process = self._processes.start(
            "ghostshell_ros.nodes.reflexes", f"robot:={self.robot}", f"shipped:={shipped}", f"data_dir:={self.data}", *more,
            env=self._env,
        )  # fmt: skip
        node = self.node
        wait_until(lambda: node.kernel is not None and node.service.service_is_ready(), 20.0, "kernel and reflexes are there")
        node.halted.publish(Bool(data=False))
        wait_until(lambda: node.kernel is not None and not node.kernel.halted, 10.0, "the kernel is not halted")
        if rules:
            wait_until(lambda: all(node.states.get(r["name"]) for r in rules), 10.0, "the reflexes are told of")
            wait_until(lambda: any(s.holds != State.UNKNOWN for s in node.states.values()), 10.0, "observations arrive")
        wait_until(lambda: node.said_of_itself not in ("", "waiting for the skill kernel"), 10.0, "the node has met the kernel")
        return node


@pytest.fixture
def setting(tmp_path: Path, namespace: str, processes: Processes, host: Callable[..., Any]) -> Setting:
    return Setting(tmp_path, namespace, processes, host)


def ended(node: StandIn, name: str, timeout_s: float = 5.0, since: int = 0) -> SkillEvent:
    """The notice that a reflex's action is over."""
    found: list[SkillEvent] = []

    def look() -> bool:
        found[:] = [
            e for e in node.of(f"reflex-{name}-", SkillEvent.NOTICE, since) if e.text.startswith(f"reflex '{name}': ")
        ]
        return bool(found)

    wait_until(look, timeout_s, f"reflex {name} is over")
    return found[0]


def test_a_reflex_stops_the_base_pauses_the_patrol_acts_and_lets_it_go_on(setting: Setting) -> None:
    node = setting.start(reflex("back", "near_m() < 0.2", "move_back(distance_m=0.5)"))
    node.patrol()
    node.comes(NEAR)
    assert "done" in ended(node, "back").text
    wait_until(lambda: node.of("walker", SkillEvent.PROCESS_RESUMED), 2.0, "the patrol goes on")
    kinds = [
        (e.process_id.split("-")[0], e.type)
        for e in node.events
        if e.type in (SkillEvent.PROCESS_PAUSED, SkillEvent.PROCESS_RESUMED, SkillEvent.CALL_STARTED, SkillEvent.CALL_ENDED)
    ]
    assert kinds == [
        ("walker", SkillEvent.PROCESS_PAUSED), ("reflex", SkillEvent.CALL_STARTED), ("reflex", SkillEvent.CALL_ENDED),
        ("walker", SkillEvent.PROCESS_RESUMED),
    ]  # fmt: skip
    assert node.stops and not any((m.linear.x, m.linear.y, m.angular.z) != (0.0, 0.0, 0.0) for _, m in node.stops)
    wait_until(lambda: node.states["back"].fired == 1 and not node.states["back"].acting, 2.0, "the state tells of it")
    assert node.states["back"].last == "done: walked back 0.5 m"
    node.comes(NEAR)
    time.sleep(0.5)
    assert node.states["back"].fired == 1


def test_the_stop_leaves_at_once(setting: Setting) -> None:
    node = setting.start(reflex("back", "near_m() < 0.2", "move_back(distance_m=0.1)"))
    times = []
    for _ in range(10):
        node.comes(FAR)
        time.sleep(0.9)
        node.stops.clear()
        sent = node.comes(NEAR)
        wait_until(lambda: node.stops, 2.0, "the stop")
        times.append(node.stops[0][0] - sent)
        ended(node, "back", since=len(node.events) - 1) if node.events else None
    assert sorted(times)[len(times) // 2] < 0.05


def test_a_text_is_spoken_while_others_go_on_moving(setting: Setting) -> None:
    node = setting.start(reflex("greet", "loud()", "say(text='hello there')"))
    node.patrol()
    node.loud = True
    assert "done" in ended(node, "greet").text
    (end,) = node.of("reflex-greet", SkillEvent.CALL_ENDED)
    assert end.outcome == SkillEvent.DONE and end.text == "said: hello there"
    assert not node.of("walker", SkillEvent.PROCESS_PAUSED) and node.stops == []


def test_a_higher_reflex_interrupts_a_lower_one(setting: Setting) -> None:
    node = setting.start(
        reflex("low", "near_m() < 1", "move_back(distance_m=5)", priority=10),
        reflex("high", "near_m() < 0.2", "move_back(distance_m=0.2)", priority=90),
    )
    node.patrol()
    node.comes(0.5)
    wait_until(lambda: node.of("reflex-low", SkillEvent.CALL_STARTED), 5.0, "the lower one acts")
    node.comes(NEAR)
    assert "done" in ended(node, "high").text
    assert "not now, reflex 'high' has a higher priority" in ended(node, "low").text
    (low,) = node.of("reflex-low", SkillEvent.CALL_ENDED)
    assert low.outcome == SkillEvent.OUTCOME_INTERRUPTED
    node.comes(FAR)
    wait_until(lambda: node.of("walker", SkillEvent.PROCESS_RESUMED), 8.0, "the patrol goes on after both")


def test_one_that_raises_is_disabled_for_good_and_the_others_go_on(setting: Setting) -> None:
    node = setting.start(
        reflex("bad", "near_m() < 1 and 1 / (near_m() - 0.5) > 0", "move_back(distance_m=0.1)", priority=90),
        reflex("back", "near_m() < 0.6", "move_back(distance_m=0.1)"),
    )
    node.comes(0.5)
    assert "done" in ended(node, "back").text
    wait_until(lambda: node.states["bad"].state == State.DISABLED, 3.0, "the bad one is disabled")
    assert "ZeroDivisionError" in node.states["bad"].reason
    assert any("reflex 'bad' is disabled" in e.text for e in node.events)
    kept = yaml.safe_load((setting.data / "jumpy" / "reflexes" / "bad.yaml").read_text())
    assert kept["state"] == "disabled"
    node.comes(FAR)
    time.sleep(0.2)
    assert node.ask("ENABLE", name="bad").success
    wait_until(lambda: node.states["bad"].state == State.APPROVED, 3.0, "it is enabled")


def test_stale_sensors_and_a_halt_let_nothing_fire(setting: Setting) -> None:
    node = setting.start(reflex("back", "near_m() < 0.2", "move_back(distance_m=0.1)"))
    node.silent = True
    wait_until(lambda: node.states["back"].holds == State.UNKNOWN, 3.0, "it cannot be told")
    assert node.states["back"].stale_field == "near_m" and node.states["back"].stale > 0
    node.halted.publish(Bool(data=True))
    time.sleep(0.2)
    node.silent = False
    node.comes(NEAR)
    time.sleep(0.5)
    assert node.stops == [] and node.states["back"].fired == 0
    node.halted.publish(Bool(data=False))
    wait_until(lambda: node.stops, 2.0, "it fires once the halt is cleared")


def test_when_the_node_dies_in_the_middle_the_patrol_goes_on(setting: Setting) -> None:
    node = setting.start(reflex("back", "near_m() < 0.2", "move_back(distance_m=5)"))
    node.patrol()
    node.comes(NEAR)
    wait_until(lambda: node.of("reflex-back", SkillEvent.CALL_STARTED), 5.0, "it acts")
    assert setting.process is not None
    setting.process.send_signal(signal.SIGKILL)
    wait_until(lambda: node.of("walker", SkillEvent.PROCESS_RESUMED), 3.0, "the patrol goes on")


def test_a_sentence_becomes_a_reflex_that_fires_only_once_it_is_approved(setting: Setting) -> None:
    node = setting.start()
    added = node.ask("ADD", sentence="stand back", source=BACK, person="Ada", name="back", priority=70, cooldown_s=0.3)
    assert added.success and added.reflexes[0].state == State.PROPOSED and "would have fired never" in added.report
    node.comes(NEAR)
    time.sleep(0.4)
    assert node.stops == []
    tried = node.ask("TEST", name="back")
    assert "would have fired once" in tried.report and "move_back(distance_m=0.5)" in tried.report
    assert not node.ask("APPROVE", name="back").success
    approved = node.ask("APPROVE", name="back", person="Ada")
    assert approved.success and approved.reflexes[0].approver == "Ada"
    assert "done" in ended(node, "back").text
    assert node.ask("REMOVE", name="back").success
    wait_until(lambda: not node.states, 3.0, "it is gone")
    refused = node.ask("TEST", name="back")
    assert (refused.success, refused.error_code) == (False, ReflexCode.REFLEX_REFUSED)


def test_what_cannot_be_compiled_is_answered_with_the_reason(setting: Setting) -> None:
    node = setting.start()
    bad = node.ask("ADD", sentence="x", source=BACK.replace("near_m", "nearm"), person="Ada")
    assert bad.error_code == ReflexCode.NOT_COMPILED and "did you mean 'near_m'" in bad.error_msg
    unclear = node.ask("ADD", sentence="when it is night, sing")
    assert unclear.error_code == ReflexCode.NOT_COMPILED and "was not understood" in unclear.error_msg
    assert node.ask("ADD", sentence="x", source=BACK).error_code == ReflexCode.INVALID_COMMAND
    assert node.ask("APPROVE").error_code == ReflexCode.INVALID_COMMAND
    missing = node.ask("ADD", sentence="x", source=BACK, person="Ada", name="back")
    assert missing.success
    assert node.ask("TEST", name="back", observations_file="/no/such/file").error_code == ReflexCode.REFLEX_REFUSED


def test_a_slow_model_holds_no_reflex_up(setting: Setting, tmp_path: Path) -> None:
    with ModelServer(f"```python\n{BACK}```", first_token_s=1.5) as server:
        models = tmp_path / "models.yaml"
        entry = {"provider": "openai", "model": "any", "base_url": server.openai_url}
        models.write_text(yaml.safe_dump({"default": "local", "models": {"local": entry}}))
        node = setting.start(reflex("back", "near_m() < 0.2", "move_back(distance_m=0.1)"), model="local", models_file=models)
        answers: list[Any] = []
        request = CompileReflex.Request(sentence="when anything is near, step back", name="made")
        node.call_soon(lambda: node.service.call_async(request).add_done_callback(lambda f: answers.append(f.result())))
        wait_until(lambda: server.requests, 10.0, "the model is asked")
        sent = node.comes(NEAR)
        wait_until(lambda: node.stops, 1.0, "the stop")
        assert node.stops[0][0] - sent < 0.2 and not answers
        wait_until(lambda: answers, 10.0, "the answer")
        assert answers[0].success and answers[0].reflexes[0].model == "openai:any"
        assert answers[0].reflexes[0].source == BACK


def test_the_command_line_adds_lists_tests_approves_and_removes(setting: Setting, namespace: str, tmp_path: Path) -> None:
    setting.start()
    code = tmp_path / "back.py"
    code.write_text(BACK)

    def cli(*words: str) -> str:
        command = [sys.executable, "-m", "ghostshell_ros.cli.main", "reflex", *words, "--robot", namespace.strip("/")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=40)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "Approve it with" in cli("add", "stand back", "--code", str(code), "--name", "back", "--by", "Ada")
    assert "would have fired" in cli("test", "back")
    assert "approved by Ada" in cli("approve", "back", "--by", "Ada", "--yes")
    assert "def condition():" in cli("show", "back") and "back" in cli("list")
    assert "removed" in cli("remove", "back")


def test_the_rounds_are_punctual_and_cheap_with_fifty_reflexes(setting: Setting) -> None:
    rules = [reflex(f"r{n}", f"near_m() < 0.0{n + 10} and not loud()", "move_back(distance_m=0.1)") for n in range(50)]
    node = setting.start(*rules)
    wait_until(lambda: node.array is not None and node.array.rate_hz > 80, 6.0, "a second of rounds")
    assert node.array is not None
    print(json.dumps({"rate": node.array.rate_hz, "late_ms": node.array.late_ms, "latest_ms": node.array.latest_ms}))
    assert node.array.late_ms < 5.0
    assert max(r.mean_us for r in node.array.reflexes) < 100.0
