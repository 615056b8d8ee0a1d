# SPDX-License-Identifier: Apache-2.0
"""The robot's drivers as skills see them: blocking calls over action clients, each with deadlines for everything."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from builtin_interfaces.msg import Duration
from ghostshell.action import MoveJoints, PlaySound, ShowFace, Speak
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ghostshell_ros.nodes.goal_client import GoalClient, GoalEnd, SentGoal
from ghostshell_ros.nodes.node_runtime import SENSORS, RuntimeNode
from ghostshell_ros.nodes.wire_text import ros_text
from skill_kernel.codes import CallCode
from skill_kernel.drivers import DriverResult, Pose2D, StopEvent

AVAILABLE_S = 0.5
"""How long a call waits for its driver to be discovered."""
ANSWER_S = 0.3
"""A goal not accepted by then is asked for by its id, because the answer may be lost; for as long again."""
FIRST_MEASUREMENT_S = 3.0
"""How long a skill waits for the joints to be measured for the first time."""

SILENCE_S = 0.5
"""A driver sends feedback every 0.1 s; this long without, it is gone."""
STALL_GRACE_S = 0.1
"""Silence may be a stall of this very process: its executor gets this long to hand over what has arrived."""
CANCEL_S = 0.15
"""How long a stopped call waits for the driver to confirm; it returns within 0.2 s either way."""
LOOK_S = 0.2
"""How often drivers that were not discovered yet are looked for."""
STOP_LOOK_S = 0.02
"""How often a waiting call looks at its stop event. It sleeps in between, and the driver's answer wakes it at once."""


class _State(Enum):
    SENDING = auto()
    NO_SERVER = auto()
    SENT = auto()
    ACCEPTED = auto()
    ENDED = auto()


@dataclass
class _Call:
    """What the executor's thread tells the waiting one. Guarded by `changed`."""

    changed: threading.Condition
    state: _State = _State.SENDING
    heard_at: float = 0.0
    sent: SentGoal | None = None
    end: GoalEnd | None = None
    result: Any = None
    given_up: bool = False
    sent_again: bool = False


