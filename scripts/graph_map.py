# SPDX-License-Identifier: Apache-2.0
"""Write the node and topic map of a robot into docs/architecture.md, from the graph of the running robot.

`python3 -m scripts.graph_map` launches all robots, one launch after the other, and replaces the text between the markers of
each; then it makes the policies of SROS 2 of the map. Integration tests compare both with the robots that they bring up.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import rclpy
from rclpy.action.graph import get_action_client_names_and_types_by_node, get_action_server_names_and_types_by_node
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from ghostshell_ros import launcher
from scripts import security_policy

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
LAUNCHES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "coco": (("coco",), {"memory": "false", "page": "false", "model": "simulated"}),
    "kalos": (("kalos",), {"page": "false"}),
    "tabletop": (("tabletop",), {"memory": "false", "page": "false", "model": "simulated"}),
    "kitchen": (("atlas", "hebe", "kitchen"), {"memory": "false", "page": "false", "model": "simulated"}),
    "home": (("home",), {"memory": "false", "page": "false", "model": "simulated"}),
}
"""The launches of the map: whom each brings up, and the launch arguments of the tests that check them."""

READER = "graph_map_reader"
STEADY_S = 3.0
DEADLINE_S = 60.0

OF_EVERY_NODE = ("/rosout", "/parameter_events")
TYPES_OF_EVERY_NODE = ("rcl_interfaces/", "type_description_interfaces/", "lifecycle_msgs/")
"""Topics and services that rclpy makes for each node, or for each managed node; the map leaves them out."""


@dataclass(frozen=True)
class Link:
    """A topic, service or action: who provides it and who uses it."""

    name: str
    type: str
    qos: str
    providers: tuple[str, ...]
    users: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """Nodes and links of one robot; names are relative to its namespace, or absolute outside it."""

    nodes: tuple[str, ...]
    topics: tuple[Link, ...]
    services: tuple[Link, ...]
    actions: tuple[Link, ...]


class _Links:
    """Gathers the two sides of links."""

    def __init__(self) -> None:
        self._sides: dict[tuple[str, str], tuple[set[str], set[str]]] = {}

    def add(self, name: str, types: Collection[str], side: int, node: str) -> None:
        for kind in types:
            if not kind.startswith(TYPES_OF_EVERY_NODE):
                self._sides.setdefault((name, kind), (set(), set()))[side].add(node)

    def links(self, qos: dict[str, str] | None = None) -> tuple[Link, ...]:
        return tuple(
            Link(
                name,
                kind.replace("/msg/", "/").replace("/srv/", "/").replace("/action/", "/"),
                (qos or {}).get(name, ""),
                *ends,
            )
            for (name, kind), sides in sorted(self._sides.items())
            if any(ends := (tuple(sorted(sides[0])), tuple(sorted(sides[1]))))
        )


def read_graph(node: Node, namespace: str, ignored: Collection[str] = ()) -> Graph:
    """Return what the graph holds now of the robot in `namespace` and of the nodes outside any robot's namespace."""
    prefix = namespace.rstrip("/") + "/"

    def relative(name: str) -> str:
        """Return the name within the robot's namespace; the true poses of a world's things share one line."""
        return re.sub(r"^ground_truth/.*", "ground_truth/*", name.removeprefix(prefix))

    own = [
        (name, space)
        for name, space in node.get_node_names_and_namespaces()
        if name not in ignored and name != READER and (space == prefix[:-1] or space == "/")
    ]
    labels = {(name, space): relative(f"{space.rstrip('/')}/{name}") for name, space in own}
    services, actions = _Links(), _Links()
    for (name, space), label in labels.items():
        for found, types in node.get_service_names_and_types_by_node(name, space):
            if "/_action/" not in found:
                services.add(relative(found), types, 0, label)
        for found, types in node.get_client_names_and_types_by_node(name, space):
            if "/_action/" not in found:
                services.add(relative(found), types, 1, label)
        for found, types in get_action_server_names_and_types_by_node(node, name, space):
            actions.add(relative(found), types, 0, label)
        for found, types in get_action_client_names_and_types_by_node(node, name, space):
            actions.add(relative(found), types, 1, label)
    topics, qos = _Links(), {}
    for topic, _ in node.get_topic_names_and_types():
        if topic in OF_EVERY_NODE or "/_action/" in topic:
            continue
        sides = (node.get_publishers_info_by_topic(topic), node.get_subscriptions_info_by_topic(topic))
        for side, endpoints in enumerate(sides):
            for endpoint in endpoints:
                label = labels.get((endpoint.node_name, endpoint.node_namespace))
                if label is None:
                    continue
                topics.add(relative(topic), (endpoint.topic_type,), side, label)
                if side == 0 or relative(topic) not in qos:
                    qos[relative(topic)] = _qos(endpoint.qos_profile)
    return Graph(tuple(sorted(labels.values())), topics.links(qos), services.links(), actions.links())


