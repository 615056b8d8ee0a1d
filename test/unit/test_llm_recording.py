# SPDX-License-Identifier: Apache-2.0
"""What was recorded plays again with its timing, on a virtual clock; broken files are refused with their line."""

from __future__ import annotations

import contextlib
import fcntl
import json
import multiprocessing
import resource
import stat
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.replay import recording
from bench.replay.recorded import RecordingError, ReplayModelClient, read_recording
from bench.replay.recording import RecordedStream, RecordingModelClient, append_recording
from planners.models.base import (
    CancelToken,
    Finished,
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    Usage,
)
from skill_kernel.codes import ModelCode


def ask(text: str = "dance", **settings: Any) -> ModelRequest:
    return ModelRequest("system", (Message("user", text),), **settings)


class Clock:
    """Time that passes only by waiting."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.cancel_at_s = float("inf")

    def monotonic_s(self) -> float:
        return self.now_s

    def wait(self, seconds: float, cancel: CancelToken) -> bool:
        self.now_s = min(self.now_s + seconds, self.cancel_at_s)
        if self.now_s == self.cancel_at_s:
            cancel.cancel()
        return cancel.cancelled


class Script:
    """A model that says given events at given seconds after the request."""

    name = "script"

    def __init__(self, clock: Clock, *timed: tuple[float, ModelEvent | ModelError]) -> None:
        self._clock = clock
        self._timed = timed
        self.closed_early = False

    def prepare(self) -> None:
        pass

    def close(self) -> None:
        pass

    def stream(self, request: ModelRequest, *, cancel: CancelToken) -> Iterator[ModelEvent]:
        began_s = self._clock.now_s
        try:
            for t_s, event in self._timed:
                self._clock.now_s = began_s + t_s
                if isinstance(event, ModelError):
                    raise event
                yield event
        except GeneratorExit:
            self.closed_early = True
            raise


def record(path: Path, *timed: tuple[float, ModelEvent | ModelError], request: ModelRequest | None = None) -> None:
    clock = Clock()
    client = RecordingModelClient(Script(clock, *timed), path, monotonic_s=clock.monotonic_s, wall_s=lambda: 1.8e9)
    with contextlib.suppress(ModelError):
        list(client.stream(request or ask(), cancel=CancelToken()))


def replay(path: Path, clock: Clock, request: ModelRequest | None = None, **settings: Any) -> list[tuple[float, ModelEvent]]:
    client = ReplayModelClient(path, monotonic_s=clock.monotonic_s, wait=clock.wait, **settings)
    began_s = clock.now_s
    return [(round(clock.now_s - began_s, 6), e) for e in client.stream(request or ask(), cancel=CancelToken())]


SPOKEN: tuple[tuple[float, ModelEvent], ...] = (
    (0.4, TextDelta("<nod")),
    (0.9, TextDelta("/>H\u2028ello \U0001f916")),
    (1.5, Usage(12, 5, 3, 0.002, 1)),
    (1.5, Finished("length")),
)


def test_a_recorded_stream_plays_again_event_by_event_at_its_times(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "stream.jsonl"
    record(path, *SPOKEN)
    assert replay(path, Clock()) == list(SPOKEN)


@pytest.mark.parametrize(("speed", "factor"), [(2.0, 0.5), (0.5, 2.0), ("instant", 0.0)])
def test_speed_stretches_the_times_and_nothing_else(tmp_path: Path, speed: object, factor: float) -> None:
    path = tmp_path / "stream.jsonl"
    record(path, *SPOKEN)
    assert replay(path, Clock(), speed=speed) == [(round(t * factor, 6), e) for t, e in SPOKEN]


def test_a_late_reader_gets_what_is_due_without_further_waiting(tmp_path: Path) -> None:
    path = tmp_path / "stream.jsonl"
    record(path, *SPOKEN)
    clock = Clock()
    events = ReplayModelClient(path, monotonic_s=clock.monotonic_s, wait=clock.wait).stream(ask(), cancel=CancelToken())
    next(events)
    clock.now_s += 60.0
    before_s = clock.now_s
    list(events)
    assert clock.now_s == before_s


def test_the_file_is_the_documented_format(tmp_path: Path) -> None:
    path = tmp_path / "stream.jsonl"
    record(path, *SPOKEN)
    header, *pieces, end = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert header == {
        "format": "ghostshell-stream/1",
        "model": "script",
        "prompt_sha256": ask().sha256(),
        "recorded": "2027-01-15T08:00:00Z",
    }
    assert pieces[0] == {"t": 0.4, "text": "<nod"} and len(pieces) == 2
    assert end["t"] == 1.5 and end["finish"] == "length" and end["usage"]["prompt_tokens"] == 12


def test_a_failure_in_mid_stream_fails_again_at_its_place(tmp_path: Path) -> None:
    path = tmp_path / "stream.jsonl"
    lost = ModelError(ModelCode.MODEL_CONNECTION, "the connection broke", partial=True)
    record(path, (0.4, TextDelta("<wal")), (0.7, lost))
    clock = Clock()
    with pytest.raises(ModelError, match="the connection broke") as caught:
        replay(path, clock)
    assert (caught.value.code, caught.value.partial) == (ModelCode.MODEL_CONNECTION, True)
    assert clock.now_s == pytest.approx(100.7)


def test_times_count_from_the_attempt_that_was_answered(tmp_path: Path) -> None:
    path = tmp_path / "stream.jsonl"
    failed = ModelError(ModelCode.MODEL_SERVER, "500", retryable=True)
    record(path, (0.2, Retrying(1, 1.0, failed)), (1.6, TextDelta("Hi")), (1.7, Finished()))
    stream = read_recording(path)[0]
    assert (stream.pieces[0].t_s, stream.end_s) == (0.4, 0.5)


def test_a_reader_that_leaves_closes_the_inner_stream_and_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "stream.jsonl"
    script = Script(Clock(), *SPOKEN)
    events = RecordingModelClient(script, path).stream(ask(), cancel=CancelToken())
    next(events)
    events.close()
    assert script.closed_early
    assert read_recording(path)[0].error is ModelCode.MODEL_CANCELLED


def test_turns_follow_one_another_and_a_known_prompt_gets_its_own_answer(tmp_path: Path) -> None:
    path = tmp_path / "streams.jsonl"
    clock = Clock()
    for number, prompt in enumerate(("one", "two", "three")):
        record(tmp_path / f"{number}", (0.1, TextDelta(prompt.upper())), (0.1, Finished()), request=ask(prompt))
    append_recording(path, [read_recording(tmp_path / f"{n}")[0] for n in range(3)])
    client = ReplayModelClient(path, speed="instant", monotonic_s=clock.monotonic_s, wait=clock.wait)

    def answer(prompt: str) -> str:
        return "".join(e.text for e in client.stream(ask(prompt), cancel=CancelToken()) if isinstance(e, TextDelta))

    assert [answer("unknown"), answer("three"), answer("other")] == ["ONE", "THREE", "TWO"]
    assert answer("three") == "THREE", "a known prompt may be asked again"
    with pytest.raises(ModelError, match="holds 3 answers and all were given"):
        answer("more")


def test_one_recorder_keeps_all_its_streams_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "streams.jsonl"
    client = RecordingModelClient(Script(Clock(), *SPOKEN), path)
    for prompt in ("one", "two"):
        list(client.stream(ask(prompt), cancel=CancelToken()))
    assert [s.prompt_sha256 for s in read_recording(path)] == [ask("one").sha256(), ask("two").sha256()]
    assert [p.name for p in tmp_path.iterdir()] == ["streams.jsonl"], "no temporary file stays"


def test_a_file_that_cannot_be_written_leaves_the_stream_alone_and_prepare_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "taken"
    path.mkdir()
    client = RecordingModelClient(Script(Clock(), *SPOKEN), path)
    assert list(client.stream(ask(), cancel=CancelToken()))[-1] == Finished("length")
    assert str(path) in caplog.text
    with pytest.raises(ModelError, match="cannot be written"):
        client.prepare()


def test_cancel_ends_the_wait_for_the_next_piece(tmp_path: Path) -> None:
    path = tmp_path / "stream.jsonl"
    record(path, *SPOKEN)
    clock = Clock()
    clock.cancel_at_s = 100.6
    with pytest.raises(ModelError) as caught:
        replay(path, clock)
    assert (caught.value.code, caught.value.partial) == (ModelCode.MODEL_CANCELLED, True)
    assert clock.now_s == 100.6


def test_a_recording_longer_than_the_deadline_times_out_at_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "stream.jsonl"
    record(path, *SPOKEN)
    clock = Clock()
    with pytest.raises(ModelError) as caught:
        replay(path, clock, ask(deadline_s=0.5))
    assert caught.value.code is ModelCode.MODEL_TIMEOUT and clock.now_s == pytest.approx(100.5)


HEADER = '{"format": "ghostshell-stream/1", "model": "m"}'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "ends before its last stream"),
        ("hello", "line 1: is not valid JSON"),
        ("[1]", "line 1: must be a JSON object"),
        ('{"format": "ghostshell-stream/9"}', "expected a header"),
        (HEADER, "ends before its last stream"),
        (HEADER + '\n{"t": 1, "text": "a"}\n{"t": 0.5, "text": "b"}', "line 3: `t` must be"),
        (HEADER + '\n{"t": NaN, "text": "a"}', "line 2: `t` must be"),
        (HEADER + '\n{"t": true, "text": "a"}', "line 2: `t` must be"),
        (HEADER + '\n{"t": 1, "txt": "a"}', "expected `text`, `finish` or `error`"),
        (HEADER + '\n{"t": 1, "error": "OOPS"}', "'OOPS' is no code"),
        (HEADER + '\n{"t": 1, "finish": "stop", "usage": {"prompt_tokens": "x"}}', "no count"),
        ("[" * 100_000, "line 1: is not valid JSON"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "stream.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(RecordingError) as caught:
        read_recording(path)
    assert says in str(caught.value) and str(path) in str(caught.value)
    with pytest.raises(ModelError) as refused:
        ReplayModelClient(path).prepare()
    assert refused.value.code is ModelCode.MODEL_REFUSED


LAYERS = ("s1", "s2", "s3")


def record_layer(path: Path, layer: str, count: int) -> None:
    """Record answers of one layer, as one of a robot's nodes does."""
    client = RecordingModelClient(Script(Clock(), (0.1, TextDelta(f"<{layer}/>é")), (0.2, Finished())), path)
    client.prepare()
    for number in range(count):
        request = ModelRequest(f"LAYER {layer}\nYou plan.", (Message("user", str(number)),))
        list(client.stream(request, cancel=CancelToken()))


