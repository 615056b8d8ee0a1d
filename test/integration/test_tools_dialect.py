# SPDX-License-Identifier: Apache-2.0
"""The whole robot with a model that calls the functions as its provider's own tools (`dialect:=tools`)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from ghostshell.msg import ProcessState

from bench.simulated_model.model_server import Answer, Fault, ModelServer, RecordedRequest, ToolUse
from pipeline_support import BroughtUp, Observer, brought_up, config_dir, only
from ros_support import wait_until
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallKind

NOD = ToolUse("head_act", {"action": "nod", "duration": 0.7})


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(Answer(tool_calls=(NOD,))) as started:
        yield started


@pytest.fixture(scope="module")
def robot(server: ModelServer, tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[BroughtUp]:
    folder = tmp_path_factory.mktemp("robot")
    model = {"provider": "anthropic", "model": "any", "base_url": server.anthropic_url, "silence_s": 5.0}
    with brought_up(folder, config_dir(folder, {"served": model}), model="served", dialect="tools") as up:
        yield up


@pytest.fixture
def watch(robot: BroughtUp, server: ModelServer) -> Observer:
    server.requests.clear()
    return robot.observer


def test_calls_are_performed_and_their_results_go_back_as_tool_results(watch: Observer, server: ModelServer) -> None:
    def answer(request: RecordedRequest) -> Answer:
        first = len(request.body["messages"]) == 1
        calls = (NOD, ToolUse("shake_ears", {"duration": 0.3}), ToolUse("observe", {})) if first else ()
        return Answer("Look!" if first else "That was all.", tool_calls=calls)

    server.answer = answer
    task = watch.task("nod and shake your ears")
    result = task.result(30.0)
    assert (result.status, result.error_code) == (ProcessState.SUCCESS, 0), result
    calls = watch.drained(task.process_id)
    nod, shake = only(calls, "head_act"), only(calls, "shake_ears")
    assert nod.outcome == shake.outcome == Outcome.DONE
    assert nod.start_s < shake.end_s and shake.start_s < nod.end_s, "channels run at the same time"
    assert len(server.requests) == 2 and {t["name"] for t in server.requests[0].body["tools"]} > {"head_act", "observe"}
    _, said, then = server.requests[1].body["messages"]
    assert [part["type"] for part in said["content"]] == ["text", "tool_use", "tool_use", "tool_use"]
    results = [json.loads(part["content"]) for part in then["content"] if part["type"] == "tool_result"]
    assert [(r["function"], r["outcome"]) for r in results[:2]] == [("head_act", "DONE"), ("shake_ears", "DONE")]


def test_a_call_begins_while_the_next_one_is_still_written(watch: Observer, server: ModelServer) -> None:
    server.answer = Answer(tool_calls=(NOD, ToolUse("shake_ears", {"duration": 0.3})))
    server.inject(Fault.silence(after_chars=len(json.dumps(NOD.arguments)), seconds=2.0))
    since, completed = len(watch.events), server.completed
    task = watch.task("nod, then shake your ears")
    watch.wait_event(CallKind.STARTED, since=since, function="head_act")
    assert server.completed == completed, "the answer is not complete"
    assert task.result(20.0).status == ProcessState.SUCCESS
    nod, shake = (only(watch.drained(task.process_id), name) for name in ("head_act", "shake_ears"))
    assert shake.start_s - nod.start_s > 1.0


def test_what_nobody_understands_is_refused_and_nothing_after_it_moves(watch: Observer, server: ModelServer) -> None:
    server.answer = Answer(tool_calls=(ToolUse("head_act", '{"action": "nod"'), ToolUse("spider_rotate", {"angle": 30})))
    task = watch.task("nod and turn")
    result = task.result(20.0)
    assert result.status == ProcessState.FAILED
    refused = [call for call in watch.drained(task.process_id) if call.function == "head_act"]
    assert refused and all(c.outcome == Outcome.REFUSED and c.error_code == CallCode.UNKNOWN_ARGUMENT for c in refused)
    assert not any(c.outcome == Outcome.DONE for c in watch.drained(task.process_id))
    wait_until(lambda: not watch.kernel or not watch.kernel.running, 5.0, "nothing runs")
