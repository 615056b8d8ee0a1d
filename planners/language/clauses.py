# SPDX-License-Identifier: Apache-2.0
"""Reads one clause of an instruction: a skill's call, or what every robot can do (speak, wait, stop, dance, perform a
routine)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planners.language.compose import NOTHING, Item, repeated, speech, tag
from planners.language.dance import compose_dance
from planners.language.fill import MAX_REPEATS, CannotDo
from planners.language.lexicon import FILLERS, LIGHT, concept, stem, word_set
from planners.language.match import DIRECTIONS, Matcher, NotUnderstood
from planners.language.words import Word
from planners.prompts.prompt import GrammarOptions
from skill_kernel.skills.skill import MAIN

_EVERYTHING = word_set("everything all moving motion it that")
_DANCE_WORDS = LIGHT | word_set("little short")


class Unclear(Exception):
    """Part of an instruction is not done; the text says which and why. `understood`: the words were clear, the act is
    not possible.
    `before` is what stood in front of it in the same step and is done."""

    def __init__(self, text: str, *, understood: bool = False) -> None:
        super().__init__(text)
        self.understood = understood
        self.before = NOTHING


@dataclass
class ClauseReader:
    """Reads the clauses of one instruction. `routines` maps the words of a routine's name to the name, `names` are the
    robot's,
    `text` is the cleaned instruction, which words point into, and `previous` holds the words of the clause before."""

    matcher: Matcher
    options: GrammarOptions
    routines: Mapping[tuple[str, ...], str]
    names: frozenset[str]
    text: str
    previous: list[Word] = field(default_factory=list)

    def read(self, words: Sequence[Word]) -> Item:
        """One command. A clause of modifiers alone takes its verb from the clause before."""
        kept = [w for w in words if w.kind != "mark"]
        bare = [w for w in kept if not (w.kind == "word" and (w.text in FILLERS or w.text in self.names))]
        if not bare:
            raise Unclear(f"I did not understand “{self.quote(words)}”.")
        if (own := self._builtin(list(words), bare)) is not None:
            return own
        try:
            item = self.matcher.item(self._known_names_out(kept))
            self.previous = kept
            return item
        except CannotDo as error:
            raise Unclear(f"I did not do “{self.quote(kept)}”: {error}.", understood=True) from error
        except NotUnderstood as error:
            if self.previous and all(_modifies(w) for w in bare):
                return self._inherited(kept, error)
            odd = ", ".join(f"“{self.text[w.start : w.end]}”" for w in error.words)
            if error.words and all(w.kind == "number" for w in error.words):
                odd += " without a unit"
            which = odd if odd != f"“{self.quote(kept)}”" else ""
            if meant := self.matcher.meant(error.words or bare):
                which += f"{'; ' if which else ''}did you mean “{meant}”?"
            which = f" ({which})" if which else ""
            raise Unclear(f"I did not understand “{self.quote(kept)}”{which}.") from error

    def _known_names_out(self, words: list[Word]) -> list[Word]:
        return [w for w in words if not (w.kind == "word" and w.text in self.names)]

    def _inherited(self, words: list[Word], error: NotUnderstood) -> Item:
        verbs = [w for w in self.previous if not _modifies(w)]
        try:
            return self.matcher.item([*verbs, *words])
        except (NotUnderstood, CannotDo):
            raise Unclear(f"I did not understand “{self.quote(words)}”.") from error

    def _builtin(self, words: list[Word], bare: list[Word]) -> Item | None:
        """Speech, routines, dancing, waiting and stopping: what needs no skill of its own."""
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
        if meaning == "wait" and all(w.kind == "quantity" and w.dimension == "time" for w in bare[1:]) and len(bare) == 2:
            return self._sleep(bare[1].value)
        if meaning == "stop":
            return self._stop(bare[1:])
        return None

    def _routine(self, bare: Sequence[Word]) -> Item | None:
        """`perform X`, `do X twice`, or a routine's bare name."""
        counts = [w for w in bare if w.kind == "quantity" and w.dimension == "count" and w.value >= 1 and w.value % 1 == 0]
        rest = [w for w in bare if w not in counts]
        named = len(rest) > 1 and rest[0].text in LIGHT | {"run", "execute", "start", "play"}
        for words in (rest, rest[1:] if named else []):
            for key in (
                tuple(w.text.casefold() for w in words),
                tuple(w.text.casefold() for w in words if w.text != "routine"),
            ):
                name = self.routines.get(tuple(p for w in key for p in w.split()))
                if key and name is not None and len(counts) <= 1:
                    count = int(counts[0].value) if counts else 1
                    if count > MAX_REPEATS:
                        raise Unclear(
                            f"I did not perform “{name}”: {count} times are too many; at most {MAX_REPEATS}.", understood=True
                        )
                    return repeated(Item(tag(self.options.tag("run"), {"name": name}), frozenset({MAIN})), count)
        if named and any(w.text == "routine" for w in rest):
            known = ", ".join(self.routines.values()) or "none yet"
            raise Unclear(
                f"I know no routine “{self.quote([w for w in rest[1:] if w.text != 'routine'])}”; I know: {known}.",
                understood=True,
            )
        return None

    def _speech(self, words: list[Word]) -> Item:
        quotes = [w for w in words if w.kind == "quote"]
        if quotes:
            others = [w for w in words if w.kind != "quote" and w.kind != "mark" and w.text not in FILLERS]
            counts = [
                w
                for w in others
                if w.kind == "quantity" and w.dimension == "count" and 1 <= w.value <= MAX_REPEATS and w.value % 1 == 0
            ]
            if len(counts) != len(others) or len(counts) > 1:
                raise Unclear(f"I did not understand “{self.quote(others)}” after what to say.")
            return speech(" ".join([w.text for w in quotes] * (int(counts[0].value) if counts else 1)))
        while words and words[0].kind == "mark":
            words = words[1:]
        if not words:
            raise Unclear("I did not understand what to say.")
        return speech(self.quote(words))

    def _counting(self, words: list[Word], bare: list[Word], numbers: list[Word]) -> Item:
        low, high = (numbers[0].value, numbers[1].value) if len(numbers) == 2 else (1.0, numbers[0].value)
        if (
            len([w for w in bare if w.text != "from"]) != 1 + len(numbers)
            or len(numbers) > 2
            or not all(n.value == int(n.value) for n in numbers)
        ):
            raise Unclear(f"I did not understand “{self.quote(words)}”.")
        if abs(high - low) > 100:
            raise Unclear("I count at most 100 numbers.", understood=True)
        step = 1 if high >= low else -1
        return speech(", ".join(str(n) for n in range(int(low), int(high) + step, step)))

    def _dance(self, bare: Sequence[Word]) -> Item:
        if any(concept(w.text) != "dance" and w.text not in _DANCE_WORDS for w in bare):
            raise Unclear(f"I did not understand “{self.quote(bare)}”.")
        if "dance" in "".join(k.text for e in self.matcher.entries for k in e.name):
            return self.matcher.item(bare)
        dance = compose_dance(self.matcher, self.options.tag("wait"))
        if dance is NOTHING:
            raise Unclear("I have no movements to make a dance of.", understood=True)
        return dance

    def _sleep(self, seconds: float) -> Item:
        if not 0 <= seconds <= 3600:
            raise Unclear(f"I can wait 0 to 3600 seconds, not {seconds:g}.", understood=True)
        return Item(tag(self.options.tag("sleep"), {"seconds": f"{seconds:g}"}), frozenset({MAIN}))

    def _stop(self, rest: Sequence[Word]) -> Item:
        """Stop a channel; when it is not clear which, everything stops."""
        name = self.options.tag("stop")
        channels: tuple[str, ...] = ()
        if rest and not all(w.text in _EVERYTHING or concept(w.text) == "dance" for w in rest):
            try:
                channels = self.matcher.channels_named(rest)
            except (NotUnderstood, CannotDo):
                channels = ()
        tags = "".join(tag(name, {"channel": c}) for c in channels) or tag(name, {})
        return Item(tags, frozenset({MAIN}))

    def quote(self, words: Sequence[Word]) -> str:
        """The instruction's own text from the first to the last of these words."""
        return self.text[words[0].start : max(w.end for w in words)].strip() if words else ""


def is_say(word: Word) -> bool:
    return word.kind == "word" and concept(word.text) == "say"


def _modifies(word: Word) -> bool:
    return word.kind in ("quantity", "number") or concept(word.text) in (*DIRECTIONS, "slow", "fast") or word.text in FILLERS
