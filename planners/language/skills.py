# SPDX-License-Identifier: Apache-2.0
"""Find the skill that a clause names and fill its parameters; every word must be accounted for, or nothing of it is done.

The words a skill answers to come from its name, docstring, parameters and their allowed values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile

from function_tokens.markup import escape
from planners.language.compose import Item, element, in_a_row, repeated, tag
from planners.language.lexicon import (
    CONCEPT,
    FILLERS,
    LIGHT,
    NUMBERS,
    RELATED,
    RELATIONS,
    ROLES,
    UNITS,
    Reason,
    concept,
    stem,
    unit_name,
    word_set,
)
from planners.language.words import TURN_NOUNS, Word, plain_words
from planners.prompts.prompt import Declared, declared
from skill_kernel.skills.arguments import ArgumentError, Limits, bind
from skill_kernel.skills.skill import Skill

DIRECTIONS = ("left", "right", "forward", "backward", "up", "down")
MAX_REPEATS = 20

_COUNTS = word_set("times count repeat repeats repetitions repetition rounds")
_ANGLES = word_set("angle yaw pitch roll heading theta")
_TIMES = word_set("duration seconds time")
_STANDARD = {"length": 0.2, "angle": 90.0, "time": 2.0, "count": 1.0}
"""Amount meant when none is named, in base units."""
_STEP = 0.25
"""A step, as a share of how far it walks when nothing is said."""
_SHARES = {"slow": 0.25, "fast": 0.8, "small": 0.25, "large": 0.8}
MEANINGLESS = word_set("the your please")
"""Words that a clause can do without, of at least three letters and far from those that say anything."""
_LOUD = {"loud": 0.8, "loudly": 0.8, "quiet": 0.25, "quietly": 0.25, "softly": 0.25}
_LEVELS = {"full": 1.0, "maximum": 1.0, "top": 1.0, "high": 0.8, "half": 0.5, "low": 0.25}

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASIDE_PARAMETERS = word_set("style posture side direction role leg arm speed")
_ASIDE_CHOICES = word_set(
    "normal default low high left right forward backward up down slow fast large small none off on true false"
)
_OBJECTS = word_set("x target place waypoint area room thing object location goal destination point space what door")
"""Names of parameters whose values are places and things."""
_BESIDE = re.compile(r"^(?:in_front_of|next_to|beside|near|at)_(?=.)")
"""Beginning of a place's name that nobody says who is sent there."""
_THING_NAMES = word_set("target thing object")
_POSTURES = frozenset({"lie", "sit", "stand", "bow"})
_SIDE_VERBS = word_set("move step walk shift")
_HANDS = word_set("face give get put set look show")
"""Light words that ask a skill that moves the robot for more than it does."""
_HANDLING, _UP_OR_DOWN = word_set("put place release drop pick take grasp"), word_set("up down out off")
"""What a hand does with things, and words that such verbs take."""
_PREPOSITIONS, _PEOPLE = word_set("on in at for of to with like"), word_set("me us you")
_THINGS = word_set("it its")
_AIMS = word_set("to up into towards toward @me")
"""Words between a verb of moving and the place or thing where the way ends."""
_VERY_LIGHT = LIGHT - {"look"}
"""Words that never name a skill."""
_NO_DEEDS = word_set("let positive negative")
"""Words of a docstring that name no deed; the last two turn a number round."""
_COMMON = 3
"""A word in the names of so many skills does not tell them apart."""
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
_SIGNS = {"left": 1, "right": -1, "forward": 1, "backward": -1}
"""Signs of directions where the declaration tells none (REP 103)."""


class CannotDo(Reason):
    """A command is understood, but cannot be carried out; the text says why, with the range."""


class NotUnderstood(Exception):
    """A clause means nothing this robot can do; `words` are those nothing accounts for, `objects` the places and things that
    its verb takes."""

    def __init__(self, words: Sequence[Word], objects: Sequence[str] = ()) -> None:
        super().__init__(" ".join(w.text for w in words))
        self.words, self.objects = tuple(words), tuple(objects)


