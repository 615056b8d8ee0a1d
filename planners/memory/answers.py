# SPDX-License-Identifier: Apache-2.0
"""Read the usual questions to a memory, in English, and answer them each with the records it stands on; no model."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from planners.language.lexicon import NUMBERS, UNITS, with_pieces
from planners.memory.query import LIMITED, Query, words_of
from planners.memory.records import Kind, Record, Spot, Viewer
from planners.memory.store import Store
from planners.prompts.blocks import text_beside
from skill_kernel.config.yaml_text import read_yaml

MAX_QUESTION = 1000
"""Longest question, in characters."""
DAY_S = 86_400.0


@dataclass(frozen=True)
class Question:
    """A question as it was read. `form` is a name in questions.yaml, or “other”, answered by the passages that fit best.
    `subject` is the thing, place, person or deed; `room` limits it to one. `rooms`: rooms are meant rather than places;
    `first`: the first time is asked for, not the last. Times in seconds."""

    form: str
    text: str
    subject: str = ""
    room: str = ""
    rooms: bool = False
    first: bool = False
    since_s: float | None = None
    until_s: float | None = None


_READ: dict[str, Any] = read_yaml(text_beside(__file__, "questions.yaml"), strict=True)
_ROWS = [tuple(row.split(": ", 1)) for row in _READ["forms"].splitlines()]
_SPANS_S = {word: UNITS[word][1] for word in ("second", "minute")} | {
    "hour": 3600.0,
    "day": DAY_S,
    "week": 7 * DAY_S,
    "month": 30 * DAY_S,
}
_COUNTS = NUMBERS | {"few": 3.0, "a": 1.0, "an": 1.0}
_COUNT, _UNIT = rf"(\d{{1,6}}|{'|'.join(_COUNTS)})", rf"({'|'.join(_SPANS_S)})s?"
_SPAN = re.compile(rf"\b(?:(?:in|within|during|over|for) )?(?:the )?(?:last|past) (?:{_COUNT} )?{_UNIT}\b")
_AGO = re.compile(rf"\b(?:about )?{_COUNT} {_UNIT} ago\b")
_DAYS = re.compile(
    r"\b(?:(?P<half>this|yesterday|today in the|in the) (?P<part>morning|afternoon|evening)|(?P<day>today|yesterday|tonight))\b"
)
_PARTS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24)}
_ADDRESS = re.compile(
    r"^ *(?:(?:please|and|so|hey|hi|ok|okay|well|can you|could you|do you know|do you remember|tell me|remember) )+"
)


@lru_cache(maxsize=8)
def _forms(robots: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the forms where `robots` is the pattern of the names that mean a robot."""
    pieces = {**_READ["pieces"], "ROBOTS": robots or "you"}
    return tuple((form, re.compile(with_pieces(pattern, pieces))) for form, pattern in _ROWS)


def read(question: str, now_s: float, robots: tuple[str, ...] = ()) -> Question:
    """Return the question as it reads at the asker's time `now_s`; `robots` are names that mean a robot. Raises ValueError when
    it is empty or too long."""
    text = " ".join(question.split())
    if not text or len(text) > MAX_QUESTION:
        raise ValueError(f"a question has 1 to {MAX_QUESTION} characters, not {len(text)}")
    plain = re.sub(r"[?!.,;:\"“”]+", " ", text.lower().replace("’", "'"))
    names = "|".join(re.escape(r.lower()) for r in robots if r)
    if names:
        plain = re.sub(rf"^ *(?:(?:hey|hi|ok|okay) )?(?:{names}) ", "", plain)
    plain, since_s, until_s = _time(" ".join(_ADDRESS.sub("", plain).split()), now_s)
    for form, pattern in _forms(names):
        if (found := pattern.fullmatch(plain)) is not None:
            said = {name: value.strip() for name, value in found.groupdict(default="").items()}
            subject, room = said.get("subject", ""), said.get("room", "")
            rooms, first = said.get("places") == "rooms", said.get("time") == "first"
            return Question(form, text, subject, room, rooms, first, since_s, until_s)
    return Question("other", text, since_s=since_s, until_s=until_s)


