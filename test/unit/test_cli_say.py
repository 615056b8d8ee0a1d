# SPDX-License-Identifier: Apache-2.0
"""`ghostshell say`, `halt` and `clear`: names of robots are checked before anything is started."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import typer
from ghostshell.msg import KernelState, Subsystem
from ghostshell.srv import ControlHalt
from typer.testing import CliRunner

from ghostshell_ros import halt_door
from ghostshell_ros.cli import robot_client, say
from ghostshell_ros.cli.follow import NotThereError
from ghostshell_ros.cli.main import app
from ghostshell_ros.cli.robot_client import absent, there_is
from ghostshell_ros.cli.say import _namespace
from ghostshell_ros.runtime import service_client
from ghostshell_ros.runtime.signing import Doorkeeper
from skill_kernel.roles import Caller, HaltLatch


@pytest.mark.parametrize("command", [["say", "nod"], ["halt"], ["clear"], ["ps"], ["pause"], ["resume", "a1"], ["stop"]])
@pytest.mark.parametrize("name", ["bad name", "", "/", "a//b", "1st", "a-b", "ü"])
def test_a_name_that_no_robot_can_have_is_refused(command: list[str], name: str) -> None:
    result = CliRunner().invoke(app, [*command, "--robot", name])
    assert result.exit_code == 2
    assert "no robot's name" in " ".join(result.output.replace("│", " ").split())


def test_the_environment_may_name_the_robot(gate: type[LosingGate], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GHOSTSHELL_ROBOT", "kalos")
    assert run("halt", "--as", "safety") == (0, "kalos: halted by safety\n")
    assert run("halt", "--as", "safety", "--robot", "coco") == (0, "coco: halted by safety\n")


def test_the_only_robot_is_meant_and_with_several_they_are_named(gate: type[LosingGate], only: list[str]) -> None:
    assert run("halt", "--as", "safety") == (0, "coco: halted by safety\n")
    only.append("lab/kalos")
    result = CliRunner().invoke(app, ["clear"])
    assert result.exit_code == 2 and "there are several robots: coco, lab/kalos; name one with --robot" in result.output
    assert run("halt", "--as", "safety", "--robot", "lab/kalos") == (0, "lab/kalos: halted by safety\n")


def test_halt_without_a_name_is_for_every_robot_also_where_one_does_not_answer(gate: type[LosingGate], only: list[str]) -> None:
    only.append("lab/kalos")
    assert run("halt", "a child") == (0, "coco: halted by operator\nlab/kalos: halted by operator\n")
    assert [request.cause for request in gate.asked] == ["a child"] * 2
    gate.asked, gate.lost = [], NEVER
    status, output = run("halt", wait_s=0.1)
    assert status == 2 and "no robot 'coco' answers" in output and "no robot 'lab/kalos' answers" in output


def test_of_a_halted_team_each_robot_is_named_that_is_to_be_cleared() -> None:
    alone = KernelState(halted=True, halt_cause="a child", subsystems=[Subsystem(name="arm")])
    assert say._halt_line("hebe", alone) == "hebe is halted (a child); when it is safe: ghostshell clear --robot hebe"
    parts = [Subsystem(name=name) for name in ("lab/atlas/arm", "hebe/arm", "hebe/base")]
    team = KernelState(halted=True, halt_cause="lab/atlas is halted (a child); hebe is halted", subsystems=parts)
    how = "ghostshell clear --robot lab/atlas; ghostshell clear --robot hebe"
    assert say._halt_line("kitchen", team) == f"{team.halt_cause}; when it is safe: {how}"
    one = KernelState(halt_cause="hebe is halted (a child)", subsystems=parts)
    assert say._halt_line("kitchen", one) == f"{one.halt_cause}; when it is safe: ghostshell clear --robot hebe"


def test_a_stop_word_halts_before_ros_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    halted: list[tuple[str, str]] = []

    def halt(domain: str, robot: str, cause: str) -> str:
        assert cause.startswith("told “")
        halted.append((domain, robot))
        return "halted"

    def joins(make: Callable[[], Any]) -> Any:
        raise NotThereError(f"{len(halted)} halted before")

    monkeypatch.setenv("ROS_DOMAIN_ID", "7")
    monkeypatch.setattr(halt_door, "halt", halt)
    monkeypatch.setattr(say, "spun", joins)
    for words, robots in (("STOOOP!", ["coco"]), ("stop the music", []), ("nod", [])):
        halted.clear()
        result = CliRunner().invoke(app, ["say", words])
        assert f"{len(robots)} halted before" in result.output and [robot for _, robot in halted] == robots
    assert CliRunner().invoke(app, ["say", "stop", "--robot", "kalos"]).exit_code == 2
    assert halted == [("7", "kalos")]


class Graph:
    """A command's node, which has discovered some robots by their gates, and nodes in namespaces."""

    def __init__(self, *robots: str, spaces: tuple[str, ...] = ()) -> None:
        self._robots, self._spaces = robots, spaces

    def get_service_names_and_types(self) -> list[tuple[str, list[str]]]:
        return [(f"/{name}/control_halt", []) for name in self._robots]

    def get_node_names_and_namespaces(self) -> list[tuple[str, str]]:
        return [("ghostshell_cli", "/nobody"), *(("sim", f"/{space}") for space in self._spaces)]


