# SPDX-License-Identifier: Apache-2.0
"""Answer as observer, summarizer, planner and critic of strategy `closed_loop` in the kitchen, from the prompt's text and the
bytes of its pictures alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench.simulated_model.prompt import Question
from bench.simulated_model.team_belief import Act, Believed, point_of
from bench.simulated_model.team_goals import Goal, goals_of
from bench.simulated_model.team_planner import Abilities, Planner, StuckError, abilities_in, mistaken
from bench.simulated_model.team_sight import LOOKS, Box, shows_anything, things_in
from planners.prompts.blocks import Layer

MISSED, ALARMED = 0.1, 0.05
"""Share of the unfit actions that the critic lets pass, and of the fit ones that it stops. The paper counts 8 failures of its
critic among 30 of all kinds and tells of no rate; ours."""
TOLD_STEPS = 12
WHOLE = "the whole plan up to the end of TASK"
"""Sentence that tells the planner of the open loop."""
THINGS = tuple(look.split()[0] for look in LOOKS)
"""Names of what it knows."""


def answer(question: Question, chance: random.Random) -> str:
    """Return a role's answer. What goes wrong is drawn from `chance`."""
    return _ROLES[question.layer](Kitchen(question), chance)


def stage(question: Question) -> str:
    """Return where in a task a role is asked: what is drawn for it hangs on nothing else."""
    asked = question.text("ACTION") or question.text("CLAIM")
    steps = [int(entry.get("step", 0)) for entry in question.items("HISTORY")]
    done = max(Believed.read(question.text("BELIEF")).steps, *steps, 0)
    return f"{question.layer} {question.instruction} {done} {asked}"


@dataclass(frozen=True)
class Sighting:
    """A thing in one robot's picture."""

    robot: str
    thing: str
    box: Box


class Kitchen:
    """Read a prompt about the kitchen."""

    def __init__(self, question: Question) -> None:
        self.question = question

    @cached_property
    def pictures(self) -> dict[str, bytes]:
        """Return the pictures by robot."""
        shown = [item["robot"] for item in self.question.items("IMAGES") if "missing" not in item]
        return dict(zip(shown, self.question.images, strict=False))

    @cached_property
    def sightings(self) -> list[Sighting]:
        """Return what the pictures show."""
        return [
            Sighting(robot, thing, box)
            for robot, picture in self.pictures.items()
            if shows_anything(picture)
            for thing, box in things_in(picture).items()
        ]

    @cached_property
    def dark(self) -> list[str]:
        """Return the robots in whose pictures nothing can be made out, or that have none."""
        robots = [item["robot"] for item in self.question.items("IMAGES")]
        return [robot for robot in robots if robot not in self.pictures or not shows_anything(self.pictures[robot])]

    @cached_property
    def sensed(self) -> Sequence[Mapping[str, Any]]:
        return self.question.items("OBSERVATION")

    @cached_property
    def spaces(self) -> dict[str, str]:
        """Return the spaces of the things that the sensors locate."""
        found: dict[str, str] = {}
        for told in self.sensed:
            if isinstance(things := told.get("things"), dict):
                found.update({thing: space for thing, space in things.items() if space})
        return found

    @cached_property
    def hands(self) -> dict[str, str]:
        return {str(t["robot"]): t["hand"] for t in self.sensed if isinstance(t.get("hand"), str)}

    @cached_property
    def believed(self) -> Believed:
        """Return BELIEF, with what HISTORY, SEEN and the sensors tell."""
        believed = Believed.read(self.question.text("BELIEF"))
        _learn(believed, self.question)
        believed.see(self.question.text("SEEN"))
        believed.sense(self.sensed)
        return believed

    @property
    def goals(self) -> list[Goal]:
        return goals_of(self.question.instruction, THINGS)

    @property
    def wanted(self) -> list[str]:
        """Return the things that the task is about."""
        return [goal.thing for goal in self.goals]

    @cached_property
    def robots(self) -> dict[str, Abilities]:
        return abilities_in(self.question.system)


# -- observer and summarizer --------------------------------------------------------------------------------------------------


