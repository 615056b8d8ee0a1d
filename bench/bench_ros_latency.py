# SPDX-License-Identifier: Apache-2.0
"""Over ROS with all of CoCo's nodes up: from the `>` that completes a tag to the goal accepted by the driver of the joints,
beside a plain topic round trip between two processes under the same load.

Measured from the `stamp` of the FunctionToken (which token_parser sets when it has the chunk with the `>`) to the stamp
that the driver's action server gives the goal when it accepts it (`move_joints/_action/status`). Both are system time of
one machine. In between lie three hops between nodes: token_parser, channel_scheduler, skill_kernel (with the skill's
thread), move_joints_driver. The round trip is measured between two of these calls, with the same executor and QoS.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ghostshell.msg import FunctionToken, LlmChunk

from bench import ros_probe
from bench.common import Target, arguments, report, spread_of, spread_table
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import STREAM
from skill_kernel.codes import Outcome
from skill_kernel.events import CallKind, RunEvent

ROBOT = "coco"
WARM_UP = 6
NONCE = f"{os.getpid():x}{time.time_ns() & 0xFFFFFF:x}"
CALLS = (
    '<head_pose yaw="{}" pitch="5"',
    '<ear_swing side="left" start_angle="{}" end_angle="10" duration="0"',
    '<ear_swing side="right" start_angle="{}" end_angle="10" duration="0"',
)
"""Short calls with one goal of `move_joints` each, on three channels in turn; the last character is sent alone."""


class Echo(RuntimeNode):
    """Sends every chunk back, in a process of its own."""

    def __init__(self) -> None:
        super().__init__("bench_echo", namespace=ROBOT)
        back = self.create_publisher(LlmChunk, "bench_pong", STREAM)
        self.create_subscription(LlmChunk, "bench_ping", back.publish, STREAM)


class Probe(ros_probe.Probe):
    """Writes streams and hears what becomes of them."""

    def __init__(self) -> None:
        super().__init__(ROBOT)
        self.goals = ros_probe.Goals(self)
        self.tokens: dict[str, float] = {}
        self.ended: dict[str, Outcome | None] = {}
        self.pongs: dict[int, float] = {}
        self.chunks = self.create_publisher(LlmChunk, "llm_chunks", STREAM)
        self.ping = self.create_publisher(LlmChunk, "bench_ping", STREAM)
        self.create_subscription(FunctionToken, "function_tokens", self._token, STREAM)
        read_events(self, self._event)
        self.create_subscription(LlmChunk, "bench_pong", self._pong, STREAM)

    def send(self, stream_id: str, seq: int, text: str, *, last: bool = False) -> float:
        """Publish a chunk; the time it was handed over."""
        stamp = self.get_clock().now()
        message = LlmChunk(stamp=stamp.to_msg(), process_id=f"bench{NONCE}", stream_id=stream_id, seq=seq, text=text, last=last)
        self.chunks.publish(message)
        return stamp.nanoseconds * 1e-9

    def round_trip(self, seq: int, text: str) -> float:
        """Seconds until a chunk has come back from the echo process."""
        began = time.perf_counter()
        self.ping.publish(LlmChunk(seq=seq, text=text))
        self.wait(lambda: seq in self.pongs, "the answer of the echo process")
        return self.pongs[seq] - began

    def _pong(self, message: LlmChunk) -> None:
        at = time.perf_counter()
        with self.changed:
            self.pongs[message.seq] = at
            self.changed.notify_all()

    def _token(self, message: FunctionToken) -> None:
        if message.kind == FunctionToken.SELF_CONTAINED:
            with self.changed:
                self.tokens[message.stream_id] = ros_probe.seconds(message.stamp)
                self.changed.notify_all()

    def _event(self, message: RunEvent) -> None:
        with self.changed:
            if message.kind == CallKind.ENDED:
                self.ended[message.stream_id] = message.outcome
            if message.error_msg:
                self.faults.append(message.error_msg)
            self.changed.notify_all()


def measure(probe: Probe, trials: int, spacing_s: float) -> dict[str, list[float]]:
    """Latencies in seconds: from the stamp of the token, and from the publication of the chunk; round trips. A call that
    never reaches the driver is left out here and counted by its outcome; raises RuntimeError when more than a tenth do."""
    times: dict[str, list[float]] = {"token to goal": [], "chunk to goal": [], "round trip": []}
    lost = 0
    for trial in range(-WARM_UP, trials):
        stream_id = f"s{NONCE}.{trial + WARM_UP}"
        tag = CALLS[trial % len(CALLS)].format(10 + trial % 20)
        earlier = f"s{NONCE}.{trial + WARM_UP - len(CALLS)}"
        if trial >= len(CALLS) - WARM_UP:
            probe.wait(lambda: earlier in probe.ended, "the end of an earlier call")  # noqa: B023 - used at once
        known = set(probe.goals.accepted)
        due = time.monotonic() + spacing_s
        probe.send(stream_id, 0, tag + "/")
        sent = probe.send(stream_id, 1, ">", last=True)
        probe.wait(lambda: stream_id in probe.tokens, "the token")  # noqa: B023
        probe.wait(lambda: set(probe.goals.accepted) != known or stream_id in probe.ended, "a goal of the driver")  # noqa: B023
        fresh = set(probe.goals.accepted) - known
        lost += not fresh
        if lost > trials / 10:
            raise RuntimeError(f"{lost} calls did not reach the driver: {probe.faults[-1:]}")
        if trial >= 0 and fresh:
            accepted = min(probe.goals.accepted[goal] for goal in fresh)
            times["token to goal"].append(accepted - probe.tokens[stream_id])
            times["chunk to goal"].append(accepted - sent)
            times["round trip"].append(probe.round_trip(trial, tag))
        time.sleep(max(0.0, due - time.monotonic()))
    probe.wait(lambda: len(probe.ended) >= trials + WARM_UP, "the end of the last calls")
    return times


def main() -> int:
    """Bring everything up, measure, print, write out/bench/ros_latency.json."""
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=200, help="calls that are timed (default 200)")
    parser.add_argument("--spacing-s", type=float, default=0.3, help="from one call to the next (default 0.3)")
    parser.add_argument(ros_probe.ECHO, action="store_true", help="be the other process of the round trip")
    options = parser.parse_args()
    if options.echo:
        ros_probe.serve_echo(Echo)
        return 0
    began = time.monotonic()
    try:
        with ros_probe.brought_up(ROBOT, Probe) as probe:
            ros_probe.until(
                lambda: (
                    probe.chunks.get_subscription_count()
                    and probe.ping.get_subscription_count()
                    and probe.count_publishers("bench_pong")
                    and probe.count_publishers(ros_probe.GOALS)
                ),
                "token_parser, the echo process and the driver",
            )
            up_s = time.monotonic() - began
            times = measure(probe, options.trials, options.spacing_s)
            outcomes = list(probe.ended.values())
    except RuntimeError as error:
        print(f"bench_ros_latency: {error}", file=sys.stderr)
        return 1
    _report(times, up_s, outcomes, options.json)
    return 0


def _report(times: dict[str, list[float]], up_s: float, outcomes: list[Outcome | None], as_json: bool) -> None:
    results = {
        "`>` received by the parser to goal accepted by the driver": spread_of(times["token to goal"]),
        "chunk with `>` published to goal accepted": spread_of(times["chunk to goal"]),
        "reference: topic round trip, two processes": spread_of(times["round trip"]),
    }
    figures = list(results.values())
    ratio = round(figures[0]["median_ms"] / figures[2]["median_ms"], 2)
    targets = [
        Target("`>` to goal accepted, median", figures[0]["median_ms"], 10.0, "ms"),
        Target("`>` to goal accepted, p99", figures[0]["p99_ms"], 40.0, "ms"),
        Target("calls that did not end as DONE", float(sum(o != Outcome.DONE for o in outcomes)), 0.0),
    ]
    title = f"over ROS, all nodes up [ms]; the way of a call takes {ratio} round trips"
    measured = {"results": results, "ratio_to_round_trip": ratio, "bring_up_s": round(up_s, 2)}
    report("ros_latency", measured, [spread_table(title, results)], targets, as_json=as_json)


if __name__ == "__main__":
    sys.exit(main())
