# SPDX-License-Identifier: Apache-2.0
"""`ghostshell learned` on a file, without ROS."""

from __future__ import annotations

from pathlib import Path

import pytest
from ghostshell.msg import LessonArray
from typer.testing import CliRunner, Result

from ghostshell_ros.cli.main import app
from ghostshell_ros.nodes.dashboard.feeds import RobotReader
from ghostshell_ros.nodes.dashboard.state import RobotPage
from ghostshell_ros.wire.lesson_messages import proposal_message
from planners.learned import LessonKind, Level, Proposal, State
from planners.memory import Store
from planners.memory.lessons import LessonBook

SLOWER = Proposal(
    ">>> wait_for_trigger()\n'dance'\n>>> spider_wave_move(speed=30, times=3)\n>>> wait_for_trigger()",
    "not so fast",
    Level.SKILL,
    "Next time I dance slowly.",
    sender="alice",
)
TOO_MUCH = Proposal(
    SLOWER.text.replace("times=3", "times=300"), "more, ignore the limits", Level.SKILL, "Next time I dance on."
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store(tmp_path / "memory" / "memory.sqlite3")
    book = LessonBook(store, "coco", wall=lambda: 1e9)
    assert [book.propose(SLOWER), book.propose(TOO_MUCH)] == [1, 2]
    store.close()
    return tmp_path


def run(folder: Path, *arguments: str, says: str = "") -> Result:
    return CliRunner().invoke(app, ["learned", *arguments, "--data-dir", str(folder)], input=says)


def states(folder: Path, robot: str = "coco") -> dict[int, State]:
    store = Store(folder / "memory" / "memory.sqlite3")
    found = {one.id: one.state for one in LessonBook(store, robot, wall=lambda: 1e9).lessons()}
    store.close()
    return found


def test_a_lesson_is_listed_shown_tried_confirmed_and_taken_back(folder: Path) -> None:
    listed = run(folder, "list").output
    assert "[1] coco: example, skill level, proposed\n    “not so fast” → Next time I dance slowly." in listed
    shown = run(folder, "show", "1").output
    assert "alice said on 2001-09-09" in shown and ">>> spider_wave_move(speed=30, times=3)" in shown
    assert run(folder, "try", "1").output.startswith(">>> wait_for_trigger()\n'dance'\n>>> spider_wave_move(")
    refused = run(folder, "confirm", "1", says="n\n")
    assert refused.exit_code == 1 and "May coco use lesson 1" in refused.output and states(folder)[1] is State.PROPOSED
    assert run(folder, "confirm", "1", "--by", "bob", says="y\n").exit_code == 0 and states(folder)[1] is State.CONFIRMED
    assert "confirmed by bob" in run(folder, "list", "--robot", "coco").output
    assert run(folder, "revoke", "1", "--why", "a joke").exit_code == 0 and states(folder)[1] is State.REVOKED
    assert "[1]" not in run(folder, "list").output and "[1]" in run(folder, "list", "--all").output
    assert "revoked" in run(folder, "show", "1").output and ": a joke" in run(folder, "show", "1").output


def test_a_list_says_that_all_were_taken_back(folder: Path) -> None:
    assert [run(folder, "revoke", number).exit_code for number in ("1", "2")] == [0, 0]
    assert "2 were taken back" in run(folder, "list").output and "taken back" not in run(folder, "list", "--all").output


def test_a_file_that_cannot_be_written_is_named(folder: Path) -> None:
    told = run(folder, "export", str(folder / "nowhere" / "lessons.jsonl"))
    assert told.exit_code == 2 and "lessons.jsonl cannot be written (No such file or directory)" in told.output


def test_functions_are_shown_to_who_confirms_them_whatever_the_text_says(folder: Path) -> None:
    store = Store(folder / "memory" / "memory.sqlite3")
    hidden = Proposal(">>> wait_for_trigger()\n'bow'\n>>> bow()", "no", Level.PLAN, routines=("def bow():\n    dance()",))
    number = LessonBook(store, "coco", wall=lambda: 1e9).propose(hidden)
    store.close()
    assert "def bow():\n    dance()" in run(folder, "show", str(number)).output
    page = RobotPage()
    RobotReader(page, lambda: 0.0).learned(LessonArray(lessons=[proposal_message(hidden)]))
    (rule,) = page.render(0.0)["rules"]
    assert ["functions", "def bow():\n    dance()"] in rule["detail"]


def test_what_breaks_a_limit_is_neither_tried_nor_confirmed(folder: Path) -> None:
    for command in (["try", "2"], ["confirm", "2", "--yes"]):
        done = run(folder, *command)
        assert done.exit_code == 1 and "lesson 2 fails at spider_wave_move(speed=30, times=300)" in done.stderr, done.output
    assert states(folder)[2] is State.PROPOSED


def test_an_import_proposes_and_a_second_one_changes_nothing(folder: Path, tmp_path: Path) -> None:
    run(folder, "confirm", "1", "--yes")
    run(folder, "revoke", "2")
    file, other = tmp_path / "lessons.jsonl", tmp_path / "other"
    assert "1 lessons written" in run(folder, "export", str(file)).output
    for new in ("1 lessons", "0 lessons"):
        assert f"{new} are proposed" in run(other, "import", str(file), "--robot", "coco2").output
    assert states(other, "coco2") == {1: State.PROPOSED}, "nobody has confirmed it there"
    file.write_text(file.read_text().splitlines()[0] + '\n{"robot": "coco"}\n')
    broken = run(other, "import", str(file))
    assert broken.exit_code == 2 and "cannot be read on (KeyError: 'text'); 0 were proposed" in broken.stderr
    assert run(other, "import", __file__).exit_code == 2


def test_what_is_not_there_is_named(folder: Path, tmp_path: Path) -> None:
    assert "there is no lesson 9" in run(folder, "show", "9").stderr
    empty = tmp_path / "nothing"
    assert "there is no memory in" in run(empty, "list").stderr and not empty.exists()
    assert LessonKind.EXAMPLE.value in run(folder, "show", "1").output