def _qos(profile: QoSProfile) -> str:
    reliable = profile.reliability == ReliabilityPolicy.RELIABLE
    latched = profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    return ("reliable" if reliable else "best effort") + (", latched" if latched else "")


def used(node: Node, name: str, namespace: str) -> set[tuple[str, str]]:
    """Return what a running node publishes and subscribes as DDS knows it, with what the map leaves out."""
    asks = node.get_client_names_and_types_by_node(name, namespace)
    answers = node.get_service_names_and_types_by_node(name, namespace)
    return {
        *(("publish", f"rt{t}") for t, _ in node.get_publisher_names_and_types_by_node(name, namespace)),
        *(("subscribe", f"rt{t}") for t, _ in node.get_subscriber_names_and_types_by_node(name, namespace)),
        *(("publish", f"rq{s}Request") for s, _ in asks),
        *(("subscribe", f"rr{s}Reply") for s, _ in asks),
        *(("subscribe", f"rq{s}Request") for s, _ in answers),
        *(("publish", f"rr{s}Reply") for s, _ in answers),
    }


def settled_graph(node: Node, namespace: str, ignored: Collection[str] = ()) -> Graph:
    """Return the graph when it has not changed for a while; raises TimeoutError when it keeps changing."""
    deadline = time.monotonic() + DEADLINE_S
    graph, since = read_graph(node, namespace, ignored), time.monotonic()
    while time.monotonic() - since < STEADY_S:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the graph of {namespace} still changed after {DEADLINE_S:g} s")
        time.sleep(0.2)
        if (now := read_graph(node, namespace, ignored)) != graph:
            graph, since = now, time.monotonic()
    return graph


def rendered(graph: Graph) -> str:
    """Return the map as Markdown, with one table each for topics, services and actions."""

    def names(ends: tuple[str, ...]) -> str:
        return "all nodes" if ends == graph.nodes else ", ".join(ends) or "–"

    lines = [f"{len(graph.nodes)} nodes: {', '.join(graph.nodes)}.", ""]
    lines += ["| topic | type | QoS | published by | subscribed by |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| `{t.name}` | {t.type} | {t.qos} | {names(t.providers)} | {names(t.users)} |" for t in graph.topics]
    for title, links in (("service", graph.services), ("action", graph.actions)):
        lines += ["", f"| {title} | type | served by | used by |", "| --- | --- | --- | --- |"]
        lines += [f"| `{link.name}` | {link.type} | {names(link.providers)} | {names(link.users)} |" for link in links]
    return "\n".join(lines)


def _markers(robot: str) -> tuple[str, str]:
    return f"<!-- graph of {robot}: written by scripts/graph_map.py -->", f"<!-- end of the graph of {robot} -->"


def committed(robot: str) -> str:
    """Return the map of a robot as it stands in the page."""
    begin, end = _markers(robot)
    return PAGE.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0].strip()


def write(robot: str, text: str) -> None:
    """Replace the map of a robot in the page."""
    begin, end = _markers(robot)
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    if not found:
        raise SystemExit(f"{PAGE} has no marker {begin!r}")
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")


@contextmanager
def running(launch: str) -> Iterator[dict[str, str]]:
    """Bring up what a launch file starts; yields the namespace of each robot and team by its name in the map."""
    names, arguments = LAUNCHES[launch]
    spaces = {name: f"/{name}" for name in names}
    if launch in security_policy.ROBOTS:
        arguments = {"robot_name": f"map_{os.getpid()}_{launch}", **arguments}
        spaces = {launch: f"/{arguments['robot_name']}"}
    with tempfile.TemporaryDirectory() as data:
        environment = {**os.environ, "GHOSTSHELL_DATA": data, "ROS_HOME": data}
        specs = launcher.describe(ROOT / "launch" / f"{launch}.launch.xml", arguments, environment)
        with launcher.LaunchRun(specs, listener=lambda _: None) as run:
            run.start()
            yield spaces


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("launches", nargs="*", default=sorted(LAUNCHES), help="launch files to bring up (default: all)")
    launches = parser.parse_args().launches
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(READER)
    try:
        for launch in launches:
            with running(launch) as spaces:
                for name, space in spaces.items():
                    _wait_for_planners(node, space, "processes" if name in security_policy.TEAMS else "llm_chunks")
                for name, space in spaces.items():
                    write(name, rendered(settled_graph(node, space)))
                    print(f"{name}: written to {PAGE.relative_to(ROOT)}")
        security_policy.write()
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


def _wait_for_planners(node: Node, namespace: str, topic: str) -> None:
    """Wait until the planners, which start last, publish and are heard."""
    deadline, topic = time.monotonic() + DEADLINE_S, f"{namespace}/{topic}"
    while not node.count_publishers(topic) or (topic.endswith("llm_chunks") and not node.count_subscribers(topic)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{namespace} did not come up within {DEADLINE_S:g} s")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
