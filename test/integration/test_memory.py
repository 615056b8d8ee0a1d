# SPDX-License-Identifier: Apache-2.0
"""The node memory over real DDS: what a robot's topics tell is remembered, asked for by service and by the robot's skill."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from ghostshell.msg import CallEvent as CallMessage
from ghostshell.msg import EventHead, MemoryRecord, ObservationField, ObservedObject, ProcessArray, ProcessState
from ghostshell.msg import Observation as ObservationMsg
from ghostshell.srv import QueryMemory

from ghostshell_ros.drivers.clients import MemoryCaller
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.qos import EVENTS, LATCHED, OBSERVATION
from planners.memory import Provenance, Record, Store, Tier, Visibility
from ros_support import Processes, ask, wait_until
from skill_kernel.roles import Role
from skill_kernel.skills.drivers import MemoryAnswer

MODULE = "memory"


class Robot(RuntimeNode):
    """A robot's topics and its way to the memory."""

    def __init__(self, namespace: str) -> None:
        super().__init__("robot", namespace=namespace)
        self.events = self.create_publisher(CallMessage, "events/calls", EVENTS)
        self.processes = self.create_publisher(ProcessArray, "processes", LATCHED)
        self.observations = self.create_publisher(ObservationMsg, "observation", OBSERVATION)
        self.client = self.create_client(QueryMemory, "/query_memory")
        self.memory = MemoryCaller(self)

    def heard(self) -> bool:
        return all(p.get_subscription_count() for p in (self.events, self.processes, self.observations))

    def stamp(self, ago_s: float = 0.0) -> Time:
        nanoseconds = self.get_clock().now().nanoseconds - int(ago_s * 1e9)
        return Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)

    def see(self, room: str, label: str = "", ago_s: float = 0.0) -> None:
        objects = ObservationField(name="object_detections", kind=ObservationField.OBJECTS, max_age_s=1.0)
        if label:
            objects.objects = [ObservedObject(track_id=1, label=label, confidence=0.9, distance=1.0, x=1.5, y=2.5)]
        where = ObservationField(name="room", kind=ObservationField.TEXT, text=room, max_age_s=1.0)
        self.observations.publish(ObservationMsg(stamp=self.stamp(ago_s), seq=1, fields=[where, objects]))

    def ask(self, question: str = "", timeout_s: float = 5.0, **fields: Any) -> QueryMemory.Response | None:
        """Return a call of the service from the test's thread."""
        return ask(self, self.client, QueryMemory.Request(question=question, **fields), timeout_s)

    def by_skill(self, question: str, timeout_s: float = 5.0) -> MemoryAnswer:
        return self.memory(question, stop=threading.Event(), timeout_s=timeout_s)


@pytest.fixture
def robot(namespace: str, host: Callable[..., Any]) -> Robot:
    made = Robot(namespace)
    host(made)
    return made


@pytest.fixture
def nodes(namespace: str) -> Any:
    """Nodes outside of every robot's namespace, as the memory is."""
    started = Processes("/")
    yield started
    started.end()


def start(nodes: Processes, folder: Path, robot: Robot, *params: str) -> Any:
    process = nodes.start(MODULE, f"data_dir:={folder}", "consolidation_period_s:=0.1", *params)
    wait_until(lambda: robot.client.service_is_ready() and robot.heard(), 20.0, "the memory hears the robot")
    wait_until(lambda: robot.by_skill("who?", 1.0).ok, 10.0, "the memory answers")
    return process


def name_of(robot: Robot) -> str:
    return robot.get_namespace().strip("/")


def answered(robot: Robot, question: str, beginning: str) -> MemoryAnswer:
    """Return the answer, once the memory has made sentences of what it heard."""
    last: list[MemoryAnswer] = []

    def come() -> bool:
        last[:] = [robot.by_skill(question)]
        return last[0].text.startswith(beginning)

    try:
        wait_until(come, 10.0, question)
    except pytest.fail.Exception:
        pytest.fail(f"{question}: {last}")
    return last[0]


def test_private_records_are_shown_to_who_proves_to_be_a_viewer(nodes: Processes, robot: Robot, tmp_path: Path) -> None:
    """A name in the request opens nothing."""
    name = name_of(robot)
    store = Store(tmp_path / "memory" / "memory.sqlite3")
    for visibility, text in ((Visibility.SHARED, "the lamp is on"), (Visibility.ROBOT, "the code of the lamp is 1234")):
        store.put(
            Record(Tier.M1, "note", time.time(), text, provenance=Provenance(name, "test"), visibility=visibility)
        ).result()
    store.close()
    start(nodes, tmp_path, robot)
    found = robot.ask(text="lamp", robot=name)
    assert [r.text for r in found.records] == ["the lamp is on"] and "private records are left out" in found.note
    request = QueryMemory.Request(text="lamp", robot=name)
    found = ask(robot, robot.client, signed(robot, "/query_memory", request, Role.VIEWER), 5.0)
    assert len(found.records) == 2 and "left out" not in found.note
    forged = robot.ask(text="lamp", robot=name, proof="viewer 1.0 0 0")
    assert len(forged.records) == 1 and "left out" in forged.note
    known = robot.by_skill("what is the code of the lamp?")
    assert any("1234" in source for source in known.sources), "a skill of the robot proves it"