@dataclass(frozen=True)
class Parameter(Declared):
    """A parameter with its `roles`, its unit (`dimension`, and `factor` to the base unit; "" when nothing tells), and the
    texts that may say how its sign points."""

    roles: frozenset[str] = frozenset()
    dimension: str = ""
    factor: float = 1.0
    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, one: Declared, skill: Skill) -> Parameter:
        """Return a declared parameter of a skill with what its name and description say."""
        parts = one.name.lower().split("_")
        roles = frozenset(role for role, names in ROLES.items() if one.is_number and not names.isdisjoint(parts))
        dimension, factor = _unit(one, skill) if one.is_number else ("", 1.0)
        return cls(**vars(one), roles=roles, dimension=dimension, factor=factor, texts=(one.description, skill.description))

    def sign(self, direction: str) -> int:
        """Return +1 or -1 for a direction on this parameter; 0 when it cannot be said."""
        for text in self.texts:
            for found in _SIGN.finditer(text):
                word = concept((found[2] or found[3]).lower().replace("-", ""))
                sign = 1 if (found[1] or found[4]).lower() == "positive" else -1
                if word == direction or {word, direction} in _PAIRS:
                    return sign if word == direction else -sign
            sideways = "yaw" in self.roles and direction in ("left", "right")
            if sideways and (turn := re.search(r"(\b(?:counter|anti)-?)?clockwise\b", text, re.IGNORECASE)):
                return 1 if bool(turn[1]) is (direction == "left") else -1
        return _SIGNS.get(direction, 0)

    def fraction(self, share: float) -> float | None:
        """Return a share (0 to 1) of the range; None when there is no range."""
        if self.lower is None or self.upper is None:
            return None
        value = self.lower + share * (self.upper - self.lower)
        return float(round(value)) if self.kind == "int" else round(value, 3)

    def written(self, value: float) -> str:
        """Return a number as the type wants it. Raises CannotDo."""
        bound = self.upper if value > 0 else self.lower
        if self.dimension == "length" and bound and abs(value) > abs(bound):
            raise CannotDo("far", metres=abs(value) * self.factor, most=abs(bound) * self.factor)
        if not self.admits(value):
            unit = f" ({self.description})" if self.description else f" {unit_name(self.dimension, self.factor)}".rstrip()
            raise CannotDo("range", name=self.name, value=value, allowed=self.range_text(), unit=unit)
        value = round(value, 6) + 0.0
        if self.kind != "int":
            return f"{value:.6f}".rstrip("0").rstrip(".")
        if abs(value - round(value)) >= 1e-6:
            raise CannotDo("whole", name=self.name, value=value)
        return str(round(value))


def _unit(one: Declared, skill: Skill) -> tuple[str, float]:
    """Return dimension and factor of a number.

    Looked for in the name's suffix, in the parameter's description, behind its name in the docstring, and in its name.
    """
    words = one.name.lower().split("_")
    if words[-1] in _COUNTS:
        return "count", 1.0
    if suffix := _SUFFIX.search(one.name.lower()):
        return UNITS["percent" if suffix[1] == "pct" else suffix[1]]
    about = re.findall(rf"\b{re.escape(one.name)}\b:?([^.;:]*)", " ".join(skill.description.split()))
    for text in (one.description, *about):
        if found := _UNIT_WORD.search(text):
            return UNITS.get((found[1] or found[2]).lower(), ("", 1.0))
    if not _TIMES.isdisjoint(words):
        return "time", 1.0
    bound = max((abs(b) for b in (one.lower, one.upper) if b is not None), default=0.0)
    return ("angle" if bound > 7 and not _ANGLES.isdisjoint(words) else ""), 1.0


@dataclass(frozen=True)
class Choice:
    """An allowed value of a parameter; `leads` when naming it is enough to mean the skill."""

    value: str
    keys: tuple[Word, ...]
    leads: bool

    def fit(self, words: Sequence[Word]) -> float:
        """Return how well the words name it: 5 by the word itself, 4 by its group of meaning, 1 by a related one, 0 not."""
        fits = [max((_likeness(key, w) for w in words if w.kind == "word"), default=0.0) for key in self.keys]
        return sum(fits) / len(fits) if fits and all(fits) else 0.0


def _likeness(key: Word, word: Word) -> float:
    if word.stem == key.stem:
        return 5.0
    return 4.0 if word.concept == key.concept else 1.0 if key.concept in RELATED.get(word.concept, ()) else 0.0


