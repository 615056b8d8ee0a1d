# SPDX-License-Identifier: Apache-2.0
"""`ghostshell dry-run`, also as a process, with a file of skills as someone else would write it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

from ghostshell_ros.cli.main import app

pytestmark = pytest.mark.component

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "from ghostshell_ros.cli.main import main; main()", "dry-run"]

SKILLS = '''
from __future__ import annotations
import datetime
from enum import Enum
from typing import Literal, Optional
from skill_kernel import robot_skill, SkillReturn
from places import HOME

print("loaded, home is", HOME)

class Gait(Enum):
    SLOW = "slow"
    FAST = "fast"

@robot_skill("walk", "walk some seconds", subsystem="legs", nominal_s=lambda seconds: seconds)
def go(seconds: float = 1.0, gait: Gait = Gait.SLOW, stop_evt=None, pause_evt=None) -> SkillReturn:
    while not stop_evt.wait(0.1):
        pass
    return SkillReturn(True, "walked")

@robot_skill("nod", desc="nod", subsystem="head", nominal_s=2)
def nod(way: Literal["up", "down"] = "up", until: Optional[datetime.date] = None): ...

@robot_skill("step_on", subsystem="MOVEMENT", nominal_s=lambda distance, speed: distance / speed)
def step_on(distance: float, speed: float = 1.0) -> SkillReturn:
    """Go on."""
    return SkillReturn(ok=True, message=f"{distance} m")
'''


@pytest.fixture
def skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a file of skills; the neighbour that it imports is forgotten after the test."""
    (tmp_path / "places.py").write_text("HOME = 'desk'\n")
    file = tmp_path / "my_skills.py"
    file.write_text(SKILLS)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield file
    sys.modules.pop("places", None)


def run(text: str | bytes, *arguments: object) -> tuple[int, list[dict[str, Any]], list[str]]:
    done = CliRunner().invoke(app, ["dry-run", *map(str, arguments)], input=text, catch_exceptions=False)
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.splitlines()


def test_each_call_is_one_json_object_and_nothing_else_is_on_standard_output(skills: Path, tmp_path: Path) -> None:
    stream = tmp_path / "stream.xml"
    stream.write_text('<walk seconds="2" gait="fast"/>你好<nod until="2026-01-02"/>', encoding="utf-8")
    done = subprocess.run([*COMMAND, "--skills", str(skills), str(stream)], capture_output=True, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stderr.decode().splitlines()) == (0, ["loaded, home is desk"])
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    assert calls == [
        {
            "call": "c1",
            "function": "walk",
            "args": {"seconds": 2.0, "gait": "fast"},
            "channel": "legs",
            "start": 0.0,
            "end": 2.0,
            "outcome": "DONE",
        },
        {
            "call": "c2",
            "function": "text",
            "args": {"text": "你好"},
            "channel": "main",
            "start": 0.0,
            "end": 1.0,
            "outcome": "DONE",
        },
        {
            "call": "c3",
            "function": "nod",
            "args": {"way": "up", "until": "2026-01-02"},
            "channel": "head",
            "start": 1.0,
            "end": 3.0,
            "outcome": "DONE",
        },
    ]


