# SPDX-License-Identifier: Apache-2.0
"""Answer the usual questions about the past, each with the records that the answer is based on; no model."""

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from planners.language.questions import WORDS, Question, chinese_name, is_question, listed, readable, same_thing, with_article
from planners.memory.query import LIMITED, Query, words_of
from planners.memory.records import Kind, Record, Spot, Viewer
from planners.memory.store import Store


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


def times(count: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


MANY = 2000
"""A question looks at so many of the newest records of a kind."""
MAX_SEARCHED, MAX_SOURCES = 200, 20
"""Passages that are looked through for those that are evidence, and records that an answer shows."""


@dataclass(frozen=True)
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
    """Return whether a record tells what was seen or achieved: no words that somebody said, no question, and no failure."""
    how = record.data.get("outcome", record.data.get("status", "DONE"))
    return record.kind not in (Kind.HEARD.value, Kind.EVENT.value) and how in ("DONE", "SUCCESS") and is_deed(record)


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
            if same_thing(wanted, str(v.data.get("place"))) or same_thing(wanted, v.spot.room)
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
        if self._asked.language == "zh":
            told = {"thing": chinese_name(label), "room": chinese_name(one.spot.room or "?"), "at": clock(one.time_s)}
            said = WORDS["answers"]["saw"]["zh"].format(robot=one.provenance.robot, **told)
            return Answer(said, tuple(sightings))
        yes = elsewhere or ("Yes: " if form == "whether_seen" else "")
        habit = self._store.by_key(f"habit:place:{label}") if form == "last_seen" else None
        other = habit is not None and habit.spot.room != one.spot.room
        usual = f" It is usually in the {readable(habit.spot.room)}." if habit is not None and other else ""
        return Answer(f"{yes}{who} {which} saw the {label} {spot} {at}.{usual}", tuple(sightings))

    def _unseen(self, wanted: str) -> Answer | None:
        """Return that it was never seen, or None where other passages tell of it."""
        told = self._words(wanted, (Kind.NOTE, Kind.CALL, Kind.HABIT, Kind.RELATION, Kind.ENTITY))
        said = self._nothing(f"no {wanted}").text.rstrip(".")
        text = WORDS["answers"]["never_saw"][self._asked.language].format(said=said, thing=chinese_name(wanted))
        return None if any(map(is_evidence, told)) else Answer(text)

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
            heard = [r for r in heard if same_thing(wanted, r.provenance.sender)]
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
            done = self._find(Kind.EPISODE, robot=self._robot) or self._find(Kind.CALL, robot=self._robot)
            done = [record for record in done if is_deed(record)][:10]
            return Answer(" ".join(r.text for r in done[:5]), tuple(done)) if done else self._nothing("no task")
        kinds = (Kind.EPISODE, Kind.OUTCOME, Kind.CALL)
        found = [r for kind in kinds for r in self._words(wanted, (kind,), self._robot) if is_deed(r)]
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
        return [r for r in found if same_thing(wanted, str(r.data.get("label")))]

    def _inside(self, found: list[Record]) -> list[Record]:
        """Those in the room that is asked about."""
        return [r for r in found if not self._asked.room or same_thing(self._asked.room, r.spot.room)]

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
