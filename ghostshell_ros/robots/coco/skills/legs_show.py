# SPDX-License-Identifier: Apache-2.0
"""Skills of the legs that show something on the spot: wave, shake, push-ups, arms and knocking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import Literal

from ghostshell_ros.robots.coco import moves, postures
from ghostshell_ros.robots.coco.body import CocoBody, outcome
from ghostshell_ros.robots.coco.postures import Pose, Trajectory
from ghostshell_ros.robots.coco.skills.legs import STOP_S
from ghostshell_ros.robots.coco.skills.ranges import Percent, Seconds, Times
from skill_kernel import SkillReturn, robot_skill

HOME_S = 0.4


@robot_skill(subsystem="legs", nominal_s=lambda speed, times: times * moves.wave_period_s(speed), stop_s=STOP_S)
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
    return _perform(body, stop_evt, until_reset, lambda pose: [moves.wave(pose, speed, amplitude, times)], f"{times} waves")


@robot_skill(subsystem="legs", nominal_s=lambda speed, times: times * moves.shake_period_s(speed) + HOME_S, stop_s=STOP_S)
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

    def motion(pose: Pose) -> Sequence[Trajectory]:
        return [_home(moves.shake(pose, speed, amplitude, times))]

    return _perform(body, stop_evt, until_reset, motion, f"{times} wags")


def _push_ups(duration: float) -> int:
    return max(1, round((duration - HOME_S) / moves.PUSH_UP_S))


@robot_skill(subsystem="legs", nominal_s=lambda duration: _push_ups(duration) * moves.PUSH_UP_S + HOME_S, stop_s=STOP_S)
def spider_push_up(duration: Seconds = 4.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Do push-ups. duration: seconds; one push-up takes 1.25 s and none is left half done."""
    times = _push_ups(duration)
    return _perform(body, stop_evt, until_reset, lambda pose: [_home(moves.push_up(pose, times))], f"{times} push-ups")


@robot_skill(
    subsystem="legs", nominal_s=lambda speed, times: times * moves.pull_period_s(speed) + moves.FREE_AND_BACK_S, stop_s=STOP_S
)
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

    def motion(pose: Pose) -> Sequence[Trajectory]:
        free = moves.free_leg(pose, leg)
        stroke = moves.pull(free.end(), leg, speed, times, inward=direction != "forward")
        return [free.then(stroke).then(moves.unfree_leg(stroke.end(), leg))]

    return _perform(body, stop_evt, until_reset, motion, f"{times} strokes {direction}")


@robot_skill(
    subsystem="legs", nominal_s=lambda speed, times: times * moves.knock_period_s(speed) + moves.FREE_AND_BACK_S, stop_s=STOP_S
)
def spider_arm_knock(
    speed: Percent = 60.0, times: Times = 3, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Knock on the desk in front with the right front leg as an arm. speed in percent, times: number of knocks."""
    return _knock(body, 2, speed, times, 0.55, stop_evt, until_reset)


@robot_skill(
    subsystem="legs", nominal_s=lambda speed, times: times * moves.knock_period_s(speed) + moves.FREE_AND_BACK_S, stop_s=STOP_S
)
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
    def motion(pose: Pose) -> Sequence[Trajectory]:
        free = moves.free_leg(pose, leg)
        knocks = moves.knock(free.end(), leg, speed, times, forward)
        return [free.then(knocks).then(moves.unfree_leg(knocks.end(), leg))]

    return _perform(body, stop_evt, until_reset, motion, f"{times} knocks with leg {leg}")


def _home(trajectory: Trajectory) -> Trajectory:
    return trajectory.then(postures.move(trajectory.end(), [(HOME_S, postures.STAND["normal"])]))


def _perform(
    body: CocoBody, stop_evt: Event, until_reset: bool, motion: Callable[[Pose], Sequence[Trajectory]], what: str
) -> SkillReturn:
    result = body.ready(stop_evt)
    rounds = 0
    while result.ok and (until_reset or not rounds):
        result = body.legs(motion(body.pose()), stop_evt)
        rounds += result.ok
    if until_reset:
        return outcome(result, f"went on until the reset, {rounds} times {what}")
    return outcome(result, f"did {what}" if result.ok else f"stopped before the end of {what}")