def _observe(kitchen: Kitchen, chance: random.Random) -> str:
    """Return a paragraph: what the task is about first, since the memory shortens it."""
    seen = {s.thing for s in kitchen.sightings if s.thing in kitchen.spaces}
    order = sorted(seen, key=lambda thing: (thing not in kitchen.wanted, thing))
    parts = [f"{thing} in {kitchen.spaces[thing]}" for thing in order]
    sentences = [f"In sight: {', '.join(parts) or 'nothing'}."]
    sentences += [f"{robot} holds {'the ' + thing if thing else 'nothing'}." for robot, thing in kitchen.hands.items()]
    doors = dict(door for told in kitchen.sensed for door in (told.get("doors") or {}).items())
    for name, state in (("Open", "open"), ("Shut", "shut")):
        if some := [door for door, is_so in doors.items() if is_so == state]:
            sentences.append(f"{name}: {', '.join(some)}.")
    sentences += [f"In the picture of {robot} nothing can be made out: it cannot be made out." for robot in kitchen.dark]
    return " ".join(sentences)


def _summarize(kitchen: Kitchen, chance: random.Random) -> str:
    """Return trajectory and places."""
    believed = Believed()
    _learn(believed, kitchen.question)
    lines = [
        f"step {e.get('step')}: {e.get('action')}: {e.get('feedback', '')[:80]}" for e in kitchen.question.items("HISTORY")
    ]
    return f"Trajectory:\n{chr(10).join(lines[-TOLD_STEPS:])}\nSpatial: {believed.text()}"


def _learn(believed: Believed, question: Question) -> None:
    """Take in what HISTORY tells, action by action."""
    for entry in question.items("HISTORY"):
        act, feedback = Act.read(str(entry.get("action", ""))), str(entry.get("feedback", ""))
        if act.skill and "point" not in act.arguments and not act.arguments.keys() & {"what", "space"}:
            act = Act(act.robot, "", {})
        if feedback.startswith("DONE") and act.skill:
            believed.suppose(act)
        believed.see(str(entry.get("observation", "")))
        if not feedback.startswith("DONE"):
            believed.fail(act, feedback)


# -- planner ------------------------------------------------------------------------------------------------------------------


def _plan(kitchen: Kitchen, chance: random.Random) -> str:
    """Return thought, subgoal, calls and status."""
    whole, believed = WHOLE in kitchen.question.system, kitchen.believed
    if whole:
        # The planner of the open loop sees the pictures itself.
        believed.things.update({s.thing: kitchen.spaces[s.thing] for s in kitchen.sightings if s.thing in kitchen.spaces})
        believed.found |= {s.thing for s in kitchen.sightings}
    for why in kitchen.question.blocks.get("FEEDBACK", []):
        believed.fail(Act.read(str(why)), str(why))
    for running in kitchen.question.blocks.get("RUNNING", []):
        believed.suppose(Act.read(str(running)))
    left = [goal for goal in kitchen.goals if not goal.reached(believed)]
    try:
        acts = Planner(believed, kitchen.robots, whole=whole).plan(kitchen.goals)
    except StuckError as error:
        return _plan_text(str(error), f"not possible: {error}", [], "impossible")
    if not acts:
        where = ", ".join(f"the {goal.thing} is in {believed.things.get(goal.thing, 'sight')}" for goal in kitchen.goals)
        return _plan_text("all that was asked for is done", f"done: {where}", [], "done")
    calls, _ = mistaken(acts, kitchen.robots, chance)
    return _plan_text(f"next is to {left[0]}", str(left[0]), calls, "continue")


def _plan_text(thought: str, subgoal: str, calls: Sequence[str], status: str) -> str:
    items = "".join(f"\n  - {call}" for call in calls) or " []"
    return f"Thought: {thought}\n```yaml\nSubgoal: {subgoal}\nAction Plan:{items}\nStatus: {status}\n```"


# -- critic -------------------------------------------------------------------------------------------------------------------


