# SPDX-License-Identifier: Apache-2.0
"""Rules of the repository's structure: cores without ROS, codes equal to the interfaces', licence lines."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skill_kernel import codes

ROOT = Path(__file__).resolve().parents[2]
CORES = ("skill_kernel", "function_tokens", "reflexes", "planners", "ghostshell_ros/navigation", "ghostshell_ros/perception")
PACKAGES = (*CORES, "ghostshell_ros")

CODE_OWNERS = {
    "CallCode": "action/ExecuteSkill.action",
    "ParseCode": "msg/FunctionToken.msg",
    "ModelCode": "msg/LlmChunk.msg",
    "LeaseCode": "srv/ProcessLease.srv",
    "AskCode": "action/AskHuman.action",
    "AnswerCode": "srv/AnswerQuestion.srv",
    "ReflexCode": "srv/CompileReflex.srv",
    "LearnCode": "srv/Learn.srv",
}
"""Interfaces that define the numbers of each enumeration of error codes."""

CONSTANT = re.compile(r"^uint16\s+([A-Z][A-Z0-9_]*)\s*=\s*(\d+)", re.MULTILINE)

IMPORT_WITHOUT_ROS = """
import importlib, importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"{name} must not be imported by a core")

BLOCKED = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Refuse())
failed = []
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{name}: {type(error).__name__}: {error}")
print("\\n".join(failed))
"""


def ros_packages() -> set[str]:
    """Top-level modules that belong to ROS: the client library, its helpers and what is generated from interfaces."""
    manifest = (ROOT / "package.xml").read_text(encoding="utf-8")
    depends = set(re.findall(r"<\w*depend>(\w+)</\w*depend>", manifest))
    return depends | {
        "action_msgs",
        "ament_index_python",
        "ghostshell",
        "launch",
        "launch_ros",
        "rcl_interfaces",
        "rclpy",
        "rosidl_parser",
        "rosidl_runtime_py",
        "unique_identifier_msgs",
    }


def core_files() -> list[Path]:
    return sorted(f for core in CORES for f in (ROOT / core).rglob("*.py"))


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_roots(file: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of each absolute import in a file, also of those inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def test_every_core_module_imports_where_ros_cannot_be_imported() -> None:
    names = [module_name(f) for f in core_files()]
    assert len(names) > len(CORES)
    run = [sys.executable, "-c", IMPORT_WITHOUT_ROS, ",".join(sorted(ros_packages())), *names]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_no_core_names_ros_or_a_part_of_the_project_that_uses_it() -> None:
    blocked = ros_packages()
    wrong = []
    for file in core_files():
        for line, name in imported_roots(file):
            own = (f"ghostshell_ros.{file.relative_to(ROOT).parts[1]}.",)
            outside = name.startswith("ghostshell_ros") and not name.startswith(own)
            if name.split(".")[0] in blocked or outside:
                wrong.append(f"{file.relative_to(ROOT)}:{line} imports {name}")
    assert wrong == []


@pytest.mark.parametrize("enumeration", sorted(CODE_OWNERS))
def test_error_codes_equal_the_constants_of_the_interface(enumeration: str) -> None:
    interface = (ROOT / CODE_OWNERS[enumeration]).read_text(encoding="utf-8")
    constants = {name: int(value) for name, value in CONSTANT.findall(interface)}
    assert constants == {code.name: code.value for code in getattr(codes, enumeration)}


def test_outcomes_are_those_of_the_events() -> None:
    event = (ROOT / "msg/CallEvent.msg").read_text(encoding="utf-8")
    _, outcomes = event.split("OUTCOME_NONE", 1)
    named = {n.removeprefix("OUTCOME_") for n in re.findall(r"^uint8\s+(\w+)\s*=", outcomes, re.MULTILINE)}
    assert {outcome.name for outcome in codes.Outcome} == named


def test_an_error_code_has_one_name_across_all_interfaces() -> None:
    names: dict[int, set[str]] = {}
    for file in [*ROOT.glob("msg/*.msg"), *ROOT.glob("srv/*.srv"), *ROOT.glob("action/*.action")]:
        for name, value in CONSTANT.findall(file.read_text(encoding="utf-8")):
            names.setdefault(int(value), set()).add(name)
    assert {value: found for value, found in names.items() if len(found) > 1} == {}


def test_every_source_file_begins_with_the_licence_line() -> None:
    files = [f for folder in (*PACKAGES, "test", "bench", "scripts") for f in (ROOT / folder).rglob("*.py")]
    files += [*(ROOT / "scripts").glob("*.sh"), *(ROOT / name for name in ("ghostshell", "setup.py", "CMakeLists.txt"))]
    told = [f for f in files if f.stat().st_size]  # an empty file marks a package and says nothing
    wrong = [str(f.relative_to(ROOT)) for f in told if "SPDX-License-Identifier: Apache-2.0" not in head(f)]
    assert wrong == []


def head(file: Path) -> str:
    """Return the first two lines; the second one counts because a program's first names its interpreter."""
    return "\n".join(file.read_text(encoding="utf-8").splitlines()[:2])