@pytest.mark.parametrize("launching", [True, False])
def test_without_a_robot_a_command_says_soon_what_to_start(
    launching: bool, only: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only.clear()
    monkeypatch.setattr(robot_client, "spun", unspun)
    monkeypatch.setattr(robot_client, "command_node", lambda robot: Graph())
    monkeypatch.setattr(robot_client, "ABSENT_S", 0.05)
    monkeypatch.setattr(robot_client, "launch_begins", lambda: launching)
    begun_s = time.monotonic()
    with pytest.raises(typer.Exit):
        robot_client.robots_there(0.2 if launching else 100.0)
    assert (time.monotonic() - begun_s >= 0.2) or not launching, "a robot that is coming up is waited for"
    monkeypatch.setattr(robot_client, "command_node", lambda robot: Graph("far"))
    assert robot_client.only_robot() == "far"


def test_a_robot_is_given_up_when_nothing_of_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robot_client, "launch_begins", lambda: False)
    why = "no robot 'nobody' answers on ROS domain 7; there is: coco, far"
    monkeypatch.setenv("ROS_DOMAIN_ID", "7")
    graph = Graph("far", spaces=("begins",))
    assert absent(graph, "nobody", 2.9, 10.0) == "" and absent(graph, "nobody", 3.0, 10.0) == why
    assert absent(graph, "nobody", 3.0, 30.0) == "" and absent(graph, "nobody", 30.0, 30.0) == why, (
        "who waits longer expects it"
    )
    assert absent(graph, "begins", 9.9, 10.0) == "" and absent(graph, "begins", 10.0, 10.0)
    assert absent(graph, "far", 10.0, 10.0) == absent(graph, "coco", 10.0, 10.0) == "", "it is there"
    monkeypatch.setattr(robot_client, "launch_begins", lambda: True)
    assert absent(graph, "nobody", 9.9, 10.0) == ""


