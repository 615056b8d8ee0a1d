# SPDX-License-Identifier: Apache-2.0
"""Publish the true poses of the things in the simulated world, and let a tester move them."""

from __future__ import annotations

from functools import partial

from geometry_msgs.msg import PoseStamped
from std_srvs.srv import SetBool, Trigger

from ghostshell_ros.nodes.sim.sim_sensors import Simulated
from ghostshell_ros.sim.stage import Actors, Stage, read_arrangement
from ghostshell_ros.sim.world import SimWorldError
from ghostshell_ros.wire.qos import MEASUREMENTS

ARRANGEMENT = "arrangement"
_SERVICES = {
    "person": ("world/person", "the person walks into the hallway", "the person walks back"),
    "office_door": ("world/block_door", "the office's door slides shut", "the office's door opens"),
}


class SimObjects:
    """Publish `ground_truth/<object>` (geometry_msgs/PoseStamped, frame map), for tests and pictures only: no robot has this.

    Services `~/reset` and `~/arrange` (std_srvs/Trigger): the world as the parameter `arrangement` says, after it was put
    back to its start, or as it is.
    """

    def __init__(self, sim: Simulated, rate: float, start: str) -> None:
        self._map = f"{sim.frame_prefix}map"
        node, world = sim.node, sim.world
        self._node, self._world, self._lock, self._stamp = node, world, sim.lock, sim.stamp
        self._actors = Actors(world)
        self._stage = Stage(world, self._actors, start)
        self._poses = {n: node.create_publisher(PoseStamped, f"ground_truth/{n}", MEASUREMENTS) for n in world.objects()}
        for name in self._actors.names:
            node.create_service(SetBool, _SERVICES[name][0], partial(self._move, name))
        node.declare(
            ARRANGEMENT,
            "",
            'where what stands for ~/reset and ~/arrange: JSON such as {"robot": [1, 2, 0.5], "ball": [3, 0], '
            '"office_door": "shut"} [m, rad]',
            read_only=False,
        )
        node.create_service(Trigger, "~/reset", lambda _, response: self._arrange(response, from_start=True))
        node.create_service(Trigger, "~/arrange", lambda _, response: self._arrange(response, from_start=False))
        node.steady_timer(1.0 / rate, self._publish)

    def _arrange(self, response: Trigger.Response, *, from_start: bool) -> Trigger.Response:
        text = str(self._node.get_parameter(ARRANGEMENT).value)
        try:
            wishes = read_arrangement(text)
            with self._lock:
                self._stage.arrange(wishes, from_start=from_start)
        except SimWorldError as error:
            response.success, response.message = False, str(error)
            return response
        response.success, response.message = True, f"arranged: {', '.join(wishes) or 'as at the start'}"
        return response

    def _move(self, name: str, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        with self._lock:
            self._actors.move(name, bool(request.data))
        response.success, response.message = True, _SERVICES[name][1 if request.data else 2]
        return response

    def _publish(self) -> None:
        wanted = {name: publisher for name, publisher in self._poses.items() if publisher.get_subscription_count()}
        if not wanted:
            return
        with self._lock:
            found, stamp = self._world.objects(), self._stamp()
        for name, publisher in wanted.items():
            (x, y, z), (qw, qx, qy, qz) = found[name]
            message = PoseStamped()
            message.header.stamp, message.header.frame_id = stamp, self._map
            at, turned = message.pose.position, message.pose.orientation
            at.x, at.y, at.z = x, y, z
            turned.w, turned.x, turned.y, turned.z = qw, qx, qy, qz
            publisher.publish(message)
