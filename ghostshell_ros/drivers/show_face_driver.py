# SPDX-License-Identifier: Apache-2.0
"""Show facial expressions: each goal's face lies on the ones before until it ends."""

import math
from typing import Any

from ghostshell.action import ShowFace
from sensor_msgs.msg import Image
from std_msgs.msg import String

from ghostshell_ros.drivers.driver import Driver, DriverRefusal, Job
from ghostshell_ros.drivers.faces import FACES, draw
from ghostshell_ros.drivers.sound import TimedJob
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.node import NodeStartError
from ghostshell_ros.wire.images import to_message
from ghostshell_ros.wire.qos import LATCHED
from skill_kernel.config.sections import nearest


class ShowFaceDriver(Driver):
    """Serve the action `show_face` (ShowFace.action): show the newest goal's face, and when it ends, the one before.

    A face without a duration stays until it is cancelled, and until then it lies below newer ones.
    """

    def __init__(self, name: str = "show_face_driver", **options: Any) -> None:
        super().__init__(name, **options)
        self._rest = self.declare("rest_face", "neutral", "face shown while no goal asks for another")
        if self._rest not in FACES:
            raise NodeStartError(f"rest_face '{self._rest}' is unknown; use one of {', '.join(FACES)}")
        self._shown = ""
        self._image = self.create_publisher(Image, "face/image_raw", LATCHED)
        self._name = self.create_publisher(String, "face", LATCHED)
        self.show()
        self.serve(ShowFace, "show_face", self._begin)

    def _begin(self, goal: Goal) -> Job:
        name, duration = goal.request.face, goal.request.duration_s
        if name not in FACES:
            hint = nearest(name, FACES, else_known=True)
            raise DriverRefusal(ShowFace.Goal.UNKNOWN_FACE, f"there is no face '{name[:80]}'{hint}")
        timed = math.isfinite(duration) and duration > 0
        return _Face(self, goal, duration if timed else None)

    def before_steps(self, now: float) -> None:
        self.show()

    def show(self) -> None:
        """Show the newest goal's face, or the one at rest."""
        newest = next(reversed(self.jobs.values()), None)
        name = newest.goal.request.face if newest is not None else self._rest
        if name == self._shown:
            return
        self._shown = name
        self._image.publish(to_message(draw(name), self.get_clock().now().to_msg(), "face_display"))
        self._name.publish(String(data=name))


class _Face(TimedJob):
    driver: ShowFaceDriver

    def feedback(self) -> ShowFace.Feedback:
        return ShowFace.Feedback(shown_s=self.elapsed_s)

    def ended(self) -> None:
        super().ended()
        self.driver.show()