def test_a_launch_that_begins_is_seen() -> None:
    words = ["/x/ghostshell", "-c", "echo; read line", "launch"]
    with subprocess.Popen(words, executable="/bin/sh", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as begun:
        assert begun.stdout is not None and begun.stdout.readline()
        assert robot_client.launch_begins()
        begun.kill()


def test_slashes_around_a_robots_name_do_not_matter() -> None:
    assert [_namespace(name) for name in ("coco", "/coco", "/coco/", "lab/coco")] == ["coco", "coco", "coco", "lab/coco"]


class LosingGate:
    """Answer as the safety gate does, but lose the first answers; whatever is asked is done. `ask` is the client's."""

    lost = 0
    loses_clear = False
    halts_again = False
    """Somebody else halts the robot after the first clearing."""
    asked: ClassVar[list[Any]] = []
    latch = HaltLatch()
    halted = True

    def __init__(self, node: Any, service: Any, name: str) -> None:
        self._door = Doorkeeper(node, name)

    def ask(self, request: Any, on_end: Callable[[Any], object], *, deadline_s: float, wait_s: float) -> None:
        gate = type(self)
        gate.asked.append(request)
        role = self._door.caller(request).role
        done, message = True, ""
        if request.command == ControlHalt.Request.HALT:
            gate.latch.halt(role)
            gate.halted, message = True, f"halted by {role.value}"
        elif request.command == ControlHalt.Request.CLEAR and gate.halted:
            message = gate.latch.refusal(Caller(role, ""), request.number)
            done, gate.halted = not message, bool(message)
            if done and gate.halts_again:
                gate.latch.halt()
                gate.halts_again, gate.halted = False, True
        number = getattr(request, "number", 0)
        lost, gate.loses_clear = gate.loses_clear and bool(number), gate.loses_clear and not number
        if len(gate.asked) > gate.lost and not lost:
            on_end(ControlHalt.Response(success=done, message=message, number=gate.latch.number))


@contextmanager
def unspun(make: Callable[[], Any]) -> Iterator[Any]:
    yield make()


@pytest.fixture(autouse=True)
def only(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the robots of this machine."""
    here = ["coco"]
    monkeypatch.setattr(robot_client, "robots_here", lambda domain: here)
    monkeypatch.delenv("GHOSTSHELL_ROBOT", raising=False)
    return here


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[LosingGate]:
    def node(robot: str) -> Any:
        context = SimpleNamespace(get_domain_id=lambda: 0)
        return SimpleNamespace(
            call_soon=lambda ask: ask(), context=context, resolve_service_name=lambda name: f"/{robot}/{name}"
        )

    monkeypatch.setenv("GHOSTSHELL_KEYS", str(tmp_path))
    monkeypatch.setattr(robot_client, "AGAIN_S", 0.02)
    monkeypatch.setattr(robot_client, "spun", unspun)
    monkeypatch.setattr(robot_client, "command_node", node)
    monkeypatch.setattr(service_client, "ServiceClient", LosingGate)
    for name, value in {
        "lost": 0,
        "loses_clear": False,
        "halts_again": False,
        "asked": [],
        "latch": HaltLatch(),
        "halted": True,
    }.items():
        monkeypatch.setattr(LosingGate, name, value)
    return LosingGate


NEVER = 10**6
"""Answers that are lost where none arrives."""


def run(*words: str, wait_s: float = 10.0) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*words, "--wait", str(wait_s)])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("lost", "status", "said"), [(0, 0, "halted by operator"), (2, 0, "halted by"), (NEVER, 2, "no robot 'coco' answers")]
)
def test_halt_asks_again_until_an_answer_arrives(lost: int, status: int, said: str, gate: type[LosingGate]) -> None:
    gate.lost = lost
    exit_code, output = run("halt", wait_s=0.15 if lost == NEVER else 10.0)
    assert (exit_code, said in output) == (status, True), output
    assert gate.halted


def test_each_request_again_has_a_proof_of_its_own(gate: type[LosingGate]) -> None:
    gate.lost = 2
    assert run("halt", "--as", "safety") == (0, "coco: halted by safety\n")
    assert len({request.proof for request in gate.asked}) == 3


@pytest.mark.parametrize(("lost", "status"), [(0, 0), (2, 0), (NEVER, 2)])
def test_clear_asks_again_until_an_answer_arrives(lost: int, status: int, gate: type[LosingGate]) -> None:
    gate.lost = lost
    assert run("clear", wait_s=0.15 if lost == NEVER else 10.0)[0] == status
    assert gate.halted is bool(status)


def test_a_clear_whose_answer_is_lost_leaves_a_halt_that_comes_meanwhile(gate: type[LosingGate]) -> None:
    gate.latch.halt()
    gate.loses_clear = gate.halts_again = True
    exit_code, output = run("clear")
    cleared = [request.number for request in gate.asked if request.command == ControlHalt.Request.CLEAR]
    assert cleared == [1, 1], "it was asked again, for the same halt"
    assert exit_code == 1 and gate.halted and "newer halt" in output


def test_what_safety_halted_an_operator_does_not_clear(gate: type[LosingGate]) -> None:
    assert run("halt", "--as", "safety") == (0, "coco: halted by safety\n")
    exit_code, output = run("clear")
    assert exit_code == 1 and gate.halted and "safety may" in output
    assert run("clear", "--as", "safety")[0] == 0 and not gate.halted


def test_a_robot_that_no_launch_is_named_after_is_told_with_those_there_are() -> None:
    assert there_is([], "kalos") == "start one with: ghostshell launch kalos"
    assert there_is([]) == "start one with: ghostshell launch coco"
    known = "coco, home, kalos, kitchen, tabletop, two_robots"
    assert there_is([], "atlas") == f"start one with: ghostshell launch NAME, of {known}"
    assert there_is(["hebe"], "atlas") == "there is: hebe"
