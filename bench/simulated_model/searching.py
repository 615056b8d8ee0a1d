# SPDX-License-Identifier: Apache-2.0
"""Looking for a thing, place after place, and having it in sight for what is to be done with it."""

from __future__ import annotations

from collections.abc import Sequence

from bench.simulated_model import seeing
from bench.simulated_model.goals import Act, Find, a
from bench.simulated_model.story import Branch, Next, Step, Story, Stuck, Wait

PICTURE_M = 3.0
"""From farther away it goes nearer before it takes a picture."""


def find(goal: Find, story: Story, if_found: Act | None, if_missing: Act | None, patient: bool) -> Step | None:
    """Look here or at the places named, the nearest first, until the thing was found or all were checked."""
    label = goal.label
    if story.open_loop:
        return _find_blindly(goal, story)
    place, checked, shut = story.here(), set[str](), set[str]()
    inside = goal.waypoints or (() if goal.here else tuple(story.words.places))
    unsure = False
    for index, seen in story.ahead:
        target, where = str(seen.arguments.get("target", "")), str(seen.arguments.get("waypoint", ""))
        if seen.function == "goto_waypoint" and where:
            if seen.well or seen.pending:
                place = where
            elif seen.bad:
                shut.add(where)
        elif seen.function in ("search", "approach") and target == label:
            if seen.well or (seen.pending and seen.function == "approach"):
                story.found[label], story.found_at[label] = True, place
                story.at, story.place = index + (seen.function == "search"), place
                return None
            if seen.bad and seen.function == "search":
                checked |= set(inside) if seen.arguments.get("where") == "everywhere" else {place or "here"}
            unsure = unsure or (seen.pending and seen.function == "search")
        elif seen.branches:
            story.found[label] = None
            return Wait()
    if unsure:
        story.found[label] = None
        checked.add(place or "here")
        following = _next_place(inside, place, checked, shut, story)
        other = Act("goto_waypoint", {"waypoint": following}) if following else if_missing
        return Branch(label, if_found, other) if if_found or other else Wait()
    if not checked and not story.busy and _counts(goal, story):
        story.found[label], story.found_at[label] = True, place
        return None
    begin = not goal.waypoints or place in inside or story.in_room(inside)
    if begin and (place or "here") not in checked and place not in shut and not (goal.here and checked):
        return Next(Act("search", {"target": label}))
    following = _next_place(inside, place, checked, shut, story)
    if following:
        return Next(Act("goto_waypoint", {"waypoint": following}))
    story.found[label] = False
    story.at = max((i + 1 for i, c in story.ahead if c.function == "search"), default=story.at)
    if patient:
        return None
    if shut and not checked:
        return Stuck(f"I cannot get to the {goal.name or 'places'} to look for {a(label)}: the way is blocked")
    return Stuck(f"I found no {label} " + ("here" if goal.here else f"in the {goal.name}" if goal.name else "anywhere"))


def _find_blindly(goal: Find, story: Story) -> Step | None:
    """Without seeing what comes of it: go there and look, or look everywhere."""
    label = goal.label
    story.found[label] = True
    if goal.waypoints:
        if story.place not in goal.waypoints and (story.place or not story.in_room(goal.waypoints)):
            where = _nearest(goal.waypoints, story)
            if (gone := story.take(Act("goto_waypoint", {"waypoint": where}))) is not None:
                return gone
            story.place = where
        return story.take(Act("search", {"target": label}))
    wide = not goal.here and "everywhere" in story.words.choices("search", "where")
    return story.take(Act("search", {"target": label, "where": "everywhere"} if wide else {"target": label}))


def photographed(label: str, story: Story) -> Step | None:
    """A picture of a thing in sight, from near enough that it fills a good part of it."""
    picture = Act("take_pic", {})
    thing = seeing.in_sight(story.facts, label)
    far = thing.get("distance_m") if thing is not None and not story.busy and not story.open_loop else None
    near = isinstance(far, (int, float)) and far <= PICTURE_M
    begun = any(c.function == "take_pic" and not c.bad for _, c in story.ahead)
    come = any(c.function == "approach" for _, c in story.ahead)
    if near or begun or "approach" not in story.words.skills:
        return sighted(label, story, picture)
    closer = closer_act(label)
    if any(c.bad and story.same(closer, c) for _, c in story.ahead) or (come and story.take(closer) is None):
        return story.take(picture)
    return sighted(label, story, closer) or story.take(picture)


def closer_act(label: str) -> Act:
    """Near enough for a picture."""
    return Act("approach", {"target": label, "distance_m": "2"})


def sighted(label: str, story: Story, act: Act) -> Step | None:
    """Do something with a thing in sight; where it is not, look for it first, also back where it was found."""
    if story.open_loop:
        return _sighted_blindly(label, story, act)
    looked, failed, went, unsure, lost = 0, 0, False, False, story.found.get(label) is False
    for index, seen in story.ahead:
        if story.same(act, seen):
            if seen.well or seen.pending:
                story.at = index + 1
                return None
            failed += seen.bad
            lost = lost or seen.bad
        elif seen.function == "search" and seen.arguments.get("target") == label:
            looked += seen.bad
            lost = bool(seen.bad) or (lost and not seen.well)
            unsure = seen.pending
            if seen.well:
                story.found[label] = True
        elif seen.function == "goto_waypoint" and failed:
            went = True
        elif seen.branches:
            return Wait()
    if unsure:
        return Branch(label, act, None)
    if failed >= 3 or looked >= 2:
        return Stuck(f"I do not see {a(label)}")
    known = story.found.get(label)
    if known is None and label in story.found:
        return Wait()
    if (known or (not story.busy and seeing.in_sight(story.facts, label))) and not lost:
        return Next(act)
    if looked and not went and (back := story.found_at.get(label)):
        return Next(Act("goto_waypoint", {"waypoint": back}))
    return Next(Act("search", {"target": label}))


def _sighted_blindly(label: str, story: Story, act: Act) -> Step | None:
    if not story.found.get(label):
        if (step := story.take(Act("search", {"target": label}))) is not None:
            return step
        story.found[label] = True
    return story.take(act)


def _next_place(inside: Sequence[str], place: str, checked: set[str], shut: set[str], story: Story) -> str:
    left = [p for p in inside if p not in checked and p not in shut and p != place]
    return _nearest(left, story, place) if left and "goto_waypoint" in story.words.skills else ""


def _nearest(waypoints: Sequence[str], story: Story, place: str = "") -> str:
    """The nearest of some places, seen from another one or from where the robot is; the first where nobody knows."""
    places = story.words.places
    known = places.get(place)
    here = (known.x, known.y) if known is not None and known.x is not None and known.y is not None else None
    point = here or seeing.point(story.facts)
    return min(waypoints, key=lambda w: places[w].away(point) if w in places else float("inf"))


def _counts(goal: Find, story: Story) -> bool:
    """Whether a thing in sight is where it was to be looked for: by its own place where that is told, else by the
    robot's."""
    thing = seeing.in_sight(story.facts, goal.label)
    if thing is None or not goal.waypoints:
        return thing is not None
    if isinstance(thing.get("x_m"), (int, float)) and isinstance(thing.get("y_m"), (int, float)):
        near = story.words.near((float(thing["x_m"]), float(thing["y_m"])))
        if near and near not in goal.waypoints:
            return False
    return story.in_room(goal.waypoints)
