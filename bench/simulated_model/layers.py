# SPDX-License-Identifier: Apache-2.0
"""The honest answer of each layer to its own prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.simulated_model import judging, scheduling, subtasks
from bench.simulated_model.goals import TEXT, Act, Ask, Do, Meaning, Return, flat
from bench.simulated_model.language import understand
from bench.simulated_model.pursuing import found_without_looking, pursue, pursue_part
from bench.simulated_model.question import Question
from bench.simulated_model.seeing import in_sight, point
from bench.simulated_model.story import SPOKEN, Branch, Next, Step, Story, Stuck, Wait
from planners.memory.questions import is_question
from planners.prompts.blocks import Layer

MANY = 24
"""Calls of one answer at most."""


def answer(question: Question, *, greedy: bool = False) -> str:
    """What a competent model says to this prompt. It sees nothing but the prompt. `greedy`: asked for the next step only, it
    takes what is in sight for what it was told to look for elsewhere."""
    if question.layer is Layer.REACT:
        return _react(question, greedy)
    if question.layer is Layer.S1:
        return _steps(question, greedy)
    return _LAYERS[question.layer](question)


def _story(question: Question, *, open_loop: bool = False) -> Story:
    return Story(question.words, question.facts, list(question.calls), start=_start(question), open_loop=open_loop)


def _start(question: Question) -> tuple[float, float] | None:
    """Where the task began: as the prompt tells, or here when nothing was done yet."""
    told = question.task.get("at_start")
    if isinstance(told, Mapping) and (at := point(told)) is not None:
        return at
    for subtask in question.items("PLAN"):
        for goal in flat(subtasks.goals_of(subtask, question)):
            if isinstance(goal, Return) and goal.at is not None:
                return goal.at
    return None if question.calls else point(question.facts)


def _meaning(question: Question) -> Meaning:
    return understand(question.instruction, question.words)


# -- System 1's first action ------------------------------------------------------------------------------------------


def _first(question: Question) -> str:
    """One harmless call that fits, else a sign that it heard."""
    words, meaning = question.words, _meaning(question)
    if is_question(question.instruction) or (meaning.goals and all(isinstance(g, Ask) for g in meaning.goals)):
        return "<none/>"
    step = pursue(meaning.goals, _story(question)) if meaning.goals else None
    first = step.act if isinstance(step, Next) else None
    if first is not None and first.function in words.skills and first.function not in SPOKEN:
        return first.source
    planned = {act.function for goal in flat(meaning.goals) if isinstance(goal, Do) for act in goal.acts}
    for name, source in (("nod", '<nod times="1"/>'), ("stand", "<stand/>")):
        if name in words.skills and name not in planned:
            return source
    return "<none/>"


# -- System 1 ---------------------------------------------------------------------------------------------------------


def _steps(question: Question, greedy: bool) -> str:
    """Steps for the subtask and those after it, as many as there is room for."""
    room = next((int(n) for n in question.blocks.get("ROOM", []) if isinstance(n, (int, float))), 3)
    plan, current = subtasks.chain(question)
    story = _story(question)
    lines: list[str] = []
    for fired in question.items("FIRED"):
        response = str(fired.get("response", ""))
        if subtasks.ends(response):
            return "\n".join(["<subtask_complete/>"] * max(1, len(plan) - current))
        lines += _response(response, question, room)
    for index, goals in enumerate(plan):
        rest = tuple(g for part in plan[index + 1 :] for g in part)
        if index < current:
            subtasks.skip(goals, story)
            continue
        if greedy and index == current:
            goals = tuple(found_without_looking(goals, story))
        while isinstance(step := pursue_part(goals, rest, story), Next | Branch) and _written(lines) < room:
            lines.append(f"<step>{_source(step)}</step>")
            story.add(step)
        if step is not None:
            break
        lines.append("<subtask_complete/>")
    return "\n".join(lines) or "<nothing/>"


def _written(lines: list[str]) -> int:
    return sum(line.startswith("<step") for line in lines)


def _response(text: str, question: Question, room: int) -> list[str]:
    """The steps that answer an event, unless they are queued or run already."""
    meaning = understand(text, question.words)
    pending = [c for c in question.calls if c.pending]
    story = Story(question.words, question.facts, pending)
    lines: list[str] = []
    while len(lines) < room and isinstance(step := pursue(meaning.goals, story), Next):
        lines.append(f"<step>{step.act.source}</step>")
        story.add(step)
    return lines


def _source(step: Next | Branch) -> str:
    return step.act.source if isinstance(step, Next) else step.source


# -- the baselines and the stream of function tokens ------------------------------------------------------------------


def _react(question: Question, greedy: bool) -> str:
    """One call: what looks best now, judged from the instruction, what was done and what is in sight."""
    meaning = _meaning(question)
    story = _story(question)
    step = _noticed(meaning, story)
    step = step or pursue(found_without_looking(meaning.goals, story) if greedy else meaning.goals, story)
    if isinstance(step, Branch):
        step = Wait()
    if isinstance(step, Next):
        return f"<think>{_thought(step, story)}</think>{step.act.source}"
    if isinstance(step, Stuck):
        return _excuse(step, question, "<think>I cannot get any further.</think>")
    return "<think>Everything was done that was asked for.</think><plan_done/>"


def _noticed(meaning: Meaning, story: Story) -> Step | None:
    """What is to be done whenever a thing is seen, if it is in sight now and that was not done just before."""
    for watch in meaning.watches:
        if in_sight(story.facts, watch.label) is None:
            continue
        if watch.ends:
            return Wait()
        last = Story(story.words, story.facts, story.calls[-max(1, len(watch.goals)) :])
        if isinstance(step := pursue(watch.goals, last), Next):
            return step
    return None


def _thought(step: Next, story: Story) -> str:
    last = next((c for c in reversed(story.calls) if not c.pending), None)
    so_far = f"{last.function.replace('_', ' ')} is {last.state.lower()}" if last is not None else "Nothing was done yet"
    return f"{so_far[:1].upper()}{so_far[1:]}; next I {_in_words(step.act)}."


def _in_words(act: Act) -> str:
    if act.function == TEXT:
        return "say it"
    return " ".join((act.function, *act.arguments.values())).replace("_", " ")


def _excuse(step: Stuck, question: Question, before: str = "") -> str:
    said = any(c.function in SPOKEN and c.well for c in question.calls[-2:])
    if said:
        return f"{before}<plan_done/>"
    text = Act(TEXT, {}, f"I could not do it: {step.why.rstrip('.')}.").source
    return f"{before}{text}"


def _whole_plan(question: Question) -> str:
    """All calls in order, as if each went well."""
    meaning = _meaning(question)
    story = _story(question, open_loop=True)
    calls: list[str] = []
    thoughts: list[str] = []
    while len(calls) < MANY and isinstance(step := pursue(meaning.goals, story), Next):
        thoughts.append(f"Step {len(calls) + 1}: {_in_words(step.act)}.")
        calls.append(step.act.source)
        story.add(step)
    if not calls:
        return "I do not know how to do that."
    rows = [f"<wait>{c}</wait>" if c.startswith("<") and i + 1 < len(calls) else c for i, c in enumerate(calls)]
    return "\n".join((f"<think>{' '.join(thoughts)}</think>", *rows))


def _stream(question: Question) -> str:
    """Function tokens up to the first thing that is not known yet; then it asks to be told."""
    meaning = _meaning(question)
    story = _story(question)
    calls: list[str] = []
    step: Step | None = None
    while len(calls) < MANY:
        step = pursue(meaning.goals, story)
        if not isinstance(step, Next):
            break
        calls.append(step.act.source)
        story.add(step)
    body = "".join(f"<wait>{c}</wait>" if c.startswith("<") and i + 1 < len(calls) else c for i, c in enumerate(calls))
    if isinstance(step, Branch | Wait):
        return f"{body}<observe/>" if body else "<plan_done/>"
    if isinstance(step, Stuck):
        return body + _excuse(step, question)
    return body or "<plan_done/>"


_LAYERS: Mapping[Layer, Callable[[Question], str]] = {
    Layer.S1P: _first,
    Layer.S2: subtasks.plan,
    Layer.S3: scheduling.advise,
    Layer.JUDGE: judging.judge,
    Layer.PLAN_AND_EXECUTE: _whole_plan,
    Layer.STREAM: _stream,
}
