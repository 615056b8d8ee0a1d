# SPDX-License-Identifier: Apache-2.0
"""Measure whether the simulation of Kalos keeps up with real time. Its node runs as a process of its own, the robot walking in
the building with all sensors on (camera 320x240 at 5 Hz, lidar 10 Hz), once in real time and once at full speed; then the bare
physics runs without gait, sensors and ROS."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import ROOT, Table, Target, arguments, report

os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
# A domain for this run alone: the first context reads it, and the process of the simulation inherits it.
os.environ["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)

import rclpy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import Image, LaserScan

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.sim.world import SimWorld
from ghostshell_ros.wire.qos import IMAGES, SENSORS, SET_POINTS
from skill_kernel.robot import RobotConfig

ROBOT = "kalos"
MEASURE_S = 8.0
FASTEST = 10.0
"""Real-time factor to which the run at full speed is held."""


class Probe(RuntimeNode):
    """Walk the robot to and fro and count messages; the simulated time is the stamp of odometry."""

    def __init__(self) -> None:
        super().__init__("bench_probe", namespace=ROBOT)
        self.counts = {"odom": 0, "scan": 0, "camera": 0}
        self.simulated = 0.0
        self._began = time.monotonic()
        self._velocity = self.create_publisher(Twist, "cmd_vel_gated", SET_POINTS)
        self.create_subscription(Odometry, "odom", self._odom, SENSORS)
        self.create_subscription(LaserScan, "scan", lambda _: self._count("scan"), SENSORS)
        self.create_subscription(Image, "camera/image_raw", lambda _: self._count("camera"), IMAGES)
        self.steady_timer(0.02, self._walk)

    def _count(self, name: str) -> None:
        self.counts[name] += 1

    def _odom(self, message: Odometry) -> None:
        self._count("odom")
        self.simulated = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9

    def _walk(self) -> None:
        twist = Twist()
        twist.linear.x = 0.4 if int(self.simulated / 3.0) % 2 == 0 else -0.35
        self._velocity.publish(twist)


def main() -> int:
    options = arguments(__doc__).parse_args()
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    try:
        paced, free = (_measure(rtf) for rtf in (1.0, FASTEST))
    finally:
        rclpy.try_shutdown()
    bare = _bare_physics()
    rows = [
        ("node, held to real time", paced["factor"], paced["core"], paced["camera_hz"], paced["scan_hz"]),
        ("node, as fast as it goes", free["factor"], free["core"], free["camera_hz"], free["scan_hz"]),
        ("bare physics, one core", bare, 1.0, None, None),
    ]
    report(
        "sim",
        {"paced": paced, "free": free, "bare_physics_factor": bare},
        [Table("Kalos walking in the building", ("run", "real-time factor", "cores", "camera Hz", "lidar Hz"), rows)],
        [
            Target("real-time factor, held to 1", paced["factor"], 0.99, "", least=True),
            Target("real-time factor at full speed", free["factor"], 1.0, "", least=True),
            Target("camera images a second, 320x240", paced["camera_hz"], 4.5, "Hz", least=True),
        ],
        as_json=options.json,
    )
    return 0


def _measure(rtf: float) -> dict[str, Any]:
    """Run the node, walk, and return the real-time factor, cores used and rates over MEASURE_S."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ghostshell_ros.executables",
            "sim",
            "--ros-args",
            "-r",
            f"__ns:=/{ROBOT}",
            "-p",
            f"robot:={ROBOT}",
            "-p",
            "world:=building",
            "-p",
            "camera:=front_camera",
            "-p",
            "camera_rate_hz:=5.0",
            "-p",
            "publish_clock:=true",
            "-p",
            f"rtf:={rtf}",
        ],
        cwd=ROOT,
    )
    probe = Probe()
    try:
        with NodeHost([probe]) as host:
            host.start()
            deadline = time.monotonic() + 30.0
            while probe.counts["camera"] < 5 or probe.counts["odom"] < 20:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError(f"the simulation sent no pictures within 30 s ({probe.counts}); see its log")
                time.sleep(0.05)
            before = (time.monotonic(), probe.simulated, dict(probe.counts), _cpu_s(process.pid))
            time.sleep(MEASURE_S)
            after = (time.monotonic(), probe.simulated, dict(probe.counts), _cpu_s(process.pid))
    finally:
        process.terminate()
        try:
            process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    seconds = after[0] - before[0]
    return {
        "factor": round((after[1] - before[1]) / seconds, 3),
        "core": round((after[3] - before[3]) / seconds, 2),
        **{f"{name}_hz": round((after[2][name] - before[2][name]) / seconds, 1) for name in probe.counts},
    }


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of the one that renders for it [s]."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    times = 0
    for number in (pid, *map(int, children)):
        fields = Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        times += int(fields[11]) + int(fields[12])
    return times / os.sysconf("SC_CLK_TCK")


def _bare_physics() -> float:
    world = SimWorld(RobotConfig.load(ROBOT).model_path(), world="building")
    began = time.process_time()
    world.advance(4.0)
    return round(4.0 / (time.process_time() - began), 1)


if __name__ == "__main__":
    sys.exit(main())
