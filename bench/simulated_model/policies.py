# SPDX-License-Identifier: Apache-2.0
"""The policies, one a kind of goal. A policy is replayed along the calls that the prompt tells of; the first call that it wants
and that is not among them is what comes next."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import takewhile
from typing import Any

from bench.simulated_model.phrases import HERE, Goal
from bench.simulated_model.prompt import SPOKEN, TEXT, Call, Facts, Question, metres, said, with_article
from bench.simulated_model.robot import Robot, Spot, spot_of

NEAR_M, HOME_M = 1.2, 0.4
"""Distance to a place, and to the start, that counts as there."""
PICTURE_M = 3.0
"""From farther away it goes nearer before it takes a picture."""
STAYS = frozenset({*SPOKEN, "search", "rotate", "nod", "sit", "stand", "bark", "take_pic", "query_memory", "if"})
"""Calls after which it stands where it stood."""
TURNS = {"left": "90", "right": "-90", "behind": "180", "around": "360"}
SIDES = {"around": "Around me", "front": "In front of me", "behind": "Behind me"}
_SIGHT = re.compile(r"^(not )?visible\('(\w+)'\)$")
_OF = re.compile(r"(-?\d+(?:\.\d+)?) (?:m )?of (-?\d+(?:\.\d+)?)")


class PausedError(Exception):
    """Nothing more can be said now: a result is awaited, or there is no room."""


class StuckError(Exception):
    """The goal cannot be reached; the message says why."""


class Run:
    """The replay of one prompt. `room` is the number of calls that may be written, `blind` takes it that each of them goes
    well, `branches` that a choice may be written where a search still runs, `start` is where the task began. `at` is how far
    the goals before have used up the calls."""

    def __init__(
        self, question: Question, room: int = 1, *, blind: bool = False, branches: bool = False, start: Spot | None = None
    ) -> None:
        self.robot, self.facts, self.start = question.robot, question.facts, start
        self.room, self.blind, self.branches = room, blind, branches
        self.calls, self.written = list(_decided(question.calls)), list[Call]()
        self.at, self.place = 0, ""
        self.found: dict[str, bool | None] = {}
        self.found_at: dict[str, str] = {}

    @property
    def ahead(self) -> list[Call]:
        """The calls that no goal has used up."""
        return self.calls[self.at :]

    @property
    def busy(self) -> bool:
        """Return whether anything still runs or is queued, so that what is in sight now may not be in sight then."""
        return any(call.pending and call.function not in SPOKEN for call in self.calls)

    def fork(self, **changes: Any) -> Run:
        """Return a copy that can be followed without this one."""
        other = copy(self)
        own = {"calls": list(self.calls), "written": [], "found": dict(self.found), "found_at": dict(self.found_at)}
        other.__dict__.update(own | changes)
        return other

    def write(self, call: Call) -> Call:
        """Write a call and return it as it counts then. Raises PausedError where there is no room."""
        if len(self.written) >= self.room:
            raise PausedError
        self.written.append(call)
        self.calls.append(replace(call, state="DONE" if self.blind else "QUEUED"))
        self.at = len(self.calls)
        return self.calls[-1]

    def same(self, wanted: Call, call: Call) -> bool:
        """Return whether a call is the one that is wanted, defaults and the format of numbers aside."""
        if wanted.function == TEXT:
            told = f"{call.arguments.get('text', '')} {call.message}"
            begin, whole = (" ".join(re.findall(r"\w+", text.lower())) for text in (wanted.arguments["text"], told))
            return call.function in SPOKEN and (begin[:40] in whole or not whole)
        parameters = self.robot.parameters(wanted.function)
        given = ({n: _plain(c.arguments.get(n, p.default)) for n, p in parameters.items()} for c in (wanted, call))
        return wanted.function == call.function and next(given) == next(given)

    def attempt(self, wanted: Call, among: Sequence[str] = ()) -> Call:
        """Return the next call that is this one, or has one of some other places or things; write it where there is none."""
        for index in range(self.at, len(self.calls)):
            call = self.calls[index]
            if not (_of(call, wanted.function, among) if among else self.same(wanted, call)):
                continue
            if call.well or call.pending or call.bad:
                self.at = index + 1
                return call
            if call.state == "INTERRUPTED" and (rest := _rest(wanted, call)) != wanted:
                self.at = index + 1
                return self.attempt(rest) if rest is not None else replace(call, state="DONE")
        return self.write(wanted)

    def do(self, wanted: Call, tries: int = 2) -> None:
        """Attempt a call until it does not fail. Raises StuckError after so many failures in the end."""
        failures = 0
        while failures < tries or any(self.same(wanted, call) for call in self.ahead):
            call = self.attempt(wanted)
            if not call.bad:
                return
            failures = failures + 1 if self.same(wanted, call) else 1
            wanted = replace(wanted, arguments=call.arguments)
        raise StuckError(call.message or f"{wanted.function} failed")

    def say(self, text: str) -> None:
        """Say what is in sight at this moment; whatever was said here before counts as that."""
        begun = next((i for i, c in enumerate(self.ahead) if c.function in SPOKEN and (c.well or c.pending)), None)
        if begun is not None:
            self.at += begun + 1
        elif self.busy:
            raise PausedError
        else:
            self.write(said(text))

    def here(self) -> str:
        """Return the named place where it stood before the calls ahead, as far as the prompt tells."""
        gone = any(call.function not in STAYS for call in self.calls)
        near = self.robot.near(self.start if gone else self.facts.spot, NEAR_M)
        return self.place or near or ("" if gone or self.facts.room not in self.robot.places else self.facts.room)

    def in_room(self, places: Sequence[str]) -> bool:
        """Return whether it is in the room of one of these places, with nothing on its way that could change that."""
        inside = self.facts.room
        return bool(inside) and not self.busy and any(inside in (place, place.split("_")[0]) for place in places)

    def nearest(self, places: Sequence[str], place: str = "") -> str:
        """Return the nearest of some places, from another place or from where it is."""
        spot = spot_of(self.robot.places.get(place)) or self.facts.spot
        return min(places, key=lambda other: self.robot.away(other, spot))

    def go(self, places: Sequence[str], place: str = "", among: Sequence[str] = ()) -> Call:
        """Go to the nearest of some places; the call tells to which it went."""
        went = self.attempt(Call("goto_waypoint", {"waypoint": self.nearest(places, place)}), among or places)
        self.place = self.place if went.bad else went.arguments["waypoint"]
        return went


def pursue(run: Run, goals: Sequence[Goal], rest: Sequence[Goal] = ()) -> None:
    """Follow goals in order, others after them. Raises PausedError or StuckError where it cannot go on."""
    everything = (*goals, *rest)
    for index, goal in enumerate(goals):
        after = everything[index + 1 :]
        if goal.kind in ("go", "find") and after and not run.blind and _begun(run, after[0]) < _begun(run, goal):
            run.found[goal.thing] = True
        else:
            POLICIES[goal.kind](run, goal, after)


def tried(run: Run, goals: Sequence[Goal], rest: Sequence[Goal] = ()) -> Exception | None:
    """Follow the goals; return what ended that before all were reached."""
    try:
        pursue(run, goals, rest)
    except (PausedError, StuckError) as why:
        return why
    return None


def outstanding(run: Run, goals: Sequence[Goal]) -> tuple[Sequence[Goal], Exception | None]:
    """Follow the goals of a task along what was done and is under way; return those that are not yet borne out by it, and what
    ended that. All that plan a task anew go by this: System 2, ReAct, and plan-and-execute."""
    for index, goal in enumerate(goals):
        written = len(run.written)
        ended = tried(run, [goal], goals[index + 1 :])
        if ended is not None or len(run.written) > written:
            return goals[index:], ended
    return (), None


def skip(run: Run, goals: Sequence[Goal]) -> None:
    """Pass the calls of goals that count as reached."""
    room, run.room = run.room, 0
    for goal in goals:
        at = run.at
        if tried(run, [goal]) is not None:
            run.at = at
            missed = any(call.function == "search" and call.bad for call in run.ahead)
            run.found |= {goal.thing: not missed} if goal.kind == "find" else {}
    run.room = room


def _begun(run: Run, goal: Goal) -> float:
    """Return where the first call of a goal stands. A goal needs none where the next one was begun before it."""
    if goal.kind == "if":
        return _begun(run, goal.goals[0]) if goal.found and goal.goals else math.inf
    names = {"go": "goto_waypoint", "find": "search", "face": "search", "picture": "take_pic", "approach": "approach"}
    if goal.kind not in names or any(call.bad or call.state == "INTERRUPTED" for call in run.ahead):
        return math.inf
    places = goal.places if goal.kind == "go" else ()
    mine = (_of(call, names[goal.kind], places) for call in run.ahead)
    return next((index for index, is_mine in enumerate(mine) if is_mine), math.inf)


def _of(call: Call, function: str, names: Sequence[str]) -> bool:
    """Return whether a call of a function goes to, or is about, one of these names; any where none is given."""
    return call.function == function and (not names or any(value in names for value in call.arguments.values()))


def _commands(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    for call in goal.calls:
        run.do(call)


def _go(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    """Be at one of the places: a second one is tried where the way to the first is shut."""
    near = run.robot.near(run.facts.spot, NEAR_M)
    there = run.in_room(goal.places) and (len(goal.places) > 1 or near in goal.places)
    begun = any(_of(call, "goto_waypoint", goal.places) for call in run.ahead)
    if not begun and (run.place in goal.places if run.place else there):
        return
    shut: list[str] = []
    while len(shut) < 2 or any(_of(call, "goto_waypoint", goal.places) for call in run.ahead):
        went = run.go([place for place in goal.places if place not in shut] or goal.places, among=goal.places)
        if not went.bad:
            return
        shut.append(went.arguments["waypoint"])
    blocked = not went.message or re.search(r"\bno way\b|\bblocked\b|\bin the way\b", went.message)
    raise StuckError(f"I cannot get to the {goal.name}: {'the way is blocked' if blocked else went.message}")


def _recall(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    """Ask the memory where a thing was seen, and go there."""
    unknown = f"I do not know where I saw the {goal.thing}"
    if "query_memory" not in run.robot.skills:
        raise StuckError(unknown)
    question = f"{f'Where did you last see the {goal.thing} {goal.name}'.rstrip()}?"
    told = run.attempt(Call("query_memory", {"question": question, "aloud": "false"}), [question])
    if told.pending:
        raise PausedError
    places = () if told.bad else remembered_places(told.message, goal.thing, run.robot)
    if not places:
        raise StuckError(told.message or unknown)
    _go(run, Goal("go", places=places, name=places[0].split("_")[0]), after)


def remembered_places(text: str, thing: str, robot: Robot) -> tuple[str, ...]:
    """Return the places of the room in which a thing was seen, as a sentence of the memory tells."""
    room = re.search(rf"\bsaw (?:an?|the|\d+ of) {thing} in the ([\w ]+?)(?: near| at| on| yesterday|,| \[|\.|$)", text)
    return robot.places_in(room[1])[1] if room else ()


def _find(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    """Look here, or at the places named, the nearest first, until the thing was found or all were checked."""
    label, place, checked, shut = goal.thing, run.here(), set[str](), set[str]()
    places = goal.places or (() if goal.name == HERE else tuple(run.robot.places))
    wide = run.blind and len(places) == len(run.robot.places) and "everywhere" in run.robot.choices("search", "where")
    look = Call("search", {"target": label, "where": "everywhere"} if wide else {"target": label})
    while True:
        inside = not goal.places or place in goal.places or run.in_room(goal.places)
        left = [p for p in places if p not in checked | shut | {place}] if "goto_waypoint" in run.robot.skills else []
        following = run.nearest(left, place) if left else ""
        looks_next = inside and (place or HERE) not in checked | shut
        near = next((c for c in run.ahead if _of(c, "approach", [label]) and (c.well or c.pending)), None)
        places_known = list(run.robot.places)
        told = next(
            (
                c
                for c in run.ahead
                if _of(c, "search", [label]) or _of(c, "goto_waypoint", places_known) or c.branches or c is near
            ),
            None,
        )
        if told is not None and told.branches:
            run.found[label] = None
            raise PausedError
        in_place = told is None and not checked and not run.busy and not run.blind and _in_place(run, goal)
        if in_place or (told is not None and told is near):
            run.found[label], run.found_at[label], run.place = True, place, place
            return
        if told is None and not looks_next and (not following or (goal.name == HERE and checked)):
            break
        if told.function != "search" if told else not looks_next:
            went = run.go([told.arguments["waypoint"] if told else following])
            place, shut = (place, shut | {went.arguments["waypoint"]}) if went.bad else (run.place, shut)
            continue
        search = run.attempt(look, [label])
        if search.pending:
            other = [Call("goto_waypoint", {"waypoint": following})] if following else _outlook(run, after, label, False)
            _choose(run, label, _outlook(run, after, label, True), other)
        if search.well:
            run.found[label], run.found_at[label], run.place = True, place, place
            return
        checked |= set(places) if search.arguments.get("where") == "everywhere" else {place or HERE}
    run.found[label] = False
    if not any(other.kind in ("if", "report") and other.thing in ("", label) for other in after):
        if shut and not checked:
            raise StuckError(
                f"I cannot get to the {goal.name or 'places'} to look for {with_article(label)}: the way is blocked"
            )
        raise StuckError(
            f"I found no {label} {HERE if goal.name == HERE else f'in the {goal.name}' if goal.name else 'anywhere'}"
        )


def _in_place(run: Run, goal: Goal) -> bool:
    """Return whether a thing in sight is where it was to be looked for, by its own place where that is told."""
    thing = run.facts.seen(goal.thing)
    if thing is None or not goal.places:
        return thing is not None
    near = run.robot.near(spot_of(thing))
    return (not near or near in goal.places) and run.in_room(goal.places)


def _outlook(run: Run, after: Sequence[Goal], label: str, found: bool) -> list[Call]:
    """Return the call that would come next should the thing be found, or not; none where that depends on more."""
    fork = run.fork(room=1, branches=False, found={**run.found, label: found}, at=len(run.calls))
    tried(fork, list(takewhile(lambda goal: goal.kind != "if" or goal.thing == label, after)))
    return [call for call in fork.written if call.function != "search"]


def _choose(run: Run, label: str, found: Sequence[Call], missing: Sequence[Call]) -> None:
    """Write the choice that stands for a search that still runs. Raises PausedError, for more cannot be known."""
    run.found[label] = None
    if run.branches and (found or missing) and not any(call.branches for call in run.ahead):
        otherwise = (("always", tuple(missing)),) if missing else ()
        branches = ((f"visible('{label}')", tuple(found)), *otherwise)
        run.write(Call("if", branches=branches if found else ((f"not visible('{label}')", tuple(missing)),)))
    raise PausedError


def _at_sight(run: Run, label: str, wanted: Call) -> None:
    """Do something with a thing in sight; where it is not, look for it first, also back where it was found."""
    known = run.found.get(label, not run.busy and not run.blind and run.facts.seen(label) is not None)
    if known is None:
        raise PausedError
    misses = failures = 0
    while misses < 2 and failures < 3:
        begun = any(run.same(wanted, call) for call in run.ahead)
        if not begun and any(call.branches for call in run.ahead):
            raise PausedError
        if known or begun:
            if not run.attempt(wanted).bad:
                return
            failures += 1
            if any(run.same(wanted, call) and not call.bad for call in run.ahead):
                continue
            if failures == 3:
                break
        elif run.found.get(label) is False:
            break
        search = run.attempt(Call("search", {"target": label}), [label])
        if search.pending:
            _choose(run, label, [wanted], [])
        misses, known = misses + search.bad, search.well
        if search.bad and misses < 2 and run.found_at.get(label):
            run.go([run.found_at[label]])
    raise StuckError(f"I do not see {with_article(label)}")


def _face(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    if run.attempt(Call("search", {"target": goal.thing})).bad:
        raise StuckError(f"I do not see {with_article(goal.thing)}")


def _approach(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    _at_sight(run, goal.thing, Call("approach", {"target": goal.thing}))


def _picture(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    """Have a picture of a thing from near enough that it fills a good part of it."""
    picture, closer = Call("take_pic"), Call("approach", {"target": goal.thing, "distance_m": "2"})
    far = None if run.busy or run.blind else metres(run.facts.seen(goal.thing))
    begun = any(call.function == "take_pic" and not call.bad for call in run.ahead)
    near = begun or "approach" not in run.robot.skills or (far is not None and far <= PICTURE_M)
    if goal.thing and near:
        _at_sight(run, goal.thing, picture)
        return
    if goal.thing and not any(call.bad and run.same(closer, call) for call in run.ahead):
        _at_sight(run, goal.thing, closer)
    run.do(picture)


def _home(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    """Be where the task began: by its nearest named place, else by its point of the map."""
    at, here = goal.at or run.start, run.facts.spot
    described = (name for name, place in run.robot.places.items() if "start" in str(place.get("description", "")))
    place = run.robot.near(at, HOME_M) or (next(described, next(iter(run.robot.places), "")) if at is None else "")
    way = Call("goto_waypoint", {"waypoint": place}) if place else said("I do not know where I started.")
    if not place and at is not None and "nav" in run.robot.skills:
        way = Call("nav", {"x_m": f"{at[0]:g}", "y_m": f"{at[1]:g}"})
    leaves = any((call.pending or run.blind) and call.function not in STAYS for call in run.calls)
    there = at is not None and here is not None and not leaves and math.dist(at, here) < HOME_M
    if not there or any(run.same(way, call) and call.well for call in run.ahead):
        run.do(way)


def _look(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    if goal.name in TURNS:
        run.do(Call("rotate", {"angle_deg": TURNS[goal.name]}))
    if not run.blind:
        run.say(f"{SIDES.get(goal.name, f'On my {goal.name}')} {run.facts.told()}.")


def _report(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    """Say what is in sight, how many of a thing, or what came of looking for it."""
    number = sum(thing["label"] == goal.thing for thing in run.facts.things or [])
    found = run.found.get(goal.thing)
    text = f"I did not find {with_article(goal.thing)}."
    if not goal.thing or (goal.kind == "count" and run.facts.things is None):
        text = f"{run.facts.told()}."
    elif goal.kind == "count":
        text = f"I see {number} {goal.thing}{'' if number == 1 else 's'}."
    elif found is None and run.busy:
        raise PausedError
    elif found or number:
        where = run.found_at.get(goal.thing, "").replace("_", " ")
        message = next((c.message for c in reversed(run.calls) if c.function == "search" and c.well and c.message), "")
        text = f"I found {with_article(goal.thing)}{where and f' near {where}'}{message and f': {message}'}."
    if not run.blind:
        run.say(text)


def _if(run: Run, goal: Goal, after: Sequence[Goal]) -> None:
    found = run.found.setdefault(goal.thing, run.blind or run.facts.seen(goal.thing) is not None)
    if found is None:
        raise PausedError
    if found == goal.found:
        pursue(run, goal.goals)


POLICIES: Mapping[str, Callable[[Run, Goal, Sequence[Goal]], None]] = {
    "do": _commands,
    "ask": _commands,
    "unknown": _commands,
    "go": _go,
    "recall": _recall,
    "find": _find,
    "face": _face,
    "approach": _approach,
    "picture": _picture,
    "home": _home,
    "look": _look,
    "report": _report,
    "count": _report,
    "if": _if,
}


def in_sight_is_found(goals: Sequence[Goal], facts: Facts) -> list[Goal]:
    """Return the goals of one who takes a thing in sight for the thing that was to be looked for elsewhere."""
    index = next((i for i, goal in enumerate(goals) if goal.kind == "find" and facts.seen(goal.thing)), None)
    return [
        replace(goal, places=(), name=goal.name if goal.name == HERE else "") if i == index else goal
        for i, goal in enumerate(goals)
    ]


def _decided(calls: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls; instead of a choice whose search has ended those of the branch that holds."""
    looked: dict[str, bool] = {}
    for call in calls:
        if call.function == "search":
            label = str(call.arguments.get("target", ""))
            looked.pop(label, None)
            if call.well or call.bad:
                looked[label] = call.well
        sights = [_SIGHT.match(condition) for condition, _ in call.branches]
        if not sights or sights[0] is None or sights[0][2] not in looked:
            yield call
            continue
        for sight, (_, inside) in zip(sights, call.branches, strict=True):
            if sight is None or looked.get(sight[2]) is not bool(sight[1]):
                yield from inside
                break


def _plain(value: Any) -> Any:
    try:
        return round(float(value), 3)
    except (TypeError, ValueError):
        return str(value).strip().lower()


def _rest(wanted: Call, call: Call) -> Call | None:
    """Return what is left of a call that was interrupted, all of it where its message does not say how far it came."""
    found = _OF.search(call.message)
    if found is None:
        return wanted
    whole = float(found[2])
    left = whole - float(found[1])
    if abs(left) <= 0.05 * abs(whole):
        return None
    for name, value in {**call.arguments, **wanted.arguments}.items():
        number = _plain(value)
        if isinstance(number, float) and abs(abs(number) - abs(whole)) < 1e-6:
            signed = left if number * whole > 0 else -left
            return replace(wanted, arguments={**wanted.arguments, name: f"{round(signed, 2):g}"})
    return wanted
