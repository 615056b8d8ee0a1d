# SPDX-License-Identifier: Apache-2.0
"""Hold README, docs/, CONTRIBUTING, CHANGELOG and package.xml against the tree: links, commands, arguments, form."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer

from ghostshell_ros.cli.main import app
from ghostshell_ros.launcher import declared_arguments

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DOCS.rglob("*.md")])
CODE = (
    "skill_kernel",
    "function_tokens",
    "reflexes",
    "planners",
    "ghostshell_ros",
    "bench",
    "scripts",
    "examples",
    "config",
    "msg",
)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def slugs(page: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in slugs(file), f"{target}: the headings are {sorted(slugs(file))}"


def test_the_index_names_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert not [page.name for page in DOCS.glob("*.md") if page.name != "index.md" and f"({page.name})" not in index]
    decisions = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    assert not [page.name for page in (DOCS / "decisions").glob("0*.md") if f"({page.name})" not in decisions]


def test_pages_that_the_code_cites_exist() -> None:
    cited = {
        (named(file), name)
        for folder in CODE
        for file in (ROOT / folder).rglob("*")
        if file.suffix in {".py", ".yaml", ".msg"}
        for name in re.findall(r"docs/[\w/]+\.md", file.read_text(encoding="utf-8"))
    }
    assert not [(file, name) for file, name in cited if not (ROOT / name).exists()]


def test_the_readme_is_short_and_shows_both_robots() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert "docs/coco.gif" in text and "docs/kalos.gif" in text


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the uses of a program in fenced blocks: where, and the words behind the program's name."""
    for page in PAGES:
        for block in re.findall(
            r"^ *```\w*\n(.*?)^ *```|((?:^    \S.*\n)+)", page.read_text(encoding="utf-8"), flags=re.M | re.S
        ):
            for line in "".join(block).splitlines():
                for part in line.replace("$ ", "").split("|"):
                    if re.match(rf"\s*(\./)?{program}(\s|$)", part) and "…" not in part.partition("#")[0]:
                        yield f"{named(page)}: {line.strip()}", shlex.split(part, comments=True)[1:]


def test_every_command_line_is_one_the_program_takes() -> None:
    root = typer.main.get_command(app)
    seen = 0
    for where, words in commands("ghostshell"):
        command: Any = root
        while words and hasattr(command, "get_command"):
            command, words = command.get_command(None, words[0]), words[1:]
            assert command is not None, where
        known = {option for parameter in command.params for option in parameter.opts}
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options - {"--help"} <= known, where
        seen += 1
    assert seen > 60


def test_every_launch_argument_is_declared() -> None:
    for where, words in commands("ghostshell"):
        if words[0] == "launch":
            names = {argument.name for argument in declared_arguments(ROOT / "launch" / f"{words[1]}.launch.xml")}
            assert {word.partition(":=")[0] for word in words[2:] if ":=" in word} <= names, where


def test_a_message_is_published_so_that_it_arrives() -> None:
    lines = [words for _, words in commands("ros2") if words[:2] == ["topic", "pub"]]
    assert lines and all("--keep-alive" in words for words in lines)


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    assert {words[0] for _, words in commands("make")} <= targets


def test_the_changelog_has_the_form_of_rep_132() -> None:
    core = pytest.importorskip("docutils.core")
    from docutils import nodes

    settings = {"halt_level": 2, "report_level": 2, "doctitle_xform": False}
    document = core.publish_doctree((ROOT / "CHANGELOG.rst").read_text(encoding="utf-8"), settings_overrides=settings)
    (top,) = document.children
    title, *versions = top.children
    assert title.astext() == "Changelog for package ghostshell"
    assert versions[0].children[0].astext() == "Forthcoming"
    for version in versions[1:]:
        assert re.fullmatch(r"\d+\.\d+\.\d+ \(\d{4}-\d{2}-\d{2}\)", version.children[0].astext())
    for version in versions:
        _, groups = version.children
        names = [group.children[0].astext() for group in groups.children]
        assert names == [name for name in ("Incompatible", "Added", "Changed", "Fixed") if name in names] and names
        for group in groups.children:
            _, entries = group.children
            for entry in entries.children:
                (paragraph,) = entry.children
                assert isinstance(paragraph, nodes.paragraph)
                assert paragraph.astext().endswith(".") and len(paragraph.astext()) <= 300, paragraph.astext()


def test_every_python_requirement_is_a_rosdep_key_or_explained() -> None:
    keys = {element.text or "" for element in ElementTree.parse(ROOT / "package.xml").iter("exec_depend")}
    described = (DOCS / "installation.md").read_text(encoding="utf-8")
    renamed = {"pillow": "pil", "pyyaml": "yaml"}
    for line in (ROOT / "requirements" / "run.txt").read_text(encoding="utf-8").splitlines():
        name = re.split(r"[<>=\[ ]", line)[0]
        if name and not name.startswith("#"):
            key = f"python3-{renamed.get(name, name)}"
            assert key in keys or f"{key}-pip" in keys or re.search(rf"\b{name}\b", described), name
