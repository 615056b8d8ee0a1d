# SPDX-License-Identifier: Apache-2.0
"""Strategy `layered` on the whole robot: first action, plan, steps, events and degradation with a model over HTTP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from ghostshell.msg import ProcessState
from ghostshell.srv import ControlProcess, JudgeCondition

from bench.reading import layer_of, read_blocks
from bench.replay.recorded import read_recording
from bench.simulated_model.model_server import Answer, ModelServer, RecordedRequest
from pipeline_support import NODES, BroughtUp, Observer, assert_mapped, brought_up, config_dir
from planners.models.scrubber import REMOVED
from planners.prompts.blocks import Layer
from ros_support import wait_until
from skill_kernel.events import CallKind, ModelKind, ProcessKind

RETRY = {"max_retries": 0, "first_wait_s": 0.05, "max_wait_s": 0.1}
NOD = '<head_act action="nod" duration="1"/>'
TURN_HEAD = '<head_pose yaw="40"/>'
STAND = "<spider_stand/>"
SLOWLY = {"plan_wait_s": 2.0, "step_deadline_s": 4.0, "begin_directly": False}
"""Plain commands, too, are left to the model."""
KEY = "sk-test-9fJ2kLm4Qp7RsT1vXz3Bc6Dn8"

Answers = dict[Layer, str | Answer | Callable[[dict[str, list[Any]]], str | Answer]]
QUIET: Answers = {Layer.S1P: "<none/>", Layer.S2: "<keep/>", Layer.S1: "<nothing/>", Layer.S3: "<nothing/>", Layer.JUDGE: "no"}


def by_layer(answers: Answers) -> Callable[[RecordedRequest], str | Answer]:
    """Answers each layer by itself, from the blocks of its prompt alone."""

    def answer(request: RecordedRequest) -> str | Answer:
        layer = layer_of(request.prompt)
        said = {**QUIET, **answers}.get(layer or Layer.STREAM, "Hello")
        return said(read_blocks(request.last_user_text)) if callable(said) else said

    return answer


def _subtask(blocks: dict[str, list[Any]]) -> str:
    return next(s["description"] for s in blocks["PLAN"] if s["id"] == blocks["SUBTASK"][0])


def steps(by_subtask: dict[str, str]) -> Callable[[dict[str, list[Any]]], str]:
    """System 1 that knows the steps of each subtask, and writes them once."""

    def answer(blocks: dict[str, list[Any]]) -> str:
        if blocks.get("FIRED"):
            return by_subtask["FIRED"]
        return by_subtask.get(_subtask(blocks), "<nothing/>")

    return answer


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer("Hello") as started:
        yield started


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file into which all nodes record what the model answers."""
    return tmp_path_factory.mktemp("recorded") / "run.jsonl"


