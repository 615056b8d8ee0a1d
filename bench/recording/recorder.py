# SPDX-License-Identifier: Apache-2.0
"""Record robots' topics, undecoded, in a run's file: node `ghostshell_record`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from bench.recording.configuration import Configuration
from bench.recording.run_writer import RecordingWriteError, RunWriter
from bench.recording.topics import (
    GLOBAL,
    GROUND_TRUTH_KIND,
    GROUND_TRUTH_S,
    TOPICS,
    Topic,
    definition,
    ground_truth_in,
    is_private,
    qos_text,
    robots_in,
)
from ghostshell_ros.runtime.node import Health, RuntimeNode
from ghostshell_ros.wire.codec import interface
from ghostshell_ros.wire.qos import SENSORS

LOOK_S = 0.5
"""Time between two looks for new robots."""


FLUSH_S = 1.0
"""Time between two flushes: messages older than that survive a crash of the recorder."""


class Recorder(RuntimeNode):
    """Record the topics of `robots`, or of every robot as it appears when none is named, as raw CDR.

    When the file cannot be written, `failed` says why and nothing more is kept.

    Topics (in): those of `recording.topics`. Client of each node's parameter services. Parameters: none.
    """

    def __init__(self, writer: RunWriter, *, robots: Sequence[str], ground_truth: bool) -> None:
        super().__init__("ghostshell_record", use_global_arguments=False)
        self._writer = writer
        self._named = {f"/{name.strip('/')}" for name in robots}
        self._ground_truth = ground_truth
        self.failed = ""
        self._ended = False
        self.robots: list[str] = []
        self._last_s: dict[str, float] = {}
        """Time of the last message that was kept, by topic [s]."""
        self._channels: dict[str, int] = {}
        self._configuration = Configuration(self, self._attach)
        for topic in GLOBAL:
            self._hear(topic.name, topic)
        for robot in sorted(self._named):
            self._add(robot)
        self._look()
        self.steady_timer(LOOK_S, self._look)
        self.steady_timer(FLUSH_S, self._flush)

    def health(self) -> Health:
        """Report the number of messages and robots."""
        return Health(self.failed, values={"messages": self._writer.messages, "robots": len(self.robots)})

    def close(self) -> None:
        """Finish the file; no message arrives any more."""
        self._guarded(self._write_names)
        self._guarded(self._writer.finish)
        self._ended = True

    def _look(self) -> None:
        topics = self.get_topic_names_and_types()
        for robot in sorted(robots_in(topics)):
            if robot not in self.robots and (not self._named or robot in self._named):
                self._add(robot)
        if self._ground_truth:
            for name in ground_truth_in(topics, self.robots):
                self._hear(name, Topic(name, GROUND_TRUTH_KIND, SENSORS, GROUND_TRUTH_S))
        self._configuration.look(self.robots)

    def _add(self, robot: str) -> None:
        self.robots.append(robot)
        for topic in TOPICS:
            self._hear(f"{robot}/{topic.name}", topic)

    def _hear(self, name: str, topic: Topic) -> None:
        if name not in self._last_s:
            self._last_s[name] = float("-inf")
            take = partial(self._message, name, topic)
            self.create_subscription(interface(topic.kind), name, take, topic.qos, raw=True)

    def _message(self, name: str, topic: Topic, data: bytes, info: dict[str, Any]) -> None:
        now_s, now_ns = self.steady_now(), time.time_ns()
        if self.failed or self._ended or now_s - self._last_s[name] < topic.least_s:
            return
        if is_private(topic, data):
            return
        self._last_s[name] = now_s

        def write() -> None:
            if name not in self._channels:
                self._channels[name] = self._writer.channel(name, topic.kind, definition(topic.kind), qos_text(topic.qos))
            channel, published_ns = self._channels[name], info.get("source_timestamp") or now_ns
            self._writer.message(channel, bytes(data), log_ns=now_ns, publish_ns=published_ns)

        self._guarded(write)

    def _flush(self) -> None:
        self._guarded(self._writer.flush)

    def _attach(self, name: str, text: str) -> None:
        self._guarded(lambda: self._writer.attachment(name, text, now_ns=time.time_ns()))

    def _write_names(self) -> None:
        self._writer.metadata(
            "ghostshell_run", {"robots": " ".join(self.robots), "domain": os.environ.get("ROS_DOMAIN_ID", "0")}
        )

    def _guarded(self, write: Callable[[], None]) -> None:
        if self.failed or self._ended:
            return
        try:
            write()
        except RecordingWriteError as error:
            self.failed = str(error)
