# SPDX-License-Identifier: Apache-2.0
"""Judge an improved interaction before it is kept: what it changes, what it contradicts, and whether it may be kept at all
(section 3.5)."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from planners.learned import MAX_LESSON, Lesson, Level
from planners.strategies.console.api import LEARN
from planners.strategies.console.examples import Example
from planners.strategies.console.replies import is_comment
from planners.strategies.console.sandbox import parsed
from planners.strategies.console.transcript import WAIT, Entry, instructions, written

LEARNING = f"{LEARN}()"
_WORD = re.compile(r"\w+")
_NO_PROBLEM = re.compile(
    r"[\W\d]*(?:(?:there (?:is|was) )?no(?:thing)? (?:\w+ )?(?:problem|mistake|error|went wrong)|none\b|没有问题)",
    re.IGNORECASE,
)


@lru_cache(maxsize=2048)
def example_of(lesson: Lesson) -> Example:
    """Return a lesson as prompts show it."""
    return Example(lesson.text, f"lesson {lesson.id}")


def no_problem(answer: str) -> bool:
    """Return whether a model finds nothing wrong, or does not say what."""
    return not answer.strip() or _NO_PROBLEM.match(answer) is not None


def corrected(entries: Sequence[Entry]) -> str | None:
    """Return what somebody said last, where nothing was done since: only that is a correction to learn from."""
    last = next((entry for entry in reversed(entries) if not is_comment(entry.code)), None)
    return last.heard if last is not None else None


def tidied(entries: Sequence[Entry]) -> list[Entry]:
    """Return an improved interaction without comments, without what is to be learned from it, and with its end."""
    kept = [entry for entry in entries if not is_comment(entry.code) and entry.code.strip() not in ("", LEARNING)]
    while kept and kept[-1].code.strip() == WAIT and not kept[-1].output:
        kept.pop()
    return [*kept, Entry(WAIT)]


def fault_of(improved: Sequence[Entry], entries: Sequence[Entry]) -> str:
    """Return why an improved interaction is not kept; "" where it may be. `entries` are those that it was made of."""
    waits = [entry for entry in improved[:-1] if entry.waits]
    said = {_words(text) for text in instructions(list(entries))}
    if not improved or improved[0].heard is None or len(improved) < 3:
        return "the improved interaction does not begin with what somebody said, or holds nothing that was done"
    if any(entry.heard is None for entry in waits):
        return "what somebody said in the improved interaction cannot be read"
    if any(_words(text) not in said for text in instructions(list(improved))):
        return "the improved interaction holds words that nobody said"
    if _codes(improved) in (_codes(entries), _codes(first_try(improved, entries))):
        return "the improved interaction is the one that was corrected"
    if len(written(list(improved))) > MAX_LESSON:
        return f"the improved interaction has more than {MAX_LESSON} characters"
    return ""


def first_try(improved: Sequence[Entry], entries: Sequence[Entry]) -> list[Entry]:
    """Return what was done for the instruction that an improved interaction begins with, up to the next one, or to what was
    said last."""
    wanted = _words(improved[0].heard or "")
    heard = [i for i, entry in enumerate(entries) if entry.heard is not None]
    begins = [i for i in heard if _words(entries[i].heard or "") == wanted]
    if not begins:
        return []
    ends = [i for i in heard if i > begins[-1] and (_instructs(entries[i]) or i == heard[-1])]
    return list(entries[begins[-1] : ends[0] if ends else None])


def level_of(improved: Sequence[Entry], entries: Sequence[Entry], acts: Collection[str]) -> Level:
    """Return what a correction changes: how, where the first try called the same of the robot's functions that act in the same
    order; else what."""
    before, after = (list(_called(some, acts)) for some in (first_try(improved, entries), improved))
    return Level.SKILL if before == after else Level.PLAN


def known_as(improved: Sequence[Entry], confirmed: Sequence[Lesson]) -> Lesson | None:
    """Return the lesson that answers one of the same instructions in the same way."""
    done = _codes(improved)
    return next((lesson for lesson in _alike(improved, confirmed) if _codes(example_of(lesson).entries) == done), None)


def contradicted(improved: Sequence[Entry], confirmed: Sequence[Lesson]) -> list[Lesson]:
    """Return the lessons that answer one of the same instructions in another way."""
    done = _codes(improved)
    return [lesson for lesson in _alike(improved, confirmed) if _codes(example_of(lesson).entries) != done]


def _alike(improved: Sequence[Entry], confirmed: Sequence[Lesson]) -> list[Lesson]:
    said = _instructed(improved)
    return [lesson for lesson in confirmed if said & _instructed(example_of(lesson).entries)]


def _instructs(entry: Entry) -> bool:
    """Return whether somebody said here what is wanted, and did not only answer a question."""
    return entry.waits and entry.heard is not None


def _instructed(entries: Sequence[Entry]) -> set[str]:
    return {_words(entry.heard or "") for entry in entries if _instructs(entry)}


def routines_in(improved: Sequence[Entry]) -> tuple[str, ...]:
    """Return the functions that an interaction defines."""
    trees = [tree for entry in improved if (tree := parsed(entry.code)) is not None]
    return tuple(ast.unparse(node) for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef))


def named(routines: Sequence[Lesson]) -> dict[str, str]:
    """Return functions that were learned by their names; of two of one name the newer."""
    return {lesson.text.removeprefix("def ").partition("(")[0]: lesson.text for lesson in routines}


def _called(entries: Sequence[Entry], acts: Collection[str]) -> Iterator[str]:
    for entry in entries:
        tree = parsed(entry.code)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
        names = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
        yield from (name for name in names if name in acts)


def _codes(entries: Sequence[Entry]) -> list[str]:
    """Return the statements as Python reads them, without comments and without those that only wait or learn."""
    codes = (entry.code for entry in entries if not is_comment(entry.code) and entry.code.strip() not in (WAIT, LEARNING))
    return [ast.unparse(tree) if (tree := parsed(code)) is not None else code for code in codes]


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))