class Entry:
    """A skill with its words. `common` are those of its name that many skills share; `verb` is the docstring's first word."""

    def __init__(self, skill: Skill, name: tuple[Word, ...], common: frozenset[str], limits: Limits) -> None:
        self.skill, self.name = skill, name
        self.parameters = tuple(Parameter.of(one, skill) for one in declared(skill, limits))
        self.common = common | {k.stem for p in self.parameters for k in _keys(p.name)}
        doc = _keys(
            re.sub(r"\bhow \w+|\b(?:without|not|never|whose|must)\b.*", "", re.split(r"\n\n|[.:] ", skill.description)[0])
        )
        self.verb = doc[0].stem if doc and not doc[0].among(LIGHT | _NO_DEEDS) else ""
        self.aims = any(p.roles & {"yaw", "pitch"} for p in self.parameters) and self.means("head", "look", "camera")
        said = [k for k in doc if not k.among(LIGHT | RELATIONS | _NO_DEEDS) and k.concept not in DIRECTIONS[:4]]
        self.doc = {x for k in said for x in (k.stem, k.concept)} | ({"turn"} if self.aims else set())
        self.sideways = self.verb == "step" and any({"left", "right"} <= set(p.choices) for p in self.parameters)
        """Return whether it steps to a side."""
        self.walks = (self.means("walk") or self.sideways) and any(p.dimension == "length" for p in self.parameters)
        self.objects = [p.name for p in self.parameters if not _OBJECTS.isdisjoint(p.name.lower().split("_"))]
        """Names of the parameters that are a place or a thing."""
        self.handles = _HANDLING & {*re.findall(r"[a-z]+", skill.description.lower().split(". ")[0])}
        """Words of its docstring for what a hand does with things."""
        goes_far = concept(self.verb) in ("walk", "search", "follow") or bool(self.objects)
        self.moves = self.walks or goes_far or self.means("walk", "turn", "look", "head")
        self.object_values = [v for p in self.parameters if p.name in self.objects for v in p.choices]
        goes = concept(self.verb) in ("walk", "navigat", "approach", "search")
        self.travels = "" if not (goes and self.objects) else "thing" if _THING_NAMES & {*self.objects} else "place"
        """Return where it takes the robot."""
        self.choices = {p.name: _choices(p) for p in self.parameters if p.kind == "choice"}
        self.keeps_open = "until_reset" in skill.injected
        """Return whether it may stand open until it is reset."""
        says = re.search(r"until (it is )?(reset|stopped)", skill.description)
        self.endless = self.keeps_open and (says is not None or self.means("music"))
        """Return whether it goes on by itself until it is reset, as music does."""
        self.direction = next((k.concept for k in name if k.concept in DIRECTIONS), "")
        self.channels = tuple(s for s in skill.subsystems if "{" not in s)

    def means(self, *concepts: str) -> bool:
        """Return whether a word of the name belongs to one of these groups of meaning."""
        return any(k.concept in concepts for k in self.name)

    def unmatched(self, matched: set[str]) -> int:
        """Return how many words of the name the instruction did not name that narrow its meaning."""
        aside = self.common | matched | ({"forward"} if self.means("walk") else set())
        named = [k for k in self.name if k.stem not in aside and k.text not in LIGHT | {"play"}]
        return len([k for k in named if k.concept not in ("up", "down")])

    def opposes(self, other: Entry) -> bool:
        """Return whether two skills differ in their direction only, so that guessing between them would be wrong."""
        rest = [[k.stem for k in e.name if k.concept not in DIRECTIONS] for e in (self, other)]
        both = len({self.direction, other.direction, ""}) == 3
        return both and rest[0] == rest[1] and self.means("walk", "turn")


def _choices(parameter: Declared) -> tuple[Choice, ...]:
    aside = bool({k.text for k in _keys(parameter.name)} & _ASIDE_PARAMETERS)
    # A side alone names nothing; the left tray is a place as any other.
    several = all if _OBJECTS & {*parameter.name.lower().split("_")} else any
    made = []
    for value in parameter.choices:
        keys = _keys(_BESIDE.sub("", value))
        posture = any(k.concept in _POSTURES for k in keys)
        own = not aside and not several(k.concept in _ASIDE_CHOICES or k.text in _ASIDE_CHOICES for k in keys)
        made.append(Choice(value, keys, leads=posture or own))
    return tuple(made)


def _keys(text: str) -> tuple[Word, ...]:
    """Return the words of a name or sentence, phrases joined as in an instruction, fillers left out."""
    words = plain_words(text.replace("_", " "))
    return tuple(w for w in words if w.text[:1].isalpha() and w.text not in FILLERS)


