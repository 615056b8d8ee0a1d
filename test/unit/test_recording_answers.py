# SPDX-License-Identifier: Apache-2.0
"""`model:=replay:FILE.mcap`: the answers of a recorded run are given again, each layer its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="messages are serialised by ROS")
pytest.importorskip("ghostshell.msg", reason="needs the built interfaces")

from builtin_interfaces.msg import Time
from ghostshell.msg import LlmAnswer, LlmChunk, LlmPrompt
from rclpy.serialization import serialize_message

from bench.recording.run_writer import RunWriter
from bench.recording.topics import definition
from bench.replay.recorded import RecordingError, ReplayModelClient, read_run_answers
from planners.models.base import CancelToken, Finished, Message, ModelError, ModelRequest, TextDelta, Usage
from planners.prompts.blocks import Layer, front
from skill_kernel.codes import ModelCode


def ask(layer: Layer | None, text: str) -> ModelRequest:
    return ModelRequest(front(layer) + "rules" if layer else "rules", (Message("user", text),))


def stamp(at_s: float) -> Time:
    return Time(sec=int(at_s), nanosec=round(at_s % 1 * 1e9))


def answered(end_s: float, layer: str, *pieces: str, took_s: float = 1.0, **more: object) -> LlmAnswer:
    times = [took_s * (n + 1) / len(pieces) for n in range(len(pieces))]
    return LlmAnswer(
        stamp=stamp(end_s), layer=layer, pieces=list(pieces), times_s=times, end_s=took_s, model="m", cost_usd=-1.0, **more
    )


def file_of(path: Path, **topics: list[object]) -> Path:
    writer = RunWriter(path)
    for name, messages in topics.items():
        topic = "/" + name.replace("__", "/")
        kind = f"ghostshell/msg/{type(messages[0]).__name__}"
        channel = writer.channel(topic, kind, definition(kind), "")
        for number, message in enumerate(messages):
            writer.message(channel, serialize_message(message), log_ns=number, publish_ns=number)
    writer.finish()
    return path


def said(client: ReplayModelClient, request: ModelRequest) -> str:
    return "".join(e.text for e in client.stream(request, cancel=CancelToken()) if isinstance(e, TextDelta))


def test_each_layer_gets_its_own_answers_in_the_order_they_were_asked_for(tmp_path: Path) -> None:
    answers = [
        answered(13.0, "s1", "<step>", "one</step>", took_s=0.5),
        answered(12.0, "s2", "<subtask>a</subtask>"),
        answered(20.0, "s2", "<keep/>"),
        answered(21.0, "s1", "<step>slow</step>", took_s=15.0),
    ]
    client = ReplayModelClient(file_of(tmp_path / "run.mcap", kalos__answers=answers), speed="instant")
    assert said(client, ask(Layer.S2, "plan")) == "<subtask>a</subtask>"
    assert said(client, ask(Layer.S1, "go")) == "<step>slow</step>", "it was asked for first"
    assert said(client, ask(Layer.S1, "go on")) == "<step>one</step>"
    assert said(client, ask(Layer.S2, "again")) == "<keep/>"
    with pytest.raises(ModelError, match="holds 2 answers of layer s1 and all were given"):
        said(client, ask(Layer.S1, "more"))
    with pytest.raises(ModelError, match="holds 0 answers of layer s3"):
        said(client, ask(Layer.S3, "who"))


def test_the_same_prompt_gets_the_answer_it_got(tmp_path: Path) -> None:
    second = ask(Layer.S1, "second")
    answers = [answered(12.0, "s1", "first"), answered(13.0, "s1", "its own", sha256=second.sha256())]
    client = ReplayModelClient(file_of(tmp_path / "run.mcap", kalos__answers=answers), speed="instant")
    assert said(client, second) == "its own" and said(client, ask(Layer.S1, "other")) == "first"


def test_times_usage_and_failures_come_as_recorded(tmp_path: Path) -> None:
    answers = [
        answered(12.0, "stream", "<nod", "/>", finish="length", prompt_tokens=812, cached_tokens=700, completion_tokens=9),
        answered(13.0, "stream", "half", error_code=int(ModelCode.MODEL_CONNECTION), error_msg="cut"),
    ]
    one, two = read_run_answers(file_of(tmp_path / "run.mcap", kalos__answers=answers))
    assert [(p.t_s, p.text) for p in one.pieces] == [(0.5, "<nod"), (1.0, "/>")] and one.finish == "length"
    assert one.usage == Usage(812, 9, 700, None)
    client = ReplayModelClient(tmp_path / "run.mcap", speed="instant")
    events = list(client.stream(ask(None, "a prompt without a layer is the stream's"), cancel=CancelToken()))
    assert events[-1] == Finished("length")
    with pytest.raises(ModelError, match="as recorded: cut") as failed:
        said(client, ask(None, "x"))
    assert failed.value.code is ModelCode.MODEL_CONNECTION and two.error is ModelCode.MODEL_CONNECTION


def test_without_its_answer_a_stream_is_put_together_from_its_chunks(tmp_path: Path) -> None:
    prompt = LlmPrompt(stamp=stamp(10.0), stream_id="b", layer="s1", sha256="77", model="m")
    answer = answered(9.9, "s2", "<keep/>")
    chunks = [
        LlmChunk(stamp=stamp(9.0), stream_id="old", seq=4, text="its beginning is missing"),
        LlmChunk(stamp=stamp(10.5), stream_id="b", seq=0, text="<nod/>"),
        LlmChunk(stamp=stamp(10.7), stream_id="b", seq=1, text="", last=True),
        LlmChunk(stamp=stamp(11.0), stream_id="c", seq=0, text="<wave"),
    ]
    path = file_of(tmp_path / "run.mcap", kalos__prompts=[prompt], kalos__llm_chunks=chunks)
    one, two = read_run_answers(path)
    assert (one.layer, one.prompt_sha256, one.end_s, one.error) == ("s1", "77", pytest.approx(0.7), ModelCode.NONE)
    assert [(round(p.t_s, 3), p.text) for p in one.pieces] == [(0.5, "<nod/>")]
    assert two.layer == "stream" and two.error is ModelCode.MODEL_CONNECTION, "the recording ended before the answer did"
    beside = file_of(tmp_path / "beside.mcap", kalos__prompts=[prompt], kalos__llm_chunks=chunks, kalos__answers=[answer])
    assert [a.layer for a in read_run_answers(beside)] == ["s2", "s1"], "a stream that no prompt names is no model's"


def test_of_several_robots_one_can_be_named(tmp_path: Path) -> None:
    path = file_of(
        tmp_path / "run.mcap", kalos__answers=[answered(9.0, "s1", "dog")], coco__answers=[answered(8.0, "s1", "spider")]
    )
    assert said(ReplayModelClient(Path(f"{path}#kalos"), speed="instant"), ask(Layer.S1, "x")) == "dog"
    assert said(ReplayModelClient(path, speed="instant"), ask(Layer.S1, "x")) == "spider"
    with pytest.raises(RecordingError, match="no answer of a model of robot rover"):
        read_run_answers(Path(f"{path}#rover"))


def test_a_run_without_answers_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path / "run.mcap", kalos__prompts=[LlmPrompt(layer="s1")])
    with pytest.raises(RecordingError, match="holds no answer of a model"):
        read_run_answers(path)
    with pytest.raises(RecordingError, match="cannot be read"):
        read_run_answers(tmp_path / "missing.mcap")
    (tmp_path / "lines.jsonl").write_text("{}")
    assert read_run_answers(tmp_path / "lines.jsonl") == (), "JSON lines are the other format's"
