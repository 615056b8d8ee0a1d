# SPDX-License-Identifier: Apache-2.0
"""Keep who the people around are, what they said, and when each may be asked; read what a reply to a request means.

People are agents that a task may count on (InteractGen III.A): what they can do is known from what they said and when. Pure, on
one thread and on clocks that are handed in.
"""

import re
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from planners.language.choices import chosen
from planners.prompts.blocks import text_beside
from skill_kernel.config.sections import Section, shaped
from skill_kernel.config.yaml_text import read_yaml
from skill_kernel.processes.questions import ASK as ASK
from skill_kernel.processes.questions import PRIVATE
from skill_kernel.robot import load_file

SAID_KEPT = 200
"""Newest sayings that are known, and newest private ones that are kept from others."""
DAY_S = 86_400.0

_Time = Annotated[str, shaped(r"([01]\d|2[0-3]):[0-5]\d", "not a time of the day, such as '21:30'")]


def _pair(value: tuple[str, str]) -> tuple[str, str]:
    if value[0] == value[1]:
        raise ValueError(f"quiet hours from {value[0]} to {value[1]} have no length")
    return value


class Person(Section):
    """Describe a person who may be asked.

    `about`: what others may know of who that is. `place`: where the person usually is. `quiet`: hours in which nobody asks, as
    pairs of local times. `allows`: skills that a task which nobody ordered may use for this person without a question.
    """

    about: str = ""
    place: str = ""
    quiet: tuple[Annotated[tuple[_Time, _Time], BeforeValidator(tuple), AfterValidator(_pair)], ...] = ()
    allows: frozenset[str] = frozenset()


class _PeopleFile(Section):
    people: Annotated[dict[str, Person], Field(min_length=1)]


@dataclass(frozen=True)
class Said:
    """Hold what a person said, at a time of `People.now` [s]. What is `private` is shown to nobody else."""

    person: str
    text: str
    at_s: float
    private: bool = False


def local_day_s() -> float:
    """Return the seconds since midnight where this computer is."""
    now = time.localtime()
    return now.tm_hour * 3600.0 + now.tm_min * 60.0 + now.tm_sec


class People:
    """Know the people by name. `now` is any steady clock [s], `day_s` the local time of the day [s after midnight]; `on_said`
    hears all that somebody says.

    Who asks a person calls `opened` and `closed` around the question, so that a person has one open request at most.
    """

    def __init__(
        self,
        known: Mapping[str, Person] = MappingProxyType({}),
        *,
        now: Callable[[], float] = time.monotonic,
        day_s: Callable[[], float] = local_day_s,
        on_said: Callable[[Said], object] = lambda said: None,
    ) -> None:
        self.known, self.now, self.day_s, self._on_said = known, now, day_s, on_said
        self._said: deque[Said] = deque(maxlen=SAID_KEPT)
        self._private: deque[Said] = deque(maxlen=SAID_KEPT)
        self._open: set[str] = set()

    def hear(self, person: str, text: str, *, private: bool = False) -> None:
        """Take what somebody said now."""
        said = Said(person, " ".join(text.split()), self.now(), private)
        self._said.append(said)
        if private:
            self._private.append(said)
        self._on_said(said)

    def said(self, reader: str) -> list[Said]:
        """Return what may be shown to a person, the oldest first: what is private only to who said it."""
        return [said for said in self._said if not said.private or said.person == reader]

    def opened(self, person: str) -> None:
        """Note that a person has an open request."""
        self._open.add(person)

    def closed(self, person: str) -> None:
        """Note that the request of a person has ended."""
        self._open.discard(person)

    def refusal(self, person: str) -> str:
        """Return why a person may not be asked now; "" when that is fine."""
        if person not in self.known:
            return f"nobody knows '{person}'; known: {', '.join(self.known) or 'nobody'}"
        if person in self._open:
            return f"{person} has an open request; ask when it has been answered"
        for begin, end in self.known[person].quiet:
            if _within(self.day_s(), _seconds(begin), _seconds(end)):
                return f"{person} is not asked between {begin} and {end}"
        return ""

    def leaked(self, text: str, reader: str) -> str:
        """Return whose private words a text would show to a reader; "" for nobody's.

        Three words in a row of what somebody said in private count, both where it has two, or a number of it; whoever writes
        texts is a model.
        """
        words = _words(text)
        shown = _runs(words, 3) | _runs(words, 2) | _numbers(words)
        for said in self._private:
            told = _words(said.text)
            if said.person != reader and shown & (_runs(told, 2 if len(told) == 2 else 3) | _numbers(told)):
                return said.person
        return ""


