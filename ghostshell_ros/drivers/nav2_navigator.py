# SPDX-License-Identifier: Apache-2.0
"""Navigation by Nav2: passes goals on to its NavigateToPose, and its velocities to the gate while such a goal runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from geometry_msgs.msg import PoseStamped, Twist
from ghostshell.action import NavigateTo

from ghostshell_ros.drivers.driver import DriverRefusal
from ghostshell_ros.drivers.navigator import Destination, Navigator
from ghostshell_ros.navigation.motion import StallWatch
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.node_runtime import SENSORS, NodeStartError, RuntimeNode
from ghostshell_ros.wire.values import yaw_of
from skill_kernel.codes import CallCode
from skill_kernel.safety.base_gate import STILL, Velocity
from skill_kernel.skills.drivers import Pose2D

FRESH_S = 0.15
"""An older velocity of Nav2 counts no more; its controller sends 20 a second by default."""
ANSWER_S = 1.0
"""A goal that was not accepted by then is asked for by its id, because the answer may be lost; for as long again."""
PROGRESS_M = 0.1
DETOUR_M = 0.3
"""A way that grows by more is a new one, and its progress counts anew."""
DETOURS = 8
CODES = {NavigateTo.Goal.NO_PATH: (200, 201, 203, 204, 205, 206, 207, 208), NavigateTo.Goal.LOCALISATION_LOST: (102, 202)}
"""Of nav2_msgs' ComputePathToPose (200 and on) and FollowPath (100 and on) in Jazzy; any other is BLOCKED."""
NAMES = {
    101: "unknown controller",
    102: "no transform",
    103: "bad path",
    104: "patience exceeded",
    105: "no progress",
    106: "no valid control",
    107: "controller timed out",
    201: "unknown planner",
    202: "no transform",
    203: "start outside the map",
    204: "goal outside the map",
    205: "start occupied",
    206: "goal occupied",
    207: "planning timed out",
    208: "no valid path",
}


@dataclass(frozen=True)
class Nav2Settings:
    """Names may be relative to the robot's namespace; times in s."""

    action: str
    wait_s: float
    silence_s: float
    patience_s: float

    @classmethod
    def declared(cls, node: RuntimeNode) -> Nav2Settings:
        """Return the node's parameters. Raises NodeStartError."""
        say = node.declare
        return cls(
            action=say("nav2_action", "navigate_to_pose", "Nav2's action, relative to the robot's namespace or absolute"),
            wait_s=say("nav2_wait_s", 3.0, "how long a goal waits for Nav2 to appear [s]", minimum=0.0, maximum=30.0),
            silence_s=say("nav2_silence_s", 3.0, "so long without Nav2's feedback, a goal ends [s]", minimum=0.5, maximum=30.0),
            patience_s=say(
                "nav2_patience_s", 60.0, "so long without progress, recoveries too, a goal ends [s]", minimum=1.0, maximum=600.0
            ),
        )


