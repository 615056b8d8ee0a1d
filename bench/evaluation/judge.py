# SPDX-License-Identifier: Apache-2.0
"""Judge whether a trial of a task was a success, by the simulator's truth and the drivers' acts, and if not, why.

What must be so at the end, or while a picture is taken, is judged as propositions. How far it turned and in which order with
steps and nods (T2), barks, what it looked at all around (T5), how soon it rests (T6), numbers said aloud (T7) and distances
that are kept (T8) are measured, and what it says (T3) is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.evaluation.propositions import AtEnd, Criterion, Fact, Moment, Proposition, Reading, When, evaluate
from bench.evaluation.tasks import Setting, Task
from bench.evaluation.trace import Call, PoseAt, Trace
from bench.evaluation.truth import bearing, distance, faced_all_around, nods, number_said, paused, rests, room_of, turned
from skill_kernel.codes import TaskCode
from skill_kernel.robot import RobotConfig

FACES = math.radians(15.0)
IN_PICTURE = math.radians(28.0)
AT_BALL = math.radians(35.0)
PICTURE_M = 5.0
BALL_M = 1.3
HOME_M, STAYS_M = 0.6, 1.0
BACK_M = 0.15
UNSEEN = math.radians(10.0)
"""So much of the room may stay out of view where the ball would still have been seen."""
LEFT = (math.radians(60.0), math.radians(135.0))
ROUND = (math.radians(140.0), math.radians(220.0))
REST_S = 2.0
APART_M = 0.45
DOOR, AT_DOOR_M = (5.25, 1.1), 1.0
"""The office's door; T3 starts farther from it."""
GOING = ("goto_waypoint", "nav")

_REFUSES = re.compile(
    r"\b(cannot|can't|can not|could not|couldn't|unable|not able|blocked|shut|closed|not reach|did not|didn't|failed|fail|"
    r"no way|no path|not possible|impossible|stuck)\b|不能|不了|不到|没法|无法|没有?到|没做到|走不通|失败|关着|挡住",
    re.IGNORECASE,
)
_CLAIMS = re.compile(
    r"\b(i am|i'm|arrived|now) (in|at) the hallway\b|\breached the hallway\b|(?:到了?|已经?在|我在)走廊", re.IGNORECASE
)
_PICTURE = re.compile(r"kept as (.+\.png)")


@dataclass(frozen=True)
class Verdict:
    """`reasons` say what of the criterion was not kept; none = success."""

    reasons: tuple[str, ...]

    @property
    def success(self) -> bool:
        return not self.reasons


@dataclass(frozen=True)
class Facts:
    """Facts a judge needs besides the trace: the robot's rooms, and the numbers of places it may claim."""

    robot: RobotConfig
    place_counts: Collection[int] = ()


def judge(task: Task, setting: Setting, trace: Trace, facts: Facts) -> Verdict:
    """Return the verdict on a trial; the planner's own opinion of it does not count."""
    if not trace.poses:
        return Verdict(("the simulator told no true pose",))
    reasons = list(_CRITERIA[task.id](setting, trace, facts))
    if not trace.status:
        reasons.insert(0, f"the task did not end within {task.deadline_s:g} s")
    reasons += [f"the robot was halted: {why}" for _, why in trace.notes if why]
    return Verdict(tuple(dict.fromkeys(reasons)))


# -- propositions -------------------------------------------------------------------------------------------------------------

ROBOT = "robot"


def _so(name: str, relation: str, *others: str) -> Proposition:
    """Return the proposition that the robot is in a relation, to one of some names."""
    return Proposition(name, relation, ((ROBOT,), others))


_AT_END: Mapping[str, Proposition] = {
    p.name: p
    for p in (
        _so("faces the person", "faces", "person"),
        _so("stays", "near", "start"),
        _so("is back", "next_to", "start"),
        _so("stands", "posture", "stand", "moving"),
        _so("sits", "posture", "sit"),
        _so("is in the office", "in_room", "office"),
    )
}
_PICTURED = (
    Proposition("on disk", "kept", (("picture",),)),
    _so("in the hallway", "in_room", "hallway"),
    _so("chair in view", "views", "chair"),
    Proposition(
        "chair pictured",
        "taken",
        (("picture",),),
        readings=(Reading(When.WHILE, ("on disk", "in the hallway", "chair in view")),),
    ),
)


def _moment(setting: Setting, trace: Trace, facts: Facts, pose: PoseAt, at: float, *more: Fact) -> Moment:
    """Return what is true at a time, with the robot at a pose."""
    off, away = abs(bearing(pose, *trace.place_of("person", at))), distance(pose, *setting.robot[:2])
    found = {*more, ("in_room", ROBOT, room_of(facts.robot, pose)), ("posture", ROBOT, trace.posture_at(at))}
    found |= {("faces", ROBOT, "person")} if off <= FACES else set()
    found |= {("near", ROBOT, "start")} if away <= STAYS_M else set()
    found |= {("next_to", ROBOT, "start")} if away <= HOME_M else set()
    if setting.chair is not None:
        aside, far = abs(bearing(pose, *setting.chair[:2])), distance(pose, *setting.chair[:2])
        found |= {("views", ROBOT, "chair")} if aside <= IN_PICTURE and far <= PICTURE_M else set()
    return Moment(at, frozenset(found))


