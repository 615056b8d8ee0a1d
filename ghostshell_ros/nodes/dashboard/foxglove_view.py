# SPDX-License-Identifier: Apache-2.0
"""Show a robot in Foxglove or Lichtblick: its log, channels, pictures and map, and what is on it (docs/foxglove.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import foxglove
from foxglove.channels import CompressedImageChannel, GridChannel, LogChannel, SceneUpdateChannel
from foxglove.messages import (
    ArrowPrimitive,
    Color,
    CompressedImage,
    CubePrimitive,
    Duration,
    Grid,
    Log,
    LogLevel,
    PackedElementField,
    PackedElementFieldNumericType,
    Pose,
    Quaternion,
    SceneEntity,
    SceneUpdate,
    TextPrimitive,
    Timestamp,
    Vector2,
    Vector3,
)
from ghostshell.msg import KernelState, Observation, ObservationField
from nav_msgs.msg import OccupancyGrid
from sensor_msgs.msg import Image

from function_tokens.run_model import call_label, runs
from ghostshell_ros.cli.run_view import RunListener, RunView
from ghostshell_ros.nodes.dashboard.cameras import camera_topics, jpeg
from ghostshell_ros.wire.qos import IMAGES, LATCHED, OBSERVATION
from skill_kernel.config.sections import shown
from skill_kernel.events import CallEvent, Notice, NoticeKind

AGAIN_S = 1.0
"""Interval at which what changes rarely is told again, for who joined late, and cameras are looked for."""
LABEL_CHARS = 100
KEPT = Duration(sec=5, nsec=0)
"""A thing that is not seen any more stays in the scene for so long."""
ROBOT_M, THING_M, NAME_M = 0.6, 0.2, 0.15
"""Length of the arrow that stands for a robot, edge of a thing, height of the letters of a name [m]."""
FREE, UNKNOWN = 0, 255
"""A cell of the map that nothing stands on, and one of which nothing is known."""
BLUE, ORANGE, GREY = Color(r=0.2, g=0.4, b=1.0, a=1.0), Color(r=1.0, g=0.6, b=0.1, a=0.9), Color(r=0.5, g=0.5, b=0.5, a=1.0)


def run_schema(channels: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of the topic `run` of a robot with these channels."""
    texts = {name: {"type": "string"} for name in channels}
    properties = {
        "halted": {"type": "boolean"},
        "cause": {"type": "string"},
        "channels": {"type": "object", "properties": texts},
    }
    return {"title": "ghostshell.Run", "type": "object", "properties": properties}


def scene(robot: str, observation: Observation) -> SceneUpdate:
    """Return the robot where it is, and the things that it sees, by its observation."""
    stamp = Timestamp(sec=observation.stamp.sec, nsec=observation.stamp.nanosec)
    entities = []
    for field in observation.fields:
        if field.missing:
            continue
        if field.kind == ObservationField.POSE and field.text.endswith("map"):
            entities.append(_robot(robot, field, stamp))
        elif field.kind == ObservationField.OBJECTS:
            entities += [
                _thing(robot, thing, stamp) for thing in field.objects if math.isfinite(thing.x) and math.isfinite(thing.y)
            ]
    return SceneUpdate(entities=entities)


def _robot(robot: str, field: ObservationField, stamp: Timestamp) -> SceneEntity:
    x, y, yaw = field.numbers
    turned = Quaternion(x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))
    pose = Pose(
        position=Vector3(x=x - ROBOT_M / 2 * math.cos(yaw), y=y - ROBOT_M / 2 * math.sin(yaw), z=0.1), orientation=turned
    )
    shaft = {"shaft_length": 0.7 * ROBOT_M, "shaft_diameter": 0.3 * ROBOT_M}
    arrow = ArrowPrimitive(pose=pose, **shaft, head_length=0.3 * ROBOT_M, head_diameter=0.5 * ROBOT_M, color=BLUE)
    name = _name(robot, x, y, 0.5)
    return SceneEntity(timestamp=stamp, frame_id=f"{robot}/map", id=robot, arrows=[arrow], texts=[name], lifetime=KEPT)


def _thing(robot: str, thing: Any, stamp: Timestamp) -> SceneEntity:
    size = Vector3(x=THING_M, y=THING_M, z=THING_M)
    cube = CubePrimitive(pose=_at(thing.x, thing.y, THING_M / 2), size=size, color=ORANGE)
    name = _name(shown(thing.label, LABEL_CHARS), thing.x, thing.y, 2 * THING_M)
    return SceneEntity(
        timestamp=stamp,
        frame_id=f"{robot}/map",
        id=f"{robot} thing {thing.track_id}",
        lifetime=KEPT,
        cubes=[cube],
        texts=[name],
    )


def _name(text: str, x: float, y: float, z: float) -> TextPrimitive:
    return TextPrimitive(pose=_at(x, y, z), billboard=True, font_size=NAME_M, color=GREY, text=text)


def _at(x: float, y: float, z: float) -> Pose:
    return Pose(position=Vector3(x=x, y=y, z=z), orientation=Quaternion(x=0.0, y=0.0, z=0.0, w=1.0))


