# SPDX-License-Identifier: Apache-2.0
"""From a camera frame published to the detection received, beside a round trip of the same image between two processes; what
the detector takes of a CPU at 5 images a second; and how much it finds in a building it was not trained in.

The frames are those of Kalos's camera in its building (scripts/detector/building.py). A frame and its detection cross one hop
each, as the image does there and back, so the difference is the detector's own. Average precision as in COCO, over frames from
random places, things cut off or half hidden included.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import rclpy
from ghostshell.msg import DetectionArray
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CameraInfo, Image

from bench import ros_probe
from bench.common import ROOT, Table, Target, arguments, report, spread_of, spread_table
from ghostshell_ros.perception.detector import OnnxDetector
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.images import to_message
from ghostshell_ros.wire.qos import IMAGES, SENSORS
from scripts.detector.average_precision import scores, truth_of
from scripts.detector.building import Building
from scripts.detector.render_frames import rendered
from scripts.detector.shapes import HEIGHT, LABELS, WIDTH

ROBOT = "bench"
SEED = 93
WARM_UP = 5
PERIOD_S = 0.2
"""Kalos's camera gives 5 images a second."""
LEAST = 0.02


class Echo(RuntimeNode):
    """Sends every image back, in a process of its own."""

    def __init__(self) -> None:
        super().__init__("bench_echo", namespace=ROBOT)
        back = self.create_publisher(Image, "bench_pong", IMAGES)
        self.create_subscription(Image, "bench_ping", back.publish, IMAGES)


class Probe(ros_probe.Probe):
    """Is the camera, and hears what is seen and what comes back."""

    def __init__(self) -> None:
        super().__init__(ROBOT)
        self.seen: dict[int, tuple[float, int]] = {}
        self.back: dict[int, float] = {}
        self.camera = self.create_publisher(Image, "camera/image_raw", IMAGES)
        self.info = self.create_publisher(CameraInfo, "camera/camera_info", IMAGES)
        self.ping = self.create_publisher(Image, "bench_ping", IMAGES)
        self.create_subscription(DetectionArray, "object_detections", self._on_seen, SENSORS)
        self.create_subscription(Image, "bench_pong", self._on_back, IMAGES)

    def timed(self, number: int, message: Any, publisher: Any, answers: dict[int, Any], what: str) -> float:
        """Publish an image, which bears its number as the seconds of its stamp, and wait for what answers it."""
        message.header.stamp.sec = number
        began = time.perf_counter()
        publisher.publish(message)
        self.wait(lambda: number in answers, what)
        answer = answers[number]
        return (answer[0] if isinstance(answer, tuple) else answer) - began

    def _on_seen(self, message: DetectionArray) -> None:
        with self.changed:
            self.seen[message.header.stamp.sec] = time.perf_counter(), len(message.detections)
            self.changed.notify_all()

    def _on_back(self, message: Image) -> None:
        with self.changed:
            self.back[message.header.stamp.sec] = time.perf_counter()
            self.changed.notify_all()


