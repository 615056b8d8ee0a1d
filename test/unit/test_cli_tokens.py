# SPDX-License-Identifier: Apache-2.0
"""`ghostshell tokens`, also as a process: lines as they are complete, exit status and messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

from ghostshell_ros.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "from ghostshell_ros.cli.main import main; main()", "tokens"]


def run(*arguments: str, text: bytes = b"") -> tuple[int, list[dict[str, object]], str]:
    done = CliRunner().invoke(app, ["tokens", *arguments], input=text, catch_exceptions=False)
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("chunk", ["0", "1", "7"])
def test_each_token_is_one_json_object(chunk: str, tmp_path: Path) -> None:
    file = tmp_path / "stream.xml"
    file.write_text("<步行 速度='5'/>好<b>&lt;</b>", encoding="utf-8")
    status, lines, errors = run(str(file), "--chunk", chunk, "--strict")
    assert (status, errors) == (0, "")
    assert lines == [
        {"kind": "SCF", "name": "步行", "attrs": {"速度": "5"}, "text": "", "start": 0, "end": 12},
        {"kind": "CHAR", "name": "", "attrs": {}, "text": "好", "start": 12, "end": 13},
        {"kind": "AF", "name": "b", "attrs": {}, "text": "", "start": 13, "end": 16},
        {"kind": "REF", "name": "", "attrs": {}, "text": "<", "start": 16, "end": 20},
        {"kind": "RF", "name": "b", "attrs": {}, "text": "", "start": 20, "end": 24},
    ]


def test_a_violation_is_one_json_line_and_status_2() -> None:
    done = subprocess.run([*COMMAND, "--strict", "-"], input=b"<a/>\n</b><walk/>", capture_output=True, cwd=ROOT, timeout=60)
    assert done.returncode == 2
    assert [json.loads(line)["kind"] for line in done.stdout.splitlines()] == ["SCF", "CHAR"]
    (error,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert error.pop("message")
    assert error == {"code": "MISMATCHED_TAG", "offset": 5, "line": 2, "column": 1, "snippet": "<a/>\n</b>"}


def test_repairs_are_json_lines_and_status_0() -> None:
    status, lines, errors = run(text=b"R&D <a>")
    assert status == 0
    assert [json.loads(line)["code"] for line in errors.splitlines()] == ["UNKNOWN_REFERENCE", "UNCLOSED"]
    assert [line["kind"] for line in lines][-2:] == ["AF", "RF"]


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [((), b"ab\xff", "0xff at offset 2"), ((), b"\xe4\xbd", "0xe4 at offset 0"), (("/no/such/file",), b"", "/no/such/file")],
)
def test_unusable_input_is_one_sentence_and_status_2(arguments: tuple[str, ...], text: bytes, said: str) -> None:
    status, _, errors = run(*arguments, text=text)
    assert status == 2
    assert said in errors
    assert len(errors.splitlines()) == 1


def test_tokens_come_while_the_pipe_is_open() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin and process.stdout
        for text, kind in ((b"<a>", "AF"), ("你".encode(), "CHAR"), (b"</a", ""), (b">", "RF")):
            process.stdin.write(text)
            process.stdin.flush()
            if kind:
                assert json.loads(process.stdout.readline())["kind"] == kind
        process.stdin.close()
        assert process.wait(30) == 0
