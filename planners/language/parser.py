# SPDX-License-Identifier: Apache-2.0
"""Parse direct commands without a model: sentences, steps and clauses become a stream of function tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, pairwise, takewhile
from typing import Any

from function_tokens.routines import Routine, RoutineError, check_name
from planners.language.compose import Item, element, in_a_row, in_sequence, repeated, speech, tag, together
from planners.language.lexicon import (
    ALWAYS_QUESTION,
    CONDITIONS,
    FIGURES,
    FILLERS,
    GREETINGS,
    LIGHT,
    NEGATIONS,
    NOT_MANNER,
    POLITE,
    Reason,
    is_chinese,
    spoken,
    word_set,
)
from planners.language.phrases import Phrasebook
from planners.language.skills import DIRECTIONS, MAX_REPEATS, MEANINGLESS, CannotDo, Matcher, NotUnderstood, may_be_mended, slip
from planners.language.words import Word, clean, phrased, words_of
from planners.prompts.prompt import GrammarOptions
from skill_kernel.config.sections import shown
from skill_kernel.robot import shipped_robots
from skill_kernel.skills.skill import MAIN, Skill

_ON_MAIN = frozenset({MAIN})
MAX_LINE = 160
"""Longest refusal, in characters."""
MAX_WHY = 100
"""Most of it that says why; three examples have their place behind it."""
MAX_QUOTED = 34
"""Most of an instruction that a message repeats, in characters."""
MAX_OFFERS = 4
"""Most places or things that are named instead of one that the robot does not know."""
MAX_WAY = 8
"""Most words of a way that is joined to what follows without a word."""
_JOINTS = ("then", "and", "while", "meanwhile")
_MANNER = ("slow", "fast", "small", "large")
_EVERYTHING = word_set("everything all moving motion it that")
_DANCE_WORDS = LIGHT | word_set("little short")
_DETERMINERS = word_set("a an the my your some")
_COME_BACK = word_set("go come run head walk")
"""Verbs with which a bare `back` may mean a place or a direction."""
_VOICES = word_set("voice whisper tone accent shout murmur")
_PERFORM = LIGHT | word_set("run execute start play")


class Unclear(Reason):
    """Nothing of an instruction is done, because of one part; the text says which and why. `offers` are what may be meant."""

    def __init__(self, key: str, offers: Sequence[str] = (), *, understood: bool = False, **values: Any) -> None:
        super().__init__(key, understood=understood, **values)
        self.offers = tuple(offers)


class InstructionReader:
    """Reads one instruction. `text` is the cleaned instruction, which words point into."""

    def __init__(self, parser: CommandParser, text: str, *, mends: bool = False) -> None:
        self._mends = mends
        self._matcher, self._options, self._text = parser.matcher, parser.options, text
        self._routines, self._names = parser.routines, parser.names
        self._previous: list[Word] = []
        """Words of the clause before."""
        self.mended: dict[str, str] = {}
        """Misspelt words and what they were taken for."""

    def read(self) -> list[Item]:
        """Return the steps of all sentences. Raises Unclear."""
        steps: list[Item] = []
        sentence: list[Word] = []
        for word in [*words_of(self._text), Word(".", 0, 0, "mark")]:
            if word.kind != "mark" or word.text not in ".!?;":
                sentence.append(word)
            elif sentence:
                said = list(dropwhile(lambda w: w.kind == "mark" or w.among(self._names | _CALLS), sentence))
                bare = _bare_request(said)
                asks = bare is None and (word.text == "?" or _asks(said))
                steps += self._sentence(sentence if bare is None else bare, asks)
                sentence = []
        return steps

    def _quote(self, words: Sequence[Word]) -> str:
        """Return the instruction's own text from the first to the last of these words."""
        return self._text[words[0].start : max(w.end for w in words)].strip() if words else ""

    def _not_understood(self, words: Sequence[Word], more: Sequence[Reason] = (), offers: Sequence[str] = ()) -> Unclear:
        """Return that words mean nothing. Chinese ones are not parted by spaces, so all between two marks is quoted."""
        if is_chinese(what := self._quote(words)):
            before, behind = self._text[: words[0].start], self._text[max(w.end for w in words) :]
            what = f"{_BETWEEN.split(before)[-1]}{what}{_BETWEEN.split(behind)[0]}".strip()
            more = [reason for reason in more if reason.key != "odd"]
        return Unclear("not_understood", offers, what=shown(what, MAX_QUOTED), more=list(more))

    # -- sentences ----------------------------------------------------------------------------------------------------

    def _sentence(self, words: list[Word], asks: bool) -> list[Item]:
        whole = shown(self._quote(words), MAX_QUOTED)
        words = self._without_address(words)
        if not words:
            return []
        if asks or words[0].among(ALWAYS_QUESTION):
            raise Unclear("question", what=whole)
        spoken = next((i for i, w in enumerate(words) if _says(w)), len(words))
        rest = words[spoken + 1 :]
        unquoted = bool(rest) and all(w.kind == "word" and w.text not in _JOINTS for w in rest)
        said = words[:spoken] if unquoted else words
        for word, after in pairwise([*said, words[-1]]):
            if word.among(NEGATIONS | CONDITIONS) or (word.text == "in" and after.dimension == "time"):
                raise self._not_now(words, word, after, whole)
        behind = list(dropwhile(lambda w: not _cuts(w) and w.text != "but", said))
        if late := [w for w in behind if w.among(("first",))]:
            raise self._not_understood(words, [Reason("odd", words=self._quote(late[:1]))])
        self._previous = []
        return [self._step(part) for part in self._steps(words)]

    def _not_now(self, words: list[Word], word: Word, after: Word, whole: str) -> Unclear:
        """Return why a sentence with a negation, a condition or a time is not done, and what to say instead."""
        if word.text == "in":
            before, behind = words[: words.index(word)], words[words.index(after) + 1 :]
            act = [w for w in max(before, behind, key=len) if not w.among(CONDITIONS)]
            return Unclear("later", time=self._quote([after]), act=shown(self._quote(act).strip(" ,，"), MAX_QUOTED))
        if word.text not in NEGATIONS:
            return Unclear("condition", what=whole, word=word.text)
        act = words[words.index(word) + 1 :]
        plain = [w for w in act if w.kind == "word"]
        ends = bool(plain) and all(w.kind != "mark" for w in act) and "channel" in self._stop(plain).source
        end = [Reason("end", act=shown(self._quote(act).removesuffix("了"), MAX_QUOTED))] if ends else []
        return Unclear("forbids", what=whole, more=end)

    def _without_address(self, words: list[Word]) -> list[Word]:
        """Return the sentence without the robot's name, politeness and commas in front."""
        aside = self._names | {"then", "first", "please"}
        while words and (words[0].kind == "mark" or words[0].among(aside)):
            words = words[1:]
        if words and (found := POLITE.match(self._text[words[0].start :])):
            begin = words[0].start + found.end()
            rest = [w for w in words if w.start >= begin]
            return self._without_address(rest) if rest and len(rest) < len(words) else words
        return words

    def _steps(self, words: list[Word]) -> list[list[Word]]:
        """Cut at commas and 'then'.

        An unquoted text to say runs on over commas unless a command follows; a `while` in front joins what is behind its
        comma; `together` at the end joins the list before it, and how or how often something is done what is before it.
        """
        parts: list[list[Word]] = [[]]
        for at, word in enumerate(words):
            if word.among(("then",)):
                parts.append([])
            elif word.kind == "mark" and word.text in ",:":
                says = _speaks(parts[-1]) and not self._reads(words[at + 1 :])
                leads = bool(parts[-1]) and parts[-1][0].text == "while"
                if says or leads or (parts[-1] and _says(parts[-1][-1])):
                    parts[-1].append(word)
                else:
                    parts.append([])
            elif word.text in ("meanwhile", "@side") and not parts[-1] and len(parts) > 1:
                parts.pop()
                parts[-1].append(word)
            elif word.text == "@together" and len(parts) > 1 and parts[-2] and at == len(words) - 1:
                last = parts.pop()
                parts[-1] += [Word("meanwhile", word.start, word.start), *last, word]
            elif parts[-1] or not word.among(("and", "first")):
                parts[-1].append(word)
        steps: list[list[Word]] = []
        for part in parts:
            bare = [w for w in part if w.text not in FILLERS | self._names]
            if steps and bare and all(w.concept in _MANNER or w.is_count() for w in bare):
                steps[-1] += part
            elif bare:
                steps.append(part)
        return steps

    def _reads(self, words: Sequence[Word]) -> bool:
        """Return whether the words up to the next cut are a command of their own."""
        behind = dropwhile(_cuts, words)
        try:
            return not self._clause(list(takewhile(lambda word: not _cuts(word), behind)), mends=False).verbless
        except Unclear:
            return False

    def _step(self, words: list[Word]) -> Item:
        at_once = any(w.text == "@together" for w in words)
        sides = [i for i, w in enumerate(words) if w.text == "@side"]  # “一边 … 一边 …”: the second joins
        words = [
            replace(w, text="while") if i in sides[1:] else w
            for i, w in enumerate(words)
            if w.text != "@together" and i not in sides[:1]
        ]
        if words and words[0].text == "while":
            comma = next((i for i, w in enumerate(words) if w.kind == "mark"), None)
            if comma is None:
                raise self._not_understood(words)
            return self._at_once(words[comma + 1 :], words[1:comma], "while")
        for at, word in enumerate(words):
            if word.among(("while", "meanwhile")) and at:
                return self._at_once(words[:at], words[at + 1 :], word.text)
        return self._row(words, at_once=at_once)

    def _at_once(self, first: list[Word], second: list[Word], how: str) -> Item:
        """Join two rows that belong together: both are done or neither is."""
        if not first or not second:
            raise self._not_understood([*first, *second])
        items = [self._row(first), self._row(second)]
        return together(*items) if how == "while" else in_a_row(sorted(items, key=_is_on_main))

    def _row(self, words: list[Word], *, at_once: bool = False) -> Item:
        """Join clauses by 'and'. Where they are said to be at once, those of one channel still come one after the other, and
        it says so."""
        clauses: list[list[Word]] = [[]]
        for at, word in enumerate(words):
            if word.among(("and",)) and (not _speaks(clauses[-1]) or self._reads(words[at + 1 :])):
                clauses.append([])
            else:
                clauses[-1].append(word)
        last = clauses[-1]
        if len(clauses) > 1 and any(w.text == "again" for w in last) and any(w.is_count() and w.value > 1 for w in last):
            raise self._not_understood(last, [Reason("which_row")])
        clauses = _rounds(clauses)
        items = [self._clause(side) for clause in filter(None, clauses) for side in _sides_apart(clause)]
        if at_once:
            taken: set[str] = set()
            for item in items:
                if shared := (taken & item.channels) - _ON_MAIN:
                    note = speech(f"These both need my {', '.join(sorted(shared))}, so I do them one after the other.")
                    return in_a_row([note, *items])
                taken |= item.channels
            items.sort(key=_is_on_main)
        return in_a_row(items, "" if at_once else self._options.tag("wait"))

    # -- clauses ------------------------------------------------------------------------------------------------------

    def _clause(self, words: Sequence[Word], *, mends: bool = True) -> Item:
        """Return one command; one that only says another direction, place or thing takes its verb from the one before.
        Raises Unclear."""
        kept = [w for w in words if w.kind != "mark"]
        bare = [w for w in kept if not w.among(FILLERS | self._names)]
        if not bare:
            raise self._not_understood(words)
        if {"forward", "backward"} <= {w.meaning for w in bare}:
            raise self._not_understood(kept, [Reason("which_way")])
        if [w.text for w in bare[1:]] == ["back"] and bare[0].text in _COME_BACK:
            raise self._not_understood(kept, [Reason("which_back")])
        told = [w for w in bare if self._matcher.is_past(w)] or (kept[:1] if _TELLS.search(self._quote(kept)) else [])
        if told and not any(map(_says, bare)) and self._routine(bare) is None:
            raise self._not_understood(kept, [Reason("odd", words=self._quote(told[:1]))])
        if (own := self._builtin(list(words), bare)) is not None:
            return own
        try:
            item = self._matcher.item([w for w in kept if not w.among(self._names)])
            kept, item = self._with_verb(kept, item)
            self._previous = kept
            return item
        except CannotDo as error:
            raise Unclear("cannot", understood=True, what=shown(self._quote(kept), MAX_QUOTED), why=error) from error
        except NotUnderstood as error:
            redirects = any(w.concept in DIRECTIONS for w in bare) and not any(w.text == "but" for w in kept)
            if self._previous and redirects and all(_modifies(w) for w in bare):
                verbs = [w for w in self._previous if not _modifies(w)]
                if (inherited := self._movement([*verbs, *kept])) is None:
                    raise self._not_understood(kept) from error
                return inherited
            if (there := self._at_place(kept) or self._and_there(kept)) is not None:
                self._previous = kept
                return there
            odd, meant = self._misspelt(kept)
            mended = self._mended(kept, odd, meant) if odd is not None and mends and self._mends else None
            if mended is not None:
                return mended
            hints = [Reason("meant", word="” / “".join(list(meant)[:2]))] if meant else []
            offers, odd_words = self._offers(kept, error), set(error.words)
            unknown = [self._quote(w) for w in self._whole_words(kept) if not odd_words.isdisjoint(w)][:2]
            unknown = [] if any(w.text == "of" for w in kept) and offers else unknown
            strange = all(w.kind == "word" and w.text.isascii() and not self._matcher.knows(w) for w in error.words)
            if offers and unknown and strange and not hints:
                raise Unclear("no_object", offers, what=shown(unknown[0], MAX_QUOTED)) from error
            numbers = all(w.kind == "number" for w in error.words)
            if unknown and (numbers or unknown != [self._quote(kept)]):
                said = shown("”, “".join(unknown), MAX_QUOTED)
                hints = [Reason("no_unit" if numbers else "odd", words=said), *hints]
            raise self._not_understood(kept, hints, offers) from error

    def _whole_words(self, words: Sequence[Word]) -> list[list[Word]]:
        """Return the words, with Chinese characters that mean nothing to the robot joined to the words that they make, as are
        the English words of a Chinese one."""
        groups: list[list[Word]] = []
        for word in words:
            unknown = not word.text.isascii() or self._quote([word]) in "的地"
            before = groups[-1][-1] if groups else None
            joined = unknown and before is not None and before.end == word.start and not groups[-1][0].text.isascii()
            if joined or (before is not None and before.start == word.start):
                groups[-1].append(word)
            else:
                groups.append([word])
        return groups

    def _offers(self, words: Sequence[Word], error: NotUnderstood) -> list[str]:
        """Return the clause with places and things that the robot knows for the one that it does not, or at a place."""
        if (of := next((w for w in words if w.text == "of"), None)) is not None:
            there = self._at_place([replace(w, text="in") if w is of else w for w in words])
            said = f"{self._text[words[0].start : of.start]}in{self._text[of.end : words[-1].end]}"
            return [said] if there is not None else []
        at = words.index(error.words[0]) if len({w.start for w in error.words}) == 1 else 0  # 手机 is two English words
        if not at or words[at - 1].concept == "walk" or (is_chinese(self._text) and words[at:] != self._whole_words(words)[-1]):
            return []
        begin = at - 1 if at and words[at - 1].among(_DETERMINERS) else at
        groups = next(g for g in self._whole_words(words) if error.words[0] in g)
        after = words[words.index(groups[-1]) + 1 :]
        if after and not after[0].among(("in", "inside", "at", "on")) and any(not w.among(FILLERS) for w in after):
            return []
        before, behind = self._text[words[0].start : words[begin].start], self._text[groups[-1].end : words[-1].end]
        article = "" if is_chinese(self._text) else "the "
        return [
            f"{before}{article}{spoken(value, chinese=not article)}{behind}"
            for value in error.objects
            if article or spoken(value, chinese=True) != spoken(value, chinese=False)
        ]

    def _misspelt(self, words: Sequence[Word]) -> tuple[Word | None, dict[str, Item]]:
        """Return the one word that nobody knows, and what the clause is with each word that it may misspell."""
        odd, near = self._matcher.meant(words)
        tried = {word: self._movement(phrased([replace(w, text=word) if w is odd else w for w in words])) for word in near}
        return odd, {word: item for word, item in tried.items() if item is not None}

    def _mended(self, words: Sequence[Word], odd: Word, meant: Mapping[str, Item]) -> Item | None:
        """Return the clause with its misspelt word mended, where one reading is left and the word only names what to do.

        A clause that is complete without the word is not mended where the word may say how: behind the verb.
        """
        slips = [word for word in meant if slip(odd.text, word) > 1]
        if len({item.source for item in meant.values()}) != 1 or not slips or not all(map(may_be_mended, meant)):
            return None
        leads = odd is next(w for w in words if not w.among(FILLERS))
        if not (leads or slips[0] in MEANINGLESS) and self._movement([w for w in words if w is not odd]):
            return None
        self.mended[self._quote([odd])] = slips[0]
        return meant[slips[0]]

    def _at_place(self, words: Sequence[Word]) -> Item | None:
        """Return going to a place and what is to be done in it: looking for something, or what moves nothing from there."""
        for at, word in enumerate(words):
            if word.among(("in", "inside")) and 0 < at < len(words) - 1:
                way, act = self._movement([*words_of("go to"), *words[at + 1 :]]), self._movement(words[:at])
                if way is None or act is None or way.travels != "place":
                    continue
                if not way.channels & act.channels or any(w.concept == "search" for w in words[:at]):
                    return in_sequence([way, act], self._options.tag("wait"))
        return None

    def _and_there(self, words: Sequence[Word]) -> Item | None:
        """Return going somewhere and what is to be done there, which Chinese joins without a word (去大厅拍照)."""
        for at in range(min(len(words) - 1, MAX_WAY), 1, -1) if is_chinese(self._text) else ():
            way = self._movement(words[:at])
            if way is not None and way.travels and not way.verbless:
                try:
                    act = self._clause(words[at:], mends=False)
                except Unclear as error:
                    if error.key == "no_object":
                        raise
                    return None
                return None if act.verbless else in_sequence([way, act], self._options.tag("wait"))
        return None

    def _with_verb(self, words: list[Word], item: Item) -> tuple[list[Word], Item]:
        """Return a clause that names only a place or a thing with the verb of the clause before. Raises Unclear, also where
        there is none."""
        if not item.verbless:
            return words, item
        for at in range(len(self._previous), 0, -1):
            whole = [*self._previous[:at], *words]
            same = self._movement(whole)
            if same is not None and not same.verbless:
                return whole, same
        raise self._not_understood(words)

    def _builtin(self, words: list[Word], bare: list[Word]) -> Item | None:
        """Return speech, routines, dancing, waiting and stopping: what needs no skill of its own."""
        first, rest = bare[0], bare[1:]
        if (routine := self._routine(bare)) is not None:
            return routine
        if " ".join(w.text for w in bare) in GREETINGS:
            return speech(self._quote(bare))
        if first.text in ("turn", "switch") and any(w.text == "off" for w in rest):
            what = [w for w in rest if w.text != "off"]
            stop = self._stop(what)
            return stop if not what or "channel" in stop.source else None
        if _says(first):
            return self._speech(words[words.index(first) + 1 :])
        if first.stem == "count" and (numbers := [w for w in rest if w.kind == "number"]):
            return self._counting(words, rest, numbers)
        if first.meaning == "dance" or (rest and first.text in LIGHT and bare[-1].concept == "dance"):
            return self._dance(bare)
        if first.meaning == "wait" and len(rest) == 1 and rest[0].dimension == "time":
            if not 0 <= (seconds := rest[0].value) <= 3600:
                raise Unclear("wait", understood=True, seconds=seconds)
            return Item(tag(self._options.tag("sleep"), {"seconds": f"{seconds:g}"}), _ON_MAIN)
        return self._stop(rest) if first.meaning == "stop" else None

    def _routine(self, bare: Sequence[Word]) -> Item | None:
        """Return `perform X`, `do X twice`, or a routine's bare name."""
        counts = [w for w in bare if w.is_count()]
        rest = [w for w in bare if not w.is_count()]
        named = len(rest) > 1 and rest[0].text in _PERFORM
        for words in (rest, rest[1:] if named else []):
            texts = [w.text.casefold() for w in words]
            for said in (texts, [t for t in texts if t != "routine"]):
                name = self._routines.get(tuple(" ".join(said).split()))
                if said and name is not None and len(counts) <= 1:
                    count = int(counts[0].value) if counts else 1
                    if count > MAX_REPEATS:
                        why = Reason("too_many", count=count, most=MAX_REPEATS)
                        raise Unclear("perform", understood=True, what=name, why=why)
                    return repeated(Item(tag(self._options.tag("run"), {"name": name}), _ON_MAIN), count)
        if named and any(w.text == "routine" for w in rest):
            wanted = self._quote([w for w in rest[1:] if w.text != "routine"])
            known = ", ".join(self._routines.values()) or "none yet"
            raise Unclear("routine", understood=True, wanted=wanted, known=known)
        return None

    def _speech(self, words: list[Word]) -> Item:
        quotes = [w for w in words if w.kind == "quote"]
        if quotes:
            others = [w for w in words if w.kind not in ("quote", "mark") and w.text not in FILLERS]
            if len(others) > 1 or not all(w.is_count(MAX_REPEATS) for w in others):
                raise self._not_understood(others, [Reason("after_words")])
            return speech(" ".join([w.text for w in quotes] * (int(others[0].value) if others else 1)))
        while words and words[0].kind == "mark":
            words = words[1:]
        if not words:
            raise Unclear("what_to_say")
        edges = [words[0], words[-1], *(w for w, after in pairwise(words) if after.among(("to",)))]
        unsure = [w for w in edges if len(words) > 1 and _may_be_manner(w)][:1]
        if len(words) > 2 and words[-1].among(_VOICES) and words[-2].text in ("a", "an", "your"):
            unsure = words[-3:]
        if unsure:
            raise Unclear("how_to_say", word=self._quote(unsure))
        return speech(self._quote(words))

    def _counting(self, words: list[Word], rest: list[Word], numbers: list[Word]) -> Item:
        low, high = (numbers[0].value, numbers[1].value) if len(numbers) == 2 else (1.0, numbers[0].value)
        others = [w for w in rest if w.text != "from" and w.kind != "number"]
        if others or len(numbers) > 2 or not all(n.value == int(n.value) for n in numbers):
            raise self._not_understood(words)
        if abs(high - low) > 100:
            raise Unclear("count", understood=True)
        step = 1 if high >= low else -1
        return speech(", ".join(str(n) for n in range(int(low), int(high) + step, step)))

    def _dance(self, bare: Sequence[Word]) -> Item:
        """Return the robot's own dance, or one of the figures it can make, to music if it can play some."""
        if any(w.concept != "dance" and w.text not in _DANCE_WORDS for w in bare):
            raise self._not_understood(bare)
        if "dance" in "".join(k.text for e in self._matcher.entries for k in e.name):
            return self._matcher.item(bare)
        figures: list[Item] = []
        for phrases in FIGURES:
            moves: list[Item] = []
            for move in (self._movement(words_of(phrase)) for phrase in phrases):
                if move is not None and not any(move.channels & other.channels for other in moves):
                    moves.append(move)
            if moves:
                figures.append(in_a_row(moves))
        if len({f.source for f in figures}) < 2:
            raise Unclear("no_dance", understood=True)
        dance = in_sequence(figures, self._options.tag("wait"))
        music = self._movement(words_of("play music"))
        return music.around(dance) if music and music.opening and not music.channels & dance.channels else dance

    def _movement(self, words: Sequence[Word]) -> Item | None:
        try:
            return self._matcher.item(words)
        except (NotUnderstood, CannotDo):
            return None

    def _stop(self, rest: Sequence[Word]) -> Item:
        """Stop a channel; when it is not clear which, everything."""
        name, everything = self._options.tag("stop"), all(w.text in _EVERYTHING or w.concept == "dance" for w in rest)
        try:
            channels = () if everything else self._matcher.channels_named(rest)
        except (NotUnderstood, CannotDo):
            channels = ()
        return Item("".join(tag(name, {"channel": c}) for c in channels) or tag(name, {}), _ON_MAIN)


