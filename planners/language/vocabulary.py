# SPDX-License-Identifier: Apache-2.0
"""The words a skill answers to, taken from its name, docstring, parameters and their allowed values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from planners.language.lexicon import CONCEPT, FILLERS, LIGHT, PHRASES, concept, stem, word_set
from planners.language.units import is_pitch, is_yaw
from planners.prompts.declarations import Declared, Limits, declared
from skill_kernel.skills.skill import Skill

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASIDE_PARAMETERS = word_set("style posture side direction role leg arm speed")
_ASIDE_CHOICES = word_set(
    "normal default low high left right forward backward up down slow fast large small none off on true false"
)
_POSTURES = frozenset({"lie", "sit", "stand", "bow"})
_COMMON = 3


@dataclass(frozen=True)
class Key:
    """A word with its stem and its group of meaning."""

    text: str

    @property
    def stem(self) -> str:
        return stem(self.text)

    @property
    def concept(self) -> str:
        return concept(self.text)


@dataclass(frozen=True)
class Choice:
    """An allowed value of a parameter; `leads` when naming it is enough to mean the skill."""

    value: str
    keys: tuple[Key, ...]
    leads: bool


@dataclass(frozen=True)
class Entry:
    """A skill with its words. `common` are those of its name that many skills share; `verb` is the docstring's first
    word."""

    skill: Skill
    parameters: tuple[Declared, ...]
    name: tuple[Key, ...]
    common: frozenset[str]
    verb: Key | None
    doc: frozenset[str]
    choices: dict[str, tuple[Choice, ...]]
    aims: bool

    @property
    def keeps_open(self) -> bool:
        """Whether it may stand open until it is reset."""
        return "until_reset" in self.skill.injected

    @property
    def endless(self) -> bool:
        """Whether it goes on by itself until it is reset, as music does."""
        says = re.search(r"until (it is )?(reset|stopped)", self.skill.description)
        return self.keeps_open and (says is not None or any(k.concept == "music" for k in self.name))


def entries_of(skills: Sequence[Skill], limits: Limits) -> list[Entry]:
    """The vocabulary of a skill set, in its order."""
    names = {s.name: _keys(_CAMEL.sub("_", s.name)) for s in skills}
    counts = Counter(k.stem for keys in names.values() for k in set(keys))
    common = frozenset(word for word, count in counts.items() if count >= _COMMON and word not in CONCEPT)
    return [_entry(s, names[s.name], common, limits) for s in skills]


def _entry(skill: Skill, name: tuple[Key, ...], common: frozenset[str], limits: Limits) -> Entry:
    parameters = declared(skill, limits)
    sentence = skill.description.split("\n\n")[0].split(". ")[0]
    doc = _keys(sentence)
    aims = any(is_yaw(p) or is_pitch(p) for p in parameters) and any(k.concept in ("head", "look", "camera") for k in name)
    own = frozenset(k.stem for p in parameters for k in _keys(p.name))
    return Entry(
        skill=skill,
        parameters=parameters,
        name=name,
        common=common | own,
        verb=doc[0] if doc else None,
        doc=frozenset(x for k in doc for x in (k.stem, k.concept)) | (frozenset({"turn"}) if aims else frozenset()),
        choices={p.name: _choices(p) for p in parameters if p.kind == "choice"},
        aims=aims,
    )


def _choices(parameter: Declared) -> tuple[Choice, ...]:
    aside = bool({k.text for k in _keys(parameter.name)} & _ASIDE_PARAMETERS)
    made = []
    for value in parameter.choices:
        keys = _keys(value)
        leads = (
            any(k.concept in _POSTURES for k in keys)
            or not aside
            and not any(k.concept in _ASIDE_CHOICES or k.text in _ASIDE_CHOICES for k in keys)
        )
        made.append(Choice(value, keys, leads))
    return tuple(made)


def _keys(text: str) -> tuple[Key, ...]:
    """The words of a name or sentence, phrases joined as in an instruction, fillers left out."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    out: list[Key] = []
    at = 0
    while at < len(words):
        for count in (2, 1):
            plain = PHRASES.get(tuple(words[at : at + count])) if at + count <= len(words) else None
            if plain is not None:
                out += [Key(w) for w in plain if w not in FILLERS and not w.startswith("@")]
                at += count
                break
        else:
            if words[at] not in FILLERS:
                out.append(Key(words[at]))
            at += 1
    return tuple(out)


def unmatched(entry: Entry, matched: set[str]) -> list[str]:
    """Words of the skill's name that the instruction did not name and that narrow its meaning."""
    return [
        k.text
        for k in entry.name
        if k.stem not in matched
        and k.stem not in entry.common
        and k.text not in LIGHT
        and k.text != "play"
        and k.concept not in ("up", "down")
    ]
