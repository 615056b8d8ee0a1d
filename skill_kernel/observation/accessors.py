# SPDX-License-Identifier: Apache-2.0
"""Make the accessors of a robot: one table of typed functions over its observation, for prompts, conditions and reflexes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from skill_kernel.config.observation import STANDARD, NearestBySector, Track
from skill_kernel.config.sections import nearest, shown
from skill_kernel.observation.model import ArgumentError, Kind, Observation, Pose, Sector, SeenObject, StaleFieldError, Value
from skill_kernel.robot import RobotConfig


class View:
    """Answer accessors from one observation, for one evaluation.

    `now` is on the steady clock of the observation's times. Before the first observation, None, every field is missing.
    """

    def __init__(self, observation: Observation | None, table: Mapping[str, Accessor], now: float) -> None:
        self._observation = observation
        self._table = table
        self._now = now

    def call(self, name: str, *arguments: str) -> Result:
        """Return what an accessor says. Raises StaleFieldError or ArgumentError."""
        accessor = self._table.get(name)
        if accessor is None:
            hint = nearest(name, self._table)
            raise ArgumentError(f"there is no accessor '{shown(name)}'{hint} (known: {', '.join(sorted(self._table))})")
        accessor.check(arguments)
        return accessor.read(self, *arguments)

    def fresh(self, field: str, kind: Kind | None = None) -> Value:
        """Return a field's value. Raises StaleFieldError when it is missing, too old, or of another kind than is wanted."""
        whole = self._observation
        if whole is None:
            raise self._stale(field, "is not known yet: no observation has come; is the observer running?")
        one = whole.fields.get(field)
        if one is None:
            raise self._stale(field, "is not in the observation; was the robot's file changed? Restart the observer")
        if one.value is None:
            raise self._stale(field, f"is missing: {one.missing or 'no reason is given'}")
        if whole.stale(self._now):
            gone = self._now - whole.stamp
            raise self._stale(field, f"is stale: the observer has said nothing for {gone:.1f} s; is it running?")
        if one.stale(self._now):
            age = f"{one.age(self._now):.1f} s old, at most {one.max_age_s:g} s allowed"
            raise self._stale(field, f"is stale: {age}; does its source still send?")
        if kind is not None and one.kind is not kind:
            raise self.untold(field, f"it is a {one.kind.value}, no {kind.value}; restart the observer with this robot's file")
        return one.value

    def age(self, field: str) -> float:
        """Return the seconds since the field was measured, inf when it never was."""
        one = self._observation.fields.get(field) if self._observation is not None else None
        return one.age(self._now) if one is not None else math.inf

    def untold(self, field: str, why: str) -> StaleFieldError:
        """Return the error for a field that is fresh and yet does not tell what was asked."""
        return self._stale(field, f"does not tell: {why}")

    def _stale(self, field: str, why: str) -> StaleFieldError:
        return StaleFieldError(field, self.age(field), f"field '{field}' {why}")


Result = bool | int | float | str
ResultType = type[bool] | type[int] | type[float] | type[str]

_RESULT: dict[Kind, ResultType] = {Kind.BOOLEAN: bool, Kind.NUMBER: float, Kind.TEXT: str}


