# SPDX-License-Identifier: Apache-2.0
"""Show a planning node its robot: the observation and the camera's last image."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ghostshell.msg import KernelState, ProcessArray
from ghostshell.msg import Observation as ObservationMsg
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Image as ImageMsg

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from ghostshell_ros.wire.images import to_pixels
from ghostshell_ros.wire.observation_messages import from_message
from ghostshell_ros.wire.process_messages import process_of
from ghostshell_ros.wire.qos import LATCHED, OBSERVATION, SENSORS
from ghostshell_ros.wire.values import seconds
from planners.models.base import Image
from planners.prompts.prompt import RobotFacts
from planners.scene import Present
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.observation.model import Observation
from skill_kernel.observation.render import facts

STALE_S = 1.0
"""An observation or an image older than this is left out."""


class Scene:
    """Implement `RobotView` for strategies. Messages are kept as they came and converted when a prompt asks for them.

    `heard` is called after each observation. `namespace`: the robot's, where it is not the node's.
    """

    def __init__(
        self,
        node: RuntimeNode,
        robot: RobotSetup,
        *,
        send_images: bool = False,
        heard: Callable[[], None] = lambda: None,
        namespace: str = "",
    ) -> None:
        self._node, self._robot, self._heard = node, robot, heard
        self.about, self.routines = robot.facts(), robot.routines
        self.steady_now, self.now_s = node.steady_now, node.now_s
        self._fields = robot.config.observation
        self._made: dict[Callable[[RobotFacts], str], tuple[str, str]] = {}
        self._observed: tuple[float, float, bytes] | None = None
        self._seen: Observation | None = None
        self._processes = ProcessArray()
        self._running: dict[str, CallEvent] = {}
        self._image: tuple[float, ImageMsg] | None = None
        self._encoded: tuple[ImageMsg, Image] | None = None
        """The last that somebody has asked for, with its message."""
        below = f"/{namespace}/" if namespace else ""
        node.create_subscription(ObservationMsg, f"{below}observation", self._observation, OBSERVATION, raw=True)
        node.create_subscription(KernelState, f"{below}kernel_state", self._kernel_state, LATCHED)
        if send_images:
            node.create_subscription(ImageMsg, f"{below}camera/image_raw", self._camera, SENSORS)

    def processes(self, message: ProcessArray) -> None:
        self._processes = message

    def call(self, event: CallEvent) -> None:
        """Take note of a call that begins or ends."""
        if event.kind is CallKind.STARTED:
            self._running[event.call_id] = event
        else:
            self._running.pop(event.call_id, None)

    def present(self) -> Present:
        processes = tuple(map(process_of, self._processes.processes))
        return Present(self.observation(), processes, tuple(self._running.values()), self.steady_now(), self.now_s())

    def observed(self) -> Mapping[str, Any] | None:
        """Return the facts of the present observation by field; None while no observer publishes one."""
        now = self.steady_now()
        if self._observed is None or not self._fields or now - self._observed[0] > STALE_S:
            return None
        return facts(self.observation(), self._fields, now)

    def observation(self) -> Observation | None:
        """Return the newest observation on the steady clock, however old; None before the first."""
        if self._seen is None and self._observed is not None:
            now, ros_now_s, raw = self._observed
            self._seen = from_message(deserialize_message(raw, ObservationMsg), now, ros_now_s)
        return self._seen

    def images(self) -> Sequence[Image]:
        """Return the camera's image as PNG; none where it is too old or its encoding is unknown. On any thread."""
        taken, encoded = self._image, self._encoded
        if taken is None or self.steady_now() - taken[0] > STALE_S:
            return []
        if encoded is None or encoded[0] is not taken[1]:
            try:
                pixels = to_pixels(taken[1])
            except ValueError:
                return []
            from PIL import Image as Pillow

            buffer = io.BytesIO()
            Pillow.fromarray(pixels).save(buffer, format="PNG")
            encoded = self._encoded = taken[1], Image(buffer.getvalue(), taken[0])
        return [encoded[1]]

    def check(self, name: str, attributes: Mapping[str, str]) -> str:
        """Return what is wrong with a function and its attributes, or ""."""
        return self._robot.mapper.fault(name, attributes)

    def system_prompt(self, make: Callable[[RobotFacts], str]) -> str:
        """Return the prompt that `make` builds of the robot. It takes milliseconds, so each is kept until the skills change."""
        version = self._robot.registry.version
        known = self._made.get(make)
        if known is None or known[0] != version:
            known = self._made[make] = (version, make(self.about))
        return known[1]

    def _observation(self, raw: bytes) -> None:
        self._observed, self._seen = (self.steady_now(), self.now_s(), raw), None
        self._heard()

    def _kernel_state(self, state: KernelState) -> None:
        if problem := self._robot.follow(state.skills_version):
            self._node.get_logger().error(problem)

    def _camera(self, message: ImageMsg) -> None:
        underway_s = self.now_s() - seconds(message.header.stamp)
        # A stamp of another clock tells nothing: then it was taken when it came.
        self._image = (self.steady_now() - (underway_s if 0.0 <= underway_s <= STALE_S else 0.0), message)
