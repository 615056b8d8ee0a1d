# SPDX-License-Identifier: Apache-2.0
"""The file of a run: readable by the MCAP library, after a crash, on a full disk; configuration without keys."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="definitions are those of the installed interfaces")
pytest.importorskip("ghostshell.msg", reason="needs the built interfaces")

import yaml
from ghostshell.msg import CallEvent, EventHead, LlmChunk
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rclpy.serialization import serialize_message
from std_msgs.msg import String
from typer.testing import CliRunner

from bench.recording.configuration import HIDDEN, presentable, presentable_text
from bench.recording.run_writer import RecordingWriteError, RunWriter
from bench.recording.topics import (
    GLOBAL,
    GROUND_TRUTH_KIND,
    TOPICS,
    definition,
    ground_truth_in,
    is_private,
    qos_text,
    robots_in,
)
from bench.replay.recorded import RunFileError, read_run
from ghostshell_ros.cli.main import app
from ghostshell_ros.wire.codec import interface
from ghostshell_ros.wire.events import KINDS, MESSAGES
from ghostshell_ros.wire.values import OUTCOMES
from skill_kernel.codes import Outcome
from skill_kernel.events import EVENT_CLASSES, RunEvent

KALOS = Path(__file__).resolve().parents[2] / "config/robots/kalos.yaml"
KIND = "ghostshell/msg/LlmChunk"


def written(path: Path, count: int, *, each: int = 1000, finish: bool = True) -> RunWriter:
    writer = RunWriter(path)
    channel = writer.channel("/kalos/llm_chunks", KIND, definition(KIND), "")
    for number in range(count):
        data = serialize_message(LlmChunk(stream_id="s", seq=number, text=f"<nod/> {number} äß\u2028"))
        writer.message(channel, data, log_ns=number + 1, publish_ns=number + 1)
        if number % each == each - 1:
            writer.flush()
    if finish:
        writer.finish()
    return writer


def test_what_was_written_is_read_by_the_library_and_by_us(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    writer = written(path, 25, each=10)
    with path.open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        summary, header = reader.get_summary(), reader.get_header()
        texts = [m.decoded_message.text for m in reader.iter_decoded_messages()]
    assert header.profile == "ros2" and summary is not None
    assert [(s.name, s.encoding) for s in summary.schemas.values()] == [(KIND, "ros2msg")]
    assert [c.message_encoding for c in summary.channels.values()] == ["cdr"]
    assert summary.statistics is not None and summary.statistics.message_count == writer.messages == 25
    assert texts == [f"<nod/> {n} äß\u2028" for n in range(25)]
    run = read_run(path, lambda topic: True)
    assert run.whole and not run.fault and [m.value.seq for m in run.messages] == list(range(25))


@pytest.mark.parametrize("kind", sorted({t.kind for t in (*TOPICS, *GLOBAL)} | {GROUND_TRUTH_KIND}))
def test_the_definition_of_every_recorded_type_decodes_what_ros_serialises(kind: str) -> None:
    data = serialize_message(interface(kind)())

    class Schema:
        id, name, encoding = 1, kind, "ros2msg"
        data = definition(kind).encode()

    decode = DecoderFactory().decoder_for("cdr", Schema)  # type: ignore[arg-type]
    assert decode is not None and decode(data) is not None


def test_a_file_cut_anywhere_gives_what_was_whole_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    written(path, 40, each=10, finish=False)
    whole = path.read_bytes()
    found = set()
    for size in range(40, len(whole), 97):
        (tmp_path / "cut.mcap").write_bytes(whole[:size])
        run = read_run(tmp_path / "cut.mcap", lambda topic: True)
        assert not run.whole
        assert [m.value.seq for m in run.messages] == list(range(len(run.messages)))
        found.add(len(run.messages))
    assert {0, 10, 20, 30} <= found <= {0, 10, 20, 30, 40}


def test_a_damaged_byte_never_changes_a_message_and_no_loss_goes_untold(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    written(path, 40, each=10)
    good = path.read_bytes()
    faults = 0
    for at in range(30, len(good), 11):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        try:
            run = read_run(path, lambda topic: True)
        except RunFileError:
            continue
        left = [m.value.seq for m in run.messages]
        assert left == sorted(set(left)) and set(left) <= set(range(40))
        faults += bool(run.fault)
        assert run.whole or run.fault
        assert run.fault or len(left) == 40, at
    assert faults > 3


def test_a_chunk_that_looks_like_a_program_s_own_record_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    written(path, 40, each=10)
    good = bytearray(path.read_bytes())
    with path.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    good[summary.chunk_indexes[1].chunk_start_offset] = 0xF9
    path.write_bytes(good)
    run = read_run(path, lambda topic: True)
    assert [m.value.seq for m in run.messages] == [*range(10), *range(20, 40)]
    assert not run.whole and run.fault == "30 of its 40 messages are left"


@pytest.mark.parametrize("robot", ["my-robot", "/", "1st"])
def test_a_robot_that_cannot_be_called_so_is_not_recorded(tmp_path: Path, robot: str) -> None:
    told = CliRunner().invoke(app, ["record", "--robot", robot, str(tmp_path / "run.mcap")])
    assert told.exit_code == 2 and f"'{robot}' is no robot's name" in told.output and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("content", [b"", b"{}", b"\x89MCAP0\r", b"not an mcap file at all, just text"])
def test_what_is_no_recording_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(RunFileError, match="no MCAP file; make one with"):
        read_run(tmp_path / "x", lambda topic: True)
    with pytest.raises(RunFileError, match="cannot be read"):
        read_run(tmp_path / "missing", lambda topic: True)


class FullDisk(io.BytesIO):
    """Takes a number of bytes and then no more."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._left = size

    def write(self, data: Any) -> int:
        if len(data) > self._left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._left -= len(data)
        return super().write(data)


