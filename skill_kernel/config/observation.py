# SPDX-License-Identifier: Apache-2.0
"""Define the sections `observation` and `rooms` of a robot's YAML: fields, their sources and their making (TypeGo 4)."""

from __future__ import annotations

import keyword
import math
import re
from enum import Enum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from skill_kernel.config.sections import Positive, Section, nearest, shaped


class Kind(str, Enum):
    """Tell what the value of a field is."""

    BOOLEAN = "boolean"
    NUMBER = "number"
    TEXT = "text"
    POSE = "pose"
    SECTORS = "sectors"
    OBJECTS = "objects"
    TABLE = "table"


STANDARD: dict[str, Kind] = {
    "pose": Kind.POSE,
    "speed": Kind.NUMBER,
    "moving": Kind.BOOLEAN,
    "battery": Kind.NUMBER,
    "charging": Kind.BOOLEAN,
    "posture": Kind.TEXT,
    "subsystems": Kind.TABLE,
    "obstacles": Kind.SECTORS,
    "room": Kind.TEXT,
    "object_detections": Kind.OBJECTS,
    "visible_people": Kind.NUMBER,
    "last_heard": Kind.TEXT,
}
"""Fields that accessors are made of, with the kind each must have. Any other name is a field of the robot's own."""

_ACCESSORS = """visible count distance_to bearing_to people_visible front_distance_m left_distance_m right_distance_m
back_distance_m nearest_distance_m x_m y_m heading_deg speed_mps battery_percent subsystem_busy heard heard_words heard_age_s
age_s stale"""
_WORDS = "abs min max round len range any all sum lower wait inf condition action say stop"
RESERVED = frozenset(f"{_ACCESSORS} {_WORDS}".split())
"""Names that mean something else wherever a field's name is written as a function."""

_NAME = r"[a-z][a-z0-9_]*"
_TOPIC = r"/?[A-Za-z_]\w*(/[A-Za-z_]\w*)*"
_TYPE = r"[a-z]\w*/(msg|srv)/[A-Z]\w*"
_PATH = r"[A-Za-z]\w*(\.([A-Za-z]\w*|\d+))*"


def _field_name(name: str) -> str:
    if not re.fullmatch(_NAME, name) or keyword.iskeyword(name):
        raise ValueError(f"'{name}' is no field name: use small letters, digits and underscores")
    if name in RESERVED:
        raise ValueError(f"'{name}' is the name of an accessor; choose another for the field")
    return name


FieldName = Annotated[str, AfterValidator(_field_name)]


class SourceConfig(Section):
    """Name the source of a field: a topic, or another field.

    `type` is the interface's name where the post-processing does not fix it. `qos`: how the topic is published; "event" is
    something that happens now and then, "state" a latched message that holds until the next one.
    """

    topic: Annotated[str, shaped(_TOPIC, "not a topic's name")] = ""
    field: str = ""
    type: Annotated[str, shaped(_TYPE, "not an interface, such as sensor_msgs/msg/BatteryState")] = ""
    qos: Literal["sensor", "state", "event"] = "sensor"

    @model_validator(mode="after")
    def _one(self) -> SourceConfig:
        if bool(self.topic) == bool(self.field):
            raise ValueError("give one of topic and field")
        return self


class Take(Section):
    """Take a number, text or truth value out of any message: `path` with dots, times `scale` plus `offset`; with `equals`
    whether it is one of these. `entry`: the path leads to a list beside a list `name`, and this entry of it is meant (a joint
    of sensor_msgs/msg/JointState)."""

    function: Literal["take"]
    path: Annotated[str, shaped(_PATH, "not a path such as twist.linear.x")]
    entry: str = ""
    scale: float = 1.0
    offset: float = 0.0
    equals: tuple[int | str, ...] = ()


class MapPose(Section):
    """Give the pose in the map frame, from odometry and the transform of odom in the map; `frame: odom` does without the
    transform."""

    function: Literal["pose"]
    frame: Literal["map", "odom"] = "map"


class Moving(Section):
    """Tell whether the base moves, from odometry: faster than `speed_mps` or `turn_dps` (degrees a second)."""

    function: Literal["moving"]
    speed_mps: Positive = 0.06
    turn_dps: Positive = 6.0


_Degrees = tuple[Annotated[float, Field(ge=-360, le=360)], Annotated[float, Field(ge=-360, le=360)]]


