# SPDX-License-Identifier: Apache-2.0
"""`ghostshell record` beside real nodes, and `ghostshell replay` of what it wrote: the same calls, changes found, a killed
recorder, a full disk."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ghostshell.msg import CallEvent, KernelState, LlmAnswer, LlmChunk, LlmPrompt, ProcessEvent
from ghostshell.srv import Interrupt, JudgeCondition
from mcap.reader import make_reader
from mcap.writer import Writer
from race_robot import DIARY, ROBOT_YAML
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import String

from bench.replay.recorded import read_run
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED, QUEUES, STREAM
from planners.prompts.blocks import block
from ros_support import ROOT, Processes, wait_until
from skill_kernel.codes import Outcome
from skill_kernel.events import CallKind, EventKind, ProcessKind, RunEvent

INTERRUPTED = ("skill_kernel", "channel_scheduler", "token_parser")
PATH = os.pathsep.join([str(ROOT), str(ROOT / "test" / "support"), os.environ.get("PYTHONPATH", "")])
PARALLEL = '<walk tag="w" ms="400"/><wave tag="a" ms="200"/>Hello & welcome.<nod tag="n" ms="50"/><walk tag="x" ms="50"/>'
OPEN = '<wait><walk tag="o" ms="10">one two<wave tag="b" ms="150"/></walk></wait><sleep seconds="0.8"/><nod tag="m"/>'
WRONG = '<walk tag="c" ms="30"/><fly/><nod tag="d" speed="3"/>after & that'

STEPS = """<step><walk tag="s1" ms="100"/></step><step><if cond="it rains"><walk tag="s2"/></if><if cond="the person waves">
<wave tag="s3" ms="80"/></if><else><nod tag="s4"/></else></step><subtask_complete/><step><nod tag="s5"/></step>"""

PEOPLES_ANSWERS = ("1abc private: no, the doctor comes", "2abc yes")


class Robot(RuntimeNode):
    """Stands where the planner and the process scheduler stand."""

    def __init__(self, namespace: str) -> None:
        super().__init__("action_planner", namespace=namespace)
        self.events: list[RunEvent] = []
        self.kernel: KernelState | None = None
        self.readers: list[Callable[[], int]] = []
        self._chunks = self.create_publisher(LlmChunk, "llm_chunks", STREAM)
        read_events(self, self.events.append)
        self.create_subscription(KernelState, "kernel_state", lambda m: setattr(self, "kernel", m), LATCHED)
        self._prompts = self.create_publisher(LlmPrompt, "prompts", QUEUES)
        self._answers = self.create_publisher(LlmAnswer, "answers", QUEUES)
        self.people = self.create_publisher(String, "answer", INSTRUCTION)
        self.create_service(JudgeCondition, "judge_condition", self._judge)
        self._interrupts = [self.create_client(Interrupt, f"{name}/interrupt") for name in INTERRUPTED]

    def _judge(self, request: Any, response: Any) -> Any:
        """As a model would: the person waves, and nothing else is so."""
        if request.condition:
            message = json.dumps([{"role": "user", "text": block("CONDITION", [request.condition])}])
            response.known, response.holds = True, "waves" in request.condition
            sha, now = request.condition, self.get_clock().now().to_msg()
            self._prompts.publish(LlmPrompt(stamp=now, layer="judge", sha256=sha, messages_json=message))
            says = "yes" if response.holds else "no"
            self._answers.publish(LlmAnswer(stamp=now, layer="judge", sha256=sha, pieces=[says], times_s=[0.0]))
        return response

    def ready(self) -> bool:
        services = all(client.service_is_ready() for client in self._interrupts)
        return services and self.kernel is not None and self._chunks.get_subscription_count() > 0

    def recorded(self) -> bool:
        """Return whether a recorder hears the chunks beside the parser."""
        names = [i.node_name for i in self.get_subscriptions_info_by_topic(self._chunks.topic_name)]
        return "ghostshell_record" in names and self._chunks.get_subscription_count() >= len(names)

    def say(self, text: str, process: str, *, pieces: int = 4, epoch: int = 0, gap_s: float = 0.02) -> None:
        stream, size = f"{process}-{uuid.uuid4().hex[:4]}", -(-len(text) // pieces)
        parts = [text[i : i + size] for i in range(0, len(text), size)]
        for seq, part in enumerate(parts):
            chunk = LlmChunk(
                stamp=self.get_clock().now().to_msg(),
                process_id=process,
                stream_id=stream,
                epoch=epoch,
                seq=seq,
                text=part,
                last=seq == len(parts) - 1,
            )
            self.call_soon(self._chunks.publish, chunk)
            time.sleep(gap_s)

    def interrupt(self, process: str) -> int:
        epoch = 0
        for client in self._interrupts:
            answers: list[Any] = []
            request = Interrupt.Request(process_id=process, epoch=epoch, cause="enough")
            self.call_soon(
                lambda c=client, r=request, a=answers: c.call_async(r).add_done_callback(lambda f: a.append(f.result()))
            )
            wait_until(lambda a=answers: a, 5.0, "the interrupt is answered")
            epoch = max(epoch, answers[0].epoch)
        return epoch

    def of(self, kind: EventKind, process: str) -> list[RunEvent]:
        return [e for e in self.events if e.kind == kind and e.process_id == process]

    def drained(self, process: str) -> None:
        wait_until(lambda: self.of(ProcessKind.DRAINED, process), 10.0, f"process {process} is through")


_started: list[subprocess.Popen[str]] = []


@pytest.fixture(scope="module", autouse=True)
def _no_command_stays() -> Iterator[None]:
    yield
    for process in _started:
        process.kill()
        process.wait(timeout=5)


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[Robot]:
    folder = tmp_path_factory.mktemp("robot")
    namespace = f"/racer_{os.getpid()}"
    (folder / "racer.yaml").write_text(ROBOT_YAML)
    started = Processes(namespace)
    environment = {"PYTHONPATH": PATH, DIARY: str(folder / "diary")}
    of_robot = f"robot:={folder / 'racer.yaml'}"
    started.start("skill_kernel", of_robot, env=environment)
    started.start("channel_scheduler", of_robot, f"data_dir:={folder}", env=environment)
    started.start("token_parser", env=environment)
    made = Robot(namespace)
    host = NodeHost([made])
    host.start()
    try:
        wait_until(made.ready, 20.0, "kernel, scheduler and parser are there")
        wait_until(lambda: made.count_publishers("scheduler_heartbeat"), 10.0, "the scheduler lives")
        yield made
    finally:
        host.close()
        started.end()


def command(*words: str, limit: int = 0) -> subprocess.Popen[str]:
    """Return the command line with `limit` bytes a file."""

    def narrow() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    started = subprocess.Popen(
        [sys.executable, "-m", "ghostshell_ros.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": PATH},
        preexec_fn=narrow,
    )
    _started.append(started)
    return started


def recording(robot: Robot, path: Path, **options: Any) -> subprocess.Popen[str]:
    recorder = command("record", "--robot", robot.get_namespace(), str(path), **options)
    wait_until(robot.recorded, 15.0, "the recorder listens")
    known = [f"/{node}.yaml".encode() for node in INTERRUPTED]
    wait_until(lambda: path.exists() and all(n in path.read_bytes() for n in known), 15.0, "it has met all nodes")
    return recorder


def replayed(path: Path, *options: str) -> tuple[int, str]:
    done = command("replay", str(path), *options)
    text, _ = done.communicate(timeout=60)
    return done.returncode, text


@pytest.fixture(scope="module")
def run(robot: Robot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recorded run: parallel channels and speech, an open element and a pause, refusals, an interrupt, contention."""
    path = tmp_path_factory.mktemp("recorded") / "run.mcap"
    recorder = recording(robot, path)
    for process, text in (("p1", PARALLEL), ("p2", OPEN), ("p3", WRONG), ("p6", STEPS)):
        robot.say(text, process)
        robot.drained(process)
    robot.say('<walk tag="long" ms="60000"/><walk tag="never"/><wave tag="e" ms="60000"/>', "p4")
    wait_until(lambda: len(robot.of(CallKind.STARTED, "p4")) == 2, 5.0, "two calls run")
    robot.say('<walk tag="held" ms="20"/>', "p5")
    wait_until(lambda: [e for e in robot.events if e.kind == CallKind.CONTENTION], 5.0, "p5 waits for the legs")
    for answer in PEOPLES_ANSWERS:
        robot.call_soon(robot.people.publish, String(data=answer))
    epoch = robot.interrupt("p4")
    robot.drained("p4")
    robot.say('<nod tag="late"/>', "p4", epoch=epoch - 1)
    robot.say('<nod tag="anew"/>', "p4", epoch=epoch)
    wait_until(lambda: [e for e in robot.of(CallKind.ENDED, "p4") if "anew" in e.args_json], 5.0, "it goes on")
    recorder.send_signal(signal.SIGINT)
    text, _ = recorder.communicate(timeout=20)
    assert recorder.returncode == 0, text
    return path