def test_a_full_disk_is_said_once_with_what_is_kept_and_what_to_do(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run.mcap", file=FullDisk(8000))
    channel = writer.channel("/kalos/llm_chunks", KIND, definition(KIND), "")
    with pytest.raises(RecordingWriteError, match=r"the disk is full: .* holds \d+ messages and is readable.*free space"):
        for number in range(10_000):
            data = serialize_message(LlmChunk(text=os.urandom(60).hex()))
            writer.message(channel, data, log_ns=number, publish_ns=number)
            writer.flush()
    writer.finish()  # nothing more can be done, and nothing is raised


def test_a_file_that_exists_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "run.mcap").write_text("precious")
    with pytest.raises(RecordingWriteError, match="exists already; name another file"):
        RunWriter(tmp_path / "run.mcap")
    assert (tmp_path / "run.mcap").read_text() == "precious"


def test_no_key_gets_into_a_recording() -> None:
    values = {
        "api_key": "sk-1234567890",
        "model": "openai:gpt",
        "max_output_tokens": 2048,
        "process_tokens": 5,
        "access_token": "",
        "base_url": "http://x/?k=sk-verysecret-1",
        "auth_token": "abc",
    }
    shown = presentable(values, {"OPENAI_API_KEY": "sk-verysecret-1", "HOME": "/root", "SHORT_KEY": "gpt"})
    assert shown == {**values, "api_key": HIDDEN, "base_url": HIDDEN, "auth_token": HIDDEN}


def test_no_key_gets_into_a_recording_by_another_name_in_a_list_or_in_an_address() -> None:
    values = {
        "model": "openai:x@http://h/v1?a=b&api_key=other-secret-999&n=2",
        "headers": ["X: sk-verysecret-1", "plain"],
        "llm.key": "abc",
        "apikey": "zzz",
        "llm.apiKey": "yyy",
        "my-token": "qqq",
        "url": "https://user:pw@host/v1",
        "proxies": ("http://me@host", "http://host/a@b"),
        "authorization": "Basic abc",
        "more": ["Bearer abcdefgh.ijkl"],
        "tokens": ["a", 1],
        "nested": {"inner": {"password": "p"}, "credentials": {"user": "u"}},
        "monkey": "banana",
        "keyboard": "qwerty",
        "process_tokens": [1, 2],
        "none": None,
    }
    shown = presentable(values, {"OPENAI_API_KEY": "sk-verysecret-1"})
    assert shown == {
        "model": f"openai:x@http://h/v1?a=b&api_key={HIDDEN}&n=2",
        "headers": [HIDDEN, "plain"],
        "llm.key": HIDDEN,
        "apikey": HIDDEN,
        "llm.apiKey": HIDDEN,
        "my-token": HIDDEN,
        "url": f"https://{HIDDEN}@host/v1",
        "proxies": [f"http://{HIDDEN}@host", "http://host/a@b"],
        "authorization": HIDDEN,
        "more": [HIDDEN],
        "tokens": [HIDDEN, 1],
        "nested": {"inner": {"password": HIDDEN}, "credentials": {"user": HIDDEN}},
        "monkey": "banana",
        "keyboard": "qwerty",
        "process_tokens": [1, 2],
        "none": None,
    }


