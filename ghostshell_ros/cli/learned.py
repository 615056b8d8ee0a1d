# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell learned list|show|try|confirm|revoke|export|import`, which open the file of the memory itself. A memory
that runs notices within a second."""

import getpass
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ghostshell_ros.cli.memory import DataDir, opened_memory
from ghostshell_ros.cli.output import fail
from planners.learned import LearnedError, Lesson, LessonKind, Level, Proposal, State
from planners.memory import Memory
from planners.memory.answers import clock
from planners.memory.lessons import LessonBook, robots_that_learned
from skill_kernel.config.yaml_text import private

learned = typer.Typer(
    name="learned", help="What robots learned from corrections: look, try, confirm, take back, copy.", no_args_is_help=True
)
Number = Annotated[int, typer.Argument(help="number of the lesson, as `list` shows it")]
OfRobot = Annotated[str, typer.Option("--robot", help="only of this robot")]
Person = Annotated[str, typer.Option("--by", help="who does this; empty: the user of this machine")]
Config = Annotated[str, typer.Option(help="the robot's file in config/robots or its path, where it has another name")]
FORMAT, VERSION = "ghostshell-lessons", 1
MAX_LINE = 100_000
_TOLD = ("text", "correction", "better", "sender")
"""Texts of a lesson that an export holds."""


@learned.command("list")
def list_(
    robot: OfRobot = "",
    all_: Annotated[bool, typer.Option("--all", help="those that were taken back, too")] = False,
    data_dir: DataDir = "",
) -> None:
    """Show what robots learned: number, state, what it changes (plan: what is done; skill: how), and from which words."""
    with opened_memory(data_dir, command="learned") as memory:
        shown = [(book, one) for book in _books(memory, robot) for one in book.lessons()]
        for book, lesson in shown:
            if all_ or lesson.state is not State.REVOKED:
                by = f" by {lesson.by}" if lesson.by else ""
                print(f"[{lesson.id}] {book.robot}: {lesson.kind.value}, {lesson.level.value} level, {lesson.state.value}{by}")
                print(f"    “{lesson.correction}” → {lesson.better}")
        if not shown:
            print("nothing has been learned")
        elif not all_ and all(lesson.state is State.REVOKED for _, lesson in shown):
            print(f"nothing is used or proposed; {len(shown)} were taken back, which --all shows")


@learned.command("show")
def show(number: Number, data_dir: DataDir = "") -> None:
    """Show a lesson with its text, who said what when, who confirmed it, and what it contradicts."""
    with _lesson(number, data_dir) as (book, lesson):
        _show(book, lesson)


@learned.command("try")
def try_(number: Number, config: Config = "", data_dir: DataDir = "") -> None:
    """Run a lesson where nothing moves: each call is checked against the robot's skills and limits. Exit status 1: one
    fails."""
    with _lesson(number, data_dir) as (book, lesson):
        print(_tried(config or book.robot, lesson))


@learned.command("confirm")
def confirm(
    number: Number,
    by: Person = "",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    config: Config = "",
    data_dir: DataDir = "",
) -> None:
    """Let a robot use a lesson from now on; shows it, tries it where nothing moves, and asks."""
    with _lesson(number, data_dir) as (book, lesson):
        if not yes:
            _show(book, lesson)
        _tried(config or book.robot, lesson)
        if not yes:
            typer.confirm(f"May {book.robot} use lesson {number} from now on?", abort=True)
        _do(lambda: book.confirm(number, by or getpass.getuser()))
        print(f"lesson {number} is confirmed")


@learned.command("revoke")
def revoke(
    number: Number, by: Person = "", why: Annotated[str, typer.Option(help="kept with the lesson")] = "", data_dir: DataDir = ""
) -> None:
    """Let a robot use a lesson no more. It stays, and can be confirmed again; `ghostshell memory forget` erases it."""
    with _lesson(number, data_dir) as (book, _):
        _do(lambda: book.revoke(number, by or getpass.getuser(), why))
        print(f"lesson {number} is not used any more")


@learned.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="JSON Lines file to write")], robot: OfRobot = "", data_dir: DataDir = ""
) -> None:
    """Write what is proposed or confirmed, a lesson a line. Functions go with the interaction that defines them."""
    with opened_memory(data_dir, command="learned") as memory:
        found = [(book, one) for book in _books(memory, robot) for one in book.lessons() if one.kind is LessonKind.EXAMPLE]
    kept = [(book, one) for book, one in found if one.state is not State.REVOKED]
    try:
        with open(file, "w", encoding="utf-8", opener=private) as out:
            print(json.dumps({"format": FORMAT, "version": VERSION}), file=out)
            for book, one in kept:
                told = {name: getattr(one, name) for name in _TOLD} | {"level": one.level.value, "routines": one.routines}
                print(json.dumps({"robot": book.robot, **told}, ensure_ascii=False), file=out)
    except OSError as error:
        fail(f"{file} cannot be written ({error.strerror or error})", command="learned")
    print(f"{len(kept)} lessons written to {file}")


@learned.command("import")
def import_(
    file: Annotated[typer.FileText, typer.Argument(help="file of an export", encoding="utf-8", errors="replace")],
    robot: Annotated[str, typer.Option("--robot", help="the robot that is to learn them; empty: as in the file")] = "",
    data_dir: DataDir = "",
) -> None:
    """Propose the lessons of a file. Nobody here has confirmed them, so none is used before somebody does."""
    number = 0
    with opened_memory(data_dir, command="learned", make=True) as memory:
        lines = iter(lambda: file.readline(MAX_LINE + 1), "")
        try:
            head = json.loads(next(lines, "{}"))
            if (head.get("format"), head.get("version")) != (FORMAT, VERSION):
                raise ValueError(f"it is no file of {FORMAT}, version {VERSION}")
            for line in lines:
                told = json.loads(line)
                proposal = Proposal(
                    text=str(told["text"]),
                    correction=str(told["correction"]),
                    level=Level(told["level"]),
                    better=str(told["better"]),
                    routines=tuple(map(str, told["routines"])),
                    source=f"file {file.name}",
                    sender=str(told["sender"]),
                )
                book = LessonBook(memory.store, robot or str(told["robot"]), wall=time.time)
                if proposal.text not in [one.text for one in book.lessons()]:
                    _do(lambda book=book, proposal=proposal: book.propose(proposal))
                    number += 1
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            fail(f"{file.name} cannot be read on ({type(error).__name__}: {error}); {number} were proposed", command="learned")
    print(f"{number} lessons are proposed; those that were here already stay as they are")


def _books(memory: Memory, robot: str = "") -> list[LessonBook]:
    names = [name for name in robots_that_learned(memory.store) if robot in ("", name)]
    return [LessonBook(memory.store, name, wall=time.time) for name in names]


@contextmanager
def _lesson(number: int, data_dir: str) -> Iterator[tuple[LessonBook, Lesson]]:
    """Give a lesson and the book that holds it; end the command with status 2 where there is none."""
    with opened_memory(data_dir, command="learned") as memory:
        for book in _books(memory):
            for lesson in book.lessons():
                if lesson.id == number:
                    yield book, lesson
                    return
    fail(f"there is no lesson {number}; `ghostshell learned list --all` shows all", command="learned")


def _show(book: LessonBook, lesson: Lesson) -> None:
    said = f"{lesson.sender or 'somebody'} said on {clock(lesson.time_s)}: “{lesson.correction}”"
    print(f"lesson {lesson.id} of {book.robot} ({lesson.kind.value}, {lesson.level.value} level)")
    print(f"{said}\n{lesson.better}\n\n{lesson.text}\n")
    for routine in lesson.routines:
        print(f"with the function:\n{routine}\n")
    by = f" by {lesson.by} on {clock(lesson.changed_s)}" if lesson.by else ""
    print(f"{lesson.state.value}{by}{f': {lesson.why}' if lesson.why else ''}")
    for other in book.lessons():
        if other.id in lesson.contradicts:
            print(f"CONTRADICTS lesson {other.id} ({other.state.value}; “{other.correction}”), whose place it takes")


def _tried(robot: str, lesson: Lesson) -> str:
    """Return a lesson as it is shown when it is run where nothing moves; end the command with status 1 where it fails."""
    from function_tokens.mapper import Mapper
    from planners.prompts.prompt import GrammarOptions, RobotFacts
    from planners.strategies.console.api import Api
    from planners.strategies.console.rehearsal import Checked, RehearsalError, rehearsed
    from planners.strategies.console.sandbox import SandboxError
    from planners.strategies.console.transcript import Entry, read, written
    from skill_kernel.robot import RobotConfig, RobotConfigError
    from skill_kernel.skills.registry import RegistryError, SkillRegistry
    from skill_kernel.skills.skill import SkillDefinitionError

    entries = read(lesson.text) if lesson.kind is LessonKind.EXAMPLE else [Entry(lesson.text), Entry("")]
    try:
        config = RobotConfig.load(robot)
        registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
        api = Api(RobotFacts(config.name, "", registry, GrammarOptions(config.builtin_names, config.limits)))
        return written(rehearsed(entries, api, Checked(Mapper(config, registry).fault), {}))
    except (RobotConfigError, RegistryError, SkillDefinitionError, SandboxError) as error:
        fail(f"lesson {lesson.id} cannot be tried: {error}", command="learned")
    except RehearsalError as error:
        fail(f"lesson {lesson.id} fails at {error}", command="learned", status=1)


def _do(change: Any) -> None:
    try:
        change()
    except LearnedError as error:
        fail(error, command="learned", status=1)
