# SPDX-License-Identifier: Apache-2.0
"""A fault of a robot is told before any node is started, in one sentence with its remedy."""

from __future__ import annotations

import re
import shlex
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from ghostshell_ros.cli import doctor
from ghostshell_ros.cli import launch as console
from ghostshell_ros.cli.main import app
from ghostshell_ros.halt_door import HaltDoor
from ghostshell_ros.launcher import LaunchError, checks, describe
from ghostshell_ros.launcher.checks import Start
from skill_kernel.review import Review

pytestmark = pytest.mark.component

ROOT = Path(__file__).parents[2]
COCO = Start("coco", "coco")
KITCHEN = Start(robot_name="kitchen", team="kitchen")
DOMAIN = "231"
LOCAL = "openai:m@http://127.0.0.1:1/v1"


def test_a_sound_robot_may_be_launched() -> None:
    assert COCO.check({}) == Start("coco").check({}) == KITCHEN.check({}) == Review(())


@pytest.mark.parametrize(
    ("start", "environment", "says"),
    [
        (Start("coko", "x"), {}, "there is no robot 'coko'; did you mean 'coco'"),
        (Start("coco", "9x"), {}, "robot_name is '9x'"),
        (Start("coco", "''"), {}, "robot_name is"),
        (Start("coco", "/coco"), {}, "robot_name is '/coco'"),
        (Start("coco", "coco", model="gpt"), {}, "'gpt' names no model"),
        (Start("coco", "coco", fast_model="offlin"), {}, "did you mean 'offline'"),
        (Start("coco", "coco", model="openai:gpt-4.1"), {}, "set the environment variable OPENAI_API_KEY"),
        (Start("coco", "coco", model="groq"), {"OPENAI_API_KEY": "k"}, "GROQ_API_KEY"),
        (Start("coco", "coco", strategy="strem"), {}, "there is no strategy 'strem'; did you mean 'stream'"),
        (Start("coco", "coco", dialect="tools"), {}, "the model offline calls no tools; use dialect:=xml"),
        (Start("coco", "coco", LOCAL, dialect="tools", prompt="short"), {}, "prompt:=short is for dialect:=xml"),
        (Start("coco", "coco", models="/nowhere/models.yaml"), {}, "/nowhere/models.yaml"),
        (KITCHEN, {"ROS_DOMAIN_ID": "233"}, "ROS_DOMAIN_ID is '233'"),
        (replace(KITCHEN, robot_name="9x"), {}, "team is '9x'"),
        (replace(KITCHEN, model="gpt"), {}, "'gpt' names no model"),
        (replace(KITCHEN, strategy="closed_lop"), {}, "'kitchen' plans for no team; did you mean 'closed_loop'"),
        (replace(KITCHEN, strategy="layered"), {}, "strategy 'layered' of team 'kitchen' plans for no team"),
        (replace(KITCHEN, team="kitchn"), {}, "there is no team 'kitchn'; did you mean 'kitchen'"),
        (COCO, {"ROS_DOMAIN_ID": "233"}, "ROS_DOMAIN_ID is '233'; it must be a whole number of 0 to 232"),
        (COCO, {"ROS_DOMAIN_ID": "one"}, "ROS_DOMAIN_ID is 'one'"),
    ],
)
def test_what_is_wrong_is_one_sentence(start: Start, environment: Mapping[str, str], says: str) -> None:
    faults = start.check(environment).faults
    assert len(faults) == 1 and says in faults[0] and "\n" not in faults[0]


@pytest.mark.parametrize("environment", [{}, {"ROS_DOMAIN_ID": "0"}, {"ROS_DOMAIN_ID": "007"}, {"ROS_DOMAIN_ID": "232"}])
def test_a_domain_that_ros_has_is_none_to_complain_of(environment: Mapping[str, str]) -> None:
    assert checks.fault_of_domain(environment) == ""


def test_a_robot_that_runs_is_left_alone_and_another_is_not_kept_out() -> None:
    door = HaltDoor(DOMAIN, "coco", lambda answer: None)
    try:
        (fault,) = COCO.check({"ROS_DOMAIN_ID": DOMAIN}).faults
        assert "robot 'coco' already runs on this machine, in ROS domain 231" in fault and "robot_name:=NAME" in fault
        assert not COCO.check({"ROS_DOMAIN_ID": "230"}).faults
        assert not Start("coco", "coco2").check({"ROS_DOMAIN_ID": DOMAIN}).faults
    finally:
        door.close()
    assert not COCO.check({"ROS_DOMAIN_ID": DOMAIN}).faults


def test_a_server_of_this_machine_that_does_not_run_is_remarked_and_no_other_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        assert COCO.check({}).remarks == Start("coco", "coco", model=f"openai:m@{url}").check({}).remarks == ()
    found = Start("coco", "coco", model=f"openai:m@{url}").check({})
    assert not found.faults and f"no model server takes connections at {url}" in found.remarks[0]

    def refuse(*_: object) -> None:
        raise AssertionError("a server elsewhere is none of its business")

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert checks.fault_of_server("https://api.openai.com/v1") == checks.fault_of_server("http://192.168.7.7/v1") == ""


def test_a_launch_says_of_each_robot_and_team_what_its_check_reads() -> None:
    found: dict[str, tuple[Start, str | None]] = {}

    def note(options: list[str], environment: Mapping[str, str]) -> None:
        start = Start.told_by(options)
        found[start.robot_name] = start, environment.get("ROS_AUTOMATIC_DISCOVERY_RANGE")

    arguments = {"model": "m", "strategy": "closed_loop", "discovery": "SUBNET"}
    describe(ROOT / "launch" / "kitchen.launch.xml", arguments, on_check=note)
    start, reach = found.pop("kitchen")
    assert start.team == "kitchen" and (start.model, start.strategy, reach) == ("m", "closed_loop", "SUBNET")
    assert {name: (start.robot, start.model, reach) for name, (start, reach) in found.items()} == {
        name: (name, "m", "SUBNET") for name in ("atlas", "hebe")
    }
    with pytest.raises(LaunchError, match="leave quotes out"):
        describe(ROOT / "launch" / "robot.launch.xml", {"robot": 'co"co', "robot_name": "coco"}, on_check=note)


