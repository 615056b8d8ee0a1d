# SPDX-License-Identifier: Apache-2.0
"""Which classes a `walk 20 cm` passes, over ROS with all of Kalos's nodes up: from the instruction to the goal that the driver
of its base accepts. It counts those of the product whose code runs meanwhile and does not while nothing is asked.

All node processes write down whose code runs, by Python's profile hook, which `sitecustomize` puts there; so nothing here is a
time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from action_msgs.msg import GoalStatusArray
from rclpy.qos import qos_profile_action_status_default
from std_msgs.msg import String

from bench import ros_probe
from bench.bench_reflexes import ROBOT, Echo
from bench.bench_reflexes import Probe as Base
from bench.common import Table, arguments, report
from ghostshell_ros.wire.qos import INSTRUCTION

ROOMS = ("skill_kernel", "function_tokens", "reflexes", "planners", "ghostshell_ros")
IDLE_S, SETTLE_S = 5.0, 0.2
SAID = "walk 20 cm"
FOLDER = "GHOSTSHELL_BENCH_WAY"
HOOK = f"""
import json, os, sys, threading, time
from pathlib import Path

folder, rooms, seen, on = Path(os.environ["{FOLDER}"]), {ROOMS!r}, set(), False

def profile(frame, event, _):
    if on and event == "call":
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] in rooms:
            seen.add((module, frame.f_code.co_qualname))

def watch():
    global on
    span = ""
    while True:
        now = next((f.name for f in folder.glob("on.*")), "")
        if span and not now:
            on = False
            (folder / f"ran{{span.removeprefix('on')}}.{{os.getpid()}}").write_text(json.dumps(sorted(seen)))
            seen.clear()
        span, on = now, bool(now)
        time.sleep(0.005)

def start():
    threading.Thread(target=watch, daemon=True).start()

threading.setprofile(profile)
sys.setprofile(profile)
os.register_at_fork(after_in_child=start)
start()
"""


class Probe(Base):
    """The base, and who says it."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted = 0
        self.instruction = self.create_publisher(String, "instruction", INSTRUCTION)
        self.create_subscription(GoalStatusArray, "drive/_action/status", self._on_status, qos_profile_action_status_default)

    def _on_status(self, message: GoalStatusArray) -> None:
        with self.changed:
            self.accepted = len(message.status_list)
            self.changed.notify_all()


def classes(folder: Path, span: str) -> set[str]:
    """Return the classes whose code ran in a span, by their modules."""
    found = set()
    for file in folder.glob(f"ran.{span}.*"):
        for module, name in json.loads(file.read_text()):
            owner = name.partition(".<locals>")[0].rpartition(".")[0]
            found |= {f"{module}.{owner}"} if owner else set()
    return found


def measure(folder: Path) -> tuple[set[str], set[str]]:
    """Return the classes that run while nothing is asked, and on the way of the instruction."""
    with ros_probe.brought_up(ROBOT, Probe, robot="kalos") as probe:
        ros_probe.until(probe.calls.server_is_ready, "the kernel's action")
        ros_probe.until(probe.instruction.get_subscription_count, "who hears instructions")
        time.sleep(IDLE_S)  # until drivers are active and nodes that have found each other answer their first calls

        def span(name: str) -> Path:
            flag = folder / f"on.{name}"
            flag.touch()
            time.sleep(SETTLE_S)
            return flag

        flag = span("idle")
        time.sleep(IDLE_S)
        flag.unlink()
        time.sleep(SETTLE_S)
        flag = span("way")
        probe.call_soon(probe.instruction.publish, String(data=SAID))
        probe.wait(lambda: probe.accepted, "the goal of the base", 15.0)
        flag.unlink()
        time.sleep(SETTLE_S)
    return classes(folder, "idle"), classes(folder, "way")


def main() -> int:
    """Bring everything up, measure, print, write out/bench/way.json."""
    parser = arguments(__doc__)
    parser.add_argument(ros_probe.ECHO, action="store_true", help="be the other process that every benchmark has")
    options = parser.parse_args()
    if options.echo:
        ros_probe.serve_echo(Echo)
        return 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "sitecustomize.py").write_text(HOOK)
        os.environ |= {FOLDER: made, "PYTHONPATH": f"{made}:{os.environ.get('PYTHONPATH', '')}"}
        try:
            idle, way = measure(folder)
        except RuntimeError as error:
            print(f"bench_way: {error}", file=sys.stderr)
            return 1
    own = sorted(way - idle)
    rooms = Counter(name.partition(".")[0] for name in own)
    table = Table(f"classes that `{SAID}` passes", ("room", "classes"), [*rooms.most_common(), ("all", len(own))])
    report("way", {"classes": own, "by_room": rooms, "running_anyway": len(way & idle)}, [table], as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
