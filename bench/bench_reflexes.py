# SPDX-License-Identifier: Apache-2.0
"""Reflexes with all of Kalos's nodes up and 50 of them loaded: from a laser scan that is published to the stop command that
arrives at the gate, beside a topic round trip of a scan in the same run; and what one firing costs a robot that walks.

The clock starts when this process hands the scan over and ends when the zero velocity of `cmd_vel_reflex` arrives here, on
the topic the gate listens to; in between lie the observer, the reflexes and three ways through DDS. The round trip is a scan
to another process and a velocity back. This process plays the base: it follows `cmd_vel_gated`; odometry and scans are its own.

The cost: the robot walks under one call of a process, a reflex fires and walks back a little. Counted is the time in which the
legs belonged to nobody's motion: from the scan to the start of the reflex's call, and from its end to the moment at which the
kernel lets the walk go on. Slowing down, walking back and starting anew are the detour itself.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import tempfile
import time
import uuid
from array import array
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import yaml
from geometry_msgs.msg import Twist
from ghostshell.action import ExecuteSkill
from ghostshell.msg import ProcessHeartbeat, ReflexStateArray, SkillCall
from nav_msgs.msg import Odometry
from sensor_msgs.msg import LaserScan
from std_msgs.msg import String

from bench import ros_probe
from bench.common import ROOT, Target, arguments, report, spread_of, spread_table
from bench.reflex_load import REFLEXES, rules
from ghostshell_ros.runtime.goal_client import GoalClient
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import HEARTBEATS, LATCHED, SENSORS, SET_POINTS
from skill_kernel.events import CallKind, EventKind, ProcessKind, RunEvent

ROBOT = "robot"
"""Namespace, and the launch file that brings up a robot without its simulator."""
BEAMS = 360
FAR_M, AT_FRONT_M, AT_LEFT_M = 6.0, 0.17, 0.4
"""Ranges of the laser; the last two are about 0.1 m from the robot's edge."""
PING, PONG = "bench_scan", "bench_velocity"
MEDIAN_MS, P99_MS, COST_MS = 15.0, 30.0, 50.0
WALK_M = 1.5
WARM_UP = 5


