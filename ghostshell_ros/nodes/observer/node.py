# SPDX-License-Identifier: Apache-2.0
"""Node `observer`: publish what the robot knows of itself and its surroundings as one typed observation (TypeGo 4)."""

from collections.abc import Mapping

from ghostshell.msg import Observation as ObservationMsg

from ghostshell_ros.nodes.observer.observation_sources import ObservationSources
from ghostshell_ros.runtime.node import Health, Level, RuntimeNode
from ghostshell_ros.wire.observation_messages import ObservationWriter
from ghostshell_ros.wire.qos import OBSERVATION
from skill_kernel.observation.model import FieldValue, alike
from skill_kernel.observation.observer import Observer
from skill_kernel.robot import RobotConfig

BURST = 5.0
"""Observations sent in a row without waiting: a scan must not wait because a detection came just before."""


class ObserverNode(RuntimeNode):
    """Publish `observation` (ghostshell/Observation) while something changes at `rate_hz`, and at once when a field marked
    `at_once` has changed, but no more than `max_rate_hz` on average; otherwise at `rest_rate_hz`. Subscribes and asks what
    the fields in the robot's file name, and for a pose in the map also `/tf` and `/tf_static`.
    """

    own_thread = True

    def __init__(self) -> None:
        super().__init__("observer")
        name = self.declare("robot", "coco", "robot, a name in config/robots or the path of a YAML file")
        rate = self.declare("rate_hz", 10.0, "observations a second while something changes [Hz]", 2.0, 100.0)
        rest = self.declare("rest_rate_hz", 5.0, "the same while nothing changes [Hz]", 2.0, 100.0)
        most = self.declare("max_rate_hz", 50.0, "observations a second at most [Hz]", 2.0, 200.0)
        robot = RobotConfig.load(name)
        self._observer, self._writer = Observer(robot), ObservationWriter()
        self._period_s, self._rest_s, self._most = 1.0 / rate, 1.0 / rest, most
        self._published: Mapping[str, FieldValue] = {}
        self._free = BURST
        self._published_at = 0.0
        self._due = False
        self._stale: list[str] = []
        self._publisher = self.create_publisher(ObservationMsg, "observation", OBSERVATION)
        self._sources = ObservationSources(self, self._observer, robot.observation, self._at_once)
        self.steady_timer(self._period_s, self._at_rate)

    def _at_rate(self) -> None:
        # An observation sent at once counts; half a period, or a source of the same rate would be doubled by its jitter.
        since_s = self.steady_now() - self._published_at
        if since_s >= self._period_s / 2 and (since_s >= self._rest_s - self._period_s / 2 or self._changed()):
            self._publish()

    def _changed(self) -> bool:
        now = self._observer.fields(self.steady_now())
        return not self._published or any(not alike(field, self._published[name]) for name, field in now.items())

    def _at_once(self) -> None:
        if not self._changed():
            return
        free = min(BURST, self._free + (self.steady_now() - self._published_at) * self._most)
        if free >= 1.0:
            self._publish()
        elif not self._due:
            self._due = True
            self.call_later((1.0 - free) / self._most, self._publish)

    def _publish(self) -> None:
        self._due, now = False, self.steady_now()
        self._free = max(0.0, min(BURST, self._free + (now - self._published_at) * self._most) - 1.0)
        self._published_at = now
        observation = self._observer.observation(now, self.now_s())
        self._published = observation.fields
        self._stale = [name for name, field in observation.fields.items() if field.stale(now)]
        self._publisher.publish(self._writer.message(observation))

    def health(self) -> Health:
        """Return which fields are stale or missing."""
        if self._stale:
            return Health(f"stale: {', '.join(self._stale)}", Level.WARN)
        return Health("observing")