@dataclass(frozen=True)
class Parameter:
    """Hold a text argument. `choices`, where there are any, are all that is allowed."""

    name: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Accessor:
    """Hold a function over the observation. A call raises when a field that it reads is stale or missing."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: ResultType
    doc: str
    read: Callable[..., Result]

    def check(self, arguments: Sequence[object]) -> None:
        """Raise ArgumentError, with the nearest that is allowed, for arguments that do not fit."""
        if len(arguments) != len(self.parameters):
            raise ArgumentError(f"{self.signature()} takes {len(self.parameters)} argument(s), not {len(arguments)}")
        for parameter, given in zip(self.parameters, arguments, strict=True):
            if not isinstance(given, str):
                raise ArgumentError(f"{parameter.name} of {self.name} is a text in quotes, not {type(given).__name__}")
            if parameter.choices and given not in parameter.choices:
                known = f"{nearest(given, parameter.choices)} (known: {', '.join(parameter.choices)})"
                raise ArgumentError(f"{self.name} knows no {parameter.name} '{shown(given)}'{known}")

    def signature(self) -> str:
        """Return it as it stands in prompts: `visible(label: str) -> bool`."""
        return f"{self.name}({', '.join(f'{p.name}: str' for p in self.parameters)}) -> {self.returns.__name__}"


def accessors_of(robot: RobotConfig) -> dict[str, Accessor]:
    """Return the accessors that this robot's fields allow, by name. A field of its own (boolean, number or text) gives one
    of the field's name."""
    fields = robot.observation
    table: dict[str, Accessor] = {}

    def add(name: str, field: str, returns: ResultType, doc: str, read: Callable[..., Result], *parameters: Parameter) -> None:
        if field in fields:
            table[name] = Accessor(name, parameters, returns, doc, read)

    seen = "object_detections"
    process = fields[seen].process if seen in fields else None
    label = Parameter("label", process.labels if isinstance(process, Track) else ())
    nearest_thing = "the nearest thing of this label"
    far = f"Metres from the robot's middle to {nearest_thing}; inf when none is in sight."
    bearing = f"Degrees, left positive, to {nearest_thing}; nan when none is in sight."
    add("visible", seen, bool, "Whether a thing of this label is in sight.", lambda v, a: bool(_objects(v, a)), label)
    add("count", seen, int, "How many things of this label are in sight.", lambda v, a: len(_objects(v, a)), label)
    add("distance_to", seen, float, far, _distance_to, label)
    add("bearing_to", seen, float, bearing, _bearing_to, label)
    people = "visible_people"
    add("people_visible", people, int, "How many people are in sight.", lambda v: int(v.fresh(people, Kind.NUMBER)))

    scanned = fields["obstacles"].process if "obstacles" in fields else None
    edge = "Metres from the robot's edge to the nearest obstacle"
    for sector, where in (("front", "in front"), ("left", "on the left"), ("right", "on the right"), ("back", "behind")):
        if isinstance(scanned, NearestBySector) and sector in scanned.sectors:
            doc = f"{edge} {where}; inf when the way is free."
            add(f"{sector}_distance_m", "obstacles", float, doc, partial(_sector, name=sector))
    add("nearest_distance_m", "obstacles", float, f"{edge} anywhere; inf when all is free.", _nearest_sector)

    look = "Where the robot looks in the map: degrees from x, left positive, -180 to 180."
    add("x_m", "pose", float, "Where the robot is in the map: x in metres.", lambda v: _pose(v).x)
    add("y_m", "pose", float, "Where the robot is in the map: y in metres.", lambda v: _pose(v).y)
    add("heading_deg", "pose", float, look, lambda v: math.degrees(math.remainder(_pose(v).yaw, math.tau)))
    posture = fields["posture"].role if "posture" in fields else ""
    for name, field, doc in (
        ("speed_mps", "speed", "Speed in metres a second."),
        ("moving", "moving", "Whether the robot walks or turns."),
        ("room", "room", "Name of the room the robot is in; '' in none."),
        ("posture", "posture", posture),
        ("battery_percent", "battery", "Charge of the battery in percent."),
        ("charging", "charging", "Whether the battery is being charged."),
        ("heard", "last_heard", "The last thing somebody said to the robot; '' when nobody has."),
        *((name, name, config.role) for name, config in fields.items() if name not in STANDARD),
    ):
        kind = STANDARD.get(field) or fields[field].kind
        if kind in _RESULT:
            add(name, field, _RESULT[kind], doc, partial(_plain, field=field, kind=kind))
    subsystem, words = Parameter("name", tuple(robot.subsystems)), Parameter("words")
    add("subsystem_busy", "subsystems", bool, "Whether a skill uses this subsystem now.", _busy, subsystem)
    add("heard_words", "last_heard", bool, "Whether these words, whole and in this order, are in it.", _heard_words, words)
    add("heard_age_s", "last_heard", float, "Seconds since then; inf when nobody has said anything.", _heard_age)

    any_field = (Parameter("field", tuple(fields)),)
    if fields:
        doc = "Seconds since this field was measured; inf when it never was."
        table["age_s"] = Accessor("age_s", any_field, float, doc, View.age)
        table["stale"] = Accessor("stale", any_field, bool, "Whether this field is too old or missing.", _stale)
    return table


def _objects(view: View, label: str) -> list[SeenObject]:
    seen = view.fresh("object_detections", Kind.OBJECTS)
    things = seen if isinstance(seen, tuple) else ()
    return [thing for thing in things if isinstance(thing, SeenObject) and thing.label == label]


def _distance_to(view: View, label: str) -> float:
    things = _objects(view, label)
    known = [thing.distance for thing in things if not math.isnan(thing.distance)]
    if things and not known:
        raise view.untold("object_detections", f"the {label} is in sight, but how far it is cannot be told")
    return min(known, default=math.inf)


def _bearing_to(view: View, label: str) -> float:
    things = _objects(view, label)
    thing = min(things, key=lambda t: (math.isnan(t.distance), t.distance, -t.confidence), default=None)
    return math.nan if thing is None else math.degrees(thing.bearing)


def _sectors(view: View) -> dict[str, float]:
    """Return the distances that were measured, by the names of their sectors."""
    value = view.fresh("obstacles", Kind.SECTORS)
    sectors = value if isinstance(value, tuple) else ()
    return {s.name: s.distance for s in sectors if isinstance(s, Sector) and not math.isnan(s.distance)}


def _sector(view: View, *, name: str) -> float:
    known = _sectors(view)
    if name not in known:
        raise view.untold("obstacles", f"the lidar does not measure what is in sector '{name}'")
    return known[name]


def _nearest_sector(view: View) -> float:
    known = _sectors(view)
    if not known:
        raise view.untold("obstacles", "the lidar measures in no sector")
    return min(known.values())


def _pose(view: View) -> Pose:
    value = view.fresh("pose", Kind.POSE)
    assert isinstance(value, Pose)
    return value


def _plain(view: View, *, field: str, kind: Kind) -> Result:
    value = view.fresh(field, kind)
    assert isinstance(value, (bool, int, float, str))
    return float(value) if kind is Kind.NUMBER else value


def _busy(view: View, name: str) -> bool:
    table = view.fresh("subsystems", Kind.TABLE)
    assert isinstance(table, Mapping)
    if name not in table:
        raise view.untold("subsystems", f"the kernel says nothing of subsystem '{name}'")
    return bool(table[name] == "busy")


def _heard_words(view: View, words: str) -> bool:
    return f" {plain_words(words)} " in f" {plain_words(str(view.fresh('last_heard', Kind.TEXT)))} "


def plain_words(text: str) -> str:
    """Return the words of a text in small letters with one blank between; apostrophes inside words stay."""
    return " ".join(re.findall(r"\w+(?:'\w+)*", text.lower().replace("’", "'")))


def _heard_age(view: View) -> float:
    view.fresh("last_heard", Kind.TEXT)
    return view.age("last_heard")


def _stale(view: View, field: str) -> bool:
    try:
        view.fresh(field)
    except StaleFieldError:
        return True
    return False
