# SPDX-License-Identifier: Apache-2.0
"""Write and read the events of nodes on the five topics below `events/`."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, get_type_hints

import ghostshell.msg
from rclpy.node import Node

from ghostshell_ros.wire.qos import EVENTS
from ghostshell_ros.wire.values import OUTCOME_NUMBERS, OUTCOMES, ros_text, seconds
from skill_kernel.events import EVENT_CLASSES, CallEvent, EventBase, ModelEvent, Notice, ProcessEvent, RunEvent, StreamEvent

TOPICS: dict[type[RunEvent], str] = {
    CallEvent: "events/calls",
    StreamEvent: "events/streams",
    ProcessEvent: "events/processes",
    ModelEvent: "events/models",
    Notice: "events/notices",
}
MESSAGES: dict[type[RunEvent], Any] = {kind: getattr(ghostshell.msg, kind.__name__) for kind in EVENT_CLASSES}
KINDS: dict[type[RunEvent], Any] = {kind: get_type_hints(kind)["kind"] for kind in EVENT_CLASSES}

CLEAR_HINT = "clear the halt first: ghostshell clear"

GAP_S = 0.1
"""Time for which an event waits for the one that its node wrote before it on another topic."""

_HEAD = {"robot", "node", "session", "seq"}
"""Fields that all events share with the head of their messages, beside the stamp."""
_FIELDS = {kind: tuple(f.name for f in fields(kind) if f.name not in _HEAD | {"stamp_s"}) for kind in EVENT_CLASSES}


def to_message(event: RunEvent, head: ghostshell.msg.EventHead) -> Any:
    kind = type(event)
    given = {name: getattr(event, name) for name in _FIELDS[kind]}
    values = {name: ros_text(value) if isinstance(value, str) else value for name, value in given.items()}
    values["kind"] = event.kind.value
    if isinstance(event, CallEvent):
        values["outcome"] = OUTCOME_NUMBERS[event.outcome] if event.outcome else 0
    return MESSAGES[kind](head=head, **values)


def from_message(kind: type[RunEvent], message: Any) -> RunEvent:
    """Return the event of a message, also of one decoded from a recording. Raises ValueError for an unknown kind of event."""
    values = {name: getattr(message, name) for name in _FIELDS[kind]} | {name: getattr(message.head, name) for name in _HEAD}
    values.update(kind=KINDS[kind](message.kind), stamp_s=seconds(message.head.stamp))
    if "outcome" in values:
        values["outcome"] = OUTCOMES.get(message.outcome)
    if "channels" in values:
        values["channels"] = tuple(message.channels)
    return kind(**values)


class EventWriter:
    """Publish the events of a node, which are of these `classes`. On the executor's thread.

    Each gets the time of the node's clock, the node's name, the robot's namespace and a number.
    """

    def __init__(self, node: Node, *classes: type[RunEvent]) -> None:
        self._node = node
        self._robot = node.get_namespace().strip("/")
        self._session, self._seq = time.time_ns(), 0
        self._publishers = {kind: node.create_publisher(MESSAGES[kind], TOPICS[kind], EVENTS) for kind in classes}

    def write(self, event: RunEvent) -> None:
        self._seq += 1
        head = ghostshell.msg.EventHead(
            stamp=self._node.get_clock().now().to_msg(),
            robot=self._robot,
            node=self._node.get_name(),
            session=self._session,
            seq=self._seq,
        )
        self._publishers[type(event)].publish(to_message(event, head))


class Reader(Protocol):
    """Declare the methods of RuntimeNode that `read_events` needs."""

    def create_subscription(self, *args: Any) -> Any: ...
    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Any: ...
    def guarded(self, callback: Callable[..., Any]) -> Callable[..., Any]: ...
    def get_logger(self) -> Any: ...


def read_events(node: Reader, on_event: Callable[[Any], object], *classes: type[RunEvent], robot: str = "") -> None:
    """Subscribe to the events of the robot in the node's namespace, or of `robot`.

    Without `classes` all events are read, and those of one node come in the order in which it wrote them, which five topics
    alone do not keep.
    """
    # One message may hand on the events of several processes; each works for its own.
    on_event = node.guarded(on_event)
    take = on_event if classes else EventOrder(on_event, node.call_later).take

    def subscriber(kind: type[RunEvent]) -> Callable[[Any], None]:
        def read(message: Any) -> None:
            try:
                event = from_message(kind, message)
            except ValueError as error:
                node.get_logger().warning(f"an event of a newer interface is left out: {error}", throttle_duration_sec=10.0)
                return
            take(event)

        return read

    for kind in classes or EVENT_CLASSES:
        topic = f"/{robot}/{TOPICS[kind]}" if robot else TOPICS[kind]
        node.create_subscription(MESSAGES[kind], topic, subscriber(kind), EVENTS)


@dataclass
class _Node:
    session: int
    due: int = 1
    waiting: dict[int, EventBase] = field(default_factory=dict)
    timed: bool = False


class EventOrder:
    """Hand on the events of each node in the order of their numbers. One that is missing is waited for up to GAP_S."""

    def __init__(self, on_event: Callable[[Any], object], later: Callable[[float, Callable[[], None]], object]) -> None:
        self._on_event, self._later = on_event, later
        self._nodes: dict[str, _Node] = {}

    def take(self, event: EventBase) -> None:
        """Hand on one event, now or after the ones before it."""
        node = self._nodes.get(event.node)
        if event.seq and (node is None or event.session > node.session):
            if node is not None:
                self._flush(node)
            node = self._nodes[event.node] = _Node(event.session)
        if node is None or event.seq < node.due or event.session < node.session:
            self._on_event(event)
            return
        node.waiting[event.seq] = event
        self._hand_on(node)

    def _hand_on(self, node: _Node) -> None:
        while node.due in node.waiting:
            event = node.waiting.pop(node.due)
            node.due += 1
            self._on_event(event)
        if node.waiting and not node.timed:
            node.timed = True
            self._later(GAP_S, lambda: self._skip(node))

    def _skip(self, node: _Node) -> None:
        """Go on without the event that is missing."""
        node.timed = False
        if node.waiting:
            node.due = min(node.waiting)
            self._hand_on(node)

    def _flush(self, node: _Node) -> None:
        while node.waiting:
            self._on_event(node.waiting.pop(min(node.waiting)))