class Attempt:
    """Match of one skill with a clause, with the arguments of its call collected word by word.

    `leads`: the words name the skill. `left_over` are those that it cannot use.
    """

    def __init__(self, entry: Entry, words: Sequence[Word]) -> None:
        self.entry = entry
        self.attributes: dict[str, str] = {}
        self.count, self.bounded = 1, False
        self.verbless = True
        """True when no word named the act."""
        self.open_for_s: float | None = None
        self._signs: dict[str, int] = {}
        self._amounts: dict[str, float] = {}
        self._whole_turn = False
        self.score, self.leads, self._exact = 0.0, False, False
        self._matched: set[str] = set()
        self._content = words
        self._far = any(w.dimension in ("length", "step") for w in words)
        self._turns = any(w.among(TURN_NOUNS) and w.text.endswith("s") for w in words)
        self.left_over = self._read(words)

    def _read(self, content: Sequence[Word]) -> list[Word]:
        rest = self._take_named(list(content))
        for name, choices in self.entry.choices.items():
            rest = self._take_choice(name, choices, rest)
        rest = [w for w in rest if not self._take_name(w)]
        missing, accounted = self.entry.unmatched(self._matched), len(self._matched)
        vague = bool(missing) and not self._exact
        self.score -= missing
        for step in (self._take_direction, self._take_quantity, self._take_manner, self._take_text, self._take_shape):
            rest = [w for w in rest if not step(w)]
        if any(w.kind == "word" and w.stem == "spin" for w in content):
            self._whole_turn = not self._amounts
        left_over = []
        for word in rest:
            if word.kind == "word" and not self.entry.doc.isdisjoint((word.stem, word.concept)):
                self.score += 1
                accounted += 1
                self.verbless = False
            elif self.entry.handles and word.among(_UP_OR_DOWN | self.entry.handles):
                self.verbless = self.verbless and word.among(_UP_OR_DOWN)
            elif not (word.among(LIGHT) and self.leads) or (word.among(_HANDS) and self.entry.moves):
                left_over.append(word)
        if vague and (accounted < 2 or left_over):
            self.leads = False
        return left_over

    @property
    def has_object(self) -> bool:
        """Return whether the words name a place or a thing."""
        return any(name in self.attributes for name in self.entry.objects)

    # -- words --------------------------------------------------------------------------------------------------------

    def _take_named(self, words: list[Word]) -> list[Word]:
        """Use numbers beside names of parameters (`leg 2`, `speed 50`, `50 percent volume`, `half speed`); return the rest."""
        for p in self.entry.parameters:
            stems = {stem(part) for part in p.name.lower().split("_")} if p.is_number or p.choices else set()
            for at, word in enumerate(words):
                role = word.concept in p.roles & {"speed", "volume"} and not word.text.endswith("s")  # “ten paces” are no speed
                if word.kind != "word" or not (word.stem in stems or role):
                    continue
                many = bool(p.choices) and word.text.endswith("s")  # “two legs” are no “leg 2”
                for near in (n for n in (at + 1, at - 1) if 0 <= n < len(words) and not (many and n < at)):
                    if self._take_value(p, words[near]):
                        return self._take_named([w for i, w in enumerate(words) if i not in (at, near)])
        return words

    def _take_value(self, p: Parameter, word: Word) -> bool:
        """Use a word beside the name of a parameter as its value."""
        if word.kind == "number" and f"{word.value:g}" in p.choices:
            self.attributes[p.name] = f"{word.value:g}"
            return True
        value = None
        if word.kind == "number" and p.is_number:
            value = word.value
        elif word.among(_LEVELS):
            value = p.fraction(_LEVELS[word.text])
        elif word.dimension == "percent":
            value = word.value if p.dimension == "percent" else p.fraction(word.value / 100)
        return self._take_amount(p, value)

    def _take_amount(self, p: Parameter, value: float | None) -> bool:
        if value is None or p.name in self._amounts:
            return False
        self._amounts[p.name] = value
        return True

    def _take_choice(self, name: str, choices: Sequence[Choice], words: list[Word]) -> list[Word]:
        """Account for the words that name an allowed value of this parameter, if any do; return the others."""
        fit, at = max(((c.fit(words), -i) for i, c in enumerate(choices)), default=(0.0, 0))
        if fit <= 0:
            return words
        choice = choices[-at]
        self.attributes[name] = choice.value
        self.score += fit
        if choice.leads:
            self.leads = self._exact = True
        wanted = {c for k in choice.keys for c in (k.concept, *RELATED.get(k.concept, ()))}
        return [w for w in words if w.meaning not in wanted]

    def _take_name(self, word: Word) -> bool:
        if word.kind != "word":
            return False
        aside = word.concept in DIRECTIONS or word.among(_VERY_LIGHT)
        for key in self.entry.name:
            if key.stem == word.stem or key.concept == word.concept:
                exact = key.stem == word.stem
                self._matched.add(key.stem)
                self.score += 4 if exact else 3
                self.leads = self.leads or not aside
                self.verbless = self.verbless and aside
                self._exact = self._exact or (exact and not aside)
                return True
        sideways = self.entry.sideways and (word.text in _SIDE_VERBS or (word.meaning == "walk" and self._far))
        verb = (self.entry.verb == word.stem or sideways) and (sideways or not aside)
        if not verb and not (word.concept == "look" and self.entry.aims):
            return False
        self.leads, self._exact, self.verbless = True, True, False
        self.score += 2 if verb else 3
        return True

    def _take_direction(self, word: Word) -> bool:
        direction = word.meaning
        for p in self.entry.parameters:
            if not p.is_number or p.name in self._signs:
                continue
            sideways = "yaw" in p.roles and direction in ("left", "right")
            along = (
                direction in ("forward", "backward")
                and p.dimension == "length"
                and self.entry.walks
                and not self.entry.sideways
            )
            if sideways or along or ("pitch" in p.roles and direction in ("up", "down")):
                sign = p.sign(direction)
                if sign < 0 and p.lower is not None and p.lower >= 0:
                    return False
                if sign:
                    self._signs[p.name] = sign
                return bool(sign)
        if direction == "forward" and self.entry.aims:
            self._amounts.update({p.name: 0.0 for p in self.entry.parameters if p.roles & {"yaw", "pitch"}})
            return True
        return direction == "forward" and self.entry.means("walk")

    def _take_quantity(self, word: Word) -> bool:
        counts = word.kind == "number" and self._counts(word)
        if word.kind not in ("number", "quantity") or (word.kind == "number" and not counts and not self._is_angle(word)):
            return False
        dimension = word.dimension or ("count" if counts else "angle")
        if dimension == "step":
            ways = [p for p in self.entry.parameters if p.dimension == "length" and self.entry.walks]
            return bool(ways) and self._take_amount(ways[0], word.value * self._standard(ways[0]) * _STEP)
        for p in self._candidates(dimension):
            if p.dimension == dimension and self._take_amount(p, word.value / p.factor):
                self.bounded = True
                return True
        if dimension == "count" and word.value % 1 == 0 and word.value >= 1:
            self.count, self.bounded = int(word.value), True
            return True
        if dimension == "time" and self.entry.keeps_open and word.value > 0:
            self.open_for_s = word.value
            return True
        return False

    def _is_angle(self, number: Word) -> bool:
        """Return whether a number without a unit means degrees, as in `turn 45`, not in `turn a quarter` or `2 left turns`."""
        return self.entry.means("turn", "look") and abs(number.value) >= 1 and not self._turns

    def _counts(self, number: Word) -> bool:
        """Return whether a number stands before a plural that names the skill, as in `3 pictures`."""
        after = next((w for w in self._content if w.start >= number.end), None)
        named = after is not None and after.text.endswith("s") and any(k.concept == after.concept for k in self.entry.name)
        named = named and after is not None and after.stem not in self.entry.common
        return named and all(p.dimension not in ("time", "angle", "length") for p in self.entry.parameters)

    def _candidates(self, dimension: str) -> list[Parameter]:
        """Return the parameters for a quantity, those a direction has picked first; an angle never goes to one that only
        shapes the motion."""
        ordered = sorted(self.entry.parameters, key=lambda p: p.name not in self._signs)
        if dimension == "angle":
            angles = [p for p in ordered if "yaw" in p.roles]
            return [p for p in ordered if p.name in self._signs or (not self._signs and (p.required or angles == [p]))]
        return ordered

    def _take_manner(self, word: Word) -> bool:
        share = _SHARES.get(word.meaning, _LOUD.get(word.text))
        if share is None:
            return False
        role = "volume" if word.text in _LOUD else "speed" if word.meaning in ("slow", "fast") else "size"
        return any(role in p.roles and self._take_amount(p, p.fraction(share)) for p in self.entry.parameters)

    def _take_text(self, word: Word) -> bool:
        texts = [p.name for p in self.entry.parameters if p.kind == "text" and p.name not in self.attributes]
        if word.kind != "quote" or not texts:
            return False
        self.attributes[texts[0]] = word.text
        return True

    def _take_shape(self, word: Word) -> bool:
        """Use words that say no more than the movement does: shaking goes from side to side, nodding up and down."""
        values = {concept(v) for v in self.attributes.values()} | {k.concept for k in self.entry.name}
        if word.text in ("@sideways", "@to_and_fro"):
            return bool(values & {"shake", "wave"})
        if word.text == "@spot":
            return not self.entry.means("walk") and not self.entry.walks
        if word.text == "@me":
            people = [p.name for p in self.entry.parameters if "person" in p.choices and p.name not in self.attributes]
            self.attributes |= dict.fromkeys(people, "person")
            return bool(people)
        if word.text == "@with":
            return not self.entry.moves
        if word.text == "take" and any(w.dimension == "step" for w in self._content):
            return True
        if word.text == "both":
            return any(set(p.choices) == {"left", "right"} for p in self.entry.parameters)
        return word.text == "@updown" and "nod" in values

    @property
    def assumed(self) -> Parameter | None:
        """Return the parameter that says how far it walks, where the words did not say that in a unit of length."""
        way = next((p for p in self.entry.parameters if p.dimension == "length"), None) if self.entry.walks else None
        steps = any(w.dimension == "step" for w in self._content)
        return way if way is not None and (steps or way.name not in self._amounts) else None

    # -- arguments ----------------------------------------------------------------------------------------------------

    def complete(self) -> tuple[dict[str, str], int]:
        """Return the attributes to write and how often to call. Raises CannotDo."""
        out, count = dict(self.attributes), self.count
        for p in self.entry.parameters:
            amount, turns = self._amounts.get(p.name), self._whole_turn and "yaw" in p.roles
            if amount is None and (p.name in self._signs or turns):
                amount = self._standard(p)
            if amount is None and p.required and p.name not in out:
                amount = self._missing(p)
            if amount is None:
                continue
            if p.name in self._signs and amount < 0:
                raise CannotDo("contradict", amount=amount)
            amount *= self._signs.get(p.name, 1)
            if turns and not p.admits(amount) and p.name not in self._amounts:
                amount, count = amount / 2, count * 2
            whole = round(abs(amount) * p.factor / 360.0, 6) if "yaw" in p.roles and p.dimension == "angle" else 0.0
            if whole > 1 and whole % 1 == 0 and not p.admits(amount) and p.admits(amount / whole):
                amount, count = amount / whole, count * int(whole)
            out[p.name] = p.written(amount)
        if count > MAX_REPEATS:
            raise CannotDo("too_many", count=count, most=MAX_REPEATS)
        return out, count

    def _standard(self, p: Parameter) -> float:
        """Return the amount meant when only a direction was named, in the parameter's unit."""
        if isinstance(p.default, (int, float)) and not isinstance(p.default, bool) and p.default and not self._whole_turn:
            return abs(float(p.default))
        if not p.dimension:
            raise CannotDo("number", name=p.name)
        wanted = 360.0 if self._whole_turn else 30.0 if self.entry.aims else _STANDARD.get(p.dimension, 0.0)
        bounds = [] if self._whole_turn else [abs(b) for b in (p.lower, p.upper) if b]
        return min(wanted / p.factor, *bounds) if bounds else wanted / p.factor

    def _missing(self, p: Parameter) -> float:
        if (
            p.is_number
            and p.dimension in _STANDARD
            and len([q for q in self.entry.parameters if q.required and q.is_number]) == 1
        ):
            return self._standard(p)
        if p.roles & {"speed", "size", "volume"} and (middle := p.fraction(0.5)) is not None:
            return middle
        allowed = f", one of {', '.join(p.choices)}" if p.choices else f" ({p.range_text()})" if p.range_text() else ""
        raise CannotDo("needs", name=p.name, allowed=allowed)