class NearestBySector(Section):
    """Give the nearest obstacle of a lidar by direction. A sector reaches counter-clockwise from one bearing to the other, in
    degrees, left positive."""

    function: Literal["nearest_by_sector"]
    sectors: Annotated[dict[str, _Degrees], Field(min_length=1)] = Field(
        default_factory=lambda: {
            "front": (-30.0, 30.0),
            "left": (30.0, 150.0),
            "back": (150.0, 210.0),
            "right": (-150.0, -30.0),
        }
    )

    @model_validator(mode="after")
    def _some_width(self) -> NearestBySector:
        for name, (start, end) in self.sectors.items():
            if not 0.0 < end - start <= 360.0:
                raise ValueError(
                    f"sector '{name}' must reach from a smaller to a larger bearing, not from {start:g} to {end:g}"
                )
        return self


class Track(Section):
    """Track detections, so that they keep their identity.

    `labels` are the only ones that count, and all that may be asked for; empty: any. A thing comes in sight with
    `min_confidence` and stays so with `keep_confidence` (the same when not given). Unseen for `hold_s` it is out of sight;
    after `forget_s` it comes back as another. Two sightings are the same thing within `same_m` in the map, or within
    `same_deg` of bearing where the distance is unknown.
    """

    function: Literal["track"]
    labels: tuple[str, ...] = ()
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.25
    keep_confidence: Annotated[float, Field(ge=0, le=1)] | None = None
    hold_s: Annotated[float, Field(ge=0, le=10)] = 0.5
    forget_s: Annotated[float, Field(gt=0, le=3600)] = 20.0
    same_m: Positive = 1.0
    same_deg: Positive = 12.0

    @model_validator(mode="after")
    def _kept_more_easily_than_found(self) -> Track:
        if self.keep_confidence is not None and self.keep_confidence > self.min_confidence:
            raise ValueError(
                f"keep_confidence {self.keep_confidence:g} is above min_confidence {self.min_confidence:g}; "
                "what is in sight would vanish at once"
            )
        return self


class CountLabel(Section):
    """Count the things of one label in sight, from a field of tracked objects."""

    function: Literal["count"]
    label: str


class Plain(Section):
    """Give what needs no settings.

    `speed`: that over ground in m/s, from odometry. `heard`: the newest instruction of a person, whatever way it came, from the
    process scheduler's state. `room`: the area of `rooms` that the robot stands in, from a field that is a pose; "" in none.
    `subsystems`: which are free, busy or held between two calls, from the skill kernel's state. `things`: in which space of the
    arms' surroundings each thing lies that was seen in the last seconds, "" for none. `doors`: which of those seen are open,
    shut or ajar.
    """

    function: Literal["speed", "heard", "room", "subsystems", "things", "doors"]


Process = Annotated[Take | MapPose | Moving | NearestBySector | Track | CountLabel | Plain, Field(discriminator="function")]

MADE = {
    "pose": (Kind.POSE, "nav_msgs/msg/Odometry"),
    "speed": (Kind.NUMBER, "nav_msgs/msg/Odometry"),
    "moving": (Kind.BOOLEAN, "nav_msgs/msg/Odometry"),
    "nearest_by_sector": (Kind.SECTORS, "sensor_msgs/msg/LaserScan"),
    "track": (Kind.OBJECTS, "ghostshell/msg/DetectionArray"),
    "count": (Kind.NUMBER, ""),
    "room": (Kind.TEXT, ""),
    "subsystems": (Kind.TABLE, "ghostshell/msg/KernelState"),
    "heard": (Kind.TEXT, "ghostshell/msg/ProcessArray"),
    "things": (Kind.TABLE, "vision_msgs/msg/Detection3DArray"),
    "doors": (Kind.TABLE, "vision_msgs/msg/Detection3DArray"),
}
"""The kind that each post-processing makes and the message it reads, "" for another field. `take` reads any and makes a
boolean, number or text."""

_INPUT = {"count": Kind.OBJECTS, "room": Kind.POSE}


class Serialise(Section):
    """Tell how a prompt shows the field: decimals, how many entries at most, or not at all."""

    digits: Annotated[int, Field(ge=0, le=6)] = 2
    at_most: Annotated[int, Field(ge=1, le=100)] = 12
    prompt: bool = True


