# SPDX-License-Identifier: Apache-2.0
"""From the call of `halt` to the last velocity above zero that the base gets, all of Kalos's nodes up and every core
burdened besides, without and with an answer of the model in flight; beside a plain service round trip at the same time.

Measured in this process, which runs at a real-time priority where that is allowed, as the gate does, so that its own delay
is no part: from handing over the request to the arrival of the first `cmd_vel_gated` of zero after which no other comes. Before
each halt the base turns on the spot under commands at 50 Hz. The round trip is that of an empty service (std_srvs/Trigger)
of a process of its own, at ordinary priority, asked just before each halt.

From Enter: the whole run of `./ghostshell halt`, which ends when the gate has confirmed, beside a bare client of the service
`halt` in rclpy, started in turn, without the busy processes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from geometry_msgs.msg import Twist
from ghostshell.msg import LlmChunk
from std_msgs.msg import Bool, String

from bench import ros_probe
from bench.common import ROOT, Target, arguments, report, spread_of, spread_table
from ghostshell_ros.runtime.priority import take_priority
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED, SET_POINTS, STREAM

ROBOT = "kalos"
WAIT_S = 20.0
BOUND_MS = 50.0
ENTER_MS = 400.0
QUIET_S = 0.15
"""So long after the halt is looked whether another velocity above zero comes."""


class Probe(ros_probe.Probe):
    """Commands the base, halts it, and hears what the base gets."""

    def __init__(self) -> None:
        super().__init__(ROBOT)
        self.turning = False
        self.velocities: list[tuple[float, bool]] = []
        self.halted: bool | None = None
        self.chunks = 0
        self._wish = self.create_publisher(Twist, "cmd_vel_in", SET_POINTS)
        self.instruct = self.create_publisher(String, "instruction", INSTRUCTION)
        self.call = ros_probe.timed_calls(self, "halt", "clear_halt", ros_probe.ECHO_SERVICE)
        self.create_subscription(Twist, "cmd_vel_gated", self._on_velocity, SET_POINTS)
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        self.create_subscription(LlmChunk, "llm_chunks", self._on_chunk, STREAM)
        self.steady_timer(0.02, self._command)

    def moves(self) -> bool:
        return bool(self.velocities) and self.velocities[-1][1]

    def _command(self) -> None:
        if self.turning:
            message = Twist()
            message.angular.z = 0.5
            self._wish.publish(message)

    def _on_velocity(self, message: Twist) -> None:
        at = time.perf_counter()
        with self.changed:
            self.velocities.append((at, bool(message.linear.x or message.linear.y or message.angular.z)))
            self.changed.notify_all()

    def _on_halted(self, message: Bool) -> None:
        with self.changed:
            self.halted = message.data
            self.changed.notify_all()

    def _on_chunk(self, _: LlmChunk) -> None:
        self.chunks += 1


def measure(probe: Probe, trials: int, *, model: bool) -> dict[str, list[float]]:
    """Return times in seconds of halts and plain round trips; with `model` its answer is in flight at each halt."""
    times: dict[str, list[float]] = {"halt": [], "answer": [], "round trip": []}
    disturbed = 0
    while len(times["halt"]) < trials:
        if disturbed > trials:
            raise RuntimeError("the robot halted by itself again and again: the machine is too busy for its simulator")
        probe.call("clear_halt")
        probe.wait(lambda: probe.halted is False and probe.kernel_ready, "the halt is cleared", WAIT_S)
        probe.velocities.clear()
        probe.turning = True
        try:
            probe.wait(probe.moves, "the base turns", 5.0)
            if model:
                _ask(probe)
        except RuntimeError:
            if not probe.halted:
                raise
        began, ended = probe.call(ros_probe.ECHO_SERVICE)
        if probe.halted or not probe.moves():
            disturbed += 1  # a sensor was silent for too long on this machine
            continue
        asked_at, answered_at = probe.call("halt")
        time.sleep(QUIET_S)
        probe.turning = False
        heard = list(probe.velocities)
        last = max((i for i, (at, moving) in enumerate(heard) if moving), default=-1)
        if last + 1 >= len(heard):
            raise RuntimeError("the base still moves after a halt")
        times["halt"].append(max(heard[last + 1][0] - asked_at, 0.0))
        times["answer"].append(answered_at - asked_at)
        times["round trip"].append(ended - began)
    return times


def _ask(probe: Probe) -> None:
    """Give an instruction until the model's answer comes in: the first ones may still be refused as halted."""
    for _ in range(10):
        probe.chunks = 0
        probe.call_soon(probe.instruct.publish, String(data="Tell me something very long."))
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            if probe.chunks > 3:
                return
            time.sleep(0.005)
    raise RuntimeError("the model did not answer within 20 s")


