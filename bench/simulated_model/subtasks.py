# SPDX-License-Identifier: Apache-2.0
"""Subtasks: how System 2 cuts an instruction into them, and how System 1 reads them back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from bench.simulated_model.goals import (
    Approach,
    Do,
    Face,
    Find,
    Goal,
    GoTo,
    If,
    Look,
    Meaning,
    Picture,
    Report,
    Return,
    Unknown,
    Watch,
    a,
)
from bench.simulated_model.language import understand
from bench.simulated_model.pursuing import pursue_part, unknown_words, want
from bench.simulated_model.question import Question
from bench.simulated_model.seeing import point, room
from bench.simulated_model.story import Story, Stuck
from planners.prompts.blocks import Layer


def chain(question: Question) -> tuple[list[tuple[Goal, ...]], int]:
    """The goals of each subtask of PLAN, and which one is the present: that of SUBTASK, else the first that is not done."""
    listed = question.items("PLAN")
    now = next(iter(question.items("SUBTASK")), None)
    if not listed and now is not None:
        listed = [now]
    if not listed:
        return [understand(question.instruction, question.words).goals], 0
    ids = [str(s.get("id", "")) for s in listed]
    wanted = str(now.get("id", "")) if now is not None else ""
    done = next((i for i, s in enumerate(listed) if not _done(s)), len(listed))
    at = ids.index(wanted) if wanted in ids else done
    if question.layer is Layer.S1 and now is None and "SUBTASK" not in question.blocks and done == len(listed):
        at = len(listed)
    return [goals_of(s, question) for s in listed], at


def goals_of(subtask: Mapping[str, Any], question: Question) -> tuple[Goal, ...]:
    """What a subtask's description means; conditions on what was found stay conditions."""
    meaning = understand(str(subtask.get("description", "")), question.words)
    return (*meaning.goals, *(If(w.label, True, w.goals) for w in meaning.watches if w.goals))


def skip(goals: Sequence[Goal], story: Story) -> None:
    """Pass the calls of a subtask that counts as done."""
    for index, goal in enumerate(goals):
        step = want(goal, story, goals[index + 1 :], patient=True)
        if isinstance(goal, Find) and step is not None:
            story.found[goal.label] = not any(c.function == "search" and c.bad for _, c in story.ahead)


def plan(question: Question) -> str:
    """System 2's answer: the subtasks at first, afterwards mostly that they stay."""
    meaning = understand(question.instruction, question.words)
    if not meaning.understood:
        unknown = [g for g in meaning.goals if isinstance(g, Unknown)]
        return f"<give_up>{escape(unknown_words(unknown[0]) if unknown else 'I do not know how to do that.')}</give_up>"
    wanted = written(meaning, question)
    listed = question.items("PLAN")
    if not listed:
        return "\n".join([*(_subtask(*w) for w in wanted), *(_event(w) for w in meaning.watches)])
    if all(_done(s) for s in listed) and not _missing(wanted, listed, question):
        return "<achieved/>"
    if _missing(wanted, listed, question):
        kept = [_kept(w, listed) for w in wanted]
        return "\n".join([*(k for k in kept if k), *(_event(w) for w in meaning.watches)])
    if (why := hopeless(question)) is not None:
        return f"<give_up>{escape(why[:1].upper() + why[1:])}</give_up>"
    return "<keep/>"


def hopeless(question: Question) -> str | None:
    """Why the plan cannot be carried out any more, going by what was done; None while something is left to try."""
    parts, current = chain(question)
    story = Story(question.words, question.facts, list(question.calls))
    for index, goals in enumerate(parts):
        rest = tuple(g for part in parts[index + 1 :] for g in part)
        if index < current:
            skip(goals, story)
            continue
        step = pursue_part(goals, rest, story)
        if isinstance(step, Stuck):
            return step.why
        if step is not None:
            return None
    return None


