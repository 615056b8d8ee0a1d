# SPDX-License-Identifier: Apache-2.0
"""Hear one robot for the page. On the executor's thread only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ghostshell_ros.nodes.dashboard.feeds import FEEDS, TEAM_FEEDS, Feed, RobotReader
from ghostshell_ros.nodes.dashboard.state import RobotPage
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.events import read_events

if TYPE_CHECKING:
    from ghostshell_ros.nodes.dashboard.robot_services import RobotServices


class RobotLink:
    """Keep the page of one robot or team current. Its services are connected when somebody looks first."""

    def __init__(self, node: RuntimeNode, name: str, page: RobotPage, *, on_halt: Callable[[], None]) -> None:
        self.name, self.page = name, page
        self._node, self._on_halt = node, on_halt
        self.reader = RobotReader(page, node.now_s)
        self.services: RobotServices | None = None
        self._looked_at: list[Any] = []
        for feed in (*FEEDS, *(TEAM_FEEDS if page.team else ())):
            if feed.kept:
                self._hear(feed)
        read_events(node, page.event, robot=name)

    def look(self, on: bool) -> None:
        """Hear all of the robot from now on, or only what tells its story."""
        if not on:
            for subscription in self._looked_at:
                self._node.destroy_subscription(subscription)
            self._looked_at.clear()
        elif not self._looked_at:
            from ghostshell_ros.nodes.dashboard.robot_services import RobotServices

            self.services = self.services or RobotServices(self._node, self.name, self.reader)
            self.page.sign(self._node.now_s())
            self._looked_at = [self._hear(feed) for feed in FEEDS if not feed.kept]
            self.services.look_at_halt()

    def _hear(self, feed: Feed) -> Any:
        def take(message: Any) -> None:
            before = self.page.halted["on"]
            feed.read(self.reader, message)
            if self.page.halted["on"] is not before:
                self._on_halt()
                if self.services is not None:
                    self.services.look_at_halt()

        return self._node.create_subscription(feed.kind, f"/{self.name}/{feed.topic}", take, feed.qos)
