# SPDX-License-Identifier: Apache-2.0
"""Over ROS with all of CoCo's nodes up and without a language model: from the refusal that shows that a new process
contends with a running one to its first command, and from its end to the first command of the one that comes back.

A process shakes its head; again and again another one is told "look up, then go on". The clock starts at the stamp of
the skill kernel's CONTENTION event and ends at the stamp that the joints' driver gives the goal when it accepts it: in
between lie the decision of the process scheduler, the pause, the old skill's stop, and the second try of the call. The way
back is from the scheduler's PROCESS_ENDED to the goal with which the displaced skill begins anew. All stamps are system
time of one machine. Beside them, a service round trip between two processes in the same run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import ROOT, Table, Target, arguments, report, spread_of

os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
if "--echo" not in sys.argv:
    # Read when the first context is made and inherited by every process started here: a domain of this run's own.
    os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)

import rclpy
from action_msgs.msg import GoalStatusArray
from builtin_interfaces.msg import Time
from ghostshell.msg import KernelState, ProcessArray, ProcessState, SkillEvent
from rclpy.qos import qos_profile_action_status_default
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ghostshell_ros.launcher import LaunchRun, describe
from ghostshell_ros.nodes.node_runtime import EVENTS, INSTRUCTION, LATCHED, NodeHost, RuntimeNode

ROBOT = "coco"
LONG, SHORT = "shake your head for 8 seconds", "look up, then go on"
"""The long one begins anew each time that it comes back; a longer one would measure its long trajectory."""
WARM_UP = 3
WAIT_S = 10.0
AIM_MS = 50.0


class Echo(RuntimeNode):
    """Answers a service, in a process of its own."""

    def __init__(self) -> None:
        super().__init__("bench_echo", namespace=ROBOT)
        self.create_service(Trigger, "bench_echo", lambda _, response: response)


class Probe(RuntimeNode):
    """Gives instructions and hears what becomes of them."""

    def __init__(self) -> None:
        super().__init__("bench_probe", namespace=ROBOT)
        self.changed = threading.Condition()
        self.goals: dict[bytes, float] = {}
        self.events: list[SkillEvent] = []
        self.processes: list[ProcessState] = []
        self.faults: list[str] = []
        self.kernel_ready = False
        self.trips: list[float] = []
        self.said = self.create_publisher(String, "instruction", INSTRUCTION)
        self.echo = self.create_client(Trigger, "bench_echo")
        self.create_subscription(SkillEvent, "events", self._event, EVENTS)
        self.create_subscription(ProcessArray, "processes", self._processes, LATCHED)
        self.create_subscription(KernelState, "kernel_state", self._kernel, LATCHED)
        self.create_subscription(
            GoalStatusArray, "move_joints/_action/status", self._status, qos_profile_action_status_default
        )

    def wait(self, condition: Callable[[], object], timeout_s: float, what: str) -> None:
        """Wait for something that a message brings; raises RuntimeError at the deadline."""
        with self.changed:
            if not self.changed.wait_for(condition, timeout_s):
                raise RuntimeError(f"not within {timeout_s:g} s: {what}; {'; '.join(self.faults[-3:]) or 'see its log'}")

    def say(self, text: str) -> tuple[str, float]:
        """Give an instruction; its process and when it was said."""
        known = {p.process_id for p in self.processes}
        said_s = self.get_clock().now().nanoseconds * 1e-9
        self.said.publish(String(data=text))
        self.wait(lambda: {p.process_id for p in self.processes} - known, WAIT_S, f"a process for “{text}”")
        return self.processes[-1].process_id, said_s

    def event(self, kind: int, process_id: str, since: int = 0) -> SkillEvent | None:
        """The first event of a process, not among the first `since`."""
        return next((e for e in self.events[since:] if e.type == kind and e.process_id == process_id), None)

    def stamp(self, kind: int, process_id: str, what: str) -> float:
        """Wait for an event; its stamp."""
        self.wait(lambda: self.event(kind, process_id), WAIT_S, what)
        found = self.event(kind, process_id)
        return _seconds(found.stamp) if found is not None else 0.0

    def goal_after(self, time_s: float, what: str) -> float:
        """When the driver accepted its first goal after a time."""
        self.wait(lambda: any(at > time_s for at in self.goals.values()), WAIT_S, what)
        return min(at for at in self.goals.values() if at > time_s)

    def round_trip(self) -> float:
        """Seconds for a service call to the echo process and back."""
        count = len(self.trips)
        self.call_soon(self._ask)
        self.wait(lambda: len(self.trips) > count, WAIT_S, "the answer of the echo process")
        return self.trips[-1]

    def _ask(self) -> None:
        began = time.perf_counter()
        self.echo.call_async(Trigger.Request()).add_done_callback(lambda _: self._answered(time.perf_counter() - began))

    def _answered(self, trip_s: float) -> None:
        with self.changed:
            self.trips.append(trip_s)
            self.changed.notify_all()

    def _status(self, message: GoalStatusArray) -> None:
        with self.changed:
            for status in message.status_list:
                self.goals.setdefault(bytes(status.goal_info.goal_id.uuid), _seconds(status.goal_info.stamp))
            self.changed.notify_all()

    def _event(self, message: SkillEvent) -> None:
        with self.changed:
            self.events.append(message)
            if message.error_msg and message.type != SkillEvent.CONTENTION:
                self.faults.append(message.error_msg)
            self.changed.notify_all()

    def _processes(self, message: ProcessArray) -> None:
        with self.changed:
            self.processes = list(message.processes)
            self.changed.notify_all()

    def _kernel(self, message: KernelState) -> None:
        with self.changed:
            self.kernel_ready = not message.halted
            self.changed.notify_all()


def measure(probe: Probe, trials: int) -> dict[str, list[float]]:
    """Latencies in seconds. Raises RuntimeError when a step does not come."""
    times: dict[str, list[float]] = {"there": [], "said": [], "back": [], "round trip": []}
    long, _ = probe.say(LONG)
    probe.stamp(SkillEvent.CALL_STARTED, long, "the long call")
    for trial in range(-WARM_UP, trials):
        time.sleep(0.2)
        trip = probe.round_trip()
        short, said = probe.say(SHORT)
        contention = probe.stamp(SkillEvent.CONTENTION, short, "the contention")
        there = probe.goal_after(contention, "the first command of the new process")
        ended = probe.stamp(SkillEvent.PROCESS_ENDED, short, "the end of the new process")
        back = probe.goal_after(ended, "the first command of the one that comes back")
        if probe.event(SkillEvent.PROCESS_ENDED, long) is not None:
            raise RuntimeError(f"the displaced process did not come back: {probe.faults[-1:]}")
        if trial >= 0:
            for name, value in (
                ("there", there - contention), ("said", there - said), ("back", back - ended), ("round trip", trip),
            ):  # fmt: skip
                times[name].append(value)
    return times


def _seconds(stamp: Time) -> float:
    return float(stamp.sec) + stamp.nanosec * 1e-9


def main() -> int:
    """Bring everything up, measure, print, write out/bench/processes.json."""
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=40, help="times that the process is displaced (default 40)")
    parser.add_argument("--echo", action="store_true", help="be the other process of the round trip")
    options = parser.parse_args()
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    if options.echo:
        with NodeHost([Echo()]) as host:
            host.start()
            sys.stdin.read()
        return 0
    lines: list[str] = []
    specs = describe(ROOT / "launch" / "coco.launch.xml", {"robot_name": ROBOT, "default_robot": "false"})
    echo = subprocess.Popen([sys.executable, __file__, "--echo"], stdin=subprocess.PIPE)
    probe = Probe()
    listener: Callable[[Any], None] = lambda event: lines.append(str(getattr(event, "line", event)))  # noqa: E731
    try:
        with LaunchRun(specs, listener=listener) as launched, NodeHost([probe]) as host:
            launched.start()
            host.start()
            probe.wait(lambda: probe.kernel_ready, 60.0, "the skill kernel")
            _matched(probe)
            times = measure(probe, options.trials)
    except RuntimeError as error:
        print("\n".join(lines[-20:]), file=sys.stderr)
        print(f"bench_processes: {error}", file=sys.stderr)
        return 1
    finally:
        echo.communicate()
        rclpy.try_shutdown()
    _report(times, options.json)
    return 0


def _matched(probe: Probe) -> None:
    deadline = time.monotonic() + 30.0
    while not (probe.said.get_subscription_count() and probe.echo.service_is_ready() and probe.count_publishers("events") >= 4
               and probe.count_publishers("move_joints/_action/status")):  # fmt: skip
        if time.monotonic() > deadline:
            raise RuntimeError("the process scheduler, the echo process or the driver did not appear within 30 s")
        time.sleep(0.05)
    # Nodes that have found each other answer the first call of a service late: not what is measured.
    time.sleep(1.0)


def _report(times: dict[str, list[float]], as_json: bool) -> None:
    results = {
        "contention to first command of the new process": spread_of(times["there"]),
        "end of the new process to first command of the old one": spread_of(times["back"]),
        "instruction said to first command": spread_of(times["said"]),
        "reference: service round trip, two processes": spread_of(times["round trip"]),
    }
    there, back, _, trip = results.values()
    targets = [
        Target("contention to first command of the new process, median", there["median_ms"], AIM_MS, "ms"),
        Target("end of the new process to first command of the old one, median", back["median_ms"], AIM_MS, "ms"),
    ]
    rows = [[n, r["min_ms"], r["median_ms"], r["p99_ms"], r["max_ms"], r["trials"]] for n, r in results.items()]
    ratios = {name: round(r["median_ms"] / trip["median_ms"], 1) for name, r in (("there", there), ("back", back))}
    title = f"processes over ROS, no model [ms]; there takes {ratios['there']}, back {ratios['back']} service round trips"
    columns = ("what", "least", "median", "p99", "max", "trials")
    report("processes", {"results": results, "ratio_to_round_trip": ratios}, [Table(title, columns, rows)], targets,
           as_json=as_json)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