_BETWEEN = re.compile("[,.!?;:，。！？；：、…\n]")
_TELLS = re.compile("^(?:it|its|it's|you're|you've) |^[你您].*了|了[\\d零一二两三四五六七八九十百半]|找到.*了", re.IGNORECASE)
"""Matches a clause that tells of a deed, and asks for none."""
_ABLE = (["can", "you"], ["will", "you"])
_TAILS = (
    *(f", {verb} you".split() for verb in ("would", "could", "will", "can")),
    [",", "ok"],
    [",", "okay"],
    ["@ok"],
    ["@ma"],
)
"""Ends that a request may have."""
_CALLS = word_set("ok okay hey hi well so now and alright robot")
"""Words before a form of address or a request."""


def _asks(words: Sequence[Word]) -> bool:
    """Return whether a sentence is a question also without its mark."""
    first = [w.text for w in words if w.kind == "word"][:2]
    return first in _ABLE or "@can" in first or any(w.text in ("@ask", "@ma", "@ok") for w in words)


def _bare_request(words: list[Word]) -> list[Word] | None:
    """Return what a polite request asks for, None for another sentence: `could you …`, `would you …`, anything with `please`,
    `sit down, will you`, `坐下好吗`. `can you …` may ask what the robot is able to do, unless it says how often or for whom."""
    texts = [w.text for w in words]
    tail = next((len(tail) for tail in _TAILS if texts[-len(tail) :] == tail), 0)
    able = texts[:2] in _ABLE or "@can" in texts[:2]
    definite = any(w.is_count() for w in words) or any(w.text == "for" and me.text == "me" for w, me in pairwise(words))
    polite = texts[:2] in (["could", "you"], ["would", "you"]) or "please" in texts or (tail and texts[-1] != "@ma")
    if "@ask" in texts or not (polite or (able and definite)):
        return None
    return words[texts.index("@can") + 1 if "@can" in texts[:2] else 0 : len(words) - tail]