class Matcher:
    """Turns clauses into calls of the given skills. `sleep` is the robot's tag of that built-in."""

    def __init__(self, skills: Iterable[Skill], limits: Limits, *, sleep: str = "sleep") -> None:
        self._limits, self._sleep = limits, sleep
        names = [(s, _keys(_CAMEL.sub("_", s.name))) for s in skills if not s.speaks_text]
        counts = Counter(text for _, keys in names for text in {k.stem for k in keys})
        common = frozenset(word for word, count in counts.items() if count >= _COMMON and word not in CONCEPT)
        self.entries = [Entry(skill, keys, common, limits) for skill, keys in names]

    def item(self, words: Sequence[Word]) -> Item:
        """Return the call or calls a clause stands for.

        Raises NotUnderstood when no skill accounts for all of its words, CannotDo when one does but a value does not fit.
        """
        best = self._best(words)
        return in_a_row([self._emit(best, side) for side in _sides(best, words)])

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        """Words that name a skill or an allowed value, and those that mean the same."""
        choices = [choice for entry in self.entries for several in entry.choices.values() for choice in several]
        keys = [key for one in (*[e.name for e in self.entries], *[c.keys for c in choices]) for key in one]
        meanings = {k.concept for k in keys} | {*DIRECTIONS}
        return frozenset({k.text for k in keys} | {word for word, group in CONCEPT.items() if group in meanings})

    def meant(self, words: Sequence[Word]) -> tuple[Word | None, list[str]]:
        """Return the one word of a clause that nobody knows, and the words that it may misspell."""
        odd = [w for w in words if w.kind == "word" and w.text.isascii() and w.text.isalpha() and not self.knows(w)]
        if len(odd) != 1:
            return None, []
        slips = {word: slip(odd[0].text, word) for word in self._vocabulary | MEANINGLESS}
        return odd[0], sorted(word for word, size in slips.items() if size)

    @cached_property
    def _deeds(self) -> frozenset[str]:
        """Groups of meaning of the verbs of commands."""
        named = (key.concept for entry in self.entries for key in entry.name)
        return frozenset({*named, *(concept(entry.verb) for entry in self.entries), "dance", "stop", "wait"})

    def is_past(self, word: Word) -> bool:
        """Return whether a word tells of a deed that was done, as in `you turned left`: no command does."""
        past = word.kind == "word" and word.text.endswith("ed") and word.text not in self._vocabulary
        return past and word.concept in self._deeds

    @cached_property
    def _known(self) -> frozenset[str]:
        """Words that the parser knows, and stems of those of the skills."""
        said = self._vocabulary.union(CONCEPT, FILLERS, LIGHT, UNITS, NUMBERS, RELATIONS)
        return said.union(*([k.stem for k in e.name] for e in self.entries), *(e.doc for e in self.entries))

    def knows(self, word: Word) -> bool:
        """Return whether this is a word that names something here, or that means something in any command."""
        return word.kind == "word" and (word.text in self._known or word.stem in self._known)

    def channels_named(self, words: Sequence[Word]) -> tuple[str, ...]:
        """Return the channels of what a clause names, for stopping it. Raises NotUnderstood."""
        named = [w for w in words if w.text not in FILLERS]
        parts = {channel: map(stem, channel.lower().split("_")) for e in self.entries for channel in e.channels}
        if found := tuple(channel for channel, stems in parts.items() if len(named) == 1 and named[0].stem in stems):
            return found
        for entry in self.entries:
            keys = [k for k in entry.name if k.stem not in entry.common and k.concept not in DIRECTIONS]
            meant = any(k.concept == w.concept for k in keys for w in named)
            if meant and entry.channels:
                return entry.channels
        return self._best(words).entry.channels

    def _best(self, words: Sequence[Word]) -> Attempt:
        if stranded := _stranded(words):
            raise NotUnderstood(stranded)
        measured = [after.kind in ("number", "quantity") for after in (*words[1:], *words[-1:])]
        content = [
            w
            for w, before in zip(words, measured, strict=True)
            if not w.among(FILLERS) and w.kind != "mark" and not (w.text == "by" and before)
        ]
        tries = [t for entry in self.entries if (t := Attempt(entry, content)).leads]
        whole = [t for t in tries if not t.left_over]
        if not whole:
            named = [t for t in tries if not (t.verbless and t.has_object)] or tries
            nearest = min(named, key=lambda t: (len(t.left_over), -t.score), default=None)
            if nearest is None:
                raise NotUnderstood(())
            odd = nearest.left_over
            odd = [w for w in odd if not self.knows(w)] or (odd if len(odd) == 1 else [])
            taking = [t.entry for t in named if len(t.left_over) == len(nearest.left_over) and not t.has_object]
            objects = [value for entry in taking for value in entry.object_values]
            raise NotUnderstood(odd, sorted(objects, key=lambda value: not any(w.text in value for w in odd)))
        best = max(whole, key=lambda t: t.score)
        if odd := _unheeded(best, words):
            raise NotUnderstood(odd)
        rivals = [t.entry for t in whole if t.score == best.score and t is not best]
        if any(best.entry.opposes(rival) for rival in rivals):
            directions = {entry.direction for entry in (best.entry, *rivals)}
            raise CannotDo("direction", directions=" or ".join(sorted(directions)))
        return best

    def _emit(self, attempt: Attempt, more: dict[str, str]) -> Item:
        entry, skill = attempt.entry, attempt.entry.skill
        attempt.attributes |= more
        attributes, count = attempt.complete()
        inner = attributes.pop(skill.content) if skill.content in attributes else None
        try:
            bound = bind(skill, attributes, self._limits)
        except ArgumentError as error:
            raise CannotDo("error", why=error.message) from error
        channels = frozenset(skill.subsystems_for(bound.values))
        if inner is not None:
            return Item(element(skill.name, attributes, escape(inner)), channels, bounded=True)
        if attempt.open_for_s is not None:
            pause = tag(self._sleep, {"seconds": f"{attempt.open_for_s:g}"})
            return Item(element(skill.name, attributes, pause), channels | {"main"}, bounded=True)
        opening = tag(skill.name, attributes, ending=">") if entry.keeps_open else ""
        way = attempt.assumed
        far = () if way is None else (f"{abs(bound.values[way.name]):g} {unit_name('length', way.factor)}",)
        shape = (opening, attempt.bounded, entry.endless, entry.travels, attempt.verbless and attempt.has_object, far)
        return repeated(Item(tag(skill.name, attributes), channels, *shape), count)


