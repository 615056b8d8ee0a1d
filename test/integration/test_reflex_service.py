# SPDX-License-Identifier: Apache-2.0
"""The service `compile_reflex` and the command line: a sentence is compiled, tried, approved and removed."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from ghostshell.msg import ReflexState as State
from ghostshell.srv import CompileReflex

from bench.simulated_model.model_server import ModelServer
from ghostshell_ros.cli.prescriptions import observations_in
from ghostshell_ros.runtime.signing import signed
from reflex_support import BACK, NEAR, Setting, StandIn, ended, reflex, started
from ros_support import ROOT, Processes, ask, wait_until
from skill_kernel.codes import ReflexCode
from skill_kernel.observation.records import recorded
from skill_kernel.roles import Role


@pytest.fixture(scope="module")
def shared(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    with started(tmp_path_factory.mktemp("reflexes")) as made:
        yield made


@pytest.fixture
def node(shared: Setting) -> StandIn:
    shared.node.reset()
    shared.node.take()
    return shared.node


@pytest.fixture
def setting(tmp_path: Path, namespace: str, processes: Processes, host: Callable[..., Any]) -> Setting:
    node = StandIn(namespace)
    host(node)
    return Setting(tmp_path, processes, node)


def test_a_sentence_becomes_a_reflex_that_fires_only_once_it_is_approved(node: StandIn) -> None:
    added = node.ask("ADD", sentence="stand back", source=BACK, person="Ada", name="back", priority=70, cooldown_s=0.3)
    assert added.success and added.reflexes[0].state == State.PROPOSED and added.report
    wait_until(lambda: "would have fired never" in node.ask("TEST", name="back").report, 5.0, "observations to try it on")
    node.comes(NEAR)
    time.sleep(0.4)
    assert node.stops == []
    tried = node.ask("TEST", name="back")
    assert "would have fired once" in tried.report and "move_back(distance_m=0.5)" in tried.report
    assert not node.ask("APPROVE", name="back").success
    approved = node.ask("APPROVE", name="back", person="Ada")
    assert approved.success and approved.reflexes[0].approver == "Ada"
    assert "done" in ended(node, "back").text
    assert node.ask("REMOVE", name="back").success
    wait_until(lambda: not node.states, 3.0, "it is gone")
    refused = node.ask("TEST", name="back")
    assert (refused.success, refused.error_code) == (False, ReflexCode.REFLEX_REFUSED)


def test_only_the_approvers_key_approves_and_only_what_was_shown(node: StandIn) -> None:
    node.ask("ADD", sentence="stand back", source=BACK, person="Ada", name="back")
    seen = {"sentence": "stand back", "source": node.listed()[0].source}
    request = CompileReflex.Request(command=CompileReflex.Request.APPROVE, name="back", person="Ada", **seen)

    def sent(proof: str) -> Any:
        request.proof = proof
        return ask(node, node.service, request, again_s=math.inf)

    def proof(role: Role, name: str = "compile_reflex") -> str:
        return str(signed(node, name, request, role).proof)

    forged = ("", f"approver {time.time():.3f} {'0' * 32} {'0' * 64}", proof(Role.APPROVER, "prescribe"), "approver")
    for refused in [sent(one) for one in forged] + [sent(proof(role)) for role in (Role.VIEWER, Role.OPERATOR, Role.SAFETY)]:
        assert refused.error_code == ReflexCode.NOT_PERMITTED and "approver may" in refused.error_msg
    used = proof(Role.APPROVER)
    assert sent(used).success
    assert node.ask("REMOVE", name="back").success
    node.ask("ADD", sentence="stand back", source=BACK, person="Ada", name="back")
    replayed = sent(used)
    assert replayed.error_code == ReflexCode.NOT_PERMITTED and "used before" in replayed.error_msg
    assert node.ask("REMOVE", name="back").success
    node.ask("ADD", sentence="stand back", source=BACK.replace("0.5", "0.9"), person="Eve", name="back")
    exchanged = sent(proof(Role.APPROVER))
    assert exchanged.error_code == ReflexCode.REFLEX_REFUSED and "look at it again" in exchanged.error_msg
    for command in ("DISABLE", "REMOVE", "ENABLE"):
        assert node.ask(command, name="back", role=Role.ANONYMOUS).error_code == ReflexCode.NOT_PERMITTED
    assert node.listed()[0].state == State.PROPOSED


def test_what_cannot_be_compiled_is_answered_with_the_reason(node: StandIn) -> None:
    bad = node.ask("ADD", sentence="x", source=BACK.replace("near_m", "nearm"), person="Ada")
    assert bad.error_code == ReflexCode.NOT_COMPILED and "did you mean 'near_m'" in bad.error_msg
    unclear = node.ask("ADD", sentence="when it is night, sing")
    assert unclear.error_code == ReflexCode.NOT_COMPILED and "was not understood" in unclear.error_msg
    assert node.ask("ADD", sentence="x", source=BACK).error_code == ReflexCode.INVALID_COMMAND
    assert node.ask("APPROVE").error_code == ReflexCode.INVALID_COMMAND
    missing = node.ask("ADD", sentence="x", source=BACK, person="Ada", name="back")
    assert missing.success
    unread = node.ask("TEST", name="back", observations="/etc/passwd")
    assert unread.error_code == ReflexCode.REFLEX_REFUSED and "line 1 is no recorded observation" in unread.error_msg
    assert "passwd" not in unread.error_msg and "root" not in unread.error_msg


def test_a_slow_model_holds_no_reflex_up(setting: Setting, tmp_path: Path) -> None:
    with ModelServer(f"```python\n{BACK}```", first_token_s=1.5) as server:
        models = tmp_path / "models.yaml"
        entry = {"provider": "openai", "model": "any", "base_url": server.openai_url}
        models.write_text(yaml.safe_dump({"default": "local", "models": {"local": entry}}))
        node = setting.start(reflex("back", "near_m() < 0.2", "move_back(distance_m=0.1)"), model="local", models_file=models)
        answers: list[Any] = []
        request = CompileReflex.Request(sentence="when anything is near, step back", name="made")
        node.call_soon(lambda: node.service.call_async(request).add_done_callback(lambda f: answers.append(f.result())))
        wait_until(lambda: server.requests, 10.0, "the model is asked")
        sent = node.comes(NEAR)
        wait_until(lambda: node.stops, 1.0, "the stop")
        assert node.stops[0][0] - sent < 0.2 and not answers
        wait_until(lambda: answers, 10.0, "the answer")
        assert answers[0].success and answers[0].reflexes[0].model == "openai:any"
        assert answers[0].reflexes[0].source == BACK


def test_the_command_line_adds_lists_tests_approves_and_removes(node: StandIn, tmp_path: Path) -> None:
    code = tmp_path / "back.py"
    code.write_text(BACK)

    def cli(*words: str) -> str:
        command = [
            sys.executable,
            "-m",
            "ghostshell_ros.cli.main",
            "reflex",
            *words,
            "--robot",
            node.get_namespace().strip("/"),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=40)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "Approve it with" in cli("add", "stand back", "--code", str(code), "--name", "back", "--by", "Ada")
    seen = tmp_path / "seen.jsonl"
    seen.write_text("".join(f'{{"time_s": {n}, "seq": {n}, "fields": []}}\n' for n in (1, 2, 3)))
    assert "In 3 observations of 2 s it would have fired never" in cli("test", "back", "--file", str(seen))
    assert "approved by Ada" in cli("approve", "back", "--by", "Ada", "--yes")
    assert "def condition():" in cli("show", "back") and "back" in cli("list")
    assert "removed" in cli("remove", "back")


def test_a_file_that_holds_no_observations_is_refused_and_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)

    def refused(path: Path) -> None:
        with pytest.raises(typer.Exit):
            observations_in(path)
        assert f"observations in {path} cannot be used: " in capsys.readouterr().err

    for path in (pipe, "/dev/zero", tmp_path, "~nosuchuser/x", "a\0b"):
        refused(Path(path))
    line = '{"time_s": %s, "seq": %s, "fields": [%s]}\n'
    table = '{"name": "a", "kind": "table", "age_s": 0, "max_age_s": 1, "missing": "", "value": [1]}'
    for text in (
        line % ("1e18", 1, "") + line % ("2e18", 2, ""),
        line % ("NaN", 1, ""),
        line % (1, "1e999", ""),
        line % (1, 1, table),
        line % ("9" * 400, 1, ""),
        "x" * 1_000_001,
        "\xff",
    ):
        file.write_text(text)
        refused(file)
    file.write_text(line % (1, 1, "") + line % (2, 2, ""))
    assert [observation.seq for observation in recorded(observations_in(file))] == [1, 2]
