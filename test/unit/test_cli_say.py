# SPDX-License-Identifier: Apache-2.0
"""`ghostshell say`, `halt` and `clear`: names of robots are checked before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from std_srvs.srv import Trigger
from typer.testing import CliRunner

from ghostshell_ros.cli import robot_client
from ghostshell_ros.cli.main import app
from ghostshell_ros.cli.say import _namespace
from ghostshell_ros.runtime import service_client


@pytest.mark.parametrize("command", [["say", "nod"], ["halt"], ["clear"], ["ps"], ["pause"], ["resume", "a1"], ["stop"]])
@pytest.mark.parametrize("name", ["bad name", "", "/", "a//b", "1st", "a-b", "ü"])
def test_a_name_that_no_robot_can_have_is_refused(command: list[str], name: str) -> None:
    result = CliRunner().invoke(app, [*command, "--robot", name])
    assert result.exit_code == 2
    assert "no robot's name" in result.output


def test_slashes_around_a_robots_name_do_not_matter() -> None:
    assert [_namespace(name) for name in ("coco", "/coco", "/coco/", "lab/coco")] == ["coco", "coco", "coco", "lab/coco"]


class LosingService:
    """Lose the first answers of a service that every `ask` reaches."""

    lost = 0

    def __init__(self, node: Any, service: Any, name: str) -> None:
        self.asked = 0

    def ask(self, request: Any, on_end: Callable[[Any], object], *, deadline_s: float, wait_s: float) -> None:
        self.asked += 1
        if self.asked > self.lost:
            on_end(Trigger.Response(success=True, message=f"asked {self.asked} times"))


@contextmanager
def unspun(make: Callable[[], Any]) -> Iterator[Any]:
    yield make()


@pytest.mark.parametrize("command", ["halt", "clear"])
@pytest.mark.parametrize(
    ("lost", "status", "said"),
    [(0, 0, "coco: asked 1 times"), (2, 0, "coco: asked 3 times"), (9, 2, "no robot 'coco' answers")],
)
def test_halt_and_clear_ask_again_until_an_answer_arrives(
    command: str, lost: int, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robot_client, "AGAIN_S", 0.02)
    monkeypatch.setattr(robot_client, "spun", unspun)
    monkeypatch.setattr(robot_client, "command_node", lambda robot: SimpleNamespace(call_soon=lambda ask: ask()))
    monkeypatch.setattr(service_client, "ServiceClient", LosingService)
    monkeypatch.setattr(LosingService, "lost", lost)
    result = CliRunner().invoke(app, [command, "--wait", "0.15"])
    assert (result.exit_code, said in result.output) == (status, True), result.output
