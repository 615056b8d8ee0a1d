# SPDX-License-Identifier: Apache-2.0
"""From a scan published to the observation that tells of it, at the rates of Kalos's sensors; beside the same scan sent back
by a plain echo node, and the share of a core that the observer takes.

The scan and its observation are two hops between two processes, as the echo's are: what the observer adds is the difference
of the two, and it is also measured within its process, from the scan's arrival to the end of publishing. Odometry and
transforms come at 50 Hz, scans of 360 rays at 10 Hz, detections of three things at 5 Hz, the battery at 1 Hz.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rclpy
from geometry_msgs.msg import TransformStamped
from ghostshell.msg import Detection, DetectionArray, Observation
from nav_msgs.msg import Odometry
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import BatteryState, LaserScan
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from bench import ros_probe
from bench.common import Target, arguments, report, spread_of, spread_table
from ghostshell_ros.nodes.observer.node import ObserverNode
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import LATCHED, OBSERVATION, SENSORS

ROBOT = "kalos"
OBSERVE = "--observe"
WAIT_S = 10.0
SCAN_S = 0.1
ADDED_MS = 3.0
STEP_M = 0.2
"""Distance between what two scans show in front [m]; the observer takes a smaller one for noise."""
WARM_UP = 10
HZ = os.sysconf("SC_CLK_TCK")


class Echo(RuntimeNode):
    """Sends every scan back, in a process of its own."""

    def __init__(self) -> None:
        super().__init__("bench_echo", namespace=ROBOT)
        back = self.create_publisher(LaserScan, "bench_pong", OBSERVATION)
        self.create_subscription(LaserScan, "bench_ping", back.publish, SENSORS)


class TimedObserver(ObserverNode):
    """The node itself, which notes how long a scan takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.took: list[float] = []
        take, publish = self._observer.scan, self._publisher.publish
        began = [0.0]

        def scan(*given: Any) -> bool:
            began[0] = time.perf_counter()
            return take(*given)

        def told(message: Observation) -> None:
            publish(message)
            if began[0]:
                self.took.append(time.perf_counter() - began[0])
                began[0] = 0.0

        watched: list[Any] = [self._observer, self._publisher]
        watched[0].scan, watched[1].publish = scan, told


class Probe(ros_probe.Probe):
    """Kalos's sensors, and what comes back of a scan."""

    def __init__(self) -> None:
        super().__init__(ROBOT)
        self.arrived: dict[str, tuple[int, float]] = {}
        self.observations = 0
        self._number = 0
        made = self.create_publisher
        self._odom, self._tf = made(Odometry, "odom", SENSORS), made(TFMessage, "/tf", 100)
        self._tf_static = made(TFMessage, "/tf_static", LATCHED)
        self._battery = made(BatteryState, "battery_state", SENSORS)
        self._seen = made(DetectionArray, "object_detections", SENSORS)
        self.outs = {"observation": made(LaserScan, "scan", SENSORS), "echo": made(LaserScan, "bench_ping", SENSORS)}
        self.create_subscription(Observation, "observation", self._on_observation, OBSERVATION)
        self.create_subscription(LaserScan, "bench_pong", lambda m: self._note("echo", m.ranges[180]), OBSERVATION)
        placed = TransformStamped(child_frame_id=f"{ROBOT}/odom")
        placed.header.frame_id, placed.transform.rotation.w = f"{ROBOT}/map", 1.0
        self._tf_static.publish(TFMessage(transforms=[placed]))
        self.steady_timer(0.02, self._move)
        self.steady_timer(0.2, self._see)
        self.steady_timer(1.0, lambda: self._battery.publish(BatteryState(percentage=0.5)))

    def _move(self) -> None:
        odom = Odometry(child_frame_id="base_link")
        odom.header.stamp, odom.header.frame_id = self.get_clock().now().to_msg(), "odom"
        odom.pose.pose.orientation.w = 1.0
        self._odom.publish(odom)
        frames = [TransformStamped(child_frame_id=name) for name in ("base_link", "laser")]
        for frame in frames:
            frame.header = odom.header
        self._tf.publish(TFMessage(transforms=frames))

    def _see(self) -> None:
        things = [Detection(label="person", confidence=0.9, bearing=0.3 * i, distance=2.0 + i) for i in range(3)]
        self._seen.publish(DetectionArray(header=Header(stamp=self.get_clock().now().to_msg()), detections=things))

    def _on_observation(self, message: Observation) -> None:
        self.observations += 1
        for field in message.fields:
            if field.name == "obstacles" and field.numbers:
                # From the laser to the edge of the robot: kalos.yaml.
                self._note("observation", field.numbers[field.names.index("front")] - 0.28 + 0.35)

    def _note(self, what: str, distance: float) -> None:
        at = time.perf_counter()
        number = round((distance - 1.0) / STEP_M)
        with self.changed:
            if self.arrived.get(what, (-1, 0.0))[0] != number:
                self.arrived[what] = (number, at)
                self.changed.notify_all()

    def first_trip(self, what: str) -> None:
        """Send scans until one comes back: the ways there and back are found one after the other."""
        for _ in range(60):
            with suppress(RuntimeError):
                self.trip(what, 0.5)
                return
        raise RuntimeError(f"no {what} within 30 s")

    def trip(self, what: str, wait_s: float = WAIT_S) -> float:
        """Seconds from publishing a scan to what comes back of it."""
        self._number = self._number % 20 + 1
        number = self._number
        scan = LaserScan(angle_min=-math.pi, angle_increment=math.tau / 360, range_min=0.05, range_max=12.0)
        scan.header.stamp = self.get_clock().now().to_msg()
        scan.ranges = [5.0] * 180 + [1.0 + number * STEP_M] + [5.0] * 179
        began = time.perf_counter()
        self.call_soon(self.outs[what].publish, scan)
        self.wait(lambda: self.arrived.get(what, (-1, 0.0))[0] == number, f"the {what} of a scan", wait_s)
        return self.arrived[what][1] - began