def _criticise(kitchen: Kitchen, chance: random.Random) -> str:
    """Return a verdict, now and then a wrong one."""
    action = kitchen.question.text("ACTION")
    why, region = _against(kitchen, Act.read(action)) if action else (_unproven(kitchen), {})
    drawn = chance.random()
    if why and drawn < MISSED:
        why = ""
    elif not why and action and drawn < ALARMED:
        why = "it does not serve the task now"
    boxes = ", ".join(f"{robot}: [{', '.join(f'{x:.3f}' for x in box)}]" for robot, box in region.items())
    feedback, looked = why or "nothing speaks against it", f"\nRegion: {{{boxes}}}" if boxes else ""
    return f"Thought: {feedback}\n```yaml\nAction Suitability: {not why}\nFeedback: {feedback}{looked}\n```"


def _against(kitchen: Kitchen, act: Act) -> tuple[str, dict[str, Box]]:
    """Return what speaks against an action, and where in whose picture that is to be seen."""
    believed, given = kitchen.believed, act.arguments
    for running in kitchen.question.blocks.get("RUNNING", []):
        believed.suppose(Act.read(str(running)))
    held = kitchen.hands.get(act.robot, believed.held(act.robot))
    space, what = given.get("space", ""), given.get("what", "")
    if act.skill == "go_to":
        return (f"{act.robot} is there already" if believed.points.get(act.robot) == given.get("point") else ""), {}
    if act.skill in ("open", "close"):
        state = "open" if act.skill == "open" else "shut"
        return (f"the {what} is {state} already" if believed.doors.get(what) == state else ""), {}
    if believed.doors.get(space) == "shut":
        return f"{space} is shut; it must be opened first", {}
    if act.skill == "release_to":
        return ("" if held else f"the hand of {act.robot} is empty"), {}
    if act.skill != "pick_from":
        return f"there is nothing like {act.skill}", {}
    thing = given.get("object", "")
    if held:
        return f"the hand of {act.robot} holds {held}; put it down first", {}
    if thing not in kitchen.wanted:
        return f"the {thing} is not what the task is about", {}
    return _in_place(kitchen, believed, act.robot, thing, space)


def _in_place(kitchen: Kitchen, believed: Believed, robot: str, thing: str, space: str) -> tuple[str, dict[str, Box]]:
    """Look for a thing where it is to be taken from."""
    looking = [name for name in kitchen.pictures if space == "table" or name == robot]
    if robot in kitchen.dark:
        return f"in the picture of {robot} nothing can be made out; look again first", {}
    coming = any(Act.read(str(r)).robot == robot for r in kitchen.question.blocks.get("RUNNING", []))
    boxes = {s.robot: s.box for s in kitchen.sightings if s.thing == thing and s.robot in looking}
    if not boxes:
        away = believed.points.get(robot) != point_of(space) and kitchen.robots[robot].drives
        return ("" if coming or away else f"the {thing} is not in {space}: it is not to be seen there"), {}
    if kitchen.spaces.get(thing, space) != space:
        return f"{thing} is in {kitchen.spaces[thing]}, not in {space}", boxes
    return "", boxes


def _unproven(kitchen: Kitchen) -> str:
    """Return which goal neither BELIEF nor the pictures bear out."""
    if kitchen.dark and len(kitchen.dark) == len(kitchen.question.items("IMAGES")):
        return "nothing can be made out in the pictures"
    return next(_missing(kitchen), "")


def _missing(kitchen: Kitchen) -> Iterator[str]:
    seen = {s.thing for s in kitchen.sightings}
    for goal in kitchen.goals:
        if not goal.reached(kitchen.believed):
            yield f"it is not borne out that somebody did this: {goal}"
        elif (goal.space == "table" or kitchen.believed.in_view(goal.space)) and goal.thing not in seen:
            yield f"the {goal.thing} is not in {goal.space}: it is not to be seen there"


_ROLES: Mapping[Layer, Callable[[Kitchen, random.Random], str]] = {
    Layer.OBSERVER: _observe,
    Layer.SUMMARIZER: _summarize,
    Layer.PLANNER: _plan,
    Layer.CRITIC: _criticise,
}
LAYERS = frozenset(_ROLES)