def _time(plain: str, now_s: float) -> tuple[str, float | None, float | None]:
    """Return the question without its words of time, and the times they mean."""
    if found := _SPAN.search(plain):
        return _without(plain, found), now_s - _number(found[1] or "1") * _SPANS_S[found[2]], None
    if found := _AGO.search(plain):
        unit_s = _SPANS_S[found[2]]
        at_s = now_s - _number(found[1]) * unit_s
        return _without(plain, found), at_s - unit_s / 2, at_s + unit_s / 2
    if found := _DAYS.search(plain):
        day = time.localtime(now_s)
        midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
        midnight -= DAY_S if "yesterday" in found.group() else 0.0
        since_h, until_h = (18, 24) if found["day"] == "tonight" else _PARTS.get(found["part"], (0, 24))
        return _without(plain, found), midnight + since_h * 3600.0, midnight + until_h * 3600.0
    return plain, None, None


def _number(word: str) -> float:
    return float(word) if word.isdigit() else _COUNTS[word]


def _without(plain: str, found: re.Match[str]) -> str:
    return " ".join(f"{plain[: found.start()]} {plain[found.end() :]}".split())


def listed(items: Iterable[str], limit: int = 8) -> str:
    """Return `a, b and c`; of many the first ones and how many more."""
    names = list(items)
    if len(names) > limit:
        names = [*names[:limit], f"{len(names) - limit} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"


def clock(time_s: float, now_s: float | None = None) -> str:
    """Return a time of day, with its date unless it lies on the same day as `now_s`."""
    then = time.localtime(time_s)
    if now_s is None:
        return time.strftime("%Y-%m-%d %H:%M:%S", then)
    days = {time.localtime(now_s)[:3]: "at %H:%M:%S", time.localtime(now_s - 86400)[:3]: "yesterday at %H:%M:%S"}
    return time.strftime(days.get(then[:3], "on %Y-%m-%d at %H:%M:%S"), then)


def where(spot: Spot) -> str:
    """`in the kitchen near (1.5, 2.4)`, as far as it is known; empty when nothing is."""
    room = f"in the {readable(spot.room)}" if spot.room else ""
    at = f"near ({spot.x:.1f}, {spot.y:.1f})" if spot.x is not None and spot.y is not None else ""
    return " ".join(filter(None, (room, at)))


def readable(name: str) -> str:
    """Return a name without its underscores."""
    return name.replace("_", " ")


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def with_article(label: str) -> str:
    """Return `a ball`, `an apple`."""
    return f"{'an' if label[:1].lower() in 'aeiou' else 'a'} {label}"


MANY = 2000
"""A question looks at so many of the newest records of a kind."""
MAX_SOURCES = 20


@dataclass(frozen=True)
class Answer:
    """Answer of the memory. `sources` are the records it stands on, the most telling first; `form` names how the question
    was read; `note` says how the search was limited, "" when it was not."""

    text: str
    sources: tuple[Record, ...] = ()
    form: str = "other"
    note: str = ""


class Answerer:
    """Answers one question of one asker. Raises StoreError."""

    def __init__(self, store: Store, question: Question, viewer: Viewer | None, robot: str, now_s: float) -> None:
        self._store, self._asked, self._viewer, self._now_s = store, question, viewer, now_s
        self._robot = robot
        """Who is meant by “you”; "" means all robots, each by its name."""
        self._complete = True

    def answer(self) -> Answer | None:
        """Return the answer, or None where the form of the question has none."""
        form = self._asked.form
        way = {
            "places": self._places,
            "been": self._been,
            "seen": self._things if form in ("what_seen", "who_seen") else self._seen,
            "asked": self._said,
            "said": self._said,
            "done": self._done,
        }.get(form.rpartition("_")[2])
        found = way() if way is not None else None
        if found is None:
            return None
        older_count = form in ("how_often_seen", "how_often_done") or self._asked.first or not found.sources
        note = found.note or ("" if self._complete or not older_count else LIMITED)
        return replace(found, form=form, sources=found.sources[:MAX_SOURCES], note=note)

    # -- places -------------------------------------------------------------------------------------------------------

    def _places(self) -> Answer:
        visits = self._find(Kind.VISIT, robot=self._robot)
        note = f"only the newest {MANY} visits were looked at" if len(visits) == MANY else ""
        by_robot: defaultdict[str, dict[str, Record]] = defaultdict(dict)
        divided: set[tuple[str, str]] = set()
        for visit in visits:
            place, room, robot = str(visit.data.get("place") or visit.spot.room), visit.spot.room, visit.provenance.robot
            by_robot[robot].setdefault((self._asked.rooms and room) or place, visit)
            if room != place:
                divided.add((robot, room))
        if not self._asked.rooms:
            for robot, room in divided:  # a room is no place of its own when places in it were told apart
                by_robot[robot].pop(room, None)
        if not any(by_robot.values()):
            return self._nothing("no place")
        what = "room" if self._asked.rooms else "place"
        parts = []
        for robot, places in by_robot.items():
            names = listed(sorted(map(readable, places)), 20)
            explored = f"explored {len(places)} {what}{'s' if len(places) != 1 else ''}{self._when()}: {names}."
            parts.append(f"{self._who(robot)} {explored}")
        return Answer(" ".join(parts), tuple(v for places in by_robot.values() for v in places.values()), note=note)

    def _been(self) -> Answer:
        wanted = self._asked.subject
        visits = [
            v
            for v in self._find(Kind.VISIT, robot=self._robot)
            if _same(wanted, str(v.data.get("place"))) or _same(wanted, v.spot.room)
        ]
        if not visits:
            return self._nothing(f"no visit to the {wanted}")
        one, which = self._chosen(visits)
        place, who = readable(str(one.data.get("place") or one.spot.room)), self._who(one.provenance.robot)
        if self._asked.form == "how_often_been":
            return Answer(f"{who} came to the {place} {times(len(visits))}{self._when()}.", tuple(visits))
        yes = "Yes: " if self._asked.form == "whether_been" else ""
        return Answer(f"{yes}{who} was {which} in the {place} {clock(one.time_s, self._now_s)}.", tuple(visits))

    # -- things -------------------------------------------------------------------------------------------------------

    def _seen(self) -> Answer | None:
        wanted, form = self._asked.subject, self._asked.form
        anywhere = self._labelled(wanted)
        if not anywhere:
            return self._unseen(wanted)
        sightings = self._inside(anywhere)
        elsewhere = "" if sightings else f"Not in the {self._asked.room}, as far as I remember. "
        sightings = sightings or anywhere
        one, which = self._chosen(sightings)
        label = str(one.data["label"])
        who, at = self._who(one.provenance.robot), clock(one.time_s, self._now_s)
        spot = where(one.spot) or "at a place I do not know"
        if form == "how_often_seen" and not elsewhere:
            most = max(int(r.data.get("count", 1)) for r in sightings)
            often = f"{times(len(sightings))}{self._when()}, at most {most} at a time"
            return Answer(f"{who} saw {with_article(label)} {often}, last {spot} {at}.", tuple(sightings))
        yes = elsewhere or ("Yes: " if form == "whether_seen" else "")
        habit = self._store.by_key(f"habit:place:{label}") if form == "last_seen" else None
        other = habit is not None and habit.spot.room != one.spot.room
        usual = f" It is usually in the {readable(habit.spot.room)}." if habit is not None and other else ""
        return Answer(f"{yes}{who} {which} saw the {label} {spot} {at}.{usual}", tuple(sightings))

    def _unseen(self, wanted: str) -> Answer | None:
        note = "" if self._complete else LIMITED
        told = self._words(wanted, (Kind.HEARD, Kind.NOTE, Kind.CALL, Kind.HABIT, Kind.RELATION, Kind.ENTITY))
        if self._asked.form == "last_seen" and not told and not self._find(Kind.SIGHTING, limit=1):
            return None
        but = f" But: {told[0].text}" if told else ""
        return Answer(self._nothing(f"no {wanted}").text + but, tuple(told[:5]), note=note)

    def _things(self) -> Answer:
        found = self._inside(self._find(Kind.SIGHTING))
        people = self._asked.form == "who_seen"
        if people:
            names = {str(r.data["name"]) for r in self._find(Kind.ENTITY) if r.data.get("type") == "person"}
            found = [r for r in found if str(r.data.get("label")) in names]
        place = f" in the {self._asked.room}" if self._asked.room else ""
        if not found:
            return self._nothing(f"{'nobody' if people else 'nothing'}{place}")
        labels = Counter(str(r.data.get("label")) for r in found)
        newest = {str(r.data.get("label")): r for r in reversed(found)}
        said = (
            f"{with_article(name)} ({times(n)}, last {clock(newest[name].time_s, self._now_s)})"
            for name, n in labels.most_common()
        )
        robots = sorted({r.provenance.robot for r in found})
        who = self._who(robots[0]) if len(robots) == 1 else listed(robots)
        return Answer(f"{who} saw {listed(said)}{place}{self._when()}.", tuple(newest[name] for name in labels))

    # -- what was said and done ---------------------------------------------------------------------------------------

    def _said(self) -> Answer:
        wanted, by_person = self._asked.subject, self._asked.form == "what_said"
        if wanted and words_of(wanted) and not by_person:
            heard = self._words(wanted, (Kind.HEARD,))
        else:
            heard = self._find(Kind.HEARD)
        if by_person and wanted not in ("i", "we", "people", "somebody", "someone", "anyone", "they"):
            heard = [r for r in heard if _same(wanted, r.provenance.sender)]
        if not heard:
            about = f" from {wanted}" if by_person else f" about “{wanted}”" if wanted else ""
            return self._nothing(f"no words{about}")
        newest = heard[0]
        text = f"{newest.text.rstrip('.')} ({clock(newest.time_s, self._now_s)})."
        others = {r.provenance.sender for r in heard if r.provenance.sender} - {newest.provenance.sender}
        if others and not by_person:
            text += f" Before that also {listed(sorted(others))}."
        return Answer(text, tuple(heard))

    def _done(self) -> Answer | None:
        wanted, form = self._asked.subject, self._asked.form
        if form == "what_done":
            done = self._find(Kind.EPISODE, robot=self._robot, limit=10) or self._find(Kind.CALL, robot=self._robot, limit=10)
            return Answer(" ".join(r.text for r in done[:5]), tuple(done)) if done else self._nothing("no task")
        kinds = (Kind.EPISODE, Kind.OUTCOME, Kind.CALL)
        found = [r for kind in kinds for r in self._words(wanted, (kind,), self._robot)]
        found.sort(key=lambda r: r.time_s, reverse=True)
        if not found:
            return None
        one, _ = self._chosen(found)
        if form == "how_often_done":
            same = [r for r in found if r.kind == found[0].kind]
            often = f"{times(len(same)).capitalize()}{self._when()}, as far as I remember."
            return Answer(f"{often} The last: {one.text}", tuple(same))
        return Answer(f"{clock(one.start_s, self._now_s).capitalize()}: {one.text}", tuple(found))

    # -- records ------------------------------------------------------------------------------------------------------

    def _query(self, kinds: Sequence[Kind], robot: str, limit: int, text: str = "") -> Query:
        since_s, until_s, names = self._asked.since_s, self._asked.until_s, tuple(k.value for k in kinds)
        return Query(text, names, since_s=since_s, until_s=until_s, robot=robot, viewer=self._viewer, limit=limit)

    def _find(self, kind: Kind, robot: str = "", limit: int = MANY) -> list[Record]:
        return self._store.find(self._query((kind,), robot, limit))

    def _words(self, text: str, kinds: Sequence[Kind], robot: str = "", limit: int = 50) -> list[Record]:
        """Return the newest records that hold all these words."""
        if not words_of(text):
            return []
        found, complete = self._store.search(self._query(kinds, robot, limit, text), every=True)
        self._complete = self._complete and complete
        return found

    def _labelled(self, wanted: str) -> list[Record]:
        found = self._words(wanted, (Kind.SIGHTING,), limit=MANY)
        if not found and len(wanted.split()) > 1:  # “the red ball”, where only balls are told apart
            found = self._words(wanted.split()[-1], (Kind.SIGHTING,), limit=MANY)
        return [r for r in found if _same(wanted, str(r.data.get("label")))]

    def _inside(self, found: list[Record]) -> list[Record]:
        """Those in the room that is asked about."""
        return [r for r in found if not self._asked.room or _same(self._asked.room, r.spot.room)]

    def _chosen(self, found: list[Record]) -> tuple[Record, str]:
        return (found[-1], "first") if self._asked.first else (found[0], "last")

    # -- words --------------------------------------------------------------------------------------------------------

    def _nothing(self, what: str) -> Answer:
        who = self._who(self._robot)
        return Answer(f"{who} remember{'' if who == 'I' else 's'} {what}{self._when()}.")

    def _who(self, robot: str) -> str:
        return "I" if robot == self._robot or not robot else robot

    def _when(self) -> str:
        asked = self._asked
        if asked.since_s is None:
            return ""
        until = f" until {clock(asked.until_s)}" if asked.until_s is not None and asked.until_s < self._now_s else ""
        return f" since {clock(asked.since_s)}{until}"


def _same(wanted: str, name: str) -> bool:
    """Return whether a name is meant: the same words, one more or one less before the last, in singular or plural."""
    asked, known = (
        [w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith("ss") else w for w in text.casefold().split()]
        for text in (wanted, readable(name))
    )
    return bool(asked and known) and asked[-1] == known[-1] and (set(asked) <= set(known) or set(known) <= set(asked))
