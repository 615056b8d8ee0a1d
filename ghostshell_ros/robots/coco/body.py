# SPDX-License-Identifier: Apache-2.0
"""Give CoCo's skills its body: motions on top of the drivers, each ending soon after its stop event in a stable pose."""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ghostshell_ros.drivers.trajectory import Trajectory
from ghostshell_ros.navigation.motion import seen_from, wrapped
from ghostshell_ros.robots.coco import motions
from skill_kernel import Limited
from skill_kernel.skills.drivers import Action, DriverResult, Memory, Pose2D, Senses, StopEvent, joint_trajectory

WALK_TOLERANCE_M = 0.025
TURN_TOLERANCE_RAD = math.radians(4.0)
MAX_CORRECTIONS = 3
REJOIN_M = 0.6

CLOSE_TO_COMMAND_RAD = 0.2
"""Distance from its last set-point within which a joint carries on from it, else from where it was measured."""

THERE_RAD = 0.2
"""A joint has come to a posture that is so near: servos lag and sag by less."""

Percent = Annotated[float, Field(ge=0, le=100, description="%")]
Seconds = Annotated[float, Field(ge=0, le=600, description="s"), Limited("duration_s")]
Times = Annotated[int, Field(ge=1, le=100, description="times"), Limited("repetitions")]
"""Parameters that CoCo's skills share; the limits they name stand in the robot's YAML."""

HEAD = ("head_yaw", "head_pitch")
_GO_ON = threading.Event()
"""Stop event that is never set, for the motion that makes a stopped body stable; its length bounds it."""


class BodyError(RuntimeError):
    """Say that the body cannot move safely; the message says why and what would help."""


@dataclass(frozen=True)
class Voice:
    """Set how text is spoken: `variant` is the synthesiser's ("" for its own voice), `rate` 1.0 normal, `volume` 0 to 1."""

    variant: str = ""
    rate: float = 1.0
    volume: float = 0.8


