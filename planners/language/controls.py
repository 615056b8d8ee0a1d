# SPDX-License-Identifier: Apache-2.0
"""Read sentences that only say what becomes of running tasks ("never mind", "stop going to the kitchen", "wait"), and find the
tasks that are meant; no model. The words stand in `controls.yaml`."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from planners.language.lexicon import CONDITIONS, FILLERS, NEGATIONS, is_chinese
from planners.language.parser import MAX_QUOTED
from planners.language.skills import CannotDo, Matcher, NotUnderstood
from planners.language.words import Word, clean, concepts, words_of
from planners.prompts.blocks import text_beside
from skill_kernel.config.sections import shown
from skill_kernel.config.yaml_text import read_yaml
from skill_kernel.processes.process import CAUSE_USER, Process

Command = Literal["stop", "pause", "resume"]
COMMANDS: tuple[Command, ...] = ("stop", "pause", "resume")
MAX_CHARS = 200
"""Longest sentence that is read as a control, in characters."""

_SAID: dict[str, Any] = read_yaml(text_beside(__file__, "controls.yaml"), strict=True)
_NOT_TASKS = NEGATIONS | CONDITIONS | {"and", "then", "while", "meanwhile", "or", "but", "stop"}
"""Words with which a sentence says more than which task is meant."""
_FIRST_NOT = frozenset(_SAID["not_tasks"].split())
_ANYTHING = frozenset(_SAID["anything"].split())
_PERSONS = frozenset("me us him her it them this that these those".split())
_MARKS = re.compile(r"[.!?。！？…~\s]+$")
_COMMA = re.compile(r"[,;:，；：、]")


@dataclass(frozen=True)
class Control:
    """Say what becomes of running tasks. `what` holds the words that name them; without any, all are meant."""

    command: Command
    what: tuple[Word, ...] = ()

    def fits(self, process: Process) -> bool:
        """Return whether a process can be stopped, paused or resumed."""
        paused = CAUSE_USER in process.pause_causes
        return not process.status.ended and (self.command == "stop" or paused == (self.command == "resume"))

    def meant(self, processes: Iterable[Process], matcher: Callable[[], Matcher]) -> list[Process]:
        """Return the processes that are meant: those whose instruction or running calls the words name, or else those that
        use the part of the body that a skill of that name would use. `matcher` gives one of the robot's skills."""
        fitting = [process for process in processes if self.fits(process)]
        if not self.what:
            return fitting
        wanted = frozenset(word.concept for word in self.what)
        named = [p for p in fitting if any(wanted <= concepts(text) for text in _names(p))]
        if named:
            return named
        try:
            channels = set((known := matcher()).channels_named(self.what))
        except (NotUnderstood, CannotDo):
            return []
        skills = {entry.skill.name for entry in known.entries if channels.intersection(entry.channels)}
        return [p for p in fitting if any(call.function in skills for call in p.running)]

    def told(self, text: str, meant: Iterable[Process]) -> str:
        """Return what has become of the processes, in the language of the sentence `text`."""
        tasks = ", ".join(f"“{shown(process.instruction, MAX_QUOTED)}”" for process in meant)
        written: str = _SAID["told"][self.command][is_chinese(text)]
        return written.format(tasks=tasks)


def _names(process: Process) -> Iterable[str]:
    yield process.instruction
    yield from (call.function.replace("_", " ") for call in process.running)


def read_control(text: str, robot_name: str = "") -> Control | None:
    """Return the control that a sentence is, or None for any other sentence: one that says more, or that names no task."""
    if len(text) > MAX_CHARS:
        return None
    plain = " ".join(_MARKS.sub("", clean(text).casefold()).split())
    before, behind, whole, *naming = _patterns(robot_name.casefold())
    bare = behind.sub("", before.sub("", plain))
    said = (bare, before.sub("", plain), behind.sub("", plain), plain)
    if found := next(filter(None, map(whole.fullmatch, said)), None):
        return Control(_command(found))
    found = next((match for pattern in naming for one in said if (match := pattern.fullmatch(one))), None)
    if found is None or _COMMA.search(bare):
        return None
    what = _named(words_of(found["what"])) if found["what"] else ()
    return Control(_command(found), what) if what is not None else None


def _named(words: Sequence[Word]) -> tuple[Word, ...] | None:
    """Return the words that name a task, none where they mean any, or None where they say something else."""
    if not words or words[0].text in _FIRST_NOT or any(w.kind != "word" or w.meaning in _NOT_TASKS for w in words):
        return None
    if any(w.text in _NOT_TASKS for w in words):
        return None
    kept = [w for w in words if w.text not in _PERSONS and not w.among(FILLERS)]
    what = tuple(w for w in kept if w.text not in _ANYTHING)
    return what if what or kept or any(w.text in _PERSONS for w in words) else None


def _command(found: re.Match[str]) -> Command:
    return next(name for name in COMMANDS if found[name] is not None)


def _one_of(listed: str) -> str:
    words = {" ".join(one.split()) for one in listed.split(",")} - {""}
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


@lru_cache(maxsize=8)
def _patterns(robot: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of what stands before and behind a sentence, of whole sentences, and of two that name a task."""
    before, behind = (_one_of(_SAID[side].replace("NAME", robot or "robot")) for side in ("before", "behind"))
    cjk = "[\u3400-\u9fff]"
    whole = "|".join(rf"(?P<{name}>{_one_of(said)})" for name, said in _SAID["whole"].items())
    opening, ending = (
        "|".join(rf"(?P<{name}>{_one_of(said)})" for name, said in _SAID[where].items()) for where in ("opening", "ending")
    )
    return (
        re.compile(rf"^(?:(?:{before})(?:[ ,]+|$|(?<={cjk})))+"),
        re.compile(rf"(?:(?:[ ,]+|(?={cjk}))(?:{behind}))+$"),
        re.compile(whole),
        re.compile(rf"(?:{opening})(?: +|(?<={cjk})|(?={cjk}))(?:(?:{_one_of(_SAID['whatever'])})|(?P<what>.+))"),
        re.compile(rf"(?:把)?(?P<what>.+?)(?:{ending})"),
    )
