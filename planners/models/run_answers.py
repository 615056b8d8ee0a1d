# SPDX-License-Identifier: Apache-2.0
"""The models' answers in the recording of a run (MCAP), to be given again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planners.models.base import Usage
from planners.models.mcap_file import RunFileError, RunMessage, is_mcap, read_run
from planners.models.recording import Piece, RecordedStream, RecordingError
from skill_kernel.codes import ModelCode

TOPICS = ("prompts", "answers", "llm_chunks")


def read_run_answers(path: Path) -> tuple[RecordedStream, ...]:
    """All answers in the order they were asked for; none when the file is no MCAP file. `FILE.mcap#kalos` names one robot.

    A stream without a message of its answer (its model still wrote when the recording ended) is put together from its
    chunks. Raises RecordingError.
    """
    file, _, robot = str(path).rpartition("#") if "#" in path.name and not path.exists() else (str(path), "", "")
    try:
        if not is_mcap(Path(file)):
            return ()
        run = read_run(Path(file), lambda topic: _is_wanted(topic, robot))
    except OSError as error:
        raise RecordingError(f"{file} cannot be read ({error.strerror}); check the path or record it first") from error
    except RunFileError as error:
        raise RecordingError(str(error)) from error
    answers = _answers(run.messages)
    if not answers:
        whose = f" of robot {robot}" if robot else ""
        raise RecordingError(f"{file} holds no answer of a model{whose}; see: ghostshell replay --info {file}")
    return answers


def _is_wanted(topic: str, robot: str) -> bool:
    namespace, _, name = topic.rpartition("/")
    return name in TOPICS and (not robot or namespace.strip("/") == robot.strip("/"))


def _answers(messages: list[RunMessage]) -> tuple[RecordedStream, ...]:
    asked: dict[str, Any] = {}
    chunks: dict[str, list[Any]] = {}
    timed: list[tuple[float, RecordedStream]] = []
    told: set[str] = set()
    for message in messages:
        value = message.value
        if message.topic.endswith("/prompts"):
            asked[value.stream_id] = value
        elif message.topic.endswith("/answers"):
            told.add(value.stream_id)
            timed.append((_seconds(value.stamp) - value.end_s, _of_answer(value)))
        else:
            chunks.setdefault(value.stream_id, []).append(value)
    for stream_id, pieces in chunks.items():
        # Where answers were told, a stream that no prompt names is no model's: a motion that needed none, say.
        if stream_id not in told and pieces[0].seq == 0 and (stream_id in asked or not told):
            timed.append(_of_chunks(pieces, asked.get(stream_id)))
    return tuple(stream for _, stream in sorted(timed, key=lambda item: item[0]))


def _of_answer(value: Any) -> RecordedStream:
    code = _code(value.error_code)
    usage = Usage(
        value.prompt_tokens, value.completion_tokens, value.cached_tokens, None if value.cost_usd < 0 else value.cost_usd
    )
    pieces = tuple(Piece(t_s, text) for t_s, text in zip(value.times_s, value.pieces, strict=False) if text)
    return RecordedStream(
        value.model, value.sha256, "", pieces, value.end_s, value.finish or "stop", code, value.error_msg, usage, value.layer
    )


def _of_chunks(chunks: list[Any], prompt: Any) -> tuple[float, RecordedStream]:
    """Without the prompt's time the answer begins at its first chunk."""
    began_s = _seconds(prompt.stamp if prompt is not None else chunks[0].stamp)
    pieces = tuple(Piece(max(0.0, _seconds(c.stamp) - began_s), c.text) for c in chunks if c.text)
    end = chunks[-1]
    code = _code(end.error_code) if end.last else ModelCode.MODEL_CONNECTION
    message = end.error_msg if end.last else "the recording ended before the answer did"
    return began_s, RecordedStream(
        prompt.model if prompt is not None else "",
        prompt.sha256 if prompt is not None else "",
        "",
        pieces,
        max(0.0, _seconds(end.stamp) - began_s),
        "stop",
        code,
        message,
        None,
        prompt.layer if prompt is not None else "stream",
    )


def _code(number: int) -> ModelCode:
    return ModelCode(number) if number in set(ModelCode) else ModelCode.MODEL_CONNECTION


def _seconds(stamp: Any) -> float:
    return float(stamp.sec + stamp.nanosec * 1e-9)