def _unheeded(attempt: Attempt, words: Sequence[Word]) -> list[Word]:
    """Return words that a skill does not heed: at what it is done (`smile at the boy`); and of one that moves the robot `it`,
    of whom (`ahead of me`), how far (`for 2 metres`), where its distance is another one, and a verb that would move what it
    only goes to (`move the chair`)."""
    entry = attempt.entry
    aimless = entry.travels and attempt.has_object and not any(w.among(_AIMS) for w in words)
    odd = [w for before, w in pairwise(words) if before.text == "for" and w.dimension == "length" and not entry.walks]
    odd += [w for before, w in pairwise(words) if before.text == "at" and w.kind == "word" and w.text not in _LEVELS]
    odd += [w for before, w in pairwise(words) if before.text == "of" and w.among(_PEOPLE) and entry.moves]
    it = [w for w in words if entry.moves and w.among(_THINGS) and not entry.handles]
    return odd + it + [w for w in words if entry.moves and aimless and w.meaning == "walk"]


def _stranded(words: Sequence[Word]) -> list[Word]:
    """Return the prepositions that nothing stands behind: they make another verb, as in `turn on` and `step on it`."""
    tail = list(takewhile(lambda word: word.among(FILLERS) or word.kind == "mark", reversed(words)))[::-1]
    kind = {at for at, (w, after) in enumerate(pairwise(tail)) if w.text in ("for", "of") and after.text in _PEOPLE}
    english = [w.end - w.start >= len(w.text) for w in tail]  # a Chinese verb at the end may stand for `go to`
    return [w for at, w in enumerate(tail) if w.among(_PREPOSITIONS) and at not in kind and english[at]]