@contextmanager
def brought_up() -> Iterator[tuple[Probe, int]]:
    """Start the detector, the echo and the probe; return the probe and the detector's process id."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    parameters = ["--ros-args", "-r", f"__ns:=/{ROBOT}", "--params-file", str(ROOT / "config" / "object_detector.yaml")]
    detector = subprocess.Popen([sys.executable, "-m", "ghostshell_ros.executables", "object_detector", *parameters], cwd=ROOT)
    echo = subprocess.Popen([sys.executable, sys.argv[0], ros_probe.ECHO], stdin=subprocess.PIPE)
    probe = Probe()
    try:
        with NodeHost([probe]) as host:
            host.start()
            ros_probe.until(
                lambda: (
                    probe.camera.get_subscription_count()
                    and probe.info.get_subscription_count()
                    and probe.ping.get_subscription_count()
                    and probe.count_publishers("bench_pong")
                    and probe.count_publishers("object_detections")
                ),
                "the detector and the echo process",
            )
            probe.info.publish(CameraInfo(k=[207.8, 0.0, 160.0, 0.0, 207.8, 120.0, 0.0, 0.0, 1.0]))
            time.sleep(0.5)
            yield probe, detector.pid
    finally:
        detector.terminate()
        echo.communicate()
        detector.wait(10.0)
        rclpy.try_shutdown()


def measure(probe: Probe, process: int, frames: np.ndarray, trials: int) -> tuple[dict[str, list[float]], float, int]:
    """Latencies in s, the detector's share of one CPU, and how many things it reported."""
    times: dict[str, list[float]] = {"detection": [], "round trip": []}
    began = cpu = 0.0
    for trial in range(-WARM_UP, trials):
        if trial == 0:
            began, cpu = time.monotonic(), _cpu_s(process)
        due = time.monotonic() + PERIOD_S
        image = to_message(frames[trial % len(frames)], probe.get_clock().now().to_msg(), "camera_optical_frame")
        number = trial + WARM_UP + 1
        seen = probe.timed(number, image, probe.camera, probe.seen, "the detections")
        back = probe.timed(number, image, probe.ping, probe.back, "the answer of the echo process")
        if trial >= 0:
            times["detection"].append(seen)
            times["round trip"].append(back)
        time.sleep(max(0.0, due - time.monotonic()))
    share = (_cpu_s(process) - cpu) / (time.monotonic() - began)
    return times, share, sum(count for _, count in probe.seen.values())


def _cpu_s(process: int) -> float:
    """Seconds of CPU that a process has used (proc(5), stat: utime and stime)."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Render, measure, print, write out/bench/detection.json."""
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=200, help="frames that are timed (default 200)")
    parser.add_argument("--frames", type=int, default=1000, help="frames for the average precision (default 1000)")
    parser.add_argument(ros_probe.ECHO, action="store_true", help="be the other process of the round trip")
    options = parser.parse_args()
    if options.echo:
        ros_probe.serve_echo(Echo)
        return 0
    frames = np.zeros((options.frames, HEIGHT, WIDTH, 3), np.uint8)
    rows = rendered(Building(np.random.default_rng([SEED, 0])), frames)
    detector = OnnxDetector(confidence=LEAST)
    found, inside = [], []
    for frame in frames:
        began = time.perf_counter()
        found.append(detector.detect(frame))
        inside.append(time.perf_counter() - began)
    table = scores(found, truth_of(np.array(rows, np.float32), len(frames)), LABELS)
    try:
        with brought_up() as (probe, process):
            times, share, things = measure(probe, process, frames, options.trials)
    except RuntimeError as error:
        print(f"bench_detection: {error}", file=sys.stderr)
        return 1
    results = {
        "frame published to detection received": spread_of(times["detection"]),
        "reference: the same image there and back, two processes": spread_of(times["round trip"]),
        "of it in the network, with what is before and after it": spread_of(inside),
    }
    figures = list(results.values())
    added = round(figures[0]["median_ms"] - figures[1]["median_ms"], 2)
    precision = {label: {"ap50": round(a, 3), "ap50_95": round(b, 3)} for label, (a, b) in table.items()}
    cells = [[label, p["ap50"], p["ap50_95"]] for label, p in precision.items()]
    targets = [
        Target("frame to detection, median", figures[0]["median_ms"], 50.0, "ms"),
        Target("detector's share of one CPU at 5 Hz", round(100 * share, 1), 15.0, "%"),
        Target("mean AP@0.5 in the building", precision["all"]["ap50"], 0.7, least=True),
    ]
    tables = [
        spread_table(f"detection [ms]; {added} ms more than the image there and back", results),
        Table(f"average precision in Kalos's building, {len(frames)} frames", ("thing", "AP@0.5", "AP@0.5:0.95"), cells),
    ]
    measured = {"results": results, "cpu_share": round(share, 3), "average_precision": precision, "things_reported": things}
    report("detection", measured, tables, targets, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
