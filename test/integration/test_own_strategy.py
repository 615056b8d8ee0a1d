# SPDX-License-Identifier: Apache-2.0
"""A strategy and a verdict of one's own: the example's package, installed outside the tree and driven over real nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ghostshell.msg import ProcessState

from pipeline_support import NODES, BroughtUp, brought_up, config_dir
from ros_support import ROOT
from skill_kernel.codes import CallCode, Outcome, TaskCode
from skill_kernel.events import CallKind, ModelKind


@pytest.fixture(scope="module")
def robot(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BroughtUp]:
    """CoCo with the toy package on its path, its strategy by default and its verdict before dispatch."""
    folder = tmp_path_factory.mktemp("own_strategy")
    site = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", str(site), str(ROOT / "examples" / "toy_strategy")], check=True, timeout=120)
    config = config_dir(folder, channel_scheduler={"verdicts": ["short_walks"]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
        with brought_up(folder, config, nodes=NODES, composed="true", strategy="pacing") as up:
            yield up


def test_it_calls_a_skill_goes_on_with_its_value_and_says_it(robot: BroughtUp) -> None:
    result = robot.observer.task("pace 10").result(60.0)
    assert (result.status, result.error_msg) == (ProcessState.SUCCESS, "")
    ended = robot.observer.of(result.process_id, CallKind.ENDED)
    walked, said = (next(e for e in ended if e.function == name) for name in ("spider_run_distance", "text"))
    distance = walked.value["distance"]
    assert 7.0 < distance < 13.0
    assert f"I walked {distance:.0f} centimetres." in said.args_json
    assert not robot.observer.of(result.process_id, ModelKind.ASKED)


def test_a_veto_refuses_the_call_with_the_verdicts_sentence(robot: BroughtUp) -> None:
    result = robot.observer.task("pace 50").result(30.0)
    sentence = "verdict 'short_walks': 50 cm is too far in this room; walk 30 cm at most"
    assert (result.status, result.error_code) == (ProcessState.FAILED, TaskCode.CALL_FAILED)
    assert result.error_msg == f"spider_run_distance REFUSED: {sentence}"
    (refused,) = (e for e in robot.observer.of(result.process_id, CallKind.ENDED) if e.function == "spider_run_distance")
    assert (refused.outcome, refused.error_code) == (Outcome.REFUSED, CallCode.VETOED)
    assert refused.error_msg == sentence


def test_an_argument_that_does_not_fit_ends_the_call_with_its_reason(robot: BroughtUp) -> None:
    result = robot.observer.task("pace 9999999").result(30.0)
    assert result.status == ProcessState.FAILED and "spider_run_distance REFUSED" in result.error_msg


def test_a_task_it_cannot_do_ends_with_its_code(robot: BroughtUp) -> None:
    result = robot.observer.task("dance").result(30.0)
    assert (result.status, result.error_code) == (ProcessState.FAILED, TaskCode.GIVEN_UP)
