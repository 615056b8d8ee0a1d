# SPDX-License-Identifier: Apache-2.0
"""A robot in Foxglove: a client of its protocol sees log, channels, scene, map and pictures, and can change nothing."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("foxglove", reason="needs requirements/foxglove.txt")

import anyio
import numpy as np
import websockets
from builtin_interfaces.msg import Time
from foxglove import Context, start_server
from ghostshell.msg import KernelState, Observation, ObservationField, ObservedObject, Subsystem
from nav_msgs.msg import OccupancyGrid
from sensor_msgs.msg import Image

from ghostshell_ros.nodes.dashboard.foxglove_view import FoxgloveView
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.images import to_message
from ghostshell_ros.wire.qos import IMAGES, LATCHED, OBSERVATION
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind, Notice, NoticeKind

PROTOCOL = "foxglove.sdk.v1"
WITHIN_S = 15.0


class Robot(RuntimeNode):
    """Says what a robot says."""

    def __init__(self, namespace: str) -> None:
        super().__init__("robot", namespace=namespace)
        self.events = EventWriter(self, CallEvent, Notice)
        self._kernel = self.create_publisher(KernelState, "kernel_state", LATCHED)
        self._map = self.create_publisher(OccupancyGrid, "map", LATCHED)
        self._seen = self.create_publisher(Observation, "observation", OBSERVATION)
        self._camera = self.create_publisher(Image, "camera/image_raw", IMAGES)
        self._map.publish(self._cells())
        self.tell(halted=False)
        self.steady_timer(0.1, self._observe)

    def tell(self, *, halted: bool, cause: str = "") -> None:
        subsystems = [Subsystem(name="movement"), Subsystem(name="voice")]
        self._kernel.publish(KernelState(halted=halted, halt_cause=cause, subsystems=subsystems))

    def call(self, kind: CallKind, **more: Any) -> None:
        ids: dict[str, Any] = {"process_id": "p", "call_id": "c", "channels": ("movement",)}
        self.call_soon(self.events.write, CallEvent(kind=kind, function="walk", args_json='{"distance": 1.5}', **ids, **more))

    @staticmethod
    def _cells() -> OccupancyGrid:
        cells = OccupancyGrid()
        cells.info.width, cells.info.height, cells.info.resolution = 3, 2, 0.5
        cells.data = [0, 100, -1, 0, 0, 50]
        return cells

    def _observe(self) -> None:
        here = ObservationField(name="pose", kind=ObservationField.POSE, numbers=[1.0, 2.0, 0.5], text="map")
        ball = ObservedObject(track_id=7, label="red ball", x=3.0, y=4.0)
        lost = ObservedObject(track_id=8, label="ghost", x=float("nan"), y=0.0)
        things = ObservationField(name="things", kind=ObservationField.OBJECTS, objects=[ball, lost])
        self._seen.publish(Observation(stamp=self.get_clock().now().to_msg(), fields=[here, things]))
        self._camera.publish(to_message(np.zeros((8, 8, 3), np.uint8), Time(), "camera"))


@dataclass
class Viewer:
    """A client that subscribes to every channel; `got` holds the messages by topic."""

    socket: Any
    channels: dict[int, dict[str, Any]] = field(default_factory=dict)
    got: dict[str, list[bytes]] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    told: list[dict[str, Any]] = field(default_factory=list)

    async def until(self, topic: str, fits: Any = lambda data: True) -> bytes:
        """Return the first message of a topic that fits."""
        with anyio.fail_after(WITHIN_S):
            while True:
                for data in self.got.get(topic, ()):
                    if fits(data):
                        return data
                await self._read()

    async def _read(self) -> None:
        frame = await self.socket.recv()
        if isinstance(frame, bytes):
            if frame[0] == 1:  # message data: subscription, time, content
                number, _ = struct.unpack_from("<IQ", frame, 1)
                self.got.setdefault(self.channels[number]["topic"], []).append(frame[13:])
            return
        told = json.loads(frame)
        self.told.append(told)
        if told["op"] == "serverInfo":
            self.info = told
        elif told["op"] == "advertise":
            self.channels.update({channel["id"]: channel for channel in told["channels"]})
            wanted = [{"id": channel["id"], "channelId": channel["id"]} for channel in told["channels"]]
            await self.socket.send(json.dumps({"op": "subscribe", "subscriptions": wanted}))


@pytest.fixture
def robot(ros: None, namespace: str) -> Iterator[tuple[Robot, str, int]]:
    name = namespace.strip("/")
    context = Context()
    server = start_server(host="127.0.0.1", port=0, capabilities=[], context=context)
    made = Robot(namespace)
    with NodeHost([made, FoxgloveView(name, context)]) as host:
        host.start()
        yield made, name, server.port
    server.stop()


def test_a_viewer_sees_the_run_and_can_change_nothing(robot: tuple[Robot, str, int]) -> None:
    node, name, port = robot

    async def run() -> None:
        async with websockets.connect(f"ws://127.0.0.1:{port}", subprotocols=[PROTOCOL], max_size=None) as socket:  # type: ignore[list-item]
            viewer = Viewer(socket)
            resting = json.loads(await viewer.until(f"/{name}/run"))
            assert resting == {"halted": False, "cause": "", "channels": {"main": "", "movement": "", "voice": ""}}
            node.call(CallKind.STARTED)
            await viewer.until(f"/{name}/run", lambda data: json.loads(data)["channels"]["movement"] == "walk(1.5)")
            assert b"walk(1.5)" in await viewer.until(f"/{name}/log", lambda data: b"walk" in data)
            node.call(CallKind.ENDED, outcome=Outcome.DONE)
            viewer.got.clear()
            await viewer.until(f"/{name}/run", lambda data: json.loads(data)["channels"]["movement"] == "")
            node.call_soon(lambda: node.tell(halted=True, cause="a child"))
            halted = json.loads(await viewer.until(f"/{name}/run", lambda data: json.loads(data)["halted"]))
            assert halted["cause"] == "a child"
            node.call_soon(node.events.write, Notice(kind=NoticeKind.MESSAGE, text="the lift is stuck"))
            await viewer.until(f"/{name}/log", lambda data: b"the lift is stuck" in data)
            scene = await viewer.until(f"/{name}/scene")
            assert b"red ball" in scene and b"ghost" not in scene and name.encode() in scene
            assert bytes([0, 100, 255, 0, 0, 50]) in await viewer.until(f"/{name}/map")
            assert b"\xff\xd8\xff" in await viewer.until(f"/{name}/camera/image_raw/jpeg")
            schemas = {channel["topic"]: (channel["encoding"], channel["schemaName"]) for channel in viewer.channels.values()}
            assert schemas == {
                f"/{name}/run": ("json", "ghostshell.Run"),
                f"/{name}/log": ("protobuf", "foxglove.Log"),
                f"/{name}/scene": ("protobuf", "foxglove.SceneUpdate"),
                f"/{name}/map": ("protobuf", "foxglove.Grid"),
                f"/{name}/camera/image_raw/jpeg": ("protobuf", "foxglove.CompressedImage"),
            }
            assert viewer.info["capabilities"] == []
            own = {"id": 1, "topic": f"/{name}/cmd_vel", "encoding": "json", "schemaName": ""}
            await socket.send(json.dumps({"op": "advertise", "channels": [own]}))
            viewer.got.clear()
            await viewer.until(f"/{name}/run")
            assert [told for told in viewer.told if told["op"] == "status" and told["level"] > 0], viewer.told

    anyio.run(run)