class CocoBody:
    """Do what CoCo can do with its drivers.

    Skills of different channels call it from different threads; no two of them share joints.
    """

    def __init__(
        self,
        *,
        move_joints: Action,
        speak: Action,
        play_sound: Action,
        show_face: Action,
        senses: Senses,
        memory: Memory,
        ask_human: Action,
    ) -> None:
        self.move_joints, self.speak, self.play_sound, self.show_face = move_joints, speak, play_sound, show_face
        self.senses, self.memory, self.ask_human = senses, memory, ask_human
        self.voice = Voice()
        self._commanded: dict[str, float] = {}

    def pose(self, joints: Sequence[str] = motions.JOINTS) -> dict[str, float]:
        """Return where a motion of these joints starts: at the last set-point where the joint is near it, else as measured.

        Raises BodyError while a joint has not been measured: a guess could make it jump.
        """
        measured = self.senses.joint_positions()
        missing = [joint for joint in joints if joint not in measured]
        if missing:
            raise BodyError(f"joint '{missing[0]}' has not been measured; check that the robot publishes joint_states")
        pose = {}
        for joint in joints:
            value = measured[joint]
            commanded = self._commanded.get(joint)
            near = commanded is not None and abs(commanded - value) < CLOSE_TO_COMMAND_RAD
            pose[joint] = commanded if commanded is not None and near else value
        return pose

    def play(self, trajectory: Trajectory, stop: StopEvent, tolerance: float = 0.0) -> DriverResult:
        """Play a trajectory. Blocks; ends within 0.2 s of `stop`. With a `tolerance` [rad] it fails short of its end."""
        played = joint_trajectory(trajectory.joints, trajectory.times_s, trajectory.positions)
        result = self.move_joints(trajectory=played, goal_tolerance=tolerance, stop=stop)
        for joint in trajectory.joints:
            self._commanded.pop(joint, None)
        if result.ok:
            self._commanded.update(trajectory.end())
        return result

    def move(self, goal: Mapping[str, float], seconds: float, stop: StopEvent) -> DriverResult:
        """Move some joints smoothly to an angle each."""
        joints = tuple(goal)
        return self.play(motions.move(self.pose(joints), [(seconds, goal)], joints), stop, THERE_RAD)

    def stay(self, joints: Sequence[str], seconds: float, stop: StopEvent) -> DriverResult:
        """Keep joints where they are for a time, on the drivers' clock."""
        if seconds < motions.SAMPLE_S:
            return DriverResult(ok=True)
        return self.play(motions.hold(self.pose(joints), seconds, joints), stop)

    def settle(self) -> DriverResult:
        """Bring the legs into a stable stance after a motion was stopped; takes `motions.SETTLE_S`."""
        return self.play(motions.settle(self.pose()), _GO_ON)

    def relax(self, goal: Mapping[str, float], seconds: float) -> DriverResult:
        """Move joints home after their skill was stopped; no stop event ends it early."""
        return self.move(goal, seconds, _GO_ON)

    def ready(self, stop: StopEvent) -> DriverResult:
        """Stand up first unless CoCo stands already."""
        pose = self.pose()
        if motions.is_standing(pose):
            return DriverResult(ok=True)
        return self.change_to(motions.STAND["normal"], stop)

    def change_to(self, posture: motions.Pose, stop: StopEvent) -> DriverResult:
        """Stand up, sit down or change how; fails where the legs do not come there."""
        return self.play(motions.change_to(posture, self.pose()), stop, THERE_RAD)

    def legs(self, trajectory: Trajectory, stop: StopEvent) -> DriverResult:
        """Play a leg trajectory; if that is stopped in between, put all feet down."""
        result = self.play(trajectory, stop)
        if result.cancelled:
            self.settle()
        return result

    def walk(self, distance: float, speed: float, amplitude: float, stop: StopEvent) -> tuple[DriverResult, float]:
        """Walk `distance` metres (negative: backward) on the present course.

        Returns how it ended and how far CoCo came, by odometry where there is one.
        """
        start = self.senses.odometry()
        reach, done = motions.walk_stride(speed, amplitude).reach, 0.0
        for _ in range(math.ceil(abs(distance) / reach) + MAX_CORRECTIONS):
            if abs(distance - done) <= WALK_TOLERANCE_M:
                break
            aim = math.copysign(min(abs(distance - done), reach), distance - done)
            here = self.senses.odometry()
            error = _course_error(start, here, math.copysign(1.0, distance)) if start and here else 0.0
            result = self.legs(motions.walk(self.pose(), aim, speed, amplitude, error), stop)
            now = self.senses.odometry()
            done = seen_from(start, now).x if start and now else done + aim * _share(result)
            if not result.ok:
                return result, done
        return _brought(abs(distance - done) <= WALK_TOLERANCE_M), done

    def turn(self, angle: float, stop: StopEvent) -> tuple[DriverResult, float]:
        """Turn on the spot by `angle` rad, left positive.

        Returns how it ended and how far CoCo turned, by odometry where there is one.
        """
        before, done = self.senses.odometry(), 0.0
        for _ in range(math.ceil(abs(angle) / motions.TURN.reach) + MAX_CORRECTIONS):
            if abs(angle - done) <= TURN_TOLERANCE_RAD:
                break
            aim = math.copysign(min(abs(angle - done), motions.TURN.reach), angle - done)
            result = self.legs(motions.turn(self.pose(), aim), stop)
            now, step = self.senses.odometry(), aim * _share(result)
            if before and now:
                step += wrapped(now.yaw - before.yaw - step)
            done, before = done + step, now
            if not result.ok:
                return result, done
        return _brought(abs(angle - done) <= TURN_TOLERANCE_RAD), done


def wait_for_reset(stop: StopEvent) -> None:
    """Stand by until the open element is reset. Its length is the model's; each single wait has a deadline."""
    while not stop.wait(1.0):
        pass


def _course_error(start: Pose2D, now: Pose2D, way: float) -> float:
    """Return by how many rad to turn right to come back to the line through `start` within about `REJOIN_M`.

    `way` is 1 when CoCo walks forward along the line, -1 when backward.
    """
    here = seen_from(start, now)
    return here.yaw + way * math.atan2(here.y, REJOIN_M)


def _brought(there: bool) -> DriverResult:
    """Return the end of a walk or turn whose steps were all made, by whether they brought it there."""
    return DriverResult(there, error_msg="" if there else "its steps do not bring it there: is it held, or does it slip?")


def _share(result: DriverResult) -> float:
    return 1.0 if result.ok else 0.5
