# SPDX-License-Identifier: Apache-2.0
"""Spoils an honest answer, the same way for every layer: another call, or text that is no answer."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from bench.simulated_model.prompt import FRAMES, Question
from bench.simulated_model.robot import Robot
from planners.language.compose import tag
from planners.prompts.blocks import Layer

_TAG = re.compile(r"<([\w.:\-]+)((?:\s+[\w.:\-]+=\"[^\"]*\")*)\s*/>")
_ATTRIBUTE = re.compile(r'([\w.:\-]+)="([^"]*)"')


def wrong_call(answer: str, robot: Robot, chance: random.Random) -> str:
    """Return the answer with one call, place, thing or verdict replaced by another that is possible here."""
    able = [n for n in robot.skills if not any(p.required or p.content for p in robot.parameters(n).values())]
    calls = [m for m in _TAG.finditer(answer) if m[1] in robot.skills and m[1] not in FRAMES]
    if calls:
        one = chance.choice(calls)
        return answer[: one.start()] + _other_call(one, robot, able, chance) + answer[one.end() :]
    for pattern, words in (
        (r"^(yes|no|unknown)\b", ("yes", "no", "unknown")),
        (r'\bis="(\w+)"', ("replace", "join", "return")),
    ):
        if found := re.search(pattern, answer):
            return answer[: found.start(1)] + chance.choice([w for w in words if w != found[1]]) + answer[found.end(1) :]
    if "<subtask" in answer:
        return _other_subtasks(answer.split("\n"), robot, chance)
    if "<none/>" in answer or "<nothing/>" in answer:
        call = tag(chance.choice(able), {}) if able else ""
        return (f"<step>{call}</step>" if "<nothing/>" in answer else call) if call else answer
    return "<achieved/>" if "<keep/>" in answer else _swapped(answer, robot, chance)


_ENDS = {Layer.S1: "<subtask_complete/>", Layer.S2: "<achieved/>", Layer.REACT: "<plan_done/>", Layer.STREAM: "<plan_done/>"}


def early_end(answer: str, layer: Layer, chance: random.Random) -> str:
    """Return the answer of one who holds for done what is not: the layer's own word for that, or a plan that breaks off.
    Nothing for a layer that ends nothing."""
    if layer is Layer.PLAN_AND_EXECUTE:
        lines = answer.split("\n")
        return "\n".join(lines[: chance.randrange(2, len(lines))]) if len(lines) > 2 else ""
    return _ENDS.get(layer, "")


def other_plan(question: Question, chance: random.Random) -> str:
    """Return the plan that is to be kept with one subtask too few, two in the wrong order, or one about something else."""
    left = [subtask for subtask in question.items("PLAN") if str(subtask.get("status", "")).upper() != "DONE"]
    lines = [f"<subtask id={quoteattr(str(subtask.get('id', '')))}/>" for subtask in left]
    if not lines:
        return "<keep/>"
    i = chance.randrange(len(lines))
    if len(lines) == 1 or chance.random() < 1 / 3:
        text, criteria = (str(left[i].get(key, "")) for key in ("description", "criteria"))
        lines[i] = f"<subtask criteria={quoteattr(criteria)}>{escape(_swapped(text, question.robot, chance))}</subtask>"
    elif chance.random() < 1 / 2:
        del lines[i]
    else:
        lines[i - 1], lines[i] = lines[i], lines[i - 1]
    return "\n".join(lines)


def _other_call(found: re.Match[str], robot: Robot, able: Sequence[str], chance: random.Random) -> str:
    """Return mostly the same skill with another argument, else another skill that needs none."""
    values = dict(_ATTRIBUTE.findall(found[2]))
    changes: list[tuple[str, str]] = []
    for p in robot.parameters(found[1]).values():
        given = values.get(p.name, str(p.default))
        if p.choices:
            changes += [(p.name, choice) for choice in p.choices if choice != given]
        elif p.is_number:
            base = next(_numbers(given, p.default), 1.0)
            changes += [(p.name, f"{v:g}") for v in (-base, base * 2, base + 1) if p.admits(v) and v != base]
    others = [name for name in able if name != found[1]]
    if changes and (not others or chance.random() < 0.7):
        key, value = chance.choice(changes)
        return tag(found[1], {**values, key: value})
    return tag(chance.choice(others), {}) if others else found[0]


def _numbers(*texts: object) -> Iterator[float]:
    for text in texts:
        try:
            yield float(str(text))
        except ValueError:
            continue


def _other_subtasks(lines: list[str], robot: Robot, chance: random.Random) -> str:
    """Return one subtask too few, two in the wrong order, or one about something else."""
    at = [i for i, line in enumerate(lines) if line.startswith("<subtask")]
    kind = chance.choice(("drop", "swap", "other")) if len(at) > 1 else "other"
    if kind == "drop":
        del lines[chance.choice(at)]
    elif kind == "swap":
        i = chance.randrange(len(at) - 1)
        lines[at[i]], lines[at[i + 1]] = lines[at[i + 1]], lines[at[i]]
    else:
        i = chance.choice(at)
        lines[i] = _swapped(lines[i], robot, chance)
    return "\n".join(lines)


def _swapped(text: str, robot: Robot, chance: random.Random) -> str:
    """Return the text with one thing, place or side exchanged for another."""
    kinds: list[Sequence[str]] = [robot.things, [place.split("_")[0] for place in robot.places], ("left", "right")]
    for names in chance.sample(kinds, len(kinds)):
        for name in dict.fromkeys(names):
            others = [other for other in dict.fromkeys(names) if other != name]
            if others and re.search(rf"\b{re.escape(name)}\b", text):
                return re.sub(rf"\b{re.escape(name)}\b", chance.choice(others), text)
    return text


def malformed(answer: str, chance: random.Random) -> str:
    """Return the answer as no parser wants it: cut in a tag, with a function that does not exist, or with prose around it."""
    way = chance.choice(("cut", "unknown", "prose"))
    tags = list(re.finditer(r"</?([a-z_]+)[^>]*>", answer))
    if way == "prose":
        return f"Sure! Here is what I would do next:\n```xml\n{answer}\n```\nLet me know if I should change anything."
    if not tags:
        return f"<perform_action>{answer}</perform_action>" if way == "unknown" else answer[: len(answer) // 2] + "<"
    if way == "cut":
        found = chance.choice(tags)
        return answer[: chance.randrange(found.start() + 2, found.end())]
    name = tags[0][1]
    return re.sub(rf"(</?){name}\b", rf"\1do_{name}_now", answer)
