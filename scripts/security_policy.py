# SPDX-License-Identifier: Apache-2.0
"""Write config/security/<robot>.xml, a robot's policy of SROS 2, from the map of its running graph in docs/architecture.md.

`python3 -m scripts.security_policy` reads the map as it stands and starts no robot; `scripts.graph_map` calls it too. A unit
test compares the committed policies with the map.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lxml import etree

from skill_kernel.roles import MAY, Act, Role

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
ROBOTS, TEAMS = ("coco", "kalos", "atlas", "hebe", "tabletop"), ("kitchen", "home")
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by scripts/security_policy.py from the map in docs/architecture.md. -->
"""

VERBS = {"topics": ("publish", "subscribe"), "services": ("reply", "request"), "actions": ("execute", "call")}
"""By kind, what the two last columns of the map allow."""
Grants = set[tuple[str, str, str]]
"""A node's rights: kind, verb and name, which is relative to the namespace, absolute, or below the node (`~/`)."""

PARAMETERS = "describe_parameters get_parameter_types get_parameters list_parameters set_parameters set_parameters_atomically"
LIFECYCLE = "change_state get_available_states get_available_transitions get_state get_transition_graph"
EVERY_NODE: Grants = {
    *(("topics", "publish", name) for name in ("/rosout", "/parameter_events", "/diagnostics")),
    ("topics", "subscribe", "/clock"),
    *(("services", "reply", f"~/{name}") for name in ["get_type_description", *PARAMETERS.split()]),
}
"""Names that rclpy makes for each node, `/clock` with use_sim_time, and our nodes' health."""
DRIVER: Grants = {
    ("topics", "publish", "~/transition_event"),
    *(("services", "reply", f"~/{name}") for name in LIFECYCLE.split()),
}
"""Names that rclpy makes for each managed node besides."""

OWN_PROCESS = ("safety_gate", "skill_kernel", "reflexes", "sim", "teleop", "team_planner", "/dashboard")
"""Nodes that are alone in their process; drivers share one, and the others share `mind` unless composed is false."""

HEARD = ["events/calls", "events/models", "events/notices", "events/processes", "events/streams"]
FOREIGN = ["/*/processes", "/*/observation", "/*/events/calls", "/*/events/notices", "/*/events/processes"]
SHOWN = [
    *(f"/*/{name}" for name in (*HEARD, "processes", "plans", "step_queue", "llm_chunks", "observation", "kernel_state")),
    *(
        f"/*/{name}"
        for name in ("halted", "halt_cause", "questions", "prescriptions", "reflex_states", "driver_states", "learned")
    ),
    *("/*/scheduler_heartbeat", "/*/camera/image_raw", "/*/face/image_raw", "/*/film/image_raw", "/diagnostics"),
]
ASKED = [
    *(f"/*/{name}" for name in ("control_process", "control_halt", "request_halt", "compile_reflex", "prescribe")),
    *("/*/answer_question", "/*/list_skills", "/*/process_scheduler/get_parameters", "/*/team_planner/get_parameters"),
    *("/query_memory", "/learn"),
]
MAY_BE: Mapping[str, Mapping[tuple[str, str], list[str]]] = {
    "sim": {("topics", "publish"): ["/clock"]},
    "observer": {("topics", "subscribe"): ["/tf"]},
    "skill_kernel": {("topics", "subscribe"): ["/tf", "camera/image_raw"]},
    "action_planner": {
        ("topics", "subscribe"): ["camera/image_raw", "learned"],
        ("services", "request"): ["/query_memory", "/learn"],
    },
    "task_planner": {
        ("topics", "subscribe"): [*HEARD, "kernel_state", "observation", "processes"],
        ("services", "request"): ["/query_memory"],
    },
    "team_planner": {("services", "request"): ["/query_memory"]},
    "base_driver": {("topics", "subscribe"): ["cmd_vel_nav2"], ("actions", "call"): ["navigate_to_pose"]},
    "move_joints_driver": {("actions", "call"): ["move_action"]},
    "/memory": {
        ("topics", "subscribe"): FOREIGN,
        ("topics", "publish"): ["/*/learned"],
        ("services", "reply"): ["/query_memory", "/learn"],
    },
    "/dashboard": {
        ("topics", "subscribe"): SHOWN,
        ("topics", "publish"): ["/*/sender_heartbeat"],
        ("services", "request"): ASKED,
        ("actions", "call"): ["/*/run_task"],
    },
    "teleop": {
        ("topics", "publish"): ["cmd_vel_teleop"],
        ("topics", "subscribe"): ["joy"],
        ("services", "request"): ["request_halt", "release_teleop"],
    },
}
"""Names that the map does not show: made only when needed, or with other launch arguments (use_sim_time, model, navigation,
moveit, gamepad), and what memory and page, which serve all robots, hear and ask."""