@pytest.mark.parametrize(
    ("stream", "options", "status", "outcomes"),
    [
        ("", (), 0, []),
        ("<nod/>", (), 0, ["DONE"]),
        ("<nodd/><nod/>", (), 1, ["REFUSED", "DROPPED"]),
        ("<nodd/><nod/>", ("--strict",), 1, ["REFUSED", "DROPPED"]),
        ("<nod/></walk><nod/>", ("--strict",), 2, ["DONE"]),
        ("<nod/></walk><nod/>", (), 0, ["DONE", "DONE"]),
        ('<step_on distance="1" speed="0"/>', (), 0, ["DONE"]),
        ("<nod/>", ("--interrupt-at", "3"), 0, ["DONE"]),
        ('<walk seconds="9"/><walk/>', ("--interrupt-at", "1"), 0, ["INTERRUPTED", "DROPPED"]),
    ],
)
def test_the_exit_status_tells_refusals_from_violations(
    skills: Path, stream: str, options: tuple[str, ...], status: int, outcomes: list[str]
) -> None:
    found, calls, _ = run(stream, "--skills", skills, *options)
    assert (found, [c["outcome"] for c in calls]) == (status, outcomes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def (:", "SyntaxError"),
        ("import no_such_module", "no_such_module"),
        ("raise SystemExit(0)", "SystemExit"),
        ("from skill_kernel import robot_skill\n@robot_skill\ndef f(): ...", "robot_skill()"),
        ("from skill_kernel import robot_skill\n@robot_skill('wait')\ndef f(): ...", "'wait'"),
        ("from skill_kernel import robot_skill\n@robot_skill('f', nominal_s=None)\ndef f(): ...", "nominal_s"),
    ],
)
def test_a_file_of_skills_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    status, calls, errors = run("<f/>", "--skills", file)
    assert (status, calls, len(errors)) == (2, [], 1)
    assert said in errors[0]