def test_a_run_is_performed_again_with_the_same_calls_and_outcomes(run: Path) -> None:
    code, text = replayed(run, "--speed", "2")
    assert code == 0, text
    assert re.search(r"the same \d\d calls with the same outcomes", text)


def test_the_file_is_indexed_and_tells_what_it_holds(run: Path, robot: Robot) -> None:
    with run.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None and summary.chunk_indexes and summary.statistics is not None
    code, text = replayed(run, "--info")
    space = robot.get_namespace()
    assert code == 0 and "whole" in text
    for topic in ("llm_chunks", "function_tokens", "events/calls", "events/streams", "kernel_state", "call_content"):
        assert f"{space}/{topic}" in text
    for attached in (
        f"robots{space}.yaml",
        f"parameters{space}/channel_scheduler.yaml",
        f"parameters{space}/token_parser.yaml",
    ):
        assert f"attached {attached}" in text


def test_a_private_answer_is_not_in_the_file(run: Path, robot: Robot) -> None:
    with run.open("rb") as file:
        messages = make_reader(file).iter_messages(topics=[f"{robot.get_namespace()}/answer"])
        assert [deserialize_message(m.data, String).data for _, _, m in messages] == ["2abc yes"]


def changed(run: Path, path: Path, change: Callable[[LlmChunk], str]) -> Path:
    """Return a copy of the file with other chunks in it."""
    with run.open("rb") as file, path.open("wb") as out:
        reader, writer = make_reader(file), Writer(out)
        writer.start(profile="ros2")
        channels: dict[int, int] = {}
        for schema, channel, message in reader.iter_messages():
            if channel.id not in channels and schema is not None:
                number = writer.register_schema(schema.name, schema.encoding, schema.data)
                channels[channel.id] = writer.register_channel(channel.topic, "cdr", number)
            data = message.data
            if channel.topic.endswith("/llm_chunks"):
                chunk = deserialize_message(data, LlmChunk)
                chunk.text = change(chunk)
                data = serialize_message(chunk)
            writer.add_message(channels[channel.id], message.log_time, data, message.publish_time)
        for attachment in reader.iter_attachments():
            writer.add_attachment(0, attachment.log_time, attachment.name, attachment.media_type, attachment.data)
        writer.finish()
    return path


