# SPDX-License-Identifier: Apache-2.0
"""Keep an office in text: who is where and has what, and what each skill of a robot and each deed of a person changes.

Every failure is a stable code with a sentence, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from bench.evaluation.propositions import Fact
from bench.office.vocabulary import FACILITIES, HEIGHT_M, PLACES, TOO_THIN_CM, Height, Profile, Use
from bench.things import ITEMS

State = Literal["lies", "had", "inside", "file"]
AbsenceKind = Literal["busy", "away", "later", "instead", "down"]
Arguments: TypeAlias = Mapping[str, str]


class Code(Enum):
    """Name why something cannot be done."""

    UNKNOWN_SKILL = "UNKNOWN_SKILL"
    UNKNOWN_NAME = "UNKNOWN_NAME"
    UNEVEN_GROUND = "UNEVEN_GROUND"
    NO_BADGE = "NO_BADGE"
    NOT_HERE = "NOT_HERE"
    NOT_VISIBLE = "NOT_VISIBLE"
    OUT_OF_REACH = "OUT_OF_REACH"
    TOO_HEAVY = "TOO_HEAVY"
    TOO_LARGE = "TOO_LARGE"
    TOO_THIN = "TOO_THIN"
    HANDS_FULL = "HANDS_FULL"
    NOT_HELD = "NOT_HELD"
    NEEDS_ARM = "NEEDS_ARM"
    NOTHING_OFFERED = "NOTHING_OFFERED"
    NO_SUCH_USE = "NO_SUCH_USE"
    ONLY_PEOPLE = "ONLY_PEOPLE"
    NOT_AUTHORISED = "NOT_AUTHORISED"
    WRONG_ITEM = "WRONG_ITEM"
    OUT_OF_ORDER = "OUT_OF_ORDER"
    LOCKED = "LOCKED"
    WRONG_CODE = "WRONG_CODE"
    PERSON_BUSY = "PERSON_BUSY"
    PERSON_AWAY = "PERSON_AWAY"
    ROBOT_DOWN = "ROBOT_DOWN"


@dataclass(frozen=True)
class Failure:
    """Say why something was not done."""

    code: Code
    why: str

    def __str__(self) -> str:
        return f"{self.code.value}: {self.why}"


@dataclass(frozen=True)
class Where:
    """Tell where an item is: it lies at a place and height, somebody has it, it is inside a facility, or it is still a file."""

    state: State
    name: str = ""
    height: Height = "desk"

    def __str__(self) -> str:
        if self.state == "lies":
            return f"on the {'floor' if self.height == 'floor' else self.height} in {self.name}"
        return {"had": f"with {self.name}", "inside": f"inside {self.name}", "file": "a file, not printed yet"}[self.state]


@dataclass(frozen=True)
class Item:
    """Describe an item by its kind and owner."""

    kind: str
    owner: str


@dataclass(frozen=True)
class Facility:
    """Describe a facility by its kind and place."""

    kind: str
    place: str

    @property
    def uses(self) -> Mapping[str, Use]:
        """Return what it does."""
        return FACILITIES[self.kind]


@dataclass(frozen=True)
class Person:
    """Describe a person by the place of work. A `lead` may sign for any team and use what is for leads."""

    place: str
    lead: bool = False


@dataclass(frozen=True)
class Layout:
    """Hold what does not change in an office, and where its items are at first."""

    people: Mapping[str, Person]
    items: Mapping[str, Item]
    facilities: Mapping[str, Facility]
    robots: Mapping[str, Profile]
    at_first: Mapping[str, Where]
    stands: Mapping[str, str]
    """Place of each robot at first."""
    codes: Mapping[str, str]
    """Code of each locker: of robots, and of the smart locker."""


@dataclass(frozen=True)
class Absence:
    """Make somebody or something unavailable from a time to another [s]: a person is busy, away, or busy and names another; a
    robot is down, a facility out of order."""

    kind: AbsenceKind
    from_s: float = 0.0
    until_s: float = float("inf")
    instead: str = ""


DeedKind = Literal["use", "sign", "bring", "lend", "wait"]


@dataclass(frozen=True)
class Deed:
    """Describe what a person is asked to do. `to`: a place, a person or a robot. `wait`: to be there for somebody."""

    kind: DeedKind
    item: str = ""
    facility: str = ""
    action: str = ""
    to: str = ""


@dataclass
class Office:
    """Hold the truth. `now_s` is set by whoever lets time pass; `absences` stays hidden from everybody who plans."""

    layout: Layout
    absences: Mapping[str, Absence] = field(default_factory=dict)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.items: dict[str, Where] = dict(self.layout.at_first)
        self.robot_at: dict[str, str] = dict(self.layout.stands)
        self.person_at: dict[str, str] = {name: person.place for name, person in self.layout.people.items()}
        self.open: set[str] = set()
        """Lockers that stand open."""
        self.offers: dict[str, tuple[str, str]] = {}
        """Item to giver and taker, both robots."""
        self.used: set[tuple[str, str]] = set()
        self.signed: set[tuple[str, str]] = set()

    def copy(self) -> Office:
        """Return an office in the same state."""
        twin = Office(self.layout, self.absences, self.now_s)
        for name in ("items", "robot_at", "person_at", "open", "offers", "used", "signed"):
            setattr(twin, name, deepcopy(getattr(self, name)))
        return twin

    def state(self) -> tuple[object, ...]:
        """Return all that can change, to be compared."""
        return (
            tuple(sorted((item, str(where)) for item, where in self.items.items())),
            tuple(sorted(self.robot_at.items())),
            tuple(sorted(self.person_at.items())),
            frozenset(self.open),
            tuple(sorted(self.offers.items())),
            frozenset(self.used),
            frozenset(self.signed),
        )

    def facts(self) -> Iterator[Fact]:
        """Yield what is true, as the judge reads it."""
        for item, where in self.items.items():
            if where.state != "file":
                yield {"lies": "at", "had": "held", "inside": "inside"}[where.state], item, where.name
        for action, item in self.used:
            yield "used", action, item
        for item, person in self.signed:
            yield "signed", item, person

    def had_by(self, actor: str) -> list[str]:
        """Return what a robot or a person has."""
        return [item for item, where in self.items.items() if where.state == "had" and where.name == actor]

    def absent(self, name: str) -> Absence | None:
        """Return why somebody or something is not available now."""
        absence = self.absences.get(name)
        return absence if absence is not None and absence.from_s <= self.now_s < absence.until_s else None

    def person_fault(self, person: str) -> Failure | None:
        """Return why a person takes and gives nothing now."""
        absence = self.absent(person)
        if absence is None:
            return None
        if absence.kind == "away":
            return Failure(Code.PERSON_AWAY, f"{person} is not at {self.person_at[person]}, and nobody answers")
        return Failure(Code.PERSON_BUSY, f"{person} is busy now")

    # -- robots -------------------------------------------------------------------------------------------------------

    def attempt(self, robot: str, skill: str, given: Arguments) -> Failure | None:
        """Do what a robot's skill does; return why it cannot be done."""
        failure = self.fault(robot, skill, given)
        if failure is None:
            getattr(self, f"_do_{skill}")(robot, given)
        return failure

    def fault(self, robot: str, skill: str, given: Arguments) -> Failure | None:
        """Return why a robot's skill cannot be done now; None when it can."""
        check = getattr(self, f"_check_{skill}", None)
        if check is None or robot not in self.robot_at:
            what = f"{robot} has no skill {skill}" if robot in self.robot_at else f"there is no robot {robot}"
            return Failure(Code.UNKNOWN_SKILL, what)
        if self.absent(robot) is not None:
            return Failure(Code.ROBOT_DOWN, f"{robot} does not answer: it is out of service")
        found: Failure | None = check(robot, self.layout.robots[robot], given)
        return found

    def _check_navigate_to(self, robot: str, profile: Profile, given: Arguments) -> Failure | None:
        place = given.get("place", "")
        if place not in PLACES:
            return _unknown("place", place)
        if PLACES[place].uneven and not profile.legs:
            return Failure(Code.UNEVEN_GROUND, f"the ground of {place} is uneven; {robot} has wheels")
        if PLACES[place].badge and not profile.badge:
            return Failure(Code.NO_BADGE, f"{robot} has no badge for {place}")
        return None

    def _do_navigate_to(self, robot: str, given: Arguments) -> None:
        self.robot_at[robot] = given["place"]
        self.open.discard(robot)
        self._withdraw(robot)

    def _check_pick_up(self, robot: str, profile: Profile, given: Arguments) -> Failure | None:
        item = given.get("item", "")
        if item not in self.items:
            return _unknown("item", item)
        if not profile.arm:
            return Failure(Code.NEEDS_ARM, f"{robot} has no arm; have somebody put the {item} into it")
        where = self.items[item]
        if where.state == "file":
            return Failure(Code.NOT_VISIBLE, f"the {item} is a file; it must be printed first")
        if where.state == "had":
            return Failure(Code.NOT_VISIBLE, f"the {item} does not lie about; {where.name} has it")
        if where.state == "inside":
            facility = self.layout.facilities[where.name]
            if facility.kind == "smart_locker" and where.name not in self.open:
                return Failure(Code.LOCKED, f"the {item} is inside {where.name}, which is locked; open it with its code")
            if not profile.works:
                return Failure(Code.NOT_VISIBLE, f"the {item} is inside {where.name}, which {robot} cannot open")
            if facility.kind == "shredder":
                return Failure(Code.NOT_VISIBLE, f"the {item} has been shredded")
        place = self.layout.facilities[where.name].place if where.state == "inside" else where.name
        if place != self.robot_at[robot]:
            return Failure(Code.NOT_HERE, f"the {item} is not in {self.robot_at[robot]}, where {robot} is")
        if not profile.low_m <= HEIGHT_M[where.height] <= profile.high_m:
            return Failure(Code.OUT_OF_REACH, f"{robot} does not reach the {where.height}")
        return self._grip_fault(robot, profile, item) or self._room_fault(robot, profile, item)

    def _do_pick_up(self, robot: str, given: Arguments) -> None:
        self.items[given["item"]] = Where("had", robot)

    def _check_put_down(self, robot: str, profile: Profile, given: Arguments) -> Failure | None:
        place = given.get("place", "")
        if place not in PLACES:
            return _unknown("place", place)
        if not profile.arm:
            return Failure(Code.NEEDS_ARM, f"{robot} has no arm; have somebody take things out of it")
        if not self.had_by(robot):
            return Failure(Code.NOT_HELD, f"{robot} has nothing in its hand")
        if place != self.robot_at[robot]:
            return Failure(Code.NOT_HERE, f"{robot} is in {self.robot_at[robot]}, not in {place}")
        return None

    def _do_put_down(self, robot: str, given: Arguments) -> None:
        self.items[self.had_by(robot)[0]] = Where("lies", given["place"])
        self._withdraw(robot)

    def _check_give(self, robot: str, profile: Profile, given: Arguments) -> Failure | None:
        item, taker = given.get("item", ""), given.get("person", "")
        if item not in self.items:
            return _unknown("item", item)
        if taker not in self.person_at and taker not in self.robot_at:
            return _unknown("person", taker)
        if self.items[item] != Where("had", robot):
            return Failure(Code.NOT_HELD, f"{robot} does not have the {item}")
        if profile.locker and robot not in self.open:
            return Failure(Code.LOCKED, f"the locker of {robot} is shut; open it with its code")
        if taker in self.robot_at:
            return self._between(robot, taker, item)
        return self._meeting_fault(robot, taker)

    def _do_give(self, robot: str, given: Arguments) -> None:
        item, taker = given["item"], given["person"]
        if taker in self.robot_at:
            self.offers[item] = (robot, taker)
        else:
            self.items[item] = Where("had", taker)

    def _check_take(self, robot: str, profile: Profile, given: Arguments) -> Failure | None:
        item, giver = given.get("item", ""), given.get("person", "")
        if item not in self.items:
            return _unknown("item", item)
        if giver not in self.person_at and giver not in self.robot_at:
            return _unknown("person", giver)
        if self.items[item] != Where("had", giver):
            return Failure(Code.NOT_HELD, f"{giver} does not have the {item}")
        if giver in self.robot_at:
            if self.offers.get(item) != (giver, robot):
                return Failure(Code.NOTHING_OFFERED, f"{giver} does not offer the {item} to {robot}; it must give first")
            return self._between(giver, robot, item)
        return self._meeting_fault(robot, giver) or self._room_fault(robot, profile, item)

    def _do_take(self, robot: str, given: Arguments) -> None:
        self.items[given["item"]] = Where("had", robot)
        self.offers.pop(given["item"], None)

    def _check_use_facility(self, robot: str, profile: Profile, given: Arguments) -> Failure | None:
        name, action = given.get("facility", ""), given.get("action", "")
        if failure := self._use_fault(name, action):
            return failure
        use = self.layout.facilities[name].uses[action]
        if use.by == "person":
            return Failure(Code.ONLY_PEOPLE, f"only a person can {action} at {name}; ask one")
        if not profile.works:
            return Failure(Code.NEEDS_ARM, f"{robot} cannot work {name}")
        place = self.layout.facilities[name].place
        if place != self.robot_at[robot]:
            return Failure(Code.NOT_HERE, f"{name} is in {place}, and {robot} in {self.robot_at[robot]}")
        held = self.had_by(robot)
        if not held:
            return Failure(Code.NOT_HELD, f"{robot} has nothing in its hand to {action}")
        return self._kind_fault(use, action, held[0])

    def _do_use_facility(self, robot: str, given: Arguments) -> None:
        self._use(given["facility"], given["action"], self.had_by(robot)[0])

    def _check_open_locker(self, robot: str, profile: Profile, given: Arguments) -> Failure | None:
        locker, code = given.get("locker", ""), given.get("code", "")
        if locker not in self.layout.codes:
            return _unknown("locker", locker)
        if locker in self.robot_at and locker != robot:
            return Failure(Code.NEEDS_ARM, f"the locker of {locker} is opened by {locker} itself")
        if locker not in self.robot_at:
            place = self.layout.facilities[locker].place
            if not profile.works:
                return Failure(Code.NEEDS_ARM, f"{robot} cannot work {locker}")
            if place != self.robot_at[robot]:
                return Failure(Code.NOT_HERE, f"{locker} is in {place}, and {robot} in {self.robot_at[robot]}")
        if code != self.layout.codes[locker]:
            return Failure(Code.WRONG_CODE, f"{locker} does not open with the code {code}")
        return None

    def _do_open_locker(self, robot: str, given: Arguments) -> None:
        self.open.add(given["locker"])

    def _check_say(self, robot: str, profile: Profile, given: Arguments) -> Failure | None:
        person = given.get("person", "")
        return None if person in self.person_at else _unknown("person", person)

    def _do_say(self, robot: str, given: Arguments) -> None:
        """Change nothing: words are no deed."""

    def _withdraw(self, robot: str) -> None:
        self.offers = {item: pair for item, pair in self.offers.items() if robot not in pair}

    def _between(self, giver: str, taker: str, item: str) -> Failure | None:
        """Return why one robot cannot hand an item to another."""
        mine, other = self.layout.robots[giver], self.layout.robots[taker]
        if self.absent(giver) is not None or self.absent(taker) is not None:
            down = giver if self.absent(giver) is not None else taker
            return Failure(Code.ROBOT_DOWN, f"{down} does not answer: it is out of service")
        if not (mine.arm or other.arm):
            return Failure(Code.NEEDS_ARM, f"neither {giver} nor {taker} has an arm; a person must hand the {item} over")
        if self.robot_at[giver] != self.robot_at[taker]:
            return Failure(Code.NOT_HERE, f"{giver} is in {self.robot_at[giver]}, and {taker} in {self.robot_at[taker]}")
        grip = None if mine.arm else self._grip_fault(taker, other, item)
        return grip or self._room_fault(taker, other, item)

    def _meeting_fault(self, robot: str, person: str) -> Failure | None:
        if self.robot_at[robot] != self.person_at[person]:
            where = f"{robot} is in {self.robot_at[robot]}, not where {person} is expected, in {self.person_at[person]}"
            return Failure(Code.NOT_HERE, where)
        return self.person_fault(person)

    def _grip_fault(self, robot: str, profile: Profile, item: str) -> Failure | None:
        size = ITEMS[self.layout.items[item].kind].size_cm
        if min(size) < TOO_THIN_CM:
            return Failure(Code.TOO_THIN, f"the {item} is too thin for the fingers of {robot}")
        if min(size) > profile.grip_cm:
            return Failure(Code.TOO_LARGE, f"the {item} is too thick for the fingers of {robot}")
        return None

    def _room_fault(self, robot: str, profile: Profile, item: str) -> Failure | None:
        kind, has = ITEMS[self.layout.items[item].kind], self.had_by(robot)
        if len(has) >= profile.holds:
            return Failure(Code.HANDS_FULL, f"{robot} has {', '.join(has)}, and room for no more")
        mass = kind.mass_g + sum(ITEMS[self.layout.items[other].kind].mass_g for other in has)
        if mass > 1000.0 * profile.payload_kg:
            return Failure(Code.TOO_HEAVY, f"the {item} is too heavy for {robot}, which carries {profile.payload_kg:g} kg")
        if any(side > room for side, room in zip(sorted(kind.size_cm), sorted(profile.room_cm), strict=True)):
            return Failure(Code.TOO_LARGE, f"the {item} is too large for {robot}")
        return None

    # -- facilities ---------------------------------------------------------------------------------------------------

    def _use_fault(self, name: str, action: str) -> Failure | None:
        facility = self.layout.facilities.get(name)
        if facility is None:
            return _unknown("facility", name)
        if action not in facility.uses:
            return Failure(Code.NO_SUCH_USE, f"{name} does not {action}; it does: {', '.join(facility.uses)}")
        if self.absent(name) is not None:
            return Failure(Code.OUT_OF_ORDER, f"{name} is out of order")
        return None

    def _kind_fault(self, use: Use, action: str, item: str) -> Failure | None:
        if self.layout.items[item].kind not in use.items:
            return Failure(Code.WRONG_ITEM, f"a {self.layout.items[item].kind} is nothing to {action}: {', '.join(use.items)}")
        return None

    def _use(self, facility: str, action: str, item: str) -> None:
        self.used.add((action, item))
        if self.layout.facilities[facility].uses[action].keeps:
            self.items[item] = Where("inside", facility)

    # -- people -------------------------------------------------------------------------------------------------------

    def deed_fault(self, person: str, deed: Deed) -> Failure | None:
        """Return why a person cannot do what was asked."""
        if person not in self.person_at:
            return _unknown("person", person)
        if deed.item not in self.items:
            return _unknown("item", deed.item)
        check: dict[str, Failure | None] = {}
        if deed.kind == "use":
            check["use"] = self._person_use_fault(person, deed)
        elif deed.kind == "bring":
            known = deed.to in PLACES or deed.to in self.person_at or deed.to in self.robot_at
            check["bring"] = self._fetch_fault(person, deed.item) if known else _unknown("place", deed.to)
            if deed.to in self.robot_at:
                check["room"] = self._room_fault(deed.to, self.layout.robots[deed.to], deed.item)
        elif deed.kind != "wait":
            check["have"] = self._at_hand_fault(person, deed.item, ())
        return next((failure for failure in check.values() if failure is not None), None)

    def do(self, person: str, deed: Deed) -> Failure | None:
        """Let a person do what was asked; return why it cannot be done."""
        failure = self.deed_fault(person, deed)
        if failure is not None or deed.kind == "wait":
            return failure
        self.offers.pop(deed.item, None)
        if deed.kind == "use":
            self.items[deed.item] = Where("had", person)
            self._use(deed.facility, deed.action, deed.item)
        elif deed.kind == "sign":
            self.items[deed.item] = Where("had", person)
            self.signed.add((deed.item, person))
        elif deed.kind == "bring" and deed.to in PLACES:
            self.items[deed.item] = Where("lies", deed.to)
        else:
            self.items[deed.item] = Where("had", deed.to if deed.kind == "bring" else person)
        return None

    def _person_use_fault(self, person: str, deed: Deed) -> Failure | None:
        if failure := self._use_fault(deed.facility, deed.action):
            return failure
        facility = self.layout.facilities[deed.facility]
        use = facility.uses[deed.action]
        if use.lead and not self.layout.people[person].lead:
            return Failure(Code.NOT_AUTHORISED, f"{person} may not {deed.action}; only a lead may")
        if self.items[deed.item].state == "file":
            if deed.action != "print":
                return Failure(Code.NOT_VISIBLE, f"the {deed.item} is a file; it must be printed first")
        elif failure := self._at_hand_fault(person, deed.item, (facility.place,)):
            return failure
        return self._kind_fault(use, deed.action, deed.item)

    def _at_hand_fault(self, person: str, item: str, places: tuple[str, ...]) -> Failure | None:
        """Return why an item is not at hand for a person: had, or lying where the person is or in one of these places."""
        where = self.items[item]
        if where == Where("had", person) or (where.state == "lies" and where.name in (self.person_at[person], *places)):
            return None
        return Failure(Code.NOT_HELD, f"{person} does not have the {item}; it is {where}")

    def _fetch_fault(self, person: str, item: str) -> Failure | None:
        """Return why a person cannot fetch an item. People go anywhere; they take nothing from others and out of robots."""
        where = self.items[item]
        if where == Where("had", person) or where.state == "lies":
            return None
        if where.state == "inside" and self.layout.facilities[where.name].kind == "fridge":
            return None
        return Failure(Code.NOT_VISIBLE, f"{person} cannot fetch the {item}; it is {where}")


def _unknown(what: str, name: str) -> Failure:
    return Failure(Code.UNKNOWN_NAME, f"there is no {what} '{name}'")