def test_what_a_robot_sees_hears_and_does_is_answered_with_its_sources(nodes: Processes, robot: Robot, tmp_path: Path) -> None:
    process = start(nodes, tmp_path, robot)
    for n, room in enumerate(("kitchen", "office", "lounge")):
        robot.see(room, "ball" if room == "office" else "", ago_s=9.0 - n)
    answer = answered(robot, "How many places have you explored?", "I explored 3 places")
    assert answer.text == "I explored 3 places: kitchen, lounge and office." and len(answer.sources) == 3
    seen = answered(robot, "where did you last see the ball?", "I last saw")
    assert seen.text.startswith("I last saw the ball in the office near (1.5, 2.5)")
    task = ProcessState(process_id="p1", instruction="Patrol the rooms", sender="alice", door="chat", created=robot.stamp(20.0))
    robot.processes.publish(ProcessArray(processes=[task]))
    assert "alice said through chat: “Patrol the rooms”" in answered(robot, "who asked you to patrol?", "alice").text
    robot.events.publish(
        CallMessage(
            head=EventHead(stamp=robot.stamp(2.0)),
            kind=CallMessage.ENDED,
            process_id="p1",
            function="patrol",
            args_json='{"area": "rooms"}',
            outcome=CallMessage.DONE,
            message="patrolled 4 of 4 places",
        )
    )
    task.ended, task.status = robot.stamp(1.0), ProcessState.SUCCESS
    robot.processes.publish(ProcessArray(processes=[task]))
    done = answered(robot, "What have you done?", "From ")
    assert "“Patrol the rooms” for alice: success" in done.text and "patrol (1 done)" in done.text
    found = robot.ask(kinds=["heard"], robot=name_of(robot))
    assert found is not None and found.success and [r.sender for r in found.records] == ["alice"]
    assert isinstance(found.records[0], MemoryRecord) and found.records[0].robot == name_of(robot)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not robot.by_skill("who?", 0.3).ok, 20.0, "the killed memory is missed")
    start(nodes, tmp_path, robot)
    assert robot.by_skill("How many places have you explored?").text == answer.text


@pytest.mark.faults
def test_a_damaged_file_is_an_answer_that_names_it_and_mends_when_it_is_moved_away(
    nodes: Processes, robot: Robot, tmp_path: Path
) -> None:
    file = tmp_path / "memory" / "memory.sqlite3"
    file.parent.mkdir()
    file.write_bytes(b"garbage" * 1000)
    nodes.start(MODULE, f"data_dir:={tmp_path}", "consolidation_period_s:=0.1")
    wait_until(lambda: robot.client.service_is_ready() and robot.heard(), 20.0, "the memory hears the robot")
    found = robot.ask("who?")
    assert found is not None and found.error_code == QueryMemory.Request.STORE_CORRUPT and "move it away" in found.error_msg
    assert not robot.by_skill("who?").ok
    robot.see("kitchen", ago_s=1.0)
    file.rename(tmp_path / "broken")
    assert answered(robot, "how many places have you explored?", "I explored 1 place: kitchen.").ok


@pytest.mark.faults
def test_two_memories_on_one_file_are_one_and_the_second_takes_over(nodes: Processes, robot: Robot, tmp_path: Path) -> None:
    first = start(nodes, tmp_path, robot)
    second = Processes("/")
    try:
        standing_by = second.start(MODULE, f"data_dir:={tmp_path}", "consolidation_period_s:=0.1")
        robot.see("kitchen", ago_s=1.0)
        answered(robot, "how many places have you explored?", "I explored 1 place: kitchen.")
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert standing_by.poll() is None
        answered(robot, "how many places have you explored?", "I explored 1 place: kitchen.")
    finally:
        second.end()


def test_bad_questions_are_named_and_no_memory_is_a_named_error_in_time(nodes: Processes, robot: Robot, tmp_path: Path) -> None:
    began = time.monotonic()
    missing = robot.by_skill("who?")
    assert not missing.ok and missing.error_code == QueryMemory.Request.MEMORY_UNAVAILABLE
    assert time.monotonic() - began < 6.0, "within the deadline: one that was killed is listed for a while"
    stop = threading.Event()
    stop.set()
    assert robot.memory("who?", stop=stop, timeout_s=5.0).cancelled
    start(nodes, tmp_path, robot)
    for fields in ({"question": "x" * 2000}, {"kinds": ["note"] * 51}, {"tiers": [7]}, {"radius": float("nan")}):
        found = robot.ask(**fields)
        assert found is not None and not found.success and found.error_code == QueryMemory.Request.QUERY_INVALID, fields
