# SPDX-License-Identifier: Apache-2.0
"""Read one clause of an instruction: a skill's call, or speaking, waiting, stopping, dancing and performing a routine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planners.language.compose import NOTHING, Item, in_a_row, in_sequence, repeated, speech, tag
from planners.language.fill import MAX_REPEATS, CannotDo
from planners.language.lexicon import FILLERS, LIGHT, concept, stem, word_set
from planners.language.match import DIRECTIONS, Matcher, NotUnderstood
from planners.language.words import Word, words_of
from planners.prompts.prompt import GrammarOptions
from skill_kernel.skills.skill import MAIN

_EVERYTHING = word_set("everything all moving motion it that")
_DANCE_WORDS = LIGHT | word_set("little short")
_PERFORM = LIGHT | word_set("run execute start play")
_FIGURES = (
    ("stand up", "smile"),
    ("wave", "nod"),
    ("lean left", "shake both ears"),
    ("lean right", "shake head"),
    ("wag bottom", "wink"),
    ("turn left 45 degrees", "nod"),
    ("turn right 45 degrees", "shake head"),
)
"""Figures of a dance; the movements of one figure are made at once where channels allow. What turns comes back."""


class Unclear(Exception):
    """Part of an instruction is not done; the text says which and why.

    `understood`: the words were clear, the act is not possible. `before` stood in front of it in the same step and is done.
    """

    def __init__(self, text: str, *, understood: bool = False) -> None:
        super().__init__(text)
        self.understood = understood
        self.before = NOTHING


@dataclass
class ClauseReader:
    """Reads the clauses of one instruction.

    `routines` maps the words of a routine's name to the name, `names` are the robot's, `text` is the cleaned instruction,
    which words point into, and `previous` holds the words of the clause before.
    """

    matcher: Matcher
    options: GrammarOptions
    routines: Mapping[tuple[str, ...], str]
    names: frozenset[str]
    text: str
    previous: list[Word] = field(default_factory=list)

    def read(self, words: Sequence[Word]) -> Item:
        """Return one command. A clause of modifiers alone takes its verb from the clause before. Raises Unclear."""
        kept = [w for w in words if w.kind != "mark"]
        bare = [w for w in kept if not (w.kind == "word" and (w.text in FILLERS or w.text in self.names))]
        if not bare:
            raise self.not_understood(words)
        if (own := self._builtin(list(words), bare)) is not None:
            return own
        try:
            item = self.matcher.item([w for w in kept if not (w.kind == "word" and w.text in self.names)])
            self.previous = kept
            return item
        except CannotDo as error:
            raise Unclear(f"I did not do “{self.quote(kept)}”: {error}.", understood=True) from error
        except NotUnderstood as error:
            if self.previous and all(_modifies(w) for w in bare):
                return self._inherited(kept)
            odd = ", ".join(f"“{self.text[w.start : w.end]}”" for w in error.words)
            if error.words and all(w.kind == "number" for w in error.words):
                odd += " without a unit"
            hints = [odd] if odd and odd != f"“{self.quote(kept)}”" else []
            if meant := self.matcher.meant(error.words or bare):
                hints.append(f"did you mean “{meant}”?")
            raise self.not_understood(kept, f" ({'; '.join(hints)})" if hints else "") from error

    def quote(self, words: Sequence[Word]) -> str:
        """Return the instruction's own text from the first to the last of these words."""
        return self.text[words[0].start : max(w.end for w in words)].strip() if words else ""

    def not_understood(self, words: Sequence[Word], more: str = "") -> Unclear:
        """Return the error for words that mean nothing."""
        return Unclear(f"I did not understand “{self.quote(words)}”{more}.")

    def _inherited(self, words: list[Word]) -> Item:
        verbs = [w for w in self.previous if not _modifies(w)]
        try:
            return self.matcher.item([*verbs, *words])
        except (NotUnderstood, CannotDo) as error:
            raise self.not_understood(words) from error

    def _builtin(self, words: list[Word], bare: list[Word]) -> Item | None:
        """Return speech, routines, dancing, waiting and stopping: what needs no skill of its own."""
        first = bare[0]
        if (routine := self._routine(bare)) is not None:
            return routine
        if is_say(first):
            return self._speech(words[words.index(first) + 1 :])
        if stem(first.text) == "count" and (numbers := [w for w in bare[1:] if w.kind == "number"]):
            return self._counting(words, bare, numbers)
        meaning = concept(first.text) if first.kind == "word" else ""
        if meaning == "dance" or (len(bare) > 1 and first.text in LIGHT and concept(bare[-1].text) == "dance"):
            return self._dance(bare)
        if meaning == "wait" and len(bare) == 2 and (bare[1].kind, bare[1].dimension) == ("quantity", "time"):
            return self._sleep(bare[1].value)
        return self._stop(bare[1:]) if meaning == "stop" else None

    def _routine(self, bare: Sequence[Word]) -> Item | None:
        """Return `perform X`, `do X twice`, or a routine's bare name."""
        counts = [w for w in bare if w.is_count()]
        rest = [w for w in bare if w not in counts]
        named = len(rest) > 1 and rest[0].text in _PERFORM
        for words in (rest, rest[1:] if named else []):
            texts = [w.text.casefold() for w in words]
            for said in (texts, [t for t in texts if t != "routine"]):
                name = self.routines.get(tuple(" ".join(said).split()))
                if said and name is not None and len(counts) <= 1:
                    count = int(counts[0].value) if counts else 1
                    if count > MAX_REPEATS:
                        why = f"{count} times are too many; at most {MAX_REPEATS}"
                        raise Unclear(f"I did not perform “{name}”: {why}.", understood=True)
                    return repeated(Item(tag(self.options.tag("run"), {"name": name}), frozenset({MAIN})), count)
        if named and any(w.text == "routine" for w in rest):
            wanted = self.quote([w for w in rest[1:] if w.text != "routine"])
            known = ", ".join(self.routines.values()) or "none yet"
            raise Unclear(f"I know no routine “{wanted}”; I know: {known}.", understood=True)
        return None

    def _speech(self, words: list[Word]) -> Item:
        quotes = [w for w in words if w.kind == "quote"]
        if quotes:
            others = [w for w in words if w.kind not in ("quote", "mark") and w.text not in FILLERS]
            if len(others) > 1 or not all(w.is_count(MAX_REPEATS) for w in others):
                raise self.not_understood(others, " after what to say")
            return speech(" ".join([w.text for w in quotes] * (int(others[0].value) if others else 1)))
        while words and words[0].kind == "mark":
            words = words[1:]
        if not words:
            raise Unclear("I did not understand what to say.")
        return speech(self.quote(words))

    def _counting(self, words: list[Word], bare: list[Word], numbers: list[Word]) -> Item:
        low, high = (numbers[0].value, numbers[1].value) if len(numbers) == 2 else (1.0, numbers[0].value)
        others = [w for w in bare[1:] if w.text != "from" and w not in numbers]
        if others or len(numbers) > 2 or not all(n.value == int(n.value) for n in numbers):
            raise self.not_understood(words)
        if abs(high - low) > 100:
            raise Unclear("I count at most 100 numbers.", understood=True)
        step = 1 if high >= low else -1
        return speech(", ".join(str(n) for n in range(int(low), int(high) + step, step)))

    def _dance(self, bare: Sequence[Word]) -> Item:
        """Return the robot's own dance, or one of the figures it can make, to music if it can play some."""
        if any(concept(w.text) != "dance" and w.text not in _DANCE_WORDS for w in bare):
            raise self.not_understood(bare)
        if "dance" in "".join(k.text for e in self.matcher.entries for k in e.name):
            return self.matcher.item(bare)
        figures: list[Item] = []
        for phrases in _FIGURES:
            moves: list[Item] = []
            for move in map(self._movement, phrases):
                if move is not None and not any(move.channels & other.channels for other in moves):
                    moves.append(move)
            if moves:
                figures.append(in_a_row(moves))
        if len({f.source for f in figures}) < 2:
            raise Unclear("I have no movements to make a dance of.", understood=True)
        dance = in_sequence(figures, self.options.tag("wait"))
        music = self._movement("play music")
        if music is None or not music.opening or music.channels & dance.channels:
            return dance
        return music.around(dance)

    def _movement(self, phrase: str) -> Item | None:
        try:
            return self.matcher.item(words_of(phrase))
        except (NotUnderstood, CannotDo):
            return None

    def _sleep(self, seconds: float) -> Item:
        if not 0 <= seconds <= 3600:
            raise Unclear(f"I can wait 0 to 3600 seconds, not {seconds:g}.", understood=True)
        return Item(tag(self.options.tag("sleep"), {"seconds": f"{seconds:g}"}), frozenset({MAIN}))

    def _stop(self, rest: Sequence[Word]) -> Item:
        """Stop a channel; when it is not clear which, everything."""
        name = self.options.tag("stop")
        channels: tuple[str, ...] = ()
        if not all(w.text in _EVERYTHING or concept(w.text) == "dance" for w in rest):
            try:
                channels = self.matcher.channels_named(rest)
            except (NotUnderstood, CannotDo):
                channels = ()
        tags = "".join(tag(name, {"channel": c}) for c in channels) or tag(name, {})
        return Item(tags, frozenset({MAIN}))


def is_say(word: Word) -> bool:
    """Return whether this is a verb of saying."""
    return word.kind == "word" and concept(word.text) == "say"


def _modifies(word: Word) -> bool:
    return word.kind in ("quantity", "number") or concept(word.text) in (*DIRECTIONS, "slow", "fast") or word.text in FILLERS
