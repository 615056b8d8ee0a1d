# SPDX-License-Identifier: Apache-2.0
"""The compiled parser is the same parser: its sources, its tokens, and never an older one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ghostshell_ros.shell import compiled, parser

ROOT = Path(__file__).resolve().parents[2]
compiled_here = pytest.mark.skipif(
    not os.environ.get(compiled.FOLDER), reason=f"{compiled.FOLDER} is not set: run through make, or source scripts/env.sh"
)

READ = """
import json, random
from ghostshell_ros.shell import ParseError, StreamingParser, parser

PIECES = [
    "<nod>", "</nod>", "<nod/>", '<walk distance="20" to=\\'a\\'/>', "<a b='1' b='2'/>", "text ", "\\n", "```xml\\n", "```",
    "&amp;", "&#x41;", "&nope;", "&", "<", ">", "]]>", "<![CDATA[", "<!--", "-->", "<?x?>", "<!DOCTYPE", "</", "=", '"', "'",
    "\\x00", "\\r\\n", "你好", "<think>", "</think>", "< a", '<say text="', "a.b-c", " ", "<x y", "1<2",
]
rng = random.Random(7)


def told(tokens):
    return [(t.kind.value, t.name, dict(t.attrs), *t[3:]) for t in tokens]


print(parser.__file__.endswith(".py"))
for _ in range(1500):
    text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 25)))
    for mode in ("strict", "lenient"):
        reader, tokens, error = StreamingParser(mode), [], None
        try:
            i = 0
            while i < len(text):
                n = rng.randrange(1, 7)
                tokens += reader.feed(text[i : i + n])
                i += n
            tokens += reader.close()
        except ParseError as e:
            error = (int(e.code), str(e), told(e.tokens))
        repairs = [(int(r.code), r.message, r.offset, r.line, r.column) for r in reader.take_repairs()]
        print(json.dumps([text, told(tokens), error, repairs]))
"""


def _read(folder: str) -> list[str]:
    env = {**os.environ, compiled.FOLDER: folder, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", READ], env=env, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


@compiled_here
def test_what_runs_here_is_compiled() -> None:
    """Else the figures in README would be another parser's; `make` says when it could not be compiled."""
    assert not parser.__file__.endswith(".py"), "see log/parser.log"


@compiled_here
def test_both_read_broken_streams_alike() -> None:
    (as_python, *plain), (is_python, *fast) = _read(""), _read(os.environ[compiled.FOLDER])
    assert (as_python, is_python) == ("True", "False")
    assert len(plain) == 3000 and plain == fast


@compiled_here
def test_a_changed_source_is_never_answered_by_an_old_build(tmp_path: Path) -> None:
    shell = tmp_path / "ghostshell_ros" / "shell"
    shutil.copytree(ROOT / "ghostshell_ros" / "shell", shell)
    shutil.copytree(ROOT / "skill_kernel", tmp_path / "skill_kernel")
    (tmp_path / "ghostshell_ros" / "__init__.py").touch()
    show = [sys.executable, "-c", "from ghostshell_ros.shell import parser; print(parser.__file__)"]

    def used() -> str:
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(show, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    assert not used().endswith(".py")
    with (shell / "simple_tags.py").open("a") as source:
        source.write("\n# changed\n")
    assert used() == str(shell / "parser.py")
