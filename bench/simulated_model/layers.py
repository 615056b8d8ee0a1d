# SPDX-License-Identifier: Apache-2.0
"""The honest answer of each layer to its own prompt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from bench.simulated_model.chinese import to_people
from bench.simulated_model.games import play
from bench.simulated_model.judging import advise, judge
from bench.simulated_model.phrases import TEXTS, Goal, Meaning, asks_memory, understand, words
from bench.simulated_model.policies import (
    PausedError,
    Run,
    StuckError,
    in_sight_is_found,
    outstanding,
    remembered_places,
    skip,
    tried,
)
from bench.simulated_model.prompt import SPOKEN, TEXT, Call, Facts, Question, said, with_article
from bench.simulated_model.robot import Spot
from bench.simulated_model.table import Planning
from planners.prompts.blocks import Layer

MANY = 24
"""Calls of one answer at most."""
_ANSWER = re.compile(r"answer to the question: (.*?) \[record")
_DAYS = {"yesterday": "yesterday ", "today": "at ", "": ""}
"""Beginning of a line of MEMORY that tells of that day."""
_ENDS = re.compile(r"\b(?:sub)?task is (?:done|over|complete)\b")


def answer(question: Question, *, greedy: bool = False, planning: Planning = "done") -> str:
    """Return what a competent model says to this prompt, of which it sees the text and nothing else. `greedy`: it takes what is
    in sight for what it was told to look for elsewhere, where it is asked for the next steps only. `planning`: how System 2
    plans again."""
    if question.layer in (Layer.REACT, Layer.S1):
        return (_react if question.layer is Layer.REACT else _steps)(question, greedy)
    if question.layer is Layer.S2:
        return _subtasks(question, planning)
    return _LAYERS[question.layer](question)


def _meaning(question: Question, text: str | None = None) -> Meaning:
    """Return what the task asks for, or another text, with what MEMORY tells of it put in."""
    meaning = understand(question.instruction if text is None else text, question.robot)
    return replace(meaning, goals=tuple(_remembered(goal, question) for goal in meaning.goals))


def _remembered(goal: Goal, question: Question) -> Goal:
    """Return the goal without the question to the memory, where the prompt holds the answer and nobody has asked."""
    asked = any(call.function == "query_memory" for call in question.calls)
    for line in (line for line in question.blocks.get("MEMORY", []) if isinstance(line, str) and not asked):
        if goal.kind == "ask" and (answered := _ANSWER.match(line)):
            return Goal("do", name=goal.name, calls=(said(f"{answered[1]}."),))
        told = goal.kind == "recall" and line.startswith(_DAYS[goal.name])
        if told and (places := remembered_places(line, goal.thing, question.robot)):
            return Goal("go", places=places, name=places[0].split("_")[0])
    return goal


def _run(question: Question, room: int = 1, **options: bool) -> Run:
    """Return a replay from where the task began: as the prompt tells, or here where nothing was done yet."""
    task = next(iter(question.items("TASK")), {})
    begun = task.get("at_start") or next(iter(question.items("BEGAN")), None)
    told = [
        Facts(begun).spot if isinstance(begun, dict) else None,
        *(g.at for part in _plan(question)[0] for g in _flat(part) if g.kind == "home"),
    ]
    here = None if question.calls else question.facts.spot
    return Run(question, room, **options, start=next((spot for spot in told if spot is not None), here))


def _flat(goals: Sequence[Goal]) -> Iterator[Goal]:
    for goal in goals:
        yield goal
        yield from _flat(goal.goals)


# -- System 1 ---------------------------------------------------------------------------------------------------------


def _first(question: Question) -> str:
    """Return one harmless call that fits, else a sign that it heard."""
    skills, goals = question.robot.skills, _meaning(question).goals
    if asks_memory(question.instruction) or (goals and all(goal.kind == "ask" for goal in goals)):
        return "<none/>"
    run = _run(question)
    tried(run, goals)
    if run.written and run.written[0].function in set(skills) - set(SPOKEN):
        return run.written[0].source
    planned = {call.function for goal in _flat(goals) for call in goal.calls}
    signs = (Call("nod", {"times": "1"}), Call("stand"))
    return next((sign.source for sign in signs if sign.function in skills and sign.function not in planned), "<none/>")


def _plan(question: Question) -> tuple[list[tuple[Goal, ...]], int]:
    """Return the goals of each subtask, and which is the present one: that of SUBTASK, else the first that is not done."""
    wanted = next((item for item in question.blocks.get("SUBTASK", []) if isinstance(item, str)), "")
    listed = question.items("PLAN")
    if not listed:
        return [_meaning(question).goals], 0
    ids = [str(subtask.get("id", "")) for subtask in listed]
    done = next((i for i, subtask in enumerate(listed) if not _done(subtask)), len(listed))
    return [_goals(subtask, question) for subtask in listed], ids.index(wanted) if wanted in ids else done


def _goals(subtask: Mapping[str, Any], question: Question) -> tuple[Goal, ...]:
    meaning = _meaning(question, str(subtask.get("description", "")))
    return (*meaning.goals, *(watch for watch in meaning.watches if watch.goals))


def _done(subtask: Mapping[str, Any]) -> bool:
    return str(subtask.get("status", "")).upper() == "DONE"


def _steps(question: Question, greedy: bool) -> str:
    """Return steps for the subtask and those after it, as many as there is room for."""
    room = next((n for n in question.blocks.get("MAY ADD", []) if isinstance(n, int)), 3)
    plan, current = _plan(question)
    run = _run(question, room, branches=True)
    lines: list[str] = []
    for fired in question.items("FIRED"):
        response = str(fired.get("response", ""))
        if _ENDS.search(response.lower()):
            return "\n".join(["<subtask_complete/>"] * max(1, len(plan) - current))
        reply = run.fork(at=0, calls=[call for call in run.calls if call.pending])
        tried(reply, understand(response, question.robot).goals)
        lines += [f"<step>{call.source}</step>" for call in reply.written]
    run.room = max(0, room - len(lines))
    for index, goals in enumerate(plan):
        if index < current:
            skip(run, goals)
            continue
        goals = tuple(in_sight_is_found(goals, question.facts)) if greedy and index == current else goals
        rest = [goal for part in plan[index + 1 :] for goal in part]
        begun = len(run.written)
        ended = tried(run, goals, rest)
        lines += [f"<step>{call.source}</step>" for call in run.written[begun:]]
        if ended is not None:
            break
        lines.append("<subtask_complete/>")
    return "\n".join(lines) or "<nothing/>"


# -- System 2 ---------------------------------------------------------------------------------------------------------


def _subtasks(question: Question, planning: Planning) -> str:
    """Return the subtasks at first, afterwards mostly that they stay."""
    meaning, listed = _meaning(question), question.items("PLAN")
    if not meaning.understood:
        why = next((call.arguments["text"] for goal in meaning.goals for call in goal.calls), "I do not know how to do that.")
        return f"<give_up>{escape(to_people(why, question.instruction))}</give_up>"
    goals = list(_written(meaning.goals, question, question.facts.spot, way_first=planning != "naive"))
    events = [_event(watch) for watch in meaning.watches]
    if not listed and (planning == "words" or not question.blocks.get("CLAIM")):
        return "\n".join([*(_subtask(goal, planning) for goal in goals), *events])
    if planning != "words":
        return _planned_again(question, meaning, listed, planning)
    have = {_key(goal) for subtask in listed for goal in _goals(subtask, question)}
    if any(_key(goal) not in have for goal in goals if goal.kind != "go") and not have >= {_key(g) for g in meaning.goals}:
        known = {str(subtask.get("description", "")).lower(): subtask for subtask in listed}
        kept = [(goal, known.get(words(goal).lower())) for goal in goals]
        lines = [
            _subtask(goal, planning) if old is None else f"<subtask id={_attribute(old)}/>"
            for goal, old in kept
            if not (old and _done(old))
        ]
        return "\n".join([*lines, *events])
    if question.blocks.get("CLAIM") or all(_done(subtask) for subtask in listed):
        return "<achieved/>"
    plan, current = _plan(question)
    run = _run(question)
    for goals_done in plan[:current]:
        skip(run, goals_done)
    why_not = tried(run, [goal for part in plan[current:] for goal in part])
    if isinstance(why_not, StuckError) and not run.written:
        return f"<give_up>{escape(to_people(_sentence(str(why_not)), question.instruction))}</give_up>"
    return "<keep/>"


def _planned_again(question: Question, meaning: Meaning, listed: Sequence[Mapping[str, Any]], planning: Planning) -> str:
    """Return what is to become of a plan by what DONE and RUNNING do not bear out of the task: it stays where its open subtasks
    are just that. Of a task that is held for done no subtask counts as open."""
    claimed, run = bool(question.blocks.get("CLAIM")), _run(question)
    missing, ended = outstanding(run, meaning.goals)
    if isinstance(ended, StuckError) and not run.written:
        return f"<give_up>{escape(to_people(_sentence(str(ended)), question.instruction))}</give_up>"
    if isinstance(ended, PausedError) and not run.written:
        # The first of these is under way, and with a choice that is being made all of them.
        missing = () if any(call.branches and call.pending for call in run.calls) else missing[1:]
    left = [subtask for subtask in listed if not (claimed or _done(subtask))]
    known = [(_key(goal), f"<subtask id={_attribute(subtask)}/>") for subtask in left for goal in _goals(subtask, question)]
    wanted = [_key(goal) for goal in missing]
    if [key for key, _ in known if key in wanted] != wanted:
        lines: list[str] = []
        for goal in _written(missing, question, run.start, way_first=planning != "naive"):
            kept = next((one for one in known if one[0] == _key(goal)), None)
            if kept is None:
                lines.append(_subtask(goal, planning))
            else:
                known.remove(kept)
                lines += [] if kept[1] in lines else [kept[1]]
        return "\n".join([*lines, *(_event(watch) for watch in meaning.watches)])
    under_way = any(call.pending for call in run.calls)
    return "<achieved/>" if claimed or not (left or under_way) else "<keep/>"


def _written(goals: Sequence[Goal], question: Question, start: Spot | None, *, way_first: bool) -> Iterator[Goal]:
    """Yield a goal a subtask, the way to the place of a search before it, and the point where the task began."""
    before = None
    for goal in goals:
        there = any(question.facts.room in (place, place.split("_")[0]) for place in goal.places)
        way = goal.kind == "find" and goal.places and not there and not (before and before.places == goal.places)
        if way and way_first:
            yield Goal("go", places=goal.places, name=goal.name)
        yield _placed(goal, start)
        before = goal
    if not goals:
        yield Goal("do", name="watch out and stay where you are until told otherwise")


def _placed(goal: Goal, start: Spot | None) -> Goal:
    if goal.kind == "home" and goal.at is None and start is not None:
        return replace(goal, at=(round(start[0], 1) + 0.0, round(start[1], 1) + 0.0))
    return replace(goal, goals=tuple(_placed(inner, start) for inner in goal.goals))


def _key(goal: Goal) -> str:
    """Return what is equal for goals that mean the same, whether or not they say where the task began."""
    return f"{goal.kind} {words(_placed(goal, (0.0, 0.0))).partition(' at x')[0].lower()}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _attribute(subtask: Mapping[str, Any]) -> str:
    return quoteattr(str(subtask.get("id", "")))


def _subtask(goal: Goal, planning: Planning) -> str:
    criteria = TEXTS[goal.kind][1].format(name=goal.name, thing=goal.thing, a_thing=with_article(goal.thing))
    if planning == "criteria":
        criteria = _expression(goal) or criteria
    watched = ' watch="object_detections"' if goal.kind == "find" else ""
    return f"<subtask criteria={quoteattr(criteria)}{watched}>{escape(_sentence(words(goal)))}</subtask>"


def _expression(goal: Goal) -> str:
    """Return what proves that a goal is reached, as an expression over the observation and the trace, where one fits."""
    rooms = {place.split("_")[0] for place in goal.places}
    if goal.kind == "go" and len(rooms) == 1:
        return f"room() == '{rooms.pop()}'"
    if goal.kind == "face":
        return f"visible('{goal.thing}') and abs(bearing_to('{goal.thing}')) < 15"
    if goal.kind == "approach":
        return f"done('approach') and distance_to('{goal.thing}') < 1.5"
    if goal.kind == "picture":
        return "done('take_pic')"
    if goal.kind != "do":
        return ""
    times = Counter[str]()
    for call in goal.calls:
        times[call.function] += int(call.arguments.get("times", 1))
    return " and ".join(f"times_done('{name}') >= {count}" for name, count in times.items() if name not in SPOKEN)


def _event(watch: Goal) -> str:
    response = " and ".join(words(goal) for goal in watch.goals) or "stop: this subtask is done"
    condition = quoteattr(f"visible('{watch.thing}')")
    return f"<event cond={condition}>{escape(_sentence(response))}</event>"


# -- the baselines and the stream of function tokens ------------------------------------------------------------------


def _react(question: Question, greedy: bool) -> str:
    """Return one call: what looks best now, by the instruction, what was done and what is in sight."""
    meaning, run = _meaning(question), _run(question)
    goals = in_sight_is_found(meaning.goals, question.facts) if greedy else meaning.goals
    ended: Exception | None = None
    for watch in meaning.watches:
        if question.facts.seen(watch.thing):
            goals = () if not watch.goals else goals
            noticed = run.fork(calls=run.calls[-max(1, len(watch.goals)) :])
            tried(noticed, watch.goals)
            run.written = run.written or noticed.written
    if not run.written:
        _, ended = outstanding(run, goals)
    if run.written:
        return f"<think>{_thought(run)}</think>{run.written[0].source}"
    if isinstance(ended, StuckError):
        return f"<think>I cannot get any further.</think>{_excuse(ended, question)}"
    return "<think>Everything was done that was asked for.</think><plan_done/>"


def _thought(run: Run) -> str:
    last = next((call for call in reversed(run.calls) if not call.pending), None)
    so_far = f"{last.function.replace('_', ' ')} is {last.state.lower()}" if last is not None else "nothing was done yet"
    return f"{_sentence(so_far)}; next I {_in_words(run.written[0])}."


def _in_words(call: Call) -> str:
    return "say it" if call.function == TEXT else " ".join((call.function, *call.values.values())).replace("_", " ")


def _excuse(why: Exception, question: Question) -> str:
    if any(call.function in SPOKEN and call.well for call in question.calls[-2:]):
        return "<plan_done/>"
    return said(to_people(f"I could not do it: {str(why).rstrip('.')}.", question.instruction)).source


def _in_order(calls: Sequence[Call]) -> list[str]:
    """Return the calls so that each waits for the one before."""
    last = len(calls) - 1
    return [c.source if c.function == TEXT or i == last else f"<wait>{c.source}</wait>" for i, c in enumerate(calls)]


def _whole_plan(question: Question) -> str:
    """Return all calls in order, as if each went well."""
    goals = _meaning(question).goals
    missing, _ = outstanding(_run(question), goals)
    run = _run(question, MANY, blind=True)
    skip(run, goals[: len(goals) - len(missing)])
    tried(run, missing)
    thoughts = [f"Step {number}: {_in_words(call)}." for number, call in enumerate(run.written, 1)]
    return (
        "\n".join([f"<think>{' '.join(thoughts)}</think>", *_in_order(run.written)])
        if thoughts
        else "I do not know how to do that."
    )


def _stream(question: Question) -> str:
    """Return function tokens up to the first result that is not known yet, and ask to be told."""
    if (played := play(question)) is not None:
        return played
    run = _run(question, MANY)
    ended = tried(run, _meaning(question).goals)
    body = "".join(_in_order(run.written))
    if isinstance(ended, StuckError):
        return body + _excuse(ended, question)
    return f"{body}<observe/>" if body and ended is not None else body or "<plan_done/>"


_LAYERS: Mapping[Layer, Callable[[Question], str]] = {
    Layer.S1P: _first,
    Layer.S3: advise,
    Layer.JUDGE: judge,
    Layer.PLAN_AND_EXECUTE: _whole_plan,
    Layer.STREAM: _stream,
}
