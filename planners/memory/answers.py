# SPDX-License-Identifier: Apache-2.0
"""Answers the usual questions from the records, each with those it stands on; no model."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from planners.memory.fulltext import words_of
from planners.memory.query import Query
from planners.memory.questions import Form, Question
from planners.memory.records import Kind, Record, Spot, Viewer
from planners.memory.store import Store


def listed(items: Iterable[str], limit: int = 8) -> str:
    """`a, b and c`; of many the first ones and how many more."""
    names = list(items)
    if len(names) > limit:
        names = [*names[:limit], f"{len(names) - limit} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"


def clock(time_s: float, now_s: float | None = None) -> str:
    """A time of day, with its date unless it lies on the same day as `now_s`."""
    then = time.localtime(time_s)
    if now_s is None:
        return time.strftime("%Y-%m-%d %H:%M:%S", then)
    days = (time.localtime(now_s).tm_yday, time.localtime(now_s).tm_year)
    if (then.tm_yday, then.tm_year) == days:
        return time.strftime("at %H:%M:%S", then)
    if 0 <= now_s - time_s < 2 * 86400 and time.localtime(now_s - 86400).tm_yday == then.tm_yday:
        return time.strftime("yesterday at %H:%M:%S", then)
    return time.strftime("on %Y-%m-%d at %H:%M:%S", then)


def where(spot: Spot) -> str:
    """`in the kitchen near (1.5, 2.4)`, as far as it is known; empty when nothing is."""
    room = f"in the {readable(spot.room)}" if spot.room else ""
    at = f"near ({spot.x:.1f}, {spot.y:.1f})" if spot.x is not None and spot.y is not None else ""
    return " ".join(filter(None, (room, at)))


def readable(name: str) -> str:
    """A name without its underscores."""
    return name.replace("_", " ")


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def with_article(label: str) -> str:
    """`a ball`, `an apple`."""
    return f"{'an' if label[:1].lower() in 'aeiou' else 'a'} {label}"


MANY = 2000
"""A question looks at so many of the newest records of a kind."""
MAX_SOURCES = 20


@dataclass(frozen=True)
class Answer:
    """What the memory says. `sources` are the records it stands on, the most telling first; `form` names how the question
    was read; `note` says how the search was limited, "" when it was not."""

    text: str
    sources: tuple[Record, ...] = ()
    form: str = Form.OTHER.value
    note: str = ""


class Answerer:
    """Answers one question of one asker. Raises StoreError."""

    def __init__(self, store: Store, question: Question, viewer: Viewer | None, robot: str, now_s: float) -> None:
        self._store, self._asked, self._viewer, self._now_s = store, question, viewer, now_s
        self._robot = robot
        """Who is meant by “you”; "" means all robots, each by its name."""
        self._complete = True

    def answer(self) -> Answer | None:
        """The answer, or None where the form of the question has none."""
        form = self._asked.form
        if form in (Form.COUNT_PLACES, Form.WHICH_PLACES):
            found = self._places()
        elif form in (Form.LAST_SEEN, Form.WHEN_SEEN, Form.WHETHER_SEEN, Form.HOW_OFTEN_SEEN):
            found = self._seen()
        elif form in (Form.WHEN_BEEN, Form.WHETHER_BEEN, Form.HOW_OFTEN_BEEN):
            found = self._been()
        elif form in (Form.WHAT_SEEN, Form.WHO_SEEN):
            found = self._things()
        elif form in (Form.WHO_ASKED, Form.WHAT_SAID):
            found = self._said()
        elif form in (Form.WHAT_DONE, Form.WHEN_DONE, Form.HOW_OFTEN_DONE):
            found = self._done()
        else:
            return None
        if found is None:
            return None
        older_count = form in (Form.HOW_OFTEN_SEEN, Form.HOW_OFTEN_DONE) or self._asked.first or not found.sources
        note = found.note or (self._limited() if older_count else "")
        return replace(found, form=form.value, sources=found.sources[:MAX_SOURCES], note=note)

    # -- places -------------------------------------------------------------------------------------------------------

    def _places(self) -> Answer | None:
        visits = self._find(Kind.VISIT, robot=self._robot)
        note = f"only the newest {MANY} visits were looked at" if len(visits) == MANY else ""
        by_robot: defaultdict[str, dict[str, Record]] = defaultdict(dict)
        rooms_of_places: defaultdict[str, set[str]] = defaultdict(set)
        for visit in visits:
            place, room, robot = str(visit.data.get("place") or visit.spot.room), visit.spot.room, visit.provenance.robot
            name = room or place if self._asked.rooms else place
            by_robot[robot].setdefault(name, visit)
            if room and room != place:
                rooms_of_places[robot].add(room)
        if not self._asked.rooms:
            for robot, rooms in rooms_of_places.items():
                # A room is no place of its own when places in it were told apart.
                for room in rooms:
                    by_robot[robot].pop(room, None)
        if not any(by_robot.values()):
            return Answer(f"{self._who(self._robot)} remember{self._s(self._robot)} no place{self._when()}.")
        what = "room" if self._asked.rooms else "place"
        parts = []
        for robot, places in by_robot.items():
            names = listed(sorted(map(readable, places)), 20)
            explored = f"explored {len(places)} {what}{'s' if len(places) != 1 else ''}{self._when()}: {names}."
            parts.append(f"{self._who(robot)} {explored}")
        return Answer(" ".join(parts), tuple(v for places in by_robot.values() for v in places.values()), note=note)

    def _been(self) -> Answer | None:
        wanted = self._asked.subject
        visits = [
            v
            for v in self._find(Kind.VISIT, robot=self._robot)
            if _same(wanted, str(v.data.get("place"))) or _same(wanted, v.spot.room)
        ]
        if not visits:
            return Answer(f"{self._who(self._robot)} remember{self._s(self._robot)} no visit to the {wanted}{self._when()}.")
        one = visits[-1] if self._asked.first else visits[0]
        place, who = readable(str(one.data.get("place") or one.spot.room)), self._who(one.provenance.robot)
        if self._asked.form is Form.HOW_OFTEN_BEEN:
            return Answer(f"{who} came to the {place} {times(len(visits))}{self._when()}.", tuple(visits))
        yes = "Yes: " if self._asked.form is Form.WHETHER_BEEN else ""
        which = "first" if self._asked.first else "last"
        return Answer(f"{yes}{who} was {which} in the {place} {clock(one.time_s, self._now_s)}.", tuple(visits))

    # -- things -------------------------------------------------------------------------------------------------------

    def _seen(self) -> Answer | None:
        wanted, form = self._asked.subject, self._asked.form
        anywhere = self._labelled(wanted)
        sightings = [r for r in anywhere if not self._asked.room or _same(self._asked.room, r.spot.room)]
        if not anywhere:
            return self._unseen(wanted)
        elsewhere = "" if sightings else f"Not in the {self._asked.room}, as far as I remember. "
        sightings = sightings or anywhere
        one = sightings[-1] if self._asked.first else sightings[0]
        label = str(one.data["label"])
        who, at = self._who(one.provenance.robot), clock(one.time_s, self._now_s)
        spot = where(one.spot) or "at a place I do not know"
        if form is Form.HOW_OFTEN_SEEN and not elsewhere:
            most = max(int(r.data.get("count", 1)) for r in sightings)
            often = f"{times(len(sightings))}{self._when()}, at most {most} at a time"
            return Answer(f"{who} saw {with_article(label)} {often}, last {spot} {at}.", tuple(sightings))
        yes = elsewhere or ("Yes: " if form is Form.WHETHER_SEEN else "")
        which = "first" if self._asked.first else "last"
        habit = self._store.by_key(f"habit:place:{label}") if form is Form.LAST_SEEN else None
        other = habit is not None and habit.spot.room != one.spot.room
        usual = f" It is usually in the {readable(habit.spot.room)}." if habit is not None and other else ""
        return Answer(f"{yes}{who} {which} saw the {label} {spot} {at}.{usual}", tuple(sightings))

    def _unseen(self, wanted: str) -> Answer | None:
        note = self._limited()
        told = self._words(wanted, (Kind.HEARD, Kind.NOTE, Kind.CALL, Kind.HABIT, Kind.RELATION, Kind.ENTITY))
        if self._asked.form is Form.LAST_SEEN and not told and not self._find(Kind.SIGHTING, limit=1):
            return None
        text = f"{self._who(self._robot)} remember{self._s(self._robot)} no {wanted}{self._when()}."
        if told:
            text += f" But: {told[0].text}"
        return Answer(text, tuple(told[:5]), note=note)

    def _things(self) -> Answer | None:
        found = self._find(Kind.SIGHTING)
        if self._asked.room:
            found = [r for r in found if _same(self._asked.room, r.spot.room)]
        people = self._asked.form is Form.WHO_SEEN
        if people:
            names = {str(r.data["name"]): r for r in self._find(Kind.ENTITY) if r.data.get("type") == "person"}
            found = [r for r in found if str(r.data.get("label")) in names]
        place = f" in the {self._asked.room}" if self._asked.room else ""
        if not found:
            nothing = "nobody" if people else "nothing"
            return Answer(f"{self._who(self._robot)} remember{self._s(self._robot)} {nothing}{place}{self._when()}.")
        labels = Counter(str(r.data.get("label")) for r in found)
        newest: dict[str, Record] = {}
        for record in found:
            newest.setdefault(str(record.data.get("label")), record)
        last = {name: clock(record.time_s, self._now_s) for name, record in newest.items()}
        said = (f"{with_article(name)} ({times(n)}, last {last[name]})" for name, n in labels.most_common())
        robots = sorted({r.provenance.robot for r in found})
        who = self._who(robots[0]) if len(robots) == 1 else listed(robots)
        return Answer(f"{who} saw {listed(said)}{place}{self._when()}.", tuple(newest.values()))

    # -- what was said and done ---------------------------------------------------------------------------------------

    def _said(self) -> Answer | None:
        wanted, by_person = self._asked.subject, self._asked.form is Form.WHAT_SAID
        if by_person:
            heard = self._find(Kind.HEARD)
            if wanted not in ("i", "we", "people", "somebody", "someone", "anyone", "they"):
                heard = [r for r in heard if _same(wanted, r.provenance.sender)]
        else:
            heard = self._words(wanted, (Kind.HEARD,)) if words_of(wanted) and wanted else self._find(Kind.HEARD)
        if not heard:
            about = f" about “{wanted}”" if wanted and not by_person else f" from {wanted}" if by_person else ""
            return Answer(f"{self._who(self._robot)} remember{self._s(self._robot)} no words{about}{self._when()}.")
        newest = heard[0]
        text = f"{newest.text.rstrip('.')} ({clock(newest.time_s, self._now_s)})."
        others = {r.provenance.sender for r in heard if r.provenance.sender} - {newest.provenance.sender}
        if others and not by_person:
            text += f" Before that also {listed(sorted(others))}."
        return Answer(text, tuple(heard))

    def _done(self) -> Answer | None:
        wanted, form = self._asked.subject, self._asked.form
        kinds = (Kind.EPISODE, Kind.OUTCOME, Kind.CALL)
        if form is Form.WHAT_DONE:
            done = self._find(Kind.EPISODE, robot=self._robot, limit=10) or self._find(Kind.CALL, robot=self._robot, limit=10)
            if not done:
                return Answer(f"{self._who(self._robot)} remember{self._s(self._robot)} no task{self._when()}.")
            return Answer(" ".join(r.text for r in done[:5]), tuple(done))
        found = [r for kind in kinds for r in self._words(wanted, (kind,), self._robot)]
        found.sort(key=lambda r: r.time_s, reverse=True)
        if not found:
            return None
        one = found[-1] if self._asked.first else found[0]
        if form is Form.HOW_OFTEN_DONE:
            same = [r for r in found if r.kind == found[0].kind]
            often = f"{times(len(same)).capitalize()}{self._when()}, as far as I remember."
            return Answer(f"{often} The last: {one.text}", tuple(same))
        return Answer(f"{clock(one.start_s, self._now_s).capitalize()}: {one.text}", tuple(found))

    # -- records ------------------------------------------------------------------------------------------------------

    def _query(self, kinds: Sequence[Kind], robot: str = "", limit: int = MANY) -> Query:
        asked = self._asked
        return Query(
            kinds=tuple(k.value for k in kinds),
            robot=robot,
            since_s=asked.since_s,
            until_s=asked.until_s,
            viewer=self._viewer,
            limit=limit,
        )

    def _find(self, *kinds: Kind, robot: str = "", limit: int = MANY) -> list[Record]:
        return self._store.find(self._query(kinds, robot, limit))

    def _words(self, text: str, kinds: Sequence[Kind], robot: str = "", limit: int = 50) -> list[Record]:
        if not words_of(text):
            return []
        found, complete = self._store.find_words(replace(self._query(kinds, robot, limit), text=text))
        self._complete = self._complete and complete
        return found

    def _limited(self) -> str:
        return "" if self._complete else "of the records with these frequent words only the newest were looked at"

    def _labelled(self, wanted: str) -> list[Record]:
        found = self._words(wanted, (Kind.SIGHTING,), limit=MANY)
        if not found and len(wanted.split()) > 1:  # “the red ball”, where only balls are told apart
            found = self._words(wanted.split()[-1], (Kind.SIGHTING,), limit=MANY)
        return [r for r in found if _same(wanted, str(r.data.get("label")))]

    # -- words --------------------------------------------------------------------------------------------------------

    def _who(self, robot: str) -> str:
        mine = robot == self._robot and bool(robot)
        return "I" if mine or not robot else robot

    def _s(self, robot: str) -> str:
        return "" if self._who(robot) == "I" else "s"

    def _when(self) -> str:
        asked = self._asked
        if asked.since_s is None:
            return ""
        until = f" until {clock(asked.until_s)}" if asked.until_s is not None and asked.until_s < self._now_s else ""
        return f" since {clock(asked.since_s)}{until}"


def _same(wanted: str, name: str) -> bool:
    """Whether a name is meant: the same words, one more or one less before the last, in singular or plural."""
    asked, known = _stems(wanted), _stems(readable(name))
    return bool(asked and known) and asked[-1] == known[-1] and (set(asked) <= set(known) or set(known) <= set(asked))


def _stems(text: str) -> list[str]:
    words = text.casefold().split()
    return [w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith("ss") else w for w in words]
