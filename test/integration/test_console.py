# SPDX-License-Identifier: Apache-2.0
"""Strategy `console` on a whole robot: a scripted model writes at the prompt over a connection, and what it calls moves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ghostshell.msg import ProcessState
from ghostshell.srv import ControlProcess
from std_srvs.srv import Trigger

from bench.simulated_model.model_server import ModelServer, RecordedRequest
from kill_support import ready
from pipeline_support import BroughtUp, Observer, brought_up, config_dir, only
from ros_support import wait_until
from skill_kernel.codes import Outcome, TaskCode
from skill_kernel.events import CallKind

WAIT = "wait_for_trigger()"


class Script:
    """Writes one statement after the other, with what it supposes to come of it, and waits when it has written all."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.prompts: list[str] = []

    def __call__(self, request: RecordedRequest) -> str:
        self.prompts.append(request.last_user_text)
        statement = self.statements.pop(0) if self.statements else WAIT
        return f" {statement}\n'as I suppose'\n>>> {WAIT}"


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.fixture(scope="module")
def robot(script: Script, tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[BroughtUp]:
    folder = tmp_path_factory.mktemp("console")
    with ModelServer(script) as server:
        model = {"provider": "openai", "model": "any", "base_url": server.openai_url, "silence_s": 5.0}
        with brought_up(
            folder, config_dir(folder, {"served": model}), model="served", strategy="console", also_respawn=("mind",)
        ) as up:
            yield up


@pytest.fixture
def watch(robot: BroughtUp, script: Script) -> Observer:
    script.statements.clear()
    script.prompts.clear()
    return robot.observer


def test_statements_are_run_and_their_calls_move_the_robot(watch: Observer, script: Script) -> None:
    script.statements = [
        "for side in ['left', 'right']:\n    ear_swing(side, duration=0.5)",
        "x = spider_rotate(angle=20)\n... x",
        "ear_swing('middle')",
        "ear_swing('left', duration=0.3)",
        "say('I am done.')",
    ]
    task = watch.task("swing your ears, then turn a little")
    result = task.result(40.0)
    assert (result.status, result.error_code) == (ProcessState.SUCCESS, 0), result
    calls = watch.drained(task.process_id)
    assert [(c.function, c.outcome) for c in calls] == [
        ("ear_swing", Outcome.DONE),
        ("ear_swing", Outcome.DONE),
        ("spider_rotate", Outcome.DONE),
        ("ear_swing", Outcome.REFUSED),
        ("ear_swing", Outcome.DONE),
        ("speak", Outcome.DONE),
    ]
    assert ">>> x = spider_rotate(angle=20)\n... x\n{'angle': " in script.prompts[2]
    assert ">>> ear_swing('middle')\n" in script.prompts[3] and "middle" in script.prompts[3].rpartition(">>> ear_swing")[2]
    assert "as I suppose" not in "".join(script.prompts)


def test_a_halt_ends_skill_and_statement_and_the_next_task_knows(robot: BroughtUp, watch: Observer, script: Script) -> None:
    script.statements = ["try:\n...     spider_run_distance(distance=60)\n... except BaseException:\n...     spider_rotate(90)"]
    since = len(watch.events)
    task = watch.task("walk 60 cm")
    watch.wait_event(CallKind.STARTED, since=since, function="spider_run_distance")
    assert watch.ask(watch.halt, Trigger.Request()).success
    result = task.result(10.0)
    assert (result.status, result.error_code) == (ProcessState.STOPPED, TaskCode.ROBOT_HALTED), result
    assert only(watch.drained(task.process_id), "spider_run_distance").outcome == Outcome.INTERRUPTED
    ready(robot)
    script.statements = ["head_act('nod')"]
    after = watch.task("nod")
    assert after.result(20.0).status == ProcessState.SUCCESS
    first = script.prompts[1]
    assert "'walk 60 cm'\n>>> try:\n" in first and "KeyboardInterrupt: " in first.rpartition("spider_rotate")[2]


@pytest.mark.faults
def test_a_killed_node_goes_on_in_mid_statement_and_moves_nothing_by_itself(
    robot: BroughtUp, watch: Observer, script: Script
) -> None:
    script.statements = [
        "far = 60\n... try:\n...     spider_run_distance(distance=far)\n... except RuntimeError as error:\n...     print(error)"
    ]
    since = len(watch.events)
    task = watch.task("walk 60 cm, then nod")
    process_id = task.process_id
    watch.wait_event(CallKind.STARTED, since=since, function="spider_run_distance")
    robot.kill("mind")
    watch.wait_status(process_id, ProcessState.PAUSED, 30.0)
    asked, since = len(script.prompts), len(watch.events)
    script.statements = ["head_act('nod')"]
    wait_until(lambda: watch.control.service_is_ready(), 10.0, "the process can be resumed")
    request = ControlProcess.Request(process_id=process_id, command=ControlProcess.Request.RESUME)
    assert watch.ask(watch.control, request).success
    nod = watch.wait_event(CallKind.ENDED, 30.0, since=since, function="head_act")
    assert nod.outcome == Outcome.DONE
    prompt = script.prompts[asked]
    assert ">>> far = 60\n... try:\n" in prompt and "started anew while spider_run_distance() ran" in prompt
    assert not [e for e in watch.events[since:] if e.kind == CallKind.STARTED and e.function == "spider_run_distance"]
