# SPDX-License-Identifier: Apache-2.0
"""Ask an independent planner whether a task of the office can be done: pyperplan through unified-planning, over a domain in
STRIPS of its own. Needs `unified-planning` and `up-pyperplan`.

Its weighted A* keeps what it has visited and leaves out only states from which even the relaxed problem cannot be solved, so a
search that ends without a plan has shown that there is none. (The binding compares the search with its own names in vain, and
calls this `UNSOLVABLE_INCOMPLETELY`.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import unified_planning.shortcuts as up
from pyperplan.heuristics.relaxation import hAddHeuristic
from unified_planning.engines import PlanGenerationResultStatus as Status
from up_pyperplan.engine import HEURISTICS

from bench.office.acts import Act
from bench.office.tasks import Step, Task
from bench.office.vocabulary import HEIGHT_M, PLACES, TOO_THIN_CM
from bench.office.world import Absence, Deed, Layout
from bench.things import ITEMS

LIMIT = 2500
"""A task of which the planner looks at more states is left out; a limit in seconds would hang on the machine."""
SOME = 3
"""People who are thought of at first for what anybody can do."""
up.get_environment().credits_stream = None


class TooHardError(RuntimeError):
    """Say that the planner was stopped."""


def solve(task: Task, *, absences: bool = True) -> list[Act] | None:
    """Return a plan for a task, None when it is shown that there is none. People do what no robot can; only where that leads to
    no plan they also carry. At first only some of those are thought of whom others can replace. Raises TooHardError when the
    planner takes too long."""
    for everybody, carry in ((False, False), (True, False), (True, True)):
        domain = Domain(task.layout, task.steps, task.absences if absences else {}, everybody=everybody, carry=carry)
        if (plan := domain.solve()) is not None:
            return plan
    return None


class _Counted(hAddHeuristic):
    """Add up costs as h_add does, of so many states at most."""

    name = "counted"

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self._left = LIMIT

    def __call__(self, node: Any) -> float:
        self._left -= 1
        if self._left < 0:
            raise TooHardError(f"the planner looked at {LIMIT} states")
        return float(super().__call__(node))


HEURISTICS[_Counted.name] = _Counted


class Domain:
    """One problem. People who are `later` count as there: a plan may wait for them. Places where nothing is and nobody
    works are left out; all robots come to their dock, and meet there as well."""

    def __init__(
        self, layout: Layout, steps: Sequence[Step], absences: Mapping[str, Absence], *, everybody: bool, carry: bool
    ) -> None:
        self.layout, self.steps = layout, steps
        self._absent = {name for name, absence in absences.items() if absence.kind != "later"}
        self._carry = carry
        self._items = sorted({step.item for step in steps})
        self._stages = {item: [f"{item}.{n}" for n in range(1 + self._turns(item, len(steps)))] for item in self._items}
        self._problem = up.Problem("office")
        self._types = {name: up.UserType(name) for name in ("Robot", "Person", "Item", "Place")}
        self._objects: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._fluents: dict[str, Any] = {}
        self._acts: dict[str, Callable[..., Iterator[Act]]] = {}
        robots = [name for name in layout.robots if name not in self._absent]
        self._people = sorted(layout.people if everybody else self._concerned())
        places = {layout.people[name].place for name in self._people} | set(layout.stands.values())
        places |= {f.place for f in layout.facilities.values() if f.kind in {step.facility for step in steps}}
        places |= {where.name for item in self._items if (where := layout.at_first[item]).state == "lies"}
        inside = (layout.at_first[item] for item in self._items)
        places |= {layout.facilities[where.name].place for where in inside if where.state == "inside"}
        places |= {step.place for step in steps if step.place}
        for kind, names in (
            ("Robot", robots),
            ("Person", self._people),
            ("Item", [stage for stages in self._stages.values() for stage in stages]),
            ("Place", sorted(places)),
        ):
            for name in names:
                written = f"{kind[0]}_{name.replace('.', '_at_')}"
                self._objects[name] = self._problem.add_object(written, self._types[kind])
                self._names[written] = name.partition(".")[0]
        self._robots, self._places = robots, sorted(places)
        self._declare()
        self._begin()
        self._move()
        self._handle()
        for number, step in enumerate(steps):
            self._step(number, step)
        self._goals()

    def _concerned(self) -> set[str]:
        """Return who is named, has something, or works where something lies, and some who may work a facility."""
        people, firsts = self.layout.people, [self.layout.at_first[item] for item in self._items]
        found = {name for step in self.steps for name in step.people}
        found |= {where.name for where in firsts if where.state == "had"}
        found |= {n for n, p in people.items() if p.place in {where.name for where in firsts if where.state == "lies"}}
        there = [name for name in people if name not in self._absent]
        return found | set(there[:SOME]) | set([n for n in there if people[n].lead][:1])

    def _turns(self, item: str, before: int) -> int:
        """Return how often an item has changed by the steps before a number: with each it becomes another object, so that the
        planner sees that it must come back."""
        return sum(step.item == item and self._changes(step) for step in self.steps[:before])

    def _changes(self, step: Step) -> bool:
        return step.kind in ("use", "sign") or (step.kind == "deliver" and not self._last(step))

    def _last(self, step: Step) -> bool:
        number = self.steps.index(step)
        return not any(number in other.deps for other in self.steps)

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _fluent(self, name: str, **kinds: str) -> None:
        made = up.Fluent(name, up.BoolType(), **{key: self._types[kind] for key, kind in kinds.items()})
        self._problem.add_fluent(made, default_initial_value=False)
        self._fluents[name] = made

    def _so(self, name: str, *arguments: str) -> None:
        self._problem.set_initial_value(self._fluents[name](*(self._objects[a] for a in arguments)), True)

    def _action(
        self,
        name: str,
        kinds: dict[str, str],
        needs: Sequence[tuple[str, ...]],
        adds: Sequence[tuple[str, ...]],
        ends: Sequence[tuple[str, ...]],
        acts: Callable[..., Iterator[Act]],
    ) -> None:
        """Add an action. Names of conditions are its parameters' or objects'; `acts` yields what it is in the office."""
        action = up.InstantaneousAction(name, **{key: self._types[kind] for key, kind in kinds.items()})

        def fact(words: tuple[str, ...]) -> Any:
            given = [action.parameter(w) if w in kinds else self._objects[w] for w in words[1:]]
            return self._fluents[words[0]](*given)

        for words in needs:
            action.add_precondition(fact(words))
        for words in ends:
            action.add_effect(fact(words), False)
        for words in adds:
            action.add_effect(fact(words), True)
        self._problem.add_action(action)
        self._acts[name] = acts

    # -- the office ---------------------------------------------------------------------------------------------------

    def _declare(self) -> None:
        self._fluent("at", r="Robot", p="Place")
        self._fluent("works_at", h="Person", p="Place")
        self._fluent("here", h="Person")
        self._fluent("comes", r="Robot", p="Place")
        self._fluent("lies", i="Item", p="Place")
        self._fluent("put", i="Item", p="Place")
        self._fluent("has", r="Robot", i="Item")
        self._fluent("had", h="Person", i="Item")
        self._fluent("file", i="Item")
        self._fluent("kept", i="Item", p="Place")
        self._fluent("free", r="Robot")
        self._fluent("ready", r="Robot")
        self._fluent("fits", r="Robot", i="Item")
        self._fluent("grips", r="Robot", i="Item")
        self._fluent("takes_up", r="Robot", i="Item")
        self._fluent("passes", r="Robot", o="Robot", i="Item")
        self._fluent("worker", r="Robot")
        self._fluent("arm", r="Robot")
        self._fluent("carrier", r="Robot")
        self._fluent("done", i="Item")

    def _begin(self) -> None:
        for robot in self._robots:
            profile = self.layout.robots[robot]
            self._so("at", robot, self.layout.stands[robot])
            self._so("free", robot)
            self._so("arm" if profile.arm else "carrier", robot)
            if not profile.locker:
                self._so("ready", robot)
            if profile.works:
                self._so("worker", robot)
            for place in self._places:
                if (profile.legs or not PLACES[place].uneven) and (profile.badge or not PLACES[place].badge):
                    self._so("comes", robot, place)
            for item in self._items:
                self._abilities(robot, item)
        for person in self._people:
            self._so("works_at", person, self.layout.people[person].place)
            if person not in self._absent:
                self._so("here", person)
        for item in self._items:
            where = self.layout.at_first[item]
            first = self._stages[item][0]
            if where.state == "file":
                self._so("file", first)
            elif where.state == "had":
                self._so("had", where.name, first)
            elif where.state == "lies":
                self._so("lies", first, where.name)
            else:
                self._so("kept", first, self.layout.facilities[where.name].place)

    def _abilities(self, robot: str, item: str) -> None:
        profile, kind = self.layout.robots[robot], ITEMS[self.layout.items[item].kind]
        sides = zip(sorted(kind.size_cm), sorted(profile.room_cm), strict=True)
        fits = kind.mass_g <= 1000.0 * profile.payload_kg and all(side <= room for side, room in sides)
        grips = profile.arm and fits and TOO_THIN_CM <= min(kind.size_cm) <= profile.grip_cm
        for stage in self._stages[item] if fits else ():
            self._so("fits", robot, stage)
            if grips:
                self._so("grips", robot, stage)
            for other in self._robots:
                if other != robot and (self.layout.robots[other].arm or grips):
                    self._so("passes", other, robot, stage)
        if grips and profile.low_m <= HEIGHT_M[self.layout.at_first[item].height] <= profile.high_m:
            self._so("takes_up", robot, self._stages[item][0])

    def _move(self) -> None:
        kinds = {"r": "Robot", "a": "Place", "b": "Place"}

        def go(r: str, a: str, b: str) -> Iterator[Act]:
            yield Act(r, "navigate_to", {"place": b})

        needs = [("at", "r", "a"), ("comes", "r", "b")]
        self._action("go", kinds, [*needs, ("arm", "r")], [("at", "r", "b")], [("at", "r", "a")], go)
        for robot in self._robots:
            if self.layout.robots[robot].arm:
                continue
            # A locker shuts when its robot drives off.
            own = {"a": "Place", "b": "Place"}
            shut = [("ready", robot)] if self.layout.robots[robot].locker else []

            def drive(a: str, b: str, robot: str = robot) -> Iterator[Act]:
                yield Act(robot, "navigate_to", {"place": b})

            self._action(
                f"drive_{robot}",
                own,
                [("at", robot, "a"), ("comes", robot, "b")],
                [("at", robot, "b")],
                [("at", robot, "a"), *shut],
                drive,
            )
            if shut:

                def opens(robot: str = robot) -> Iterator[Act]:
                    yield Act(robot, "open_locker", {"locker": robot, "code": self.layout.codes[robot]})

                self._action(f"open_{robot}", {}, [("carrier", robot)], [("ready", robot)], [], opens)

    def _handle(self) -> None:
        spot = {"r": "Robot", "i": "Item", "p": "Place"}

        def pick(r: str, i: str, p: str) -> Iterator[Act]:
            yield Act(r, "pick_up", {"item": i})

        held, free = [("has", "r", "i")], [("free", "r")]
        at = ("at", "r", "p")
        lies, put = ("lies", "i", "p"), ("put", "i", "p")
        self._action("pick", spot, [at, lies, ("takes_up", "r", "i"), *free], held, [lies, *free], pick)
        self._action("pick_again", spot, [at, put, ("grips", "r", "i"), *free], held, [put, *free], pick)
        for item in self._items:
            where = self.layout.at_first[item]
            if where.state == "inside":
                self._take_out(item, where.name)

        def put_down(r: str, i: str, p: str) -> Iterator[Act]:
            yield Act(r, "put_down", {"place": p})

        self._action("put_down", spot, [at, ("arm", "r"), *held], [put, *free], held, put_down)
        meet = {**spot, "h": "Person"}
        both = [at, ("works_at", "h", "p"), ("here", "h")]

        def take(r: str, i: str, p: str, h: str) -> Iterator[Act]:
            yield Act(r, "take", {"item": i, "person": h})

        def give(r: str, i: str, p: str, h: str) -> Iterator[Act]:
            yield Act(r, "give", {"item": i, "person": h})

        had = [("had", "h", "i")]
        fits = ("fits", "r", "i")
        self._action("take_arm", meet, [*both, *had, fits, ("arm", "r"), *free], held, [*had, *free], take)
        self._action("take_in", meet, [*both, *had, fits, ("carrier", "r")], held, had, take)
        self._action("give", meet, [*both, *held, ("ready", "r")], [*had, *free], held, give)
        pair = {**spot, "o": "Robot"}

        def hand(r: str, i: str, p: str, o: str) -> Iterator[Act]:
            yield Act(r, "give", {"item": i, "person": o})
            yield Act(o, "take", {"item": i, "person": r})

        near, other = [at, ("at", "o", "p"), *held, ("ready", "r"), ("passes", "r", "o", "i")], [("has", "o", "i")]
        taken = [*held, ("free", "o")]
        self._action("hand_arm", pair, [*near, ("arm", "o"), ("free", "o")], [*other, *free], taken, hand)
        self._action("hand_in", pair, [*near, ("carrier", "o")], [*other, *free], held, hand)
        self._lending()

    def _take_out(self, item: str, facility: str) -> None:
        place = self.layout.facilities[facility].place

        def out(r: str) -> Iterator[Act]:
            if facility in self.layout.codes:
                yield Act(r, "open_locker", {"locker": facility, "code": self.layout.codes[facility]})
            yield Act(r, "pick_up", {"item": item})

        first = self._stages[item][0]
        kept, needs = ("kept", first, place), [("at", "r", place), ("worker", "r"), ("grips", "r", first), ("free", "r")]
        self._action(f"take_out_{item}", {"r": "Robot"}, [kept, *needs], [("has", "r", first)], [kept, ("free", "r")], out)

    def _lending(self) -> None:
        """Let people take up what lies where they work, where no robot can; and carry, where nothing else leads to a plan."""
        for item in self._items:
            where, first = self.layout.at_first[item], self._stages[item][0]
            if where.state == "lies" and not any(self._can_take_up(robot, item) for robot in self._robots):

                def lend(h: str, item: str = item) -> Iterator[Act]:
                    yield Act(h, "ask", {}, Deed("lend", item))

                lies = ("lies", first, where.name)
                needs = [lies, ("works_at", "h", where.name), ("here", "h")]
                self._action(f"lend_{item}", {"h": "Person"}, needs, [("had", "h", first)], [lies], lend)
            if self._carry and where.state == "lies":

                def fetch(h: str, o: str, item: str = item) -> Iterator[Act]:
                    yield Act(h, "ask", {}, Deed("bring", item, to=o))

                lies, two = ("lies", first, where.name), {"h": "Person", "o": "Person"}
                self._action(f"fetch_{item}", two, [lies, ("here", "h"), ("here", "o")], [("had", "o", first)], [lies], fetch)
        if not self._carry:
            return

        def bring(h: str, o: str, i: str) -> Iterator[Act]:
            yield Act(h, "ask", {}, Deed("bring", i, to=o))

        kinds, had = {"h": "Person", "o": "Person", "i": "Item"}, ("had", "h", "i")
        self._action("bring", kinds, [had, ("here", "h"), ("here", "o")], [("had", "o", "i")], [had], bring)
        self._action("lay", {**kinds, "o": "Place"}, [had, ("here", "h")], [("put", "i", "o")], [had], bring)

    def _can_take_up(self, robot: str, item: str) -> bool:
        profile, kind, where = (self.layout.robots[robot], ITEMS[self.layout.items[item].kind], self.layout.at_first[item])
        return (
            profile.arm
            and kind.mass_g <= 1000.0 * profile.payload_kg
            and TOO_THIN_CM <= min(kind.size_cm) <= profile.grip_cm
            and profile.low_m <= HEIGHT_M[where.height] <= profile.high_m
            and where.name in profile.places
        )

    # -- the task -----------------------------------------------------------------------------------------------------

    def _step(self, number: int, step: Step) -> None:
        stage = self._turns(step.item, number)
        now, next_ = self._stages[step.item][stage], self._stages[step.item][stage + self._changes(step)]
        if step.kind == "sign":
            for person in step.people:

                def sign(person: str = person) -> Iterator[Act]:
                    yield Act(person, "ask", {}, Deed("sign", step.item))

                had = ("had", person, now)
                self._action(f"sign_{number}_{person}", {}, [had, ("here", person)], [("had", person, next_)], [had], sign)
        elif step.kind == "deliver" and now != next_:
            had, after = ("had", step.people[0], now), ("had", step.people[0], next_)
            self._action(f"reach_{number}", {}, [had], [after], [had], lambda: iter(()))
        elif step.kind == "use":
            for name, facility in self.layout.facilities.items():
                if facility.kind == step.facility and name not in self._absent:
                    self._use(number, step, name, now, next_)

    def _use(self, number: int, step: Step, name: str, now: str, next_: str) -> None:
        facility = self.layout.facilities[name]
        use, done = facility.uses[step.action], ("done", next_)
        for person in self._people:
            lead = self.layout.people[person].lead
            if person in self._absent or (use.lead and not lead) or (use.by == "arm" and not self._carry):
                continue

            def work(person: str = person) -> Iterator[Act]:
                yield Act(person, "ask", {}, Deed("use", step.item, name, step.action))

            before = ("file", now) if step.action == "print" else ("had", person, now)
            adds = [done] if use.keeps else [done, ("had", person, next_)]
            self._action(f"work_{number}_{name}_{person}", {}, [before], adds, [before], work)
        if use.by == "arm":

            def operate(r: str) -> Iterator[Act]:
                yield Act(r, "use_facility", {"facility": name, "action": step.action})

            has = ("has", "r", now)
            after: tuple[str, ...] = ("free", "r") if use.keeps else ("has", "r", next_)
            needs = [("at", "r", facility.place), ("worker", "r"), has]
            self._action(f"operate_{number}_{name}", {"r": "Robot"}, needs, [done, after], [has], operate)

    def _goals(self) -> None:
        for step in self.steps:
            if step.kind == "get" or not self._last(step):
                continue
            item = self._objects[self._stages[step.item][-1]]
            if step.kind == "use":
                self._problem.add_goal(self._fluents["done"](item))
            elif step.kind == "place":
                self._problem.add_goal(self._fluents["put"](item, self._objects[step.place]))
            else:
                self._problem.add_goal(self._fluents["had"](self._objects[step.people[0]], item))

    def solve(self) -> list[Act] | None:
        """Return the acts of a plan, None when there is none."""
        with up.OneshotPlanner(name="pyperplan", params={"search": "wastar", "heuristic": _Counted.name}) as planner:
            found = planner.solve(self._problem)
        if found.status in (Status.UNSOLVABLE_PROVEN, Status.UNSOLVABLE_INCOMPLETELY):
            return None
        if found.plan is None:
            raise TooHardError(f"the planner ended with {found.status}")
        acts: list[Act] = []
        for one in found.plan.actions:
            given = [self._names[str(parameter)] for parameter in one.actual_parameters]
            acts += self._acts[one.action.name](*given)
        return acts