def test_nodes_that_record_into_one_file_at_once_lose_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    fork = multiprocessing.get_context("fork")
    nodes = [fork.Process(target=record_layer, args=(path, layer, 20)) for layer in LAYERS for _ in range(2)]
    for node in nodes:
        node.start()
    for node in nodes:
        node.join(30.0)
    streams = read_recording(path)
    assert Counter((s.layer, s.pieces[0].text) for s in streams) == {(layer, f"<{layer}/>é"): 40 for layer in LAYERS}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_each_layer_gets_its_own_answers_back(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for layer in LAYERS:
        record_layer(path, layer, 2)
    client = ReplayModelClient(path, speed="instant")
    for layer in (*LAYERS, *reversed(LAYERS)):
        request = ModelRequest(f"LAYER {layer}\nYou plan otherwise.", (Message("user", "what now"),))
        assert next(iter(client.stream(request, cancel=CancelToken()))) == TextDelta(f"<{layer}/>é")
    with pytest.raises(ModelError, match="holds 2 answers of layer s1 and all were given"):
        list(client.stream(request, cancel=CancelToken()))


def test_a_node_killed_while_it_writes_costs_its_own_last_answer_at_most(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    record_layer(path, "s1", 2)
    whole = path.read_bytes()
    record_layer(path, "s2", 1)
    longer = path.read_bytes()
    for cut in (*range(len(whole), len(longer), 5), len(longer) - 1):
        path.write_bytes(longer[:cut])
        layers = ["s1", "s1", "s2"] if cut == len(longer) - 1 else ["s1", "s1"]  # where only the end of the line is missing
        assert [s.layer for s in read_recording(path)] == layers
        record_layer(path, "s3", 1)
        assert [s.layer for s in read_recording(path)] == [*layers, "s3"]
    for cut in range(0, 60, 3):
        path.write_bytes(whole[:cut])
        with pytest.raises(RecordingError):
            read_recording(path)
        record_layer(path, "s3", 1)
        assert [s.layer for s in read_recording(path)] == ["s3"]


def test_a_program_that_is_killed_again_and_again_leaves_a_file_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    fork = multiprocessing.get_context("fork")
    record_layer(path, "s1", 1)
    for _ in range(5):
        before = path.stat().st_size
        node = fork.Process(target=record_layer, args=(path, "s2", 100_000))
        node.start()
        while path.stat().st_size <= before and node.is_alive():
            time.sleep(0.001)
        node.kill()
        node.join(30.0)
        assert read_recording(path)[-1].layer == "s2"
    record_layer(path, "s1", 1)
    assert [s.layer for s in read_recording(path)][:: len(read_recording(path)) - 1] == ["s1", "s1"]


def test_a_full_disk_costs_one_answer_and_leaves_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "run.jsonl"
    record_layer(path, "s1", 2)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, limits[1]))
    try:
        record(path, *SPOKEN)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and "could not be written" in caplog.text


def test_a_file_of_another_kind_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    client = RecordingModelClient(Script(Clock(), *SPOKEN), path)
    with pytest.raises(ModelError, match="it is no recording; name another file"):
        client.prepare()
    assert list(client.stream(ask(), cancel=CancelToken()))[-1] == Finished("length")
    assert path.read_text() == "precious"


def test_a_program_that_keeps_the_file_locked_holds_nobody_up_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run.jsonl"
    record(path, *SPOKEN)
    monkeypatch.setattr(recording, "LOCK_S", 0.02)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        record(path, *SPOKEN)
    assert "another program has locked it" in caplog.text and len(read_recording(path)) == 1


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "stream.jsonl"
    record(path, *SPOKEN)
    before = path.read_bytes()
    no_number: Any = object()
    unwritable = RecordedStream("m", "", "", (), 1.0, usage=Usage(1, 1, cost_usd=no_number))
    with pytest.raises(TypeError):
        append_recording(path, [unwritable])
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
