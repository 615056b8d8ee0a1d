# SPDX-License-Identifier: Apache-2.0
"""Track where things are, what is open and who holds what, from outcomes and observations, and weigh actions by it without a
model: the world verdict.

It knows the skills of CLEA's pool (table I): open(what), close(what), pick_from(object, space), release_to(space) and
go_to(point), and reads `things`, `doors` and `hand` of each robot's observation. A space with a door has the door's name.
Of any other skill it can say nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from planners.prompts.prompt import declared
from planners.strategies.closed_loop.actions import Action
from planners.strategy import RobotView
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallEvent

OPEN, SHUT = "open", "shut"
LAG_S = 3.0
"""Time for which observations may show what was before an action: they tell what was seen in the last seconds."""
HALTED_S = 5.0
"""A robot that said so long ago that it is halted may be tried again: its kernel refuses it without a motion."""


class Fit(Enum):
    """Say what is known of an action."""

    FITS = "fits"
    DOUBTED = "doubted"
    UNFIT = "unfit"


@dataclass
class Belief:
    """Hold what is believed: doors by state, things by the space or the robot that has them, hands by the thing in them ("" for
    none) and robots by the point where they stand. What is not there is not known."""

    doors: dict[str, str] = field(default_factory=dict)
    things: dict[str, str] = field(default_factory=dict)
    hands: dict[str, str] = field(default_factory=dict)
    points: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)
    """Things that are in sight now, by space."""
    watching: set[str] = field(default_factory=set)
    """Robots that tell what they see now."""

    def suppose(self, action: Action) -> None:
        """Believe what is true when an action has ended well."""
        given, robot = action.arguments, action.robot
        if action.skill in ("open", "close"):
            self.doors[given.get("what", "")] = OPEN if action.skill == "open" else SHUT
        elif action.skill == "pick_from":
            self.hands[robot] = thing = given.get("object", "")
            self.things[thing] = robot
            self.seen.pop(thing, None)
        elif action.skill == "release_to":
            if thing := self.hands.get(robot, ""):
                self.things[thing] = given.get("space", "")
            self.hands[robot] = ""
        elif action.skill == "go_to":
            self.points[robot] = given.get("point", "")

    def forget(self, action: Action) -> None:
        """Believe nothing more of what an action may have changed that did not end well."""
        self.doors.pop(action.arguments.get("what", ""), None)
        self.hands.pop(action.robot, None)
        self.points.pop(action.robot, None)


class World:
    """Believe, and weigh actions.

    An action that failed `max_tries` times is spent until something that it rests on has changed: something was done by its
    robot or with its things and places, or one of these is seen to be otherwise.
    """

    def __init__(self, robots: Mapping[str, RobotView], now: Callable[[], float], max_tries: int) -> None:
        self._robots, self._now, self._max_tries = robots, now, max_tries
        self.belief = Belief()
        self._changed_s: dict[str, float] = {}
        """When an action changed a thing or a door."""
        self._contradicted: set[str] = set()
        """Things and doors that the observations show otherwise than an action has just left them."""
        self._failed: dict[Action, list[str]] = {}
        """Actions that did not end well, and nothing that they rest on has changed since; why they failed, for each time."""
        self._halted_s: dict[str, float] = {}
        self._doors = {
            choice
            for robot in robots.values()
            for skill in robot.about.skills
            if skill.name == "open"
            for parameter in declared(skill)
            for choice in parameter.choices
        }

    def look(self) -> None:
        """Take in the observations. They may lag behind: what an action has just changed stays as it left it, in doubt."""
        belief, seen = self.belief, dict[str, set[str]]()
        self._contradicted.clear()
        belief.watching.clear()
        for name, robot in self._robots.items():
            fields = robot.observed() or {}
            belief.watching |= {name} if "things" in fields else set()
            hand = fields.get("hand")
            if isinstance(hand, str):
                belief.hands[name] = hand
                belief.things |= {hand: name} if hand else {}
            self._see(belief.doors, _texts(fields.get("doors")))
            for thing, space in _texts(fields.get("things")).items():
                seen.setdefault(thing, set()).add(space)
        free = seen.keys() - set(belief.hands.values())
        agreed = {thing: min(seen[thing]) for thing in free if len(seen[thing]) == 1}
        self._see(belief.things, agreed)
        belief.seen = {thing: space for thing, space in agreed.items() if thing not in self._contradicted}

    def _see(self, believed: dict[str, str], seen: Mapping[str, str]) -> None:
        changed = set()
        for name, state in seen.items():
            if state != believed.get(name, state) and self._now() - self._changed_s.get(name, -LAG_S) < LAG_S:
                self._contradicted.add(name)
                continue
            if state != believed.get(name, state):
                changed.add(name)
            believed[name] = state
        self._forgive(lambda action: bool(action.names & changed))

    def ended(self, action: Action, call: CallEvent) -> None:
        """Take in how an action ended."""
        if call.outcome is Outcome.DONE:
            self._forgive(action.meets)
            changed = [*action.names, self.belief.hands.get(action.robot, "")]
            self._changed_s |= dict.fromkeys(changed, self._now())
            self.belief.suppose(action)
            return
        failures = self._failed.setdefault(action, [])
        self.belief.forget(action)
        if call.error_code == CallCode.HALTED:
            self._halted_s[action.robot] = self._now()
        elif call.outcome in (Outcome.FAILED, Outcome.REFUSED):
            failures.append(call.told or call.outcome_name)

    def _forgive(self, rests: Callable[[Action], bool]) -> None:
        """Forget the failures of the actions that rest on what has changed."""
        self._failed = {action: failures for action, failures in self._failed.items() if not rests(action)}

    def allow_again(self) -> None:
        """Let every action be tried again, because somebody has stepped in. What did not end well stays in doubt."""
        self._failed = {action: [] for action in self._failed}

    def spent(self, action: Action) -> str:
        """Return why an action is not to be tried again; empty while it may be."""
        failures = self._failed.get(action, [])
        if len(failures) < self._max_tries:
            return ""
        return f"it has failed {len(failures)} times and nothing that it rests on has changed since; at last: {failures[-1]}"

    def hides(self, running: Action, action: Action) -> bool:
        """Return whether nobody can see yet what an action rests on: another one changes it, or takes its robot elsewhere."""
        return bool(running.names & action.names) or (running.robot == action.robot and running.skill == "go_to")

    def foresees(self, action: Action) -> bool:
        """Return whether it is known how things will be when an action has ended well, and somebody sees whether they are. What
        opens something is done to see what is in there."""
        known = action.skill in ("close", "pick_from", "release_to", "go_to")
        return known and "things" in (self._robots[action.robot].observed() or {})

    def supposed(self, actions: Iterable[Action]) -> Belief:
        """Return what is believed when these have ended well."""
        belief = deepcopy(self.belief)
        for action in actions:
            belief.suppose(action)
        return belief

    def otherwise(self, supposed: Belief) -> str:
        """Return what is otherwise now than it was supposed to be; empty where nothing is."""
        now = self.belief
        if blind := supposed.watching - now.watching:
            return f"{min(blind)} does not tell what it sees"
        for thing, space in now.seen.items():
            if supposed.things.get(thing) != space:
                return f"{thing} is in {space}"
        for door, state in now.doors.items():
            if supposed.doors.get(door, state) != state:
                return f"{door} is {state}"
        for robot, thing in now.hands.items():
            if supposed.hands.get(robot, "") != thing:
                return f"{robot} holds {thing or 'nothing'}"
        return ""

    def weigh(self, action: Action, supposed: Iterable[Action] = ()) -> tuple[Fit, str]:
        """Return what is known of an action, and why; `supposed` are actions that run still and are supposed to end well."""
        belief = self.supposed(supposed)
        if self._now() - self._halted_s.get(action.robot, -HALTED_S) < HALTED_S:
            return Fit.UNFIT, f"{action.robot} is halted: leave it out, or wait until somebody lets it go on"
        if why := self._against(action, belief):
            return Fit.UNFIT, why
        if (action.names & self._contradicted) or action in self._failed or not self._sure(action, belief):
            return Fit.DOUBTED, ""
        return Fit.FITS, ""

    def _against(self, action: Action, belief: Belief) -> str:
        """Return what speaks against an action; empty when nothing does."""
        robot, given = action.robot, action.arguments
        what, space, thing = given.get("what", ""), given.get("space", ""), given.get("object", "")
        hand, door = belief.hands.get(robot), belief.doors.get(space)
        where = belief.seen.get(thing) or belief.things.get(thing, "")
        if action.skill == "open" and belief.doors.get(what) == OPEN:
            return f"{what} is open already"
        if action.skill == "close" and belief.doors.get(what) == SHUT:
            return f"{what} is shut already"
        if action.skill == "go_to" and given.get("point") == belief.points.get(robot):
            return f"{robot} is {given.get('point')} already"
        if action.skill == "release_to" and hand == "":
            return f"the hand of {robot} is empty"
        if action.skill == "pick_from" and hand:
            return f"the hand of {robot} holds {hand}; it must be put down first"
        if action.skill in ("pick_from", "release_to") and door == SHUT:
            return f"{space} is shut; it must be opened first"
        if action.skill == "pick_from" and where in belief.hands and belief.hands[where] == thing:
            return f"{where} holds {thing}"
        if action.skill == "pick_from" and belief.seen.get(thing) and where != space:
            return f"{thing} is in {where}, not in {space}"
        return ""

    def _sure(self, action: Action, belief: Belief) -> bool:
        """Return whether nothing more need be looked at."""
        given = action.arguments
        space = given.get("space", "")
        if action.skill == "pick_from":
            return bool(space) and belief.seen.get(given.get("object", "")) == space
        if action.skill == "release_to":
            return bool(belief.hands.get(action.robot)) and (space not in self._doors or belief.doors.get(space) == OPEN)
        return action.skill in ("open", "close", "go_to")


def _texts(value: Any) -> dict[str, str]:
    """Return a field that maps names to texts; one that is stale has none."""
    return {str(n): text for n, text in value.items() if isinstance(text, str)} if isinstance(value, Mapping) else {}