class Nav2Navigator(Navigator):
    """Client of `navigate_to_pose` (nav2_msgs/NavigateToPose, parameter `nav2_action`). Map, localisation and path are Nav2's.

    Subscribes `cmd_vel_nav2` (geometry_msgs/Twist): what Nav2 would send to the base. It goes to `cmd_vel_in` while a goal
    of this driver runs and nobody has stopped it; at any other time, as for a goal that was set in RViz, it goes nowhere.
    """

    def __init__(self, node: RuntimeNode, settings: Nav2Settings, send: Callable[[Velocity], None]) -> None:
        """`send` takes a velocity to the gate. Raises NodeStartError without nav2_msgs."""
        try:
            from nav2_msgs.action import NavigateToPose
        except ImportError as error:
            raise NodeStartError(
                f"navigation 'nav2' needs nav2_msgs ({error}): install it (`sudo apt install ros-jazzy-navigation2`) and "
                "source ROS again, or set navigation to 'embedded'"
            ) from error
        self._node, self._set, self._send = node, settings, send
        self._type = NavigateToPose
        self._client = GoalClient(node, NavigateToPose, settings.action)
        self._destination: Destination | None = None
        self._frame = "map"
        self._sent: SentGoal | None = None
        self._end: tuple[GoalEnd, Any] | None = None
        self._begun_at = self._sent_at = self._heard_at = 0.0
        self._at: Pose2D | None = None
        self._left = math.inf
        self._stall = StallWatch(settings.patience_s, PROGRESS_M)
        self._detours = 0
        self._wish: tuple[float, Velocity] = (-math.inf, STILL)
        node.create_subscription(Twist, "cmd_vel_nav2", self._on_velocity, SENSORS)

    def complaint(self) -> str:
        # Asking is what probes the server, so that the first goal need not wait for it.
        return "" if self._client.server_is_ready() else self._absent()

    def begin(self, destination: Destination, map_frame: str) -> None:
        self._destination, self._frame = destination, map_frame
        self._sent = self._end = self._at = None
        self._begun_at = self._node.steady_now()
        self._left, self._detours = math.inf, 0
        self._stall = StallWatch(self._set.patience_s, PROGRESS_M)
        self._wish = (-math.inf, STILL)

    def step(self, now: float) -> Velocity | None:
        goal = self._destination
        assert goal is not None
        if self._end is not None:
            self._judge(*self._end)
            return None
        if self._sent is None:
            self._send_when_ready(now, goal)
            return STILL
        if not self._sent.accepted:
            self._wait_for_answer(now)
            return STILL
        if now - self._heard_at > self._set.silence_s:
            text = f"Nav2 sent no feedback for {self._set.silence_s:g} s: it died, hangs or has lost where the robot is"
            raise DriverRefusal(CallCode.DRIVER_LOST, text)
        if goal.yaw is None and self._at is not None and self._away(self._at) <= goal.tolerance:
            return None
        if self._stall.stalled(now, self._left):
            text = f"Nav2 made no progress in {self._set.patience_s:g} s; {self._left:.1f} m are left"
            raise DriverRefusal(NavigateTo.Goal.BLOCKED, text)
        heard_at, wish = self._wish
        return wish if now - heard_at <= FRESH_S else STILL

    def where(self) -> tuple[Pose2D | None, float]:
        return self._at, 0.0 if self._at is None else self._left

    def ended(self) -> None:
        if self._sent is not None:
            self._sent.abandon()
        self._destination = self._sent = None

    def _send_when_ready(self, now: float, goal: Destination) -> None:
        if not self._client.server_is_ready():
            if now - self._begun_at > self._set.wait_s:
                raise DriverRefusal(CallCode.DRIVER_UNAVAILABLE, self._absent())
            return
        pose = PoseStamped()
        pose.header.frame_id = self._frame
        pose.header.stamp = self._node.get_clock().now().to_msg()
        pose.pose.position.x, pose.pose.position.y = goal.x, goal.y
        yaw = goal.yaw or 0.0
        pose.pose.orientation.w, pose.pose.orientation.z = math.cos(yaw / 2), math.sin(yaw / 2)
        self._sent_at = self._heard_at = now
        # The callbacks know their goal: one that was given up must not end its successor.
        sent = self._client.send(
            self._type.Goal(pose=pose),
            on_end=lambda end, result: self._on_end(sent, end, result),
            on_accepted=self._on_accepted,
            on_feedback=self._on_feedback,
        )
        self._sent = sent

    def _absent(self) -> str:
        action = self._node.resolve_topic_name(self._set.action)
        return f"no action server {action} answers: start Nav2 (bt_navigator, activated), or set navigation to 'embedded'"

    def _wait_for_answer(self, now: float) -> None:
        assert self._sent is not None
        if now - self._sent_at > ANSWER_S:
            self._sent.ask()
        if now - self._sent_at > 2 * ANSWER_S:
            self._client.doubt()
            text = f"Nav2 did not answer within {2 * ANSWER_S:g} s: is bt_navigator alive?"
            raise DriverRefusal(CallCode.DRIVER_UNAVAILABLE, text)

    def _judge(self, end: GoalEnd, result: Any) -> None:
        """Return when Nav2 has arrived; else raise DriverRefusal with the reason."""
        if end is GoalEnd.SUCCEEDED:
            return
        if end is GoalEnd.REJECTED:
            text = "Nav2 rejected the goal: activate bt_navigator (`ros2 lifecycle get bt_navigator` shows its state)"
            raise DriverRefusal(CallCode.DRIVER_INACTIVE, text)
        if end is GoalEnd.UNKNOWN:
            raise DriverRefusal(CallCode.DRIVER_LOST, "Nav2 does not know the goal any more: it was started anew")
        if end is GoalEnd.CANCELED:
            raise DriverRefusal(NavigateTo.Goal.NAVIGATION_BUSY, "somebody else cancelled the goal at Nav2: ask again")
        raise DriverRefusal(*_why(int(result.error_code), str(result.error_msg)))

    def _away(self, at: Pose2D) -> float:
        assert self._destination is not None
        return math.dist((self._destination.x, self._destination.y), (at.x, at.y))

    def _on_accepted(self) -> None:
        self._heard_at = self._node.steady_now()

    def _on_feedback(self, feedback: Any) -> None:
        if self._destination is None:
            return
        self._heard_at = self._node.steady_now()
        at = feedback.current_pose.pose
        self._at = Pose2D(at.position.x, at.position.y, yaw_of(at.orientation))
        # It is 0 while there is no path.
        left = max(float(feedback.distance_remaining), self._away(self._at))
        if left > self._left + DETOUR_M and self._detours < DETOURS:
            self._detours += 1
            self._stall.restart(self._heard_at)
        self._left = left

    def _on_end(self, sent: SentGoal, end: GoalEnd, result: Any) -> None:
        if sent is self._sent:
            self._end = (end, result)

    def _on_velocity(self, message: Twist) -> None:
        if self._sent is None or not self._sent.accepted or self._sent.ended:
            return
        wish = Velocity(message.linear.x, message.linear.y, message.angular.z)
        self._wish = (self._node.steady_now(), wish)
        self._send(wish)


def _why(code: int, text: str) -> tuple[int, str]:
    """Return the code of NavigateTo for a code of Nav2's, and a sentence for it."""
    if code == 0:
        text = text or "another goal took its place, it does not know where the robot is, or its behaviour tree failed"
        return NavigateTo.Goal.BLOCKED, f"Nav2 gave up without a code ({text}): see the log of bt_navigator"
    kind = next((kind for kind, codes in CODES.items() if code in codes), NavigateTo.Goal.BLOCKED)
    return kind, f"Nav2 gave up with code {code} ({text or NAMES.get(code, 'see nav2_msgs')}): see its log and its map"