def cpu_s(pid: int) -> float:
    """Seconds of a core that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / HZ


def observe() -> None:
    """Be the observer until the one that started it ends; then tell how long the scans took."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    sys.setswitchinterval(0.001)
    node = TimedObserver()
    with NodeHost([node]) as host:
        host.start()
        sys.stdin.read()
    print(json.dumps(node.took))


def measure(trials: int) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Return times in seconds by what was measured, and the observer's load."""
    ros = ["--ros-args", "-r", f"__ns:=/{ROBOT}", "-p", f"robot:={ROBOT}"]
    command = [sys.executable, sys.argv[0], ros_probe.ECHO]
    observer = subprocess.Popen([*command, OBSERVE, *ros], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    echo = subprocess.Popen(command, stdin=subprocess.PIPE)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    probe = Probe()
    times: dict[str, list[float]] = {"observation": [], "echo": []}
    try:
        with NodeHost([probe]) as host:
            host.start()
            for what in probe.outs:
                probe.first_trip(what)
            for trial in range(trials + WARM_UP):
                if trial == WARM_UP:
                    used, heard, since = cpu_s(observer.pid), probe.observations, time.monotonic()
                for what, found in times.items():
                    took = probe.trip(what)
                    if trial >= WARM_UP:
                        found.append(took)
                    time.sleep(SCAN_S / 2)
            lasted = time.monotonic() - since
            load = {
                "share of a core": round((cpu_s(observer.pid) - used) / lasted, 4),
                "observations a second": round((probe.observations - heard) / lasted, 1),
                "seconds": round(lasted, 1),
            }
    finally:
        echo.communicate()
        within, _ = observer.communicate()
        rclpy.try_shutdown()
    times["within the observer"] = json.loads(within)[WARM_UP:]
    return times, load


def main() -> int:
    """Measure, print, write out/bench/observer.json."""
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=200, help="scans of each kind (default 200)")
    parser.add_argument(ros_probe.ECHO, action="store_true", help="be the other process of the round trip")
    parser.add_argument(OBSERVE, action="store_true", help="be the observer, in a process of its own")
    options, _ = parser.parse_known_args()
    if options.observe:
        observe()
        return 0
    if options.echo:
        ros_probe.serve_echo(Echo)
        return 0
    sys.setswitchinterval(0.001)
    times, load = measure(options.trials)
    spreads = {name: spread_of(values) for name, values in times.items()}
    results = {
        "scan published to its observation": spreads["observation"],
        "reference: scan sent back by an echo node": spreads["echo"],
        "within the observer: scan arrived to observation published": spreads["within the observer"],
    }
    added = spreads["observation"]["median_ms"] - spreads["echo"]["median_ms"]
    targets = [
        Target("within the observer, median", spreads["within the observer"]["median_ms"], ADDED_MS, "ms"),
        Target("added to an echo's round trip, median", round(added, 3), ADDED_MS, "ms"),
        Target("observer's share of a core", load["share of a core"], 0.1),
    ]
    title = f"scan to observation at the rates of {ROBOT}'s sensors [ms]; {load['observations a second']} observations a second"
    report("observer", {"results": results, "load": load}, [spread_table(title, results)], targets, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