@pytest.mark.slow
def test_a_changed_token_is_found_and_named(run: Path, tmp_path: Path) -> None:
    other = changed(run, tmp_path / "x.mcap", lambda c: c.text.replace('tag="n"', 'tag="z"'))
    code, text = replayed(other, "--speed", "4")
    assert code == 1, text
    assert (
        'arguments was {"ms":50.0,"tag":"n","until_reset":false}' in text.replace(", ", ",").replace('": ', '":')
        or "is {" in text
    )
    assert "1 differences" in text


@pytest.mark.slow
def test_a_call_that_is_lost_is_found(run: Path, tmp_path: Path) -> None:
    other = changed(run, tmp_path / "x.mcap", lambda c: c.text.replace("<sleep", "<!--").replace('"0.8"/>', "-->"))
    code, text = replayed(other, "--speed", "4", "--differences", "20")
    assert code == 1 and "not the same" in text
    assert "sleep" in text


@pytest.mark.slow
def test_a_rule_that_changed_is_found(run: Path, tmp_path: Path) -> None:
    """The parser of the replay reads strictly: the run was mended where this one ends."""
    other = tmp_path / "strict.mcap"
    data = run.read_bytes()
    assert b"mode: lenient" in data
    other.write_bytes(data)
    code, text = replayed(edited(other, b"mode: lenient", b"mode: strict "), "--speed", "4")
    assert code == 1 and "not the same" in text


