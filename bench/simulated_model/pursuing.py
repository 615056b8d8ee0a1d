# SPDX-License-Identifier: Apache-2.0
"""What each goal wants next, given what was done, what runs and what is in sight."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from bench.simulated_model import seeing
from bench.simulated_model.goals import (
    TEXT,
    Act,
    Approach,
    Ask,
    Do,
    Face,
    Find,
    Goal,
    GoTo,
    If,
    Look,
    Picture,
    Report,
    Return,
    Unknown,
    a,
)
from bench.simulated_model.language import tolerant
from bench.simulated_model.searching import closer_act, find, photographed, sighted
from bench.simulated_model.story import NEAR_M, SPOKEN, STAYS, Next, Step, Story, Stuck, Wait

TURNS = {"left": "90", "right": "-90", "behind": "180", "around": "360"}
HOME_M = 0.4
"""So near to where it began it has come back."""


def pursue(goals: Sequence[Goal], story: Story) -> Step | None:
    """What is to be done next of goals in order; None when all are achieved (or would be, with what is queued). Only then the
    story stays where it has been followed to."""
    return pursue_part(goals, (), story)


def pursue_part(goals: Sequence[Goal], rest: Sequence[Goal], story: Story) -> Step | None:
    """The same of goals that others follow."""
    begin = story.mark
    everything = (*goals, *rest)
    for index, goal in enumerate(goals):
        before, after = story.mark, everything[index + 1 :]
        if not index and isinstance(goal, GoTo) and _began_there(goal, after, story):
            continue
        step = want(goal, story, after, patient=tolerant(everything, index))
        if isinstance(step, Next) and isinstance(goal, GoTo | Find) and passed(goal, after, story):
            story.reset(before)
            if isinstance(goal, Find):
                story.found[goal.label] = True
        elif step is not None:
            story.reset(begin)
            return step
    return None


def want(goal: Goal, story: Story, after: Sequence[Goal] = (), *, patient: bool = False) -> Step | None:
    """What one goal wants. `after` is what follows it; `patient`: finding nothing is no failure."""
    if isinstance(goal, Do):
        for act in goal.acts:
            if (step := story.take(act)) is not None:
                return step
        return None
    if isinstance(goal, GoTo):
        return _go(goal.waypoints, goal.name, story)
    if isinstance(goal, Find):
        return find(goal, story, first_act(after, story, goal.label, True), first_act(after, story, goal.label, False), patient)
    if isinstance(goal, Face):
        step = story.take(Act("search", {"target": goal.label}), tries=1)
        return Stuck(f"I do not see {a(goal.label)}") if isinstance(step, Stuck) else step
    if isinstance(goal, Approach):
        act = Act("approach", {"target": goal.label})
        return sighted(goal.label, story, act)
    if isinstance(goal, Picture):
        return photographed(goal.label, story) if goal.label else story.take(Act("take_pic", {}))
    if isinstance(goal, Return):
        act = _home(goal, story)
        step = story.take(act)
        return None if isinstance(step, Next) and stands_home(goal, story) else step
    if isinstance(goal, Look):
        return _look(goal, story)
    if isinstance(goal, Report):
        return _report(goal, story)
    if isinstance(goal, Ask):
        return story.take(Act("query_memory", {"question": goal.question}))
    if isinstance(goal, If):
        return _if(goal, story, after)
    return _say(unknown_words(goal), story)


def unknown_words(goal: Unknown) -> str:
    """The honest sentence for words that mean nothing here."""
    if goal.why and not goal.why.startswith("I did"):
        return f"{goal.why}."
    return f"I do not know how to do this: {goal.said}."


def first_act(goals: Sequence[Goal], story: Story, label: str, found: bool) -> Act | None:
    """The call that comes next should a thing be found, or not; None where that depends on more."""
    for goal in goals:
        if isinstance(goal, If) and goal.label == label:
            if goal.found == found:
                return first_act(goal.goals, story, label, found)
            continue
        if not found and isinstance(goal, Approach | Picture | Face) and goal.label == label:
            return None
        if isinstance(goal, Approach):
            return Act("approach", {"target": goal.label})
        if isinstance(goal, Picture):
            return closer_act(goal.label) if goal.label and "approach" in story.words.skills else Act("take_pic", {})
        if isinstance(goal, Do):
            return goal.acts[0]
        if isinstance(goal, Return):
            if stands_home(goal, story):
                continue
            return _home(goal, story)
        if isinstance(goal, GoTo):
            return Act("goto_waypoint", {"waypoint": goal.waypoints[0]})
        return None
    return None


def passed(goal: Goal, after: Sequence[Goal], story: Story) -> bool:
    """Whether the next goal was begun already, so that this one must have been achieved without a call."""
    if not after or any(c.bad or c.broken for _, c in story.ahead):
        return False
    following = after[0]
    names: dict[type, tuple[str, ...]] = {Approach: ("approach",), Picture: ("take_pic",), Face: ("search",), Find: ("search",)}
    if isinstance(following, If):
        return following.found and passed(goal, following.goals, story)
    if isinstance(following, GoTo):
        return any(c.function == "goto_waypoint" and c.arguments.get("waypoint") in following.waypoints for _, c in story.ahead)
    if isinstance(goal, GoTo) and story.touched(("goto_waypoint",)) and isinstance(following, Find):
        return False
    return type(following) in names and story.touched(names[type(following)])


def _go(waypoints: Sequence[str], name: str, story: Story) -> Step | None:
    tried: list[str] = []
    why = ""
    for index, seen in story.ahead:
        where = str(seen.arguments.get("waypoint", ""))
        if seen.function != "goto_waypoint" or where not in waypoints:
            continue
        if seen.well or seen.pending:
            story.at, story.place = index + 1, where
            return None
        if seen.bad:
            tried.append(where)
            why = seen.message
    if not tried and (story.place in waypoints if story.place else _is_at(waypoints, story)):
        return None
    if len(tried) >= 2:
        blocked = not why or re.search(r"\bno way\b|\bblocked\b|\bin the way\b", why)
        return Stuck(f"I cannot get to the {name}: {'the way is blocked' if blocked else why}")
    here = seeing.point(story.facts)
    places = story.words.places
    order = sorted(waypoints, key=lambda w: (w in tried, places[w].away(here) if w in places else 0.0))
    return Next(Act("goto_waypoint", {"waypoint": order[0]}))


def _began_there(goal: GoTo, after: Sequence[Goal], story: Story) -> bool:
    """Whether the task began at this first place already, so that what was done first was to go to the next."""
    following = after[0] if after else None
    if not isinstance(following, GoTo) or story.words.near(story.start, NEAR_M) not in goal.waypoints:
        return False
    gone = [str(c.arguments.get("waypoint")) for _, c in story.ahead if c.function == "goto_waypoint"]
    return bool(gone) and gone[0] in following.waypoints


def _is_at(waypoints: Sequence[str], story: Story) -> bool:
    """Whether it is in the room of several places, or near the one that was meant."""
    if not story.in_room(waypoints):
        return False
    return len(waypoints) > 1 or story.words.near(seeing.point(story.facts), NEAR_M) in waypoints


def _home(goal: Return, story: Story) -> Act:
    at = goal.at or story.start
    near = story.words.near(at, HOME_M)
    told = next((p.name for p in story.words.places.values() if "start" in p.description), "")
    if near or (at is None and told):
        return Act("goto_waypoint", {"waypoint": near or told})
    if at is not None and "nav" in story.words.skills:
        return Act("nav", {"x_m": f"{at[0]:g}", "y_m": f"{at[1]:g}"})
    first = next(iter(story.words.places), "")
    return Act("goto_waypoint", {"waypoint": first}) if first else Act(TEXT, {}, "I do not know where I started.")


def stands_home(goal: Return, story: Story) -> bool:
    """Whether it stands where the task began, and nothing that is still to come takes it away."""
    at, here = goal.at or story.start, seeing.point(story.facts)
    leaves = any((c.pending or story.open_loop) and c.function not in STAYS for c in story.calls)
    return at is not None and here is not None and not leaves and math.dist(at, here) < HOME_M


def _look(goal: Look, story: Story) -> Step | None:
    act = Act("rotate", {"angle_deg": TURNS.get(goal.side, "0")})
    if goal.side != "front" and (step := story.take(act)) is not None:
        return step
    if story.open_loop:
        return None
    where = {"around": "Around me", "front": "In front of me", "behind": "Behind me"}.get(goal.side, f"On my {goal.side}")
    return _say(f"{where} {seeing.told(story.facts)}.", story, anything=True)


def _report(goal: Report, story: Story) -> Step | None:
    if story.open_loop:
        return None
    if goal.count:
        seen = seeing.things(story.facts)
        number = sum(t.get("label") == goal.label for t in seen or [])
        what = goal.label if number == 1 else f"{goal.label}s"
        return _say(f"I see {number} {what}." if seen is not None else f"{seeing.told({})}.", story, anything=True)
    if not goal.label:
        return _say(f"{seeing.told(story.facts)}.", story, anything=True)
    known = story.found.get(goal.label)
    if known is None and story.busy:
        return Wait()
    if not known and seeing.in_sight(story.facts, goal.label) is None:
        return _say(f"I did not find {a(goal.label)}.", story, anything=True)
    where = story.found_at.get(goal.label, "")
    near = f" near {where.replace('_', ' ')}" if where else ""
    said = next((c.message for c in reversed(story.calls) if c.function == "search" and c.well and c.message), "")
    return _say(f"I found {a(goal.label)}{near}{': ' + said if said else ''}.", story, anything=True)


def _say(text: str, story: Story, *, anything: bool = False) -> Step | None:
    """Say a text once; `anything`: whatever was said here counts, for such a text depends on what is in sight."""
    if anything:
        for index, seen in story.ahead:
            if seen.function in SPOKEN and (seen.well or seen.pending):
                story.at = index + 1
                return None
        return Wait() if story.busy else Next(Act(TEXT, {}, text))
    return story.take(Act(TEXT, {}, text))


def _if(goal: If, story: Story, after: Sequence[Goal]) -> Step | None:
    known = story.found.get(goal.label)
    if known is None and goal.label in story.found:
        return Wait()
    if known is None:
        known = seeing.in_sight(story.facts, goal.label) is not None or story.open_loop
        story.found[goal.label] = known
    if known != goal.found:
        return None
    return pursue((*goal.goals,), story) if goal.goals else None


def found_without_looking(goals: Sequence[Goal], story: Story) -> Sequence[Goal]:
    """The goals of one who acts on what is in sight: a thing that is looked for and in sight counts as found, wherever
    it was to be looked for."""
    for index, goal in enumerate(goals):
        if isinstance(goal, Find) and seeing.in_sight(story.facts, goal.label) is not None:
            return (*goals[:index], replace(goal, waypoints=(), name=""), *goals[index + 1 :])
    return goals
