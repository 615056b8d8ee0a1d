# SPDX-License-Identifier: Apache-2.0
"""The registry collects skills in order, refuses doubles, and keeps its set when a new one cannot be loaded."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bench.dry_run import skills_of
from skill_kernel.config.sections import nearest
from skill_kernel.skills.registry import RegistryError, SkillRegistry

SKILLS = '''
from __future__ import annotations
from dataclasses import dataclass
from typing import Literal
from skill_kernel import Content, SkillReturn, robot_skill

@dataclass
class Helper:
    x: int = 0

@robot_skill(subsystem="legs")
def walk(distance: float = 10.0) -> SkillReturn:
    """Walk."""
    return SkillReturn.success()

@robot_skill("speak", subsystem="main", speaks_text=True)
def say(text: Content) -> SkillReturn:
    """Say."""
    return SkillReturn.success()

@robot_skill(subsystem="head")
def nod(side: Literal["up", "down"] = "up") -> SkillReturn:
    """Nod."""
    return SkillReturn.success()
'''


def write(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_a_file_gives_its_skills_in_the_order_of_definition(tmp_path: Path) -> None:
    registry = skills_of(write(tmp_path / "s.py", SKILLS))
    assert registry.names == ("walk", "speak", "nod")
    assert [s.name for s in registry] == ["walk", "speak", "nod"]
    assert registry.text_skill is registry.get("speak")
    assert "walk" in registry and "say" not in registry and registry.get("say") is None


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    registry = skills_of(write(tmp_path / "s.py", SKILLS))
    assert "'walk'" in nearest("WALKS", registry.names)
    assert "'walk'" in nearest("wlak", registry.names) and not nearest("zzz", registry.names)


def test_the_version_follows_names_and_signatures_and_is_the_same_in_another_process(tmp_path: Path) -> None:
    path = write(tmp_path / "s.py", SKILLS)
    here = skills_of(path).version
    code = f"from bench.dry_run import skills_of; print(skills_of({str(path)!r}).version)"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert here == there
    assert skills_of(write(path, SKILLS.replace("10.0", "11.0"))).version != here
    assert skills_of(write(path, SKILLS.replace('"""Walk."""', '"""Go."""'))).version == here


def test_edits_within_one_second_are_read_though_the_file_keeps_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = write(tmp_path / "reg_quick.py", SKILLS)
    registry, versions = SkillRegistry.from_modules(["reg_quick"]), set()
    for number in range(20, 40):
        write(path, SKILLS.replace("10.0", f"{number}.0"))
        registry.replace_from_modules(["reg_quick"])
        versions.add(registry.version)
        assert skills_of(path).version == registry.version
    assert len(versions) == 20


@pytest.mark.parametrize(
    "double",
    [
        '@robot_skill("walk")\ndef other() -> SkillReturn:\n    """Other."""\n    return SkillReturn.success()\n',
        '@robot_skill()\ndef walk() -> SkillReturn:\n    """Again."""\n    return SkillReturn.success()\n',
    ],
)
def test_a_name_defined_twice_is_an_error_that_names_both_places(tmp_path: Path, double: str) -> None:
    path = write(tmp_path / "s.py", SKILLS + "\n" + double)
    with pytest.raises(RegistryError, match=r"'walk' is defined twice: .*s\.py:\d+ and .*s\.py:\d+"):
        skills_of(path)


def test_a_skill_imported_into_a_second_module_is_no_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "reg_first.py", SKILLS)
    write(tmp_path / "reg_second.py", "from reg_first import walk\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert SkillRegistry.from_modules(["reg_first", "reg_second"]).names == ("walk", "speak", "nod")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_module_here", "ModuleNotFoundError"),
        ("def walk(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("from skill_kernel import robot_skill\n@robot_skill()\ndef f(*a) -> str:\n    return ''", "plain named parameter"),
        ("from skill_kernel import robot_skill\n@robot_skill()\ndef f(sync: bool) -> str:\n    return ''", "parameter 'sync'"),
    ],
)
def test_a_set_that_cannot_be_loaded_leaves_the_old_one_in_place(tmp_path: Path, text: str, reason: str) -> None:
    path = write(tmp_path / "s.py", SKILLS)
    registry = skills_of(path)
    walk, version = registry.get("walk"), registry.version
    write(path, text)
    with pytest.raises(RegistryError, match=reason):
        registry.replace(skills_of(path))
    assert registry.get("walk") is walk and registry.version == version


def test_modules_are_read_anew_and_a_broken_one_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "reg_swapped.py", SKILLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    registry = SkillRegistry.from_modules(["reg_swapped"])
    before = sys.modules["reg_swapped"]
    write(path, "import no_such_module_here\n")
    with pytest.raises(RegistryError, match="module 'reg_swapped' cannot be loaded"):
        registry.replace_from_modules(["reg_swapped"])
    assert registry.names == ("walk", "speak", "nod") and sys.modules["reg_swapped"] is before
    write(path, SKILLS.replace("def walk", "def stroll"))
    registry.replace_from_modules(["reg_swapped"])
    assert registry.names == ("stroll", "speak", "nod")


def test_the_text_skill_is_the_named_one_or_the_only_one_that_speaks(tmp_path: Path) -> None:
    path = write(tmp_path / "s.py", SKILLS)
    assert skills_of(path, text_skill="nod").text_skill is not None
    with pytest.raises(RegistryError, match="text_skill 'shout' is not among the skills"):
        skills_of(path, text_skill="shout")
    write(path, SKILLS.replace('@robot_skill(subsystem="legs")', '@robot_skill(subsystem="legs", speaks_text=True)'))
    with pytest.raises(RegistryError, match="several skills speak text"):
        skills_of(path)


def test_a_package_of_skills_is_read_anew_with_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "reg_package"
    package.mkdir()
    write(package / "__init__.py", "from reg_package.inner import walk\n")
    write(package / "inner.py", SKILLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    registry = SkillRegistry.from_modules(["reg_package"])
    assert registry.names == ("walk",)
    before = registry.version
    write(package / "inner.py", SKILLS.replace("10.0", "11.5"))
    registry.replace_from_modules(["reg_package"])
    assert registry.version != before