def edited(path: Path, old: bytes, new: bytes) -> Path:
    """Return the file with another attachment; their checksums are made anew."""
    copy = path.with_suffix(".edited.mcap")
    with path.open("rb") as file, copy.open("wb") as out:
        reader, writer = make_reader(file), Writer(out)
        writer.start(profile="ros2")
        channels: dict[int, int] = {}
        for schema, channel, message in reader.iter_messages():
            if channel.id not in channels and schema is not None:
                number = writer.register_schema(schema.name, schema.encoding, schema.data)
                channels[channel.id] = writer.register_channel(channel.topic, "cdr", number)
            writer.add_message(channels[channel.id], message.log_time, message.data, message.publish_time)
        for attachment in reader.iter_attachments():
            writer.add_attachment(0, 0, attachment.name, attachment.media_type, attachment.data.replace(old, new))
        writer.finish()
    return copy


@pytest.mark.slow
def test_a_killed_recorder_leaves_a_file_that_can_be_replayed(robot: Robot, tmp_path: Path) -> None:
    path = tmp_path / "killed.mcap"
    recorder = recording(robot, path)
    robot.say(PARALLEL, "k1")
    robot.drained("k1")
    robot.say('<nod tag="k" ms="3000"/>', "k2")

    def written() -> bool:
        """Return whether the file holds the end of k1 and of its five calls, which come on two topics in either order."""
        run = read_run(path, lambda topic: topic.endswith(("/events/processes", "/events/calls")))
        events = [(m.topic.rpartition("/")[2], m.value.kind) for m in run.messages if m.value.process_id == "k1"]
        return ("processes", ProcessEvent.DRAINED) in events and events.count(("calls", CallEvent.ENDED)) == 5

    wait_until(written, 5.0, "the second in which the first stream ended is written")
    recorder.kill()
    recorder.wait(timeout=5)
    robot.drained("k2")
    assert written() and not read_run(path, lambda topic: topic.endswith("/events/processes")).whole
    code, text = replayed(path, "--speed", "4")
    assert code == 0 and "is cut off" in text, text


@pytest.mark.slow
def test_a_full_disk_is_named_and_the_robot_goes_on(robot: Robot, tmp_path: Path) -> None:
    path = tmp_path / "full.mcap"
    recorder = recording(robot, path, limit=40_000)
    for number in range(60):
        robot.say("".join(f'<nod tag="{uuid.uuid4()}"/>' for _ in range(12)), f"f{number}", pieces=2)
        if recorder.poll() is not None:
            break
        time.sleep(0.1)
    text, _ = recorder.communicate(timeout=10)
    assert recorder.returncode == 1 and "the disk is full" in text and "free space" in text, text
    assert read_run(path, lambda topic: True).counts, "what was written before is there"
    robot.say('<nod tag="after"/>', "after")
    robot.drained("after")
    (ended,) = robot.of(CallKind.ENDED, "after")
    assert ended.outcome == Outcome.DONE


@pytest.mark.slow
def test_a_recorder_that_stands_still_does_not_hold_the_robot(robot: Robot, tmp_path: Path) -> None:
    """More chunks than a writer keeps for a reader."""
    recorder = recording(robot, tmp_path / "stopped.mcap")
    recorder.send_signal(signal.SIGSTOP)
    try:
        for number in range(25):
            robot.say("a " * 100 + f'<nod tag="{number}"/>', f"z{number}", pieces=100, gap_s=0.0005)
            robot.drained(f"z{number}")
    finally:
        recorder.send_signal(signal.SIGCONT)
    recorder.send_signal(signal.SIGINT)
    recorder.communicate(timeout=20)
    assert recorder.returncode == 0
    done = [e for n in range(25) for e in robot.of(CallKind.ENDED, f"z{n}") if e.function == "nod"]
    assert [e.outcome for e in done] == [Outcome.DONE] * 25