@pytest.mark.parametrize(
    "given", ["coco model:=gpt", "coco strategy:=foo", "coco models:=/nowhere.yaml", "kitchen strategy:=foo"]
)
def test_a_launch_that_cannot_work_starts_nothing(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "run", lambda specs: pytest.fail("it was started"))
    done = CliRunner().invoke(app, ["launch", *given.split()])
    assert done.exit_code == 1 and done.stderr.count("\n") == 1 and done.stderr.startswith("ghostshell launch: ")


def test_a_robot_whose_code_ends_its_process_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(console, "run", lambda specs: pytest.fail("it was started"))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ending_skills.py").write_text("import os\nos._exit(0)\n", encoding="utf-8")
    (tmp_path / "ender.yaml").write_text(
        "name: ender\nskills: [ending_skills]\nsubsystems: {main: {exclusive_per_process: false, parallel: false}}\n",
        encoding="utf-8",
    )
    done = CliRunner().invoke(app, ["launch", "robot", "robot_name:=ender", f"robot:={tmp_path / 'ender.yaml'}"])
    assert done.exit_code == 1 and "ended the process that checked it" in done.stderr


def test_an_empty_argument_says_what_to_do() -> None:
    done = CliRunner().invoke(app, ["launch", "coco", "robot_name:="])
    assert done.exit_code == 1 and "must be <name>:=<value>; leave it out for the file's own value" in done.stderr


def checked(file: str, **given: str) -> Result:
    """Return what the check of a launch file does, which `ros2 launch` runs before any node."""
    page = (ROOT / "launch" / file).read_text(encoding="utf-8")
    ((before, text),) = re.findall(r"(.*)\$\(command '(.*)' warn\)", page, re.DOTALL)
    assert "<node" not in before and "<include" not in before
    given = {"robot_name": "coco", "fast_model": "", "models": "", "prompt": "full", **given}
    words = shlex.split(re.sub(r"\$\(var (\w+)\)", lambda name: given[name.group(1)], text.replace("&quot;", '"')))
    return CliRunner().invoke(app, words[2:])


@pytest.mark.parametrize(("model", "dialect", "status"), [("offline", "xml", 0), ("gpt", "xml", 1), ("offline", "tools", 1)])
def test_ros2_launch_makes_the_same_checks_by_a_command(model: str, dialect: str, status: int) -> None:
    done = checked("robot.launch.xml", robot="coco", model=model, strategy="layered", dialect=dialect)
    assert done.exit_code == status and (status == 0) is (done.stderr == "")


@pytest.mark.parametrize(("strategy", "says"), [("", ""), ("closed_loop", ""), ("closed_lop", "did you mean 'closed_loop'")])
def test_ros2_launch_starts_no_node_of_a_team_whose_planner_would_only_be_respawned(strategy: str, says: str) -> None:
    done = checked("kitchen.launch.xml", team="kitchen", team_file="kitchen", model="offline", strategy=strategy)
    assert done.exit_code == (1 if says else 0) and says in done.stderr and (not says) is (done.stderr == "")


def test_the_doctor_names_the_key_and_never_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1")
    ((level, text),) = doctor._model("openai:gpt-4.1", "")
    assert level == "ok" and "OPENAI_API_KEY is set" in text and "was not asked" in text and "secret" not in text
    monkeypatch.delenv("OPENAI_API_KEY")
    ((level, text),) = doctor._model("openai:gpt-4.1", "")
    assert level == "problem" and "OPENAI_API_KEY" in text


def test_the_doctor_asks_a_server_of_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        model = f"openai:m@http://127.0.0.1:{server.getsockname()[1]}/v1"
        ((level, text),) = doctor._model(model, "")
        assert level == "ok" and "16,384 tokens" in text
    assert [level for level, _ in doctor._model(model, "")] == ["problem"]
    assert [level for level, _ in doctor._model("offline", "")] == ["ok"]


def test_the_doctor_looks_at_robot_and_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GHOSTSHELL_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("GHOSTSHELL_KEYS", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert [level for level, _ in doctor._robot("coco")] == ["ok"]
    assert [level for level, _ in doctor._robot("coko")] == ["problem"]
    assert [level for level, _ in doctor._audio()] == ["warning"]
    assert [level for level, _ in doctor._rights()][1:] == ["ok"]
    (tmp_path / "data" / "keys").mkdir(parents=True, mode=0o755)
    assert [level for level, _ in doctor._rights()][1:] == ["problem"]
    monkeypatch.setattr(doctor, "MEMORY_GB", 1e9)
    assert [level for level, _ in doctor._machine()] == ["warning"]


def test_the_doctor_ends_with_one_where_there_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("_machine", "_installation", "_rendering", "_rights", "_audio", "_network"):
        monkeypatch.setattr(doctor, part, lambda: iter([("warning", "it is slow; buy another")]))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0 and "warning  it is slow" in done.stdout and "ok       robot 'coco'" in done.stdout
    done = CliRunner().invoke(app, ["doctor", "--model", "gpt"])
    assert done.exit_code == 1 and "problem  'gpt' names no model" in done.stdout


def test_the_doctor_goes_on_where_ros_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rclpy", None)
    ((level, text),) = doctor._installation()
    assert level == doctor.PROBLEM and "ROS or the build is missing" in text
    assert list(doctor._network()) == []
