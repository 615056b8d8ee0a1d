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

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ghostshell.msg import ProcessArray, ProcessState
from std_msgs.msg import String

from bench import ros_probe
from bench.common import Target, arguments, report, spread_of, spread_table
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED
from skill_kernel.events import CallKind, EventKind, ProcessKind, RunEvent

ROBOT = "coco"
LONG, SHORT = "shake your head for 8 seconds", "look up, then go on"
"""The long one begins anew each time that it comes back; a longer one would measure its long trajectory."""
WARM_UP = 3
AIM_MS = 50.0


class Probe(ros_probe.Probe):
    """Gives instructions and hears what becomes of them."""

    def __init__(self) -> None:
        super().__init__(ROBOT)
        self.goals = ros_probe.Goals(self)
        self.events: list[RunEvent] = []
        self.processes: list[ProcessState] = []
        self.said = self.create_publisher(String, "instruction", INSTRUCTION)
        self.call = ros_probe.timed_calls(self, ros_probe.ECHO_SERVICE)
        read_events(self, self._event)
        self.create_subscription(ProcessArray, "processes", self._processes, LATCHED)

    def say(self, text: str) -> tuple[str, float]:
        """Give an instruction; its process and when it was said."""
        known = {p.process_id for p in self.processes}
        said_s = self.get_clock().now().nanoseconds * 1e-9
        self.said.publish(String(data=text))
        self.wait(lambda: {p.process_id for p in self.processes} - known, f"a process for “{text}”")
        return self.processes[-1].process_id, said_s

    def event(self, kind: EventKind, process_id: str, since: int = 0) -> RunEvent | None:
        """Return the first event of a process, not among the first `since`."""
        return next((e for e in self.events[since:] if e.kind == kind and e.process_id == process_id), None)

    def stamp(self, kind: EventKind, process_id: str, what: str) -> float:
        """Wait for an event; its stamp."""
        self.wait(lambda: self.event(kind, process_id), what)
        found = self.event(kind, process_id)
        return found.stamp_s if found is not None else 0.0

    def goal_after(self, time_s: float, what: str) -> float:
        """Return when the driver accepted its first goal after a time."""
        accepted = self.goals.accepted
        self.wait(lambda: any(at > time_s for at in accepted.values()), what)
        return min(at for at in accepted.values() if at > time_s)

    def _event(self, message: RunEvent) -> None:
        with self.changed:
            self.events.append(message)
            if message.error_msg and message.kind != CallKind.CONTENTION:
                self.faults.append(message.error_msg)
            self.changed.notify_all()

    def _processes(self, message: ProcessArray) -> None:
        with self.changed:
            self.processes = list(message.processes)
            self.changed.notify_all()


def measure(probe: Probe, trials: int) -> dict[str, list[float]]:
    """Latencies in seconds. Raises RuntimeError when a step does not come."""
    times: dict[str, list[float]] = {"there": [], "said": [], "back": [], "round trip": []}
    long, _ = probe.say(LONG)
    probe.stamp(CallKind.STARTED, long, "the long call")
    for trial in range(-WARM_UP, trials):
        time.sleep(0.2)
        asked, answered = probe.call(ros_probe.ECHO_SERVICE)
        short, said = probe.say(SHORT)
        contention = probe.stamp(CallKind.CONTENTION, short, "the contention")
        there = probe.goal_after(contention, "the first command of the new process")
        ended = probe.stamp(ProcessKind.ENDED, short, "the end of the new process")
        back = probe.goal_after(ended, "the first command of the one that comes back")
        if probe.event(ProcessKind.ENDED, long) is not None:
            raise RuntimeError(f"the displaced process did not come back: {probe.faults[-1:]}")
        if trial >= 0:
            for name, value in (
                ("there", there - contention),
                ("said", there - said),
                ("back", back - ended),
                ("round trip", answered - asked),
            ):
                times[name].append(value)
    return times


def main() -> int:
    """Bring everything up, measure, print, write out/bench/processes.json."""
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=40, help="times that the process is displaced (default 40)")
    parser.add_argument(ros_probe.ECHO, action="store_true", help="be the other process of the round trip")
    options = parser.parse_args()
    if options.echo:
        ros_probe.serve_echo(lambda: ros_probe.ServiceEcho(ROBOT))
        return 0
    try:
        with ros_probe.brought_up(ROBOT, Probe) as probe:
            ros_probe.until(
                lambda: (
                    probe.said.get_subscription_count()
                    and probe.count_publishers("events") >= 4
                    and probe.count_publishers(ros_probe.GOALS)
                ),
                "the process scheduler and the driver",
            )
            probe.call(ros_probe.ECHO_SERVICE)
            # Nodes that have found each other answer the first call of a service late: not what is measured.
            time.sleep(1.0)
            times = measure(probe, options.trials)
    except RuntimeError as error:
        print(f"bench_processes: {error}", file=sys.stderr)
        return 1
    _report(times, options.json)
    return 0


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
    ratios = {name: round(r["median_ms"] / trip["median_ms"], 1) for name, r in (("there", there), ("back", back))}
    title = f"processes over ROS, no model [ms]; there takes {ratios['there']}, back {ratios['back']} service round trips"
    report(
        "processes",
        {"results": results, "ratio_to_round_trip": ratios},
        [spread_table(title, results)],
        targets,
        as_json=as_json,
    )


if __name__ == "__main__":
    sys.exit(main())