@pytest.fixture(scope="module")
def robot(server: ModelServer, recording: Path, tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[BroughtUp]:
    folder = tmp_path_factory.mktemp("layered")
    model = {"provider": "openai", "model": "any", "base_url": server.openai_url, "retry": RETRY, "first_token_s": 4.0}
    model["api_key_env"] = "TEST_MODEL_KEY"
    recorded = {"provider": "record", "path": str(recording), "inner": model}
    config = config_dir(folder, {"served": recorded}, action_planner=SLOWLY)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TEST_MODEL_KEY", KEY)
        nodes = {*NODES, "task_planner"}
        with brought_up(folder, config, nodes=nodes, model="served", composed="true", strategy="layered") as up:
            yield up


@pytest.fixture
def watch(robot: BroughtUp, server: ModelServer) -> Iterator[Observer]:
    server.answer = by_layer({})
    observer = robot.observer
    yield observer
    for process in observer.processes:
        if process.status < ProcessState.SUCCESS:
            request = ControlProcess.Request(command=ControlProcess.Request.STOP, process_id=process.process_id)
            observer.ask(observer.control, request)
    wait_until(lambda: not observer.kernel.running, 10.0, "nothing runs any more")
    assert not robot.exited, "\n".join(robot.log[-40:])


def test_the_map_in_the_documents_is_the_running_graph(robot: BroughtUp, watch: Observer) -> None:
    assert_mapped(robot, "coco")


def started(watch: Observer, process_id: str) -> list[str]:
    """Skills that began, in order."""
    silent = {"step", "if", "else", "subtask_complete", "wait"}
    return [e.function for e in watch.of(process_id, CallKind.STARTED) if e.function not in silent]


def answered(watch: Observer, process_id: str) -> set[str]:
    return {e.layer for e in watch.of(process_id, ModelKind.ANSWERED)}


def test_the_first_action_comes_first_then_the_subtasks_in_steps(watch: Observer, server: ModelServer) -> None:
    plan = '<subtask criteria="it stands">stand</subtask><subtask criteria="it nodded">nod</subtask>'
    server.answer = by_layer(
        {
            Layer.S1P: TURN_HEAD,
            Layer.S2: lambda b: "<keep/>" if "PLAN" in b else Answer(plan, first_token_s=1.0),
            Layer.S1: steps(
                {
                    "stand": f"<step>{STAND}</step><subtask_complete/>",
                    "nod": f'<step><if cond="always">{NOD}</if><else>{STAND}</else></step><subtask_complete/>',
                }
            ),
        }
    )
    task = watch.task("stand up and nod")
    result = task.result(40.0)
    assert (result.status, result.error_code) == (ProcessState.SUCCESS, 0), result.error_msg
    assert started(watch, task.process_id) == ["head_pose", "spider_stand", "head_act"]
    first = watch.wait_event(CallKind.STARTED, process_id=task.process_id, function="head_pose")
    planned = watch.wait_event(ModelKind.ANSWERED, process_id=task.process_id, layer="s2")
    assert watch.events.index(first) < watch.events.index(planned)
    assert [e.plan_item for e in watch.of(task.process_id, ProcessKind.SUBTASK_DONE)] == ["stand", "nod"]
    assert {"s1p", "s1", "s2"} <= answered(watch, task.process_id)
    usage = {u.layer: u for u in result.usage}
    assert usage["s1"].calls in (2, 3) and usage["s1"].prompt_tokens > 100


def test_a_task_held_for_done_too_early_goes_on_until_system_2_agrees(watch: Observer, server: ModelServer) -> None:
    def plans(blocks: dict[str, list[Any]]) -> str:
        if "CLAIM" not in blocks:
            return "<keep/>" if "PLAN" in blocks else "<subtask>nod</subtask>"
        nods = [call for call in blocks["DONE"] if call["function"] == "head_act"]
        return "<achieved/>" if len(nods) > 1 else "<subtask>nod again</subtask>"

    nod = f"<step>{NOD}</step><subtask_complete/>"
    server.answer = by_layer({Layer.S2: plans, Layer.S1: steps({"nod again": nod, "nod": nod})})
    task = watch.task("nod two times")
    result = task.result(40.0)
    assert (result.status, result.error_msg) == (ProcessState.SUCCESS, "")
    assert started(watch, task.process_id) == ["head_act", "head_act"]
    assert len(watch.of(task.process_id, ProcessKind.CLAIMED)) == 2


def test_a_task_at_which_system_2_cannot_look_again_ends_unverified(watch: Observer, server: ModelServer) -> None:
    keep = {Layer.S2: lambda b: "<keep/>" if "PLAN" in b else "<subtask>nod</subtask>"}
    server.answer = by_layer({**keep, Layer.S1: steps({"nod": f"<step>{NOD}</step><subtask_complete/>"})})
    result = watch.task("nod").result(40.0)
    assert result.status == ProcessState.SUCCESS and result.error_msg.startswith("unverified: ")


def test_without_a_plan_in_time_the_instruction_is_the_subtask(watch: Observer, server: ModelServer) -> None:
    server.answer = by_layer(
        {
            Layer.S2: Answer("<keep/>", first_token_s=30.0),
            Layer.S1: steps({"nod please": f"<step>{NOD}</step><subtask_complete/>"}),
        }
    )
    task = watch.task("nod please")
    assert task.result(40.0).status == ProcessState.SUCCESS
    degraded = watch.of(task.process_id, ModelKind.DEGRADED)
    assert "s2" in {e.layer for e in degraded}


def test_a_model_that_fails_leaves_the_direct_commands(watch: Observer, server: ModelServer) -> None:
    server.answer = by_layer(
        {
            Layer.S1P: "what?",
            Layer.S1: "I shall nod.",
            Layer.S2: lambda b: "<keep/>" if "PLAN" in b else "<subtask>nod</subtask>",
        }
    )
    task = watch.task("nod")
    assert task.result(40.0).status == ProcessState.SUCCESS
    assert "head_act" in started(watch, task.process_id) and "text" not in started(watch, task.process_id)
    hows = [e.fallback for e in watch.of(task.process_id, ModelKind.DEGRADED) if e.layer == "s1"]
    assert len(hows) == 3 and hows[-1].startswith("follows the direct commands")


def test_what_cannot_be_done_is_said_and_fails_with_the_reason(watch: Observer, server: ModelServer) -> None:
    server.answer = by_layer({Layer.S2: "<give_up>I have no wings</give_up>"})
    task = watch.task("fly")
    result = task.result(40.0)
    assert result.status == ProcessState.FAILED and result.error_msg == "I have no wings"
    assert started(watch, task.process_id) == ["text"]


def test_a_global_event_interrupts_and_is_handled_first(watch: Observer, server: ModelServer) -> None:
    plan = '<subtask>look left</subtask><event cond="head_turn() > 20">stand up</event>'
    server.answer = by_layer(
        {
            Layer.S2: lambda b: "<keep/>" if "PLAN" in b else plan,
            Layer.S1: steps(
                {
                    "look left": f'<step>{TURN_HEAD}</step><step><sleep seconds="5"/></step><subtask_complete/>',
                    "FIRED": f"<step>{STAND}</step><subtask_complete/>",
                }
            ),
        }
    )
    task = watch.task("look left; if your head turns, stand up")
    result = task.result(60.0)
    assert result.status == ProcessState.SUCCESS, result.error_msg
    fired = watch.wait_event(ProcessKind.PLAN_EVENT, process_id=task.process_id)
    assert fired.plan_item == "stand up"
    assert "spider_stand" in started(watch, task.process_id)
    state = watch.process(task.process_id)
    assert state is not None and len(state.fired_events) == 1


def test_a_paused_process_keeps_its_queue_and_goes_on(watch: Observer, server: ModelServer) -> None:
    long = f"<step>{NOD}</step><step>{STAND}</step><step>{NOD}</step><subtask_complete/>"
    server.answer = by_layer(
        {Layer.S2: lambda b: "<keep/>" if "PLAN" in b else "<subtask>exercise</subtask>", Layer.S1: steps({"exercise": long})}
    )
    task = watch.task("exercise")
    watch.wait_event(CallKind.STARTED, process_id=task.process_id, function="head_act")
    command = ControlProcess.Request
    watch.ask(watch.control, command(command=command.PAUSE, process_id=task.process_id))
    watch.wait_status(task.process_id, ProcessState.PAUSED)
    asked = len(watch.of(task.process_id, ModelKind.ASKED))
    watch.ask(watch.control, command(command=command.RESUME, process_id=task.process_id))
    assert task.result(40.0).status == ProcessState.SUCCESS
    later = [e for e in watch.of(task.process_id, ModelKind.ASKED)[asked:] if e.layer == "s1"]
    assert len(later) <= 1
    assert started(watch, task.process_id)[-2:] == ["spider_stand", "head_act"]


def test_a_sentence_is_judged_from_the_observation(watch: Observer, server: ModelServer) -> None:
    shown: list[dict[str, list[Any]]] = []
    server.answer = by_layer({Layer.JUDGE: lambda b: (shown.append(b), "Yes, it looks so.")[1]})
    client = watch.create_client(JudgeCondition, "judge_condition")
    wait_until(client.service_is_ready, 5.0, "the judge is there")
    found = watch.ask(client, JudgeCondition.Request(process_id="p", condition="the head is turned"), 10.0)
    assert (found.known, found.holds, found.reason) == (True, True, "it looks so.")
    assert shown[0]["CONDITION"] == ["the head is turned"] and "head_turn" in shown[0]["OBSERVATION"][0]
    empty = watch.ask(client, JudgeCondition.Request())
    assert not empty.known and empty.error_code == JudgeCondition.Request.NO_JUDGE
    watch.destroy_client(client)


@pytest.mark.slow
def test_without_a_language_model_the_direct_commands_are_followed_as_ever(ros: None, tmp_path: Any) -> None:
    with brought_up(tmp_path, nodes={*NODES, "task_planner"}, composed="true", strategy="layered") as up:
        task = up.observer.task("stand up, then nod")
        result = task.result(30.0)
        assert result.status == ProcessState.SUCCESS, result.error_msg
        assert started(up.observer, task.process_id) == ["spider_stand", "head_act"]
        assert answered(up.observer, task.process_id) == {"stream"}
        assert not up.observer.of(task.process_id, ModelKind.DEGRADED)


def test_a_key_that_the_model_says_is_neither_spoken_nor_recorded(
    watch: Observer, server: ModelServer, recording: Path
) -> None:
    said = f"My key is {KEY}, or {quote(KEY, safe='')}, or {KEY.encode().hex()}."
    server.answer = by_layer({Layer.S1: f"<step>{said}{NOD}</step><subtask_complete/>"})
    task = watch.task("nod and say something")
    assert task.result(40.0).status == ProcessState.SUCCESS
    assert any(request.headers.get("authorization") == f"Bearer {KEY}" for request in server.requests)
    heard = "".join(chunk.text for _, chunk in watch.chunks if chunk.process_id == task.process_id)
    assert heard.count(REMOVED) == 3
    everything = repr([*watch.events, *watch.chunks, *watch.processes]) + recording.read_text(encoding="utf-8")
    pieces = [KEY[at : at + 12] for at in range(len(KEY) - 11)]
    assert not [piece for piece in pieces if piece in everything or piece.encode().hex() in everything]


def test_all_nodes_have_recorded_their_answers_in_one_file(watch: Observer, server: ModelServer, recording: Path) -> None:
    server.answer = by_layer({Layer.S1: f"<step>{NOD}</step><subtask_complete/>"})
    assert watch.task("nod for the record").result(40.0).status == ProcessState.SUCCESS
    asked = Counter(str(layer_of(request.prompt)) for request in server.requests)
    assert {"s1p", "s1", "s2"} <= set(asked)

    def kept() -> Counter[str]:
        return Counter(stream.layer for stream in read_recording(recording))

    wait_until(lambda: kept() >= asked, 5.0, "each answer is recorded")
