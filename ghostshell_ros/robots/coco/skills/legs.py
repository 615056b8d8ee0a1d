# SPDX-License-Identifier: Apache-2.0
"""Define skills of the legs: posture, place and heading, and moves on the spot."""

import math
from collections.abc import Callable, Mapping
from threading import Event
from typing import Annotated, Literal

from pydantic import Field

from ghostshell_ros.drivers.trajectory import Trajectory
from ghostshell_ros.robots.coco import motions
from ghostshell_ros.robots.coco.body import CocoBody, Percent, Seconds, Times, wait_for_reset
from ghostshell_ros.robots.coco.motions import Pose
from skill_kernel import Limited, SkillReturn, robot_skill
from skill_kernel.skills.drivers import outcome

STOP_S = 0.9
"""0.2 s until the driver stops, `motions.SETTLE_S` to put the feet down, and what two driver calls cost."""

HOLD_STOP_S = 0.4

Centimetres = Annotated[float, Field(ge=-1000, le=1000, description="cm"), Limited("walk_distance_cm")]
Motion = Callable[[Pose], Trajectory]

Degrees = Annotated[float, Field(ge=-1080, le=1080, description="deg"), Limited("turn_deg")]


@robot_skill(subsystem="legs", nominal_s=lambda duration: max(duration, motions.MOVE_S), stop_s=HOLD_STOP_S, idempotent=True)
def spider_stand(
    posture: Literal["normal", "high", "low", "wide"] = "normal",
    duration: Seconds = 1.0,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Stand up, or change how tall CoCo stands. duration: seconds in all, at least 0.8; CoCo stays standing
    afterwards."""
    return _posture(body, motions.STAND[posture], duration, stop_evt, until_reset, f"standing ({posture})")


@robot_skill(subsystem="legs", nominal_s=lambda duration: max(duration, motions.MOVE_S), stop_s=HOLD_STOP_S, idempotent=True)
def spider_sit(
    style: Literal["normal", "dog", "lie"] = "normal",
    duration: Seconds = 1.0,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Sit down: normal (belly on the desk), dog (rear down, chest up) or lie (flat, legs spread). duration: seconds
    in all, at least 0.8; CoCo stays seated afterwards."""
    return _posture(body, motions.SIT[style], duration, stop_evt, until_reset, f"sitting ({style})")


@robot_skill(
    subsystem="legs",
    nominal_s=lambda speed, amplitude, distance: motions.walk_stride(speed, amplitude).time_s(distance / 100.0),
    stop_s=STOP_S,
    remaining=lambda progress, distance, **_: _left("distance", distance, progress["distance"], 1.0),
)
def spider_run_distance(
    speed: Percent = 60.0,
    amplitude: Percent = 60.0,
    distance: Centimetres = 20.0,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Walk straight ahead, or backward if distance is negative. speed: pace of the steps in percent. amplitude: width
    of the steps in percent. distance: centimetres. Stands up first if need be."""
    result, done = body.ready(stop_evt), 0.0
    if result.ok:
        result, done = body.walk(distance / 100.0, speed, amplitude, stop_evt)
    if result.ok and until_reset:
        wait_for_reset(stop_evt)
    return outcome(result, f"walked {done * 100.0:.1f} cm of {distance:g} cm", progress={"distance": done * 100.0})


@robot_skill(
    subsystem="legs",
    nominal_s=lambda angle: motions.TURN.time_s(math.radians(angle)),
    stop_s=STOP_S,
    remaining=lambda progress, angle: _left("angle", angle, progress["angle"], 2.0),
)
def spider_rotate(angle: Degrees = 90.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Turn on the spot. angle: degrees, positive to the left (counter-clockwise), negative to the right. Stands up
    first if need be."""
    result, done = body.ready(stop_evt), 0.0
    if result.ok:
        result, done = body.turn(math.radians(angle), stop_evt)
    if result.ok and until_reset:
        wait_for_reset(stop_evt)
    return outcome(result, f"turned {math.degrees(done):.0f} of {angle:g} degrees", progress={"angle": math.degrees(done)})


def _left(name: str, whole: float, done: float, least: float) -> dict[str, float] | None:
    """Return the argument for what is left of a move that was stopped; None when that is less than `least`."""
    left = math.copysign(max(abs(whole) - math.copysign(1.0, whole) * done, 0.0), whole)
    return {name: left} if abs(left) >= least else None


@robot_skill(subsystem="legs", nominal_s=lambda duration: max(duration, 2.0 * motions.MOVE_S), stop_s=STOP_S, idempotent=True)
def spider_body_lean(
    direction: motions.Direction = "left",
    duration: Seconds = 2.5,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Tilt the body to one side with all feet on the ground, and come back upright. duration: seconds in all, at
    least 1.6."""
    result = body.ready(stop_evt)
    if not result.ok:
        return outcome(result, "not leaned")
    lean = motions.lean(body.pose(), direction)
    stay = motions.hold(lean.end(), max(motions.SAMPLE_S, duration - 2.0 * motions.MOVE_S))
    if until_reset:
        result = body.legs(lean, stop_evt)
        if result.ok:
            wait_for_reset(stop_evt)
            body.settle()
    else:
        result = body.legs(lean.then(stay).then(motions.change_to(motions.STAND["normal"], stay.end())), stop_evt)
    return outcome(result, f"leaned {direction}" if result.ok else f"began to lean {direction}")


def _posture(body: CocoBody, goal: Pose, duration: float, stop_evt: Event, until_reset: bool, what: str) -> SkillReturn:
    result = body.change_to(goal, stop_evt)
    if result.ok:
        result = body.stay(motions.JOINTS, duration - motions.MOVE_S, stop_evt)
        if result.ok and until_reset:
            wait_for_reset(stop_evt)
        return outcome(result, what)
    return outcome(result, f"not yet {what}")


HOME_S = 0.4


def _rest(progress: Mapping[str, float], times: int, **_: object) -> dict[str, float] | None:
    """Return the argument for what is left of a move that is made a number of times."""
    return {"times": times - int(progress["times"])} if progress["times"] < times else None


@robot_skill(
    subsystem="legs", nominal_s=lambda speed, times: times * motions.period_s("wave", speed), stop_s=STOP_S, remaining=_rest
)
def spider_wave_move(
    speed: Percent = 60.0,
    amplitude: Percent = 60.0,
    times: Times = 3,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Let a wave run round the body on the spot, a dance move. speed and amplitude in percent, times: number of
    waves."""
    each_s = motions.period_s("wave", speed)
    return _perform(
        body, stop_evt, until_reset, lambda pose: motions.wave(pose, speed, amplitude, times), "waves", times, each_s
    )


@robot_skill(
    subsystem="legs",
    nominal_s=lambda speed, times: times * motions.period_s("shake", speed) + HOME_S,
    stop_s=STOP_S,
    remaining=_rest,
)
def spider_shake_ass(
    speed: Percent = 70.0,
    amplitude: Percent = 60.0,
    times: Times = 4,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Raise the rear and wag it from side to side. speed and amplitude in percent, times: number of wags."""
    each_s = motions.period_s("shake", speed)
    return _perform(
        body, stop_evt, until_reset, lambda pose: _home(motions.shake(pose, speed, amplitude, times)), "wags", times, each_s
    )


def _push_ups(duration: float) -> int:
    return max(1, round((duration - HOME_S) / motions.PUSH_UP_S))


def _push_ups_left(progress: Mapping[str, float], duration: float) -> dict[str, float] | None:
    left = _push_ups(duration) - progress["times"]
    return {"duration": left * motions.PUSH_UP_S + HOME_S} if left >= 1 else None


@robot_skill(
    subsystem="legs",
    nominal_s=lambda duration: _push_ups(duration) * motions.PUSH_UP_S + HOME_S,
    stop_s=STOP_S,
    remaining=_push_ups_left,
)
def spider_push_up(duration: Seconds = 4.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Do push-ups. duration: seconds; one push-up takes 1.25 s and none is left half done."""
    times = _push_ups(duration)
    return _perform(
        body, stop_evt, until_reset, lambda pose: _home(motions.push_up(pose, times)), "push-ups", times, motions.PUSH_UP_S
    )


def _strokes_s(motion: str) -> Callable[[float, int], float]:
    """Return how long a number of strokes with one leg takes at a speed."""
    return lambda speed, times: times * motions.period_s(motion, speed) + motions.FREE_AND_BACK_S


@robot_skill(subsystem="legs", nominal_s=_strokes_s("pull"), stop_s=STOP_S, remaining=_rest)
def spider_arm_pull(
    direction: Literal["left", "right", "forward", "backward"] = "left",
    speed: Percent = 60.0,
    times: Times = 2,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Reach out with a front leg as an arm. direction: left or right pulls towards the body with that arm; backward
    pulls with the right arm, forward pushes away with it. speed in percent, times: number of strokes."""
    leg = 1 if direction == "left" else 2
    motion = _with_free_leg(leg, lambda pose: motions.pull(pose, leg, speed, times, inward=direction != "forward"))
    each_s = motions.period_s("pull", speed)
    return _perform(body, stop_evt, until_reset, motion, f"strokes {direction}", times, each_s, motions.SHIFT_S)


@robot_skill(subsystem="legs", nominal_s=_strokes_s("knock"), stop_s=STOP_S, remaining=_rest)
def spider_arm_knock(
    speed: Percent = 60.0, times: Times = 3, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Knock on the desk in front with the right front leg as an arm. speed in percent, times: number of knocks."""
    return _knock(body, 2, speed, times, 0.55, stop_evt, until_reset)


@robot_skill(subsystem="legs", nominal_s=_strokes_s("knock"), stop_s=STOP_S, remaining=_rest)
def spider_single_leg_knock(
    leg: Literal[1, 2, 3, 4] = 1,
    speed: Percent = 60.0,
    times: Times = 3,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Knock on the desk with one leg. leg: 1 front left, 2 front right, 3 rear left, 4 rear right. speed in percent,
    times: number of knocks."""
    return _knock(body, leg, speed, times, 0.0, stop_evt, until_reset)


def _knock(
    body: CocoBody, leg: int, speed: float, times: int, forward: float, stop_evt: Event, until_reset: bool
) -> SkillReturn:
    motion = _with_free_leg(leg, lambda pose: motions.knock(pose, leg, speed, times, forward))
    each_s = motions.period_s("knock", speed)
    return _perform(body, stop_evt, until_reset, motion, f"knocks with leg {leg}", times, each_s, motions.SHIFT_S)


def _with_free_leg(leg: int, act: Motion) -> Motion:
    """Return a motion that frees a leg, acts with it and puts it down again."""

    def motion(pose: Pose) -> Trajectory:
        free = motions.free_leg(pose, leg)
        acted = act(free.end())
        return free.then(acted).then(motions.unfree_leg(acted.end(), leg))

    return motion


def _home(trajectory: Trajectory) -> Trajectory:
    return trajectory.then(motions.move(trajectory.end(), [(HOME_S, motions.STAND["normal"])]))


def _perform(
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool,
    motion: Motion,
    what: str,
    times: int,
    each_s: float,
    before_s: float = 0.0,
) -> SkillReturn:
    """Make a move `times` times, each in `each_s` after `before_s` [s], or again and again until the reset."""
    result = body.ready(stop_evt)
    rounds, played_s = 0, 0.0
    while result.ok and (until_reset or not rounds):
        result = body.legs(motion(body.pose()), stop_evt)
        rounds += result.ok
        played_s = float(result.values.get("completed_s", 0.0))
    if until_reset:
        return outcome(result, f"went on until the reset, {rounds} times {times} {what}", progress={"times": 0})
    done = times if result.ok else min(times, max(0, int((played_s - before_s) / each_s)))
    return outcome(result, f"did {done} of {times} {what}", progress={"times": done})