def load_people(name_or_path: str) -> dict[str, Person]:
    """Read people by name from `config/people/<name>.yaml`, or from the path of a YAML file; none for "". Raises
    RobotConfigError as `load_file` does."""
    return load_file(_PeopleFile, name_or_path, "people")[0].people if name_or_path else {}


# -- what a reply means ------------------------------------------------------------------------------------------------


class Kind(str, Enum):
    """Name what a person answers to a request."""

    ACCEPT = "accept"
    DECLINE = "decline"
    LATER = "later"
    INSTEAD = "instead"
    """Somebody else should be asked."""
    DONE = "done"
    """What was accepted before has been done."""
    OTHER = "other"
    """Words that only the planning models can read, such as the answer to a question."""


@dataclass(frozen=True)
class Reply:
    """Hold what a person answered; `instead` names who should be asked."""

    kind: Kind
    text: str
    instead: str = ""


REQUEST = ("yes", "no", "later")
"""Choices of a request; other words are taken as well."""
ENDED = ("done", "no")
"""Choices of the question whether something has been done."""
_KINDS = {"yes": Kind.ACCEPT, "no": Kind.DECLINE, "later": Kind.LATER, "done": Kind.DONE}


def read_reply(text: str, others: Iterable[str], *, private: bool = False) -> Reply:
    """Return what a reply means; `others` are the people who might be asked instead.

    What is plainly yes, no, later or done is that. One that names somebody else with a word such as "ask" or "instead", and
    neither asks nor denies, means that one. All else is OTHER, because nobody guesses what a person has agreed to. Of a
    `private` reply no model reads the words: there a reason may stand behind a no or later, and the text is "no (private)".
    """
    word = chosen(text, tuple(_KINDS))
    named = _named(text, others) if word is None else []
    instead = len(named) == 1 and any(_holds(text, one) for one in _INSTEAD) and not any(_holds(text, one) for one in _UNLESS)
    if word is None and private and not instead:
        word = chosen(_REASON.split(text, maxsplit=1)[0], ("no", "later"))
    told = f"{word or ''} {PRIVATE}".strip() if private else text
    if word is not None:
        return Reply(_KINDS[word], told)
    return Reply(Kind.INSTEAD, told, named[0]) if instead else Reply(Kind.OTHER, told)


_SAID = read_yaml(text_beside(__file__, "people.yaml"), strict=True)
_INSTEAD, _UNLESS, _BECAUSE = (tuple(map(str.strip, _SAID[name].split(","))) for name in ("instead", "unless", "because"))
_REASON = re.compile(
    r"[,;:!，；：！。–—]|\.(?!\d)|\s-\s|" + "|".join(rf"\b{word}\b" if word.isascii() else word for word in _BECAUSE),
    re.IGNORECASE,
)
"""Matches where the reason begins behind a plain answer."""
_WORDS = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")


def _named(text: str, others: Iterable[str]) -> list[str]:
    """Return those whose names stand in a text; who names Li Wei has not named Li."""
    found = [name for name in others if _holds(text, name)]

    def without_longer(name: str) -> str:
        rest = text.replace("’", "'")
        for other in found:
            rest = _pattern(other).sub(" ", rest) if len(other) > len(name) and _holds(other, name) else rest
        return rest

    return [name for name in found if _holds(without_longer(name), name)]


def _holds(text: str, words: str) -> bool:
    """Return whether words stand in a text, whatever their case; a Latin letter beside one of theirs makes another word."""
    return _pattern(words).search(text.replace("’", "'")) is not None


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"^(?=\w)|(?<=\w)$", r"\\b", re.escape(words), flags=re.ASCII), re.IGNORECASE | re.ASCII)


def _words(text: str) -> list[str]:
    """Return the words of a text as they compare, however they are encoded."""
    return _WORDS.findall(unicodedata.normalize("NFKC", text).casefold())


def _runs(words: Sequence[str], length: int) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def _numbers(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {(word,) for word in words if any(map(str.isdigit, word))}


def _seconds(told: str) -> float:
    hours, minutes = told.split(":")
    return int(hours) * 3600.0 + int(minutes) * 60.0


def _within(now_s: float, begin_s: float, end_s: float) -> bool:
    return (now_s - begin_s) % DAY_S < (end_s - begin_s) % DAY_S