def written(meaning: Meaning, question: Question) -> list[tuple[str, str, str]]:
    """Description, criteria and watched fields of each subtask."""
    start = point(question.facts)
    lines: list[tuple[str, str, str]] = []
    for before, goal in zip((None, *meaning.goals), meaning.goals, strict=False):
        sent = isinstance(before, GoTo) and isinstance(goal, Find) and before.waypoints == goal.waypoints
        if isinstance(goal, Find) and goal.waypoints and not sent and not _there(goal, question):
            lines.append(_line(GoTo(goal.waypoints, goal.name)))
        lines.append(_line(_placed(goal, start)))
    if not lines:
        lines.append(("watch out and stay where you are until told otherwise", "the user ends it", ""))
    return lines


def _placed(goal: Goal, start: tuple[float, float] | None) -> Goal:
    """The goal with the point of the map that its words refer to."""
    if isinstance(goal, Return) and goal.at is None and start is not None:
        return Return((round(start[0], 1) + 0.0, round(start[1], 1) + 0.0))
    if isinstance(goal, If):
        return If(goal.label, goal.found, tuple(_placed(g, start) for g in goal.goals))
    return goal


def _there(goal: Find, question: Question) -> bool:
    inside = room(question.facts)
    return bool(inside) and any(w == inside or w.split("_")[0] == inside for w in goal.waypoints)


def _line(goal: Goal) -> tuple[str, str, str]:
    words = goal.words()
    return words[:1].upper() + words[1:], _criteria(goal), "object_detections" if isinstance(goal, Find) else ""


def _criteria(goal: Goal) -> str:
    if isinstance(goal, Find):
        where = "the room has" if goal.here else f"the {goal.name} has" if goal.name else "every place has"
        return f"{a(goal.label)} was found, or {where} been checked"
    if isinstance(goal, GoTo):
        return f"it is in the {goal.name}"
    if isinstance(goal, Approach | Face):
        return f"the {goal.label} is in front of it"
    if isinstance(goal, Picture):
        return "a picture was kept"
    if isinstance(goal, Return):
        return "it is where it started"
    if isinstance(goal, Look | Report):
        return "it was said aloud"
    if isinstance(goal, If):
        return f"it was done, or {'no ' + goal.label if goal.found else a(goal.label)} was found"
    return "it was done" if isinstance(goal, Do) else "an answer was given"


def _subtask(description: str, criteria: str, watch: str) -> str:
    watched = f" watch={quoteattr(watch)}" if watch else ""
    return f"<subtask criteria={quoteattr(criteria)}{watched}>{escape(description)}</subtask>"


def _event(watch: Watch) -> str:
    words = " and ".join(g.words() for g in watch.goals) or "stop: this subtask is done"
    condition = quoteattr(f"visible('{watch.label}')")
    return f"<event cond={condition}>{escape(words[:1].upper() + words[1:])}</event>"


def ends(response: str) -> bool:
    """Whether the response to an event is that what was being done is over."""
    return bool(re.search(r"\b(?:sub)?task is (?:done|over|complete)\b", response.lower()))


def _done(subtask: Mapping[str, Any]) -> bool:
    return str(subtask.get("status", "")).upper() == "DONE"


def _key(description: str, question: Question) -> tuple[str, ...]:
    """What a description means, without coordinates and without wording."""
    goals = understand(description, question.words).goals
    return tuple(f"{type(g).__name__} {g.words().split(' at x')[0].lower()}" for g in goals)


def _missing(wanted: Sequence[tuple[str, str, str]], listed: Sequence[Mapping[str, Any]], question: Question) -> bool:
    """Whether the plan lacks something that the instruction asks for. Going somewhere first is a means, no end."""
    have = {k for s in listed for k in _key(str(s.get("description", "")), question)}
    need = [k for w in wanted for k in _key(w[0], question)]
    if _key(question.instruction, question) and set(_key(question.instruction, question)) <= have:
        return False
    return any(k not in have for k in need if not k.startswith("GoTo"))


def _kept(line: tuple[str, str, str], listed: Sequence[Mapping[str, Any]]) -> str:
    for known in listed:
        if str(known.get("description", "")).lower() == line[0].lower():
            return "" if _done(known) else f"<subtask id={quoteattr(str(known.get('id', '')))}/>"
    return _subtask(*line)