class Probe(ros_probe.Probe):
    """The base, the scheduler of one walk, and the clock."""

    def __init__(self) -> None:
        super().__init__(ROBOT)
        self.x = 0.0
        self.left, self.front = FAR_M, FAR_M
        self.stops: list[float] = []
        self.pongs: list[float] = []
        self.events: list[tuple[float, RunEvent]] = []
        self.reflexes: ReflexStateArray | None = None
        self._velocity, self._at = (0.0, 0.0, 0.0), 0.0
        self._ticks = 0
        self._odometry = self.create_publisher(Odometry, "odom", SENSORS)
        self._scan = self.create_publisher(LaserScan, "scan", SENSORS)
        self._ping = self.create_publisher(LaserScan, PING, SENSORS)
        self._posture = self.create_publisher(String, "posture_state", LATCHED)
        self._posture.publish(String(data="stand"))
        self._beat = self.create_publisher(ProcessHeartbeat, "process_heartbeat", HEARTBEATS)
        self.calls = GoalClient(self, ExecuteSkill, "execute_skill")
        self.create_subscription(Twist, "cmd_vel_gated", self._on_velocity, SET_POINTS)
        self.create_subscription(Twist, "cmd_vel_reflex", lambda _: self._heard(self.stops), SET_POINTS)
        self.create_subscription(Twist, PONG, lambda _: self._heard(self.pongs), SENSORS)
        read_events(self, self._on_event)
        self.create_subscription(ReflexStateArray, "reflex_states", self._on_states, LATCHED)
        self.steady_timer(0.02, self._tick)
        self.steady_timer(0.1, lambda: self._beat.publish(ProcessHeartbeat(process_ids=["walker"])))

    def scan(self) -> LaserScan:
        """Return what the laser sees now."""
        message = LaserScan(angle_min=-math.pi, angle_max=math.pi, angle_increment=2 * math.pi / BEAMS)
        message.header.stamp, message.header.frame_id = self.get_clock().now().to_msg(), "laser"
        message.range_min, message.range_max = 0.05, 12.0
        ranges = [FAR_M] * BEAMS
        ranges[BEAMS // 2 - 8 : BEAMS // 2 + 8] = [self.front] * 16
        ranges[3 * BEAMS // 4 - 8 : 3 * BEAMS // 4 + 8] = [self.left] * 16
        message.ranges = array("f", ranges)
        return message

    def sense(self, *, front: float = FAR_M, left: float = FAR_M) -> float:
        """From now on the laser sees this; gives the time at which the first such scan was handed over."""
        self.front, self.left = front, left
        message = self.scan()
        began = time.perf_counter()
        self._scan.publish(message)
        return began

    def ping(self) -> float:
        """Send a scan to the other process; gives the time."""
        message = self.scan()
        began = time.perf_counter()
        self._ping.publish(message)
        return began

    def of(self, beginning: str, kind: EventKind, since: int) -> list[tuple[float, RunEvent]]:
        """Events of processes whose id begins so."""
        return [(at, e) for at, e in self.events[since:] if e.kind == kind and e.process_id.startswith(beginning)]

    def walk(self, metres: float) -> dict[str, Any]:
        """Start a walk; what is heard of it."""
        heard: dict[str, Any] = {}
        call = SkillCall(
            process_id="walker",
            stream_id="s",
            call_id=uuid.uuid4().hex,
            function="move_forward",
            channels=["movement"],
            args_json=json.dumps({"distance_m": metres}),
        )

        def ended(_: object, result: Any) -> None:
            with self.changed:
                heard.update(ended=time.perf_counter(), result=result)
                self.changed.notify_all()

        heard["began"], heard["from"] = time.perf_counter(), self.x
        self.call_soon(lambda: self.calls.send(ExecuteSkill.Goal(call=call), on_end=ended, goal_id=bytes.fromhex(call.call_id)))
        return heard

    def _heard(self, times: list[float]) -> None:
        at = time.perf_counter()
        with self.changed:
            times.append(at)
            self.changed.notify_all()

    def _on_event(self, message: RunEvent) -> None:
        with self.changed:
            self.events.append((time.perf_counter(), message))
            self.faults += [message.error_msg] if message.error_msg else []
            self.changed.notify_all()

    def _on_states(self, message: ReflexStateArray) -> None:
        with self.changed:
            self.reflexes = message
            self.changed.notify_all()

    def _on_velocity(self, message: Twist) -> None:
        self._velocity, self._at = (message.linear.x, message.linear.y, message.angular.z), time.monotonic()

    def _tick(self) -> None:
        if time.monotonic() - self._at < 0.2:
            self.x += self._velocity[0] * 0.02
        message = Odometry(child_frame_id="base_link")
        message.header.stamp, message.header.frame_id = self.get_clock().now().to_msg(), "odom"
        message.pose.pose.position.x, message.pose.pose.orientation.w = self.x, 1.0
        message.twist.twist.linear.x = self._velocity[0]
        self._odometry.publish(message)
        self._ticks += 1
        if self._ticks % 5 == 0:
            self._scan.publish(self.scan())


class Echo(RuntimeNode):
    """Answers a scan with a velocity, in a process of its own."""

    def __init__(self) -> None:
        super().__init__("bench_echo", namespace=ROBOT)
        answer = self.create_publisher(Twist, PONG, SENSORS)
        self.create_subscription(LaserScan, PING, lambda _: answer.publish(Twist()), SENSORS)


def latencies(probe: Probe, trials: int) -> dict[str, list[float]]:
    """Return times in seconds from scan to stop, and of round trips."""
    times: dict[str, list[float]] = {"stop": [], "round trip": []}
    for trial in range(-WARM_UP, trials):
        # Off the beat of the timers, and long enough that the reflex is armed again.
        time.sleep(0.72 + 0.017 * (trial % 7))
        probe.pongs.clear()
        pinged = probe.ping()
        try:
            probe.wait(lambda: probe.pongs, "the round trip", 0.5)
        except RuntimeError:
            continue  # best effort: the datagram was lost
        probe.stops.clear()
        sent = probe.sense(front=AT_FRONT_M)
        probe.wait(lambda: probe.stops, "the stop", 3.0)
        stopped = probe.stops[0]
        probe.sense()
        if trial >= 0:
            times["stop"].append(stopped - sent)
            times["round trip"].append(probe.pongs[0] - pinged)
    return times


def _walked(probe: Probe, start_m: float) -> bool:
    return probe.x - start_m > WALK_M / 3


def costs(probe: Probe, trials: int) -> dict[str, list[float]]:
    """Parts of the time in seconds that a firing takes from a walk besides the detour."""
    found: dict[str, list[float]] = {"cost": [], "there": [], "back": []}
    for _ in range(trials):
        time.sleep(0.8)
        since, heard = len(probe.events), probe.walk(WALK_M)
        ros_probe.until(partial(_walked, probe, heard["from"]), "the middle of the walk", 15.0)
        sent = probe.sense(left=AT_LEFT_M)
        try:
            probe.wait(partial(probe.of, "reflex-detour", CallKind.STARTED, since), "the detour", 5.0)
        finally:
            probe.sense()
        probe.wait(partial(probe.of, "walker", ProcessKind.RESUMED, since), "the walk going on", 10.0)
        probe.wait(partial(heard.__contains__, "ended"), "the end of the walk", 40.0)
        if heard["result"] is None or heard["result"].error_code:
            raise RuntimeError(f"the walk failed: {heard['result']}")
        started, ended = (probe.of("reflex-detour", kind, since)[0][0] for kind in (CallKind.STARTED, CallKind.ENDED))
        resumed = probe.of("walker", ProcessKind.RESUMED, since)[0][0]
        there, back = started - sent, max(0.0, resumed - ended)
        for name, value in (("cost", there + back), ("there", there), ("back", back)):
            found[name].append(value)
    return found


def main() -> int:
    """Bring everything up, measure, print, write out/bench/reflexes.json."""
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=200, help="stops (default 200)")
    parser.add_argument("--walks", type=int, default=10, help="walks with a detour (default 10)")
    parser.add_argument(ros_probe.ECHO, action="store_true", help="be the other process of the round trip")
    options = parser.parse_args()
    if options.echo:
        ros_probe.serve_echo(Echo)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        config = configured(Path(folder))
        try:
            with ros_probe.brought_up(ROBOT, Probe, robot="kalos", config_dir=str(config)) as probe:
                probe.wait(lambda: probe.reflexes and len(probe.reflexes.reflexes) == REFLEXES, "the reflexes", 30.0)
                ros_probe.until(probe.calls.server_is_ready, "the kernel's action")
                # Until drivers are active and nodes that have found each other answer their first calls.
                time.sleep(5.0)
                times = latencies(probe, options.trials)
                cost = costs(probe, options.walks)
                states = probe.reflexes
        except RuntimeError as error:
            print(f"bench_reflexes: {error}", file=sys.stderr)
            return 1
    _report(times, cost, states, options.json)
    return 0


def configured(folder: Path) -> Path:
    """Return the shipped configuration, with the reflexes of this benchmark."""
    target = folder / "config"
    shutil.copytree(ROOT / "config", target)
    shipped = target / "bench_reflexes_rules.yaml"
    shipped.write_text(yaml.safe_dump({"reflexes": rules()}))
    file = target / "reflexes.yaml"
    data = yaml.safe_load(file.read_text())
    data["/**/reflexes"]["ros__parameters"].update(shipped=str(shipped), data_dir=str(folder / "data"))
    file.write_text(yaml.safe_dump(data))
    return target


def _report(
    times: dict[str, list[float]], cost: dict[str, list[float]], states: ReflexStateArray | None, as_json: bool
) -> None:
    assert states is not None
    results = {
        "scan published to stop at the gate": spread_of(times["stop"]),
        "reference: scan there and velocity back, two processes": spread_of(times["round trip"]),
        "a firing's cost to a walk beyond the detour": spread_of(cost["cost"]),
        "… from the scan to the start of its call": spread_of(cost["there"]),
        "… from the end of its call to the walk's going on": spread_of(cost["back"]),
    }
    stop, trip, beyond, *_ = results.values()
    mean_us = sum(r.mean_us for r in states.reflexes) / len(states.reflexes)
    targets = [
        Target("scan published to stop at the gate, median", stop["median_ms"], MEDIAN_MS, "ms"),
        Target("scan published to stop at the gate, 99 %", stop["p99_ms"], P99_MS, "ms"),
        Target("a firing's cost to a walk beyond the detour, median", beyond["median_ms"], COST_MS, "ms"),
    ]
    more = {
        "reflexes": len(states.reflexes),
        "evaluation_us": round(mean_us, 2),
        "rounds_hz": round(states.rate_hz, 1),
        "late_ms": round(states.late_ms, 2),
        "latest_ms": round(states.latest_ms, 2),
        "ratio_to_round_trip": round(stop["median_ms"] / trip["median_ms"], 1),
    }
    title = (
        f"{more['reflexes']} reflexes, {mean_us:.1f} µs an evaluation, {more['rounds_hz']} rounds a second, late by "
        f"{more['late_ms']} ms (median of the last second); a stop takes {more['ratio_to_round_trip']} round trips [ms]"
    )
    report("reflexes", {"results": results, **more}, [spread_table(title, results)], targets, as_json=as_json)


if __name__ == "__main__":
    sys.exit(main())