def slip(said: str, meant: str) -> int:
    """Return 2 for a slip of the keys: two letters exchanged, one doubled, or in longer words one missing or added; 1 for
    less likely ones, also another letter; 0 for anything else. The first letter is the same."""
    long, short = sorted((said, meant), key=len, reverse=True)
    if said[0] != meant[0] or len(short) < 3 or len(long) - len(short) > 1 or said == meant:
        return 0
    at = next((i for i, (a, b) in enumerate(zip(long, short, strict=False)) if a != b), len(short))
    if len(long) > len(short):
        doubled = long[at] == long[at - 1]
        return 0 if long[at + 1 :] != short[at:] else 2 if doubled or len(short) > 4 else 1
    if said[at + 2 :] == meant[at + 2 :] and said[at : at + 2] == meant[at : at + 2][::-1]:
        return 2 if len(said) > 3 or meant in MEANINGLESS else 1
    return 1 if said[at + 1 :] == meant[at + 1 :] and len(said) > 5 else 0


def may_be_mended(word: str) -> bool:
    """Return whether a slip may be mended towards this word: none that says where to, how far, how fast or which side."""
    never = (*DIRECTIONS, *_SHARES, "speed", "volume", "both", "stop")
    return concept(word) not in never and stem(word) != "spin" and word not in _ASIDE_CHOICES | UNITS.keys() | NUMBERS.keys()


def _sides(attempt: Attempt, words: Sequence[Word]) -> list[dict[str, str]]:
    """Return the two values of a side parameter when both sides are meant and none was named, else that nothing is added."""
    for p in attempt.entry.parameters:
        if set(p.choices) == {"left", "right"} and p.name not in attempt.attributes:
            names = {k.text for k in attempt.entry.name}
            if any(w.text == "both" or (w.text.endswith("s") and w.text[:-1] in names) for w in words):
                return [{p.name: side} for side in p.choices]
            if p.required:
                raise CannotDo("side")
    return [{}]
