# SPDX-License-Identifier: Apache-2.0
"""The whole robot with each planning node in a process of its own and a model that speaks the other protocol; then its
kernel dies, and in another robot its planners."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from ghostshell.msg import ProcessState

from bench.simulated_model.model_server import ModelServer
from pipeline_support import BroughtUp, Observer, brought_up, config_dir, missing, only
from ros_support import wait_until
from skill_kernel.codes import CallCode, Outcome, TaskCode
from skill_kernel.events import CallKind

pytestmark = pytest.mark.faults

NOD = '<head_act action="nod" duration="1"/>'
LONG_WALK = '<spider_run_distance distance="60"/>'


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(NOD) as started:
        yield started


@pytest.fixture(scope="module")
def apart(server: ModelServer, tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[BroughtUp]:
    folder = tmp_path_factory.mktemp("apart")
    model = {"provider": "anthropic", "model": "any", "base_url": server.anthropic_url}
    with brought_up(folder, config_dir(folder, {"served": model}), model="served", composed="false") as up:
        yield up


def test_every_node_runs_in_a_process_of_its_own(apart: BroughtUp) -> None:
    assert not missing(apart)
    pids = {apart.pid(name) for name in ("process_scheduler", "action_planner", "token_parser", "channel_scheduler")}
    assert len(pids) == 4


def test_a_function_starts_while_the_model_is_still_writing(apart: BroughtUp, server: ModelServer) -> None:
    watch = apart.observer
    server.answer, server.rate = NOD + " And now I tell you a story about it." * 3, 15.0
    task = watch.task("nod and talk")
    started = watch.wait_event(CallKind.STARTED, process_id=task.process_id, function="head_act")
    started_s = watch.heard_s[watch.events.index(started)]
    result = task.result(20.0)
    assert result.status == ProcessState.SUCCESS and result.calls_done == 2, result
    chunks = [(at, c) for at, c in watch.chunks if c.process_id == task.process_id]
    assert chunks[-1][1].last and chunks[-1][0] - started_s > 0.5


def stops_moving(watch: Observer, since_s: float, within_s: float) -> None:
    """Check that the set-points stand still soon after something broke."""
    assert watch.wait_still(0.4, within_s + 3.0) - since_s < within_s


def test_a_killed_kernel_fails_the_call_and_stops_the_robot(apart: BroughtUp, server: ModelServer) -> None:
    watch = apart.observer
    server.answer, server.rate = LONG_WALK, None
    task = watch.task("walk far")
    watch.wait_event(CallKind.STARTED, process_id=task.process_id)
    wait_until(watch.hears_motion, 5.0, "it walks")
    killed_s = apart.kill("skill_kernel")
    ended = watch.wait_event(CallKind.ENDED, 5.0, process_id=task.process_id, function="spider_run_distance")
    assert (ended.outcome, ended.error_code) == (Outcome.FAILED, CallCode.KERNEL_UNAVAILABLE)
    assert watch.heard_s[watch.events.index(ended)] - killed_s < 3.0
    result = task.result(5.0)
    assert (result.status, result.error_code) == (ProcessState.FAILED, TaskCode.NODE_UNAVAILABLE), result
    assert "kernel" in result.error_msg
    wait_until(lambda: watch.halted, 3.0, "nobody else can stop the driver, so the gate is halted")
    stops_moving(watch, killed_s, 3.5)
    assert [e.name.rpartition("-")[0] for e in apart.exited] == ["skill_kernel"] and not watch.beyond_limits()


def test_killed_planners_leave_no_motion_behind(tmp_path_factory: pytest.TempPathFactory, ros: None) -> None:
    """With the offline model: first it does what it is told, then its process of planners dies in the midst of a walk."""
    with brought_up(tmp_path_factory.mktemp("lost"), model="offline") as robot:
        watch = robot.observer
        done = watch.task("stand up, then nod twice").result(30.0)
        assert done.status == ProcessState.SUCCESS and done.calls_done >= 2, done
        for question, answer in (
            ("what did you do just now?", "“stand up, then nod twice” (done"),
            ("where are you?", "I do not know where I am"),
            ("你会做什么？", "可以对我说："),
        ):
            asked = watch.task(question)
            assert asked.result(20.0).status == ProcessState.SUCCESS
            said = only(watch.drained(asked.process_id), "text")
            assert answer in str(said.arguments["text"]), said
        unknown = watch.task("please solve the riemann hypothesis").result(10.0)
        assert unknown.status == ProcessState.FAILED and unknown.error_msg
        task = watch.task("walk 60 cm forward")
        walk = watch.wait_event(CallKind.STARTED, process_id=task.process_id, function="spider_run_distance")
        wait_until(watch.hears_motion, 5.0, "it walks")
        wait_until(lambda: watch.kernel and walk.call_id in watch.kernel.running, 3.0, "the kernel says that it runs")
        killed_s = robot.kill("mind")
        wait_until(lambda: watch.kernel and not watch.kernel.running, 3.0, "the kernel stopped what it ran")
        assert time.monotonic() - killed_s < 2.5
        stops_moving(watch, killed_s, 2.5)
        assert [e.name.rpartition("-")[0] for e in robot.exited] == ["mind"] and not watch.beyond_limits()
