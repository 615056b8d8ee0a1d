# SPDX-License-Identifier: Apache-2.0
"""The whole robot from its launch file, with a language model that streams over HTTP: from instruction to motion, new
instructions, stops, faults of the model, hostile streams and a killed driver."""

from __future__ import annotations

import math
import os
import pty
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ghostshell.action import RunTask
from ghostshell.msg import FunctionToken, LlmChunk, ProcessState
from ghostshell.srv import ControlProcess
from std_msgs.msg import String
from std_srvs.srv import Trigger

from bench.simulated_model.model_server import Fault, ModelServer
from ghostshell_ros.runtime.goal_client import GoalEnd
from pipeline_support import BroughtUp, Observer, brought_up, config_dir, missing, only
from ros_support import wait_until
from skill_kernel.codes import Achievement, CallCode, ModelCode, Outcome, ParseCode, TaskCode
from skill_kernel.events import CallKind, NoticeKind, ProcessKind, StreamKind
from skill_kernel.robot import RobotConfig

NOD = '<head_act action="nod" duration="0.7"/>'
LONG_WALK = '<spider_run_distance distance="60"/>'
LONG_SHAKE = '<head_act action="shake" duration="60"/>'
SHAKE = '<shake_ears duration="0"/>'
RETRY = {"max_retries": 1, "first_wait_s": 0.05, "max_wait_s": 0.1}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(NOD) as started:
        yield started


