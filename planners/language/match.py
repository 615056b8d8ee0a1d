# SPDX-License-Identifier: Apache-2.0
"""Find the skill a clause names; every word of the clause must be accounted for, or nothing of it is done."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from planners.language.compose import Item, element, repeated, tag
from planners.language.fill import CannotDo, Filling
from planners.language.lexicon import FILLERS, LIGHT, RELATED, concept, stem
from planners.language.vocabulary import Choice, Entry, Key, entries_of
from planners.language.words import Word
from planners.prompts.declarations import Limits
from skill_kernel.skills.arguments import ArgumentError, bind
from skill_kernel.skills.skill import Skill

DIRECTIONS = ("left", "right", "forward", "backward", "up", "down")
_SIDES = frozenset({"left", "right"})


class NotUnderstood(Exception):
    """A clause means nothing this robot can do; `words` are those nothing accounts for."""

    def __init__(self, words: Sequence[Word]) -> None:
        super().__init__(" ".join(w.text for w in words))
        self.words = tuple(words)


@dataclass
class _Try:
    """How far one skill accounts for a clause."""

    entry: Entry
    score: float = 0.0
    leads: bool = False
    filling: Filling = field(init=False)
    left_over: list[Word] = field(default_factory=list)
    matched: set[str] = field(default_factory=set)
    exact: bool = False

    def __post_init__(self) -> None:
        self.filling = Filling(self.entry)


class Matcher:
    """Turns clauses into calls of the given skills. `sleep` is the robot's tag of that built-in."""

    def __init__(self, skills: Iterable[Skill], limits: Limits, *, sleep: str = "sleep") -> None:
        self._limits = limits
        self._sleep = sleep
        self.entries = entries_of([s for s in skills if not s.speaks_text], limits)

    def item(self, words: Sequence[Word]) -> Item:
        """Return the call or calls a clause stands for.

        Raises NotUnderstood when no skill accounts for all of its words, CannotDo when one does but a value does not
        fit.
        """
        best = self._best(words)
        if sides := self._both_sides(best, words):
            made = [self._emit(best.entry, best.filling.having(*side)) for side in sides]
            return Item("".join(i.source for i in made), frozenset().union(*(i.channels for i in made)), bounded=True)
        return self._emit(best.entry, best.filling)

    def meant(self, words: Sequence[Word]) -> str:
        """Return the word of a skill's name or of an allowed value that one of these words misspells, or ""."""
        known = {key.text for entry in self.entries for key in entry.name}
        known |= {key.text for e in self.entries for choices in e.choices.values() for c in choices for key in c.keys}
        near = (difflib.get_close_matches(word.text, known, n=1, cutoff=0.8) for word in words if word.kind == "word")
        return next((close[0] for close in near if close), "")

    def channels_named(self, words: Sequence[Word]) -> tuple[str, ...]:
        """Return the channels of what a clause names, for stopping it. Raises NotUnderstood."""
        named = [w for w in words if w.text not in FILLERS]
        for entry in self.entries:
            for subsystem in entry.skill.subsystems:
                if len(named) == 1 and stem(named[0].text) in map(stem, subsystem.lower().split("_")):
                    return (subsystem,)
            if any(k.concept == concept(w.text) and k.stem not in entry.common for k in entry.name for w in named):
                return tuple(s for s in entry.skill.subsystems if "{" not in s)
        best = self._best(words)
        return tuple(s for s in best.entry.skill.subsystems if "{" not in s)

    def _best(self, words: Sequence[Word]) -> _Try:
        content = [w for w in words if not (w.kind == "word" and w.text in FILLERS) and w.kind != "mark"]
        tries = [t for entry in self.entries if (t := self._try(entry, content)).leads]
        whole = [t for t in tries if not t.left_over]
        if not whole:
            nearest = min(tries, key=lambda t: (len(t.left_over), -t.score), default=None)
            raise NotUnderstood(nearest.left_over if nearest else ())
        best = max(whole, key=lambda t: t.score)
        rivals = [t for t in whole if t.score == best.score and t is not best]
        if any(_opposite(best.entry, t.entry) for t in rivals):
            raise CannotDo("it needs a direction, " + " or ".join(sorted({_direction(t.entry) for t in [best, *rivals]})))
        return best

    def _try(self, entry: Entry, content: Sequence[Word]) -> _Try:
        attempt = _Try(entry)
        open_words = attempt.filling.take_named(list(content))
        for name, choices in entry.choices.items():
            open_words = self._take_choice(attempt, name, choices, open_words)
        rest: list[Word] = []
        for word in open_words:
            if word.kind != "word" or not self._take_name(attempt, word):
                rest.append(word)
        missing = entry.unmatched(attempt.matched | ({"forward"} if entry.means("walk") else set()))
        vague = bool(missing) and not attempt.exact
        accounted = len(attempt.matched)
        attempt.score -= len(missing)
        rest = attempt.filling.take(rest)
        if any(w.kind == "word" and stem(w.text) == "spin" for w in content):
            attempt.filling.whole_turn()
        for word in rest:
            if word.kind == "word" and (stem(word.text) in entry.doc or concept(word.text) in entry.doc):
                attempt.score += 1
                accounted += 1
            elif not (word.kind == "word" and word.text in LIGHT and attempt.leads):
                attempt.left_over.append(word)
        if vague and (accounted < 2 or attempt.left_over):
            attempt.leads = False
        return attempt

    def _take_choice(self, attempt: _Try, name: str, choices: Sequence[Choice], words: list[Word]) -> list[Word]:
        """Account for the words that name an allowed value of this parameter, if any do; return the others."""
        found = max(((_fit(c, words), -i) for i, c in enumerate(choices)), default=(0.0, 0))
        if found[0] <= 0:
            return words
        choice = choices[-found[1]]
        attempt.filling.attributes[name] = choice.value
        attempt.score += found[0]
        if choice.leads:
            attempt.leads = attempt.exact = True
        wanted = {c for k in choice.keys for c in (k.concept, *RELATED.get(k.concept, ()))}
        return [w for w in words if w.kind != "word" or concept(w.text) not in wanted]

    def _take_name(self, attempt: _Try, word: Word) -> bool:
        entry = attempt.entry
        own_stem, own_concept = stem(word.text), concept(word.text)
        aside = own_concept in DIRECTIONS
        for key in entry.name:
            if key.stem == own_stem or key.concept == own_concept:
                exact = key.stem == own_stem
                attempt.matched.add(key.stem)
                attempt.score += 4 if exact else 3
                attempt.leads = attempt.leads or not aside
                attempt.exact = attempt.exact or (exact and not aside)
                return True
        if entry.verb is not None and entry.verb.stem == own_stem and not aside:
            attempt.leads = attempt.exact = True
            attempt.score += 2
            return True
        if own_concept == "look" and entry.aims:
            attempt.leads = attempt.exact = True
            attempt.score += 3
            return True
        return False

    def _both_sides(self, attempt: _Try, words: Sequence[Word]) -> list[tuple[str, str]]:
        """Return the two values of a side parameter when both sides are meant and none was named."""
        for parameter in attempt.entry.parameters:
            if set(parameter.choices) == _SIDES and parameter.name not in attempt.filling.attributes:
                names = {k.text for k in attempt.entry.name}
                plural = any(w.text == "both" or (w.text.endswith("s") and w.text[:-1] in names) for w in words)
                if plural:
                    return [(parameter.name, side) for side in parameter.choices]
                if parameter.required:
                    raise CannotDo("it needs a side, left or right")
        return []

    def _emit(self, entry: Entry, filling: Filling) -> Item:
        attributes, count = filling.complete()
        inner = attributes.pop(entry.skill.content) if entry.skill.content in attributes else None
        try:
            bound = bind(entry.skill, attributes, self._limits)
        except ArgumentError as error:
            raise CannotDo(error.message) from error
        channels = frozenset(entry.skill.subsystems_for(bound.values))
        name = entry.skill.name
        if inner is not None:
            return Item(element(name, attributes, escape(inner)), channels, bounded=True)
        if filling.open_for_s is not None:
            pause = tag(self._sleep, {"seconds": f"{filling.open_for_s:g}"})
            return Item(element(name, attributes, pause), channels | {"main"}, bounded=True)
        opening = tag(name, attributes, ending=">") if entry.keeps_open else ""
        once = Item(tag(name, attributes), channels, opening, bounded=filling.bounded, endless=entry.endless)
        return repeated(once, count)


def _fit(choice: Choice, words: Sequence[Word]) -> float:
    """Return how well the words name this value: 5 by the word itself, 4 by its group of meaning, 1 by a related one, 0 not."""
    fits = [max((_likeness(key, w.text) for w in words if w.kind == "word"), default=0.0) for key in choice.keys]
    return sum(fits) / len(fits) if fits and all(fits) else 0.0


def _likeness(key: Key, word: str) -> float:
    if stem(word) == key.stem:
        return 5.0
    meaning = concept(word)
    return 4.0 if meaning == key.concept else 1.0 if key.concept in RELATED.get(meaning, ()) else 0.0


def _direction(entry: Entry) -> str:
    return next((k.concept for k in entry.name if k.concept in DIRECTIONS), "")


def _opposite(one: Entry, other: Entry) -> bool:
    """Return whether two skills differ in their direction only, so that guessing between them would be wrong."""
    directions = {_direction(one), _direction(other)}
    rest = [[k.stem for k in e.name if k.concept not in DIRECTIONS] for e in (one, other)]
    return len(directions) == 2 and "" not in directions and rest[0] == rest[1] and one.means("walk", "turn")