def grid(robot: str, message: OccupancyGrid) -> Grid:
    """Return a map: a byte a cell, 0 free to 100 occupied, 255 unknown."""
    about, origin = message.info, message.info.origin
    pose = Pose(
        position=Vector3(x=origin.position.x, y=origin.position.y, z=origin.position.z),
        orientation=Quaternion(x=origin.orientation.x, y=origin.orientation.y, z=origin.orientation.z, w=origin.orientation.w),
    )
    cell = PackedElementField(name="occupied", offset=0, type=PackedElementFieldNumericType.Uint8)
    return Grid(
        timestamp=Timestamp(sec=message.header.stamp.sec, nsec=message.header.stamp.nanosec),
        frame_id=f"{robot}/map",
        pose=pose,
        column_count=about.width,
        cell_size=Vector2(x=about.resolution, y=about.resolution),
        row_stride=about.width,
        cell_stride=1,
        fields=[cell],
        data=bytes(cell & UNKNOWN for cell in message.data),
    )


class FoxgloveView(RunListener):
    """Log one robot to the clients of a server of `context`. What nobody looks at is not subscribed or coded."""

    def __init__(self, robot: str, context: foxglove.Context) -> None:
        super().__init__(robot, "ghostshell_foxglove")
        self._robot, self._viewers = robot, context
        self._view = RunView(self.now_s(), shows=lambda _: True)
        self._log = LogChannel(f"/{robot}/log", context=context)
        self._scene = SceneUpdateChannel(f"/{robot}/scene", context=context)
        self._map = GridChannel(f"/{robot}/map", context=context)
        self._run: foxglove.Channel | None = None
        self._state: dict[str, Any] = {"halted": False, "cause": "", "channels": {}}
        self._cameras: dict[str, tuple[CompressedImageChannel, list[Any]]] = {}
        self._grid: Grid | None = None
        self.create_subscription(KernelState, "kernel_state", self._on_kernel, LATCHED)
        self.create_subscription(Observation, "observation", self._on_observation, OBSERVATION)
        self.create_subscription(OccupancyGrid, "map", self._on_map, LATCHED)
        self.steady_timer(AGAIN_S, self._again)

    def heard(self, kind: str, message: Any) -> None:
        """Log what is new of the run, and which call is on which channel."""
        notice = message if isinstance(message, Notice) else None
        bad = notice is not None and (notice.kind is NoticeKind.HALTED or bool(notice.error_code))
        for line in self._view.hear(kind, message, self.now_s()):
            stamp = Timestamp.from_epoch_secs(self.now_s())
            self._log.log(Log(timestamp=stamp, level=LogLevel.Error if bad else LogLevel.Info, message=line, name=self._robot))
        if isinstance(message, CallEvent):
            self._tell_channels()

    def _tell_channels(self) -> None:
        channels = dict.fromkeys(self._state["channels"], "")
        for call in filter(runs, self._view.model.calls.values()):
            label = shown(call_label(call.function, call.arguments), LABEL_CHARS)
            channels.update({name: label for name in call.channels if name in channels})
        self._tell(channels=channels)

    def _on_kernel(self, message: KernelState) -> None:
        if self._run is None:
            names = sorted({"main", *(part.name for part in message.subsystems)})
            self._run = foxglove.Channel(f"/{self._robot}/run", schema=run_schema(names), context=self._viewers)
            self._state["channels"] = dict.fromkeys(names, "")
        self._tell(halted=message.halted, cause=message.halt_cause if message.halted else "")

    def _tell(self, **news: Any) -> None:
        state = {**self._state, **news}
        if self._run is not None and state != self._state:
            self._state = state
            self._run.log(state)

    def _on_observation(self, message: Observation) -> None:
        if self._scene.has_sinks():
            self._scene.log(scene(self._robot, message))

    def _on_map(self, message: OccupancyGrid) -> None:
        self._grid = grid(self._robot, message)
        self._map.log(self._grid)

    def _again(self) -> None:
        if self._run is not None:
            self._run.log(self._state)
        if self._grid is not None and self._map.has_sinks():
            self._map.log(self._grid)
        for name in (f"/{self._robot}/{topic}" for topic in camera_topics(self, self._robot)):
            if name not in self._cameras:
                self._cameras[name] = CompressedImageChannel(f"{name}/jpeg", context=self._viewers), []
        for name, (channel, watching) in self._cameras.items():
            if channel.has_sinks() and not watching:
                take = partial(self._on_picture, name, channel)
                watching.append(self.create_subscription(Image, name, take, IMAGES, raw=True))
            elif watching and not channel.has_sinks():
                self.destroy_subscription(watching.pop())

    def _on_picture(self, name: str, channel: CompressedImageChannel, raw: bytes) -> None:
        stamp = Timestamp.from_epoch_secs(self.now_s())
        channel.log(CompressedImage(timestamp=stamp, frame_id=name, data=jpeg(raw), format="jpeg"))
