# SPDX-License-Identifier: Apache-2.0
"""The words a skill answers to, taken from its name, docstring, parameters and their allowed values; and the unit of a
parameter and the way its sign points."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from planners.language.lexicon import CONCEPT, FILLERS, LIGHT, UNITS, concept, stem, word_set
from planners.language.words import plain_words
from planners.prompts.declarations import Declared, Limits, declared
from skill_kernel.skills.skill import Skill

SPEED = word_set("speed velocity rate pace tempo")
"""How fast: names of parameters, as the four below."""
SIZE = word_set("amplitude size magnitude scale")
VOLUME = word_set("volume loudness")
YAW = word_set("angle yaw heading theta pan")
"""Left and right are its two signs."""
PITCH = word_set("pitch tilt elevation")
"""Up and down are its two signs."""
_COUNTS = word_set("times count repeat repeats repetitions repetition rounds")
_ANGLES = word_set("angle yaw pitch roll heading theta")
_TIMES = word_set("duration seconds time")

STANDARD = {"length": 0.2, "angle": 90.0, "time": 2.0, "count": 1.0}
"""Amount meant when none is named, in base units."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASIDE_PARAMETERS = word_set("style posture side direction role leg arm speed")
_ASIDE_CHOICES = word_set(
    "normal default low high left right forward backward up down slow fast large small none off on true false"
)
_POSTURES = frozenset({"lie", "sit", "stand", "bow"})
_COMMON = 3
_SUFFIX = re.compile(r"_(cm|mm|km|m|deg|degrees|rad|s|sec|secs|seconds|ms|min|pct|percent)$")
_UNIT_WORD = re.compile(
    r"(?<![\w'’])(centi(?:metres?|meters?)|milli(?:metres?|meters?)|kilo(?:metres?|meters?)|metres?|meters?|cm|mm|km|m|degrees?|"
    r"deg|radians?|rad|milliseconds?|seconds?|secs?|ms|s|minutes?|percent)\b|([%°])",
    re.IGNORECASE,
)
_SIGN = re.compile(
    r"(positive|negative)[^.;,]*?\b(left|right|counter-?clockwise|anti-?clockwise|clockwise|up|down|forwards?|backwards?)\b|"
    r"\b(left|right|counter-?clockwise|anti-?clockwise|clockwise|up|down)\b[^.;,]{0,12}\b(positive|negative)\b",
    re.IGNORECASE,
)
_PAIRS = ({"left", "right"}, {"up", "down"}, {"forward", "backward"})


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
    """A skill with its words. `common` are those of its name that many skills share; `verb` is the docstring's first word."""

    skill: Skill
    parameters: tuple[Declared, ...]
    name: tuple[Key, ...]
    common: frozenset[str]
    verb: Key | None
    doc: frozenset[str]
    choices: dict[str, tuple[Choice, ...]]
    aims: bool

    def means(self, *concepts: str) -> bool:
        """Return whether a word of the name belongs to one of these groups of meaning."""
        return any(k.concept in concepts for k in self.name)

    @property
    def keeps_open(self) -> bool:
        """Return whether it may stand open until it is reset."""
        return "until_reset" in self.skill.injected

    @property
    def endless(self) -> bool:
        """Return whether it goes on by itself until it is reset, as music does."""
        says = re.search(r"until (it is )?(reset|stopped)", self.skill.description)
        return self.keeps_open and (says is not None or self.means("music"))

    def unmatched(self, matched: set[str]) -> list[str]:
        """Return the words of the name that the instruction did not name and that narrow its meaning."""
        aside = self.common | matched
        return [
            k.text
            for k in self.name
            if k.stem not in aside and k.text not in LIGHT | {"play"} and k.concept not in ("up", "down")
        ]


def entries_of(skills: Sequence[Skill], limits: Limits) -> list[Entry]:
    """Return the vocabulary of a skill set, in its order."""
    names = {s.name: _keys(_CAMEL.sub("_", s.name).replace("_", " ")) for s in skills}
    counts = Counter(k.stem for keys in names.values() for k in set(keys))
    common = frozenset(word for word, count in counts.items() if count >= _COMMON and word not in CONCEPT)
    return [_entry(s, names[s.name], common, limits) for s in skills]


