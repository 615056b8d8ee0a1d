# SPDX-License-Identifier: Apache-2.0
"""Answer the usual questions about the past, each with the records that the answer is based on; no model."""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from planners.language.questions import WORDS, Question, is_question, readable, same_thing, with_article
from planners.learned import LessonKind
from planners.memory.query import LIMITED, Query, words_of
from planners.memory.records import Kind, Record, Spot, Viewer
from planners.memory.store import Store

_DATES = {
    "en": ("at %H:%M:%S", "yesterday at %H:%M:%S", "on %Y-%m-%d at %H:%M:%S"),
    "zh": ("今天%H:%M:%S", "昨天%H:%M:%S", "%Y年%m月%d日%H:%M:%S"),
}


def clock(time_s: float, now_s: float | None = None, language: str = "en") -> str:
    """Return a time of day, with its date unless it lies on the same day as `now_s`."""
    then = time.localtime(time_s)
    if now_s is None:
        return time.strftime("%Y-%m-%d %H:%M:%S", then)
    today, yesterday, before = _DATES[language]
    year, month, day = time.localtime(now_s)[:3]
    noon_before = time.mktime((year, month, day - 1, 12, 0, 0, 0, 0, -1))  # a day may have 23 or 25 hours
    days = {(year, month, day): today, time.localtime(noon_before)[:3]: yesterday}
    return time.strftime(days.get(then[:3], before), then)


def where(spot: Spot) -> str:
    """`in the kitchen near (1.5, 2.4)`, as far as it is known; empty when nothing is."""
    room = f"in the {readable(spot.room)}" if spot.room else ""
    at = f"near ({spot.x:.1f}, {spot.y:.1f})" if spot.x is not None and spot.y is not None else ""
    return " ".join(filter(None, (room, at)))


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def age(seconds: float) -> str:
    """Return a time span in its greatest unit."""
    for unit, length_s in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def sight(sighting: Record) -> str:
    """Return who saw what where."""
    label, count = str(sighting.data["label"]), int(sighting.data.get("count", 1))
    what = with_article(label) if count < 2 else f"{count} of {label}"
    return f"{sighting.provenance.robot} saw {what} {where(sighting.spot)}".rstrip()


MANY = 2000
"""A question looks at so many of the newest records of a kind."""
MAX_SEARCHED, MAX_SOURCES = 200, 20
"""Passages that are looked through for those that are evidence, and records that an answer shows."""


@dataclass(frozen=True)
class Answer:
    """Answer of the memory. `sources` are the records it stands on, the most telling first; `form` names how the question
    was read; `note` says how the search was limited, "" when it was not."""

    text: str
    sources: tuple[Record, ...] = ()
    form: str = "other"
    note: str = ""


def is_deed(record: Record) -> bool:
    """Return whether a record is of something done, and not of a question or of words that were said."""
    return "text" not in record.data.get("arguments", ()) and not is_question(str(record.data.get("instruction", "")))


def is_evidence(record: Record) -> bool:
    """Return whether a record tells what was seen or achieved: no words that somebody said, no question, no lesson, and no
    failure."""
    how = record.data.get("outcome", record.data.get("status", "DONE"))
    no_facts = (Kind.HEARD.value, Kind.EVENT.value, *(kind.value for kind in LessonKind))
    return record.kind not in no_facts and how in ("DONE", "SUCCESS") and is_deed(record)