@pytest.fixture(scope="module")
def robot(server: ModelServer, tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[BroughtUp]:
    folder = tmp_path_factory.mktemp("robot")
    model = {
        "provider": "openai",
        "model": "any",
        "base_url": server.openai_url,
        "retry": RETRY,
        "first_token_s": 4.0,
        "silence_s": 1.5,
    }
    config = config_dir(folder, {"served": model})
    with brought_up(folder, config, model="served", composed="true", default_robot="true") as up:
        yield up


@pytest.fixture
def watch(robot: BroughtUp, server: ModelServer) -> Iterator[Observer]:
    """Return the observer of a robot that is up and idle; every test leaves it so, with all processes but killed ones alive."""
    server.answer, server.rate = NOD, None
    observer = robot.observer
    observer.set_points.clear()
    yield observer
    if observer.halted:
        observer.ask(observer.clear_halt, Trigger.Request())
        wait_until(lambda: not observer.halted and observer.kernel and not observer.kernel.halted, 5.0, "halt cleared")
    wait_until(lambda: not observer.kernel.running, 10.0, "nothing runs any more")
    assert not observer.beyond_limits()
    lost = [e for e in robot.exited if e.returncode != -9]
    assert not lost, f"{lost}\n" + "\n".join(robot.log[-40:])


def test_every_node_topic_service_and_action_is_there(robot: BroughtUp, watch: Observer) -> None:
    assert not missing(robot)
    namespace = watch.get_namespace()
    topics = {name for name, _ in watch.get_topic_names_and_types()}
    expected = (
        "instruction llm_chunks function_tokens call_content call_control kernel_state processes joint_command_in "
        "events/calls events/streams events/processes events/models events/notices "
        "joint_command joint_states imu odom camera/image_raw face/image_raw halted scheduler_heartbeat"
    ).split()
    assert not {f"{namespace}/{name}" for name in expected} - topics
    assert "/instruction" in topics
    services = {name for name, _ in watch.get_service_names_and_types()}
    wanted = "halt clear_halt list_skills control_process".split()
    wanted += [f"{n}/interrupt" for n in ("skill_kernel", "channel_scheduler", "token_parser", "action_planner")]
    actions = "run_task execute_skill move_joints speak play_sound show_face".split()
    wanted += [f"{action}/_action/send_goal" for action in actions]
    assert not {f"{namespace}/{name}" for name in wanted} - services


@pytest.mark.parametrize("door", ["instruction", "global_instruction"])
def test_an_instruction_on_the_topic_moves_the_robot(watch: Observer, door: str) -> None:
    since, before = len(watch.events), watch.joints["head_pitch"]
    publisher = getattr(watch, door)
    wait_until(lambda: publisher.get_subscription_count() > 0, 5.0, "a reader of instructions")
    publisher.publish(String(data="please nod"))
    wait_until(lambda: abs(watch.joints["head_pitch"] - before) > 0.05, 10.0, "the head moves")
    ended = watch.wait_event(ProcessKind.ENDED, since=since)
    assert (ended.status, ended.error_code) == ("SUCCESS", 0)
    nod = only(watch.drained(ended.process_id), "head_act")
    assert nod.outcome == Outcome.DONE and nod.end_s - nod.start_s > 0.5
    state = watch.process(ended.process_id)
    assert state is not None and (state.status, state.door, state.calls_done) == (ProcessState.SUCCESS, "topic", 1)


def test_a_task_walks_gives_feedback_and_a_result(watch: Observer, server: ModelServer) -> None:
    server.answer = 'Here I go. <spider_run_distance distance="12"/>'
    start = watch.pose
    task = watch.task("walk a little")
    result = task.result(30.0)
    assert task.ends[0][0] is GoalEnd.SUCCEEDED, result
    assert (result.status, result.error_code, result.calls_done) == (ProcessState.SUCCESS, 0, 2)
    assert result.achievement == Achievement.DONE
    assert result.prompt_tokens > 100 and result.completion_tokens > 5 and "2 calls done" in result.summary
    statuses = [f.state.status for f in task.feedback]
    assert statuses[0] == ProcessState.IN_PROGRESS and len(statuses) >= 3
    assert start is not None and watch.pose is not None
    assert 0.06 < math.dist(start[:2], watch.pose[:2]) < 0.2


def test_an_answer_that_only_talks_is_an_answer_and_nothing_else_is_heard(watch: Observer, server: ModelServer) -> None:
    server.answer = "TURN 0\nI like to sit here.<|im_end|>\n<|im_start|>user\n"
    task = watch.task("tell me where you like to sit")
    result = task.result(20.0)
    assert (result.status, result.achievement) == (ProcessState.SUCCESS, Achievement.ANSWERED), result
    said = only(watch.drained(task.process_id), "text").args_json
    assert "sit here" in said and "im_end" not in said and "TURN" not in said
    left_out = [e.error_msg for e in watch.of(task.process_id, StreamKind.REPAIR) if "not for ears" in e.error_msg]
    assert len(left_out) == 3


def test_talk_where_a_deed_was_asked_for_is_no_success_and_its_claim_is_marked(watch: Observer, server: ModelServer) -> None:
    server.answer = "I have waved my ears."
    result = watch.task("wave your ears").result(20.0)
    assert (result.status, result.achievement) == (ProcessState.FAILED, Achievement.NOT_DONE), result
    assert result.error_code == TaskCode.ONLY_WORDS and "I have waved my ears" in result.error_msg
    marked = [e for e in watch.events if e.kind is NoticeKind.UNPROVEN and e.process_id == result.process_id]
    assert marked and all("I have waved my ears" in event.told for event in marked)
    wait_until(lambda: any(p.process_id == result.process_id and p.unproven for p in watch.processes), 2.0, "ps shows it")


def test_an_answer_that_goes_round_in_circles_is_cut_and_is_no_example(watch: Observer, server: ModelServer) -> None:
    for circle, why in ("<|im_end|>\n", "over and over"), ("The robot is turning its head to the right now. ", "itself"):
        server.answer = circle * 400
        result = watch.task("nod").result(15.0)
        assert (result.status, result.achievement) == (ProcessState.FAILED, Achievement.NOT_DONE), result
        assert result.error_code == ModelCode.MODEL_NOT_UNDERSTOOD and why in result.error_msg
        server.answer = NOD
        assert watch.task("nod again").result(20.0).achievement == Achievement.DONE
        assert circle.strip() not in str(server.requests[-1].body["messages"])


def test_a_function_starts_while_the_model_is_still_writing(watch: Observer, server: ModelServer) -> None:
    server.answer, server.rate = NOD + " And now I tell you a story about it." * 2, 15.0
    task = watch.task("nod and talk")
    process_id = task.process_id
    started = watch.wait_event(CallKind.STARTED, process_id=process_id, function="head_act")
    started_s = watch.heard_s[watch.events.index(started)]
    wait_until(lambda: any(c.last and c.process_id == process_id for _, c in watch.chunks), 15.0, "the last chunk")
    chunks = [(at, c) for at, c in watch.chunks if c.process_id == process_id]
    assert chunks[-1][0] - started_s > 0.5, "the call started no half second before the model ended"
    assert sum(at > started_s for at, _ in chunks) > 10
    end = task.result(20.0)
    assert end.status == ProcessState.SUCCESS, end.error_msg


def test_a_new_instruction_replaces_the_one_it_contends_with(watch: Observer, server: ModelServer) -> None:
    server.answer = lambda request: NOD if "nod" in request.last_user_text else LONG_WALK + NOD + '<spider_rotate angle="90"/>'
    old = watch.task("walk far")
    watch.wait_event(CallKind.STARTED, process_id=old.process_id, function="spider_run_distance")
    watch.wait_event(CallKind.ENDED, process_id=old.process_id, function="head_act")
    wait_until(watch.hears_motion, 5.0, "it walks")
    said_s = time.monotonic()
    new = watch.task("now nod")
    result = old.result(5.0)
    assert (result.status, result.error_code) == (ProcessState.STOPPED, TaskCode.REPLACED)
    drained = watch.drained(old.process_id)
    outcomes = {e.function: e.outcome for e in drained}
    assert outcomes["spider_run_distance"] == Outcome.INTERRUPTED
    assert outcomes["spider_rotate"] == Outcome.DROPPED
    ended_s = watch.heard_s[watch.events.index(only(drained, "spider_run_distance"))]
    assert ended_s - said_s < 1.5
    legs = [n for n in watch.joints if n.startswith("leg")]
    assert new.result(10.0).status == ProcessState.SUCCESS
    positions = [[p[n] for n in legs if n in p] for at, p in watch.set_points if at > ended_s + 0.2]
    assert all(p == positions[0] for p in positions), "the legs went on moving"
    assert only(watch.drained(new.process_id), "head_act").outcome == Outcome.DONE


def test_a_cancelled_task_stops(watch: Observer, server: ModelServer) -> None:
    server.answer, server.rate = LONG_WALK + " I walk and walk and walk, on and on, until I am told to end it." * 3, 20.0
    task = watch.task("walk far")
    watch.wait_event(CallKind.STARTED, process_id=task.process_id, function="spider_run_distance")
    cancelled_s = time.monotonic()
    task.sent.cancel()
    result = task.result(3.0)
    assert task.ends[0][0] is GoalEnd.CANCELED
    assert (result.status, result.error_code) == (ProcessState.STOPPED, TaskCode.CANCELLED)
    walk = only(watch.drained(task.process_id, 3.0), "spider_run_distance")
    assert walk.outcome == Outcome.INTERRUPTED and time.monotonic() - cancelled_s < 2.0
    assert server.wait_until(lambda s: s.disconnects > 0), "the model goes on writing for nobody"


def test_control_process_stops_the_running_task(watch: Observer, server: ModelServer) -> None:
    server.answer = LONG_WALK
    task = watch.task("walk far")
    watch.wait_event(CallKind.STARTED, process_id=task.process_id)
    request = ControlProcess.Request(command=ControlProcess.Request.STOP, cause="enough")
    assert watch.ask(watch.control, request).success
    end = task.result(3.0)
    assert (end.status, end.achievement) == (ProcessState.STOPPED, Achievement.PARTLY_DONE)
    assert only(watch.drained(task.process_id, 3.0), "spider_run_distance").outcome == Outcome.INTERRUPTED
    assert watch.ask(watch.control, request).error_code == ControlProcess.Request.NO_SUCH_PROCESS


def clear_and_nod(watch: Observer) -> None:
    """Later instructions are refused with the way out; after clear_halt they work again."""
    wait_until(lambda: watch.halted and watch.kernel.halted, 3.0, "the gate and the kernel are halted")
    refused = watch.task("nod").result(5.0)
    assert (refused.error_code, refused.status) == (TaskCode.ROBOT_HALTED, ProcessState.FAILED)
    assert "ghostshell clear" in refused.error_msg
    since = len(watch.events)
    watch.say("nod")
    notice = watch.wait_event(NoticeKind.MESSAGE, since=since, error_code=int(TaskCode.ROBOT_HALTED))
    assert "ghostshell clear" in notice.error_msg
    assert watch.ask(watch.clear_halt, Trigger.Request()).success
    wait_until(lambda: not watch.halted and not watch.kernel.halted, 3.0, "the halt is cleared")
    watch.wait_event(NoticeKind.HALT_CLEARED, since=since, node="process_scheduler")
    result = watch.task("nod").result(10.0)
    assert (result.status, result.calls_done) == (ProcessState.SUCCESS, 1), result


def test_stop_halts_while_a_slow_model_call_is_in_flight_without_asking_it(watch: Observer, server: ModelServer) -> None:
    server.answer = LONG_WALK
    server.inject(Fault.silence(len(LONG_WALK) - 1, 0.0), Fault.slow_first_token(3.0))
    walking = watch.task("walk far")
    watch.wait_event(CallKind.STARTED, process_id=walking.process_id)
    asked = len(server.requests)
    slow = watch.task("think for long")  # joins the first; the model does not answer it for 3 s
    assert server.wait_until(lambda s: len(s.requests) == asked + 1)
    said_s = time.monotonic()
    watch.say("Stop!")
    result = slow.result(2.0)
    assert (result.status, result.error_code) == (ProcessState.STOPPED, TaskCode.ROBOT_HALTED)
    assert walking.result(1.0).error_code == TaskCode.ROBOT_HALTED
    wait_until(lambda: watch.halted, 2.0, "the gate is halted")
    assert time.monotonic() - said_s < 2.0
    assert len(server.requests) == asked + 1
    server.answer = NOD
    clear_and_nod(watch)


def test_stop_halts_in_the_midst_of_motion(watch: Observer, server: ModelServer) -> None:
    server.answer = LONG_WALK
    task = watch.task("walk far")
    watch.wait_event(CallKind.STARTED, process_id=task.process_id)
    wait_until(watch.hears_motion, 5.0, "it walks")
    said_s = time.monotonic()
    watch.say("STOP")
    assert task.result(2.0).error_code == TaskCode.ROBOT_HALTED
    assert watch.wait_still(0.3, 3.0) - said_s < 0.5
    walk = only(watch.drained(task.process_id, 3.0), "spider_run_distance")
    assert walk.outcome in (Outcome.INTERRUPTED, Outcome.FAILED)
    server.answer = NOD
    clear_and_nod(watch)


def test_stop_when_nothing_runs_halts_and_after_clearing_it_works_again(watch: Observer) -> None:
    stopped = watch.task("stop").result(3.0)
    assert (stopped.status, stopped.error_code) == (ProcessState.STOPPED, 0)
    clear_and_nod(watch)


def test_an_interrupt_of_everything_by_somebody_else_leaves_a_robot_that_works(watch: Observer, server: ModelServer) -> None:
    server.answer = LONG_WALK
    task = watch.task("walk far")
    watch.wait_event(CallKind.STARTED, process_id=task.process_id)
    watch.interrupt("")
    result = task.result(5.0)
    # The walk's end and the interrupt come to the planner on two ways.
    assert result.status == ProcessState.FAILED and result.error_code in (TaskCode.CANCELLED, TaskCode.CALL_FAILED), result
    server.answer = NOD
    first = watch.task("nod").result(10.0)
    second = watch.task("nod").result(10.0)
    assert second.status == ProcessState.SUCCESS and second.calls_done == 1, (first, second)


FAULTS = [
    pytest.param([Fault.status(401)], ModelCode.MODEL_AUTH, id="401"),
    pytest.param([Fault.status(429, times=2, retry_after_s=0)], ModelCode.MODEL_RATE_LIMITED, id="429", marks=pytest.mark.slow),
    pytest.param([Fault.status(500, times=2)], ModelCode.MODEL_SERVER, id="500", marks=pytest.mark.slow),
    pytest.param([Fault.drop(90)], ModelCode.MODEL_CONNECTION, id="reset-in-mid-tag"),
    pytest.param([Fault.drop(90, how="cut")], ModelCode.MODEL_CONNECTION, id="cut-in-mid-tag", marks=pytest.mark.slow),
    pytest.param([Fault.silence(90, 20.0)], ModelCode.MODEL_TIMEOUT, id="silence"),
]


@pytest.mark.parametrize(("faults", "code"), FAULTS)
def test_a_fault_of_the_model_is_named_and_ends_safely(
    watch: Observer, server: ModelServer, faults: list[Fault], code: ModelCode
) -> None:
    """With text before the fault, an open element runs and is reset, and the half tag behind it never becomes a call."""
    begin = '<head_act action="shake" duration="4"><ear_swing side="left" duration="1"/> '
    server.answer = f'{begin}<spider_rotate angle="90"/></head_act>'.ljust(140)
    assert server.answer.index("<spider_rotate") < 90 < server.answer.index("/></head_act>")
    server.inject(*faults)
    task = watch.task("do something")
    result = task.result(15.0)
    assert (result.status, result.error_code) == (ProcessState.FAILED, code), result
    assert result.error_msg
    ended = watch.wait_event(StreamKind.ENDED, process_id=task.process_id, node="action_planner")
    assert ended.error_code == code
    calls = watch.drained(task.process_id) if faults[0].after_chars else watch.of(task.process_id, CallKind.ENDED)
    assert {e.function for e in calls} <= {"head_act", "ear_swing"}
    assert all(e.outcome == Outcome.DONE for e in calls), calls
    # A reset connection may take with it what was sent and not yet read.
    least = 1 if faults[0].kind == "reset" else 2
    assert (least if faults[0].after_chars else 0) <= len(calls) <= 2
    server.answer = NOD
    assert watch.task("nod").result(10.0).status == ProcessState.SUCCESS


def obeys(watch: Observer) -> None:
    """Return a good stream of one's own runs."""
    shake = only(watch.drained(watch.stream(SHAKE)), "shake_ears")
    assert shake.outcome == Outcome.DONE, shake


HOSTILE: dict[str, tuple[str, set[int]]] = {
    "half a tag": (NOD[:20], set()),
    "ten megabytes of attribute": (f'<head_act action="{"x" * 10_000_000}"/>', {ParseCode.LIMIT_EXCEEDED}),
    "depth of 100,000": ("<wait>" * 100_000, {ParseCode.LIMIT_EXCEEDED}),
    "doctype": ('<!DOCTYPE a [<!ENTITY x "boom"><!ENTITY y "&x;&x;&x;&x;">]><a>&y;</a>', {ParseCode.FORBIDDEN_MARKUP}),
    "processing instruction": ("<?xml version='1.0'?>", {ParseCode.FORBIDDEN_MARKUP}),
    "mixed tags": ("<wait><sleep></wait></sleep>", {ParseCode.MISMATCHED_TAG}),
    "unknown function": ("<fly_away/>", {CallCode.UNKNOWN_FUNCTION}),
    "unknown inside known": ('<fly_away><spider_rotate angle="90"/></fly_away>', {CallCode.PARENT_REFUSED}),
    "wrong type": ('<spider_rotate angle="a lot"/>', {CallCode.INVALID_ARGUMENT}),
    "not a number": ('<spider_rotate angle="nan"/>', {CallCode.INVALID_ARGUMENT, CallCode.OUT_OF_RANGE}),
    "infinity": ('<spider_run_distance distance="inf"/>', {CallCode.INVALID_ARGUMENT, CallCode.OUT_OF_RANGE}),
    "out of range": ('<head_act action="nod" duration="1e9"/>', {CallCode.OUT_OF_RANGE}),
    "unknown argument": ('<head_act action="nod" velocity="99"/>', {CallCode.UNKNOWN_ARGUMENT}),
    "unknown reference": ("say &bomb; now", {ParseCode.UNKNOWN_REFERENCE}),
    "control characters": ("<head_act\x01 action='\x02'/>", {ParseCode.INVALID_CHARACTER, ParseCode.SYNTAX}),
    "twice the same attribute": ('<head_act action="nod" action="shake"/>', {ParseCode.DUPLICATE_ATTRIBUTE}),
    "a stray end": ("</head_act></wait>", {ParseCode.MISMATCHED_TAG}),
    "ten thousand attributes": ("<head_act " + " ".join(f"a{i}='1'" for i in range(10_000)) + "/>", {ParseCode.LIMIT_EXCEEDED}),
    "a long name": (f"<{'n' * 5000}/>", {ParseCode.LIMIT_EXCEEDED}),
    "five thousand calls": ("<sleep seconds='0'/>" * 5000, {CallCode.QUEUE_FULL, ParseCode.SEQUENCE_GAP, CallCode.TURN_ENDED}),
}


QUICK = ("half a tag", "depth of 100,000", "doctype", "unknown inside known", "twice the same attribute", "five thousand calls")
"""What else is hostile meets parser and mapper in the unit tests at each commit."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in HOSTILE])
def test_hostile_text_gives_a_code_and_harms_nobody(watch: Observer, name: str) -> None:
    text, codes = HOSTILE[name]
    process_id = watch.stream(text)
    watch.drained(process_id)
    if codes:
        wait_until(lambda: watch.codes(process_id) & {int(c) for c in codes}, 3.0, f"{name}: one of {codes}")
    moved = {e.function for e in watch.of(process_id, CallKind.STARTED)} - {"wait", "sleep", "text"}
    assert not moved or name == "twice the same attribute", moved
    obeys(watch)


class Saying:
    """`ghostshell say` in a process of its own, whose robot has begun to move its head, or what else it is to begin."""

    def __init__(self, watch: Observer, *options: str, begins: str = "head_act") -> None:
        since = len(watch.events)
        command = [
            sys.executable,
            "-m",
            "ghostshell_ros.cli.main",
            "say",
            "shake your head",
            "--robot",
            watch.get_namespace()[1:],
        ]
        # Where the test run itself is in the background, SIGINT is ignored, and that is inherited.
        self.process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)],
        )
        self.process_id = watch.wait_event(CallKind.STARTED, 20.0, since, function=begins).process_id

    def end(self) -> tuple[int, str]:
        """Return its exit status and what it printed."""
        printed, _ = self.process.communicate(timeout=20.0)
        return self.process.returncode, printed


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGTERM, signal.SIGHUP))],
    ids=lambda n: n.name,
)
def test_a_signal_to_say_ends_the_task(watch: Observer, server: ModelServer, number: signal.Signals) -> None:
    server.answer = LONG_SHAKE
    saying = Saying(watch)
    saying.process.send_signal(number)
    status, printed = saying.end()
    assert status == 1 and f"STOPPED (asked to end by {number.name}, so it was ended)" in printed
    assert watch.wait_status(saying.process_id, ProcessState.STOPPED, 1.0)


def test_a_task_that_takes_longer_than_its_time_is_ended(watch: Observer, server: ModelServer) -> None:
    server.answer = LONG_SHAKE
    saying = Saying(watch, "--timeout", "2")
    status, printed = saying.end()
    assert status == 1 and "STOPPED (not done within 2 s, so it was ended)" in printed
    assert watch.wait_status(saying.process_id, ProcessState.STOPPED, 1.0)


def test_a_reader_that_goes_away_ends_the_task(watch: Observer, server: ModelServer) -> None:
    server.answer = NOD + LONG_SHAKE
    saying = Saying(watch)
    assert saying.process.stdout is not None
    saying.process.stdout.close()
    saying.process.wait(20.0)
    assert watch.wait_status(saying.process_id, ProcessState.STOPPED, 1.0)


def test_a_killed_say_ends_the_task_soon_and_a_detached_one_does_not(watch: Observer, server: ModelServer) -> None:
    server.answer = '<ear_swing side="left" duration="60"/>'
    left, since_s = Saying(watch, "--detach", begins="ear_swing"), time.monotonic()
    status, printed = left.end()
    assert status == 0 and f"ghostshell stop {left.process_id} ends it" in printed
    server.answer = LONG_SHAKE
    killed = Saying(watch)
    time.sleep(0.6)  # it has said that it is there
    killed.process.kill()
    ended = watch.wait_status(killed.process_id, ProcessState.STOPPED, 8.0)
    assert ended.message == "whoever sent it has gone"
    time.sleep(max(0.0, since_s + 6.0 - time.monotonic()))
    assert watch.wait_status(left.process_id, ProcessState.IN_PROGRESS, 0.1)
    request = ControlProcess.Request(command=ControlProcess.Request.STOP, process_id=left.process_id)
    assert watch.ask(watch.control, request).success


CHAT = [sys.executable, "-m", "ghostshell_ros.cli.main", "chat", "--robot"]


def test_a_chat_obeys_its_lines_in_turn_and_a_stop_word_at_once(watch: Observer, server: ModelServer) -> None:
    server.answer = LONG_SHAKE
    since = len(watch.events)
    command = [*CHAT, watch.get_namespace()[1:]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as chat:
        assert chat.stdin is not None

        def types(lines: str) -> float:
            chat.stdin.write(lines)
            chat.stdin.flush()
            return time.monotonic()

        types("shake your head\nclear\nps\n")
        watch.wait_event(CallKind.STARTED, 20.0, since, function="head_act")
        typed_s = types("stop!\n")
        wait_until(lambda: watch.halted, 1.0, "halted")
        print(f"halted {1e3 * (time.monotonic() - typed_s):.0f} ms after Enter")
        wait_until(lambda: not watch.halted, 10.0, "cleared by the line that waited")
        server.answer = NOD
        types("nod\n")
        printed, _ = chat.communicate(timeout=30.0)
    robot = watch.get_namespace()[1:]
    parts = [
        "head_act(shake, 60)",
        f"{robot}: halted",
        "STOPPED",
        f"{robot}: cleared",
        f"{robot}: nothing runs",
        "DONE: 1 call",
    ]
    assert [part for part in parts if part not in printed] == [], printed
    assert chat.returncode == 1, "the highest status of its tasks"


def test_ctrl_c_in_a_chat_ends_the_task_and_then_the_chat(
    watch: Observer, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = LONG_SHAKE
    monkeypatch.setenv("GHOSTSHELL_DATA", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm")
    terminal, its = pty.openpty()
    printed: list[bytes] = []

    def read() -> None:
        with suppress(OSError):
            while part := os.read(terminal, 4096):
                printed.append(part)

    threading.Thread(target=read, daemon=True).start()
    with subprocess.Popen(
        [*CHAT, watch.get_namespace()[1:]], stdin=its, stdout=its, stderr=its, start_new_session=True
    ) as chat:
        try:
            wait_until(lambda: b"listens" in b"".join(printed), 20.0, lambda: f"the chat begins: {printed}")
            since = len(watch.events)
            os.write(terminal, b"shake your head\r")
            process_id = watch.wait_event(CallKind.STARTED, 10.0, since, function="head_act").process_id
            os.write(terminal, b"\x03")
            ended = watch.wait_status(process_id, ProcessState.STOPPED, 5.0)
            assert ended.message == "ended by its sender" and chat.poll() is None
            wait_until(lambda: b"STOPPED" in b"".join(printed), 5.0, "it says so")
            os.write(terminal, b"\x03")
            wait_until(lambda: b"Ctrl-D leaves" in b"".join(printed), 5.0, "it stays")
            os.write(terminal, b"\x04")
            assert chat.wait(10.0) == 0
        finally:
            chat.kill()
            os.close(its)
            os.close(terminal)
    history = tmp_path / "chat_history"
    assert "shake your head" in history.read_text() and history.stat().st_mode & 0o777 == 0o600


def test_random_bytes_as_text_harm_nobody(watch: Observer) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for round_number in range(12):
        if round_number % 2:
            text = rng.randbytes(rng.randrange(1, 4000)).decode("utf-8", errors="replace").replace("\0", "\x01")
        else:
            alphabet = [*"</>=&;![]- \n'\"a", "wait", "sleep", "<![CDATA["]
            text = "".join(rng.choices(alphabet, k=rng.randrange(1, 800)))
        process_id = watch.stream("<nothing_known>" + text, pieces=rng.randrange(1, 20))
        watch.wait_event(StreamKind.ENDED, process_id=process_id)
        wait_until(lambda named=process_id: watch.codes(named), 3.0, "an event with a code")
        watch.interrupt(process_id, "text that is behind an end tag is spoken, for as long as it takes")
        watch.drained(process_id)
    obeys(watch)


def test_a_gap_ends_the_stream_and_what_follows_is_ignored(watch: Observer) -> None:
    process_id = watch.stream('<head_act action="shake" duration="9">', last=False)
    watch.wait_event(CallKind.STARTED, process_id=process_id)
    late = LlmChunk(process_id=process_id, stream_id=process_id, epoch=1000, seq=2, text='<spider_rotate angle="90"/>')
    watch.chunk_out.publish(late)
    (shake,) = watch.drained(process_id)
    assert shake.outcome == Outcome.DONE and shake.end_s - shake.start_s < 5.0
    assert ParseCode.SEQUENCE_GAP in watch.codes(process_id)
    obeys(watch)


def test_a_stream_that_falls_silent_with_an_open_element_is_ended(watch: Observer) -> None:
    process_id = watch.stream('<head_act action="shake" duration="60"><ear_swing side="left" duration="1"/>', last=False)
    calls = watch.drained(process_id, 10.0)
    assert {e.function: e.outcome for e in calls} == {"head_act": Outcome.DONE, "ear_swing": Outcome.DONE}
    ended = watch.wait_event(StreamKind.ENDED, process_id=process_id)
    assert ended.error_code == ParseCode.SILENCE
    assert only(calls, "head_act").end_s - only(calls, "head_act").start_s > 2.5


def test_an_open_tag_without_end_does_not_block_other_streams(watch: Observer) -> None:
    watch.stream('<head_act action="nod', last=False)
    obeys(watch)


def test_chunks_of_an_interrupted_epoch_start_nothing(watch: Observer) -> None:
    process_id = watch.stream('<head_act action="shake" duration="20"/>', last=False)
    watch.wait_event(CallKind.STARTED, process_id=process_id)
    epoch = watch.interrupt(process_id)
    (shake,) = watch.drained(process_id)
    assert shake.outcome == Outcome.INTERRUPTED and "test" in shake.error_msg
    before = len(watch.of(process_id, CallKind.STARTED))
    for stream_id, seq in ((process_id, 1), (f"{process_id}-b", 0)):
        watch.chunk_out.publish(
            LlmChunk(process_id=process_id, stream_id=stream_id, seq=seq, text='<spider_rotate angle="90"/>', epoch=epoch - 1)
        )
    obeys(watch)
    assert len(watch.of(process_id, CallKind.STARTED)) == before
    nod = LlmChunk(process_id=process_id, stream_id=f"{process_id}-c", text=NOD, epoch=epoch, last=True)
    watch.chunk_out.publish(nod)
    watch.wait_event(CallKind.ENDED, process_id=process_id, function="head_act", outcome=Outcome.DONE)


def test_tokens_of_an_interrupted_epoch_end_as_dropped(watch: Observer) -> None:
    """Past the parser, as if they had been under way."""
    publisher = watch.create_publisher(FunctionToken, "function_tokens", 100)
    try:
        wait_until(lambda: publisher.get_subscription_count() > 1, 5.0, "a reader of tokens")
        process_id = "own-late"
        epoch = watch.interrupt(process_id)
        fields: dict[str, Any] = {"process_id": process_id, "stream_id": "late", "epoch": epoch - 1}
        publisher.publish(FunctionToken(**fields, kind=FunctionToken.SELF_CONTAINED, name="spider_rotate"))
        publisher.publish(FunctionToken(**fields, seq=1, kind=FunctionToken.END))
        rotate = watch.wait_event(CallKind.ENDED, process_id=process_id, function="spider_rotate")
        assert rotate.outcome == Outcome.DROPPED and rotate.error_code and rotate.start_s == -1.0
        watch.drained(process_id)
    finally:
        watch.call_soon(watch.destroy_publisher, publisher)


def test_hostile_answers_of_the_model_harm_nobody(watch: Observer, server: ModelServer) -> None:
    answers = ["<a>" * 1000, "half \ud800 pair <nonsense/>", "\0 <nonsense/>", '<spider_rotate angle="x"/>']
    for answer in answers:
        server.answer = answer
        result = watch.task("do as you like").result(20.0)
        assert result.status == ProcessState.FAILED and result.error_code and result.error_msg, (answer, result)
    server.answer = "<think><spider_rotate/></think>```xml\n" + NOD + "\n```"
    result = watch.task("nod").result(10.0)
    assert (result.status, result.calls_done) == (ProcessState.SUCCESS, 1)


def test_instructions_that_are_none_are_refused_with_a_reason(watch: Observer) -> None:
    assert watch.task("  \n").result(5.0).error_code == TaskCode.EMPTY_INSTRUCTION
    result = watch.task("nod " * 5000).result(5.0)
    assert result.error_code == TaskCode.EMPTY_INSTRUCTION and "20000" in result.error_msg
    assert result.status == ProcessState.FAILED and isinstance(result, RunTask.Result)


def test_a_killed_driver_fails_the_call_stops_the_robot_and_comes_back(
    watch: Observer, robot: BroughtUp, server: ModelServer
) -> None:
    server.answer = lambda request: LONG_WALK if "DRIVER_LOST" not in request.prompt and "lost" not in request.prompt else ""
    task = watch.task("walk far")
    process_id = task.process_id
    watch.wait_event(CallKind.STARTED, process_id=process_id)
    wait_until(watch.hears_motion, 5.0, "it walks")
    first = robot.pid("drivers")
    killed_s = robot.kill("drivers")
    ended = watch.wait_event(CallKind.ENDED, 5.0, process_id=process_id, function="spider_run_distance")
    heard_s = watch.heard_s[watch.events.index(ended)]
    # A walk is many goals: the driver may die during one of them or between two.
    assert ended.outcome == Outcome.FAILED, ended
    assert ended.error_code in (CallCode.DRIVER_LOST, CallCode.DRIVER_UNAVAILABLE), ended
    assert heard_s - killed_s < 1.5
    result = task.result(20.0)
    # A vanished driver halts the robot; whether the halt or the failure ends the process is a race.
    assert result.status in (ProcessState.FAILED, ProcessState.STOPPED), result
    assert result.error_msg
    held = [points for at, points in watch.set_points if killed_s + 0.5 < at < heard_s + 0.3]
    assert all(points == held[0] for points in held), "set-points went on changing"
    wait_until(lambda: robot.pid("drivers") != first, 10.0, "the drivers were started again")
    wait_until(lambda: watch.halted, 5.0, "the robot is halted until somebody clears it")
    # Cleared before the manager knows of the loss, the robot would be halted for it a second time.
    told = watch.wait_event(NoticeKind.MESSAGE, node="lifecycle_manager", error_code=int(CallCode.DRIVER_LOST))
    # All drivers of the process in one message: one found later would halt the robot again after the clear below.
    assert all(name in told.error_msg for name in RobotConfig.load("coco").drivers), told.error_msg
    server.answer = NOD

    def works() -> bool:
        if watch.halted:
            watch.ask(watch.clear_halt, Trigger.Request())
        if watch.halted or watch.kernel is None or watch.kernel.halted:
            return False  # the manager asks for the halt until it has heard of it, also after a clear
        return watch.task("nod").result(15.0).status == ProcessState.SUCCESS

    wait_until(works, 20.0, "the new drivers are used")