def _entry(skill: Skill, name: tuple[Key, ...], common: frozenset[str], limits: Limits) -> Entry:
    parameters = declared(skill, limits)
    doc = _keys(skill.description.split("\n\n")[0].split(". ")[0])
    aims = any(sets(p, YAW | PITCH) for p in parameters) and any(k.concept in ("head", "look", "camera") for k in name)
    own = frozenset(k.stem for p in parameters for k in _keys(p.name.replace("_", " ")))
    return Entry(
        skill=skill,
        parameters=parameters,
        name=name,
        common=common | own,
        verb=doc[0] if doc else None,
        doc=frozenset(x for k in doc for x in (k.stem, k.concept)) | ({"turn"} if aims else frozenset()),
        choices={p.name: _choices(p) for p in parameters if p.kind == "choice"},
        aims=aims,
    )


def _choices(parameter: Declared) -> tuple[Choice, ...]:
    aside = bool({k.text for k in _keys(parameter.name.replace("_", " "))} & _ASIDE_PARAMETERS)
    made = []
    for value in parameter.choices:
        keys = _keys(value.replace("_", " "))
        posture = any(k.concept in _POSTURES for k in keys)
        own = not aside and not any(k.concept in _ASIDE_CHOICES or k.text in _ASIDE_CHOICES for k in keys)
        made.append(Choice(value, keys, leads=posture or own))
    return tuple(made)


def _keys(text: str) -> tuple[Key, ...]:
    """Return the words of a name or sentence, phrases joined as in an instruction, fillers left out."""
    return tuple(Key(w.text) for w in plain_words(text) if w.text[:1].isalpha() and w.text not in FILLERS)


def sets(parameter: Declared, names: frozenset[str]) -> bool:
    """Return whether a number is what one of these names says."""
    return parameter.is_number and not names.isdisjoint(parameter.name.lower().split("_"))


def unit_of(parameter: Declared, skill: Skill) -> tuple[str, float] | None:
    """Return the dimension of a numeric parameter and the factor from its unit to the base unit; None when nothing tells.

    Looked for in the name's suffix, in the parameter's description, behind its name in the docstring, and in its name.
    """
    if not parameter.is_number:
        return None
    words = parameter.name.lower().split("_")
    if words[-1] in _COUNTS:
        return ("count", 1.0)
    if suffix := _SUFFIX.search(parameter.name.lower()):
        return UNITS.get("percent" if suffix[1] == "pct" else suffix[1])
    about = re.findall(rf"\b{re.escape(parameter.name)}\b:?([^.;:]*)", " ".join(skill.description.split()))
    for text in (parameter.description, *about):
        if found := _UNIT_WORD.search(text):
            return UNITS.get((found[1] or found[2]).lower())
    if not _TIMES.isdisjoint(words):
        return ("time", 1.0)
    bound = max((abs(b) for b in (parameter.lower, parameter.upper) if b is not None), default=0.0)
    return ("angle", 1.0) if bound > 7 and not _ANGLES.isdisjoint(words) else None


def sign_of(direction: str, parameter: Declared, skill: Skill) -> int:
    """Return +1 or -1 for a direction (left, right, up, down, forward, backward) on this parameter; 0 when it cannot be said.

    The declaration's own words count; without any, left is positive (REP 103) and forward is.
    """
    for text in (parameter.description, skill.description):
        for found in _SIGN.finditer(text):
            word = concept((found[2] or found[3]).lower().replace("-", ""))
            sign = 1 if (found[1] or found[4]).lower() == "positive" else -1
            if word == direction or {word, direction} in _PAIRS:
                return sign if word == direction else -sign
        sideways = sets(parameter, YAW) and direction in ("left", "right")
        if sideways and (turn := re.search(r"(\b(?:counter|anti)-?)?clockwise\b", text, re.IGNORECASE)):
            return 1 if bool(turn[1]) is (direction == "left") else -1
    return {"left": 1, "right": -1, "forward": 1, "backward": -1}.get(direction, 0)


def written(value: float, parameter: Declared) -> str | None:
    """Return a number as the parameter's type wants it; None when a whole number is wanted and it is none."""
    value = round(value, 6) + 0.0
    if parameter.kind == "int":
        return str(round(value)) if abs(value - round(value)) < 1e-6 else None
    return f"{value:.6f}".rstrip("0").rstrip(".")


def fraction(parameter: Declared, share: float) -> float | None:
    """Return a share (0 to 1) of the parameter's range; None when it has no range."""
    if parameter.lower is None or parameter.upper is None:
        return None
    value = parameter.lower + share * (parameter.upper - parameter.lower)
    return float(round(value)) if parameter.kind == "int" else round(value, 3)
