# SPDX-License-Identifier: Apache-2.0
"""Publish a stream once its reader is there, so that no message is lost at the start."""

from collections import deque
from collections.abc import Callable
from typing import Any

from rclpy.qos import QoSProfile

from ghostshell_ros.runtime.node import RuntimeNode

_LOOK_AGAIN_S = 0.02
GIVE_UP_S = 5.0


class MatchedPublisher:
    """Publish in order, the first message when the node `reader` has subscribed. On the executor's thread only.

    Without that node within GIVE_UP_S, the messages held back are dropped and `on_unmatched` gets the reason.
    """

    def __init__(
        self, node: RuntimeNode, kind: Any, topic: str, qos: QoSProfile, *, reader: str, on_unmatched: Callable[[str], None]
    ) -> None:
        self._node = node
        self._reader = reader
        self._met = False
        self._publisher = node.create_publisher(kind, topic, qos)
        self._on_unmatched = on_unmatched
        self._held: deque[Any] = deque()
        self._give_up_s = 0.0

    def publish(self, message: Any) -> None:
        """Publish now, or as soon as the reader listens."""
        self._held.append(message)
        if len(self._held) == 1:
            self._give_up_s = self._node.steady_now() + GIVE_UP_S
            self._look()

    def _matched(self) -> bool:
        """Return whether the reader listens; other subscribers (a recorder, a terminal) do not count."""
        count = self._publisher.get_subscription_count()
        if not count:
            self._met = False
        elif not self._met:
            readers = self._node.get_subscriptions_info_by_topic(self._publisher.topic_name)
            self._met = count >= len(readers) and any(r.node_name == self._reader for r in readers)
        return self._met

    def _look(self) -> None:
        if self._matched():
            while self._held:
                self._publisher.publish(self._held.popleft())
        elif self._node.steady_now() > self._give_up_s:
            count = len(self._held)
            self._held.clear()
            self._on_unmatched(
                f"{self._reader} did not subscribe to {self._publisher.topic_name} within {GIVE_UP_S:g} s, so {count} "
                "messages were dropped; start that node"
            )
        else:
            self._node.call_later(_LOOK_AGAIN_S, self._look)