class FieldConfig(Section):
    """Describe one field. `role` is a sentence that says what it means; it stands in prompts.

    After `max_age_s` it is stale (absent = it holds until it changes, as long as somebody publishes it); `at_once` sends an
    observation as soon as it is measured.
    """

    role: Annotated[str, Field(min_length=1, max_length=300)]
    kind: Kind
    source: SourceConfig
    process: Process
    serialise: Serialise = Field(default_factory=Serialise)
    max_age_s: Annotated[float, Field(gt=0, le=3600)] | None = None
    at_once: bool = False

    @model_validator(mode="after")
    def _fits(self) -> FieldConfig:
        made, name, source = MADE.get(self.process.function), self.process.function, self.source
        kind, reads = made or (self.kind, "")
        plain = self.kind in (Kind.BOOLEAN, Kind.NUMBER, Kind.TEXT)
        endless = source.topic and source.qos == "sensor" and self.max_age_s is None
        for wrong, why in (
            (not made and not plain, f"'{name}' makes a boolean, number or text, no {self.kind.value}"),
            (not made and not source.type, f"'{name}' needs source.type, the interface of the topic"),
            (kind is not self.kind, f"'{name}' makes a field of kind '{kind.value}', not '{self.kind.value}'"),
            (reads and not source.topic, f"'{name}' reads {reads} from a topic; give source.topic"),
            (made and not reads and not source.field, f"'{name}' reads another field; give source.field"),
            (not made and source.field, f"'{name}' reads a topic, no field"),
            (endless, "a sensor may fall silent; give max_age_s, or source.qos state or event"),
        ):
            if wrong:
                raise ValueError(why)
        return self


def checked_fields(fields: dict[str, FieldConfig]) -> dict[str, FieldConfig]:
    """Return the fields, if each fits its standard name and those it is made of come before it. Raises ValueError."""
    for name, config in fields.items():
        if name in STANDARD and config.kind is not STANDARD[name]:
            raise ValueError(f"field '{name}' must be of kind '{STANDARD[name].value}'")
        if source := config.source.field:
            if source not in list(fields)[: list(fields).index(name)]:
                raise ValueError(f"field '{name}' is made of '{source}', which must be written above it")
            needed = _INPUT[config.process.function]
            if fields[source].kind is not needed:
                raise ValueError(f"field '{name}' needs a source of kind '{needed.value}', and '{source}' is none")
            counted, tracked = config.process, fields[source].process
            labels = tracked.labels if isinstance(tracked, Track) else ()
            if isinstance(counted, CountLabel) and labels and counted.label not in labels:
                hint = nearest(counted.label, labels, else_known=True)
                raise ValueError(f"field '{name}' counts '{counted.label}', which '{source}' does not track{hint}")
    return fields


def default_fields() -> dict[str, FieldConfig]:
    """Return what every robot has: its subsystems, and what was said to it."""
    return {
        "subsystems": FieldConfig(
            role="Which parts of the robot are in use.",
            kind=Kind.TABLE,
            process=Plain(function="subsystems"),
            source=SourceConfig(topic="kernel_state", qos="state"),
        ),
        "last_heard": FieldConfig(
            role="The last thing that somebody said or wrote to the robot.",
            kind=Kind.TEXT,
            process=Plain(function="heard"),
            source=SourceConfig(topic="processes", qos="state"),
        ),
    }


_Corner = tuple[float, float]


class RoomConfig(Section):
    """Describe a named area of the map frame in m: a rectangle from `x` to `x` and `y` to `y`, or a polygon of `corners`."""

    x: tuple[float, float] | None = None
    y: tuple[float, float] | None = None
    corners: Annotated[tuple[_Corner, ...], Field(max_length=200)] = ()

    @model_validator(mode="after")
    def _one_shape(self) -> RoomConfig:
        if bool(self.corners) == (self.x is not None or self.y is not None):
            raise ValueError("give either x and y or corners")
        if self.corners:
            if len(self.corners) < 3:
                raise ValueError(f"an area has at least three corners, not {len(self.corners)}")
        elif self.x is None or self.y is None or not (self.x[0] < self.x[1] and self.y[0] < self.y[1]):
            raise ValueError("x and y each need a smaller and a larger number")
        return self

    def holds(self, x: float, y: float) -> bool:
        """Return whether a point lies inside, of a polygon by the ray to the right of it."""
        if self.x is not None and self.y is not None:
            return self.x[0] <= x < self.x[1] and self.y[0] <= y < self.y[1]
        inside = False
        for (x0, y0), (x1, y1) in zip(self.corners, (*self.corners[1:], *self.corners[:1]), strict=True):
            if (y0 > y) != (y1 > y) and x < x0 + (y - y0) / (y1 - y0) * (x1 - x0):
                inside = not inside
        return inside and math.isfinite(x)