class RosDrivers:
    """Implements `skill_kernel.drivers.Drivers`. Built on the executor's thread or before spinning; its methods are for
    other threads (a skill's), never for a callback, which they would block.

    Uses the actions `move_joints`, `speak`, `play_sound` and `show_face`, and the topics `joint_states` and `odom`,
    relative to the node's namespace.
    """

    def __init__(self, node: RuntimeNode) -> None:
        self._node = node
        self._move = GoalClient(node, MoveJoints, "move_joints")
        self._speak = GoalClient(node, Speak, "speak")
        self._play = GoalClient(node, PlaySound, "play_sound")
        self._face = GoalClient(node, ShowFace, "show_face")
        self._positions: dict[str, float] = {}
        self._measured = threading.Event()
        self._odometry: tuple[float, Pose2D] | None = None
        self._look()
        node.create_subscription(JointState, "joint_states", self._on_joint_states, SENSORS)
        node.create_subscription(Odometry, "odom", self._on_odometry, SENSORS)

    def move_joints(
        self,
        joints: Sequence[str],
        times_s: Sequence[float],
        positions: Sequence[Sequence[float]],
        *,
        stop: StopEvent,
        tolerance_rad: float = 0.0,
    ) -> DriverResult:
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

        return self._call(self._move, "move_joints", goal, stop, values)

    def speak(
        self, text: str, *, stop: StopEvent, voice: str = "", rate: float = 1.0, volume: float = 1.0
    ) -> DriverResult:
        goal = Speak.Goal(text=ros_text(text), voice=ros_text(voice), rate=float(rate), volume=float(volume))
        return self._call(self._speak, "speak", goal, stop, lambda r: {"spoken_chars": float(r.spoken_chars)})

    def play_sound(self, name: str, *, stop: StopEvent, volume: float = 1.0, loop: bool = False) -> DriverResult:
        goal = PlaySound.Goal(name=ros_text(name), volume=float(volume), loop=loop)
        return self._call(self._play, "play_sound", goal, stop, lambda r: {"played_s": float(r.played_s)})

    def show_face(self, face: str, *, stop: StopEvent, duration_s: float = 0.0) -> DriverResult:
        goal = ShowFace.Goal(face=ros_text(face), duration_s=float(duration_s))
        return self._call(self._face, "show_face", goal, stop, lambda _: {})

    def joint_positions(self) -> Mapping[str, float]:
        # A call may come before the first measurement has: right after the start, or after a restart of this node.
        self._measured.wait(FIRST_MEASUREMENT_S)
        return dict(self._positions)

    def odometry(self) -> Pose2D | None:
        """The last odometry, or None when there was none in the last 0.5 s."""
        last = self._odometry
        return last[1] if last is not None and self._node.steady_now() - last[0] <= SILENCE_S else None

    def ready(self) -> bool:
        """Whether all four drivers are there to be used. On the executor's thread."""
        # Each is asked, because asking is what probes a driver.
        answers = [client.server_is_ready() for client in (self._move, self._speak, self._play, self._face)]
        return all(answers)

    def _look(self) -> None:
        """Notice the drivers as they come up, so that the first call need not wait for them to settle."""
        if not self.ready():
            self._node.call_later(LOOK_S, self._look)

    def _on_joint_states(self, message: JointState) -> None:
        # A new dict each time: readers on other threads keep the one they have.
        self._positions = {**self._positions, **dict(zip(message.name, message.position, strict=False))}
        self._measured.set()

    def _on_odometry(self, message: Odometry) -> None:
        position, q = message.pose.pose.position, message.pose.pose.orientation
        yaw = math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z))
        self._odometry = (self._node.steady_now(), Pose2D(position.x, position.y, yaw))

    def _call(
        self,
        client: GoalClient,
        name: str,
        goal: Any,
        stop: StopEvent,
        values: Callable[[Any], Mapping[str, float]],
    ) -> DriverResult:
        """Send a goal and wait for its end, the stop event, or the driver's silence, whichever comes first."""
        if stop.is_set():
            return DriverResult(False, cancelled=True)
        call = _Call(threading.Condition())
        action = self._node.resolve_topic_name(name)
        deadline = self._node.steady_now() + AVAILABLE_S
        self._node.call_soon(self._send, client, goal, call, deadline)
        with call.changed:
            state = self._wait(call, stop, deadline + 2 * STOP_LOOK_S, {_State.SENDING})
            if state is _State.SENT:
                state = self._wait(call, stop, self._node.steady_now() + ANSWER_S, {_State.SENT})
                if state is _State.SENT and call.sent is not None:
                    call.sent.ask()
                    state = self._wait(call, stop, self._node.steady_now() + ANSWER_S, {_State.SENT})
            if state is _State.ACCEPTED:
                state = self._wait_for_end(call, stop)
            if state is _State.ENDED:
                return self._ended(call, action, values)
            stopped = stop.is_set()
            call.given_up = True
            if stopped and call.sent is not None and state is not _State.SENDING:
                call.sent.cancel()
                if self._wait_confirmed(call):
                    return self._ended(call, action, values, stopped=True)
            if call.sent is not None:
                call.sent.abandon()
            if stopped:
                return DriverResult(False, cancelled=True)
            client.doubt()
            if state is _State.ACCEPTED:
                text = f"the driver of {action} sent nothing for {SILENCE_S} s: it died or hangs; start it again"
                return DriverResult(False, CallCode.DRIVER_LOST, text)
            what = "did not answer" if state is _State.SENT else f"was not found within {AVAILABLE_S} s"
            text = f"the driver of {action} {what}: is it running in this namespace?"
            return DriverResult(False, CallCode.DRIVER_UNAVAILABLE, text)

    def _wait(self, call: _Call, stop: StopEvent, deadline: float, while_in: set[_State]) -> _State:
        while call.state in while_in and not stop.is_set():
            left = deadline - self._node.steady_now()
            if left <= 0:
                break
            call.changed.wait(min(left, STOP_LOOK_S))
        return call.state

    def _wait_for_end(self, call: _Call, stop: StopEvent) -> _State:
        while call.state is _State.ACCEPTED and not stop.is_set():
            left = call.heard_at + SILENCE_S + STALL_GRACE_S - self._node.steady_now()
            if left <= 0:
                break
            call.changed.wait(min(left, STOP_LOOK_S))
        return call.state

    def _wait_confirmed(self, call: _Call) -> bool:
        deadline = self._node.steady_now() + CANCEL_S
        while call.state is not _State.ENDED and (left := deadline - self._node.steady_now()) > 0:
            call.changed.wait(left)
        return call.state is _State.ENDED

    def _ended(
        self, call: _Call, action: str, values: Callable[[Any], Mapping[str, float]], *, stopped: bool = False
    ) -> DriverResult:
        if call.end is GoalEnd.REJECTED or call.end is GoalEnd.UNKNOWN or call.result is None:
            if stopped:
                return DriverResult(False, cancelled=True)
            text = f"the driver of {action} does not know the goal any more: it was started anew"
            if call.end is GoalEnd.REJECTED:
                text = f"the driver of {action} rejected the goal"
            return DriverResult(False, CallCode.DRIVER_LOST, text)
        result = call.result
        return DriverResult(
            ok=call.end is GoalEnd.SUCCEEDED,
            error_code=int(result.error_code),
            error_msg=str(result.error_msg),
            cancelled=call.end is GoalEnd.CANCELED or (stopped and call.end is not GoalEnd.SUCCEEDED),
            values=values(result),
        )

    def _send(self, client: GoalClient, goal: Any, call: _Call, deadline: float) -> None:
        """On the executor's thread: send as soon as the driver is discovered, for which rclpy has no event."""
        with call.changed:
            if call.given_up:
                return
            if not client.server_is_ready():
                if self._node.steady_now() < deadline:
                    self._node.call_later(STOP_LOOK_S, lambda: self._send(client, goal, call, deadline))
                else:
                    self._tell(call, _State.NO_SERVER)
                return

            def accepted() -> None:
                with call.changed:
                    call.heard_at = self._node.steady_now()
                    self._tell(call, _State.ACCEPTED)

            def feedback(_: Any) -> None:
                with call.changed:
                    call.heard_at = self._node.steady_now()

            def ended(end: GoalEnd, result: Any) -> None:
                with call.changed:
                    if end is GoalEnd.UNKNOWN and call.state is _State.SENT and not call.sent_again:
                        # It never arrived. Under the same id, the server takes it once even if it still does.
                        call.sent_again = True
                        self._send(client, goal, call, deadline)
                        return
                    call.end, call.result = end, result
                    self._tell(call, _State.ENDED)

            goal_id = None if call.sent is None else call.sent.goal_id
            call.sent = client.send(goal, on_end=ended, on_accepted=accepted, on_feedback=feedback, goal_id=goal_id)
            self._tell(call, _State.SENT)

    @staticmethod
    def _tell(call: _Call, state: _State) -> None:
        call.state = state
        call.changed.notify_all()


def _duration(seconds: float) -> Duration:
    whole = math.floor(seconds)
    return Duration(sec=whole, nanosec=min(round((seconds - whole) * 1e9), 999_999_999))
