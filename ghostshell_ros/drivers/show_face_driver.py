# SPDX-License-Identifier: Apache-2.0
"""The action server that shows facial expressions: each goal's face lies on the ones before until it ends."""

from __future__ import annotations

import difflib
import math
import sys

from ghostshell.action import ShowFace
from sensor_msgs.msg import Image
from std_msgs.msg import String

from ghostshell_ros.drivers.faces import FACES, draw
from ghostshell_ros.drivers.timed_driver import DriverRefusal, TimedDriver, Work
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.node_runtime import LATCHED, NodeStartError, run
from ghostshell_ros.wire.images import to_message


class ShowFaceDriver(TimedDriver):
    """Action `show_face` (ShowFace.action). The newest goal's face is shown; when that goal ends, the one before it
    comes back. A face without a duration stays until it is cancelled, and until then it lies below newer ones.

    Publishes `face/image_raw` (sensor_msgs/Image, rgb8 320x240, latched) and `face` (std_msgs/String, latched: the
    name) whenever the face changes.

    Parameters: `rest_face` (neutral).
    """

    def __init__(self) -> None:
        super().__init__("show_face_driver", ShowFace, "show_face")
        self._rest = self.declare("rest_face", "neutral", "face shown while no goal asks for another")
        if self._rest not in FACES:
            raise NodeStartError(f"rest_face '{self._rest}' is unknown; use one of {', '.join(FACES)}")
        self._stack: list[Goal] = []
        self._shown = ""
        self._image = self.create_publisher(Image, "face/image_raw", LATCHED)
        self._name = self.create_publisher(String, "face", LATCHED)
        self._show()

    def plan(self, goal: Goal) -> Work:
        name, duration = goal.request.face, goal.request.duration_s
        if name not in FACES:
            near = difflib.get_close_matches(name, FACES, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(FACES)}"
            raise DriverRefusal(ShowFace.Goal.UNKNOWN_FACE, f"there is no face '{name[:80]}'; {hint}")
        self._stack.append(goal)
        self._show()
        timed = math.isfinite(duration) and duration > 0
        return Work(duration if timed else None)

    def ended(self, goal: Goal) -> None:
        self._stack = [other for other in self._stack if other.goal_id != goal.goal_id]
        self._show()

    def _show(self) -> None:
        name = self._stack[-1].request.face if self._stack else self._rest
        if name == self._shown:
            return
        self._shown = name
        self._image.publish(to_message(draw(name), self.get_clock().now().to_msg(), "face_display"))
        self._name.publish(String(data=name))

    def feedback(self, goal: Goal, elapsed_s: float) -> ShowFace.Feedback:
        return ShowFace.Feedback(shown_s=elapsed_s)

    def result(self, goal: Goal, elapsed_s: float, *, whole: bool) -> ShowFace.Result:
        return ShowFace.Result()

    def refused(self, code: int, text: str) -> ShowFace.Result:
        return ShowFace.Result(error_code=code, error_msg=text)


def main() -> int:
    return run(ShowFaceDriver)


if __name__ == "__main__":
    sys.exit(main())
