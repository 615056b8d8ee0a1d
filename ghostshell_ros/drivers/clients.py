# SPDX-License-Identifier: Apache-2.0
"""The robot's drivers as skills see them: blocking calls over action clients, each with deadlines for everything."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from builtin_interfaces.msg import Duration
from geometry_msgs.msg import PoseStamped
from ghostshell.action import Drive, MoveJoints, NavigateTo, PlaySound, SetPosture, ShowFace, Speak
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ghostshell_ros.drivers.driver_caller import DriverCaller
from ghostshell_ros.drivers.memory_caller import MemoryCaller
from ghostshell_ros.drivers.senses import Proprioception, Surroundings
from ghostshell_ros.runtime.lifecycle import DriverStates
from ghostshell_ros.runtime.node_runtime import RuntimeNode
from ghostshell_ros.wire.values import ros_text
from skill_kernel.codes import CallCode
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import Detection, DriverResult, MemoryAnswer, Pose2D, Scan, StopEvent

LOOK_S = 0.2
"""How often drivers that were not discovered yet are looked for."""

_NO_BASE = DriverResult(False, CallCode.DRIVER_UNAVAILABLE, "this robot has no base to drive; set base: in its YAML file")
_NO_JOINTS = DriverResult(
    False, CallCode.DRIVER_UNAVAILABLE, "this robot has no joints of its own; set joints: in its YAML file"
)


class RosDrivers:
    """Implements `skill_kernel.skills.drivers.Drivers`. Built on the executor's thread or before spinning; its methods are for
    other threads (a skill's), never for a callback, which they would block.

    Uses the actions `speak` and `play_sound`; `drive`, `navigate_to` and `set_posture` for a robot with a base;
    `move_joints` and `show_face` for one with joints, or without a base. What it measures: see `Proprioception` and,
    for a base, `Surroundings`. All names are relative to the node's namespace, but for the fleet's service `/query_memory`.
    """

    def __init__(
        self, node: RuntimeNode, robot: RobotConfig | None = None, *, on_lost: Callable[[str], None] = lambda why: None
    ) -> None:
        """`on_lost` as in DriverCaller, for every driver."""
        self._node = node
        states = DriverStates(node)
        self._speak = DriverCaller(node, Speak, "speak", states, on_lost)
        self._play = DriverCaller(node, PlaySound, "play_sound", states, on_lost)
        self._callers = [self._speak, self._play]
        self._move = self._face = self._drive = self._navigate = self._posture = None
        self._around: Surroundings | None = None
        if robot is None or robot.base is None or robot.joints:
            self._move = DriverCaller(node, MoveJoints, "move_joints", states, on_lost)
            self._face = DriverCaller(node, ShowFace, "show_face", states, on_lost)
            self._callers += [self._move, self._face]
        if robot is not None and robot.base is not None:
            self._drive = DriverCaller(node, Drive, "drive", states, on_lost)
            self._navigate = DriverCaller(node, NavigateTo, "navigate_to", states, on_lost)
            self._posture = DriverCaller(node, SetPosture, "set_posture", states, on_lost)
            self._callers += [self._drive, self._navigate, self._posture]
            self._around = Surroundings(node)
        self._own = Proprioception(node)
        self._memory = MemoryCaller(node)
        self._look()

    def ready(self) -> bool:
        """Whether all drivers this robot has are there to be used. On the executor's thread."""
        # Each is asked, because asking is what probes a driver.
        answers = [caller.ready() for caller in self._callers]
        return all(answers)

    def _look(self) -> None:
        """Notice the drivers as they come up, so that the first call need not wait for them to settle."""
        if not self.ready():
            self._node.call_later(LOOK_S, self._look)

    def move_joints(
        self,
        joints: Sequence[str],
        times_s: Sequence[float],
        positions: Sequence[Sequence[float]],
        *,
        stop: StopEvent,
        tolerance_rad: float = 0.0,
    ) -> DriverResult:
        if self._move is None:
            return _NO_JOINTS
        try:
            points = [
                JointTrajectoryPoint(positions=[float(p) for p in row], time_from_start=_duration(time_s))
                for time_s, row in zip(times_s, positions, strict=True)
            ]
        except (ValueError, OverflowError) as error:
            text = f"bad trajectory: {error}; send one row of positions a time, times from 0 to 2e9 s"
            return DriverResult(False, MoveJoints.Goal.BAD_TRAJECTORY, text)
        trajectory = JointTrajectory(joint_names=[ros_text(joint) for joint in joints], points=points)
        goal = MoveJoints.Goal(trajectory=trajectory, goal_tolerance=float(tolerance_rad))

        def values(result: Any) -> dict[str, float]:
            final = dict(zip(joints, map(float, result.final_positions), strict=False))
            return {"completed_s": float(result.completed_s), **final}

        return self._move.call(goal, stop, values)

    def speak(self, text: str, *, stop: StopEvent, voice: str = "", rate: float = 1.0, volume: float = 1.0) -> DriverResult:
        goal = Speak.Goal(text=ros_text(text), voice=ros_text(voice), rate=float(rate), volume=float(volume))
        return self._speak.call(goal, stop, lambda r: {"spoken_chars": float(r.spoken_chars)})

    def play_sound(self, name: str, *, stop: StopEvent, volume: float = 1.0, loop: bool = False) -> DriverResult:
        goal = PlaySound.Goal(name=ros_text(name), volume=float(volume), loop=loop)
        return self._play.call(goal, stop, lambda r: {"played_s": float(r.played_s)})

    def show_face(self, face: str, *, stop: StopEvent, duration_s: float = 0.0) -> DriverResult:
        if self._face is None:
            return _NO_JOINTS
        goal = ShowFace.Goal(face=ros_text(face), duration_s=float(duration_s))
        return self._face.call(goal, stop)

    def drive(
        self,
        *,
        stop: StopEvent,
        distance: float = 0.0,
        lateral: float = 0.0,
        turn: float = 0.0,
        max_linear: float = 0.0,
        max_angular: float = 0.0,
    ) -> DriverResult:
        if self._drive is None:
            return _NO_BASE
        goal = Drive.Goal(distance=float(distance), lateral=float(lateral), turn=float(turn))
        goal.max_linear, goal.max_angular = float(max_linear), float(max_angular)

        def moved(result: Any) -> dict[str, float]:
            return {name: float(getattr(result, name)) for name in ("distance", "lateral", "turn")}

        return self._drive.call(goal, stop, moved)

    def navigate(
        self, *, stop: StopEvent, waypoint: str = "", pose: Pose2D | None = None, tolerance: float = 0.0
    ) -> DriverResult:
        if self._navigate is None:
            return _NO_BASE
        goal = NavigateTo.Goal(waypoint=ros_text(waypoint), pose=_stamped(pose), tolerance=float(tolerance))

        def ended(result: Any) -> dict[str, float]:
            at = result.pose
            left = float(result.distance_left)
            return {"distance_left": left, "x": float(at.x), "y": float(at.y), "yaw": float(at.theta)}

        return self._navigate.call(goal, stop, ended)

    def set_posture(
        self, posture: str, *, stop: StopEvent, roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0, duration_s: float = 0.0
    ) -> DriverResult:
        if self._posture is None:
            return _NO_BASE
        goal = SetPosture.Goal(posture=ros_text(posture), duration=float(duration_s))
        goal.roll, goal.pitch, goal.yaw = float(roll), float(pitch), float(yaw)
        return self._posture.call(goal, stop)

    def query_memory(self, question: str, *, stop: StopEvent, timeout_s: float = 5.0) -> MemoryAnswer:
        return self._memory.ask(question, stop, timeout_s)

    def joint_positions(self) -> Mapping[str, float]:
        return self._own.joint_positions()

    def odometry(self) -> Pose2D | None:
        return self._own.odometry()

    def pose(self) -> Pose2D | None:
        return self._around.pose(self._own.odometry()) if self._around is not None else None

    def scan(self) -> Scan | None:
        return self._around.scan() if self._around is not None else None

    def image(self) -> Any:
        return self._around.image() if self._around is not None else None

    def detections(self) -> Sequence[Detection] | None:
        return self._around.detections() if self._around is not None else None


def _stamped(pose: Pose2D | None) -> PoseStamped:
    message = PoseStamped()
    message.header.frame_id = "map"
    if pose is not None:
        message.pose.position.x, message.pose.position.y = float(pose.x), float(pose.y)
        message.pose.orientation.w, message.pose.orientation.z = math.cos(pose.yaw / 2), math.sin(pose.yaw / 2)
    return message


def _duration(seconds: float) -> Duration:
    whole = math.floor(seconds)
    return Duration(sec=whole, nanosec=min(round((seconds - whole) * 1e9), 999_999_999))