def _is_on_main(item: Item) -> bool:
    return item.channels == _ON_MAIN


def _cuts(word: Word) -> bool:
    return word.kind == "mark" or word.text in _JOINTS


def _says(word: Word) -> bool:
    """Return whether this is a verb of saying."""
    return word.meaning == "say"


def _speaks(words: Sequence[Word]) -> bool:
    """Return whether words say something that is not quoted, so that what follows may still belong to it."""
    return any(_says(w) for w in words) and not any(w.kind == "quote" for w in words)


def _modifies(word: Word) -> bool:
    return word.kind in ("quantity", "number") or word.concept in (*DIRECTIONS, "slow", "fast") or word.text in FILLERS


def _may_be_manner(word: Word) -> bool:
    """Return whether a word at the edge of what is to be said may tell how or how often to say it."""
    how = word.text.endswith("ly") and len(word.text) > 4 and word.text not in NOT_MANNER
    return how or word.kind == "quantity" or word.concept in ("slow", "fast", "again", "loud", "loudli", "quiet", "aloud")


_BOTH_WAYS = {"@sideways": ("left", "right"), "@updown": ("up", "down")}


def _rounds(clauses: list[list[Word]]) -> list[list[Word]]:
    """Return the last two clauses as often as it says, where one verb has two directions: `turn right and left twice`."""
    before, first, last = clauses[:-2], clauses[-2] if len(clauses) > 1 else [], clauses[-1]
    way = [w for w in last if w.concept in DIRECTIONS]
    counts = [w for w in last if w.is_count(MAX_REPEATS)]
    only = len(way) == len(counts) == 1 and all(w in (*way, *counts) or w.among(FILLERS) for w in last)
    if not only or not any(w.concept in DIRECTIONS for w in first) or any(w.dimension == "count" for w in first):
        return clauses
    return [*before, *[first, way] * int(counts[0].value)]