WAYS: Mapping[Act, Mapping[tuple[str, str], list[str]]] = {
    Act.LOOK: {("services", "request"): ["list_skills", "/query_memory"]},
    Act.PRIVATE: {("services", "request"): ["/query_memory"]},
    Act.HALT: {("services", "request"): ["halt", "request_halt"]},
    Act.CLEAR: {("services", "request"): ["control_halt", "release_teleop"], ("topics", "publish"): ["cmd_vel_teleop"]},
    Act.CLEAR_SAFETY: {("services", "request"): ["control_halt"]},
    Act.SWITCH_OFF: {("services", "request"): ["compile_reflex"]},
    Act.APPROVE: {("services", "request"): ["compile_reflex"]},
    Act.INSTRUCT: {
        ("services", "request"): [
            *("control_process", "prescribe", "compile_reflex", "skill_kernel/reload_skills", "answer_question", "/learn")
        ],
        ("topics", "publish"): ["instruction", "/instruction", "prescription", "answer", "said", "cmd_vel"],
        ("actions", "call"): ["run_task"],
    },
}
"""By what people do each thing of the table of roles. Who may clear a halt may also drive by hand. DDS does not tell the
commands of a service apart: the node does, by the proof in the request."""
PEOPLE = {role.value: [WAYS[act] for act in MAY[role]] for role in Role if role is not Role.ANONYMOUS}
"""Enclaves of people, one a role. All of them hear what the robot publishes."""
PERSONS_NODE = "ghostshell_*"


def mapped(robot: str) -> tuple[list[str], dict[str, Grants]]:
    """Return a robot's nodes and what each of them does in the map; the pseudo-node "" stands for all that is published."""
    text = PAGE.read_text(encoding="utf-8").partition(f"<!-- graph of {robot}:")[2].partition("<!-- end of the graph")[0]
    found = re.search(r"^\d+ nodes: (.*)\.$", text, re.M)
    if not found:
        raise SystemExit(f"{PAGE} has no map of {robot}")
    nodes = found[1].split(", ")
    grants: dict[str, Grants] = {name: set() for name in ("", *nodes)}
    for kind, verbs in VERBS.items():
        table = text.partition(f"| {kind[:-1]} |")[2].partition("\n\n")[0]
        for row in re.findall(r"^\| `(\S+)` \|(.*)\|$", table, re.M):
            name, columns = row[0], [column.strip() for column in row[1].split("|")]
            for verb, ends in zip(verbs, columns[-2:], strict=True):
                for node in nodes if ends == "all nodes" else ends.split(", "):
                    if node != "–":
                        grants[node].add((kind, verb, name))
            if kind == "topics":
                grants[""].add((kind, "subscribe", name))
    return nodes, grants


def _listed(what: Mapping[tuple[str, str], Iterable[str]]) -> Grants:
    return {(kind, verb, name) for (kind, verb), names in what.items() for name in names}


def _profile(namespace: str, node: str, grants: Grants) -> etree._Element:
    if node.startswith("/"):
        namespace, node = "/", node[1:]
    profile = etree.Element("profile", ns=namespace, node=node)
    for kind, verbs in VERBS.items():
        for verb in verbs:
            if names := sorted(name for k, v, name in grants if (k, v) == (kind, verb)):
                group = etree.SubElement(profile, kind, {verb: "ALLOW"})
                for name in names:
                    etree.SubElement(group, kind[:-1]).text = name
    return profile


def _enclaves(robot: str) -> Iterator[tuple[str, list[etree._Element]]]:
    nodes, grants = mapped(robot)
    if robot not in TEAMS:
        nodes = sorted({*nodes, "/memory", "/dashboard", "teleop"})
    drivers = [node for node in nodes if node.endswith("_driver")]
    manager: Grants = {("services", "request", f"{driver}/change_state") for driver in drivers}

    def profile(node: str) -> etree._Element:
        own = grants.get(node, set()) | EVERY_NODE | _listed(MAY_BE.get(node, {}))
        own |= DRIVER if node in drivers else manager if node == "lifecycle_manager" else set()
        return _profile(f"/{robot}", node, own)

    minds = [node for node in nodes if node not in (*OWN_PROCESS, *drivers)]
    own = [node for node in nodes if node in OWN_PROCESS]
    processes = {"drivers": drivers, "mind": minds, **{node.lstrip("/"): [node] for node in (*own, *minds)}}
    for process, names in sorted((process, names) for process, names in processes.items() if names):
        yield process, [profile(name) for name in names]
    for role, parts in sorted(PEOPLE.items()):
        own = EVERY_NODE | grants[""] | set().union(*map(_listed, parts))
        yield role, [_profile(f"/{robot}", PERSONS_NODE, own)]


def policy(robot: str) -> str:
    """Return a robot's policy in the format of SROS 2, version 0.2.0."""
    root = etree.Element("policy", version="0.2.0")
    enclaves = etree.SubElement(root, "enclaves")
    for name, profiles in _enclaves(robot):
        enclave = etree.SubElement(enclaves, "enclave", path=f"/{robot}/{name}")
        etree.SubElement(enclave, "profiles").extend(profiles)
    etree.indent(root, "  ")
    return f"{HEAD}{etree.tostring(root, encoding='unicode')}\n"


def path_of(robot: str) -> Path:
    """Return where a robot's policy is kept."""
    return ROOT / "config" / "security" / f"{robot}.xml"


def write() -> None:
    """Write the policies of the shipped robots and teams."""
    for robot in (*ROBOTS, *TEAMS):
        path_of(robot).parent.mkdir(exist_ok=True)
        path_of(robot).write_text(policy(robot), encoding="utf-8")


if __name__ == "__main__":
    write()
