# SPDX-License-Identifier: Apache-2.0
"""`ghostshell say`, `halt` and `clear`: names of robots are checked before anything is started."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ghostshell_ros.cli.main import app
from ghostshell_ros.cli.say import _namespace


@pytest.mark.parametrize("command", [["say", "nod"], ["halt"], ["clear"], ["ps"], ["pause"], ["resume", "a1"], ["stop"]])
@pytest.mark.parametrize("name", ["bad name", "", "/", "a//b", "1st", "a-b", "ü"])
def test_a_name_that_no_robot_can_have_is_refused(command: list[str], name: str) -> None:
    result = CliRunner().invoke(app, [*command, "--robot", name])
    assert result.exit_code == 2
    assert "no robot's name" in result.output


def test_slashes_around_a_robots_name_do_not_matter() -> None:
    assert [_namespace(name) for name in ("coco", "/coco", "/coco/", "lab/coco")] == ["coco", "coco", "coco", "lab/coco"]