class Answerer:
    """Answers one question of one asker. Raises StoreError."""

    def __init__(self, store: Store, question: Question, viewer: Viewer | None, robot: str, now_s: float) -> None:
        self._store, self._asked, self._viewer, self._now_s = store, question, viewer, now_s
        self._robot = robot
        """The robot that is meant by “you”; "" means all robots, each by its name."""
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
            return self._nothing("no_place")
        parts = []
        for robot, places in by_robot.items():
            names = self._asked.listed(sorted(map(self._asked.name, places)), 20)
            what = self._say(f"{'room' if self._asked.rooms else 'place'}{'s' if len(places) != 1 else ''}")
            parts.append(self._say("explored", who=self._who(robot), count=len(places), what=what, names=names))
        return Answer(" ".join(parts), tuple(v for places in by_robot.values() for v in places.values()), note=note)

    def _been(self) -> Answer:
        wanted = self._asked.subject
        visits = [
            v
            for v in self._find(Kind.VISIT, robot=self._robot)
            if same_thing(wanted, str(v.data.get("place"))) or same_thing(wanted, v.spot.room)
        ]
        if not visits:
            return self._nothing("no_visit", wanted)
        one, which = self._chosen(visits)
        told = {"place": self._asked.name(str(one.data.get("place") or one.spot.room)), "who": self._who(one.provenance.robot)}
        if self._asked.form == "how_often_been":
            return Answer(self._say("came", often=self._times(len(visits)), **told), tuple(visits))
        yes = self._say("indeed") if self._asked.form == "whether_been" else ""
        return Answer(self._say("was", yes=yes, which=which, at=self._then(one), **told), tuple(visits))

    # -- things -------------------------------------------------------------------------------------------------------

    def _seen(self) -> Answer | None:
        wanted, form = self._asked.subject, self._asked.form
        anywhere = self._labelled(wanted)
        if not anywhere:
            return self._unseen(wanted)
        sightings = self._inside(anywhere)
        elsewhere = "" if sightings else self._say("not_there", room=self._asked.name(self._asked.room))
        sightings = sightings or anywhere
        one, which = self._chosen(sightings)
        label = str(one.data["label"])
        spot = self._where(one.spot) or self._say("nowhere")
        told = {"who": self._who(one.provenance.robot), "at": self._then(one), "spot": spot, **self._thing(label)}
        if form == "how_often_seen" and not elsewhere:
            most = max(int(r.data.get("count", 1)) for r in sightings)
            return Answer(self._say("saw_often", often=self._times(len(sightings)), most=most, **told), tuple(sightings))
        yes = elsewhere or (self._say("indeed") if form == "whether_seen" else "")
        habit = self._store.by_key(f"habit:place:{label}") if form == "last_seen" else None
        other = habit is not None and habit.spot.room != one.spot.room
        usual = self._say("usual", room=self._asked.name(habit.spot.room)) if habit is not None and other else ""
        return Answer(f"{self._say('saw', yes=yes, which=which, **told)}{usual}", tuple(sightings))

    def _unseen(self, wanted: str) -> Answer | None:
        """Return that it was never seen, or None where other passages tell of it."""
        told = self._words(wanted, (Kind.NOTE, Kind.CALL, Kind.HABIT, Kind.RELATION, Kind.ENTITY))
        said = self._nothing("no_thing", wanted).text.rstrip(".。")
        text = self._say("never_saw", said=said)
        return None if any(map(is_evidence, told)) else Answer(text)

    def _things(self) -> Answer:
        found = self._inside(self._find(Kind.SIGHTING))
        people = self._asked.form == "who_seen"
        if people:
            names = {str(r.data["name"]) for r in self._find(Kind.ENTITY) if r.data.get("type") == "person"}
            found = [r for r in found if str(r.data.get("label")) in names]
        place = self._say("at_room", room=self._asked.name(self._asked.room)) if self._asked.room else ""
        if not found:
            return self._nothing("nobody" if people else "nothing", place=place)
        labels = Counter(str(r.data.get("label")) for r in found)
        newest = {str(r.data.get("label")): r for r in reversed(found)}
        said = (
            self._say("one_thing", often=self._times(n), at=self._then(newest[label]), **self._thing(label))
            for label, n in labels.most_common()
        )
        robots = sorted({r.provenance.robot for r in found})
        who = self._who(robots[0]) if len(robots) == 1 else self._asked.listed(robots)
        text = self._say("saw_things", who=who, things=self._asked.listed(said), place=place)
        return Answer(text, tuple(newest[label] for label in labels))

    # -- what was said and done ---------------------------------------------------------------------------------------

    def _said(self) -> Answer:
        wanted, by_person = self._asked.subject, self._asked.form == "what_said"
        if wanted and words_of(wanted) and not by_person:
            heard = self._words(wanted, (Kind.HEARD,))
        else:
            heard = self._find(Kind.HEARD)
        if by_person and wanted not in ("i", "we", "people", "somebody", "someone", "anyone", "they"):
            heard = [r for r in heard if same_thing(wanted, r.provenance.sender)]
        if not heard:
            about = f" from {wanted}" if by_person else f" about “{wanted}”" if wanted else ""
            return self._nothing("no_words", about=about)
        newest = heard[0]
        said = {"text": newest.text.rstrip("."), "said": newest.data.get("instruction", newest.text)}
        text = self._say("heard", at=self._at(newest.time_s), sender=newest.provenance.sender, **said)
        others = {r.provenance.sender for r in heard if r.provenance.sender} - {newest.provenance.sender}
        if others and not by_person:
            text += self._say("heard_also", names=self._asked.listed(sorted(others)))
        return Answer(text, tuple(heard))

    def _done(self) -> Answer | None:
        wanted, form = self._asked.subject, self._asked.form
        if form == "what_done":
            done = self._find(Kind.EPISODE, robot=self._robot) or self._find(Kind.CALL, robot=self._robot)
            done = [record for record in done if is_deed(record)][:10]
            return Answer(" ".join(map(self._told, done[:5])), tuple(done)) if done else self._nothing("no_task")
        kinds = (Kind.EPISODE, Kind.OUTCOME, Kind.CALL)
        found = [r for kind in kinds for r in self._words(wanted, (kind,), self._robot) if is_deed(r)]
        found.sort(key=lambda r: r.time_s, reverse=True)
        if not found:
            return None
        one, _ = self._chosen(found)
        if form == "how_often_done":
            same = [r for r in found if r.kind == found[0].kind]
            often = self._times(len(same)).capitalize()
            return Answer(self._say("done_often", often=often, text=one.text, at=self._at(one.start_s)), tuple(same))
        return Answer(f"{self._at(one.start_s).capitalize()}: {self._told(one)}", tuple(found))

    # -- records ------------------------------------------------------------------------------------------------------

    def _query(self, kinds: Sequence[Kind], robot: str, limit: int, text: str = "") -> Query:
        since_s, until_s, names = self._asked.since_s, self._asked.until_s, tuple(k.value for k in kinds)
        which: dict[str, Any] = {"robot": robot, "viewer": self._viewer, "limit": limit, "lasting": True}
        return Query(text, names, since_s=since_s, until_s=until_s, **which)

    def _find(self, kind: Kind, robot: str = "") -> list[Record]:
        return self._store.find(self._query((kind,), robot, MANY))

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
        return [r for r in found if same_thing(wanted, str(r.data.get("label")))]

    def _inside(self, found: list[Record]) -> list[Record]:
        """Those in the room that is asked about."""
        return [r for r in found if not self._asked.room or same_thing(self._asked.room, r.spot.room)]

    def _chosen(self, found: list[Record]) -> tuple[Record, str]:
        return (found[-1], self._say("first")) if self._asked.first else (found[0], self._say("last"))

    # -- words --------------------------------------------------------------------------------------------------------

    @property
    def _chinese(self) -> bool:
        return self._asked.language == "zh"

    def _say(self, key: str, **values: Any) -> str:
        return self._asked.say(key, **{"when": self._when(), **values})

    def _nothing(self, key: str, thing: str = "", **values: str) -> Answer:
        who = self._who(self._robot)
        what = self._say(key, thing=self._asked.name(thing), **values)
        return Answer(self._say("remember", who=who, s="" if who == "I" else "s", what=what))

    def _thing(self, label: str) -> dict[str, str]:
        return {"thing": self._asked.name(label), "a_thing": with_article(label)}

    def _told(self, record: Record) -> str:
        """Return a deed: its sentence, in Chinese the task and how it ended."""
        told = record.data
        task, status = told.get("instruction", told.get("function", record.text)), told.get("status", told.get("outcome", ""))
        return self._say("deed", text=record.text, task=task, status=WORDS["outcomes"].get(status, status))

    def _times(self, count: int) -> str:
        return f"{count}次" if self._chinese else times(count)

    def _at(self, time_s: float) -> str:
        return clock(time_s, self._now_s, self._asked.language)

    def _then(self, record: Record) -> str:
        """Return when something was so first, or last, in the time that is asked about."""
        asked = self._asked
        if asked.first:
            return self._at(max(record.start_s, asked.since_s or 0.0))
        return self._at(min(record.time_s, math.inf if asked.until_s is None else asked.until_s))

    def _where(self, spot: Spot) -> str:
        if not self._chinese:
            return where(spot)
        at = f"（{spot.x:.1f}, {spot.y:.1f}）附近" if spot.x is not None and spot.y is not None else ""
        return f"在{self._asked.name(spot.room)}{at}" if spot.room or at else ""

    def _who(self, robot: str) -> str:
        return ("我" if self._chinese else "I") if robot == self._robot or not robot else robot

    def _when(self) -> str:
        asked, clocked = self._asked, self._at if self._chinese else clock
        if asked.since_s is None:
            return ""
        if asked.until_s is None or asked.until_s >= self._now_s:
            return asked.say("since", since=clocked(asked.since_s))
        return asked.say("between", since=clocked(asked.since_s), until=clocked(asked.until_s))
