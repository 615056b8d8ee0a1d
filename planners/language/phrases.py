# SPDX-License-Identifier: Apache-2.0
"""List what people can say to a robot: sentences that its parser understands, for each skill."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from planners.language.lexicon import EXAMPLES, FILLERS
from planners.language.skills import Entry
from planners.language.words import clean, words_of

KEPT = 10
"""Characters that are kept free for each sentence still to be found."""
_SENTENCE = re.compile(r"(?<=\.)\s")
_TAG = re.compile(r"<([^\s/>]+)")
_BUILT_IN = ('say "hello"', "wait 2 seconds", "stop"), ("说“你好”", "等2秒", "停")


@dataclass(frozen=True)
class Phrases:
    """Hold sentences that make a robot use one skill, in English and in Chinese, and what the skill does."""

    skill: str
    does: str
    english: tuple[str, ...] = ()
    chinese: tuple[str, ...] = ()


class Phrasebook:
    """Find sentences for the skills of a robot. `read` returns the stream for a sentence, "" where it is not understood;
    a robot that `speaks` has a voice."""

    def __init__(self, entries: Sequence[Entry], read: Callable[[str], str], *, speaks: bool) -> None:
        self._entries, self._read, self._speaks = entries, read, speaks
        self._built_in = tuple(said if speaks else said[1:] for said in _BUILT_IN)

    def phrases(self, most: int = 3) -> list[Phrases]:
        """Return up to `most` everyday sentences a language for each skill, and what can be said to every robot.

        A skill without an English one gets a sentence made of its own words.
        """
        found: dict[str, tuple[list[str], list[str]]] = {e.skill.name: ([], []) for e in self._entries}
        for chinese in (False, True):
            for said in EXAMPLES[chinese]:
                if (skill := self._skill(said)) in found and len(found[skill][chinese]) < most:
                    found[skill][chinese].append(said)
        for entry in self._entries:
            name = entry.skill.name
            if not found[name][0]:
                found[name][0].extend(islice((said for said in self._own(entry) if self._skill(said) == name), 1))
        listed = [
            Phrases(e.skill.name, _SENTENCE.split(" ".join(e.skill.description.split()))[0], *map(tuple, found[e.skill.name]))
            for e in self._entries
        ]
        builtin = Phrases("", f"{'Speak, wait,' if self._speaks else 'Wait'} or end everything.", *self._built_in)
        return [*(one for one in listed if one.english), builtin]

    def nearest(self, instruction: str, room: int = 1000, *, chinese: bool = False, count: int = 3) -> list[str]:
        """Return sentences that are understood, for different skills: those with most words of the instruction first.

        They have `room` characters, separators included.
        """
        meant = _meanings(instruction)
        common = sorted([*EXAMPLES[chinese], *self._built_in[chinese]], key=lambda said: -len(meant & _meanings(said)))
        found: dict[str, str] = {}
        for said in chain(common, () if chinese else chain.from_iterable(map(self._own, self._entries))):
            if len(found) == count:
                break
            left = room - sum(len(one) + 2 for one in found.values()) - KEPT * (count - len(found) - 1)
            if len(said) <= left and (source := self._read(said)):
                found.setdefault(_TAG.findall(source)[0] if source.startswith("<") else "", said)
        return list(found.values())

    def _own(self, entry: Entry) -> Iterator[str]:
        """Yield sentences made of a skill's docstring, name and values; not all of them are understood."""
        name = " ".join(k.text for k in entry.name)
        doc = re.split(r"[,.:;(]", entry.skill.description)[0].strip().lower()
        values = [value.replace("_", " ") for p in entry.parameters for value in p.choices]
        yield from (doc, " ".join(k.text for k in entry.name if k.stem not in entry.common), name)
        for value in values:
            yield from (value, f"{value} {name}", f"{name} {value}", f"{doc.split(' ')[0]} the {value}")

    def _skill(self, said: str) -> str:
        """Return the one skill that a sentence uses, "" where it uses none or several."""
        used = set(_TAG.findall(self._read(said)))
        return used.pop() if len(used) == 1 else ""


def _meanings(text: str) -> set[str]:
    """Return the words of a text and what they mean."""
    return {x for w in words_of(clean(text)) if w.kind == "word" and not w.among(FILLERS) for x in (w.text, w.concept)}