def test_an_attached_file_is_as_it_was_but_for_its_keys() -> None:
    plain = "# the robot\nname: kalos   # of the lab\nwaypoints: {a: {x: 1.0}}\n"
    clean = KALOS.read_text(encoding="utf-8")
    environment = {"LAB_TOKEN": "swordfish-1"}
    for text in (plain, clean, "not: [yaml", ""):
        assert presentable_text("a.yaml", text, environment) == text
    keyed = plain + "services: {map: {url: 'http://u:p@h', api_key: abc}}\n"
    shown = presentable_text("a.yaml", keyed, environment)
    assert yaml.safe_load(shown)["services"] == {"map": {"url": f"http://{HIDDEN}@h", "api_key": HIDDEN}} and "1.0" in shown
    assert presentable_text("a.yaml", "# swordfish-1\na: 1\n", environment) == f"# {HIDDEN}\na: 1\n"
    assert presentable_text("a.yaml", "a: [swordfish-1", environment) == f"a: [{HIDDEN}"
    routine = json.dumps({"greet": {"source": "say('x')", "token": "t"}})
    assert json.loads(presentable_text("a.json", routine, {}))["greet"]["token"] == HIDDEN


def test_robots_are_told_by_their_events_and_ground_truth_by_its_place() -> None:
    topics = [
        ("/kalos/events/notices", ["ghostshell/msg/Notice"]),
        ("/lab/coco/events/notices", ["ghostshell/msg/Notice"]),
        ("/other/events/notices", ["std_msgs/msg/String"]),
        ("/kalos/ground_truth/ball", [GROUND_TRUTH_KIND]),
        ("/x/ground_truth/ball", [GROUND_TRUTH_KIND]),
        ("/kalos/pose", [GROUND_TRUTH_KIND]),
    ]
    assert robots_in(topics) == {"/kalos", "/lab/coco"}
    assert ground_truth_in(topics, {"/kalos", "/lab/coco"}) == {"/kalos/ground_truth/ball"}


def test_the_qos_of_a_channel_is_yaml_as_rosbag2_reads_it() -> None:
    import yaml

    for topic in TOPICS:
        (profile,) = yaml.safe_load(qos_text(topic.qos))
        assert profile["reliability"] in ("reliable", "best_effort") and profile["depth"] >= 1
        assert profile["deadline"] == {"sec": 9223372036, "nsec": 854775807}


@pytest.mark.parametrize("event", EVENT_CLASSES, ids=lambda event: event.__name__)
def test_an_event_is_its_message_field_by_field(event: type[RunEvent]) -> None:
    message = MESSAGES[event]
    head = set(EventHead.get_fields_and_field_types()) - {"stamp"} | {"stamp_s"}
    fields = {field.name for field in dataclasses.fields(event)}
    assert fields - head | {"head"} == set(message.get_fields_and_field_types())
    assert {kind.name: kind.value for kind in KINDS[event]} == {k.name: getattr(message, k.name) for k in KINDS[event]}
    assert {getattr(CallEvent, o.name): o for o in Outcome} == OUTCOMES


@pytest.mark.parametrize("text", ["private: I see the doctor", "1abc Private：no", " 私下: 不"])
def test_a_private_answer_is_told_from_others(text: str) -> None:
    answer = next(topic for topic in TOPICS if topic.name == "answer")
    assert is_private(answer, serialize_message(String(data=text)))
    assert not is_private(answer, serialize_message(String(data="1abc no")))
