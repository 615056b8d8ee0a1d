# SPDX-License-Identifier: Apache-2.0
"""Plan in the office as one who knows what robots and people can do: who brings what to whom, and whom to ask for what no robot
can. Team and single agent use the same plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.simulated_model.office_belief import Act, Belief, Robot
from bench.simulated_model.office_words import Machine, Meaning, Thing, Want

MOST_ASKED = 4
"""Times that one who is busy, and whom nobody can replace, is asked to be there."""
MANY = 2
"""Steps that a robot counts as having for each time that it was busy."""


class StuckError(Exception):
    """Say what cannot be done, and because of whom."""


@dataclass
class Planned:
    """Hold an act of a plan, and the places in the plan of those that it needs."""

    act: Act
    needs: list[int] = field(default_factory=list)


class Planner:
    """Make the plan for what is missing. `last` holds numbers of steps that go on, by robot and item, as negative places."""

    def __init__(
        self,
        belief: Belief,
        robots: Mapping[str, Robot],
        people: Mapping[str, str],
        desks: Mapping[str, str],
        things: Mapping[str, Thing],
        machines: Mapping[str, Machine],
    ) -> None:
        self.belief, self.robots, self.people, self.desks = belief, robots, people, desks
        self.things, self.machines = things, machines
        self.steps: list[Planned] = []
        self.last: dict[str, int] = {}
        """Place in the plan of the newest step by robot, person or item."""
        self._load: dict[str, int] = {}

    def plan(self, meaning: Meaning) -> list[Planned]:
        """Return the acts that are missing. Raises StuckError."""
        for chain in meaning.chains:
            left = self.missing(chain)
            for number, want in enumerate(left):
                self._want(want, left[number + 1 :])
        return self.steps

    def missing(self, chain: Sequence[Want]) -> list[Want]:
        """Return what of a chain is not done, by what was done since the one before it."""
        done, at = self.belief.done, 0
        for number, want in enumerate(chain):
            last = number == len(chain) - 1
            found = next((i for i in range(at, len(done)) if _fulfils(want, done[i])), None)
            if want.kind == "place":
                if not self.belief.at.get(want.item, "").startswith(f"lies {want.place} "):
                    return list(chain[number:])
                continue
            if want.kind == "deliver" and last:
                if self.belief.holder(want.item) != want.people[0]:
                    return list(chain[number:])
                continue
            if found is None:
                if want.kind == "deliver" and self.belief.holder(want.item) == want.people[0]:
                    continue
                return list(chain[number:])
            at = found + 1
        return []

    # -- one want -----------------------------------------------------------------------------------------------------

    def _want(self, want: Want, rest: Sequence[Want]) -> None:
        if want.kind == "use":
            self._use(want, rest)
        elif want.kind == "sign":
            person = self._choose_signer(want)
            self._bring(want.item, person)
            self._request(person, "sign", {"item": want.item})
        elif want.kind == "deliver":
            self._bring(want.item, want.people[0])
        else:
            self._lay(want.item, want.place)

    def _choose_signer(self, want: Want) -> str:
        able = [p for p in want.people if self._available(p, replaceable=len(want.people) > 1)]
        if not able:
            raise StuckError(f"nobody is there to sign: {', '.join(want.people)} did not have time")
        holder = self.belief.holder(want.item)
        return holder if holder in able else able[0]

    def _use(self, want: Want, rest: Sequence[Want]) -> None:
        item, action = want.item, want.action
        machines = [m for m in self.machines.values() if action in m.uses]
        working = [m for m in machines if m.name not in self.belief.blocked]
        if not working:
            raise StuckError(f"{', '.join(m.name for m in machines) or 'a machine for it'} cannot be used")
        who = working[0].uses[action]
        if who == "robots":
            for robot in self._free(item, lambda r: r.works and r.grips(self.kind(item)) and r.carries(self.kind(item))):
                reached = [m for m in working if m.place in robot.places]
                if reached and self._gets(robot, item, dry=True):
                    machine = reached[0]
                    self._gets(robot, item)
                    self._go(robot, machine.place)
                    self._do(robot.name, "use_facility", {"facility": machine.name, "action": action}, item)
                    return
        self._use_by_person(want, rest, working[0], who)

    def _use_by_person(self, want: Want, rest: Sequence[Want], machine: Machine, who: str) -> None:
        item, holder = want.item, self.belief.holder(want.item)
        nexts = [p for other in rest[:1] for p in other.people]
        order = [holder, *nexts] if self.belief.at.get(item) != "file" else nexts
        order += [p for p in self.people if p not in order]
        able = [p for p in order if p in self.people and self._available(p, replaceable=True)]
        able = [p for p in able if who != "leads" or "lead" in self.people[p]]
        given = {"item": item, "facility": machine.name}
        why = f"nobody was there to {want.action} it"
        for person in able[:4]:
            if self.belief.at.get(item) == "file":
                self._request(person, want.action, given)
                return
            try:
                self._bring(item, person)
            except StuckError as error:
                why = str(error)
                continue
            self._request(person, want.action, given)
            return
        raise StuckError(why)

    def _lay(self, item: str, place: str) -> None:
        for robot in self._free(item, lambda r: r.arm and place in r.places and r.carries(self.kind(item))):
            if self._gets(robot, item, dry=True):
                self._gets(robot, item)
                self._go(robot, place)
                self._do(robot.name, "put_down", {"place": place}, item)
                return
        person = self._porter(item)
        self._request(person, "bring", {"item": item, "to": place})

    # -- bringing -----------------------------------------------------------------------------------------------------

    def kind(self, item: str) -> str:
        return self.things[item].kind.replace(" ", "_")

    def _free(self, item: str, fits: Callable[[Robot], bool]) -> list[Robot]:
        """Return the robots that fit and are not blocked: first the one that has the item, then the least busy, and last those
        that have something else in their hands."""
        robots = [r for r in self.robots.values() if r.name not in self.belief.blocked and fits(r)]
        holder, busy = self.belief.holder(item), self.belief.busy

        def rank(robot: Robot) -> tuple[bool, bool, int]:
            full = bool(robot.arm and self.belief.had(robot.name))
            return robot.name != holder, full, self._load.get(robot.name, 0) + MANY * busy.get(robot.name, 0)

        return sorted(robots, key=rank)

    def _available(self, person: str, *, replaceable: bool = False) -> bool:
        told = self.belief.blocked.get(person, [])
        return not told or (not replaceable and self._patience(person))

    def _patience(self, person: str) -> bool:
        """Return whether one who cannot be replaced may be tried again: not after a plain no, nor after silence."""
        told = self.belief.blocked.get(person, [])
        if any("AWAY" in one or ("DECLINED" in one and "busy" in one) or "nobody answered" in one for one in told):
            return False
        return len(told) < MOST_ASKED

    def _must(self, person: str, item: str, words: str) -> None:
        """See to it that a person whom nobody can replace is there: ask one who was busy. Raises StuckError."""
        if person not in self.belief.blocked:
            return
        if not self._patience(person):
            raise StuckError(f"{person} is not available")
        if not any(step.act.skill == "wait" and step.act.agent == person for step in self.steps):
            self._request(person, "wait", {"item": item, "for": words})

    def _bring(self, item: str, person: str) -> None:
        """Bring an item to a person."""
        holder = self.belief.holder(item)
        if holder == person:
            return
        desk = self.desks.get(person, "")
        if holder and holder in self.people:
            self._must(holder, item, "hand over")
        self._must(person, item, "receive")
        kind = self.kind(item)
        if holder in self.robots and holder not in self.belief.blocked and desk in self.robots[holder].places:
            self._hand(self.robots[holder], item, person, desk)
            return
        for robot in self._free(item, lambda r: desk in r.places and r.carries(kind)):
            if self._gets(robot, item, dry=True):
                self._gets(robot, item)
                self._hand(robot, item, person, desk)
                return
        self._request(self._porter(item), "bring", {"item": item, "to": person})

    def _hand(self, robot: Robot, item: str, person: str, desk: str) -> None:
        self._go(robot, desk)
        if robot.locker and robot.name not in self.belief.open:
            self._do(robot.name, "open_locker", {"locker": robot.name, "code": self.belief.codes.get(robot.name, "")}, item)
        self._do(robot.name, "give", {"item": item, "person": person}, item, person)

    def _gets(self, robot: Robot, item: str, dry: bool = False) -> bool:
        """Have a robot get an item from where it is; with `dry` only tell whether it can."""
        where, holder, kind = self.belief.at.get(item, ""), self.belief.holder(item), self.kind(item)
        if holder == robot.name:
            return True
        if not robot.carries(kind) or (robot.arm and self.belief.had(robot.name)):
            return False
        if where.startswith("lies "):
            _, place, height = where.split(" ")
            if not (robot.grips(kind) and place in robot.places and height in robot.heights):
                return False
            if not dry:
                self._go(robot, place)
                self._do(robot.name, "pick_up", {"item": item}, item)
            return True
        if where.startswith("inside "):
            machine = self.machines.get(where.partition(" ")[2])
            if machine is None or not (robot.works and robot.grips(kind) and machine.place in robot.places):
                return False
            if not dry:
                self._go(robot, machine.place)
                if machine.name in self.belief.codes and machine.name not in self.belief.open:
                    given = {"locker": machine.name, "code": self.belief.codes[machine.name]}
                    self._do(robot.name, "open_locker", given, item)
                self._do(robot.name, "pick_up", {"item": item}, item)
            return True
        if holder in self.people:
            if self.desks[holder] not in robot.places:
                return False
            if not dry:
                self._must(holder, item, "hand over")
                self._go(robot, self.desks[holder])
                self._do(robot.name, "take", {"item": item, "person": holder}, item, holder)
            return True
        if holder in self.robots:
            return self._from_robot(robot, self.robots[holder], item, dry)
        return False

    def _from_robot(self, robot: Robot, other: Robot, item: str, dry: bool) -> bool:
        place = self.belief.robot_at.get(other.name, "")
        hands = other.arm or robot.grips(self.kind(item))
        if other.name in self.belief.blocked or place not in robot.places or not hands:
            return False
        if not dry:
            self._go(robot, place)
            if other.locker and other.name not in self.belief.open:
                given = {"locker": other.name, "code": self.belief.codes.get(other.name, "")}
                self._do(other.name, "open_locker", given, item)
            if self.belief.offers.get(item) != robot.name:
                self._do(other.name, "give", {"item": item, "person": robot.name}, item, robot.name)
            self._do(robot.name, "take", {"item": item, "person": other.name}, item)
        return True

    def _porter(self, item: str) -> str:
        """Return the person to carry what no robot can. Raises StuckError."""
        holder = self.belief.holder(item)
        if holder in self.people:
            if not self._available(holder):
                raise StuckError(f"{holder}, who has the {item}, is not available")
            self._must(holder, item, "hand over")
            return holder
        if holder:
            raise StuckError(f"{holder} has the {item} and cannot hand it over")
        if self.belief.at.get(item, "").startswith("inside smart_locker"):
            raise StuckError(f"no robot can take the {item} out of the smart_locker")
        place = self.belief.at.get(item, " ").split(" ")[1:2]
        order = sorted(self.people, key=lambda p: self.desks[p] not in place)
        able = [p for p in order if self._available(p, replaceable=True)]
        if not able:
            raise StuckError(f"nobody can bring the {item}")
        return able[0]

    # -- steps --------------------------------------------------------------------------------------------------------

    def _go(self, robot: Robot, place: str) -> None:
        if self.belief.robot_at.get(robot.name) != place:
            self._do(robot.name, "navigate_to", {"place": place})

    def _request(self, person: str, skill: str, given: dict[str, str]) -> None:
        self._do(person, skill, given, given["item"])

    def _do(self, agent: str, skill: str, given: dict[str, str], *beside: str) -> None:
        act = Act(agent, skill, given)
        needs = {self.last[name] for name in (agent, *beside) if name in self.last}
        self.steps.append(Planned(act, sorted(needs)))
        self._load[agent] = self._load.get(agent, 0) + 1
        for name in (agent, *beside):
            self.last[name] = len(self.steps) - 1
        self.belief.suppose(act)


def _fulfils(want: Want, done: tuple[str, str, str]) -> bool:
    kind, item, what = done
    if item != want.item:
        return False
    if want.kind == "use":
        return kind == "use" and what == want.action
    if want.kind == "sign":
        return kind == "sign" and (not want.people or what in want.people)
    return want.kind == "deliver" and kind == "deliver" and what in want.people
