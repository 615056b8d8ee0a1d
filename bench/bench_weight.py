# SPDX-License-Identifier: Apache-2.0
"""Weigh a robot at rest: launch to `run_task` ready, share of a core and memory (PSS) of each process, and the messages that
its nodes take; then how soon `say` and `ps` print their first line.

The processor's time is counted in the processes of the launch, whatever else the machine does; start-up and first lines are
as slow as a busy machine makes them. The clients of the last part come after the weighing, which they would change.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rclpy
from ghostshell.action import RunTask
from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from bench.common import ROOT, Table, Target, arguments, percentile, report
from ghostshell_ros.wire.codec import interface

COMMAND = str(ROOT / "ghostshell")
UP_S = 60.0
REST_S = 12.0
"""From being ready to being at rest: the drivers come up, discovery calms down."""
COUNT_S = 6.0
TARGETS = {"coco": (3.0, 15.0, 350.0), "kalos": (4.5, 25.0, 450.0)}
"""Start-up [s], share of a core [%], memory [MB]."""
FIRST_LINE_S = 1.5
HZ = os.sysconf("SC_CLK_TCK")


def processes_below(pid: int) -> Iterator[int]:
    """Yield all processes that `pid` has started, and theirs."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="utf-8").split():
            yield int(child)
            yield from processes_below(int(child))


def name_of(pid: int) -> str:
    """Return the executable of a node, or the module of a helper process."""
    words = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ").split()
    if not Path(words[0]).name.startswith("python"):
        return Path(words[0]).name
    return words[2] if words[1] == "-m" else Path(words[1]).name


def cpu_s(pid: int) -> float:
    """Return the seconds of a core that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / HZ


def pss_mb(pid: int) -> float:
    """Return its memory, with its share of what it shares [MB]."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


def _count(heard: Counter[str], topic: str, _: bytes) -> None:
    heard[topic] += 1


def count_messages(node: Node) -> Counter[tuple[str, int]]:
    """Return the messages a second by topic and its number of subscribers."""
    heard: Counter[str] = Counter()
    qos = QoSProfile(depth=50, reliability=ReliabilityPolicy.BEST_EFFORT)
    readers: dict[str, int] = {}
    for topic, kinds in node.get_topic_names_and_types():
        if (readers_of := node.count_subscribers(topic)) and "/_action/" not in topic:
            readers[topic], kind = readers_of, interface(kinds[0])
            node.create_subscription(kind, topic, partial(_count, heard, topic), qos, raw=True)
    for count in (False, True):
        heard.clear()
        end = time.monotonic() + (COUNT_S if count else 2.0)
        while time.monotonic() < end:
            rclpy.spin_once(node, timeout_sec=0.1)
    return Counter({(topic, readers[topic]): round(number / COUNT_S) for topic, number in heard.items()})


def first_line_s(*words: str) -> float:
    """Return the seconds until a command prints its first line; it is ended then."""
    began = time.monotonic()
    process = subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    took = time.monotonic() - began
    process.communicate()
    return took


@contextmanager
def launched(robot: str, more: list[str]) -> Iterator[tuple[int, Node, float]]:
    """Bring a robot up: the launch's process, a node, and the seconds until `run_task` was ready."""
    with tempfile.TemporaryDirectory() as data:
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        node = rclpy.create_node("bench_weight")
        task = ActionClient(node, RunTask, f"/{robot}/run_task")
        environment = {**os.environ, "GHOSTSHELL_DATA": data}
        began = time.monotonic()
        launch = subprocess.Popen([COMMAND, "launch", robot, *more], env=environment, stdout=subprocess.DEVNULL)
        try:
            while not task.server_is_ready():
                if time.monotonic() - began > UP_S or launch.poll() is not None:
                    raise RuntimeError(f"{robot} was not ready within {UP_S:g} s; see ./ghostshell launch {robot}")
                time.sleep(0.01)
            yield launch.pid, node, time.monotonic() - began
        finally:
            launch.send_signal(signal.SIGINT)
            launch.wait(30.0)
            rclpy.shutdown()


def main() -> int:
    """Weigh the robots that are named."""
    parser = arguments(__doc__)
    parser.add_argument("robots", nargs="*", default=["coco", "kalos"])
    parser.add_argument("--seconds", type=float, default=30.0, help="time over which the processor's time is counted [s]")
    parser.add_argument("--lines", type=int, default=3, help="how often say and ps are tried")
    parser.add_argument("--with", dest="more", action="append", default=[], help="a launch argument, such as composed:=false")
    options = parser.parse_args()
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    found, tables, targets = {}, [], []
    for robot in options.robots:
        with launched(robot, options.more) as (pid, node, ready_s):
            time.sleep(REST_S)
            pids = list(processes_below(pid))
            before, since = [cpu_s(p) for p in pids], time.monotonic()
            time.sleep(options.seconds)
            share = [100 * (cpu_s(p) - was) / (time.monotonic() - since) for p, was in zip(pids, before, strict=True)]
            rows = [
                [name_of(p), round(cpu, 1), round(pss_mb(p), 1), len(os.listdir(f"/proc/{p}/task"))]
                for p, cpu in zip(pids, share, strict=True)
            ]
            messages = count_messages(node)
            for subscription in list(node.subscriptions):
                node.destroy_subscription(subscription)
            lines = {
                words[0]: [round(first_line_s(*words, "--robot", robot), 2) for _ in range(options.lines)]
                for words in (("say", "nod"), ("ps",))
            }
        total = [sum(column) for column in list(zip(*rows, strict=True))[1:]]
        tables += [
            Table(
                f"{robot}: ready after {ready_s:.2f} s",
                ("process", "% of a core", "PSS [MB]", "threads"),
                [*rows, ["all", *total]],
            ),
            Table("messages taken", ("topic", "readers", "Hz"), [[t, n, hz] for (t, n), hz in messages.most_common(12)]),
        ]
        taken = sum(readers * hz for (_, readers), hz in messages.items())
        found[robot] = {"ready_s": ready_s, "processes": rows, "taken_hz": taken, "first_lines_s": lines}
        for what, value, bound, unit in zip(
            ("ready", "at rest", "memory"), (ready_s, *total), TARGETS[robot], ("s", "%", "MB"), strict=False
        ):
            targets.append(Target(f"{robot} {what}", round(value, 2), bound, unit))
        targets += [
            Target(f"{robot} first line of {what}, median of {len(took)}", percentile(took, 50), FIRST_LINE_S, "s")
            for what, took in lines.items()
            if took
        ]
        print(robot, round(ready_s, 2), [round(t, 1) for t in total], taken, lines, flush=True)
    report("weight", found, tables, targets, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