def test_a_file_without_skills_says_so(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("class Robot: ...\n")
    status, calls, errors = run("Hi", "--skills", tmp_path / "none.py")
    assert status == 0 and [c["function"] for c in calls] == ["text"]
    assert "declares no skill" in json.loads(errors[0])["notice"]


def test_what_is_missing_is_one_sentence_and_status_2(skills: Path, tmp_path: Path) -> None:
    for text, arguments in (
        ("", ("--skills", skills, "--robot", "coco")),
        ("", ()),
        ("", ("--skills", tmp_path / "absent.py")),
        ("", ("--robot", "nobody")),
    ):
        status, calls, errors = run(text, *arguments)
        assert (status, calls, len(errors)) == (2, [], 1)
    for text_bytes, file in ((b"a\xff", "-"), (b"", tmp_path / "absent.xml"), (b"", tmp_path)):
        status, calls, errors = run(text_bytes, "--skills", skills, file)
        assert (status, calls, len(errors)) == (2, [], 2) and errors[1].startswith("ghostshell dry-run: ")


def test_the_picture_is_a_png_at_that_path_whatever_it_is_called(skills: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "new" / "folder" / "timeline.out"
    status, _, errors = run("It costs $5_ and $x^. 你好<nod/>", "--skills", skills, "--plot", path)
    assert (status, errors[1:]) == (0, [])
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_picture_that_cannot_be_written_is_one_sentence_behind_the_calls(skills: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for path in (tmp_path, skills / "x.png"):
        status, calls, errors = run("<nod/>", "--skills", skills, "--plot", path)
        assert (status, len(calls), len(errors)) == (2, 1, 2)
        assert str(path) in errors[1]


@pytest.mark.parametrize(
    ("stream", "strict", "status", "said"), [("<nod/></walk>", True, 2, '"code"'), ("<nodd/>", False, 1, "cannot be written")]
)
def test_a_picture_that_cannot_be_written_hides_neither_a_violation_nor_a_refusal(
    skills: Path, tmp_path: Path, stream: str, strict: bool, status: int, said: str
) -> None:
    pytest.importorskip("matplotlib")
    found, _, errors = run(stream, "--skills", skills, "--plot", tmp_path, *(["--strict"] if strict else []))
    assert found == status and any(said in line for line in errors) and str(tmp_path) in errors[-1]


def test_a_condition_that_holds_and_fails_is_refused(skills: Path) -> None:
    status, calls, errors = run(BRANCHED, "--skills", skills, "--holds", "it  rains", "--fails", "it rains")
    assert (status, calls) == (2, []) and "'it rains' is given by --holds and by --fails" in errors[-1]


def test_a_dry_run_leaves_the_file_of_routines_as_it_is(skills: Path, tmp_path: Path) -> None:
    file = tmp_path / "routines.json"
    kept = {"name": "greet", "description": "", "source": "<nod/>", "created": 1.0}
    text = json.dumps({"version": 1, "routines": [kept]})
    file.write_text(text)
    stream = '<save name="other"><walk/></save><run name="greet"/><run name="other"/>'
    status, calls, _ = run(stream, "--skills", skills, "--routines", file)
    assert status == 0 and {"nod", "walk"} <= {c["function"] for c in calls} and file.read_text() == text
    file.write_text(text[:-4])
    _, _, errors = run("<nod/>", "--skills", skills, "--routines", file)
    assert f"routine file {file} cannot be used" in errors[-1] and file.read_text() == text[:-4]
    assert sorted(p.name for p in tmp_path.iterdir() if "routines" in p.name) == ["routines.json"]
    _, calls, errors = run("<nod/>", "--skills", skills, "--routines", tmp_path)
    assert len(calls) == 1 and f"routine file {tmp_path} cannot be read" in errors[-1]


def test_a_reader_that_goes_away_is_no_error(skills: Path, tmp_path: Path) -> None:
    stream = tmp_path / "long.xml"
    stream.write_text("<nod/>" * 3000)
    command = [*COMMAND, "--skills", str(skills), str(stream)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout and process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read().decode().splitlines() == ["loaded, home is desk"]


BRANCHED = '<step><if cond="it rains"><nod/></if><else><walk seconds="2"/></else></step><walk/>'


@pytest.mark.parametrize(
    ("options", "status", "outcomes", "notice"),
    [
        ((), 0, ["DONE", "DONE", "DONE", "DROPPED", "DROPPED", "DONE"], "condition 'it rains' is taken as true"),
        (("--holds", "it  rains"), 0, ["DONE", "DONE", "DONE", "DROPPED", "DROPPED", "DONE"], ""),
        (("--fails", "it rains"), 0, ["DONE", "DROPPED", "DROPPED", "DONE", "DONE", "DONE"], ""),
        (("--assume", "unknown"), 1, ["FAILED", *["DROPPED"] * 5], "condition 'it rains' is taken as unknown"),
        (("--holds", "it rains", "--fails", "it snows"), 0, ["DONE"] * 3 + ["DROPPED"] * 2 + ["DONE"], "'it snows' was given"),
    ],
)
def test_the_branches_of_a_step_are_shown_and_conditions_are_what_one_says(
    skills: Path, options: tuple[str, ...], status: int, outcomes: list[str], notice: str
) -> None:
    found, calls, errors = run(BRANCHED, "--skills", skills, *options)
    assert (found, [c["outcome"] for c in calls]) == (status, outcomes)
    assert [c["function"] for c in calls] == ["step", "if", "nod", "else", "walk", "walk"]
    assert calls[1]["args"] == {"cond": "it rains"} and calls[1].get("parent") == "c1"
    assert any(notice in line for line in errors[1:]) if notice else len(errors) == 1


def test_with_a_robots_file_a_misspelt_accessor_is_found() -> None:
    stream = "<step><if cond=\"visible('aple')\"><nod/></if></step>"
    found, calls, _ = run(stream, "--robot", "kalos")
    assert found == 1 and "did you mean 'apple'" in next(c for c in calls if c["function"] == "if")["error"]


def test_native_calls_are_scheduled_as_the_same_tags_are(skills: Path) -> None:
    native = [
        '{"name": "walk", "arguments": {"seconds": 2}}',
        "Hello!",
        '{"name": "nod", "arguments": "{\\"way\\": \\"up\\""}',
        "{}",
    ]
    tags = '<walk seconds="2"/>Hello!\n<nod no.JSON.object="{&quot;way&quot;: &quot;up&quot;"/>{}'
    read = [
        CliRunner().invoke(app, ["dry-run", "--skills", str(skills), *words], input=text)
        for words, text in ((["--dialect", "tools"], "\n".join(native)), ([], tags))
    ]
    assert read[0].exit_code == read[1].exit_code == 1
    assert read[0].stdout == read[1].stdout and '"REFUSED"' in read[0].stdout and '"walk"' in read[0].stdout