def _sides_apart(words: list[Word]) -> list[list[Word]]:
    """Return two commands for `look left and right`, both as often as it says, one for `shake your head left and right`."""
    at = next((i for i, w in enumerate(words) if w.text in _BOTH_WAYS), None)
    if at is None or any(w.concept in ("shake", "wave", "nod") for w in words):
        return [words]
    counts = [w for w in words if w.is_count(MAX_REPEATS)]
    once = [w for w in words if w not in counts] if len(counts) == 1 else words
    rounds = int(counts[0].value) if len(counts) == 1 else 1
    return [[replace(w, text=side) if w is words[at] else w for w in once] for side in _BOTH_WAYS[words[at].text]] * rounds


_SAVE = re.compile(
    r"^\s*(?:please\s+)?(?:remember|save|store|learn|keep(?=\s+(?:this|that|it)\b))\s+(?P<what>.*?)\s*"
    r"\b(?:as|under the name(?: of)?)\s+(?:(?:a|the) (?:routine|dance)\s+(?:called|named)?\s*)?"
    r"[\"'“‘]?(?P<name>\w[\w .\-]*?)[\"'”’]?\s*(?:[:,]\s*(?P<body>.+?))?\s*[.!]?\s*$",
    re.IGNORECASE | re.DOTALL,
)
_SAVE_CN = re.compile(
    r"^\s*(?:请)?(?:记住|保存)(?:这个|下面的动作)?(?:为|叫做|叫|成)[\"“「]?(?P<name>\w[\w .\-]*?)[\"”」]?\s*"
    r"(?:[::,,]\s*(?P<body>.+?))?\s*[。.!]?\s*$",
    re.DOTALL,
)
_REFERS_BACK = re.compile(
    r"^(?:this|that|it|the following|this routine|that routine|this dance|that dance|what you (?:just )?did)?$", re.IGNORECASE
)
_CALLED = re.compile(
    r"\W*(?:(?:hey|hi|ok|okay|hello|please)\W+)?(?:(?:tell|ask) (?P<told>[a-z]\w{0,29}) to |(?P<called>[a-z]\w{0,29})"
    r"(?:(?P<comma> *[,:])| |(?=[\u3400-\u9fff])))\s*(?P<rest>\S.*)",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_AGAIN = re.compile(r"^(再来|再做|重复)(一次|一遍|一下)?[。!.！]?$")
_AGAIN_WORDS = word_set("again repeat more")
_BACK_WORDS = word_set("do it that this all repeat again once more instead same thing perform play run")


@dataclass(frozen=True)
class Reading:
    """The stream to perform for an instruction, "" where it is not done, why it is not (None when it is), and what can be said
    in the place of what was not understood."""

    source: str
    trouble: str | None = None
    understood: bool = True
    offers: tuple[str, ...] = ()


class CommandParser:
    """Reads direct commands for the skills and routines of one robot. No model, no randomness, no state."""

    def __init__(
        self,
        skills: Iterable[Skill],
        routines: Sequence[Routine] = (),
        options: GrammarOptions | None = None,
        robot_name: str = "",
    ) -> None:
        self.options = options or GrammarOptions()
        commands = [skill for skill in skills if not skill.decides]  # who only gives commands needs no answer to go on by
        self.matcher = Matcher(commands, self.options.limits, sleep=self.options.tag("sleep"))
        self._speaks = any(skill.speaks_text for skill in commands)
        self.routines = {_routine_key(r.name): r.name for r in routines}
        """A routine's name by the words of it."""
        self.robot_name, self.names = robot_name, frozenset(w.text for w in words_of(clean(robot_name)))

    def read(self, instruction: str, last: str = "", *, mends: bool = False) -> Reading:
        """Return the stream for an instruction; `last` is the stream of the answer before, for "again" and "save that as …".

        `mends`: a misspelt word is taken for the only one that it can be. The stream then begins by saying so, and tells
        how far it walks where that was not said.
        """
        text = clean(instruction).strip()
        chinese = is_chinese(text)
        try:
            if special := self._saving(text, last) or self._again(text, last):
                return Reading(special)
            reader = InstructionReader(self, text, mends=mends)
            item = in_sequence(reader.read(), self.options.tag("wait"))
        except Unclear as error:
            return Reading("", error.text(chinese=chinese), error.understood, error.offers)
        told = [Reason("mended", said=said, meant=meant).text(chinese=chinese) for said, meant in reader.mended.items()]
        source = speech(" ".join(told)).source + item.source
        far = Reason("assumed", lengths=", ".join(item.assumed)).text(chinese=chinese) if mends and item.assumed else ""
        return Reading(source + speech(far).source if source.endswith(">") else speech(far).source + source)

    def refusal(self, instruction: str, reading: Reading) -> str:
        """Return one line for people: why nothing was done of an instruction, and where it was not understood, what can be."""
        chinese = is_chinese(instruction)
        if other := self._called(clean(instruction)):
            return Reason("other_robot", name=self.robot_name, other=other).text(chinese=chinese)
        why = reading.trouble or Reason("no_command", what=shown(instruction, MAX_QUOTED)).text(chinese=chinese)
        if reading.trouble and reading.understood:
            undone = Reason("undone").text(chinese=chinese)
            return shown(why, MAX_LINE - len(undone)) + undone
        why = shown(why, MAX_WHY)
        room = MAX_LINE - len(why) - len(Reason("try", examples="").text(chinese=chinese))
        said: list[str] = []
        for one in reading.offers:
            if len(said) < MAX_OFFERS and len("; ".join([*said, one])) <= room and self.read(one).source:
                said.append(one)
        if len(said) < 2:
            room -= sum(len(one) + 2 for one in said)
            said += self.phrasebook.nearest(f"{instruction} {why}", room, chinese=chinese, count=3 - len(said))
        return why + Reason("try", examples=("；" if chinese else "; ").join(said)).text(chinese=chinese)

    @property
    def phrasebook(self) -> Phrasebook:
        """Return the sentences that people can say to this robot."""
        return Phrasebook(self.matcher.entries, lambda text: self.read(text).source, speaks=self._speaks)

    def abilities(self) -> str:
        """Return some commands as people say them, made of the robot's own skills, and the routines."""
        said = self.phrasebook.nearest("", count=6)
        taught = f"; routines: {', '.join(self.routines.values())}" if self.routines else ""
        return f"{'; '.join(said)}{taught}; all: ghostshell skills"

    def _called(self, text: str) -> str:
        """Return the name of another robot to which a text is said: one that is known, or a word that nobody knows with a comma
        before a command; else ""."""
        if (found := _CALLED.match(text)) is None:
            return ""
        word = Word((found["told"] or found["called"]).casefold(), 0, 0)
        other = found["comma"] and not self.matcher.knows(word) and not _may_be_manner(word) and self.read(found["rest"]).source
        meant = word.text not in self.names and (other or word.text in map(str.casefold, shipped_robots()))
        return found["told"] or found["called"] if meant else ""

    def _saving(self, text: str, last: str) -> str | None:
        found = _SAVE.match(text) or _SAVE_CN.match(text)
        if found is None:
            return None
        groups = found.groupdict()
        what, body = (groups.get("what") or "").strip(), (groups.get("body") or "").strip()
        try:
            name = check_name(groups["name"])
        except RoutineError as error:
            raise Unclear("not_kept", why=error) from error
        if not body and not _REFERS_BACK.match(what):
            body = what
        save = self.options.tag("save")
        reading = self.read(body) if body else Reading(_unwrapped(last, save))
        if not reading.source:
            nothing = Reason("nothing_to_keep" if body else "nothing_yet")
            raise Unclear("kept_nothing", understood=reading.understood, name=name, why=reading.trouble or nothing)
        if f"<{save} " in reading.source:
            raise Unclear("nested", understood=True, name=name)
        return element(save, {"name": name, "description": (body or "as performed before")[:200]}, reading.source)

    def _again(self, text: str, last: str) -> str | None:
        aside = FILLERS - {"it", "again"}
        words = [w for w in words_of(text) if w.kind != "mark" and not w.among(aside)]
        counts = [w for w in words if w.dimension == "count"]
        plain = {w.text for w in words if w.dimension != "count"}
        back = bool(plain & _AGAIN_WORDS) or (bool(counts) and bool(plain & {"do", "instead"}))
        if not _AGAIN.match(text) and not (back and len(counts) <= 1 and plain <= _BACK_WORDS):
            return None
        if not last:
            raise Unclear("no_repeat", understood=True)
        count = int(counts[0].value) if counts else 1
        if not 1 <= count <= MAX_REPEATS:
            raise Unclear("repeats", understood=True, most=MAX_REPEATS, count=counts[0].value)
        save = self.options.tag("save")
        inner = _unwrapped(last, save)
        once = Item(inner, frozenset({MAIN, "*"}))
        again = in_sequence([once] * count, self.options.tag("wait")).source
        return again if inner == last else f"{last[: last.index('>') + 1]}{again}</{save}>"


def _unwrapped(source: str, name: str) -> str:
    if source.startswith(f"<{name} ") and source.endswith(f"</{name}>"):
        return source[source.index(">") + 1 : -len(f"</{name}>")]
    return source


def _routine_key(name: str) -> tuple[str, ...]:
    return tuple(p for w in words_of(clean(name)) if w.text not in FILLERS for p in w.text.casefold().split())
