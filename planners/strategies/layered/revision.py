# SPDX-License-Identifier: Apache-2.0
"""How a new answer of System 2 changes a plan: what is done stays, what is known keeps its id (TypeGo 6)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from planners.plan import GlobalEvent, Subtask, SubtaskStatus, plain


@dataclass(frozen=True)
class WrittenSubtask:
    """A subtask as a model wrote it. An `id` is that of a known one; with it everything else may be empty."""

    description: str
    id: str = ""
    criteria: str = ""
    watch: tuple[str, ...] = ()


@dataclass(frozen=True)
class WrittenEvent:
    """An event as a model wrote it."""

    condition: str
    response: str


def with_status(subtasks: Sequence[Subtask]) -> tuple[Subtask, ...]:
    """The first that is not done is the active one."""
    found, active = [], False
    for subtask in subtasks:
        status = subtask.status
        if not subtask.done:
            status, active = SubtaskStatus.PENDING if active else SubtaskStatus.ACTIVE, True
        found.append(replace(subtask, status=status))
    return tuple(found)


def with_done(subtasks: Sequence[Subtask], subtask_id: str) -> tuple[Subtask, ...]:
    """One of them is done."""
    return with_status([replace(s, status=SubtaskStatus.DONE) if s.id == subtask_id else s for s in subtasks])


def hopeless(subtasks: Sequence[Subtask]) -> tuple[Subtask, ...]:
    """The active one has failed, and the others are left."""
    active = SubtaskStatus.ACTIVE
    return tuple(replace(s, status=SubtaskStatus.FAILED) if s.status is active else s for s in subtasks)


def ending_with(subtasks: Sequence[Subtask], instruction: str, new_id: Callable[[], str]) -> tuple[Subtask, ...]:
    """A list that nobody finished, with the whole task as its last subtask."""
    if plain(instruction) in {plain(s.description) for s in subtasks}:
        return with_status(subtasks)
    criteria = "everything it asks for is done, and nothing of it twice"
    return with_status([*subtasks, Subtask(new_id(), instruction, criteria)])


def revised(
    subtasks: Sequence[Subtask],
    written: Sequence[WrittenSubtask],
    *,
    done_when_asked: Collection[str],
    new_id: Callable[[], str],
) -> tuple[Subtask, ...]:
    """The subtasks after a new list, which replaces those that are not done.

    A written one is a known one by its id, else by its words. What is done stays, in front, and is not done again: neither
    when the list names its id, nor when it was written before that subtask was done. Only words that stood for something
    done already when the list was asked for mean doing it once more.
    """
    known = {s.id: s for s in subtasks}
    by_words: dict[str, list[Subtask]] = {}
    for subtask in subtasks:
        if not (subtask.done and subtask.id in done_when_asked):
            by_words.setdefault(plain(subtask.description), []).append(subtask)
    used: set[str] = set()
    found = [s for s in subtasks if s.done]
    for one in written:
        match = known.get(one.id) if one.id not in used else None
        if match is None and one.description:
            match = next((s for s in by_words.get(plain(one.description), ()) if s.id not in used), None)
        if match is None:
            if one.description:
                found.append(Subtask(new_id(), one.description, one.criteria, watch=one.watch))
            continue
        used.add(match.id)
        if not match.done:
            found.append(
                replace(
                    match,
                    description=one.description or match.description,
                    criteria=one.criteria or match.criteria,
                    watch=one.watch or match.watch,
                )
            )
    return with_status(found)


def revised_events(
    events: Sequence[GlobalEvent], written: Sequence[WrittenEvent], new_id: Callable[[], str]
) -> tuple[GlobalEvent, ...]:
    """The events after a new list: without one they stay, else it replaces them. One whose condition is known keeps its id
    and how often it has come true."""
    if not written:
        return tuple(events)
    known = {event.condition: event for event in events}
    found: dict[str, GlobalEvent] = {}
    for one in written:
        old = known.get(one.condition)
        found[one.condition] = (
            replace(old, response=one.response) if old else GlobalEvent(new_id(), one.condition, one.response)
        )
    return tuple(found.values())