BARE = f"""
import rclpy, std_srvs.srv
rclpy.init()
node = rclpy.create_node("bare")
client = node.create_client(std_srvs.srv.Trigger, "/{ROBOT}/halt")
assert client.wait_for_service(10.0)
future = client.call_async(std_srvs.srv.Trigger.Request())
rclpy.spin_until_future_complete(node, future, timeout_sec=10.0)
assert future.result().success
"""


def from_enter(trials: int) -> dict[str, list[float]]:
    """Return the times in seconds from a person's Enter to the end of a command that halts."""
    times: dict[str, list[float]] = {"command": [], "bare client": []}
    commands = ([str(ROOT / "ghostshell"), "halt", "--robot", ROBOT], [sys.executable, "-c", BARE])
    for _ in range(trials):
        for name, command in zip(times, commands, strict=True):
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60.0)
            times[name].append(time.perf_counter() - began)
    return times


def _model(stack: ExitStack) -> str:
    """Start a model of many words, 40 tokens a second, in a process of its own; gives its address."""
    answer = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "answer.txt"
    answer.write_text("Once upon a time. " * 4000, encoding="utf-8")
    command = [sys.executable, "-m", "bench.simulated_model.model_server", "--rate", "40", "--answer", str(answer)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    stack.callback(server.wait)
    stack.callback(server.terminate)
    assert server.stdout is not None
    return str(json.loads(server.stdout.readline())["openai"])


def _config(stack: ExitStack, *, ordinary: bool) -> Path:
    """Return the folder of the nodes' parameters; with `ordinary` a copy in which the gate leaves its priority as it is."""
    if not ordinary:
        return ROOT / "config"
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "config"
    shutil.copytree(ROOT / "config", folder)
    gate = folder / "safety_gate.yaml"
    text = gate.read_text(encoding="utf-8")
    gate.write_text(re.sub(r"(realtime_priority|nice): -?\d+", r"\1: 0", text), encoding="utf-8")
    return folder


def _burn(stack: ExitStack, burners: int) -> None:
    for _ in range(burners):
        burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        stack.callback(burner.wait)
        stack.callback(burner.kill)


def main() -> int:
    """Bring everything up, measure, print, write out/bench/halt.json."""
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=100, help="halts of each kind (default 100)")
    parser.add_argument("--enters", type=int, default=20, help="commands started of each kind (default 20)")
    parser.add_argument("--burners", type=int, default=os.cpu_count() or 2, help="busy processes besides (one a core)")
    parser.add_argument("--ordinary", action="store_true", help="the gate at the priority of all, as where it may not raise it")
    parser.add_argument(ros_probe.ECHO, action="store_true", help="be the other process of the round trip")
    options = parser.parse_args()
    if options.echo:
        ros_probe.serve_echo(lambda: ros_probe.ServiceEcho(ROBOT))
        return 0
    sys.setswitchinterval(0.001)
    times: dict[str, dict[str, list[float]]] = {}
    try:
        with ExitStack() as stack:
            model = f"openai:any@{_model(stack)}"
            config = _config(stack, ordinary=options.ordinary)
            probe = stack.enter_context(
                ros_probe.brought_up(ROBOT, Probe, model=model, strategy="stream", config_dir=str(config))
            )
            probe.wait(lambda: probe.halted is False, "the gate", 60.0)
            ros_probe.until(probe.instruct.get_subscription_count, "the process scheduler")
            probe.call(ros_probe.ECHO_SERVICE)
            enter = from_enter(options.enters)
            _burn(stack, options.burners)
            take_priority(20, -15)  # after the last child was started, for they inherit it
            times["no model call"] = measure(probe, options.trials, model=False)
            times["a model's answer in flight"] = measure(probe, options.trials, model=True)
    except RuntimeError as error:
        print(f"bench_halt: {error}", file=sys.stderr)
        return 1
    _report(times, enter, options)
    return 0


def _report(times: dict[str, dict[str, list[float]]], enter: dict[str, list[float]], options: argparse.Namespace) -> None:
    names = {
        "halt": "halt called to base at rest",
        "answer": "halt called to its answer",
        "round trip": "reference: plain service round trip",
    }
    results = {f"{names[kind]}, {load}": spread_of(values) for load, kinds in times.items() for kind, values in kinds.items()}
    targets = [
        Target(f"halt to rest, {load}, p99", spread_of(kinds["halt"])["p99_ms"], BOUND_MS, "ms")
        for load, kinds in times.items()
    ]
    results["Enter to the end of ghostshell halt"] = spread_of(enter["command"])
    results["reference: Enter to the end of a bare rclpy client"] = spread_of(enter["bare client"])
    targets.append(
        Target("Enter to the end of ghostshell halt, median", spread_of(enter["command"])["median_ms"], ENTER_MS, "ms")
    )
    gate = "the gate at ordinary priority" if options.ordinary else "the gate at its priority"
    title = f"halt, all nodes of {ROBOT} up and {options.burners} busy processes besides, {gate} [ms]"
    measured = {"results": results, "burners": options.burners, "ordinary": options.ordinary}
    report("halt", measured, [spread_table(title, results)], targets, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
