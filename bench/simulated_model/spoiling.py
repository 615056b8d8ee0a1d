# SPDX-License-Identifier: Apache-2.0
"""Spoils an honest answer, the same way for every layer: another call, or text that is no answer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from bench.simulated_model.calls import CONTROL
from bench.simulated_model.vocabulary import Vocabulary
from planners.language.compose import tag

_TAG = re.compile(r"<([\w.:\-]+)((?:\s+[\w.:\-]+=\"[^\"]*\")*)\s*/>")
_ATTRIBUTE = re.compile(r'([\w.:\-]+)="([^"]*)"')
_RELATIONS = ("replace", "join", "return")


def wrong_call(answer: str, words: Vocabulary, chance: random.Random) -> str:
    """The answer with one call, place, thing or verdict replaced by another that is possible here."""
    calls = [m for m in _TAG.finditer(answer) if m[1] in words.skills and m[1] not in CONTROL]
    if calls:
        one = chance.choice(calls)
        return answer[: one.start()] + _other_call(one, words, chance) + answer[one.end() :]
    if found := re.match(r"(yes|no|unknown)\b", answer):
        return chance.choice([w for w in ("yes", "no", "unknown") if w != found[1]]) + answer[found.end() :]
    if found := re.search(r'\bis="(\w+)"', answer):
        return answer[: found.start(1)] + chance.choice([r for r in _RELATIONS if r != found[1]]) + answer[found.end(1) :]
    if "<subtask" in answer:
        return _other_subtasks(answer, words, chance)
    if "<none/>" in answer or "<nothing/>" in answer:
        able = [n for n in words.skills if not any(p.required or p.content for p in words.parameters(n).values())]
        call = tag(chance.choice(able), {}) if able else ""
        return (f"<step>{call}</step>" if "<nothing/>" in answer else call) or answer
    if "<keep/>" in answer:
        return "<achieved/>"
    return _swapped(answer, words, chance)


def _other_call(found: re.Match[str], words: Vocabulary, chance: random.Random) -> str:
    """Mostly the same skill with another argument, else another skill that needs none."""
    name, values = found[1], dict(_ATTRIBUTE.findall(found[2]))
    parameters = words.parameters(name)
    changes: list[tuple[str, str]] = []
    for p in parameters.values():
        given = values.get(p.name)
        if p.choices:
            changes += [(p.name, c) for c in p.choices if c != (given or str(p.default))]
        elif p.is_number:
            base = float(given) if given is not None and _is_number(given) else float(p.default or 1)
            changes += [(p.name, f"{v:g}") for v in (-base, base * 2, base + 1) if p.admits(v) and v != base]
    others = [n for n in words.skills if n != name and not any(p.required or p.content for p in words.parameters(n).values())]
    if changes and (not others or chance.random() < 0.7):
        key, value = chance.choice(changes)
        return tag(name, {**values, key: value})
    return tag(chance.choice(others), {}) if others else found[0]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _other_subtasks(answer: str, words: Vocabulary, chance: random.Random) -> str:
    """One subtask too few, two in the wrong order, or one about something else."""
    lines = answer.split("\n")
    at = [i for i, line in enumerate(lines) if line.startswith("<subtask")]
    kind = chance.choice(("drop", "swap", "other")) if len(at) > 1 else "other"
    if kind == "drop":
        del lines[chance.choice(at)]
    elif kind == "swap":
        i = chance.randrange(len(at) - 1)
        lines[at[i]], lines[at[i + 1]] = lines[at[i + 1]], lines[at[i]]
    else:
        i = chance.choice(at)
        lines[i] = _swapped(lines[i], words, chance)
    return "\n".join(lines)


def _swapped(text: str, words: Vocabulary, chance: random.Random) -> str:
    """The text with one thing, place or side exchanged for another."""
    kinds: list[Sequence[str]] = [words.labels, [n.split("_")[0] for n in words.places], ("left", "right")]
    for names in chance.sample(kinds, len(kinds)):
        for name in dict.fromkeys(names):
            others = [n for n in dict.fromkeys(names) if n != name]
            if others and re.search(rf"\b{re.escape(name)}\b", text):
                return re.sub(rf"\b{re.escape(name)}\b", chance.choice(others), text)
    return text


def malformed(answer: str, words: Vocabulary, chance: random.Random) -> str:
    """The answer as no parser wants it: cut in a tag, with a function that does not exist, or with prose around it."""
    ways: list[Callable[[], str]] = [lambda: _cut(answer, chance), lambda: _unknown(answer), lambda: _prose(answer)]
    return chance.choice(ways)()


def _cut(answer: str, chance: random.Random) -> str:
    tags = list(re.finditer(r"<[^>]{3,}>", answer))
    if not tags:
        return answer[: len(answer) // 2] + "<"
    found = chance.choice(tags)
    return answer[: chance.randrange(found.start() + 2, found.end())]


def _unknown(answer: str) -> str:
    found = re.search(r"<([a-z_]+)([^<>]*)>", answer)
    if found is None:
        return f"<perform_action>{answer}</perform_action>"
    name = f"do_{found[1]}_now"
    changed = answer[: found.start()] + f"<{name}{found[2]}>" + answer[found.end() :]
    return changed.replace(f"</{found[1]}>", f"</{name}>", 1)


def _prose(answer: str) -> str:
    return f"Sure! Here is what I would do next:\n```xml\n{answer}\n```\nLet me know if I should change anything."