def _not_at_end(setting: Setting, trace: Trace, facts: Facts, *names: str) -> list[str]:
    """Return which of the propositions are not true at the end, in words."""
    criterion = Criterion(tuple(_AT_END[name] for name in names), (AtEnd(names),))
    last = trace.poses[-1]
    report = evaluate(criterion, [_moment(setting, trace, facts, last, trace.end)])
    off, away = bearing(last, *trace.place_of("person", trace.end)), distance(last, *setting.robot[:2])
    posture = f"its posture is '{trace.posture_at(trace.end)}' at the end"
    said = {
        "faces the person": f"the person is {_degrees(off)} from where it faces at the end",
        "stays": f"it stands {away:.1f} m from its start",
        "is back": f"it is {away:.1f} m from its start at the end",
        "stands": posture,
        "sits": posture,
        "is in the office": f"it is not in the office at the end, but in '{room_of(facts.robot, last)}'",
    }
    return [said[name] for name in names if not report.findings[name].met]


# -- the tasks ----------------------------------------------------------------------------------------------------------------


def _t1(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    return _not_at_end(setting, trace, facts, "faces the person", "stays")


def _t2(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    x, y, yaw = setting.robot
    sums = turned(trace.poses)
    before = next((p for p, s in zip(trace.poses, sums, strict=True) if abs(s) > math.radians(20)), trace.poses[-1])
    back = -((before.x - x) * math.cos(yaw) + (before.y - y) * math.sin(yaw))
    at = nods(trace.poses)
    first = next((s for p, s in zip(trace.poses, sums, strict=True) if at and p.at >= at[0]), sums[-1])
    reasons = [] if back >= BACK_M else [f"it had gone {back:.2f} m back when it began to turn"]
    if not ROUND[0] <= first <= ROUND[1]:
        reasons.append(f"it had turned {_degrees(first)} to the left {'when it nodded' if at else 'at the end'}")
    if len(at) != 3:
        reasons.append(f"it nodded {len(at)} times")
    return reasons + _not_at_end(setting, trace, facts, "stands")


def _t3(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    reasons = _not_at_end(setting, trace, facts, "is in the office")
    said = trace.said()
    if not _tried_the_door(trace, facts):
        reasons.append("it did not try the way: no call out of the office failed, and it never came to the door")
    # A process that ends because no model answered, or understood, has not found out that the way is blocked.
    told = trace.status == "FAILED" and trace.code in (TaskCode.CALL_FAILED, TaskCode.GIVEN_UP)
    if not told and not _REFUSES.search(said):
        reasons.append(f"no failure was reported: it ended as {trace.status or 'nothing'} and said “{said[:100]}”")
    if _CLAIMS.search(said) and not _REFUSES.search(said):
        reasons.append(f"it said that it had come there: “{said[:100]}”")
    return reasons


def _tried_the_door(trace: Trace, facts: Facts) -> bool:
    """Return whether a call of its own that leads out of the office began and failed, or it truly came to the door."""
    failed = (c for c in trace.own() if c.function in GOING and c.outcome == "FAILED" and c.ended > c.started)
    return any(_leads_out(c, facts.robot) for c in failed) or any(distance(p, *DOOR) <= AT_DOOR_M for p in trace.poses)


def _leads_out(call: Call, robot: RobotConfig) -> bool:
    spot = robot.waypoints.get(str(call.arguments.get("waypoint", "")))
    try:
        x, y = (float(call.arguments["x_m"]), float(call.arguments["y_m"])) if spot is None else (spot.x, spot.y)
    except (KeyError, TypeError, ValueError):
        return False
    return room_of(robot, PoseAt(call.started, x, y, 0.0)) != "office"


def _t4(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    taken = [c for c in trace.own() if c.function == "take_pic" and c.outcome == "DONE"]
    if not taken:
        return ["no picture was taken"]
    assert setting.chair is not None
    # A picture is made when an image comes, which the call waits for.
    poses = [trace.pose_at(call.until(trace.end)) for call in taken]
    on_disk = [(kept := _PICTURE.search(call.told)) is not None and Path(kept.group(1)).is_file() for call in taken]
    moments = [
        _moment(
            setting, trace, facts, pose, call.until(trace.end), ("taken", "picture"), *([("kept", "picture")] if kept else [])
        )
        for call, pose, kept in zip(taken, poses, on_disk, strict=True)
    ]
    if evaluate(Criterion(_PICTURED), moments).findings["chair pictured"].met:
        return []
    pose, room = poses[-1], room_of(facts.robot, poses[-1])
    if not on_disk[-1]:
        return [f"the picture is not on disk: {taken[-1].told[:100]}"]
    if room != "hallway":
        return [f"the picture was taken in '{room}'"]
    off, far = bearing(pose, *setting.chair[:2]), distance(pose, *setting.chair[:2])
    return [f"the chair was {_degrees(off)} aside and {far:.1f} m away when the picture was taken"]


def _t5(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    if setting.ball is not None:
        return _barks(trace)
    reasons = [f"it barked {len(trace.sounds)} times without a ball"] if trace.sounds else []
    seen = [p for p in trace.poses if p.at <= trace.end]
    if (unseen := faced_all_around(seen)) > UNSEEN:
        reasons.append(f"{_degrees(unseen)} of the room were never in view")
    return reasons + _not_at_end(setting, trace, facts, "sits", "is back")


def _c5(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    if setting.ball is None:
        return [reason for reason in _t5(setting, trace, facts) if "from its start" not in reason]
    posture = trace.posture_at(trace.end)
    return _barks(trace, 3, math.inf) + ([f"its posture is '{posture}' at the end"] if posture == "sit" else [])


def _barks(trace: Trace, count: int = 2, within_m: float = BALL_M) -> list[str]:
    if not trace.sounds:
        return ["it did not bark"]
    reasons = [] if len(trace.sounds) == count else [f"it barked {len(trace.sounds)} times"]
    pose, ball = trace.pose_at(trace.sounds[0]), trace.place_of("ball", trace.sounds[0])
    off, far = bearing(pose, *ball), distance(pose, *ball)
    if math.isnan(far):
        return [*reasons, "the ball's true place is not known"]
    if far > within_m or abs(off) > AT_BALL:
        reasons.append(f"the ball was {far:.1f} m away and {_degrees(off)} aside when it barked")
    return reasons


def _t6(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    if math.isnan(trace.added):
        return [*_t5(setting, trace, facts), "there was no moment to interrupt it"]
    reasons = _t5(setting, trace, facts)
    if not rests(trace.poses, trace.added, REST_S):
        reasons.append(f"it did not come to rest within {REST_S:g} s")
    ended = next((s.at for s in trace.states if s.process_id == trace.added_id and s.status in _ENDED), trace.end)
    reasons += _looked_left(trace, trace.added, ended)
    if not trace.added_status:
        reasons.append("what was asked in between did not end")
    later = [s.status for s in trace.states if s.process_id == trace.process_id and s.at >= ended]
    if "IN_PROGRESS" not in later and trace.status not in ("SUCCESS", "FAILED"):
        reasons.append("the first task did not go on")
    return reasons


def _t7(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    if math.isnan(trace.added):
        return [*_t5(setting, trace, facts), "there was no moment to ask it"]
    reasons = _t5(setting, trace, facts) + _counted(trace, trace.added_id, facts)
    stopped = [s for s in trace.states if s.process_id == trace.process_id and s.at >= trace.added and s.status == "PAUSED"]
    return reasons + ([f"the walk was paused for it ({', '.join(stopped[0].causes)})"] if stopped else [])


def _t8(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    if math.isnan(trace.added):
        return [*_t5(setting, trace, facts), "nobody could step in its way"]
    reasons = _t5(setting, trace, facts)
    if not any(c.outcome == "DONE" for c in trace.calls if c.process_id.startswith("reflex-")):
        reasons.append("no reflex acted")
    elif not paused(trace, trace.process_id, "s0"):
        reasons.append("the task was not paused for the reflex")
    apart = [distance(p, *trace.place_of("person", p.at)) for p in trace.poses if p.at >= trace.added]
    if any(map(math.isnan, apart)):
        return [*reasons, "the person's true place is not known"]
    near = min(apart, default=math.inf)
    return reasons + ([f"it came within {near:.2f} m of the person"] if near < APART_M else [])


def _a6(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    return _looked_left(trace, trace.asked, trace.end)


def _a7(setting: Setting, trace: Trace, facts: Facts) -> list[str]:
    return _counted(trace, trace.process_id, facts)


def _looked_left(trace: Trace, since: float, until: float) -> list[str]:
    during = [p for p in trace.poses if since <= p.at <= until]
    farthest = max(turned(during), default=0.0)
    if LEFT[0] <= farthest <= LEFT[1]:
        return []
    return [f"it turned {_degrees(farthest)} to the left when it was to check what is there"]


def _counted(trace: Trace, process_id: str, facts: Facts) -> list[str]:
    said = trace.said(process_id)
    if (number := number_said(said)) is None:
        return [f"it said no number: “{said[:100]}”"]
    if number in facts.place_counts:
        return []
    return [f"it said {number} places, but has been in {' or '.join(map(str, sorted(facts.place_counts)))}"]


def _degrees(radians: float) -> str:
    return f"{math.degrees(radians):.0f} degrees"


_ENDED = ("SUCCESS", "FAILED", "STOPPED")
_CRITERIA: dict[str, Callable[[Setting, Trace, Facts], list[str]]] = {
    "T1": _t1,
    "T2": _t2,
    "T3": _t3,
    "T4": _t4,
    "T5": _t5,
    "L5": _t5,
    "T6": _t6,
    "T7": _t7,
    "T8": _t8,
    "C1": _t1,
    "C3": _t3,
    "C5": _c5,
    "A6": _a6,
    "A7": _a7,
}
